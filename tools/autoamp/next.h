// The next step after a run: one command that changes something significant, by time, and the reason. Receipt, summary,
// JSON and HTML show the same. Values; main thread.
#pragma once

#include "tools/autoamp/sheet.h"
#include "tools/autoamp/traces.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

namespace autoamp::tool {

struct Account;

struct NextStep {
	std::string title, why, command;
	double savesNs = NAN; // NaN: unknown, or the step saves no time
	std::string source;   // of savesNs: model or measured; "": unknown
};
Json toJson(const NextStep &next); // null: no step is known
// "let the cost model choose the strategy (saves 1.2 ms by the model): ...": the line before the command.
std::string adviceOf(const NextStep &next);

// A setting to change, as variable and value, or an option of `run` alone.
struct Change {
	std::string variable, value;
};

// Prints the command that runs the program again with these changes.
using Again = std::function<std::string(const std::vector<Change> &)>;
// The command as a trace describes it: the device, the settings and the words of the program.
Again againFrom(const Runs &runs);
// Before the program's words: variables, and the options of `run` that set them.
struct Prefix {
	std::string variables, options;
};
Prefix prefixOf(const std::vector<Change> &changes);

constexpr double leastSaving = 0.05; // of the time as run

// `report`: the command that prints more about these runs.
NextStep chooseNext(const Runs &runs, const Account &account, const Again &again, const std::string &report);

} // namespace autoamp::tool
