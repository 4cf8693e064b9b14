#include "tools/autoamp/weights.h"

#include "tools/autoamp/text.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>
#include <utility>

namespace autoamp::tool {

namespace {

constexpr const char *weightsOff = "weights_off";
constexpr int64_t leastElements = 1 << 18; // 1 MiB in fp32

// Number of operands of a product that a copy can replace.
int candidates(const trace::RowInfo &row)
{
	if (!row.shape.empty()) // a convolution: its filter
		return 1;
	return std::max(1, (row.m * row.k >= leastElements) + (row.k * row.n >= leastElements));
}

} // namespace

double keptShare(const trace::RowInfo &row)
{
	uint64_t served = 0, converted = 0;
	for (const auto &weights : row.weights)
		served += weights.served, converted += weights.converted;
	// If both operands could be copied and one of them is a weight, half of the conversions remain at each product.
	return served + converted == 0 ? NAN : std::min(1.0, candidates(row) * double(served) / double(served + converted));
}

bool isOfWeights(const std::string &kind)
{
	static constexpr const char *kinds[] = {"made", "recast", "changed", "given_up", "refused"};
	return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

void WeightsSum::add(const trace::RowInfo &row)
{
	for (const auto &weights : row.weights) {
		if (!weights.how.empty())
			how.insert(weights.how);
		if (!weights.reason.empty())
			reasons[weights.reason] += weights.converted;
		served += weights.served, converted += weights.converted, made += weights.made;
		recast += weights.recast, changed += weights.changed;
		givenUp += weights.givenUp, refused += weights.refused;
		compared += weights.compared, repeated += weights.repeated;
		// Signatures with other numbers of rows use the same copies: only the one that made a copy counts it. The
		// copies of a part of a run may have been made before.
		if (weights.refused)
			refusedBytes += weights.bytes;
		else
			bytes = std::max(weights.bytes, bytes + (weights.made > 0 ? weights.bytes : 0));
	}
}

bool WeightsSum::isOff() const
{
	return how.empty() &&
	       std::all_of(reasons.begin(), reasons.end(), [](auto &reason) { return reason.first == weightsOff; });
}

std::string describeWeights(const WeightsSum &sum)
{
	if (sum.served + sum.converted == 0 || sum.isOff())
		return {};
	auto text = fmt::format("weights: kept copies replaced {} of {}", count(sum.served),
	                        plural(sum.served + sum.converted, "conversion"));
	if (!sum.how.empty())
		text += fmt::format(" ({}, {}B)", fmt::join(sum.how, ", "), amount(double(sum.bytes)));
	if (sum.recast > 0)
		text += fmt::format(", {} recast", count(sum.recast));
	if (sum.givenUp > 0)
		text += fmt::format(", {} given up", count(sum.givenUp));
	const char *separator = "; not kept: ";
	for (const auto &[reason, calls] : sum.reasons)
		if (calls > 0)
			text += fmt::format("{}{} {}", std::exchange(separator, ", "), reason, count(calls));
	return *separator == ',' ? text + " (autoamp help reports)" : text;
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
	        {"changed", sum.changed},
	        {"given_up", sum.givenUp},
	        {"refused", sum.refused},
	        {"compared", sum.compared},
	        {"repeated", sum.repeated},
	        {"bytes", sum.bytes},
	        {"refused_bytes", sum.refusedBytes},
	        {"reasons", sum.reasons}};
}

void WeightsEstimate::add(const trace::RowInfo &row)
{
	if (row.decision == "kept" && !std::isnan(row.estCheckedNs)) {
		unchangedCalls += row.calls;
		unchangedFromNs += double(row.calls) * row.estNs;
		unchangedToNs += double(row.calls) * row.estCheckedNs;
	}
	uint64_t rowCompared = 0, rowRepeated = 0;
	for (const auto &weights : row.weights)
		if (weights.reason == weightsOff)
			rowCompared += weights.compared, rowRepeated += weights.repeated;
	if (rowCompared == 0)
		return;
	compared += rowCompared, repeated += rowRepeated;
	if (std::isnan(row.estCheckedNs) || std::isnan(row.estLoweredNs))
		return;
	// If two operands are compared and one of them is a weight, half of the conversions repeat, and all products gain.
	const double kept = std::min(1.0, candidates(row) * double(rowRepeated) / double(rowCompared));
	const double calls = double(row.calls);
	fromNs += calls * row.estLoweredNs;
	toNs += calls * (kept * row.estCheckedNs + (1 - kept) * row.estLoweredNs);
}

std::string describe(const WeightsEstimate &estimate)
{
	if (estimate.unchangedSavedNs() > std::max(estimate.savedNs(), 0.05 * estimate.unchangedFromNs))
		return fmt::format(
		    "weights: {} ran unchanged, because a conversion at each call would not pay; if their weights do not "
		    "change, AUTOAMP_WEIGHTS=checked would reduce their modelled time from {} to {}",
		    plural(estimate.unchangedCalls, "product"), duration(estimate.unchangedFromNs),
		    duration(estimate.unchangedToNs));
	return estimate.isLarge()
	           ? fmt::format("weights: {} of the conversions of operands of at least 1 MiB repeat; "
	                         "AUTOAMP_WEIGHTS=checked would reduce the modelled time of these products from {} to {}",
	                         share(double(estimate.repeated), double(estimate.compared)), duration(estimate.fromNs),
	                         duration(estimate.toNs))
	           : "";
}

Json toJson(const WeightsEstimate &estimate)
{
	if (!estimate.isKnown() && estimate.unchangedCalls == 0)
		return {};
	return {
	    {"compared", estimate.compared},
	    {"repeated", estimate.repeated},
	    {"repeated_share", estimate.isKnown() ? Json(double(estimate.repeated) / double(estimate.compared)) : Json()},
	    {"from_ns", nanoseconds(estimate.fromNs)},
	    {"to_ns", nanoseconds(estimate.toNs)},
	    {"unchanged_calls", estimate.unchangedCalls},
	    {"unchanged_from_ns", nanoseconds(estimate.unchangedFromNs)},
	    {"unchanged_to_ns", nanoseconds(estimate.unchangedToNs)},
	    {"source", "model"}};
}

uint64_t memoryForWeights(const std::vector<trace::Trace> &runs)
{
	uint64_t most = 0;
	for (const auto &run : runs) {
		std::map<uint32_t, WeightsSum> devices;
		for (const auto &row : run.rows)
			if (row.calls > 0)
				devices[row.device].add(row);
		for (const auto &[device, sum] : devices)
			if (sum.refused > 0)
				most = std::max(most, sum.bytes + sum.refusedBytes);
	}
	const uint64_t budget = most + (most + 2) / 3; // copies take at most three quarters of it
	return (budget + (1 << 20) - 1) >> 20;
}

std::vector<std::string> weightWarnings(const WeightsSum &sum, uint64_t memory, const std::string &firstChanged)
{
	std::vector<std::string> lines;
	if (memory > 0)
		lines.push_back(fmt::format("weights: no memory for {} ({}B); AUTOAMP_MEMORY={}M would hold all copies",
		                            plural(sum.refused, "copy", "copies"), amount(double(sum.refusedBytes)), memory));
	if (sum.changed > 0)
		lines.push_back(fmt::format("WARNING: results may be wrong: AUTOAMP_WEIGHTS=frozen, but a weight changed, and "
		                            "products used its old values (noticed {}{}); set AUTOAMP_WEIGHTS=checked",
		                            plural(sum.changed, "time"),
		                            firstChanged.empty() ? "" : ", the first at " + firstChanged));
	return lines;
}

} // namespace autoamp::tool
