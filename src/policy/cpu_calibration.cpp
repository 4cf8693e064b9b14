#include "src/policy/cpu_calibration.h"

#include "src/base/hash.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace autoamp::policy {

namespace {

constexpr std::string_view header = "version=3\nmodel=", blasKey = "blas=", checkKey = "check=";

// Calls visit(key, constant) for each constant, in the order of the file.
template <class AnyCpu, class Visit>
void eachConstant(AnyCpu &cpu, Visit visit)
{
	visit("cache", cpu.cache);
	visit("fork", cpu.fork);
	visit("least_gain", cpu.leastGain);
	constexpr const char *paths[] = {"single", "converted", "kept"};
	for (size_t i = 0; i < std::size(paths); ++i) {
		const std::string path = paths[i];
		visit(path + ".call", cpu.rates[i].call);
		visit(path + ".flops", cpu.rates[i].flops);
		visit(path + ".near", cpu.rates[i].near);
		visit(path + ".far", cpu.rates[i].far);
	}
	visit("kept.least", cpu.keptLeast);
	visit("speed.avx2", cpu.avx2Speed);
	visit("speed.older", cpu.olderSpeed);
}

std::string checkOf(std::string_view text)
{
	char digits[17] = {};
	std::to_chars(digits, digits + 16, base::hashBytes(text.data(), text.size()), 16);
	return digits;
}

// The next line without its end. Returns an empty line at the end of the text.
std::string_view takeLine(std::string_view &text)
{
	const size_t end = text.find('\n');
	const std::string_view line = text.substr(0, end);
	text.remove_prefix(end == text.npos ? text.size() : end + 1);
	return line;
}

} // namespace

std::string textOf(const Cpu &cpu, std::string_view model, std::string_view blas)
{
	std::string text = std::string(header).append(model).append("\n").append(blasKey).append(blas).append("\n");
	eachConstant(cpu, [&text](const std::string &key, double value) {
		char digits[32];
		const char *const end = std::to_chars(digits, digits + sizeof digits, value).ptr;
		text.append(key).append("=").append(digits, static_cast<size_t>(end - digits)).append("\n");
	});
	return text + std::string(checkKey) + checkOf(text) + "\n";
}

std::string readCalibration(std::string_view text, std::string_view model, Cpu &cpu, std::string *blas)
{
	if (!text.starts_with(header))
		return "it has another version, or is not a calibration";
	const size_t check = text.rfind(checkKey);
	if (check == text.npos || text.substr(check) != std::string(checkKey) + checkOf(text.substr(0, check)) + "\n")
		return "it is damaged";
	text = text.substr(header.size(), check - header.size());
	if (takeLine(text) != model)
		return "it was made on another CPU";
	Cpu made = cpu;
	const std::string_view library = takeLine(text);
	bool isGood = library.starts_with(blasKey);
	eachConstant(made, [&](const std::string &key, double &value) {
		const std::string_view line = takeLine(text), digits = line.substr(std::min(key.size() + 1, line.size()));
		const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
		isGood &= line.starts_with(key + "=") && error == std::errc() && end == digits.data() + digits.size() &&
		          std::isfinite(value) && value > 0;
	});
	if (!isGood || !text.empty())
		return "it is damaged";
	made.name = "calibrated";
	cpu = made;
	if (blas)
		*blas = library.substr(blasKey.size());
	return {};
}

} // namespace autoamp::policy
