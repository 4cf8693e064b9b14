#include "src/config/capture_range.h"

#include <catch2/catch.hpp>

using namespace autoamp::policy;
using Kind = CaptureRange::Kind;

TEST_CASE("a capture range is one of its forms, or none")
{
	CaptureRange range;
	REQUIRE(parseCaptureRange("", range));
	CHECK(range.kind == Kind::none);
	REQUIRE(parseCaptureRange("cudaProfilerApi", range));
	CHECK(range.kind == Kind::profiler);
	REQUIRE(parseCaptureRange("nvtx:step *:a", range));
	CHECK(range.kind == Kind::nvtx);
	CHECK(range.name == "step *:a");
	const struct {
		const char *text;
		uint64_t first, last;
	} numbers[] = {{"calls:1:1", 1, 1},
	               {"calls:100:200", 100, 200},
	               {"calls:7:", 7, UINT64_MAX},
	               {"calls:1:999999999999999999", 1, 999999999999999999}};
	for (const auto &[text, first, last] : numbers) {
		INFO(text);
		REQUIRE(parseCaptureRange(text, range));
		CHECK((range.kind == Kind::calls && range.first == first && range.last == last));
		CHECK(range.name.empty());
	}
	for (const char *text : {"cudaProfilerApi ", "CudaProfilerApi", "nvtx", "nvtx:", "calls", "calls:", "calls:1",
	                         "calls:0:3", "calls:3:2", "calls::3", "calls:1:2:3", "calls:-1:3", "calls:1: 3",
	                         "calls:1:1000000000000000000", "step:1:2", ":"}) {
		INFO(text);
		CHECK_FALSE(parseCaptureRange(text, range));
	}
}

TEST_CASE("a time is seconds, or has a unit")
{
	const struct {
		const char *text;
		uint64_t nanoseconds;
	} times[] = {{"0", 0},
	             {"30", 30'000'000'000},
	             {"30s", 30'000'000'000},
	             {"2.5", 2'500'000'000},
	             {"0.000001", 1000},
	             {"1.5m", 90'000'000'000},
	             {"250ms", 250'000'000},
	             {"0.25ms", 250'000},
	             {"10000000m", 600'000'000'000'000'000}};
	for (const auto &[text, wanted] : times) {
		INFO(text);
		uint64_t time = 1;
		REQUIRE(parseTime(text, time));
		CHECK(time == wanted);
	}
	for (const char *text : {"", "s", "m", "ms", "-1", "+1", " 1", "1 ", "1h", "1.", ".5", "1.1234567", "1e3",
	                         "10000001", "99999999999999999999", "1.5.5", "1sm", "1mss"}) {
		INFO(text);
		uint64_t time = 0;
		CHECK_FALSE(parseTime(text, time));
	}
}
