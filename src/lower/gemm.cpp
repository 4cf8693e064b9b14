#include "src/lower/gemm.h"

#include "src/base/faults.h"
#include "src/base/hash.h"
#include "src/lower/audit.h"
#include "src/lower/engine.h"
#include "src/lower/kept_operands.h"
#include "src/lower/lowered_call.h"
#include "src/lower/self_test.h"
#include "src/lower/self_test_product.h"
#include "src/op/gemm.h"
#include "src/op/lt_matmul.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace autoamp::lower {

namespace {

using policy::Reason;

// One product, in the form that all entry points have in common.
struct Product {
	void *lightHandle = nullptr; // a cublasLtHandle_t, or a cublasHandle_t, which cuBLASLt accepts too
	const void *alpha = nullptr, *A = nullptr, *B = nullptr, *beta = nullptr, *C = nullptr;
	void *D = nullptr;
	op::LtExtras extras;
	const op::LtMatmulCall *call = nullptr; // the application's, if it called cublasLtMatmul
};

uint16_t alignmentOf(const void *pointer)
{
	const auto address = reinterpret_cast<uintptr_t>(pointer);
	return static_cast<uint16_t>(address ? std::min(1ull << std::countr_zero(address), 128ull) : 128u);
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

// The parameters that determine the size of a float16 call's records and sums.
kernels::Parameters shapeOf(const op::Op &op, const StoredOperand &a, const StoredOperand &b)
{
	kernels::Parameters shape = {};
	const StoredOperand *const stored[] = {&a, &b};
	for (int i = 0; i < kernels::operands; i++)
		shape.operand[i].rows = stored[i]->rows, shape.operand[i].columns = stored[i]->columns,
		shape.operand[i].batch = stored[i]->batch, shape.isAlongRows[i] = isAlongRows(op, i);
	return shape;
}

// True if the scalars are float16 in device memory. A kernel then widens them into scratch memory, because the raised
// product takes them as floats.
bool needsWidening(const op::Op &op)
{
	return op.flags & op::flagHalfSums && op.flags & op::flagDeviceScalars;
}

// Event text for a call that ran without its workspace.
const char *withoutWorkspace(policy::Strategy strategy)
{
	return strategy == policy::Strategy::tf32      ? "no workspace; tf32 ran without it"
	       : strategy == policy::Strategy::library ? "no workspace; library ran without it"
	                                               : "no workspace; fp32 ran without it";
}

constexpr float zero = 0;

// True if the operands are single matrices, which can be kept.
bool isOneProduct(const op::Op &op)
{
	return op.batch == 1 && !(op.flags & op::flagArrays);
}

// True if D is a linear function of the product, for which the audit needs no second product.
bool isLinear(const op::Op &op)
{
	const auto epilogue = static_cast<op::Epilogue>(op.epilogue);
	using enum op::Epilogue;
	return epilogue == none || epilogue == bias || epilogue == bgrada || epilogue == bgradb;
}

// Describes a product for an audit; null, or the reason why it cannot be audited. `op` is in column-major form and has
// A and B of `product`, C and D are those of `given`.
const char *describeProduct(const op::Op &op, const Product &given, const Product &product, kernels::AuditCall &audit)
{
	if (op.a != op::Dtype::float32 || op.b != op::Dtype::float32 || op.out != op::Dtype::float32)
		return "operands that are not fp32";
	const bool isArray = op.flags & op::flagArrays, hasC = !(op.flags & (op::flagNoC | op::flagBetaZero));
	const bool isTransposedA = op.transa != op::Transpose::none, isTransposedB = op.transb != op::Transpose::none;
	audit.row = auditedAxis(op.m), audit.column = auditedAxis(op.n), audit.depth = auditedAxis(op.k);
	audit.batch = op.batch;
	audit.a = auditedMatrix(product.A, isTransposedA ? op.lda : 1, isTransposedA ? 1 : op.lda, op.stridea, isArray);
	audit.b = auditedMatrix(product.B, isTransposedB ? op.ldb : 1, isTransposedB ? 1 : op.ldb, op.strideb, isArray);
	audit.d = auditedMatrix(given.D, 1, op.ldd, op.strided, isArray);
	if (hasC)
		audit.c = auditedMatrix(given.C, 1, op.ldc, op.stridec, isArray);
	if (op.flags & op::flagDeviceScalars) {
		audit.alpha = static_cast<const float *>(given.alpha);
		audit.beta = hasC ? static_cast<const float *>(given.beta) : nullptr;
	} else {
		audit.alphaValue = *static_cast<const float *>(given.alpha);
		audit.betaValue = hasC ? *static_cast<const float *>(given.beta) : 0;
	}
	if (op::epilogueEffects(op) & op::addsBias && isLinear(op)) {
		audit.bias = reinterpret_cast<const float *>(product.extras.bias);
		audit.biasOf = kernels::BiasOf::rows;
		audit.biasMatrixStride = product.extras.biasBatchStride;
	}
	return nullptr;
}

class ProductFamily final : public Family
{
public:
	ProductFamily(const LoweredCall &call, const Product &product, const op::CublasLt &lt)
	    : Family({.kernels = call.isCast() || needsWidening(call.op) || call.rounding() != kernels::Rounding::none,
	              .context = (call.settings.isStrict && call.isCast() && call.isHalf() && !call.isTest) ||
	                         (mayKeep(call) && isOneProduct(call.op)),
	              .unboundedMemory = call.isTest && call.isCast()}),
	      lt_(lt), given_(product), product_(product), byColumns_(byColumns(call.op, product_)),
	      isGathered_(call.op.flags & op::flagArrays && call.isCast()), isStrict_(call.settings.isStrict),
	      op_(isGathered_ ? gathered(byColumns_) : byColumns_), hasWorkspace_(!call.decision.needsNoMemory)
	{
		if (isGathered_)
			product_.C = product_.D = nullptr;
	}

	Outcome prepare(LoweredCall &call) override
	{
		if (needs.context && isStrict_ && call.context->slots.isUncured(call.cache.site))
			return decline(Reason::uncured);
		const EngineAnswer answer =
		    findEngine(call.cache.engines, lt_, product_.lightHandle, op_, keyOf(call), product_.extras);
		engine_ = answer.engine;
		constexpr int notSupported = 15; // CUBLAS_STATUS_NOT_SUPPORTED
		const Reason refused = op_.flags & op::flagHalfSums ? Reason::unsupported : Reason::no_fp32_output;
		if (!engine_)
			return decline(answer.status == notSupported ? refused : Reason::engine_failed, answer.what, answer.status);
		operands_ = {product_.A, product_.B, product_.alpha, product_.beta};
		if (op_.flags & op::flagHalfSums && !needsWidening(op_)) {
			const void **const given[] = {&operands_.alpha, &operands_.beta};
			for (int i = 0; i < 2; i++)
				if (*given[i]) {
					scalars_[i] = kernels::floatOfHalf(*static_cast<const uint16_t *>(*given[i]));
					*given[i] = &scalars_[i];
				}
		}
		kept_.setCaptured(call.isCaptured);
		if (mayKeep(call) && isOneProduct(op_) && doOverlap()) {
			// With one of them kept and the other one converted, a product could mix two contents.
			for (WeightUse &weight : call.weights)
				weight.reason = call.decision.weights != policy::Weights::off ? "same_operand" : nullptr;
		} else if (mayKeep(call) && isOneProduct(op_)) {
			chooseKept(call, 0, storedA(op_, true), product_.A, op_.lda);
			chooseKept(call, 1, storedB(op_, true), product_.B, op_.ldb);
		}
		place(0);
		return completed();
	}
	size_t bytes() const override { return places_.end; }

	bool dropObservation() override
	{
		const bool isDropped = kept_.dropObservation();
		if (isDropped)
			place(0);
		return isDropped;
	}

	const char *convert(LoweredCall &call, cuda::Address base) override
	{
		place(base);
		if (const char *const failed = call.isCast() ? cast(call) : needsWidening(op_) ? widen(call) : nullptr)
			return failed;
		if (isGathered_)
			product_.D = reinterpret_cast<void *>(places_.product);
		return op::epilogueEffects(op_) & op::sumsOperand ? sumOperand(call) : nullptr;
	}

	Outcome enqueue(LoweredCall &call) override
	{
		const Outcome outcome = multiply(call);
		if (!isGathered_)
			return call.roundInPlace(outcome, static_cast<float *>(product_.D),
			                         {op_.m, 1, 2, {op_.n, op_.batch, 1, 1}, {op_.ldd, op_.strided, 0, 0}});
		if (!outcome.isDone)
			return outcome;
		const char *const failed = scatter(call);
		return failed ? decline(Reason::engine_failed, failed) : outcome;
	}

	const char *describeAudit(const LoweredCall &, kernels::AuditCall &audit) const override
	{
		return describeProduct(byColumns_, given_, product_, audit);
	}
	size_t referenceBytes(const LoweredCall &) const override
	{
		return isLinear(op_) ? 0
		                     : static_cast<size_t>((op_.batch - 1) * op_.strided + (op_.n - 1) * op_.ldd + op_.m) * 4;
	}
	op::Status recompute(const LoweredCall &call, void *reference) const override
	{
		const op::LtMatmulCall &given = *given_.call;
		return lt_.cublasLtMatmul(given.lightHandle, given.computeDesc, given.alpha, given.A, given.Adesc, given.B,
		                          given.Bdesc, given.beta, given.C, given.Cdesc, reference, given.Ddesc, given.algo,
		                          const_cast<void *>(given.workspace), given.workspaceSizeInBytes, call.stream);
	}

	// Operands that are read in place need only a workspace, and other algorithms do not need one.
	const char *dropWorkspace(const LoweredCall &call) override
	{
		if (needs.kernels)
			return nullptr;
		hasWorkspace_ = false;
		return withoutWorkspace(call.decision.strategy);
	}

private:
	EngineKey keyOf(const LoweredCall &call) const
	{
		const bool isCast = call.isCast(); // then A and B are in scratch memory
		const bool areArrays = op_.flags & op::flagArrays && !isCast;
		const uint16_t element = op_.flags & op::flagHalfSums ? 2 : 4;
		const auto of = [=](const void *pointer) { return areArrays ? element : alignmentOf(pointer); };
		return {call.decision.strategy,
		        call.decision.precision,
		        isCast ? uint16_t{alignment} : of(product_.A),
		        isCast ? uint16_t{alignment} : of(product_.B),
		        of(op_.flags & op::flagNoC ? product_.D : product_.C),
		        of(product_.D),
		        alignmentOf(reinterpret_cast<void *>(product_.extras.bias)),
		        product_.extras.smCountTarget,
		        alignmentOf(reinterpret_cast<void *>(product_.extras.aux)),
		        hasWorkspace_,
		        product_.extras.auxLd,
		        product_.extras.biasBatchStride,
		        product_.extras.auxBatchStride};
	}

	// True if A and B share memory.
	bool doOverlap() const
	{
		const StoredOperand a = storedA(op_, true), b = storedB(op_, true);
		const auto *const first = static_cast<const float *>(product_.A), *const second =
		                                                                      static_cast<const float *>(product_.B);
		return first < second + op_.ldb * b.columns && second < first + op_.lda * a.columns;
	}

	void chooseKept(LoweredCall &call, int index, const StoredOperand &stored, const void *source, int64_t sourceLd)
	{
		uint64_t layout = static_cast<uint64_t>(call.decision.precision);
		for (const int64_t size : {stored.rows, stored.columns, stored.ld, sourceLd})
			layout = base::mix(layout, static_cast<uint64_t>(size));
		kept_.choose(call, index, source, layout, stored.rows * stored.columns, stored.bytes());
	}

	// Lays out the device memory of the call from `base` on. A cast has scratch, A and B in 16 bits. A cast to float16
	// also has records of its blocks, and sums for the loss check or the strict check. Every such call has the sums, so
	// that all calls of a site need the same memory. A kept operand has its own memory. After these: the product of a
	// batch by pointers, and the workspace of the engine.
	void place(cuda::Address base)
	{
		places_ = {base, base, base, base, base, base, base, base, base};
		if (engine_->key.isCast()) {
			const StoredOperand a = storedA(op_, true), b = storedB(op_, true);
			const kernels::Parameters shape = shapeOf(op_, a, b);
			cuda::Address next = base + aligned(sizeof(kernels::Scratch));
			const auto placeOperand = [&](int index, const StoredOperand &stored) {
				const cuda::Address copy = kept_.copyOf(index);
				const size_t bytes = kept_.needsScratch(index) ? aligned(stored.bytes()) : 0;
				const cuda::Address scratch = std::exchange(next, next + bytes);
				return copy ? copy : scratch;
			};
			places_.a = placeOperand(0, a);
			places_.b = placeOperand(1, b);
			places_.keptRecords = next;
			if (kept_.needsRecords())
				next += aligned(kernels::recordCount(shape) * sizeof(kernels::KeptRecord));
			places_.records = places_.sums = next;
			if (engine_->key.precision == op::Dtype::float16) {
				places_.sums += aligned(kernels::recordCount(shape) * sizeof(kernels::CastRecord));
				places_.product =
				    aligned(isStrict_ ? static_cast<size_t>(kernels::strictLayout(shape).bytes)
				                      : static_cast<size_t>(kernels::sumCount(shape)) * sizeof(kernels::ProbeSums));
			} else {
				places_.product = 0;
			}
			places_.workspace = places_.product += places_.sums;
		} else if (needs.kernels) // scratch memory for the scalars; the kernels of a call without memory are not loaded
			places_.product = places_.workspace = base + aligned(sizeof(kernels::Scratch));
		if (isGathered_)
			places_.workspace += aligned(static_cast<size_t>(op_.strided * op_.batch) * sizeof(float));
		places_.end = places_.workspace + aligned(engine_->workspaceSize);
	}

	// The conversions below return null, or the step that failed.

	// Converts A and B to 16 bits in their places, and points the operands to them and to their scalars.
	const char *cast(const LoweredCall &call)
	{
		kernels::Parameters parameters = {};
		parameters.operand[0] = operand(storedA(op_, true), product_.A, op_.lda, op_.stridea, places_.a, isGathered_);
		parameters.operand[1] = operand(storedB(op_, true), product_.B, op_.ldb, op_.strideb, places_.b, isGathered_);
		parameters.scratch = reinterpret_cast<kernels::Scratch *>(places_.scratch);
		operands_.A = parameters.operand[0].target;
		operands_.B = parameters.operand[1].target;
		if (kept_.isUsed())
			kept_.prepare(parameters, call, places_.keptRecords);
		if (!(call.isHalf() ? castHalf(call, parameters) : castBfloat16(call, parameters)))
			return "cuLaunchKernel";
		kept_.setLaunched();
		return nullptr;
	}

	bool castBfloat16(const LoweredCall &call, kernels::Parameters &parameters)
	{
		const bool areScalarsOnDevice = op_.flags & op::flagDeviceScalars;
		call.prepareEvents(parameters);
		if (isGathered_) // the scatter adds beta * C; the cast writes a beta of 0 to the scratch
			operands_.beta = areScalarsOnDevice ? &parameters.scratch->beta : &zero;
		if (parameters.keptRecords)
			return call.castAndSettle(call.kernels->kept.castBfloat16, call.kernels->kept.settleBfloat16, 0,
			                          parameters);
		CUkern_st *const kernel = kept_.isUsed() ? call.kernels->kept.castBfloat16 : call.kernels->castBfloat16;
		return call.launch(kernel, call.blocks(parameters), parameters);
	}

	bool castHalf(const LoweredCall &call, kernels::Parameters &parameters)
	{
		call.prepareScaling(parameters, product_.A, product_.B);
		for (int i = 0; i < kernels::operands; i++)
			parameters.isAlongRows[i] = isAlongRows(op_, i);
		if (isStrict_) {
			parameters.strict = kernels::strictLayout(parameters);
			parameters.strict.memory = reinterpret_cast<uint8_t *>(places_.sums);
			if (needs.context)
				parameters.strict.isUncured = call.context->slots.uncuredOnDevice(call.cache.site);
		} else if (call.settings.isScaling) {
			parameters.sums = reinterpret_cast<kernels::ProbeSums *>(places_.sums);
		}
		if (op_.flags & op::flagDeviceScalars) {
			parameters.alpha = static_cast<const float *>(product_.alpha);
			parameters.beta = isGathered_ ? nullptr : static_cast<const float *>(product_.beta);
		} else {
			parameters.alphaValue = *static_cast<const float *>(product_.alpha);
			parameters.betaValue = product_.beta && !isGathered_ ? *static_cast<const float *>(product_.beta) : 0;
		}
		operands_.alpha = &parameters.scratch->alpha;
		operands_.beta = &parameters.scratch->beta;
		const bool isKept = kept_.isUsed();
		return call.castAndSettle(isKept ? call.kernels->kept.castHalf : call.kernels->castHalf,
		                          isKept ? call.kernels->kept.settleHalf : call.kernels->settle, places_.records,
		                          parameters) &&
		       (!isStrict_ || call.launch(call.kernels->mend, call.settleBlocks(parameters), parameters));
	}

	const char *widen(const LoweredCall &call)
	{
		auto *const widened = reinterpret_cast<float *>(places_.scratch);
		kernels::Scalars parameters = {static_cast<const uint16_t *>(product_.alpha),
		                               static_cast<const uint16_t *>(product_.beta), widened};
		operands_.alpha = widened;
		operands_.beta = widened + 1;
		return call.launch(call.kernels->widen, 1, parameters) ? nullptr : "cuLaunchKernel";
	}

	// Computes the operand sum of an epilogue (BGRADA, BGRADB) from the application's operand, not from the rounded
	// one. Runs before the product: if one of them fails, the application's own call writes the sum again.
	const char *sumOperand(const LoweredCall &call) const
	{
		const bool isA = op_.epilogue == static_cast<uint8_t>(op::Epilogue::bgrada);
		kernels::Sum parameters = {static_cast<const float *>(isA ? product_.A : product_.B),
		                           reinterpret_cast<float *>(product_.extras.bias),
		                           isA ? op_.m : op_.n,
		                           op_.k,
		                           isA ? op_.lda : op_.ldb,
		                           isA ? op_.stridea : op_.strideb,
		                           product_.extras.biasBatchStride,
		                           op_.batch,
		                           ((isA ? op_.transa : op_.transb) != op::Transpose::none) == isA};
		const bool isLaunched = call.launch(call.kernels->sum, call.blocks(parameters), parameters);
		return isLaunched ? nullptr : "cuLaunchKernel";
	}

	// Enqueues the product. If this fails, nothing was enqueued.
	Outcome multiply(const LoweredCall &call) const
	{
		void *description = engine_->description;
		if (!description)
			if (const op::Status status = makeDescription(lt_, op_, engine_->key, product_.extras, description))
				return decline(Reason::engine_failed, "cublasLtMatmulDescCreate", status);
		// If C is null, the vendor accepts a null beta as 0.
		const void *const beta = operands_.beta ? operands_.beta : &zero;
		const void *const c = op_.flags & op::flagNoC ? product_.D : product_.C;
		const op::Status status = lt_.cublasLtMatmul(
		    product_.lightHandle, description, operands_.alpha, operands_.A, engine_->layoutA, operands_.B,
		    engine_->layoutB, beta, c, engine_->layoutC, product_.D, engine_->layoutD, engine_->algo,
		    reinterpret_cast<void *>(places_.workspace), engine_->workspaceSize, call.stream);
		if (!engine_->description && lt_.cublasLtMatmulDescDestroy(description))
			base::leaveFault("cublasLtMatmulDescDestroy");
		return status ? decline(Reason::engine_failed, "cublasLtMatmul", status) : completed();
	}

	// Copies the results of a batch from scratch memory to the matrices that the pointers of D select. It is the last
	// step: before it, only scratch memory is written.
	const char *scatter(const LoweredCall &call) const
	{
		const op::Op &to = byColumns_;
		kernels::Scatter parameters = {reinterpret_cast<const float *>(places_.product),
		                               to.flags & op::flagBetaZero ? nullptr
		                                                           : static_cast<const float *const *>(given_.C),
		                               static_cast<float *const *>(given_.D),
		                               to.m,
		                               to.n,
		                               op_.ldd,
		                               to.ldc,
		                               to.ldd,
		                               op_.strided,
		                               to.batch,
		                               nullptr,
		                               0,
		                               call.rounding()};
		if (to.flags & op::flagDeviceScalars)
			parameters.beta = static_cast<const float *>(given_.beta);
		else
			parameters.betaValue = *static_cast<const float *>(given_.beta);
		const bool isLaunched = call.launch(call.kernels->scatter, call.blocks(parameters), parameters);
		return isLaunched ? nullptr : "cuLaunchKernel";
	}

	const op::CublasLt &lt_;
	const Product &given_; // the application's
	Product product_;      // the one that runs
	const op::Op byColumns_;
	const bool isGathered_; // a batch by pointers, computed in scratch memory
	const bool isStrict_;   // a cast to float16 is checked and mended
	const op::Op op_;       // of product_
	bool hasWorkspace_;
	const Engine *engine_ = nullptr;
	struct {
		const void *A, *B, *alpha, *beta;
	} operands_ = {}; // inputs of the vendor's product
	float scalars_[2] = {};
	struct {
		cuda::Address scratch, a, b, keptRecords, records, sums, product, workspace, end;
	} places_ = {};
	KeptOperands kept_;
};

// As lower::refusalOf() in engine.h. Repeated calls with the same algorithm, workspace and alignments query only
// once.
const char *refusalOf(LoweredCall &lowered, const op::CublasLt &lt, const op::LtMatmulCall &call)
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
	if (lowered.cache.accepted.load(std::memory_order_relaxed) == hash)
		return nullptr;
	const char *const refusal = lower::refusalOf(lt, call.lightHandle, call, lowered.op.flags & op::flagArrays);
	if (!refusal)
		lowered.cache.accepted.store(hash, std::memory_order_relaxed);
	return refusal;
}

Outcome multiplyForTest(LoweredCall &lowered, const op::CublasLt &lt, void *lightHandle,
                        const TestProducts::Operands &of)
{
	Product product;
	product.lightHandle = lightHandle;
	product.alpha = of.alpha, product.A = of.A, product.B = of.B, product.beta = of.beta;
	product.C = product.D = of.C;
	ProductFamily family(lowered, product, lt);
	return run(lowered, family);
}

Outcome runProduct(LoweredCall &lowered, const op::CublasLt *lt, const Product &product)
{
	if (!lt)
		return decline(Reason::unsupported);
	std::optional<Outcome> tested = knownTest(lowered, TestedLibrary::cublasLt);
	if (!tested)
		tested = test(lowered, TestedLibrary::cublasLt, static_cast<uint64_t>(lt->cublasLtGetVersion()),
		              std::make_unique<TestProducts>(lowered, *lt, product.lightHandle, multiplyForTest));
	if (!tested->isDone)
		return *tested;
	ProductFamily family(lowered, product, *lt);
	return run(lowered, family);
}

} // namespace

Outcome lower(LoweredCall &lowered, const op::GemmCall &call)
{
	if (!op::isAlgorithm(call.algo)) // only the vendor library knows the status for an invalid algorithm
		return decline(Reason::bad_argument);
	Product product;
	product.lightHandle = call.handle;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = product.D = call.C;
	if (op::cublas(lowered.original)->cublasGetSmCountTarget(call.handle, &product.extras.smCountTarget))
		return decline(Reason::engine_failed, "cublasGetSmCountTarget");
	return runProduct(lowered, op::cublasLt(lowered.original), product);
}

Outcome lower(LoweredCall &lowered, const op::LtMatmulCall &call)
{
	const op::CublasLt &lt = *op::cublasLt(lowered.original);
	Product product;
	product.lightHandle = call.lightHandle;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = call.C, product.D = call.D;
	product.call = &call;
	if (!op::readExtras(lt, call.computeDesc, lowered.op, product.extras))
		return decline(Reason::engine_failed, "cublasLtMatmulDescGetAttribute");
	if (const char *const refusal = refusalOf(lowered, lt, call)) // most likely the application's own choice
		return decline(Reason::bad_argument, refusal);
	return runProduct(lowered, &lt, product);
}

} // namespace autoamp::lower
