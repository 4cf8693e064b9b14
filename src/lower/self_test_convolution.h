// Convolutions with known results, for the self-test of a device.
#pragma once

#include "src/lower/self_test_run.h"
#include "src/op/arguments.h"
#include "src/op/vendor.h"

namespace autoamp::lower {

class TestConvolutions final : public TestProblems
{
public:
	// Lowers one convolution as `call`.
	using Convolve = Outcome (*)(LoweredCall &call, const op::ConvolutionCall &of, const op::CudnnGraph &cudnn);

	// Convolutions that are lowered as `call`. They run on the application's handle, which has another stream
	// meanwhile. Referenced objects must exist as long as this one enqueues.
	TestConvolutions(const LoweredCall &call, const op::CudnnGraph &cudnn, void *handle, Convolve convolve);

	Outcome enqueue(unsigned problem, cuda::Stream stream, cuda::Address operands) override;
	double error(unsigned problem) const override;

private:
	static constexpr unsigned mostConvolutions = 3;
	const LoweredCall &call_;
	const op::CudnnGraph &cudnn_;
	void *const handle_;
	const Convolve convolve_;
	struct {
		size_t x, w, y; // index of the first element
	} places_[mostConvolutions];
	SiteCache cache_;
};

} // namespace autoamp::lower
