#include "tools/emulated/cudnn/dnn/convolution.h"

namespace emulated::dnn {

namespace {

// One group of one image, for every direction: x has `channels` images, y has `filters`.
struct Geometry {
	const Convolution &convolution;
	int64_t channels, filters;
	const int64_t *image, *filter, *output; // spatial extents
	int64_t imageSize = 1, taps = 1, outputSize = 1;

	Geometry(const Convolution &c, const Tensor &x, const Tensor &w, const Tensor &y)
	    : convolution(c), channels(w.dims[1]), filters(w.dims[0] / c.groups), image(x.dims + 2), filter(w.dims + 2),
	      output(y.dims + 2), imageSize(x.countFrom(2)), taps(w.countFrom(2)), outputSize(y.countFrom(2))
	{
	}

	// Calls function(index in columns, index in images, stride in images, count) for each run inside the images.
	// Columns contain a row of `outputSize` elements for each channel and tap.
	template <typename Function>
	void eachRun(Function function) const
	{
		const int last = convolution.spatial - 1;
		for (int64_t row = 0; row < channels * taps; ++row) {
			int64_t from[6], rest = row % taps; // the position that the first output element reads, per dimension
			for (int d = last; d >= 0; --d) {
				const int64_t tap = rest % filter[d];
				rest /= filter[d];
				from[d] = (convolution.isFlipped ? filter[d] - 1 - tap : tap) * convolution.dilation[d] -
				          convolution.prePad[d];
			}
			const int64_t step = convolution.stride[last], width = output[last];
			const int64_t first = from[last] >= 0 ? 0 : (-from[last] + step - 1) / step;
			const int64_t end =
			    std::min(width, image[last] > from[last] ? (image[last] - from[last] - 1) / step + 1 : 0);
			for (int64_t line = 0; first < end && line < outputSize / width; ++line) {
				int64_t offset = row / taps, scale = 1, inside = 0, left = line;
				bool isInside = true;
				for (int d = last; d >= 0; --d) {
					int64_t at = from[d] + first * step;
					if (d < last) {
						at = from[d] + left % output[d] * convolution.stride[d];
						left /= output[d];
						isInside &= at >= 0 && at < image[d];
					}
					inside += at * scale;
					scale *= image[d];
				}
				if (isInside)
					function(row * outputSize + line * width + first, offset * imageSize + inside, step, end - first);
			}
		}
	}
};

} // namespace

template <typename T>
void convolve(const Convolution &convolution, const Tensor &first, const void *firstData, const Tensor &second,
              const void *secondData, const Tensor &result, T *dense, Rounding rounding)
{
	std::vector<T> a(first.count()), b(second.count());
	load(first, firstData, a.data(), rounding);
	load(second, secondData, b.data(), rounding);
	const Direction direction = convolution.direction;
	const bool isForward = direction == Direction::forward, isData = direction == Direction::backwardData;
	const Tensor &x = isData ? result : first,
	             &w = isForward ? second
	                  : isData  ? first
	                            : result,
	             &y = isForward ? result : second;
	const Geometry g(convolution, x, w, y);
	const int64_t depth = g.channels * g.taps, images = x.dims[0];
	std::vector<T> columns(depth * g.outputSize), product(isForward || isData ? 0 : depth * g.filters);
	std::fill_n(dense, result.count(), T{});
	for (int64_t i = 0; i < images * convolution.groups; ++i) {
		const int64_t group = i % convolution.groups;
		const int64_t xAt = i * g.channels * g.imageSize, wAt = group * g.filters * depth,
		              yAt = i * g.filters * g.outputSize;
		if (!isData)
			g.eachRun([&](int64_t to, int64_t from, int64_t step, int64_t count) {
				for (int64_t n = 0; n < count; ++n)
					columns[to + n] = a[xAt + from + n * step];
			});
		// Shapes in multiply(), by columns: columns is outputs x depth, w is depth x filters, y is outputs x filters.
		if (isForward) {
			blas::multiply(false, false, g.outputSize, g.filters, depth, columns.data(), b.data() + wAt, dense + yAt);
		} else if (isData) {
			blas::multiply(false, true, g.outputSize, depth, g.filters, b.data() + yAt, a.data() + wAt, columns.data());
			g.eachRun([&](int64_t from, int64_t to, int64_t step, int64_t count) {
				for (int64_t n = 0; n < count; ++n)
					dense[xAt + to + n * step] += columns[from + n];
			});
		} else {
			blas::multiply(true, false, depth, g.filters, g.outputSize, columns.data(), b.data() + yAt, product.data());
			for (int64_t n = 0; n < depth * g.filters; ++n)
				dense[wAt + n] += product[n];
		}
	}
}

template void convolve(const Convolution &, const Tensor &, const void *, const Tensor &, const void *, const Tensor &,
                       float *, Rounding);
template void convolve(const Convolution &, const Tensor &, const void *, const Tensor &, const void *, const Tensor &,
                       double *, Rounding);

} // namespace emulated::dnn
