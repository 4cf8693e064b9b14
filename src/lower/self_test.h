// Problems with known results that run on a device before its first lowered product or convolution
// (docs/adr/0044). If a result is wrong, all calls on the device run unchanged. The problems are lowered by the code
// that lowers the application's calls. Any thread. Waits for its own stream, for a limited time.
#pragma once

#include "src/lower/self_test_run.h"
#include "src/policy/tested_paths.h"

#include <memory>
#include <optional>

namespace autoamp::lower {

using policy::TestedLibrary;

// The result for calls that are lowered as `call`: done if the test has passed on its device, in this process or an
// earlier one. Declined with self_test_failed if a test has failed on the device. Empty: not known so far.
std::optional<Outcome> knownTest(const LoweredCall &call, TestedLibrary library);
// Reads the result that an earlier process has stored for the same core, driver, device and version of the library, or
// runs the test. Declines also with capture_unready if the test would have to run during capture, or with the reason
// why it could not run. The next call then repeats it.
Outcome test(const LoweredCall &call, TestedLibrary library, uint64_t version, std::unique_ptr<TestProblems> problems);

// For a forked child: the thread that runs a test does not exist there.
void forgetTests();

} // namespace autoamp::lower
