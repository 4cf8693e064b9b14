#include "tools/autoamp/whatif.h"

#include "src/config/read_options.h"
#include "src/policy/cpu_calibration.h"
#include "src/policy/decide.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/explain.h"
#include "tools/autoamp/text.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <regex>
#include <sstream>
#include <tuple>

namespace autoamp::tool {

namespace {

// True if the reason depends on settings. Other reasons depend on the call, its place or the machine, and stay.
bool isOfSettings(const std::string &word)
{
	using enum policy::Reason;
	static constexpr policy::Reason ours[] = {
	    white_list, black_list, custom_white_list, custom_black_list, rule,           unlisted,       promote,
	    banned,     disabled,   too_small,         not_profitable,    no_fp32_output, strict_scaling, weight_not_kept};
	const auto known = reasonOf(word);
	return known && std::find(std::begin(ours), std::end(ours), *known) != std::end(ours);
}

// True if the option can change a decision.
bool decides(const policy::OptionRow &row)
{
	using enum policy::Option;
	static constexpr policy::Option others[] = {memory,    trace,    directory, traceFile, traceMaxSize,
	                                            cuptiPath, log,      hookDlsym, config,    captureRange,
	                                            delay,     duration, audit};
	return std::none_of(std::begin(others), std::end(others), [&](policy::Option other) {
		return &policy::optionTable()[static_cast<size_t>(other)] == &row;
	});
}

// The recorded configuration of the run, overridden by these settings. isLowering: with the rules that lower calls.
policy::Options optionsOf(const trace::Trace &run, const Settings &settings, std::span<const char *const> entries,
                          bool isLowering = true)
{
	std::vector<std::string> texts;
	const auto isSetting = [](const std::string &name) {
		const auto table = policy::optionTable();
		return name == policy::tf32Override || std::any_of(table.begin(), table.end(), [&](auto &row) {
			       return name == row.name && !policy::keyOf(row).empty();
		       });
	};
	for (const auto &[name, value] : settings)
		texts.push_back(name + "=" + value);
	// The default type is bfloat16 on a CPU, and a type that was set is not (docs/cpu.md).
	const auto isDefaultType = [](const trace::PropertyInfo &each) {
		return each.name == "AUTOAMP_DTYPE" && each.origin == "default";
	};
	for (const auto &property : run.config)
		if (!property.value.empty() && isSetting(property.name) && !isDefaultType(property) &&
		    std::none_of(settings.begin(), settings.end(), [&](auto &set) { return set.first == property.name; }))
			texts.push_back(property.name + "=" + property.value);
	std::vector<const char *> environment;
	for (const auto &text : texts)
		environment.push_back(text.c_str());
	environment.push_back(nullptr);
	std::string rules;
	for (const auto &rule : run.rules)
		if (isLowering || isOfFp32(rule))
			rules += (rules.empty() ? "" : ", ") + ("{" + rule.value + "}");
	const policy::ConfigFile file = {run.path, "rule = [" + rules + "]"};
	const auto parsed = policy::parseOptions(
	    environment.data(), entries, rules.empty() ? std::span<const policy::ConfigFile>() : std::span(&file, 1));
	if (!parsed.error.empty())
		fail(Status::wrong, "report: --what-if: {}", std::regex_replace(parsed.error, std::regex("\\bAUTOAMP_"), ""));
	return parsed.options;
}

// The devices that ran the calls of a run, or the models of the settings if they name some.
class Devices
{
public:
	Devices(const trace::Trace &run, bool isModelSet) : run_(run), isModelSet_(isModelSet)
	{
		for (size_t i = 0; i < std::size(cpus_); ++i) {
			auto &cpu = cpus_[i] = policy::builtInCpu(static_cast<policy::CpuModel>(i));
			if (static_cast<policy::CpuModel>(i) == policy::CpuModel::automatic)
				policy::readCalibration(run.cpuConstants, "", cpu); // an older trace has none: those of a Zen 4
			cpu.hasBfloat16 = true;
			for (const auto &version : run.versions)
				if (version.name == op::name(op::Library::blas))
					cpu.librarySpeed = policy::librarySpeed(cpu, version.value);
		}
	}

