#include "tools/autoamp/run.h"
#include "tools/autoamp/commands.h"

#include "src/config/environment.h"
#include "src/trace/naming.h"
#include "src/trace/read/files.h"
#include "src/trace/read/trace.h"
#include "src/trace/tail_name.h"
#include "tools/autoamp/emulation.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/refusals.h"
#include "tools/autoamp/segment.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

policy::Options parse(const Environment &environment, std::span<const char *const> entries, const std::string &program)
{
	auto parsed = environment.parse(entries, program);
	if (!parsed.error.empty())
		fail(Status::notStarted, "{}", parsed.error);
	return std::move(parsed.options);
}

// Sets a variable, and records its origin for the report: place NAME=VALUE.
void set(Environment &environment, const std::string &name, const std::string &value, const std::string &place)
{
	const auto *said = environment.get("_AUTOAMP_RUN");
	environment.set("_AUTOAMP_RUN", fmt::format("{}{} {}={}\n", said ? *said : "", place, name, value));
	environment.set(name, value);
}

// Makes a pattern absolute, because the application may change its working directory before its first call.
std::string absolute(const std::string &pattern)
{
	if (pattern.starts_with("/"))
		return pattern;
	std::string folder;
	for (const char c : fs::current_path().string())
		folder += c == '%' ? "%%" : std::string(1, c);
	return folder + "/" + (pattern.starts_with("./") ? pattern.substr(2) : pattern);
}

// The trace file name if it is known before the writing process exists; else "".
std::string fixedName(const std::string &pattern)
{
	char path[PATH_MAX];
	if (const char *problem = trace::expandName(pattern.c_str(), {}, 0, path, sizeof path))
		fail(Status::notStarted, "AUTOAMP_TRACE_FILE={}: {}", pattern, problem);
	for (size_t at = 0; (at = pattern.find('%', at)) != std::string::npos; at += 2)
		if (pattern[at + 1] != '%')
			return {};
	return path;
}

// An explicit file must not exist. --force deletes it together with the parts that the same `autoamp run` wrote. Files
// next to it that another run wrote, or may have written, are kept.
void makeRoom(const std::string &path, bool force)
{
	if (!force && fs::exists(fs::symlink_status(path)))
		fail(Status::notStarted, "{} exists; --force overwrites it", path);
	std::error_code error;
	if (fs::exists(path, error) && !fs::is_regular_file(path, error))
		fail(Status::notStarted, "{} is not a regular file; not overwritten", path);
	const auto replaced = trace::runIdsOf(path);
	std::vector<std::string> files;
	for (const auto &file : trace::family(path)) {
		const auto ids = trace::runIdsOf(file);
		const bool isPart = replaced && ids && replaced->inner != 0 && ids->isPartOf(replaced->inner);
		if (!isPart && file != path)
			continue;
		if (trace::isBeingWritten(file)) {
			const auto writer = trace::writerOf(file);
			fail(Status::notStarted, "{} is still being written{}; wait for its end, or give another name with -o",
			     file, writer ? fmt::format(" by process {}", writer->pid) : "");
		}
		files.push_back(file);
	}
	for (const auto &file : files) {
		if (!fs::remove(file, error) && error)
			fail(Status::notStarted, "{} cannot be replaced: {}", file, error.message());
		char tail[PATH_MAX];
		if (trace::tailName(file.c_str(), tail, sizeof tail))
			fs::remove(tail, error);
	}
}

// Passes a new id to the processes of this run. In nested runs the id of the outermost run is kept too.
uint64_t startRun(Environment &environment)
{
	uint64_t run = 0;
	while (run == 0)
		if (::getrandom(&run, sizeof run, 0) != static_cast<ssize_t>(sizeof run) && errno != EINTR)
			fail(Status::notStarted, "cannot get a random number for the id of this run: {}", std::strerror(errno));
	const auto around =
	    trace::runIds([](const char *name) { return policy::environmentValue(policy::processEnvironment(), name); });
	environment.set(trace::kRunVariable, fmt::format("{:016x}:{:016x}", run, around.outer ? around.outer : run));
	return run;
}

