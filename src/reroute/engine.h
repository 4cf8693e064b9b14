// One engine of cublasLtMatmul for a lowered signature: descriptors of ours and the algorithm that the vendor's
// heuristic chose for them. Immutable once made; any thread.
#pragma once

#include "src/op/lt_matmul.h"
#include "src/op/op.h"
#include "src/policy/decision.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace autoamp::reroute {

// What an engine depends on beside the Op. Of arrays of pointers the alignments are those that any element has.
struct EngineKey {
	policy::Strategy strategy;
	op::Dtype precision;
	uint16_t alignmentA, alignmentB, alignmentC, alignmentD, alignmentBias; // bytes, a power of two
	int32_t smCountTarget;
	uint16_t alignmentAux = 128;
	bool hasWorkspace = true; // false: only algorithms that need no workspace
	int64_t auxLd = 0, biasBatchStride = 0, auxBatchStride = 0;
	bool operator==(const EngineKey &) const = default;

	bool isCast() const { return strategy == policy::Strategy::cast; } // operands are our 16-bit copies
};

struct Engine {
	EngineKey key;
	void *layoutA = nullptr, *layoutB = nullptr, *layoutC = nullptr, *layoutD = nullptr;
	void *description = nullptr;       // null where the epilogue has pointers: they are the call's own
	alignas(8) unsigned char algo[64]; // cublasLtMatmulAlgo_t
	size_t workspaceSize = 0;
	const char *refusedBy = nullptr; // no engine: the function that answered NOT_SUPPORTED
	Engine *next = nullptr;
};

// The engines of one signature, and the keys that the vendor has refused.
struct Engines {
	std::atomic<Engine *> first{nullptr};
	std::atomic<unsigned> refusals{0};
};

// Columns and leading dimension of an operand as stored in 16 bits, ld padded to 8 elements, so that each column begins
// on 16 bytes whatever the application's ld is; or, not cast, as the application stores it.
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
// As makeEngine(), at the first call with this key; then the same answer. A status other than NOT_SUPPORTED is not
// remembered. The answer depends on the arguments only, never on earlier calls.
EngineAnswer findEngine(Engines &engines, const op::CublasLt &lt, void *lightHandle, const op::Op &op,
                        const EngineKey &key, const op::LtExtras &extras);
void destroyEngine(const op::CublasLt &lt, Engine *engine);

// The matmul descriptor of a call. Where the epilogue has pointers each call makes and destroys its own.
op::Status makeDescription(const op::CublasLt &lt, const op::Op &op, const EngineKey &key, const op::LtExtras &extras,
                           void *&description);

// Null: the vendor would run the application's own call with this algorithm and workspace (null: its own choice). Else
// who says no: what it would refuse has to go to it, so that the application gets its status.
// Where the matrices of a batch are found through arrays (`areArrays`), only the device sees how they are aligned.
const char *refusalOf(const op::CublasLt &lt, void *lightHandle, const op::LtMatmulCall &call, bool areArrays = false);

// True where alpha and beta are read on the device: from the call's scratch (cast to float16), or the application's.
bool hasDeviceScalars(const op::Op &op, const EngineKey &key);

} // namespace autoamp::reroute
