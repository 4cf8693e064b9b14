#include "kernels/images.h"

#include <iterator>

namespace autoamp::kernels {

namespace {

constexpr Image table[] = {
#include "kernels/images.inc"
};
static_assert(std::size(table) <= mostImages);

} // namespace

std::span<const Image> images()
{
	return table;
}

const Image *imageFor(int capability, std::span<const Image> among)
{
	const Image *best = nullptr;
	for (const Image &image : among) {
		const bool runs =
		    image.architecture <= capability && (image.isPtx || image.architecture / 10 == capability / 10);
		if (runs && (!best || (best->isPtx == image.isPtx ? image.architecture > best->architecture : best->isPtx)))
			best = &image;
	}
	return best;
}

} // namespace autoamp::kernels
