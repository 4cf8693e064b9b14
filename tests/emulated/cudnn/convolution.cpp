// Convolutions of the emulated cuDNN compared with sums in double, written here from the definition; algorithms and
// workspaces.
#include "tests/emulated/cudnn/fixture.h"

#include <cstdlib>
#include <tuple>

namespace {

enum Direction { forward, backwardData, backwardFilter };

struct Case {
	std::vector<int> x, w; // dims
	std::vector<int> pad, stride, dilation;
	int groups = 1;
};

// Indices of the factors of each product: elements of x, of w and of y.
template <typename Function>
void eachProduct(const Case &c, bool isFlipped, const std::vector<int> &y, Function function)
{
	const int spatial = static_cast<int>(c.pad.size()), perGroup = c.w[1], filters = c.w[0] / c.groups;
	int taps = 1, pixels = 1;
	for (int d = 0; d < spatial; ++d) {
		taps *= c.w[d + 2];
		pixels *= y[d + 2];
	}
	for (int n = 0; n < c.x[0]; ++n)
		for (int k = 0; k < c.w[0]; ++k)
			for (int p = 0; p < pixels; ++p)
				for (int i = 0; i < perGroup; ++i)
					for (int r = 0; r < taps; ++r) {
						int tap = r, pixel = p, inside = 0, scale = 1;
						bool isInside = true;
						for (int d = spatial - 1; d >= 0; --d) {
							const int extent = c.w[d + 2], at = tap % extent;
							const int from = pixel % y[d + 2] * c.stride[d] - c.pad[d] +
							                 (isFlipped ? extent - 1 - at : at) * c.dilation[d];
							isInside = isInside && from >= 0 && from < c.x[d + 2];
							inside += from * scale;
							scale *= c.x[d + 2];
							tap /= extent;
							pixel /= y[d + 2];
						}
						const int channel = k / filters * perGroup + i;
						if (isInside)
							function((n * c.x[1] + channel) * scale + inside, (k * perGroup + i) * taps + r,
							         (n * c.w[0] + k) * pixels + p);
					}
}

struct Numeric {
	cudnnDataType_t type, compute;
	cudnnMathType_t math;
	double operandRoundoff; // rounding error of the operands, in addition to that of the stored type
};
const Numeric numerics[] = {
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH, 0},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 0x1p-11},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 0x1p-11},
    {CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 0x1p-11},
    {CUDNN_DATA_DOUBLE, CUDNN_DATA_DOUBLE, CUDNN_DEFAULT_MATH, 0},
    {CUDNN_DATA_HALF, CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH, 0},
    {CUDNN_DATA_HALF, CUDNN_DATA_HALF, CUDNN_DEFAULT_MATH, 0},
    {CUDNN_DATA_BFLOAT16, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 0},
};

const Case cases[] = {
    {{2, 5, 9, 8}, {7, 5, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 6, 9, 11}, {4, 3, 3, 2}, {2, 0}, {2, 3}, {2, 1}, 2},
    {{1, 8, 7, 7}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 8},
    {{3, 4, 5, 6}, {2, 4, 1, 1}, {0, 0}, {1, 1}, {1, 1}},
    {{2, 4, 6, 5, 7}, {6, 2, 3, 2, 3}, {1, 0, 2}, {1, 2, 2}, {1, 2, 1}, 2},
    {{1, 3, 4, 4}, {2, 3, 4, 4}, {3, 3}, {2, 2}, {1, 1}},
};

struct Convolution {
	DESCRIBED(Convolution) descriptor;
	DESCRIBED(Filter) filter;
	std::vector<int> y;

