#include "tools/autoamp/cpu.h"

#include "src/cpu/processor.h"
#include "src/policy/cpu_calibration.h"

#include <fstream>
#include <sstream>

namespace autoamp::tool {

std::string calibrationPath(const policy::Options &options)
{
	return options.directory + "/" + policy::cpuCalibrationFile;
}

policy::Cpu builtInCpu()
{
	const cpu::Bf16Unit unit = cpu::bf16Unit();
	policy::Cpu cpu = policy::builtInCpu(policy::cpuModelOf(cpu::family(), unit == cpu::Bf16Unit::amx));
	cpu.hasBfloat16 = unit != cpu::Bf16Unit::none;
	return cpu;
}

KnownCpu thisCpu(const policy::Options &options)
{
	KnownCpu known;
	known.cpu = builtInCpu();
	const bool isDetected = options.cpuModel == policy::CpuModel::automatic;
	if (!isDetected) {
		const bool hasBfloat16 = known.cpu.hasBfloat16;
		known.cpu = policy::builtInCpu(options.cpuModel);
		known.cpu.hasBfloat16 = hasBfloat16;
	}
	std::ifstream file(calibrationPath(options));
	if (!isDetected || options.directory.empty() || !file)
		return known;
	std::ostringstream text;
	text << file.rdbuf();
	known.problem = policy::readCalibration(text.str(), cpu::model(), known.cpu, &known.blas);
	known.isCalibrated = known.problem.empty();
	return known;
}

} // namespace autoamp::tool
