#include "src/lower/convolution.h"

#include "src/base/faults.h"
#include "src/lower/audit.h"
#include "src/lower/plan_family.h"
#include "src/lower/self_test.h"
#include "src/lower/self_test_convolution.h"
#include "src/op/shadow.h"

#include <cudnn.h>

#include <algorithm>

namespace autoamp::lower {

namespace {

using op::Direction;
using policy::Reason;

// ---- tensors

int64_t sizeOf(const op::Tensor &tensor)
{
	int64_t size = 1;
	for (int i = 0; i < tensor.rank; i++)
		size *= tensor.dims[i];
	return size;
}

// `each`: bytes per element in scratch memory.
Passage passage(const op::Tensor &tensor, const op::Tensor &shadow, bool isFlipped, size_t each)
{
	Passage made;
	made.layout = layoutOf(tensor, 1, isFlipped, made.first);
	made.ld = shadow.dims[1];
	made.zeroColumns = sizeOf(shadow) / made.ld - made.layout.columns();
	made.bytes = aligned(static_cast<size_t>(sizeOf(shadow)) * each);
	return made;
}

// The three tensors of a call, in the order of its parameters.
struct Ordered {
	void *firstDesc, *secondDesc, *resultDesc;
	void *first, *second, *result;
};

Ordered ordered(const op::ConvolutionCall &call)
{
	switch (call.direction) {
	case Direction::forward:
		return {call.xDesc, call.wDesc, call.yDesc, call.x, call.w, call.y};
	case Direction::backwardData:
		return {call.wDesc, call.yDesc, call.xDesc, call.w, call.y, call.x};
	default:
		return {call.xDesc, call.yDesc, call.wDesc, call.x, call.y, call.w};
	}
}

// `original` is the function that the application called.
op::Status callAgain(const void *original, const op::ConvolutionCall &call, void *description, void *workspace,
                     size_t bytes)
{
	const Ordered by = ordered(call);
	void *const function = const_cast<void *>(original);
	if (call.isFused)
		return reinterpret_cast<decltype(&cudnnConvolutionBiasActivationForward)>(function)(
		    static_cast<cudnnHandle_t>(call.handle), call.alpha, static_cast<cudnnTensorDescriptor_t>(call.xDesc),
		    call.x, static_cast<cudnnFilterDescriptor_t>(call.wDesc), call.w,
		    static_cast<cudnnConvolutionDescriptor_t>(description), static_cast<cudnnConvolutionFwdAlgo_t>(call.algo),
		    workspace, bytes, call.beta, static_cast<cudnnTensorDescriptor_t>(call.zDesc), call.z,
		    static_cast<cudnnTensorDescriptor_t>(call.biasDesc), call.bias,
		    static_cast<cudnnActivationDescriptor_t>(call.activationDesc),
		    static_cast<cudnnTensorDescriptor_t>(call.yDesc), call.y);
	// The other three functions differ only in names.
	using Function = op::Status(void *, const void *, void *, void *, void *, void *, void *, int, void *, size_t,
	                            const void *, void *, void *);
	return reinterpret_cast<Function *>(function)(call.handle, call.alpha, by.firstDesc, by.first, by.secondDesc,
	                                              by.second, description, call.algo, workspace, bytes, call.beta,
	                                              by.resultDesc, by.result);
}

// A copy of the application's convolution descriptor with another math type.
class Description
{
public:
	Description(const op::CudnnConvolutions &cudnn, const op::Convolution &convolution, cudnnMathType_t type)
	    : cudnn_(cudnn)
	{
		const int mode = convolution.isFlipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
		if (const op::Status refused = cudnn.cudnnCreateConvolutionDescriptor(&descriptor_)) {
			status = refused;
			descriptor_ = nullptr;
		} else if (!(status = cudnn.cudnnSetConvolutionNdDescriptor(descriptor_, convolution.spatial,
		                                                            convolution.padBefore, convolution.stride,
		                                                            convolution.dilation, mode, CUDNN_DATA_FLOAT)) &&
		           !(status = cudnn.cudnnSetConvolutionGroupCount(descriptor_, convolution.groups))) {
			status = cudnn.cudnnSetConvolutionMathType(descriptor_, type);
		}
	}
	~Description()
	{
		if (descriptor_ && cudnn_.cudnnDestroyConvolutionDescriptor(descriptor_))
			base::leaveFault("cudnnDestroyConvolutionDescriptor");
	}
	Description(const Description &) = delete;
	Description &operator=(const Description &) = delete;
	void *get() const { return descriptor_; }

