// `autoamp report --what-if`: the recorded signatures, decided again with other settings. Nothing is run; main thread.
#include "src/policy/decide.h"
#include "tools/autoamp/explain.h"
#include "tools/autoamp/report.h"

#include <algorithm>
#include <sstream>
#include <tuple>

namespace autoamp::tool {

namespace {

// What the settings decide. All other reasons lie in the call, its place or the machine: they stand.
bool isOfSettings(const std::string &word)
{
	using enum policy::Reason;
	static constexpr policy::Reason ours[] = {white_list, black_list, custom_white_list, custom_black_list,
	                                          rule,       unlisted,   promote,           banned,
	                                          disabled,   too_small,  not_profitable,    no_fp32_output};
	const auto known = reasonOf(word);
	return known && std::find(std::begin(ours), std::end(ours), *known) != std::end(ours);
}

using Settings = std::vector<std::pair<std::string, std::string>>; // variable, value

Settings settingsOf(const std::string &text)
{
	Settings settings;
	std::istringstream parts(text);
	for (std::string part; std::getline(parts, part, ',');) {
		const auto equals = part.find('=');
		if (equals == std::string::npos && !settings.empty()) { // of a list: CUSTOM_BLACK_LIST=mm,bmm
			settings.back().second += "," + part;
			continue;
		}
		if (equals == 0 || equals == std::string::npos)
			fail(Status::wrong, "report: --what-if '{}': NAME=VALUE,... as in LEVEL=O2,DTYPE=bfloat16", text);
		auto name = part.substr(0, equals);
		std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
		settings.emplace_back("AUTOAMP_" + name, part.substr(equals + 1));
		using enum policy::Option;
		static constexpr policy::Option others[] = {memory, trace,     directory, traceFile,    traceMaxSize, cuptiPath,
		                                            log,    hookDlsym, config,    captureRange, delay,        duration};
		const auto isNamed = [&](const char *option) { return settings.back().first == option; };
		const auto table = policy::optionTable();
		if (std::any_of(std::begin(others), std::end(others), [&](auto o) { return isNamed(table[size_t(o)].name); }) ||
		    std::any_of(table.begin(), table.end(),
		                [&](auto &row) { return row.type == policy::ValueType::emulator && isNamed(row.name); }))
			fail(Status::wrong, "report: --what-if: {} decides nothing about a recorded call", name);
		if (std::count_if(settings.begin(), settings.end(), [&](auto &set) { return isNamed(set.first.c_str()); }) > 1)
			fail(Status::wrong, "report: --what-if: {} stands there twice", name);
	}
	if (settings.empty() || text.ends_with(','))
		fail(Status::wrong, "report: --what-if '{}': NAME=VALUE,... as in LEVEL=O2,DTYPE=bfloat16", text);
	return settings;
}

// The run's configuration as it was recorded, with these settings over it.
policy::Options optionsOf(const trace::Trace &run, const Settings &settings, std::span<const char *const> entries)
{
	std::vector<std::string> texts;
	const auto isSetting = [](const std::string &name) {
		const auto table = policy::optionTable();
		return std::any_of(table.begin(), table.end(),
		                   [&](auto &row) { return name == row.name && !policy::keyOf(row).empty(); });
	};
	for (const auto &[name, value] : settings)
		texts.push_back(name + "=" + value);
	for (const auto &property : run.config)
		if (!property.value.empty() && isSetting(property.name) &&
		    std::none_of(settings.begin(), settings.end(), [&](auto &set) { return set.first == property.name; }))
			texts.push_back(property.name + "=" + property.value);
	std::vector<const char *> environment;
	for (const auto &text : texts)
		environment.push_back(text.c_str());
	environment.push_back(nullptr);
	std::string rules;
	for (const auto &rule : run.rules)
		rules += (rules.empty() ? "" : ", ") + ("{" + rule.value + "}");
	const policy::ConfigFile file = {run.path, "rule = [" + rules + "]"};
	const auto parsed = policy::parseOptions(
	    environment.data(), entries, rules.empty() ? std::span<const policy::ConfigFile>() : std::span(&file, 1));
	if (!parsed.error.empty())
		fail(Status::wrong, "report: --what-if: {}", parsed.error);
	return parsed.options;
}

// The device that a row's calls were made on; of a model that somebody asks about, that one.
policy::Device deviceOf(const trace::Trace &run, const trace::RowInfo &row, const policy::Options &options,
                        bool isModelSet)
{
	const bool isKnown = row.device < run.devices.size();
	const int recorded = isKnown ? run.capabilities[row.device] : 0;
	const auto &model =
	    policy::gpuConstants(options.gpuModel, isKnown ? run.devices[row.device].c_str() : "", recorded);
	return {&model, recorded > 0 && !isModelSet ? recorded : model.computeCapability, true};
}

bool isSame(const policy::Decision &x, const policy::Decision &y)
{
	return std::tie(x.verdict, x.reason, x.strategy, x.precision) ==
	       std::tie(y.verdict, y.reason, y.strategy, y.precision);
}

} // namespace

// A trace says less of a call than the library saw. So a row changes by what the settings change of its decision, and
// stands where they change nothing.
void redecide(Runs &runs, const std::string &text, std::span<const char *const> entries)
{
	const auto settings = settingsOf(text);
	const bool isModelSet =
	    std::any_of(settings.begin(), settings.end(), [](auto &set) { return set.first == "AUTOAMP_GPU_MODEL"; });
	for (auto &run : runs) {
		const auto recorded = optionsOf(run, {}, entries), options = optionsOf(run, settings, entries);
		for (auto &row : run.rows) {
			row.kernelNs = row.castNs = NAN; // no measured times beside estimated ones
			const auto before = decideAgain(row, deviceOf(run, row, recorded, false), recorded, entries),
			           after = decideAgain(row, deviceOf(run, row, options, isModelSet), options, entries);
			if (row.calls == 0 || !before || !after)
				continue; // without both: an entry point that this program does not know
			if (after->estimate >= 0 && after->estimate != before->estimate)
				row.estNs = after->estimate;
			if (after->estimateLowered >= 0 && after->estimateLowered != before->estimateLowered)
				row.estLoweredNs = after->estimateLowered;
			if (!isOfSettings(row.reason) || isSame(*before, *after))
				continue;
			row.decision = policy::name(after->verdict);
			row.reason = policy::name(after->reason);
			row.strategy = policy::name(after->strategy);
			row.dtypeCompute = after->verdict == policy::Verdict::lowered ? op::name(after->precision) : row.dtypeAsked;
			row.hostNs = NAN; // was measured of what ran
		}
		run.scaler.clear(), run.scalerTotals.clear(), run.kernels.clear();
		run.hasKernels = false;
	}
}

} // namespace autoamp::tool
