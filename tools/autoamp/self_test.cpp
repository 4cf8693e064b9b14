#include "tools/autoamp/self_test.h"

#include "src/config/environment.h"
#include "src/policy/tested_paths.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/sheet.h"
#include "tools/autoamp/temporary_folder.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

struct Result {
	enum Verdict { passed, failed, unavailable } verdict = failed;
	std::string reason; // of the verdict
	uint64_t calls = 0, lowered = 0;
	double least = INFINITY, most = 0; // errors
};

// The vendor's conversion to float16 does not scale.
bool isUnscaled(const policy::TestedPath &path)
{
	return path.strategy == policy::Strategy::library && path.precision == op::Dtype::float16;
}

// The settings of the user do not apply, except those of the emulated device.
Environment environmentFor(const policy::TestedPath &path, const fs::path &folder)
{
	Environment environment;
	for (auto *variable = policy::processEnvironment(); *variable; variable++) {
		const std::string text = *variable, name = text.substr(0, text.find('='));
		if (name.starts_with("AUTOAMP_") && !name.starts_with("AUTOAMP_EMU"))
			environment.unset(name);
	}
	environment.set("XDG_CONFIG_HOME", folder / "none");
	environment.set("AUTOAMP_DIR", folder / "state"); // a stored result does not count
	environment.set("AUTOAMP_STRATEGY", policy::name(path.strategy));
	environment.set("AUTOAMP_DTYPE", op::name(path.precision));
	environment.set("AUTOAMP_SCALING", isUnscaled(path) ? "off" : "auto");
	return environment;
}

const char *kindOf(const policy::TestedPath &path)
{
	return path.library == policy::TestedLibrary::cudnn ? "convolutions"
	       : isUnscaled(path)                           ? "small-products"
	                                                    : "products";
}

Result run(const policy::TestedPath &path, const std::string &program, const std::string &device,
           const policy::Options &configuration)
{
	const TemporaryFolder folder("self-test");
	const auto errors = folder.path / "errors", trace = folder.path / "trace.aat";
	const Ending ending = launch({fs::read_symlink("/proc/self/exe"), "run", "--quiet", "--device", device, "-o", trace,
	                              "--", program, errors, kindOf(path)},
	                             environmentFor(path, folder.path));
	Result result;
	std::ifstream file(errors);
	std::string call;
	for (double error = 0; file >> call >> error; result.calls++)
		result.least = std::min(result.least, error), result.most = std::max(result.most, error);
	if (ending.status == 128 + SIGALRM)
		result.reason = "the device did not end";
	else if (ending.status)
		result.reason = fmt::format("the test ended with status {}", ending.status);
	if (ending.status)
		return result;
	Status status = Status::done;
	const Account account = add(gather({trace}, configuration, status));
	result.lowered = account.lowered.calls;
	std::vector<std::string> reasons;
	for (const auto &sum : account.reasons)
		if (sum.isKept() && sum.eligible.calls > 0)
			reasons.push_back(fmt::format("{} {}", sum.eligible.calls, sum.reason));
	result.reason = fmt::format("{}", fmt::join(reasons, ", "));
	const auto isReason = [&](const char *name) {
		return std::any_of(account.reasons.begin(), account.reasons.end(),
		                   [=](const ReasonSum &sum) { return sum.reason == name; });
	};
	// Calls that are not lowered have a smaller error.
	const bool isTooExact = result.lowered == result.calls && result.least < path.leastError;
	if (result.calls == 0 || isReason("self_test_failed") || !(result.most <= path.error) || isTooExact)
		result.verdict = Result::failed;
	else
		result.verdict = result.lowered > 0 ? Result::passed : Result::unavailable;
	return result;
}

std::string wordFor(Result::Verdict verdict)
{
	return verdict == Result::passed ? "passed" : verdict == Result::failed ? "FAILED" : "not available";
}

Json toJson(const policy::TestedPath &path, const Result &result)
{
	const auto known = [&](double error) { return result.calls > 0 ? Json(error) : Json(); };
	return {{"method", path.name},
	        {"result", result.verdict == Result::unavailable ? "not_available"
	                   : result.verdict == Result::passed    ? "passed"
	                                                         : "failed"},
	        {"calls", result.calls},
	        {"lowered", result.lowered},
	        {"smallest_error", known(result.least)},
	        {"largest_error", known(result.most)},
	        {"least_error", path.leastError},
	        {"limit", path.error},
	        {"reason", orNull(result.reason)}};
}

} // namespace

Status selfTest(const SelfTestOptions &options, const policy::Options &configuration)
{
	const auto installation = findInstallation();
	if (installation.library.empty() || installation.selfTest.empty())
		fail(Status::wrong, "{} is not installed in {}",
		     installation.library.empty() ? "libautoamp.so" : "autoamp-self-test",
		     fmt::join(installation.places, " nor in "));
	const bool isEmulated = options.device == "emulated";
	const auto driver = queryDriver();
	if (isEmulated && installation.emulated.empty())
		fail(Status::wrong, "the emulated device is not installed");
	if (options.device == "auto" && driver.gpus.empty())
		fail(Status::wrong, "no usable NVIDIA driver; --device emulated tests the emulated device");
	const auto libraries = visibleLibraries();
	const bool hasCudnn = isEmulated ? fs::exists(installation.emulated + "/libcudnn.so.9")
	                                 : std::any_of(libraries.begin(), libraries.end(), [](const Library &library) {
		                                   return library.name == "libcudnn.so.9";
	                                   });
	const std::string device = isEmulated            ? "the emulated device"
	                           : driver.gpus.empty() ? "cuda: no usable NVIDIA driver"
	                                                 : driver.gpus.front().name;
	Table table("lrrlll");
	table.add({"method", "calls", "lowered", "largest error", "limit", "result"}, Style::bold);
	Json rows = Json::array();
	bool hasFailed = false;
	for (const auto &path : policy::testedPaths) {
		Result result;
		if (path.library == policy::TestedLibrary::cudnn && !hasCudnn)
			result = {Result::unavailable, "the loader does not find libcudnn.so.9"};
		else
			result = run(path, installation.selfTest, options.device, configuration);
		hasFailed |= result.verdict == Result::failed;
		rows.push_back(toJson(path, result));
		const auto number = [&](double error) { return result.calls > 0 ? fmt::format("{:.1e}", error) : "-"; };
		const auto why = result.reason.empty() ? "" : fmt::format(" ({})", shown(result.reason));
		table.add({path.name, count(result.calls), count(result.lowered), number(result.most),
		           fmt::format("{:.1e}", path.error), wordFor(result.verdict) + why},
		          result.verdict == Result::passed   ? Style::green
		          : result.verdict == Result::failed ? Style::red
		                                             : Style::yellow);
	}
	if (options.format == "json") {
		const Json json = {{"schema", "autoamp.self-test/1"},
		                   {"device", device},
		                   {"emulated", isEmulated || driver.isEmulated},
		                   {"passed", !hasFailed},
		                   {"methods", rows}};
		fmt::print("{}\n", dump(json));
	} else {
		const Terminal terminal(STDOUT_FILENO, options.colour);
		fmt::print("self-test on {}\n{}", shown(device), table.print(terminal, terminal.width));
	}
	return hasFailed ? Status::failed : Status::done;
}

} // namespace autoamp::tool
