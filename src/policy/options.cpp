#include "src/policy/options.h"

#include "src/base/name_pattern.h"
#include "src/policy/environment.h"
#include "src/policy/glob.h"
#include "src/policy/lists.h"
#include "src/policy/nearest.h"
#include "src/policy/words.h"

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

constexpr OptionRow table[] = {
#define X(id, variable, type, values, fallback, help) {variable, ValueType::type, values, fallback, help},
    AUTOAMP_OPTIONS(X)
#undef X
};
constexpr size_t optionCount = std::size(table);
static_assert(optionCount == static_cast<size_t>(Option::count));

// Index of the value in `words`; aliases have the index of the word that they follow. -1: not found.
int wordIndex(std::string_view words, std::string_view value)
{
	int index = -1;
	bool found = anyPart(words, ' ', [&](std::string_view group) {
		++index;
		return anyPart(group, '=', [&](std::string_view word) { return word == value; });
	});
	return found ? index : -1;
}

bool parseSize(std::string_view text, uint64_t &bytes)
{
	unsigned shift = 0;
	if (!text.empty()) {
		constexpr std::string_view units = "KMG";
		size_t unit = units.find(text.back());
		if (unit != std::string_view::npos) {
			shift = 10 * static_cast<unsigned>(unit + 1);
			text.remove_suffix(1);
		}
	}
	if (text.empty() || text.size() > 19)
		return false;
	uint64_t number = 0;
	for (char digit : text) {
		if (digit < '0' || digit > '9')
			return false;
		number = number * 10 + static_cast<uint64_t>(digit - '0');
	}
	bytes = number << shift;
	return bytes >> shift == number;
}

std::string_view trimmed(std::string_view text)
{
	while (!text.empty() && text.front() == ' ')
		text.remove_prefix(1);
	while (!text.empty() && text.back() == ' ')
		text.remove_suffix(1);
	return text;
}

// Adds one name of a custom list (docs/configuration.md) to the set. Returns the error, or an empty text.
std::string addName(NameSet &set, std::string_view name, Lists lists, std::span<const char *const> entries)
{
	const size_t colon = name.find(':');
	const bool bare = colon == name.npos;
	std::string systems; // names of all list systems; empty if the prefix is one of them
	for (unsigned i = 0; i < listsCount && !bare; ++i) {
		const char *prefix = listSystem(static_cast<Lists>(i)).prefix;
		systems += (systems.empty() ? "" : ", ") + std::string(prefix);
		if (name.substr(0, colon) == prefix) {
			lists = static_cast<Lists>(i);
			systems.clear();
			break;
		}
	}
	if (!systems.empty())
		return "unknown list system in '" + shown(name) + "'; accepted: " + systems;

	const std::string op(withoutModule(lists, bare ? name : name.substr(colon + 1)));
	auto candidates = opsOf(lists);
	if (std::binary_search(candidates.begin(), candidates.end(), op)) {
		const uint64_t rows = rowsOf(lists, op);
		set.ops |= rows;
		set.names.push_back(listSystem(lists).prefix + (":" + op));
		if (!hasLowForm(rows))
			set.idle.push_back(set.names.back());
		return {};
	}
	if (bare) {
		const size_t count = candidates.size();
		candidates.insert(candidates.end(), entries.begin(), entries.end());
		bool known = false;
		set.entries.resize((candidates.size() - count + 63) / 64);
		for (size_t row = 0; row < candidates.size() - count; ++row)
			if (matchesEntry(op, candidates[count + row])) {
				known = true;
				set.entries[row / 64] |= uint64_t{1} << row % 64;
			}
		if (known) {
			set.names.push_back(op);
			return {};
		}
	}
	return "no op or entry point '" + shown(name) + "'" + nearestHint(op, candidates, "; autoamp lists shows them");
}

std::string parseNames(NameSet &set, std::string_view text, Lists lists, std::span<const char *const> entries)
{
	std::string problem;
	anyPart(text, ',', [&](std::string_view name) {
		name = trimmed(name);
		if (!name.empty())
			problem = addName(set, name, lists, entries);
		return !problem.empty();
	});
	return problem;
}

// Values of the variables: the index of a word, a size in bytes, a time in nanoseconds.
using Numbers = std::array<uint64_t, optionCount>;

