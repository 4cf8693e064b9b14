#include "tools/autoamp/html_work.h"

#include <algorithm>

namespace autoamp::tool::page {

RowTimes timesOf(const Json &row, bool isMeasured)
{
	const bool isLowered = plain(row, "decision") == "lowered";
	if (!isMeasured) {
		const double unchanged = number(row, "est_ns"), actual = isLowered ? number(row, "est_lowered_ns") : unchanged;
		const double best = number(row, "est_best_ns");
		return {unchanged, actual, std::isnan(best) ? std::min(unchanged, actual) : best};
	}
	if (!isLowered) {
		const double ns = number(row, "host_ns");
		return {ns, ns, ns};
	}
	const double calls = number(row, "calls") / number(row, "audited"); // for each audited one
	const double unchanged = calls * number(row, "fp32_ns"), actual = number(row, "host_ns");
	return {unchanged, actual, std::min(unchanged, actual)};
}

size_t bestPrecisionOf(const Json &row, bool isMeasured)
{
	if (const auto best = plain(row, "best_precision"); !isMeasured && !best.empty())
		return precisionOf(best);
	const auto times = timesOf(row, isMeasured);
	return precisionOf(plain(row, times.unchanged < times.actual ? "dtype_asked" : "dtype_compute"));
}

void OpWork::add(const Json &row, const RowTimes &times, bool isMeasured)
{
	signatures++;
	calls += row["calls"].get<uint64_t>();
	unchanged += times.unchanged;
	actual[precisionOf(plain(row, "dtype_compute"))] += times.actual;
	best[bestPrecisionOf(row, isMeasured)] += times.best;
}

void Work::add(const Json &row)
{
	const auto times = timesOf(row, isMeasured);
	if (!isTrue(row, "eligible") || !times.areKnown())
		return;
	const auto op = plain(row, "op").empty() ? text(row, "entry") : text(row, "op");
	byOp_[op].add(row, times, isMeasured);
	all.add(row, times, isMeasured);
}

void Work::finish()
{
	for (auto &[op, work] : byOp_) {
		work.op = op;
		ops.push_back(work);
	}
	std::stable_sort(ops.begin(), ops.end(), [](auto &x, auto &y) { return sumOf(x.actual) > sumOf(y.actual); });
}

} // namespace autoamp::tool::page
