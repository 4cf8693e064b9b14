// The values of the configuration. Used by the core and the command line. Parsed once per process; any thread may read
// them.
#pragma once

#include "src/config/capture_range.h"
#include "src/config/emulator_settings.h"
#include "src/config/name_set.h"
#include "src/config/option_table.h"
#include "src/config/rules.h"
#include "src/config/weights.h"
#include "src/lists/lists.h"
#include "src/op/op.h"

#include <cstdint>
#include <memory>
#include <string>

namespace autoamp::policy {

enum class Scaling : uint8_t { automatic, off, strict };
enum class StrategyChoice : uint8_t { automatic, cast, fp32, library, tf32 };
enum class Scope : uint8_t { automatic, process, regions };
enum class TraceLevel : uint8_t { off, summary, ops, kernels };
enum class LogLevel : uint8_t { off, error, warn, info, debug };
enum class GpuModel : uint8_t { automatic, a100, h100, h200, b200, rtx4090, h100pcie, rtx5090, pro6000 };

enum class CpuModel : uint8_t { automatic, zen4, zen5, xeon };

enum class Origin : uint8_t { fallback, file, environment };

// A variable of the vendor's libraries. At 0, they use no TF32, and neither does autoamp.
constexpr const char *tf32Override = "NVIDIA_TF32_OVERRIDE";

struct Options {
	bool enabled = true;
	Level level = Level::O1;
	op::Dtype dtype = op::Dtype::float16;
	op::Dtype dtypeOnCpu = op::Dtype::bfloat16; // of CPU calls: `dtype` if it was typed
	Lists lists = Lists::torch;
	bool usePromote = true;
	NameSet customWhite, customBlack;
	Scaling scaling = Scaling::automatic;
	bool roundOutput = false;
	StrategyChoice strategy = StrategyChoice::automatic;
	Scope scope = Scope::automatic;
	uint64_t memory = uint64_t{1} << 30;
	Weights weights = Weights::off, weightsOnCpu = Weights::watched; // of CUDA calls, of CPU calls
	TraceLevel trace = TraceLevel::summary;
	std::string directory; // resolved; empty: neither AUTOAMP_DIR, XDG_STATE_HOME nor HOME is set
	CaptureRange captureRange;
	uint64_t delayNs = 0, durationNs = 0; // 0: none
	uint32_t auditPeriod = 0;             // one lowered call in this many is audited; 0: none
	std::string cuptiPath;
	std::string traceFile; // pattern; empty: no directory to put it in
	uint64_t traceMaxSize = uint64_t{256} << 20;
	LogLevel log = LogLevel::warn;
	int hookDlsym = 1; // index of the value; 2 is `got`. Used by the front
	GpuModel gpuModel = GpuModel::automatic;
	CpuModel cpuModel = CpuModel::automatic;
	bool tf32Allowed = true;                                              // false: tf32Override is 0
	bool emulatesSingle = false;                                          // CUBLAS_EMULATE_SINGLE_PRECISION=1
	std::shared_ptr<const Rules> rules = std::make_shared<const Rules>(); // shared by all regions: one list per process
	Origin origin[static_cast<size_t>(Option::count)] = {}; // origin of the value: the source with the highest priority
	std::string place[static_cast<size_t>(Option::count)];  // default, environment, file:line:column; lists: all places
	std::string value[static_cast<size_t>(Option::count)];  // as typed; if unset, the default of the table

	std::string emulator[static_cast<size_t>(Emulator::count)]; // VALUE (PLACE) as typed; empty: unset

	Origin originOf(Option option) const { return origin[static_cast<size_t>(option)]; }
	const std::string &valueOf(Option option) const { return value[static_cast<size_t>(option)]; }
};

} // namespace autoamp::policy