	Convolution(const Case &c, cudnnConvolutionMode_t mode, cudnnDataType_t type, cudnnDataType_t compute,
	            cudnnMathType_t math, bool isNhwc)
	    : y(c.x)
	{
		OK(cudnnSetConvolutionNdDescriptor(descriptor, static_cast<int>(c.pad.size()), c.pad.data(), c.stride.data(),
		                                   c.dilation.data(), mode, compute));
		OK(cudnnSetConvolutionMathType(descriptor, math));
		OK(cudnnSetConvolutionGroupCount(descriptor, c.groups));
		OK(cudnnSetFilterNdDescriptor(filter, type, isNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
		                              static_cast<int>(c.w.size()), c.w.data()));
		DESCRIBED(Tensor) x;
		OK(cudnnSetTensorNdDescriptorEx(x, CUDNN_TENSOR_NCHW, type, static_cast<int>(c.x.size()), c.x.data()));
		OK(cudnnGetConvolutionNdForwardOutputDim(descriptor, x, filter, static_cast<int>(y.size()), y.data()));
	}
};

struct Workspace {
	void *data = nullptr;
	size_t bytes;
	explicit Workspace(size_t size) : bytes(size)
	{
		if (size)
			REQUIRE(cudaMalloc(&data, size) == cudaSuccess);
	}
	Workspace(const Workspace &) = delete;
	Workspace &operator=(const Workspace &) = delete;
	~Workspace() { cudaFree(data); }
};

// One row of the table. Returns the largest error over the sum of the products' magnitudes.
double check(const Dnn &dnn, Direction direction, const Case &c, Layout layout, const Numeric &numeric,
             cudnnConvolutionMode_t mode, double alpha, double beta)
{
	const bool isNhwc = layout == Layout::nhwc;
	Convolution convolution(c, mode, numeric.type, numeric.compute, numeric.math, isNhwc);
	const Layout ofFilter = isNhwc ? Layout::nhwc : Layout::nchw;
	Numbers x(numeric.type, layout, c.x, gaussian(1)),
	    y(numeric.type, direction == forward ? layout : ofFilter, convolution.y, gaussian(2)),
	    w(numeric.type, ofFilter, c.w, gaussian(3));
	Numbers &result = direction == forward ? y : direction == backwardData ? x : w;
	const Numbers &first = direction == backwardData ? w : x, &second = direction == forward ? w : y;

	std::vector<double> sums(result.count()), magnitudes(result.count());
	int terms = 0;
	eachProduct(c, mode == CUDNN_CONVOLUTION, convolution.y, [&](int atX, int atW, int atY) {
		const int to = direction == forward ? atY : direction == backwardData ? atX : atW;
		const double product = direction == forward        ? x[atX] * w[atW]
		                       : direction == backwardData ? w[atW] * y[atY]
		                                                   : x[atX] * y[atY];
		sums[to] += product;
		magnitudes[to] += std::abs(product);
		++terms;
	});
	const std::vector<double> old = result.values();
	if (beta == 0)
		result.fill(NaN);
	const float floats[] = {static_cast<float>(alpha), static_cast<float>(beta)};
	const double doubles[] = {alpha, beta};
	const bool isDouble = numeric.type == CUDNN_DATA_DOUBLE;
	const void *a = isDouble ? static_cast<const void *>(doubles) : floats;
	const void *b = isDouble ? static_cast<const void *>(doubles + 1) : floats + 1;
	size_t bytes = 0;
	if (direction == forward) {
		const auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
		OK(cudnnGetConvolutionForwardWorkspaceSize(dnn, x.tensor, convolution.filter, convolution.descriptor, y.tensor,
		                                           algorithm, &bytes));
		Workspace workspace(bytes);
		OK(cudnnConvolutionForward(dnn, a, x.tensor, first.device, convolution.filter, second.device,
		                           convolution.descriptor, algorithm, workspace.data, bytes, b, y.tensor, y.device));
	} else if (direction == backwardData) {
		const auto algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
		OK(cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, convolution.filter, y.tensor, convolution.descriptor,
		                                                x.tensor, algorithm, &bytes));
		Workspace workspace(bytes);
		OK(cudnnConvolutionBackwardData(dnn, a, convolution.filter, first.device, y.tensor, second.device,
		                                convolution.descriptor, algorithm, workspace.data, bytes, b, x.tensor,
		                                x.device));
	} else {
		const auto algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
		OK(cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, x.tensor, y.tensor, convolution.descriptor,
		                                                  convolution.filter, algorithm, &bytes));
		Workspace workspace(bytes);
		OK(cudnnConvolutionBackwardFilter(dnn, a, x.tensor, first.device, y.tensor, second.device,
		                                  convolution.descriptor, algorithm, workspace.data, bytes, b,
		                                  convolution.filter, w.device));
	}
	CHECK(result.download());
	double worst = 0;
	int bad = 0;
	for (int i = 0; i < result.count(); ++i) {
		const double expected = alpha * sums[i] + beta * old[i], error = std::abs(result[i] - expected);
		const double scale = std::abs(alpha) * magnitudes[i] + std::abs(beta * old[i]);
		const double summing = (terms / result.count() + 8) * (isDouble ? 0x1p-53 : 0x1p-24);
		const double bound = scale * (2.01 * numeric.operandRoundoff + summing) +
		                     1.01 * roundoff(numeric.type) * (std::abs(expected) + scale * summing);
		bad += !(error <= bound);
		worst = std::max(worst, scale > 0 ? error / scale : 0);
	}
	CHECK(bad == 0);
	return worst;
}

