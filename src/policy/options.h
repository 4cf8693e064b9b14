// The configuration: the table of AUTOAMP_* variables, which are also the keys of configuration files, and their
// values. Used by the core and the command line. Parsed once per process; any thread may read it. In the core, only
// src/policy reads the environment.
#pragma once

#include "src/op/op.h"
#include "src/policy/capture_range.h"
#include "src/policy/lists.h"
#include "src/policy/rules.h"
#include "src/policy/toml.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

enum class ValueType : uint8_t {
	words,    // one of `values`
	size,     // bytes, or a number with K, M or G
	time,     // seconds, or a number with ms, s or m
	text,     // a path or pattern; empty: as if unset
	range,    // a capture range; empty: as if unset
	names,    // comma-separated ops and entry-point globs
	emulator, // for the emulated device, which validates it too
};

// One row: enumerator, variable, type, accepted words, default, help line. Accepted words have aliases after `=` and
// are in the order of the enum below; for the emulator, they are text for the help. The default of type text is text
// for the help too.
#define AUTOAMP_OPTIONS(X)                                                                                             \
	X(enabled, "AUTOAMP_ENABLED", words, "0 1", "1", "Enable autoamp; 0 disables interception")                        \
	X(level, "AUTOAMP_LEVEL", words, "O0 O1 O2 O3 auto OD", "O1",                                                      \
	  "Level of the op lists; O0 records decisions without changing calls")                                            \
	X(dtype, "AUTOAMP_DTYPE", words, "float16=fp16=half bfloat16=bf16 tf32", "float16", "Type used for lowered calls") \
	X(lists, "AUTOAMP_LISTS", words, "torch paddle mindspore", "torch",                                                \
	  "Op lists to apply; levels: torch O0 O1, paddle O0 O1 O2 OD, mindspore O0 O1 O2 O3 auto")                        \
	X(customWhite, "AUTOAMP_CUSTOM_WHITE_LIST", names, "", "",                                                         \
	  "Additional ops (mm, torch:mm, paddle:mul, ms:MatMul) or entry points (cublasSgemm*) to lower")                  \
	X(customBlack, "AUTOAMP_CUSTOM_BLACK_LIST", names, "", "",                                                         \
	  "Ops or entry points to keep in fp32; float16 accumulation is raised to fp32")                                   \
	X(usePromote, "AUTOAMP_USE_PROMOTE", words, "0 1", "1",                                                            \
	  "Paddle O2: keep unlisted ops on fp32 data in fp32 (1) or lower them (0)")                                       \
	X(scaling, "AUTOAMP_SCALING", words, "auto off", "auto",                                                           \
	  "Scale float16 operands and verify the scale (auto), or convert without scaling (off)")                          \
	X(strategy, "AUTOAMP_STRATEGY", words, "auto cast fp32 library tf32", "auto",                                      \
	  "Lowering method; auto selects the fastest by cost model, fp32 lowers nothing")                                  \
	X(scope, "AUTOAMP_SCOPE", words, "process regions", "process",                                                     \
	  "Lower calls in the whole process, or only inside regions opened by the program (autoamp.h)")                    \
	X(memory, "AUTOAMP_MEMORY", size, "", "1G", "Maximum device memory for converted operands, per device")            \
	X(trace, "AUTOAMP_TRACE", words, "off summary ops kernels", "summary",                                             \
	  "Trace detail: totals (summary), each call (ops, default under autoamp run), GPU kernels by CUPTI (kernels)")    \
	X(directory, "AUTOAMP_DIR", text, "", "$XDG_STATE_HOME/autoamp or ~/.local/state/autoamp",                         \
	  "Directory for traces of programs preloaded without autoamp run")                                                \
	X(traceFile, "AUTOAMP_TRACE_FILE", text, "", "<AUTOAMP_DIR>/%e.%t.%p.aat",                                         \
	  "Trace file name; %e program, %t time, %h host, %p pid, %n counter, %q{VAR}, %rank%, %%")                        \
	X(traceMaxSize, "AUTOAMP_TRACE_MAX_SIZE", size, "", "256M",                                                        \
	  "Maximum trace size; single events beyond it are dropped, totals stay exact")                                    \
	X(captureRange, "AUTOAMP_CAPTURE_RANGE", range, "", "",                                                            \
	  "Record only between cudaProfilerStart and -Stop, in matching NVTX ranges, or calls A to B")                     \
	X(delay, "AUTOAMP_DELAY", time, "", "0",                                                                           \
	  "Start recording this long after process start; also applies to a capture range")                                \
	X(duration, "AUTOAMP_DURATION", time, "", "0",                                                                     \
	  "Stop recording this long after the first recorded call; 0 records until exit")                                  \
	X(cuptiPath, "AUTOAMP_CUPTI_PATH", text, "", "", "Path of the libcupti to load for AUTOAMP_TRACE=kernels")         \
	X(config, "AUTOAMP_CONFIG", text, "", "", "TOML file with settings and rules (see autoamp help rules)")            \
	X(log, "AUTOAMP_LOG", words, "off error warn info debug", "warn", "Verbosity on stderr")                           \
	X(hookDlsym, "AUTOAMP_HOOK_DLSYM", words, "0 1 got", "1",                                                          \
	  "Intercept functions looked up with dlsym (1), also in RTLD_DEEPBIND plug-ins (got)")                            \
	X(gpuModel, "AUTOAMP_GPU_MODEL", words, "auto a100 h100 h200 b200 rtx4090 h100pcie rtx5090 pro6000", "auto",       \
	  "GPU constants for the cost model (auto: detected, or h100 without a device)")                                   \
	X(emulatorFail, "AUTOAMP_EMU_FAIL", emulator, "function:N, N from 1", "",                                          \
	  "Emulated device: make the N-th call of a function fail")                                                        \
	X(emulatorMemory, "AUTOAMP_EMU_MEMORY", emulator, "bytes, or a number with K, M or G", "a quarter of RAM",         \
	  "Emulated device: memory per device")                                                                            \
	X(emulatorDevices, "AUTOAMP_EMU_DEVICES", emulator, "0 to 99", "2", "Emulated device: number of devices")          \
	X(emulatorCudnn, "AUTOAMP_EMU_CUDNN", emulator, "90000 to 99999", "version of the cuDNN headers",                  \
	  "Emulated device: reported cuDNN version; below 91900 it has the crash of those versions")                       \
	X(emulatorCupti, "AUTOAMP_EMU_CUPTI", emulator, "late,shuffled,lost,early,reversed,dropped,orphaned,taken,held",   \
	  "", "Emulated device: CUPTI faults to simulate")                                                                 \
	X(emulatorPlugins, "AUTOAMP_EMU_PLUGINS", emulator, "paths with a /, colon-separated", "",                         \
	  "Emulated device: plug-ins with host versions of device kernels")

