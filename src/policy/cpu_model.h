// Cost model of products of a CPU BLAS: estimates their times from constants of a CPU and closed formulas. It uses no
// clock and no state. Any thread. The same call gives the same estimate in every process, bit for bit.
#pragma once

#include "src/config/options.h"
#include "src/op/op.h"

#include <cstdint>
#include <string_view>

namespace autoamp::policy {

// One way to multiply, on one thread.
struct CpuRate {
	double call;      // ns per product
	double flops;     // per ns
	double near, far; // ns per element of operands and result: from the cache, and from memory
};

// single: fp32, by the program's library. converted: bfloat16, with the conversion of both operands. kept: bfloat16,
// with a packed copy of the larger operand from an earlier call; includes the check that this operand is unchanged.
enum class CpuPath : uint8_t { single, converted, kept };

struct Cpu {
	const char *name = "built-in"; // source of the constants
	bool hasBfloat16 = false;      // AVX512-BF16, which lowered products need
	unsigned threads = 1;          // the program's library uses so many
	bool usesThreads = false;      // lowered products may use as many; otherwise they use one
	bool hasTwoPools = false;      // these are our own threads, and those of the library may wait actively next to them
	double perThread = 1 << 21;    // multiplications of a lowered product for each thread; fewer use fewer threads
	double librarySpeed = 1;       // arithmetic of the program's library; 1: with AVX-512, as in `single`
	double avx2Speed = 1, olderSpeed = 1; // that of an OpenBLAS with older kernels on this CPU
	// The default constants are those of a Zen 4.
	double leastGain = 8'000; // ns; a small one is uncertain with constants that may be of another CPU
	double cache = 2 << 20;   // bytes of operands up to which all are read from the cache
	double fork = 12'000;     // ns to start and join several threads
	CpuRate rates[3] = {{50, 105, 0.06, 0.60}, {500, 205, 0.06, 0.62}, {5'000, 205, 0.03, 0.055}}; // by CpuPath
	double keptLeast = 0.113; // ns per element of a kept operand from memory, if there is little arithmetic
};

// The built-in constants, measured with OpenBLAS 0.3.21 and oneDNN 2.6.3 (docs/bench/cpu.md). Intel's CPUs without AMX
// (xeon) do not multiply bfloat16 faster than fp32; there, it only shortens the packing and the reading of operands.
Cpu builtInCpu(CpuModel model);

// The model of a CPU with this family (of CPUID). One that was not measured counts as a Zen 4: a newer one of AMD,
// where bfloat16 gains more, or one of Intel with AMX, which multiplies bfloat16 many times as fast as fp32.
CpuModel cpuModelOf(unsigned family, bool hasAmx);

// The arithmetic of a library, relative to one with AVX-512. `about`: openblas_get_corename or openblas_get_config.
// An OpenBLAS chooses its kernels by the model of the CPU, and takes some without AVX if it is older than the CPU. All
// others count as having the best.
double librarySpeed(const Cpu &cpu, std::string_view about);

// ns. Sizes at least 1.
double cpuTime(const Cpu &cpu, const op::Op &op, CpuPath path);

// Threads of one product. Sizes at least 1.
unsigned cpuThreads(const Cpu &cpu, const op::Op &op, CpuPath path);

// With two pools of threads, a product that runs in the library slows down the next ones that run on our threads. A
// product without a gain therefore runs in bfloat16 if earlier ones of its thread have saved the time that it loses.
// Times saved earlier count up to this limit, so they do not pay for a long series of other products.
constexpr double mostSavedNs = 200'000;

// True if one operand of the product is worth keeping in bfloat16: a single matrix of at least 256 KiB of fp32, at
// least 256 by 128, that is multiplied with at most 256 rows, and at most half as many as it has. src/cpu keeps no
// other one.
bool hasWeight(const op::Op &op);

} // namespace autoamp::policy
