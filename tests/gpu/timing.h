// Times of device and host work for the suite's programs, one thread. On the emulated device nothing is timed: the work
// runs once and there is no result, so no figure can be mistaken for a device's.
#pragma once

#include "tests/preload/clients/harness.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <optional>
#include <vector>

namespace gpu {

struct Sample {
	double median, least, most; // ns a call
	int repeats, calls;         // so many repeats of so many calls

	std::string text() const
	{
		char text[128];
		std::snprintf(text, sizeof text, "ns=%.1f least=%.1f most=%.1f repeats=%d calls=%d", median, least, most,
		              repeats, calls);
		return text;
	}
};

inline std::string text(const std::optional<Sample> &sample)
{
	return sample ? sample->text() : "not_measured";
}

inline bool isEmulated()
{
	cudaDeviceProp properties;
	CHECK(cudaGetDeviceProperties(&properties, 0));
	return std::strstr(properties.name, "emulated") != nullptr;
}

inline Sample summarize(std::vector<double> times, int calls)
{
	std::sort(times.begin(), times.end());
	return {times[times.size() / 2], times.front(), times.back(), static_cast<int>(times.size()), calls};
}

// call(i) enqueues the i-th call on the stream. Calls run back to back: if the host is slower than the device, the
// result is the host's time, as in a program.
template <typename Call>
std::optional<Sample> timeOnDevice(cudaStream_t stream, Call call, double repeatNs = 2e6)
{
	int made = 0;
	call(made++);
	CHECK(cudaStreamSynchronize(stream));
	if (isEmulated())
		return {};
	cudaEvent_t start, end;
	CHECK(cudaEventCreate(&start));
	CHECK(cudaEventCreate(&end));
	const auto once = [&](int calls) {
		CHECK(cudaEventRecord(start, stream));
		for (int i = 0; i < calls; i++)
			call(made++);
		CHECK(cudaEventRecord(end, stream));
		CHECK(cudaEventSynchronize(end));
		float milliseconds = 0;
		CHECK(cudaEventElapsedTime(&milliseconds, start, end));
		return double(milliseconds) * 1e6 / calls;
	};
	once(2); // caches, clocks
	const double estimate = once(2);
	const int calls = static_cast<int>(std::clamp(repeatNs / estimate, 1.0, 1000.0));
	std::vector<double> times(estimate > 2e7 ? 3 : 7);
	for (double &time : times)
		time = once(calls);
	CHECK(cudaEventDestroy(start));
	CHECK(cudaEventDestroy(end));
	return summarize(times, calls);
}

// Time that a call takes in its thread; the stream is drained between the repeats, outside the measured time.
template <typename Call>
std::optional<Sample> timeOnHost(cudaStream_t stream, Call call, int calls)
{
	if (isEmulated()) {
		call();
		CHECK(cudaStreamSynchronize(stream));
		return {};
	}
	std::vector<double> times;
	for (int repeat = 0; repeat <= 11; repeat++) {
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; i++)
			call();
		const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - start;
		CHECK(cudaStreamSynchronize(stream));
		if (repeat) // the first repeat warms up
			times.push_back(time.count() / calls);
	}
	return summarize(times, calls);
}

} // namespace gpu
