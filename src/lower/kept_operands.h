// The operands of one call that are observed, or read from a kept copy (docs/adr/0061). Any thread; never waits for the
// device. A copy belongs to one stream at a time, or to a graph.
#pragma once

#include "kernels/cast.h"
#include "src/cuda/context.h"
#include "src/lower/lowering.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::lower {

struct LoweredCall;
struct Weight;

// The two operands of one call: which are converted, observed, or read from a kept copy. The destructor ends their use.
class KeptOperands
{
public:
	KeptOperands() = default;
	~KeptOperands();
	KeptOperands(const KeptOperands &) = delete;

	// Decides about an operand of a call for which mayKeep() is true. layout: hash of everything that the copy depends
	// on except the contents. bytes: size of the converted operand. Enqueues nothing except the clearing of a new copy.
	void choose(LoweredCall &call, int operand, const void *source, uint64_t layout, int64_t elements, size_t bytes);

	// The call reserves the records of prepare(). Captured ones do in all modes: graphs hold their memory, so that
	// otherwise the precision of a later call near AUTOAMP_MEMORY would depend on the mode.
	void setCaptured(bool isCaptured) { isCaptured_ = isCaptured; }
	bool needsRecords() const { return isUsed() || isCaptured_; }
	// The kernels for kept operands run.
	bool isUsed() const { return uses_[0].weight || uses_[1].weight || isPaired_; }
	// Drops what needs memory and makes or uses no copy; the nodes of a graph stay the same. False: there was nothing.
	bool dropObservation();
	void setLaunched() { isLaunched_ = true; }                              // the kernels observe what was chosen
	cuda::Address copyOf(int operand) const { return uses_[operand].copy; } // 0: the operand has none
	// False: the copy saves the memory of the conversion. Captured calls reserve it in any case, because its size
	// decides which calls of a graph share memory, and with that the edges of the graph.
	bool needsScratch(int operand) const { return isReserving_ || !copyOf(operand); }
	// True if a settle kernel must follow the cast to bfloat16.
	bool needsSettle(const LoweredCall &call) const;
	// Sets the parameters of the kernels. records: memory for kernels::recordCount() records.
	void prepare(kernels::Scaling &parameters, const LoweredCall &call, cuda::Address records) const;

private:
	struct Use {
		Weight *weight = nullptr;
		kernels::Kept kept = {};
		cuda::Address copy = 0;
		cuda::Block block = {}; // of a graph
	};
	void observe(LoweredCall &call, Use &use, WeightUse &told, uint16_t ended);
	void useCopy(LoweredCall &call, Use &use, WeightUse &told, size_t copyBytes);
	void useInGraph(LoweredCall &call, Use &use, WeightUse &told, uint64_t content, size_t copyBytes);
	bool make(LoweredCall &call, Weight &weight, WeightUse &told, size_t copyBytes);
	void giveUp(LoweredCall &call, Weight &weight, WeightUse &told);

	Use uses_[kernels::operands];
	LoweredCall *call_ = nullptr;
	bool isLaunched_ = false, isCaptured_ = false;
	bool isPaired_ = false; // captured: cast and settle run with and without a copy, so that graphs have the same nodes
	bool isReserving_ = false; // captured: memory for the conversion of an operand with a copy
};

// True if operands of this call may be kept or observed.
bool mayKeep(const LoweredCall &call);

// Releases the copies made in this region, in all contexts. Called when it ends.
void releaseWeights(uint64_t region);

} // namespace autoamp::lower
