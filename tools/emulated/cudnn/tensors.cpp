// Element by element: sums, products and copies of tensors, reductions, dropout.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>
#include <cstring>

using namespace emulated::cudnn;

namespace {

double operate(cudnnOpTensorOp_t op, bool propagatesNan, double a, double b)
{
	switch (op) {
	case CUDNN_OP_TENSOR_ADD:
		return a + b;
	case CUDNN_OP_TENSOR_MUL:
		return a * b;
	case CUDNN_OP_TENSOR_SQRT:
		return std::sqrt(a);
	case CUDNN_OP_TENSOR_NOT:
		return 1 - a;
	default:
		if (propagatesNan && (std::isnan(a) || std::isnan(b)))
			return NAN;
		return op == CUDNN_OP_TENSOR_MIN ? std::fmin(a, b) : std::fmax(a, b);
	}
}

struct Reduced {
	double value;
	int64_t index = 0, count = 0; // of the extreme, of the elements
};

void reduce(const cudnnReduceTensorStruct &d, Reduced &sum, double a, int64_t index)
{
	auto extreme = [&](bool isBetter, double candidate) {
		const bool takesNan = d.nan == CUDNN_PROPAGATE_NAN && std::isnan(candidate) && !std::isnan(sum.value);
		if (isBetter || takesNan || sum.count == 0 || (std::isnan(sum.value) && d.nan != CUDNN_PROPAGATE_NAN)) {
			sum.value = candidate;
			sum.index = index;
		}
	};
	switch (d.op) {
	case CUDNN_REDUCE_TENSOR_MUL:
		sum.value *= a;
		break;
	case CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
		sum.value *= a == 0 ? 1 : a;
		break;
	case CUDNN_REDUCE_TENSOR_MIN:
		extreme(a < sum.value, a);
		break;
	case CUDNN_REDUCE_TENSOR_MAX:
		extreme(a > sum.value, a);
		break;
	case CUDNN_REDUCE_TENSOR_AMAX:
		extreme(std::abs(a) > sum.value, std::abs(a));
		break;
	case CUDNN_REDUCE_TENSOR_NORM1:
		sum.value += std::abs(a);
		break;
	case CUDNN_REDUCE_TENSOR_NORM2:
		sum.value += a * a;
		break;
	default:
		sum.value += a;
	}
	++sum.count;
}

bool hasIndices(const cudnnReduceTensorStruct &d)
{
	return d.indices == CUDNN_REDUCE_TENSOR_FLATTENED_INDICES && d.op >= CUDNN_REDUCE_TENSOR_MIN &&
	       d.op <= CUDNN_REDUCE_TENSOR_AMAX;
}

size_t indexBytes(cudnnIndicesType_t type)
{
	constexpr size_t sizes[] = {4, 8, 2, 1};
	return sizes[type];
}

size_t reductionWorkspace(const Tensor &a, const Tensor &c)
{
	return a.hasSameDims(c) ? 0 : 64 * c.count();
}

// The extents that a transform makes of a tensor's; false: it folds, which is not emulated, or nothing is left.
bool transformed(const cudnnTensorTransformStruct &d, const Tensor &from, int *dims)
{
	bool is = d.rank == from.rank;
	for (int i = 0; is && i < from.rank; ++i) {
		dims[i] = static_cast<int>(from.dims[i]) + d.before[i] + d.after[i];
		is = dims[i] > 0 && (i < 2 || d.fold[i - 2] <= 1);
	}
	return is;
}

cudnnStatus_t transform(cudnnHandle_t handle, const char *name, const cudnnTensorTransformStruct *d, const void *alpha,
                        const cudnnTensorDescriptor_t source, const void *from, const void *beta,
                        const cudnnTensorDescriptor_t target, void *to)
{
	REFUSE_IF(!d || !source, BAD_PARAM);
	SCALARS(target);
	const Tensor x = source->tensor, y = target->tensor;
	int dims[CUDNN_DIM_MAX];
	REFUSE_IF(!transformed(*d, x, dims), NOT_SUPPORTED);
	REFUSE_IF(y.rank != x.rank || !std::equal(dims, dims + x.rank, y.dims), BAD_PARAM);
	const cudnnTensorTransformStruct pads = *d;
	return blend(handle, name, a, b, {{source, from}}, {target, to}, [=](std::vector<Values> v) {
		Values result(y.count());
		for (int64_t i = 0; i < y.count(); ++i) {
			int64_t rest = i, at = 0;
			bool isInside = true;
			for (int k = y.rank - 1; k >= 0; --k) {
				const int64_t index = rest % y.dims[k] - pads.before[k];
				isInside &= index >= 0 && index < x.dims[k];
				at += index * x.countFrom(k + 1);
				rest /= y.dims[k];
			}
			result[i] = isInside ? v[0][at] : 0;
		}
		return result;
	});
}

cudnnStatus_t dropOut(cudnnHandle_t handle, const char *name, const cudnnDropoutStruct *d, Part from, Part to,
                      void *reserve, size_t reserveBytes, bool isForward)
{
	REFUSE_IF(!d || !from.descriptor || !to.descriptor || !reserve, BAD_PARAM);
	const Tensor x = from.descriptor->tensor, y = to.descriptor->tensor;
	REFUSE_IF(x.count() != y.count() || x.type != y.type, BAD_PARAM);
	const size_t bytes = (x.count() + 7) / 8;
	REFUSE_IF(reserveBytes < bytes, BAD_PARAM);
	const cudnnDropoutStruct drop = *d;
	return launch(handle, name, {from}, {to}, [=](Memory &memory, std::vector<Values> v) {
		auto *mask = static_cast<unsigned char *>(memory.at(reserve, bytes));
		auto *state = isForward ? static_cast<DropoutState *>(memory.at(drop.states, DropoutState::bytes)) : nullptr;
		if (memory.error())
			return;
		for (int64_t i = 0; isForward && i < x.count(); ++i) {
			const int bit = 1 << i % 8;
			const bool keeps = state->isKept(i, drop.probability);
			mask[i / 8] = static_cast<unsigned char>((mask[i / 8] & ~bit) | (keeps ? bit : 0));
		}
		if (state)
			++state->masks;
		for (int64_t i = 0; i < x.count(); ++i)
			v[0][i] = mask[i / 8] >> i % 8 & 1 ? v[0][i] / (1 - static_cast<double>(drop.probability)) : 0;
		memory.write(std::move(v[0]), y, const_cast<void *>(to.data));
	});
}

} // namespace

