// Reasons why a product was not computed in bfloat16.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

enum class Reason : uint8_t {
	none,
	cpuTooOld,        // no AVX512-BF16, or the kernel has not enabled its registers
	noLibrary,        // neither libdnnl.so.3 nor libdnnl.so.2 could be opened
	noFunction,       // oneDNN lacks dnnl_gemm_bf16bf16f32, or it runs without OpenMP
	isaLimited,       // oneDNN would emulate bfloat16 (ONEDNN_MAX_CPU_ISA)
	nothingToDo,      // a size or alpha is 0
	invalidArguments, // the program's function reports them
	overlap,          // C shares addresses with A or B
	memoryBudget,     // converted operands exceed the budget
	noMemory,
	engineFailed, // oneDNN returned an error or threw
};

} // namespace autoamp::cpu
