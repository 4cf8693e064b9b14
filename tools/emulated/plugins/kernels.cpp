// libautoamp-kernels.so: gives the emulated device the project's own kernels, from the text that nvcc compiles.
// Loaded with the device; the kernels run on its workers.
#include "tools/emulated/simt.h"

#include "kernels/cast.cuh"
#include "tools/emulated/kernel.h"

namespace {

using autoamp::kernels::Parameters;

// Device addresses become what this process can touch, once a launch.
Parameters onHost(Parameters p)
{
	for (auto &operand : p.operand) {
		operand.source = emulated::deviceView(operand.source);
		operand.target = emulated::deviceView(operand.target);
	}
	p.scratch = emulated::deviceView(p.scratch);
	p.predictions = emulated::deviceView(p.predictions);
	p.calls = emulated::deviceView(p.calls);
	p.maxima = emulated::deviceView(p.maxima);
	p.ring = emulated::deviceView(p.ring);
	p.alpha = emulated::deviceView(p.alpha);
	p.beta = emulated::deviceView(p.beta);
	return p;
}

template <void (*kernel)(const Parameters)>
void run(const emulated::Launch &launch, void **arguments)
{
	const Parameters parameters = onHost(*static_cast<const Parameters *>(arguments[0]));
	simt::run(launch.grid, launch.block, [&parameters] { kernel(parameters); });
}

constexpr size_t sizes[] = {sizeof(Parameters)};
constexpr emulated::Kernel kernels[] = {
    {"autoamp_begin", run<autoamp_begin>, sizes, 1},
    {"autoamp_cast_half", run<autoamp_cast_half>, sizes, 1},
    {"autoamp_cast_bfloat16", run<autoamp_cast_bfloat16>, sizes, 1},
    {"autoamp_settle", run<autoamp_settle>, sizes, 1},
};
const emulated::Registration registration(kernels);

} // namespace
