// Convolutions and products through cuDNN's graph API, used like PyTorch: heuristics, a cached plan, a variant pack per
// call. One case per line; the results are checked against fp64.
#include "counting.h"
#include "dnn.h"
#include "products.h"

#include <algorithm>
#include <dlfcn.h>
#include <fstream>
#include <memory>
#include <numeric>
#include <set>
#include <sstream>
#include <thread>

using namespace client;

namespace {

// ---- tensors, on the host and on the device

struct Tensor {
	int64_t uid = 0;
	Dims dims, strides;
	bool isVirtual = false;
	std::shared_ptr<Array> array;

	size_t extent() const
	{
		int64_t last = 0;
		for (size_t i = 0; i < dims.size(); i++)
			last += (dims[i] - 1) * strides[i];
		return static_cast<size_t>(last) + 1;
	}
	int64_t offset(const Dims &index) const
	{
		int64_t sum = 0;
		for (size_t i = 0; i < dims.size(); i++)
			sum += (dims[i] == 1 ? 0 : index[i]) * strides[i];
		return sum;
	}
	float &at(const Dims &index) const { return (*array)[static_cast<size_t>(offset(index))]; }
	template <typename Visit>
	void each(Visit visit) const
	{
		Dims index(dims.size(), 0);
		for (;;) {
			visit(index);
			size_t i = dims.size();
			while (i-- && ++index[i] == dims[i])
				index[i] = 0;
			if (i == static_cast<size_t>(-1))
				return;
		}
	}
	void fill(Random &random, double scale = 1) const
	{
		each([&](const Dims &index) { at(index) = static_cast<float>(random.gaussian() * scale); });
	}
};

// 'c': channels before the image; 'l': last; 'g': like 'c', with gaps, which a filter cannot have. For a matrix 'r': by
// rows; 't': by columns.
Dims stridesOf(const Dims &dims, char layout)
{
	std::vector<size_t> order(dims.size()); // innermost last
	std::iota(order.begin(), order.end(), size_t{0});
	if (layout == 'l')
		std::rotate(order.begin() + 1, order.begin() + 2, order.end());
	if (layout == 't')
		std::swap(order[order.size() - 1], order[order.size() - 2]);
	Dims strides(dims.size());
	int64_t next = 1;
	for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
		strides[*dim] = next;
		next = next * dims[*dim] + (layout == 'g' ? 3 : 0);
	}
	return strides;
}

// ---- parameters of a case

enum class Kind { forward, backwardData, backwardFilter, matmul };
enum class Chain { none, scale, bias, biasRelu, biasTanh, residual, residualBiasRelu, reluBackward };
enum class Pick { any, noTensorCores };

struct Spec {
	Kind kind = Kind::forward;
	int64_t spatial = 2, n = 2, c = 16, k = 24, size = 9, filter = 3;
	int64_t stride = 1, dilation = 1, groups = 1, pad = 1, post = 1;
	const char *layouts = "lll"; // first operand, second operand, result
	bool isFlipped = false;
	float alpha = 1, beta = 0;
	Chain chain = Chain::none;
	int64_t batch = 3, rows = 40, columns = 56, depth = 24; // of matmul
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	Pick pick = Pick::any;
	double scale = 1; // factor of the operands
	int64_t firstUid = 'a';
	bool areUidsExtreme = false;
};

class Problem
{
public:
	explicit Problem(const Spec &spec, uint64_t seed = 1);

	Descriptor graph(cudnnHandle_t handle) const;
	void plan(cudnnHandle_t handle); // keeps it
	void drop() { plan_.reset(); }
	void adopt(Descriptor plan) { plan_ = std::make_unique<Descriptor>(std::move(plan)); }
	cudnnBackendDescriptor_t plan() const { return *plan_; }
	Descriptor pack() const;
	void fill(Descriptor &pack) const;
	cudnnStatus_t call(cudnnHandle_t handle) const { return cudnnBackendExecute(handle, plan(), pack()); }
	void upload();
	void download() { result().array->download(); }
	Tensor &result() { return tensors[chainEnd_]; }
	uint64_t bits() { return result().array->bits(); }
	void check(Line &line);
	void describe(Line &line) const;
	void runOn(DnnSession &session, Line &line);

	Spec spec;
	std::vector<Tensor> tensors; // first, second, the product's result; then the tensors of the chain
	size_t workspaceSize = 0;
	double eta = 0; // error of the last check

private:
	std::vector<double> reference() const;
	std::vector<Descriptor> operations(std::vector<Descriptor> &described) const;
	size_t chainEnd_ = 2;
	std::unique_ptr<Descriptor> plan_;
	std::shared_ptr<Array> workspace_;
	std::vector<float> before_;
};