	op::Status status = 0;

private:
	const op::CudnnConvolutions &cudnn_;
	void *descriptor_ = nullptr;
};

op::Status workspaceSizeOf(const op::CudnnConvolutions &cudnn, const op::ConvolutionCall &call, void *description,
                           size_t &bytes)
{
	const auto query = call.direction == Direction::forward ? cudnn.cudnnGetConvolutionForwardWorkspaceSize
	                   : call.direction == Direction::backwardData
	                       ? cudnn.cudnnGetConvolutionBackwardDataWorkspaceSize
	                       : cudnn.cudnnGetConvolutionBackwardFilterWorkspaceSize;
	const Ordered by = ordered(call);
	return query(call.handle, by.firstDesc, by.secondDesc, description, by.resultDesc, call.algo, &bytes);
}

// ---- audits

// Describes a call for an audit; null, or the reason why it cannot be audited.
const char *describe(const op::Convolution &convolution, const op::ConvolutionCall &call, kernels::AuditCall &audit)
{
	const bool isData = call.direction == Direction::backwardData,
	           isFilter = call.direction == Direction::backwardFilter;
	const auto *const result = static_cast<const float *>(isData ? call.x : isFilter ? call.w : call.y);
	const float beta = *static_cast<const float *>(call.beta);
	const auto *const added = convolution.hasSource ? static_cast<const float *>(call.z) : result;
	if (convolution.activation != op::Activation::none && !call.convDesc)
		return "an activation in a plan of the application";
	describeConvolution(convolution,
	                    {static_cast<const float *>(isData ? call.y : call.x),
	                     static_cast<const float *>(isFilter ? call.y : call.w), result, beta == 0 ? nullptr : added,
	                     static_cast<const float *>(convolution.hasBias ? call.bias : nullptr),
	                     *static_cast<const float *>(call.alpha), beta},
	                    audit);
	return nullptr;
}

// The bytes of the result if it is not linear; else 0.
size_t referenceBytesOf(const op::Convolution &convolution)
{
	if (convolution.activation == op::Activation::none)
		return 0;
	const op::Tensor &result = convolution.result();
	int64_t elements = 1;
	for (int i = 0; i < result.rank; i++)
		elements += (result.dims[i] - 1) * result.strides[i];
	return static_cast<size_t>(elements) * sizeof(float);
}

// Only a forward convolution has an activation. The default math of the application allows TF32, so the type is FMA.
op::Status recomputeTo(void *reference, const LoweredCall &lowered, op::ConvolutionCall call)
{
	const auto *const cudnn = op::cudnn<op::CudnnConvolutions>(lowered.original);
	if (!cudnn)
		return CUDNN_STATUS_NOT_INITIALIZED;
	const Description description(*cudnn, *op::convolutionAt(lowered.op.geometry), CUDNN_FMA_MATH);
	size_t bytes = 0;
	if (description.status)
		return description.status;
	if (const op::Status status = workspaceSizeOf(*cudnn, call, description.get(), bytes))
		return status;
	if (bytes > call.workSpaceSizeInBytes)
		return CUDNN_STATUS_NOT_SUPPORTED;
	call.y = reference;
	return callAgain(lowered.original, call, description.get(), call.workSpace, call.workSpaceSizeInBytes);
}

// Runs the plan on the casts of the operands, and copies the result to its place.
class CastConvolution final : public PlanFamily
{
public:
	CastConvolution(const LoweredCall &lowered, const op::ConvolutionCall &call, const op::CudnnGraph &cudnn)
	    : PlanFamily(cudnn, call.handle, true,
	                 {0, lowered.op.geometry, 0, lowered.decision.precision, lowered.decision.form}),
	      convolution_(*op::convolutionAt(lowered.op.geometry)), precision_(lowered.decision.precision),
	      form_(lowered.decision.form), call_(call),
	      bias_(static_cast<const float *>(convolution_.hasBias ? call.bias : nullptr)),
	      beta_(*static_cast<const float *>(call.beta))
	{
		float *const x = static_cast<float *>(call.x), *const w = static_cast<float *>(call.w),
		             *const y = static_cast<float *>(call.y);
		const bool isData = convolution_.direction == Direction::backwardData,
		           isFilter = convolution_.direction == Direction::backwardFilter;
		first_ = isData ? y : x;
		second_ = isFilter ? y : w;
		alpha_ = *static_cast<const float *>(call.alpha);
		result_ = isData ? x : isFilter ? w : y;
		added_ = beta_ == 0 ? nullptr : convolution_.hasSource ? static_cast<const float *>(call.z) : result_;
	}

