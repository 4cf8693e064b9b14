// Builds, plans and executes graphs like a cuDNN graph API client. Main thread only.
#pragma once

#include <cudnn.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace graph {

using Dims = std::vector<int64_t>;
using Descriptor = cudnnBackendDescriptor_t;

inline Dims packed(const Dims &dims, bool isNhwc)
{
	Dims strides(dims.size());
	int64_t next = 1;
	const auto place = [&](size_t dim) {
		strides[dim] = next;
		next *= dims[dim];
	};
	if (isNhwc)
		place(1);
	for (size_t i = dims.size(); i-- > 0;)
		if (!isNhwc || i != 1)
			place(i);
	return strides;
}

// All objects of one client; failures are stored.
class Client
{
public:
	int64_t alignment = 16;                     // of the tensors
	cudnnDataType_t compute = CUDNN_DATA_FLOAT; // of convolutions and products

	Client() = default;
	Client(const Client &) = delete;
	Client &operator=(const Client &) = delete;
	~Client()
	{
		for (Descriptor one : made_)
			check(cudnnBackendDestroyDescriptor(one));
	}
	cudnnStatus_t status() const { return status_; }
	void check(cudnnStatus_t status) { status_ = status_ ? status_ : status; }

	Descriptor make(cudnnBackendDescriptorType_t type)
	{
		Descriptor one = nullptr;
		check(cudnnBackendCreateDescriptor(type, &one));
		if (one)
			made_.push_back(one);
		return one;
	}
	template <typename T>
	void set(Descriptor to, int name, cudnnBackendAttributeType_t type, const std::vector<T> &values)
	{
		check(cudnnBackendSetAttribute(to, static_cast<cudnnBackendAttributeName_t>(name), type,
		                               static_cast<int64_t>(values.size()), values.data()));
	}
	void link(Descriptor to, int name, Descriptor value)
	{
		set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value});
	}
	Descriptor finalized(Descriptor one)
	{
		check(cudnnBackendFinalize(one));
		return one;
	}

	Descriptor tensor(int64_t uid, cudnnDataType_t type, const Dims &dims, const Dims &strides, bool isVirtual = false,
	                  bool isValue = false)
	{
		Descriptor one = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
		set(one, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
		set(one, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
		set(one, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
		set(one, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Dims{uid});
		set(one, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Dims{alignment});
		set(one, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, std::vector<char>{isVirtual});
		set(one, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, std::vector<char>{isValue});
		return finalized(one);
	}
	// `base`: the ALPHA of the direction; BETA, CONV_DESC and the three tensors (w, x, y) follow it.
	Descriptor convolution(int base, Descriptor w, Descriptor x, Descriptor y, const Dims &pads, const Dims &strides,
	                       const Dims &dilations, bool isFlipped = false, float alpha = 1, float beta = 0,
	                       bool hasDoubles = false)
	{
		Descriptor one = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
		set(one, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, Dims{static_cast<int64_t>(pads.size())});
		set(one, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{compute});
		set(one, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
		    std::vector{isFlipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION});
		set(one, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, pads);
		set(one, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, pads);
		set(one, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, strides);
		set(one, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, dilations);
		finalized(one);
		Descriptor node = make(base == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
		                           ? CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR
		                       : base == CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
		                           ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
		                           : CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR);
		for (const auto &[name, value] : {std::pair(base, alpha), std::pair(base + 1, beta)})
			if (hasDoubles)
				set(node, name, CUDNN_TYPE_DOUBLE, std::vector<double>{value});
			else
				set(node, name, CUDNN_TYPE_FLOAT, std::vector{value});
		link(node, base + 2, one);
		link(node, base + 3, w);
		link(node, base + 4, x);
		link(node, base + 5, y);
		return finalized(node);
	}
	Descriptor product(Descriptor a, Descriptor b, Descriptor c)
	{
		Descriptor one = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
		set(one, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{compute});
		finalized(one);
		Descriptor node = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
		link(node, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
		link(node, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
		link(node, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
		link(node, CUDNN_ATTR_OPERATION_MATMUL_DESC, one);
		return finalized(node);
	}
	Descriptor pointwise(cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y, float factor = 1)
	{
		Descriptor node = pointwise(mode);
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
		if (b)
			link(node, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
		if (factor != 1)
			set(node, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, std::vector{factor});
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
		return finalized(node);
	}
	// The gradient where x is positive.
	Descriptor reluBackward(Descriptor gradient, Descriptor x, Descriptor result)
	{
		Descriptor node = pointwise(CUDNN_POINTWISE_RELU_BWD);
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, gradient);
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, result);
		return finalized(node);
	}
	// Along `dim`; the input with number `inPlace` is already a part of the result, -1: no input.
	Descriptor concatenation(int64_t dim, const std::vector<Descriptor> &inputs, Descriptor result, int64_t inPlace)
	{
		Descriptor node = make(CUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR);
		set(node, CUDNN_ATTR_OPERATION_CONCAT_AXIS, CUDNN_TYPE_INT64, Dims{dim});
		set(node, CUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, CUDNN_TYPE_BACKEND_DESCRIPTOR, inputs);
		if (inPlace >= 0)
			set(node, CUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, CUDNN_TYPE_INT64, Dims{inPlace});
		link(node, CUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, result);
		return finalized(node);
	}
	// Over the dimensions in which the result has one element.
	Descriptor reduction(cudnnReduceTensorOp_t operation, Descriptor x, Descriptor result)
	{
		Descriptor one = make(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
		set(one, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, std::vector{operation});
		set(one, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
		finalized(one);
		Descriptor node = make(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
		link(node, CUDNN_ATTR_OPERATION_REDUCTION_DESC, one);
		link(node, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
		link(node, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, result);
		return finalized(node);
	}
	// Without a handle: the device is named when engines are queried.
	Descriptor operations(cudnnHandle_t handle, const std::vector<Descriptor> &nodes)
	{
		Descriptor one = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
		if (handle)
			set(one, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
		set(one, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, nodes);
		return finalized(one);
	}
	// Engine configurations in the order of the heuristics; none if they fail. A graph without a handle needs the
	// properties of a device.
	std::vector<Descriptor> configs(Descriptor operations, cudnnBackendHeurMode_t mode, Descriptor properties = nullptr)
	{
		Descriptor one = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
		link(one, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
		set(one, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
		if (properties)
			link(one, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
		finalized(one);
		int64_t count = 0;
		get(one, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
		std::vector<Descriptor> results;
		for (int64_t i = 0; i < count; ++i)
			results.push_back(make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
		if (count > 0)
			get(one, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, results.data());
		results.resize(static_cast<size_t>(count)); // the real library writes fewer than it reports
		return results;
	}
	// The configurations of mode A, then those of FALLBACK.
	std::vector<Descriptor> configs(Descriptor operations)
	{
		auto all = configs(operations, CUDNN_HEUR_MODE_A);
		const auto more = configs(operations, CUDNN_HEUR_MODE_FALLBACK);
		all.insert(all.end(), more.begin(), more.end());
		return all;
	}
	Descriptor engineOf(Descriptor config)
	{
		Descriptor engine = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
		int64_t count = 0;
		get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
		return engine;
	}
	bool usesTensorCores(Descriptor config)
	{
		Descriptor engine = engineOf(config);
		int64_t count = 0;
		cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
		get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
		    &count, notes);
		for (int64_t i = 0; i < count; ++i)
			if (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE)
				return true;
		return false;
	}
	Descriptor plan(cudnnHandle_t handle, Descriptor config)
	{
		Descriptor one = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
		set(one, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
		link(one, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
		return finalized(one);
	}
	int64_t workspace(Descriptor plan)
	{
		int64_t bytes = 0, count = 0;
		get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes);
		return bytes;
	}
	Descriptor pack(const std::vector<std::pair<int64_t, void *>> &pointers, void *workspace)
	{
		Descriptor one = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
		Dims uids;
		std::vector<void *> where;
		for (const auto &[uid, pointer] : pointers) {
			uids.push_back(uid);
			where.push_back(pointer);
		}
		set(one, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids);
		set(one, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, where);
		set(one, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, std::vector{workspace});
		return finalized(one);
	}
	void get(Descriptor from, int name, cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *to)
	{
		check(cudnnBackendGetAttribute(from, static_cast<cudnnBackendAttributeName_t>(name), type, room, count, to));
	}

private:
	Descriptor pointwise(cudnnPointwiseMode_t mode)
	{
		Descriptor one = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
		set(one, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
		set(one, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
		finalized(one);
		Descriptor node = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
		link(node, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, one);
		return node;
	}
	std::vector<Descriptor> made_;
	cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

} // namespace graph
