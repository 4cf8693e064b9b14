// What the application's descriptors of cuDNN's graph API hold, as far as cuDNN does not tell it again: variant packs
// as they were set, plans as they were read. Any thread; no lock is held while the vendor is called.
#pragma once

#include "src/op/arguments.h"
#include "src/op/plan.h"
#include "src/op/vendor.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::op {

constexpr int mostPackTensors = 32;

// As last set. More tensors than fit: `count` is 0.
struct VariantPack {
	int64_t uids[mostPackTensors];
	void *pointers[mostPackTensors];
	int64_t count = 0, pointerCount = 0;
	void *workspace = nullptr;
	bool isFinal = false;
	bool isPlain = true; // no more was set than that

	// Null: not there.
	void *const *find(int64_t uid) const
	{
		for (int64_t i = 0; i < count; i++)
			if (uids[i] == uid)
				return &pointers[i];
		return nullptr;
	}
};

struct PlanFacts {
	const KnownGraph *graph = nullptr; // null: it does not say, or not in words that are known here
	bool isOnTensorCores = false;      // its engine multiplies there: fp32 data as TF32
	bool needsWorkspace = false;
};

// The application's calls, made through `truth`; a call that fails changes nothing here either.
Status watchCreateDescriptor(const CudnnGraph &truth, int type, void **descriptor);
Status watchSetAttribute(const CudnnGraph &truth, void *descriptor, int name, int type, int64_t count,
                         const void *values);
Status watchFinalize(const CudnnGraph &truth, void *descriptor);
Status watchDestroyDescriptor(const CudnnGraph &truth, void *descriptor);

// A descriptor that was found, and when: while no other one of its kind nearby has changed it is still that.
struct Sighting {
	const void *descriptor = nullptr;
	uint64_t when = 0;
};

// The latest plan that a thread has executed, and what on: the contents of both at that moment.
struct Execution {
	const KnownGraph *graph = nullptr;
	VariantPack pack;
	PlanFacts facts;
	Sighting packSeen, planSeen;
	const void *handle = nullptr;
	Op op; // as it was described; entry 0: not yet
};

// Into `execution`, where it is not there already. False: made before anybody looked, or past us.
bool findPack(const void *descriptor, Execution &execution);
// Reads the plan at the first question, through the vendor's getters.
bool findPlan(const CudnnGraph &truth, void *descriptor, Execution &execution);

// Of the same execution as before it takes no lock.
Op describe(const Entry &entry, uint16_t index, const GraphCall &call, const CudnnGraph *truth,
            const VendorEnvironment &environment, Execution &execution);

// Around fork: consistent in the child.
void lockDescriptors();
void unlockDescriptors();

} // namespace autoamp::op
