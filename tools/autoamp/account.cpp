#include "tools/autoamp/account.h"

#include "src/trace/format.h"
#include "tools/autoamp/text.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace autoamp::tool {

namespace {

void add(Account &account, const trace::RowInfo &row)
{
	account.all.add(row);
	if (row.eligible)
		account.eligible.add(row);
	const struct {
		const char *word;
		Sum &sum;
	} decisions[] = {{"lowered", account.lowered},
	                 {"kept", account.kept},
	                 {"raised", account.raised},
	                 {"fallback", account.fallback},
	                 {"observed", account.observed}};
	for (const auto &decision : decisions)
		if (row.decision == decision.word)
			decision.sum.add(row);
	if (row.decision == "lowered")
		account.loweredTo.insert(row.dtypeCompute);
	if (row.eligible && row.decision == "kept")
		account.eligibleKept.add(row);
	if (row.eligible && row.decision == "raised")
		account.eligibleRaised.add(row);
	if (row.eligible && row.decision == "observed")
		account.eligibleObserved.add(row);
	if (row.eligible && row.decision == "observed" && row.strategy != "fp32") {
		account.wouldLower.add(row);
		account.wouldLowerBy.insert(row.strategy);
	} else if (row.eligible && row.decision == "observed") {
		account.wouldKeep.add(row);
	}
}

// NaN: the sum contains no known value yet.
void addKnown(double &sum, double more)
{
	if (!std::isnan(more))
		sum = std::isnan(sum) ? more : sum + more;
}

} // namespace

const char *nameOf(Times times)
{
	static constexpr const char *names[] = {"model", "kernels", "host"};
	return names[static_cast<int>(times)];
}

const char *headingOf(Times times)
{
	static constexpr const char *headings[] = {"time (model)", "time (kernels)", "time (CPU)"};
	return headings[static_cast<int>(times)];
}

bool isOnCpu(const trace::RowInfo &row)
{
	return row.library == "blas";
}

void Sum::add(const trace::RowInfo &row)
{
	calls += row.calls;
	flops += row.flops();
	hostNs += row.hostNs;
	addKnown(kernelNs, row.kernelNs);
	addKnown(kernelNs, row.castNs);
	if (std::isnan(row.estNs) || std::isnan(row.estLoweredNs))
		return;
	addKnown(estNs, row.estNs * double(row.calls));
	addKnown(estLoweredNs, row.estLoweredNs * double(row.calls));
	modelNs += runTime(row) * double(row.calls);
}

namespace {

// The setting behind the reason `disabled`.
const char *switchOf(const trace::Trace &run)
{
	return configOf(run, "enabled") == "0"       ? "AUTOAMP_ENABLED=0"
	       : configOf(run, "strategy") == "fp32" ? "AUTOAMP_STRATEGY=fp32"
	                                             : "NVIDIA_TF32_OVERRIDE=0";
}

} // namespace

