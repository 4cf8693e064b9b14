// Multiplies in a signal handler, which can interrupt the program's malloc or any part of another product. Prints
// "handler", and 'e' for exact products, 'r' for products that are rounded to bfloat16, 'w' for wrong ones and after an
// allocation. Not for sanitizers: it counts the calls of malloc.
#include "blas.h"
#include "check.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

extern "C" CblasGemm cblas_sgemm;
extern "C" Gemm sgemm_;

namespace {

volatile bool isHandling = false;
std::atomic<int> allocations, wrong, handled;

char product()
{
	return check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_));
}

void handle(int)
{
	isHandling = true;
	wrong += product() == 'w';
	handled++;
	isHandling = false;
}

// Sums of 2 n for all elements, exact in bfloat16 as well.
bool isRight(Int n)
{
	constexpr Int largest = 100;
	static float A[largest * largest], B[largest * largest], C[largest * largest];
	for (Int i = 0; i < n * n; i++)
		A[i] = 1, B[i] = 2, C[i] = -1;
	cblas_sgemm(rowMajor, noTrans, trans, n, n, n, 1, A, n, B, n, 0, C, n);
	for (Int i = 0; i < n * n; i++)
		if (C[i] != static_cast<float>(2 * n))
			return false;
	return true;
}

} // namespace

extern "C" {

void *__libc_malloc(size_t bytes), *__libc_calloc(size_t count, size_t bytes), *__libc_realloc(void *, size_t bytes),
    *__libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes)
{
	allocations += isHandling;
	return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	allocations += isHandling;
	return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
	allocations += isHandling;
	return __libc_realloc(block, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes)
{
	allocations += isHandling;
	*block = __libc_memalign(alignment, bytes);
	return *block ? 0 : ENOMEM;
}

void free(void *block)
{
	allocations += isHandling;
	__libc_free(block);
}

} // extern "C"

int main()
{
	const char first = product(); // the first product of a call site allocates
	struct sigaction action = {};
	action.sa_handler = handle;
	sigaction(SIGALRM, &action, nullptr);
	ualarm(2000, 2000);
	bool isGood = true;
	for (int i = 0; i < 300 || handled < 5; i++)
		isGood &= isRight(i % 50 + 32);
	ualarm(0, 0);
	std::printf("handler %c\n", isGood && wrong == 0 && allocations == 0 ? first : 'w');
}
