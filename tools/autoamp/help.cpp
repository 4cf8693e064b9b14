#include "tools/autoamp/help.h"

#include "src/config/options.h"
#include "src/config/rules.h"
#include "src/policy/decision.h"

#include <fmt/format.h>

namespace autoamp::tool {

const char *const helpTopics[5] = {"env", "rules", "weights", "reports", "reasons"};

namespace {

constexpr const char *overview =
    R"text(autoamp runs the fp32 matrix products and convolutions of unmodified CUDA programs in lower precision,
and the fp32 matrix products of unmodified CPU programs that call a shared BLAS.

  autoamp run -- APP ARGS...     run a program with autoamp preloaded and print a summary at exit
  autoamp report [FILE|DIR...]   print a report for one or more traces (default: the newest)
  autoamp diff A B               compare two runs by signature
  autoamp export --type TYPE -o OUT FILE...
                                 convert traces to sqlite, perfetto, chrome, csv, jsonl or parquet
  autoamp explain --entry E --m M --n N --k K
                                 show the decision for a call, and its reason, without running it
  autoamp bisect [--check CMD] -- APP
                                 find the calls whose lowering makes a program fail its check
  autoamp check FILE             check a configuration file without running anything
  autoamp lists                  list each op and entry point with its category
  autoamp doctor [-- APP]        describe this machine, its libraries and the environment;
                                 with APP, how it is linked and what follows
  autoamp doctor --self-test     run calls with known results through every method of lowering
  autoamp doctor --calibrate     measure this CPU, for the decisions about calls of a CPU BLAS
  autoamp help TOPIC             env: every AUTOAMP_* variable
                                 rules: the configuration file
                                 weights: copies of operands that do not change
                                 reports: meaning of the numbers
                                 reasons: reasons why a call was lowered or kept
                                 or a command, as COMMAND --help
  autoamp completion SHELL       print the script that completes command lines in bash, zsh or fish
  autoamp COMMAND --help         options of a command

A first run, also on a machine without a GPU:

  autoamp run --device emulated -- ./app
  autoamp report

The products of a CPU program, such as NumPy:

  autoamp run --device cpu --audit 0.02 -- python3 train.py

Without the launcher (for a CPU BLAS: autoamp --preload-path cpu):

  LD_PRELOAD="$(autoamp --preload-path)" AUTOAMP_LEVEL=O1 ./app
)text";

constexpr const char *reports = R"(autoamp report [FILE|DIR...] [--report VIEW] [--format table|json|csv|jsonl|md|html]

  summary   lowered calls, fp32 time, gain, reasons for kept calls, scaler events (default)
  ops       one row for each signature and decision, most time first
  reasons   one row for each reason, most time first, with advice
  kernels   kernels of the device by the call that launched them (AUTOAMP_TRACE=kernels)
  scaler    history of the scales, sites with problems, the program's own gradient scaler
  gradient  events of the program's own gradient scaler, for --format csv and jsonl
  audit     errors that AUTOAMP_AUDIT measured, largest first
  loss      events and kernels that the traces do not contain
  config    settings of the run, each with its source, and the rules

Options for lists:
  --by op|entry|shape|reason|caller|region|thread|device|rank   add up the rows of ops by this field
  --sort COLUMN   sort by a column, named as in JSON: numbers from the largest, texts from A
  --top N         print only the first N rows
Option for every view:
  --what-if LEVEL=O2,DTYPE=bfloat16,CUSTOM_BLACK_LIST=mm,bmm
                  decide the recorded calls again with other settings; nothing is run. Reasons that
                  follow from the call or the machine stay. GPU_MODEL=a100 or CPU_MODEL=zen5 selects another device

autoamp diff A B   [--format table|json|csv|jsonl|md|html] [--sort COLUMN] [--top N]
  prints the settings that differ; for each signature calls, time, ratio of the time per call, and
  decisions. Exit status 1 if the runs have no signature in common, or with
  --fail-if-slower PCT   if calls in both runs are more than PCT percent slower
  --fail-if-error E      if an error measured in B (AUTOAMP_AUDIT) is more than E; 2 if none was measured

autoamp export --type sqlite|perfetto|chrome|csv|jsonl|parquet -o OUT [--force] [--raw] FILE|DIR...
  OUT appears when it is complete; docs/export.md describes its content

