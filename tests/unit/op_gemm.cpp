#include "src/op/gemm.h"

#include <catch2/catch.hpp>
#include <cublas_v2.h>

#include <climits>

using namespace autoamp::op;

namespace {

constexpr float zero = 0, minusZero = -0.0f, one = 1, two = 2;
const Entry row = {"cublasGemmEx", Library::cublas, Dtype::none, Obstacle::none};

template <typename T = void>
T *at(uintptr_t address) // never read
{
	return reinterpret_cast<T *>(address);
}

// A valid product; each case changes something.
struct Asked {
	GemmCall call;
	HandleModes modes;
	VendorEnvironment environment;

	Asked()
	{
		call.handle = at(8);
		call.alpha = &two, call.beta = &one;
		call.A = at(0x1000), call.B = at(0x2000), call.C = at(0x3000);
		call.m = 10, call.n = 20, call.k = 30;
		call.lda = 10, call.ldb = 30, call.ldc = 10;
	}
	void batch(int64_t count, int64_t strideC)
	{
		call.batchCount = count;
		call.strideA = 300, call.strideB = 600, call.strideC = strideC;
	}
	Op described() const { return describe(row, 7, call, modes, environment); }
};

struct Case {
	const char *what;
	void (*change)(Asked &);
	Obstacle expected;
};

const Case cases[] = {
    {"as it is", [](Asked &) {}, Obstacle::none},
    {"A transposed", [](Asked &a) { a.call.transa = CUBLAS_OP_T, a.call.lda = 30; }, Obstacle::none},
    {"B conjugate", [](Asked &a) { a.call.transb = CUBLAS_OP_C, a.call.ldb = 20; }, Obstacle::none},
    {"large leading dimensions", [](Asked &a) { a.call.lda = a.call.ldb = a.call.ldc = 77; }, Obstacle::none},
    {"fp32 by name",
     [](Asked &a) { a.call.Atype = a.call.Btype = a.call.Ctype = CUDA_R_32F, a.call.computeType = CUBLAS_COMPUTE_32F; },
     Obstacle::none},
    {"a beta of zero", [](Asked &a) { a.call.beta = &zero; }, Obstacle::none},
    {"operands shared by a batch",
     [](Asked &a) {
	     a.batch(3, 200);
	     a.call.strideA = a.call.strideB = 0;
     },
     Obstacle::none},
    {"4-byte aligned", [](Asked &a) { a.call.A = at(0x1004), a.call.B = at(0x2004), a.call.C = at(0x3004); },
     Obstacle::none},
    {"scalars that only the device can read",
     [](Asked &a) { a.modes.deviceScalars = true, a.call.alpha = a.call.beta = at<float>(16); }, Obstacle::none},

    {"no handle", [](Asked &a) { a.call.handle = nullptr; }, Obstacle::bad_argument},
    {"a handle that does not answer", [](Asked &a) { a.modes.status = 1; }, Obstacle::bad_argument},
    {"m < 0", [](Asked &a) { a.call.m = -1; }, Obstacle::bad_argument},
    {"n < 0", [](Asked &a) { a.call.n = -1; }, Obstacle::bad_argument},
    {"k < 0", [](Asked &a) { a.call.k = -1; }, Obstacle::bad_argument},
    {"batch < 0", [](Asked &a) { a.call.batchCount = -1; }, Obstacle::bad_argument},
    {"no such transposition of A", [](Asked &a) { a.call.transa = CUBLAS_OP_CONJG, a.call.lda = 30; },
     Obstacle::bad_argument},
    {"no such transposition of B", [](Asked &a) { a.call.transb = -1; }, Obstacle::bad_argument},
    {"alpha null", [](Asked &a) { a.call.alpha = nullptr; }, Obstacle::bad_argument},
    {"beta null", [](Asked &a) { a.call.beta = nullptr; }, Obstacle::bad_argument},
    {"alpha null on the device", [](Asked &a) { a.modes.deviceScalars = true, a.call.alpha = nullptr; },
     Obstacle::bad_argument},
    {"lda < m", [](Asked &a) { a.call.lda = 9; }, Obstacle::bad_argument},
    {"lda < k", [](Asked &a) { a.call.transa = CUBLAS_OP_T, a.call.lda = 29; }, Obstacle::bad_argument},
    {"ldb < k", [](Asked &a) { a.call.ldb = 29; }, Obstacle::bad_argument},
    {"ldb < n", [](Asked &a) { a.call.transb = CUBLAS_OP_T, a.call.ldb = 19; }, Obstacle::bad_argument},
    {"ldc < m", [](Asked &a) { a.call.ldc = 9; }, Obstacle::bad_argument},
    {"an empty product with lda 0", [](Asked &a) { a.call.m = 0, a.call.lda = 0; }, Obstacle::bad_argument},
    {"an empty product with ldb 0", [](Asked &a) { a.call.k = 0, a.call.ldb = 0; }, Obstacle::bad_argument},
    {"an empty product with ldc 0", [](Asked &a) { a.call.m = 0, a.call.ldc = 0; }, Obstacle::bad_argument},
    {"A null", [](Asked &a) { a.call.A = nullptr; }, Obstacle::bad_argument},
    {"B null", [](Asked &a) { a.call.B = nullptr; }, Obstacle::bad_argument},
    {"C null", [](Asked &a) { a.call.C = nullptr, a.call.beta = &zero; }, Obstacle::bad_argument},
    {"A misaligned", [](Asked &a) { a.call.A = at(0x1002); }, Obstacle::bad_argument},
    {"B misaligned", [](Asked &a) { a.call.B = at(0x2001); }, Obstacle::bad_argument},
    {"C misaligned", [](Asked &a) { a.call.C = at(0x3003); }, Obstacle::bad_argument},
    {"wrong, and pedantic", [](Asked &a) { a.call.lda = 9, a.modes.mathMode = CUBLAS_PEDANTIC_MATH; },
     Obstacle::bad_argument},

    {"m = 0", [](Asked &a) { a.call.m = 0; }, Obstacle::zero_size},
    {"n = 0", [](Asked &a) { a.call.n = 0; }, Obstacle::zero_size},
    {"k = 0", [](Asked &a) { a.call.k = 0; }, Obstacle::zero_size},
    {"no batch", [](Asked &a) { a.call.batchCount = 0; }, Obstacle::zero_size},
    {"nothing, of nothing", [](Asked &a) { a.call.m = 0, a.call.A = a.call.C = nullptr; }, Obstacle::zero_size},
    {"alpha = 0", [](Asked &a) { a.call.alpha = &zero, a.call.A = nullptr; }, Obstacle::zero_size},
    {"alpha = -0", [](Asked &a) { a.call.alpha = &minusZero; }, Obstacle::zero_size},

    {"no getters", [](Asked &a) { a.modes.isUnknown = true; }, Obstacle::unsupported},
    {"a batch without end", [](Asked &a) { a.batch(int64_t{INT32_MAX} + 1, 200); }, Obstacle::unsupported},
    {"results one behind the other", [](Asked &a) { a.batch(2, 200); }, Obstacle::none},
    {"results side by side", [](Asked &a) { a.batch(3, 10), a.call.ldc = 30; }, Obstacle::none},
    {"results side by side that overlap by one", [](Asked &a) { a.batch(3, 9), a.call.ldc = 30; },
     Obstacle::unsupported},
    {"results side by side, and one too many", [](Asked &a) { a.batch(4, 10), a.call.ldc = 39; },
     Obstacle::unsupported},
    {"results as near as padding lets them", [](Asked &a) { a.batch(2, 12 * 19 + 10), a.call.ldc = 12; },
     Obstacle::none},
    {"results that overlap by one", [](Asked &a) { a.batch(2, 12 * 19 + 9), a.call.ldc = 12; }, Obstacle::unsupported},
    {"results one upon the other", [](Asked &a) { a.batch(2, 0); }, Obstacle::unsupported},
    {"one result, stride unused", [](Asked &a) { a.batch(1, 0); }, Obstacle::none},
    {"A backwards", [](Asked &a) { a.batch(2, 200), a.call.strideA = -300; }, Obstacle::unsupported},
    {"B backwards", [](Asked &a) { a.batch(2, 200), a.call.strideB = -600; }, Obstacle::unsupported},
    {"C backwards", [](Asked &a) { a.batch(2, -200); }, Obstacle::unsupported},
    {"C of one column backwards", [](Asked &a) { a.batch(2, -200), a.call.n = 1; }, Obstacle::unsupported},

    {"float64", [](Asked &a) { a.call.Atype = CUDA_R_64F; }, Obstacle::float64},
    {"complex", [](Asked &a) { a.call.Atype = CUDA_C_32F; }, Obstacle::complex},
    {"float16", [](Asked &a) { a.call.Atype = CUDA_R_16F; }, Obstacle::already_low},
    {"bfloat16 with an fp32 result",
     [](Asked &a) { a.call.Atype = a.call.Btype = CUDA_R_16BF, a.call.Ctype = CUDA_R_32F; }, Obstacle::already_low},
    {"no type at all", [](Asked &a) { a.call.Atype = a.call.Btype = a.call.Ctype = -1; }, Obstacle::not_float32},
    {"int8", [](Asked &a) { a.call.Atype = CUDA_R_8I; }, Obstacle::not_float32},
    {"fp32 and float16", [](Asked &a) { a.call.Btype = CUDA_R_16F; }, Obstacle::not_float32},
    {"fp32 with a float16 result", [](Asked &a) { a.call.Ctype = CUDA_R_16F; }, Obstacle::not_float32},
    {"another type and invalid", [](Asked &a) { a.call.Atype = CUDA_R_64F, a.call.handle = nullptr; },
     Obstacle::float64},

    {"pedantic", [](Asked &a) { a.call.computeType = CUBLAS_COMPUTE_32F_PEDANTIC; }, Obstacle::pedantic},
    {"pedantic and empty", [](Asked &a) { a.modes.mathMode = CUBLAS_PEDANTIC_MATH, a.call.m = 0; }, Obstacle::pedantic},
    {"emulated by the environment", [](Asked &a) { a.environment.emulatesSingle = true; }, Obstacle::emulated_fp32},
    {"no such compute type", [](Asked &a) { a.call.computeType = CUBLAS_COMPUTE_16F; }, Obstacle::bad_argument},
};

} // namespace