	Outcome enqueue(LoweredCall &call) override
	{
		const int64_t uids[] = {op::uidFirst, op::uidSecond, op::uidResult, op::uidScale};
		void *const pointers[] = {places_.first, places_.second, isDirect() ? result_ : places_.result,
		                          places_.scratch};
		const size_t count = isNarrow() ? 3 : 4;
		const Outcome outcome = execute(std::span(uids, count), std::span(pointers, count));
		const Passage &to = plan_->result;
		if (isDirect())
			return call.roundInPlace(outcome, result_ + to.first, to.layout);
		if (!outcome.isDone)
			return outcome;
		kernels::Placement home = placement();
		home.rounding = call.rounding();
		const bool isLaunched = call.launch(call.kernels->place, call.blocks(home), home);
		return isLaunched ? outcome : decline(Reason::engine_failed, "cuLaunchKernel");
	}

	const char *describeAudit(const LoweredCall &, kernels::AuditCall &audit) const override
	{
		return describe(convolution_, call_, audit);
	}
	size_t referenceBytes(const LoweredCall &) const override { return referenceBytesOf(convolution_); }
	op::Status recompute(const LoweredCall &call, void *reference) const override
	{
		return recomputeTo(reference, call, call_);
	}

private:
	bool isNarrow() const { return form_ == op::Form::narrow; }
	int filter() const override { return convolution_.direction == Direction::backwardFilter ? -1 : 1; }
	op::Graph graph() const override { return op::graphOf(convolution_, form_, precision_); }
	void setPassages(DnnPlan &plan) const override
	{
		const op::Convolution shadow = op::padded(convolution_);
		const bool isFilterResult = convolution_.direction == Direction::backwardFilter;
		plan.operand[0] = passage(convolution_.first(), shadow.first(), false, 2);
		plan.operand[1] = passage(convolution_.second(), shadow.second(), convolution_.isFlipped && !isFilterResult, 2);
		plan.result = passage(convolution_.result(), shadow.result(), convolution_.isFlipped && isFilterResult,
		                      isNarrow() ? 2 : 4);
		plan.isInPlace = form_ == op::Form::wide && op::isWrittenInPlace(convolution_, true);
	}
	// The plan writes the result itself if it has the alignment that the plan requires.
	bool isDirect() const override
	{
		return plan_->isInPlace && beta_ == 0 && reinterpret_cast<uintptr_t>(result_) % 16 == 0;
	}
	kernels::Placement placement() const
	{
		const Passage &to = plan_->result;
		return {places_.result,
		        isNarrow(),
		        to.ld,
		        result_ + to.first,
		        to.layout,
		        added_ ? added_ + to.first : nullptr,
		        alpha_,
		        beta_,
		        bias_,
		        convolution_.activation == op::Activation::none ? kernels::Activation::none
		        : convolution_.propagatesNan                    ? kernels::Activation::reluOfNan
		                                                        : kernels::Activation::relu};
	}

	const op::Convolution &convolution_;
	const op::Dtype precision_;
	const op::Form form_;
	const op::ConvolutionCall &call_;
	const float *const bias_;
	const float beta_;
	const float *added_;
	float *result_;
};

// ---- the application's own call with another math type of its convolution

class ConvolutionAgain final : public Family
{
public:
	ConvolutionAgain(const LoweredCall &lowered, const op::ConvolutionCall &call, const op::CudnnConvolutions &cudnn)
	    : Family({.kernels = lowered.rounding() != kernels::Rounding::none}), call_(call), cudnn_(cudnn)
	{
	}

	Outcome prepare(LoweredCall &lowered) override
	{
		// FMA for a raised call, else conversion by the vendor. TF32 is not set here: a call permits it already, or
		// forbids it explicitly.
		const cudnnMathType_t type =
		    lowered.decision.precision == op::Dtype::float32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
		description_.emplace(cudnn_, *op::convolutionAt(lowered.op.geometry), type);
		if (description_->status)
			return decline(Reason::engine_failed, "cudnnSetConvolutionNdDescriptor", description_->status);
		if (const op::Status status = workspaceSizeOf(cudnn_, call_, description_->get(), workspaceSize_))
			return decline(isNotSupported(status) ? Reason::unsupported : Reason::engine_failed,
			               "cudnnGetConvolution...WorkspaceSize", status);
		return completed();
	}
	// The kernels of a call without memory are not loaded.
	size_t bytes() const override { return aligned(std::max(workspaceSize_, size_t{needs.kernels})); }
	const char *convert(LoweredCall &, cuda::Address base) override
	{
		workspace_ = reinterpret_cast<void *>(base);
		return nullptr;
	}
	Outcome enqueue(LoweredCall &lowered) override
	{
		const op::Status status = callAgain(lowered.original, call_, description_->get(), workspace_, workspaceSize_);
		if (status)
			return decline(Reason::engine_failed, "cudnnConvolution", status);
		int64_t first = 0;
		const op::Convolution &convolution = *op::convolutionAt(lowered.op.geometry);
		const kernels::TensorLayout layout = layoutOf(convolution.result(), 1, false, first);
		return lowered.roundInPlace(completed(), static_cast<float *>(ordered(call_).result) + first, layout);
	}

