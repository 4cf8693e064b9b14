#include "tools/autoamp/comparison.h"

#include "tools/autoamp/commands.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>
#include <vector>

namespace autoamp::tool {

std::string Side::way() const
{
	std::vector<std::pair<std::string, uint64_t>> sorted(ways.begin(), ways.end());
	std::stable_sort(sorted.begin(), sorted.end(), [](auto &x, auto &y) { return x.second > y.second; });
	std::string text;
	for (size_t i = 0; i < sorted.size() && i < 2; i++)
		text += (i > 0 ? ", " : "") + sorted[i].first;
	return text + (sorted.size() > 2 ? fmt::format(" +{}", sorted.size() - 2) : "");
}

bool Pair::isWayChanged() const
{
	const auto isSame = [](auto &x, auto &y) { return x.first == y.first; };
	return isCommon() && !std::ranges::equal(sides[0].ways, sides[1].ways, isSame);
}

Json toJson(const Pair &pair)
{
	const auto &row = pair.row;
	Json object = {{"entry", orNull(row.entry)},
	               {"op", orNull(row.op)},
	               {"shape", shapeOf(row)},
	               {"transa", std::string(1, row.transa)},
	               {"transb", std::string(1, row.transb)},
	               {"dtype_in", orNull(row.dtypeIn)}};
	static constexpr const char *names[] = {"_before", "_after"};
	const auto add = [&](const char *field, auto value) {
		for (size_t side = 0; side < 2; side++)
			object[field + std::string(names[side])] = pair.sides[side].calls ? Json(value(pair.sides[side])) : Json();
	};
	add("calls", [](const Side &side) { return side.calls; });
	add("host_ns", [](const Side &side) { return nanoseconds(side.hostNs); });
	add("kernel_ns", [](const Side &side) { return nanoseconds(side.kernelNs); });
	add("way", [](const Side &side) { return side.way(); });
	add("max_error", [](const Side &side) { return orNull(side.audit.orUnknown(side.audit.most)); });
	add("model_ns", [](const Side &side) { return nanoseconds(side.modelNs); });
	object["ratio"] = orNull(pair.ratio);
	object["model_ratio"] = orNull(pair.modelRatio);
	object["changed"] = pair.isWayChanged();
	return object;
}

namespace {

// The values of each setting in the processes of one side.
using Values = std::map<std::string, std::set<std::string>>;

// Settings of the whole run that may explain a difference. The name of the trace is not among them.
Values settingsOf(const Runs &runs)
{
	Values values;
	for (const auto &run : runs) {
		for (const auto &property : run.config)
			if (property.name != policy::optionTable()[static_cast<size_t>(policy::Option::traceFile)].name)
				values[configName(property.name)].insert(property.value);
		for (const auto &property : run.rules)
			values["rule " + property.name].insert(property.value);
		for (const auto &property : run.versions)
			values[property.name + " version"].insert(property.value);
		for (size_t ordinal = 0; ordinal < run.devices.size(); ordinal++)
			values[fmt::format("device {}", ordinal)].insert(run.devices[ordinal]);
	}
	return values;
}

std::vector<Difference> differences(const Runs &before, const Runs &after)
{
	auto ofBefore = settingsOf(before), ofAfter = settingsOf(after);
	const auto textOf = [](const std::set<std::string> &values) { return fmt::format("{}", fmt::join(values, " | ")); };
	for (const auto &[name, values] : ofAfter)
		ofBefore[name];
	std::vector<Difference> list;
	for (const auto &[name, values] : ofBefore)
		if (textOf(values) != textOf(ofAfter[name]))
			list.push_back({name, textOf(values), textOf(ofAfter[name])});
	return list;
}

// Adds the calls of a row to its signature.
void count(const trace::RowInfo &row, size_t side, bool isMeasured, std::map<std::string, Pair> &pairs)
{
	auto &pair = pairs[fmt::format("{}|{}|{}{}|{}", row.entry, shapeOf(row), row.transa, row.transb, row.dtypeIn)];
	pair.row = row;
	auto &sum = pair.sides[side];
	sum.calls += row.calls, sum.hostNs += row.hostNs;
	sum.audit.add(row.audit);
	const double kernelNs = row.kernelNs + (std::isnan(row.castNs) ? 0 : row.castNs);
	if (!std::isnan(kernelNs))
		sum.kernelNs = std::isnan(sum.kernelNs) ? kernelNs : sum.kernelNs + kernelNs;
	const double modelNs = modelTimes(row).asRunNs;
	sum.modelNs += modelNs;
	if (modelNs > 0)
		sum.modelByType[row.dtypeCompute] += modelNs;
	if (const double ns = isMeasured ? kernelNs : row.hostNs; ns > 0)
		sum.timeByType[row.dtypeCompute] += ns;
	sum.ways[fmt::format("{} {} ({})", row.decision, row.dtypeCompute, row.reason)] += row.calls;
}

// Time of the calls of both runs: that of the second run, and that if each call took as long as in the first run.
struct Rated {
	double took = 0, wouldTake = 0;
	double add(const Pair &pair, double before, double after) // the ratio of the times per call
	{
		const double one = before / double(pair.sides[0].calls), other = after / double(pair.sides[1].calls);
		if (!pair.isCommon() || !(one > 0) || std::isnan(other))
			return NAN;
		took += after, wouldTake += one * double(pair.sides[1].calls);
		return other / one;
	}
	double slowerPercent() const { return wouldTake > 0 ? 100 * (took / wouldTake - 1) : NAN; }
};

} // namespace

Comparison::Comparison(const DiffOptions &options, const Runs &before, const Runs &after)
    : options(options), before(before), after(after), settings(differences(before, after)), audit(auditSum(after).all)
{
	for (const auto *runs : {&before, &after}) {
		const auto account = add(*runs);
		isEmulated |= account.isEmulated;
		isMeasured &= account.times == Times::kernels;
		isOnCpu &= account.times == Times::host;
	}
	std::map<std::string, Pair> bySignature;
	for (size_t side = 0; side < 2; side++)
		for (const auto &run : side ? after : before)
			for (const auto &row : run.rows)
				if (row.calls > 0)
					count(row, side, isMeasured, bySignature);
	rate(bySignature);
	for (auto &[signature, pair] : bySignature)
		pairs.push_back(std::move(pair));
	const auto isHeavier = [this](const Pair &x, const Pair &y) { return weightOf(x) > weightOf(y); };
	std::stable_sort(pairs.begin(), pairs.end(), isHeavier);
	const auto isChanged = [](const Pair &pair) { return pair.isWayChanged(); };
	changed = static_cast<size_t>(std::count_if(pairs.begin(), pairs.end(), isChanged));
}

void Comparison::rate(std::map<std::string, Pair> &bySignature)
{
	Rated real, model;
	for (auto &[signature, pair] : bySignature) {
		const auto &[first, second] = pair.sides;
		common += pair.isCommon();
		if (!isEmulated)
			pair.ratio = real.add(pair, first.timeNs(isMeasured), second.timeNs(isMeasured));
		pair.modelRatio = model.add(pair, first.modelNs, second.modelNs);
	}
	slowerPercent = real.slowerPercent();
	modelSlowerPercent = model.slowerPercent();
}

double Comparison::weightOf(const Pair &pair) const
{
	const auto &[first, second] = pair.sides;
	return isEmulated ? pair.row.flops() / double(pair.row.calls) * double(std::max(first.calls, second.calls))
	                  : std::max(first.timeNs(isMeasured), second.timeNs(isMeasured));
}

namespace {

Gate slowerGate(const Comparison &comparison)
{
	const double limit = *comparison.options.slower;
	const auto option = fmt::format("--fail-if-slower {}", limit);
	if (comparison.isEmulated)
		return {option, Status::wrong, "--fail-if-slower: times of emulated runs cannot be compared"};
	if (comparison.common > 0 && std::isnan(comparison.slowerPercent))
		return {option, Status::failed, "--fail-if-slower: no common signature has a time"};
	if (comparison.slowerPercent > limit)
		return {option, Status::failed,
		        fmt::format("{:.1f} % slower, more than {} %", comparison.slowerPercent, limit)};
	return {option, Status::done, ""};
}

Gate errorGate(const Comparison &comparison)
{
	const double limit = *comparison.options.error;
	const auto &audit = comparison.audit;
	const auto option = fmt::format("--fail-if-error {}", limit);
	if (audit.overflowed > 0)
		return {option, Status::failed,
		        fmt::format("{} with an Inf or NaN that fp32 does not have", plural(audit.overflowed, "result"))};
	if (audit.measured() == 0) // an unknown error must not pass the check
		return {option, Status::wrong, "--fail-if-error: traces contain no measured errors"};
	if (audit.most > limit)
		return {option, Status::failed, fmt::format("error {:.2e}, more than {}", audit.most, limit)};
	return {option, Status::done, ""};
}

} // namespace

std::vector<Gate> gatesOf(const Comparison &comparison)
{
	std::vector<Gate> gates;
	if (comparison.options.slower)
		gates.push_back(slowerGate(comparison));
	if (comparison.options.error)
		gates.push_back(errorGate(comparison));
	return gates;
}

} // namespace autoamp::tool
