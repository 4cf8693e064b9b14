// read_kernels FILE...: prints the kernel data of the traces, one JSON object per file and line.
#include "src/trace/read/trace.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace autoamp;

int main(int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		std::string error;
		const auto trace = trace::Trace::open(arguments[i], error);
		if (!trace) {
			std::fprintf(stderr, "%s\n", error.c_str());
			return 1;
		}
		nlohmann::json told = {{"has_kernels", trace->hasKernels},
		                       {"emulated", trace->emulated},
		                       {"clocks", trace->clocks.size()},
		                       {"unattributed", trace->loss.kernelsUnattributed},
		                       {"invalid", trace->loss.invalidTimestamps},
		                       {"dropped", trace->loss.kernelsDropped},
		                       {"lost", trace->loss.callsLost},
		                       {"launched", trace->launches ? trace->launches->kernels : 0},
		                       {"received", trace->launches ? trace->launches->kernelsReceived : 0},
		                       {"graphs", trace->launches ? trace->launches->graphs : 0},
		                       {"graphs_received", trace->launches ? trace->launches->graphsReceived : 0},
		                       {"ended", trace->ended},
		                       {"rows", nlohmann::json::array()},
		                       {"totals", nlohmann::json::array()},
		                       {"observed", nlohmann::json::array()},
		                       {"overhead", nlohmann::json::array()},
		                       {"scalers", nlohmann::json::array()},
		                       {"updates", nlohmann::json::array()},
		                       {"causes", nlohmann::json::array()},
		                       {"notes", nlohmann::json::array()}};
		for (const auto &row : trace->rows)
			if (row.calls || row.kernels)
				told["rows"].push_back({{"id", row.id},
				                        {"entry", row.entry},
				                        {"decision", row.decision},
				                        {"m", row.m},
				                        {"calls", row.calls},
				                        {"captured", row.captured},
				                        {"kernels", row.kernels},
				                        {"casts", row.casts},
				                        {"tensor_cores", int(row.tensorCores)},
				                        {"kernel_ns", row.kernelNs}}); // NaN: null
		for (const auto &total : trace->kernels)
			told["totals"].push_back({{"name", total.name},
			                          {"row", total.row},
			                          {"count", total.count},
			                          {"ours", total.isOurs},
			                          {"memory", total.isMemory},
			                          {"dtype", total.facts.dtype ? total.facts.dtype : ""},
			                          {"ns", total.ns}});
		for (const auto &step : trace->observed)
			told["observed"].push_back({step.framework, step.step, step.count});
		for (const auto &overhead : trace->overhead)
			told["overhead"].push_back({overhead.kind, overhead.count, overhead.ns});
		const auto text = [](double number) { // JSON has no Inf
			char digits[40];
			std::snprintf(digits, sizeof digits, "%a", number);
			return std::string(digits);
		};
		std::map<uint32_t, int> updates; // kernels by owner
		trace->forEachKernel([&](const trace::KernelInfo &kernel) { updates[kernel.updatedOwner]++; });
		for (const auto &one : trace->gradientScalers)
			told["scalers"].push_back({{"id", one.id},
			                           {"name", one.name},
			                           {"how", one.how},
			                           {"device", one.device},
			                           {"growth", text(one.growth)},
			                           {"backoff", text(one.backoff)},
			                           {"interval", one.interval},
			                           {"steps", one.steps},
			                           {"skipped", one.skipped},
			                           {"longest", one.longestSkipped},
			                           {"unseen", one.unseen},
			                           {"scale", text(one.scaleLast)},
			                           {"tracker", one.tracker},
			                           {"kernels", one.owner ? updates[one.owner] : 0}});
		for (const auto &one : trace->gradientEvents)
			told["updates"].push_back({{"time", one.timeNs},
			                           {"step", one.step},
			                           {"scaler", one.scaler},
			                           {"kind", one.kind},
			                           {"before", text(one.scaleBefore)},
			                           {"after", text(one.scaleAfter)},
			                           {"found_inf", one.foundInf},
			                           {"tracker_before", one.trackerBefore},
			                           {"tracker_after", one.trackerAfter},
			                           {"hysteresis", one.hysteresis}});
		for (const auto &one : trace->gradientCauses)
			told["causes"].push_back({{"step", one.step},
			                          {"scaler", one.scaler},
			                          {"row", one.row},
			                          {"kind", one.kind},
			                          {"operand", std::string(1, one.operand)}});
		for (const auto &note : trace->notes)
			told["notes"].push_back({note.kind, note.text});
		std::set<uint64_t> calls, streams;
		uint64_t singles = 0, graphs = 0, outside = 0, unknown = 0, backwards = 0;
		trace->forEachEvent([&](const trace::EventInfo &event) { calls.insert(event.call); });
		trace->forEachKernel([&](const trace::KernelInfo &kernel) {
			singles++;
			streams.insert(kernel.stream);
			graphs += kernel.isGraph;
			outside += kernel.isOutside;
			unknown += kernel.call && !calls.count(kernel.call);
			backwards += kernel.startNs < 0 || kernel.startNs > 1e13 || kernel.durationNs < 0;
		});
		told.update({{"singles", singles},
		             {"graph_kernels", graphs},
		             {"streams", streams.size()},
		             {"outside", outside},
		             {"unknown_calls", unknown},
		             {"odd_times", backwards}});
		std::puts(told.dump().c_str());
	}
}