TEST_CASE("each reason to leave a cuBLAS product alone")
{
	for (const Case &one : cases) {
		Asked asked;
		one.change(asked);
		INFO(one.what);
		const Op op = asked.described();
		CHECK(static_cast<int>(op.obstacle) == static_cast<int>(one.expected));
		CHECK((op.obstacle != Obstacle::unsupported || op.cause != Cause::none));
	}
}

TEST_CASE("a cuBLAS product in our words")
{
	Asked asked;
	asked.call.transa = CUBLAS_OP_T, asked.call.transb = CUBLAS_OP_C;
	asked.call.lda = 31, asked.call.ldb = 21, asked.call.ldc = 11;
	Op op = asked.described();
	CHECK(op.entry == 7);
	CHECK(op.kind == Kind::mm);
	CHECK(op.transa == Transpose::transposed);
	CHECK(op.transb == Transpose::conjugate);
	CHECK((op.m == 10 && op.n == 20 && op.k == 30));
	CHECK((op.lda == 31 && op.ldb == 21 && op.ldc == 11 && op.ldd == 11));
	CHECK((op.a == Dtype::float32 && op.b == Dtype::float32 && op.out == Dtype::float32 && op.asked == Dtype::float32));
	CHECK(op.flags == 0);
	CHECK(op.batch == 1);

	SECTION("strides of a single matrix say nothing")
	{
		asked.batch(1, 200);
		op = asked.described();
		CHECK((op.stridea == 0 && op.strideb == 0 && op.stridec == 0 && op.strided == 0));
	}
	SECTION("a batch")
	{
		asked.batch(3, 250);
		op = asked.described();
		CHECK(op.kind == Kind::bmm);
		CHECK(op.batch == 3);
		CHECK((op.stridea == 300 && op.strideb == 600 && op.stridec == 250 && op.strided == 250));
	}
	SECTION("a batch that does not fit is not another one")
	{
		asked.batch(int64_t{1} << 32, 250);
		CHECK(asked.described().batch == INT32_MAX);
	}
	SECTION("host scalars that are zero")
	{
		asked.call.beta = &minusZero;
		CHECK(asked.described().flags == flagBetaZero);
		asked.call.alpha = &zero;
		CHECK(asked.described().flags == (flagAlphaZero | flagBetaZero));
	}
	SECTION("device scalars")
	{
		asked.modes.deviceScalars = true;
		asked.call.beta = &zero;
		CHECK(asked.described().flags == flagDeviceScalars);
	}
	SECTION("other element types request their own precision")
	{
		asked.call.Atype = asked.call.Btype = asked.call.Ctype = CUDA_R_16F;
		asked.modes.mathMode = CUBLAS_TF32_TENSOR_OP_MATH;
		op = asked.described();
		CHECK((op.a == Dtype::float16 && op.b == Dtype::float16 && op.out == Dtype::float16));
		CHECK(op.asked == Dtype::float16);
	}
}

