#include "tools/emulated/blas/product.h"
#include "tools/emulated/blas/epilogue.h"

#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

namespace emulated::blas {

namespace {

// Scratch of one worker thread: 64-byte aligned at any size, so that the same operands take the same path through
// OpenBLAS wherever the program keeps them.
class Scratch
{
public:
	template <typename T>
	T *get(size_t count)
	{
		size_t bytes = std::max<size_t>(count, 1) * sizeof(T);
		if (bytes > capacity_) {
			memory_.reset();
			capacity_ = 0;
			memory_.reset(static_cast<std::byte *>(::operator new(bytes, alignment)));
			capacity_ = bytes;
		}
		return reinterpret_cast<T *>(memory_.get());
	}

private:
	static constexpr std::align_val_t alignment{64};
	struct Free {
		void operator()(std::byte *memory) const { ::operator delete(memory, alignment); }
	};
	std::unique_ptr<std::byte, Free> memory_;
	size_t capacity_ = 0;
};

struct Buffers {
	Scratch a, b, sum, column, c;
};

Buffers &buffers()
{
	thread_local Buffers instance;
	return instance;
}

// The serial OpenBLAS keeps its packing buffers in one list without a lock.
std::mutex &openBlas()
{
	static auto *mutex = new std::mutex;
	return *mutex;
}

CBLAS_TRANSPOSE transposed(bool value)
{
	return value ? CblasTrans : CblasNoTrans;
}

// sum = op(A) op(B), and the lock the serial OpenBLAS needs.
template <typename T>
void gemm(bool transposeA, bool transposeB, int64_t rows, int64_t columns, int64_t depth, const T *a, int64_t lda,
          const T *b, int64_t ldb, T *sum)
{
	auto m = static_cast<blasint>(rows), n = static_cast<blasint>(columns), k = static_cast<blasint>(depth);
	auto la = static_cast<blasint>(std::max<int64_t>(lda, 1)), lb = static_cast<blasint>(std::max<int64_t>(ldb, 1));
	CBLAS_TRANSPOSE opA = transposed(transposeA), opB = transposed(transposeB);
	std::lock_guard lock(openBlas());
	if constexpr (std::is_same_v<T, float>)
		cblas_sgemm(CblasColMajor, opA, opB, m, n, k, 1, a, la, b, lb, 0, sum, m);
	else
		cblas_dgemm(CblasColMajor, opA, opB, m, n, k, 1, a, la, b, lb, 0, sum, m);
}

bool accumulatesInHalf(cublasComputeType_t compute)
{
	return compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC;
}

// One operand of one batch, as the device sees it, widened to a packed copy. Null: an address the device cannot read.
template <typename T>
const T *load(Scratch &scratch, const void *data, const Matrix &matrix, int64_t rows, int64_t columns,
              Rounding rounding)
{
	T *copy = scratch.get<T>(rows * columns);
	const auto *bytes = static_cast<const std::byte *>(data);
	for (int64_t i = 0; i < columns; ++i)
		widen(matrix.type, bytes + i * matrix.ld * sizeOf(matrix.type), copy + i * rows, rows);
	if constexpr (std::is_same_v<T, float>)
		round(rounding, copy, rows * columns);
	return copy;
}

// Where tensor cores compute, what an array points to must be aligned as the manual says of the batched and grouped
// products: to 16 bytes where rows of k elements are, else to 4.
uintptr_t arrayAlignment(const Product &p)
{
	const size_t element = sizeOf(p.a.type), row = p.k * element;
	const bool hasTensorCores = element == 2 || p.rounding != Rounding::None;
	return !hasTensorCores ? 1 : row % 16 == 0 ? 16 : row % 4 == 0 ? 4 : 1;
}

using emulated::blas::look;
cudaError_t look(const void *&where, const Product &p, const Matrix &matrix, int64_t batch, int64_t rows,
                 int64_t columns)
{
	if (!matrix.isArray)
		return look(where, matrix.data, matrix.type, batch * matrix.stride, rows, columns, matrix.ld);
	constexpr cudaDataType pointerSized = CUDA_R_64F;
	const void *entry = nullptr;
	if (cudaError_t error = look(entry, matrix.data, pointerSized, batch, 1, 1, 1))
		return error;
	const void *base = *static_cast<const void *const *>(entry);
	if (reinterpret_cast<uintptr_t>(base) % arrayAlignment(p) != 0)
		return cudaErrorMisalignedAddress;
	return look(where, base, matrix.type, 0, rows, columns, matrix.ld);
}

template <typename T>
cudaError_t scalar(const void *address, cudaDataType type, T &value)
{
	const void *where = nullptr;
	if (cudaError_t error = look(where, address, type, 0, 1, 1, 1))
		return error;
	widen(type, where, &value, 1);
	return cudaSuccess;
}

// What each row is multiplied with, in one batch.
template <typename T>
cudaError_t scalars(const Product &p, bool isVector, const void *address, int64_t offset, T *values)
{
	const void *where = nullptr;
	if (!isVector)
		return cudaSuccess;
	if (cudaError_t error = look(where, address, p.scaleType, offset, p.m, 1, p.m))
		return error;
	widen(p.scaleType, where, values, p.m);
	return cudaSuccess;
}

// A workspace belongs to the call while it runs: whatever the program keeps there is gone.
cudaError_t spoil(const Product &p, void *&workspace)
{
	if (p.workspaceBytes == 0)
		return cudaSuccess;
	workspace = view(p.workspace, p.workspaceBytes);
	if (!workspace)
		return cudaErrorIllegalAddress;
	std::memset(workspace, 0xff, std::min<size_t>(p.workspaceBytes, 64 << 10));
	return cudaSuccess;
}

// Sums of all products of a row of op(A) with a column of op(B).
template <typename T>
void accumulate(const Product &p, const T *a, const T *b, T *sum, void *workspace)
{
	const int64_t lda = p.transposeA ? p.k : p.m, ldb = p.transposeB ? p.n : p.k, count = p.m * p.n;
	auto part = [&](int64_t from, int64_t depth, T *target) {
		gemm(p.transposeA, p.transposeB, p.m, p.n, depth, a + (p.transposeA ? from : from * lda), lda,
		     b + (p.transposeB ? from * ldb : from), ldb, target);
	};
	if constexpr (std::is_same_v<T, float>) {
		if (accumulatesInHalf(p.compute)) {
			constexpr int64_t depth = 16; // of one tensor core instruction: its sum is rounded into a half accumulator
			T *partial = buffers().c.get<T>(count);
			std::fill_n(sum, count, T{});
			for (int64_t k = 0; k < p.k; k += depth) {
				part(k, std::min(depth, p.k - k), partial);
				for (int64_t i = 0; i < count; ++i)
					sum[i] += partial[i];
				round(Rounding::Half, sum, count);
			}
			return;
		}
	}
	if (p.split == 1) {
		part(0, p.k, sum);
		return;
	}
	T *partial = static_cast<T *>(workspace);
	const int64_t depth = (p.k + p.split - 1) / p.split;
	for (int i = 0; i < p.split; ++i)
		part(std::min(i * depth, p.k), std::clamp<int64_t>(p.k - i * depth, 0, depth), partial + i * count);
	std::copy_n(partial, count, sum);
	for (int i = 1; i < p.split; ++i)
		for (int64_t j = 0; j < count; ++j)
			sum[j] += partial[i * count + j];
}

template <typename T>
cudaError_t run(const Product &p)
{
	Buffers &scratch = buffers();
	T alpha = static_cast<T>(p.alphaValue), beta = static_cast<T>(p.betaValue);
	if (p.deviceScalars) {
		if (cudaError_t error = scalar(p.alpha, p.scaleType, alpha))
			return error;
		if (cudaError_t error = scalar(p.beta, p.scaleType, beta))
			return error;
	}
	void *workspace = nullptr;
	if (cudaError_t error = spoil(p, workspace))
		return error;

	// A device alpha of zero does not spare A and B: the kernel learns it too late.
	const bool reduces = p.epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
	const bool readsOperands = p.k > 0 && (alpha != 0 || p.deviceScalars || p.hasAlphaVector || reduces);
	const int64_t aRows = p.transposeA ? p.k : p.m, aColumns = p.transposeA ? p.m : p.k;
	const int64_t bRows = p.transposeB ? p.n : p.k, bColumns = p.transposeB ? p.k : p.n;
	T *sum = scratch.sum.get<T>(p.m * p.n);
	T *column = scratch.column.get<T>(p.m);
	std::vector<T> alphas(p.m, alpha), betas(p.m, beta);
	Epilogue<T> epilogue(p);
	for (int64_t batch = 0; batch < p.batch; ++batch) {
		const void *where = nullptr;
		if (cudaError_t error = epilogue.begin(batch))
			return error;
		if (cudaError_t error = scalars(p, p.hasAlphaVector, p.alpha, batch * p.alphaStride, alphas.data()))
			return error;
		if (cudaError_t error = scalars(p, p.hasBetaVector, p.beta, 0, betas.data()))
			return error;
		if (readsOperands) {
			if (cudaError_t error = look(where, p, p.a, batch, aRows, aColumns))
				return error;
			const T *a = load<T>(scratch.a, where, p.a, aRows, aColumns, p.rounding);
			if (cudaError_t error = look(where, p, p.b, batch, bRows, bColumns))
				return error;
			const T *b = load<T>(scratch.b, where, p.b, bRows, bColumns, p.rounding);
			accumulate(p, a, b, sum, workspace);
			epilogue.reduce(a, b);
		} else {
			std::fill_n(sum, p.m * p.n, T{});
		}

		const void *c = nullptr, *d = nullptr;
		if (beta != 0 || p.hasBetaVector)
			if (cudaError_t error = look(c, p, p.c, batch, p.m, p.n))
				return error;
		if (cudaError_t error = look(d, p, p.d, batch, p.m, p.n))
			return error;
		for (int64_t j = 0; j < p.n; ++j) {
			T *value = sum + j * p.m;
			for (int64_t i = 0; i < p.m; ++i)
				value[i] *= alphas[i];
			if (c) {
				widen(p.c.type, static_cast<const std::byte *>(c) + j * p.c.ld * sizeOf(p.c.type), column, p.m);
				for (int64_t i = 0; i < p.m; ++i)
					value[i] += betas[i] * column[i];
			}
			epilogue.apply(j, value);
			auto *target = const_cast<std::byte *>(static_cast<const std::byte *>(d));
			store(p.d.type, value, target + j * p.d.ld * sizeOf(p.d.type), p.m);
		}
		epilogue.end();
	}
	return cudaSuccess;
}

#define ROW(table, ...) {Table::table, __VA_ARGS__},
constexpr auto none = Combination::none;
constexpr Combination combinations[] = {
#include "combinations.inc"
};
#undef ROW

} // namespace

void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
              float *sum)
{
	gemm(transposeA, transposeB, m, n, k, a, transposeA ? k : m, b, transposeB ? n : k, sum);
}

