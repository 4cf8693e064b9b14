// inner_calls cublas|cusolver|cudnn: calls to NVIDIA libraries that multiply inside. Prints a hash of the
// result, which must be the same with and without autoamp. cuSOLVER and cuDNN are looked up at run time; exit status 77
// without them, or if the toolkit at build time lacked their headers.
#include "tests/preload/clients/harness.h"

#if __has_include(<cudnn.h>) && __has_include(<cusolverDn.h>)
#define HAS_HEADERS
#include <cudnn.h>
#include <cusolverDn.h>
#endif
#include <dlfcn.h>

#include <cstring>

using namespace client;

namespace {

constexpr int n = 1024;

#ifdef HAS_HEADERS
void *library(const char *name)
{
	void *found = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!found) {
		std::printf("absent %s\n", name);
		std::exit(77);
	}
	return found;
}

void expect(int status, const char *what)
{
	if (status)
		fail(what, std::to_string(status).c_str());
}
// Calls the function of that name and type.
#define IN(library, name, ...) expect(reinterpret_cast<decltype(&::name)>(dlsym(library, #name))(__VA_ARGS__), #name)

void factorize(Session &session, Array &a)
{
	void *const solver = library("libcusolver.so.12");
	cusolverDnHandle_t handle;
	IN(solver, cusolverDnCreate, &handle);
	IN(solver, cusolverDnSetStream, handle, session.stream);
	int size = 0;
	IN(solver, cusolverDnSgetrf_bufferSize, handle, n, n, a.data(), n, &size);
	Array work(static_cast<size_t>(size)), pivots(n + 1);
	auto *const pivot = reinterpret_cast<int *>(pivots.data());
	IN(solver, cusolverDnSgetrf, handle, n, n, a.data(), n, work.data(), pivot, pivot + n);
	CHECK(cudaStreamSynchronize(session.stream));
	IN(solver, cusolverDnDestroy, handle);
}

void convolve(Session &session, Array &x, Array &w, Array &y)
{
	void *const dnn = library("libcudnn.so.9");
	cudnnHandle_t handle;
	IN(dnn, cudnnCreate, &handle);
	IN(dnn, cudnnSetStream, handle, session.stream);
	cudnnTensorDescriptor_t input, output;
	cudnnFilterDescriptor_t filter;
	cudnnConvolutionDescriptor_t convolution;
	IN(dnn, cudnnCreateTensorDescriptor, &input);
	IN(dnn, cudnnCreateTensorDescriptor, &output);
	IN(dnn, cudnnCreateFilterDescriptor, &filter);
	IN(dnn, cudnnCreateConvolutionDescriptor, &convolution);
	for (cudnnTensorDescriptor_t tensor : {input, output}) // 4 x 64 x 64 x 64 = n * n
		IN(dnn, cudnnSetTensor4dDescriptor, tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, 64, 64, 64);
	IN(dnn, cudnnSetFilter4dDescriptor, filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 64, 64, 3, 3);
	IN(dnn, cudnnSetConvolution2dDescriptor, convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
	IN(dnn, cudnnSetConvolutionMathType, convolution, CUDNN_FMA_MATH);
	constexpr cudnnConvolutionFwdAlgo_t algo = CUDNN_CONVOLUTION_FWD_ALGO_GEMM;
	size_t size = 0;
	IN(dnn, cudnnGetConvolutionForwardWorkspaceSize, handle, input, filter, convolution, output, algo, &size);
	Array work(size / sizeof(float) + 1);
	const float one = 1, zero = 0;
	IN(dnn, cudnnConvolutionForward, handle, &one, input, x.data(), filter, w.data(), convolution, algo, work.data(),
	   size, &zero, output, y.data());
	CHECK(cudaStreamSynchronize(session.stream));
	IN(dnn, cudnnDestroy, handle);
}
#else
void factorize(Session &, Array &)
{
	std::exit(77);
}

void convolve(Session &, Array &, Array &, Array &)
{
	std::exit(77);
}
#endif

Array noise(size_t count)
{
	Array array(count);
	Random random(1);
	for (size_t i = 0; i < count; i++)
		array[i] = static_cast<float>(random.gaussian());
	array.upload();
	return array;
}

// A triangular solve: products of blocks within cuBLAS.
void solveTriangle(Session &session, Array &a, Array &b)
{
	const float one = 1;
	for (int i = 0; i < n; i++)
		a[static_cast<size_t>(i) * (n + 1)] = 2.f * n;
	a.upload();
	CHECK(cublasStrsm(session.handle, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, n, n,
	                  &one, a.data(), n, b.data(), n));
}

} // namespace

int main(int, char **arguments)
{
	const std::string what = arguments[1] ? arguments[1] : "";
	Session session;
	Array a = noise(size_t(n) * n), b = noise(size_t(n) * n), c(size_t(n) * n);
	Array *result = &a;
	if (what == "cublas")
		solveTriangle(session, a, b), result = &b;
	else if (what == "cusolver")
		factorize(session, a);
	else if (what == "cudnn")
		convolve(session, a, b, c), result = &c;
	else
		fail("usage", "inner_calls cublas|cusolver|cudnn");
	CHECK(cudaStreamSynchronize(session.stream));
	result->download();
	double sum = 0;
	for (size_t i = 0; i < result->size(); i++)
		sum += double((*result)[i]) * (*result)[i];
	std::printf("%016llx norm=%.6g\n", static_cast<unsigned long long>(result->bits()), std::sqrt(sum));
	return !(sum > 0 && std::isfinite(sum));
}
