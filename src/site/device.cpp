#include "src/site/device.h"

#include "kernels/images.h"
#include "src/cuda/context.h"

namespace autoamp::core {

bool deviceAt(const Process &process, int ordinal, policy::Device &device)
{
	const cuda::Driver *driver = cuda::driver();
	if (!driver) {
		constexpr int anyCapability = 90; // has every type, so that the reason is driver_too_old
		device = {&policy::gpuConstants(process.options.gpuModel, nullptr, 0), anyCapability, false, false};
		return true;
	}
	const cuda::DeviceFacts *facts = cuda::deviceFacts(*driver, ordinal);
	if (!facts)
		return false;
	device = {&policy::gpuConstants(process.options.gpuModel, facts->name, facts->capability), facts->capability,
	          kernels::canLoad(facts->capability, driver->version)};
	return true;
}

policy::Device cpuDevice(const Process &process, const void *)
{
	return {&policy::gpuConstants(process.options.gpuModel, nullptr, 0), 90, true, true};
}

} // namespace autoamp::core
