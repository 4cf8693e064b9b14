#include "src/config/read_options.h"

#include "src/base/name_pattern.h"
#include "src/config/check_options.h"
#include "src/config/environment.h"
#include "src/config/option_values.h"
#include "src/lists/nearest.h"
#include "src/lists/split.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <numeric>
#include <tuple>
#include <type_traits>

#include <unistd.h>

namespace autoamp::policy {

namespace {

// Values of the variables: the index of a word, a size in bytes, a time in nanoseconds.
constexpr size_t optionCount = static_cast<size_t>(Option::count);
using Numbers = std::array<uint64_t, optionCount>;

// Names of a custom list as typed. They can only be resolved when the list system is known.
struct TypedNames {
	Option option;
	std::string value;
	std::string where; // source, for error messages
};

// The source of a variable: `autoamp run` passes lines of PLACE NAME=VALUE. They apply only if the value is unchanged
// since.
std::string placeOf(const char *const *environment, std::string_view name, std::string_view value)
{
	const std::string setting = " " + std::string(name) + "=" + std::string(value);
	std::string place = "environment";
	if (const char *settings = environmentValue(environment, "_AUTOAMP_RUN"))
		anyPart(settings, '\n', [&](std::string_view line) {
			if (line.ends_with(setting))
				place = line.substr(0, line.size() - setting.size());
			return false; // no stop: for nested runs, the last line counts
		});
	return place;
}

// The setting as the user typed it: an option or a variable.
std::string whereOf(const char *const *environment, std::string_view name, std::string_view value)
{
	const std::string place = placeOf(environment, name, value);
	return (place.starts_with("-") ? place + " " : shown(name) + "=") + shown(value);
}

// The names of all variables, and of the settings of the emulated device.
std::vector<const char *> variables()
{
	std::vector<const char *> names;
	for (const OptionRow &row : optionTable())
		names.push_back(row.name);
	for (const EmulatorSetting &setting : emulatorSettings())
		names.push_back(setting.name);
	return names;
}

// The setting of the emulated device with this key, which no file can contain; empty: there is none.
std::string emulatorVariable(const std::string &key)
{
	std::string name = "AUTOAMP_" + key;
	std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
	const bool isLower = std::none_of(key.begin(), key.end(), [](unsigned char c) { return std::isupper(c); });
	return isLower && emulatorSetting(name) ? name : std::string();
}

// Converts a value. Returns the reason why it is not accepted, or an empty text.
std::string convert(const OptionRow &row, std::string_view value, uint64_t &number)
{
	if (!toNumber(row, value, number))
		return "bad value; accepted: " + acceptedValues(row);
	const bool isPattern = &row == &optionTable()[static_cast<size_t>(Option::traceFile)];
	const char *const problem = isPattern ? base::problemOfPattern(value) : nullptr;
	return problem ? problem : "";
}

std::string noSuchKey(const Setting &setting)
{
	std::vector<std::string> keys = {"rule"};
	for (const OptionRow &each : optionTable())
		if (!keyOf(each).empty())
			keys.push_back(keyOf(each));
	std::vector<const char *> known;
	for (const std::string &key : keys)
		known.push_back(key.c_str());
	return setting.keyPlace + ": " + shown(setting.key) + ": no such key" +
	       nearestHint(setting.key, known, "; autoamp help rules lists them");
}

// Reads one variable. Returns the error that it has by itself, or an empty text.
std::string readVariable(Options &options, Numbers &numbers, std::vector<TypedNames> &names, std::string_view name,
                         std::string_view value, const char *const *environment)
{
	constexpr std::string_view ours = "AUTOAMP_";
	if (!name.starts_with(ours))
		return {};
	const EmulatorSetting *const emulated = emulatorSetting(name);
	const auto table = optionTable();
	const auto row = std::find_if(table.begin(), table.end(), [&](auto &each) { return name == each.name; });
	if (row == table.end() && !emulated)
		return shown(name) + "=" + shown(value) + ": no such variable" +
		       nearestHint(name, variables(), "; autoamp help env lists them");
	if (environmentValue(environment, name) != value.data()) // the first one wins, as in getenv
		return {};
	const std::string place = placeOf(environment, name, value), where = whereOf(environment, name, value);
	if (emulated && value.empty()) // as if unset
		return {};
	if (emulated) {
		options.emulator[emulated - emulatorSettings().data()] = std::string(value) + " (" + place + ")";
		return isAccepted(*emulated, value) ? "" : where + ": bad value; accepted: " + emulated->values;
	}
	const auto index = static_cast<size_t>(row - table.begin());
	const auto option = static_cast<Option>(index);
	if (isAsUnset(*row, value))
		return {};
	if (const std::string problem = convert(*row, value, numbers[index]); !problem.empty())
		return where + ": " + problem;
	if (row->type == ValueType::names)
		names.push_back({option, std::string(value), where});
	options.origin[index] = Origin::environment;
	options.place[index] = place;
	options.value[index] = value;
	return {};
}

// Reads one value of a file. Returns the error that it has by itself, or an empty text. Sources with higher priority
// were read before.
std::string readSetting(Options &options, Numbers &numbers, std::vector<TypedNames> &names, const Setting &setting)
{
	const auto table = optionTable();
	const auto row =
	    std::find_if(table.begin(), table.end(), [&](auto &each) { return setting.key == lowerName(each); });
	const std::string emulated = emulatorVariable(setting.key);
	if (row == table.end() && emulated.empty())
		return noSuchKey(setting);
	if (!emulated.empty() || keyOf(*row).empty())
		return setting.keyPlace + ": " + setting.key + ": not allowed in a file; use the variable " +
		       (emulated.empty() ? row->name : emulated);
	const auto index = static_cast<size_t>(row - table.begin());
	const auto option = static_cast<Option>(index);
	const bool isList = row->type == ValueType::names, isTruth = setting.value == "true" || setting.value == "false";
	const std::string value =
	    row->type == ValueType::choice && isTruth ? setting.value == "true" ? "1" : "0" : setting.value;
	if (isList && setting.isEmpty)
		return {};
	uint64_t number = 0;
	std::string problem = convert(*row, value, number);
	if (setting.isElement && !isList)
		problem = "expected one value, not an array";
	else if (setting.isElement && trimmed(value).empty())
		problem = "an empty name";
	else if (isList && problem.empty())
		names.push_back({option, value, setting.place + ": " + setting.key + "=" + shown(setting.value)});
	if (!problem.empty())
		return setting.place + ": " + setting.key + "=" + shown(setting.value) + ": " + problem;
	if (isAsUnset(*row, value))
		return {};
	if (options.origin[index] == Origin::fallback) {
		options.origin[index] = Origin::file;
		options.place[index] = setting.keyPlace;
		options.value[index] = value;
		numbers[index] = number;
	} else if (isList) {
		if (!anyPart(options.value[index], ',', [&](std::string_view known) { return trimmed(known) == value; }))
			options.value[index] += "," + value;
		if (!options.place[index].ends_with(setting.keyPlace))
			options.place[index] += ", " + setting.keyPlace;
	}
	return {};
}

std::string readSettings(Options &options, Numbers &numbers, std::vector<TypedNames> &names, const Document &document)
{
	std::string problem = document.error;
	for (size_t i = 0; i < document.top.settings.size() && problem.empty(); ++i)
		problem = readSetting(options, numbers, names, document.top.settings[i]);
	return problem;
}

void fillFields(Options &options, const Numbers &numbers)
{
	auto number = [&](Option option) { return numbers[static_cast<size_t>(option)]; };
	auto set = [&](auto &field, Option option) { field = static_cast<std::decay_t<decltype(field)>>(number(option)); };
	set(options.enabled, Option::enabled);
	set(options.level, Option::level);
	constexpr op::Dtype dtypes[] = {op::Dtype::float16, op::Dtype::bfloat16, op::Dtype::tf32};
	options.dtype = dtypes[number(Option::dtype)];
	set(options.lists, Option::lists);
	set(options.usePromote, Option::usePromote);
	set(options.roundOutput, Option::roundOutput);
	set(options.scaling, Option::scaling);
	set(options.strategy, Option::strategy);
	set(options.scope, Option::scope);
	set(options.memory, Option::memory);
	const uint64_t weights = number(Option::weights); // 0: auto
	options.weights = weights ? weightsOnGpu(static_cast<Weights>(weights - 1)) : Weights::off;
	options.weightsOnCpu = weights ? weightsOnCpu(static_cast<Weights>(weights - 1)) : Weights::watched;
	set(options.trace, Option::trace);
	set(options.traceMaxSize, Option::traceMaxSize);
	set(options.delayNs, Option::delay);
	set(options.durationNs, Option::duration);
	set(options.auditPeriod, Option::audit);
	parseCaptureRange(options.valueOf(Option::captureRange), options.captureRange);
	set(options.log, Option::log);
	set(options.hookDlsym, Option::hookDlsym);
	set(options.gpuModel, Option::gpuModel);
	set(options.cpuModel, Option::cpuModel);
}

// The XDG specification requires that relative paths are ignored. Default paths depend on other variables.
void resolvePaths(Options &options, const char *const *environment)
{
	auto typed = [&](Option option) {
		return options.originOf(option) == Origin::fallback ? std::string() : options.valueOf(option);
	};
	options.directory = typed(Option::directory);
	if (options.directory.empty())
		options.directory = folderIn(environment, "XDG_STATE_HOME", "/autoamp");
	if (options.directory.empty())
		options.directory = folderIn(environment, "HOME", "/.local/state/autoamp");
	options.cuptiPath = typed(Option::cuptiPath);
	options.traceFile = typed(Option::traceFile);
	if (options.traceFile.empty() && !options.directory.empty())
		options.traceFile = options.directory + "/%e.%t.%p.aat";
}

} // namespace

ParsedOptions parseOptions(const char *const *environment, std::span<const char *const> entries,
                           std::span<const ConfigFile> files)
{
	ParsedOptions parsed;
	Options &options = parsed.options;
	Numbers numbers = {};
	std::vector<TypedNames> names;
	const auto table = optionTable();
	for (size_t i = 0; i < optionCount; ++i) {
		options.value[i] = table[i].fallback;
		options.place[i] = "default";
		toNumber(table[i], table[i].fallback, numbers[i]);
	}
	for (auto *variable = environment; variable && *variable && parsed.error.empty(); ++variable) {
		std::string_view text = *variable;
		size_t equals = std::min(text.find('='), text.size());
		std::string_view value = text.substr(std::min(equals + 1, text.size()));
		parsed.error = readVariable(options, numbers, names, text.substr(0, equals), value, environment);
	}
	std::vector<Document> documents;
	for (auto file = files.begin(); file != files.end() && parsed.error.empty(); ++file) {
		documents.push_back(parseToml(*file));
		parsed.error = readSettings(options, numbers, names, documents.back());
	}
	fillFields(options, numbers);
	if (options.originOf(Option::dtype) != Origin::fallback)
		options.dtypeOnCpu = options.dtype;
	for (const auto &[option, value, where] : names) {
		NameSet &set = option == Option::customWhite ? options.customWhite : options.customBlack;
		const std::string problem = parsed.error.empty() ? parseNames(set, value, options.lists, entries) : "";
		if (!problem.empty())
			parsed.error = where + ": " + problem;
	}
	Rules rules;
	for (const Document &document : documents)
		for (size_t i = 0; i < document.rules.size() && parsed.error.empty(); ++i)
			parsed.error = rules.add(document.rules[i], options.lists, entries);
	options.rules = std::make_shared<const Rules>(std::move(rules));
	if (parsed.error.empty())
		parsed.error = checkTogether(options);
	auto isSet = [&](const char *name, std::string_view wanted) {
		const char *value = environmentValue(environment, name);
		return value && value == wanted;
	};
	options.tf32Allowed = !isSet(tf32Override, "0");
	options.emulatesSingle = isSet("CUBLAS_EMULATE_SINGLE_PRECISION", "1");
	resolvePaths(options, environment);
	return parsed;
}

ParsedOptions changed(const Options &around, std::span<const Change> changes, std::span<const char *const> entries)
{
	ParsedOptions parsed = {around, {}};
	Options &options = parsed.options;
	Numbers numbers = {};
	const auto table = optionTable();
	for (size_t i = 0; i < optionCount; ++i)
		toNumber(table[i], options.value[i], numbers[i]);
	bool isTyped = false; // the type
	for (const auto &[name, value] : changes) {
		const auto is = [&wanted = name](const OptionRow &each) { return wanted == each.name; };
		const auto row = std::find_if(table.begin(), table.end(), is);
		if (row == table.end())
			return {around, std::string(name) + ": no such variable"};
		auto index = static_cast<size_t>(row - table.begin());
		auto option = static_cast<Option>(index);
		uint64_t number = 0;
		if (!toNumber(*row, value, number))
			return {around, shown(name) + "=" + shown(value) + ": bad value; accepted: " + acceptedValues(*row)};
		const bool isFixed = option == Option::level && around.level == Level::O0 &&
		                     around.originOf(Option::level) == Origin::environment;
		if (row->type == ValueType::names || isFixed)
			continue;
		numbers[index] = number;
		options.value[index] = value;
		isTyped |= option == Option::dtype;
		options.origin[index] = Origin::fallback; // not from a file, and not a fixed level
	}
	fillFields(options, numbers);
	if (isTyped)
		options.dtypeOnCpu = options.dtype;
	Options added; // the lists of the region
	for (const auto &[name, value] : changes) {
		const bool isWhite = name == table[static_cast<size_t>(Option::customWhite)].name;
		if (!isWhite && name != table[static_cast<size_t>(Option::customBlack)].name)
			continue;
		if (const auto problem =
		        parseNames(isWhite ? added.customWhite : added.customBlack, value, options.lists, entries);
		    !problem.empty())
			return {around, shown(name) + "=" + shown(value) + ": " + problem};
	}
	parsed.error = checkLists(added);
	unite(options.customWhite, added.customWhite, options.customBlack, entries);
	unite(options.customBlack, added.customBlack, options.customWhite, entries);
	for (Option option : {Option::customWhite, Option::customBlack}) {
		std::string &text = options.value[static_cast<size_t>(option)];
		text.clear();
		for (const std::string &name :
		     (option == Option::customWhite ? options.customWhite : options.customBlack).names)
			text += (text.empty() ? "" : ",") + name;
	}
	if (parsed.error.empty())
		parsed.error = checkTogether(options);
	return parsed;
}

ParsedOptions configure(const char *const *environment, std::span<const char *const> entries,
                        const std::string &program)
{
	std::vector<ConfigFile> files;
	std::string problem;
	// A missing file is an error only if the user named it.
	const auto read = [&](const std::string &path, const char *named) {
		ConfigFile file;
		std::string error;
		const Reading reading = readFile(path, file, error);
		if (reading == Reading::done)
			files.push_back(std::move(file));
		else if (problem.empty() && (named || reading == Reading::failed))
			problem = (named ? whereOf(environment, named, path) : shown(path)) + ": " + error;
	};
	const char *const name = optionTable()[static_cast<size_t>(Option::config)].name;
	if (const char *path = environmentValue(environment, name); path && *path)
		read(path, name);
	const std::string folder = configFolder(environment);
	if (!folder.empty() && !program.empty() && program != "autoamp")
		read(folder + program + ".toml", nullptr);
	if (!folder.empty())
		read(folder + "autoamp.toml", nullptr);
	ParsedOptions parsed = parseOptions(environment, entries, files);
	if (parsed.error.empty())
		parsed.error = std::move(problem);
	return parsed;
}

} // namespace autoamp::policy
