// Legacy cuDNN convolutions in all directions, layouts and sizes, checked on the host against fp64. One case per line.
// It does not depend on autoamp.
#include "counting.h"
#include "dnn.h"
#include "products.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <thread>

using namespace client;

namespace {

enum class Direction { forward, data, filter, fused };
enum class Layout { nchw, nhwc, gaps };

struct Spec {
	const char *name;
	Direction direction = Direction::forward;
	int spatial = 2;
	int n = 2, c = 16, k = 24, size = 9, filter = 3;
	int stride = 1, dilation = 1, groups = 1, pad = 1;
	bool isFlipped = false;
	Layout layout = Layout::nchw, layoutOfResult = Layout::nchw;
	float alpha = 1, beta = 0;
	bool isRelu = false;
	double magnitude = 1, magnitudeOfSecond = 1;
	bool isNan = false; // initial content of the result
	size_t shift = 0;   // elements of each tensor off a 256-byte boundary
	cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

using Index = std::vector<int64_t>;

struct Tensor {
	std::vector<int> dims, strides;
	Array array;

	static std::vector<int> stridesOf(const std::vector<int> &dims, Layout layout)
	{
		std::vector<int> strides(dims.size()), order(dims.size());
		std::iota(order.begin(), order.end(), 0);
		if (layout == Layout::nhwc)
			std::rotate(order.begin() + 1, order.begin() + 2, order.end());
		int stride = layout == Layout::gaps ? 2 : 1;
		for (size_t i = order.size(); i-- > 0;) {
			strides[order[i]] = stride;
			stride *= dims[order[i]];
			stride += layout == Layout::gaps ? 3 : 0;
		}
		return strides;
	}
	Tensor(std::vector<int> extents, Layout layout, size_t shift)
	    : dims(std::move(extents)), strides(stridesOf(dims, layout)), array(at(last()) + 1, shift)
	{
	}
	Index last() const
	{
		Index index(dims.begin(), dims.end());
		for (int64_t &i : index)
			i--;
		return index;
	}
	size_t at(const Index &index) const
	{
		return static_cast<size_t>(std::inner_product(index.begin(), index.end(), strides.begin(), int64_t{0}));
	}
	template <typename Visit>
	void each(Visit visit) const
	{
		Index index(dims.size());
		for (bool isMore = true; isMore;) {
			visit(index);
			isMore = false;
			for (size_t i = index.size(); i-- > 0 && !isMore;) {
				isMore = ++index[i] < dims[i];
				if (!isMore)
					index[i] = 0;
			}
		}
	}
	void fill(uint64_t seed, double factor)
	{
		Random random(seed);
		each([&](const Index &index) { array[at(index)] = static_cast<float>(factor * random.gaussian()); });
	}
	std::vector<bool> written() const
	{
		std::vector<bool> all(array.size());
		each([&](const Index &index) { all[at(index)] = true; });
		return all;
	}
};

std::vector<int> sizes(int outer, int channels, int spatial, int size)
{
	std::vector<int> all(static_cast<size_t>(2 + spatial), size);
	all[0] = outer, all[1] = channels;
	return all;
}

class Problem
{
public:
	explicit Problem(const Spec &of, uint64_t seed = 1)
	    : spec(of), x(sizes(of.n, of.c, of.spatial, of.size), isResult(Direction::data) ? of.layoutOfResult : of.layout,
	                  of.shift),
	      w(sizes(of.k, of.c / of.groups, of.spatial, of.filter), layoutOfFilter(), of.shift),
	      y(sizes(of.n, of.k, of.spatial, (of.size + 2 * of.pad - of.dilation * (of.filter - 1) - 1) / of.stride + 1),
	        isResult(Direction::forward) || isResult(Direction::fused) ? of.layoutOfResult : of.layout, of.shift),
	      z(y.dims, of.layoutOfResult, of.shift), bias(static_cast<size_t>(of.k)), workspace(0)
	{
		const auto tensor = [](cudnnTensorDescriptor_t &descriptor, const Tensor &of) {
			DNN(cudnnCreateTensorDescriptor(&descriptor));
			DNN(cudnnSetTensorNdDescriptor(descriptor, CUDNN_DATA_FLOAT, static_cast<int>(of.dims.size()),
			                               of.dims.data(), of.strides.data()));
		};
		tensor(xDescriptor, x), tensor(yDescriptor, y);
		zDescriptor = yDescriptor;
		DNN(cudnnCreateFilterDescriptor(&wDescriptor));
		DNN(cudnnSetFilterNdDescriptor(wDescriptor, CUDNN_DATA_FLOAT,
		                               layoutOfFilter() == Layout::nhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
		                               static_cast<int>(w.dims.size()), w.dims.data()));
		const auto all = [&](int value) { return std::vector<int>(static_cast<size_t>(spec.spatial), value); };
		DNN(cudnnCreateConvolutionDescriptor(&convolution));
		DNN(cudnnSetConvolutionNdDescriptor(
		    convolution, spec.spatial, all(spec.pad).data(), all(spec.stride).data(), all(spec.dilation).data(),
		    spec.isFlipped ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
		DNN(cudnnSetConvolutionGroupCount(convolution, spec.groups));
		DNN(cudnnSetConvolutionMathType(convolution, spec.math));
		const std::vector<int> one = sizes(1, spec.k, spec.spatial, 1);
		DNN(cudnnCreateTensorDescriptor(&biasDescriptor));
		DNN(cudnnSetTensorNdDescriptor(biasDescriptor, CUDNN_DATA_FLOAT, static_cast<int>(one.size()), one.data(),
		                               Tensor::stridesOf(one, Layout::nchw).data()));
		DNN(cudnnCreateActivationDescriptor(&activation));
		DNN(cudnnSetActivationDescriptor(activation, spec.isRelu ? CUDNN_ACTIVATION_RELU : CUDNN_ACTIVATION_IDENTITY,
		                                 CUDNN_NOT_PROPAGATE_NAN, 0));
		x.fill(seed * 10 + 1, isResult(Direction::data) ? 1 : spec.magnitude);
		w.fill(seed * 10 + 2, isResult(Direction::filter) ? 1
		                      : isResult(Direction::data) || spec.direction != Direction::filter
		                          ? spec.magnitudeOfSecond
		                          : 1);
		y.fill(seed * 10 + 3, isResult(Direction::data)     ? spec.magnitude
		                      : isResult(Direction::filter) ? spec.magnitudeOfSecond
		                                                    : 1);
		z.fill(seed * 10 + 4, 1);
		Random random(seed * 10 + 5);
		for (size_t i = 0; i < bias.size(); i++)
			bias[i] = static_cast<float>(random.gaussian());
		if (spec.isNan)
			result().each([&](const Index &index) { result().array[result().at(index)] = NAN; });
		before_.resize(result().array.size());
		for (size_t i = 0; i < before_.size(); i++)
			before_[i] = result().array[i];
	}
	~Problem()
	{
		cudnnDestroyTensorDescriptor(xDescriptor), cudnnDestroyTensorDescriptor(yDescriptor);
		cudnnDestroyTensorDescriptor(biasDescriptor), cudnnDestroyFilterDescriptor(wDescriptor);
		cudnnDestroyConvolutionDescriptor(convolution), cudnnDestroyActivationDescriptor(activation);
	}
	Problem(const Problem &) = delete;

	Tensor &result() { return isResult(Direction::data) ? x : isResult(Direction::filter) ? w : y; }
	void upload()
	{
		for (size_t i = 0; i < before_.size(); i++)
			result().array[i] = before_[i];
		for (const Array *array : {&x.array, &w.array, &y.array, &z.array, &bias})
			array->upload();
		CHECK(cudaDeviceSynchronize());
	}
	// In each direction the deterministic algorithm that supports the most.
	static constexpr int usual = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
	static_assert(usual == static_cast<int>(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1) &&
	              usual == static_cast<int>(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1));
	int queryWorkspace(const DnnSession &dnn, int algorithm, size_t &bytes) const
	{
		bytes = 0;
		switch (spec.direction) {
		case Direction::data:
			return cudnnGetConvolutionBackwardDataWorkspaceSize(
			    dnn.handle, wDescriptor, yDescriptor, convolution, xDescriptor,
			    static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), &bytes);
		case Direction::filter:
			return cudnnGetConvolutionBackwardFilterWorkspaceSize(
			    dnn.handle, xDescriptor, yDescriptor, convolution, wDescriptor,
			    static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), &bytes);
		default:
			return cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, xDescriptor, wDescriptor, convolution,
			                                               yDescriptor,
			                                               static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), &bytes);
		}
	}
	// Memory for the usual algorithm.
	void prepare(const DnnSession &dnn)
	{
		size_t bytes = 0;
		if (!isPrepared && queryWorkspace(dnn, usual, bytes) == 0 && bytes)
			workspace = Array(bytes / sizeof(float) + 1);
		isPrepared = true;
	}
	int call(const DnnSession &dnn)
	{
		prepare(dnn);
		return call(dnn, usual);
	}
	int call(const DnnSession &dnn, int one) const
	{
		const float *const alpha = &spec.alpha, *const beta = &spec.beta;
		float *const xs = x.array.data(), *const ws = w.array.data(), *const ys = y.array.data();
		const size_t bytes = workspace.size() * sizeof(float);
		void *const memory = bytes ? workspace.data() : nullptr;
		switch (spec.direction) {
		case Direction::forward:
			return cudnnConvolutionForward(dnn.handle, alpha, xDescriptor, xs, wDescriptor, ws, convolution,
			                               static_cast<cudnnConvolutionFwdAlgo_t>(one), memory, bytes, beta,
			                               yDescriptor, ys);
		case Direction::data:
			return cudnnConvolutionBackwardData(dnn.handle, alpha, wDescriptor, ws, yDescriptor, ys, convolution,
			                                    static_cast<cudnnConvolutionBwdDataAlgo_t>(one), memory, bytes, beta,
			                                    xDescriptor, xs);
		case Direction::filter:
			return cudnnConvolutionBackwardFilter(dnn.handle, alpha, xDescriptor, xs, yDescriptor, ys, convolution,
			                                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(one), memory, bytes,
			                                      beta, wDescriptor, ws);
		case Direction::fused:
			break;
		}
		return cudnnConvolutionBiasActivationForward(dnn.handle, alpha, xDescriptor, xs, wDescriptor, ws, convolution,
		                                             static_cast<cudnnConvolutionFwdAlgo_t>(one), memory, bytes, beta,
		                                             zDescriptor, z.array.data(), biasDescriptor, bias.data(),
		                                             activation, yDescriptor, isInPlace ? xs : ys);
	}
	void download() { result().array.download(); }

