// BLAS level 2: one routine per operation, for all shapes of stored matrices. Computed in fp64 and rounded once.
#include "tools/emulated/cublas/shape.h"

using namespace emulated::blas;

namespace emulated::cublas {

namespace {

Shape shapeOf(const Call &call, Storage storage, Kind kind)
{
	const bool isBand = storage == Storage::band;
	if (kind == Kind::general)
		return {storage, kind, call.m, call.n, isBand ? call.kl : call.m, isBand ? call.ku : call.n, call.A.ld};
	return Shape::triangle(kind, call, call.n, call.A.ld, storage, isBand ? call.k : call.n);
}

cublasStatus_t check(const Call &call, const Shape &shape)
{
	if (!isOperation(call.trans) || !isTriangle(call) || call.diag < 0 || call.diag > 1 || call.m < 0 || call.n < 0 ||
	    call.k < 0 || call.kl < 0 || call.ku < 0 || !shape.isLdValid() || call.x.ld == 0 || call.y.ld == 0 ||
	    call.batchCount < 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	const bool isEmpty = shape.rows == 0 || shape.columns == 0 || call.batchCount == 0;
	const bool lacksScalar = (isGiven(call.alpha) && !call.alpha.data) || (isGiven(call.beta) && !call.beta.data);
	return lacksScalar && !isEmpty ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
}

// Calls work(memory, A, x, y, alpha, beta) for each matrix of the batch.
template <typename Function>
cublasStatus_t onMatrix(const Call &call, const Shape &shape, Function work)
{
	if (cublasStatus_t status = check(call, shape))
		return status;
	if (shape.rows == 0 || shape.columns == 0 || call.batchCount == 0)
		return CUBLAS_STATUS_SUCCESS;
	const Matrix &a = shape.storage == Storage::packed ? call.AP : call.A;
	return run(call, [=, alpha = Scalar(call, call.alpha, 1), beta = Scalar(call, call.beta, 0)](Memory &memory) {
		inWide(a.type, [&]<typename W>(W) {
			for (int64_t i = 0; i < call.batchCount; ++i)
				work(memory, memory.element(a, i), memory.element(call.x, i), memory.element(call.y, i),
				     as<W>(alpha.read(memory)), as<W>(beta.read(memory)));
		});
	});
}

// op(A) x
template <typename W>
std::vector<W> multiplied(Memory &memory, const Call &call, const Shape &shape, const Matrix &a,
                          const std::vector<W> &x)
{
	const bool isTransposed = call.trans != CUBLAS_OP_N;
	std::vector<W> sum(isTransposed ? shape.columns : shape.rows);
	for (int64_t j = 0; j < shape.columns; ++j) {
		std::vector<W> column = shape.column<W>(memory, a, j);
		if (call.trans == CUBLAS_OP_C)
			std::transform(column.begin(), column.end(), column.begin(), conjugate<W>);
		const int64_t first = shape.first(j), last = shape.last(j);
		for (int64_t i = first; i < last; ++i) {
			const W value = column[i - first];
			(isTransposed ? sum[j] : sum[i]) += value * (isTransposed ? x[i] : x[j]);
			if (shape.isMirrored() && i != j)
				sum[j] += (shape.kind == Kind::hermitian ? conjugate(value) : value) * x[i];
		}
	}
	return sum;
}

// y = alpha op(A) x + beta y
cublasStatus_t multiply(Call &call, Storage storage, Kind kind)
{
	const Shape shape = shapeOf(call, storage, kind);
	const bool isTransposed = call.trans != CUBLAS_OP_N;
	const int64_t inputs = isTransposed ? shape.rows : shape.columns;
	const int64_t outputs = isTransposed ? shape.columns : shape.rows;
	return onMatrix(
	    call, shape,
	    [=]<typename W>(Memory &memory, const Matrix &a, const Matrix &x, const Matrix &y, W alpha, W beta) {
		    std::vector<W> sum(outputs), old(outputs);
		    if (alpha != 0.)
			    sum = multiplied(memory, call, shape, a, memory.vector<W>(x, inputs));
		    if (beta != 0.)
			    old = memory.vector<W>(y, outputs);
		    for (int64_t i = 0; i < outputs; ++i)
			    sum[i] = alpha * sum[i] + beta * old[i];
		    memory.store(sum, y);
	    });
}

// x = op(A) x
cublasStatus_t multiplyTriangle(Call &call, Storage storage)
{
	const Shape shape = shapeOf(call, storage, Kind::triangular);
	return onMatrix(call, shape, [=]<typename W>(Memory &memory, const Matrix &a, const Matrix &x, auto, W, W) {
		memory.store(multiplied(memory, call, shape, a, memory.vector<W>(x, call.n)), x);
	});
}

// x = op(A)^-1 x, column by column, in the order of substitution: from the end if the last unknown is solved first.
cublasStatus_t solve(Call &call, Storage storage)
{
	const Shape shape = shapeOf(call, storage, Kind::triangular);
	const bool isTransposed = call.trans != CUBLAS_OP_N, isBackward = shape.isUpper() != isTransposed;
	return onMatrix(call, shape, [=]<typename W>(Memory &memory, const Matrix &a, const Matrix &x, auto, W, W) {
		std::vector<W> values = memory.vector<W>(x, call.n);
		for (int64_t step = 0; step < call.n; ++step) {
			const int64_t j = isBackward ? call.n - 1 - step : step, first = shape.first(j);
			std::vector<W> column = shape.column<W>(memory, a, j);
			if (call.trans == CUBLAS_OP_C)
				std::transform(column.begin(), column.end(), column.begin(), conjugate<W>);
			for (int64_t i = first; isTransposed && i < shape.last(j); ++i)
				if (i != j)
					values[j] -= column[i - first] * values[i];
			values[j] /= column[j - first];
			for (int64_t i = first; !isTransposed && i < shape.last(j); ++i)
				if (i != j)
					values[i] -= column[i - first] * values[j];
		}
		memory.store(values, x);
	});
}

// A += alpha x y' + alpha' y x'. Only `isTwofold` has the second term. x replaces an absent y.
cublasStatus_t update(Call &call, Storage storage, Kind kind, bool isTwofold, bool isConjugated)
{
	const Shape shape = shapeOf(call, storage, kind);
	const bool hasY = isGiven(call.y);
	return onMatrix(
	    call, shape, [=]<typename W>(Memory &memory, const Matrix &a, const Matrix &x, const Matrix &y, W alpha, W) {
		    if (alpha == 0.)
			    return;
		    auto turned = [&](W value) { return isConjugated ? conjugate(value) : value; };
		    const std::vector<W> left = memory.vector<W>(x, shape.rows);
		    const std::vector<W> right = hasY ? memory.vector<W>(y, shape.columns) : left;
		    for (int64_t j = 0; j < shape.columns; ++j) {
			    const W one = alpha * turned(right[j]), other = isTwofold ? turned(alpha) * turned(left[j]) : W{};
			    std::vector<W> column = shape.column<W>(memory, a, j);
			    for (int64_t i = shape.first(j); i < shape.last(j); ++i)
				    column[i - shape.first(j)] += left[i] * one + (isTwofold ? right[i] * other : W{});
			    shape.store(memory, column, a, j);
		    }
	    });
}

constexpr auto full = Storage::full, band = Storage::band, packed = Storage::packed;
constexpr auto general = Kind::general, symmetric = Kind::symmetric, hermitian = Kind::hermitian;

} // namespace

ROUTINE(gemv, multiply, full, general)
ROUTINE(gbmv, multiply, band, general)
ROUTINE(symv, multiply, full, symmetric)
ROUTINE(hemv, multiply, full, hermitian)
ROUTINE(sbmv, multiply, band, symmetric)
ROUTINE(hbmv, multiply, band, hermitian)
ROUTINE(spmv, multiply, packed, symmetric)
ROUTINE(hpmv, multiply, packed, hermitian)
ROUTINE(trmv, multiplyTriangle, full)
ROUTINE(tbmv, multiplyTriangle, band)
ROUTINE(tpmv, multiplyTriangle, packed)
ROUTINE(trsv, solve, full)
ROUTINE(tbsv, solve, band)
ROUTINE(tpsv, solve, packed)
ROUTINE(ger, update, full, general, false, false)
ROUTINE(gerc, update, full, general, false, true)
ROUTINE(syr, update, full, symmetric, false, false)
ROUTINE(her, update, full, hermitian, false, true)
ROUTINE(spr, update, packed, symmetric, false, false)
ROUTINE(hpr, update, packed, hermitian, false, true)
ROUTINE(syr2, update, full, symmetric, true, false)
ROUTINE(her2, update, full, hermitian, true, true)
ROUTINE(spr2, update, packed, symmetric, true, false)
ROUTINE(hpr2, update, packed, hermitian, true, true)

} // namespace emulated::cublas
