#include "src/op/blas.h"

#include <algorithm>
#include <climits>
#include <tuple>
#include <utility>

namespace autoamp::op {

namespace {

// True if the library refuses or could refuse the call.
bool isBad(const BlasCall &call)
{
	if (call.isInvalid || !call.transa || !call.transb || call.m < 0 || call.n < 0 || call.k < 0 || call.batch < 0)
		return true;
	// The length of a column of op(X) as stored, or of a row if the matrices are row-major.
	const auto isShort = [&call](int64_t ld, int64_t rows, int64_t columns, char transpose) {
		return ld < std::max<int64_t>(1, call.isRowMajor != (transpose != 'N') ? columns : rows);
	};
	return isShort(call.lda, call.m, call.k, call.transa) || isShort(call.ldb, call.k, call.n, call.transb) ||
	       isShort(call.ldc, call.m, call.n, 'N');
}

Transpose transposeOf(char letter)
{
	return letter == 'T' ? Transpose::transposed : letter == 'C' ? Transpose::conjugate : Transpose::none;
}

std::pair<Obstacle, Cause> obstacleOfProduct(const Op &op, const BlasCall &call)
{
	if (call.isMixed)
		return {Obstacle::grouped, Cause::none};
	if (isBad(call))
		return {Obstacle::bad_argument, Cause::none};
	if (!op.m || !op.n || !op.k || !op.batch || (op.flags & flagAlphaZero))
		return {Obstacle::zero_size, Cause::none};
	if (call.batch > INT32_MAX || op.stridea < 0 || op.strideb < 0)
		return {Obstacle::unsupported, Cause::strides};
	if (op.kind == Kind::bmm && !areApart(op))
		return {Obstacle::unsupported, Cause::overlap};
	// If a later product of the batch failed, the library could not add to the results of the earlier ones again.
	if (op.kind == Kind::bmm && !(op.flags & flagBetaZero))
		return {Obstacle::unsupported, Cause::batch_beta};
	return {Obstacle::none, Cause::none};
}

bool isZeroBits(float value)
{
	uint32_t bits;
	std::memcpy(&bits, &value, sizeof bits);
	return bits << 1 == 0;
}

} // namespace

Op describe(const Entry &entry, uint16_t index, const BlasCall &call)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.device = cpuDevice;
	op.kind = entry.kind;
	op.a = op.b = op.out = op.asked = entry.dtype;
	op.obstacle = entry.obstacle;
	if (isLow(op.a))
		op.out = Dtype::float32, op.cause = Cause::half_operands;
	op.transa = transposeOf(call.transa), op.transb = transposeOf(call.transb);
	op.m = call.m, op.n = call.n, op.k = call.k;
	op.batch = static_cast<int32_t>(std::clamp<int64_t>(call.batch, 0, INT32_MAX));
	if (op.obstacle != Obstacle::none)
		return op;
	op.lda = call.lda, op.ldb = call.ldb, op.ldc = op.ldd = call.ldc;
	if (op.batch > 1)
		op.stridea = call.strideA, op.strideb = call.strideB, op.stridec = op.strided = call.strideC;
	if (call.isRowMajor)
		op.flags |= flagRowA | flagRowB | flagRowD;
	if (isZeroBits(call.alpha))
		op.flags |= flagAlphaZero;
	if (isZeroBits(call.beta))
		op.flags |= flagBetaZero;
	if (call.As)
		op.flags |= flagArrays;
	std::tie(op.obstacle, op.cause) = obstacleOfProduct(op, call);
	return op;
}

void blas::setGroups(BlasCall &call, const Groups &groups)
{
	call.isInvalid |= groups.count < 0;
	call.batch = 0;
	const void *const shape[] = {groups.m, groups.n, groups.k, groups.lda, groups.ldb, groups.ldc};
	for (int64_t i = 0; i < groups.count; ++i) {
		for (const void *each : shape)
			call.isMixed |= value(each, groups.isWide, i) != value(each, groups.isWide);
		call.isMixed |= std::memcmp(groups.alpha + i, groups.alpha, sizeof(float)) != 0 ||
		                std::memcmp(groups.beta + i, groups.beta, sizeof(float)) != 0;
		const int64_t size = value(groups.sizes, groups.isWide, i);
		call.isInvalid |= size < 0;
		call.batch += size;
	}
	if (groups.count < 1 || call.isMixed)
		return;
	call.m = value(groups.m, groups.isWide), call.n = value(groups.n, groups.isWide);
	call.k = value(groups.k, groups.isWide);
	call.lda = value(groups.lda, groups.isWide), call.ldb = value(groups.ldb, groups.isWide);
	call.ldc = value(groups.ldc, groups.isWide);
	call.alpha = *groups.alpha, call.beta = *groups.beta;
	call.As = groups.A, call.Bs = groups.B, call.Cs = groups.C;
}

} // namespace autoamp::op
