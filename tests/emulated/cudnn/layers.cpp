// The layers of the emulated cuDNN compared with formulas written here, and gradients with differences of the forward
// pass.
#include "tests/emulated/cudnn/fixture.h"

#include <cfloat>
#include <tuple>

namespace {

using Vector = std::vector<double>;

constexpr cudnnDataType_t F = CUDNN_DATA_FLOAT;

// alpha and beta of a call: host floats, or doubles for double data.
struct Scalars {
	float floats[2];
	double doubles[2];
	bool isDouble;
	Scalars(cudnnDataType_t type, double alpha, double beta)
	    : floats{static_cast<float>(alpha), static_cast<float>(beta)}, doubles{alpha, beta},
	      isDouble(type == CUDNN_DATA_DOUBLE)
	{
	}
	const void *alpha() const { return isDouble ? static_cast<const void *>(doubles) : floats; }
	const void *beta() const { return isDouble ? static_cast<const void *>(doubles + 1) : floats + 1; }
};

using Forward = std::function<cudnnStatus_t(const Scalars &, Numbers &x, Numbers &y)>;

// y = alpha * expected(x) + beta * y in every layout and type; with beta 0 the old y is not read.
void checkForward(const std::vector<int> &xDims, const std::vector<int> &yDims, const Forward &forward,
                  const std::function<Vector(const Vector &)> &expected)
{
	for (auto type : {F, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
		for (Layout layout : {Layout::nchw, Layout::nhwc, Layout::padded})
			for (double beta : {0., -.5}) {
				CAPTURE(type, static_cast<int>(layout), beta);
				Numbers x(type, layout, xDims, gaussian(1)), y(type, Layout::padded, yDims, gaussian(2));
				const Vector old = y.values();
				if (beta == 0)
					y.fill(NaN);
				OK(forward(Scalars(type, 2, beta), x, y));
				CHECK(y.download());
				const Vector want = expected(x.values());
				int bad = 0;
				for (int i = 0; i < y.count(); ++i) {
					const double value = 2 * want[i] + beta * old[i];
					bad += !(std::abs(y[i] - value) <=
					         1.01 * roundoff(type) * std::abs(value) + 1e-6 * (type != CUDNN_DATA_DOUBLE) + 1e-12);
				}
				CHECK(bad == 0);
			}
}

using Backward = std::function<cudnnStatus_t(const Scalars &, Numbers &x, Numbers &y, Numbers &dy, Numbers &dx)>;

// dx against the slope of sum(y * dy) in double.
void checkBackward(const std::vector<int> &xDims, const std::vector<int> &yDims, const Forward &forward,
                   const Backward &backward)
{
	constexpr cudnnDataType_t D = CUDNN_DATA_DOUBLE;
	const Scalars plain(D, 1, 0);
	Numbers x(D, Layout::nhwc, xDims, gaussian(1)), y(D, Layout::nchw, yDims, [] { return NaN; }),
	    dy(D, Layout::padded, yDims, gaussian(3)), dx(D, Layout::padded, xDims, [] { return NaN; });
	auto loss = [&] {
		OK(forward(plain, x, y));
		CHECK(y.download());
		double sum = 0;
		for (int i = 0; i < y.count(); ++i)
			sum += y[i] * dy[i];
		return sum;
	};
	loss();
	OK(backward(plain, x, y, dy, dx));
	CHECK(dx.download());
	for (int i = 0; i < x.count(); i += 7) {
		const double before = x[i], step = 1e-6;
		double slopes = 0;
		for (double sign : {1., -1.}) {
			store(D, before + sign * step, &x.bytes[x.at(i) * 8]);
			x.upload();
			slopes += sign * loss() / (2 * step);
		}
		store(D, before, &x.bytes[x.at(i) * 8]);
		x.upload();
		CHECK(dx[i] == Approx(slopes).margin(1e-5));
	}
}

const std::vector<int> dims{2, 5, 4, 3};
constexpr int pixels = 12, channels = 5;

} // namespace

TEST_CASE("softmax")
{
	Dnn dnn;
	for (auto algorithm : {CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG})
		for (auto mode : {CUDNN_SOFTMAX_MODE_INSTANCE, CUDNN_SOFTMAX_MODE_CHANNEL}) {
			const Forward forward = [&](const Scalars &s, Numbers &x, Numbers &y) {
				return cudnnSoftmaxForward(dnn, algorithm, mode, s.alpha(), x.tensor, x.device, s.beta(), y.tensor,
				                           y.device);
			};
			checkForward(dims, dims, forward, [&](const Vector &x) {
				Vector y(x.size());
				auto group = [&](size_t i) {
					return mode == CUDNN_SOFTMAX_MODE_INSTANCE ? i / 60 : i / 60 * 12 + i % 12;
				};
				for (size_t i = 0; i < x.size(); ++i) {
					double sum = 0;
					for (size_t j = 0; j < x.size(); ++j)
						sum += group(i) == group(j) ? std::exp(x[j]) : 0;
					y[i] = algorithm == CUDNN_SOFTMAX_LOG ? x[i] - std::log(sum) : std::exp(x[i]) / sum;
				}
				return y;
			});
			checkBackward(dims, dims, forward, [&](const Scalars &s, Numbers &, Numbers &y, Numbers &dy, Numbers &dx) {
				return cudnnSoftmaxBackward(dnn, algorithm, mode, s.alpha(), y.tensor, y.device, dy.tensor, dy.device,
				                            s.beta(), dx.tensor, dx.device);
			});
		}
}

TEST_CASE("activations")
{
	Dnn dnn;
	struct Row {
		cudnnActivationMode_t mode;
		double coefficient;
		std::function<double(double)> function;
	};
	for (const Row &row : {Row{CUDNN_ACTIVATION_SIGMOID, 0, [](double x) { return 1 / (1 + std::exp(-x)); }},
	                       Row{CUDNN_ACTIVATION_RELU, 0, [](double x) { return std::max(x, 0.); }},
	                       Row{CUDNN_ACTIVATION_TANH, 0, [](double x) { return std::tanh(x); }},
	                       Row{CUDNN_ACTIVATION_CLIPPED_RELU, .7, [](double x) { return std::clamp(x, 0., .7); }},
	                       Row{CUDNN_ACTIVATION_ELU, .5, [](double x) { return x > 0 ? x : .5 * (std::exp(x) - 1); }},
	                       Row{CUDNN_ACTIVATION_SWISH, 0, [](double x) { return x / (1 + std::exp(-1.5 * x)); }}}) {
		CAPTURE(row.mode);
		DESCRIBED(Activation) activation;
		OK(cudnnSetActivationDescriptor(activation, row.mode, CUDNN_PROPAGATE_NAN, row.coefficient));
		OK(cudnnSetActivationDescriptorSwishBeta(activation, 1.5));
		const Forward forward = [&](const Scalars &s, Numbers &x, Numbers &y) {
			return cudnnActivationForward(dnn, activation, s.alpha(), x.tensor, x.device, s.beta(), y.tensor, y.device);
		};
		checkForward(dims, dims, forward, [&](Vector x) {
			std::transform(x.begin(), x.end(), x.begin(), row.function);
			return x;
		});
		checkBackward(dims, dims, forward, [&](const Scalars &s, Numbers &x, Numbers &y, Numbers &dy, Numbers &dx) {
			return cudnnActivationBackward(dnn, activation, s.alpha(), y.tensor, y.device, dy.tensor, dy.device,
			                               x.tensor, x.device, s.beta(), dx.tensor, dx.device);
		});
	}
}

TEST_CASE("pooling")
{
	Dnn dnn;
	const std::vector<int> xDims{2, 2, 6, 5};
	for (auto mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING,
	                  CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, CUDNN_POOLING_MAX_DETERMINISTIC}) {
		DESCRIBED(Pooling) pooling;
		OK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_PROPAGATE_NAN, 3, 2, 1, 1, 2, 2));
		const std::vector<int> yDims{2, 2, 3, 3};
		const Forward forward = [&](const Scalars &s, Numbers &x, Numbers &y) {
			return cudnnPoolingForward(dnn, pooling, s.alpha(), x.tensor, x.device, s.beta(), y.tensor, y.device);
		};
		checkForward(xDims, yDims, forward, [&](const Vector &x) {
			Vector y;
			for (int image = 0; image < 4; ++image)
				for (int h = -1; h < 5; h += 2)
					for (int w = -1; w < 5; w += 2) {
						double most = -INFINITY, sum = 0;
						int count = 0;
						for (int r = h; r < h + 3; ++r)
							for (int s = w; s < w + 2; ++s)
								if (r >= 0 && r < 6 && s >= 0 && s < 5) {
									const double value = x[image * 30 + r * 5 + s];
									most = std::max(most, value);
									sum += value;
									++count;
								}
						y.push_back(mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING   ? sum / 6
						            : mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING ? sum / count
						                                                                  : most);
					}
			return y;
		});
		checkBackward(xDims, yDims, forward, [&](const Scalars &s, Numbers &x, Numbers &y, Numbers &dy, Numbers &dx) {
			return cudnnPoolingBackward(dnn, pooling, s.alpha(), y.tensor, y.device, dy.tensor, dy.device, x.tensor,
			                            x.device, s.beta(), dx.tensor, dx.device);
		});
	}
}

