// The few fp32 routines beside GEMM that programs need to pass through. Operands are gathered, the result is
// scattered: what lies between the elements is never touched.
#include "tools/emulated/blas/product.h"
#include "tools/emulated/cublas/handle.h"

#include <cmath>
#include <functional>
#include <vector>

using namespace emulated::blas;
using emulated::view;
using emulated::cublas::Handle;
using emulated::cublas::handleOf;

namespace {

// A vector (one row, ld = increment; a negative one walks backwards from the end) or a column-major matrix on the
// device.
struct Operand {
	const float *data;
	int64_t rows, columns, ld;

	static Operand vector(const float *data, int64_t n, int64_t inc) { return {data, 1, n, inc}; }
	float *at() const
	{
		int64_t elements = (columns - 1) * std::abs(ld) + rows;
		return rows > 0 && columns > 0 ? static_cast<float *>(view(data, elements * sizeof(float))) : nullptr;
	}
	float *column(float *base, int64_t j) const { return base + (ld < 0 ? (columns - 1 - j) * -ld : j * ld); }
	bool isEmpty() const { return rows <= 0 || columns <= 0; }
};

bool gather(const Operand &operand, std::vector<float> &values)
{
	values.assign(std::max<int64_t>(0, operand.rows) * std::max<int64_t>(0, operand.columns), 0);
	if (operand.isEmpty())
		return true;
	float *base = operand.at();
	for (int64_t j = 0; base && j < operand.columns; ++j)
		std::copy_n(operand.column(base, j), operand.rows, values.begin() + j * operand.rows);
	return base;
}

bool scatter(const std::vector<float> &values, const Operand &operand)
{
	if (operand.isEmpty())
		return true;
	float *base = operand.at();
	for (int64_t j = 0; base && j < operand.columns; ++j)
		std::copy_n(values.begin() + j * operand.rows, operand.rows, operand.column(base, j));
	return base;
}

// A scalar of the handle's pointer mode: read now, or when the work runs.
struct Scalar {
	const float *device;
	float value;

