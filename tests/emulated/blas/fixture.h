// Shared by the tests of the emulated cuBLAS: device arrays, handles, matrices with known content. Main thread only.
#pragma once

#include <catch2/catch.hpp>
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

constexpr float NaN = std::numeric_limits<float>::quiet_NaN();
constexpr float Inf = std::numeric_limits<float>::infinity();

template <typename T>
struct TypeOf;
template <>
struct TypeOf<float> {
	static constexpr cudaDataType value = CUDA_R_32F;
};
template <>
struct TypeOf<double> {
	static constexpr cudaDataType value = CUDA_R_64F;
};
template <>
struct TypeOf<__half> {
	static constexpr cudaDataType value = CUDA_R_16F;
};
template <>
struct TypeOf<__nv_bfloat16> {
	static constexpr cudaDataType value = CUDA_R_16BF;
};

// True if the functions below are the _64 ones.
inline bool asTwins = false;

// A function for the four types, selected by the type of the test: S, D, C, Z are the vendor's.
#define OF_FOUR_TYPES(name, S, D, C, Z)                                                                                \
	template <typename T, typename... Arguments>                                                                       \
	cublasStatus_t name(Arguments... arguments)                                                                        \
	{                                                                                                                  \
		if constexpr (std::is_same_v<T, float>)                                                                        \
			return asTwins ? S##_64(arguments...) : S(arguments...);                                                   \
		else if constexpr (std::is_same_v<T, double>)                                                                  \
			return asTwins ? D##_64(arguments...) : D(arguments...);                                                   \
		else if constexpr (std::is_same_v<T, std::complex<float>>)                                                     \
			return asTwins ? C##_64(vendors(arguments)...) : C(vendors(arguments)...);                                 \
		else                                                                                                           \
			return asTwins ? Z##_64(vendors(arguments)...) : Z(vendors(arguments)...);                                 \
	}

template <typename T>
T vendors(T argument)
{
	return argument;
}
#define VENDORS(ours, theirs, pointer)                                                                                 \
	inline auto vendors(ours pointer argument)                                                                         \
	{                                                                                                                  \
		return reinterpret_cast<theirs pointer>(argument);                                                             \
	}                                                                                                                  \
	inline auto vendors(const ours pointer argument)                                                                   \
	{                                                                                                                  \
		return reinterpret_cast<const theirs pointer>(argument);                                                       \
	}
VENDORS(std::complex<float>, cuComplex, *)
VENDORS(std::complex<float>, cuComplex, **)
VENDORS(std::complex<double>, cuDoubleComplex, *)
VENDORS(std::complex<double>, cuDoubleComplex, **)
#undef VENDORS

template <>
struct TypeOf<std::complex<float>> {
	static constexpr cudaDataType value = CUDA_C_32F;
};
template <>
struct TypeOf<std::complex<double>> {
	static constexpr cudaDataType value = CUDA_C_64F;
};

template <typename T>
class DeviceArray
{
public:
	explicit DeviceArray(const std::vector<T> &values) : size_(values.size())
	{
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&data_), size_ * sizeof(T) + 1024) == cudaSuccess);
		REQUIRE(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess);
	}
	explicit DeviceArray(size_t size) : DeviceArray(std::vector<T>(size)) {}
	DeviceArray(const DeviceArray &) = delete;
	DeviceArray &operator=(const DeviceArray &) = delete;
	~DeviceArray() { cudaFree(data_); }

	T *get() const { return data_; }
	operator T *() const { return data_; }
	std::vector<T> read() const
	{
		std::vector<T> values(size_);
		CHECK(cudaDeviceSynchronize() == cudaSuccess);
		CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess);
		return values;
	}

private:
	size_t size_;
	T *data_ = nullptr;
};

struct Blas {
	cublasHandle_t handle = nullptr;
	Blas() { REQUIRE(cublasCreate(&handle) == CUBLAS_STATUS_SUCCESS); }
	Blas(const Blas &) = delete;
	~Blas() { cublasDestroy(handle); }
	operator cublasHandle_t() const { return handle; }
	cublasLtHandle_t lt() const { return reinterpret_cast<cublasLtHandle_t>(handle); }
};

inline std::vector<float> randomFloats(size_t count, unsigned seed = 1, float scale = 1)
{
	std::mt19937 engine(seed);
	std::uniform_real_distribution<float> uniform(-scale, scale);
	std::vector<float> values(count);
	for (float &value : values)
		value = uniform(engine);
	return values;
}

template <typename T>
constexpr bool isComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

using Wide = std::complex<double>;

template <typename T>
Wide wide(T value)
{
	if constexpr (isComplex<T> || std::is_same_v<T, double>)
		return value;
	else
		return double(float(value));
}

template <typename T>
T narrow(Wide value)
{
	if constexpr (isComplex<T>)
		return T(value);
	else if constexpr (std::is_same_v<T, double>)
		return value.real();
	else
		return T(float(value.real()));
}

template <typename T>
struct RealOf {
	using type = T;
};
template <typename T>
struct RealOf<std::complex<T>> {
	using type = T;
};
template <typename T>
using Real = typename RealOf<T>::type;

