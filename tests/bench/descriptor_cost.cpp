// Nanoseconds in which the vendor's own libraries read the descriptors of one call; no GPU is needed. `descriptor_cost
// LIBCUBLASLT LIBCUDNN` prints the least of 50 repeats of: the six getters of a cuDNN convolution, one cublasLt
// attribute, and a cublasLtMatmul of 512 x 512 x 512 that the library refuses immediately (its handle is invalid).
// Preloaded, the last line grows by the time that autoamp adds to a kept call.
#include <cublasLt.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

template <typename Call>
void time(const char *name, Call call)
{
	double least = 1e9;
	constexpr int calls = 10'000;
	for (int repeat = 0; repeat < 50; repeat++) {
		const auto start = std::chrono::steady_clock::now();
		for (int i = 0; i < calls; i++)
			call();
		const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
		least = std::min(least, took.count() / calls);
	}
	std::printf("%-38s %6.1f ns\n", name, least);
}

} // namespace

int main(int count, char **arguments)
{
	void *const lt = count == 3 ? dlopen(arguments[1], RTLD_NOW) : nullptr;
	void *const dnn = count == 3 ? dlopen(arguments[2], RTLD_NOW) : nullptr;
	if (!lt || !dnn) {
		std::fprintf(stderr, "usage: descriptor_cost LIBCUBLASLT LIBCUDNN\n");
		return 2;
	}
#define FROM(library, name) const auto name = reinterpret_cast<decltype(&::name)>(dlsym(library, #name))
	FROM(dnn, cudnnCreateTensorDescriptor);
	FROM(dnn, cudnnCreateFilterDescriptor);
	FROM(dnn, cudnnCreateConvolutionDescriptor);
	FROM(dnn, cudnnSetTensor4dDescriptor);
	FROM(dnn, cudnnSetFilter4dDescriptor);
	FROM(dnn, cudnnSetConvolution2dDescriptor);
	FROM(dnn, cudnnGetTensorNdDescriptor);
	FROM(dnn, cudnnGetFilterNdDescriptor);
	FROM(dnn, cudnnGetConvolutionNdDescriptor);
	FROM(dnn, cudnnGetConvolutionMathType);
	FROM(dnn, cudnnGetConvolutionGroupCount);
	FROM(lt, cublasLtMatmulDescCreate);
	FROM(lt, cublasLtMatrixLayoutCreate);
	FROM(lt, cublasLtMatmulDescGetAttribute);
	FROM(lt, cublasLtMatmul);

	cudnnTensorDescriptor_t tensor;
	cudnnFilterDescriptor_t filter;
	cudnnConvolutionDescriptor_t convolution;
	cudnnCreateTensorDescriptor(&tensor);
	cudnnCreateFilterDescriptor(&filter);
	cudnnCreateConvolutionDescriptor(&convolution);
	cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 32, 64, 56, 56);
	cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 64, 64, 3, 3);
	cudnnSetConvolution2dDescriptor(convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
	int number = 0, first[CUDNN_DIM_MAX], second[CUDNN_DIM_MAX], third[CUDNN_DIM_MAX];
	cudnnDataType_t type;
	cudnnTensorFormat_t format;
	cudnnConvolutionMode_t mode;
	cudnnMathType_t math;
	time("getters of a cuDNN convolution", [&] {
		cudnnGetTensorNdDescriptor(tensor, CUDNN_DIM_MAX, &type, &number, first, second);
		cudnnGetFilterNdDescriptor(filter, CUDNN_DIM_MAX, &type, &format, &number, first);
		cudnnGetTensorNdDescriptor(tensor, CUDNN_DIM_MAX, &type, &number, first, second);
		cudnnGetConvolutionNdDescriptor(convolution, 3, &number, first, second, third, &mode, &type);
		cudnnGetConvolutionMathType(convolution, &math);
		cudnnGetConvolutionGroupCount(convolution, &number);
	});

	cublasLtMatmulDesc_t product;
	cublasLtMatrixLayout_t layouts[3];
	cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	for (auto &layout : layouts)
		cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 512, 512, 512);
	size_t written;
	time("one cublasLt attribute", [&] {
		cublasLtMatmulDescGetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &number, sizeof number, &written);
	});
	alignas(64) static char noHandle[1 << 16], memory[64];
	const float one = 1, zero = 0;
	const cublasLtMatmulAlgo_t algorithm{};
	time("a cublasLtMatmul that is refused", [&] {
		cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(noHandle), product, &one, memory, layouts[0], memory,
		               layouts[1], &zero, memory, layouts[2], memory, layouts[2], &algorithm, nullptr, 0, nullptr);
	});
	return 0;
}
