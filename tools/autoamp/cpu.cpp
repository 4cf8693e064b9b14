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

KnownCpu thisCpu(const policy::Options &options)
{
	KnownCpu known;
	const cpu::Bf16Unit unit = cpu::bf16Unit();
	const bool isDetected = options.cpuModel == policy::CpuModel::automatic;
	known.cpu = policy::builtInCpu(isDetected ? policy::cpuModelOf(cpu::family(), unit == cpu::Bf16Unit::amx)
	                                          : options.cpuModel);
	known.cpu.hasBfloat16 = unit != cpu::Bf16Unit::none;
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
