#include "src/site/device.h"

#include "kernels/images.h"
#include "src/cuda/context.h"

namespace autoamp::core {

bool deviceAt(const Process &process, int ordinal, policy::Device &device)
{
	const cuda::Driver *driver = cuda::driver();
	if (!driver) {
		constexpr int placeholderCapability = 90; // sufficient for any type: the reason is driver_too_old, not the GPU
		device = {&policy::gpuConstants(process.options.gpuModel, nullptr, 0), placeholderCapability, false, false};
		return true;
	}
	const cuda::DeviceFacts *facts = cuda::deviceFacts(*driver, ordinal);
	if (!facts)
		return false;
	device = {&policy::gpuConstants(process.options.gpuModel, facts->name, facts->capability), facts->capability,
	          kernels::canLoad(facts->capability, driver->version)};
	return true;
}

} // namespace autoamp::core
