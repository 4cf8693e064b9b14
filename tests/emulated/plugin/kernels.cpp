// A plug-in for program.cu: its kernel as a host function.
#include "kernel.h"

namespace {

// scale(float *data, float factor, int count)
void scale(const emulated::Launch &launch, void **arguments)
{
	float *data = emulated::deviceView(*static_cast<float **>(arguments[0]));
	const float factor = *static_cast<float *>(arguments[1]);
	const auto count = static_cast<unsigned>(*static_cast<int *>(arguments[2]));
	for (unsigned i = 0; i < launch.grid.x * launch.block.x && i < count; ++i)
		data[i] *= factor;
}

constexpr size_t sizes[] = {sizeof(float *), sizeof(float), sizeof(int)};
constexpr emulated::Kernel kernels[] = {{"_Z5scalePffi", scale, sizes, 3}}; // nm -C program | grep scale
const emulated::Registration registration(kernels);

} // namespace
