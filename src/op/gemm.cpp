#include "src/op/gemm.h"

#include <cublas_v2.h>

#include <algorithm>
#include <climits>
#include <tuple>
#include <utility>

namespace autoamp::op {

static_assert(typeFloat32 == CUDA_R_32F && computeFloat32 == CUBLAS_COMPUTE_32F);

Dtype dtypeOf(int cudaType)
{
	switch (cudaType) {
	case CUDA_R_32F:
		return Dtype::float32;
	case CUDA_R_16F:
		return Dtype::float16;
	case CUDA_R_16BF:
		return Dtype::bfloat16;
	case CUDA_R_64F:
		return Dtype::float64;
	case CUDA_C_32F:
		return Dtype::complex64;
	case CUDA_C_64F:
		return Dtype::complex128;
	default:
		return Dtype::other;
	}
}

Transpose transposeOf(int operation)
{
	switch (operation) {
	case CUBLAS_OP_T:
		return Transpose::transposed;
	case CUBLAS_OP_C:
		return Transpose::conjugate;
	default:
		return Transpose::none;
	}
}

Arithmetic arithmeticOf(int computeType, int mathMode, const VendorEnvironment &environment)
{
	const Dtype tf32 = environment.tf32Allowed ? Dtype::tf32 : Dtype::float32;
	switch (computeType) {
	case CUBLAS_COMPUTE_32F_PEDANTIC:
		return {Dtype::float32, Obstacle::pedantic, Cause::compute_pedantic};
	case CUBLAS_COMPUTE_32F_FAST_16F:
		return {Dtype::float16, Obstacle::already_low, Cause::compute_fast_16f};
	case CUBLAS_COMPUTE_32F_FAST_16BF:
		return {Dtype::bfloat16, Obstacle::already_low, Cause::compute_fast_16bf};
	case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
		return {Dtype::float32, Obstacle::emulated_fp32, Cause::compute_emulated};
	case CUBLAS_COMPUTE_32F_FAST_TF32:
	case CUBLAS_COMPUTE_32F:
		break;
	default:
		return {Dtype::float32, Obstacle::bad_argument};
	}
	switch (mathMode) {
	case CUBLAS_PEDANTIC_MATH:
		return {Dtype::float32, Obstacle::pedantic, Cause::math_pedantic};
	case CUBLAS_TENSOR_OP_MATH: // cuBLAS header: the same as COMPUTE_32F_FAST_16F
		return {Dtype::float16, Obstacle::already_low, Cause::math_tensor_op};
	case CUBLAS_FP32_EMULATED_BF16X9_MATH:
		return {Dtype::float32, Obstacle::emulated_fp32, Cause::math_emulated};
	}
	if (environment.emulatesSingle)
		return {Dtype::float32, Obstacle::emulated_fp32, Cause::variable_emulated};
	if (computeType == CUBLAS_COMPUTE_32F_FAST_TF32)
		return {tf32, Obstacle::none, Cause::compute_fast_tf32};
	if (mathMode == CUBLAS_TF32_TENSOR_OP_MATH)
		return {tf32, Obstacle::none, Cause::math_tf32};
	return {Dtype::float32, Obstacle::none};
}

Obstacle typeObstacle(Dtype a, Dtype b, Dtype out)
{
	if (a == Dtype::float32 && b == Dtype::float32 && out == Dtype::float32)
		return Obstacle::none;
	if (a == Dtype::float64)
		return Obstacle::float64;
	if (isComplex(a))
		return Obstacle::complex;
	if (a == Dtype::float16 || a == Dtype::bfloat16)
		return Obstacle::already_low;
	return Obstacle::not_float32;
}

Obstacle typeObstacle(Op &op, int computeType)
{
	if (computeType != CUBLAS_COMPUTE_16F || op.a != Dtype::float16 || op.b != op.a || op.out != op.a)
		return typeObstacle(op.a, op.b, op.out);
	op.flags |= flagHalfSums;
	op.cause = Cause::compute_half;
	return Obstacle::none;
}

bool isAlgorithm(int algo)
{
	return (algo >= CUBLAS_GEMM_DEFAULT && algo <= CUBLAS_GEMM_ALGO23) ||
	       (algo >= CUBLAS_GEMM_DEFAULT_TENSOR_OP && algo <= CUBLAS_GEMM_ALGO15_TENSOR_OP) ||
	       algo == CUBLAS_GEMM_AUTOTUNE;
}

namespace {

bool isTransposition(int operation)
{
	return operation >= CUBLAS_OP_N && operation <= CUBLAS_OP_C;
}

// True if the vendor refuses or could refuse the call. Such a call goes to it unchanged.
bool isBad(const GemmCall &call)
{
	if (!call.handle || call.m < 0 || call.n < 0 || call.k < 0 || call.batchCount < 0 ||
	    !isTransposition(call.transa) || !isTransposition(call.transb) || !call.alpha || !call.beta)
		return true;
	const int64_t rowsA = call.transa == CUBLAS_OP_N ? call.m : call.k;
	const int64_t rowsB = call.transb == CUBLAS_OP_N ? call.k : call.n;
	return call.lda < std::max<int64_t>(1, rowsA) || call.ldb < std::max<int64_t>(1, rowsB) ||
	       call.ldc < std::max<int64_t>(1, call.m);
}

} // namespace

// With more groups than this, a call counts as mixed: comparing them at each call is not worth its time.
constexpr int64_t mostGroups = 1 << 16;

GemmCall batchOf(const GroupedCall &groups)
{
	GemmCall call;
	call.handle = groups.handle;
	call.Atype = groups.Atype, call.Btype = groups.Btype, call.Ctype = groups.Ctype;
	call.computeType = groups.computeType;
	call.A = groups.A, call.B = groups.B, call.C = groups.C;
	const Integers *const arrays[] = {&groups.m_array,   &groups.n_array,   &groups.k_array,   &groups.lda_array,
	                                  &groups.ldb_array, &groups.ldc_array, &groups.group_size};
	if (groups.group_count < 0 || !groups.transa_array || !groups.transb_array ||
	    std::any_of(std::begin(arrays), std::end(arrays), [](const Integers *array) { return !array->data; }))
		return call; // no scalars: isBad() returns true
	call.alpha = groups.alpha_array, call.beta = groups.beta_array;
	call.groups = groups.group_count;
	call.lda = call.ldb = call.ldc = 1;
	call.batchCount = 0;
	if (groups.group_count > mostGroups) {
		call.lda = mixedGroups;
		return call;
	}
	const Integers transa(static_cast<const int *>(groups.transa_array));
	const Integers transb(static_cast<const int *>(groups.transb_array));
	const Integers *const shape[] = {&transa,   &transb,   arrays[0], arrays[1],
	                                 arrays[2], arrays[3], arrays[4], arrays[5]};
	bool areAlike = true;
	for (int64_t i = 0; i < groups.group_count; i++) {
		for (const Integers *array : shape)
			areAlike = areAlike && (*array)[i] == (*array)[0];
		if (groups.group_size[i] < 0)
			call.lda = 0; // bad
		call.batchCount += groups.group_size[i];
	}
	if (!areAlike) {
		call.lda = mixedGroups;
	} else if (groups.group_count > 0 && call.lda) {
		call.transa = static_cast<int>(transa[0]), call.transb = static_cast<int>(transb[0]);
		call.m = groups.m_array[0], call.n = groups.n_array[0], call.k = groups.k_array[0];
		call.lda = groups.lda_array[0], call.ldb = groups.ldb_array[0], call.ldc = groups.ldc_array[0];
	}
	return call;
}

namespace {

// Sets the requested precision, and the obstacle if types, arguments or modes are one.
void setPrecision(Op &op, const Entry &entry, const GemmCall &call, const HandleModes &modes,
                  const VendorEnvironment &environment)
{
	const auto [asked, mathObstacle, cause] = arithmeticOf(call.computeType, modes.mathMode, environment);
	op.cause = op.a == Dtype::float32 ? cause : isLow(op.a) ? Cause::half_operands : Cause::none;
	op.asked = op.a == Dtype::float32 ? asked : op.a;
	op.obstacle = typeObstacle(op, call.computeType);
	const bool isHalf = op.flags & flagHalfSums, isPedantic = modes.mathMode == CUBLAS_PEDANTIC_MATH;
	if (isHalf && isPedantic)
		op.cause = Cause::math_pedantic;
	if (op.obstacle != Obstacle::none)
		return;
	const bool isGrouped = entry.obstacle == Obstacle::grouped;
	if (isGrouped && call.lda == mixedGroups)
		op.obstacle = Obstacle::grouped;
	else if (modes.status || isBad(call) || (isGrouped && modes.deviceScalars))
		op.obstacle = Obstacle::bad_argument;
	else if (modes.isUnknown)
		op.obstacle = Obstacle::unsupported, op.cause = Cause::no_getters;
	else if (isGrouped && !haveSameScalars(call))
		op.obstacle = Obstacle::grouped;
	else if (isHalf) // pedantic is the only math mode that affects float16 sums
		op.obstacle = isPedantic ? Obstacle::pedantic : Obstacle::none;
	else
		op.obstacle = mathObstacle;
}

// The obstacle if sizes, pointers or strides are one, and its cause.
std::pair<Obstacle, Cause> obstacleOfMatrices(const Op &op, const Entry &entry, const GemmCall &call)
{
	const auto isMisplaced = [&](const void *pointer) {
		return !pointer || (entry.areArrays ? reinterpret_cast<uintptr_t>(pointer) % sizeof(void *) != 0
		                                    : isMisaligned(pointer, op));
	};
	if (!op.m || !op.n || !op.k || !op.batch || (op.flags & flagAlphaZero))
		return {Obstacle::zero_size, op.cause}; // the vendor need not read A and B then
	if (isMisplaced(call.A) || isMisplaced(call.B) || isMisplaced(call.C))
		return {Obstacle::bad_argument, op.cause};
	if (!areApart(op)) // results of overlapping matrices depend on the vendor
		return {Obstacle::unsupported, Cause::overlap};
	if (call.batchCount > INT32_MAX || op.stridea < 0 || op.strideb < 0)
		return {Obstacle::unsupported, Cause::strides};
	return {op.obstacle, op.cause};
}

} // namespace

Op describe(const Entry &entry, uint16_t index, const GemmCall &call, const HandleModes &modes,
            const VendorEnvironment &environment)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.kind = call.batchCount == 1 && !entry.areArrays ? Kind::mm : Kind::bmm;
	op.a = dtypeOf(call.Atype);
	op.b = dtypeOf(call.Btype);
	op.out = dtypeOf(call.Ctype);
	op.transa = transposeOf(call.transa);
	op.transb = transposeOf(call.transb);
	op.m = call.m, op.n = call.n, op.k = call.k;
	op.batch = static_cast<int32_t>(std::clamp<int64_t>(call.batchCount, 0, INT32_MAX));
	op.lda = call.lda, op.ldb = call.ldb, op.ldc = op.ldd = call.ldc;
	if (op.batch > 1)
		op.stridea = call.strideA, op.strideb = call.strideB, op.stridec = op.strided = call.strideC;

