// One execution plan of cuDNN for a graph of ours: the engine that the vendor's heuristics choose for it. Immutable
// once made; any thread, as long as a handle is one thread's.
#pragma once

#include "src/op/graph.h"
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
};

// What a plan is built for.
struct DnnKey {
	unsigned long long context; // id: a plan's kernels are loaded in one
	uint32_t geometry, graph;   // op::Op's
	op::Dtype precision;
	bool operator==(const DnnKey &) const = default;
};

struct DnnPlan {
	DnnDescriptor plan;
	size_t workspaceSize = 0;
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
DnnAnswer chooseEngine(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph);

// Null with `answer` saying why. Outside of capture only: it may compile, and load a module.
DnnPlan *makeDnnPlan(const op::CudnnGraph &cudnn, void *handle, const op::Graph &graph, DnnAnswer &answer);

// Kept for ever, what could not be built included; null: not met yet.
const DnnPlan *knownPlan(const DnnKey &key);
void keepPlan(DnnPlan *plan);

// On the handle's stream. Fails only before anything is enqueued.
DnnAnswer execute(const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan, std::span<const int64_t> uids,
                  std::span<void *const> pointers, void *workspace);

} // namespace autoamp::reroute