// The board of the run, which its processes find by a variable. Null: the system has no shared memory for it.
const base::RunBoard *makeBoard(const Segment &segment, Environment &environment, uint64_t run)
{
	auto *const board = static_cast<base::RunBoard *>(segment.data());
	environment.unset(base::runBoardVariable); // that of a run around this one
	if (board) {
		board->run = run;
		environment.set(base::runBoardVariable, fmt::format("{:x}:{:x}", segment.id(), run));
	}
	return board;
}

// The loader splits LD_PRELOAD at spaces and colons, without quoting. A library in a folder with a space is therefore
// preloaded by its name, and the folder is added to LD_LIBRARY_PATH, which is split at colons and semicolons.
void preload(Environment &environment, const std::vector<std::string> &libraries)
{
	for (auto library = libraries.rbegin(); library != libraries.rend(); ++library) {
		const auto folder = fs::path(*library).parent_path().string();
		if (folder.find_first_of(":;") != std::string::npos)
			fail(Status::notStarted, "{}: the loader cannot load from a folder whose name has a colon or semicolon",
			     folder);
		if (folder.find(' ') == std::string::npos) {
			environment.prepend("LD_PRELOAD", *library);
		} else {
			environment.prepend("LD_LIBRARY_PATH", folder);
			environment.prepend("LD_PRELOAD", fs::path(*library).filename().string());
		}
	}
}

// After each of its calls, the threads of an OpenBLAS wait actively for 2^26 clock cycles, on the CPUs on which autoamp
// then multiplies (docs/bench/cpu.md). A shorter wait changes no result. Calls that follow each other faster than 2^22
// cycles, 1 to 2 ms, still find the threads awake. Waking them takes up to 30 us, at most 3 % of the time between
// others.
void shortenWaits(Environment &environment)
{
	constexpr const char *variable = "OPENBLAS_THREAD_TIMEOUT", *cycles = "22"; // 2^22
	if (!environment.get(variable))
		environment.set(variable, cycles);
}

void setUpDevice(Environment &environment, const RunOptions &options, const Executable &program, policy::Level level)
{
	const auto installation = findInstallation();
	if (installation.library.empty())
		fail(Status::notStarted, "libautoamp.so is neither in {}", fmt::join(installation.places, " nor in "));
	if (options.device == "cpu") {
		if (installation.cpuLibrary.empty())
			fail(Status::notStarted, "libautoamp-cpu.so is not next to {}", installation.library);
		preload(environment, {installation.cpuLibrary});
		if (level != policy::Level::O0)
			shortenWaits(environment);
		return;
	}
	std::vector<std::string> libraries = {installation.library};
	if (options.device == "emulated") {
		const auto emulation = emulationOf(program, installation);
		if (!emulation.problem.empty())
			fail(Status::notStarted, "{}", emulation.problem);
		if (!emulation.missing.empty() && !options.quiet)
			complain(fmt::format("autoamp: warning: no emulated version of {}; calls of {} fail\n",
			                     fmt::join(emulation.missing, ", "), emulation.missing.size() > 1 ? "them" : "it"));
		for (const char *name : emulatedLibraries) {
			const auto &needed = program.libraries;
			if (program.hasRpath && installation.emulated.find(' ') != std::string::npos &&
			    std::count(needed.begin(), needed.end(), name))
				fail(Status::notStarted,
				     "{} has a DT_RPATH, which has priority over an emulated device in a folder with a space in "
				     "its name",
				     program.path);
			libraries.push_back(installation.emulated + "/" + name);
		}
		preload(environment, libraries);
		environment.prepend("LD_LIBRARY_PATH", installation.emulated);
		return;
	}
	if (options.device == "auto" && queryDriver().gpus.empty()) {
		const auto blas = blasOf(program);
		fail(Status::notStarted, "no usable NVIDIA driver; --device emulated runs the program on the CPU{}",
		     blas.empty() ? "" : fmt::format(", --device cpu lowers the products of its CPU BLAS ({})", blas));
	}
	preload(environment, libraries);
}

// Python runs the sitecustomize in this folder first, see its comment.
void watchPython(Environment &environment)
{
	const auto folder = pythonFolder();
	if (folder.empty())
		fail(Status::notStarted, "--watch-python: the Python package of autoamp is not next to this program");
	if (folder.find(':') != std::string::npos)
		fail(Status::notStarted, "--watch-python: {}: PYTHONPATH cannot have a folder with a colon in its name",
		     folder);
	environment.prepend("PYTHONPATH", folder + "/autoamp/watch");
}

