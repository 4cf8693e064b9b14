// A convolution in fp64 for a client, in any direction: visits every product of an element of x, one of w and one of y.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace client {

struct Place {
	std::vector<int64_t> dims, strides;
};
struct Sliding {
	int64_t stride, dilation, pad;
	bool isFlipped;
};

// visit(offset in x, offset in w, offset in y); the number of groups follows from the channels of x and w.
template <typename Visit>
void eachProduct(Place x, Place w, Place y, const Sliding &how, Visit visit)
{
	const size_t added = 5 - x.dims.size(); // adds dimensions of one element, so that there are three
	for (Place *place : {&x, &w, &y}) {
		place->dims.insert(place->dims.begin() + 2, added, 1);
		place->strides.insert(place->strides.begin() + 2, added, 0);
	}
	const int64_t channels = w.dims[1], filters = w.dims[0] / (x.dims[1] / channels);
	const auto along = [&](size_t dim, auto next) {
		for (int64_t place = 0; place < y.dims[dim]; place++)
			for (int64_t tap = 0; tap < w.dims[dim]; tap++) {
				const int64_t from = place * how.stride + tap * how.dilation - (dim < 2 + added ? 0 : how.pad);
				const int64_t own = how.isFlipped ? w.dims[dim] - 1 - tap : tap;
				if (from >= 0 && from < x.dims[dim])
					next(from * x.strides[dim], own * w.strides[dim], place * y.strides[dim]);
			}
	};
	along(2, [&](int64_t x2, int64_t w2, int64_t y2) {
		along(3, [&](int64_t x3, int64_t w3, int64_t y3) {
			along(4, [&](int64_t x4, int64_t w4, int64_t y4) {
				for (int64_t n = 0; n < y.dims[0]; n++)
					for (int64_t k = 0; k < w.dims[0]; k++)
						for (int64_t c = 0; c < channels; c++)
							visit(x2 + x3 + x4 + n * x.strides[0] + (k / filters * channels + c) * x.strides[1],
							      w2 + w3 + w4 + k * w.strides[0] + c * w.strides[1],
							      y2 + y3 + y4 + n * y.strides[0] + k * y.strides[1]);
			});
		});
	});
}

} // namespace client
