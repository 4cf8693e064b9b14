// speed default|tf32 [WHAT...]: times cuBLAS fp32 products on a handle of that math mode. WHAT, or lines of stdin:
//   MxNxKxBATCH   device time of the product
//   call:N        time of a cublasSgemm of N^3 in the calling thread; N = 0: the vendor returns immediately
// It answers each with one line, so that several of these processes can be measured in turn. It does not depend on
// autoamp.
#include "tests/gpu/timing.h"

#include <iostream>

namespace {

using namespace client;

constexpr size_t noiseCount = (1 << 20) + 7; // odd: columns do not repeat
constexpr size_t beyondCaches = 256u << 20;

struct Program {
	explicit Program(bool isTf32)
	{
		CHECK(cublasSetMathMode(session.handle, isTf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
		Random random(1);
		for (size_t i = 0; i < noiseCount; i++)
			noise[i] = static_cast<float>(2 * random.uniform() - 1);
		noise.upload();
		CHECK(cudaDeviceSynchronize()); // pageable memory may still be on its way, and the stream does not wait
	}

	// Zeros would run faster than data does.
	void fill(float *data, size_t count)
	{
		for (size_t done = 0; done < count; done += noiseCount)
			CHECK(cudaMemcpyAsync(data + done, noise.data(), std::min(noiseCount, count - done) * sizeof(float),
			                      cudaMemcpyDeviceToDevice, session.stream));
	}

	std::string product(int m, int n, int k, int batch)
	{
		const size_t a = size_t(m) * k * batch, b = size_t(k) * n * batch, c = size_t(m) * n * batch;
		const size_t bytes = (a + b + c) * sizeof(float);
		size_t available = 0, total = 0;
		CHECK(cudaMemGetInfo(&available, &total));
		if (2 * bytes > available)
			return "no_memory";
		// More sets of operands than any cache holds at once.
		const size_t sets = gpu::isEmulated() ? 1 : std::clamp<size_t>(beyondCaches / bytes, 1, 64);
		float *memory = nullptr;
		CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), sets * bytes));
		fill(memory, sets * (a + b + c));
		const float one = 1, zero = 0;
		const auto sample = gpu::timeOnDevice(session.stream, [&](int i) {
			const float *A = memory + size_t(i) % sets * (a + b + c), *B = A + a;
			auto *C = const_cast<float *>(B + b);
			CHECK(batch == 1
			          ? cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, A, m, B, k, &zero, C, m)
			          : cublasSgemmStridedBatched(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, A, m,
			                                      (long long)m * k, B, k, (long long)k * n, &zero, C, m,
			                                      (long long)m * n, batch));
		});
		CHECK(cudaFree(memory));
		return gpu::text(sample);
	}

	std::string call(int n)
	{
		Array a(256), b(256), c(256);
		const float one = 1, zero = 0;
		const int ld = std::max(n, 1);
		if (n > 16)
			return "too_large";
		return gpu::text(gpu::timeOnHost(
		    session.stream,
		    [&] {
			    cublasSgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), ld, b.data(), ld, &zero,
			                c.data(), ld);
		    },
		    n ? 500 : 10'000)); // fewer than a stream accepts without blocking the caller
	}

	std::string answer(const std::string &what)
	{
		int m, n, k, batch;
		if (std::sscanf(what.c_str(), "%dx%dx%dx%d", &m, &n, &k, &batch) == 4)
			return product(m, n, k, batch);
		return std::sscanf(what.c_str(), "call:%d", &n) == 1 ? call(n) : "not_understood";
	}

	Session session;
	Array noise{noiseCount};
};

} // namespace

int main(int count, char **arguments)
{
	if (count < 2)
		fail("usage", "speed default|tf32 [WHAT...]");
	Program program(!std::strcmp(arguments[1], "tf32"));
	const auto tell = [&](const std::string &what) { std::cout << what << ' ' << program.answer(what) << std::endl; };
	for (int i = 2; i < count; i++)
		tell(arguments[i]);
	if (count == 2)
		for (std::string what; std::getline(std::cin, what);)
			tell(what);
}
