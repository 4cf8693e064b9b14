#include "src/lower/self_test_convolution.h"

#include "src/base/faults.h"
#include "src/base/hash.h"
#include "src/op/convolution.h"
#include "src/op/shadow.h"

#include <cmath>

namespace autoamp::lower {

namespace {

// A 3x3 cross-correlation with padding 1, so that results are as large as images. The tensors are packed in the order
// N, C, H, W; their channels are padded to 8 in 16 bits.
constexpr int64_t images = 2, channels = 5, height = 7, width = 6, filters = 9, side = 3, pad = 1;
constexpr float alpha = -0.75f, beta = 0;
// The first one needs a scale. The second one has the prediction of the first, which is wrong for it. The last one has
// a 16-bit result, which float16 never has.
constexpr int exponents[] = {20, -6, 0};
constexpr unsigned narrow = 2;

op::Tensor tensorOf(int64_t n, int64_t c, int64_t h, int64_t w)
{
	op::Tensor tensor = {{n, c, h, w}, {c * h * w, h * w, w, 1}, 4, op::Dtype::float32};
	return tensor;
}

op::Convolution convolution()
{
	op::Convolution convolution;
	convolution.x = tensorOf(images, channels, height, width);
	convolution.w = tensorOf(filters, channels, side, side);
	convolution.y = tensorOf(images, filters, height, width);
	convolution.spatial = 2;
	for (int i = 0; i < convolution.spatial; i++) {
		convolution.padBefore[i] = convolution.padAfter[i] = pad;
		convolution.stride[i] = convolution.dilation[i] = 1;
	}
	convolution.compute = op::Dtype::float32;
	return convolution;
}

// The stream of a handle during the lifetime of this object.
class StreamOf
{
public:
	StreamOf(const op::Cudnn &cudnn, void *handle, void *before, void *stream)
	    : cudnn_(cudnn), handle_(handle), before_(before), isSet_(cudnn.cudnnSetStream(handle, stream) == 0)
	{
	}
	~StreamOf()
	{
		if (isSet_ && cudnn_.cudnnSetStream(handle_, before_) && cudnn_.cudnnSetStream(handle_, before_))
			base::leaveFault("cudnnSetStream");
	}
	StreamOf(const StreamOf &) = delete;
	StreamOf &operator=(const StreamOf &) = delete;
	bool isSet() const { return isSet_; }

private:
	const op::Cudnn &cudnn_;
	void *const handle_, *const before_;
	const bool isSet_;
};

} // namespace

TestConvolutions::TestConvolutions(const LoweredCall &call, const op::CudnnGraph &cudnn, void *handle,
                                   Convolve convolve)
    : TestProblems(call.isHalf() ? narrow : narrow + 1), call_(call), cudnn_(cudnn), handle_(handle),
      convolve_(convolve)
{
	static_assert(std::size(exponents) == narrow + 1);
	for (unsigned i = 0; i < count; i++) {
		places_[i].x = add(images * channels * height * width, exponents[i]);
		places_[i].w = add(filters * channels * side * side, 0);
		places_[i].y = add(images * filters * height * width, 0);
	}
}

Outcome TestConvolutions::enqueue(unsigned problem, cuda::Stream stream, cuda::Address operands)
{
	const auto *const cudnn = op::cudnn<op::Cudnn>(call_.original);
	op::Op op;
	op.a = op.b = op.out = op.asked = op::Dtype::float32;
	op.device = call_.op.device;
	op.flags = op::flagBetaZero;
	op.geometry = op::numberOf(convolution());
	if (!cudnn || !op.geometry)
		return decline(policy::Reason::unsupported);
	op::setFacts(op, op::factsAt(op.geometry));
	Settings settings = call_.settings;
	settings.isScaling = true, settings.isStrict = false;
	settings.reportsEvents = settings.roundsOutput = false;
	cache_.hash = base::mix(2, op.device);
	policy::Decision decision;
	decision.verdict = policy::Verdict::lowered;
	decision.strategy = call_.decision.strategy, decision.precision = call_.decision.precision;
	// Every GPU that multiplies in the type has engines for these forms.
	decision.form = problem == narrow ? op::Form::narrow : op::Form::wide;
	LoweredCall test{op, decision, cache_, settings, call_.original, stream};
	test.isTest = true;
	op::ConvolutionCall of;
	of.handle = handle_;
	of.alpha = &alpha, of.beta = &beta;
	float *const base = reinterpret_cast<float *>(operands);
	of.x = base + places_[problem].x, of.w = base + places_[problem].w, of.y = base + places_[problem].y;
	const StreamOf streamOfHandle(*cudnn, handle_, call_.stream, stream);
	return streamOfHandle.isSet() ? convolve_(test, of, cudnn_)
	                              : decline(policy::Reason::engine_failed, "cudnnSetStream");
}

double TestConvolutions::error(unsigned problem) const
{
	const float *const x = &given[places_[problem].x], *const w = &given[places_[problem].w],
	                   *const y = &result[places_[problem].y];
	RelativeError error;
	const auto sumAt = [&](int64_t image, int64_t filter, int64_t row, int64_t column) {
		double sum = 0;
		for (int64_t channel = 0; channel < channels; channel++)
			for (int64_t i = 0; i < side; i++)
				for (int64_t j = 0; j < side; j++) {
					const int64_t h = row + i - pad, v = column + j - pad;
					if (h >= 0 && h < height && v >= 0 && v < width)
						sum += static_cast<double>(x[((image * channels + channel) * height + h) * width + v]) *
						       static_cast<double>(w[((filter * channels + channel) * side + i) * side + j]);
				}
		return sum * static_cast<double>(alpha);
	};
	for (int64_t image = 0; image < images; image++)
		for (int64_t filter = 0; filter < filters; filter++)
			for (int64_t row = 0; row < height; row++)
				for (int64_t column = 0; column < width; column++) {
					const double exact = sumAt(image, filter, row, column);
					error.add(exact, exact, y[((image * filters + filter) * height + row) * width + column]);
				}
	return error.value();
}

} // namespace autoamp::lower