	bool hasChanged()
	{
		for (size_t i = 0; i < before_.size(); i++)
			if (std::memcmp(&result().array[i], &before_[i], sizeof before_[i]) != 0)
				return true;
		return false;
	}

	// The result in fp64, and the convolution's part of it.
	std::vector<double> expected() const
	{
		std::vector<double> sums(const_cast<Problem *>(this)->result().array.size());
		const auto placeOf = [](const Tensor &tensor) {
			return Place{{tensor.dims.begin(), tensor.dims.end()}, {tensor.strides.begin(), tensor.strides.end()}};
		};
		eachProduct(placeOf(x), placeOf(w), placeOf(y), {spec.stride, spec.dilation, spec.pad, spec.isFlipped},
		            [&](int64_t inX, int64_t inW, int64_t inY) {
			            const auto atX = static_cast<size_t>(inX), atW = static_cast<size_t>(inW),
			                       atY = static_cast<size_t>(inY);
			            if (spec.direction == Direction::data)
				            sums[atX] += static_cast<double>(y.array[atY]) * w.array[atW];
			            else if (spec.direction == Direction::filter)
				            sums[atW] += static_cast<double>(y.array[atY]) * x.array[atX];
			            else
				            sums[atY] += static_cast<double>(x.array[atX]) * w.array[atW];
		            });
		return sums;
	}
	// After download(): the error of the convolution alone, relative to the whole result.
	double compare(Line &line)
	{
		const Tensor &got = result();
		std::vector<float> downloaded(got.array.size());
		for (size_t i = 0; i < downloaded.size(); i++)
			downloaded[i] = got.array[i];
		for (size_t i = 0; i < before_.size(); i++)
			result().array[i] = before_[i]; // the reference reads the operands only
		const std::vector<double> sums = expected();
		double error = 0, all = 0;
		long long nonfinite = 0, count = 0, narrow = 0;
		double lost = 0; // the largest element that became 0
		got.each([&](const Index &index) {
			const size_t at = got.at(index);
			double own = spec.alpha * sums[at], whole = own;
			if (spec.beta != 0)
				whole += spec.beta * (spec.direction == Direction::fused ? z.array[z.at(index)] : before_[at]);
			if (spec.direction == Direction::fused)
				whole += bias[static_cast<size_t>(index[1])];
			if (spec.isRelu && whole < 0)
				own = whole = 0;
			const double off = downloaded[at] - whole;
			nonfinite += !std::isfinite(downloaded[at]);
			uint32_t word;
			std::memcpy(&word, &downloaded[at], sizeof word);
			narrow += (word & 0xffff) == 0; // exact in bfloat16
			if (downloaded[at] == 0)
				lost = std::max(lost, std::abs(whole));
			error += off * off, all += own * own, count++;
		});
		for (size_t i = 0; i < before_.size(); i++)
			result().array[i] = downloaded[i];
		line.put("nonfinite", nonfinite)
		    .put("is_narrow", static_cast<int>(narrow == count))
		    .put("lost", lost / std::sqrt(all / static_cast<double>(count)));
		return std::sqrt(error / all);
	}
	void run(const DnnSession &dnn, Line &line)
	{
		upload();
		const int status = call(dnn);
		CHECK(cudaStreamSynchronize(dnn.stream));
		download();
		line.put("status", status);
		line.require(result().array.isWholeOutside(result().written()), "memory between the strides changed");
		if (status == 0)
			line.put("eta", compare(line));
		line.bits("bits", result().array.bits());
	}