enum class Option : uint8_t {
#define X(id, variable, type, values, fallback, help) id,
	AUTOAMP_OPTIONS(X)
#undef X
	    count
};

struct OptionRow {
	const char *name;
	ValueType type;
	const char *values;
	const char *fallback;
	const char *help;
};

// By Option. acceptedValues() formats the column `values` for messages: "float16 (fp16, half), bfloat16 (bf16)".
std::span<const OptionRow> optionTable();
std::string acceptedValues(const OptionRow &row);
std::string keyOf(const OptionRow &row); // key in a file: level, dtype, ...; empty: only a variable

enum class Scaling : uint8_t { automatic, off };
enum class StrategyChoice : uint8_t { automatic, cast, fp32, library, tf32 };
enum class Scope : uint8_t { process, regions };
enum class TraceLevel : uint8_t { off, summary, ops, kernels };
enum class LogLevel : uint8_t { off, error, warn, info, debug };
enum class GpuModel : uint8_t { automatic, a100, h100, h200, b200, rtx4090, h100pcie, rtx5090, pro6000 };

enum class Origin : uint8_t { fallback, file, environment };

// A custom list, resolved to the calls that it names.
struct NameSet {
	std::vector<std::string> names;
	std::vector<std::string> idle; // names of ops that reach no library call with a 16-bit form
	uint64_t ops = 0;              // bit: row of callRows()
	std::vector<uint64_t> entries; // bit: row of the entry tables

	bool has(const op::Op &op) const
	{
		size_t word = op.entry / 64u;
		return (ops >> static_cast<unsigned>(op.kind) & 1u) ||
		       (word < entries.size() && (entries[word] >> op.entry % 64u & 1u));
	}
};

struct Options {
	bool enabled = true;
	Level level = Level::O1;
	op::Dtype dtype = op::Dtype::float16;
	Lists lists = Lists::torch;
	bool usePromote = true;
	NameSet customWhite, customBlack;
	Scaling scaling = Scaling::automatic;
	StrategyChoice strategy = StrategyChoice::automatic;
	Scope scope = Scope::process;
	uint64_t memory = uint64_t{1} << 30;
	TraceLevel trace = TraceLevel::summary;
	std::string directory; // resolved; empty: neither AUTOAMP_DIR, XDG_STATE_HOME nor HOME is set
	CaptureRange captureRange;
	uint64_t delayNs = 0, durationNs = 0; // 0: none
	std::string cuptiPath;
	std::string traceFile; // pattern; empty: no directory to put it in
	uint64_t traceMaxSize = uint64_t{256} << 20;
	LogLevel log = LogLevel::warn;
	int hookDlsym = 1; // index of the value; 2 is `got`. Used by the front
	GpuModel gpuModel = GpuModel::automatic;
	bool tf32Allowed = true;                                              // false: NVIDIA_TF32_OVERRIDE=0
	bool emulatesSingle = false;                                          // CUBLAS_EMULATE_SINGLE_PRECISION=1
	std::shared_ptr<const Rules> rules = std::make_shared<const Rules>(); // shared by all regions: one list per process
	Origin origin[static_cast<size_t>(Option::count)] = {}; // origin of the value: the source with the highest priority
	std::string place[static_cast<size_t>(Option::count)];  // default, environment, file:line:column; lists: all places
	std::string value[static_cast<size_t>(Option::count)];  // as typed; if unset, the default of the table

	Origin originOf(Option option) const { return origin[static_cast<size_t>(option)]; }
	const std::string &valueOf(Option option) const { return value[static_cast<size_t>(option)]; }
};

// `error` is one line without a newline. If it is not empty, the options must not be used: the library stays off.
struct ParsedOptions {
	Options options;
	std::string error;
};

// `environment`: NAME=value strings up to a null pointer, like environ. `entries`: names by row of the entry tables.
// Names that do not begin with AUTOAMP_ are ignored. `files`: highest priority first; the environment has priority over
// them.
ParsedOptions parseOptions(const char *const *environment, std::span<const char *const> entries,
                           std::span<const ConfigFile> files = {});
// The same with the files that the environment selects: AUTOAMP_CONFIG, then <program>.toml and autoamp.toml in the
// user's configuration folder. `program`: identical to %e in a trace file name; empty: not known.
ParsedOptions configure(const char *const *environment, std::span<const char *const> entries,
                        const std::string &program);

// Applies the settings of a region to the options around it. Lists are merged: a name in one list is removed from the
// other. Level O0 from the environment is kept. Change::name: name of a variable.
struct Change {
	std::string_view name, value;
};
ParsedOptions changed(const Options &around, std::span<const Change> changes, std::span<const char *const> entries);

} // namespace autoamp::policy