Account add(const std::vector<trace::Trace> &runs)
{
	Account account;
	std::map<std::pair<std::string, std::string>, ReasonSum> reasons;
	std::map<std::string, ScalerSum> scaler;
	std::map<std::pair<std::string, std::string>, Sum> work; // by op and shape
	bool isAllOnCpu = true;
	for (const auto &run : runs) {
		for (const auto &row : run.rows) {
			if (row.calls == 0)
				continue;
			add(account, row);
			isAllOnCpu &= isOnCpu(row);
			account.gain.add(row);
			account.weights.add(row);
			account.weightsEstimate.add(row);
			auto &sum = reasons[{row.decision, row.reason}];
			sum.decision = row.decision;
			sum.reason = row.reason;
			sum.add(row);
			sum.isLower |= row.strategy != "fp32";
			sum.isOnCpu &= isOnCpu(row);
			if (!row.cause.empty())
				sum.causes.insert(row.cause);
			else if (row.reason == policy::name(policy::Reason::disabled))
				sum.switches.insert(switchOf(run));
			if (!row.eligible)
				continue;
			sum.eligible.add(row);
			work[{row.op, shapeOf(row)}].add(row);
		}
		for (const auto &total : run.scalerTotals) {
			auto &sum = scaler[total.kind];
			sum.kind = total.kind;
			sum.count += total.count;
			if (std::find(sum.sites.begin(), sum.sites.end(), total.site) == sum.sites.end())
				sum.sites.push_back(total.site);
			if (const auto *row = run.row(total.row)) {
				sum.rules.insert(ruleFor(*row));
				if (sum.example.empty())
					sum.example =
					    fmt::format("site {}: {} of {} {}", total.site, total.operand, row->entry, shapeOf(*row));
			}
		}
		for (const auto &event : run.scaler) {
			auto &sum = scaler[event.kind];
			if (std::isnan(event.excess))
				continue;
			if (const auto *row = run.row(event.row); row && event.excess > sum.excess)
				sum.example = fmt::format("site {}: {} of {} {}", event.site, event.operand, row->entry, shapeOf(*row));
			sum.excess = std::max(sum.excess, event.excess);
			sum.lostRows = std::max(sum.lostRows, event.lostRows);
			sum.lostColumns = std::max(sum.lostColumns, event.lostColumns);
		}
		for (const auto &note : run.notes) {
			if (note.kind == trace::noteOfPlan) {
				account.plans += note.count;
				account.planMs += std::strtod(note.text.c_str(), nullptr) * static_cast<double>(note.count);
				continue;
			}
			if (note.kind == trace::noteOfRange || note.kind == trace::noteOfScaler ||
			    note.kind == trace::noteOfAudit || note.kind == trace::noteOfGradient ||
			    note.kind == trace::noteOfLayout)
				continue;
			if (note.kind == trace::noteOfRefused) {
				account.notEmulated[note.text] += note.count;
				continue;
			}
			account.notes += note.count;
			if (account.firstNote.empty())
				account.firstNote = note.text.empty() ? note.kind : note.kind + ": " + note.text;
		}
		account.loss.eventsDropped += run.loss.eventsDropped;
		account.loss.callsLost += run.loss.callsLost;
		account.loss.eventsMissing += run.loss.eventsMissing;
		account.loss.singleKernelsMissing += run.loss.singleKernelsMissing;
		account.loss.diskFull |= run.loss.diskFull;
		account.loss.sizeLimit |= run.loss.sizeLimit;
		account.loss.unwritable |= run.loss.unwritable;
		account.loss.tailMissing |= run.loss.tailMissing;
		account.loss.truncated |= run.loss.truncated;
		account.loss.kernelsUnattributed += run.loss.kernelsUnattributed;
		account.loss.invalidTimestamps += run.loss.invalidTimestamps;
		account.loss.kernelsDropped += run.loss.kernelsDropped;
		account.loss.kernelsCapped += run.loss.kernelsCapped;
		account.loss.kernelsExpected += run.loss.kernelsExpected;
		for (int cause = 0; cause < trace::Loss::causes; cause++) {
			account.loss.kernelsMissing[cause] += run.loss.kernelsMissing[cause];
			account.loss.graphsMissing[cause] += run.loss.graphsMissing[cause];
		}
		for (const auto &overhead : run.overhead) {
			const auto same = std::find_if(account.overhead.begin(), account.overhead.end(),
			                               [&](const auto &known) { return known.kind == overhead.kind; });
			if (same == account.overhead.end())
				account.overhead.push_back(overhead);
			else
				same->count += overhead.count, same->ns += overhead.ns;
		}
		if (run.launches) {
			account.launches.kernels += run.launches->kernels;
			account.launches.kernelsReceived += run.launches->kernelsReceived;
			account.launches.graphs += run.launches->graphs;
			account.launches.graphsReceived += run.launches->graphsReceived;
		}
		account.isEmulated |= run.emulated;
		account.hasKernels |= run.hasKernels;
	}
	account.missing = missingTraces(runs);
	account.memoryForWeights = memoryForWeights(runs);
	for (auto &[key, sum] : reasons)
		account.reasons.push_back(std::move(sum));
	for (auto &[kind, sum] : scaler)
		account.scaler.push_back(std::move(sum));
	const bool hasHostTimes = account.all.calls > 0 && isAllOnCpu && !std::isnan(account.all.hostNs);
	account.times = hasHostTimes ? Times::host : !std::isnan(account.all.kernelNs) ? Times::kernels : Times::model;
	account.gain.asRunNs = account.times == Times::host ? account.eligible.hostNs : account.eligible.kernelNs;
	std::stable_sort(account.reasons.begin(), account.reasons.end(), [&](const auto &x, const auto &y) {
		const auto rank = [&](const ReasonSum &each) {
			return std::tuple(each.timeNs(account.times), each.eligible.flops, each.flops, each.calls);
		};
		return rank(x) > rank(y);
	});
	for (const auto &[name, sum] : work)
		account.heaviest.push_back({name.first, name.first + " " + name.second, sum.timeNs(account.times)});
	std::stable_sort(account.heaviest.begin(), account.heaviest.end(), [](auto &x, auto &y) { return x.ns > y.ns; });
	return account;
}

