#include "tests/unit/kernels_host.h"
#include "tests/unit/kernels_unsynchronized.h"
#include "tools/emulated/simt.h"

#include <catch2/catch.hpp>
#include <csignal>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

using namespace kernels_host;

namespace {

constexpr unsigned size = 96;

// Each thread reads the value of its mirror image.
template <bool hasBarrier>
void mirror(int *out)
{
	__shared__ int words[size];
	words[threadIdx.x] = static_cast<int>(blockIdx.x * 1000 + threadIdx.x);
	if (hasBarrier)
		__syncthreads();
	out[blockIdx.x * size + threadIdx.x] = words[size - 1 - threadIdx.x];
}

// A tree in shared memory: one barrier per step.
void sum(const int *in, int *out)
{
	__shared__ int words[256];
	words[threadIdx.x] = in[blockIdx.x * 256 + threadIdx.x];
	for (unsigned half = 128; half > 0; half /= 2) {
		__syncthreads();
		if (threadIdx.x < half)
			words[threadIdx.x] += words[threadIdx.x + half];
	}
	if (threadIdx.x == 0)
		atomicAdd(out, words[0]);
}

} // namespace

TEST_CASE("a barrier is one, and a missing one shows")
{
	std::vector<int> right, wrong(3 * size);
	for (int block = 0; block < 3; ++block)
		for (unsigned i = 0; i < size; ++i)
			right.push_back(block * 1000 + size - 1 - i);
	std::vector<int> got(3 * size);
	simt::run(dim3(3), dim3(size), [&] { mirror<true>(got.data()); });
	CHECK(got == right);
	simt::run(dim3(3), dim3(size), [&] { mirror<false>(wrong.data()); });
	CHECK(wrong != right);
	std::vector<int> in(10 * 256);
	int expected = 0, total = 0;
	for (size_t i = 0; i < in.size(); ++i)
		expected += in[i] = static_cast<int>(i * i % 1001);
	simt::run(dim3(10), dim3(256), [&] { sum(in.data(), &total); });
	CHECK(total == expected);
}

TEST_CASE("a cast without its barrier finds a wrong maximum, each time")
{
	Matrix a({8, 256, 8, 8}), b({8, 1, 8, 8}); // a vector a thread
	for (int64_t place = 0; place < 256; place += 5) {
		a.fill(1);
		b.fill(2);
		a.at(3, place) = 100;
		Call call(a, b, nullptr);
		call.cast();
		CHECK(call.amax(0) == std::bit_cast<uint32_t>(100.0f));
		Call broken(a, b, nullptr);
		broken.parameters.castBlocks = 1;
		unsynchronizedCastHalf(broken.parameters, 1);
		CHECK((broken.amax(0) != call.amax(0) || broken.nonfinite(0) != 0));
	}
}

TEST_CASE("the sum of an operand needs its barriers")
{
	Matrix a({70, 70, 70, 72});
	a.fill(3);
	const Operand &operand = a.operand();
	std::vector<float> sums(70), broken(70);
	Sum sum = {operand.source, sums.data(), 70, 70, operand.sourceLd, operand.sourceStride, 70, 1, true};
	launch("autoamp_sum", 2, sum);
	sum.target = broken.data();
	unsynchronizedSum(sum, 2);
	CHECK(broken != sums);
}

TEST_CASE("a tile needs its barriers")
{
	std::vector<float> result(16 * 128), target(result.size()), broken(result.size());
	for (size_t i = 0; i < result.size(); ++i)
		result[i] = static_cast<float>(i);
	Placement p = {result.data(), false, 16, target.data(), {16, 128, 1, {128, 1, 1, 1}, {1}},
	               nullptr,       1,     0,  nullptr,       Activation::none};
	launch("autoamp_place", 1, p);
	CHECK(target[128 * 3 + 7] == result[16 * 7 + 3]);
	p.target = broken.data();
	unsynchronizedPlace(p, 1);
	CHECK(std::memcmp(target.data(), broken.data(), target.size() * sizeof(float)) != 0);
}

TEST_CASE("lanes exchange within their warp, threads know where they are")
{
	std::set<std::vector<unsigned>> seen;
	std::vector<int> wrong(1);
	simt::run(dim3(2, 3, 4), dim3(8, 4, 4), [&] {
		seen.insert({blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z});
		const unsigned flat = threadIdx.x + threadIdx.y * blockDim.x + threadIdx.z * blockDim.x * blockDim.y;
		for (unsigned mask = 1; mask < 32; mask *= 2)
			wrong[0] += __shfl_xor_sync(0xffffffff, flat * 3.0, mask) != (flat ^ mask) * 3.0;
		// Half a warp may exchange values while the other half is elsewhere.
		if (flat % 32 < 16)
			wrong[0] += __shfl_xor_sync(0xffff, flat, 1u) != (flat ^ 1);
		__syncthreads();
	});
	CHECK(seen.size() == 2 * 3 * 4 * 128);
	CHECK(wrong[0] == 0);
}

TEST_CASE("an exchange that a lane of the mask never joins ends the program")
{
	const pid_t child = fork();
	if (child == 0) {
		close(2);
		signal(SIGABRT, SIG_DFL); // not Catch's
		simt::run(dim3(1), dim3(32), [] {
			if (threadIdx.x != 5)
				__shfl_xor_sync(0xffffffff, 1, 1u);
		});
		_exit(0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	CHECK(WIFSIGNALED(status));
}
