// Speed of products with few rows and kept weights, against sgemm of a BLAS library, side by side in one process:
//   weights /usr/lib/x86_64-linux-gnu/openblas-serial/libblas.so.3 [SIZE [WEIGHTS [ROUNDS]]]     default 4096 3 9
// Row-major x[rows, SIZE] @ W[SIZE, SIZE] and x @ W', for WEIGHTS weights in turn, on one thread. The table has
// milliseconds per product, and ratios sgemm / engine of paired rounds: the median with its quartiles. "kept" includes
// the scan of the watched pages. "converted" is a product whose weight is not kept. CPU time of the thread, which
// preemption does not change.
//
// The second table is a training step that rewrites every weight: x @ W, dy @ W' and W += dW, once for weights that
// were never kept, and once for weights that were kept before the training. Its ratios are those of whole steps.
#include "src/cpu/product.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <list>
#include <random>
#include <vector>

using namespace autoamp::cpu;

namespace {

using Sgemm = void(const char *, const char *, const int *, const int *, const int *, const float *, const float *,
                   const int *, const float *, const int *, const float *, float *, const int *);
using Sgemv = void(const char *, const int *, const int *, const float *, const float *, const int *, const float *,
                   const int *, const float *, float *, const int *);
Sgemm *sgemm;
Sgemv *sgemv;

constexpr size_t budget = size_t{4} << 30;

template <typename Run>
double milliseconds(Run run)
{
	timespec begin, end;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	run();
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	return 1e3 * static_cast<double>(end.tv_sec - begin.tv_sec) +
	       1e-6 * static_cast<double>(end.tv_nsec - begin.tv_nsec);
}

double quantile(std::vector<double> values, double part)
{
	std::sort(values.begin(), values.end());
	return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + .5)];
}

struct Ratio {
	std::vector<double> values;

	void print() const
	{
		std::printf("  %5.2f (%.2f .. %.2f)", quantile(values, .5), quantile(values, .25), quantile(values, .75));
	}
};

using Matrices = std::vector<std::vector<float>>;
std::mt19937 generator(1);

std::vector<float> values(size_t count)
{
	std::normal_distribution<float> normal;
	std::vector<float> result(count);
	for (float &x : result)
		x = normal(generator);
	return result;
}

// x @ W is W' x' in column-major order, so the weight is A.
Product productOf(const std::vector<float> &weight, bool isTransposed, int rows, int size, const std::vector<float> &x,
                  std::vector<float> &y)
{
	return {isTransposed, false, size, rows, size, 1, weight.data(), size, x.data(), size, 0, y.data(), size};
}

void runSgemm(const Product &product)
{
	const int m = static_cast<int>(product.m), n = static_cast<int>(product.n), k = static_cast<int>(product.k);
	sgemm(product.transA ? "T" : "N", "N", &m, &n, &k, &product.alpha, product.A, &m, product.B, &k, &product.beta,
	      product.C, &m);
}

void runSgemv(const Product &product)
{
	const int size = static_cast<int>(product.m), one = 1;
	sgemv(product.transA ? "T" : "N", &size, &size, &product.alpha, product.A, &size, product.B, &one, &product.beta,
	      product.C, &one);
}

WeightUse runEngine(const Product &product, WeightMode mode)
{
	WeightUse use;
	if (multiply(product, 1, budget, {mode, false}, use) != Reason::none)
		std::abort();
	return use;
}

