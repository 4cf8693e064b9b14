#include "src/reroute/gemm.h"

#include "src/reroute/call.h"
#include "src/reroute/engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace autoamp::reroute {

namespace {

using policy::Reason;

uint16_t alignmentOf(const void *pointer)
{
	const auto address = reinterpret_cast<uintptr_t>(pointer);
	return static_cast<uint16_t>(address ? std::min(1ull << std::countr_zero(address), 128ull) : 128u);
}

// ---- engines

struct FoundEngine {
	const Engine *engine = nullptr;
	Outcome why;
};

FoundEngine findEngine(const op::Op &op, const policy::Decision &decision, Plan &plan, const Product &product,
                       const op::CublasLt &lt, bool hasWorkspace)
{
	const bool isCast = decision.strategy == policy::Strategy::cast; // then A and B are in scratch memory
	const bool areArrays = op.flags & op::flagArrays && !isCast;
	const uint16_t element = op.flags & op::flagHalfSums ? 2 : 4;
	const auto of = [=](const void *pointer) { return areArrays ? element : alignmentOf(pointer); };
	const EngineKey key = {decision.strategy,
	                       decision.precision,
	                       isCast ? uint16_t{alignment} : of(product.A),
	                       isCast ? uint16_t{alignment} : of(product.B),
	                       of(op.flags & op::flagNoC ? product.D : product.C),
	                       of(product.D),
	                       alignmentOf(reinterpret_cast<void *>(product.extras.bias)),
	                       product.extras.smCountTarget,
	                       alignmentOf(reinterpret_cast<void *>(product.extras.aux)),
	                       hasWorkspace,
	                       product.extras.auxLd,
	                       product.extras.biasBatchStride,
	                       product.extras.auxBatchStride};
	const EngineAnswer answer = findEngine(plan.engines, lt, product.lightHandle, op, key, product.extras);
	if (answer.engine)
		return {answer.engine, {}};
	constexpr int notSupported = 15; // CUBLAS_STATUS_NOT_SUPPORTED
	const Reason refused = op.flags & op::flagHalfSums ? Reason::unsupported : Reason::no_fp32_output;
	return {nullptr,
	        decline(answer.status == notSupported ? refused : Reason::engine_failed, answer.what, answer.status)};
}

// ---- parameters of the conversion kernels

kernels::Operand operand(const StoredOperand &stored, const void *source, int64_t sourceLd, int64_t sourceStride,
                         cuda::Address target, bool isArray)
{
	return {static_cast<const float *>(source),
	        reinterpret_cast<uint16_t *>(target),
	        stored.rows,
	        stored.columns,
	        sourceLd,
	        stored.ld,
	        sourceStride,
	        stored.stride,
	        stored.batch,
	        isArray};
}

// The same product in column-major form: a row-major matrix is stored like its transpose, and D^T = op(B)^T op(A)^T.
op::Op byColumns(op::Op op, Product &product)
{
	const auto flip = [](op::Transpose &transpose) {
		transpose = transpose == op::Transpose::none ? op::Transpose::transposed : op::Transpose::none;
	};
	if (op.flags & op::flagRowA)
		flip(op.transa);
	if (op.flags & op::flagRowB)
		flip(op.transb);
	if (op.flags & op::flagRowD) {
		flip(op.transa), flip(op.transb);
		std::swap(op.transa, op.transb);
		std::swap(op.m, op.n);
		std::swap(op.lda, op.ldb);
		std::swap(op.stridea, op.strideb);
		std::swap(product.A, product.B);
	}
	return op;
}

// The product that runs for a batch by pointers. It writes one block of scratch memory, with beta 0, because the host
// does not know the alignment of the matrices of C, which a fast kernel needs.
op::Op gathered(op::Op op)
{
	constexpr int64_t floatsPer16Bytes = 4;
	op.ldd = (op.m + floatsPer16Bytes - 1) / floatsPer16Bytes * floatsPer16Bytes;
	op.strided = op.ldd * op.n;
	op.stridea = op.lda, op.strideb = op.ldb; // not 0, so that each matrix gets its own copy
	op.flags |= op::flagNoC | op::flagBetaZero;
	return op;
}

// True if k counts the rows of this operand as stored.
bool isAlongRows(const op::Op &op, int operand)
{
	return operand == 0 ? op.transa != op::Transpose::none : op.transb == op::Transpose::none;
}

// Bytes of the sums for the loss check: kernels::sumCount() of the operands as stored.
size_t sumBytes(const op::Op &op, const StoredOperand &a, const StoredOperand &b)
{
	kernels::Parameters shape = {};
	const StoredOperand *const stored[] = {&a, &b};
	for (int i = 0; i < kernels::operands; i++)
		shape.operand[i].rows = stored[i]->rows, shape.operand[i].columns = stored[i]->columns,
		shape.operand[i].batch = stored[i]->batch, shape.isAlongRows[i] = isAlongRows(op, i);
	return static_cast<size_t>(kernels::sumCount(shape)) * sizeof(kernels::ProbeSums);
}

// True if the scalars are float16 in device memory. A kernel then widens them into scratch memory, because the raised
// product takes them as floats.
bool needsWidening(const op::Op &op)
{
	return op.flags & op::flagHalfSums && op.flags & op::flagDeviceScalars;
}

// Device memory of one call, from `base` on. A cast has scratch, A and B in 16 bits, and sums for the loss check. Every
// float16 call has the sums, so that all calls of a site need the same memory. After these: the product of a batch by
// pointers, and the workspace of the engine.
struct Places {
	cuda::Address scratch, a, b, sums, product, workspace, end;
};

Places place(const op::Op &op, const Engine &engine, cuda::Address base)
{
	Places places = {base, base, base, base, base, base, base};
	if (engine.key.isCast()) {
		const StoredOperand a = storedA(op, true), b = storedB(op, true);
		places.a = base + aligned(sizeof(kernels::Scratch));
		places.b = places.a + aligned(a.bytes());
		places.sums = places.b + aligned(b.bytes());
		const bool isHalf = engine.key.precision == op::Dtype::float16;
		places.product = places.workspace = places.sums + (isHalf ? aligned(sumBytes(op, a, b)) : 0);
	}
	if (needsWidening(op))
		places.product = places.workspace = base + aligned(sizeof(kernels::Scratch));
	if (op.flags & op::flagArrays && engine.key.isCast())
		places.workspace += aligned(static_cast<size_t>(op.strided * op.batch) * sizeof(float));
	places.end = places.workspace + aligned(engine.workspaceSize);
	return places;
}

// Inputs of the product.
struct Operands {
	const void *A, *B, *alpha, *beta;
};

// Converts A and B to 16 bits in their places, and points `operands` to them and to their scalars. Returns null, or the
// step that failed.
const char *convert(const op::Op &op, Plan &plan, const Settings &settings, const Product &product, bool isHalf,
                    const cuda::Driver &driver, Context &context, const Places &places, bool isCapturing,
                    Operands &operands)
{
	const Kernels *const kernels = conversionKernels(driver);
	if (!kernels)
		return "loading the kernels";
	const auto stream = static_cast<cuda::Stream>(product.stream);
	kernels::Parameters parameters = {};
	const bool areArrays = op.flags & op::flagArrays;
	parameters.operand[0] = operand(storedA(op, true), product.A, op.lda, op.stridea, places.a, areArrays);
	parameters.operand[1] = operand(storedB(op, true), product.B, op.ldb, op.strideb, places.b, areArrays);
	parameters.scratch = reinterpret_cast<kernels::Scratch *>(places.scratch);
	const unsigned blocks = kernels::gridSize(parameters, static_cast<unsigned>(context.facts->smCount));
	operands.A = parameters.operand[0].target;
	operands.B = parameters.operand[1].target;
	static constexpr float zero = 0;
	if (!isHalf) {
		prepareEvents(parameters, plan, settings, context);
		if (areArrays) // the scatter adds beta * C
			operands.beta = op.flags & op::flagDeviceScalars ? &parameters.scratch->beta : &zero;
		const bool needsZero = areArrays && (op.flags & op::flagDeviceScalars);
		return (!needsZero || launch(driver, kernels->begin, 1, stream, parameters)) &&
		               launch(driver, kernels->castBfloat16, blocks, stream, parameters)
		           ? nullptr
		           : "cuLaunchKernel";
	}

	prepareScaling(parameters, plan, settings, context, product.A, product.B, isCapturing);
	if (settings.isScaling)
		parameters.sums = reinterpret_cast<kernels::ProbeSums *>(places.sums);
	for (int i = 0; i < kernels::operands; i++)
		parameters.isAlongRows[i] = isAlongRows(op, i);
	if (op.flags & op::flagDeviceScalars) {
		parameters.alpha = static_cast<const float *>(product.alpha);
		parameters.beta = areArrays ? nullptr : static_cast<const float *>(product.beta);
	} else {
		parameters.alphaValue = *static_cast<const float *>(product.alpha);
		parameters.betaValue = product.beta && !areArrays ? *static_cast<const float *>(product.beta) : 0;
	}
	operands.alpha = &parameters.scratch->alpha;
	operands.beta = &parameters.scratch->beta;
	const bool isLaunched = launch(driver, kernels->begin, 1, stream, parameters) &&
	                        launch(driver, kernels->castHalf, blocks, stream, parameters) &&
	                        launch(driver, kernels->settle, blocks, stream, parameters);
	return isLaunched ? nullptr : "cuLaunchKernel";
}

const char *widen(const Product &product, const cuda::Driver &driver, cuda::Address scratch, Operands &operands)
{
	const Kernels *const kernels = conversionKernels(driver);
	if (!kernels)
		return "loading the kernels";
	auto *const widened = reinterpret_cast<float *>(scratch);
	kernels::Scalars parameters = {static_cast<const uint16_t *>(product.alpha),
	                               static_cast<const uint16_t *>(product.beta), widened};
	operands.alpha = widened;
	operands.beta = widened + 1;
	return launch(driver, kernels->widen, 1, static_cast<cuda::Stream>(product.stream), parameters) ? nullptr
	                                                                                                : "cuLaunchKernel";
}

// Copies the results of a batch from scratch memory to the matrices that the pointers of D select. It is the last step:
// before it, only scratch memory is written.
const char *scatter(const op::Op &op, const Product &product, const cuda::Driver &driver, const Context &context,
                    cuda::Address results)
{
	const op::Op there = gathered(op);
	kernels::Scatter parameters = {reinterpret_cast<const float *>(results),
	                               op.flags & op::flagBetaZero ? nullptr : static_cast<const float *const *>(product.C),
	                               static_cast<float *const *>(product.D),
	                               op.m,
	                               op.n,
	                               there.ldd,
	                               op.ldc,
	                               op.ldd,
	                               there.strided,
	                               op.batch,
	                               nullptr,
	                               0};
	if (op.flags & op::flagDeviceScalars)
		parameters.beta = static_cast<const float *>(product.beta);
	else
		parameters.betaValue = *static_cast<const float *>(product.beta);
	const unsigned blocks = kernels::gridSize(parameters, static_cast<unsigned>(context.facts->smCount));
	const bool isLaunched = launch(driver, conversionKernels(driver)->scatter, blocks,
	                               static_cast<cuda::Stream>(product.stream), parameters);
	return isLaunched ? nullptr : "cuLaunchKernel";
}

// Computes the operand sum of an epilogue (BGRADA, BGRADB) from the application's operand, not from the rounded one.
// Runs before the product: if one of them fails, the application's own call writes the sum again.
const char *sumOperand(const op::Op &op, const Product &product, const cuda::Driver &driver, const Context &context)
{
	const bool isA = op.epilogue == static_cast<uint8_t>(op::Epilogue::bgrada);
	kernels::Sum parameters = {static_cast<const float *>(isA ? product.A : product.B),
	                           reinterpret_cast<float *>(product.extras.bias),
	                           isA ? op.m : op.n,
	                           op.k,
	                           isA ? op.lda : op.ldb,
	                           isA ? op.stridea : op.strideb,
	                           product.extras.biasBatchStride,
	                           op.batch,
	                           ((isA ? op.transa : op.transb) != op::Transpose::none) == isA};
	const unsigned blocks = kernels::gridSize(parameters, static_cast<unsigned>(context.facts->smCount));
	const bool isLaunched =
	    launch(driver, conversionKernels(driver)->sum, blocks, static_cast<cuda::Stream>(product.stream), parameters);
	return isLaunched ? nullptr : "cuLaunchKernel";
}

// Enqueues the product. If this fails, nothing was enqueued.
Outcome multiply(const op::Op &op, const Product &product, const Engine &engine, const op::CublasLt &lt,
                 const Operands &operands, cuda::Address workspace)
{
	void *description = engine.description;
	if (!description)
		if (const op::Status status = makeDescription(lt, op, engine.key, product.extras, description))
			return decline(Reason::engine_failed, "cublasLtMatmulDescCreate", status);
	static constexpr float zero = 0;
	const void *const beta = operands.beta ? operands.beta : &zero; // if C is null, the vendor accepts a null beta as 0
	const void *const c = op.flags & op::flagNoC ? product.D : product.C;
	const op::Status status =
	    lt.cublasLtMatmul(product.lightHandle, description, operands.alpha, operands.A, engine.layoutA, operands.B,
	                      engine.layoutB, beta, c, engine.layoutC, product.D, engine.layoutD, engine.algo,
	                      reinterpret_cast<void *>(workspace), engine.workspaceSize, product.stream);
	if (!engine.description && lt.cublasLtMatmulDescDestroy(description))
		base::leaveFault("cublasLtMatmulDescDestroy");
	if (status)
		return decline(Reason::engine_failed, "cublasLtMatmul", status);
	Outcome done;
	done.isDone = true;
	return done;
}

Outcome runIn(bool isCaptured, const op::Op &asked, const policy::Decision &decision, Plan &plan,
              const Settings &settings, const Product &call, const op::CublasLt &lt, const cuda::Driver &driver,
              bool hasWorkspace)
{
	const bool isCast = decision.strategy == policy::Strategy::cast;
	Product product = call;
	const op::Op there = byColumns(asked, product);
	const bool areArrays = asked.flags & op::flagArrays && isCast;
	const op::Op op = areArrays ? gathered(there) : there;
	if (areArrays)
		product.C = product.D = nullptr;
	const FoundEngine found = findEngine(op, decision, plan, product, lt, hasWorkspace);
	if (!found.engine)
		return found.why;
	Operands operands = {product.A, product.B, product.alpha, product.beta};
	float scalars[2] = {};
	if (op.flags & op::flagHalfSums && !needsWidening(op)) {
		const void **const given[] = {&operands.alpha, &operands.beta};
		for (int i = 0; i < 2; i++)
			if (*given[i]) {
				scalars[i] = kernels::floatOfHalf(*static_cast<const uint16_t *>(*given[i]));
				*given[i] = &scalars[i];
			}
	}
	const size_t bytes = place(op, *found.engine, 0).end;
	if (bytes == 0) // no scratch memory, hence nothing that a capture could lack
		return multiply(op, product, *found.engine, lt, operands, 0);

	const bool isHalf = decision.precision == op::Dtype::float16, hasKernels = isCast || needsWidening(op);
	const auto stream = static_cast<cuda::Stream>(product.stream);
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, hasKernels);
	if (!answer.context)
		return decline(answer.reason, answer.what);
	Context &context = *answer.context;
	CallMemory memory(driver, context, stream, isCaptured, bytes);
	if (memory.block().failure != cuda::Failure::none)
		return decline(reasonOf(memory.block().failure), "allocating device memory");
	const Places places = place(op, *found.engine, memory.block().address);
	const char *failed = nullptr;
	if (isCast)
		failed = convert(op, plan, settings, product, isHalf, driver, context, places, isCaptured, operands);
	else if (hasKernels)
		failed = widen(product, driver, places.scratch, operands);
	if (!failed && (op::epilogueEffects(op) & op::sumsOperand))
		failed = sumOperand(op, product, driver, context);
	if (areArrays)
		product.D = reinterpret_cast<void *>(places.product);
	Outcome outcome = failed ? decline(Reason::engine_failed, failed)
	                         : multiply(op, product, *found.engine, lt, operands, places.workspace);
	if (areArrays && outcome.isDone && (failed = scatter(there, call, driver, context, places.product)))
		outcome = decline(Reason::engine_failed, failed);
	memory.release(outcome);
	if (!isCaptured && outcome.isDone && hasKernels)
		context.isWarm.store(true, std::memory_order_release);
	return outcome;
}