	Spec spec;
	Tensor x, w, y, z;
	Array bias, workspace;
	cudnnTensorDescriptor_t xDescriptor = nullptr, yDescriptor = nullptr, biasDescriptor = nullptr;
	cudnnTensorDescriptor_t zDescriptor = nullptr; // y's own, or a different one
	bool isInPlace = false;                        // x and y share memory
	bool isPrepared = false;
	cudnnFilterDescriptor_t wDescriptor = nullptr;
	cudnnConvolutionDescriptor_t convolution = nullptr;
	cudnnActivationDescriptor_t activation = nullptr;

private:
	bool isResult(Direction direction) const { return spec.direction == direction; }
	Layout layoutOfFilter() const
	{
		const Layout layout = isResult(Direction::filter) ? spec.layoutOfResult : spec.layout;
		return layout == Layout::nhwc ? layout : Layout::nchw; // the other layouts cannot be described
	}
	std::vector<float> before_;
};

constexpr struct {
	const char *name;
	Direction direction;
} directions[] = {{"forward", Direction::forward}, {"data", Direction::data}, {"filter", Direction::filter}};

// Each of them in each direction. `wide.`: has a tensor-core engine with an fp32 result; `narrow.`: only bfloat16 has
// one.
constexpr Spec table[] = {
    {.name = "wide.nchw"},
    {.name = "wide.nhwc", .layout = Layout::nhwc, .layoutOfResult = Layout::nhwc},
    {.name = "wide.nhwc_to_nchw", .layout = Layout::nhwc},
    {.name = "wide.nchw_to_nhwc", .layoutOfResult = Layout::nhwc},
    {.name = "wide.gaps", .layout = Layout::gaps, .layoutOfResult = Layout::gaps},
    {.name = "wide.c3_k5", .c = 3, .k = 5},
    {.name = "wide.1x1", .c = 40, .k = 33, .filter = 1, .pad = 0},
    {.name = "wide.1x1_strided", .n = 1, .size = 28, .filter = 1, .stride = 2, .pad = 0},
    {.name = "wide.dilated", .size = 11, .dilation = 2},
    {.name = "wide.strided", .size = 11, .stride = 2},
    {.name = "wide.5x5_strided", .size = 15, .filter = 5, .stride = 3, .pad = 2},
    {.name = "wide.flipped", .isFlipped = true},
    {.name = "wide.flipped_nhwc", .isFlipped = true, .layout = Layout::nhwc, .layoutOfResult = Layout::nhwc},
    {.name = "wide.scaled", .alpha = -2.5f},
    {.name = "wide.added", .alpha = 0.5f, .beta = 1},
    {.name = "wide.added_nhwc", .layout = Layout::nhwc, .layoutOfResult = Layout::nhwc, .alpha = 2, .beta = -1.5f},
    {.name = "wide.over_nan", .layoutOfResult = Layout::gaps, .isNan = true},
    {.name = "wide.misaligned", .c = 22, .shift = 1},
    {.name = "wide.misaligned_nhwc", .c = 24, .layout = Layout::nhwc, .layoutOfResult = Layout::nhwc, .shift = 1},
    {.name = "wide.3d", .spatial = 3, .c = 8, .k = 9, .size = 5},
    {.name = "wide.3d_nhwc_flipped",
     .spatial = 3,
     .c = 8,
     .k = 8,
     .size = 4,
     .isFlipped = true,
     .layout = Layout::nhwc,
     .layoutOfResult = Layout::nhwc},
    {.name = "wide.3d_nhwc",
     .spatial = 3,
     .c = 8,
     .k = 8,
     .size = 5,
     .layout = Layout::nhwc,
     .layoutOfResult = Layout::nhwc},
    {.name = "wide.large", .magnitude = 1e6, .magnitudeOfSecond = 10},
    {.name = "wide.small", .magnitude = 1e-9, .magnitudeOfSecond = 10},
    {.name = "wide.far_apart", .magnitude = 1e25, .magnitudeOfSecond = 1e-20},
    {.name = "narrow.groups", .groups = 4},
    {.name = "narrow.groups_c3", .c = 6, .k = 9, .groups = 3},
    {.name = "narrow.depthwise", .c = 12, .k = 12, .groups = 12},
    {.name = "narrow.depthwise_added", .c = 12, .k = 24, .stride = 2, .groups = 12, .alpha = 3, .beta = 2},
    {.name = "narrow.depthwise_flipped_nhwc",
     .c = 16,
     .k = 16,
     .groups = 16,
     .isFlipped = true,
     .layout = Layout::nhwc,
     .layoutOfResult = Layout::nhwc},
    {.name = "narrow.strided_dilated", .size = 15, .stride = 3, .dilation = 2, .pad = 2},
    {.name = "narrow.3d_strided", .spatial = 3, .c = 8, .k = 8, .size = 5, .stride = 2},
};

