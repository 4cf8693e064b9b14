#include "tools/emulated/blas/product.h"
#include "tools/emulated/blas/epilogue.h"
#include "tools/emulated/blas/look.h"

#include <cblas.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

namespace emulated::blas {

namespace {

// Scratch memory of one worker thread. The 64-byte alignment is fixed, so that OpenBLAS computes the same bits wherever
// the program stores the operands.
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

// sum = op(A) op(B), under the lock of the serial OpenBLAS.
template <typename T>
void gemm(bool transposeA, bool transposeB, int64_t rows, int64_t columns, int64_t depth, const T *a, int64_t lda,
          const T *b, int64_t ldb, T *sum)
{
	auto m = static_cast<blasint>(rows), n = static_cast<blasint>(columns), k = static_cast<blasint>(depth);
	auto la = static_cast<blasint>(std::max<int64_t>(lda, 1)), lb = static_cast<blasint>(std::max<int64_t>(ldb, 1));
	auto ls = std::max<blasint>(m, 1);
	CBLAS_TRANSPOSE opA = transposed(transposeA), opB = transposed(transposeB);
	const T one = 1, zero = 0;
	std::lock_guard lock(openBlas());
	if constexpr (std::is_same_v<T, float>)
		cblas_sgemm(CblasColMajor, opA, opB, m, n, k, one, a, la, b, lb, zero, sum, ls);
	else if constexpr (std::is_same_v<T, double>)
		cblas_dgemm(CblasColMajor, opA, opB, m, n, k, one, a, la, b, lb, zero, sum, ls);
	else if constexpr (std::is_same_v<T, std::complex<float>>)
		cblas_cgemm(CblasColMajor, opA, opB, m, n, k, &one, a, la, b, lb, &zero, sum, ls);
	else
		cblas_zgemm(CblasColMajor, opA, opB, m, n, k, &one, a, la, b, lb, &zero, sum, ls);
}

bool accumulatesInHalf(cublasComputeType_t compute)
{
	return compute == CUBLAS_COMPUTE_16F || compute == CUBLAS_COMPUTE_16F_PEDANTIC;
}

// Widens one operand of one batch into a packed copy, rounds it and conjugates it if necessary.
template <typename T>
const T *load(Scratch &scratch, const void *data, const Matrix &matrix, int64_t rows, int64_t columns,
              Rounding rounding, bool isCoarse)
{
	T *copy = scratch.get<T>(rows * columns);
	const auto *bytes = static_cast<const std::byte *>(data);
	for (int64_t i = 0; i < columns; ++i)
		widen(matrix.type, bytes + i * matrix.ld * sizeOf(matrix.type), copy + i * rows, rows);
	const int64_t count = rows * columns;
	if constexpr (std::is_same_v<T, float>) {
		round(rounding, copy, count);
		constexpr uint32_t kept = 0xfff00000; // sign, exponent and three bits
		for (int64_t i = 0; isCoarse && i < count; ++i)
			copy[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(copy[i]) & kept);
	}
	if constexpr (std::is_same_v<T, std::complex<float>>)
		round(rounding, reinterpret_cast<float *>(copy), 2 * count);
	if constexpr (isComplex<T>)
		for (int64_t i = 0; matrix.isConjugated && i < count; ++i)
			copy[i] = std::conj(copy[i]);
	return copy;
}

// Alignment that the manual requires for pointers in arrays if tensor cores compute: 16 bytes if the rows of k elements
// have a multiple of 16 bytes, else 4.
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
	value = as<T>(numberAt(type, where));
	return cudaSuccess;
}

// The factors of the rows in one batch.
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

// Overwrites the start of the workspace, which belongs to the call while it runs. Programs that store data there fail.
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

// sum = op(A) op(B), in the parts that the compute type and the split require.
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
			constexpr int64_t depth = 16; // k of one tensor core instruction; each partial sum is rounded into a half
			                              // accumulator
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

// Columns in device memory, in bytes: start of the first one, distance between starts, length.
struct Columns {
	uintptr_t begin;
	int64_t step, bytes, count;
};

Columns columnsOf(const void *where, const Matrix &matrix, int64_t rows, int64_t columns)
{
	const auto size = static_cast<int64_t>(sizeOf(matrix.type));
	return {reinterpret_cast<uintptr_t>(where), matrix.ld * size, rows * size, columns};
}

// Returns true if two matrices share an element. Two matrices of one array may be interleaved in the gaps between
// columns.
bool overlap(const Columns &a, const Columns &b)
{
	for (int64_t i = 0; i < a.count; ++i) {
		// Finds the first column of b that ends after this column begins.
		const auto behind = static_cast<int64_t>(a.begin) + i * a.step - static_cast<int64_t>(b.begin) - b.bytes;
		const int64_t first = behind < 0 ? 0 : b.step > 0 ? behind / b.step + 1 : b.count;
		if (first < b.count && first * b.step < behind + b.bytes + a.bytes)
			return true;
	}
	return false;
}

// sum = op(A) op(B) if D shares memory with an operand. The result is undefined: blocks of D are written while others
// are still computed. Here four blocks run in sequence.
template <typename T>
void accumulateInBlocks(const Product &p, const void *whereA, const void *whereB, std::byte *whereD, T *sum,
                        void *workspace)
{
	Buffers &scratch = buffers();
	std::vector<T> seen(p.m * p.n);
	const int64_t rows[] = {0, p.m / 2, p.m}, columns[] = {0, p.n / 2, p.n};
	for (int block = 0; block < 4; ++block) {
		const T *a = load<T>(scratch.a, whereA, p.a, p.aRows(), p.aColumns(), p.rounding, p.isCoarse);
		const T *b = load<T>(scratch.b, whereB, p.b, p.bRows(), p.bColumns(), p.rounding, p.isCoarse);
		accumulate(p, a, b, sum, workspace);
		const int64_t top = rows[block % 2], height = rows[block % 2 + 1] - top;
		for (int64_t j = columns[block / 2]; j < columns[block / 2 + 1] && height > 0; ++j) {
			std::copy_n(sum + j * p.m + top, height, &seen[j * p.m + top]);
			store(p.d.type, sum + j * p.m + top, whereD + (j * p.d.ld + top) * sizeOf(p.d.type), height);
		}
	}
	std::copy(seen.begin(), seen.end(), sum);
}

// Reads the operands of one batch: sum = op(A) op(B), and the gradients that the epilogue takes from the operands.
template <typename T>
cudaError_t multiplyBatch(const Product &p, int64_t batch, T *sum, void *workspace, Epilogue<T> &epilogue)
{
	Buffers &scratch = buffers();
	const void *whereA = nullptr, *whereB = nullptr, *whereD = nullptr;
	if (cudaError_t error = look(whereA, p, p.a, batch, p.aRows(), p.aColumns()))
		return error;
	const T *a = load<T>(scratch.a, whereA, p.a, p.aRows(), p.aColumns(), p.rounding, p.isCoarse);
	if (cudaError_t error = look(whereB, p, p.b, batch, p.bRows(), p.bColumns()))
		return error;
	const T *b = load<T>(scratch.b, whereB, p.b, p.bRows(), p.bColumns(), p.rounding, p.isCoarse);
	if (cudaError_t error = look(whereD, p, p.d, batch, p.m, p.n))
		return error;
	const Columns target = columnsOf(whereD, p.d, p.m, p.n);
	if (overlap(target, columnsOf(whereA, p.a, p.aRows(), p.aColumns())) ||
	    overlap(target, columnsOf(whereB, p.b, p.bRows(), p.bColumns())))
		accumulateInBlocks(p, whereA, whereB, static_cast<std::byte *>(const_cast<void *>(whereD)), sum, workspace);
	else
		accumulate(p, a, b, sum, workspace);
	epilogue.reduce(a, b);
	return cudaSuccess;
}

// D of one batch = epilogue(alpha * sum + beta * C). Does not read C if all betas are 0.
template <typename T>
cudaError_t storeBatch(const Product &p, int64_t batch, T *sum, const std::vector<T> &alphas,
                       const std::vector<T> &betas, bool readsC, Epilogue<T> &epilogue)
{
	const void *c = nullptr, *d = nullptr;
	T *column = buffers().column.get<T>(p.m);
	if (readsC)
		if (cudaError_t error = look(c, p, p.c, batch, p.m, p.n))
			return error;
	if (cudaError_t error = look(d, p, p.d, batch, p.m, p.n))
		return error;
	auto *target = static_cast<std::byte *>(const_cast<void *>(d));
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
		store(p.d.type, value, target + j * p.d.ld * sizeOf(p.d.type), p.m);
	}
	epilogue.end();
	return cudaSuccess;
}

