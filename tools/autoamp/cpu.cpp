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
	known.cpu = policy::builtInCpu(cpu::family());
	known.cpu.hasBfloat16 = cpu::bf16Unit() != cpu::Bf16Unit::none;
	std::ifstream file(calibrationPath(options));
	if (options.directory.empty() || !file)
		return known;
	std::ostringstream text;
	text << file.rdbuf();
	known.problem = policy::readCalibration(text.str(), cpu::model(), known.cpu, &known.blas);
	known.isCalibrated = known.problem.empty();
	return known;
}

} // namespace autoamp::tool
