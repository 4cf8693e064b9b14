#include "src/policy/options.h"

#include "src/policy/lists.h"
#include "src/policy/words.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
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

// Position among words; aliases count as the word they follow. -1: not one of them.
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

// Shell globs: `*`, `?`; everything else is itself. A `*` that fails is never returned to once a later one was met:
// with each of them tried again a list of some twenty hangs the application.
bool matches(std::string_view pattern, std::string_view text)
{
	size_t at = 0, rest = 0;
	size_t star = pattern.npos; // what follows the latest `*`; `rest`: the text that it has not taken
	for (size_t i = 0; i < text.size();) {
		if (at < pattern.size() && pattern[at] == '*') {
			star = ++at;
			rest = i;
		} else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == text[i])) {
			++at;
			++i;
		} else if (star != pattern.npos) {
			at = star;
			i = ++rest;
		} else {
			return false;
		}
	}
	return pattern.find_first_not_of('*', at) == pattern.npos;
}

// What a user typed, on one line whatever it holds.
std::string shown(std::string_view value)
{
	constexpr size_t longest = 100;
	std::string text(value.substr(0, longest));
	std::replace_if(
	    text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c); }, '?');
	return value.size() > longest ? text + "..." : text;
}

std::string_view trimmed(std::string_view text)
{
	while (!text.empty() && text.front() == ' ')
		text.remove_prefix(1);
	while (!text.empty() && text.back() == ' ')
		text.remove_suffix(1);
	return text;
}

// One name of a custom list into the set; what is wrong with it, or nothing. interface.md section 6.
std::string addName(NameSet &set, std::string_view name, Lists lists, std::span<const char *const> entries)
{
	const size_t colon = name.find(':');
	const bool bare = colon == name.npos;
	std::string systems; // known ones, unless the name is of one
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

	std::string op(bare ? name : name.substr(colon + 1));
	if (lists == Lists::mindspore) // nn.Dense, ops.MatMul
		op.erase(0, op.rfind('.') + 1);
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
		for (std::string_view entry : entriesWithoutDoor(entries))
			candidates.push_back(entry);
		bool known = false;
		set.entries.resize((candidates.size() - count + 63) / 64);
		for (size_t row = 0; row < candidates.size() - count; ++row)
			if (matches(op, candidates[count + row])) {
				known = true;
				set.entries[row / 64] |= uint64_t{1} << row % 64;
			}
		if (known) {
			set.names.push_back(op);
			return {};
		}
	}
	return "no op or entry point '" + shown(name) + "'; the nearest is " + std::string(nearestName(op, candidates));
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

// What the variables were set to: for words their index, for sizes bytes.
using Numbers = std::array<uint64_t, optionCount>;

// A value of words or size as a number; false: not one of those accepted. Other types are text.
bool toNumber(const OptionRow &row, std::string_view value, uint64_t &number)
{
	if (row.type == ValueType::size)
		return parseSize(value, number);
	const int word = row.type == ValueType::words ? wordIndex(row.values, value) : 0;
	if (word >= 0) // else it stays the default's: fillFields() looks it up in tables
		number = static_cast<uint64_t>(word);
	return word >= 0;
}

// Of the emulated device: FUNCTION:N, a size, a number of devices.
bool isForEmulator(Option option, std::string_view value)
{
	const auto isNumber = [](std::string_view text) {
		return !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == text.npos;
	};
	uint64_t size = 0;
	if (option == Option::emulatorMemory)
		return parseSize(value, size);
	if (option == Option::emulatorDevices)
		return isNumber(value) && value.size() < 3;
	if (option == Option::emulatorPlugins)
		return !value.empty() &&
		       !anyPart(value, ':', [](std::string_view path) { return path.find('/') == path.npos; });
	const size_t colon = value.find(':');
	return colon != value.npos && colon > 0 && isNumber(value.substr(colon + 1)) &&
	       value.find_first_not_of('0', colon + 1) != value.npos;
}

// Names of a custom list as they were typed: which ops they are, only the list system that is chosen tells.
struct TypedNames {
	Option option;
	std::string_view value;
	std::string where; // for what is wrong with them
};

// What one variable can have wrong on its own.
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
		return shown(name) + "=" + shown(value) + ": no such variable; the nearest is " + nearestName(name, known);
	}
	auto index = static_cast<size_t>(row - table);
	auto option = static_cast<Option>(index);
	const bool isFirst = environmentValue(environment, name) == value.data(); // of two that one wins, as in getenv
	if (!isFirst || (row->type == ValueType::text && value.empty()))
		return {};
	std::string problem;
	if (!toNumber(*row, value, numbers[index]) || (row->type == ValueType::emulator && !isForEmulator(option, value)))
		problem = "bad value; accepted: " + acceptedValues(*row);
	if (!problem.empty())
		return shown(name) + "=" + shown(value) + ": " + problem;
	if (row->type == ValueType::names)
		names.push_back({option, value, shown(name) + "=" + shown(value)});
	options.origin[index] = Origin::environment;
	options.value[index] = value;
	return {};
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
	set(options.memory, Option::memory);
	set(options.trace, Option::trace);
	set(options.traceMaxSize, Option::traceMaxSize);
	set(options.log, Option::log);
	set(options.hookDlsym, Option::hookDlsym);
	set(options.gpuModel, Option::gpuModel);
}

