#include "src/cpu/budget.h"
#include "src/cpu/generation.h"
#include "src/cpu/product.h"
#include "src/cpu/scratch.h"
#include "src/cpu/stay.h"
#include "src/cpu/team.h"
#include "tests/unit/cpu_engine.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cfenv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace autoamp::cpu;

namespace {

constexpr size_t budget = size_t{1} << 30;

bool succeedsInChild(const std::function<bool()> &run)
{
	const pid_t child = fork();
	if (child == 0) {
		alarm(60); // a child that hangs fails
		_exit(run() ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// One test of this program, in a fresh process.
bool succeedsAlone(const char *test, const char *assignment = "UNUSED=1")
{
	return succeedsInChild([&] {
		std::string text = assignment;
		putenv(text.data());
		execl("/proc/self/exe", "unit_cpu", test, nullptr);
		return false;
	});
}

__attribute__((constructor)) void skip()
{
	const char *reason = nullptr;
	if (bf16Unit() == Bf16Unit::none)
		reason = "this CPU has no AVX512-BF16";
	else if (!succeedsInChild([] { return openDnnl(nullptr).reason != Reason::noLibrary; }))
		reason = "no oneDNN: install libdnnl2";
	if (!reason)
		return;
	std::printf("skipped: %s\n", reason);
	std::fflush(stdout);
	_exit(77);
}

float rounded(float x)
{
	uint32_t bits;
	std::memcpy(&bits, &x, 4);
	bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
	std::memcpy(&x, &bits, 4);
	return x;
}

// A product with matrices that have gaps. Gaps contain a value that must not be read or overwritten.
struct Case {
	static constexpr float gap = 12345;

	int64_t m, n, k;
	bool transA, transB;
	float alpha = 1, beta = 0;
	int64_t pad = 0;
	std::vector<float> A, B, C;
	Product product;
	Engine on = {bf16Unit(), dnnl()}; // and its OpenMP threads
	std::vector<float> sources[2];    // A and B when the sums were computed
	std::vector<std::pair<double, double>> sums;

	Case(int64_t m, int64_t n, int64_t k, bool transA = false, bool transB = false, float alpha = 1, float beta = 0,
	     int64_t pad = 0, unsigned seed = 1)
	    : m(m), n(n), k(k), transA(transA), transB(transB), alpha(alpha), beta(beta), pad(pad)
	{
		std::mt19937 random(seed);
		std::normal_distribution<float> normal;
		const auto fill = [&](std::vector<float> &matrix, int64_t rows, int64_t columns) {
			matrix.assign(static_cast<size_t>((rows + pad) * columns), gap);
			for (int64_t j = 0; j < columns; ++j)
				for (int64_t i = 0; i < rows; ++i)
					matrix[static_cast<size_t>(j * (rows + pad) + i)] = normal(random);
			return rows + pad;
		};
		const int64_t lda = transA ? fill(A, k, m) : fill(A, m, k), ldb = transB ? fill(B, n, k) : fill(B, k, n);
		const int64_t ldc = fill(C, m, n);
		product = {transA, transB, m, n, k, alpha, A.data(), lda, B.data(), ldb, beta, C.data(), ldc};
	}

	Case &scaledBy(float newAlpha, float newBeta)
	{
		product.alpha = alpha = newAlpha, product.beta = beta = newBeta;
		return *this;
	}

	Case &viaOneDnn()
	{
		use(on, engineWithAmx());
		return *this;
	}

	// Errors relative to the norm: against the product of the fp32 operands, and of the rounded ones.
	struct Errors {
		double fp32, rounded;
		bool gapsKept;
	};
	Errors errors(const std::vector<float> &before)
	{
		if (A != sources[0] || B != sources[1])
			computeSums();
		double norm = 0, fp32 = 0, exact = 0;
		bool gapsKept = true;
		for (int64_t j = 0; j < n; ++j) {
			for (int64_t i = 0; i < m; ++i) {
				const auto at = static_cast<size_t>(j * product.ldc + i);
				const double added = beta == 0 ? 0 : double{beta} * before[at];
				const auto &[sum, roundedSum] = sums[static_cast<size_t>(j * m + i)];
				norm += std::pow(alpha * sum + added, 2);
				fp32 += std::pow(C[at] - (alpha * sum + added), 2);
				exact += std::pow(C[at] - (alpha * roundedSum + added), 2);
			}
			for (int64_t i = m; i < product.ldc; ++i)
				gapsKept = gapsKept && C[static_cast<size_t>(j * product.ldc + i)] == gap;
		}
		return {std::sqrt(fp32 / norm), std::sqrt(exact / norm), gapsKept};
	}
	void computeSums() // those of the operands, and those of the rounded ones
	{
		sources[0] = A, sources[1] = B;
		sums.clear();
		struct Pair {
			double plain, rounded;
		};
		const auto lines = [&](const std::vector<float> &matrix, int64_t count, int64_t outer, int64_t inner) {
			std::vector<Pair> pairs;
			for (int64_t i = 0; i < count; ++i)
				for (int64_t l = 0; l < k; ++l) {
					const float element = matrix[static_cast<size_t>(i * outer + l * inner)];
					pairs.push_back({element, ::rounded(element)});
				}
			return pairs;
		};
		const std::vector<Pair> rows = transA ? lines(A, m, product.lda, 1) : lines(A, m, 1, product.lda);
		const std::vector<Pair> columns = transB ? lines(B, n, 1, product.ldb) : lines(B, n, product.ldb, 1);
		for (int64_t j = 0; j < n; ++j)
			for (int64_t i = 0; i < m; ++i) {
				const Pair *const a = rows.data() + i * k, *const b = columns.data() + j * k;
				double sum = 0, roundedSum = 0;
				for (int64_t l = 0; l < k; ++l) {
					sum += a[l].plain * b[l].plain;
					roundedSum += a[l].rounded * b[l].rounded;
				}
				sums.emplace_back(sum, roundedSum);
			}
	}
	// As in a child that was forked while a thread was inside a product.
	bool isKept()
	{
		const std::vector<float> before = C;
		return multiply(product, 1, budget, on) == Reason::forkedInside && C == before;
	}
	// The result is that of bfloat16 operands and fp32 sums.
	bool succeeds(unsigned threads = 1)
	{
		const std::vector<float> before = C;
		if (multiply(product, threads, budget, on) != Reason::none)
			return false;
		const auto [fp32, rounded, gapsKept] = errors(before);
		return fp32 < 5e-3 && rounded < 2e-6 && gapsKept;
	}
};

} // namespace

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_ALLOCATION_FAULTS
namespace {
// The next allocations of oneDNN fail after this many; -1: none fails.
constinit thread_local int allocationsLeft = -1;
constinit std::atomic<bool> allocationsFail{false}; // in all threads
} // namespace
extern "C" __attribute__((visibility("default"))) int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
	if (allocationsFail || allocationsLeft == 0)
		return ENOMEM;
	if (allocationsLeft > 0)
		--allocationsLeft;
	*memory = aligned_alloc(alignment, bytes);
	return *memory ? 0 : ENOMEM;
}
#endif

TEST_CASE("one thread starts no other", "[.]")
{
	CHECK(Case(300, 300, 300).viaOneDnn().succeeds());
	CHECK(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 1);
}

TEST_CASE("oneDNN leaves the affinity of the thread", "[.]")
{
	cpu_set_t before, after;
	sched_getaffinity(0, sizeof before, &before);
	REQUIRE(dnnl().reason == Reason::none);
	sched_getaffinity(0, sizeof after, &after);
	CHECK(CPU_EQUAL(&before, &after));
}

TEST_CASE("an instruction set without bfloat16 is not used", "[.]")
{
	Case one(300, 300, 300);
	one.on.unit = Bf16Unit::amx;
	CHECK(unitOf(dnnl()) == Bf16Unit::none);
	CHECK(one.succeeds());
}

TEST_CASE("a process opens oneDNN without side effects")
{
	CHECK(succeedsAlone("one thread starts no other"));
	CHECK(succeedsAlone("oneDNN leaves the affinity of the thread", "OMP_PROC_BIND=true"));
	CHECK(succeedsAlone("an instruction set without bfloat16 is not used", "ONEDNN_MAX_CPU_ISA=AVX512_CORE"));
}

TEST_CASE("transposes, scalars, leading dimensions and threads give the product of rounded operands")
{
	const int64_t shapes[][3] = {{1, 1, 1},      {1, 65, 40},     {50, 1, 33},     {7, 9, 1},
	                             {33, 47, 129},  {130, 70, 260},  {256, 600, 130}, {300, 130, 259}, // few rows
	                             {256, 770, 64}, {311, 100, 131}, {257, 270, 128}, {90, 260, 31},
	                             {4, 103, 331},  {20, 85, 70},    {64, 20, 1001}};
	for (const auto &[m, n, k] : shapes)
		for (bool transA : {false, true})
			for (bool transB : {false, true})
				for (int64_t pad : {0, 5}) {
					Case one(m, n, k, transA, transB, 1, 0, pad);
					const std::vector<float> before = one.C;
					for (unsigned threads : {1, 2})
						for (const auto &[alpha, beta] : {std::pair(1.f, 0.f), {1.f, 1.f}, {-.3f, 0.f}, {1.7f, -.6f}}) {
							CAPTURE(m, n, k, transA, transB, pad, threads, alpha, beta);
							use(one.on, engine());
							one.C = before;
							CHECK(one.scaledBy(alpha, beta).succeeds(threads));
							one.C = before;
							if (std::max(m, n) >= 256)
								CHECK(one.viaOneDnn().succeeds(threads));
						}
				}
}

TEST_CASE("few terms with a large result")
{
	for (const bool transA : {false, true})
		for (const unsigned threads : {1, 3})
			CHECK(Case(1100, 1000, 9, transA, !transA, .5f, -2, 3).succeeds(threads));
}

TEST_CASE("operands are rounded to bfloat16")
{
	Case one(128, 128, 128);
	REQUIRE(multiply(one.product, 1, budget) == Reason::none);
	CHECK(one.errors(one.C).fp32 > 1e-3); // fp32: 3e-7
}

TEST_CASE("FMA instructions give the bits of VDPBF16PS")
{
	const int64_t shapes[][3] = {{1, 256, 129},   {300, 5, 2100},   {300, 12, 259},
	                             {13, 257, 1024}, {290, 300, 1025}, {100, 300, 31}};
	for (const auto &[m, n, k] : shapes)
		for (bool transA : {false, true})
			for (bool transB : {false, true})
				for (const auto &[alpha, beta] : {std::pair(1.f, 0.f), {-.3f, 1.7f}}) {
					Case one(m, n, k, transA, transB, alpha, beta, 5);
					one.A[0] = std::numeric_limits<float>::infinity(), one.A[1] = 3e38f; // sums overflow
					one.B[0] = 3e38f, one.B[1] = 0;
					const auto result = [&, k = k](bool usesFma, unsigned threads, int rounding = FE_TONEAREST) {
						std::vector<float> C = one.C;
						one.product.C = C.data(), one.on.usesFma = usesFma;
						std::fesetround(rounding); // applies to alpha, beta and sums of more than 1024 terms
						CHECK(multiply(one.product, threads, budget, one.on) == Reason::none);
						CHECK(std::fegetround() == rounding);
						std::fesetround(FE_TONEAREST);
						std::vector<uint32_t> bits(C.size());
						std::memcpy(bits.data(), C.data(), C.size() * sizeof(float));
						return bits;
					};
					CAPTURE(m, n, k, transA, transB, alpha);
					const auto expected = result(!hasSlowDot(), 1); // CPUs that do not use FMA may sum otherwise
					CHECK((result(true, 1) == expected && result(true, 2) == expected));
					if (beta == 0 && k <= 1024)
						CHECK(result(true, 1, FE_UPWARD) == expected);
				}
}

TEST_CASE("long sums lose less than 1e-5")
{
	for (const int64_t n : {16, 64}) { // few rows, and both operands packed
		Case one(1024, n, 50'000);
		std::fill(one.A.begin(), one.A.end(), rounded(.7f));
		std::fill(one.B.begin(), one.B.end(), rounded(.9f));
		REQUIRE(multiply(one.product, 1, budget) == Reason::none);
		const double exact = 50e3 * double{rounded(.7f)} * rounded(.9f);
		// On an emulated CPU with AMX, oneDNN lost 2.3e-5.
		const bool isByAmx = n == 64 && engine().unit == Bf16Unit::amx;
		for (const float sum : one.C)
			REQUIRE(std::abs(sum - exact) < (isByAmx ? 1e-4 : 1e-5) * exact);
	}
}

TEST_CASE("beta 0 does not read C")
{
	for (const auto &[size, threads] :
	     std::initializer_list<std::pair<int64_t, unsigned>>{{200, 1}, {300, 1}, {300, 2}, {320, 1}, {320, 2}}) {
		Case one(size, 310, 220, false, true, .5f, 0, 3);
		for (int64_t j = 0; j < one.n; ++j)
			std::fill_n(one.C.begin() + j * one.product.ldc, one.m, std::numeric_limits<float>::quiet_NaN());
		CHECK(one.succeeds(threads));
		one.product.beta = -0.f;
		CHECK(one.succeeds(threads));
	}
}

TEST_CASE("NaN, Inf and the largest values stay in their rows")
{
	for (const int64_t size : {64, 300, 320}) { // few rows, oneDNN, both operands packed
		Case one(size, size, 64);
		one.A[3] = std::numeric_limits<float>::quiet_NaN();
		one.A[5] = std::numeric_limits<float>::infinity();
		one.A[7] = std::numeric_limits<float>::max();
		for (int64_t j = 0; j < size; ++j)
			one.B[static_cast<size_t>(j * 64)] = 0; // Inf * 0 is NaN; the largest value must not be Inf
		REQUIRE(multiply(one.product, 1, budget) == Reason::none);
		for (int64_t j = 0; j < size; ++j)
			for (int64_t i = 0; i < size; ++i)
				CHECK(std::isnan(one.C[static_cast<size_t>(j * size + i)]) == (i == 3 || i == 5));
	}
}

TEST_CASE("an infinite element is no NaN at any place")
{
	if (engine().unit == Bf16Unit::amx)
		return; // oneDNN computes there, and was not examined
	for (const int64_t k : {31, 32, 257})
		for (const int64_t at : {int64_t{0}, k - 2, k - 1})
			for (const bool isInA : {true, false}) {
				CAPTURE(k, at, isInA);
				Case one(100, 90, k);
				std::fill(one.A.begin(), one.A.end(), 1.f), std::fill(one.B.begin(), one.B.end(), 1.f);
				(isInA ? one.A[static_cast<size_t>(at * 100)] : one.B[static_cast<size_t>(at)]) =
				    std::numeric_limits<float>::infinity();
				REQUIRE(multiply(one.product, 1, budget, one.on) == Reason::none);
				CHECK(std::count_if(one.C.begin(), one.C.end(), [](float x) { return std::isinf(x); }) ==
				      (isInA ? 90 : 100));
				CHECK(std::none_of(one.C.begin(), one.C.end(), [](float x) { return std::isnan(x); }));
			}
}

TEST_CASE("products that the engine declines leave C alone")
{
	const auto declines = [](Reason reason, auto change) {
		Case one(16, 17, 18, false, false, 1, 1, 4);
		const std::vector<float> before = one.C;
		Engine on = engine();
		size_t bytes = budget;
		change(one.product, on, bytes);
		const Reason given = multiply(one.product, 2, bytes, on);
		return given == reason && one.C == before;
	};
	using P = Product &;
	CHECK(declines(Reason::nothingToDo, [](P p, Engine &, size_t &) { p.m = 0; }));
	CHECK(declines(Reason::nothingToDo, [](P p, Engine &, size_t &) { p.n = 0; }));
	CHECK(declines(Reason::nothingToDo, [](P p, Engine &, size_t &) { p.k = 0; }));
	CHECK(declines(Reason::nothingToDo, [](P p, Engine &, size_t &) { p.alpha = 0, p.A = p.B = nullptr; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.m = -1; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.k = -1; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.lda = 15; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.ldb = 17; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.ldc = 15; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.transA = true, p.lda = 17; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.k = 0, p.ldb = 0; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.k = p.ldb = int64_t{1} << 62; }));
	CHECK(declines(Reason::invalidArguments, [](P p, Engine &, size_t &) { p.k = p.ldb = int64_t{1} << 55; }));
	CHECK(declines(Reason::memoryBudget, [](P p, Engine &, size_t &) { // never read
		p.A = p.B = reinterpret_cast<const float *>(4096);
		p.k = p.ldb = int64_t{1} << 36;
	}));
	CHECK(declines(Reason::overlap, [](P p, Engine &, size_t &) { p.A = p.C; }));
	CHECK(declines(Reason::overlap, [](P p, Engine &, size_t &) { p.B = p.C + 16 * 20 + 15; }));
	CHECK(declines(Reason::memoryBudget, [](P, Engine &, size_t &bytes) { bytes = 1000; }));
	CHECK(declines(Reason::cpuTooOld, [](P, Engine &on, size_t &) { on.unit = Bf16Unit::none; }));
}

TEST_CASE("a missing or unsuitable oneDNN is not needed")
{
	char folder[] = "/tmp/unit_cpu.XXXXXX";
	REQUIRE(mkdtemp(folder));
	const Dnnl missing = openDnnl(folder);
	CHECK(missing.reason == Reason::noLibrary);
	Dnnl other;
	for (const char *name : {"/libdnnl.so.2", "/libdnnl.so.3", "/libdnnl.so.3.6"}) {
		std::filesystem::create_symlink("/lib/x86_64-linux-gnu/libm.so.6", std::string(folder) + name);
		other = openDnnl(folder);
		CHECK(other.reason == Reason::noFunction);
		std::filesystem::remove(std::string(folder) + name);
	}
	std::filesystem::remove_all(folder);
	CHECK(dlerror() == nullptr);
	for (const Dnnl *each : {&missing, static_cast<const Dnnl *>(&other)}) {
		for (const Bf16Unit unit : {Bf16Unit::avx512, Bf16Unit::amx})
			for (const int64_t n : {16, 310}) {
				Case one(n, n, 200);
				REQUIRE(multiply(one.product, {2, Pool::own}, budget, {unit, *each}) == Reason::none);
				CHECK(one.errors(one.C).rounded < 2e-6);
			}
	}
}

TEST_CASE("oneDNN is asked for AMX only if a product needs it, and can lack it")
{
	static constinit std::atomic<int> questions{0}, isa{0};
	Dnnl asked = dnnl();
	asked.effectiveIsa = [] {
		questions++;
		return isa.load();
	};
	const auto multiplied = [&](int64_t m, int64_t n) {
		Case one(m, n, 300);
		const std::vector<float> before = one.C;
		questions = 0;
		const Reason reason = multiply(one.product, 1, budget, {Bf16Unit::amx, asked});
		CHECK((reason == Reason::none ? one.errors(before).rounded < 2e-6 : one.C == before));
		return reason;
	};
	CHECK((multiplied(600, 8) == Reason::none && questions == 0)); // few rows
	isa = 0x27;                                                    // without bfloat16
	CHECK((multiplied(300, 310) == Reason::none && questions == 1));
	CHECK((multiplied(16, 16) == Reason::none && questions == 1));
	isa = 0xe7; // the kernel refused the registers
	CHECK((multiplied(300, 310) == Reason::none && questions == 1));
	CHECK((multiplied(16, 16) == Reason::none && questions == 1));
	for (const int amx : {0x3e7, 0xfef, 0x1fef}) { // oneDNN 2 and 3; the last one has AMX for float16
		isa = amx;
		asked.gemm = [](char, char, int64_t, int64_t, int64_t, float, const uint16_t *, int64_t, const uint16_t *,
		                int64_t, float, float *, int64_t) { return 1; };
		CHECK(multiplied(300, 310) == Reason::engineFailed); // it computes the product
	}
}

TEST_CASE("a failure of oneDNN leaves C alone, or C is overwritten as a whole")
{
	Dnnl failing = dnnl(), throwing = dnnl();
	failing.gemm = [](char, char, int64_t, int64_t, int64_t, float, const uint16_t *, int64_t, const uint16_t *,
	                  int64_t, float, float *C, int64_t) {
		*C = 99;
		return 1;
	};
	throwing.gemm = [](char, char, int64_t, int64_t, int64_t, float, const uint16_t *, int64_t, const uint16_t *,
	                   int64_t, float, float *, int64_t) -> int { throw std::bad_alloc(); };
	for (unsigned threads : {1, 2})
		for (float beta : {0.f, 1.f, .5f}) {
			CAPTURE(threads, beta);
			Case one(300, 300, 200, false, false, 1, beta);
			const std::vector<float> before = one.C;
			CHECK(multiply(one.product, threads, budget, engineWithAmx(throwing)) == Reason::engineFailed);
			CHECK(one.C == before);
			if (beta == .5f || (beta == 1 && threads == 2)) { // else oneDNN itself leaves C alone
				CHECK(multiply(one.product, threads, budget, engineWithAmx(failing)) == Reason::engineFailed);
				CHECK(one.C == before);
			}
#ifdef HAS_ALLOCATION_FAULTS
			if (beta == 0)
				continue;
			int failures = 0;
			for (int left = 0; left < 10; ++left) {
				allocationsLeft = left;
				const Reason reason = multiply(one.product, threads, budget, engineWithAmx());
				allocationsLeft = -1;
				if (reason == Reason::none)
					break;
				++failures;
				CHECK(reason == Reason::engineFailed);
				CHECK(one.C == before);
			}
			CHECK(failures > 0);
			CHECK(Case(300, 300, 200, false, false, 1, beta).viaOneDnn().succeeds(threads));
			allocationsFail = true;
			const Reason reason = multiply(one.product, threads, budget, engineWithAmx());
			allocationsFail = false;
			CHECK(reason == Reason::engineFailed);
#endif
		}
}

TEST_CASE("scratch memory is shared out within the budget and released when a thread ends")
{
	REQUIRE(Case(64, 64, 64).succeeds());
	const size_t own = bytesHeld();
	CHECK(own > 0);
	Reason reason;
	void *block = nullptr;
	unsigned char residency;
	std::thread([&] {
		block = scratch(8 << 20, own + (8 << 20), reason);
		REQUIRE(block);
		CHECK(!scratch(8 << 20, 4 << 20, reason)); // a smaller budget
		CHECK(mincore(block, 4096, &residency) == 0);
		CHECK(succeedsInChild([&] { return mincore(block, 4096, &residency) != 0; }));
		CHECK(bytesHeld() == own + (8 << 20));
		CHECK(scratch(1 << 20, own + (8 << 20), reason)); // the same block
		CHECK(bytesHeld() == own + (8 << 20));
		std::thread([&] {
			CHECK(!scratch(4096, own + (8 << 20), reason));
			CHECK(reason == Reason::memoryBudget);
			CHECK(scratch(4096, own + (9 << 20), reason));
		}).join();
		CHECK(!scratch(9 << 20, own + (8 << 20), reason));
	}).join();
	CHECK(bytesHeld() == own);
	CHECK(mincore(block, 4096, &residency) != 0);
	CHECK(!scratch(size_t{1} << 50, size_t{1} << 62, reason));
	CHECK(reason == Reason::noMemory);
	CHECK(!scratch(size_t{1} << 60, size_t{1} << 62, reason));
	CHECK(reason == Reason::memoryBudget);
	CHECK(bytesHeld() == 0);
}

TEST_CASE("the program's number of OpenMP threads is restored")
{
	watchRegionsOfDnnl();
	const OpenMp &openMp = dnnl().openMp;
	const int before = openMp.maxThreads();
	openMp.setThreads(3);
	for (unsigned threads : {0, 1, 2, 3}) {
		CHECK(Case(300, 300, 200).viaOneDnn().succeeds(threads));
		CHECK(Case(200, 300, 200).succeeds(threads));
		CHECK(openMp.maxThreads() == 3);
	}
	{
		Team team(dnnl(), 2);
		CHECK(team.size() == 2);
		std::atomic<unsigned> parts{0};
		team.run([&](unsigned, unsigned count) { parts += count; });
		CHECK((parts == 4 || parts == 1)); // the runtime may give fewer threads
		team.run([&](unsigned, unsigned) {
			if (openMp.inParallel() && Team(dnnl(), 2).size() != 1)
				parts = 100;
		});
		CHECK(parts != 100);
	}
	openMp.setThreads(before);
}

TEST_CASE("a forked child multiplies, with one thread")
{
	REQUIRE(Case(300, 300, 300).viaOneDnn().succeeds(2));
	const uint32_t parent = generation();
	const auto child = [&] {
		return generation() != parent && bytesHeld() == 0 && Case(300, 300, 300).viaOneDnn().succeeds(2) &&
		       std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 1;
	};
	CHECK(succeedsInChild(child));
	CHECK(succeedsInChild([&] {
		const uint32_t between = generation();
		return child() && succeedsInChild([&] { return child() && generation() != between; });
	}));
	CHECK(succeedsInChild([&] { // a new thread of a child
		bool isRight = false;
		std::thread([&] { isRight = Case(300, 300, 300).viaOneDnn().succeeds(2); }).join();
		return isRight;
	}));
	const pid_t bare = _Fork(); // without handlers
	if (bare == 0)
		_exit(generation() != parent ? 0 : 1);
	int status = 1;
	waitpid(bare, &status, 0);
	CHECK(status == 0);
	CHECK(generation() == parent);
	CHECK(Case(300, 300, 300).viaOneDnn().succeeds(2));
}

TEST_CASE("a child does not wait for a lock of a thread that was inside a product at the fork")
{
	std::atomic<bool> isInside{false}, isDone{false};
	std::thread other([&] {
		const Stay stay;
		isInside = true;
		while (!isDone)
			std::this_thread::yield();
	});
	while (!isInside)
		std::this_thread::yield();
	const auto child = [] {
		bool isKept = Case(300, 300, 300).viaOneDnn().isKept();
		std::thread([&] { isKept = isKept && Case(300, 300, 300).viaOneDnn().isKept(); }).join();
		Case ours(300, 300, 300);
		ours.on.unit = Bf16Unit::avx512;
		return isKept && Case(8, 300, 300).succeeds() && ours.succeeds(); // without oneDNN
	};
	CHECK(succeedsInChild([&] { return child() && succeedsInChild(child); }));
	CHECK(succeedsInChild([&] { return succeedsInChild(child); })); // the first child has no product
	CHECK(Case(300, 300, 300).viaOneDnn().succeeds());
	isDone = true;
	other.join();
	CHECK(succeedsInChild([] { return Case(300, 300, 300).viaOneDnn().succeeds(); }));
}

TEST_CASE("threads multiply at once while the process forks")
{
	std::atomic<bool> isDone{false};
	std::atomic<int> wrong{0}, products{0};
	const auto work = [&](unsigned seed) {
		do {
			wrong +=
			    !Case(256 + seed, 260, 40, seed % 2, false, 1, seed % 3 ? 0.f : 1.f, 0, seed).viaOneDnn().succeeds(1);
			++products;
		} while (!isDone);
	};
	std::thread first(work, 1), second(work, 2), third(work, 3);
	for (int i = 0; i < 10; ++i) {
		while (products < 3 * i + 1) // callers hold forks during the first one
			std::this_thread::yield();
		CHECK(succeedsInChild([] {
			return Case(290, 260, 70).succeeds(2) &&
			       (Case(290, 260, 70).viaOneDnn().succeeds(2) || Case(290, 260, 70).viaOneDnn().isKept());
		}));
	}
	isDone = true;
	first.join(), second.join(), third.join();
	CHECK(wrong == 0);
}

TEST_CASE("the name of the CPU has its family, model and stepping")
{
	std::ifstream file("/proc/cpuinfo");
	std::string line, name, numbers[3];
	const char *const keys[] = {"cpu family\t", "model\t", "stepping\t"};
	while (std::getline(file, line) && !line.empty()) {
		const auto value = line.substr(std::min(line.find(": ") + 2, line.size()));
		if (line.starts_with("model name"))
			name = value;
		for (size_t i = 0; i < 3; ++i)
			if (line.starts_with(keys[i]))
				numbers[i] = value;
	}
	CHECK(model().starts_with(name));
	CHECK(model().ends_with(" " + numbers[0] + "." + numbers[1] + "." + numbers[2]));
	CHECK(model().find('\n') == std::string::npos);
}