	Scalar(const Handle &handle, const float *address)
	    : device(handle.hasDeviceScalars() ? address : nullptr), value(device ? 0 : *address)
	{
	}
	bool read(float &into) const
	{
		const auto *where = device ? static_cast<const float *>(view(device, sizeof(float))) : &value;
		into = where ? *where : 0;
		return where;
	}
};

using Body = std::function<bool()>; // false: an operand is no device memory

cublasStatus_t enqueue(Handle &handle, const char *name, Body body)
{
	if (cublasStatus_t status = ready(handle, handle.stream))
		return status;
	auto work = [body] { return body() ? cudaSuccess : cudaErrorIllegalAddress; };
	return emulated::submit(handle.stream, name, work) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
	                                                                  : CUBLAS_STATUS_EXECUTION_FAILED;
}

bool isOperation(cublasOperation_t operation)
{
	return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

bool isLd(int64_t ld, int64_t rows)
{
	return ld >= std::max<int64_t>(1, rows);
}

#define BEGIN(...)                                                                                                     \
	if (emulated::mustFail(name))                                                                                      \
		return CUBLAS_STATUS_EXECUTION_FAILED;                                                                         \
	Handle *mine = handleOf(handle);                                                                                   \
	if (!mine)                                                                                                         \
		return CUBLAS_STATUS_NOT_INITIALIZED;                                                                          \
	if (__VA_ARGS__)                                                                                                   \
		return CUBLAS_STATUS_INVALID_VALUE;

cublasStatus_t saxpy(const char *name, cublasHandle_t handle, int64_t n, const float *alpha, const float *x,
                     int64_t incx, float *y, int64_t incy)
{
	BEGIN(n > 0 && !alpha)
	if (n <= 0)
		return CUBLAS_STATUS_SUCCESS;
	Body body = [a = Scalar(*mine, alpha), xs = Operand::vector(x, n, incx), ys = Operand::vector(y, n, incy)] {
		float factor;
		std::vector<float> from, to;
		if (!a.read(factor) || !gather(xs, from) || !gather(ys, to))
			return false;
		for (size_t i = 0; i < to.size(); ++i)
			to[i] += factor * from[i];
		return scatter(to, ys);
	};
	return enqueue(*mine, name, body);
}

cublasStatus_t sscal(const char *name, cublasHandle_t handle, int64_t n, const float *alpha, float *x, int64_t incx)
{
	BEGIN(n > 0 && !alpha)
	if (n <= 0 || incx <= 0)
		return CUBLAS_STATUS_SUCCESS;
	Body body = [a = Scalar(*mine, alpha), xs = Operand::vector(x, n, incx)] {
		float factor;
		std::vector<float> values;
		if (!a.read(factor) || !gather(xs, values))
			return false;
		for (float &value : values)
			value *= factor;
		return scatter(values, xs);
	};
	return enqueue(*mine, name, body);
}

// With a host result the call waits for it, which is why it fails during capture.
cublasStatus_t sdot(const char *name, cublasHandle_t handle, int64_t n, const float *x, int64_t incx, const float *y,
                    int64_t incy, float *result)
{
	BEGIN(!result)
	const bool onDevice = mine->hasDeviceScalars();
	if (!onDevice && emulated::isCapturing(mine->stream)) {
		emulated::synchronize(mine->stream);
		return CUBLAS_STATUS_EXECUTION_FAILED;
	}
	Body body = [=, xs = Operand::vector(x, n, incx), ys = Operand::vector(y, n, incy)] {
		std::vector<float> left, right;
		auto *where = onDevice ? static_cast<float *>(view(result, sizeof(float))) : result;
		if (!where || !gather(xs, left) || !gather(ys, right))
			return false;
		multiply(true, false, 1, 1, left.size(), left.data(), right.data(), where);
		return true;
	};
	cublasStatus_t status = enqueue(*mine, name, body);
	if (status == CUBLAS_STATUS_SUCCESS && !onDevice && emulated::synchronize(mine->stream) != cudaSuccess)
		status = CUBLAS_STATUS_EXECUTION_FAILED;
	return status;
}

cublasStatus_t sgemv(const char *name, cublasHandle_t handle, cublasOperation_t trans, int64_t m, int64_t n,
                     const float *alpha, const float *A, int64_t lda, const float *x, int64_t incx, const float *beta,
                     float *y, int64_t incy)
{
	BEGIN(!isOperation(trans) || m < 0 || n < 0 || !isLd(lda, m) || incx == 0 || incy == 0)
	if (m == 0 || n == 0)
		return CUBLAS_STATUS_SUCCESS;
	if (!alpha || !beta)
		return CUBLAS_STATUS_INVALID_VALUE;
	const bool isTransposed = trans != CUBLAS_OP_N;
	const int64_t inputs = isTransposed ? m : n, outputs = isTransposed ? n : m;
	Body body = [=, a = Scalar(*mine, alpha), b = Scalar(*mine, beta), matrix = Operand{A, m, n, lda},
	             xs = Operand::vector(x, inputs, incx), ys = Operand::vector(y, outputs, incy)] {
		float factor, keep;
		std::vector<float> values, from, to(outputs), sum(outputs);
		if (!a.read(factor) || !b.read(keep) || !gather(matrix, values) || !gather(xs, from) ||
		    (keep != 0 && !gather(ys, to)))
			return false;
		multiply(isTransposed, false, outputs, 1, inputs, values.data(), from.data(), sum.data());
		for (int64_t i = 0; i < outputs; ++i)
			to[i] = factor * sum[i] + keep * to[i];
		return scatter(to, ys);
	};
	return enqueue(*mine, name, body);
}

cublasStatus_t sgeam(const char *name, cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                     int64_t m, int64_t n, const float *alpha, const float *A, int64_t lda, const float *beta,
                     const float *B, int64_t ldb, float *C, int64_t ldc)
{
	const bool plainA = transa == CUBLAS_OP_N, plainB = transb == CUBLAS_OP_N;
	BEGIN(!isOperation(transa) || !isOperation(transb) || m < 0 || n < 0 || !isLd(lda, plainA ? m : n) ||
	      !isLd(ldb, plainB ? m : n) || !isLd(ldc, m))
	if (m == 0 || n == 0)
		return CUBLAS_STATUS_SUCCESS;
	if (!alpha || !beta)
		return CUBLAS_STATUS_INVALID_VALUE;
	Body body = [=, a = Scalar(*mine, alpha), b = Scalar(*mine, beta),
	             as = plainA ? Operand{A, m, n, lda} : Operand{A, n, m, lda},
	             bs = plainB ? Operand{B, m, n, ldb} : Operand{B, n, m, ldb}] {
		std::vector<float> sum(m * n);
		auto add = [&](const Scalar &scalar, const Operand &operand, bool isPlain) {
			float factor;
			std::vector<float> values;
			if (!scalar.read(factor) || (factor != 0 && !gather(operand, values)))
				return false;
			for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i)
				sum[i] += factor * values[isPlain ? i : i / m + i % m * n];
			return true;
		};
		return add(a, as, plainA) && add(b, bs, plainB) && scatter(sum, {C, m, n, ldc});
	};
	return enqueue(*mine, name, body);
}

cublasStatus_t ssyrk(const char *name, cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, int64_t n,
                     int64_t k, const float *alpha, const float *A, int64_t lda, const float *beta, float *C,
                     int64_t ldc)
{
	const bool isUpper = uplo == CUBLAS_FILL_MODE_UPPER, isPlain = trans == CUBLAS_OP_N;
	BEGIN((!isUpper && uplo != CUBLAS_FILL_MODE_LOWER) || !isOperation(trans) || n < 0 || k < 0 ||
	      !isLd(lda, isPlain ? n : k) || !isLd(ldc, n))
	if (n == 0)
		return CUBLAS_STATUS_SUCCESS;
	if (!alpha || !beta)
		return CUBLAS_STATUS_INVALID_VALUE;
	Body body = [=, a = Scalar(*mine, alpha), b = Scalar(*mine, beta),
	             as = isPlain ? Operand{A, n, k, lda} : Operand{A, k, n, lda}] {
		float factor, keep;
		std::vector<float> values, sum(n * n), old;
		if (!a.read(factor) || !b.read(keep) || !gather(as, values))
			return false;
		multiply(!isPlain, isPlain, n, n, k, values.data(), values.data(), sum.data());
		for (int64_t j = 0; j < n; ++j) {
			const int64_t first = isUpper ? 0 : j, count = isUpper ? j + 1 : n - j;
			const Operand part{C + j * ldc + first, count, 1, ldc};
			std::vector<float> column(sum.begin() + j * n + first, sum.begin() + j * n + first + count);
			if (keep != 0 && !gather(part, old))
				return false;
			for (int64_t i = 0; i < count; ++i)
				column[i] = factor * column[i] + (keep != 0 ? keep * old[i] : 0);
			if (!scatter(column, part))
				return false;
		}
		return true;
	};
	return enqueue(*mine, name, body);
}

} // namespace

