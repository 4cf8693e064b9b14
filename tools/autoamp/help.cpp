#include "tools/autoamp/help.h"

#include "src/policy/decision.h"
#include "src/policy/options.h"
#include "src/policy/rules.h"

#include <fmt/format.h>

namespace autoamp::tool {

const char *const helpTopics[4] = {"env", "rules", "reports", "reasons"};

namespace {

constexpr const char *overview =
    R"(autoamp runs the fp32 matrix products of unmodified CUDA programs in lower precision.

  autoamp run -- APP ARGS...     run a program with autoamp in front, then say what happened
  autoamp report [FILE|DIR...]   what a trace says; without a name: the newest one
  autoamp diff A B               two runs, signature by signature
  autoamp export --type TYPE -o OUT FILE...
                                 sqlite, perfetto, chrome, csv, jsonl or parquet
  autoamp explain --entry E --m M --n N --k K
                                 what would be decided about such a call, and why; nothing is run
  autoamp check FILE             whether a configuration file is right
  autoamp lists                  each op and entry point, and what the lists say of it
  autoamp doctor [-- APP]        what this machine, this environment and a program let autoamp do
  autoamp help TOPIC             env: every AUTOAMP_* variable
                                 rules: the configuration file
                                 reports: what the numbers mean
                                 reasons: why a call was lowered or kept
  autoamp COMMAND --help         the options of a command

A first run, on a machine without a GPU too:

  autoamp run --device emulated -- ./app
  autoamp report

Without the command line: LD_PRELOAD=.../libautoamp.so AUTOAMP_LEVEL=O1 ./app
)";

constexpr const char *reports = R"(autoamp report [FILE|DIR...] [--report VIEW] [--format table|json|csv|jsonl|md|html]

  summary   what ran lower, where fp32 time goes, what it gained, why not, what the scaler did
  ops       one line a signature and decision, most work first
  reasons   why, most time first, with what can be done about it
  kernels   what the device ran, by the call that launched it (AUTOAMP_TRACE=kernels)
  scaler    the history of the scales, the sites to worry about, the program's own scaler
  loss      what the traces could not hold
  config    the configuration that held, where each value came from, and the rules

The lists:
  --by op|entry|shape|reason|caller|region|thread|device|rank   one line for all rows of ops that share it
  --sort COLUMN   by a column of JSON's name: numbers from the largest, texts from A
  --top N         the first N
Any of them:
  --what-if LEVEL=O2,DTYPE=bfloat16,CUSTOM_BLACK_LIST=mm,bmm
                  with the signatures decided again under other settings: nothing is run; what
                  lies in a call or the machine stands. GPU_MODEL=a100: on that device

autoamp diff A B   [--format table|json|csv|jsonl|md] [--sort COLUMN] [--top N]
  the settings that differ; per signature: calls, time, ratio of the time a call takes, how
  it ran. Exit status 1 if the runs have no signature in common, or with
  --fail-if-slower PCT   the calls of both took so many percent longer
  --fail-if-error E      a lowered call's max_error is above E; refused (2) if no run measured errors

autoamp export --type sqlite|perfetto|chrome|csv|jsonl|parquet -o OUT [--force] [--raw] FILE|DIR...
  OUT appears when it is whole; docs/export.md says what is in it


  call      one intercepted call of an entry point
  FLOP      2 m n k batch of a call: the work, whatever ran it
  fp32 products: calls on fp32 data that have a lower form, the whole of the percentages
  lowered   ran in the lower precision
  kept      ran as the program asked; `autoamp help reasons` lists why
  fallback  was to be lowered, could not, ran as the program asked
  raised    ran in a higher precision than asked
  observed  AUTOAMP_LEVEL=O0: nothing changed; the reason says what would have happened
  captured  calls during stream capture; the replays of a graph are not calls
  model     what the cost model expects the calls to take the way they ran; "kernels" where
            they were measured, casting included. Of emulated runs no time means anything
  est       what the cost model expects the calls to take as asked, and lowered
  thread    a thread that begins after another has ended may share its line
  scaling   of float16: rescale (a scale had to be changed), underflow (a sampled product, never
            a convolution, lost small elements; the lines below say how much and what to set), overflow, nonfinite_input, ...
            For bfloat16: clamped (a finite value became the largest finite bfloat16, not Inf)
  recorded  where a capture range, a delay or a duration left calls out: how many are in the
            report, of how many
  lost      what the trace could not hold; totals stay exact unless it says otherwise

JSON is one object, schema autoamp.report/1; an unknown number is null, never 0. Numbers
of an `ops` row (flops, host_ns, est_ns, ...) are totals of its calls. With --by it has
`groups` as well. CSV (RFC 4180) and JSON Lines have JSON's rows; what is unknown is empty.
HTML is one page with all of it, without network; md the table of a list.
A FILE stands also for FILE with .1, .2, ... before its suffix: other processes of its run
(run_id). Without a FILE, this user's newest trace in the current folder is read, else in
AUTOAMP_DIR.
Exit status: 0 done, 1 the work failed, 2 a wrong command line, variable or file.
)";

constexpr const char *rulesBefore =
    R"(The configuration as TOML files; every one that exists counts. The strongest first:
  the environment (autoamp help env)
  the file of AUTOAMP_CONFIG, or of autoamp run --config
  $XDG_CONFIG_HOME/autoamp/PROGRAM.toml   (PROGRAM: %e of the trace's name; the folder
  $XDG_CONFIG_HOME/autoamp/autoamp.toml    is ~/.config/autoamp where the variable is unset)

  level = "O1"                     of a setting the strongest holds
  custom_black_list = ["mv"]       lists are united

  [[rule]]                         rules stand one after the other, the strongest file's first
  entry = "cublasSgemm*"
  m = ">=256"
  precision = "bfloat16"

The first rule that matches decides, whatever the lists and the cost model say; where none
matches, the lists do. What a call itself forbids (its types, PEDANTIC math, ...) and what the
GPU cannot do still stand, and AUTOAMP_LEVEL=O0, AUTOAMP_STRATEGY=fp32 and AUTOAMP_ENABLED=0
beat every rule. A strategy that has no such precision gives way to one that has.

A rule has
  precision  float32 (not lowered; TF32, FAST_16F and sums in float16 are raised to fp32),
             float16, bfloat16 or tf32
and matches calls that meet all of these, as far as it has them; patterns know * and ?, an entry
point goes by its name in a program too and with its _64 twin, numbers are 256, ">=256",
">256", "<=64", "<64" or "128..4096" with both ends:
)";

constexpr const char *rulesAfter = R"(
The files are read once, at a program's first intercepted call. A wrong one keeps autoamp off,
with one line that has the place; `autoamp check FILE` says it before, and which rule can never
match. `autoamp explain` names the rule that decides, `autoamp report --report config` shows
what held in a run.
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
	std::string text = "Every AUTOAMP_* variable. A bad value or an unknown name keeps autoamp off.\n";
	for (const auto &row : policy::optionTable()) {
		text += fmt::format("\n{}\n    {}\n", row.name, row.help);
		text += fmt::format("    values: {}\n", policy::acceptedValues(row));
		text += fmt::format("    default: {}\n", *row.fallback ? row.fallback : "empty");
	}
	return text;
}

std::string reasons()
{
	std::string text = "Why a call was lowered or kept: every reason that a report can name.\n\n";
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
	       : topic == "reports" ? reports
	       : topic == "reasons" ? reasons()
	                            : overview;
}

} // namespace autoamp::tool
