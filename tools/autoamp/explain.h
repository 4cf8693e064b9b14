// `autoamp explain`: what the library would decide about one call, and what led to it. Main thread. Nothing is run:
// the decision is the library's own function, asked again and again while the configuration is put in piece by piece.
#pragma once

#include "src/policy/decide.h"
#include "src/trace/reader.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Question {
	std::string entry, dtype = "float32", caller, region, thread, program, format = "text"; // text, json
	std::optional<std::string> gpu; // as AUTOAMP_GPU_MODEL; none: this machine's
	int64_t m = 0, n = 0, k = 0, batch = 1;
};

extern const std::vector<std::string> operandTypes; // that a Question may have
// What would be decided of calls of a trace's row on that device; none: the entry point is not known.
std::optional<policy::Decision> decideAgain(const trace::RowInfo &row, const policy::Device &device,
                                            const policy::Options &options, std::span<const char *const> entries);
void explain(const Question &question, std::span<const char *const> entries);

} // namespace autoamp::tool
