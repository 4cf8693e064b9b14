#include "src/lower/plan_family.h"

#include "src/base/clock.h"
#include "src/base/hash.h"

#include <cstddef>

namespace autoamp::lower {

namespace {

using policy::Reason;

kernels::Tensor tensorOf(const Passage &passage, const float *source, void *target)
{
	return {source + passage.first, static_cast<uint16_t *>(target), passage.layout, passage.ld, passage.zeroColumns};
}

static_assert(offsetof(kernels::Scratch, alpha) == 0);

} // namespace

bool isNotSupported(op::Status cudnn)
{
	constexpr int notSupported = 3; // in thousands
	return cudnn / 1000 == notSupported;
}

Outcome PlanFamily::prepare(LoweredCall &call)
{
	key_.context = call.context->id;
	plan_ = knownPlan(key_);
	if (!plan_ && call.isCaptured)
		return decline(Reason::capture_unready);
	if (!plan_)
		if (const Outcome built = build(call); !built.isDone)
			return built;
	const bool isRaised = key_.precision == op::Dtype::float32;
	if (plan_->status)
		return decline(isRaised ? Reason::unsupported : Reason::no_fp32_output, plan_->what, plan_->status);
	kept_.setCaptured(call.isCaptured);
	if (mayKeep(call) && filter() >= 0)
		chooseKept(call);
	place(0);
	return completed();
}

bool PlanFamily::dropObservation()
{
	const bool isDropped = kept_.dropObservation();
	if (isDropped)
		place(0);
	return isDropped;
}

void PlanFamily::chooseKept(LoweredCall &call)
{
	const int index = filter();
	const Passage &passage = plan_->operand[index];
	const kernels::TensorLayout &layout = passage.layout;
	uint64_t hash = static_cast<uint64_t>(call.decision.precision);
	for (const int64_t size :
	     {layout.rows, layout.rowStride, int64_t{layout.levels}, passage.first, passage.ld, passage.zeroColumns})
		hash = base::mix(hash, static_cast<uint64_t>(size));
	for (int level = 0; level < kernels::tensorLevels; level++)
		hash = base::mix(base::mix(hash, static_cast<uint64_t>(layout.extent[level])),
		                 static_cast<uint64_t>(layout.stride[level]));
	kept_.choose(call, index, index == 0 ? first_ : second_, hash, layout.rows * layout.columns(), passage.bytes);
}

Outcome PlanFamily::build(LoweredCall &call)
{
	const uint64_t start = base::nanoseconds(CLOCK_MONOTONIC);
	const DnnTarget target = {handle_, nullptr, call.context->facts->capability};
	DnnAnswer answer;
	DnnPlan *made = makeDnnPlan(cudnn_, target, graph(), key_.precision == op::Dtype::float32, answer);
	if (!made && !isNotSupported(answer.status))
		return decline(Reason::engine_failed, answer.what, answer.status);
	if (!made) // stored: another query would cost every call some milliseconds
		made = new DnnPlan{};
	setPassages(*made);
	made->key = key_;
	made->status = answer.status, made->what = answer.what;
	call.builtNs = base::nanoseconds(CLOCK_MONOTONIC) - start;
	keepPlan(made);
	plan_ = made;
	return completed();
}

void PlanFamily::place(cuda::Address base)
{
	const auto take = [&base](size_t bytes) {
		void *const at = reinterpret_cast<void *>(base);
		base += bytes;
		return at;
	};
	places_.scratch = take(isCast_ ? aligned(sizeof(kernels::Scratch)) : 0);
	const auto takeOperand = [&](int index) {
		const cuda::Address copy = kept_.copyOf(index);
		void *const scratch = take(isCast_ && kept_.needsScratch(index) ? plan_->operand[index].bytes : 0);
		return copy ? reinterpret_cast<void *>(copy) : scratch;
	};
	places_.first = takeOperand(0);
	places_.second = takeOperand(1);
	places_.keptRecords = take(
	    isCast_ && kept_.needsRecords() ? aligned(kernels::recordCount(tensors()) * sizeof(kernels::KeptRecord)) : 0);
	if (isCast_ && key_.precision == op::Dtype::float16)
		places_.records = take(aligned(kernels::recordCount(tensors()) * sizeof(kernels::CastRecord)));
	places_.result = take(isDirect() ? 0 : plan_->result.bytes);
	places_.workspace = take(aligned(plan_->workspaceSize));
	places_.end = base;
}

kernels::TensorParameters PlanFamily::tensors() const
{
	kernels::TensorParameters parameters = {};
	parameters.tensor[0] = tensorOf(plan_->operand[0], first_, places_.first);
	parameters.tensor[1] = tensorOf(plan_->operand[1], second_, places_.second);
	return parameters;
}

const char *PlanFamily::convert(LoweredCall &call, cuda::Address base)
{
	place(base);
	if (!isCast_)
		return nullptr;
	kernels::TensorParameters parameters = tensors();
	parameters.alphaValue = alpha_;
	parameters.scratch = static_cast<kernels::Scratch *>(places_.scratch);
	const bool isKept = kept_.isUsed();
	const Kernels &kernels = *call.kernels;
	if (isKept)
		kept_.prepare(parameters, call, reinterpret_cast<cuda::Address>(places_.keptRecords));
	bool isLaunched;
	if (call.isHalf()) {
		call.prepareScaling(parameters, first_, second_);
		isLaunched = call.castAndSettle(isKept ? kernels.keptTensor.castHalf : kernels.castTensorHalf,
		                                isKept ? kernels.keptTensor.settleHalf : kernels.settleTensor,
		                                reinterpret_cast<cuda::Address>(places_.records), parameters);
	} else {
		call.prepareEvents(parameters);
		CUkern_st *const cast = isKept ? kernels.keptTensor.castBfloat16 : kernels.castTensorBfloat16;
		isLaunched = parameters.keptRecords ? call.castAndSettle(cast, kernels.keptTensor.settleBfloat16, 0, parameters)
		                                    : call.launch(cast, call.blocks(parameters), parameters);
	}
	if (!isLaunched)
		return "cuLaunchKernel";
	kept_.setLaunched();
	return nullptr;
}

Outcome PlanFamily::execute(std::span<const int64_t> uids, std::span<void *const> pointers) const
{
	const DnnAnswer answer = lower::execute(cudnn_, handle_, *plan_, uids, pointers, places_.workspace);
	return answer.status ? decline(Reason::engine_failed, answer.what, answer.status) : completed();
}

} // namespace autoamp::lower
