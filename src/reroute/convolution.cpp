#include "src/reroute/convolution.h"

#include "src/base/faults.h"
#include "src/op/shadow.h"
#include "src/reroute/call.h"
#include "src/reroute/dnn_plan.h"

#include <cudnn.h>

#include <algorithm>
#include <cstddef>

namespace autoamp::reroute {

namespace {

using op::Direction;
using policy::Reason;

// ---- tensors

// Layout of a tensor's elements, in the order of its shadow. `first` becomes the offset of the first element. Levels
// without a gap between them are merged: packed tensors have one or two.
kernels::TensorLayout layoutOf(const op::Tensor &tensor, bool isFlipped, int64_t &first)
{
	kernels::TensorLayout layout = {tensor.dims[1], tensor.dims[1] > 1 ? tensor.strides[1] : 0, 0, {1, 1, 1, 1}, {}};
	first = 0;
	for (int i = tensor.rank; i-- > 0;) {
		const int64_t extent = tensor.dims[i];
		int64_t stride = tensor.strides[i];
		if (i == 1 || extent == 1)
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
	made.layout = layoutOf(tensor, isFlipped, made.first);
	made.ld = shadow.dims[1];
	made.zeroColumns = sizeOf(shadow) / made.ld - made.layout.columns();
	made.bytes = aligned(static_cast<size_t>(sizeOf(shadow)) * each);
	return made;
}

void prepare(const op::Convolution &convolution, op::Form form, DnnPlan &plan)
{
	const op::Convolution shadow = op::padded(convolution);
	const bool isFilterResult = convolution.direction == Direction::backwardFilter;
	plan.operand[0] = passage(convolution.first(), shadow.first(), false, 2);
	plan.operand[1] = passage(convolution.second(), shadow.second(), convolution.isFlipped && !isFilterResult, 2);
	plan.result = passage(convolution.result(), shadow.result(), convolution.isFlipped && isFilterResult,
	                      form == op::Form::narrow ? 2 : 4);
	plan.isInPlace = form == op::Form::wide && op::isWrittenInPlace(convolution, true);
}

// One call, with its tensors by their role in its direction.
struct Asked {
	const op::Convolution &convolution;
	const DnnPlan &plan;
	const bool isNarrow;
	const float *first, *second, *added, *bias;
	float *result;
	float alpha, beta;
	bool isDirect; // the plan writes the result itself, which has the alignment that the plan requires

	Asked(const op::Convolution &of, const op::ConvolutionCall &call, const DnnPlan &by)
	    : convolution(of), plan(by), isNarrow(by.key.form == op::Form::narrow),
	      bias(static_cast<const float *>(of.hasBias ? call.bias : nullptr)),
	      alpha(*static_cast<const float *>(call.alpha)), beta(*static_cast<const float *>(call.beta))
	{
		float *const x = static_cast<float *>(call.x), *const w = static_cast<float *>(call.w),
		             *const y = static_cast<float *>(call.y);
		const bool isData = of.direction == Direction::backwardData,
		           isFilter = of.direction == Direction::backwardFilter;
		first = isData ? y : x;
		second = isFilter ? y : w;
		result = isData ? x : isFilter ? w : y;
		added = beta == 0 ? nullptr : of.hasSource ? static_cast<const float *>(call.z) : result;
		isDirect = by.isInPlace && beta == 0 && reinterpret_cast<uintptr_t>(result) % 16 == 0;
	}
	kernels::Placement placement(cuda::Address from) const
	{
		const int64_t offset = plan.result.first;
		return {reinterpret_cast<const void *>(from),
		        isNarrow,
		        plan.result.ld,
		        result + offset,
		        plan.result.layout,
		        added ? added + offset : nullptr,
		        alpha,
		        beta,
		        bias,
		        convolution.activation == op::Activation::none ? kernels::Activation::none
		        : convolution.propagatesNan                    ? kernels::Activation::reluOfNan
		                                                       : kernels::Activation::relu};
	}
};

// Device memory of one call, from `base` on.
struct Places {
	cuda::Address scratch, first, second, result, workspace, end;
};

Places place(const Asked &asked, cuda::Address base)
{
	const DnnPlan &plan = asked.plan;
	Places places;
	places.scratch = base;
	places.first = base + aligned(sizeof(kernels::Scratch));
	places.second = places.first + plan.operand[0].bytes;
	places.result = places.second + plan.operand[1].bytes;
	places.workspace = places.result + (asked.isDirect ? 0 : plan.result.bytes);
	places.end = places.workspace + aligned(plan.workspaceSize);
	return places;
}

// Converts both operands to 16 bits in their places, and writes alpha to the scratch memory. Returns null, or the step
// that failed.
const char *convert(const Asked &asked, Plan &plan, const Settings &settings, bool isHalf, const cuda::Driver &driver,
                    Context &context, cuda::Stream stream, const Places &places, bool isCaptured)
{
	kernels::TensorParameters parameters = {};
	parameters.tensor[0] = tensorOf(asked.plan.operand[0], asked.first, places.first);
	parameters.tensor[1] = tensorOf(asked.plan.operand[1], asked.second, places.second);
	parameters.alphaValue = asked.alpha;
	return castTensors(parameters, plan, settings, isHalf, asked.first, asked.second, driver, context, stream,
	                   places.scratch, isCaptured);
}

// Runs the plan on the casts, and moves the result to its place. Fails only before application memory is written.
Outcome convolve(const Asked &asked, const op::CudnnGraph &cudnn, void *handle, const cuda::Driver &driver,
                 const Context &context, cuda::Stream stream, const Places &places)
{
	const auto at = [](cuda::Address address) { return reinterpret_cast<void *>(address); };
	const bool isDirect = asked.isDirect;
	const int64_t uids[] = {op::uidFirst, op::uidSecond, op::uidResult, op::uidScale};
	void *const pointers[] = {at(places.first), at(places.second), isDirect ? asked.result : at(places.result),
	                          at(places.scratch)}; // alpha is its first member
	const size_t count = asked.isNarrow ? 3 : 4;
	const DnnAnswer answer =
	    execute(cudnn, handle, asked.plan, std::span(uids, count), std::span(pointers, count), at(places.workspace));
	if (answer.status)
		return decline(Reason::engine_failed, answer.what, answer.status);
	if (!isDirect) {
		kernels::Placement home = asked.placement(places.result);
		const unsigned blocks = kernels::gridSize(home, static_cast<unsigned>(context.facts->smCount));
		if (!launch(driver, conversionKernels(driver)->place, blocks, stream, home))
			return decline(Reason::engine_failed, "cuLaunchKernel");
	}
	Outcome done;
	done.isDone = true;
	return done;
}
static_assert(offsetof(kernels::Scratch, alpha) == 0);

Outcome runIn(bool isCaptured, const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
              const op::ConvolutionCall &call, const op::CudnnGraph &cudnn, const cuda::Driver &driver,
              cuda::Stream stream)
{
	const op::Convolution &convolution = *op::convolutionAt(op.geometry);
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, true);
	if (!answer.context)
		return decline(answer.reason, answer.what);
	Context &context = *answer.context;
	const op::Form form = decision.form;
	const FoundPlan found = findPlan(
	    cudnn, {call.handle, nullptr, context.facts->capability},
	    {context.id, op.geometry, 0, decision.precision, form}, isCaptured,
	    [&] { return op::graphOf(convolution, form, decision.precision); },
	    [&](DnnPlan &made) { prepare(convolution, form, made); });
	if (!found.plan)
		return found.why;
	const Asked asked(convolution, call, *found.plan);
	const bool isHalf = decision.precision == op::Dtype::float16;
	Outcome outcome = runInMemory(
	    driver, context, stream, isCaptured, place(asked, 0).end, true,
	    [&](cuda::Address base) {
		    return convert(asked, plan, settings, isHalf, driver, context, stream, place(asked, base), isCaptured);
	    },
	    [&](cuda::Address base) {
		    return convolve(asked, cudnn, call.handle, driver, context, stream, place(asked, base));
	    });
	outcome.builtNs = found.builtNs;
	return outcome;
}

// ---- the application's own call with another math type of its convolution

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

op::Status workspaceSizeOf(const op::CudnnConvolutions &cudnn, const op::ConvolutionCall &call, void *description,
                           size_t &bytes)
{
	const auto ask = call.direction == Direction::forward        ? cudnn.cudnnGetConvolutionForwardWorkspaceSize
	                 : call.direction == Direction::backwardData ? cudnn.cudnnGetConvolutionBackwardDataWorkspaceSize
	                                                             : cudnn.cudnnGetConvolutionBackwardFilterWorkspaceSize;
	const Ordered by = ordered(call);
	return ask(call.handle, by.firstDesc, by.secondDesc, description, by.resultDesc, call.algo, &bytes);
}

// `known` is the function that the application called.
op::Status callAgain(const void *known, const op::ConvolutionCall &call, void *description, void *workspace,
                     size_t bytes)
{
	const Ordered by = ordered(call);
	void *const function = const_cast<void *>(known);
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

Outcome runAgain(bool isCaptured, const op::Op &op, const policy::Decision &decision, const Settings &settings,
                 const op::ConvolutionCall &call, const void *known, const cuda::Driver &driver, cuda::Stream stream)
{
	const auto *const cudnn = op::cudnn<op::CudnnConvolutions>(known);
	if (!cudnn)
		return decline(Reason::unsupported);
	// FMA for a raised call, else conversion by the vendor. TF32 is not set here: a call permits it already, or forbids
	// it explicitly.
	const cudnnMathType_t type =
	    decision.precision == op::Dtype::float32 ? CUDNN_FMA_MATH : CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
	const Description description(*cudnn, *op::convolutionAt(op.geometry), type);
	if (description.status)
		return decline(Reason::engine_failed, "cudnnSetConvolutionNdDescriptor", description.status);
	size_t bytes = 0;
	if (const op::Status status = workspaceSizeOf(*cudnn, call, description.get(), bytes))
		return decline(isNotSupported(status) ? Reason::unsupported : Reason::engine_failed,
		               "cudnnGetConvolution...WorkspaceSize", status);
	const auto execute = [&](cuda::Address workspace) {
		Outcome done;
		done.status = callAgain(known, call, description.get(), reinterpret_cast<void *>(workspace), bytes);
		if (done.status)
			return decline(Reason::engine_failed, "cudnnConvolution", done.status);
		done.isDone = true;
		return done;
	};
	if (bytes == 0)
		return execute(0);
	const ContextAnswer answer = currentContext(driver, settings.memoryBudget, stream, isCaptured, false);
	if (!answer.context)
		return decline(answer.reason, answer.what);
	return runInMemory(
	    driver, *answer.context, stream, isCaptured, aligned(bytes), false, [](cuda::Address) { return nullptr; },
	    execute);
}

} // namespace

namespace {

// Returns isDone if the vendor would accept the application's own call. Consecutive calls with the same algorithm query
// its workspace size once. Otherwise the outcome has the status of the vendor, if a query failed.
Outcome askVendor(const op::Op &op, Plan &plan, const op::ConvolutionCall &call, const void *known)
{
	constexpr uint64_t most = (uint64_t{1} << 48) - 1;
	const uint64_t algorithm = (0x8000u | (static_cast<uint64_t>(call.algo) & 0x7fff)) << 48;
	uint64_t accepted = plan.accepted.load(std::memory_order_relaxed);
	if ((accepted & ~most) != algorithm) {
		const auto *const cudnn = op::cudnn<op::CudnnConvolutions>(known);
		const bool isIdentity = call.isFused && op::convolutionAt(op.geometry)->activation == op::Activation::none;
		size_t bytes = 0;
		if (!cudnn || (isIdentity && call.algo != CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM))
			return decline(Reason::bad_argument);
		if (const op::Status status = workspaceSizeOf(*cudnn, call, call.convDesc, bytes))
			return decline(Reason::bad_argument, "cudnnGetConvolution...WorkspaceSize", status);
		accepted = algorithm | std::min<uint64_t>(bytes, most);
		plan.accepted.store(accepted, std::memory_order_relaxed);
	}
	const uint64_t bytes = accepted & most;
	Outcome answer = decline(Reason::bad_argument);
	answer.isDone = bytes == 0 || (call.workSpace && call.workSpaceSizeInBytes >= bytes);
	return answer;
}

} // namespace

Outcome run(const op::Op &op, const policy::Decision &decision, Plan &plan, const Settings &settings,
            const op::ConvolutionCall &call, const void *known, void *stream)
{
	if (call.convDesc) // null for an application plan
		if (const Outcome answer = askVendor(op, plan, call, known); !answer.isDone)
			return answer;
	return runOnStream(known, stream, [&](bool isCaptured, const op::CudnnGraph &cudnn, const cuda::Driver &driver) {
		const auto on = static_cast<cuda::Stream>(stream);
		return decision.strategy == policy::Strategy::cast
		           ? runIn(isCaptured, op, decision, plan, settings, call, cudnn, driver, on)
		           : runAgain(isCaptured, op, decision, settings, call, known, driver, on);
	});
}

} // namespace autoamp::reroute