	setPrecision(op, entry, call, modes, environment);
	if (op.obstacle != Obstacle::none && !isNarrowed(op))
		return op;
	const bool isHalf = op.flags & flagHalfSums;
	if (modes.deviceScalars)
		op.flags |= flagDeviceScalars;
	if (!modes.deviceScalars && isZero(call.alpha, isHalf))
		op.flags |= flagAlphaZero;
	if (!modes.deviceScalars && isZero(call.beta, isHalf))
		op.flags |= flagBetaZero;
	if (entry.areArrays)
		op.flags |= flagArrays;
	std::tie(op.obstacle, op.cause) = obstacleOfMatrices(op, entry, call);
	return op;
}

Op describe(const Entry &entry, uint16_t index, const PlainCall &call)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.kind = entry.obstacle == Obstacle::matrix_vector ? Kind::mv : entry.kind;
	const int type = call.Atype != typeOfRow ? call.Atype : call.xType;
	op.a = op.b = op.out = op.asked = entry.dtype != Dtype::none ? entry.dtype : dtypeOf(type);
	op.obstacle = entry.dtype == Dtype::none ? typeObstacle(op.a, op.b, op.out) : Obstacle::none;
	if (op.obstacle == Obstacle::none)
		op.obstacle = entry.obstacle;
	if (isLow(op.a))
		op.cause = Cause::half_operands;
	op.transa = transposeOf(call.transa), op.transb = transposeOf(call.transb);
	op.m = call.m, op.n = call.n, op.k = entry.kind == Kind::mv ? 1 : call.k; // a full matrix times one column
	op.batch = static_cast<int32_t>(std::clamp<int64_t>(call.batchCount, 0, INT32_MAX));
	return op;
}

} // namespace autoamp::op