template <typename T>
std::vector<T> randomValues(size_t count, unsigned seed)
{
	const std::vector<float> parts = randomFloats(2 * count, seed);
	std::vector<T> values(count);
	for (size_t i = 0; i < count; ++i)
		values[i] = narrow<T>({parts[2 * i], parts[2 * i + 1]});
	return values;
}

template <typename T>
double epsilon()
{
	return std::is_same_v<T, __half>                                            ? 0x1p-10
	       : std::is_same_v<T, __nv_bfloat16>                                   ? 0x1p-7
	       : std::is_same_v<T, float> || std::is_same_v<T, std::complex<float>> ? 0x1p-23
	                                                                            : 0x1p-52;
}

template <typename T, typename From = float>
std::vector<T> as(const std::vector<From> &values)
{
	std::vector<T> converted(values.size());
	for (size_t i = 0; i < values.size(); ++i)
		converted[i] = T(float(values[i]));
	return converted;
}

template <typename T>
bool sameBits(const std::vector<T> &left, const std::vector<T> &right)
{
	return left.size() == right.size() && std::memcmp(left.data(), right.data(), left.size() * sizeof(T)) == 0;
}

// op(A) op(B) in fp64, packed column-major operands; `keep` rounds an operand like the tested arithmetic.
template <typename Keep>
std::vector<double> reference(bool ta, bool tb, int m, int n, int k, const std::vector<float> &a,
                              const std::vector<float> &b, Keep keep)
{
	std::vector<double> sum(static_cast<size_t>(m) * n);
	for (int j = 0; j < n; ++j)
		for (int i = 0; i < m; ++i)
			for (int l = 0; l < k; ++l)
				sum[i + j * m] += double(keep(a[ta ? l + i * k : i + l * m])) * keep(b[tb ? j + l * n : l + j * k]);
	return sum;
}

template <typename T>
double relativeError(const std::vector<T> &values, const std::vector<double> &exact)
{
	double difference = 0, norm = 0;
	for (size_t i = 0; i < exact.size(); ++i) {
		difference += std::pow(double(float(values[i])) - exact[i], 2);
		norm += exact[i] * exact[i];
	}
	return std::sqrt(difference / norm);
}

// Parameters of one Lt call, with the defaults of an fp32 product of packed matrices.
struct LtCall {
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr, d = nullptr;
	cublasLtMatmulPreference_t preference = nullptr;

	LtCall(int m, int n, int k, cudaDataType operand = CUDA_R_32F, cudaDataType result = CUDA_R_32F,
	       cublasComputeType_t compute = CUBLAS_COMPUTE_32F, cudaDataType scale = CUDA_R_32F)
	{
		cublasLtMatmulDescCreate(&desc, compute, scale);
		cublasLtMatrixLayoutCreate(&a, operand, m, k, m);
		cublasLtMatrixLayoutCreate(&b, operand, k, n, k);
		cublasLtMatrixLayoutCreate(&c, result, m, n, m);
		cublasLtMatrixLayoutCreate(&d, result, m, n, m);
		cublasLtMatmulPreferenceCreate(&preference);
	}
	LtCall(const LtCall &) = delete;
	~LtCall()
	{
		cublasLtMatmulDescDestroy(desc);
		for (cublasLtMatrixLayout_t layout : {a, b, c, d})
			cublasLtMatrixLayoutDestroy(layout);
		cublasLtMatmulPreferenceDestroy(preference);
	}

	template <typename T>
	void set(cublasLtMatmulDescAttributes_t id, T value)
	{
		CHECK(cublasLtMatmulDescSetAttribute(desc, id, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
	}
	template <typename T>
	void set(cublasLtMatmulPreferenceAttributes_t id, T value)
	{
		CHECK(cublasLtMatmulPreferenceSetAttribute(preference, id, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
	}
	template <typename T>
	void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t id, T value)
	{
		CHECK(cublasLtMatrixLayoutSetAttribute(layout, id, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
	}
	void setBatch(int count, int64_t strideA, int64_t strideB, int64_t strideD)
	{
		for (auto [layout, stride] : {std::pair{a, strideA}, {b, strideB}, {c, strideD}, {d, strideD}}) {
			set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
			set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, stride);
		}
	}

	cublasStatus_t heuristic(cublasLtHandle_t handle, std::vector<cublasLtMatmulHeuristicResult_t> &results,
	                         int most = 8)
	{
		int count = 0;
		results.resize(most);
		cublasStatus_t status =
		    cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, c, d, preference, most, results.data(), &count);
		results.resize(count);
		return status;
	}
	cublasStatus_t run(cublasLtHandle_t handle, const void *A, const void *B, const void *C, void *D,
	                   const cublasLtMatmulAlgo_t *algo = nullptr, void *workspace = nullptr, size_t bytes = 0,
	                   float alpha = 1, float beta = 0)
	{
		return cublasLtMatmul(handle, desc, &alpha, A, a, B, b, &beta, C, c, D, d, algo, workspace, bytes, nullptr);
	}
};