double planNsOf(const trace::Trace &run, const trace::RowInfo &row)
{
	double sum = NAN;
	for (const auto &note : run.notes)
		if (note.kind == trace::noteOfPlan && run.row(note.row) == &row)
			sum = (std::isnan(sum) ? 0 : sum) + 1e6 * std::strtod(note.text.c_str(), nullptr) * double(note.count);
	return sum;
}

void Group::add(const trace::RowInfo &row)
{
	Sum::add(row);
	if (row.eligible)
		eligible.add(row);
	if (row.decision == "lowered")
		lowered.add(row);
}

const std::vector<std::string> groupings = {"op",     "entry",  "shape",  "reason", "caller",
                                            "region", "thread", "device", "rank"};

std::vector<Group> groupsOf(const std::vector<trace::Trace> &runs, const std::string &by)
{
	std::map<std::string, Group> groups;
	for (const auto &run : runs)
		for (auto row : run.rows) {
			if (row.calls == 0)
				continue;
			if (by ==
			    "thread") { // one group for each lane; a thread that begins after another has ended reuses its lane
				for (const auto &part : row.parts) {
					row.calls = part.calls, row.hostNs = part.hostNs;
					for (const auto &lane : run.lanes)
						if (lane.lane == part.lane)
							groups[fmt::format("pid {} thread {}", run.pid, lane.tid)].add(row);
				}
				continue;
			}
			const auto device = row.device < run.devices.size() ? run.devices[row.device] : "";
			groups[by == "op"                       ? row.op
			       : by == "entry"                  ? row.entry
			       : by == "shape"                  ? shapeOf(row)
			       : by == "reason"                 ? row.reason
			       : by == "caller"                 ? row.caller
			       : by == "region"                 ? row.region
			       : by == "rank"                   ? run.rank
			       : isOnCpu(row)                   ? "cpu"
			       : row.device == trace::kNoDevice ? ""
			                                        : fmt::format("{} {}", row.device, device)]
			    .add(row);
		}
	std::vector<Group> sorted;
	for (auto &[key, group] : groups) {
		group.by = by, group.key = key;
		sorted.push_back(std::move(group));
	}
	std::stable_sort(sorted.begin(), sorted.end(), [](auto &x, auto &y) { return x.flops > y.flops; });
	return sorted;
}

std::vector<trace::RowInfo> mergedRows(const std::vector<trace::Trace> &runs)
{
	std::map<std::string, trace::RowInfo> merged;
	for (const auto &run : runs)
		for (const auto &row : run.rows) {
			if (row.calls == 0)
				continue; // replaced by another decision; its calls are counted in the row of the fallback
			const auto key =
			    fmt::format("{}|{}|{}{}|{}|{}|{}|{}|{}|{}", row.entry, shapeOf(row), row.transa, row.transb,
			                row.dtypeIn, row.dtypeCompute, row.dtypeOut, row.decision, row.reason, row.strategy);
			const auto [found, isNew] = merged.emplace(key, row);
			if (isNew)
				continue;
			auto &sum = found->second;
			const double all = double(sum.calls + row.calls);
			sum.estNs += (row.estNs - sum.estNs) * double(row.calls) / all; // the devices of the two rows may differ
			sum.estLoweredNs += (row.estLoweredNs - sum.estLoweredNs) * double(row.calls) / all;
			sum.estBestNs += (row.estBestNs - sum.estBestNs) * double(row.calls) / all;
			sum.calls += row.calls, sum.captured += row.captured, sum.hostNs += row.hostNs;
			addKnown(sum.kernelNs, row.kernelNs), addKnown(sum.castNs, row.castNs);
			sum.audit.add(row.audit);
			sum.weights.insert(sum.weights.end(), row.weights.begin(), row.weights.end());
		}
	std::vector<trace::RowInfo> rows;
	for (auto &[key, row] : merged)
		rows.push_back(std::move(row));
	std::stable_sort(rows.begin(), rows.end(), [](auto &x, auto &y) {
		return std::make_pair(x.flops(), x.calls) > std::make_pair(y.flops(), y.calls);
	});
	return rows;
}

