// The next step after a run: one command that changes something significant, by time, and the reason. Receipt, summary,
// JSON and HTML show the same. Values; main thread.
#pragma once

#include "tools/autoamp/account.h"
#include "tools/autoamp/next_step.h"
#include "tools/autoamp/traces.h"

#include <functional>
#include <string>
#include <vector>

namespace autoamp::tool {

// "let the cost model choose the strategy (saves 1.2 ms, model): ...": the line before the command.
std::string adviceOf(const NextStep &next);

// A variable and its new value.
struct Change {
	std::string variable, value;
};
// Changes as words of a command: variables before it, and options of `run` where there are such.
struct Prefix {
	std::string variables, options;
};
Prefix prefixOf(const std::vector<Change> &changes);
// The words of a `run` command without the options for the changed variables.
std::vector<std::string> withoutOptions(const std::vector<std::string> &words, const std::vector<Change> &changes);

// Prints the command that runs the program again with these changes.
using Again = std::function<std::string(const std::vector<Change> &)>;
// The command as a trace describes it: the device, the settings and the words of the program.
Again againFrom(const Runs &runs);

// The runs with the command line and settings of the one with the most time to save, as indices, and the number of such
// launches. One command repeats one launch, so the next step is about it.
std::vector<size_t> mainLaunch(const Runs &runs, size_t &launches);

constexpr double leastSaving = 0.05; // as a part of the time of the run

// `report`: the command that prints more about these runs.
NextStep chooseNext(const Runs &runs, const Account &account, const Again &again, const std::string &report);

} // namespace autoamp::tool
