#include "src/lower/self_test.h"

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/own_work.h"
#include "src/lower/capture.h"
#include "src/lower/self_test_store.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace autoamp::lower {

namespace {

using policy::Reason;

// ---- paths

using Path = policy::TestedPath;
constexpr auto &paths = policy::testedPaths;
constexpr unsigned pathCount = std::size(paths);
constexpr const char *names[policy::testedLibraries] = {"cublasLt", "cudnn"};

// Null: raised to fp32, or without a test.
const Path *pathOf(const policy::Decision &decision, TestedLibrary library)
{
	for (const Path &path : paths)
		if (path.library == library && path.strategy == decision.strategy && path.precision == decision.precision)
			return &path;
	return nullptr;
}

// ---- the results on each device

enum class State : uint8_t { unknown, running, passed };

struct Tests {
	std::atomic<State> state[pathCount];
	std::atomic<float> error[pathCount];
	std::atomic<int> failed; // path whose test failed + 1; its calls and those of all other paths are kept
	std::atomic<bool> isRead[policy::testedLibraries];
};
constinit Tests devices[deviceLimit];

// False: another test has failed already.
bool fail(Tests &tests, unsigned path)
{
	int none = 0;
	const bool isFirst = tests.failed.compare_exchange_strong(none, static_cast<int>(path) + 1);
	hasFailedTest[&tests - devices].store(true, std::memory_order_relaxed);
	return isFirst;
}

// The result of a test as text: NAME, verdict and error, separated by tabs. The error is in units of 1e-9, because the
// locale of the application changes the format of fractions.
constexpr double unit = 1e-9;
std::string textOf(const Tests &tests, unsigned path, const char *verdict)
{
	char line[96];
	std::snprintf(line, sizeof line, "%s\t%s\t%.0f\n", paths[path].name, verdict,
	              std::min(static_cast<double>(tests.error[path].load()) / unit, 1e15));
	return line;
}

std::string passedTests(const Tests &tests, TestedLibrary library)
{
	std::string text;
	for (unsigned i = 0; i < pathCount; i++)
		if (paths[i].library == library && tests.state[i].load() == State::passed)
			text += textOf(tests, i, "passed");
	return text;
}

void tellFailure(const Path &path, const cuda::DeviceFacts &facts, double error, const char *file)
{
	base::log(base::LogLevel::warn,
	          "the self-test of %s on %s failed: its error is %.2g, %.2g to %.2g is right. Calls on this device run "
	          "unchanged%s%s",
	          path.name, facts.name, error, path.leastError, path.error, *file ? "; to repeat the test, delete " : "",
	          file);
}

// Sets the results that an earlier process stored. Ignores a text with a line that textOf() does not write.
void readStored(Tests &tests, const TestStore &store, const cuda::DeviceFacts &facts)
{
	const std::string text = store.read();
	double error[pathCount];
	bool isPassed[pathCount] = {};
	unsigned failed = pathCount;
	for (size_t at = 0, next; at < text.size(); at = next) {
		next = text.find('\n', at) + 1;
		if (next == 0)
			return;
		const std::string line = text.substr(at, next - 1 - at);
		const size_t tab = line.find('\t');
		unsigned i = 0;
		while (i < pathCount && line.substr(0, tab) != paths[i].name)
			i++;
		char verdict[8] = "";
		if (i == pathCount || tab == line.npos ||
		    std::sscanf(line.c_str() + tab, "\t%7s\t%lf", verdict, &error[i]) != 2)
			return;
		isPassed[i] = std::strcmp(verdict, "passed") == 0;
		if (!isPassed[i] && std::strcmp(verdict, "failed") != 0)
			return;
		failed = isPassed[i] ? failed : i;
	}
	for (unsigned i = 0; i < pathCount; i++)
		if (State unknown = State::unknown; isPassed[i]) {
			tests.error[i].store(static_cast<float>(error[i] * unit));
			tests.state[i].compare_exchange_strong(unknown, State::passed);
		}
	if (failed < pathCount && fail(tests, failed)) {
		tests.error[failed].store(static_cast<float>(error[failed] * unit));
		tellFailure(paths[failed], facts, error[failed] * unit, store.failedPath().c_str());
	}
}

Outcome runTest(Tests &tests, const LoweredCall &call, const Path &path, const cuda::DeviceFacts &facts,
                const TestStore &store, std::unique_ptr<TestProblems> problems)
{
	const unsigned index = static_cast<unsigned>(&path - paths);
	const base::OwnedWork hidden(base::hiddenOwner);
	const uint64_t start = base::nanoseconds(CLOCK_MONOTONIC);
	const TestResult result = runProblems(call, *problems);
	if (result.isTooLong)
		static_cast<void>(problems.release()); // the device may still use its memory
	if (!result.outcome.isDone)
		return result.outcome;
	const bool isTooExact = result.least < path.leastError && result.most <= path.error;
	const double error = isTooExact ? result.least : result.most;
	tests.error[index].store(static_cast<float>(error));
	base::log(base::LogLevel::debug, "self-test of %s on %s: error %.2g, %.1f ms", path.name, facts.name, error,
	          static_cast<double>(base::nanoseconds(CLOCK_MONOTONIC) - start) / 1e6);
	if (error >= path.leastError && error <= path.error) {
		tests.state[index].store(State::passed, std::memory_order_release);
		store.write(passedTests(tests, path.library), false);
		return completed();
	}
	if (fail(tests, index)) {
		if (result.isTooLong) { // not stored: another program may have occupied the device
			base::log(base::LogLevel::warn,
			          "the self-test of %s on %s did not end within %llu s. Calls on this device run unchanged",
			          path.name, facts.name, static_cast<unsigned long long>(longestTestNs / 1'000'000'000));
		} else {
			store.write(textOf(tests, index, "failed"), true);
			tellFailure(path, facts, error, store.failedPath().c_str());
		}
	}
	return decline(Reason::self_test_failed);
}

} // namespace

std::optional<Outcome> knownTest(const LoweredCall &call, TestedLibrary library)
{
	const Path *const path = pathOf(call.decision, library);
	if (!path)
		return completed();
	if (call.op.device >= deviceLimit)
		return decline(Reason::unsupported);
	const Tests &tests = devices[call.op.device];
	if (tests.failed.load(std::memory_order_relaxed))
		return decline(Reason::self_test_failed);
	if (tests.state[path - paths].load(std::memory_order_acquire) == State::passed)
		return completed();
	return {};
}

Outcome test(const LoweredCall &call, TestedLibrary library, uint64_t version, std::unique_ptr<TestProblems> problems)
{
	const Path &path = *pathOf(call.decision, library);
	const cuda::Driver *const driver = cuda::driver();
	if (!driver)
		return decline(Reason::unsupported);
	Tests &tests = devices[call.op.device];
	const cuda::DeviceFacts *const facts = cuda::deviceFacts(*driver, call.op.device);
	if (!facts)
		return decline(Reason::engine_failed, "querying the device");
	const TestStore store(call.settings.directory, *driver, *facts, names[static_cast<unsigned>(library)], version);
	if (!tests.isRead[static_cast<unsigned>(library)].exchange(true))
		readStored(tests, store, *facts);
	const cuda::RelaxedCapture relaxed(*driver);
	if (!relaxed.isOk())
		return decline(Reason::engine_failed, "cuThreadExchangeStreamCaptureMode");
	if (const auto known = knownTest(call, library))
		return *known;
	if (captureOf(*driver, call.stream) != Capture::no)
		return decline(Reason::capture_unready);
	std::atomic<State> &state = tests.state[&path - paths];
	for (const uint64_t start = base::nanoseconds(CLOCK_MONOTONIC);;) {
		State unknown = State::unknown;
		if (state.compare_exchange_strong(unknown, State::running)) {
			const Outcome outcome = runTest(tests, call, path, *facts, store, std::move(problems));
			State running = State::running;
			state.compare_exchange_strong(running, State::unknown);
			return outcome;
		}
		if (const auto known = knownTest(call, library))
			return *known;
		if (base::nanoseconds(CLOCK_MONOTONIC) - start > longestTestNs) // the test of another thread
			return decline(Reason::self_test_failed);
		pauseTest();
	}
}

void forgetTests()
{
	for (Tests &tests : devices)
		for (std::atomic<State> &state : tests.state)
			if (State running = State::running; state.load() == running)
				state.store(State::unknown);
}

} // namespace autoamp::lower
