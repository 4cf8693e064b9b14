// A lowered call that runs one cuDNN plan built by autoamp: on 16-bit copies of two operands (with settled scales for
// float16), or on the application's tensors. Any thread. A plan is built at the first call of a geometry or graph in a
// context, never during capture.
#pragma once

#include "src/lower/dnn_plan.h"
#include "src/lower/kept_operands.h"
#include "src/lower/lowered_call.h"

namespace autoamp::lower {

// True for CUDNN_STATUS_NOT_SUPPORTED and its more specific codes.
bool isNotSupported(op::Status cudnn);

class PlanFamily : public Family
{
public:
	Outcome prepare(LoweredCall &call) final;
	size_t bytes() const final { return places_.end; }
	const char *convert(LoweredCall &call, cuda::Address base) final;
	bool dropObservation() final;

protected:
	// Addresses of the scratch memory. `scratch` has alpha as its first member.
	struct Places {
		void *scratch, *first, *second, *keptRecords, *records, *result, *workspace;
		cuda::Address end;
	};
	// prepare() sets the context of `key`.
	PlanFamily(const op::CudnnGraph &cudnn, void *handle, bool isCast, const DnnKey &key)
	    : Family({.kernels = isCast, .context = true}), isCast_(isCast), cudnn_(cudnn), handle_(handle), key_(key)
	{
	}
	~PlanFamily() = default;

	// For a plan that is not built yet.
	virtual op::Graph graph() const = 0;
	virtual void setPassages(DnnPlan &plan) const = 0;
	// The operand that is the filter of a convolution; -1: none is.
	virtual int filter() const { return -1; }
	// False: the plan writes its result to scratch memory.
	virtual bool isDirect() const { return true; }

	Outcome execute(std::span<const int64_t> uids, std::span<void *const> pointers) const;

	const bool isCast_; // on 16-bit copies of first_ and second_, with alpha_
	const float *first_ = nullptr, *second_ = nullptr;
	float alpha_ = 1;
	const DnnPlan *plan_ = nullptr; // set by prepare()
	Places places_ = {};

private:
	Outcome build(LoweredCall &call);
	void place(cuda::Address base);
	kernels::TensorParameters tensors() const; // the operands, in their places
	void chooseKept(LoweredCall &call);

	const op::CudnnGraph &cudnn_;
	void *const handle_;
	DnnKey key_;
	KeptOperands kept_;
};

} // namespace autoamp::lower