std::optional<policy::Reason> reasonOf(const std::string &word)
{
	for (int i = 0; i < static_cast<int>(policy::Reason::count); i++)
		if (word == policy::name(static_cast<policy::Reason>(i)))
			return static_cast<policy::Reason>(i);
	return std::nullopt;
}

// True if only a cuBLAS math mode lowers such a call. A CPU BLAS has no math modes.
static bool isOfMathMode(policy::Reason reason)
{
	return reason == policy::Reason::triangular || reason == policy::Reason::rank_update ||
	       reason == policy::Reason::symmetric;
}

std::string meaningOf(policy::Reason reason, bool isOnCpu)
{
	const std::string text = policy::meaning(reason);
	return isOnCpu && isOfMathMode(reason) ? text.substr(0, text.find(':')) + ": autoamp lowers only general products"
	                                       : text;
}

std::string adviceOn(policy::Reason reason, bool isOnCpu)
{
	return isOnCpu && isOfMathMode(reason) ? "" : policy::advice(reason);
}

std::string ReasonSum::meaning() const
{
	const auto known = reasonOf(reason);
	if (switches.size() == 1)
		return "switched off by " + *switches.begin();
	return known ? meaningOf(*known, isOnCpu) : "";
}

std::string ReasonSum::advice() const
{
	const auto known = reasonOf(reason);
	if (switches.size() == 1)
		return "unset " + *switches.begin();
	return known ? adviceOn(*known, isOnCpu) : "";
}

std::string shapeOf(const trace::RowInfo &row)
{
	if (row.op == "mv" && row.shape.empty() && row.k == 1)
		return fmt::format("{}x{}{}", row.m, row.n, row.batch == 1 ? "" : fmt::format(" b{}", row.batch));
	return row.shape.empty() ? shape(row.m, row.n, row.k, row.batch) : row.shape;
}

std::string ruleFor(const trace::RowInfo &row)
{
	return fmt::format("[[rule]]\nentry = \"{}\"\nm = {}\nn = {}\nk = {}\nprecision = \"float32\"", row.entry, row.m,
	                   row.n, row.k);
}

std::string configOf(const trace::Trace &run, const char *name)
{
	for (const auto &property : run.config)
		if (configName(property.name) == name)
			return property.value;
	return {};
}

std::string dtypeOf(const trace::Trace &run)
{
	const auto isDefault = [](const trace::PropertyInfo &each) {
		return configName(each.name) == "dtype" && each.origin == "default";
	};
	const auto isBlas = [](const trace::PropertyInfo &each) { return each.name == "blas"; };
	const bool isOnCpu = run.devices.empty() && std::any_of(run.versions.begin(), run.versions.end(), isBlas);
	return isOnCpu && std::any_of(run.config.begin(), run.config.end(), isDefault) ? "bfloat16"
	                                                                               : configOf(run, "dtype");
}

std::string shownSetting(const trace::Trace &run, const std::string &name, const std::string &value)
{
	const auto dtype = dtypeOf(run);
	return value.empty()                                   ? "-"
	       : configName(name) == "dtype" && value != dtype ? fmt::format("{} (CPU: {})", value, dtype)
	                                                       : value;
}

std::string configName(std::string variable)
{
	if (!variable.starts_with("AUTOAMP_"))
		return variable;
	variable.erase(0, 8);
	std::transform(variable.begin(), variable.end(), variable.begin(), [](unsigned char c) { return std::tolower(c); });
	return variable;
}

std::vector<std::string> warnings(const Account &account)
{
	std::vector<std::string> lines;
	if (account.isEmulated)
		lines.push_back(emulatedLine);
	if (!account.whatIf.empty())
		lines.push_back("WHAT IF " + account.whatIf + ": decisions for these settings; nothing was run");
	for (const auto &settings : account.assumed)
		lines.push_back("assumed: " + settings);
	for (const auto &missing : account.missing)
		lines.push_back(textOf(missing));
	return lines;
}