Problem::Problem(const Spec &of, uint64_t seed) : spec(of)
{
	const size_t filter = spec.kind == Kind::backwardFilter ? 2 : 1;
	const auto add = [&](const Dims &dims, char layout, bool isVirtual = false) {
		const auto i = static_cast<int64_t>(tensors.size());
		if (layout == 'g' && tensors.size() == filter)
			layout = 'c';
		const int64_t uid = !spec.areUidsExtreme ? spec.firstUid + i : i % 2 ? INT64_MAX - i + 1 : INT64_MIN + i;
		Tensor tensor{uid, dims, stridesOf(dims, layout), isVirtual, nullptr};
		if (!isVirtual)
			tensor.array = std::make_shared<Array>(tensor.extent());
		tensors.push_back(tensor);
	};
	const bool isChain = spec.chain != Chain::none;
	Dims result;
	if (spec.kind == Kind::matmul) {
		add({spec.batch, spec.rows, spec.depth}, spec.layouts[0]);
		add({spec.batch, spec.depth, spec.columns}, spec.layouts[1]);
		result = {spec.batch, spec.rows, spec.columns};
	} else {
		const int64_t reach = (spec.filter - 1) * spec.dilation + 1;
		Dims x{spec.n, spec.c}, w{spec.k, spec.c / spec.groups}, y{spec.n, spec.k};
		for (int64_t i = 0; i < spec.spatial; i++) {
			x.push_back(spec.size), w.push_back(spec.filter);
			y.push_back((spec.size + spec.pad + spec.post - reach) / spec.stride + 1);
		}
		add(spec.kind == Kind::backwardData ? y : x, spec.layouts[0]);
		add(spec.kind == Kind::backwardFilter ? y : w, spec.layouts[1]);
		result = spec.kind == Kind::forward ? y : spec.kind == Kind::backwardData ? x : w;
	}
	add(result, spec.layouts[2], isChain);
	Dims one(result.size(), 1), bias = one;
	bias[1] = result[1];
	const char layout = spec.layouts[2];
	switch (spec.chain) { // operand of the chain, its result
	case Chain::none:
		break;
	case Chain::scale:
		add(one, layout), add(result, layout);
		break;
	case Chain::bias:
		add(bias, layout), add(result, layout);
		break;
	case Chain::residual:
	case Chain::reluBackward:
		add(result, layout), add(result, layout);
		break;
	case Chain::residualBiasRelu:
		add(result, layout), add(result, layout, true);
		add(bias, layout), add(result, layout, true), add(result, layout);
		break;
	case Chain::biasRelu:
	case Chain::biasTanh:
		add(bias, layout), add(result, layout, true), add(result, layout);
		break;
	}
	chainEnd_ = tensors.size() - 1;
	Random random(seed);
	for (Tensor &tensor : tensors)
		if (tensor.array)
			tensor.fill(random, &tensor == &tensors[0] || &tensor == &tensors[1] ? spec.scale : 1);
	for (size_t i = 0; i < this->result().array->size(); i++)
		before_.push_back((*this->result().array)[i]);
}

void Problem::upload()
{
	for (size_t i = 0; i < before_.size(); i++)
		(*result().array)[i] = before_[i];
	for (Tensor &tensor : tensors)
		if (tensor.array)
			tensor.array->upload();
}

// The operands of the graph: everything from which they are made may be destroyed before the graph.
std::vector<Descriptor> Problem::operations(std::vector<Descriptor> &described) const
{
	const auto describe = [&](const Tensor &tensor) {
		Descriptor made(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
		made.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
		made.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, tensor.dims);
		made.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, tensor.strides);
		made.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, tensor.uid);
		made.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, int64_t{16});
		if (tensor.isVirtual)
			made.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
		made.finalize();
		return made;
	};
	for (const Tensor &tensor : tensors)
		described.push_back(describe(tensor));
	std::vector<Descriptor> made;
	if (spec.kind == Kind::matmul) {
		Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
		how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{spec.compute}).finalize();
		Descriptor product(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
		product.link(CUDNN_ATTR_OPERATION_MATMUL_ADESC, described[0]);
		product.link(CUDNN_ATTR_OPERATION_MATMUL_BDESC, described[1]);
		product.link(CUDNN_ATTR_OPERATION_MATMUL_CDESC, described[2]);
		product.link(CUDNN_ATTR_OPERATION_MATMUL_DESC, how).finalize();
		made.push_back(std::move(product));
	} else {
		Descriptor how(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
		const auto each = static_cast<size_t>(spec.spatial);
		how.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, spec.spatial);
		how.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{spec.compute});
		how.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
		        std::vector{spec.isFlipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION});
		how.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Dims(each, spec.pad));
		how.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Dims(each, spec.post));
		how.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Dims(each, spec.stride));
		how.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Dims(each, spec.dilation)).finalize();
		struct Names {
			cudnnBackendDescriptorType_t type;
			cudnnBackendAttributeName_t how, first, second, result, alpha, beta;
		};
