#include "src/config/check_options.h"

#include "src/lists/nearest.h"
#include "src/lists/split.h"

#include <algorithm>

namespace autoamp::policy {

namespace {

// The place where a value was typed, as text for messages; with the value as NAME=value.
std::string sourceOf(const Options &options, Option option, bool hasValue = true)
{
	const auto index = static_cast<size_t>(option);
	const OptionRow &row = optionTable()[index];
	const std::string name =
	    options.origin[index] == Origin::file ? options.place[index] + ": " + keyOf(row) : row.name;
	const std::string &place = options.place[index]; // for a command-line option, the option itself
	if (options.origin[index] == Origin::environment && place.starts_with("-"))
		return hasValue ? place + " " + shown(options.value[index]) : place;
	return hasValue ? name + "=" + shown(options.value[index]) : name;
}

} // namespace

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

std::string checkTogether(const Options &options)
{
	if (const std::string problem = checkLists(options); !problem.empty())
		return problem;
	const uint8_t levels = listSystem(options.lists).levels;
	if (!(levels & bit(options.level))) {
		std::string accepted;
		anyPart(optionTable()[static_cast<size_t>(Option::level)].values, ' ',
		        [&, level = 0u](std::string_view word) mutable {
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
	if (isLibrary && options.dtype == op::Dtype::float16 && options.scaling != Scaling::off)
		return strategy + ": the library does not scale float16; accepted: AUTOAMP_DTYPE=bfloat16, or "
		                  "AUTOAMP_SCALING=off with it";
	return {};
}

} // namespace autoamp::policy
