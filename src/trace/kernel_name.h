// What the name of a kernel tells about it: vendors write their types into the names, frameworks what the kernel is
// for. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace autoamp::trace {

enum class TensorCores : uint8_t { unknown, no, yes };

struct KernelFacts {
	TensorCores tensorCores = TensorCores::unknown;
	const char *dtype = nullptr;                           // of what is multiplied; null: the name does not say
	const char *scalerOf = nullptr, *scalerStep = nullptr; // a gradient scaler's: the framework, unscale or update
};

KernelFacts factsOf(std::string_view name);

} // namespace autoamp::trace