constexpr Spec fused[] = {
    {.name = "fused.identity", .direction = Direction::fused},
    {.name = "fused.relu", .direction = Direction::fused, .isRelu = true},
    {.name = "fused.relu_added_nhwc",
     .direction = Direction::fused,
     .layout = Layout::nhwc,
     .layoutOfResult = Layout::nhwc,
     .alpha = 2,
     .beta = 0.5f,
     .isRelu = true},
};

constexpr struct {
	const char *name;
	cudnnMathType_t type;
} maths[] = {{"default", CUDNN_DEFAULT_MATH},
             {"tensor_op", CUDNN_TENSOR_OP_MATH},
             {"conversion", CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION},
             {"fma", CUDNN_FMA_MATH}};

uint64_t bitsOf(Problem &problem, const DnnSession &dnn, Line &line)
{
	problem.upload();
	line.require(problem.call(dnn) == 0, "a call failed");
	CHECK(cudaStreamSynchronize(dnn.stream));
	problem.download();
	return problem.result().array.bits();
}

// Captured and replayed on other data, which needs another scale.
void capture(Direction direction, Line &line)
{
	DnnSession dnn;
	Problem problem({.name = "", .direction = direction, .c = 17, .beta = 0.5f});
	const uint64_t eager = bitsOf(problem, dnn, line);
	problem.upload();
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(dnn.stream, cudaStreamCaptureModeGlobal));
	line.put("status", problem.call(dnn));
	CHECK(cudaStreamEndCapture(dnn.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (const double factor : {1.0, 1e5, 1e-7, 1.0}) {
		problem.upload();
		Tensor &first = direction == Direction::data ? problem.y : problem.x;
		first.fill(direction == Direction::data ? 13 : 11, factor);
		first.array.upload();
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaGraphLaunch(executable, dnn.stream));
		CHECK(cudaStreamSynchronize(dnn.stream));
		problem.download();
		const uint64_t bits = problem.result().array.bits();
		line.require(bits == eager || factor != 1, "a replay has other bits");
		const double eta = problem.compare(line);
		line.require(eta < 4e-3 || (factor < 1 && eta < 1), "a replay is wrong"); // there beta * y is larger
	}
	CHECK(cudaGraphExecDestroy(executable));
}

