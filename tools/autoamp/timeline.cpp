#include "tools/autoamp/timeline.h"

#include "tools/autoamp/output.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

namespace autoamp::tool {

std::vector<int64_t> startsOf(const Runs &runs)
{
	std::map<std::string, int64_t> monotonicToReal; // clock difference by host name
	std::vector<int64_t> starts;
	for (const auto &run : runs) {
		auto start = static_cast<int64_t>(run.startedNs);
		if (!run.clocks.empty()) {
			const auto &clock = run.clocks.front();
			const auto since = std::llround(clock.traceNs);
			start = static_cast<int64_t>(clock.realtimeNs) - since;
			const auto difference = static_cast<int64_t>(clock.realtimeNs - clock.monotonicNs);
			const auto [known, isFirst] = monotonicToReal.emplace(run.host, difference);
			// The time of day may be set while a job runs. Hosts with the same name (containers) are distinguished by
			// the difference of their clocks.
			if (!isFirst && std::abs(known->second - difference) < 1'000'000'000)
				start = static_cast<int64_t>(clock.monotonicNs) + known->second - since;
		}
		starts.push_back(start);
	}
	const auto first = starts.empty() ? 0 : *std::min_element(starts.begin(), starts.end());
	for (auto &start : starts)
		start -= first;
	return starts;
}

void forEachItem(const Runs &runs, const char *what, const std::function<void(const Item &)> &visit)
{
	const auto starts = startsOf(runs);
	uint64_t whole = 0;
	for (const auto &run : runs) {
		for (const auto &row : run.rows)
			whole += run.hasEvents ? row.calls : 0;
		for (const auto &kernel : run.kernels)
			whole += kernel.count;
	}
	Progress progress(what, whole);
	for (size_t id = 0; id < runs.size(); id++) {
		const auto &run = runs[id];
		const auto at = [&](double ns) { return starts[id] + std::llround(std::isnan(ns) ? 0 : ns); };
		for (const auto &event : run.scaler)
			visit({Item::scale, id, 0, 0, 0, at(event.timeNs), 0, run.row(event.row), nullptr, 0, false, false, false,
			       &event});
		std::unordered_map<uint32_t, uint32_t> threads;
		for (const auto &lane : run.lanes)
			threads[lane.lane] = lane.tid;
		run.forEachEvent([&](const trace::EventInfo &event) {
			progress.step();
			visit({Item::call, id, threads[event.lane], 0, 0, at(event.startNs), std::llround(event.durationNs),
			       run.row(event.row), nullptr, event.call, event.captured, false, false, nullptr});
		});
		run.forEachKernel([&](const trace::KernelInfo &kernel) {
			progress.step();
			visit({Item::kernel, id, 0, kernel.device, kernel.stream, at(kernel.startNs),
			       std::isnan(kernel.durationNs) ? 0 : std::llround(kernel.durationNs), run.row(kernel.row),
			       &kernel.name, kernel.call, kernel.isGraph, kernel.isOurs, kernel.isMemory, nullptr});
		});
	}
}

std::string nameOf(const trace::Trace &run)
{
	return fmt::format("{}{}{}pid {}", run.rank.empty() ? "" : "rank " + run.rank + ", ", run.host,
	                   run.host.empty() ? "" : ", ", run.pid);
}

} // namespace autoamp::tool
