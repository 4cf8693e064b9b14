// Matrix products with known results, for the self-test of a device.
#pragma once

#include "src/lower/self_test_run.h"
#include "src/op/vendor.h"

namespace autoamp::lower {

class TestProducts final : public TestProblems
{
public:
	// One product. The operands are device memory, the scalars host memory.
	struct Operands {
		const float *A, *B;
		float *C;
		const float *alpha, *beta;
	};
	// Lowers it as `call`, with the engines that the application's calls use.
	using Multiply = Outcome (*)(LoweredCall &call, const op::CublasLt &lt, void *lightHandle, const Operands &of);

	// Products that are lowered as `call`. Referenced objects must exist as long as this one enqueues.
	TestProducts(const LoweredCall &call, const op::CublasLt &lt, void *lightHandle, Multiply multiply);
	~TestProducts() override;

	Outcome enqueue(unsigned problem, cuda::Stream stream, cuda::Address operands) override;
	double error(unsigned problem) const override;

private:
	const LoweredCall &call_;
	const op::CublasLt &lt_;
	void *const lightHandle_;
	const Multiply multiply_;
	struct {
		size_t a, b, c; // index of the first element
	} places_[4];
	SiteCache caches_[2];
};

} // namespace autoamp::lower
