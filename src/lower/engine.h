// A cublasLtMatmul engine for a lowered signature: autoamp's descriptors, and the algorithm that the vendor's heuristic
// chose for them. Immutable once made; any thread.
#pragma once

#include "src/op/lt_matmul.h"
#include "src/op/op.h"
#include "src/policy/decision.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace autoamp::lower {

// Properties that an engine depends on, in addition to the Op. For arrays of pointers, the alignments of A to D are the
// size of one element.
struct EngineKey {
	policy::Strategy strategy;
	op::Dtype precision;
	uint16_t alignmentA, alignmentB, alignmentC, alignmentD, alignmentBias; // bytes, a power of two
	int32_t smCountTarget;
	uint16_t alignmentAux = 128;
	bool hasWorkspace = true; // false: only algorithms that need no workspace
	int64_t auxLd = 0, biasBatchStride = 0, auxBatchStride = 0;
	bool operator==(const EngineKey &) const = default;

	bool isCast() const { return strategy == policy::Strategy::cast; } // the operands are 16-bit copies
};

struct Engine {
	EngineKey key;
	void *layoutA = nullptr, *layoutB = nullptr, *layoutC = nullptr, *layoutD = nullptr;
	void *description = nullptr;       // null if the epilogue has pointers, which differ between calls
	alignas(8) unsigned char algo[64]; // cublasLtMatmulAlgo_t
	size_t workspaceSize = 0;
	const char *refusedBy = nullptr; // set if there is no engine: the function that returned NOT_SUPPORTED
	Engine *next = nullptr;
};

// Engines of one signature, and the keys that the vendor refused.
struct Engines {
	std::atomic<Engine *> first{nullptr};
	std::atomic<unsigned> refusals{0};
};

// Shape of an operand as stored. In a 16-bit copy, ld is padded to 8 elements, so that each column is aligned to 16
// bytes whatever the application's ld is. Without a cast, the operand is stored as in the application.
struct StoredOperand {
	int64_t rows, columns, ld, stride, batch; // stride 0: one matrix for the whole batch
	size_t bytes() const { return static_cast<size_t>(ld * columns * batch) * 2; }
};
StoredOperand storedA(const op::Op &op, bool isCast);
StoredOperand storedB(const op::Op &op, bool isCast);

// status != 0: the call that failed (15: NOT_SUPPORTED, the vendor has no such engine).
struct EngineAnswer {
	Engine *engine = nullptr;
	op::Status status = 0;
	const char *what = "";
};
EngineAnswer makeEngine(const op::CublasLt &lt, void *lightHandle, const op::Op &op, const EngineKey &key,
                        const op::LtExtras &extras);
// Calls makeEngine() at the first call with a key, and returns the same answer for later ones. A status other than
// NOT_SUPPORTED is not stored. The answer depends only on the arguments, not on earlier calls.
EngineAnswer findEngine(Engines &engines, const op::CublasLt &lt, void *lightHandle, const op::Op &op,
                        const EngineKey &key, const op::LtExtras &extras);
void destroyEngine(const op::CublasLt &lt, Engine *engine);

// Makes the matmul descriptor of a call. If the epilogue has pointers, each call makes and destroys its own.
op::Status makeDescription(const op::CublasLt &lt, const op::Op &op, const EngineKey &key, const op::LtExtras &extras,
                           void *&description);

// Returns null if the vendor would run the application's own call with this algorithm (null: chosen by the vendor) and
// workspace. Otherwise returns the function that refused it; the call must then go to the vendor, so that the
// application gets its status. `areArrays`: the alignment of the matrices is not checked, because their addresses are
// in device memory.
const char *refusalOf(const op::CublasLt &lt, void *lightHandle, const op::LtMatmulCall &call, bool areArrays = false);

// True if alpha and beta are read on the device: from the scratch memory of a cast to float16, or from the
// application's.
bool hasDeviceScalars(const op::Op &op, const EngineKey &key);

} // namespace autoamp::lower