Rounding roundingOf(cublasComputeType_t compute)
{
	static const bool isTf32Forbidden = [] {
		const char *value = std::getenv("NVIDIA_TF32_OVERRIDE");
		return value && std::strcmp(value, "0") == 0;
	}();
	switch (compute) {
	case CUBLAS_COMPUTE_32F_FAST_TF32:
		return isTf32Forbidden ? Rounding::None : Rounding::Tf32;
	case CUBLAS_COMPUTE_32F_FAST_16F:
		return Rounding::Half;
	case CUBLAS_COMPUTE_32F_FAST_16BF:
		return Rounding::Bfloat16;
	default: // BF16x9 is native fp32 on every device but cc 10.0 and 10.3
		return Rounding::None;
	}
}

cudaError_t look(const void *&where, const void *address, size_t alignment, size_t bytes)
{
	if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
		return cudaErrorMisalignedAddress;
	where = view(address, bytes);
	return where ? cudaSuccess : cudaErrorIllegalAddress;
}

cudaError_t look(const void *&where, const void *base, cudaDataType type, int64_t offset, int64_t rows, int64_t columns,
                 int64_t ld)
{
	const size_t size = sizeOf(type);
	const auto *address = static_cast<const std::byte *>(base) + offset * static_cast<int64_t>(size);
	return base ? look(where, address, size, ((columns - 1) * ld + rows) * size) : cudaErrorIllegalAddress;
}

