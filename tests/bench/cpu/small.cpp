// small N [fortran]: the time of one product of N x N matrices in a loop that does nothing else, ns, by the BLAS that
// the loader binds. Median of 31 short rounds. For small.py.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

extern "C" {
void cblas_sgemm(int order, int transa, int transb, int m, int n, int k, float alpha, const float *A, int lda,
                 const float *B, int ldb, float beta, float *C, int ldc);
void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k, const float *alpha,
            const float *A, const int *lda, const float *B, const int *ldb, const float *beta, float *C,
            const int *ldc);
}

int main(int argc, char **argv)
{
	const int n = std::atoi(argv[1]);
	const bool isFortran = argc > 2;
	const int calls = std::max(2000, 1'000'000 / (n * n));
	const float one = 1, zero = 0;
	struct alignas(64) Line {
		float elements[16];
	};
	std::vector<Line> lines[3]; // equal addresses in each run, relative to cache lines
	float *matrices[3];
	for (int i = 0; i < 3; i++) {
		lines[i].assign(static_cast<std::size_t>(n) * n / 16 + 1, Line{});
		matrices[i] = lines[i].data()->elements;
		for (int element = 0; element < n * n; element++)
			matrices[i][element] = 1.f / static_cast<float>(element + 3);
	}
	float *const A = matrices[0], *const B = matrices[1], *const C = matrices[2];
	double rounds[31];
	for (double &round : rounds) {
		timespec begin, end;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (isFortran)
			for (int i = 0; i < calls; i++)
				sgemm_("N", "N", &n, &n, &n, &one, A, &n, B, &n, &zero, C, &n);
		else
			for (int i = 0; i < calls; i++)
				cblas_sgemm(102, 111, 111, n, n, n, 1, A, n, B, n, 0, C, n);
		clock_gettime(CLOCK_MONOTONIC, &end);
		round =
		    (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 + static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
		    calls;
	}
	std::sort(rounds, rounds + 31);
	std::printf("%.2f\n", rounds[15]);
}
