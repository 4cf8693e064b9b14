#include "src/config/emulator_settings.h"

#include "src/config/option_values.h"
#include "src/lists/split.h"

#include <algorithm>

namespace autoamp::policy {

namespace {

constexpr EmulatorSetting settings[] = {
#define X(id, variable, values, fallback, help) {variable, values, fallback, help},
    AUTOAMP_EMULATOR_SETTINGS(X)
#undef X
};

} // namespace

std::span<const EmulatorSetting> emulatorSettings()
{
	return settings;
}

const EmulatorSetting *emulatorSetting(std::string_view name)
{
	const auto *found =
	    std::find_if(std::begin(settings), std::end(settings), [&](auto &each) { return name == each.name; });
	return found == std::end(settings) ? nullptr : found;
}

bool isAccepted(const EmulatorSetting &setting, std::string_view value)
{
	const auto isNumber = [](std::string_view text) {
		return !text.empty() && text.size() < 8 && text.find_first_not_of("0123456789") == text.npos;
	};
	const auto which = static_cast<Emulator>(&setting - settings);
	uint64_t size = 0;
	if (which == Emulator::memory)
		return parseSize(value, size);
	if (which == Emulator::driver)
		return isNumber(value) && value.size() == 5 && value >= "12000" && value < "13100";
	if (which == Emulator::cudnn)
		return isNumber(value) && value.size() == 5 && value.front() == '9';
	if (which == Emulator::devices)
		return isNumber(value) && value.size() < 3;
	if (which == Emulator::plugins)
		return !anyPart(value, ':', [](std::string_view path) { return path.find('/') == path.npos; });
	if (which == Emulator::cupti)
		return !anyPart(value, ',', [](std::string_view word) {
			return valueIndex("late shuffled lost early reversed dropped orphaned taken held", word) < 0;
		});
	const size_t colon = value.find(':');
	return colon != value.npos && colon > 0 && isNumber(value.substr(colon + 1)) &&
	       value.find_first_not_of('0', colon + 1) != value.npos;
}

} // namespace autoamp::policy
