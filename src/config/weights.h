// Modes of kept weights: operands whose 16-bit copies stay valid from call to call. Values; any thread.
#pragma once

#include <cstdint>

namespace autoamp::policy {

// checked: a sample of the weight is compared with the copy at each CUDA call. watched: the kernel reports writes to
// the weight, for CPU calls. frozen: the program promises not to change kept weights.
enum class Weights : uint8_t { off, checked, watched, frozen };
constexpr const char *weightsValues = "off checked watched frozen"; // by Weights

inline const char *name(Weights weights)
{
	static constexpr const char *names[] = {"off", "checked", "watched", "frozen"};
	return names[static_cast<unsigned>(weights)];
}

// The mode of the calls on one device, if the user selects `weights` for both: each device lacks one mode.
constexpr Weights weightsOnGpu(Weights weights)
{
	return weights == Weights::watched ? Weights::off : weights;
}
constexpr Weights weightsOnCpu(Weights weights)
{
	return weights == Weights::checked ? Weights::watched : weights;
}

} // namespace autoamp::policy
