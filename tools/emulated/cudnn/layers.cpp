// Layers that combine neighbouring elements: softmax, activation, pooling, local response normalization.
#include "tools/emulated/cudnn/layer.h"

#include <cfloat>
#include <cmath>

using namespace emulated::cudnn;

namespace {

// Calls function(first element, distance, count) for each group that softmax normalises.
template <typename Function>
void eachGroup(const Tensor &t, cudnnSoftmaxMode_t mode, Function function)
{
	const int64_t pixels = t.countFrom(2), image = t.countFrom(1);
	for (int64_t n = 0; n < t.dims[0]; ++n)
		for (int64_t i = 0; i < (mode == CUDNN_SOFTMAX_MODE_INSTANCE ? 1 : pixels); ++i)
			function(n * image + i, mode == CUDNN_SOFTMAX_MODE_INSTANCE ? 1 : pixels,
			         mode == CUDNN_SOFTMAX_MODE_INSTANCE ? image : t.dims[1]);
}

void softmax(const Tensor &t, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode, Values &x)
{
	const bool isFast = algorithm == CUDNN_SOFTMAX_FAST, isDouble = t.type == CUDNN_DATA_DOUBLE;
	eachGroup(t, mode, [&](int64_t first, int64_t step, int64_t count) {
		double most = -INFINITY, sum = 0;
		for (int64_t i = 0; i < count; ++i)
			most = std::max(most, x[first + i * step]);
		for (int64_t i = 0; i < count; ++i) {
			double &value = x[first + i * step];
			value -= isFast ? 0 : most;
			const double power = std::exp(value);
			sum += isDouble ? power : static_cast<float>(power); // the float sum of the fast algorithm can overflow
			value = algorithm == CUDNN_SOFTMAX_LOG ? value : isDouble ? power : static_cast<float>(power);
		}
		for (int64_t i = 0; i < count; ++i)
			x[first + i * step] =
			    algorithm == CUDNN_SOFTMAX_LOG ? x[first + i * step] - std::log(sum) : x[first + i * step] / sum;
	});
}

bool isSoftmax(cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode)
{
	return algorithm >= 0 && algorithm <= CUDNN_SOFTMAX_LOG && mode >= 0 && mode <= CUDNN_SOFTMAX_MODE_CHANNEL;
}

// Calls function() for each result element of a pooling, with the image elements of its window. `size` includes the
// padding if the mode requires it.
template <typename Function>
void eachWindow(const cudnnPoolingStruct &d, const Tensor &x, const Tensor &y, Function function)
{
	const int64_t pixels = y.countFrom(2);
	int64_t taps = 1;
	for (int i = 0; i < d.rank; ++i)
		taps *= d.window[i];
	std::vector<int64_t> inside;
	for (int64_t at = 0; at < y.count(); ++at) {
		inside.clear();
		int64_t whole = 1; // size of the window, including padding
		for (int64_t tap = 0; tap < taps; ++tap) {
			int64_t place = at / pixels * x.countFrom(2), pixel = at % pixels, rest = tap, scale = 1;
			bool isInside = true;
			for (int i = d.rank - 1; i >= 0; --i) {
				const int64_t from = pixel % y.dims[i + 2] * d.stride[i] - d.pad[i], index = from + rest % d.window[i];
				isInside &= index >= 0 && index < x.dims[i + 2];
				place += index * scale;
				scale *= x.dims[i + 2];
				pixel /= y.dims[i + 2];
				rest /= d.window[i];
				if (tap == 0)
					whole *= d.window[i];
			}
			if (isInside)
				inside.push_back(place);
		}
		const bool countsPadding = d.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING;
		function(at, inside, countsPadding ? whole : static_cast<int64_t>(inside.size()));
	}
}

bool isMax(const cudnnPoolingStruct &d)
{
	return d.mode == CUDNN_POOLING_MAX || d.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

bool isPooling(const cudnnPoolingStruct *d, const cudnnTensorStruct *x, const cudnnTensorStruct *y)
{
	int64_t dims[CUDNN_DIM_MAX];
	return d && x && y && outputOf(*d, x->tensor, dims) && y->tensor.rank == x->tensor.rank &&
	       std::equal(dims, dims + x->tensor.rank, y->tensor.dims) && x->tensor.type == y->tensor.type;
}

// k + alpha / n * sum of squares over the neighbouring channels of each element.
Values responses(const cudnnLRNStruct &d, const Tensor &t, const Values &x)
{
	Values sums(x.size());
	const int64_t pixels = t.countFrom(2), behind = (static_cast<int64_t>(d.n) - 1) / 2, ahead = d.n - behind - 1;
	for (int64_t i = 0; i < t.count(); ++i) {
		const int64_t channel = i / pixels % t.dims[1];
		double sum = 0;
		for (int64_t c = std::max<int64_t>(0, channel - behind); c <= std::min(t.dims[1] - 1, channel + ahead); ++c)
			sum += x[i + (c - channel) * pixels] * x[i + (c - channel) * pixels];
		sums[i] = d.k + d.alpha / d.n * sum;
	}
	return sums;
}

} // namespace

ENTRY(cudnnSoftmaxForward, EXECUTION_FAILED, handle, algorithm, mode, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!isSoftmax(algorithm, mode) || !xDesc || !xDesc->tensor.hasSameDims(yDesc->tensor), BAD_PARAM);
	REFUSE_IF(xDesc->tensor.type != yDesc->tensor.type, BAD_PARAM);
	const Tensor t = xDesc->tensor;
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		softmax(t, algorithm, mode, v[0]);
		return v[0];
	});
}