#define NAMES(TYPE, PREFIX, FIRST, SECOND, RESULT)                                                                     \
	{                                                                                                                  \
		CUDNN_BACKEND_OPERATION_CONVOLUTION_##TYPE##_DESCRIPTOR,                                                       \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_CONV_DESC,                                                     \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##FIRST, CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##SECOND, \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##RESULT, CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_ALPHA,   \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_BETA                                                           \
	}
		constexpr Names names[] = {NAMES(FORWARD, FORWARD, X, W, Y), NAMES(BACKWARD_DATA, BWD_DATA, DY, W, DX),
		                           NAMES(BACKWARD_FILTER, BWD_FILTER, X, DY, DW)};
		const Names &name = names[static_cast<int>(spec.kind)];
		Descriptor operation(name.type);
		operation.link(name.how, how).link(name.first, described[0]).link(name.second, described[1]);
		operation.link(name.result, described[2]);
		operation.set(name.alpha, CUDNN_TYPE_FLOAT, std::vector{spec.alpha}); // engines read doubles as floats
		operation.set(name.beta, CUDNN_TYPE_FLOAT, std::vector{spec.beta}).finalize();
		made.push_back(std::move(operation));
	}
	const auto elementwise = [&](cudnnPointwiseMode_t mode, size_t x, size_t b, size_t y) {
		Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
		how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
		how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT}).finalize();
		Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
		operation.link(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
		const bool isBackward = mode == CUDNN_POINTWISE_RELU_BWD; // x is the gradient, b the input
		operation.link(isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DYDESC : CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
		               described[x]);
		if (b)
			operation.link(isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_XDESC : CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
			               described[b]);
		operation
		    .link(isBackward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC,
		          described[y])
		    .finalize();
		made.push_back(std::move(operation));
	};
	if (spec.chain != Chain::none)
		elementwise(spec.chain == Chain::scale          ? CUDNN_POINTWISE_MUL
		            : spec.chain == Chain::reluBackward ? CUDNN_POINTWISE_RELU_BWD
		                                                : CUDNN_POINTWISE_ADD,
		            2, 3, 4);
	if (spec.chain == Chain::biasRelu || spec.chain == Chain::biasTanh)
		elementwise(spec.chain == Chain::biasTanh ? CUDNN_POINTWISE_TANH_FWD : CUDNN_POINTWISE_RELU_FWD, 4, 0, 5);
	if (spec.chain == Chain::residualBiasRelu) {
		elementwise(CUDNN_POINTWISE_ADD, 4, 5, 6);
		elementwise(CUDNN_POINTWISE_RELU_FWD, 6, 0, 7);
	}
	return made;
}

Descriptor Problem::graph(cudnnHandle_t handle) const
{
	std::vector<Descriptor> described;
	const std::vector<Descriptor> made = operations(described);
	Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
	          std::vector<cudnnBackendDescriptor_t>(made.begin(), made.end()));
	graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle}).finalize();
	return graph;
}

bool hasNote(cudnnBackendDescriptor_t configuration, cudnnBackendNumericalNote_t note)
{
	Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	cudnnBackendDescriptor_t pointer = engine;
	cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	int64_t count = 0;
	DNN(cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
	                             &pointer));
	DNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
	                             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
	return std::find(notes, notes + count, note) != notes + count;
}

void Problem::plan(cudnnHandle_t handle)
{
	const Descriptor operations = graph(handle);
	for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_INSTANT, CUDNN_HEUR_MODE_FALLBACK}) {
		Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
		heuristics.link(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, operations);
		heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode}).finalize();
		int64_t count = 0;
		DNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0,
		                             &count, nullptr));
		std::vector<Descriptor> found;
		for (int64_t i = 0; i < count; i++)
			found.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
		std::vector<cudnnBackendDescriptor_t> pointers(found.begin(), found.end());
		DNN(cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count,
		                             &count, pointers.data()));
		for (int64_t i = 0; i < count; i++) {
			const cudnnBackendDescriptor_t configuration = pointers[static_cast<size_t>(i)];
			if (hasNote(configuration, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) || // bits are compared
			    (spec.pick == Pick::noTensorCores && hasNote(configuration, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)))
				continue;
			Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
			plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
			plan.link(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
			if (cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS)
				continue;
			adopt(std::move(plan));
			int64_t bytes = 0;
			DNN(cudnnBackendGetAttribute(*plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
			                             &bytes));
			workspaceSize = static_cast<size_t>(bytes);
			workspace_ = std::make_shared<Array>(workspaceSize / sizeof(float) + 1);
			return;
		}
	}
	fail("plan", "no engine");
}

