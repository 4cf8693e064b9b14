// Two thread pools in one process: the engine with its own threads next to the threads of the program's BLAS, side by
// side, on an idle machine only:
//   pools /usr/lib/x86_64-linux-gnu/openblas-pthread/libblas.so.3 [ROUNDS [N...]]
// First table: sgemm of the library, and the engine with one thread and with as many as the library has. Second table:
// sgemm alternates with the library's own dgemm, as in a program; sgemm is the library's, or the engine's with its own
// threads, or with the OpenMP threads of oneDNN. Third table: as many threads of the program as the library has
// multiply at once. Wall time. Ratios are library / engine of paired rounds: the median with its quartiles.
#include "src/cpu/product.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <initializer_list>
#include <random>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace autoamp::cpu;

namespace {

// A 64-bit integer is also right for a library that reads 32 bits.
template <typename Real>
using Gemm = void(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const Real *,
                  const Real *, const int64_t *, const Real *, const int64_t *, const Real *, Real *, const int64_t *);

template <typename Real>
Gemm<Real> *find(void *library, const char *letter)
{
	for (const std::string prefix : {"", "scipy_"})
		for (const char *suffix : {"", "64_"})
			if (void *const found = dlsym(library, (prefix + letter + "gemm_" + suffix).c_str()))
				return reinterpret_cast<Gemm<Real> *>(found);
	return nullptr;
}

template <typename Real>
struct Matrices {
	int64_t n;
	std::vector<Real> A, B, C;

	explicit Matrices(int64_t n) : n(n), C(static_cast<size_t>(n * n))
	{
		std::mt19937 random(1);
		std::normal_distribution<Real> normal;
		for (int64_t i = 0; i < n * n; ++i)
			A.push_back(normal(random)), B.push_back(normal(random));
	}
	void multiplyBy(Gemm<Real> *gemm)
	{
		const Real one = 1, zero = 0;
		gemm("N", "N", &n, &n, &n, &one, A.data(), &n, B.data(), &n, &zero, C.data(), &n);
	}
};

void multiplyByEngine(Matrices<float> &all, Threads threads)
{
	const int64_t n = all.n;
	const Product product{false, false, n, n, n, 1, all.A.data(), n, all.B.data(), n, 0, all.C.data(), n};
	if (multiply(product, threads, size_t{1} << 30) != Reason::none)
		std::abort();
}

double now()
{
	timespec time;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double quantile(std::vector<double> values, double part)
{
	std::sort(values.begin(), values.end());
	return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + .5)];
}

void print(const std::vector<double> &slow, const std::vector<double> &fast)
{
	std::vector<double> ratios;
	for (size_t i = 0; i < slow.size(); ++i)
		ratios.push_back(slow[i] / fast[i]);
	std::printf("  %6.2f (%.2f .. %.2f)", quantile(ratios, .5), quantile(ratios, .25), quantile(ratios, .75));
}

// `times`: library, engine on one thread, engine on all threads.
void printSpeeds(int64_t n, double flop, const std::vector<double> (&times)[3])
{
	std::printf("%6d", static_cast<int>(n));
	for (const auto &each : times)
		std::printf("  %7.1f", flop / quantile(each, .5) * 1e-9);
	print(times[0], times[1]);
	print(times[0], times[2]);
	std::putchar('\n');
}

void comparePools(Gemm<float> *sgemm, Threads threads, int64_t n, int rounds)
{
	Matrices<float> matrices(n);
	const double flop = 2. * static_cast<double>(n * n * n);
	const int repeats = static_cast<int>(std::clamp(4e9 / flop, 1., 2000.)); // 10 ms
	std::vector<double> times[3];
	for (int round = 0; round < rounds; ++round)
		for (int i = 0; i < 3; ++i) {
			const int which = (round + i) % 3;
			usleep(40000); // the library's pool stops waiting actively
			const auto run = [&] {
				which == 0 ? matrices.multiplyBy(sgemm) : multiplyByEngine(matrices, which == 1 ? Threads(1) : threads);
			};
			run();
			const double begin = now();
			for (int repeat = 0; repeat < repeats; ++repeat)
				run();
			times[which].push_back((now() - begin) / repeats);
		}
	printSpeeds(n, flop, times);
}

// Medians of sgemm and of dgemm, in seconds.
template <typename Single>
std::pair<double, double> alternate(Single single, Matrices<double> &doubles, Gemm<double> *dgemm)
{
	const int repeats =
	    std::clamp(static_cast<int>(2e9 / (2. * static_cast<double>(doubles.n * doubles.n * doubles.n))), 3, 200);
	std::vector<double> first, second;
	usleep(40000);
	for (int i = 0; i < repeats; ++i) {
		const double begin = now();
		single();
		const double middle = now();
		doubles.multiplyBy(dgemm);
		first.push_back(middle - begin), second.push_back(now() - middle);
	}
	return {quantile(first, .5), quantile(second, .5)};
}

