// A program that is killed: threads multiply in an endless loop. Each counts its begun and completed calls in FILE
// (argument 1), so that the killer knows what a trace must contain. Argument 2: number of threads. Argument 3,
// optional: number of products per thread. Argument 4, optional: the program ends when stdin does.
#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

struct alignas(64) Counts {
	std::atomic<uint64_t> entry, begun, returned; // entry: 0 cublasSgemm_v2, 1 cublasGemmEx
};

constexpr int size = 32;

void work(Counts &counts, uint64_t products)
{
	cublasHandle_t handle;
	cudaStream_t stream;
	void *data = nullptr;
	if (cublasCreate_v2(&handle) || cudaStreamCreate(&stream) || cublasSetStream_v2(handle, stream) ||
	    cudaMalloc(&data, 3 * size * size * sizeof(float)) || cudaMemset(data, 0, 3 * size * size * sizeof(float)))
		std::_Exit(1);
	float *A = static_cast<float *>(data), *B = A + size * size, *C = B + size * size;
	const float one = 1, zero = 0;
	for (uint64_t i = 0; i < products; i++) {
		counts.entry = i % 2;
		counts.begun = i + 1;
		const int status = i % 2 == 0 ? cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, A,
		                                               size, B, size, &zero, C, size)
		                              : cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, A,
		                                             CUDA_R_32F, size, B, CUDA_R_32F, size, &zero, C, CUDA_R_32F, size,
		                                             CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
		counts.returned = i + 1;
		if (status || (i % 8 == 0 && cudaStreamSynchronize(stream)))
			std::_Exit(1);
	}
}

} // namespace

int main(int argc, char **argv)
{
	const uint64_t products = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : UINT64_MAX;
	const int threads = std::atoi(argv[2]), file = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (file < 0 || ftruncate(file, threads * static_cast<off_t>(sizeof(Counts))))
		return 1;
	auto *counts =
	    static_cast<Counts *>(mmap(nullptr, threads * sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
	std::vector<std::thread> all;
	for (int i = 0; i < threads; i++)
		all.emplace_back(work, std::ref(counts[i]), products);
	for (std::thread &thread : all)
		thread.join();
	while (argc > 4 && std::getchar() != EOF) {
	}
	return 0;
}