// True if the configuration of this program, or of any program that it may start, can name regions.
bool mayNameRegions(const policy::Options &options)
{
	if (!options.rules->regionPatterns.empty())
		return true;
	std::error_code error;
	std::string ignored;
	for (const auto &entry : fs::directory_iterator(policy::configFolder(policy::processEnvironment()), error)) {
		policy::ConfigFile file;
		if (entry.path().extension() == ".toml" &&
		    policy::readFile(entry.path(), file, ignored) == policy::Reading::done)
			for (const auto &rule : policy::parseToml(file).rules)
				for (const auto &setting : rule.settings)
					if (setting.key == "region")
						return true;
	}
	return false;
}

} // namespace

Ending run(const RunOptions &options, std::span<const char *const> entries)
{
	Environment environment;
	for (const auto &[variable, value, option] : options.settings)
		set(environment, variable, value, option);
	const auto program = programName(options.command);
	const auto typed = parse(environment, entries, program);
	const auto setOver = [&](policy::Option option, const std::string &value) { // keeps the recorded origin of the
		                                                                        // setting
		const auto &place = typed.place[static_cast<size_t>(option)];
		const bool isOpen = typed.originOf(option) == policy::Origin::fallback;
		set(environment, policy::optionTable()[static_cast<size_t>(option)].name, value,
		    isOpen ? "autoamp run" : place);
	};
	const auto isOpen = [&](policy::Option option) { return typed.originOf(option) == policy::Origin::fallback; };
	// The application may change its working directory before it reads the file.
	if (!isOpen(policy::Option::config))
		setOver(policy::Option::config, fs::absolute(typed.valueOf(policy::Option::config)));
	if (isOpen(policy::Option::trace))
		setOver(policy::Option::trace, "ops");
	setOver(policy::Option::traceFile, absolute(isOpen(policy::Option::traceFile) ? "./%e.%p.aat" : typed.traceFile));

	Outcome outcome;
	outcome.configuration = parse(environment, entries, program);
	outcome.command = options.command;
	outcome.typed = options.typed;
	outcome.isEmulated = options.device == "emulated";
	outcome.isOnCpu = options.device == "cpu";
	outcome.program = inspect(options.command.front());
	const auto name = fixedName(outcome.configuration.traceFile);
	setUpDevice(environment, options, outcome.program, typed.level);
	if (options.watchPython)
		watchPython(environment);
	// Receiving NVTX ranges costs time, and another tool may receive them.
	if ((outcome.configuration.trace != policy::TraceLevel::off || mayNameRegions(outcome.configuration)) &&
	    !environment.get("NVTX_INJECTION64_PATH"))
		environment.set("NVTX_INJECTION64_PATH",
		                outcome.isOnCpu ? findInstallation().cpuLibrary : findInstallation().library);
	if (options.hasFile && !name.empty())
		makeRoom(name, options.force);

	outcome.id = startRun(environment);
	std::string words;
	for (const auto &word : options.command)
		words += (words.empty() ? "" : " ") + tool::quoted(word);
	std::error_code ignored;
	environment.set(trace::kCommandVariable, fmt::format("{}\n{}", fs::current_path(ignored).string(), words));
	outcome.startedSeconds = ::time(nullptr);
	const Segment segment(sizeof(base::RunBoard));
	outcome.board = makeBoard(segment, environment, outcome.id);
	std::optional<Refusals> refusals;
	if (outcome.isEmulated)
		refusals.emplace(environment);
	const uint64_t killedBefore = oomKills();
	outcome.ending = launch(options.command, environment);
	if (const auto *const board = outcome.board; board && board->failure != base::RunBoard::Failure::none)
		base::AttachedBoard(policy::environmentValue(policy::processEnvironment(), base::runBoardVariable))
		    .report(board->failure, board->text); // to a run around this one
	const uint64_t killed = oomKills();
	outcome.ending.oomKills = killed - std::min(killedBefore, killed);
	if (refusals)
		outcome.notEmulated = refusals->read();
	concludeTraces(outcome);
	outcome.rank =
	    trace::jobRank([](const char *name) { return policy::environmentValue(policy::processEnvironment(), name); });
	if (!options.quiet && (outcome.rank.empty() || outcome.rank == "0"))
		writeReceipt(outcome, entries, options.colour);
	return outcome.ending;
}

} // namespace autoamp::tool