void compareAlternation(Gemm<float> *sgemm, Gemm<double> *dgemm, Threads threads, int64_t n, int rounds)
{
	Matrices<float> floats(n);
	Matrices<double> doubles(n);
	std::vector<double> times[3][2];
	for (int round = 0; round < rounds; ++round)
		for (int i = 0; i < 3; ++i) {
			const int which = (round + i) % 3;
			const auto [single, twice] = alternate(
			    [&] {
				    which == 0 ? floats.multiplyBy(sgemm)
				               : multiplyByEngine(floats, which == 1 ? threads : Threads(threads.most, Pool::openMp));
			    },
			    doubles, dgemm);
			times[which][0].push_back(single), times[which][1].push_back(twice);
		}
	std::printf("%6d", static_cast<int>(n));
	for (const auto &[single, twice] : times)
		std::printf("  %6.2f +%6.2f", quantile(single, .5) * 1e3, quantile(twice, .5) * 1e3);
	print(times[0][0], times[1][0]);
	print(times[0][1], times[1][1]);
	std::putchar('\n');
}

void compareCallers(Gemm<float> *sgemm, Threads threads, int64_t n, int rounds)
{
	std::vector<Matrices<float>> matrices(threads.most, Matrices<float>(n));
	const double flop = 2. * static_cast<double>(n * n * n);
	const int repeats = static_cast<int>(std::clamp(4e9 / flop, 1., 2000.));
	std::vector<double> times[3];
	for (int round = 0; round < rounds; ++round)
		for (int i = 0; i < 3; ++i) {
			const int which = (round + i) % 3;
			usleep(40000);
			const double begin = now();
			std::vector<std::thread> callers;
			for (Matrices<float> &each : matrices)
				callers.emplace_back([&] {
					for (int repeat = 0; repeat < repeats; ++repeat)
						which == 0 ? each.multiplyBy(sgemm) : multiplyByEngine(each, which == 1 ? Threads(1) : threads);
				});
			for (std::thread &each : callers)
				each.join();
			times[which].push_back((now() - begin) / repeats / threads.most);
		}
	printSpeeds(n, flop, times);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2)
		return std::puts("usage: pools LIBRARY [ROUNDS [N...]]"), 2;
	const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
	std::vector<int64_t> sizes;
	for (int i = 3; i < argc; ++i)
		sizes.push_back(std::atoi(argv[i]));
	if (sizes.empty())
		sizes = {128, 256, 320, 384, 512, 1024, 2048, 4096};
	void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	const auto sgemm = library ? find<float>(library, "s") : nullptr;
	const auto dgemm = library ? find<double>(library, "d") : nullptr;
	if (!sgemm || !dgemm)
		return std::printf("no sgemm_ and dgemm_ in %s\n", argv[1]), 1;
	const Engine on = {bf16Unit(), dnnl()};
	if (on.unit == Bf16Unit::none || on.dnnl.reason != Reason::none)
		return std::printf("no engine: reason %d\n", static_cast<int>(on.dnnl.reason)), 77;
	const LibraryThreads found = threadsOf(library);
	const Threads threads = found.now();
	const char *const kinds[] = {"none", "own", "OpenMP", "other OpenMP"};
	std::printf("oneDNN %d.%d.%d; threads of the library: %u, pool: %s\n", on.dnnl.major, on.dnnl.minor, on.dnnl.patch,
	            threads.most, kinds[static_cast<int>(threads.pool)]);
	std::puts("GFLOP/s: library, engine on 1 thread, engine; ratios (quartiles) of 1 thread, of the engine");
	for (const int64_t n : sizes)
		comparePools(sgemm, threads, n, n > 2048 ? std::min(rounds, 5) : rounds);
	std::puts(
	    "ms, sgemm + dgemm: library, engine, engine on OpenMP threads; ratios of sgemm, of dgemm with the engine");
	const auto isMedium = [](int64_t n) { return n >= 256 && n <= 1024; };
	for (const int64_t n : sizes)
		if (isMedium(n))
			compareAlternation(sgemm, dgemm, threads, n, rounds);
	std::puts("callers at once, GFLOP/s: library, engine on 1 thread each, engine; ratios of 1 thread, of the engine");
	for (const int64_t n : sizes)
		if (isMedium(n))
			compareCallers(sgemm, threads, n, rounds);
}
