// The images of the conversion kernels: a bare cubin for each architecture, and PTX for later ones. Any thread;
// constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

// All images. Targets that read them link kernels_object.
extern "C" const unsigned char autoamp_kernel_images[];

namespace autoamp::kernels {

struct Image {
	int architecture; // 90 for sm_90
	bool isPtx;
	int oldestDriver;      // oldest driver that is meant to load the image, by cuDriverGetVersion
	uint32_t offset, size; // in autoamp_kernel_images
};

constexpr size_t mostImages = 32;
// One row for each image, PTX last.
std::span<const Image> images();

// Selects the image for a GPU of this compute capability (90 for 9.0): the cubin of the highest architecture of the
// same major version that is not newer than the GPU, or else PTX. Null: none runs there.
const Image *imageFor(int capability, std::span<const Image> among = images());

// True if the GPU has an image, and the driver is new enough for it.
inline bool canLoad(int capability, int driverVersion)
{
	const Image *image = imageFor(capability);
	return image && driverVersion >= image->oldestDriver;
}

} // namespace autoamp::kernels
