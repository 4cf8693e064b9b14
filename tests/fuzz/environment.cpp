#include "tests/fuzz/environment.h"

#include "inject/entry_table.h"
#include "src/config/read_options.h"
#include "src/lists/lists.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

using namespace autoamp;
using namespace autoamp::policy;

namespace fuzz {

namespace {

std::vector<const char *> entryNames()
{
	std::vector<const char *> names;
	for (const op::Entry &entry : entry::entryTable)
		names.push_back(entry.name);
	return names;
}
const std::vector<const char *> entries = entryNames();

ParsedOptions parseFile(const std::string &text)
{
	const char *const nothing = nullptr;
	const ConfigFile file = {"f", text};
	return parseOptions(&nothing, entries, {&file, 1});
}

ParsedOptions parse(const std::vector<std::string> &variables)
{
	std::vector<const char *> environment;
	for (const std::string &variable : variables)
		environment.push_back(variable.c_str());
	environment.push_back(nullptr);
	return parseOptions(environment.data(), entries);
}

std::vector<std::string> split(const std::string &text, char separator)
{
	std::vector<std::string> parts(1);
	for (char c : text) {
		if (c == separator)
			parts.emplace_back();
		else
			parts.back() += c;
	}
	return parts;
}

// The value that getenv would return.
std::optional<std::string> typed(const std::vector<std::string> &variables, const std::string &name)
{
	for (const std::string &variable : variables)
		if (variable.starts_with(name + "="))
			return variable.substr(name.size() + 1);
	return {};
}

// The part of the options that a variable with choices or a size sets: the index of the choice, or bytes.
uint64_t field(const Options &options, Option option)
{
	switch (option) {
	case Option::enabled:
		return options.enabled;
	case Option::level:
		return static_cast<uint64_t>(options.level);
	case Option::dtype:
		return options.dtype == op::Dtype::float16 ? 0 : options.dtype == op::Dtype::bfloat16 ? 1 : 2;
	case Option::lists:
		return static_cast<uint64_t>(options.lists);
	case Option::usePromote:
		return options.usePromote;
	case Option::scaling:
		return static_cast<uint64_t>(options.scaling);
	case Option::strategy:
		return static_cast<uint64_t>(options.strategy);
	case Option::scope:
		return static_cast<uint64_t>(options.scope);
	case Option::memory:
		return options.memory;
	case Option::trace:
		return static_cast<uint64_t>(options.trace);
	case Option::delay:
		return options.delayNs;
	case Option::duration:
		return options.durationNs;
	case Option::roundOutput:
		return options.roundOutput;
	case Option::audit:
		return options.auditPeriod;
	case Option::traceMaxSize:
		return options.traceMaxSize;
	case Option::log:
		return static_cast<uint64_t>(options.log);
	case Option::hookDlsym:
		return options.hookDlsym;
	case Option::weights:
		return static_cast<uint64_t>(options.weights);
	case Option::gpuModel:
		return static_cast<uint64_t>(options.gpuModel);
	case Option::cpuModel:
		return static_cast<uint64_t>(options.cpuModel);
	default:
		REQUIRE(!"a variable of words or a size that this target does not know");
		return 0;
	}
}

bool isNumber(const std::string &text)
{
	return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Bytes, or a number with K, M or G, below 2^64.
std::optional<uint64_t> size(std::string text)
{
	const size_t unit = text.empty() ? text.npos : std::string("KMG").find(text.back());
	const unsigned shift = unit == text.npos ? 0 : 10 * static_cast<unsigned>(unit + 1);
	if (shift)
		text.pop_back();
	if (!isNumber(text) || text.size() > 20)
		return {};
	unsigned __int128 number = 0;
	for (char digit : text)
		number = number * 10 + static_cast<unsigned>(digit - '0');
	number <<= shift;
	return number >> 64 ? std::optional<uint64_t>() : static_cast<uint64_t>(number);
}

// All places of the text that a pattern can have reached, one pattern character after the other.
bool matches(const std::string &pattern, const std::string &text)
{
	std::vector<bool> at(text.size() + 1);
	at[0] = true;
	for (char c : pattern) {
		for (size_t i = text.size(); i > 0; --i)
			at[i] = c == '*' ? at[i] : at[i - 1] && (c == '?' || c == text[i - 1]);
		at[0] = at[0] && c == '*';
		for (size_t i = 0; c == '*' && i < text.size(); ++i)
			at[i + 1] = at[i + 1] || at[i];
	}
	return at.back();
}

// A pattern also matches cublasSgemm_v2_64 by the name of its 32-bit variant and by the names of the headers' macros;
// no other names have these endings.
bool isNamed(const std::string &pattern, std::string entry)
{
	if (matches(pattern, entry))
		return true;
	std::string width;
	if (entry.size() > 3 && entry.substr(entry.size() - 3) == "_64")
		width = "_64", entry.erase(entry.size() - 3);
	std::string macro = entry;
	if (macro.size() > 3 && macro.substr(macro.size() - 3) == "_v2")
		macro.erase(macro.size() - 3);
	return matches(pattern, entry) || matches(pattern, macro) || matches(pattern, macro + width);
}

// Compares the names of a list with the parsed result: every one is an op, or a pattern that matches an entry point,
// and nothing else is in the set.
void checkNames(const NameSet &set, const std::string &list, Lists chosen)
{
	uint64_t ops = 0;
	std::vector<std::string> all(entries.begin(), entries.end());
	std::vector<uint64_t> wanted((all.size() + 63) / 64);
	std::vector<std::string> names;
	for (std::string name : split(list, ',')) {
		name.erase(0, std::min(name.find_first_not_of(' '), name.size()));
		name.erase(name.find_last_not_of(' ') + 1);
		if (name.empty())
			continue;
		const size_t colon = name.find(':');
		Lists lists = chosen;
		for (Lists each : {Lists::torch, Lists::paddle, Lists::mindspore})
			if (name.substr(0, std::min(colon, name.size())) == listSystem(each).prefix && colon != name.npos)
				lists = each;
		std::string op = colon == name.npos ? name : name.substr(colon + 1);
		if (lists == Lists::mindspore)
			for (const std::string module : {"mindspore.", "mint.", "nn.", "ops.", "functional."})
				op.erase(0, op.compare(0, module.size(), module) ? 0 : module.size());
		const auto known = opsOf(lists);
		if (std::find(known.begin(), known.end(), op) != known.end()) {
			ops |= rowsOf(lists, op);
			names.push_back(listSystem(lists).prefix + (":" + op));
			continue;
		}
		REQUIRE(colon == name.npos);
		names.push_back(op);
		bool isKnown = false;
		for (size_t row = 0; row < all.size(); ++row)
			if (isNamed(op, all[row])) {
				isKnown = true;
				wanted[row / 64] |= uint64_t{1} << row % 64;
			}
		REQUIRE(isKnown);
	}
	REQUIRE(set.ops == ops);
	REQUIRE(set.names == names);
	std::vector<uint64_t> got = set.entries;
	got.resize(wanted.size());
	REQUIRE(got == wanted);
}

// An accepted value has the meaning of its text, by an independent parser. Returns it in one canonical spelling.
std::string checkValue(const Options &options, Option option, const OptionRow &row, const std::string &value)
{
	switch (row.type) {
	case ValueType::choice: {
		const std::vector<std::string> group = split(split(row.values, ' ').at(field(options, option)), '=');
		REQUIRE(std::find(group.begin(), group.end(), value) != group.end());
		return group.front();
	}
	case ValueType::size:
		REQUIRE(size(value) == field(options, option));
		// Numbers of 20 digits are accepted only with a unit.
		return field(options, option) % 1024 ? std::to_string(field(options, option))
		                                     : std::to_string(field(options, option) >> 10) + "K";
	case ValueType::time: {
		// Exact to the nanosecond except for the rounding of a double; in one spelling.
		const size_t end = value.find_first_not_of("0123456789.");
		const std::string unit = end == value.npos ? "" : value.substr(end);
		REQUIRE((unit.empty() || unit == "s" || unit == "ms" || unit == "m"));
		const double seconds = std::stod(value) * (unit == "m" ? 60 : unit == "ms" ? 1e-3 : 1);
		REQUIRE(std::abs(seconds * 1e9 - double(field(options, option))) <= seconds * 1e-3 + 1);
		return value;
	}
	case ValueType::fraction: {
		REQUIRE(value.find_first_not_of("0123456789.") == value.npos);
		const double fraction = std::stod(value);
		REQUIRE((fraction >= 0 && fraction <= 1));
		REQUIRE(field(options, option) == (fraction > 0 ? static_cast<uint64_t>(std::llround(1 / fraction)) : 0));
		return value;
	}
	case ValueType::range: {
		const CaptureRange &range = options.captureRange;
		if (range.kind == CaptureRange::Kind::profiler)
			return "cudaProfilerApi";
		if (range.kind == CaptureRange::Kind::nvtx)
			return "nvtx:" + range.name;
		REQUIRE((range.kind == CaptureRange::Kind::calls && range.first >= 1 && range.first <= range.last));
		return "calls:" + std::to_string(range.first) + ":" +
		       (range.last == UINT64_MAX ? "" : std::to_string(range.last));
	}
	case ValueType::names: {
		const NameSet &set = option == Option::customWhite ? options.customWhite : options.customBlack;
		checkNames(set, value, options.lists);
		std::string list;
		for (const std::string &name : set.names)
			list += name + ",";
		return list;
	}
	case ValueType::text:
		break;
	}
	return value;
}

void checkEmulated(Emulator which, const std::string &value)
{
	const size_t colon = value.find(':');
	if (which == Emulator::memory)
		REQUIRE(size(value));
	else if (which == Emulator::devices)
		REQUIRE(isNumber(value) && std::stoi(value) < 100);
	else if (which == Emulator::driver)
		REQUIRE(isNumber(value) && std::stoi(value) >= 12000 && std::stoi(value) < 13100);
	else if (which == Emulator::cudnn)
		REQUIRE(isNumber(value) && value.size() == 5 && value.front() == '9');
	else if (which == Emulator::cupti)
		REQUIRE(!value.empty());
	else if (which == Emulator::plugins)
		REQUIRE(value.find('/') != value.npos);
	else
		REQUIRE(colon != 0 && colon != value.npos && isNumber(value.substr(colon + 1)) &&
		        std::stoull(value.substr(colon + 1)) > 0);
}

bool hasSameFields(const Options &x, const Options &y)
{
	const auto table = optionTable();
	for (size_t i = 0; i < table.size(); ++i)
		if ((table[i].type == ValueType::choice || table[i].type == ValueType::size ||
		     table[i].type == ValueType::time || table[i].type == ValueType::fraction) &&
		    field(x, static_cast<Option>(i)) != field(y, static_cast<Option>(i)))
			return false;
	return x.customWhite.ops == y.customWhite.ops && x.customWhite.entries == y.customWhite.entries &&
	       x.customBlack.ops == y.customBlack.ops && x.customBlack.entries == y.customBlack.entries &&
	       x.directory == y.directory && x.traceFile == y.traceFile && x.captureRange.kind == y.captureRange.kind &&
	       x.captureRange.name == y.captureRange.name && x.captureRange.first == y.captureRange.first &&
	       x.captureRange.last == y.captureRange.last;
}

bool hasSameRules(const Rules &x, const Rules &y)
{
	const auto isSame = [](const Rule &x, const Rule &y) {
		for (size_t i = 0; i < matcherCount; ++i)
			if (x.range[i].low != y.range[i].low || x.range[i].high != y.range[i].high)
				return false;
		return textOf(x) == textOf(y) && x.entries == y.entries && x.ops == y.ops && x.region == y.region &&
		       x.thread == y.thread && x.precision == y.precision;
	};
	return x.regionPatterns == y.regionPatterns && x.threadPatterns == y.threadPatterns &&
	       std::equal(x.list.begin(), x.list.end(), y.list.begin(), y.list.end(), isSame);
}

void checkError(const std::string &error, const char *beginning = "AUTOAMP_")
{
	REQUIRE(error.starts_with(beginning) && error.size() < 900);
	REQUIRE(std::none_of(error.begin(), error.end(), [](unsigned char c) { return std::iscntrl(c); }));
}

} // namespace

std::vector<std::string> strings(const char *data, size_t size)
{
	return split(std::string(data, size), '\0');
}

void checkEnvironment(const std::vector<std::string> &variables)
{
	const ParsedOptions parsed = parse(variables);
	if (!parsed.error.empty())
		return checkError(parsed.error);
	const Options &options = parsed.options;
	const auto table = optionTable();
	for (const std::string &variable : variables)
		REQUIRE(!variable.starts_with("AUTOAMP_") || emulatorSetting(variable.substr(0, variable.find('='))) ||
		        std::any_of(table.begin(), table.end(),
		                    [&](const OptionRow &row) { return variable.substr(0, variable.find('=')) == row.name; }));
	std::vector<std::string> printed;
	for (const char *name : {"HOME", "XDG_STATE_HOME"})
		if (const auto value = typed(variables, name))
			printed.push_back(name + ("=" + *value));
	for (size_t i = 0; i < table.size(); ++i) {
		const auto option = static_cast<Option>(i);
		const auto value = typed(variables, table[i].name);
		const bool isText = table[i].type == ValueType::text || table[i].type == ValueType::range;
		const bool isSet = value && !(isText && value->empty());
		REQUIRE(options.originOf(option) == (isSet ? Origin::environment : Origin::fallback));
		REQUIRE(options.valueOf(option) == (isSet ? *value : table[i].fallback));
		if (isSet)
			printed.push_back(std::string(table[i].name) + "=" + checkValue(options, option, table[i], *value));
	}
	for (const EmulatorSetting &setting : emulatorSettings())
		if (const auto value = typed(variables, setting.name); value && !value->empty()) {
			checkEmulated(static_cast<Emulator>(&setting - emulatorSettings().data()), *value);
			printed.push_back(std::string(setting.name) + "=" + *value);
		}
	const ParsedOptions again = parse(printed);
	REQUIRE(again.error.empty());
	REQUIRE(hasSameFields(options, again.options));
}

void checkFile(const std::string &text)
{
	const auto [options, error] = parseFile(text);
	if (!error.empty())
		return checkError(error, "f:");
	std::string printed;
	const auto table = optionTable();
	for (size_t i = 0; i < table.size(); ++i) {
		const auto option = static_cast<Option>(i);
		REQUIRE(options.originOf(option) != Origin::environment);
		if (options.originOf(option) == Origin::file)
			printed +=
			    keyOf(table[i]) + " = " + quoted(checkValue(options, option, table[i], options.valueOf(option))) + "\n";
	}
	printed += "rule = [\n";
	for (const Rule &rule : options.rules->list)
		printed += "{ " + textOf(rule) + " },\n";
	for (const std::string &warning : options.rules->warnings())
		checkError(warning, "f:");
	const auto [again, problem] = parseFile(printed + "]\n");
	REQUIRE(problem.empty());
	REQUIRE(hasSameFields(options, again));
	REQUIRE(hasSameRules(*options.rules, *again.rules));
}

} // namespace fuzz
