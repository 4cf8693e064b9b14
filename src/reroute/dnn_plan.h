// One execution plan of cuDNN for a graph of ours: the engine that the vendor's heuristics choose for it. Immutable
// once made; any thread, as long as a handle is one thread's.
#pragma once

#include "kernels/cast.h"
#include "src/op/shadow.h"
#include "src/op/vendor.h"

#include <cstddef>
#include <span>

namespace autoamp::reroute {

// A descriptor of the vendor's, destroyed with this.
class DnnDescriptor
{
public:
	DnnDescriptor() = default;
	DnnDescriptor(const op::CudnnGraph &cudnn, int type);
	~DnnDescriptor();
	DnnDescriptor(DnnDescriptor &&other) noexcept;
	DnnDescriptor &operator=(DnnDescriptor &&other) noexcept;
	void *get() const { return descriptor_; }

private:
	const op::CudnnGraph *cudnn_ = nullptr;
	void *descriptor_ = nullptr;
};

// Who is asked for engines: a handle, or the properties of a device that need not be here.
struct DnnTarget {
	void *handle = nullptr, *deviceProperties = nullptr;
	int computeCapability = 0;
};

// What a plan is built for.
struct DnnKey {
	unsigned long long context; // id: a plan's kernels are loaded in one
	uint32_t geometry, graph;   // op::Op's
	op::Dtype precision;
	op::Form form = op::Form::none; // of a convolution's shadow
	bool operator==(const DnnKey &) const = default;
};

// How one of its tensors comes from the application's memory to ours, or goes back: all but the addresses.
struct Passage {
	kernels::TensorLayout layout = {};
	int64_t first = 0;               // element of the application's that is the first of the layout
	int64_t ld = 0, zeroColumns = 0; // ours
	size_t bytes = 0;                // ours
};

struct DnnPlan {
	DnnDescriptor plan;
	size_t workspaceSize = 0;
	// Of one that multiplies 16-bit copies:
	Passage operand[2], result = {};
	bool isInPlace = false; // the application's result is as the plan would write it, where nothing is added
	int64_t ownUid = 0;     // the first of four that no tensor of the application's has
	// Whoever keeps it:
	DnnKey key = {};
	op::Status status = 0; // else there is none, for good
	const char *what = "";
	DnnPlan *next = nullptr;
};

// status != 0: the call that failed (3000: NOT_SUPPORTED, the vendor has no such engine).
struct DnnAnswer {
	DnnDescriptor descriptor;
	op::Status status = 0;
	const char *what = "";
};

// The first configuration that heuristics propose (mode A, then the fallback list) whose engine multiplies on tensor
// cores, sums in fp32 and always to the same bits; one that needs no run-time compilation before one that does.
// `isRaised`: one that multiplies in fp32 instead.
DnnAnswer chooseEngine(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph,
                       bool isRaised = false);

// Null with `answer` saying why. Outside of capture only: it may compile, and load a module.
DnnPlan *makeDnnPlan(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph, bool isRaised,
                     DnnAnswer &answer);

// Kept for ever, what could not be built included; null: not met yet.
const DnnPlan *knownPlan(const DnnKey &key);
void keepPlan(DnnPlan *plan);

// On the handle's stream. Fails only before anything is enqueued.
DnnAnswer execute(const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan, std::span<const int64_t> uids,
                  std::span<void *const> pointers, void *workspace);

} // namespace autoamp::reroute