extern "C" {

#define TWINS(name, function, PARAMETERS, ...)                                                                         \
	cublasStatus_t name(cublasHandle_t handle, PARAMETERS(int))                                                        \
	{                                                                                                                  \
		return function(__func__, handle, __VA_ARGS__);                                                                \
	}                                                                                                                  \
	cublasStatus_t name##_64(cublasHandle_t handle, PARAMETERS(int64_t))                                               \
	{                                                                                                                  \
		return function(__func__, handle, __VA_ARGS__);                                                                \
	}

#define SAXPY(I) I n, const float *alpha, const float *x, I incx, float *y, I incy
TWINS(cublasSaxpy_v2, saxpy, SAXPY, n, alpha, x, incx, y, incy)

#define SSCAL(I) I n, const float *alpha, float *x, I incx
TWINS(cublasSscal_v2, sscal, SSCAL, n, alpha, x, incx)

#define SDOT(I) I n, const float *x, I incx, const float *y, I incy, float *result
TWINS(cublasSdot_v2, sdot, SDOT, n, x, incx, y, incy, result)

#define SGEMV(I)                                                                                                       \
	cublasOperation_t trans, I m, I n, const float *alpha, const float *A, I lda, const float *x, I incx,              \
	    const float *beta, float *y, I incy
TWINS(cublasSgemv_v2, sgemv, SGEMV, trans, m, n, alpha, A, lda, x, incx, beta, y, incy)

#define SGEAM(I)                                                                                                       \
	cublasOperation_t transa, cublasOperation_t transb, I m, I n, const float *alpha, const float *A, I lda,           \
	    const float *beta, const float *B, I ldb, float *C, I ldc
TWINS(cublasSgeam, sgeam, SGEAM, transa, transb, m, n, alpha, A, lda, beta, B, ldb, C, ldc)

#define SSYRK(I)                                                                                                       \
	cublasFillMode_t uplo, cublasOperation_t trans, I n, I k, const float *alpha, const float *A, I lda,               \
	    const float *beta, float *C, I ldc
TWINS(cublasSsyrk_v2, ssyrk, SSYRK, uplo, trans, n, k, alpha, A, lda, beta, C, ldc)

} // extern "C"
