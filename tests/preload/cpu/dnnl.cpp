// Libraries with the name of oneDNN that do not work: -DLACKS the function, -DTHROWS, -DREFUSES, -DLIMITED to AVX-512.
#include <cstdint>
#include <stdexcept>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int dnnl_get_effective_cpu_isa()
{
#ifdef LIMITED
	return 0xe7;
#else
	return 0x3e7; // AMX
#endif
}

#ifndef LACKS
EXPORT int dnnl_gemm_bf16bf16f32(char, char, std::int64_t m, std::int64_t n, std::int64_t, float, const std::uint16_t *,
                                 std::int64_t, const std::uint16_t *, std::int64_t, float beta, float *C,
                                 std::int64_t ldc)
{
	if (beta == 0) // a part of the result is overwritten before the failure
		for (std::int64_t i = 0; i < m / 2; i++)
			for (std::int64_t j = 0; j < n; j++)
				C[i * ldc + j] = 77;
#ifdef THROWS
	throw std::runtime_error("no memory for code");
#else
	return 1; // dnnl_out_of_memory
#endif
}
#endif

// Its OpenMP library.
EXPORT int omp_get_max_threads()
{
	return 1;
}
EXPORT void omp_set_num_threads(int) {}
EXPORT int omp_in_parallel()
{
	return 0;
}
EXPORT int omp_get_thread_num()
{
	return 0;
}
EXPORT int omp_get_num_threads()
{
	return 1;
}
EXPORT void GOMP_parallel(void (*work)(void *), void *context, unsigned, unsigned)
{
	work(context);
}
