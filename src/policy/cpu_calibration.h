// The file of constants that `autoamp doctor --calibrate` measures on a CPU (cpu-calibration in AUTOAMP_DIR), as text.
// Any thread; reads and writes no files.
#pragma once

#include "src/policy/cpu_model.h"

#include <string>
#include <string_view>

namespace autoamp::policy {

constexpr const char *cpuCalibrationFile = "cpu-calibration";

// `model`: name of the CPU, one line.
std::string textOf(const Cpu &cpu, std::string_view model);

// Sets the constants of `cpu` from the text, and its name. Returns the reason why the text is refused, or an empty
// text; if it is refused, `cpu` is unchanged.
std::string readCalibration(std::string_view text, std::string_view model, Cpu &cpu);

} // namespace autoamp::policy
