// Facts derived from the name of a kernel: vendor names contain types, framework names contain the purpose. Any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace autoamp::trace {

enum class TensorCores : uint8_t { unknown, no, yes };

struct KernelFacts {
	TensorCores tensorCores = TensorCores::unknown;
	const char *dtype = nullptr;                           // type of the multiplication; null: not in the name
	const char *scalerOf = nullptr, *scalerStep = nullptr; // for a gradient scaler: the framework, unscale or update
};

KernelFacts factsOf(std::string_view name);

} // namespace autoamp::trace
