// The table of AUTOAMP_* variables, which are also the keys of configuration files. Constant data; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace autoamp::policy {

enum class ValueType : uint8_t {
	choice,   // one of `values`
	size,     // bytes, or a number with K, M or G
	time,     // seconds, or a number with ms, s or m
	fraction, // 0 to 1; as a number, how many calls one of which is meant: 100 for 0.01; 0 for 0
	text,     // a path or pattern; empty: as if unset
	range,    // a capture range; empty: as if unset
	names,    // comma-separated ops and entry-point globs
};

// One row: enumerator, variable, type, accepted words, default, help line. Accepted words have aliases after `=` and
// are in the order of the enum in options.h. The default of type text is text for the help.
#define AUTOAMP_OPTIONS(X)                                                                                             \
	X(enabled, "AUTOAMP_ENABLED", choice, "0 1", "1", "Enable autoamp; 0 disables interception")                       \
	X(level, "AUTOAMP_LEVEL", choice, "O0 O1 O2 O3 auto OD", "O1",                                                     \
	  "Level of the op lists; O0 records decisions without changing calls")                                            \
	X(dtype, "AUTOAMP_DTYPE", choice, "float16=fp16=half bfloat16=bf16 tf32", "float16",                               \
	  "Type used for lowered calls")                                                                                   \
	X(lists, "AUTOAMP_LISTS", choice, "torch paddle mindspore", "torch",                                               \
	  "Op lists to apply; levels: torch O0 O1, paddle O0 O1 O2 OD, mindspore O0 O1 O2 O3 auto")                        \
	X(customWhite, "AUTOAMP_CUSTOM_WHITE_LIST", names, "", "",                                                         \
	  "Additional ops (mm, torch:mm, paddle:mul, ms:MatMul) or entry points (cublasSgemm*) to lower")                  \
	X(customBlack, "AUTOAMP_CUSTOM_BLACK_LIST", names, "", "",                                                         \
	  "Ops or entry points to keep in fp32; float16 accumulation is raised to fp32")                                   \
	X(usePromote, "AUTOAMP_USE_PROMOTE", choice, "0 1", "1",                                                           \
	  "Paddle O2: keep unlisted ops on fp32 data in fp32 (1) or lower them (0)")                                       \
	X(scaling, "AUTOAMP_SCALING", choice, "auto off strict", "auto",                                                   \
	  "Scale float16 operands and verify the scale (auto), also check and mend every product (strict), or convert "    \
	  "without scaling (off)")                                                                                         \
	X(roundOutput, "AUTOAMP_ROUND_OUTPUT", choice, "0 1", "0",                                                         \
	  "Round results through the 16-bit type before they are stored in fp32 (1), as a framework's autocast does")      \
	X(strategy, "AUTOAMP_STRATEGY", choice, "auto cast fp32 library tf32", "auto",                                     \
	  "Lowering method; auto selects the fastest by cost model, fp32 lowers nothing")                                  \
	X(scope, "AUTOAMP_SCOPE", choice, "auto process regions", "auto",                                                  \
	  "Lower calls in the whole process, or only inside regions (also NVTX ranges that a rule names); auto: regions "  \
	  "after the first autoamp.autocast")                                                                              \
	X(memory, "AUTOAMP_MEMORY", size, "", "1G", "Maximum device memory for converted operands, per device")            \
	X(weights, "AUTOAMP_WEIGHTS", choice, "auto off checked watched frozen", "auto",                                   \
	  "Keep 16-bit copies of weights: never (off), in CUDA calls after a sampled check (checked), in CPU calls until " \
	  "a write (watched), or on the promise that they are constant (frozen); auto: off for CUDA, watched for CPU "     \
	  "calls")                                                                                                         \
	X(trace, "AUTOAMP_TRACE", choice, "off summary ops kernels", "summary",                                            \
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
	X(audit, "AUTOAMP_AUDIT", fraction, "", "0",                                                                       \
	  "Fraction of the lowered calls whose error is measured; 0 measures none")                                        \
	X(log, "AUTOAMP_LOG", choice, "off error warn info debug", "warn", "Verbosity on stderr")                          \
	X(hookDlsym, "AUTOAMP_HOOK_DLSYM", choice, "0 1 got", "1",                                                         \
	  "Intercept functions looked up with dlsym (1), also in RTLD_DEEPBIND plug-ins (got)")                            \
	X(gpuModel, "AUTOAMP_GPU_MODEL", choice, "auto a100 h100 h200 b200 rtx4090 h100pcie rtx5090 pro6000", "auto",      \
	  "GPU constants for the cost model (auto: detected, or h100 without a device)")                                   \
	X(cpuModel, "AUTOAMP_CPU_MODEL", choice, "auto zen4 zen5 xeon", "auto",                                            \
	  "CPU constants for the cost model (auto: calibrated or detected; xeon: Intel without AMX)")

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
std::string lowerName(const OptionRow &row); // name without AUTOAMP_, in lower case
std::string keyOf(const OptionRow &row);     // key in a file: level, dtype, ...; empty: only a variable

} // namespace autoamp::policy
