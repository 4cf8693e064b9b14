#include "src/lower/engine.h"

#include "src/base/faults.h"
#include "src/base/log.h"

#include <cublasLt.h>

#include <cstring>

namespace autoamp::lower {

static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(Engine::algo));

namespace {

// The vendor's default for Hopper and later, in bytes. Only the workspace that an engine needs is allocated.
constexpr size_t mostWorkspace = size_t{32} << 20;
constexpr int64_t elementsPer16Bytes = 8;

void destroyed(const char *what, op::Status status)
{
	if (status)
		base::leaveFault(what);
}

void destroyDescription(const op::CublasLt &lt, void *&description)
{
	if (description)
		destroyed("cublasLtMatmulDescDestroy", lt.cublasLtMatmulDescDestroy(description));
	description = nullptr;
}

StoredOperand stored(int64_t rows, int64_t columns, int64_t asStored, int64_t stride, int32_t batch, bool isCast)
{
	if (!isCast)
		return {rows, columns, asStored, stride, batch};
	const int64_t ld = (rows + elementsPer16Bytes - 1) / elementsPer16Bytes * elementsPer16Bytes;
	const bool isShared = batch > 1 && stride == 0;
	return {rows, columns, ld, isShared || batch == 1 ? 0 : ld * columns, isShared ? 1 : batch};
}

template <typename Value>
op::Status set(op::Status (*setter)(void *, int, const void *, size_t), void *object, int id, const Value &value)
{
	return setter(object, id, &value, sizeof value);
}

int typeOf(op::Dtype dtype)
{
	return dtype == op::Dtype::float16 ? CUDA_R_16F : dtype == op::Dtype::bfloat16 ? CUDA_R_16BF : CUDA_R_32F;
}

op::Status makeLayout(const op::CublasLt &lt, void *&layout, int type, const StoredOperand &as, int32_t batch,
                      bool isArray)
{
	op::Status status = lt.cublasLtMatrixLayoutCreate(&layout, type, static_cast<uint64_t>(as.rows),
	                                                  static_cast<uint64_t>(as.columns), as.ld);
	if (!status && batch > 1) {
		const auto setter = lt.cublasLtMatrixLayoutSetAttribute;
		status = set(setter, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
		if (!status)
			status = set(setter, layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, as.stride);
	}
	if (!status && isArray)
		status = set(lt.cublasLtMatrixLayoutSetAttribute, layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE,
		             uint32_t{CUBLASLT_BATCH_MODE_POINTER_ARRAY});
	return status;
}

} // namespace

StoredOperand storedA(const op::Op &op, bool isCast)
{
	const bool isPlain = op.transa == op::Transpose::none;
	return stored(isPlain ? op.m : op.k, isPlain ? op.k : op.m, op.lda, op.stridea, op.batch, isCast);
}

StoredOperand storedB(const op::Op &op, bool isCast)
{
	const bool isPlain = op.transb == op::Transpose::none;
	return stored(isPlain ? op.k : op.n, isPlain ? op.n : op.k, op.ldb, op.strideb, op.batch, isCast);
}

bool hasDeviceScalars(const op::Op &op, const EngineKey &key)
{
	return (key.isCast() && key.precision == op::Dtype::float16) || (op.flags & op::flagDeviceScalars);
}

op::Status makeDescription(const op::CublasLt &lt, const op::Op &op, const EngineKey &key, const op::LtExtras &extras,
                           void *&description)
{
	static constexpr uint32_t epilogues[] = {
#define X(name, vendor, effects) CUBLASLT_EPILOGUE_##vendor,
	    AUTOAMP_EPILOGUES(X)
#undef X
	};
	const auto setter = lt.cublasLtMatmulDescSetAttribute;
	const bool isPlain = key.isCast() || key.strategy == policy::Strategy::fp32;
	const int compute = isPlain                                ? CUBLAS_COMPUTE_32F
	                    : key.precision == op::Dtype::tf32     ? CUBLAS_COMPUTE_32F_FAST_TF32
	                    : key.precision == op::Dtype::bfloat16 ? CUBLAS_COMPUTE_32F_FAST_16BF
	                                                           : CUBLAS_COMPUTE_32F_FAST_16F;
	if (const op::Status status = lt.cublasLtMatmulDescCreate(&description, compute, CUDA_R_32F))
		return status;
	op::Status status = 0;
	const auto put = [&](int id, const auto &value) {
		if (!status)
			status = set(setter, description, id, value);
	};
	put(CUBLASLT_MATMUL_DESC_TRANSA, static_cast<int32_t>(op.transa));
	put(CUBLASLT_MATMUL_DESC_TRANSB, static_cast<int32_t>(op.transb));
	put(CUBLASLT_MATMUL_DESC_POINTER_MODE,
	    static_cast<int32_t>(hasDeviceScalars(op, key) ? CUBLASLT_POINTER_MODE_DEVICE : CUBLASLT_POINTER_MODE_HOST));
	const unsigned effects = op::epilogueEffects(op);
	if (op.epilogue && !(effects & op::sumsOperand)) // autoamp sums operands itself: the vendor would sum rounded ones
		put(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogues[op.epilogue]);
	if (key.smCountTarget)
		put(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, key.smCountTarget);
	if (effects & (op::addsBias | op::writesGradient)) { // elements have the default type, that of D
		put(CUBLASLT_MATMUL_DESC_BIAS_POINTER, extras.bias);
		if (extras.biasBatchStride)
			put(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, extras.biasBatchStride);
	}
	if (effects & (op::hasMatrix | op::hasMask)) {
		put(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, extras.aux);
		put(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, extras.auxLd);
		if (extras.auxBatchStride)
			put(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, extras.auxBatchStride);
	}
	if (status)
		destroyDescription(lt, description);
	return status;
}

const char *refusalOf(const op::CublasLt &lt, void *lightHandle, const op::LtMatmulCall &call, bool areArrays)
{
	const auto isAligned = [](const void *pointer, uint32_t bytes) {
		return bytes == 0 || reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
	};
	if (!isAligned(call.workspace, 256)) // see the documentation of cublasLtMatmul
		return "cublasLtMatmul";
	if (!call.algo)
		return nullptr;
	cublasLtMatmulHeuristicResult_t result = {};
	if (lt.cublasLtMatmulAlgoCheck(lightHandle, call.computeDesc, call.Adesc, call.Bdesc, call.Cdesc, call.Ddesc,
	                               call.algo, &result) ||
	    result.workspaceSize > call.workspaceSizeInBytes)
		return "cublasLtMatmulAlgoCheck";
	// The check above does not see addresses. They can be less aligned than the algorithm requires.
	const void *const pointers[] = {call.A, call.B, call.C, call.D};
	for (int i = 0; i < 4 && !areArrays; i++) {
		uint32_t bytes = 0;
		size_t written = 0;
		const int id = CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES + i; // followed by those of B, C, D
		if (lt.cublasLtMatmulAlgoCapGetAttribute(call.algo, id, &bytes, sizeof bytes, &written) ||
		    !isAligned(pointers[i], bytes))
			return "cublasLtMatmulAlgoCapGetAttribute";
	}
	return nullptr;
}

EngineAnswer makeEngine(const op::CublasLt &lt, void *lightHandle, const op::Op &op, const EngineKey &key,
                        const op::LtExtras &extras)
{
	const int type = typeOf(key.isCast() ? key.precision : op.a), typeOfResult = typeOf(op.out);
	const bool areArrays = op.flags & op::flagArrays && !key.isCast();
	const StoredOperand a = storedA(op, key.isCast()), b = storedB(op, key.isCast());
	const StoredOperand d = {op.m, op.n, op.ldd, op.strided, op.batch};
	const StoredOperand c = op.flags & op::flagNoC ? d : StoredOperand{op.m, op.n, op.ldc, op.stridec, op.batch};
	auto *engine = new Engine{};
	engine->key = key;
	void *preference = nullptr;
	int found = 0;
	cublasLtMatmulHeuristicResult_t results[4] = {};
	EngineAnswer answer;
	const auto step = [&](const char *what, op::Status status) {
		answer.status = status;
		answer.what = what;
		return status == 0;
	};
	// Excludes in-place reduction, which would add into D in its own order. The alignments are those of this call.
	const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
	const uint64_t workspace = key.hasWorkspace ? mostWorkspace : 0;
	const uint32_t alignmentA = key.alignmentA, alignmentB = key.alignmentB;
	const uint32_t alignmentC = key.alignmentC, alignmentD = key.alignmentD;
	const auto setPreference = lt.cublasLtMatmulPreferenceSetAttribute;
	const bool isReady =
	    step("cublasLtMatmulDescCreate", makeDescription(lt, op, key, extras, engine->description)) &&
	    step("cublasLtMatrixLayoutCreate", makeLayout(lt, engine->layoutA, type, a, op.batch, areArrays)) &&
	    step("cublasLtMatrixLayoutCreate", makeLayout(lt, engine->layoutB, type, b, op.batch, areArrays)) &&
	    step("cublasLtMatrixLayoutCreate", makeLayout(lt, engine->layoutC, typeOfResult, c, op.batch, areArrays)) &&
	    step("cublasLtMatrixLayoutCreate", makeLayout(lt, engine->layoutD, typeOfResult, d, op.batch, areArrays)) &&
	    step("cublasLtMatmulPreferenceCreate", lt.cublasLtMatmulPreferenceCreate(&preference)) &&
	    step("cublasLtMatmulPreferenceSetAttribute",
	         set(setPreference, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace) |
	             set(setPreference, preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions) |
	             set(setPreference, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentA) |
	             set(setPreference, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentB) |
	             set(setPreference, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentC) |
	             set(setPreference, preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentD)) &&
	    step("cublasLtMatmulAlgoGetHeuristic",
	         lt.cublasLtMatmulAlgoGetHeuristic(lightHandle, engine->description, engine->layoutA, engine->layoutB,
	                                           engine->layoutC, engine->layoutD, preference, 4, results, &found));
	if (preference)
		destroyed("cublasLtMatmulPreferenceDestroy", lt.cublasLtMatmulPreferenceDestroy(preference));
	int chosen = 0;
	while (chosen < found && results[chosen].state != CUBLAS_STATUS_SUCCESS)
		chosen++;
	if (isReady && chosen < found) {
		std::memcpy(engine->algo, &results[chosen].algo, sizeof engine->algo);
		engine->workspaceSize = results[chosen].workspaceSize;
		if (op::epilogueEffects(op) & ~unsigned{op::sumsOperand})
			destroyDescription(lt, engine->description);
		base::log(base::LogLevel::debug, "engine for %ldx%ldx%ld b%d in %s: result %d of %d, workspace %zu bytes",
		          static_cast<long>(op.m), static_cast<long>(op.n), static_cast<long>(op.k), op.batch,
		          op::name(key.precision), chosen + 1, found, static_cast<size_t>(engine->workspaceSize));
		answer.engine = engine;
		return answer;
	}
	if (isReady)
		answer.status = CUBLAS_STATUS_NOT_SUPPORTED; // the heuristic proposed nothing
	destroyEngine(lt, engine);
	return answer;
}

EngineAnswer findEngine(Engines &engines, const op::CublasLt &lt, void *lightHandle, const op::Op &op,
                        const EngineKey &key, const op::LtExtras &extras)
{
	for (Engine *engine = engines.first.load(std::memory_order_acquire); engine; engine = engine->next)
		if (engine->key == key)
			return engine->refusedBy ? EngineAnswer{nullptr, CUBLAS_STATUS_NOT_SUPPORTED, engine->refusedBy}
			                         : EngineAnswer{engine};
	const EngineAnswer answer = makeEngine(lt, lightHandle, op, key, extras);
	Engine *known = answer.engine;
	if (!known) {
		if (answer.status != CUBLAS_STATUS_NOT_SUPPORTED)
			return answer;
		// A query costs about 50 us, so refusals are stored. Beyond this number, each call queries the vendor.
		constexpr unsigned mostRefusals = 64;
		if (engines.refusals.load(std::memory_order_relaxed) >= mostRefusals)
			return answer;
		engines.refusals.fetch_add(1, std::memory_order_relaxed);
		known = new Engine{};
		known->key = key;
		known->refusedBy = answer.what;
	}
	// Two threads may each make one. Both are valid; the first in the list is found.
	known->next = engines.first.load(std::memory_order_relaxed);
	while (!engines.first.compare_exchange_weak(known->next, known, std::memory_order_release))
		;
	return answer;
}

void destroyEngine(const op::CublasLt &lt, Engine *engine)
{
	destroyDescription(lt, engine->description);
	for (void *layout : {engine->layoutA, engine->layoutB, engine->layoutC, engine->layoutD})
		if (layout)
			destroyed("cublasLtMatrixLayoutDestroy", lt.cublasLtMatrixLayoutDestroy(layout));
	delete engine;
}

} // namespace autoamp::lower
