#include "tools/autoamp/next.h"

#include "src/policy/decision.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/views.h"
#include "tools/autoamp/whatif.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>

namespace autoamp::tool {

namespace fs = std::filesystem;

using policy::Reason;

std::string adviceOf(const NextStep &next)
{
	auto text = next.title;
	if (!std::isnan(next.savesNs))
		text += fmt::format(" (saves {}, {})", duration(next.savesNs), next.source);
	return next.why.empty() ? text : text + ": " + next.why;
}

namespace {

// Options of `run` for variables; the first name of each is printed.
struct RunOption {
	const char *variable, *name, *alias = "";
};
constexpr RunOption runOptions[] = {{"AUTOAMP_LEVEL", "--level"},
                                    {"AUTOAMP_DTYPE", "--dtype"},
                                    {"AUTOAMP_LISTS", "--lists"},
                                    {"AUTOAMP_CUSTOM_WHITE_LIST", "--white"},
                                    {"AUTOAMP_CONFIG", "--config"},
                                    {"AUTOAMP_CUSTOM_BLACK_LIST", "--black"},
                                    {"AUTOAMP_SCALING", "--scaling"},
                                    {"AUTOAMP_STRATEGY", "--strategy"},
                                    {"AUTOAMP_WEIGHTS", "--weights"},
                                    {"AUTOAMP_TRACE", "--trace"},
                                    {"AUTOAMP_AUDIT", "--audit"},
                                    {"AUTOAMP_TRACE_FILE", "-o", "--trace-file"},
                                    {"AUTOAMP_CAPTURE_RANGE", "--capture-range"},
                                    {"AUTOAMP_DELAY", "--delay"},
                                    {"AUTOAMP_DURATION", "--duration"}};

const RunOption *optionOf(const std::string &variable)
{
	const auto *const found = std::find_if(std::begin(runOptions), std::end(runOptions),
	                                       [&](auto &each) { return each.variable == variable; });
	return found == std::end(runOptions) ? nullptr : found;
}

} // namespace

Prefix prefixOf(const std::vector<Change> &changes)
{
	Prefix prefix;
	for (const auto &[variable, value] : changes)
		if (const auto *const option = optionOf(variable))
			prefix.options += fmt::format(" {} {}", option->name, quoted(value));
		else
			prefix.variables += fmt::format("{}={} ", variable, value.empty() ? "" : quoted(value));
	return prefix;
}

std::vector<std::string> withoutOptions(const std::vector<std::string> &words, const std::vector<Change> &changes)
{
	std::vector<std::string> others;
	for (size_t i = 0; i < words.size(); i++) {
		const auto &word = words[i];
		const auto isIt = [&](const std::string &name) { return !name.empty() && word == name; };
		const auto hasValue = [&](const std::string &name) {
			return !name.empty() && word.starts_with(name.starts_with("--") ? name + "=" : name);
		};
		const RunOption *found = nullptr;
		for (const auto &change : changes)
			if (const auto *const option = optionOf(change.variable);
			    option &&
			    (isIt(option->name) || isIt(option->alias) || hasValue(option->name) || hasValue(option->alias)))
				found = option;
		if (!found)
			others.push_back(word);
		else
			i += isIt(found->name) || isIt(found->alias);
	}
	return others;
}

// The run whose settings the advice is about: that with the most time to save.
static const trace::Trace &mainRun(const Runs &runs)
{
	const auto saving = [](const trace::Trace &run) {
		double ns = 0;
		for (const auto &row : run.rows)
			if (const auto times = modelTimes(row); row.eligible && times.asRunNs > times.bestNs)
				ns += times.asRunNs - times.bestNs;
		return ns;
	};
	return *std::max_element(runs.begin(), runs.end(), [&](auto &x, auto &y) { return saving(x) < saving(y); });
}

// The command line and the settings, which tell launches apart.
static std::string launchOf(const trace::Trace &run)
{
	auto key = run.launched.empty() ? fmt::format("{}", fmt::join(run.command, " ")) : run.launched;
	for (const auto &[name, value, origin] : run.config)
		if (name != "AUTOAMP_TRACE_FILE")
			key += fmt::format("\n{}={}", name, value);
	return key;
}

std::vector<size_t> mainLaunch(const Runs &runs, size_t &launches)
{
	std::set<std::string> keys;
	for (const auto &run : runs)
		keys.insert(launchOf(run));
	launches = keys.size();
	const auto wanted = launchOf(mainRun(runs));
	std::vector<size_t> places;
	for (size_t i = 0; i < runs.size(); i++)
		if (launchOf(runs[i]) == wanted)
			places.push_back(i);
	return places;
}

Again againFrom(const Runs &runs)
{
	static constexpr const char *ofThisRun[] = {"AUTOAMP_TRACE_FILE", "AUTOAMP_DIR"}; // the new run has its own
	const auto &run = mainRun(runs);
	const bool isOnCpu = std::any_of(run.rows.begin(), run.rows.end(), [](auto &row) { return tool::isOnCpu(row); });
	const std::string device = run.emulated                     ? " --device emulated"
	                           : isOnCpu && run.devices.empty() ? " --device cpu"
	                                                            : "";
	// Relative paths among the words are relative to the folder of the run.
	std::error_code ignored;
	const bool isElsewhere = fs::is_directory(run.folder, ignored) && !fs::equivalent(run.folder, ".", ignored);
	const std::string cd = isElsewhere ? fmt::format("cd {} && ", quoted(run.folder)) : "";
	const bool isPath = invocation.find('/') != std::string::npos;
	const std::string tool = isElsewhere && isPath ? fs::absolute(invocation, ignored).string() : invocation;
	std::string command = run.launched.empty() ? "" : " " + run.launched; // it may start several programs
	for (size_t i = 0; i < run.command.size() && run.launched.empty(); i++)
		command += " " + quoted(i == 0 && !isElsewhere ? here(run.command[i]) : run.command[i]);
	if (command.empty())
		command = " " + quoted(run.program);
	std::vector<Change> settings;
	for (const auto &[name, value, origin] : run.config)
		if (((origin.starts_with("--") && origin != "--what-if") || origin.starts_with("environment")) &&
		    !value.empty() && std::find(std::begin(ofThisRun), std::end(ofThisRun), name) == std::end(ofThisRun))
			settings.push_back({name, value});
	return [device, command, settings, cd, tool](const std::vector<Change> &changes) {
		auto all = settings;
		for (const auto &change : changes) {
			std::erase_if(all, [&](auto &setting) { return setting.variable == change.variable; });
			all.push_back(change);
		}
		const auto prefix = prefixOf(all);
		return fmt::format("{}{}{} run{}{} --{}", cd, prefix.variables, tool, device, prefix.options, command);
	};
}

namespace {

// Time that a setting costs, by the model. Each row has one cause.
enum class Cause { level, strategy, rule, reason, count };

struct Saving {
	double ns = 0;
	uint64_t calls = 0;
};

struct ReasonSaving : Saving {
	std::string op; // with the largest saving
	double opNs = 0;
};

struct Facts {
	const Runs &runs;
	const Account &account;
	const Again &again;
	const std::string &report;
	std::array<Saving, static_cast<size_t>(Cause::count)> savings = {};
	std::map<Reason, ReasonSaving> reasons = {}; // of kept calls and fallbacks, if they were lowered

