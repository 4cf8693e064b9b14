// cublasSet/GetVector and Matrix: strided copies between host and device.
#include "tools/emulated/cublas/handle.h"

#include <cstring>
#include <memory>

using namespace emulated;

namespace {

// A vector is a matrix of one row, with its increment as leading dimension.
struct Copy {
	const char *name;
	int64_t rows, columns, element;
	const void *from;
	int64_t fromLd;
	void *to;
	int64_t toLd;

	int64_t bytes(int64_t ld) const { return ((columns - 1) * ld + rows) * element; }
	void copy(const void *source, void *target) const
	{
		for (int64_t i = 0; i < columns; ++i)
			std::memcpy(static_cast<std::byte *>(target) + i * toLd * element,
			            static_cast<const std::byte *>(source) + i * fromLd * element, rows * element);
	}
};

cublasStatus_t check(const Copy &copy)
{
	if (copy.rows < 0 || copy.columns < 0 || copy.element <= 0 || copy.fromLd < std::max<int64_t>(1, copy.rows) ||
	    copy.toLd < std::max<int64_t>(1, copy.rows))
		return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

// Host memory that the device can access is read or written when the copy runs. Other host memory (null here) is read
// or written during the call.
cublasStatus_t run(const Copy &copy, cudaStream_t stream, bool toDevice, bool wait)
{
	if (cublasStatus_t status = check(copy))
		return status;
	if (copy.rows == 0 || copy.columns == 0)
		return CUBLAS_STATUS_SUCCESS;
	const void *device = toDevice ? copy.to : copy.from;
	if (!view(device, copy.bytes(toDevice ? copy.toLd : copy.fromLd)))
		return CUBLAS_STATUS_MAPPING_ERROR;

	const void *host = toDevice ? copy.from : copy.to;
	const int64_t hostBytes = copy.bytes(toDevice ? copy.fromLd : copy.toLd);
	std::shared_ptr<std::byte[]> staged;
	if (!view(host, hostBytes)) {
		wait = wait || (!toDevice && !isCapturing(stream));
		if (toDevice) {
			staged.reset(new std::byte[hostBytes]);
			for (int64_t i = 0; i < copy.columns; ++i) // skips the gaps, which may be inaccessible
				std::memcpy(&staged[i * copy.fromLd * copy.element],
				            static_cast<const std::byte *>(host) + i * copy.fromLd * copy.element,
				            copy.rows * copy.element);
		}
	}
	auto body = [copy, staged, toDevice] {
		const void *source = staged ? staged.get() : view(copy.from, copy.bytes(copy.fromLd));
		void *target = view(copy.to, copy.bytes(copy.toLd));
		if (toDevice ? !target : !source)
			return cudaErrorIllegalAddress;
		copy.copy(source ? source : copy.from, target ? target : copy.to);
		return cudaSuccess;
	};
	if (submit(stream, copy.name, body) != cudaSuccess || (wait && synchronize(stream) != cudaSuccess))
		return CUBLAS_STATUS_MAPPING_ERROR;
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace

#define VECTOR(name, toDevice)                                                                                         \
	ENTRY(name, MAPPING_ERROR, n, elemSize, x, incx, y, incy)                                                          \
	{                                                                                                                  \
		return run({__func__, 1, n, elemSize, x, incx, y, incy}, nullptr, toDevice, true);                             \
	}
#define VECTOR_ASYNC(name, toDevice)                                                                                   \
	ENTRY(name, MAPPING_ERROR, n, elemSize, x, incx, y, incy, stream)                                                  \
	{                                                                                                                  \
		return run({__func__, 1, n, elemSize, x, incx, y, incy}, stream, toDevice, false);                             \
	}
#define MATRIX(name, toDevice)                                                                                         \
	ENTRY(name, MAPPING_ERROR, rows, cols, elemSize, A, lda, B, ldb)                                                   \
	{                                                                                                                  \
		return run({__func__, rows, cols, elemSize, A, lda, B, ldb}, nullptr, toDevice, true);                         \
	}
#define MATRIX_ASYNC(name, toDevice)                                                                                   \
	ENTRY(name, MAPPING_ERROR, rows, cols, elemSize, A, lda, B, ldb, stream)                                           \
	{                                                                                                                  \
		return run({__func__, rows, cols, elemSize, A, lda, B, ldb}, stream, toDevice, false);                         \
	}
#define COPIES(DEFINE, suffix)                                                                                         \
	DEFINE(cublasSet##suffix, true)                                                                                    \
	DEFINE(cublasSet##suffix##_64, true)                                                                               \
	DEFINE(cublasGet##suffix, false)                                                                                   \
	DEFINE(cublasGet##suffix##_64, false)
COPIES(VECTOR, Vector)
COPIES(VECTOR_ASYNC, VectorAsync)
COPIES(MATRIX, Matrix)
COPIES(MATRIX_ASYNC, MatrixAsync)