size_t workspaceOf(const Product &product)
{
	size_t element = product.scaleType == CUDA_R_64F ? sizeof(double) : sizeof(float);
	return product.split > 1 ? product.split * product.m * product.n * element : 0;
}

void readScalars(Product &product)
{
	if (product.deviceScalars)
		return;
	auto read = [&](const void *address) -> double {
		if (product.scaleType == CUDA_R_64F)
			return *static_cast<const double *>(address);
		float value;
		widen(product.scaleType, address, &value, 1);
		return value;
	};
	if (!product.hasAlphaVector)
		product.alphaValue = read(std::exchange(product.alpha, nullptr));
	if (!product.hasBetaVector && product.beta)
		product.betaValue = read(std::exchange(product.beta, nullptr));
}

cublasStatus_t enqueue(cudaStream_t stream, const char *name, const Product &product)
{
	auto body = [product] { return product.scaleType == CUDA_R_64F ? run<double>(product) : run<float>(product); };
	return submit(stream, name, body) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

const Combination *find(Table table, cublasComputeType_t compute, cudaDataType scale, cudaDataType a, cudaDataType b,
                        cudaDataType c, cudaDataType d)
{
	for (const Combination &row : combinations)
		if (row.table == table && row.compute == compute && row.scale == scale && row.a == a && row.b == b &&
		    row.c == c && row.d == d)
			return &row;
	return nullptr;
}

} // namespace emulated::blas