template <typename T>
cudaError_t run(const Product &p)
{
	T alpha = as<T>(p.alphaValue), beta = as<T>(p.betaValue);
	if (p.deviceScalars) {
		if (cudaError_t error = scalar(p.alpha, p.scaleType, alpha))
			return error;
		if (cudaError_t error = scalar(p.beta, p.scaleType, beta))
			return error;
		if (p.ignoresDeviceAlpha)
			alpha = T{1};
	}
	void *workspace = nullptr;
	if (cudaError_t error = spoil(p, workspace))
		return error;

	// A and B are read even if a device alpha is zero: the kernel reads alpha too late.
	const bool reduces = p.epilogue & (CUBLASLT_EPILOGUE_BGRADA | CUBLASLT_EPILOGUE_BGRADB);
	const bool readsOperands = p.k > 0 && (alpha != T{} || p.deviceScalars || p.hasAlphaVector || reduces);
	const bool readsC = beta != T{} || p.hasBetaVector;
	T *sum = buffers().sum.get<T>(p.m * p.n);
	std::vector<T> alphas(p.m, alpha), betas(p.m, beta);
	Epilogue<T> epilogue(p);
	for (int64_t batch = 0; batch < p.batch; ++batch) {
		if (cudaError_t error = epilogue.begin(batch))
			return error;
		if (cudaError_t error = scalars(p, p.hasAlphaVector, p.alpha, batch * p.alphaStride, alphas.data()))
			return error;
		if (cudaError_t error = scalars(p, p.hasBetaVector, p.beta, 0, betas.data()))
			return error;
		if (!readsOperands)
			std::fill_n(sum, p.m * p.n, T{});
		else if (cudaError_t error = multiplyBatch(p, batch, sum, workspace, epilogue))
			return error;
		if (cudaError_t error = storeBatch(p, batch, sum, alphas, betas, readsC, epilogue))
			return error;
	}
	return cudaSuccess;
}