void Problem::fill(Descriptor &pack) const
{
	Dims uids;
	std::vector<void *> pointers;
	for (const Tensor &tensor : tensors)
		if (tensor.array)
			uids.push_back(tensor.uid), pointers.push_back(tensor.array->data());
	pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
	pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, uids);
	pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
	         std::vector<void *>{workspace_ ? workspace_->data() : nullptr});
	pack.finalize();
}

Descriptor Problem::pack() const
{
	Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	fill(pack);
	return pack;
}

// The product alone, at the positions of its elements.
std::vector<double> Problem::reference() const
{
	const Tensor &first = tensors[0], &second = tensors[1], &product = tensors[2];
	const Array &a = *first.array, &b = *second.array;
	std::vector<double> sums(product.extent());
	const auto add = [&](int64_t at, int64_t inA, int64_t inB) {
		sums[static_cast<size_t>(at)] += static_cast<double>(a[static_cast<size_t>(inA)]) * b[static_cast<size_t>(inB)];
	};
	const auto placeOf = [](const Tensor &tensor) { return Place{tensor.dims, tensor.strides}; };
	const Sliding how{spec.stride, spec.dilation, spec.pad, spec.isFlipped};
	switch (spec.kind) {
	case Kind::matmul:
		product.each([&](const Dims &i) {
			for (int64_t l = 0; l < spec.depth; l++)
				add(product.offset(i), first.offset({i[0], i[1], l}), second.offset({i[0], l, i[2]}));
		});
		break;
	case Kind::forward:
		eachProduct(placeOf(first), placeOf(second), placeOf(product), how,
		            [&](int64_t x, int64_t w, int64_t y) { add(y, x, w); });
		break;
	case Kind::backwardData:
		eachProduct(placeOf(product), placeOf(second), placeOf(first), how,
		            [&](int64_t x, int64_t w, int64_t y) { add(x, y, w); });
		break;
	case Kind::backwardFilter:
		eachProduct(placeOf(first), placeOf(product), placeOf(second), how,
		            [&](int64_t x, int64_t w, int64_t y) { add(w, x, y); });
		break;
	}
	return sums;
}

void Problem::check(Line &line)
{
	download();
	Tensor &out = result();
	Tensor before = out;
	before.array = std::make_shared<Array>(before_.size());
	for (size_t i = 0; i < before_.size(); i++)
		(*before.array)[i] = before_[i];
	double error = 0, norm = 0;
	long long nonfinite = 0;
	std::vector<bool> written(out.array->size());
	const std::vector<double> products = reference();
	out.each([&](const Dims &index) {
		written[static_cast<size_t>(out.offset(index))] = true;
		const double product = spec.alpha * products[static_cast<size_t>(tensors[2].offset(index))];
		const double operand = spec.chain == Chain::none ? spec.beta * before.at(index) : tensors[3].at(index);
		double expected = spec.chain == Chain::scale          ? product * operand
		                  : spec.chain == Chain::reluBackward ? product
		                                                      : product + operand;
		if (spec.chain == Chain::residualBiasRelu)
			expected += tensors[5].at(index);
		const bool hasRelu = spec.chain == Chain::biasRelu || spec.chain == Chain::residualBiasRelu;
		const bool isCut = spec.chain == Chain::reluBackward ? operand <= 0 : hasRelu && expected < 0;
		expected = isCut ? 0 : spec.chain == Chain::biasTanh ? std::tanh(expected) : expected;
		const double got = out.at(index);
		nonfinite += !std::isfinite(got);
		error += std::pow(got - expected, 2);
		norm += isCut ? 0 : std::pow(spec.chain == Chain::scale ? product * operand : product, 2);
	});
	eta = std::sqrt(error / norm);
	line.put("eta", eta).put("nonfinite", nonfinite);
	line.require(out.array->isWholeOutside(written), "memory outside of the result changed");
}