extern "C" {

cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op, const void *alpha,
                            const cudnnTensorDescriptor_t xDesc, const void *x, const void *alpha2,
                            const cudnnTensorDescriptor_t zDesc, const void *z, const void *beta,
                            const cudnnTensorDescriptor_t yDesc, void *y)
{
	FAIL_AS(EXECUTION_FAILED);
	SCALARS(yDesc);
	REFUSE_IF(!op || !xDesc, BAD_PARAM);
	const cudnnOpTensorStruct d = *op;
	const bool isUnary = d.op == CUDNN_OP_TENSOR_SQRT || d.op == CUDNN_OP_TENSOR_NOT;
	REFUSE_IF(!isUnary && (!zDesc || !alpha2), BAD_PARAM);
	const Tensor whole = xDesc->tensor, part = isUnary ? whole : zDesc->tensor;
	REFUSE_IF(!whole.hasSameDims(yDesc->tensor) || !isBroadcast(part, whole), BAD_PARAM);
	REFUSE_IF(whole.type != yDesc->tensor.type || part.type != whole.type, NOT_SUPPORTED);
	REFUSE_IF((d.compute == CUDNN_DATA_DOUBLE) != (whole.type == CUDNN_DATA_DOUBLE), NOT_SUPPORTED);
	const double second = isUnary ? 0 : scalar(alpha2, whole.type);
	return blend(handle, __func__, 1, b, {{xDesc, x}, {isUnary ? nullptr : zDesc, isUnary ? nullptr : z, isUnary}},
	             {yDesc, y}, [=](std::vector<Values> v) {
		             const std::vector<int64_t> at = broadcast(part, whole);
		             for (size_t i = 0; i < v[0].size(); ++i)
			             v[0][i] = operate(d.op, d.nan == CUDNN_PROPAGATE_NAN, a * v[0][i],
			                               isUnary ? 0 : second * v[1][at[i]]);
		             return v[0];
	             });
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc,
                             const void *x, const void *beta, const cudnnTensorDescriptor_t yDesc, void *y)
{
	FAIL_AS(EXECUTION_FAILED);
	SCALARS(yDesc);
	REFUSE_IF(!xDesc || !isBroadcast(xDesc->tensor, yDesc->tensor), BAD_PARAM);
	const Tensor part = xDesc->tensor, whole = yDesc->tensor;
	REFUSE_IF(part.type != whole.type, NOT_SUPPORTED);
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		Values result;
		for (int64_t at : broadcast(part, whole))
			result.push_back(v[0][at]);
		return result;
	});
}

cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc,
                                   const void *x, const void *beta, const cudnnTensorDescriptor_t yDesc, void *y)
{
	FAIL_AS(EXECUTION_FAILED);
	SCALARS(yDesc);
	REFUSE_IF(!xDesc || !xDesc->tensor.hasSameDims(yDesc->tensor), BAD_PARAM);
	const auto converts = [](cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF; };
	const cudnnDataType_t from = xDesc->tensor.type, to = yDesc->tensor.type;
	REFUSE_IF(from != to && !(converts(from) && converts(to)), NOT_SUPPORTED);
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [](std::vector<Values> v) { return v[0]; });
}

cudnnStatus_t cudnnTransformTensorEx(cudnnHandle_t handle, const cudnnTensorTransformDescriptor_t transformation,
                                     const void *alpha, const cudnnTensorDescriptor_t source, const void *from,
                                     const void *beta, const cudnnTensorDescriptor_t target, void *to)
{
	FAIL_AS(EXECUTION_FAILED);
	return transform(handle, __func__, transformation, alpha, source, from, beta, target, to);
}

cudnnStatus_t cudnnTransformFilter(cudnnHandle_t handle, const cudnnTensorTransformDescriptor_t transformation,
                                   const void *alpha, const cudnnFilterDescriptor_t source, const void *from,
                                   const void *beta, const cudnnFilterDescriptor_t target, void *to)
{
	FAIL_AS(EXECUTION_FAILED);
	return transform(handle, __func__, transformation, alpha, source, from, beta, target, to);
}

cudnnStatus_t cudnnInitTransformDest(const cudnnTensorTransformDescriptor_t transformation,
                                     const cudnnTensorDescriptor_t source, cudnnTensorDescriptor_t target,
                                     size_t *bytes)
{
	FAIL_AS(BAD_PARAM);
	int dims[CUDNN_DIM_MAX];
	REFUSE_IF(!transformation || !source || !target || !bytes, BAD_PARAM);
	REFUSE_IF(!transformed(*transformation, source->tensor, dims), NOT_SUPPORTED);
	const cudnnStatus_t status =
	    cudnnSetTensorNdDescriptorEx(target, transformation->format, source->tensor.type, source->tensor.rank, dims);
	return status ? status : cudnnGetTensorSizeInBytes(target, bytes);
}

cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t yDesc, void *y, const void *alpha)
{
	FAIL_AS(EXECUTION_FAILED);
	const void *beta = alpha;
	SCALARS(yDesc);
	return blend(handle, __func__, a, 0 * b, {{yDesc, y}}, {yDesc, y}, [](std::vector<Values> v) { return v[0]; });
}

cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t yDesc, void *y, const void *value)
{
	FAIL_AS(EXECUTION_FAILED);
	REFUSE_IF(!yDesc || !value || yDesc->isVectorized, BAD_PARAM);
	double number = 0; // of y's own type
	emulated::dnn::load(emulated::dnn::packed(yDesc->tensor.type, 0, nullptr), value, &number);
	const int64_t count = yDesc->tensor.count();
	return blend(handle, __func__, 1, 0, {}, {yDesc, y}, [=](std::vector<Values>) { return Values(count, number); });
}