const bool isTf32Allowed = !std::getenv("NVIDIA_TF32_OVERRIDE");

} // namespace

TEST_CASE("convolutions in all directions, layouts and types")
{
	Dnn dnn;
	for (Direction direction : {forward, backwardData, backwardFilter})
		for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::padded, Layout::mixed})
			for (const Numeric &numeric : numerics) {
				if (!isTf32Allowed && numeric.type != CUDNN_DATA_FLOAT)
					continue; // nothing else changes
				double worst = 0;
				for (const Case &c : cases)
					for (auto [mode, alpha, beta] : {std::tuple(CUDNN_CROSS_CORRELATION, 1., 0.),
					                                 {CUDNN_CROSS_CORRELATION, 0., 1.},
					                                 {CUDNN_CONVOLUTION, .5, -2.}}) {
						CAPTURE(direction, static_cast<int>(layout), numeric.type, numeric.math, c.x, c.w, mode, beta);
						if (layout == Layout::nhwc && c.pad.size() == 3 && mode == CUDNN_CONVOLUTION)
							continue;
						const double error = check(dnn, direction, c, layout, numeric, mode, alpha, beta);
						worst = alpha == 1 ? std::max(worst, error) : worst;
					}
				// The rounding is visible, and unrounded values are exact.
				CAPTURE(direction, static_cast<int>(layout), numeric.type, numeric.math, worst);
				const bool isConverted = numeric.math == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION;
				const double least = numeric.operandRoundoff * (isTf32Allowed || isConverted) + roundoff(numeric.type);
				CHECK(worst > least / 8);
				if (!isTf32Allowed && numeric.type == CUDNN_DATA_FLOAT && !isConverted)
					CHECK(worst < 1e-6);
			}
}

TEST_CASE("layouts that are not served")
{
	Dnn dnn;
	struct Row {
		Direction direction;
		Layout x, y, filter;
		bool isServed;
	};
	const Layout nchw = Layout::nchw, nhwc = Layout::nhwc, padded = Layout::padded;
	for (const Row &row : {Row{forward, nhwc, nchw, nhwc, true},
	                       {forward, padded, padded, nchw, true},
	                       {backwardData, nchw, nhwc, nhwc, false},
	                       {backwardData, nhwc, nchw, nchw, true},
	                       {backwardData, nchw, padded, nchw, false},
	                       {backwardData, padded, nchw, nchw, true},
	                       {backwardFilter, nhwc, nhwc, nchw, false},
	                       {backwardFilter, nchw, nchw, nhwc, false},
	                       {backwardFilter, nchw, padded, nchw, false},
	                       {backwardFilter, padded, nchw, nchw, true}}) {
		CAPTURE(row.direction, static_cast<int>(row.x), static_cast<int>(row.y), static_cast<int>(row.filter));
		const Case &c = cases[0];
		Convolution convolution(c, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH,
		                        row.filter == nhwc);
		Numbers x(CUDNN_DATA_FLOAT, row.x, c.x, gaussian(1)), y(CUDNN_DATA_FLOAT, row.y, convolution.y, gaussian(2));
		const auto &[descriptor, filter, dims] = convolution;
		size_t bytes = 0;
		const cudnnStatus_t status =
		    row.direction == forward
		        ? cudnnGetConvolutionForwardWorkspaceSize(dnn, x.tensor, filter, descriptor, y.tensor,
		                                                  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, &bytes)
		    : row.direction == backwardData
		        ? cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, filter, y.tensor, descriptor, x.tensor,
		                                                       CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes)
		        : cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, x.tensor, y.tensor, descriptor, filter,
		                                                         CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, &bytes);
		CHECK(status == (row.isServed ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED));
	}
}

