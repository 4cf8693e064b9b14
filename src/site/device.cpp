#include "src/site/device.h"

#include "kernels/images.h"
#include "src/base/log.h"
#include "src/config/toml.h"
#include "src/cpu/processor.h"
#include "src/cuda/context.h"
#include "src/policy/cpu_calibration.h"

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

policy::Cpu cpuConstants(const policy::Options &options)
{
	const cpu::Bf16Unit unit = cpu::bf16Unit();
	const bool isDetected = options.cpuModel == policy::CpuModel::automatic;
	policy::Cpu cpu = policy::builtInCpu(isDetected ? policy::cpuModelOf(cpu::family(), unit == cpu::Bf16Unit::amx)
	                                                : options.cpuModel);
	cpu.hasBfloat16 = unit != cpu::Bf16Unit::none;
	policy::ConfigFile file;
	std::string problem;
	const std::string path = options.directory + "/" + policy::cpuCalibrationFile;
	if (!isDetected || options.directory.empty() || policy::readFile(path, file, problem) == policy::Reading::missing)
		return cpu;
	if (problem.empty())
		problem = policy::readCalibration(file.text, cpu::model(), cpu);
	if (!problem.empty())
		base::log(base::LogLevel::warn, "%s: %s; using built-in constants", path.c_str(), problem.c_str());
	return cpu;
}

policy::Device deviceOf(const policy::Cpu &cpu)
{
	policy::Device device = {&policy::gpuConstants(policy::GpuModel::automatic, nullptr, 0), 0, false, false};
	device.cpu = &cpu;
	return device;
}

} // namespace autoamp::core
