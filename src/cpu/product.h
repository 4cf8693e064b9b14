// Computes an fp32 product from bfloat16 operands with fp32 sums: C = alpha op(A) op(B) + beta C. Called for sgemm in
// all spellings, after the policy has decided. Any thread. Not reentrant on a thread: the front's wrapper must let
// inner calls pass.
//
// On a CPU with AMX, the first product of a process opens oneDNN, and the first ones of a kind generate its code. The
// caller must hold forks of other threads during the first product (src/life/fork_hold.h). It also holds a
// base::CallerState, because oneDNN computes in the floating-point environment and must not be cancelled.
#pragma once

#include "src/cpu/dnnl.h"
#include "src/cpu/library_threads.h"
#include "src/cpu/processor.h"
#include "src/cpu/reason.h"
#include "src/cpu/weights.h"

#include <cstddef>
#include <cstdint>

namespace autoamp::cpu {

// Arguments of sgemm, column-major. A row-major product is the column-major one with A and B, and m and n, exchanged.
struct Product {
	bool transA, transB;
	int64_t m, n, k;
	float alpha;
	const float *A;
	int64_t lda;
	const float *B;
	int64_t ldb;
	float beta;
	float *C;
	int64_t ldc;
};

struct Engine {
	Bf16Unit unit;
	const Dnnl &dnnl;
	Bf16Unit (*unitInDnnl)(const Dnnl &) = unitOf;
	bool usesFma = hasSlowDot(); // in our own kernel
};
// That of the process.
Engine engine();

// Returns none if C has the result. The caller otherwise runs the program's own function at once, with the same
// arguments. C is then unchanged, with one exception: after engineFailed with beta == 0, an unknown part of C is
// overwritten. The program's function overwrites all of it. If beta is 0, C is not read.
//
// threads: those of the program's library (library_threads.h); at most so many run. budget: bytes of converted operands
// and kept weights, for all threads of the process. oneDNN allocates a few MB per thread in addition.
struct Keeping {
	WeightMode mode;
	// The product has few rows, and is worth it only if its weight needs no conversion: notKept is returned, and C is
	// unchanged, until the weight was kept once. From then on, products with these addresses and sizes run in bfloat16.
	// If their copy is lost, they convert the weight.
	bool onlyIfKept;
	uint32_t patience = 0; // products with a weight before its content is examined
};
Reason multiply(const Product &product, Threads threads, size_t budget, const Keeping &keeping, WeightUse &use,
                const Engine &on = engine());

// Without keeping weights.
Reason multiply(const Product &product, Threads threads, size_t budget, const Engine &on = engine());

} // namespace autoamp::cpu