  call      one intercepted call of an entry point
  FLOP      2 m n k batch of a call, independent of the code that computed it
  fp32 products: calls on fp32 data that have a lower-precision form; the percentages refer to them
  lowered   ran in the lower precision
  kept      ran unchanged; `autoamp help reasons` explains why
  fallback  was to be lowered, failed, and ran unchanged
  raised    ran in a higher precision than requested
  observed  AUTOAMP_LEVEL=O0: ran unchanged; the reason shows what O1 would do
  captured  calls during stream capture; the replays of a graph are not calls
  model     time of the calls in the precision that ran, estimated by the cost model; "kernels" if
            it was measured, conversions included. Times of emulated runs have no meaning
  time      CPU BLAS: measured time of the calls, conversions included
  gain      time of the unchanged program relative to that of the run. Both are estimates of the cost model, or,
            for a CPU BLAS with AUTOAMP_AUDIT, measured: the time in fp32 is the mean of the audited calls of a
            signature, multiplied by its calls
  weights   conversions of operands that kept copies replaced (AUTOAMP_WEIGHTS), and why others ran:
            weights_off (the settings keep no copies), too_small (less than 1 MiB; CPU: 256 KiB), batched,
            unproven (not yet unchanged often enough), changes (changed too often), memory_budget (copies
            use three quarters of AUTOAMP_MEMORY), too_many (operands), stream_not_ready (another stream uses the copy),
            capture_unready (captured before it was proven), strict_scaling (AUTOAMP_SCALING=strict),
            same_operand (A and B share memory), not_profitable, recurrent, graph (cuDNN), no_filter
            (the weight gradient of a convolution). CPU: many_rows (the conversion is a small part of the
            product), sparse (the operand is a small part of its memory), shared_memory and pinned (others can
            change it), no_watch (the kernel cannot watch memory), busy (another thread converts it)
  est       cost model: time of the calls unchanged ("est") and lowered ("est lowered")
  thread    a thread that begins after another one ended may share its line
  scaling   float16: rescale (a scale was changed), underflow (a sampled product, never
            a convolution, lost small elements; the next lines show the error and a remedy), overflow,
            nonfinite_input, mended and uncured (AUTOAMP_SCALING=strict), ... bfloat16: clamped (a finite
            value became the largest finite bfloat16). Kept copies: made, recast (a changed weight was
            converted again before the product), changed (a weight changed although AUTOAMP_WEIGHTS=frozen;
            the product used old values), given_up (changes too often), refused (no memory for the copy)
  audited   calls whose error was measured (AUTOAMP_AUDIT), relative to the norm of the result
  recorded  with a capture range, a delay or a duration: recorded calls, of all calls
  lost      data that the trace does not contain; totals are exact unless the line reports otherwise

JSON is one object, schema autoamp.report/1; an unknown number is null, never 0. Numbers
of an `ops` row (flops, host_ns, est_ns, ...) are totals of its calls. With --by it also has
`groups`. CSV (RFC 4180) and JSON Lines have the rows of JSON; unknown values are empty or null.
HTML is one page with all lists; it needs no network. md writes the view as Markdown.
FILE includes the traces of the other processes of its run (run_id): FILE with .1, .2, ... before
the suffix. Without FILE, autoamp reads this user's newest trace in the current folder, else in
AUTOAMP_DIR.
Exit status: 0 success, 1 the work failed, 2 the command line, a variable or a file is wrong.
)";

constexpr const char *weights =
    R"(AUTOAMP_WEIGHTS, weights in a rule or a region, or --weights keeps the 16-bit copy of an operand that does not change.

  CUDA calls
    auto     off for CUDA calls, watched for calls of a CPU BLAS (the default)
    off      convert at each call
    checked  compare one of 64 lines of each column with the copy before each product, and convert again if they
             differ. A change of most elements or of a large block is found before the product. A change of one
             element can be found up to 63 products of its copy late; each captured graph has its own copies
    frozen   you promise that the weights do not change. The same sample is compared, but acts at the next call: a
             product can use old values. A broken promise is reported, and repaired at the next call
  calls of a CPU BLAS
    off      convert at each call
    watched  the kernel reports each write to a weight: always exact
    frozen   you promise that the weights do not change; nothing is compared