void Problem::describe(Line &line) const
{
	line.put("entry", std::string("cudnnBackendExecute"));
	const Tensor &w = tensors[spec.kind == Kind::backwardFilter ? 2 : 1];
	if (spec.kind == Kind::matmul) {
		line.put("m", static_cast<long long>(spec.rows)).put("n", static_cast<long long>(spec.columns));
		line.put("k", static_cast<long long>(spec.depth)).put("batch", static_cast<long long>(spec.batch));
		return;
	}
	const auto points = [](const Tensor &tensor) {
		long long count = tensor.dims[0];
		for (size_t i = 2; i < tensor.dims.size(); i++)
			count *= tensor.dims[i];
		return count;
	};
	const long long filters = spec.k / spec.groups, channels = spec.c / spec.groups;
	const long long taps = points(w) / w.dims[0];
	const Tensor &y = tensors[spec.kind == Kind::forward ? 2 : spec.kind == Kind::backwardData ? 0 : 1];
	const long long sizes[3][3] = {{points(y), filters, channels * taps},
	                               {points(tensors[2]), channels, filters * taps},
	                               {filters, channels * taps, points(y)}};
	const auto &size = sizes[static_cast<int>(spec.kind)];
	line.put("m", size[0]).put("n", size[1]).put("k", size[2]).put("batch", static_cast<long long>(spec.groups));
}

