// Contents of the application's cuDNN graph descriptors that cuDNN does not report back: variant packs as set by the
// application, plans as read. Any thread; no lock is held during vendor calls.
#pragma once

#include "src/op/arguments.h"
#include "src/op/graph_description.h"
#include "src/op/vendor.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

constexpr int mostPackTensors = 32;

// Attributes as last set. `count` is 0 if there are more tensors than fit.
struct VariantPack {
	int64_t uids[mostPackTensors];
	void *pointers[mostPackTensors];
	int64_t count = 0, pointerCount = 0;
	void *workspace = nullptr;
	bool isFinal = false;
	bool isPlain = true; // no other attribute was set

	// Null: the pack has no such uid.
	void *const *find(int64_t uid) const
	{
		for (int64_t i = 0; i < count; i++)
			if (uids[i] == uid)
				return &pointers[i];
		return nullptr;
	}
};

struct PlanFacts {
	const KnownGraph *graph = nullptr; // null: the plan has no description, or an unknown one
	bool isOnTensorCores = false;      // its engine uses tensor cores: fp32 data is multiplied as TF32
	bool needsWorkspace = false;
};

// Forward the application's calls to the original functions in `cudnn`, and record the descriptors of plans and variant
// packs. A call that fails changes no record.
Status watchCreateDescriptor(const CudnnGraph &cudnn, int type, void **descriptor);
Status watchSetAttribute(const CudnnGraph &cudnn, void *descriptor, int name, int type, int64_t count,
                         const void *values);
Status watchFinalize(const CudnnGraph &cudnn, void *descriptor);
Status watchDestroyDescriptor(const CudnnGraph &cudnn, void *descriptor);

// A descriptor that was found, and the change count at that time. The descriptors are distributed over 16 tables by
// address. The copy of the contents is valid until a descriptor of the same kind in the same table changes.
struct Sighting {
	const void *descriptor = nullptr;
	uint64_t when = 0;
};

// The plan that a thread executed last, and its variant pack, with their contents at that time.
struct Execution {
	const KnownGraph *graph = nullptr;
	VariantPack pack;
	PlanFacts facts;
	Sighting packSeen, planSeen;
	const void *handle = nullptr;
	Op op; // the description of the call; entry 0: none exists yet
};

// Copies the pack into `execution` if it is not there already. Returns false if the descriptor was created before or
// without interception.
bool findPack(const void *descriptor, Execution &execution);
// The same for a plan. The first query reads it through the vendor's getters.
bool findPlan(const CudnnGraph &cudnn, void *descriptor, Execution &execution);

// Takes no lock if the execution is the same as before.
Op describe(const Entry &entry, uint16_t index, const GraphCall &call, const CudnnGraph *cudnn,
            const VendorEnvironment &environment, Execution &execution);

// Called around fork, so that the child has a consistent state.
void lockDescriptors();
void unlockDescriptors();

} // namespace autoamp::op