ENTRY(cudnnSoftmaxBackward, EXECUTION_FAILED, handle, algorithm, mode, alpha, yDesc, y, dyDesc, dy, beta, dxDesc, dx)
{
	SCALARS(dxDesc);
	REFUSE_IF(!isSoftmax(algorithm, mode) || !yDesc || !dyDesc, BAD_PARAM);
	const Tensor t = yDesc->tensor;
	REFUSE_IF(!t.hasSameDims(dyDesc->tensor) || !t.hasSameDims(dxDesc->tensor), BAD_PARAM);
	REFUSE_IF(t.type != dyDesc->tensor.type || t.type != dxDesc->tensor.type, BAD_PARAM);
	return blend(handle, __func__, a, b, {{yDesc, y}, {dyDesc, dy}}, {dxDesc, dx}, [=](std::vector<Values> v) {
		const bool isLog = algorithm == CUDNN_SOFTMAX_LOG;
		eachGroup(t, mode, [&](int64_t first, int64_t step, int64_t count) {
			double sum = 0;
			for (int64_t i = first; i < first + count * step; i += step)
				sum += isLog ? v[1][i] : v[0][i] * v[1][i];
			for (int64_t i = first; i < first + count * step; i += step)
				v[1][i] = isLog ? v[1][i] - std::exp(v[0][i]) * sum : v[0][i] * (v[1][i] - sum);
		});
		return v[1];
	});
}

ENTRY(cudnnActivationForward, EXECUTION_FAILED, handle, activation, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!activation || activation->mode == CUDNN_ACTIVATION_IDENTITY, BAD_PARAM);
	REFUSE_IF(!xDesc || !xDesc->tensor.hasSameDims(yDesc->tensor), BAD_PARAM);
	REFUSE_IF(xDesc->tensor.type != yDesc->tensor.type, BAD_PARAM);
	const cudnnActivationStruct d = *activation;
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		for (double &value : v[0])
			value = activate(d, value);
		return v[0];
	});
}

ENTRY(cudnnActivationBackward, EXECUTION_FAILED, handle, activation, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta,
      dxDesc, dx)
{
	SCALARS(dxDesc);
	REFUSE_IF(!activation || activation->mode == CUDNN_ACTIVATION_IDENTITY || !yDesc || !dyDesc || !xDesc, BAD_PARAM);
	for (const auto *other : {yDesc, dyDesc, xDesc})
		REFUSE_IF(!other->tensor.hasSameDims(dxDesc->tensor) || other->tensor.type != dxDesc->tensor.type, BAD_PARAM);
	const cudnnActivationStruct d = *activation;
	return blend(handle, __func__, a, b, {{yDesc, y}, {dyDesc, dy}, {xDesc, x}}, {dxDesc, dx},
	             [=](std::vector<Values> v) {
		             for (size_t i = 0; i < v[0].size(); ++i)
			             v[0][i] = activateBackward(d, v[2][i], v[0][i], v[1][i]);
		             return v[0];
	             });
}

ENTRY(cudnnPoolingForward, EXECUTION_FAILED, handle, pooling, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!isPooling(pooling, xDesc, yDesc), BAD_PARAM);
	const Tensor from = xDesc->tensor, to = yDesc->tensor;
	const cudnnPoolingStruct d = *pooling;
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		Values result(to.count());
		eachWindow(d, from, to, [&](int64_t at, const std::vector<int64_t> &window, int64_t size) {
			// A window that lies entirely in the padding has the start value of the maximum.
			double most = !window.empty() ? -INFINITY : from.type == CUDNN_DATA_DOUBLE ? -DBL_MAX : -FLT_MAX, sum = 0;
			bool hasNan = false;
			for (int64_t place : window) {
				hasNan |= std::isnan(v[0][place]);
				most = std::fmax(most, v[0][place]);
				sum += v[0][place];
			}
			result[at] = !isMax(d)                                ? sum / static_cast<double>(size)
			             : hasNan && d.nan == CUDNN_PROPAGATE_NAN ? NAN
			                                                      : most;
		});
		return result;
	});
}

