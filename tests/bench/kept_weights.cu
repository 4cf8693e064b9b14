// Times of a product whose weight is converted at each call, or kept as a bfloat16 copy: with a sample of 1/32 or 1/64
// compared before the product, with the sample in the launch that converts the other operand, and without a check. Does
// not use autoamp. Several weights in turn, more than the L2 cache holds; replays of a graph, so that the host adds no
// time.
//     nvcc -O3 -arch=sm_90 -std=c++17 -o kept_weights kept_weights.cu -lcublas && ./kept_weights
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <functional>
#include <vector>
#define CHECK(x)                                                                                                       \
	do {                                                                                                               \
		if ((x) != 0) {                                                                                                \
			printf("%s failed, line %d\n", #x, __LINE__);                                                              \
			exit(1);                                                                                                   \
		}                                                                                                              \
	} while (0)

__global__ void fill(float *x, size_t n, unsigned seed)
{
	for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
		unsigned h = unsigned(i) * 2654435761u + seed;
		h ^= h >> 15;
		h *= 2246822519u;
		h ^= h >> 13;
		x[i] = float(h & 0xffff) / 32768.f - 1.f;
	}
}
__device__ inline uint2 pack(float4 v)
{
	__nv_bfloat162 a = __floats2bfloat162_rn(v.x, v.y), b = __floats2bfloat162_rn(v.z, v.w);
	return {*reinterpret_cast<unsigned *>(&a), *reinterpret_cast<unsigned *>(&b)};
}
__device__ void castPart(const float4 *x, uint2 *y, size_t n4, int block, int blocks)
{
	for (size_t i = block * size_t(blockDim.x) + threadIdx.x; i < n4; i += size_t(blocks) * blockDim.x)
		y[i] = pack(__ldcs(x + i));
}
struct Kept {
	const float *source;
	unsigned short *copy;
	long rows, columns;
	unsigned *calls, *differs;
};
__device__ inline unsigned rev6(unsigned x)
{
	return __brev(x) >> 26;
}
template <int steps>
__device__ void checkPart(const Kept &k, int block, int blocks)
{
	const unsigned call = *k.calls, lane = threadIdx.x & 31;
	const long lines = (k.rows + 31) / 32, warps = long(blocks) * (blockDim.x / 32);
	bool differs = false;
	for (long column = (long(block) * blockDim.x + threadIdx.x) / 32; column < k.columns; column += warps)
		for (long line = (column * 39 + rev6(call & 63)) % steps; line < lines; line += steps) {
			const long row = line * 32 + lane;
			if (row < k.rows)
				differs |= __bfloat16_as_ushort(__float2bfloat16_rn(__ldcs(k.source + column * k.rows + row))) !=
				           k.copy[column * k.rows + row];
		}
	if (__any_sync(~0u, differs) && lane == 0)
		*k.differs = 1;
}
__global__ void __launch_bounds__(256) cast(const float4 *x, uint2 *y, size_t n4)
{
	castPart(x, y, n4, blockIdx.x, gridDim.x);
}
__global__ void __launch_bounds__(256)
    castTwo(const float4 *x, uint2 *y, size_t n4, const float4 *w, uint2 *v, size_t w4, int first)
{
	if (blockIdx.x < first)
		castPart(x, y, n4, blockIdx.x, first);
	else
		castPart(w, v, w4, blockIdx.x - first, gridDim.x - first);
}
template <int steps>
__global__ void __launch_bounds__(256) check(Kept k)
{
	checkPart<steps>(k, blockIdx.x, gridDim.x);
}
// the cast of the activations; the weight again only if the check found a change
__global__ void __launch_bounds__(256) castOrRecast(const float4 *x, uint2 *y, size_t n4, Kept k)
{
	castPart(x, y, n4, blockIdx.x, gridDim.x);
	if (*k.differs)
		castPart(reinterpret_cast<const float4 *>(k.source), reinterpret_cast<uint2 *>(k.copy), k.rows * k.columns / 4,
		         blockIdx.x, gridDim.x);
}
template <int steps>
__global__ void __launch_bounds__(256) castAndCheck(const float4 *x, uint2 *y, size_t n4, Kept k, int first)
{
	if (blockIdx.x < first)
		castPart(x, y, n4, blockIdx.x, first);
	else
		checkPart<steps>(k, blockIdx.x - first, gridDim.x - first);
}
int main(int argc, char **argv)
{
	cudaStream_t s;
	CHECK(cudaStreamCreate(&s));
	cublasHandle_t h;
	CHECK(cublasCreate(&h));
	CHECK(cublasSetStream(h, s));
	void *space;
	CHECK(cudaMalloc(&space, 64 << 20));
	CHECK(cublasSetWorkspace(h, space, 64 << 20));
	cudaDeviceProp p;
	CHECK(cudaGetDeviceProperties(&p, 0));
	const int blocks = 8 * p.multiProcessorCount;
	printf("%s\n%6s %6s  %9s %9s %9s %9s %9s %9s %9s %9s us (median of 9)  then x TF32\n", p.name, "N=K", "M", "fp32",
	       "tf32", "bf16", "convert", "chk1/32", "chk1/64", "frozen", "promise");
	for (long n : {1024L, 2048L, 4096L, 8192L}) {
		const int sets = int(std::max(2L, (1L << 28) / (n * n * 4)));
		std::vector<float *> w(sets);
		std::vector<unsigned short *> v(sets);
		std::vector<unsigned *> flags(sets);
		const float one = 1, zero = 0;
		for (int i = 0; i < sets; ++i) {
			CHECK(cudaMalloc(&w[i], n * n * 4));
			CHECK(cudaMalloc(&v[i], n * n * 2));
			CHECK(cudaMalloc(&flags[i], 8));
			CHECK(cudaMemset(flags[i], 0, 8));
			fill<<<1024, 256, 0, s>>>(w[i], n * n, i);
			cast<<<blocks, 256, 0, s>>>((float4 *)w[i], (uint2 *)v[i], n * n / 4);
		}
		unsigned short *scratch;
		CHECK(cudaMalloc(&scratch, n * n * 2));
		for (long m : {1L, 4L, 16L, 64L, 128L, 256L, 512L, 1024L, 4096L}) {
			float *x, *c;
			unsigned short *y;
			CHECK(cudaMalloc(&x, m * n * 4));
			CHECK(cudaMalloc(&y, m * n * 2));
			CHECK(cudaMalloc(&c, m * n * 4));
			fill<<<256, 256, 0, s>>>(x, m * n, 77);
			const size_t x4 = m * n / 4, w4 = n * n / 4;
			const int small = std::max(1, std::min<int>(blocks, int((x4 + 255) / 256)));
			auto half = [&](unsigned short *weight) { // column-major: C[n,m] = W^T[n,n] x[n,m]
				CHECK(cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, n, &one, weight, CUDA_R_16BF, n, y, CUDA_R_16BF,
				                   n, &zero, c, CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
			};
			auto single = [&](int i, cublasComputeType_t t) {
				CHECK(cublasGemmEx(h, CUBLAS_OP_T, CUBLAS_OP_N, n, m, n, &one, w[i], CUDA_R_32F, n, x, CUDA_R_32F, n,
				                   &zero, c, CUDA_R_32F, n, t, CUBLAS_GEMM_DEFAULT));
			};
			auto kept = [&](int i) { return Kept{w[i], v[i], n, n, flags[i], flags[i] + 1}; };
			const int checkBlocks = int(std::min<long>(blocks, (n + 7) / 8));
			std::function<void(int)> ways[] = {
			    [&](int i) { single(i, CUBLAS_COMPUTE_32F); },
			    [&](int i) { single(i, CUBLAS_COMPUTE_32F_FAST_TF32); },
			    [&](int i) { half(v[i]); },
			    [&](int i) {
				    castTwo<<<small + blocks, 256, 0, s>>>((float4 *)x, (uint2 *)y, x4, (float4 *)w[i],
				                                           (uint2 *)scratch, w4, small);
				    half(scratch);
			    },
			    [&](int i) {
				    check<32><<<checkBlocks, 256, 0, s>>>(kept(i));
				    castOrRecast<<<small, 256, 0, s>>>((float4 *)x, (uint2 *)y, x4, kept(i));
				    half(v[i]);
			    },
			    [&](int i) {
				    check<64><<<checkBlocks, 256, 0, s>>>(kept(i));
				    castOrRecast<<<small, 256, 0, s>>>((float4 *)x, (uint2 *)y, x4, kept(i));
				    half(v[i]);
			    },
			    [&](int i) {
				    castAndCheck<64><<<small + checkBlocks, 256, 0, s>>>((float4 *)x, (uint2 *)y, x4, kept(i), small);
				    half(v[i]);
			    },
			    [&](int i) {
				    cast<<<small, 256, 0, s>>>((float4 *)x, (uint2 *)y, x4);
				    half(v[i]);
			    }};
			double us[8];
			cudaEvent_t a, b;
			CHECK(cudaEventCreate(&a));
			CHECK(cudaEventCreate(&b));
			std::vector<double> times[8];
			const int calls = m >= 1024 && n >= 4096 ? 8 : 48;
			for (int round = 0; round < 10; ++round)
				for (int k = 0; k < 8; ++k) {
					cudaGraph_t g;
					cudaGraphExec_t e; // a graph, so that the host is not measured
					CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
					for (int i = 0; i < calls; ++i)
						ways[k](i % sets);
					CHECK(cudaStreamEndCapture(s, &g));
					CHECK(cudaGraphInstantiate(&e, g, 0));
					CHECK(cudaGraphLaunch(e, s));
					CHECK(cudaStreamSynchronize(s));
					CHECK(cudaEventRecord(a, s));
					CHECK(cudaGraphLaunch(e, s));
					CHECK(cudaEventRecord(b, s));
					CHECK(cudaEventSynchronize(b));
					float ms;
					CHECK(cudaEventElapsedTime(&ms, a, b));
					if (round)
						times[k].push_back(ms * 1e3 / calls);
					cudaGraphExecDestroy(e);
					cudaGraphDestroy(g);
				}
			for (int k = 0; k < 8; ++k) {
				std::sort(times[k].begin(), times[k].end());
				us[k] = times[k][4];
			}
			unsigned differs;
			CHECK(cudaMemcpy(&differs, flags[0] + 1, 4, cudaMemcpyDeviceToHost));
			printf("%6ld %6ld ", n, m);
			for (double t : us)
				printf(" %9.2f", t);
			printf("   ");
			for (int k = 3; k < 8; ++k)
				printf(" %.2f", us[1] / us[k]);
			printf("%s\n", differs ? "  CHANGED" : "");
			fflush(stdout);
			cudaFree(x);
			cudaFree(y);
			cudaFree(c);
		}
		for (int i = 0; i < sets; ++i) {
			cudaFree(w[i]);
			cudaFree(v[i]);
			cudaFree(flags[i]);
		}
		cudaFree(scratch);
	}
}
