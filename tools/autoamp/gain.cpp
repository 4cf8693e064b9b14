#include "tools/autoamp/gain.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace autoamp::tool {

void Gain::add(const trace::RowInfo &row)
{
	if (!row.eligible)
		return;
	const auto &audit = row.audit;
	if (row.decision != "lowered") {
		asAskedNs += row.hostNs, asRunNs += row.hostNs, bestNs += row.hostNs;
	} else if (audit.timed > 0) {
		const double calls = double(row.calls) / double(audit.timed);
		lowered += row.calls, audited += audit.timed;
		asAskedNs += calls * audit.fp32Ns, asRunNs += calls * audit.actualNs;
		bestNs += calls * std::min(audit.fp32Ns, audit.actualNs);
	} else {
		unmeasured += row.calls;
	}
}

std::string describeGain(const Gain &gain)
{
	if (!gain.isKnown())
		return {};
	auto text = fmt::format("gain: fp32 products: {} in fp32 ({} of {} lowered calls measured), {} as run: {:.2f}x",
	                        duration(gain.asAskedNs), count(gain.audited), count(gain.lowered), duration(gain.asRunNs),
	                        gain.asAskedNs / gain.asRunNs);
	if (gain.unmeasured > 0)
		text += fmt::format("; without {} of other signatures", plural(gain.unmeasured, "lowered call"));
	return text;
}

Json toJson(const Gain &gain)
{
	if (!gain.isKnown())
		return {};
	return {{"as_asked_ns", nanoseconds(gain.asAskedNs)},
	        {"as_run_ns", nanoseconds(gain.asRunNs)},
	        {"best_ns", nanoseconds(gain.bestNs)},
	        {"source", "measured"},
	        {"lowered", gain.lowered},
	        {"audited", gain.audited},
	        {"unmeasured", gain.unmeasured}};
}

void WeightsSum::add(const trace::RowInfo &row)
{
	for (const auto &weights : row.weights) {
		if (!weights.how.empty())
			how.insert(weights.how);
		if (!weights.reason.empty())
			reasons[weights.reason] += weights.converted;
		served += weights.served, converted += weights.converted, made += weights.made;
		recast += weights.recast, givenUp += weights.givenUp, bytes += weights.bytes;
	}
}

std::string describeWeights(const WeightsSum &sum)
{
	if (sum.isEmpty())
		return {};
	auto text = fmt::format("weights: {} of {} used a kept copy", count(sum.served),
	                        plural(sum.served + sum.converted, "product"));
	if (!sum.how.empty())
		text += fmt::format(" ({}, {}B)", fmt::join(sum.how, ", "), amount(double(sum.bytes)));
	if (sum.recast > 0)
		text += fmt::format(", {} recast", count(sum.recast));
	if (sum.givenUp > 0)
		text += fmt::format(", {} given up", count(sum.givenUp));
	const char *separator = "; not kept: ";
	for (const auto &[reason, calls] : sum.reasons)
		text += fmt::format("{}{} {}", std::exchange(separator, ", "), reason, count(calls));
	return text;
}

Json toJson(const WeightsSum &sum)
{
	if (sum.isEmpty())
		return {};
	return {{"how", orNull(fmt::format("{}", fmt::join(sum.how, ", ")))},
	        {"served", sum.served},
	        {"converted", sum.converted},
	        {"made", sum.made},
	        {"recast", sum.recast},
	        {"given_up", sum.givenUp},
	        {"bytes", sum.bytes},
	        {"reasons", sum.reasons}};
}

} // namespace autoamp::tool