	const char *describeAudit(const LoweredCall &lowered, kernels::AuditCall &audit) const override
	{
		return describe(*op::convolutionAt(lowered.op.geometry), call_, audit);
	}
	size_t referenceBytes(const LoweredCall &lowered) const override
	{
		return referenceBytesOf(*op::convolutionAt(lowered.op.geometry));
	}
	op::Status recompute(const LoweredCall &lowered, void *reference) const override
	{
		return recomputeTo(reference, lowered, call_);
	}

private:
	const op::ConvolutionCall &call_;
	const op::CudnnConvolutions &cudnn_;
	std::optional<Description> description_;
	void *workspace_ = nullptr;
	size_t workspaceSize_ = 0;
};

// Returns isDone if the vendor would accept the application's own call. Consecutive calls with the same algorithm query
// its workspace size once. Otherwise the outcome has the status of the vendor, if a query failed.
Outcome queryVendor(const LoweredCall &lowered, const op::ConvolutionCall &call)
{
	constexpr uint64_t most = (uint64_t{1} << 48) - 1;
	const uint64_t algorithm = (0x8000u | (static_cast<uint64_t>(call.algo) & 0x7fff)) << 48;
	uint64_t accepted = lowered.cache.accepted.load(std::memory_order_relaxed);
	if ((accepted & ~most) != algorithm) {
		const auto *const cudnn = op::cudnn<op::CudnnConvolutions>(lowered.original);
		const bool isIdentity =
		    call.isFused && op::convolutionAt(lowered.op.geometry)->activation == op::Activation::none;
		size_t bytes = 0;
		if (!cudnn || (isIdentity && call.algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
			return decline(Reason::bad_argument);
		if (const op::Status status = workspaceSizeOf(*cudnn, call, call.convDesc, bytes))
			return decline(Reason::bad_argument, "cudnnGetConvolution...WorkspaceSize", status);
		accepted = algorithm | std::min<uint64_t>(bytes, most);
		lowered.cache.accepted.store(accepted, std::memory_order_relaxed);
	}
	const uint64_t bytes = accepted & most;
	Outcome answer = decline(Reason::bad_argument);
	answer.isDone = bytes == 0 || (call.workSpace && call.workSpaceSizeInBytes >= bytes);
	return answer;
}

Outcome convolveForTest(LoweredCall &lowered, const op::ConvolutionCall &call, const op::CudnnGraph &cudnn)
{
	CastConvolution family(lowered, call, cudnn);
	return run(lowered, family);
}

} // namespace

Outcome requireConvolutionTest(const LoweredCall &lowered, const op::CudnnGraph &cudnn, void *handle)
{
	if (const auto known = knownTest(lowered, TestedLibrary::cudnn))
		return *known;
	return test(lowered, TestedLibrary::cudnn, static_cast<uint64_t>(cudnn.cudnnGetVersion()),
	            std::make_unique<TestConvolutions>(lowered, cudnn, handle, convolveForTest));
}

Outcome lower(LoweredCall &lowered, const op::ConvolutionCall &call)
{
	if (call.convDesc) // null for an application plan
		if (const Outcome answer = queryVendor(lowered, call); !answer.isDone)
			return answer;
	const auto *const graphs = op::cudnn<op::CudnnGraph>(lowered.original);
	if (graphs && lowered.isCast()) {
		if (const Outcome tested = requireConvolutionTest(lowered, *graphs, call.handle); !tested.isDone)
			return tested;
		CastConvolution family(lowered, call, *graphs);
		return run(lowered, family);
	}
	const auto *const convolutions = op::cudnn<op::CudnnConvolutions>(lowered.original);
	if (!graphs || !convolutions)
		return decline(Reason::unsupported);
	ConvolutionAgain family(lowered, call, *convolutions);
	return run(lowered, family);
}

} // namespace autoamp::lower