TEST_CASE("half results overflow, narrowed operands do so without a scale, bfloat16 does not")
{
	Dnn dnn;
	const Case one{{1, 1, 1, 1}, {1, 1, 1, 1}, {0, 0}, {1, 1}, {1, 1}};
	const float alpha = 1, beta = 0;
	struct Row {
		cudnnDataType_t type;
		cudnnMathType_t math;
		double x, w, expected;
	};
	for (const Row &row : {Row{CUDNN_DATA_HALF, CUDNN_TENSOR_OP_MATH, 300, 300, INFINITY},
	                       Row{CUDNN_DATA_BFLOAT16, CUDNN_TENSOR_OP_MATH, 256, 256, 65536},
	                       Row{CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 1e5, .5, INFINITY},
	                       Row{CUDNN_DATA_FLOAT, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, 1e-9, 1, 0},
	                       Row{CUDNN_DATA_FLOAT, CUDNN_DEFAULT_MATH, 65536, .5, 32768}}) {
		Convolution convolution(one, CUDNN_CROSS_CORRELATION, row.type, CUDNN_DATA_FLOAT, row.math, false);
		Numbers x(row.type, Layout::nchw, one.x, [&] { return row.x; }),
		    w(row.type, Layout::nchw, one.w, [&] { return row.w; }),
		    y(row.type, Layout::nchw, one.x, [] { return NaN; });
		OK(cudnnConvolutionForward(dnn, &alpha, x.tensor, x.device, convolution.filter, w.device,
		                           convolution.descriptor, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 0,
		                           &beta, y.tensor, y.device));
		CHECK(y.download());
		CHECK(y[0] == row.expected);
	}
}

TEST_CASE("bias, residual and activation in one call")
{
	Dnn dnn;
	const Case &c = cases[0];
	for (Layout layout : {Layout::nchw, Layout::nhwc})
		for (auto activation : {CUDNN_ACTIVATION_RELU, CUDNN_ACTIVATION_IDENTITY})
			for (float alpha2 : {0.f, .5f}) {
				Convolution convolution(c, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, CUDNN_FMA_MATH,
				                        layout == Layout::nhwc);
				Numbers x(CUDNN_DATA_FLOAT, layout, c.x, gaussian(1)), w(CUDNN_DATA_FLOAT, layout, c.w, gaussian(2)),
				    z(CUDNN_DATA_FLOAT, layout, convolution.y, gaussian(3)),
				    y(CUDNN_DATA_FLOAT, layout, convolution.y, [] { return NaN; }),
				    bias(CUDNN_DATA_FLOAT, Layout::nchw, {1, c.w[0], 1, 1}, gaussian(4));
				std::vector<double> sums(y.count());
				eachProduct(c, false, convolution.y, [&](int atX, int atW, int atY) { sums[atY] += x[atX] * w[atW]; });
				DESCRIBED(Activation) act;
				OK(cudnnSetActivationDescriptor(act, activation, CUDNN_NOT_PROPAGATE_NAN, 0));
				const float alpha1 = 2;
				if (alpha2 == 0)
					z.fill(NaN); // not read
				auto call = [&](cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t bytes, void *to) {
					return cudnnConvolutionBiasActivationForward(dnn, &alpha1, x.tensor, x.device, convolution.filter,
					                                             w.device, convolution.descriptor, algorithm, workspace,
					                                             bytes, &alpha2, z.tensor, z.device, bias.tensor,
					                                             bias.device, act, y.tensor, to);
				};
				Workspace workspace(1 << 20);
				OK(call(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace.data, workspace.bytes, y.device));
				CHECK(y.download());
				const int image = y.dims[2] * y.dims[3];
				for (int i = 0; i < y.count(); ++i) {
					double expected = alpha1 * sums[i] + bias[i / image % c.w[0]] + (alpha2 != 0 ? alpha2 * z[i] : 0);
					if (activation == CUDNN_ACTIVATION_RELU)
						expected = std::max(expected, 0.);
					CHECK(y[i] == Approx(expected).margin(1e-4));
				}
				// The residual may be in the result's memory, the image may not.
				CHECK(call(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, workspace.data, workspace.bytes,
				           x.device) == CUDNN_STATUS_BAD_PARAM);
				CHECK(call(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, z.device) ==
				      (activation == CUDNN_ACTIVATION_IDENTITY ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS));
				CHECK(cudaDeviceSynchronize() == cudaSuccess);
			}
}

