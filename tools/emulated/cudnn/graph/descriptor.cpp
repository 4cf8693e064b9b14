// Create, Set, Get and Destroy. One table lists the attributes with their owner, type and count. Statuses are those of
// the real library (tests/emulated/cudnn/graph/statuses.cpp compares); where that library crashes, this one rejects the
// call.
#include "tools/emulated/cudnn/graph/descriptor.h"

#include <mutex>
#include <unordered_set>

namespace emulated::cudnn::graph {

namespace {

// The attributes of each descriptor type are a range of numbers.
struct Owner {
	cudnnBackendDescriptorType_t type;
	int first, last;
};
#define OWNER(type, first, last) {CUDNN_BACKEND_##type##_DESCRIPTOR, first, last},
constexpr Owner owners[] = {
    OWNER(POINTWISE, 0, 9) OWNER(CONVOLUTION, 100, 106) OWNER(ENGINEHEUR, 200, 204) OWNER(ENGINECFG, 300, 304)
        OWNER(EXECUTION_PLAN, 400, 407) OWNER(KNOB_CHOICE, 600, 601) OWNER(OPERATION_CONVOLUTION_FORWARD, 700, 705)
            OWNER(OPERATION_CONVOLUTION_BACKWARD_DATA, 706, 711) OWNER(OPERATION_CONVOLUTION_BACKWARD_FILTER, 712, 717)
                OWNER(OPERATION_POINTWISE, 750, 758) OWNER(OPERATION_GEN_STATS, 770, 774) OWNER(
                    OPERATION_BN_FINALIZE_STATISTICS, 780, 796) OWNER(OPERATIONGRAPH, 800, 804) OWNER(TENSOR, 900, 913)
                    OWNER(VARIANT_PACK, 1000, 1003) OWNER(LAYOUT_INFO, 1100, 1101) OWNER(KNOB_INFO, 1200, 1203)
                        OWNER(ENGINE, 1300, 1308) OWNER(MATMUL, 1500, 1503) OWNER(OPERATION_MATMUL, 1520, 1527)
                            OWNER(REDUCTION, 1600, 1602) OWNER(OPERATION_REDUCTION,
                                                               1610, 1612) OWNER(OPERATION_BN_BWD_WEIGHTS, 1620, 1630)
                                OWNER(RESAMPLE, 1700, 1708) OWNER(OPERATION_RESAMPLE_FWD, 1710, 1716) OWNER(
                                    OPERATION_RESAMPLE_BWD, 1720, 1727) OWNER(OPERATION_CONCAT, 1800, 1803)
                                    OWNER(OPERATION_SIGNAL, 1900, 1904) OWNER(OPERATION_PAGED_CACHE_LOAD, 1950, 1953)
                                        OWNER(OPERATION_NORM_FORWARD, 2000, 2014) OWNER(
                                            OPERATION_NORM_BACKWARD, 2100, 2110) OWNER(OPERATION_RESHAPE, 2200, 2201)
                                            OWNER(OPERATION_EXPAND_BAND_MATRIX, 2250, 2257)
                                                OWNER(OPERATION_CONTRACT_BAND_MATRIX, 2270, 2276) OWNER(RNG, 2300, 2305)
                                                    OWNER(OPERATION_RNG, 2310, 2313) OWNER(KERNEL_CACHE, 2400, 2402)
                                                        OWNER(OPERATION_BLOCK_SCALE_QUANTIZE, 2500, 2504)
                                                            OWNER(OPERATION_BLOCK_SCALE_DEQUANTIZE, 2600, 2605)
                                                                OWNER(DEVICEPROP, 2700, 2702)
                                                                    OWNER(OPERATION_SDPA_FWD, 2800, 2810)
                                                                        OWNER(OPERATION_SDPA_BWD, 2851, 2862) OWNER(
                                                                            OPERATION_MOE_GROUPED_MATMUL, 2900, 2908)};
#undef OWNER

// The attributes with a meaning here. Other descriptors accept any values. NUMBER is FLOAT or DOUBLE.
constexpr auto number = CUDNN_TYPE_DOUBLE;
struct Attribute {
	int name;
	cudnnBackendAttributeType_t type;
	int64_t most;
	bool isReadable = true;
	int linked = -1;         // the required descriptor type, which Finalize checks
	bool wantsFinal = false; // Set requires a finalized descriptor; false: Finalize checks
};
constexpr int64_t many = 1 << 20;
#define LINK(name, type) {name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, true, CUDNN_BACKEND_##type##_DESCRIPTOR},
#define CONVOLUTION_OPERATION(first)                                                                                   \
	{first, number, 1}, {first + 1, number, 1},                                                                        \
	    LINK(first + 2, CONVOLUTION) LINK(first + 3, TENSOR) LINK(first + 4, TENSOR) LINK(first + 5, TENSOR)
constexpr Attribute attributes[] = {
    {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1},
    {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, number, 1},
    {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, number, 1},
    {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, number, 1},
    {CUDNN_ATTR_POINTWISE_ELU_ALPHA, number, 1},
    {CUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, number, 1},
    {CUDNN_ATTR_POINTWISE_SWISH_BETA, number, 1},
    {CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1},
    {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 6},
    {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 6},
    {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 6},
    {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 6},
    {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1},
    LINK(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH){CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 0},
    {CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1},
    LINK(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, DEVICEPROP)
        LINK(CUDNN_ATTR_ENGINECFG_ENGINE, ENGINE){CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                  many, true, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR},
    {CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1},
    LINK(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG){CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                             0},
    {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, many},
    LINK(CUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, KERNEL_CACHE) LINK(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, DEVICEPROP){
        CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1},
    {CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 0},
    {CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, CUDNN_TYPE_INT64, 0},
    {CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, CUDNN_TYPE_INT64, 0},
    {CUDNN_ATTR_KNOB_INFO_STRIDE, CUDNN_TYPE_INT64, 0},
    CONVOLUTION_OPERATION(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
        CONVOLUTION_OPERATION(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA) CONVOLUTION_OPERATION(
            CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA) LINK(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                                                    POINTWISE)
            LINK(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, TENSOR) LINK(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, TENSOR)
                LINK(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, TENSOR){CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, number, 1},
    {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, number, 1},
    LINK(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, TENSOR) LINK(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, TENSOR)
        LINK(CUDNN_ATTR_OPERATION_POINTWISE_TDESC, TENSOR){CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, many, false, -1, true},
    {CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, CUDNN_TYPE_INT64, 0},
    {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, false},
    {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, many},
    {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, many},
    {CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1},
    {CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1},
    {CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TYPE_TENSOR_REORDERING_MODE, 1},
    {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, many, false},
    {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, many, false},
    {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1},
    LINK(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, OPERATIONGRAPH){CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0},
    {CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, 0},
    {CUDNN_ATTR_ENGINE_LAYOUT_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0},
    {CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE, 0},
    {CUDNN_ATTR_ENGINE_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1},
    LINK(CUDNN_ATTR_ENGINE_DEVICEPROP, DEVICEPROP){CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    {CUDNN_ATTR_MATMUL_PADDING_VALUE, number, 1},
    LINK(CUDNN_ATTR_OPERATION_MATMUL_ADESC, TENSOR) LINK(CUDNN_ATTR_OPERATION_MATMUL_BDESC, TENSOR)
        LINK(CUDNN_ATTR_OPERATION_MATMUL_CDESC, TENSOR)
            LINK(CUDNN_ATTR_OPERATION_MATMUL_DESC, MATMUL){CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1},
    {CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1},
    {CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, many},
    {CUDNN_ATTR_OPERATION_CONCAT_AXIS, CUDNN_TYPE_INT64, 1},
    {CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, CUDNN_TYPE_BACKEND_DESCRIPTOR, many, false},
    {CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, CUDNN_TYPE_INT64, 1},
    LINK(CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, TENSOR){CUDNN_ATTR_REDUCTION_OPERATOR,
                                                          CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1},
    {CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1},
    LINK(CUDNN_ATTR_OPERATION_REDUCTION_XDESC, TENSOR) LINK(CUDNN_ATTR_OPERATION_REDUCTION_YDESC, TENSOR)
        LINK(CUDNN_ATTR_OPERATION_REDUCTION_DESC, REDUCTION)};
#undef LINK
#undef CONVOLUTION_OPERATION

const Attribute *attributeOf(int name)
{
	for (const Attribute &one : attributes)
		if (one.name == name)
			return &one;
	return nullptr;
}

const Owner *ownerOf(cudnnBackendDescriptorType_t type)
{
	for (const Owner &one : owners)
		if (one.type == type)
			return &one;
	return nullptr;
}

size_t sizeOf(cudnnBackendAttributeType_t type)
{
	switch (type) {
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_DOUBLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
		return 8;
	case CUDNN_TYPE_BOOLEAN:
	case CUDNN_TYPE_CHAR:
		return 1;
	case CUDNN_TYPE_FRACTION:
		return sizeof(cudnnFraction_t);
	default:
		return sizeof(int);
	}
}

bool isOf(cudnnBackendAttributeType_t type, const Attribute &attribute)
{
	return type == attribute.type || (attribute.type == number && type == CUDNN_TYPE_FLOAT);
}

struct Registry {
	std::mutex mutex;
	std::unordered_set<void *> live;
};
Registry &registry()
{
	static auto *all = new Registry;
	return *all;
}

} // namespace

Copy Descriptor::link(int name) const
{
	const Copy copy = has(name) ? values.at(name).copies[0] : nullptr;
	return copy && static_cast<int>(copy->type) == attributeOf(name)->linked ? copy : nullptr;
}

Descriptor *live(cudnnBackendDescriptor_t descriptor)
{
	std::lock_guard lock(registry().mutex);
	return registry().live.count(descriptor) ? static_cast<Descriptor *>(descriptor) : nullptr;
}

} // namespace emulated::cudnn::graph

using namespace emulated::cudnn;
using namespace emulated::cudnn::graph;

ENTRY(cudnnBackendCreateDescriptor, INTERNAL_ERROR_HOST_ALLOCATION_FAILED, descriptorType, descriptor)
{
	REFUSE_IF(!descriptor, BAD_PARAM_NULL_POINTER);
	REFUSE_IF(!ownerOf(descriptorType), INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
	auto *made = new Descriptor{};
	made->type = descriptorType;
	std::lock_guard lock(registry().mutex);
	registry().live.insert(*descriptor = made);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBackendDestroyDescriptor, BAD_PARAM, descriptor)
{
	REFUSE_IF(!descriptor, BAD_PARAM_NULL_POINTER);
	{
		std::lock_guard lock(registry().mutex);
		REFUSE_IF(!registry().live.erase(descriptor), BAD_PARAM);
	}
	delete static_cast<Descriptor *>(descriptor);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBackendInitialize, BAD_PARAM, descriptor)
{
	Descriptor *mine = live(descriptor);
	REFUSE_IF(!mine, BAD_PARAM);
	const auto type = mine->type;
	*mine = {};
	mine->type = type;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBackendFinalize, INTERNAL_ERROR, descriptor)
{
	REFUSE_IF(!descriptor, BAD_PARAM_NULL_POINTER);
	Descriptor *mine = live(descriptor);
	REFUSE_IF(!mine || mine->isFinalized, BAD_PARAM);
	if (cudnnStatus_t status = finish(*mine))
		return status;
	mine->isFinalized = true;
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBackendSetAttribute, BAD_PARAM, descriptor, attributeName, attributeType, elementCount, arrayOfElements)
{
	REFUSE_IF(!descriptor, BAD_PARAM_NULL_POINTER);
	Descriptor *mine = live(descriptor);
	REFUSE_IF(!mine || mine->isFinalized, BAD_PARAM);
	const Owner *owner = ownerOf(mine->type);
	REFUSE_IF(attributeName < owner->first || attributeName > owner->last, BAD_PARAM);
	const Attribute *attribute = attributeOf(attributeName);
	REFUSE_IF(attribute && attribute->type == number && !isOf(attributeType, *attribute), BAD_PARAM);
	REFUSE_IF(attribute && !isOf(attributeType, *attribute), BAD_PARAM_ATTRIBUTE_TYPE);
	REFUSE_IF(elementCount < 1 || !arrayOfElements, BAD_PARAM);
	REFUSE_IF(attribute && attribute->linked == CUDNN_BACKEND_TENSOR_DESCRIPTOR && elementCount != 1, NOT_SUPPORTED);
	REFUSE_IF(attribute && elementCount > attribute->most, BAD_PARAM);
	Value value{attributeType, elementCount, {}, {}};
	if (attributeType == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
		for (int64_t i = 0; i < elementCount; ++i) {
			const Descriptor *other = live(static_cast<const cudnnBackendDescriptor_t *>(arrayOfElements)[i]);
			REFUSE_IF(!other, BAD_PARAM);
			REFUSE_IF(attribute && attribute->wantsFinal && !other->isFinalized, BAD_PARAM_NOT_FINALIZED);
			value.copies.push_back(std::make_shared<Descriptor>(*other));
		}
	} else {
		const auto *bytes = static_cast<const std::byte *>(arrayOfElements);
		value.bytes.assign(bytes, bytes + static_cast<size_t>(elementCount) * sizeOf(attributeType));
	}
	mine->values[attributeName] = std::move(value);
	return CUDNN_STATUS_SUCCESS;
}

ENTRY(cudnnBackendGetAttribute, BAD_PARAM, descriptor, attributeName, attributeType, requestedElementCount,
      elementCount, arrayOfElements)
{
	const Descriptor *mine = live(descriptor);
	REFUSE_IF(!mine, BAD_PARAM);
	REFUSE_IF(!mine->isFinalized, NOT_INITIALIZED);
	const Owner *owner = ownerOf(mine->type);
	REFUSE_IF(attributeName < owner->first || attributeName > owner->last, BAD_PARAM);
	const Attribute *attribute = attributeOf(attributeName);
	REFUSE_IF(!attribute || !attribute->isReadable, NOT_SUPPORTED);
	REFUSE_IF(!isOf(attributeType, *attribute), BAD_PARAM_ATTRIBUTE_TYPE);
	const auto found = mine->values.find(attributeName);
	const int64_t available = found == mine->values.end() ? 0 : found->second.count;
	const int64_t count = requestedElementCount > 0 ? std::min(available, requestedElementCount) : available;
	if (elementCount)
		*elementCount = count;
	if (requestedElementCount <= 0 || !arrayOfElements || count == 0)
		return CUDNN_STATUS_SUCCESS;
	REFUSE_IF(attributeType == CUDNN_TYPE_CHAR && count < available, BAD_PARAM_SIZE_INSUFFICIENT);
	if (attributeType != CUDNN_TYPE_BACKEND_DESCRIPTOR) {
		REFUSE_IF(attributeType != found->second.type, BAD_PARAM_ATTRIBUTE_TYPE);
		std::memcpy(arrayOfElements, found->second.bytes.data(), static_cast<size_t>(count) * sizeOf(attributeType));
		return CUDNN_STATUS_SUCCESS;
	}
	for (int64_t i = 0; i < count; ++i) {
		Descriptor *to = live(static_cast<cudnnBackendDescriptor_t *>(arrayOfElements)[i]);
		const Copy &from = found->second.copies[static_cast<size_t>(i)];
		REFUSE_IF(!to || to->type != from->type, BAD_PARAM);
		*to = *from;
	}
	return CUDNN_STATUS_SUCCESS;
}
