// Audit of a lowered call (AUTOAMP_AUDIT): measures its error on the device with the kernels of kernels/audit.h. Any
// thread; never waits for the device. It only reads the application's memory, has a separate memory pool, and never
// changes the call or its outcome.
#pragma once

#include "kernels/audit.h"
#include "src/lower/lowered_call.h"
#include "src/op/convolution.h"

namespace autoamp::lower {

class Audit
{
public:
	// Decides whether the call is audited, takes memory and launches the first kernel. To be called when the call has
	// its own memory, before it enqueues anything.
	Audit(LoweredCall &call, Family &family);
	// Launches the second kernel, unless the call failed, and releases the memory.
	~Audit();
	Audit(const Audit &) = delete;

	// The call runs.
	void succeed() { hasSucceeded_ = true; }
	// Reason why the call could not be audited, for a note in the trace; null: it is audited, or was not chosen.
	const char *skipped() const { return skipped_; }

private:
	const char *begin(Family &family);
	bool launch(CUkern_st *kernel, unsigned blocks);

	LoweredCall &call_;
	kernels::AuditCall audit_ = {};
	cuda::Memory *memory_ = nullptr;
	const Kernels *kernels_ = nullptr;
	cuda::Block block_ = {};
	const char *skipped_ = nullptr;
	bool hasSucceeded_ = false;
};

// ---- for families

// Describes a column-major matrix for an axis pair: element (i, j) is at i * rowStride + j * columnStride.
kernels::AuditOperand auditedMatrix(const void *source, int64_t rowStride, int64_t columnStride, int64_t matrixStride,
                                    bool isArray);
kernels::Axis auditedAxis(int64_t size);

// Describes a convolution by its implicit product. Rows are the positions of the result, or the elements of one filter.
// Columns are channels, or filters, and matrices are groups. beta multiplies `added`.
struct ConvolutionOperands {
	const float *first, *second, *result, *added, *bias;
	float alpha, beta;
};
void describeConvolution(const op::Convolution &convolution, const ConvolutionOperands &operands,
                         kernels::AuditCall &audit);

} // namespace autoamp::lower