ENTRY(cudnnPoolingBackward, EXECUTION_FAILED, handle, pooling, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta, dxDesc, dx)
{
	SCALARS(dxDesc);
	REFUSE_IF(!dyDesc || !isPooling(pooling, dxDesc, dyDesc), BAD_PARAM);
	const Tensor from = dxDesc->tensor, to = dyDesc->tensor;
	const cudnnPoolingStruct d = *pooling;
	if (isMax(d)) { // average modes need neither x nor y
		REFUSE_IF(!isPooling(pooling, xDesc, yDesc) || !from.hasSameDims(xDesc->tensor), BAD_PARAM);
	}
	const auto part = [&](cudnnTensorDescriptor_t descriptor, const void *data) {
		return isMax(d) ? Part{descriptor, data} : Part{nullptr, nullptr, true};
	};
	return blend(handle, __func__, a, b, {part(yDesc, y), {dyDesc, dy}, part(xDesc, x)}, {dxDesc, dx},
	             [=](std::vector<Values> v) {
		             Values result(from.count());
		             eachWindow(d, from, to, [&](int64_t at, const std::vector<int64_t> &window, int64_t size) {
			             for (int64_t place : window) {
				             if (!isMax(d)) {
					             result[place] += v[1][at] / static_cast<double>(size);
				             } else if (v[2][place] == v[0][at]) {
					             result[place] += v[1][at];
					             break;
				             }
			             }
		             });
		             return result;
	             });
}

ENTRY(cudnnLRNCrossChannelForward, EXECUTION_FAILED, handle, norm, mode, alpha, xDesc, x, beta, yDesc, y)
{
	SCALARS(yDesc);
	REFUSE_IF(!norm || mode != CUDNN_LRN_CROSS_CHANNEL_DIM1 || !xDesc, BAD_PARAM);
	const Tensor t = xDesc->tensor;
	REFUSE_IF(!t.hasSameDims(yDesc->tensor) || t.type != yDesc->tensor.type, BAD_PARAM);
	REFUSE_IF(t.rank != 4 && t.rank != 5, NOT_SUPPORTED);
	const cudnnLRNStruct d = *norm;
	return blend(handle, __func__, a, b, {{xDesc, x}}, {yDesc, y}, [=](std::vector<Values> v) {
		const Values sums = responses(d, t, v[0]);
		for (size_t i = 0; i < sums.size(); ++i)
			v[0][i] *= std::pow(sums[i], -d.beta);
		return v[0];
	});
}

ENTRY(cudnnLRNCrossChannelBackward, EXECUTION_FAILED, handle, norm, mode, alpha, yDesc, y, dyDesc, dy, xDesc, x, beta,
      dxDesc, dx)
{
	SCALARS(dxDesc);
	REFUSE_IF(!norm || mode != CUDNN_LRN_CROSS_CHANNEL_DIM1 || !yDesc || !dyDesc || !xDesc, BAD_PARAM);
	const Tensor t = xDesc->tensor;
	for (const auto *other : {yDesc, dyDesc, dxDesc})
		REFUSE_IF(!other->tensor.hasSameDims(t) || other->tensor.type != t.type, BAD_PARAM);
	REFUSE_IF(t.rank != 4 && t.rank != 5, NOT_SUPPORTED);
	const cudnnLRNStruct d = *norm;
	return blend(
	    handle, __func__, a, b, {{yDesc, y}, {dyDesc, dy}, {xDesc, x}}, {dxDesc, dx}, [=](std::vector<Values> v) {
		    const Values sums = responses(d, t, v[2]);
		    const int64_t pixels = t.countFrom(2), behind = (static_cast<int64_t>(d.n) - 1) / 2,
		                  ahead = d.n - behind - 1;
		    Values result(sums.size());
		    for (int64_t i = 0; i < t.count(); ++i) {
			    const int64_t c = i / pixels % t.dims[1];
			    double back = 0; // from the windows that contain this channel
			    for (int64_t o = std::max<int64_t>(0, c - ahead); o <= std::min(t.dims[1] - 1, c + behind); ++o) {
				    const int64_t j = i + (o - c) * pixels;
				    back += v[1][j] * v[0][j] / sums[j];
			    }
			    result[i] = v[1][i] * std::pow(sums[i], -d.beta) - 2 * d.alpha * d.beta / d.n * v[2][i] * back;
		    }
		    return result;
	    });
}
