// Finds out whether this CPU multiplies bfloat16 matrices, and its name. Any thread; no system call.
#pragma once

#include <cstdint>
#include <string>

namespace autoamp::cpu {

enum class Bf16Unit : uint8_t { none, avx512, amx };

// Registers that describe a CPU: CPUID (leaf, subleaf) and XCR0, which has a bit for each register state that the
// operating system saves.
struct Registers {
	uint32_t maxLeaf = 0;        // (0, 0) EAX
	uint32_t ecx1 = 0;           // (1, 0)
	uint32_t ebx7 = 0, edx7 = 0; // (7, 0)
	uint32_t eax71 = 0;          // (7, 1)
	uint64_t xcr0 = 0;
};

// A CPU with AMX-BF16 only counts as none: the conversion needs AVX512-BF16, and oneDNN does not use AMX without it.
Bf16Unit bf16UnitOf(const Registers &registers);

// The unit of this CPU, determined once.
Bf16Unit bf16Unit();

// True if FMA instructions multiply bfloat16 operands faster, converted back to fp32, than VDPBF16PS: on Intel's CPUs
// since Sapphire Rapids. There, one instruction with 32 products takes two cycles, in which four FMAs compute 64.
bool hasSlowDot();

unsigned family(); // of CPUID

// Identifies CPUs of the same speed per cycle: its name, and family, model and stepping, because virtual machines give
// different CPUs the same name. One line.
std::string model();

} // namespace autoamp::cpu
