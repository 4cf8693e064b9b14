// The time that the front for CPU BLAS adds to a call that runs unchanged: nanoseconds over a direct call of the same
// empty function, median and quartiles of 31 paired rounds.
//   for trace in off summary ops; do
//       AUTOAMP_TRACE=$trace AUTOAMP_TRACE_FILE=/tmp/passed.aat LD_PRELOAD=build/inject/libautoamp-cpu.so
//       build/tests/bench/passed rm -f /tmp/passed*.aat
//   done
#include <algorithm>
#include <cstdio>
#include <ctime>

#define PARAMETERS                                                                                                     \
	int order, int transa, int transb, int m, int n, int k, float alpha, const float *A, int lda, const float *B,      \
	    int ldb, float beta, float *C, int ldc

extern "C" {
void cblas_sgemm(PARAMETERS);
void cblas_dgemm(PARAMETERS);
void direct_sgemm(PARAMETERS);
}

namespace {

using Routine = decltype(cblas_sgemm);
constexpr int calls = 200'000, rounds = 31;

// ns of one call, CPU time of this thread.
template <Routine routine>
double time()
{
	static float a[64], b[64], c[64];
	timespec begin, end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	for (int i = 0; i < calls; i++)
		routine(101, 111, 111, 8, 8, 8, 1, a, 8, b, 8, 0, c, 8);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 + static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
	       calls;
}

template <Routine routine>
void print(const char *name)
{
	double added[rounds];
	time<routine>(), time<direct_sgemm>();
	for (double &each : added)
		each = time<routine>() - time<direct_sgemm>();
	std::sort(added, added + rounds);
	std::printf("%-12s %6.1f ns (%.1f to %.1f)\n", name, added[rounds / 2], added[rounds / 4], added[rounds * 3 / 4]);
}

} // namespace

int main()
{
	print<cblas_sgemm>("cblas_sgemm");
	print<cblas_dgemm>("cblas_dgemm");
}
