// The file of constants that `autoamp doctor --calibrate` measures on a CPU (cpu-calibration in AUTOAMP_DIR), as text.
// Any thread; reads and writes no files.
#pragma once

#include "src/policy/cpu_model.h"

#include <string>
#include <string_view>

namespace autoamp::policy {

constexpr const char *cpuCalibrationFile = "cpu-calibration";

// `model`: name of the CPU; `blas`: file of the library that was measured. One line each.
std::string textOf(const Cpu &cpu, std::string_view model, std::string_view blas);

// Sets the constants of `cpu` from the text, and its name. Returns the reason why the text is refused, or an empty
// text; if it is refused, `cpu` and `blas` are unchanged.
std::string readCalibration(std::string_view text, std::string_view model, Cpu &cpu, std::string *blas = nullptr);

} // namespace autoamp::policy