// Converts a value of type words, size or time to a number. Returns false if it is not accepted. Other types are texts.
bool toNumber(const OptionRow &row, std::string_view value, uint64_t &number)
{
	if (row.type == ValueType::size)
		return parseSize(value, number);
	if (row.type == ValueType::time)
		return parseTime(value, number);
	if (CaptureRange range; row.type == ValueType::range)
		return parseCaptureRange(value, range);
	const int word = row.type == ValueType::words ? wordIndex(row.values, value) : 0;
	if (word >= 0) // otherwise keep the default: fillFields() uses it as an index into tables
		number = static_cast<uint64_t>(word);
	return word >= 0;
}

bool isAsUnset(const OptionRow &row, std::string_view value)
{
	return value.empty() && (row.type == ValueType::text || row.type == ValueType::range);
}

// Validates a value for the emulated device: FUNCTION:N, a size, a number of devices, words.
bool isForEmulator(Option option, std::string_view value)
{
	const auto isNumber = [](std::string_view text) {
		return !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == text.npos;
	};
	uint64_t size = 0;
	if (option == Option::emulatorMemory)
		return parseSize(value, size);
	if (option == Option::emulatorCudnn)
		return isNumber(value) && value.size() == 5 && value.front() == '9';
	if (option == Option::emulatorDevices)
		return isNumber(value) && value.size() < 3;
	if (option == Option::emulatorPlugins)
		return !value.empty() &&
		       !anyPart(value, ':', [](std::string_view path) { return path.find('/') == path.npos; });
	if (option == Option::emulatorCupti)
		return !value.empty() && !anyPart(value, ',', [](std::string_view word) {
			return wordIndex("late shuffled lost early reversed dropped orphaned taken held", word) < 0;
		});
	const size_t colon = value.find(':');
	return colon != value.npos && colon > 0 && isNumber(value.substr(colon + 1)) &&
	       value.find_first_not_of('0', colon + 1) != value.npos;
}

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
	if (const char *told = environmentValue(environment, "_AUTOAMP_RUN"))
		anyPart(told, '\n', [&](std::string_view line) {
			if (line.ends_with(setting))
				place = line.substr(0, line.size() - setting.size());
			return false; // no stop: for nested runs, the last line counts
		});
	return place;
}

// Reads one variable. Returns the error that it has by itself, or an empty text.
std::string readVariable(Options &options, Numbers &numbers, std::vector<TypedNames> &names, std::string_view name,
                         std::string_view value, const char *const *environment)
{
	constexpr std::string_view ours = "AUTOAMP_";
	if (!name.starts_with(ours))
		return {};
	auto *row = std::find_if(std::begin(table), std::end(table), [&](auto &each) { return name == each.name; });
	if (row == std::end(table)) {
		const char *known[optionCount];
		std::transform(std::begin(table), std::end(table), known, [](auto &each) { return each.name; });
		return shown(name) + "=" + shown(value) + ": no such variable" +
		       nearestHint(name, known, "; autoamp help env lists them");
	}
	auto index = static_cast<size_t>(row - table);
	auto option = static_cast<Option>(index);
	const bool isFirst = environmentValue(environment, name) == value.data(); // the first one wins, as in getenv
	if (!isFirst || isAsUnset(*row, value))
		return {};
	std::string problem;
	if (!toNumber(*row, value, numbers[index]) || (row->type == ValueType::emulator && !isForEmulator(option, value)))
		problem = "bad value; accepted: " + acceptedValues(*row);
	else if (const char *unknown = option == Option::traceFile ? base::problemOfPattern(value) : nullptr)
		problem = unknown;
	const std::string place = placeOf(environment, name, value),
	                  where = (place.starts_with("-") ? place + " " : shown(name) + "=") + shown(value);
	if (!problem.empty())
		return where + ": " + problem;
	if (row->type == ValueType::names)
		names.push_back({option, std::string(value), where});
	options.origin[index] = Origin::environment;
	options.place[index] = place;
	options.value[index] = value;
	return {};
}

std::string lowerName(const OptionRow &row)
{
	std::string name(row.name + std::strlen("AUTOAMP_"));
	std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
	return name;
}