	policy::Device of(const trace::RowInfo &row, const policy::Options &options) const
	{
		const bool isKnown = row.device < run_.devices.size();
		const int recorded = isKnown ? run_.capabilities[row.device] : 0;
		const auto &model =
		    policy::gpuConstants(options.gpuModel, isKnown ? run_.devices[row.device].c_str() : "", recorded);
		policy::Device device = {&model, recorded > 0 && !isModelSet_ ? recorded : model.computeCapability, true};
		if (isOnCpu(row))
			device.cpu = &cpus_[static_cast<size_t>(options.cpuModel)];
		return device;
	}

private:
	const trace::Trace &run_;
	bool isModelSet_;
	policy::Cpu cpus_[4]; // by CpuModel, one thread; automatic: that of the run
};

// Writes the settings that the new decisions assume into the run's configuration. Returns them in one line.
std::string assume(trace::Trace &run, const policy::Options &options, const Settings &settings)
{
	std::string line;
	const auto table = policy::optionTable();
	for (size_t i = 0; i < table.size(); i++) {
		if (!decides(table[i]))
			continue;
		const auto &value = options.value[i];
		if (!value.empty())
			line += fmt::format("{}{} {}", line.empty() ? "" : ", ", configName(table[i].name), value);
		auto known = std::find_if(run.config.begin(), run.config.end(),
		                          [&](auto &property) { return property.name == table[i].name; });
		const bool isTyped =
		    std::any_of(settings.begin(), settings.end(), [&](auto &set) { return set.first == table[i].name; });
		if (known == run.config.end())
			run.config.push_back({table[i].name, value, isTyped ? "--what-if" : "default"});
		else if (isTyped)
			known->value = value, known->origin = "--what-if";
	}
	return line + (run.rules.empty() ? "" : fmt::format(", {}", plural(run.rules.size(), "rule")));
}

// True if the vendor library had no engine for the new decision when the call ran. Both 16-bit types have the same
// engines for a graph, and a row does not contain the graph.
bool isRefused(const trace::RowInfo &row, const policy::Decision &decision)
{
	return row.decision == policy::name(policy::Verdict::fallback) &&
	       row.reason == policy::name(policy::Reason::no_fp32_output) && decision.verdict == policy::Verdict::lowered &&
	       decision.strategy == policy::Strategy::cast;
}

bool isSame(const policy::Decision &x, const policy::Decision &y)
{
	return std::tie(x.verdict, x.reason, x.strategy, x.precision) ==
	       std::tie(y.verdict, y.reason, y.strategy, y.precision);
}

// The best way of a row according to its own estimates. Those of a kept call do not count: the cost model kept it, or
// it must stay in fp32.
void takeRecordedBest(trace::RowInfo &row, const std::string &dtype)
{
	const bool isLowered = row.decision == policy::name(policy::Verdict::lowered);
	const bool isOpen = (row.decision == policy::name(policy::Verdict::observed) && row.strategy != "fp32") ||
	                    row.decision == policy::name(policy::Verdict::fallback) ||
	                    row.reason == policy::name(policy::Reason::disabled);
	row.estBestNs = row.estNs, row.bestPrecision = row.dtypeAsked;
	if ((isLowered || isOpen) && row.estLoweredNs < row.estNs) {
		row.estBestNs = row.estLoweredNs;
		row.bestPrecision = isLowered ? row.dtypeCompute : row.strategy == "tf32" ? row.strategy : dtype;
	}
}

// True if this program's model gives the recorded estimate: only then its other estimates are comparable.
bool isSameModel(const trace::RowInfo &row, const policy::Decision &decision)
{
	return decision.estimate > 0 && std::abs(decision.estimate - row.estNs) <= 0.01 * row.estNs;
}

bool isCastOnGpu(const trace::RowInfo &row)
{
	return row.decision == policy::name(policy::Verdict::lowered) &&
	       row.strategy == policy::name(policy::Strategy::cast) && !isOnCpu(row) && row.calls > 0;
}

// Adds the reasons why rows that were converted could keep no copy, which their calls do not record.
void findUnkept(trace::Trace &run, const policy::Options &recorded, std::span<const char *const> entries,
                const Devices &devices)
{
	for (auto &row : run.rows) {
		if (!isCastOnGpu(row) || !row.weights.empty())
			continue;
		const auto decision = decideAgain(row, devices.of(row, recorded), recorded, entries);
		if (!decision || decision->weights != policy::Weights::off)
			continue;
		const auto obstacle = decision->weightObstacle;
		const char *const reason = obstacle == policy::WeightObstacle::none
		                               ? policy::name(policy::Reason::not_profitable)
		                           : obstacle == policy::WeightObstacle::off ? "weights_off"
		                                                                     : policy::name(obstacle);
		row.weights.push_back({.how = {}, .reason = reason, .converted = row.calls});
	}
}

// The recorded estimate of a call that may use a copy assumes one at each call. Without one, it takes the time of a
// conversion.
void spreadKept(trace::Trace &run, const policy::Options &recorded, std::span<const char *const> entries,
                const Devices &devices)
{
	const auto options = optionsOf(run, {{"AUTOAMP_WEIGHTS", "off"}, {"AUTOAMP_STRATEGY", "cast"}}, entries, false);
	for (auto &row : run.rows) {
		const double share = keptShare(row);
		if (!isCastOnGpu(row) || !(share < 1))
			continue;
		const auto device = devices.of(row, options);
		const auto kept = decideAgain(row, device, recorded, entries),
		           converted = decideAgain(row, device, options, entries);
		if (kept && converted && kept->weights != policy::Weights::off && isSameModel(row, *converted) &&
		    converted->estimateLowered > row.estLoweredNs)
			row.estLoweredNs = share * row.estLoweredNs + (1 - share) * double(converted->estimateLowered);
	}
}

// The time of a call with AUTOAMP_WEIGHTS=checked, for the rows whose operands were compared without it, and for those
// that ran unchanged because a conversion at each call does not pay.
void findChecked(trace::Trace &run, std::span<const char *const> entries, const Devices &devices)
{
	const auto recorded = optionsOf(run, {}, entries);
	if (recorded.weights != policy::Weights::off) {
		spreadKept(run, recorded, entries, devices);
		return findUnkept(run, recorded, entries, devices);
	}
	auto options = recorded;
	options.weights = policy::Weights::checked;
	for (auto &row : run.rows) {
		const bool isCompared = std::any_of(row.weights.begin(), row.weights.end(), [](auto &weights) {
			return weights.reason == "weights_off" && weights.compared > 0;
		});
		const bool isIdle = row.reason == policy::name(policy::Reason::not_profitable);
		if (!(isCompared || isIdle) || row.calls == 0)
			continue;
		const auto device = devices.of(row, options);
		const auto converted = decideAgain(row, device, recorded, entries),
		           checked = decideAgain(row, device, options, entries);
		if (converted && checked && isSameModel(row, *converted) &&
		    (isCompared || checked->weights == policy::Weights::checked))
			row.estCheckedNs = std::fmin(checked->estimateLowered, row.estLoweredNs);
	}
}

} // namespace

bool isOfFp32(const trace::PropertyInfo &rule)
{
	return rule.value.find("precision = \"float32\"") != std::string::npos;
}

Settings settingsOf(const std::string &text)
{
	Settings settings;
	std::istringstream parts(text);
	for (std::string part; std::getline(parts, part, ',');) {
		const auto equals = part.find('=');
		if (equals == std::string::npos && !settings.empty()) { // continues a list: CUSTOM_BLACK_LIST=mm,bmm
			settings.back().second += "," + part;
			continue;
		}
		if (equals == 0 || equals == std::string::npos)
			fail(Status::wrong, "report: --what-if '{}': expected NAME=VALUE,... as in LEVEL=O2,DTYPE=bfloat16", text);
		auto name = part.substr(0, equals);
		std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
		settings.emplace_back("AUTOAMP_" + name, part.substr(equals + 1));
		const auto isNamed = [&](const char *option) { return settings.back().first == option; };
		const auto table = policy::optionTable();
		if (policy::emulatorSetting(settings.back().first) ||
		    std::any_of(table.begin(), table.end(), [&](auto &row) { return !decides(row) && isNamed(row.name); }))
			fail(Status::wrong, "report: --what-if: {} does not affect decisions", name);
		if (std::count_if(settings.begin(), settings.end(), [&](auto &set) { return isNamed(set.first.c_str()); }) > 1)
			fail(Status::wrong, "report: --what-if: {} is given twice", name);
	}
	if (settings.empty() || text.ends_with(','))
		fail(Status::wrong, "report: --what-if '{}': expected NAME=VALUE,... as in LEVEL=O2,DTYPE=bfloat16", text);
	return settings;
}

void findBest(Runs &runs, std::span<const char *const> entries)
{
	for (auto &run : runs) {
		const bool isModelSet = std::any_of(run.config.begin(), run.config.end(), [](const auto &each) {
			return each.name == "AUTOAMP_GPU_MODEL" && each.origin == "--what-if";
		});
		const Devices devices(run, isModelSet);
		policy::Options options;
		bool isReadable = true;
		try {
			options = optionsOf(run, {{"AUTOAMP_STRATEGY", "auto"}}, entries, false);
			findChecked(run, entries, devices);
		} catch (const Failure &) { // a setting of another version
			isReadable = false;
		}
		for (auto &row : run.rows) {
			if (!row.eligible || row.calls == 0 || std::isnan(row.estNs))
				continue;
			takeRecordedBest(row, dtypeOf(run));
			const auto reason = reasonOf(row.reason);
			const bool isOpen = isOfSettings(row.reason) || (reason && policy::isShortage(*reason));
			if (!isReadable || isOnCpu(row) || !isOpen)
				continue;
			const auto best = decideAgain(row, devices.of(row, options), options, entries);
			if (!best || !isSameModel(row, *best))
				continue;
			const bool isLowered = row.decision == policy::name(policy::Verdict::lowered);
			// No strategy has more copies than the run had.
			const bool isKept = best->weights != policy::Weights::off && isCastOnGpu(row);
			const double lowered = isKept ? row.estLoweredNs : double(best->estimateLowered);
			const bool isLower = best->strategy != policy::Strategy::fp32 && !(isKept && lowered > row.estNs);
			row.estBestNs = isLower ? lowered : best->estimate;
			row.bestPrecision = !isLower                                   ? row.dtypeAsked
			                    : best->strategy == policy::Strategy::tf32 ? op::name(op::Dtype::tf32)
			                                                               : op::name(options.dtype);
			const bool wouldBeLowered = row.decision == policy::name(policy::Verdict::observed) &&
			                            row.strategy != policy::name(policy::Strategy::fp32);
			if ((isLowered || wouldBeLowered) && row.estLoweredNs < row.estBestNs) // `auto` needs a minimum gain
				row.estBestNs = row.estLoweredNs, row.bestPrecision = row.dtypeCompute;
		}
	}
}

// A trace contains less about a call than the library saw, such as the threads of a BLAS. Therefore a row changes only
// where the decisions before and after the settings differ, or if the recorded one was that of the cost model and the
// new one is not.
std::vector<std::string> redecide(Runs &runs, const std::string &text, std::span<const char *const> entries)
{
	std::vector<std::string> assumed;
	const auto settings = settingsOf(text);
	const bool isModelSet =
	    std::any_of(settings.begin(), settings.end(), [](auto &set) { return set.first == "AUTOAMP_GPU_MODEL"; });
	uint64_t undecided = 0; // calls of entry points that this program does not know
	for (auto &run : runs) {
		const auto recorded = optionsOf(run, {}, entries), options = optionsOf(run, settings, entries);
		const Devices asRun(run, false), devices(run, isModelSet);
		for (auto &row : run.rows) {
			row.kernelNs = row.castNs = NAN; // measured times must not mix with estimated ones
			row.audit.timed = 0;
			const auto before = decideAgain(row, asRun.of(row, recorded), recorded, entries),
			           after = decideAgain(row, devices.of(row, options), options, entries);
			if (row.calls == 0 || !before || !after) {
				undecided += row.calls;
				continue;
			}
			if (after->estimate >= 0 && after->estimate != before->estimate)
				row.estNs = after->estimate;
			if (after->estimateLowered >= 0 && after->estimateLowered != before->estimateLowered)
				row.estLoweredNs = after->estimateLowered;
			const bool isByModel = isOnCpu(row) && row.decision != policy::name(before->verdict) &&
			                       options.strategy != policy::StrategyChoice::automatic;
			if (!isOfSettings(row.reason) || (isSame(*before, *after) && !isByModel) || isRefused(row, *after))
				continue;
			row.decision = policy::name(after->verdict);
			row.reason = policy::name(after->reason);
			row.strategy = policy::name(after->strategy);
			row.dtypeCompute = after->verdict == policy::Verdict::lowered ? op::name(after->precision) : row.dtypeAsked;
			row.cause.clear();
			row.hostNs = NAN; // was measured for the old decision
		}
		run.scaler.clear(), run.scalerTotals.clear(), run.kernels.clear();
		run.gradientScalers.clear(), run.gradientEvents.clear(), run.gradientCauses.clear();
		run.hasKernels = false;
		if (auto line = assume(run, options, settings);
		    std::find(assumed.begin(), assumed.end(), line) == assumed.end())
			assumed.push_back(std::move(line));
	}
	if (undecided > 0)
		assumed.push_back("the recorded decisions of " + plural(undecided, "call") +
		                  ", whose entry points are unknown here");
	return assumed;
}

} // namespace autoamp::tool
