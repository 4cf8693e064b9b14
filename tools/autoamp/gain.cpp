#include "tools/autoamp/gain.h"

#include <algorithm>
#include <fmt/format.h>

namespace autoamp::tool {

void GainTimes::add(const GainTimes &more)
{
	asAskedNs += more.asAskedNs, asRunNs += more.asRunNs, bestNs += more.bestNs;
}

void GainSum::add(const trace::RowInfo &row, const GainTimes &times)
{
	if (std::isnan(times.asAskedNs) || std::isnan(times.asRunNs) || std::isnan(times.bestNs)) {
		unknown += row.calls;
		return;
	}
	calls += row.calls;
	GainTimes::add(times);
	byOp[row.op].add(times);
}

double runTime(const trace::RowInfo &row)
{
	return row.decision == "lowered" || row.decision == "raised" ? row.estLoweredNs : row.estNs;
}

GainTimes modelTimes(const trace::RowInfo &row)
{
	const double calls = double(row.calls), asRun = runTime(row);
	const double best = std::isnan(row.estBestNs) ? std::fmin(row.estNs, asRun) : row.estBestNs;
	return {calls * row.estNs, calls * asRun, calls * best};
}

void Gain::add(const trace::RowInfo &row)
{
	if (!row.eligible)
		return;
	model.add(row, modelTimes(row));
	const auto &audit = row.audit;
	if (row.library != "blas") { // only calls on a CPU have real times in fp32
		measured.unknown += row.calls;
	} else if (row.decision != "lowered") {
		measured.add(row, {row.hostNs, row.hostNs, row.hostNs});
	} else if (audit.timed > 0) {
		// All calls have an actual time. Only that in fp32 is known for the audited calls alone; the first of them may
		// be the one that opens oneDNN.
		const double fp32Ns = audit.fp32Ns * double(row.calls) / double(audit.timed);
		lowered += row.calls, audited += audit.timed;
		measured.add(row, {fp32Ns, row.hostNs, std::min(fp32Ns, row.hostNs)});
	} else {
		unmeasured += row.calls, measured.unknown += row.calls;
	}
}

std::string sourceOf(const Gain &gain, bool isEmulated)
{
	if (gain.isMeasured())
		return fmt::format("measured, {} of {} lowered calls", count(gain.audited), count(gain.lowered));
	return isEmulated ? "model, nothing was timed" : "model";
}

std::string ratioText(double ratio)
{
	return fmt::format("{:.2f}x{}", ratio, ratio < 0.995 ? ", slower" : "");
}

std::string describeGain(const Gain &gain, bool isEmulated)
{
	if (!gain.isKnown())
		return {};
	const auto &sum = gain.sum();
	auto text = fmt::format("gain ({}): fp32 products: {} unchanged, {} as run ({}), {} at best ({})",
	                        sourceOf(gain, isEmulated), duration(sum.asAskedNs), duration(sum.asRunNs),
	                        ratioText(sum.gain()), duration(sum.bestNs), ratioText(sum.bestGain()));
	if (!gain.isMeasured() && gain.asRunNs > 0)
		text += fmt::format("; measured as run: {}", duration(gain.asRunNs));
	if (sum.unknown > 0)
		text += fmt::format("; without {} of unknown time", plural(sum.unknown, "call"));
	return text;
}

Json toJson(const Gain &gain)
{
	if (!gain.isKnown())
		return {};
	const auto &sum = gain.sum();
	Json byOp = Json::array();
	for (const auto &[op, times] : sum.byOp)
		byOp.push_back({{"op", orNull(op)},
		                {"as_asked_ns", nanoseconds(times.asAskedNs)},
		                {"as_run_ns", nanoseconds(times.asRunNs)},
		                {"best_ns", nanoseconds(times.bestNs)}});
	const auto ofAudits = [&](uint64_t number) { return gain.isMeasured() ? Json(number) : Json(); };
	return {{"as_asked_ns", nanoseconds(sum.asAskedNs)},
	        {"as_run_ns", nanoseconds(sum.asRunNs)},
	        {"best_ns", nanoseconds(sum.bestNs)},
	        {"source", gain.source()},
	        {"measured_as_run_ns", nanoseconds(gain.asRunNs)},
	        {"calls", sum.calls},
	        {"unknown_calls", sum.unknown},
	        {"lowered", ofAudits(gain.lowered)},
	        {"audited", ofAudits(gain.audited)},
	        {"unmeasured", ofAudits(gain.unmeasured)},
	        {"by_op", byOp}};
}

} // namespace autoamp::tool