// What only two variables together can have wrong.
std::string checkTogether(const Options &options)
{
	for (const std::string &name : options.customBlack.names) {
		auto &white = options.customWhite.names;
		if (std::find(white.begin(), white.end(), name) != white.end())
			return "AUTOAMP_CUSTOM_BLACK_LIST: '" + shown(name) + "' is in AUTOAMP_CUSTOM_WHITE_LIST as well";
	}
	const uint8_t levels = listSystem(options.lists).levels;
	if (!(levels & bit(options.level))) {
		std::string accepted;
		anyPart(table[static_cast<size_t>(Option::level)].values, ' ', [&, level = 0u](std::string_view word) mutable {
			if (levels >> level++ & 1u)
				accepted += (accepted.empty() ? "" : ", ") + std::string(word);
			return false;
		});
		return "AUTOAMP_LEVEL=" + options.valueOf(Option::level) +
		       ": not a level of AUTOAMP_LISTS=" + options.valueOf(Option::lists) + "; accepted: " + accepted;
	}
	const std::string strategy = "AUTOAMP_STRATEGY=" + options.valueOf(Option::strategy);
	const bool isLibrary = options.strategy == StrategyChoice::library;
	if (options.dtype == op::Dtype::tf32 && (isLibrary || options.strategy == StrategyChoice::cast))
		return strategy + ": AUTOAMP_DTYPE=tf32 has no 16-bit form; accepted with it: auto, fp32, tf32";
	if (isLibrary && options.dtype == op::Dtype::float16 && options.scaling == Scaling::automatic)
		return strategy + ": the library does not scale float16; accepted: AUTOAMP_DTYPE=bfloat16, or "
		                  "AUTOAMP_SCALING=off with it";
	return {};
}

// The defaults of paths depend on other variables.
void resolvePaths(Options &options, const char *const *environment)
{
	auto typed = [&](Option option) {
		return options.originOf(option) == Origin::environment ? options.valueOf(option) : std::string();
	};
	auto folder = [&](const char *variable, const char *below) {
		const char *base = environmentValue(environment, variable);
		// The XDG specification: a relative path is to be ignored.
		return base && *base == '/' ? std::string(base) + below : std::string();
	};
	options.directory = typed(Option::directory);
	if (options.directory.empty())
		options.directory = folder("XDG_STATE_HOME", "/autoamp");
	if (options.directory.empty())
		options.directory = folder("HOME", "/.local/state/autoamp");
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
	case ValueType::text:
		return "a path";
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

ParsedOptions parseOptions(const char *const *environment, std::span<const char *const> entries)
{
	ParsedOptions parsed;
	Options &options = parsed.options;
	Numbers numbers = {};
	std::vector<TypedNames> names;
	for (size_t i = 0; i < optionCount; ++i) {
		options.value[i] = table[i].fallback;
		toNumber(table[i], table[i].fallback, numbers[i]);
	}
	for (auto *variable = environment; variable && *variable && parsed.error.empty(); ++variable) {
		std::string_view text = *variable;
		size_t equals = std::min(text.find('='), text.size());
		std::string_view value = text.substr(std::min(equals + 1, text.size()));
		parsed.error = readVariable(options, numbers, names, text.substr(0, equals), value, environment);
	}
	fillFields(options, numbers);
	for (const auto &[option, value, where] : names) {
		NameSet &set = option == Option::customWhite ? options.customWhite : options.customBlack;
		const std::string problem = parsed.error.empty() ? parseNames(set, value, options.lists, entries) : "";
		if (!problem.empty())
			parsed.error = where + ": " + problem;
	}
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

const char *const *processEnvironment()
{
	return environ;
}

const char *environmentValue(const char *const *environment, std::string_view name)
{
	for (; environment && *environment; ++environment) {
		std::string_view text = *environment;
		if (text.starts_with(name) && text.substr(name.size()).starts_with('='))
			return *environment + name.size() + 1;
	}
	return nullptr;
}

std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates)
{
	name = name.substr(0, 100); // a value may be a whole file
	std::string_view best;
	size_t bestDistance = 0;
	std::vector<size_t> distance(name.size() + 1); // of the first i characters to the candidate read so far
	for (std::string_view candidate : candidates) {
		std::iota(distance.begin(), distance.end(), size_t{0});
		for (char c : candidate) {
			size_t diagonal = distance[0]++;
			for (size_t i = 1; i <= name.size(); ++i) {
				size_t changed = diagonal + (name[i - 1] != c);
				diagonal = distance[i];
				distance[i] = std::min({changed, distance[i] + 1, distance[i - 1] + 1});
			}
		}
		if (best.empty() || distance.back() < bestDistance) {
			best = candidate;
			bestDistance = distance.back();
		}
	}
	return best;
}

const char *nearestName(std::string_view name, std::span<const char *const> candidates)
{
	return nearestName(name, std::vector<std::string_view>(candidates.begin(), candidates.end())).data();
}

} // namespace autoamp::policy
