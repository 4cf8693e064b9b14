// One fp32 product through the cuBLAS API, checked on the host: correct on any device that multiplies in fp32 or in 16
// bits.
#pragma once

#include <cmath>
#include <cstdio>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <vector>

// The client reaches cuBLAS by the linker or by its own lookups.
struct Cublas {
	decltype(&cublasCreate_v2) create;
	decltype(&cublasDestroy_v2) destroy;
	decltype(&cublasSgemm_v2) sgemm;
};

struct DeviceMatrix {
	explicit DeviceMatrix(const std::vector<float> &values) : size(values.size() * sizeof(float))
	{
		cudaMalloc(reinterpret_cast<void **>(&data), size);
		cudaMemcpy(data, values.data(), size, cudaMemcpyHostToDevice);
	}
	~DeviceMatrix() { cudaFree(data); }
	DeviceMatrix(const DeviceMatrix &) = delete;
	DeviceMatrix &operator=(const DeviceMatrix &) = delete;
	float *data = nullptr;
	const size_t size;
};

struct Operands {
	Operands(int m, int n, int k) : A(m * k), B(k * n), C(m * n)
	{
		for (size_t i = 0; i < A.size(); i++)
			A[i] = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 8;
		for (size_t i = 0; i < B.size(); i++)
			B[i] = static_cast<float>(static_cast<int>(i * 5 % 19) - 9) / 4;
	}
	std::vector<float> A, B, C;
};

// Relative Frobenius error of C = A B against fp64.
inline double productError(const Operands &host, int m, int n, int k)
{
	double error = 0, norm = 0;
	for (int j = 0; j < n; j++)
		for (int i = 0; i < m; i++) {
			double sum = 0;
			for (int l = 0; l < k; l++)
				sum += static_cast<double>(host.A[i + l * m]) * host.B[l + j * k];
			error += std::pow(host.C[i + j * m] - sum, 2);
			norm += sum * sum;
		}
	return std::sqrt(error / norm);
}

inline bool multiply(const Cublas &cublas, int m = 64, int n = 48, int k = 32)
{
	Operands host(m, n, k);
	const DeviceMatrix A(host.A), B(host.B), C(host.C);
	const float one = 1, zero = 0;
	cublasHandle_t handle = nullptr;
	if (const int status = cublas.create(&handle); status != CUBLAS_STATUS_SUCCESS) {
		std::printf("cublasCreate_v2: status %d\n", status);
		return false;
	}
	const int status =
	    cublas.sgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, A.data, m, B.data, k, &zero, C.data, m);
	cudaMemcpy(host.C.data(), C.data, C.size, cudaMemcpyDeviceToHost);
	cublas.destroy(handle);
	const double error = productError(host, m, n, k);
	if (status == CUBLAS_STATUS_SUCCESS && error < 5e-3)
		return true;
	std::printf("cublasSgemm_v2 %dx%dx%d: status %d, error %.2g\n", m, n, k, status, error);
	return false;
}