// The first convolution of the process is a captured one.
void captureFirst(Line &line)
{
	DnnSession dnn;
	Problem problem({.name = "", .c = 18});
	problem.prepare(dnn);
	problem.upload();
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(dnn.stream, cudaStreamCaptureModeGlobal));
	line.put("status", problem.call(dnn));
	CHECK(cudaStreamEndCapture(dnn.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaGraphLaunch(executable, dnn.stream));
	CHECK(cudaStreamSynchronize(dnn.stream));
	CHECK(cudaGraphExecDestroy(executable));
	problem.download();
	line.put("eta", problem.compare(line));
}

void threads(Line &line)
{
	constexpr int count = 8, turns = 5;
	uint64_t bits[count][turns] = {};
	std::vector<std::thread> all;
	std::vector<Line> lines(count, Line(""));
	for (int t = 0; t < count; t++)
		all.emplace_back([&, t] {
			DnnSession dnn;
			Problem problem({.name = "", .direction = directions[t % 3].direction, .c = 19});
			for (uint64_t &bit : bits[t])
				bit = bitsOf(problem, dnn, lines[static_cast<size_t>(t)]);
		});
	for (std::thread &thread : all)
		thread.join();
	for (int t = 0; t < count; t++) {
		line.require(lines[static_cast<size_t>(t)].isOk(), "a thread's call failed");
		for (const uint64_t bit : bits[t])
			line.require(bit == bits[t % 3][0], "the same convolution has other bits");
	}
}