TEST_CASE("products of half that are summed in half")
{
	static const uint16_t halfZero[2] = {0x8000, 0x3c00}, halfTiny[2] = {0x0001, 0};
	static uint16_t elements[64];
	const Case halves[] = {
	    {"as they are", [](Asked &) {}, Obstacle::none},
	    {"A on two bytes", [](Asked &a) { a.call.A = elements + 1; }, Obstacle::none},
	    {"A misaligned", [](Asked &a) { a.call.A = at(0x1001); }, Obstacle::bad_argument},
	    {"alpha = -0", [](Asked &a) { a.call.alpha = halfZero; }, Obstacle::zero_size},
	    {"the smallest alpha", [](Asked &a) { a.call.alpha = halfTiny; }, Obstacle::none},
	    {"wrong", [](Asked &a) { a.call.lda = 9; }, Obstacle::bad_argument},
	    {"pedantic mode", [](Asked &a) { a.modes.mathMode = CUBLAS_PEDANTIC_MATH; }, Obstacle::pedantic},
	    {"a mode of fp32's", [](Asked &a) { a.modes.mathMode = CUBLAS_TENSOR_OP_MATH; }, Obstacle::none},
	    {"emulation of fp32", [](Asked &a) { a.environment.emulatesSingle = true; }, Obstacle::none},
	    {"pedantic", [](Asked &a) { a.call.computeType = CUBLAS_COMPUTE_16F_PEDANTIC; }, Obstacle::already_low},
	    {"summed in fp32", [](Asked &a) { a.call.computeType = CUBLAS_COMPUTE_32F; }, Obstacle::already_low},
	    {"an fp32 result", [](Asked &a) { a.call.Ctype = CUDA_R_32F; }, Obstacle::already_low},
	    {"bfloat16", [](Asked &a) { a.call.Atype = a.call.Btype = a.call.Ctype = CUDA_R_16BF; }, Obstacle::already_low},
	};
	for (const Case &one : halves) {
		Asked asked;
		asked.call.Atype = asked.call.Btype = asked.call.Ctype = typeFloat16;
		asked.call.computeType = computeFloat16;
		asked.call.alpha = asked.call.beta = halfZero + 1;
		one.change(asked);
		INFO(one.what);
		const Op op = asked.described();
		CHECK(static_cast<int>(op.obstacle) == static_cast<int>(one.expected));
		CHECK(((op.flags & flagHalfSums) != 0) == (one.expected != Obstacle::already_low));
	}
}