std::string describeLaunches(const Account &account)
{
	const auto &launches = account.launches;
	if (!account.hasKernels || (launches.kernels == 0 && launches.graphs == 0))
		return {};
	auto text = fmt::format("launched: {} outside of graphs, {} received", plural(launches.kernels, "kernel"),
	                        count(launches.kernelsReceived));
	if (launches.graphs > 0)
		text += fmt::format("; {}, kernels of {} received (the number of kernels in a graph is unknown)",
		                    plural(launches.graphs, "graph launch", "graph launches"), count(launches.graphsReceived));
	return text;
}

bool hasLoss(const trace::Loss &loss)
{
	return loss.eventsDropped > 0 || loss.callsLost > 0 || loss.eventsMissing > 0 || loss.singleKernelsMissing > 0 ||
	       loss.diskFull || loss.sizeLimit || loss.unwritable || loss.tailMissing || loss.truncated ||
	       loss.kernelsUnattributed > 0 || loss.kernelsCapped > 0 || loss.invalidTimestamps > 0 ||
	       loss.kernelsDropped > 0 || kernelsMissing(loss) > 0 || graphsMissing(loss) > 0;
}

uint64_t kernelsMissing(const trace::Loss &loss)
{
	return std::accumulate(std::begin(loss.kernelsMissing), std::end(loss.kernelsMissing), uint64_t{0});
}

uint64_t graphsMissing(const trace::Loss &loss)
{
	return std::accumulate(std::begin(loss.graphsMissing), std::end(loss.graphsMissing), uint64_t{0});
}

std::string textOf(const trace::Loss &loss)
{
	std::string text;
	const auto say = [&text](const std::string &part) { text += (text.empty() ? "" : ", ") + part; };
	if (loss.callsLost > 0)
		say(plural(loss.callsLost, "call") + " missing from the totals");
	if (loss.eventsDropped > 0)
		say(plural(loss.eventsDropped, "single event") + " not recorded" +
		    (loss.callsLost > 0 ? "" : " (totals are exact)"));
	if (loss.eventsMissing > 0)
		say(plural(loss.eventsMissing, "single event") + " missing because the file was truncated or replaced" +
		    (loss.callsLost > 0 || loss.tailMissing ? "" : " (totals are exact)"));
	if (loss.singleKernelsMissing > 0)
		say(plural(loss.singleKernelsMissing, "single kernel") + " missing for the same reason");
	if (loss.tailMissing)
		say("the newest events and totals, because the process ran no exit handlers and the tail of its trace is "
		    "missing");
	if (loss.kernelsDropped > 0)
		say(plural(loss.kernelsDropped, "kernel") + " lost by CUPTI");
	constexpr const char *causes[] = {"killed, or ended by _exit", "recording ended early", "unfinished at exit"};
	for (int cause = 0; cause < trace::Loss::causes; cause++) {
		if (loss.kernelsMissing[cause] > 0)
			say(fmt::format("{} of {} ({})", count(loss.kernelsMissing[cause]), plural(loss.kernelsExpected, "kernel"),
			                causes[cause]));
		if (loss.graphsMissing[cause] > 0)
			say(fmt::format("the kernels of {} ({})", plural(loss.graphsMissing[cause], "replayed graph"),
			                causes[cause]));
	}
	if (loss.kernelsCapped > 0)
		say(plural(loss.kernelsCapped, "kernel") + " only in totals (totals are exact)");
	if (loss.kernelsUnattributed > 0)
		say(plural(loss.kernelsUnattributed, "kernel") + " of unknown origin");
	if (loss.invalidTimestamps > 0)
		say(plural(loss.invalidTimestamps, "kernel") + " without a valid time");
	if (loss.diskFull)
		say("the disk was full");
	if (loss.sizeLimit)
		say("the trace reached the limit of file sizes (ulimit -f)");
	if (loss.unwritable)
		say("writing of the file failed before its end");
	if (text.empty() && loss.truncated)
		say("the file was truncated");
	return text;
}

} // namespace autoamp::tool