// Each possible algorithm, without memory and with some: the vendor's results do not depend on earlier calls. Also
// whether the query of the workspace finds the algorithm and whether there is as much memory.
void algorithms(Direction direction, Line &line)
{
	DnnSession dnn;
	std::string statuses, queries;
	for (const int stride : {1, 3}) // the second is not supported by FFT and Winograd
		for (const bool hasMemory : {false, true}) {
			Problem problem({.name = "",
			                 .direction = direction,
			                 .c = 23,
			                 .size = 15,
			                 .stride = stride,
			                 .isRelu = direction == Direction::fused});
			problem.workspace = Array(hasMemory ? size_t{1} << 20 : 0);
			for (int algorithm = 0; algorithm < 9; algorithm++) {
				problem.upload();
				const int status = problem.call(dnn, algorithm);
				CHECK(cudaStreamSynchronize(dnn.stream));
				problem.download();
				statuses += std::to_string(status) + ",";
				size_t bytes = 0;
				const int query = problem.queryWorkspace(dnn, algorithm, bytes);
				const bool isLarge = bytes > problem.workspace.size() * sizeof(float);
				queries += (query || !isLarge ? std::to_string(query) : "large") + ",";
				line.require(status == 0 || !problem.hasChanged(), "a refused call has written");
				Line ignored("");
				line.require(status != 0 || problem.compare(ignored) < 6e-3, "a result is wrong");
			}
		}
	line.put("statuses", statuses).put("query_statuses", queries);
}