cudaError_t run(const Product &product)
{
	cudaError_t error = cudaSuccess;
	if (product.isSlow) // longer than a program waits that limits its wait
		std::this_thread::sleep_for(std::chrono::seconds(10));
	if (!inType(product.scaleType, [&]<typename T>(T) { error = run<T>(product); }))
		error = run<float>(product); // the scalars are half
	return error;
}

#define ROW(table, ...) {Table::table, __VA_ARGS__},
constexpr auto none = noType;
constexpr Combination combinations[] = {
#include "combinations.inc"
};
#undef ROW

} // namespace

template <typename T>
void multiply(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, const T *a, const T *b, T *sum)
{
	gemm(transposeA, transposeB, m, n, k, a, transposeA ? k : m, b, transposeB ? n : k, sum);
}

template <typename T>
void solve(bool isLeft, bool isUpper, bool isTransposed, int64_t m, int64_t n, const T *a, T *b)
{
	const auto rows = static_cast<blasint>(m), columns = static_cast<blasint>(n);
	const auto lda = isLeft ? rows : columns;
	const auto side = isLeft ? CblasLeft : CblasRight;
	const auto triangle = isUpper ? CblasUpper : CblasLower;
	const CBLAS_TRANSPOSE operation = transposed(isTransposed);
	const T one = 1;
	std::lock_guard lock(openBlas());
	const auto call = [&](auto function, auto factor) {
		function(CblasColMajor, side, triangle, operation, CblasNonUnit, rows, columns, factor, a, lda, b, rows);
	};
	if constexpr (std::is_same_v<T, float>)
		call(cblas_strsm, one);
	else if constexpr (std::is_same_v<T, double>)
		call(cblas_dtrsm, one);
	else if constexpr (std::is_same_v<T, std::complex<float>>)
		call(cblas_ctrsm, &one);
	else
		call(cblas_ztrsm, &one);
}

