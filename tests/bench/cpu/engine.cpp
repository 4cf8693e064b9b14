// Speed of the CPU engine against sgemm of a BLAS library, conversion included, side by side in one process:
//   engine /usr/lib/x86_64-linux-gnu/openblas-serial/libblas.so.3 [THREADS [ROUNDS [TRANSPOSES [BETA]]]]
// for example with 1 15 TN 1.
// One thread: CPU time of the thread, which preemption does not change. More threads: wall time, on an idle machine
// only. Ratios are sgemm / engine of paired rounds: the median with its quartiles.
#include "src/cpu/library_threads.h"
#include "src/cpu/product.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <random>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace autoamp::cpu;

namespace {

using Sgemm = void(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                   const int *, const float *, const int *, const float *, float *, const int *);

template <typename Run>
double secondsOf(clockid_t clock, int repeats, Run run)
{
	timespec begin, end;
	run(); // the operands are where the other function has not left them
	clock_gettime(clock, &begin);
	for (int i = 0; i < repeats; ++i)
		run();
	clock_gettime(clock, &end);
	return (static_cast<double>(end.tv_sec - begin.tv_sec) + 1e-9 * static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
	       repeats;
}

double quantile(std::vector<double> values, double part)
{
	std::sort(values.begin(), values.end());
	return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + .5)];
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2)
		return std::puts("usage: engine LIBRARY [THREADS [ROUNDS [TRANSPOSES [BETA]]]]"), 2;
	const int threads = argc > 2 ? std::atoi(argv[2]) : 1, rounds = argc > 3 ? std::atoi(argv[3]) : 15;
	const std::string_view transposes = argc > 4 ? argv[4] : "NN";
	const float beta = argc > 5 ? std::strtof(argv[5], nullptr) : 0;
	const bool transA = transposes.starts_with('T'), transB = transposes.ends_with('T');
	void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	const auto sgemm = library ? reinterpret_cast<Sgemm *>(dlsym(library, "sgemm_")) : nullptr;
	if (!sgemm)
		return std::printf("no sgemm_ in %s\n", argv[1]), 1;
	if (const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
		set(threads);
	const Engine on = engine();
	if (on.unit == Bf16Unit::none)
		return std::puts("this CPU has no AVX512-BF16"), 77;
	const LibraryThreads found = threadsOf(library);
	const Threads engineThreads = threads == 1 ? Threads(1) : found.now();
	const auto core = reinterpret_cast<const char *(*)()>(dlsym(library, "openblas_get_corename"));
	std::printf("%s; threads: sgemm %d, engine %u; %s time\n", core ? core() : "", threads, engineThreads.most,
	            threads == 1 ? "CPU" : "wall");
	std::puts("      m     n     k   sgemm  engine GFLOP/s   ratio (quartiles)");

	std::vector<std::vector<int>> shapes;
	for (int n : {16, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096})
		shapes.push_back({n, n, n});
	for (int rows : {1, 8, 16, 32, 64, 128})
		shapes.push_back({4096, rows, 4096}); // column-major: the weights are A
	std::mt19937 random(1);
	std::normal_distribution<float> normal;
	for (const auto &shape : shapes) {
		const int m = shape[0], n = shape[1], k = shape[2];
		const double flop = 2. * m * n * k;
		std::vector<float> A(static_cast<size_t>(m) * k), B(static_cast<size_t>(k) * n), C(static_cast<size_t>(m) * n);
		for (float &x : A)
			x = normal(random);
		for (float &x : B)
			x = normal(random);
		const int lda = transA ? k : m, ldb = transB ? n : k;
		const Product product{transA, transB, m, n, k, 1, A.data(), lda, B.data(), ldb, beta, C.data(), m};
		const auto runEngine = [&] {
			if (multiply(product, engineThreads, size_t{1} << 30) != Reason::none)
				std::abort();
		};
		const auto runSgemm = [&] {
			const float one = 1;
			sgemm(transA ? "T" : "N", transB ? "T" : "N", &m, &n, &k, &one, A.data(), &lda, B.data(), &ldb, &beta,
			      C.data(), &m);
		};
		const clockid_t clock = threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
		const int repeats = static_cast<int>(std::clamp(1e9 * threads / flop, 1., 20000.)); // 10 ms
		std::vector<double> slow, fast, ratios;
		for (int round = 0; round < (flop > 1e11 ? std::max(rounds / 3, 3) : rounds); ++round) {
			double times[2];
			for (int i : {round % 2, 1 - round % 2}) { // alternates which one is first
				if (threads > 1)
					usleep(30000); // the other pool stops waiting actively
				times[i] = i ? secondsOf(clock, repeats, runEngine) : secondsOf(clock, repeats, runSgemm);
			}
			slow.push_back(times[0]), fast.push_back(times[1]), ratios.push_back(times[0] / times[1]);
		}
		std::printf("  %5d %5d %5d %7.1f %7.1f           %5.2f (%.2f .. %.2f)\n", m, n, k,
		            flop / quantile(slow, .5) * 1e-9, flop / quantile(fast, .5) * 1e-9, quantile(ratios, .5),
		            quantile(ratios, .25), quantile(ratios, .75));
		std::fflush(stdout);
	}
}
