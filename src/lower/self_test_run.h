// Runs the problems of a self-test on a device, on a stream and in memory of their own. Waits for this stream, for a
// limited time.
#pragma once

#include "src/lower/lowered_call.h"

#include <vector>

namespace autoamp::lower {

// Real problems take microseconds. Kernels of the application can delay them, and they might wait for this thread.
constexpr uint64_t longestTestNs = 5'000'000'000;

// Problems with known results. Their operands are one block of memory.
class TestProblems
{
public:
	explicit TestProblems(unsigned problems) : count(problems) {}
	virtual ~TestProblems() = default;
	TestProblems(const TestProblems &) = delete;
	TestProblems &operator=(const TestProblems &) = delete;

	// Lowers one problem. `operands`: the device's copy of `given`.
	virtual Outcome enqueue(unsigned problem, cuda::Stream stream, cuda::Address operands) = 0;
	// Relative Frobenius error of a result against fp64. Infinite if it is not finite, or if an element that does not
	// belong to the result was written.
	virtual double error(unsigned problem) const = 0;

	const unsigned count;
	std::vector<float> given, result; // the operands before and after

protected:
	// Adds `size` random values in [-2^exponent, 2^exponent) to `given`. Returns the index of the first one, a multiple
	// of 64 (256 bytes).
	size_t add(int64_t size, int exponent);

private:
	uint32_t random_ = 1;
};

// A sum of squared errors.
class RelativeError
{
public:
	// norm: the value to which the error is relative.
	void add(double exact, double norm, float computed)
	{
		const double wrong = exact - static_cast<double>(computed);
		error_ += wrong * wrong, norm_ += norm * norm;
	}
	double value() const;

private:
	double error_ = 0, norm_ = 0;
};

// `outcome`: done if the problems ran, or took too long. `least` and `most`: the errors of the problems that ran.
struct TestResult {
	Outcome outcome;
	double least = 0, most = 0;
	bool isTooLong = false; // then the device may still use the vectors of the problems
};

// For a call that is lowered in the same way as the problems.
TestResult runProblems(const LoweredCall &call, TestProblems &problems);

// Makes the thread wait a little.
void pauseTest();

} // namespace autoamp::lower
