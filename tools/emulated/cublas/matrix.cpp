// BLAS level 3 except gemm, with the cuBLAS extensions: whole packed matrices, computed in their own type.
#include "tools/emulated/cublas/shape.h"

using namespace emulated::blas;

namespace emulated::cublas {

namespace {

// The checks of all matrix routines. `shapes` are those of A, B and C; an absent matrix has no columns.
cublasStatus_t check(const Call &call, std::initializer_list<Shape> shapes)
{
	auto isSide = [](cublasSideMode_t side) { return side == CUBLAS_SIDE_LEFT || side == CUBLAS_SIDE_RIGHT; };
	if (!isOperation(call.trans) || !isOperation(call.transa) || !isOperation(call.transb) || !isTriangle(call) ||
	    call.diag < 0 || call.diag > 1 || !isSide(call.side) || !isSide(call.mode) || call.m < 0 || call.n < 0 ||
	    call.k < 0 || call.batchCount < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	for (const Shape &shape : shapes)
		if (!shape.isLdValid())
			return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

// Calls work(memory, alpha, beta) with scalars of the result's type.
template <typename Function>
cublasStatus_t onMatrices(const Call &call, bool isEmpty, cudaDataType type, Function work)
{
	if (isEmpty)
		return CUBLAS_STATUS_SUCCESS;
	if ((isGiven(call.alpha) && !call.alpha.data) || (isGiven(call.beta) && !call.beta.data))
		return CUBLAS_STATUS_INVALID_VALUE;
	return run(call, [=, alpha = Scalar(call, call.alpha, 1), beta = Scalar(call, call.beta, 0)](Memory &memory) {
		inType(type, [&]<typename T>(T) { work(memory, as<T>(alpha.read(memory)), as<T>(beta.read(memory))); });
	});
}

// C = alpha sum + beta C, for the stored elements of C.
template <typename T>
void finish(Memory &memory, const Shape &shape, const Matrix &c, const std::vector<T> &sum, T alpha, T beta)
{
	for (int64_t j = 0; j < shape.columns; ++j) {
		std::vector<T> values(shape.size(j));
		if (beta != T{})
			values = shape.column<T>(memory, c, j);
		for (int64_t i = 0; i < shape.size(j); ++i)
			values[i] = alpha * sum[j * shape.rows + shape.first(j) + i] + beta * values[i];
		shape.store(memory, values, c, j);
	}
}

template <typename T>
std::vector<T> conjugated(std::vector<T> values, bool isWanted = true)
{
	if (isWanted && isComplex<T>)
		std::transform(values.begin(), values.end(), values.begin(), conjugate<T>);
	return values;
}

// C = alpha A B + beta C or alpha B A + beta C; A is not a general matrix.
cublasStatus_t multiplySide(Call &call, Kind kind)
{
	const bool isLeft = call.side == CUBLAS_SIDE_LEFT, isTransposed = call.trans != CUBLAS_OP_N;
	const int64_t order = isLeft ? call.m : call.n;
	const Shape a = Shape::triangle(kind, call, order, call.A.ld, Storage::full, order);
	const Shape b = Shape::general(call.m, call.n, call.B.ld), c = Shape::general(call.m, call.n, call.C.ld);
	if (cublasStatus_t status = check(call, {a, b, c}))
		return status;
	return onMatrices(call, call.m == 0 || call.n == 0, call.C.type, [=]<typename T>(Memory &memory, T alpha, T beta) {
		std::vector<T> sum(call.m * call.n);
		if (alpha != T{}) {
			const std::vector<T> left = conjugated(a.dense<T>(memory, call.A), call.trans == CUBLAS_OP_C);
			const std::vector<T> right = b.dense<T>(memory, call.B);
			blas::multiply(isLeft && isTransposed, !isLeft && isTransposed, call.m, call.n, order,
			               isLeft ? left.data() : right.data(), isLeft ? right.data() : left.data(), sum.data());
		}
		finish(memory, c, call.C, sum, alpha, beta);
	});
}

// A triangle of C = alpha op(A) op(B)' + alpha' op(B) op(A)' + beta C. Only `isTwofold` has the second term. A replaces
// an absent B.
cublasStatus_t updateTriangle(Call &call, Kind kind, bool isTwofold)
{
	const bool isHermitian = kind == Kind::hermitian, isTransposed = call.trans != CUBLAS_OP_N, hasB = isGiven(call.B);
	const int64_t rows = isTransposed ? call.k : call.n, columns = isTransposed ? call.n : call.k;
	const Shape a = Shape::general(rows, columns, call.A.ld);
	const Shape b = Shape::general(rows, columns, hasB ? call.B.ld : call.A.ld);
	const Shape c = Shape::triangle(kind, call, call.n, call.C.ld, Storage::full, call.n);
	if (cublasStatus_t status = check(call, {a, b, c}))
		return status;
	const bool isComplexType = call.C.type == CUDA_C_32F || call.C.type == CUDA_C_64F;
	if (isComplexType && call.trans == (isHermitian ? CUBLAS_OP_T : CUBLAS_OP_C))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (call.A.type != call.C.type)
		return CUBLAS_STATUS_NOT_SUPPORTED; // Ex forms with 8-bit integers
	return onMatrices(call, call.n == 0, call.C.type, [=]<typename T>(Memory &memory, T alpha, T beta) {
		std::vector<T> sum(call.n * call.n), second(isTwofold ? sum.size() : 0);
		if (alpha != T{}) {
			const std::vector<T> left = a.dense<T>(memory, call.A);
			const std::vector<T> right = hasB ? b.dense<T>(memory, call.B) : left;
			auto multiply = [&](const std::vector<T> &one, const std::vector<T> &other, std::vector<T> &product) {
				blas::multiply(isTransposed, !isTransposed, call.n, call.n, call.k,
				               conjugated(one, isHermitian && isTransposed).data(),
				               conjugated(other, isHermitian && !isTransposed).data(), product.data());
			};
			multiply(left, right, sum);
			if (isTwofold)
				multiply(right, left, second);
		}
		const T other = isHermitian ? conjugate(alpha) : alpha;
		for (size_t i = 0; i < sum.size(); ++i)
			sum[i] = alpha * sum[i] + (isTwofold ? other * second[i] : T{});
		finish(memory, c, call.C, sum, T{1}, beta);
	});
}

// Copies one triangle between full and packed storage.
cublasStatus_t repack(Call &call, const Matrix &from, Storage fromStorage, const Matrix &to, Storage toStorage)
{
	const Shape source = Shape::triangle(Kind::symmetric, call, call.n, from.ld, fromStorage, call.n);
	const Shape target = Shape::triangle(Kind::symmetric, call, call.n, to.ld, toStorage, call.n);
	if (cublasStatus_t status = check(call, {source, target}))
		return status;
	return onMatrices(call, call.n == 0, from.type, [=]<typename T>(Memory &memory, T, T) {
		for (int64_t j = 0; j < call.n; ++j) {
			std::vector<T> values = source.column<T>(memory, from, j);
			target.store(memory, values, to, j);
		}
	});
}

} // namespace

ROUTINE(symm, multiplySide, Kind::symmetric)
ROUTINE(hemm, multiplySide, Kind::hermitian)
ROUTINE(trmm, multiplySide, Kind::triangular)
ROUTINE(syrk, updateTriangle, Kind::symmetric, false)
ROUTINE(herk, updateTriangle, Kind::hermitian, false)
ROUTINE(syr2k, updateTriangle, Kind::symmetric, true)
ROUTINE(her2k, updateTriangle, Kind::hermitian, true)
ROUTINE(trttp, repack, call.A, Storage::full, call.AP, Storage::packed)
ROUTINE(tpttr, repack, call.AP, Storage::packed, call.A, Storage::full)

// B = alpha op(A)^-1 B or alpha B op(A)^-1, for each pair of a batch.
cublasStatus_t trsm(Call &call)
{
	const bool isLeft = call.side == CUBLAS_SIDE_LEFT, isTransposed = call.trans != CUBLAS_OP_N;
	const int64_t order = isLeft ? call.m : call.n;
	const Shape a = Shape::triangle(Kind::triangular, call, order, call.A.ld, Storage::full, order);
	const Shape b = Shape::general(call.m, call.n, call.B.ld);
	if (cublasStatus_t status = check(call, {a, b}))
		return status;
	const bool isEmpty = call.m == 0 || call.n == 0 || call.batchCount == 0;
	return onMatrices(call, isEmpty, call.B.type, [=]<typename T>(Memory &memory, T alpha, T) {
		for (int64_t i = 0; i < call.batchCount; ++i) {
			const Matrix one = memory.element(call.B, i);
			std::vector<T> values(call.m * call.n);
			if (alpha != T{}) {
				values = b.dense<T>(memory, one);
				std::transform(values.begin(), values.end(), values.begin(), [=](T value) { return alpha * value; });
				const std::vector<T> triangle = a.dense<T>(memory, memory.element(call.A, i));
				blas::solve(isLeft, a.isUpper(), isTransposed, call.m, call.n,
				            conjugated(triangle, call.trans == CUBLAS_OP_C).data(), values.data());
			}
			finish(memory, b, one, values, T{1}, T{});
		}
	});
}

// C = alpha op(A) op(B) + beta C of cublasXt; the matrices may be in host or device memory.
cublasStatus_t gemmXt(Call &call)
{
	const bool isPlainA = call.transa == CUBLAS_OP_N, isPlainB = call.transb == CUBLAS_OP_N;
	const Shape a = Shape::general(isPlainA ? call.m : call.k, isPlainA ? call.k : call.m, call.A.ld);
	const Shape b = Shape::general(isPlainB ? call.k : call.n, isPlainB ? call.n : call.k, call.B.ld);
	const Shape c = Shape::general(call.m, call.n, call.C.ld);
	if (cublasStatus_t status = check(call, {a, b, c}))
		return status;
	return onMatrices(call, call.m == 0 || call.n == 0, call.C.type, [=]<typename T>(Memory &memory, T alpha, T beta) {
		std::vector<T> sum(call.m * call.n);
		if (alpha != T{}) {
			const std::vector<T> left = conjugated(a.dense<T>(memory, call.A), call.transa == CUBLAS_OP_C);
			const std::vector<T> right = conjugated(b.dense<T>(memory, call.B), call.transb == CUBLAS_OP_C);
			blas::multiply(!isPlainA, !isPlainB, call.m, call.n, call.k, left.data(), right.data(), sum.data());
		}
		finish(memory, c, call.C, sum, alpha, beta);
	});
}

// C = alpha op(A) + beta op(B). C may be A or B in place.
cublasStatus_t geam(Call &call)
{
	const bool isPlainA = call.transa == CUBLAS_OP_N, isPlainB = call.transb == CUBLAS_OP_N;
	const Shape a = Shape::general(isPlainA ? call.m : call.n, isPlainA ? call.n : call.m, call.A.ld);
	const Shape b = Shape::general(isPlainB ? call.m : call.n, isPlainB ? call.n : call.m, call.B.ld);
	const Shape c = Shape::general(call.m, call.n, call.C.ld);
	if (cublasStatus_t status = check(call, {a, b, c}))
		return status;
	if ((call.C.data == call.A.data && call.A.data && (!isPlainA || call.A.ld != call.C.ld)) ||
	    (call.C.data == call.B.data && call.B.data && (!isPlainB || call.B.ld != call.C.ld)))
		return CUBLAS_STATUS_INVALID_VALUE;
	return onMatrices(call, call.m == 0 || call.n == 0, call.C.type, [=]<typename T>(Memory &memory, T alpha, T beta) {
		std::vector<T> sum(call.m * call.n);
		auto add = [&](T factor, const Shape &shape, const Matrix &matrix, cublasOperation_t operation) {
			if (factor == T{})
				return;
			const std::vector<T> values = conjugated(shape.dense<T>(memory, matrix), operation == CUBLAS_OP_C);
			for (int64_t i = 0; i < call.m * call.n; ++i)
				sum[i] += factor * values[operation == CUBLAS_OP_N ? i : i / call.m + i % call.m * call.n];
		};
		add(alpha, a, call.A, call.transa);
		add(beta, b, call.B, call.transb);
		finish(memory, c, call.C, sum, T{1}, T{});
	});
}

// C = diag(x) A or A diag(x)
cublasStatus_t dgmm(Call &call)
{
	const bool isLeft = call.mode == CUBLAS_SIDE_LEFT;
	const Shape a = Shape::general(call.m, call.n, call.A.ld), c = Shape::general(call.m, call.n, call.C.ld);
	if (cublasStatus_t status = check(call, {a, c}))
		return status;
	return onMatrices(call, call.m == 0 || call.n == 0, call.C.type, [=]<typename T>(Memory &memory, T, T) {
		std::vector<T> values = a.dense<T>(memory, call.A);
		const std::vector<T> x = memory.vector<T>(call.x, isLeft ? call.m : call.n);
		for (int64_t i = 0; i < call.m * call.n; ++i)
			values[i] *= x[isLeft ? i % call.m : i / call.m];
		finish(memory, c, call.C, values, T{1}, T{});
	});
}

} // namespace emulated::cublas