TEST_CASE("maximum of a window that lies in the padding")
{
	Dnn dnn;
	DESCRIBED(Pooling) pooling;
	OK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 2, 2, 2, 2));
	Numbers x(CUDNN_DATA_FLOAT, Layout::nchw, {1, 1, 2, 2}, [] { return -5.; });
	Numbers y(CUDNN_DATA_FLOAT, Layout::nchw, {1, 1, 3, 3}, [] { return 1.; });
	const float one = 1, zero = 0;
	OK(cudnnPoolingForward(dnn, pooling, &one, x.tensor, x.device, &zero, y.tensor, y.device));
	y.download();
	CHECK(y[0] == -FLT_MAX);
	CHECK(y[4] == -5);
}

TEST_CASE("folded descriptors of a gradient are the real library's")
{
	// dims and strides; pads before and after, folds, direction, format: results of cuDNN 9.19
	struct Answer {
		int n, c, h, k, r, pad, stride, groups;
		bool isNhwc;
		std::vector<int> w, dy, dx;
		int convolutionPad, wAfterChannels, wBefore, wAfter, dxAfterChannels, dyAfterChannels, dyAfter, dxLess;
	};
	const Answer answers[] = {
	    {2, 3, 8, 4, 3, 1, 2, 1, false, {8, 16, 2, 2}, {2, 8, 5, 5}, {2, 16, 4, 4}, 1, 1, 1, 0, 1, 4, 1, 0},
	    {2, 3, 9, 4, 3, 1, 2, 1, true, {8, 16, 2, 2}, {2, 8, 6, 6}, {2, 16, 5, 5}, 1, 1, 1, 0, 1, 4, 1, -1},
	    {2, 3, 8, 4, 5, 2, 2, 1, false, {8, 16, 3, 3}, {2, 8, 4, 4}, {2, 16, 4, 4}, 1, 1, 0, 1, 1, 4, 0, 0},
	    {2, 3, 9, 4, 5, 0, 3, 1, false, {8, 27, 2, 2}, {2, 8, 2, 2}, {2, 27, 3, 3}, 0, 0, 0, 1, 0, 4, 0, 0},
	    {2, 3, 8, 4, 3, 1, 1, 1, true, {8, 8, 3, 3}, {2, 8, 8, 8}, {2, 8, 8, 8}, 1, 5, 0, 0, 5, 4, 0, 0},
	    {2, 4, 8, 4, 3, 1, 2, 2, false, {8, 8, 2, 2}, {2, 8, 5, 5}, {2, 16, 4, 4}, 1, 0, 1, 0, 0, 4, 1, 0},
	    {2, 3, 224, 64, 7, 3, 2, 1, false, {64, 16, 4, 4}, {2, 64, 113, 113}, {2, 16, 112, 112},
	     2, 1, 1,   0,  1, 0, 1, 0},
	    {2, 3, 7, 4, 3, 0, 4, 1, false, {8, 48, 1, 1}, {2, 8, 2, 2}, {2, 48, 2, 2}, 0, 0, 0, 1, 0, 4, 0, -1},
	};
	for (const Answer &it : answers) {
		CAPTURE(it.h, it.r, it.pad, it.stride, it.groups);
		DESCRIBED(Filter) w, foldedW;
		DESCRIBED(Tensor) dy, dx, paddedDy, foldedDx;
		DESCRIBED(Convolution) convolution, folded;
		DESCRIBED(TensorTransform) foldW, padDy, foldDx, unfoldDx;
		const auto format = it.isNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
		const int out = (it.h + 2 * it.pad - it.r) / it.stride + 1;
		OK(cudnnSetFilter4dDescriptor(w, CUDNN_DATA_FLOAT, format, it.k, it.c / it.groups, it.r, it.r));
		OK(cudnnSetTensor4dDescriptor(dy, format, CUDNN_DATA_FLOAT, it.n, it.k, out, out));
		OK(cudnnSetTensor4dDescriptor(dx, format, CUDNN_DATA_FLOAT, it.n, it.c, it.h, it.h));
		OK(cudnnSetConvolution2dDescriptor(convolution, it.pad, it.pad, it.stride, it.stride, 1, 1,
		                                   CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
		OK(cudnnSetConvolutionGroupCount(convolution, it.groups));
		OK(cudnnGetFoldedConvBackwardDataDescriptors(nullptr, w, dy, convolution, dx, CUDNN_TENSOR_NHWC, foldedW,
		                                             paddedDy, folded, foldedDx, foldW, padDy, foldDx, unfoldDx));
		cudnnDataType_t type;
		cudnnTensorFormat_t foundFormat;
		int rank = 0;
		std::vector<int> dims(4), strides(4), pads(2), ones(2), dilations(2);
		OK(cudnnGetFilterNdDescriptor(foldedW, 4, &type, &foundFormat, &rank, dims.data()));
		CHECK(dims == it.w);
		CHECK(foundFormat == CUDNN_TENSOR_NHWC);
		OK(cudnnGetTensorNdDescriptor(paddedDy, 4, &type, &rank, dims.data(), strides.data()));
		CHECK(dims == it.dy);
		CHECK(strides[1] == 1);
		OK(cudnnGetTensorNdDescriptor(foldedDx, 4, &type, &rank, dims.data(), strides.data()));
		CHECK(dims == it.dx);
		cudnnConvolutionMode_t mode;
		OK(cudnnGetConvolutionNdDescriptor(folded, 2, &rank, pads.data(), ones.data(), dilations.data(), &mode, &type));
		CHECK(pads == std::vector{it.convolutionPad, it.convolutionPad});
		CHECK(ones == std::vector{1, 1});
		const auto check = [&](cudnnTensorTransformDescriptor_t transform, std::vector<int> before,
		                       std::vector<int> after, unsigned fold, cudnnFoldingDirection_t direction,
		                       cudnnTensorFormat_t wanted) {
			std::vector<int> foundBefore(4), foundAfter(4);
			std::vector<unsigned> folds(2);
			cudnnFoldingDirection_t foundDirection;
			OK(cudnnGetTensorTransformDescriptor(transform, 4, &foundFormat, foundBefore.data(), foundAfter.data(),
			                                     folds.data(), &foundDirection));
			CHECK(foundBefore == before);
			CHECK(foundAfter == after);
			CHECK(folds == std::vector{fold, fold});
			CHECK(foundDirection == direction);
			CHECK(foundFormat == wanted);
		};
		const auto fold = static_cast<unsigned>(it.stride);
		const int moreK = it.w[0] - it.k;
		check(foldW, {0, 0, it.wBefore, it.wBefore}, {moreK, it.wAfterChannels, it.wAfter, it.wAfter}, fold,
		      CUDNN_TRANSFORM_FOLD, CUDNN_TENSOR_NHWC);
		check(padDy, {0, 0, 0, 0}, {0, it.dyAfterChannels, it.dyAfter, it.dyAfter}, 0, CUDNN_TRANSFORM_FOLD,
		      CUDNN_TENSOR_NHWC);
		check(foldDx, {0, 0, 0, 0}, {0, it.dxAfterChannels, 0, 0}, fold, CUDNN_TRANSFORM_FOLD, CUDNN_TENSOR_NHWC);
		check(unfoldDx, {0, 0, 0, 0}, {0, -it.dxAfterChannels, it.dxLess, it.dxLess}, fold, CUDNN_TRANSFORM_UNFOLD,
		      format);
	}
}

TEST_CASE("a folded gradient is the gradient")
{
	Dnn dnn;
	const float one = 1, zero = 0;
	for (const auto &[size, filter, pad, stride] : {std::tuple{8, 3, 1, 2}, {9, 3, 1, 2}, {9, 5, 0, 3}, {7, 5, 2, 2}}) {
		CAPTURE(size, filter, pad, stride);
		const int out = (size + 2 * pad - filter) / stride + 1;
		int next = 0;
		const auto number = [&] { return static_cast<double>(next++ * 7 % 11) - 5; };
		Numbers w(CUDNN_DATA_FLOAT, Layout::nchw, {4, 3, filter, filter}, number);
		Numbers dy(CUDNN_DATA_FLOAT, Layout::nchw, {2, 4, out, out}, number);
		Numbers plain(CUDNN_DATA_FLOAT, Layout::nchw, {2, 3, size, size}, number);
		Numbers dx(CUDNN_DATA_FLOAT, Layout::nchw, {2, 3, size, size}, number);
		DESCRIBED(Filter) filterOf, foldedFilter;
		DESCRIBED(Tensor) paddedOf, foldedOf;
		DESCRIBED(Convolution) convolution, folded;
		DESCRIBED(TensorTransform) foldW, padDy, foldDx, unfoldDx;
		OK(cudnnSetFilter4dDescriptor(filterOf, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 3, filter, filter));
		OK(cudnnSetConvolution2dDescriptor(convolution, pad, pad, stride, stride, 1, 1, CUDNN_CROSS_CORRELATION,
		                                   CUDNN_DATA_FLOAT));
		OK(cudnnSetConvolutionMathType(convolution, CUDNN_FMA_MATH));
		OK(cudnnConvolutionBackwardData(dnn, &one, filterOf, w.device, dy.tensor, dy.device, convolution,
		                                CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &zero, plain.tensor,
		                                plain.device));
		OK(cudnnGetFoldedConvBackwardDataDescriptors(dnn, filterOf, dy.tensor, convolution, dx.tensor,
		                                             CUDNN_TENSOR_NCHW, foldedFilter, paddedOf, folded, foldedOf, foldW,
		                                             padDy, foldDx, unfoldDx));
		int rank = 0;
		cudnnDataType_t type;
		cudnnTensorFormat_t format;
		std::vector<int> dims(4), strides(4);
		OK(cudnnGetFilterNdDescriptor(foldedFilter, 4, &type, &format, &rank, dims.data()));
		Numbers wFolded(CUDNN_DATA_FLOAT, Layout::nchw, dims, number);
		OK(cudnnGetTensorNdDescriptor(paddedOf, 4, &type, &rank, dims.data(), strides.data()));
		Numbers dyPadded(CUDNN_DATA_FLOAT, Layout::nchw, dims, number);
		OK(cudnnGetTensorNdDescriptor(foldedOf, 4, &type, &rank, dims.data(), strides.data()));
		Numbers dxFolded(CUDNN_DATA_FLOAT, Layout::nchw, dims, number);
		OK(cudnnTransformFilter(dnn, foldW, &one, filterOf, w.device, &zero, foldedFilter, wFolded.device));
		OK(cudnnTransformTensorEx(dnn, padDy, &one, dy.tensor, dy.device, &zero, paddedOf, dyPadded.device));
		OK(cudnnConvolutionBackwardData(dnn, &one, foldedFilter, wFolded.device, paddedOf, dyPadded.device, folded,
		                                CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &zero, foldedOf,
		                                dxFolded.device));
		OK(cudnnTransformTensorEx(dnn, unfoldDx, &one, foldedOf, dxFolded.device, &zero, dx.tensor, dx.device));
		plain.download();
		dx.download();
		CHECK(dx.values() == plain.values());
		// Folding the unfolded data gives the same blocks, except for those that were cut off.
		OK(cudnnTransformTensorEx(dnn, foldDx, &one, dx.tensor, dx.device, &zero, foldedOf, dxFolded.device));
		OK(cudnnTransformTensorEx(dnn, unfoldDx, &one, foldedOf, dxFolded.device, &zero, dx.tensor, dx.device));
		dx.download();
		CHECK(dx.values() == plain.values());
	}
}

TEST_CASE("local response normalization")
{
	Dnn dnn;
	for (unsigned n : {1u, 2u, 5u}) {
		DESCRIBED(LRN) norm;
		OK(cudnnSetLRNDescriptor(norm, n, .3, .75, 2));
		const Forward forward = [&](const Scalars &s, Numbers &x, Numbers &y) {
			return cudnnLRNCrossChannelForward(dnn, norm, CUDNN_LRN_CROSS_CHANNEL_DIM1, s.alpha(), x.tensor, x.device,
			                                   s.beta(), y.tensor, y.device);
		};
		checkForward(dims, dims, forward, [&](const Vector &x) {
			Vector y(x.size());
			for (int i = 0; i < static_cast<int>(x.size()); ++i) {
				const int c = i / pixels % channels, first = c - static_cast<int>(n - 1) / 2;
				double sum = 0;
				for (int o = std::max(first, 0); o < std::min(first + static_cast<int>(n), channels); ++o)
					sum += std::pow(x[i + (o - c) * pixels], 2);
				y[i] = x[i] * std::pow(2 + .3 / n * sum, -.75);
			}
			return y;
		});
		checkBackward(dims, dims, forward, [&](const Scalars &s, Numbers &x, Numbers &y, Numbers &dy, Numbers &dx) {
			return cudnnLRNCrossChannelBackward(dnn, norm, CUDNN_LRN_CROSS_CHANNEL_DIM1, s.alpha(), y.tensor, y.device,
			                                    dy.tensor, dy.device, x.tensor, x.device, s.beta(), dx.tensor,
			                                    dx.device);
		});
	}
}

TEST_CASE("element by element")
{
	Dnn dnn;
	Numbers addend(CUDNN_DATA_FLOAT, Layout::nchw, {1, channels, 1, 1}, gaussian(5));
	// AddTensor: y = alpha * a + beta * y, with a repeated.
	Numbers y(F, Layout::nhwc, dims, gaussian(6));
	const Vector old = y.values();
	const float alpha = 3, beta = -2;
	OK(cudnnAddTensor(dnn, &alpha, addend.tensor, addend.device, &beta, y.tensor, y.device));
	CHECK(y.download());
	for (int i = 0; i < y.count(); ++i)
		CHECK(y[i] == Approx(3 * addend[i / pixels % channels] - 2 * old[i]).margin(1e-5));

	for (int op = CUDNN_OP_TENSOR_ADD; op <= CUDNN_OP_TENSOR_NOT; ++op) {
		DESCRIBED(OpTensor) operation;
		OK(cudnnSetOpTensorDescriptor(operation, static_cast<cudnnOpTensorOp_t>(op), F, CUDNN_PROPAGATE_NAN));
		Numbers a(F, Layout::padded, dims, [next = gaussian(7)] { return std::abs(next()); });
		y.fill(NaN);
		const float second = .5, none = 0;
		OK(cudnnOpTensor(dnn, operation, &alpha, a.tensor, a.device, &second, addend.tensor, addend.device, &none,
		                 y.tensor, y.device));
		CHECK(y.download());
		for (int i = 0; i < y.count(); ++i) {
			const double x = 3 * a[i], z = .5 * addend[i / pixels % channels];
			const double expected[] = {x + z, x * z, std::min(x, z), std::max(x, z), std::sqrt(x), 1 - x};
			CHECK(y[i] == Approx(expected[op]).margin(1e-5));
		}
	}

	const float value = 4.5, factor = -2;
	OK(cudnnSetTensor(dnn, y.tensor, y.device, &value));
	OK(cudnnScaleTensor(dnn, y.tensor, y.device, &factor));
	CHECK(y.download());
	CHECK(y.values() == Vector(y.count(), -9));

	checkForward(
	    dims, dims,
	    [&](const Scalars &s, Numbers &from, Numbers &to) {
		    return cudnnTransformTensor(dnn, s.alpha(), from.tensor, from.device, s.beta(), to.tensor, to.device);
	    },
	    [](Vector x) { return x; });
	const auto ramp = [next = 0.]() mutable { return next += 1. / 3; };
	const auto nothing = [] { return NaN; };
	Numbers wide(F, Layout::padded, dims, ramp), half(CUDNN_DATA_HALF, Layout::nhwc, dims, nothing),
	    brain(CUDNN_DATA_BFLOAT16, Layout::nhwc, dims, nothing);
	const float one = 1, zero = 0;
	OK(cudnnTransformTensor(dnn, &one, wide.tensor, wide.device, &zero, half.tensor, half.device));
	CHECK(half.download());
	for (int i = 0; i < half.count(); ++i)
		CHECK(half[i] == __half2float(__float2half_rn(static_cast<float>(wide[i]))));
	CHECK(cudnnTransformTensor(dnn, &one, wide.tensor, wide.device, &zero, brain.tensor, brain.device) ==
	      CUDNN_STATUS_NOT_SUPPORTED);

	DESCRIBED(TensorTransform) padding;
	const int before[] = {0, 0, 1, 0}, after[] = {0, 1, 0, 2};
	OK(cudnnSetTensorTransformDescriptor(padding, 4, CUDNN_TENSOR_NHWC, before, after, nullptr, CUDNN_TRANSFORM_FOLD));
	checkForward(
	    {1, 2, 2, 2}, {1, 3, 3, 4},
	    [&](const Scalars &s, Numbers &from, Numbers &to) {
		    return cudnnTransformTensorEx(dnn, padding, s.alpha(), from.tensor, from.device, s.beta(), to.tensor,
		                                  to.device);
	    },
	    [](const Vector &x) {
		    Vector padded(36);
		    for (int i = 0; i < 8; ++i)
			    padded[i / 4 * 12 + (i / 2 % 2 + 1) * 4 + i % 2] = x[i];
		    return padded;
	    });
}

TEST_CASE("reductions, with where the extreme is")
{
	Dnn dnn;
	for (int op = CUDNN_REDUCE_TENSOR_ADD; op <= CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS; ++op) {
		CAPTURE(op);
		const bool isExtreme = op >= CUDNN_REDUCE_TENSOR_MIN && op <= CUDNN_REDUCE_TENSOR_AMAX;
		auto reduce = [&, op](const Vector &x, std::vector<uint32_t> &places) {
			Vector y(channels, op == CUDNN_REDUCE_TENSOR_MUL || op == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS);
			places.assign(channels, 0);
			std::vector<uint32_t> seen(channels);
			for (size_t i = 0; i < x.size(); ++i) {
				const size_t c = i / pixels % channels;
				double &sum = y[c];
				const double amount = op == CUDNN_REDUCE_TENSOR_AMAX ? std::abs(x[i]) : x[i];
				const bool isFirst = seen[c] == 0;
				if (isExtreme && (isFirst || (op == CUDNN_REDUCE_TENSOR_MIN ? amount < sum : amount > sum))) {
					sum = amount;
					places[c] = seen[c];
				}
				if (op == CUDNN_REDUCE_TENSOR_MUL || (op == CUDNN_REDUCE_TENSOR_MUL_NO_ZEROS && x[i] != 0))
					sum *= x[i];
				if (op == CUDNN_REDUCE_TENSOR_ADD || op == CUDNN_REDUCE_TENSOR_AVG)
					sum += op == CUDNN_REDUCE_TENSOR_AVG ? x[i] / 24 : x[i];
				if (op == CUDNN_REDUCE_TENSOR_NORM1)
					sum += std::abs(x[i]);
				if (op == CUDNN_REDUCE_TENSOR_NORM2)
					sum = std::hypot(sum, x[i]);
				++seen[c];
			}
			return y;
		};
		std::vector<uint32_t> places;
		checkForward(
		    dims, {1, channels, 1, 1},
		    [&](const Scalars &s, Numbers &x, Numbers &y) {
			    DESCRIBED(ReduceTensor) reduction;
			    OK(cudnnSetReduceTensorDescriptor(reduction, static_cast<cudnnReduceTensorOp_t>(op),
			                                      s.isDouble ? CUDNN_DATA_DOUBLE : F, CUDNN_PROPAGATE_NAN,
			                                      CUDNN_REDUCE_TENSOR_FLATTENED_INDICES, CUDNN_32BIT_INDICES));
			    size_t bytes = 0, indexBytes = 0;
			    OK(cudnnGetReductionWorkspaceSize(dnn, reduction, x.tensor, y.tensor, &bytes));
			    OK(cudnnGetReductionIndicesSize(dnn, reduction, x.tensor, y.tensor, &indexBytes));
			    CHECK(indexBytes == (isExtreme ? 4 * channels : 0));
			    DeviceArray<unsigned char> workspace(bytes);
			    DeviceArray<uint32_t> indices(channels);
			    CHECK(cudnnReduceTensor(dnn, reduction, indices, indexBytes, workspace, bytes - 1, s.alpha(), x.tensor,
			                            x.device, s.beta(), y.tensor, y.device) == CUDNN_STATUS_BAD_PARAM);
			    const cudnnStatus_t status =
			        cudnnReduceTensor(dnn, reduction, indices, indexBytes, workspace, bytes, s.alpha(), x.tensor,
			                          x.device, s.beta(), y.tensor, y.device);
			    reduce(x.values(), places);
			    if (isExtreme)
				    CHECK(indices.read() == places);
			    return status;
		    },
		    [&](const Vector &x) { return reduce(x, places); });
	}
}

TEST_CASE("batch normalization")
{
	Dnn dnn;
	for (auto mode : {CUDNN_BATCHNORM_PER_ACTIVATION, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_SPATIAL_PERSISTENT})
		for (auto ops : {CUDNN_BATCHNORM_OPS_BN, CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION}) {
			CAPTURE(mode, ops);
			const bool isSpatial = mode != CUDNN_BATCHNORM_PER_ACTIVATION, isFused = ops != CUDNN_BATCHNORM_OPS_BN;
			const int each = isSpatial ? 2 * pixels : 2;
			const std::vector<int> few = isSpatial ? std::vector<int>{1, channels, 1, 1} : std::vector<int>{1, 5, 4, 3};
			constexpr double epsilon = 1e-3, factor = .25;
			DESCRIBED(Activation) relu;
			OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0));
			auto of = [&](int i) { return isSpatial ? i / pixels % channels : i % (channels * pixels); };

			struct State {
				Numbers scale, bias, z, mean, variance, savedMean, savedInverse, dScale, dBias, dz;
				State(cudnnDataType_t type, const std::vector<int> &few)
				    : scale(type, Layout::nchw, few, gaussian(11)), bias(type, Layout::nchw, few, gaussian(12)),
				      z(type, Layout::nhwc, dims, gaussian(13)), mean(type, Layout::nchw, few, gaussian(14)),
				      variance(type, Layout::nchw, few, [] { return 2.; }),
				      savedMean(type, Layout::nchw, few, [] { return NaN; }),
				      savedInverse(type, Layout::nchw, few, [] { return NaN; }),
				      dScale(type, Layout::nchw, few, [] { return NaN; }),
				      dBias(type, Layout::nchw, few, [] { return NaN; }),
				      dz(type, Layout::padded, dims, [] { return NaN; })
				{
				}
			};
			State state(CUDNN_DATA_DOUBLE, few), single(F, few);
			DeviceArray<unsigned char> workspace(1 << 16), reserve(1 << 16);
			auto forwardWith = [&](State &s, bool keeps, const Scalars &scalars, Numbers &x, Numbers &y) {
				size_t bytes = 0, reserveBytes = 0;
				OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(dnn, mode, ops, x.tensor, s.z.tensor,
				                                                            y.tensor, s.scale.tensor, relu, &bytes));
				OK(cudnnGetBatchNormalizationTrainingExReserveSpaceSize(dnn, mode, ops, relu, x.tensor, &reserveBytes));
				CHECK((reserveBytes > 0) == isFused);
				return cudnnBatchNormalizationForwardTrainingEx(
				    dnn, mode, ops, scalars.alpha(), scalars.beta(), x.tensor, x.device, s.z.tensor, s.z.device,
				    y.tensor, y.device, s.scale.tensor, s.scale.device, s.bias.device, factor,
				    keeps ? s.mean.device : nullptr, keeps ? s.variance.device : nullptr, epsilon, s.savedMean.device,
				    s.savedInverse.device, relu, workspace, bytes, reserve, reserveBytes);
			};
			auto reference = [&](const State &s, const Vector &x, Vector *means, Vector *variances) {
				Vector mean(s.scale.count()), variance(s.scale.count()), y(x.size());
				for (size_t i = 0; i < x.size(); ++i)
					mean[of(static_cast<int>(i))] += x[i] / each;
				for (size_t i = 0; i < x.size(); ++i)
					variance[of(static_cast<int>(i))] += std::pow(x[i] - mean[of(static_cast<int>(i))], 2) / each;
				for (int i = 0; i < static_cast<int>(x.size()); ++i) {
					y[i] = (x[i] - mean[of(i)]) / std::sqrt(variance[of(i)] + epsilon) * s.scale[of(i)] + s.bias[of(i)];
					y[i] = isFused ? std::max(0., y[i] + s.z[i]) : y[i];
				}
				if (means) {
					*means = mean;
					*variances = variance;
				}
				return y;
			};
			// fp32, running and saved statistics included
			Numbers x(F, Layout::nhwc, dims, gaussian(1)), y(F, Layout::padded, dims, [] { return NaN; });
			const Vector oldMean = single.mean.values();
			OK(forwardWith(single, true, Scalars(F, 1, 0), x, y));
			CHECK(y.download());
			Vector mean, variance;
			const Vector want = reference(single, x.values(), &mean, &variance);
			for (Numbers *one : {&single.mean, &single.variance, &single.savedMean, &single.savedInverse})
				CHECK(one->download());
			for (int i = 0; i < y.count(); ++i)
				CHECK(y[i] == Approx(want[i]).margin(1e-5));
			for (int i = 0; i < single.mean.count(); ++i) {
				CHECK(single.savedMean[i] == Approx(mean[i]).margin(1e-6));
				CHECK(single.savedInverse[i] == Approx(1 / std::sqrt(variance[i] + epsilon)));
				CHECK(single.mean[i] == Approx(.25 * mean[i] + .75 * oldMean[i]).margin(1e-6));
				CHECK(single.variance[i] == Approx(.25 * variance[i] * each / (each - 1) + 1.5));
			}
			if (!isFused) { // inference with the running statistics
				OK(cudnnBatchNormalizationForwardInference(dnn, mode, Scalars(F, 1, 0).alpha(), Scalars(F, 1, 0).beta(),
				                                           x.tensor, x.device, y.tensor, y.device, single.scale.tensor,
				                                           single.scale.device, single.bias.device, single.mean.device,
				                                           single.variance.device, epsilon));
				CHECK(y.download());
				for (int i = 0; i < y.count(); ++i)
					CHECK(y[i] == Approx((x[i] - single.mean[of(i)]) / std::sqrt(single.variance[of(i)] + epsilon) *
					                         single.scale[of(i)] +
					                     single.bias[of(i)])
					                  .margin(1e-4));
			}
			// gradients in double, with and without the saved statistics
			for (bool isSaved : {true, false})
				checkBackward(
				    dims, dims,
				    [&](const Scalars &s, Numbers &from, Numbers &to) {
					    return forwardWith(state, false, s, from, to);
				    },
				    [&](const Scalars &s, Numbers &from, Numbers &to, Numbers &dy, Numbers &dx) {
					    const cudnnStatus_t status = cudnnBatchNormalizationBackwardEx(
					        dnn, mode, ops, s.alpha(), s.beta(), s.alpha(), s.beta(), from.tensor, from.device,
					        to.tensor, to.device, dy.tensor, dy.device, state.dz.tensor,
					        isFused ? state.dz.device : nullptr, dx.tensor, dx.device, state.scale.tensor,
					        state.scale.device, state.bias.device, state.dScale.device, state.dBias.device, epsilon,
					        isSaved ? state.savedMean.device : nullptr, isSaved ? state.savedInverse.device : nullptr,
					        relu, workspace, 1 << 16, reserve, 1 << 16);
					    CHECK(state.dBias.download());
					    Vector sums(state.dBias.count());
					    for (int i = 0; i < dy.count(); ++i)
						    sums[of(i)] += !isFused || to[i] > 0 ? dy[i] : 0;
					    for (int i = 0; i < state.dBias.count(); ++i)
						    CHECK(state.dBias[i] == Approx(sums[i]).margin(1e-9));
					    return status;
				    });
		}
}