// Reads one value of a file. Returns the error that it has by itself, or an empty text. Sources with higher priority
// were read before.
std::string readSetting(Options &options, Numbers &numbers, std::vector<TypedNames> &names, const Setting &setting)
{
	const auto *row =
	    std::find_if(std::begin(table), std::end(table), [&](auto &each) { return setting.key == lowerName(each); });
	if (row == std::end(table)) {
		std::vector<std::string> keys = {"rule"};
		for (const OptionRow &each : table)
			if (!keyOf(each).empty())
				keys.push_back(keyOf(each));
		std::vector<const char *> known;
		for (const std::string &key : keys)
			known.push_back(key.c_str());
		return setting.keyPlace + ": " + shown(setting.key) + ": no such key" +
		       nearestHint(setting.key, known, "; autoamp help rules lists them");
	}
	if (keyOf(*row).empty())
		return setting.keyPlace + ": " + setting.key + ": not allowed in a file; use the variable " + row->name;
	const auto index = static_cast<size_t>(row - table);
	const auto option = static_cast<Option>(index);
	const bool isList = row->type == ValueType::names, isTruth = setting.value == "true" || setting.value == "false";
	const std::string value =
	    row->type == ValueType::words && isTruth ? setting.value == "true" ? "1" : "0" : setting.value;
	if (isList && setting.isEmpty)
		return {};
	std::string problem;
	uint64_t number = 0;
	if (setting.isElement && !isList)
		problem = "expected one value, not an array";
	else if (!toNumber(*row, value, number))
		problem = "bad value; accepted: " + acceptedValues(*row);
	else if (const char *unknown = option == Option::traceFile ? base::problemOfPattern(value) : nullptr)
		problem = unknown;
	else if (isList && setting.isElement && trimmed(value).empty())
		problem = "an empty name";
	else if (isList)
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
	set(options.scaling, Option::scaling);
	set(options.strategy, Option::strategy);
	set(options.scope, Option::scope);
	set(options.memory, Option::memory);
	set(options.trace, Option::trace);
	set(options.traceMaxSize, Option::traceMaxSize);
	set(options.delayNs, Option::delay);
	set(options.durationNs, Option::duration);
	parseCaptureRange(options.valueOf(Option::captureRange), options.captureRange);
	set(options.log, Option::log);
	set(options.hookDlsym, Option::hookDlsym);
	set(options.gpuModel, Option::gpuModel);
}

// The place where a value was typed, as text for messages; with the value as NAME=value.
std::string sourceOf(const Options &options, Option option, bool hasValue = true)
{
	const auto index = static_cast<size_t>(option);
	const std::string name =
	    options.origin[index] == Origin::file ? options.place[index] + ": " + keyOf(table[index]) : table[index].name;
	const std::string &place = options.place[index]; // for a command-line option, the option itself
	if (options.origin[index] == Origin::environment && place.starts_with("-"))
		return hasValue ? place + " " + shown(options.value[index]) : place;
	return hasValue ? name + "=" + shown(options.value[index]) : name;
}

std::string checkLists(const Options &options)
{
	for (const std::string &name : options.customBlack.names) {
		auto &white = options.customWhite.names;
		if (std::find(white.begin(), white.end(), name) != white.end())
			return sourceOf(options, Option::customBlack, false) + ": '" + shown(name) +
			       "' is also in AUTOAMP_CUSTOM_WHITE_LIST";
	}
	return {};
}

// Checks combinations of values. Returns the error, or an empty text.
std::string checkTogether(const Options &options)
{
	if (const std::string problem = checkLists(options); !problem.empty())
		return problem;
	const uint8_t levels = listSystem(options.lists).levels;
	if (!(levels & bit(options.level))) {
		std::string accepted;
		anyPart(table[static_cast<size_t>(Option::level)].values, ' ', [&, level = 0u](std::string_view word) mutable {
			if (levels >> level++ & 1u)
				accepted += (accepted.empty() ? "" : ", ") + std::string(word);
			return false;
		});
		return sourceOf(options, Option::level) + ": not a level of AUTOAMP_LISTS=" + options.valueOf(Option::lists) +
		       "; accepted: " + accepted;
	}
	const std::string strategy = sourceOf(options, Option::strategy);
	const bool isLibrary = options.strategy == StrategyChoice::library;
	if (options.dtype == op::Dtype::tf32 && (isLibrary || options.strategy == StrategyChoice::cast))
		return strategy + ": AUTOAMP_DTYPE=tf32 has no 16-bit form; accepted with it: auto, fp32, tf32";
	if (isLibrary && options.dtype == op::Dtype::float16 && options.scaling == Scaling::automatic)
		return strategy + ": the library does not scale float16; accepted: AUTOAMP_DTYPE=bfloat16, or "
		                  "AUTOAMP_SCALING=off with it";
	return {};
}