	const Saving &saving(Cause cause) const { return savings[static_cast<size_t>(cause)]; }
	bool isLarge(double ns) const { return ns > 0 && ns >= leastSaving * account.gain.model.asRunNs; }
	std::string setting(const char *name) const { return configOf(mainRun(runs), name); }
	const ScalerSum *events(const char *kind) const
	{
		for (const auto &sum : account.scaler)
			if (sum.kind == kind && sum.count > 0)
				return &sum;
		return nullptr;
	}
};

Cause causeOf(const trace::RowInfo &row, std::optional<Reason> reason)
{
	if (row.decision == policy::name(policy::Verdict::observed))
		return Cause::level;
	if (row.decision == policy::name(policy::Verdict::fallback) || (reason && policy::isShortage(*reason)))
		return Cause::reason;
	return reason == Reason::rule ? Cause::rule : Cause::strategy;
}

Facts factsOf(const Runs &runs, const Account &account, const Again &again, const std::string &report)
{
	Facts facts = {runs, account, again, report};
	for (const auto &run : runs)
		for (const auto &row : run.rows) {
			const auto times = modelTimes(row);
			if (!row.eligible || row.calls == 0 || std::isnan(times.asRunNs) || std::isnan(times.bestNs))
				continue;
			const auto reason = reasonOf(row.reason);
			auto &saving = facts.savings[static_cast<size_t>(causeOf(row, reason))];
			if (const double ns = times.asRunNs - times.bestNs; ns > 0)
				saving.ns += ns, saving.calls += row.calls;
			const bool isLowered = row.decision == policy::name(policy::Verdict::lowered);
			const double lower =
			    std::isnan(row.estBestNs) ? row.estLoweredNs : std::fmin(row.estBestNs, row.estLoweredNs);
			const double ns = isLowered ? times.asRunNs - times.bestNs : double(row.calls) * (row.estNs - lower);
			if (!reason || !(ns > 0) || (isLowered && !policy::isShortage(*reason)))
				continue;
			auto &sum = facts.reasons[*reason];
			sum.ns += ns, sum.calls += row.calls;
			if (ns > sum.opNs)
				sum.opNs = ns, sum.op = row.op;
		}
	return facts;
}

using Choice = std::optional<NextStep>;

NextStep step(std::string title, std::string why, std::string command, double savesNs = NAN, std::string source = {})
{
	return {std::move(title), std::move(why), std::move(command), savesNs, std::move(source)};
}

Choice whatIf(const Facts &facts)
{
	if (facts.account.whatIf.empty())
		return {};
	std::vector<Change> changes;
	for (const auto &[variable, value] : settingsOf(facts.account.whatIf))
		if (variable != "AUTOAMP_GPU_MODEL" && variable != "AUTOAMP_CPU_MODEL")
			changes.push_back({variable, value});
	if (changes.empty())
		return {};
	if (const auto &model = facts.account.gain.model; facts.account.gain.isKnown() && model.gain() < 0.995)
		return step("do not use these settings", "the cost model expects " + ratioText(model.gain()),
		            facts.report + " --report reasons");
	return step("run the program with these settings", "this report is calculated", facts.again(changes));
}

Choice recordAgain(const Facts &facts)
{
	const auto &loss = facts.account.loss;
	const bool isEmpty = loss.truncated && facts.account.all.calls == 0;
	if (loss.callsLost == 0 && !loss.tailMissing && !loss.unwritable && !isEmpty)
		return {};
	return step("record the run again, because calls are missing from the totals", "lost: " + textOf(loss),
	            facts.again({{"AUTOAMP_TRACE_FILE", "/tmp/%e.%p.aat"}}));
}

// Events of the scaler that make results less accurate, with the setting that avoids them.
Choice protectValues(const Facts &facts)
{
	static const struct {
		const char *kind, *title, *why;
		Change change;
	} remedies[] = {
	    {"overflow",
	     "scale float16 operands",
	     "float16 overflowed because scaling is off",
	     {"AUTOAMP_SCALING", "auto"}},
	    {"underflow", "use bfloat16", "float16 lost small elements that matter", {"AUTOAMP_DTYPE", "bfloat16"}},
	    {"uncured",
	     "use bfloat16",
	     "float16 lost small elements and could not be repaired",
	     {"AUTOAMP_DTYPE", "bfloat16"}},
	    {"scale_range",
	     "use bfloat16",
	     "no scale brings all values into the range of float16",
	     {"AUTOAMP_DTYPE", "bfloat16"}},
	    {"clamped",
	     "use float16",
	     "values beyond the largest bfloat16 were replaced by it",
	     {"AUTOAMP_DTYPE", "float16"}}};
	for (const auto &remedy : remedies)
		if (const auto *events = facts.events(remedy.kind))
			return step(remedy.title, fmt::format("{} ({})", remedy.why, plural(events->count, "event")),
			            facts.again({remedy.change}));
	return {};
}

Choice raiseLevel(const Facts &facts)
{
	const auto &would = facts.account.wouldLower;
	const auto &saving = facts.saving(Cause::level);
	const bool isKnown = facts.account.gain.model.calls > 0;
	if (would.calls == 0 && isKnown && facts.isLarge(saving.ns)) // O0 with AUTOAMP_STRATEGY=fp32
		return step("let the cost model choose the strategy",
		            "level O0 and strategy " + facts.setting("strategy") + " change no call",
		            facts.again({{"AUTOAMP_LEVEL", "O1"}, {"AUTOAMP_STRATEGY", "auto"}}), saving.ns, "model");
	if (would.calls == 0 ||
	    (isKnown ? !facts.isLarge(saving.ns) : would.flops < leastSaving * facts.account.eligible.flops))
		return {};
	return step(fmt::format("lower {}", plural(would.calls, "fp32 product")),
	            fmt::format("level O0 changes no call; O1 lowers {} of the fp32 FLOP",
	                        share(would.flops, facts.account.eligible.flops)),
	            facts.again({{"AUTOAMP_LEVEL", "O1"}}), isKnown ? saving.ns : NAN, isKnown ? "model" : "");
}

// The cost model instead of the rules of AUTOAMP_CONFIG. The other settings of the file stay.
std::vector<Change> withoutRules(const trace::Trace &run)
{
	const auto config = configOf(run, "config");
	std::vector<Change> changes = {{"AUTOAMP_CONFIG", ""}};
	for (const auto &[name, value, origin] : run.config)
		if (origin.starts_with(config + ":"))
			changes.push_back({name, value});
	std::erase_if(changes, [](auto &change) { return change.variable == "AUTOAMP_STRATEGY"; });
	if (const auto strategy = configOf(run, "strategy"); !strategy.empty() && strategy != "auto")
		changes.push_back({"AUTOAMP_STRATEGY", "auto"});
	return changes;
}

Choice chooseStrategy(const Facts &facts)
{
	const auto strategy = facts.setting("strategy");
	const auto &saving = facts.saving(Cause::strategy);
	if (strategy.empty() || strategy == "auto" || !facts.isLarge(saving.ns))
		return {};
	const auto why =
	    fmt::format("--strategy {} is slower than the best strategy for {}", strategy, plural(saving.calls, "call"));
	// The best strategy is that without the rules that lower, which `fp32` has hidden.
	const auto &run = mainRun(facts.runs);
	const bool isHidden = strategy == "fp32" && !std::all_of(run.rules.begin(), run.rules.end(), isOfFp32);
	if (!isHidden)
		return step("let the cost model choose the strategy", why, facts.again({{"AUTOAMP_STRATEGY", "auto"}}),
		            saving.ns, "model");
	if (facts.setting("config").empty()) // a file of the user's folder
		return step("let the cost model choose the strategy", why, facts.again({{"AUTOAMP_STRATEGY", "auto"}}));
	return step("let the cost model choose the strategy, without the rules", why, facts.again(withoutRules(run)),
	            saving.ns, "model");
}

Choice dropRule(const Facts &facts)
{
	const auto &saving = facts.saving(Cause::rule);
	const auto &run = mainRun(facts.runs);
	const auto config = facts.setting("config");
	if ((config.empty() && run.rules.empty()) || !facts.isLarge(saving.ns))
		return {};
	const auto why =
	    fmt::format("for {}, another precision than that of a rule is faster", plural(saving.calls, "call"));
	if (config.empty()) {                     // a file of the user's folder, which only the user can change
		auto file = run.rules.front().origin; // FILE:LINE:COLUMN
		for (int i = 0; i < 2; i++)
			file = file.substr(0, file.rfind(':'));
		return step("change the rules of " + here(file), why, facts.report + " --report ops", saving.ns, "model");
	}
	return step("run without the rules of " + here(config), why, facts.again(withoutRules(run)), saving.ns, "model");
}

// Settings that allow calls to be lowered which were kept, or failed to be lowered.
Choice allowMore(const Facts &facts)
{
	static const struct {
		Reason reason;
		const char *title;
		Change change; // value "": the op with the largest saving
	} remedies[] = {{Reason::memory_budget, "allow more memory", {"AUTOAMP_MEMORY", "8G"}},
	                {Reason::engine_failed, "see why the library call failed", {"AUTOAMP_LOG", "info"}},
	                {Reason::no_fp32_output, "use bfloat16", {"AUTOAMP_DTYPE", "bfloat16"}},
	                {Reason::uncured, "use bfloat16", {"AUTOAMP_DTYPE", "bfloat16"}},
	                {Reason::strict_scaling, "use bfloat16", {"AUTOAMP_DTYPE", "bfloat16"}},
	                {Reason::gpu_too_old, "use float16", {"AUTOAMP_DTYPE", "float16"}},
	                {Reason::region_disabled, "lower calls outside of regions", {"AUTOAMP_SCOPE", "process"}},
	                {Reason::black_list, "lower an op of the fp32 list", {"AUTOAMP_CUSTOM_WHITE_LIST", ""}},
	                {Reason::unlisted, "lower an op that is on no list", {"AUTOAMP_CUSTOM_WHITE_LIST", ""}}};
	NextStep best;
	double most = 0;
	for (const auto &remedy : remedies) {
		const auto found = facts.reasons.find(remedy.reason);
		if (found == facts.reasons.end())
			continue;
		const auto &saving = found->second;
		Change change = remedy.change;
		if (change.value.empty())
			change.value = saving.op;
		const bool isSet = facts.setting(configName(change.variable).c_str()) == change.value;
		// A region that the program itself disables stays disabled.
		const bool isOfProgram = remedy.reason == Reason::region_disabled && facts.setting("scope") != "regions";
		if (isSet || isOfProgram || change.value.empty() || !facts.isLarge(saving.ns) || saving.ns <= most)
			continue;
		most = saving.ns;
		best = {remedy.title,
		        fmt::format("{} ({}): {}", plural(saving.calls, "call"), policy::name(remedy.reason),
		                    policy::meaning(remedy.reason)),
		        facts.again({change}), saving.ns, "model"};
	}
	return most > 0 ? Choice(best) : Choice();
}

Choice keepWeights(const Facts &facts)
{
	const auto &estimate = facts.account.weightsEstimate;
	const double ofUnchanged = estimate.unchangedSavedNs();
	if (facts.isLarge(ofUnchanged) && ofUnchanged >= estimate.savedNs() &&
	    ofUnchanged >= facts.saving(Cause::strategy).ns)
		return step(
		    "keep converted weights",
		    fmt::format(
		        "{} ran unchanged, because a conversion at each call would not pay; their weights may be constant",
		        plural(estimate.unchangedCalls, "product")),
		    facts.again({{"AUTOAMP_WEIGHTS", "checked"}}), ofUnchanged, "model");
	if (!estimate.isLarge() || !facts.isLarge(estimate.savedNs()) ||
	    estimate.savedNs() < facts.saving(Cause::strategy).ns)
		return {};
	return step("keep converted weights",
	            fmt::format("{} of the conversions of operands of at least 1 MiB repeat",
	                        share(double(estimate.repeated), double(estimate.compared))),
	            facts.again({{"AUTOAMP_WEIGHTS", "checked"}}), estimate.savedNs(), "model");
}

// Products of a CPU BLAS with few rows and a large weight, in a run that keeps no copies. How fast a copy would be is
// not recorded, only how long the products take without one.
Choice keepWeightsOnCpu(const Facts &facts)
{
	if (facts.setting("weights") != "off")
		return {};
	double ns = 0;
	uint64_t calls = 0;
	for (const auto &run : facts.runs)
		for (const auto &row : run.rows) {
			const auto outer = std::max(row.m, row.n), rows = std::min(row.m, row.n);
			const bool hasWeight = row.batch == 1 && rows <= 256 && 2 * rows <= outer && outer * row.k >= 1 << 18;
			const auto reason = reasonOf(row.reason);
			const bool isOpen = row.decision == policy::name(policy::Verdict::lowered) ||
			                    reason == Reason::not_profitable || reason == Reason::too_small;
			if (isOnCpu(row) && row.eligible && hasWeight && isOpen)
				ns += row.hostNs, calls += row.calls;
		}
	if (facts.account.times != Times::host || !(ns >= leastSaving * facts.account.gain.asRunNs))
		return {};
	return step("keep converted weights",
	            fmt::format("{} with few rows, {} of the time, run without copies of their weights",
	                        plural(calls, "product"), share(ns, facts.account.gain.asRunNs)),
	            facts.again({{"AUTOAMP_WEIGHTS", "watched"}}));
}

// Calls that were lowered for the sake of copies that the run then did not have. For products of a CPU BLAS, the time
// with copies is unknown.
Choice mendWeights(const Facts &facts)
{
	const auto &account = facts.account;
	const bool isOnCpu = account.times == Times::host;
	const double ns = account.gain.model.asRunNs - account.gain.model.bestNs;
	if (!isOnCpu && (account.weights.served >= account.weights.converted || !facts.isLarge(ns)))
		return {};
	if (account.memoryForWeights > 0)
		return step("allow more memory for converted weights",
		            fmt::format("there was none for {}", plural(account.weights.refused, "copy", "copies")),
		            facts.again({{"AUTOAMP_MEMORY", fmt::format("{}M", account.memoryForWeights)}}));
	if (isOnCpu)
		return {};
	// Another strategy than `auto` lowers these calls with and without copies.
	const auto strategy = facts.setting("strategy");
	if (const auto mode = facts.setting("weights");
	    (mode != "checked" && mode != "frozen") || (!strategy.empty() && strategy != "auto"))
		return {};
	return step(
	    "convert weights at each call, or not at all",
	    fmt::format("copies replaced only {} of the conversions",
	                share(double(account.weights.served), double(account.weights.served + account.weights.converted))),
	    facts.again({{"AUTOAMP_WEIGHTS", "off"}}), ns, "model");
}

Choice checkWeights(const Facts &facts)
{
	const auto &account = facts.account;
	if (account.weights.changed > 0)
		return step(
		    "check weights before each product",
		    fmt::format("weights of AUTOAMP_WEIGHTS=frozen changed ({})", plural(account.weights.changed, "event")),
		    facts.again({{"AUTOAMP_WEIGHTS", "checked"}}));
	return {};
}

// A measured error that rounding of the operands does not explain.
Choice avoidError(const Facts &facts)
{
	constexpr double unusual = 0.05; // rounding to bfloat16 causes about 0.002
	const auto [all, worst] = auditSum(facts.runs);
	if (!worst || !(all.most >= unusual))
		return {};
	const auto what = fmt::format("an audited {} {} had an error of {:.1g}", worst->op, shapeOf(*worst), all.most);
	if (facts.setting("weights") == "frozen")
		return step("check weights before each product",
		            what + "; AUTOAMP_WEIGHTS=frozen uses old copies of weights that change",
		            facts.again({{"AUTOAMP_WEIGHTS", isOnCpu(*worst) ? "watched" : "checked"}}));
	const auto others = facts.setting("custom_black_list");
	return step(fmt::format("keep {} in fp32", worst->op), what + "; rounding to bfloat16 usually causes about 0.002",
	            facts.again({{"AUTOAMP_CUSTOM_BLACK_LIST", others + (others.empty() ? "" : ",") + worst->op}}));
}

bool isAudited(const Facts &facts)
{
	const auto audit = facts.setting("audit");
	return (!audit.empty() && audit != "0") || auditSum(facts.runs).all.audited > 0;
}

Choice measure(const Facts &facts)
{
	const auto &account = facts.account;
	if (account.lowered.calls == 0 || account.gain.isMeasured())
		return {};
	if (account.times == Times::host && !isAudited(facts))
		return step("measure the gain", "some lowered calls are also computed in fp32 and timed",
		            facts.again({{"AUTOAMP_AUDIT", "0.02"}}));
	if (account.times == Times::model && !account.isEmulated && !account.hasKernels)
		return step("measure the kernels", "so far, all times are estimates of the cost model",
		            facts.again({{"AUTOAMP_TRACE", "kernels"}}));
	return {};
}

// Audited calls that were slower than the same calls in fp32. Few of them prove little.
Choice avoidLoss(const Facts &facts)
{
	constexpr uint64_t enough = 100;
	const auto &gain = facts.account.gain;
	const double lost = gain.measured.asRunNs - gain.measured.asAskedNs;
	if (!gain.isMeasured() || !(lost >= leastSaving * gain.measured.asRunNs))
		return {};
	const auto why = fmt::format("{} lowered by autoamp had only {:.2f} of the speed in fp32",
	                             plural(gain.audited, "audited call"), gain.measured.gain());
	if (gain.audited < enough && gain.audited < gain.lowered)
		return step("measure more calls", why, facts.again({{"AUTOAMP_AUDIT", "1"}}));
	return step("run in fp32", why, facts.again({{"AUTOAMP_STRATEGY", "fp32"}}), lost, "measured");
}

// Nothing is left to gain: the errors remain to be known.
Choice readMore(const Facts &facts)
{
	const auto &account = facts.account;
	if (account.eligible.calls == 0)
		return step("see the reasons", "there is no fp32 product to lower", facts.report + " --report reasons");
	const auto why =
	    !account.gain.isKnown()
	        ? "the cost model has no estimate"
	        : fmt::format("with this dtype, these lists and rules, no strategy saves {:.0f} % of the time{}",
	                      100 * leastSaving, account.isEmulated ? "; a run on a GPU measures the time" : "");
	if (account.lowered.calls == 0)
		return step("keep these settings", why, facts.report + " --report ops");
	if (isAudited(facts))
		return step("keep these settings", why, facts.report + " --report audit");
	return step("keep these settings, and measure the errors", why, facts.again({{"AUTOAMP_AUDIT", "0.02"}}));
}

} // namespace

NextStep chooseNext(const Runs &runs, const Account &account, const Again &again, const std::string &report)
{
	const auto facts = factsOf(runs, account, again, report);
	for (const auto choose :
	     {whatIf, recordAgain, protectValues, checkWeights, avoidError, raiseLevel, avoidLoss, keepWeights,
	      keepWeightsOnCpu, mendWeights, chooseStrategy, dropRule, allowMore, measure, readMore})
		if (auto next = choose(facts))
			return *next;
	return {}; // readMore always has one
}

} // namespace autoamp::tool
