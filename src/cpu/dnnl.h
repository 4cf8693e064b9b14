// oneDNN: opened at the first product on a CPU with AMX, never closed. Its header does not declare the function that
// multiplies, but every version since 1.2 exports it (docs/adr/0054). Any thread; no lock.
#pragma once

#include "src/cpu/guarded.h"
#include "src/cpu/library_threads.h"
#include "src/cpu/processor.h"
#include "src/cpu/reason.h"

#include <cstdint>

namespace autoamp::cpu {

// As dnnl_sgemm: row-major; 0 is success.
using Gemm = int(char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *A, int64_t lda,
                 const uint16_t *B, int64_t ldb, float beta, float *C, int64_t ldc);

struct Dnnl {
	Reason reason = Reason::noLibrary; // none: opened, with its functions
	Gemm *gemm = nullptr;
	int (*effectiveIsa)() = nullptr;
	OpenMp openMp = {};
	Catch exceptions = {};
	int major = 0, minor = 0, patch = 0; // 0.0.0: unknown
};

// Opens the library in `folder`, or, if that is null, as the dynamic linker finds it. The caller must hold forks of
// other threads: a child would inherit a half-done dlopen.
Dnnl openDnnl(const char *folder);

// That of the process.
const Dnnl &dnnl();

// The instructions with which oneDNN computes bfloat16 products; none: it is not usable, or would emulate them. On a
// CPU with AMX, the first call asks the kernel for the tile registers, for all threads of the process: signal frames
// grow by 8 KiB on threads that use them, and the kernel refuses alternate signal stacks that are too small for such a
// frame.
Bf16Unit unitOf(const Dnnl &dnnl);

// False if the function failed. An exception of oneDNN ends here.
bool callGemm(const Dnnl &dnnl, char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha,
              const uint16_t *A, int64_t lda, const uint16_t *B, int64_t ldb, float beta, float *C, int64_t ldc);

} // namespace autoamp::cpu
