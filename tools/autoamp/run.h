// `autoamp run`: checks everything, runs the application with the library preloaded, and prints the receipt. Main
// thread. The exit status is the application's; 125, 126 and 127 mean that autoamp failed before the application
// started.
#pragma once

#include "src/base/run_board.h"
#include "src/config/options.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/executable.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/text.h"

#include <ctime>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace autoamp::tool {

struct RunOptions {
	struct Setting {
		std::string variable, value, option;
	};
	std::vector<Setting> settings; // set by command-line options, which override the environment
	bool hasFile = false;          // -o was given: the file must not exist yet
	bool force = false, quiet = false, watchPython = false;
	std::string device = "auto"; // auto, cuda, emulated, cpu
	Colour colour = Colour::automatic;
	std::vector<std::string> command;
	std::vector<std::string> typed; // the options as typed
};

Ending run(const RunOptions &options, std::span<const char *const> entries);

// Input of the receipt in addition to the traces.
struct Outcome {
	Executable program;
	std::vector<std::string> command, typed; // the application's words; the options of `autoamp run`
	policy::Options configuration;
	bool isEmulated = false, isOnCpu = false; // isOnCpu: libautoamp-cpu.so was preloaded
	std::string rank;                         // rank of this program and the application in a job; empty: none
	uint64_t id = 0;                          // the id of this run; every trace of the run contains it
	time_t startedSeconds = 0;                // CLOCK_REALTIME, before the start
	Ending ending;
	const base::RunBoard *board = nullptr;       // valid only while run() runs; null: there is none
	std::map<std::string, uint64_t> notEmulated; // launches of kernels that the emulated device could not run
	uint32_t processes() const { return board ? board->processes : 0; } // that began a trace; 0: they are not counted
};
// Completes the traces of the run: the tail of a killed process, how the program ended, how many processes began a
// trace.
void concludeTraces(const Outcome &outcome);
void writeReceipt(const Outcome &outcome, std::span<const char *const> entries, Colour colour);

} // namespace autoamp::tool