void Problem::runOn(DnnSession &session, Line &line)
{
	plan(session.handle);
	upload();
	line.put("status", static_cast<int>(call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	check(line);
	line.bits("bits", bits());
	describe(line);
}

void one(const Spec &spec, Line &line)
{
	DnnSession session;
	Problem(spec).runOn(session, line);
}

uint64_t eagerBits(DnnSession &session, Problem &problem, Line &line)
{
	problem.upload();
	line.require(problem.call(session.handle) == CUDNN_STATUS_SUCCESS, "a call failed");
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	return problem.bits();
}

// ---- in graphs

class Capture
{
public:
	Capture(cudaStream_t stream, const std::function<void()> &enqueue)
	{
		cudaGraph_t graph = nullptr;
		CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
		enqueue();
		CHECK(cudaStreamEndCapture(stream, &graph));
		CHECK(cudaGraphInstantiate(&executable_, graph, 0));
		CHECK(cudaGraphDestroy(graph));
	}
	~Capture() { CHECK(cudaGraphExecDestroy(executable_)); }
	Capture(const Capture &) = delete;
	void replay(cudaStream_t stream) const
	{
		CHECK(cudaGraphLaunch(executable_, stream));
		CHECK(cudaStreamSynchronize(stream));
	}

private:
	cudaGraphExec_t executable_ = nullptr;
};

// Captured after an eager call, or as the first call; replayed with other operands, a thousand times as large.
void captured(const Spec &spec, bool isFirst, Line &line)
{
	DnnSession session;
	Problem problem(spec);
	problem.plan(session.handle);
	const uint64_t eager = isFirst ? 0 : eagerBits(session, problem, line);
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	const Capture graph(session.stream, [&] {
		line.require(problem.call(session.handle) == CUDNN_STATUS_SUCCESS, "a captured call failed");
	});
	graph.replay(session.stream);
	problem.check(line);
	line.bits("bits", problem.bits());
	line.require(isFirst || problem.bits() == eager, "a replay has other bits than the eager call");
	for (size_t i = 0; i < 2; i++)
		problem.tensors[i].each([&](const Dims &index) { problem.tensors[i].at(index) *= 1000; });
	problem.upload();
	graph.replay(session.stream);
	Line again(line.name);
	problem.check(again);
	line.require(again.isOk(), "wrong result of a replay with other operands");
	problem.describe(line);
}

// ---- lifetimes

std::vector<char> textOf(const Problem &problem)
{
	int64_t length = 0;
	DNN(cudnnBackendGetAttribute(problem.plan(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0,
	                             &length, nullptr));
	std::vector<char> text(static_cast<size_t>(length));
	DNN(cudnnBackendGetAttribute(problem.plan(), CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length,
	                             &length, text.data()));
	return text;
}

Descriptor planOf(const std::vector<char> &text, cudnnHandle_t handle)
{
	Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
	plan.set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text).finalize();
	return plan;
}

// A plan is destroyed, and one of another graph is made, most likely at the same address. The same with packs.
void reused(Line &line)
{
	DnnSession session;
	int same = 0;
	std::unique_ptr<Problem> before;
	for (int64_t k : {8, 40, 24, 16, 32, 48, 56, 64}) {
		auto problem = std::make_unique<Problem>(Spec{.k = k});
		problem->plan(session.handle);
		const std::vector<char> text = textOf(*problem);
		problem->drop();
		const void *const place = before ? before->plan() : nullptr;
		if (before)
			before->drop();
		problem->adopt(planOf(text, session.handle));
		same += problem->plan() == place;
		problem->upload();
		line.require(problem->call(session.handle) == CUDNN_STATUS_SUCCESS, "a call failed");
		CHECK(cudaStreamSynchronize(session.stream));
		Line checked(line.name);
		problem->check(checked);
		line.put((std::string("eta") + std::to_string(k)).c_str(), problem->eta);
		before = std::move(problem);
	}
	line.put("same", same);
}

size_t resident()
{
	size_t total = 0, pages = 0;
	std::ifstream("/proc/self/statm") >> total >> pages;
	return pages * 4096;
}

// A plan and a variant pack for each call.
void cycles(Line &line)
{
	DnnSession session;
	Problem problem({.n = 1, .c = 8, .k = 8, .size = 4});
	problem.plan(session.handle);
	problem.upload();
	constexpr int count = 10000;
	size_t start = 0;
	for (int i = 0; i < count; i++) {
		if (i == count / 10)
			start = resident();
		if (i % 10 == 0)
			problem.plan(session.handle);
		line.require(problem.call(session.handle) == CUDNN_STATUS_SUCCESS, "a call failed");
		if (i % 100 == 0)
			CHECK(cudaStreamSynchronize(session.stream));
	}
	CHECK(cudaStreamSynchronize(session.stream));
	const size_t end = resident();
	line.put("calls", count).put("grown", static_cast<long long>(end > start ? end - start : 0));
	problem.check(line);
	problem.describe(line);
}

void threads(Line &line)
{
	constexpr int threadCount = 4;
	std::vector<std::thread> running;
	std::vector<int> wrong(threadCount, 0);
	for (int t = 0; t < threadCount; t++)
		running.emplace_back([t, &wrong, &line] {
			DnnSession session;
			Line mine(line.name);
			for (int64_t k : {8, 16, 24}) {
				Problem problem({.kind = static_cast<Kind>(t), .k = k}, static_cast<uint64_t>(t + 1));
				problem.plan(session.handle);
				const uint64_t first = eagerBits(session, problem, mine);
				for (int i = 0; i < 8; i++)
					wrong[static_cast<size_t>(t)] += eagerBits(session, problem, mine) != first;
				problem.check(mine);
			}
			wrong[static_cast<size_t>(t)] += !mine.isOk();
		});
	for (std::thread &thread : running)
		thread.join();
	for (int count : wrong)
		line.require(count == 0, "a thread's results differ");
}

// A plan made from the description of another one.
void deserialized(Line &line)
{
	DnnSession session;
	Problem problem({});
	problem.plan(session.handle);
	problem.adopt(planOf(textOf(problem), session.handle));
	problem.upload();
	line.put("status", static_cast<int>(problem.call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.check(line);
	problem.describe(line);
}

// Made by a function that was looked up without interception.
void unseen(Line &line)
{
	void *const library = dlopen("libcudnn.so.9", RTLD_NOW);
	const auto create =
	    reinterpret_cast<decltype(&cudnnBackendCreateDescriptor)>(dlsym(library, "cudnnBackendCreateDescriptor"));
	DnnSession session;
	Problem problem({});
	problem.plan(session.handle);
	problem.upload();
	Descriptor pack = problem.pack();
	cudnnBackendDescriptor_t hidden = nullptr;
	DNN(create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &hidden));
	Descriptor other(hidden);
	problem.fill(other);
	line.put("status", static_cast<int>(cudnnBackendExecute(session.handle, problem.plan(), other)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.check(line);
	problem.describe(line);
}

// autoamp refuses the same calls as the library.
void refused(Line &line)
{
	DnnSession session;
	Problem problem({});
	problem.plan(session.handle);
	problem.upload();
	std::string statuses;
	const auto tell = [&](cudnnStatus_t status) { statuses += (statuses.empty() ? "" : ",") + std::to_string(status); };
	Descriptor open(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR), plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	const Descriptor whole = problem.pack();
	tell(cudnnBackendExecute(session.handle, problem.plan(), open));
	tell(cudnnBackendExecute(session.handle, plan, whole));
	tell(cudnnBackendExecute(session.handle, problem.plan(), nullptr));
	tell(cudnnBackendExecute(session.handle, nullptr, whole));
	tell(cudnnBackendExecute(nullptr, problem.plan(), whole));
	open.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, Dims{'a', 'b'});
	open.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
	         std::vector<void *>{problem.tensors[0].array->data(), problem.tensors[1].array->data()});
	open.finalize();
	tell(cudnnBackendExecute(session.handle, problem.plan(), open));
	tell(cudnnBackendSetAttribute(open, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &session.handle));
	tell(cudnnBackendFinalize(open));
	tell(cudnnBackendDestroyDescriptor(nullptr));
	CHECK(cudaStreamSynchronize(session.stream));
	line.put("statuses", statuses);
}

// A pack whose pointers change from call to call is read at each call.
void moved(Line &line)
{
	DnnSession session;
	Problem problem({});
	problem.plan(session.handle);
	const uint64_t first = eagerBits(session, problem, line);
	for (Tensor &tensor : problem.tensors)
		tensor.array->move();
	line.require(eagerBits(session, problem, line) == first, "other bits elsewhere");
}

// Two calls, for which the functions in the environment variable COUNTED are counted; nothing else is called between
// the counts.
void faulted(const Spec &spec, Line &line)
{
	auto *const ask = reinterpret_cast<unsigned long (*)(const char *)>(dlsym(RTLD_DEFAULT, "autoamp_emulated_calls"));
	std::vector<std::string> names;
	const char *const listed = std::getenv("COUNTED");
	std::istringstream list(listed ? listed : "");
	for (std::string name; ask && std::getline(list, name, ',');)
		names.push_back(name);
	DnnSession session;
	Problem problem(spec);
	problem.plan(session.handle);
	const Descriptor pack = problem.pack();
	for (const char *when : {"first", "second"}) {
		problem.upload();
		std::vector<unsigned long> before;
		for (const std::string &name : names)
			before.push_back(ask(name.c_str()));
		const cudnnStatus_t status = cudnnBackendExecute(session.handle, problem.plan(), pack);
		for (size_t i = 0; i < names.size(); i++)
			if (const unsigned long after = ask(names[i].c_str()); after > before[i])
				line.put((std::string(when) + "." + names[i]).c_str(),
				         std::to_string(before[i]) + "-" + std::to_string(after));
		CHECK(cudaStreamSynchronize(session.stream));
		CHECK(cudaGetLastError());
		line.require(status == CUDNN_STATUS_SUCCESS, "a call failed");
		Line checked(line.name);
		problem.check(checked);
		line.require(checked.isOk(), "wrong result");
		line.bits((std::string(when) + "_bits").c_str(), problem.bits());
	}
}

// The same pack again, like programs that keep theirs.
void hotPath(const Spec &spec, Line &line)
{
	DnnSession session;
	Problem other({.n = 1}), problem(spec);
	for (Problem *each : {&other, &problem})
		each->plan(session.handle);
	line.require(other.call(session.handle) == 0, "a call failed");
	const Descriptor pack = problem.pack();
	countTurns(line, 1, [&] {
		line.require(cudnnBackendExecute(session.handle, problem.plan(), pack) == 0, "a call failed");
		CHECK(cudaStreamSynchronize(session.stream));
	});
}

std::vector<Case> cases()
{
	std::vector<Case> all;
	const auto add = [&all](const std::string &name, const Spec &spec) {
		all.push_back({name, [spec](Line &line) { one(spec, line); }});
	};
	const std::pair<const char *, Kind> kinds[] = {
	    {"forward", Kind::forward}, {"data", Kind::backwardData}, {"filter", Kind::backwardFilter}};
	int64_t n = 0;
	for (const auto &[kind, direction] : kinds) {
		const std::string name = kind;
		n = 2;
		// No two are identical, so that each has its own row in the report.
		const auto variant = [&](const char *what, Spec spec) {
			spec.kind = direction;
			spec.n = ++n;
			add(name + "." + what, spec);
		};
		for (const char *layouts : {"lll", "ccc", "ggg", "clc", "llc"})
			variant(layouts, {.layouts = layouts});
		variant("stride", {.stride = 2});
		variant("dilation", {.dilation = 2, .pad = 2, .post = 2, .layouts = "ccc"});
		variant("uneven", {.pad = 0, .post = 2});
		variant("flipped", {.layouts = "ccc", .isFlipped = true});
		variant("odd", {.c = 3, .k = 13, .layouts = "ccc"});
		variant("point", {.filter = 1, .pad = 0, .post = 0});
		variant("line", {.spatial = 1, .layouts = "ccc"});
		variant("cube", {.spatial = 3, .size = 5});
		variant("alpha", {.layouts = "ccc", .alpha = -1.5, .beta = 0.5});
		variant("large", {.scale = 1e3});
		variant("small", {.scale = 3e-5});
		variant("groups", {.groups = 2});
		variant("scale", {.chain = Chain::scale});
		variant("fma", {.pick = Pick::noTensorCores});
	}
	n = 30;
	add("forward.bias", {.n = ++n, .chain = Chain::bias});
	add("forward.residual", {.n = ++n, .chain = Chain::residual});
	add("forward.biasRelu", {.n = ++n, .chain = Chain::biasRelu});
	add("forward.residualBiasRelu", {.n = ++n, .chain = Chain::residualBiasRelu});
	add("forward.residualPlanes", {.n = ++n, .layouts = "ccc", .chain = Chain::residualBiasRelu});
	add("forward.reluPlanes", {.n = ++n, .layouts = "ccc", .chain = Chain::biasRelu});
	// The vendor's tanh of a value beyond 44 is NaN.
	add("tanh_planes", {.n = ++n, .layouts = "ccc", .chain = Chain::biasTanh, .scale = 0.3});
	add("backward_relu", {.kind = Kind::backwardData, .n = ++n, .chain = Chain::reluBackward});
	add("forward.planes", {.n = ++n, .layouts = "ccc", .chain = Chain::bias});
	add("forward.bias_is_0", {.n = ++n, .chain = Chain::bias, .firstUid = -3});
	add("forward.uids_are_extreme", {.n = ++n, .chain = Chain::bias, .areUidsExtreme = true});
	const std::pair<const char *, Spec> odd[] = {{"forward", {.n = ++n, .c = 3, .k = 13}},
	                                             {"data_k", {.kind = Kind::backwardData, .n = ++n, .k = 13}},
	                                             {"data_c", {.kind = Kind::backwardData, .n = ++n, .c = 3}},
	                                             {"filter", {.kind = Kind::backwardFilter, .n = ++n, .k = 13}}};
	add("auto.groups",
	    {.kind = Kind::backwardData, .n = 4, .c = 64, .k = 64, .groups = 2, .pick = Pick::noTensorCores});
	for (auto [name, spec] : odd) {
		spec.chain = Chain::scale;
		add(std::string("odd_chain.") + name, spec);
	}
	n = 40;
	for (const char *layouts : {"rrr", "trr", "rtr", "ttr", "rrt"})
		add(std::string("matmul.") + layouts, {.kind = Kind::matmul, .layouts = layouts, .rows = ++n});
	add("matmul.odd", {.kind = Kind::matmul, .layouts = "rrr", .batch = 1, .rows = 37, .columns = 33, .depth = 23});
	add("matmul.large", {.kind = Kind::matmul, .layouts = "rrr", .rows = ++n, .scale = 1e3});
	add("matmul.scale", {.kind = Kind::matmul, .layouts = "rtr", .chain = Chain::scale, .rows = ++n});
	add("matmul.bias", {.kind = Kind::matmul, .layouts = "rrr", .chain = Chain::bias, .rows = ++n});
	add("matmul.residual", {.kind = Kind::matmul, .layouts = "trr", .chain = Chain::residual, .rows = ++n});
	add("matmul.biasRelu", {.kind = Kind::matmul, .layouts = "rrr", .chain = Chain::biasRelu, .rows = ++n});
	add("matmul.second_is_0",
	    {.kind = Kind::matmul, .layouts = "rrr", .chain = Chain::bias, .rows = ++n, .firstUid = -1});
	for (const auto &[kind, direction] : kinds)
		all.push_back({std::string("captured.") + kind, [direction = direction](Line &line) {
			               captured({.kind = direction, .layouts = "ccc"}, false, line);
		               }});
	all.push_back(
	    {"captured.matmul", [](Line &line) { captured({.kind = Kind::matmul, .layouts = "rrr"}, false, line); }});
	all.push_back({"captured.first", [](Line &line) { captured({}, true, line); }});
	const std::pair<const char *, Spec> faults[] = {{"convolution", {.layouts = "ccc", .pick = Pick::noTensorCores}},
	                                                {"chain", {.chain = Chain::scale, .pick = Pick::noTensorCores}}};
	for (const auto &[name, spec] : faults)
		all.push_back({std::string("faulted.") + name, [spec = spec](Line &line) { faulted(spec, line); }});
	const std::pair<const char *, Spec> hot[] = {{"convolution", {}},
	                                             {"chain", {.chain = Chain::biasRelu}},
	                                             {"matmul", {.kind = Kind::matmul, .layouts = "rrr"}}};
	for (const auto &[name, spec] : hot)
		all.push_back({std::string("hot_path.") + name, [spec = spec](Line &line) { hotPath(spec, line); }});
	all.push_back({"reused", reused});
	all.push_back({"cycles", cycles});
	all.push_back({"threads", threads});
	all.push_back({"deserialized", deserialized});
	all.push_back({"unseen", unseen});
	all.push_back({"refused", refused});
	all.push_back({"moved", moved});
	return all;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, cases());
}
