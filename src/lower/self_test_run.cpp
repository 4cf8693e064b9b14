#include "src/lower/self_test_run.h"

#include "src/base/clock.h"
#include "src/base/faults.h"

#include <algorithm>
#include <cmath>

namespace autoamp::lower {

namespace {

using policy::Reason;

// Waits until the work of the stream has ended.
TestResult waitFor(const cuda::Driver &driver, cuda::Stream stream)
{
	const uint64_t start = base::nanoseconds(CLOCK_MONOTONIC);
	for (;;) {
		const cuda::Result result = driver.cuStreamQuery(stream);
		if (result != cuda::notReady)
			return {result ? decline(Reason::engine_failed, "cuStreamQuery") : completed()};
		if (base::nanoseconds(CLOCK_MONOTONIC) - start > longestTestNs)
			return {completed(), INFINITY, INFINITY, true};
		pauseTest();
	}
}

TestResult compute(const cuda::Driver &driver, cuda::Stream stream, cuda::Address operands, TestProblems &problems)
{
	const size_t bytes = problems.given.size() * sizeof(float);
	if (driver.cuMemcpyHtoDAsync_v2(operands, problems.given.data(), bytes, stream))
		return {decline(Reason::engine_failed, "cuMemcpyHtoDAsync")};
	std::vector<bool> isComputed(problems.count);
	Outcome refused = completed();
	for (unsigned i = 0; i < problems.count; i++) {
		const Outcome outcome = problems.enqueue(i, stream, operands);
		isComputed[i] = outcome.isDone;
		if (outcome.isDone)
			continue;
		refused = outcome;
		if (outcome.reason != Reason::no_fp32_output) // the vendor need not have an engine for each of them
			break;
	}
	const bool hasResult = std::find(isComputed.begin(), isComputed.end(), true) != isComputed.end();
	const bool isBroken = !refused.isDone && refused.reason != Reason::no_fp32_output && refused.failed;
	// In any case: the copies use the host's memory.
	if (const TestResult waited = waitFor(driver, stream); !waited.outcome.isDone || waited.isTooLong)
		return waited;
	if (!hasResult || isBroken)
		return {refused};
	problems.result.resize(problems.given.size());
	if (driver.cuMemcpyDtoHAsync_v2(problems.result.data(), operands, bytes, stream))
		return {decline(Reason::engine_failed, "cuMemcpyDtoHAsync")};
	if (const TestResult waited = waitFor(driver, stream); !waited.outcome.isDone || waited.isTooLong)
		return waited;
	TestResult result{completed(), INFINITY, 0};
	for (unsigned i = 0; i < problems.count; i++)
		if (isComputed[i]) {
			const double error = problems.error(i);
			result.least = std::min(result.least, error), result.most = std::max(result.most, error);
		}
	return result;
}

TestResult runOn(const cuda::Driver &driver, cuda::Stream stream, const LoweredCall &call, TestProblems &problems)
{
	const ContextAnswer answer = currentContext(driver, call.settings.memoryBudget, stream, false, call.isCast());
	if (!answer.context)
		return {decline(answer.reason, answer.what)};
	cuda::Memory &memory = answer.context->memory;
	if (!memory.hasPool() && call.isCast())
		return {decline(Reason::no_memory_pools)};
	const cuda::Block block = memory.allocate(driver, stream, problems.given.size() * sizeof(float), true);
	if (block.failure != cuda::Failure::none) {
		const bool isOutOfMemory = block.failure == cuda::Failure::outOfMemory;
		return {decline(isOutOfMemory ? Reason::out_of_memory : Reason::engine_failed, "allocating device memory")};
	}
	const TestResult result = compute(driver, stream, block.address, problems);
	// Memory in use is not freed. Neither is memory without a pool, because cuMemFree() waits for the application.
	if (!result.isTooLong && memory.hasPool() && !memory.release(driver, stream, block.address))
		base::leaveFault("cuMemFreeAsync");
	return result;
}

} // namespace

size_t TestProblems::add(int64_t size, int exponent)
{
	const size_t at = given.size();
	given.resize(at + aligned(static_cast<size_t>(size) * sizeof(float)) / sizeof(float));
	for (size_t i = at; i < given.size(); i++) { // with the 24 bits of a float
		random_ = random_ * 1664525 + 1013904223;
		given[i] = std::ldexp(static_cast<float>(static_cast<int32_t>(random_) >> 8), exponent - 23);
	}
	return at;
}

double RelativeError::value() const
{
	const double relative = std::sqrt(error_ / norm_);
	return std::isfinite(relative) ? relative : INFINITY;
}

TestResult runProblems(const LoweredCall &call, TestProblems &problems)
{
	const cuda::Driver &driver = *cuda::driver();
	constexpr unsigned nonBlocking = 1; // CU_STREAM_NON_BLOCKING: independent of the legacy stream
	constexpr int highest = -1000;      // the driver takes the highest priority that the device has
	cuda::Stream stream = nullptr;
	if (driver.cuStreamCreateWithPriority(&stream, nonBlocking, highest))
		return {decline(Reason::engine_failed, "cuStreamCreateWithPriority")};
	const TestResult result = runOn(driver, stream, call, problems);
	if (!result.isTooLong && driver.cuStreamDestroy_v2(stream))
		base::leaveFault("cuStreamDestroy_v2");
	return result;
}

void pauseTest()
{
	constexpr timespec pause = {0, 20'000};
	nanosleep(&pause, nullptr);
}

} // namespace autoamp::lower