cudnnStatus_t cudnnGetReductionIndicesSize(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduction,
                                           const cudnnTensorDescriptor_t aDesc, const cudnnTensorDescriptor_t cDesc,
                                           size_t *bytes)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!handleOf(handle) || !reduction || !aDesc || !cDesc || !bytes, BAD_PARAM);
	*bytes = hasIndices(*reduction) ? cDesc->tensor.count() * indexBytes(reduction->indicesType) : 0;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetReductionWorkspaceSize(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduction,
                                             const cudnnTensorDescriptor_t aDesc, const cudnnTensorDescriptor_t cDesc,
                                             size_t *bytes)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!handleOf(handle) || !reduction || !aDesc || !cDesc || !bytes, BAD_PARAM);
	*bytes = reductionWorkspace(aDesc->tensor, cDesc->tensor);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnReduceTensor(cudnnHandle_t handle, const cudnnReduceTensorDescriptor_t reduction, void *indices,
                                size_t indicesBytes, void *workspace, size_t workspaceBytes, const void *alpha,
                                const cudnnTensorDescriptor_t xDesc, const void *x, const void *beta,
                                const cudnnTensorDescriptor_t yDesc, void *y)
{
	FAIL_AS(EXECUTION_FAILED);
	SCALARS(yDesc);
	REFUSE_IF(!reduction || !xDesc || !y || !isBroadcast(yDesc->tensor, xDesc->tensor), BAD_PARAM);
	const cudnnReduceTensorStruct d = *reduction;
	const Tensor whole = xDesc->tensor, part = yDesc->tensor;
	REFUSE_IF(d.indicesType != CUDNN_32BIT_INDICES && hasIndices(d), NOT_SUPPORTED);
	REFUSE_IF((d.compute == CUDNN_DATA_DOUBLE) != (whole.type == CUDNN_DATA_DOUBLE), NOT_SUPPORTED);
	const size_t needed = reductionWorkspace(whole, part), entries = hasIndices(d) ? part.count() : 0;
	REFUSE_IF(workspaceBytes < needed || (needed && !workspace), BAD_PARAM);
	REFUSE_IF(entries && (!indices || indicesBytes < entries * indexBytes(d.indicesType)), BAD_PARAM);
	return launch(handle, __func__, {{xDesc, x}}, {{yDesc, y}}, [=](Memory &memory, std::vector<Values> v) {
		if (void *scratch = needed ? memory.at(workspace, needed) : nullptr)
			std::memset(scratch, 0xff, needed);
		const double start = d.op == CUDNN_REDUCE_TENSOR_MUL || d.op == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS ? 1 : 0;
		std::vector<Reduced> sums(part.count(), {start});
		std::vector<int64_t> seen(part.count());
		const std::vector<int64_t> to = broadcast(part, whole);
		for (size_t i = 0; i < to.size(); ++i)
			reduce(d, sums[to[i]], v[0][i], seen[to[i]]++);
		Values results;
		for (const Reduced &sum : sums)
			results.push_back(d.op == CUDNN_REDUCE_TENSOR_AVG     ? sum.value / static_cast<double>(sum.count)
			                  : d.op == CUDNN_REDUCE_TENSOR_NORM2 ? std::sqrt(sum.value)
			                                                      : sum.value);
		memory.write(std::move(results), part, y, a, b);
		auto *places = static_cast<uint32_t *>(entries ? memory.at(indices, entries * 4, 4) : nullptr);
		for (size_t i = 0; places && i < entries; ++i)
			places[i] = static_cast<uint32_t>(sums[i].index);
	});
}

// ---- dropout

cudnnStatus_t cudnnDropoutGetStatesSize(cudnnHandle_t handle, size_t *bytes)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!handleOf(handle) || !bytes, BAD_PARAM);
	*bytes = DropoutState::bytes;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnRestoreDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float dropout,
                                            void *states, size_t bytes, unsigned long long seed)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !handleOf(handle) || !(dropout >= 0 && dropout <= 1), BAD_PARAM);
	REFUSE_IF(states && bytes < DropoutState::bytes, INVALID_VALUE);
	*descriptor = {dropout, states, seed};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float dropout,
                                        void *states, size_t bytes, unsigned long long seed)
{
	FAIL_AS(EXECUTION_FAILED);
	const cudnnStatus_t status = cudnnRestoreDropoutDescriptor(descriptor, handle, dropout, states, bytes, seed);
	if (status || !states)
		return status;
	return run(*handleOf(handle), __func__, [=](Memory &memory) {
		if (void *at = memory.at(states, DropoutState::bytes)) {
			std::memset(at, 0, DropoutState::bytes);
			static_cast<DropoutState *>(at)->seed = seed;
		}
	});
}

cudnnStatus_t cudnnGetDropoutDescriptor(cudnnDropoutDescriptor_t descriptor, cudnnHandle_t handle, float *dropout,
                                        void **states, unsigned long long *seed)
{
	FAIL_AS(BAD_PARAM);
	REFUSE_IF(!descriptor || !handleOf(handle), BAD_PARAM);
	give(dropout, descriptor->probability, seed, descriptor->seed);
	if (states)
		*states = descriptor->states;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDropoutForward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                                  const cudnnTensorDescriptor_t xDesc, const void *x,
                                  const cudnnTensorDescriptor_t yDesc, void *y, void *reserve, size_t reserveBytes)
{
	FAIL_AS(EXECUTION_FAILED);
	REFUSE_IF(dropout && !dropout->states, BAD_PARAM);
	return dropOut(handle, __func__, dropout, {xDesc, x}, {yDesc, y}, reserve, reserveBytes, true);
}

cudnnStatus_t cudnnDropoutBackward(cudnnHandle_t handle, const cudnnDropoutDescriptor_t dropout,
                                   const cudnnTensorDescriptor_t dyDesc, const void *dy,
                                   const cudnnTensorDescriptor_t dxDesc, void *dx, void *reserve, size_t reserveBytes)
{
	FAIL_AS(EXECUTION_FAILED);
	return dropOut(handle, __func__, dropout, {dyDesc, dy}, {dxDesc, dx}, reserve, reserveBytes, false);
}

} // extern "C"