TEST_CASE("the gradient of the bias")
{
	Dnn dnn;
	for (auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF}) {
		Numbers dy(type, Layout::padded, {2, 3, 4, 5}, gaussian(1)), db(type, Layout::nchw, {1, 3, 1, 1}, gaussian(2));
		const std::vector<double> old = db.values();
		const float floats[] = {2, -1};
		const double doubles[] = {2, -1};
		const bool isDouble = type == CUDNN_DATA_DOUBLE;
		OK(cudnnConvolutionBackwardBias(dnn, isDouble ? static_cast<const void *>(doubles) : floats, dy.tensor,
		                                dy.device, isDouble ? static_cast<const void *>(doubles + 1) : floats + 1,
		                                db.tensor, db.device));
		CHECK(db.download());
		for (int c = 0; c < 3; ++c) {
			double sum = 0;
			for (int i = 0; i < dy.count(); ++i)
				sum += i / 20 % 3 == c ? dy[i] : 0;
			CHECK(db[c] == Approx(2 * sum - old[c]).epsilon(4 * roundoff(type)));
		}
	}
}

TEST_CASE("which algorithms serve, and what they need")
{
	Dnn dnn;
	struct Row {
		Case geometry;
		cudnnDataType_t type, compute;
		std::vector<int> forward, data, filter; // supported algorithms
	};
	const auto f = CUDNN_DATA_FLOAT, h = CUDNN_DATA_HALF, d = CUDNN_DATA_DOUBLE;
	const Row rows[] = {
	    {{{2, 4, 8, 8}, {4, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
	     f,
	     f,
	     {0, 1, 2, 4, 5, 7},
	     {0, 1, 2, 3, 5},
	     {0, 1, 2, 3, 5}},
	    {{{2, 4, 8, 8}, {4, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, h, h, {1, 7}, {1, 5}, {1, 5}},
	    {{{2, 4, 8, 8}, {4, 4, 5, 5}, {1, 1}, {1, 1}, {1, 1}}, d, d, {0, 1, 2}, {0, 1}, {0, 1, 3}},
	    {{{2, 4, 8, 8}, {4, 4, 5, 5}, {1, 1}, {1, 1}, {1, 1}},
	     h,
	     f,
	     {0, 1, 2, 4, 5, 7},
	     {0, 1, 2, 3, 5},
	     {0, 1, 2, 3, 5}},
	    {{{2, 4, 8, 8}, {4, 4, 3, 3}, {1, 1}, {2, 2}, {1, 1}}, f, f, {0, 1, 2}, {0, 1}, {0, 1, 3}},
	    {{{2, 4, 8, 8}, {4, 4, 3, 3}, {1, 1}, {1, 1}, {2, 2}}, f, f, {0, 1}, {0, 1}, {0, 1, 3}},
	    {{{2, 4, 8, 8, 8}, {4, 4, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, f, f, {0, 1, 5}, {0, 1, 3}, {0, 1, 3}},
	};
	for (const Row &row : rows) {
		CAPTURE(row.geometry.x, row.geometry.w, row.type, row.compute);
		Convolution convolution(row.geometry, CUDNN_CROSS_CORRELATION, row.type, row.compute, CUDNN_DEFAULT_MATH,
		                        false);
		Numbers x(row.type, Layout::nchw, row.geometry.x, gaussian(1)),
		    w(row.type, Layout::nchw, row.geometry.w, gaussian(1)),
		    y(row.type, Layout::nchw, convolution.y, gaussian(1));
		auto examine = [&](const std::vector<int> &served, int most, int count, auto maximum, auto get, auto find,
		                   auto size, auto results) {
			int number = 0, returned = 0;
			OK(maximum(dnn, &number));
			CHECK(number == most);
			for (bool isTimed : {false, true}) {
				results.resize(12);
				OK(isTimed ? find(12, &returned, results.data()) : get(12, &returned, results.data()));
				CHECK(returned <= most);
				CHECK(returned >= count);
				bool wasRefused = false;
				std::vector<int> found;
				for (int i = 0; i < returned; ++i) {
					const auto &one = results[i];
					size_t bytes = 77;
					const cudnnStatus_t status = size(one.algo, &bytes);
					CHECK(status == one.status);
					wasRefused = wasRefused || status != CUDNN_STATUS_SUCCESS;
					CHECK(wasRefused == (status == CUDNN_STATUS_NOT_SUPPORTED));
					CHECK(one.memory == (wasRefused ? 0 : bytes));
					CHECK((one.time > 0) == (isTimed && !wasRefused));
					if (!wasRefused)
						found.push_back(one.algo);
				}
				std::sort(found.begin(), found.end());
				found.erase(std::unique(found.begin(), found.end()), found.end());
				CHECK(found == served);
				OK(get(1, &returned, results.data()));
				CHECK(returned == 1);
			}
			size_t bytes;
			CHECK(size(static_cast<decltype(results[0].algo)>(count), &bytes) == CUDNN_STATUS_NOT_SUPPORTED);
		};
		const auto xs = x.tensor.descriptor, ys = y.tensor.descriptor;
		const auto ws = convolution.filter.descriptor;
		const auto c = convolution.descriptor.descriptor;
		const auto with = [](auto function, auto... first) {
			return [=](auto... rest) { return function(first..., rest...); };
		};
		examine(row.forward, 10, 8, cudnnGetConvolutionForwardAlgorithmMaxCount,
		        with(cudnnGetConvolutionForwardAlgorithm_v7, dnn.handle, xs, ws, c, ys),
		        with(cudnnFindConvolutionForwardAlgorithm, dnn.handle, xs, ws, c, ys),
		        with(cudnnGetConvolutionForwardWorkspaceSize, dnn.handle, xs, ws, c, ys),
		        std::vector<cudnnConvolutionFwdAlgoPerf_t>());
		examine(row.data, 8, 6, cudnnGetConvolutionBackwardDataAlgorithmMaxCount,
		        with(cudnnGetConvolutionBackwardDataAlgorithm_v7, dnn.handle, ws, ys, c, xs),
		        with(cudnnFindConvolutionBackwardDataAlgorithm, dnn.handle, ws, ys, c, xs),
		        with(cudnnGetConvolutionBackwardDataWorkspaceSize, dnn.handle, ws, ys, c, xs),
		        std::vector<cudnnConvolutionBwdDataAlgoPerf_t>());
		examine(row.filter, 9, 7, cudnnGetConvolutionBackwardFilterAlgorithmMaxCount,
		        with(cudnnGetConvolutionBackwardFilterAlgorithm_v7, dnn.handle, xs, ys, c, ws),
		        with(cudnnFindConvolutionBackwardFilterAlgorithm, dnn.handle, xs, ys, c, ws),
		        with(cudnnGetConvolutionBackwardFilterWorkspaceSize, dnn.handle, xs, ys, c, ws),
		        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t>());
	}
}
