// Convolutions: forward, data gradient and filter gradient, of images with contiguous planes or channels, with and
// without stride.
#include "tools/self_test/session.h"

#include <cmath>

namespace self_test {

namespace {

struct Cudnn {
	void *library = open({"libcudnn.so.9"});
	FUNCTION(library, cudnnCreate);
	FUNCTION(library, cudnnDestroy);
	FUNCTION(library, cudnnCreateTensorDescriptor);
	FUNCTION(library, cudnnSetTensor4dDescriptor);
	FUNCTION(library, cudnnDestroyTensorDescriptor);
	FUNCTION(library, cudnnCreateFilterDescriptor);
	FUNCTION(library, cudnnSetFilter4dDescriptor);
	FUNCTION(library, cudnnDestroyFilterDescriptor);
	FUNCTION(library, cudnnCreateConvolutionDescriptor);
	FUNCTION(library, cudnnSetConvolution2dDescriptor);
	FUNCTION(library, cudnnDestroyConvolutionDescriptor);
	FUNCTION(library, cudnnGetConvolutionForwardWorkspaceSize);
	FUNCTION(library, cudnnGetConvolutionBackwardDataWorkspaceSize);
	FUNCTION(library, cudnnGetConvolutionBackwardFilterWorkspaceSize);
	FUNCTION(library, cudnnConvolutionForward);
	FUNCTION(library, cudnnConvolutionBackwardData);
	FUNCTION(library, cudnnConvolutionBackwardFilter);
};

struct Spec {
	int n, c, h, w, k, filter, pad, stride, exponent;
};
constexpr Spec specs[] = {
    {4, 16, 14, 14, 24, 3, 1, 1, 20}, {2, 5, 9, 7, 11, 3, 0, 2, -20}, {3, 32, 10, 10, 16, 1, 0, 1, 0}};

class Convolution
{
public:
	Convolution(const Cudnn &cudnn, const Spec &spec, bool isChannelsLast)
	    : cudnn_(cudnn), of_(spec), isChannelsLast_(isChannelsLast),
	      height_((spec.h + 2 * spec.pad - spec.filter) / spec.stride + 1),
	      width_((spec.w + 2 * spec.pad - spec.filter) / spec.stride + 1), x_(size(spec.n, spec.c, spec.h, spec.w)),
	      w_(size(spec.k, spec.c, spec.filter, spec.filter)), y_(size(spec.n, spec.k, height_, width_))
	{
		const cudnnTensorFormat_t format = isChannelsLast ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
		for (cudnnTensorDescriptor_t *each : {&xDesc_, &yDesc_})
			NEED(cudnn.cudnnCreateTensorDescriptor(each));
		NEED(cudnn.cudnnCreateFilterDescriptor(&wDesc_));
		NEED(cudnn.cudnnCreateConvolutionDescriptor(&convDesc_));
		NEED(cudnn.cudnnSetTensor4dDescriptor(xDesc_, format, CUDNN_DATA_FLOAT, of_.n, of_.c, of_.h, of_.w));
		NEED(cudnn.cudnnSetTensor4dDescriptor(yDesc_, format, CUDNN_DATA_FLOAT, of_.n, of_.k, height_, width_));
		NEED(cudnn.cudnnSetFilter4dDescriptor(wDesc_, CUDNN_DATA_FLOAT, format, of_.k, of_.c, of_.filter, of_.filter));
		NEED(cudnn.cudnnSetConvolution2dDescriptor(convDesc_, of_.pad, of_.pad, of_.stride, of_.stride, 1, 1,
		                                           CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	}
	~Convolution()
	{
		cudnn_.cudnnDestroyConvolutionDescriptor(convDesc_);
		cudnn_.cudnnDestroyFilterDescriptor(wDesc_);
		cudnn_.cudnnDestroyTensorDescriptor(yDesc_);
		cudnn_.cudnnDestroyTensorDescriptor(xDesc_);
	}
	Convolution(const Convolution &) = delete;
	Convolution &operator=(const Convolution &) = delete;

	void run(cudnnHandle_t handle, const Report &report)
	{
		forward(handle, report);
		backwardData(handle, report);
		backwardFilter(handle, report);
	}

private:
	// The algorithms that need no particular shape.
	void forward(cudnnHandle_t handle, const Report &report)
	{
		prepare(x_, w_, y_);
		const cudnnConvolutionFwdAlgo_t algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
		size_t bytes = 0;
		NEED(cudnn_.cudnnGetConvolutionForwardWorkspaceSize(handle, xDesc_, wDesc_, convDesc_, yDesc_, algorithm,
		                                                    &bytes));
		const Array<char> workspace(bytes + 1);
		NEED(cudnn_.cudnnConvolutionForward(handle, &alpha, xDesc_, x_.device(), wDesc_, w_.device(), convDesc_,
		                                    algorithm, workspace.device(), bytes, &beta, yDesc_, y_.device()));
		report("cudnnConvolutionForward", error(y_, y_.host.size()));
	}
	void backwardData(cudnnHandle_t handle, const Report &report)
	{
		prepare(y_, w_, x_);
		const cudnnConvolutionBwdDataAlgo_t algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
		size_t bytes = 0;
		NEED(cudnn_.cudnnGetConvolutionBackwardDataWorkspaceSize(handle, wDesc_, yDesc_, convDesc_, xDesc_, algorithm,
		                                                         &bytes));
		const Array<char> workspace(bytes + 1);
		NEED(cudnn_.cudnnConvolutionBackwardData(handle, &alpha, wDesc_, w_.device(), yDesc_, y_.device(), convDesc_,
		                                         algorithm, workspace.device(), bytes, &beta, xDesc_, x_.device()));
		report("cudnnConvolutionBackwardData", error(x_, x_.host.size()));
	}
	void backwardFilter(cudnnHandle_t handle, const Report &report)
	{
		prepare(x_, y_, w_);
		const cudnnConvolutionBwdFilterAlgo_t algorithm = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
		size_t bytes = 0;
		NEED(cudnn_.cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, xDesc_, yDesc_, convDesc_, wDesc_, algorithm,
		                                                           &bytes));
		const Array<char> workspace(bytes + 1);
		NEED(cudnn_.cudnnConvolutionBackwardFilter(handle, &alpha, xDesc_, x_.device(), yDesc_, y_.device(), convDesc_,
		                                           algorithm, workspace.device(), bytes, &beta, wDesc_, w_.device()));
		report("cudnnConvolutionBackwardFilter", error(w_, w_.host.size()));
	}

	static size_t size(int n, int c, int h, int w) { return static_cast<size_t>(n) * c * h * w; }
	void prepare(Array<float> &first, Array<float> &second, const Array<float> &result)
	{
		fill(first.host, of_.exponent);
		fill(second.host, 0);
		first.upload(), second.upload();
		result.upload();
	}
	size_t at(int i, int channel, int row, int column, int channels, int rows, int columns) const
	{
		return isChannelsLast_ ? ((static_cast<size_t>(i) * rows + row) * columns + column) * channels + channel
		                       : ((static_cast<size_t>(i) * channels + channel) * rows + row) * columns + column;
	}
	// Each result is a sum of products x w, y w or x y over the same pairs of elements.
	double error(const Array<float> &result, size_t count) const
	{
		std::vector<double> exact(count);
		for (int n = 0; n < of_.n; n++)
			for (int k = 0; k < of_.k; k++)
				for (int p = 0; p < height_; p++)
					for (int q = 0; q < width_; q++)
						for (int c = 0; c < of_.c; c++)
							for (int r = 0; r < of_.filter; r++)
								for (int s = 0; s < of_.filter; s++) {
									const int h = p * of_.stride + r - of_.pad, v = q * of_.stride + s - of_.pad;
									if (h < 0 || h >= of_.h || v < 0 || v >= of_.w)
										continue;
									const size_t x = at(n, c, h, v, of_.c, of_.h, of_.w),
									             w = at(k, c, r, s, of_.c, of_.filter, of_.filter),
									             y = at(n, k, p, q, of_.k, height_, width_);
									if (&result == &y_)
										exact[y] += double{x_.host[x]} * double{w_.host[w]};
									else if (&result == &x_)
										exact[x] += double{y_.host[y]} * double{w_.host[w]};
									else
										exact[w] += double{x_.host[x]} * double{y_.host[y]};
								}
		const std::vector<float> computed = result.download();
		double wrong = 0, norm = 0;
		for (size_t i = 0; i < count; i++) {
			const double sum = double{alpha} * exact[i], off = sum - double{computed[i]};
			wrong += off * off, norm += sum * sum;
		}
		return std::sqrt(wrong / norm);
	}

	static constexpr float alpha = 1, beta = 0;
	const Cudnn &cudnn_;
	const Spec of_;
	const bool isChannelsLast_;
	const int height_, width_; // of y
	Array<float> x_, w_, y_;
	cudnnTensorDescriptor_t xDesc_ = nullptr, yDesc_ = nullptr;
	cudnnFilterDescriptor_t wDesc_ = nullptr;
	cudnnConvolutionDescriptor_t convDesc_ = nullptr;
};

} // namespace

void convolve(const Report &report)
{
	driver();
	const Cudnn cudnn;
	cudnnHandle_t handle = nullptr;
	NEED(cudnn.cudnnCreate(&handle));
	for (const Spec &spec : specs)
		for (const bool isChannelsLast : {false, true})
			Convolution(cudnn, spec, isChannelsLast).run(handle, report);
	cudnn.cudnnDestroy(handle);
}

} // namespace self_test