// Event text for a call that ran without its workspace.
const char *withoutWorkspace(policy::Strategy strategy)
{
	return strategy == policy::Strategy::tf32      ? "no workspace; tf32 ran without it"
	       : strategy == policy::Strategy::library ? "no workspace; library ran without it"
	                                               : "no workspace; fp32 ran without it";
}

} // namespace

const char *refusalOf(Plan &plan, const op::CublasLt &lt, const op::Op &op, const op::LtMatmulCall &call)
{
	uint64_t hash = base::mix(1, call.workspaceSizeInBytes ^ (reinterpret_cast<uintptr_t>(call.workspace) & 255) << 56);
	if (call.algo) {
		uint64_t words[sizeof(Engine::algo) / 8];
		std::memcpy(words, call.algo, sizeof words);
		for (uint64_t word : words)
			hash = base::mix(hash, word);
		for (const void *pointer : {call.A, call.B, call.C, static_cast<const void *>(call.D)})
			hash = base::mix(hash, alignmentOf(pointer));
	}
	if (plan.accepted.load(std::memory_order_relaxed) == hash)
		return nullptr;
	const char *const refusal = refusalOf(lt, call.lightHandle, call, op.flags & op::flagArrays);
	if (!refusal)
		plan.accepted.store(hash, std::memory_order_relaxed);
	return refusal;
}

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const Product &product)
{
	const cuda::Driver *const driver = cuda::driver();
	const op::CublasLt *const lt = op::cublasLt(product.known);
	if (!driver || !lt)
		return decline(Reason::unsupported);
	const auto stream = static_cast<cuda::Stream>(product.stream);
	const cuda::RelaxedCapture relaxed(*driver);
	if (!relaxed.isOk())
		return decline(Reason::engine_failed, "cuThreadExchangeStreamCaptureMode");
	const Capture capture = captureOf(*driver, stream);
	if (capture == Capture::forbidden)
		return decline(Reason::capture_unready, "cuStreamIsCapturing");
	const auto runIn = [&](bool hasWorkspace) {
		return reroute::runIn(capture == Capture::yes, op, decision, plan, settings, product, *lt, *driver,
		                      hasWorkspace);
	};
	Outcome outcome = runIn(!decision.needsNoMemory);
	// Operands that are read in place need only a workspace, and other algorithms do not need one.
	const bool needsOnlyWorkspace = decision.strategy != policy::Strategy::cast && !needsWidening(op);
	if (!outcome.isDone && needsOnlyWorkspace && policy::isShortage(outcome.reason))
		if (Outcome second = runIn(false); second.isDone) {
			second.reason = outcome.reason, second.failed = withoutWorkspace(decision.strategy);
			outcome = second;
		}
	outcome.isCaptured = capture == Capture::yes;
	return outcome;
}

} // namespace autoamp::reroute