TEST_CASE("identical groups are one batch")
{
	static const int trans[] = {CUBLAS_OP_T, CUBLAS_OP_T}, m[] = {10, 10}, n[] = {20, 20}, k[] = {30, 30},
	                 lda[] = {31, 31}, ldb[] = {32, 32}, ldc[] = {33, 33}, sizes[] = {2, 5}, other[] = {40, 41},
	                 negative[] = {2, -1};
	static const float alphas[] = {2, 2}, betas[] = {0, 0}, zeros[] = {0, -0.0f};
	static const int64_t wide[] = {int64_t{1} << 40, int64_t{1} << 40};
	const struct {
		const char *what;
		void (*change)(GroupedCall &);
		Obstacle expected;
		int64_t batch;
	} rows[] = {
	    {"as they are", [](GroupedCall &) {}, Obstacle::none, 7},
	    {"one", [](GroupedCall &g) { g.group_count = 1, g.m_array = Integers(m + 1); }, Obstacle::none, 2},
	    {"of 64 bits", [](GroupedCall &g) { g.ldc_array = Integers(wide); }, Obstacle::none, 7},
	    {"another m", [](GroupedCall &g) { g.m_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another n", [](GroupedCall &g) { g.n_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another k", [](GroupedCall &g) { g.k_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another lda", [](GroupedCall &g) { g.lda_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another ldb", [](GroupedCall &g) { g.ldb_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another ldc", [](GroupedCall &g) { g.ldc_array = Integers(other); }, Obstacle::grouped, 7},
	    {"another A", [](GroupedCall &g) { g.transa_array = other; }, Obstacle::grouped, 7},
	    {"another B", [](GroupedCall &g) { g.transb_array = other; }, Obstacle::grouped, 7},
	    {"another alpha", [](GroupedCall &g) { g.alpha_array = zeros; }, Obstacle::grouped, 7},
	    {"another beta", [](GroupedCall &g) { g.beta_array = zeros; }, Obstacle::grouped, 7},
	    {"more than are looked at", [](GroupedCall &g) { g.group_count = INT64_MAX; }, Obstacle::grouped, 0},
	    {"none", [](GroupedCall &g) { g.group_count = 0; }, Obstacle::zero_size, 0},
	    {"fewer", [](GroupedCall &g) { g.group_count = -1; }, Obstacle::bad_argument, 1},
	    {"a group of fewer", [](GroupedCall &g) { g.group_size = Integers(negative); }, Obstacle::bad_argument, 1},
	    {"no sizes", [](GroupedCall &g) { g.group_size = nullptr; }, Obstacle::bad_argument, 1},
	    {"no n", [](GroupedCall &g) { g.n_array = nullptr; }, Obstacle::bad_argument, 1},
	    {"no beta", [](GroupedCall &g) { g.beta_array = nullptr; }, Obstacle::bad_argument, 7},
	    {"no alpha", [](GroupedCall &g) { g.alpha_array = nullptr; }, Obstacle::bad_argument, 7},
	};
	const Entry entry = {"", Library::cublas, Dtype::float32, Obstacle::grouped, true};
	for (const auto &row : rows) {
		GroupedCall groups;
		groups.handle = at(8), groups.A = at(0x1000), groups.B = at(0x2000), groups.C = at(0x3000);
		groups.transa_array = groups.transb_array = trans;
		groups.m_array = Integers(m), groups.n_array = Integers(n), groups.k_array = Integers(k);
		groups.lda_array = Integers(lda), groups.ldb_array = Integers(ldb), groups.ldc_array = Integers(ldc);
		groups.alpha_array = alphas, groups.beta_array = betas;
		groups.group_count = 2, groups.group_size = Integers(sizes);
		row.change(groups);
		INFO(row.what);
		const Op op = describe(entry, 7, batchOf(groups), {}, {});
		CHECK(static_cast<int>(op.obstacle) == static_cast<int>(row.expected));
		CHECK(op.batch == row.batch);
		CHECK(op.kind == Kind::bmm);
		if (row.expected == Obstacle::none) {
			CHECK((op.m == 10 && op.n == 20 && op.k == 30 && op.lda == 31 && op.ldb == 32));
			CHECK(op.ldc == groups.ldc_array[0]);
			CHECK(op.transa == Transpose::transposed);
			CHECK(op.flags == (flagArrays | flagBetaZero));
			HandleModes modes;
			modes.deviceScalars = true; // the vendor refuses them, and the arrays are on the host
			CHECK(describe(entry, 7, batchOf(groups), modes, {}).obstacle == Obstacle::bad_argument);
		}
	}
}

TEST_CASE("how a compute type and a math mode let fp32 be multiplied")
{
	constexpr int none = GemmCall().computeType; // for an entry point without one
	const VendorEnvironment plain, noTf32 = {false, false}, emulating = {true, true};
	const struct {
		int computeType, mathMode;
		const VendorEnvironment &environment;
		Dtype asked;
		Obstacle obstacle;
	} rows[] = {
	    {none, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::none},
	    {CUBLAS_COMPUTE_32F, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::none},
	    {none, CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH, plain, Dtype::float32, Obstacle::none},
	    {none, CUBLAS_TF32_TENSOR_OP_MATH, plain, Dtype::tf32, Obstacle::none},
	    {CUBLAS_COMPUTE_32F, CUBLAS_TF32_TENSOR_OP_MATH, plain, Dtype::tf32, Obstacle::none},
	    {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_DEFAULT_MATH, plain, Dtype::tf32, Obstacle::none},
	    {none, CUBLAS_TF32_TENSOR_OP_MATH, noTf32, Dtype::float32, Obstacle::none},
	    {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_DEFAULT_MATH, noTf32, Dtype::float32, Obstacle::none},
	    {none, CUBLAS_PEDANTIC_MATH, plain, Dtype::float32, Obstacle::pedantic},
	    {CUBLAS_COMPUTE_32F, CUBLAS_PEDANTIC_MATH, emulating, Dtype::float32, Obstacle::pedantic},
	    {CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_TF32_TENSOR_OP_MATH, emulating, Dtype::float32, Obstacle::pedantic},
	    {none, CUBLAS_TENSOR_OP_MATH, plain, Dtype::float16, Obstacle::already_low},
	    {CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_DEFAULT_MATH, emulating, Dtype::float16, Obstacle::already_low},
	    {CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_DEFAULT_MATH, plain, Dtype::bfloat16, Obstacle::already_low},
	    {none, CUBLAS_FP32_EMULATED_BF16X9_MATH, plain, Dtype::float32, Obstacle::emulated_fp32},
	    {CUBLAS_COMPUTE_32F_EMULATED_16BFX9, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::emulated_fp32},
	    {none, CUBLAS_DEFAULT_MATH, emulating, Dtype::float32, Obstacle::emulated_fp32},
	    {CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_TF32_TENSOR_OP_MATH, emulating, Dtype::float32, Obstacle::emulated_fp32},
	    {CUBLAS_COMPUTE_16F, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::bad_argument},
	    {CUBLAS_COMPUTE_64F, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::bad_argument},
	    {12345, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::bad_argument},
	    {-1, CUBLAS_DEFAULT_MATH, plain, Dtype::float32, Obstacle::bad_argument},
	};
	for (const auto &row : rows) {
		CAPTURE(row.computeType, row.mathMode, &row - rows);
		const Arithmetic arithmetic = arithmeticOf(row.computeType, row.mathMode, row.environment);
		CHECK(static_cast<int>(arithmetic.asked) == static_cast<int>(row.asked));
		CHECK(static_cast<int>(arithmetic.obstacle) == static_cast<int>(row.obstacle));
	}
}

TEST_CASE("the vendor's element types in our words")
{
	const struct {
		int type;
		Dtype expected;
	} rows[] = {{CUDA_R_32F, Dtype::float32},   {CUDA_R_16F, Dtype::float16},   {CUDA_R_16BF, Dtype::bfloat16},
	            {CUDA_R_64F, Dtype::float64},   {CUDA_C_32F, Dtype::complex64}, {CUDA_C_64F, Dtype::complex128},
	            {CUDA_R_8F_E4M3, Dtype::other}, {typeOfRow, Dtype::other}};
	for (const auto &row : rows) {
		CAPTURE(row.type);
		CHECK(static_cast<int>(dtypeOf(row.type)) == static_cast<int>(row.expected));
	}
}

TEST_CASE("a transposition that does not exist is reported as none")
{
	Asked asked;
	asked.call.transa = CUBLAS_OP_CONJG, asked.call.transb = 200;
	const Op op = asked.described();
	CHECK((op.transa == Transpose::none && op.transb == Transpose::none));
}

TEST_CASE("entry points that are not products")
{
	PlainCall call;
	call.handle = at(8);
	call.m = 5, call.n = 6, call.k = 7, call.batchCount = int64_t{1} << 40;
	const auto described = [&](Dtype dtype, Obstacle obstacle) {
		return describe(Entry{"", Library::cublas, dtype, obstacle}, 9, call);
	};
	Op op = described(Dtype::float32, Obstacle::matrix_vector);
	CHECK(op.entry == 9);
	CHECK(op.kind == Kind::mv);
	CHECK(op.obstacle == Obstacle::matrix_vector);
	CHECK((op.a == Dtype::float32 && op.asked == Dtype::float32));
	CHECK((op.m == 5 && op.n == 6 && op.k == 7 && op.batch == INT32_MAX));

	op = described(Dtype::float32, Obstacle::triangular);
	CHECK(op.kind == Kind::none);
	CHECK(op.obstacle == Obstacle::triangular);

	// If the row has no type, the arguments have: A's, otherwise x's.
	call.xType = CUDA_R_32F;
	CHECK(described(Dtype::none, Obstacle::vector_op).obstacle == Obstacle::vector_op);
	call.xType = CUDA_R_64F;
	CHECK(described(Dtype::none, Obstacle::vector_op).obstacle == Obstacle::float64);
	call.Atype = CUDA_R_16F;
	op = described(Dtype::none, Obstacle::vector_op);
	CHECK(op.obstacle == Obstacle::already_low);
	CHECK(op.asked == Dtype::float16);
	// A row with a type needs no argument.
	CHECK(described(Dtype::float32, Obstacle::vector_op).obstacle == Obstacle::vector_op);
}
