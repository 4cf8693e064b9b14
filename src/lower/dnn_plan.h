// One cuDNN execution plan for a graph built by autoamp, with the engine chosen by the vendor's heuristics. Immutable
// once made. Any thread, as long as only one thread uses a handle.
#pragma once

#include "kernels/cast.h"
#include "src/op/shadow.h"
#include "src/op/vendor.h"

#include <algorithm>
#include <cstddef>
#include <span>

namespace autoamp::lower {

// A vendor descriptor, destroyed with this object.
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

// Target of engine queries: a handle, or the properties of a device that need not be present.
struct DnnTarget {
	void *handle = nullptr, *deviceProperties = nullptr;
	int computeCapability = 0;
};

// Key of a plan.
struct DnnKey {
	unsigned long long context; // id; the kernels of a plan are loaded in one context
	uint32_t geometry, graph;   // as in op::Op
	op::Dtype precision;
	op::Form form = op::Form::none; // form of a convolution's shadow
	bool operator==(const DnnKey &) const = default;
};

// Copy between one application tensor and its scratch memory, without the addresses.
struct Passage {
	kernels::TensorLayout layout = {};
	int64_t first = 0;               // offset of the application's element that is first
	int64_t ld = 0, zeroColumns = 0; // in scratch memory
	size_t bytes = 0;                // in scratch memory
};

// Layout of the elements of an op::Tensor or op::GraphTensor, in the order in which the copy has them. Rows are the
// dimension `inner`. `first` becomes the offset of the first element. Levels without a gap between them are merged:
// packed tensors have one or two.
template <class Tensor>
kernels::TensorLayout layoutOf(const Tensor &tensor, int inner, bool isFlipped, int64_t &first)
{
	const int64_t rows = tensor.dims[inner];
	kernels::TensorLayout layout = {rows, rows > 1 ? tensor.strides[inner] : 0, 0, {1, 1, 1, 1}, {}};
	first = 0;
	for (int i = tensor.rank; i-- > 0;) {
		const int64_t extent = tensor.dims[i];
		int64_t stride = tensor.strides[i];
		if (i == inner || extent == 1)
			continue;
		if (isFlipped && i > 1) {
			first += (extent - 1) * stride;
			stride = -stride;
		}
		const int last = layout.levels - 1;
		if (last >= 0 && stride == layout.extent[last] * layout.stride[last]) {
			layout.extent[last] *= extent;
		} else {
			layout.extent[last + 1] = extent, layout.stride[last + 1] = stride;
			layout.levels++;
		}
	}
	layout.levels = std::max(layout.levels, 1);
	return layout;
}

struct DnnPlan {
	DnnDescriptor plan;
	size_t workspaceSize = 0;
	// For a plan that multiplies 16-bit copies:
	Passage operand[2], result = {};
	bool isInPlace = false; // the plan can write the application's result if nothing is added
	int64_t ownUid = 0;     // first of four consecutive uids that no application tensor has
	// Set before keepPlan():
	DnnKey key = {};
	op::Status status = 0; // not 0: the plan cannot be built
	const char *what = "";
	DnnPlan *next = nullptr;
};

// status != 0: the call that failed (3000: NOT_SUPPORTED, the vendor has no such engine).
struct DnnAnswer {
	DnnDescriptor descriptor;
	op::Status status = 0;
	const char *what = "";
};

// Returns the first configuration that the heuristics propose (mode A, then the fallback list) with a suitable engine.
// The engine must use tensor cores, sum in fp32 and be deterministic. Within a list, engines without run-time
// compilation come first. `isRaised`: the engine must multiply in fp32 instead.
DnnAnswer chooseEngine(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph,
                       bool isRaised = false);

// Returns null on failure, with the reason in `answer`. Not during capture: it may compile and load a module.
DnnPlan *makeDnnPlan(const op::CudnnGraph &cudnn, const DnnTarget &target, const op::Graph &graph, bool isRaised,
                     DnnAnswer &answer);

// Plans are kept for the lifetime of the process, including those that could not be built. Null: no plan for this key.
const DnnPlan *knownPlan(const DnnKey &key);
void keepPlan(DnnPlan *plan);

// Runs on the stream of the handle. Fails only before anything is enqueued.
DnnAnswer execute(const op::CudnnGraph &cudnn, void *handle, const DnnPlan &plan, std::span<const int64_t> uids,
                  std::span<void *const> pointers, void *workspace);

} // namespace autoamp::lower