// Calls that the vendor refuses only in fused form.
void refused(Line &line)
{
	DnnSession dnn;
	const auto one = [&](const char *name, auto change) {
		Problem problem({.name = "", .direction = Direction::fused, .c = 24});
		const cudnnActivationDescriptor_t activation = problem.activation;
		problem.upload();
		change(problem);
		line.put(name, problem.call(dnn));
		CHECK(cudaStreamSynchronize(dnn.stream));
		problem.activation = activation;
		problem.download();
		line.require(!problem.hasChanged(), "a refused call has written");
	};
	one("no_activation", [](Problem &problem) { problem.activation = nullptr; });
	one("other_z", [](Problem &problem) { problem.zDescriptor = problem.biasDescriptor; });
	one("in_place", [](Problem &problem) { problem.isInPlace = true; });
}

void hotPath(Direction direction, Line &line)
{
	DnnSession dnn;
	Problem other({.name = "", .c = 8}), problem({.name = "", .direction = direction, .c = 21});
	line.require(other.call(dnn) == 0, "a call failed");
	countTurns(line, 1, [&] {
		line.require(problem.call(dnn) == 0, "a call failed");
		CHECK(cudaStreamSynchronize(dnn.stream));
	});
}

long residentKilobytes()
{
	FILE *const file = std::fopen("/proc/self/statm", "r");
	long pages = 0, resident = 0;
	if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	std::fclose(file);
	return resident * 4;
}

// Descriptors are made and destroyed all the time, as programs do.
void memory(Line &line)
{
	DnnSession dnn;
	const auto some = [&](int times) {
		for (int i = 0; i < times; i++) {
			Problem problem({.name = "", .direction = directions[i % 3].direction, .n = 1, .c = 8, .k = 8, .size = 4});
			line.require(problem.call(dnn) == 0, "a call failed");
			CHECK(cudaStreamSynchronize(dnn.stream));
		}
	};
	some(500);
	const long before = residentKilobytes();
	size_t freeBefore = 0, freeAfter = 0, total = 0;
	CHECK(cudaMemGetInfo(&freeBefore, &total));
	some(10000);
	CHECK(cudaMemGetInfo(&freeAfter, &total));
	line.put("grown", static_cast<long long>(residentKilobytes() - before))
	    .put("device", static_cast<long long>(freeBefore - freeAfter));
}

int runAll(int argc, char **argv)
{
	std::vector<Case> cases;
	const auto add = [&](const Spec &spec, const std::string &name) {
		cases.push_back({name, [spec](Line &line) {
			                 DnnSession dnn;
			                 Problem(spec).run(dnn, line);
		                 }});
	};
	for (const auto &[direction, way] : directions)
		for (Spec spec : table) {
			spec.direction = way;
			add(spec, std::string(spec.name) + "." + direction);
		}
	for (const Spec &spec : fused)
		add(spec, spec.name);
	Spec large = {.name = "", .n = 8, .c = 8, .k = 64, .size = 40, .filter = 1, .pad = 0};
	add(large, "preferred.nchw");
	large.layoutOfResult = Layout::nhwc;
	add(large, "preferred.nhwc");
	for (const auto &[name, type] : maths) {
		for (const auto &[direction, way] : directions)
			add({.name = "", .direction = way, .c = 20, .isFlipped = true, .beta = 0.5f, .math = type},
			    std::string("math.") + name + "." + direction);
		add({.name = "", .direction = Direction::fused, .isRelu = true, .math = type},
		    std::string("math.") + name + ".fused");
	}
	for (const auto &[direction, way] : directions)
		cases.push_back({std::string("capture.") + direction, [way](Line &line) { capture(way, line); }});
	for (const auto &[direction, way] : directions)
		cases.push_back({std::string("algorithms.") + direction, [way](Line &line) { algorithms(way, line); }});
	cases.push_back({"refused", refused});
	cases.push_back({"algorithms.fused", [](Line &line) { algorithms(Direction::fused, line); }});
	for (const auto &[direction, way] : directions)
		cases.push_back({std::string("hot_path.") + direction, [way](Line &line) { hotPath(way, line); }});
	cases.push_back({"hot_path.fused", [](Line &line) { hotPath(Direction::fused, line); }});
	cases.push_back({"capture_first", captureFirst});
	cases.push_back({"threads", threads});
	cases.push_back({"memory", memory});
	return runCases(argc, argv, cases);
}

} // namespace

int main(int argc, char **argv)
{
	return runAll(argc, argv);
}
