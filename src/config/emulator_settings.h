// The settings of the emulated device (tools/emulated), which reads them itself. autoamp only accepts the names, and
// refuses values that have no meaning for the device. Constant data; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace autoamp::policy {

// One row: enumerator, variable, accepted values, default, help line. Values and default are texts for the help.
#define AUTOAMP_EMULATOR_SETTINGS(X)                                                                                   \
	X(fail, "AUTOAMP_EMU_FAIL", "function:N, N from 1", "", "Emulated device: make the N-th call of a function fail")  \
	X(memory, "AUTOAMP_EMU_MEMORY", "bytes, or a number with K, M or G", "a quarter of RAM",                           \
	  "Emulated device: memory per device")                                                                            \
	X(devices, "AUTOAMP_EMU_DEVICES", "0 to 99", "2", "Emulated device: number of devices")                            \
	X(driver, "AUTOAMP_EMU_DRIVER", "12000 to 13099", "version of the CUDA headers",                                   \
	  "Emulated device: CUDA version of the driver; an image for a newer one does not load")                           \
	X(cudnn, "AUTOAMP_EMU_CUDNN", "90000 to 99999", "version of the cuDNN headers",                                    \
	  "Emulated device: reported cuDNN version; below 91900 it has the crash of those versions")                       \
	X(cupti, "AUTOAMP_EMU_CUPTI", "late,shuffled,lost,early,reversed,dropped,orphaned,taken,held", "",                 \
	  "Emulated device: CUPTI faults to simulate")                                                                     \
	X(plugins, "AUTOAMP_EMU_PLUGINS", "paths with a /, colon-separated", "",                                           \
	  "Emulated device: plug-ins with host versions of device kernels")

enum class Emulator : uint8_t {
#define X(id, variable, values, fallback, help) id,
	AUTOAMP_EMULATOR_SETTINGS(X)
#undef X
	    count
};

struct EmulatorSetting {
	const char *name;
	const char *values;
	const char *fallback;
	const char *help;
};

std::span<const EmulatorSetting> emulatorSettings();
const EmulatorSetting *emulatorSetting(std::string_view name);           // null: there is no such setting
bool isAccepted(const EmulatorSetting &setting, std::string_view value); // an empty value is as if unset

} // namespace autoamp::policy
