// Parser of AUTOAMP_CAPTURE_RANGE, AUTOAMP_DELAY and AUTOAMP_DURATION, which select the part of a program to record.
// Any thread; no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace autoamp::policy {

struct CaptureRange {
	enum class Kind : uint8_t { none, profiler, nvtx, calls };
	Kind kind = Kind::none;
	std::string name;             // nvtx: a glob
	uint64_t first = 0, last = 0; // calls: numbers in the process, both included; last UINT64_MAX: until the end
};

constexpr const char *captureRangeForms = "cudaProfilerApi, nvtx:NAME or calls:A:B (from 1, both included)";
constexpr const char *timeForms = "seconds, or a number with ms, s or m";

// Returns false if `text` has none of these forms. An empty text means no range.
bool parseCaptureRange(std::string_view text, CaptureRange &range);
bool parseTime(std::string_view text, uint64_t &nanoseconds);

} // namespace autoamp::policy