// Names for the rest of `set` without `taken`. If `taken` has some calls of an op, the op is replaced by names for its
// other calls.
std::vector<std::string> namesWithout(const NameSet &set, const NameSet &taken, std::span<const char *const> entries)
{
	std::vector<std::string> left;
	const auto keep = [&left](const std::string &name) {
		if (std::find(left.begin(), left.end(), name) == left.end())
			left.push_back(name);
	};
	const auto bitsOf = [](const NameSet &names, size_t word) {
		return word < names.entries.size() ? names.entries[word] : 0;
	};
	for (const std::string &name : set.names) {
		NameSet one;
		addName(one, name, Lists::torch, entries);
		bool isTouched = one.ops & taken.ops;
		for (size_t word = 0; word < one.entries.size(); ++word)
			isTouched |= (bitsOf(one, word) & bitsOf(taken, word)) != 0;
		if (!isTouched)
			keep(name);
		for (size_t row = 0; row < callRowCount && isTouched; ++row)
			if ((one.ops & ~taken.ops) >> row & 1)
				keep(torchLists.prefix + (":" + std::string(callRows()[row].op)));
		for (size_t row = 0; row < entries.size() && isTouched; ++row)
			if ((bitsOf(one, row / 64) & ~bitsOf(taken, row / 64)) >> row % 64 & 1)
				keep(entries[row]);
	}
	return left;
}

// Adds `more` to `set` and removes it from `other`.
void unite(NameSet &set, const NameSet &more, NameSet &other, std::span<const char *const> entries)
{
	other.names = namesWithout(other, more, entries);
	set.ops |= more.ops;
	other.ops &= ~more.ops;
	set.entries.resize(std::max(set.entries.size(), more.entries.size()));
	for (size_t word = 0; word < more.entries.size(); ++word) {
		set.entries[word] |= more.entries[word];
		if (word < other.entries.size())
			other.entries[word] &= ~more.entries[word];
	}
	for (const std::string &name : more.names) {
		std::erase(set.names, name);
		set.names.push_back(name);
	}
	for (const std::string &name : more.idle) {
		std::erase(other.idle, name);
		std::erase(set.idle, name);
		set.idle.push_back(name);
	}
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

std::span<const OptionRow> optionTable()
{
	return table;
}

std::string acceptedValues(const OptionRow &row)
{
	switch (row.type) {
	case ValueType::size:
		return "bytes, or a number with K, M or G";
	case ValueType::time:
		return timeForms;
	case ValueType::text:
		return "a path";
	case ValueType::range:
		return captureRangeForms;
	case ValueType::names:
		return "ops and entry points, comma-separated";
	case ValueType::emulator:
		return row.values;
	case ValueType::words:
		break;
	}
	std::string text;
	anyPart(row.values, ' ', [&](std::string_view group) {
		text += text.empty() ? "" : ", ";
		size_t alias = std::min(group.find('='), group.size());
		text += group.substr(0, alias);
		if (alias < group.size())
			text += " (" + std::string(group.substr(alias + 1)) + ")";
		return false;
	});
	std::replace(text.begin(), text.end(), '=', ' ');
	return text;
}

std::string keyOf(const OptionRow &row)
{
	const auto option = static_cast<Option>(&row - table);
	// The front reads hookDlsym before the core is loaded; a file cannot name another file; the emulated device reads
	// no file.
	const bool isVariable = option == Option::hookDlsym || option == Option::config || row.type == ValueType::emulator;
	return isVariable ? std::string() : lowerName(row);
}

ParsedOptions parseOptions(const char *const *environment, std::span<const char *const> entries,
                           std::span<const ConfigFile> files)
{
	ParsedOptions parsed;
	Options &options = parsed.options;
	Numbers numbers = {};
	std::vector<TypedNames> names;
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
	options.tf32Allowed = !isSet("NVIDIA_TF32_OVERRIDE", "0");
	options.emulatesSingle = isSet("CUBLAS_EMULATE_SINGLE_PRECISION", "1");
	resolvePaths(options, environment);
	return parsed;
}

ParsedOptions changed(const Options &around, std::span<const Change> changes, std::span<const char *const> entries)
{
	ParsedOptions parsed = {around, {}};
	Options &options = parsed.options;
	Numbers numbers = {};
	for (size_t i = 0; i < optionCount; ++i)
		toNumber(table[i], options.value[i], numbers[i]);
	for (const auto &[name, value] : changes) {
		const auto is = [&wanted = name](const OptionRow &each) { return wanted == each.name; };
		auto *row = std::find_if(std::begin(table), std::end(table), is);
		if (row == std::end(table))
			return {around, std::string(name) + ": no such variable"};
		auto index = static_cast<size_t>(row - table);
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
		options.origin[index] = Origin::fallback; // not from a file, and not a fixed level
	}
	fillFields(options, numbers);
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
			problem = (named ? named + ("=" + shown(path)) : shown(path)) + ": " + error;
	};
	const char *const name = table[static_cast<size_t>(Option::config)].name;
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
