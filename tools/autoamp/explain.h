// `autoamp explain`: the decision of the library about one call, and its reasons. Main thread. Runs no program: it
// calls the library's decision function repeatedly and adds one part of the configuration each time.
#pragma once

#include "src/policy/decide.h"
#include "src/trace/read/trace.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct ExplainRequest {
	std::string entry, dtype = "float32", caller, region, thread, program, format = "text"; // text, json
	std::optional<std::string> device;  // cuda, cpu; none: that of the entry point
	std::optional<std::string> weights; // as in AUTOAMP_WEIGHTS
	std::optional<std::string> gpu;     // as in AUTOAMP_GPU_MODEL; none: this machine's
	int64_t m = 0, n = 0, k = 0, batch = 1;
};

extern const std::vector<std::string> operandTypes; // allowed values of ExplainRequest::dtype
// The decision about the calls of a trace row on this device; none if the entry point is unknown.
std::optional<policy::Decision> decideAgain(const trace::RowInfo &row, const policy::Device &device,
                                            const policy::Options &options, std::span<const char *const> entries);
void explain(const ExplainRequest &request, std::span<const char *const> entries);

} // namespace autoamp::tool