An operand of a CUDA call needs at least 1 MiB of fp32 and four conversions in a row without a change. Copies use at
most three quarters of AUTOAMP_MEMORY. As long as no weight changes, results have the same bits in all modes.

Neither checked nor frozen suits programs that change single elements of an operand between products: finite
differences, gradient checks, updates of single rows or entries. To test a program, run it with AUTOAMP_AUDIT=1: each
use then compares the whole copy.
)";

constexpr const char *rulesBefore =
    R"(Configuration files are TOML. autoamp reads each of these sources that exists. Highest priority first:
  the environment (autoamp help env)
  the file of AUTOAMP_CONFIG, or of autoamp run --config
  $XDG_CONFIG_HOME/autoamp/PROGRAM.toml   (PROGRAM: %e of the trace's name; the folder
  $XDG_CONFIG_HOME/autoamp/autoamp.toml    is ~/.config/autoamp if the variable is unset)

  level = "O1"                     the highest-priority source sets each value
  custom_black_list = ["mv"]       lists are merged

  [[rule]]                         rules are tried in priority order
  entry = "cublasSgemm*"
  m = ">=256"
  precision = "bfloat16"

The first matching rule with a precision decides and overrides the lists and the cost model. If
there is none, the lists decide. The first matching rule with weights decides the weights. A rule
does not override restrictions of the call (its types, PEDANTIC math, ...) or of the GPU, nor
AUTOAMP_LEVEL=O0, AUTOAMP_STRATEGY=fp32 or AUTOAMP_ENABLED=0. If the strategy does not support the
precision of the rule, autoamp uses a strategy that does.

A rule has
  precision  float32 (not lowered; TF32, FAST_16F and sums in float16 are raised to fp32),
             float16, bfloat16 or tf32
  weights    off, checked, watched or frozen, as in AUTOAMP_WEIGHTS
or one of them, and conditions. It matches calls that meet all its conditions. Patterns contain * and ?. An entry
point also matches by its name without the version suffix, and includes its _64 variant. Numbers are
256, ">=256", ">256", "<=64", "<64" or "128..4096", which includes both ends:
)";

constexpr const char *rulesAfter = R"(
The files are read once, at the first intercepted call or region of a program. If a file is wrong, autoamp
stays off and prints one line with the place. `autoamp check FILE` reports such errors, and rules
that can never match. `autoamp explain` names the rule that decides about a call. `autoamp report
--report config` shows the settings of a run.
)";

std::string rules()
{
	std::string text = rulesBefore;
	for (const auto &[name, says] : policy::matcherTable())
		text += fmt::format("  {:<10} {}\n", name, says);
	text += "\nSettings:";
	for (const auto &row : policy::optionTable())
		if (const auto key = policy::keyOf(row); !key.empty())
			text += " " + key;
	return text + "\n" + rulesAfter;
}

std::string environment()
{
	std::string text = "Every AUTOAMP_* variable. A bad value or an unknown name disables autoamp for the process.\n";
	for (const auto &row : policy::optionTable()) {
		text += fmt::format("\n{}\n    {}\n", row.name, row.help);
		text += fmt::format("    values: {}\n", policy::acceptedValues(row));
		text += fmt::format("    default: {}\n", *row.fallback ? row.fallback : "empty");
	}
	for (const auto &row : policy::emulatorSettings())
		text += fmt::format("\n{}\n    {}\n    values: {}\n    default: {}\n", row.name, row.help, row.values,
		                    *row.fallback ? row.fallback : "empty");
	return text;
}

std::string reasons()
{
	std::string text = "Reasons why a call was lowered or kept, as reports name them.\n\n";
	for (int i = 0; i < static_cast<int>(policy::Reason::count); i++) {
		const auto reason = static_cast<policy::Reason>(i);
		text += fmt::format("{:<17} {}\n", policy::name(reason), policy::meaning(reason));
		if (*policy::advice(reason))
			text += fmt::format("{:<17} try: {}\n", "", policy::advice(reason));
	}
	return text;
}

} // namespace

std::string help(const std::string &topic)
{
	return topic == "env"       ? environment()
	       : topic == "rules"   ? rules()
	       : topic == "weights" ? weights
	       : topic == "reports" ? reports
	       : topic == "reasons" ? reasons()
	                            : overview;
}

} // namespace autoamp::tool