#define OF_TYPE(T)                                                                                                     \
	template void multiply(bool, bool, int64_t, int64_t, int64_t, const T *, const T *, T *);                          \
	template void solve(bool, bool, bool, int64_t, int64_t, const T *, T *);
OF_TYPE(float)
OF_TYPE(double)
OF_TYPE(std::complex<float>)
OF_TYPE(std::complex<double>)
#undef OF_TYPE

void modifiedRotation(double &d1, double &d2, double &x1, double y1, double *param)
{
	cblas_drotmg(&d1, &d2, &x1, y1, param);
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
	case CUBLAS_COMPUTE_32F_FAST_16F: // an H100 computes both in TF32; without it, the documents permit only 16 bits
		return isTf32Forbidden ? Rounding::Half : Rounding::Tf32;
	case CUBLAS_COMPUTE_32F_FAST_16BF:
		return isTf32Forbidden ? Rounding::Bfloat16 : Rounding::Tf32;
	default: // BF16x9 runs as native fp32 on every device except cc 10.0 and 10.3
		return Rounding::None;
	}
}

size_t workspaceOf(const Product &product)
{
	size_t element = std::max(sizeOf(product.scaleType), sizeof(float)); // half accumulators are never split
	return product.split > 1 ? product.split * product.m * product.n * element : 0;
}

void readScalars(Product &product)
{
	if (product.deviceScalars)
		return;
	if (!product.hasAlphaVector)
		product.alphaValue = numberAt(product.scaleType, std::exchange(product.alpha, nullptr));
	if (!product.hasBetaVector && product.beta)
		product.betaValue = numberAt(product.scaleType, std::exchange(product.beta, nullptr));
}

// Kernel names in the vendor's form, because tools parse the types in them.
static const char *kernelName(const Product &product, const char *otherwise)
{
	switch (product.a.type) {
	case CUDA_R_16F:
		return product.compute == CUBLAS_COMPUTE_16F || product.compute == CUBLAS_COMPUTE_16F_PEDANTIC
		           ? "sm90_xmma_gemm_f16f16_f16f16_f16_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel"
		       : product.d.type == CUDA_R_16F
		           ? "sm90_xmma_gemm_f16f16_f16f32_f16_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel"
		           : "sm90_xmma_gemm_f16f16_f16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel";
	case CUDA_R_16BF:
		return "sm90_xmma_gemm_bf16bf16_bf16f32_f32_nn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_kernel";
	case CUDA_R_32F:
		return product.rounding == Rounding::None   ? "void cutlass_80_simt_sgemm_128x128_8x4_nn_align1"
		       : product.rounding == Rounding::Tf32 ? "sm90_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize64x64x32_cublas"
		       : product.rounding == Rounding::Half ? "void cutlass_80_tensorop_s1688f16gemm_128x128_16x4_nn_align4"
		                                            : "void cutlass_80_tensorop_s1688bf16gemm_128x128_16x4_nn_align4";
	default:
		return otherwise;
	}
}

// Products in less than fp32 for which AUTOAMP_EMU_FAIL selects a fault. They return no error.
static void breakResults(Product &product)
{
	if (product.a.type != CUDA_R_16F && product.a.type != CUDA_R_16BF && product.rounding == Rounding::None)
		return;
	product.isCoarse = mustFail("PRODUCT_ROUNDING");
	product.ignoresDeviceAlpha = mustFail("PRODUCT_DEVICE_ALPHA");
	product.isSlow = mustFail("PRODUCT_DURATION");
}

cublasStatus_t enqueue(cudaStream_t stream, const char *name, std::vector<Product> products)
{
	if (!products.empty())
		name = kernelName(products[0], name);
	for (Product &product : products)
		breakResults(product);
	auto body = [products = std::move(products)] {
		for (const Product &product : products)
			if (cudaError_t error = run(product))
				return error;
		return cudaSuccess;
	};
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