void inference(int size, int count, int rounds)
{
	std::puts("inference\n          rows   sgemm    kept  converted   sgemm / kept            sgemm / converted       "
	          "sgemv / kept");
	for (const bool isTransposed : {false, true})
		for (const int rows : {1, 8, 16, 32, 64, 128, 256}) {
			Matrices weights;
			for (int i = 0; i < count; ++i)
				weights.push_back(values(static_cast<size_t>(size) * static_cast<size_t>(size)));
			const std::vector<float> x = values(static_cast<size_t>(rows * size));
			std::vector<float> y(x.size());
			const auto all = [&](auto run) {
				return milliseconds([&] {
					       for (const std::vector<float> &weight : weights)
						       run(productOf(weight, isTransposed, rows, size, x, y));
				       }) /
				       count;
			};
			int served = 0;
			const auto kept = [&](const Product &product) {
				served += runEngine(product, WeightMode::watched).isServed;
			};
			for (int i = 0; i < 300 && served < count; ++i) // addresses of earlier weights are checked less often
				served = 0, all(kept);
			if (served < count) {
				std::puts("the weights are not kept: does this kernel support userfaultfd and PAGEMAP_SCAN?");
				std::exit(77);
			}
			std::vector<double> times[4];
			Ratio ratios[4];
			for (int round = 0; round < rounds; ++round) {
				const double time[] = {all(runSgemm), all(kept),
				                       all([](const Product &product) { runEngine(product, WeightMode::off); }),
				                       rows == 1 ? all(runSgemv) : 0};
				for (int i = 0; i < 4; ++i)
					times[i].push_back(time[i]),
					    ratios[i].values.push_back(time[i == 3 ? 3 : 0] / time[i == 3 ? 1 : i]);
			}
			std::printf("%s %5d %7.3f %7.3f    %7.3f", isTransposed ? "x @ W'" : "x @ W ", rows, quantile(times[0], .5),
			            quantile(times[1], .5), quantile(times[2], .5));
			ratios[1].print(), ratios[2].print();
			if (rows == 1)
				ratios[3].print();
			std::puts("");
			std::fflush(stdout);
		}
}

// The decision of a front: the program's function runs if the product is not worth it without a kept weight.
void runFront(const Product &product, bool onlyIfKept)
{
	WeightUse use;
	if (multiply(product, 1, budget, {WeightMode::watched, onlyIfKept}, use) != Reason::none)
		runSgemm(product);
}

void training(int size, int count, int rounds)
{
	std::puts("training\nrows  only if kept  kept before   sgemm / engine, whole steps");
	for (const int rows : {1, 8, 64, 256})
		for (const bool onlyIfKept : {true, false})
			for (const bool isKeptBefore : {false, true}) {
				static std::list<Matrices> owned; // no weight has the address of an earlier one
				Matrices &weights = owned.emplace_back();
				for (int i = 0; i < count; ++i)
					weights.push_back(values(static_cast<size_t>(size) * static_cast<size_t>(size)));
				const std::vector<float> x = values(static_cast<size_t>(rows * size));
				std::vector<float> y(x.size());
				const auto step = [&](auto run) {
					return milliseconds([&] {
						for (std::vector<float> &weight : weights) {
							run(productOf(weight, false, rows, size, x, y));
							run(productOf(weight, true, rows, size, x, y));
							for (float &each : weight)
								each *= .999f;
						}
					});
				};
				const auto front = [&](const Product &product) { runFront(product, onlyIfKept); };
				for (int i = 0; isKeptBefore && i < 6; ++i)
					for (const std::vector<float> &weight : weights)
						for (const bool isTransposed : {false, true})
							front(productOf(weight, isTransposed, rows, size, x, y));
				for (int i = 0; i < 12; ++i) // notices that the weights change
					step(front);
				Ratio ratio;
				for (int round = 0; round < rounds; ++round) {
					double slow = 0, fast = 0;
					for (int i = 0; i < 4; ++i) // on the same memory, whose place changes the time as well
						slow += step(runSgemm), fast += step(front);
					ratio.values.push_back(slow / fast);
				}
				std::printf("%4d  %-12s  %-11s", rows, onlyIfKept ? "yes" : "no", isKeptBefore ? "yes" : "no");
				ratio.print();
				std::puts("");
				std::fflush(stdout);
			}
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2)
		return std::puts("usage: weights LIBRARY [SIZE [WEIGHTS [ROUNDS]]]"), 2;
	const int size = argc > 2 ? std::atoi(argv[2]) : 4096, count = argc > 3 ? std::atoi(argv[3]) : 3;
	const int rounds = argc > 4 ? std::atoi(argv[4]) : 9;
	void *const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	sgemm = library ? reinterpret_cast<Sgemm *>(dlsym(library, "sgemm_")) : nullptr;
	sgemv = library ? reinterpret_cast<Sgemv *>(dlsym(library, "sgemv_")) : nullptr;
	if (!sgemm || !sgemv)
		return std::printf("no sgemm_ in %s\n", argv[1]), 1;
	if (const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads")))
		set(1);
	if (bf16Unit() == Bf16Unit::none)
		return std::puts("this CPU has no AVX512-BF16"), 77;
	inference(size, count, rounds);
	training(std::min(size, 2048), count, rounds);
}
