// floating_point [upward]: the floating-point environment belongs to the program. Makes first calls and cached ones in
// a process that traps every exception, and checks the flags and modes after them. Its products are exact. upward: in
// an unusual environment.
#include "bound.h"

#include <cfenv>
#include <xmmintrin.h>

static float A[64], B[64], C[64 * 8];
static const float one = 1, zero = 0;
static cublasHandle_t handle;

static bool call(int n)
{
	return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, 8, n, 8, &one, A, 8, B, 8, &zero, C, 8) ==
	       CUBLAS_STATUS_SUCCESS;
}

struct Environment {
	unsigned sse = _mm_getcsr();
	unsigned short control, status;
	Environment() { asm volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=m"(status)); }
	bool operator==(const Environment &other) const
	{
		return sse == other.sse && control == other.control && status == other.status;
	}
};

static bool isKept(int n)
{
	const Environment before;
	for (int i = 0; i < 3; i++)
		if (!call(n) || !(Environment() == before)) {
			std::printf("columns %d, call %d: mxcsr %x instead of %x\n", n, i, Environment().sse, before.sse);
			return false;
		}
	return true;
}

int main(int argc, char **)
{
	for (int i = 0; i < 64; i++)
		A[i] = B[i] = static_cast<float>(i % 7);
	cublasCreate_v2(&handle);
	if (argc > 1) {
		constexpr unsigned flushToZero = 0x8000, denormalsAreZero = 0x40;
		std::fesetround(FE_UPWARD);
		_mm_setcsr(_mm_getcsr() | flushToZero | denormalsAreZero);
		const unsigned short single = 0x87f; // 24 bits, upward
		asm volatile("fldcw %0" : : "m"(single));
		return !(isKept(2) && isKept(3) && isKept(8));
	}
	std::feclearexcept(FE_ALL_EXCEPT);
	feenableexcept(FE_ALL_EXCEPT);
	if (!isKept(2)) // the process's first call among them
		return 1;
	fedisableexcept(FE_ALL_EXCEPT);
	std::feraiseexcept(FE_OVERFLOW | FE_UNDERFLOW);
	if (!isKept(3))
		return 1;
	std::feclearexcept(FE_ALL_EXCEPT);
	return !isKept(8) || std::fetestexcept(FE_ALL_EXCEPT);
}
