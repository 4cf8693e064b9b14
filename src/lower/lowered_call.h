// One call that runs lowered, and the steps that differ between families. Memory, capture, release and fallback are the
// same for all families: run(). Any thread; never waits for the device.
#pragma once

#include "kernels/audit.h"
#include "kernels/launch.h"
#include "src/lower/context_state.h"
#include "src/lower/lowering.h"

#include <optional>

namespace autoamp::lower {

constexpr size_t alignment = 256; // bytes, of each part of the memory of a call

inline size_t aligned(size_t bytes)
{
	return (bytes + alignment - 1) / alignment * alignment;
}

struct LoweredCall {
	const op::Op &op;
	const policy::Decision &decision;
	SiteCache &cache;
	const Settings settings;
	const void *original; // an original function of the library that the application called
	cuda::Stream stream;
	bool isTest = false;        // a product of self_test.h
	uint64_t weightsRegion = 0; // the region to which copies of this call belong; 0: none

	// Set by run():
	const cuda::Driver *driver = nullptr;
	std::optional<cuda::RelaxedCapture> relaxed = {}; // until the family has destroyed its descriptors
	bool isCaptured = false;
	ContextState *context = nullptr;       // null: not needed so far
	const Kernels *kernels = nullptr;      // for a family that needs them, from convert() on
	uint64_t builtNs = 0;                  // time that this call spent on building a plan
	unsigned long long streamId = 0;       // as in ContextAnswer
	std::array<WeightUse, 2> weights = {}; // by operand of the product that runs

	bool isCast() const { return decision.strategy == policy::Strategy::cast; }
	bool isHalf() const { return decision.precision == op::Dtype::float16; }

	// Rounding of the result that the settings require.
	kernels::Rounding rounding() const
	{
		const bool isLowered = decision.verdict == policy::Verdict::lowered; // a raised result may be in half
		const bool isRounded = settings.roundsOutput && isLowered && op::isLow(decision.precision);
		return !isRounded ? kernels::Rounding::none : isHalf() ? kernels::Rounding::half : kernels::Rounding::bfloat16;
	}
	// Rounds a result in place, after `outcome`. The application's memory is written already: a failure is only named.
	Outcome roundInPlace(const Outcome &outcome, float *target, const kernels::TensorLayout &layout) const;

	// Sets the destination of this call's events.
	void prepareEvents(kernels::Events &events) const;
	// For a call that casts `first` and `second` to float16: sets the slots of its scales and the destination of its
	// events.
	void prepareScaling(kernels::Scaling &scaling, const void *first, const void *second) const;

	template <typename Parameters>
	unsigned blocks(const Parameters &parameters) const
	{
		return kernels::gridSize(parameters, static_cast<unsigned>(context->facts->smCount));
	}
	template <typename Parameters>
	bool launch(CUkern_st *kernel, unsigned blocks, Parameters &parameters) const
	{
		void *arguments[] = {&parameters};
		return launchKernel(kernel, blocks, arguments);
	}

	// Blocks of a settle kernel, and of autoamp_mend.
	template <typename Parameters>
	unsigned settleBlocks(const Parameters &parameters) const
	{
		return kernels::settleBlocks(parameters.castBlocks, static_cast<unsigned>(context->facts->smCount),
		                             kernels::isStrict(parameters));
	}
	// The two launches of a cast to float16, or of one with kept operands. `records`: memory for kernels::recordCount()
	// records; bfloat16 has none.
	template <typename Parameters>
	bool castAndSettle(CUkern_st *cast, CUkern_st *settle, cuda::Address records, Parameters &parameters) const
	{
		parameters.records = reinterpret_cast<kernels::CastRecord *>(records);
		parameters.castBlocks = blocks(parameters);
		if (!launch(cast, parameters.castBlocks, parameters))
			return false;
		// Not in a graph: its edge would have data, which programs that read graphs may not expect.
		if (!kernels->isSettleWaiting || isCaptured)
			return launch(settle, settleBlocks(parameters), parameters);
		void *arguments[] = {&parameters};
		return launchWaiting(settle, settleBlocks(parameters), arguments);
	}

private:
	bool launchKernel(CUkern_st *kernel, unsigned blocks, void **arguments) const;
	bool launchWaiting(CUkern_st *kernel, unsigned blocks, void **arguments) const; // cuda::launchWaiting()
};

class Family
{
public:
	struct Needs {
		bool kernels = false;         // launches autoamp kernels; a capture requires that they have run in the context
		bool context = false;         // prepare() uses the context
		bool unboundedMemory = false; // memory beyond the budget: the call cannot run unchanged
	};
	const Needs needs;

	// Finds the engine or plan of the call. Declines before anything is enqueued.
	virtual Outcome prepare(LoweredCall &call) = 0;
	// Device memory that the call needs, in bytes.
	virtual size_t bytes() const = 0;
	// Enqueues the conversions of the operands to the memory from `base` on. Returns null, or the step that failed. Not
	// called for a call without memory.
	virtual const char *convert(LoweredCall &call, cuda::Address base) = 0;
	// Enqueues the vendor's call and the steps after it. Declines only before application memory is written that the
	// application's own call does not write again.
	virtual Outcome enqueue(LoweredCall &call) = 0;
	// Called if memory is short: an observation needs some, and must not change the precision of the call. False: the
	// call has none.
	virtual bool dropObservation() { return false; }
	// Called after a shortage of memory. Returns null, or the event text of a second attempt that needs no memory.
	virtual const char *dropWorkspace(const LoweredCall &) { return nullptr; }

	// For audit.h. Describes the application's product, before convert(). Returns null, or the reason why the call
	// cannot be audited.
	virtual const char *describeAudit(const LoweredCall &, kernels::AuditCall &) const = 0;
	// Bytes of the application's result, if the audit must compute it in fp32 because the epilogue is not linear; else
	// 0.
	virtual size_t referenceBytes(const LoweredCall &) const { return 0; }
	// Enqueues the application's own call, which writes its result to `reference`. It may also write other results that
	// enqueue() writes again.
	virtual op::Status recompute(const LoweredCall &, void *) const { return 0; }

protected:
	explicit Family(const Needs &of) : needs(of) {}
	~Family() = default;
};

// Runs `call` by the steps of `family`: completes it, or declines.
Outcome run(LoweredCall &call, Family &family);

} // namespace autoamp::lower
