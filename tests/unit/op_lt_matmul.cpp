#include "src/op/lt_matmul.h"

#include "tests/unit/fake_lt.h"

#include <catch2/catch.hpp>

#include <array>

using namespace autoamp::op;
using fake_lt::library;
using fake_lt::set;

namespace {

constexpr float zero = 0, one = 1, two = 2;
const Entry row = {"cublasLtMatmul", Library::cublaslt, Dtype::float32, Obstacle::none};

const void *at(uintptr_t address) // never read
{
	return reinterpret_cast<const void *>(address);
}

// A valid product of 10 x 30 by 30 x 20; each case changes something.
struct Asked {
	void *desc = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
	LtMatmulCall call;
	VendorEnvironment environment;

	Asked()
	{
		fake_lt::make(&desc, fake_lt::freshMatmul(CUBLAS_COMPUTE_32F, CUDA_R_32F));
		fake_lt::make(&a, fake_lt::freshLayout(CUDA_R_32F, 10, 30, 10));
		fake_lt::make(&b, fake_lt::freshLayout(CUDA_R_32F, 30, 20, 30));
		fake_lt::make(&c, fake_lt::freshLayout(CUDA_R_32F, 10, 20, 10));
		fake_lt::make(&d, fake_lt::freshLayout(CUDA_R_32F, 10, 20, 11));
		call.lightHandle = this;
		call.computeDesc = desc;
		call.Adesc = a, call.Bdesc = b, call.Cdesc = c, call.Ddesc = d;
		call.A = at(0x1000), call.B = at(0x2000), call.C = at(0x3000), call.D = const_cast<void *>(at(0x4000));
		call.alpha = &two, call.beta = &one;
		call.workspace = at(0x5000), call.workspaceSizeInBytes = 1 << 20;
	}
	~Asked()
	{
		for (void *object : {desc, a, b, c, d})
			fake_lt::destroy(object);
	}
	Asked(const Asked &) = delete;

	template <typename Value>
	void everyLayout(int id, const Value &value)
	{
		for (void *layout : {a, b, c, d})
			set(layout, id, value);
	}
	void batch(int count, int64_t strideA, int64_t strideB, int64_t strideC, int64_t strideD)
	{
		everyLayout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
		const int stride = CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET;
		set(a, stride, strideA), set(b, stride, strideB), set(c, stride, strideC), set(d, stride, strideD);
	}
	void shape(void *layout, uint64_t rows, uint64_t columns)
	{
		set(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
		set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, columns);
	}
	void transposed(bool isA, bool isB)
	{
		set(desc, CUBLASLT_MATMUL_DESC_TRANSA, int{isA ? CUBLAS_OP_T : CUBLAS_OP_N});
		set(desc, CUBLASLT_MATMUL_DESC_TRANSB, int{isB ? CUBLAS_OP_T : CUBLAS_OP_N});
		if (isA)
			shape(a, 30, 10), set(a, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{30});
		if (isB)
			shape(b, 20, 30), set(b, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{30});
	}
	void epilogue(int kind, uint64_t bias)
	{
		set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, kind);
		set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
	}
	void withAux(int kind, int64_t ld, int64_t stride = 0, int type = -1)
	{
		epilogue(kind, 0x5000);
		set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, uint64_t{0x6000});
		set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
		set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, stride);
		set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type);
	}
	void byRows(std::initializer_list<void *> layouts)
	{
		for (void *layout : layouts) {
			set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, int{CUBLASLT_ORDER_ROW});
			set(layout, CUBLASLT_MATRIX_LAYOUT_LD, int64_t{30});
		}
	}
	void arrays(int mode = CUBLASLT_BATCH_MODE_POINTER_ARRAY)
	{
		everyLayout(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, mode);
		batch(3, 0, 0, 0, 0);
	}
	Op described() const { return describe(row, 3, call, &fake_lt::lt, environment); }
};

// autoamp learns the library's attributes at the first product of the process, so only the first one can see that fail.
struct FirstAnswers {
	Obstacle withoutDesc, withoutLayout;
	size_t left; // autoamp's objects that were not destroyed

	FirstAnswers()
	{
		Asked asked;
		const size_t before = library.live.size();
		library.failing = {"cublasLtMatmulDescCreate"};
		withoutDesc = asked.described().obstacle;
		library.failing = {"cublasLtMatrixLayoutCreate"};
		withoutLayout = asked.described().obstacle;
		library.failing = {};
		left = library.live.size() - before;
	}
};
const FirstAnswers &firstAnswers()
{
	static const FirstAnswers answers;
	return answers;
}

struct Case {
	const char *what;
	void (*change)(Asked &);
	Obstacle expected;
};

#define SET(object, id, ...) [](Asked &q) { set(q.object, id, __VA_ARGS__); }
#define DESC(name) CUBLASLT_MATMUL_DESC_##name
#define LAYOUT(name) CUBLASLT_MATRIX_LAYOUT_##name

const Case cases[] = {
    {"as it is", [](Asked &) {}, Obstacle::none},
    {"A transposed",
     [](Asked &q) {
	     set(q.desc, DESC(TRANSA), int{CUBLAS_OP_T});
	     q.shape(q.a, 30, 10);
	     set(q.a, LAYOUT(LD), int64_t{30});
     },
     Obstacle::none},
    {"B conjugate",
     [](Asked &q) {
	     set(q.desc, DESC(TRANSB), int{CUBLAS_OP_C});
	     q.shape(q.b, 20, 30);
     },
     Obstacle::none},
    {"no C where beta is 0", [](Asked &q) { q.call.C = nullptr, q.call.beta = &zero; }, Obstacle::none},
    {"scalars that only the device can read",
     [](Asked &q) {
	     set(q.desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_DEVICE});
	     q.call.alpha = q.call.beta = at(16);
     },
     Obstacle::none},
    {"a batch", [](Asked &q) { q.batch(3, 0, 600, 200, 219); }, Obstacle::none},
    {"relu", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_RELU, 0); }, Obstacle::none},
    {"bias", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000); }, Obstacle::none},
    {"relu and bias", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_RELU_BIAS, 0x5000); }, Obstacle::none},
    {"a bias of fp32, said aloud",
     [](Asked &q) {
	     q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000);
	     set(q.desc, DESC(BIAS_DATA_TYPE), int{CUDA_R_32F});
     },
     Obstacle::none},
    {"a bias pointer that no epilogue reads", SET(desc, DESC(BIAS_POINTER), uint64_t{0x5000}), Obstacle::none},
    {"fewer SMs", SET(desc, DESC(SM_COUNT_TARGET), 8), Obstacle::none},
    {"descriptors of an older library",
     [](Asked &q) {
	     for (int id : {int{DESC(BIAS_BATCH_STRIDE)}, int{DESC(SM_COUNT_TARGET)}, int{DESC(BIAS_DATA_TYPE)},
	                    int{DESC(FAST_ACCUM)}, fake_lt::laterOfMatmul, fake_lt::largeOfMatmul})
		     fake_lt::of(q.desc).erase(id);
	     for (void *layout : {q.a, q.b, q.c, q.d})
		     fake_lt::of(layout).erase(fake_lt::laterOfLayout);
	     q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000);
     },
     Obstacle::none},

    {"no handle", [](Asked &q) { q.call.lightHandle = nullptr; }, Obstacle::bad_argument},
    {"no descriptor", [](Asked &q) { q.call.computeDesc = nullptr; }, Obstacle::bad_argument},
    {"no layout of A", [](Asked &q) { q.call.Adesc = nullptr; }, Obstacle::bad_argument},
    {"no layout of B", [](Asked &q) { q.call.Bdesc = nullptr; }, Obstacle::bad_argument},
    {"no layout of C", [](Asked &q) { q.call.Cdesc = nullptr; }, Obstacle::bad_argument},
    {"no layout of D", [](Asked &q) { q.call.Ddesc = nullptr; }, Obstacle::bad_argument},
    {"A's rows", [](Asked &q) { q.shape(q.a, 9, 30); }, Obstacle::bad_argument},
    {"A's columns", [](Asked &q) { q.shape(q.a, 10, 29); }, Obstacle::bad_argument},
    {"B's columns", [](Asked &q) { q.shape(q.b, 30, 21); }, Obstacle::bad_argument},
    {"C's rows", [](Asked &q) { q.shape(q.c, 9, 20); }, Obstacle::bad_argument},
    {"C's columns", [](Asked &q) { q.shape(q.c, 10, 19); }, Obstacle::bad_argument},
    {"A transposed, not its layout", SET(desc, DESC(TRANSA), int{CUBLAS_OP_T}), Obstacle::bad_argument},
    {"B transposed, not its layout", SET(desc, DESC(TRANSB), int{CUBLAS_OP_T}), Obstacle::bad_argument},
    {"A's leading dimension", SET(a, LAYOUT(LD), int64_t{9}), Obstacle::bad_argument},
    {"B's leading dimension", SET(b, LAYOUT(LD), int64_t{29}), Obstacle::bad_argument},
    {"C's leading dimension", SET(c, LAYOUT(LD), int64_t{9}), Obstacle::bad_argument},
    {"D's leading dimension", SET(d, LAYOUT(LD), int64_t{9}), Obstacle::bad_argument},
    {"A's batch", SET(a, LAYOUT(BATCH_COUNT), 2), Obstacle::bad_argument},
    {"B's batch", SET(b, LAYOUT(BATCH_COUNT), 2), Obstacle::bad_argument},
    {"C's batch", SET(c, LAYOUT(BATCH_COUNT), 2), Obstacle::bad_argument},
    {"a batch below zero", [](Asked &q) { q.batch(-1, 0, 0, 0, 0); }, Obstacle::bad_argument},
    {"no such transposition of A",
     [](Asked &q) {
	     set(q.desc, DESC(TRANSA), 3);
	     q.shape(q.a, 30, 10);
	     set(q.a, LAYOUT(LD), int64_t{30});
     },
     Obstacle::bad_argument},
    {"no such transposition of B",
     [](Asked &q) {
	     set(q.desc, DESC(TRANSB), -1);
	     q.shape(q.b, 20, 30);
     },
     Obstacle::bad_argument},
    {"alpha null", [](Asked &q) { q.call.alpha = nullptr; }, Obstacle::bad_argument},
    {"beta null", [](Asked &q) { q.call.beta = nullptr; }, Obstacle::bad_argument},
    {"neither C nor beta", [](Asked &q) { q.call.C = nullptr, q.call.beta = nullptr; }, Obstacle::bad_argument},
    {"beta null on the device",
     [](Asked &q) {
	     set(q.desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_DEVICE});
	     q.call.beta = nullptr;
     },
     Obstacle::bad_argument},
    {"A null", [](Asked &q) { q.call.A = nullptr; }, Obstacle::bad_argument},
    {"B null", [](Asked &q) { q.call.B = nullptr; }, Obstacle::bad_argument},
    {"D null", [](Asked &q) { q.call.D = nullptr; }, Obstacle::bad_argument},
    {"C null where beta is not 0", [](Asked &q) { q.call.C = nullptr; }, Obstacle::bad_argument},
    {"C null where only the device knows beta",
     [](Asked &q) {
	     set(q.desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_DEVICE});
	     q.call.C = nullptr;
	     q.call.beta = at(16);
     },
     Obstacle::bad_argument},
    {"A misaligned", [](Asked &q) { q.call.A = at(0x1001); }, Obstacle::bad_argument},
    {"B misaligned", [](Asked &q) { q.call.B = at(0x1002); }, Obstacle::bad_argument},
    {"C misaligned", [](Asked &q) { q.call.C = at(0x1003); }, Obstacle::bad_argument},
    {"D misaligned", [](Asked &q) { q.call.D = const_cast<void *>(at(0x1002)); }, Obstacle::bad_argument},

    {"m = 0",
     [](Asked &q) {
	     q.shape(q.a, 0, 30), q.shape(q.c, 0, 20), q.shape(q.d, 0, 20);
	     q.call.A = nullptr;
     },
     Obstacle::zero_size},
    {"n = 0", [](Asked &q) { q.shape(q.b, 30, 0), q.shape(q.c, 10, 0), q.shape(q.d, 10, 0); }, Obstacle::zero_size},
    {"k = 0", [](Asked &q) { q.shape(q.a, 10, 0), q.shape(q.b, 0, 20); }, Obstacle::zero_size},
    {"no batch", [](Asked &q) { q.batch(0, 0, 0, 0, 0); }, Obstacle::zero_size},
    {"alpha = 0", [](Asked &q) { q.call.alpha = &zero; }, Obstacle::zero_size},

    {"a vector of alphas on the device", SET(desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_DEVICE_VECTOR}),
     Obstacle::unsupported},
    {"a vector of alphas and beta 0",
     SET(desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO}), Obstacle::unsupported},
    {"a vector of alphas and host beta",
     SET(desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST}), Obstacle::unsupported},
    {"A in row order, its leading dimension too small for that", SET(a, LAYOUT(ORDER), int{CUBLASLT_ORDER_ROW}),
     Obstacle::bad_argument},
    {"A in row order", [](Asked &q) { q.byRows({q.a}); }, Obstacle::none},
    {"B in row order, its leading dimension counted so",
     [](Asked &q) {
	     set(q.b, LAYOUT(ORDER), int{CUBLASLT_ORDER_ROW});
	     set(q.b, LAYOUT(LD), int64_t{20});
     },
     Obstacle::none},
    {"D in row order, C not", [](Asked &q) { q.byRows({q.d}); }, Obstacle::unsupported},
    {"all in row order", [](Asked &q) { q.byRows({q.a, q.b, q.c, q.d}); }, Obstacle::none},
    {"results in row order that touch",
     [](Asked &q) { q.byRows({q.c, q.d}), q.batch(2, 300, 600, 0, 30 * 9 + 20); }, Obstacle::none},
    {"results in row order that overlap by one",
     [](Asked &q) { q.byRows({q.c, q.d}), q.batch(2, 300, 600, 0, 30 * 9 + 19); }, Obstacle::unsupported},
    {"relu in row order",
     [](Asked &q) { q.byRows({q.c, q.d}), q.epilogue(CUBLASLT_EPILOGUE_RELU, 0); }, Obstacle::none},
    {"a bias in row order",
     [](Asked &q) { q.byRows({q.c, q.d}), q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000); }, Obstacle::unsupported},
    {"arrays of pointers", [](Asked &q) { q.arrays(); }, Obstacle::none},
    {"groups", [](Asked &q) { q.arrays(2); }, Obstacle::unsupported},
    {"an array of pointers for A alone", SET(a, LAYOUT(BATCH_MODE), int{CUBLASLT_BATCH_MODE_POINTER_ARRAY}),
     Obstacle::bad_argument},
    {"an invalid array of pointers", [](Asked &q) { q.arrays(), q.call.B = at(0x2004); }, Obstacle::bad_argument},
    {"arrays of pointers and an epilogue",
     [](Asked &q) { q.arrays(), q.epilogue(CUBLASLT_EPILOGUE_RELU, 0); }, Obstacle::unsupported},
    {"B in tiles", SET(b, LAYOUT(ORDER), int{CUBLASLT_ORDER_COL32}), Obstacle::unsupported},
    {"C and D of different types", SET(c, LAYOUT(TYPE), int{CUDA_R_16F}), Obstacle::unsupported},
    {"scalars of another type", SET(desc, DESC(SCALE_TYPE), int{CUDA_R_64F}), Obstacle::unsupported},
    {"results that touch", [](Asked &q) { q.batch(2, 300, 600, 200, 11 * 19 + 10); }, Obstacle::none},
    {"results side by side", [](Asked &q) { q.batch(2, 300, 600, 200, 10), set(q.d, LAYOUT(LD), int64_t{20}); },
     Obstacle::none},
    {"results that overlap by one", [](Asked &q) { q.batch(2, 300, 600, 200, 11 * 19 + 9); }, Obstacle::unsupported},
    {"A backwards", [](Asked &q) { q.batch(2, -300, 600, 200, 220); }, Obstacle::unsupported},
    {"B backwards", [](Asked &q) { q.batch(2, 300, -600, 200, 220); }, Obstacle::unsupported},
    {"C backwards", [](Asked &q) { q.batch(2, 300, 600, -200, 220); }, Obstacle::unsupported},
    {"gelu", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_GELU, 0); }, Obstacle::none},
    {"no such epilogue", [](Asked &q) { q.epilogue(3, 0x5000); }, Obstacle::unsupported},
    {"an auxiliary result that is nowhere", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_RELU_AUX, 0); },
     Obstacle::unsupported},
    {"a mask", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_RELU_AUX, 128, 2560); }, Obstacle::none},
    {"a mask, badly led", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_RELU_AUX, 64); }, Obstacle::unsupported},
    {"a mask, badly apart", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_DRELU, 128, 64); }, Obstacle::unsupported},
    {"a mask with a type", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_DRELU, 128, 0, CUDA_R_32F); },
     Obstacle::unsupported},
    {"a matrix of gelu", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 16, 320, CUDA_R_32F); },
     Obstacle::none},
    {"a matrix of gelu in 16 bits", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_GELU_AUX, 16, 320, CUDA_R_16F); },
     Obstacle::unsupported},
    {"a matrix of gelu with fewer rows", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_DGELU, 8); },
     Obstacle::unsupported},
    {"a gradient of the bias", [](Asked &q) { q.withAux(CUBLASLT_EPILOGUE_DRELU_BGRAD, 128); }, Obstacle::none},
    {"a gradient without a workspace",
     [](Asked &q) {
	     q.withAux(CUBLASLT_EPILOGUE_DRELU_BGRAD, 128);
	     q.call.workspace = nullptr;
     },
     Obstacle::unsupported},
    {"a gradient with too small a workspace",
     [](Asked &q) {
	     q.withAux(CUBLASLT_EPILOGUE_DRELU_BGRAD, 128);
	     q.call.workspaceSizeInBytes = 16;
     },
     Obstacle::unsupported},
    {"a gradient that is nowhere",
     [](Asked &q) {
	     q.withAux(CUBLASLT_EPILOGUE_DGELU_BGRAD, 16);
	     set(q.desc, DESC(BIAS_POINTER), uint64_t{0});
     },
     Obstacle::unsupported},
    {"a descriptor without room for a mask",
     [](Asked &q) {
	     q.withAux(CUBLASLT_EPILOGUE_RELU_AUX, 128);
	     fake_lt::of(q.desc).erase(DESC(EPILOGUE_AUX_LD));
     },
     Obstacle::unsupported},
    {"an auxiliary pointer that no epilogue reads", SET(desc, DESC(EPILOGUE_AUX_POINTER), uint64_t{0x6000}),
     Obstacle::none},
    {"the sum of A", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BGRADA, 0x5000); }, Obstacle::none},
    {"the sum of A, misaligned", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BGRADA, 0x5002); },
     Obstacle::unsupported},
    {"the sum of A, transposed",
     [](Asked &q) { q.transposed(true, false), q.epilogue(CUBLASLT_EPILOGUE_BGRADA, 0x5000); }, Obstacle::unsupported},
    {"the sum of B", [](Asked &q) { q.transposed(false, true), q.epilogue(CUBLASLT_EPILOGUE_BGRADB, 0x5000); },
     Obstacle::none},
    {"the sum of B, not transposed", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BGRADB, 0x5000); },
     Obstacle::unsupported},
    {"sums that touch",
     [](Asked &q) {
	     q.transposed(false, true), q.batch(2, 300, 600, 200, 220), q.epilogue(CUBLASLT_EPILOGUE_BGRADB, 0x5000);
	     set(q.desc, DESC(BIAS_BATCH_STRIDE), int64_t{20});
     },
     Obstacle::none},
    {"sums that overlap by one",
     [](Asked &q) {
	     q.transposed(false, true), q.batch(2, 300, 600, 200, 220), q.epilogue(CUBLASLT_EPILOGUE_BGRADB, 0x5000);
	     set(q.desc, DESC(BIAS_BATCH_STRIDE), int64_t{19});
     },
     Obstacle::unsupported},
    {"a bias that is nowhere", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0); }, Obstacle::unsupported},
    {"a relu and a bias that is nowhere", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_RELU_BIAS, 0); },
     Obstacle::unsupported},
    {"a bias of float16",
     [](Asked &q) {
	     q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000);
	     set(q.desc, DESC(BIAS_DATA_TYPE), int{CUDA_R_16F});
     },
     Obstacle::unsupported},
    {"a descriptor without room for a bias", [](Asked &q) { fake_lt::of(q.desc).erase(DESC(BIAS_POINTER)); },
     Obstacle::unsupported},
    {"C transposed", SET(desc, DESC(TRANSC), int{CUBLAS_OP_T}), Obstacle::unsupported},
    {"half of a matrix", SET(desc, DESC(FILL_MODE), int{CUBLAS_FILL_MODE_LOWER}), Obstacle::unsupported},
    {"a scale of A", SET(desc, DESC(A_SCALE_POINTER), uint64_t{0x6000}), Obstacle::unsupported},
    {"fast accumulation", SET(desc, DESC(FAST_ACCUM), char{1}), Obstacle::unsupported},
    {"planes", SET(c, LAYOUT(PLANE_OFFSET), int64_t{1}), Obstacle::unsupported},
    {"an attribute of a later descriptor", SET(desc, fake_lt::laterOfMatmul, int64_t{0}), Obstacle::unsupported},
    {"the same at length", SET(desc, fake_lt::largeOfMatmul, std::array<char, 24>{}), Obstacle::unsupported},
    {"an attribute of a later layout, of A", SET(a, fake_lt::laterOfLayout, 6), Obstacle::unsupported},
    {"an attribute of a later layout, of B", SET(b, fake_lt::laterOfLayout, 6), Obstacle::unsupported},
    {"an attribute of a later layout, of C", SET(c, fake_lt::laterOfLayout, 6), Obstacle::unsupported},
    {"an attribute of a later layout, of D", SET(d, fake_lt::laterOfLayout, 6), Obstacle::unsupported},
    {"wrong and strange",
     [](Asked &q) {
	     q.call.A = nullptr;
	     set(q.a, fake_lt::laterOfLayout, 6);
     },
     Obstacle::bad_argument},

    {"float64", SET(a, LAYOUT(TYPE), int{CUDA_R_64F}), Obstacle::float64},
    {"float16", SET(a, LAYOUT(TYPE), int{CUDA_R_16F}), Obstacle::already_low},
    {"float16 B", SET(b, LAYOUT(TYPE), int{CUDA_R_16F}), Obstacle::not_float32},
    {"float16 D", SET(d, LAYOUT(TYPE), int{CUDA_R_16F}), Obstacle::not_float32},
    {"complex", SET(a, LAYOUT(TYPE), int{CUDA_C_32F}), Obstacle::complex},
    {"pedantic", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_32F_PEDANTIC}), Obstacle::pedantic},
    {"float16 allowed", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_32F_FAST_16F}), Obstacle::already_low},
    {"emulated", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_32F_EMULATED_16BFX9}), Obstacle::emulated_fp32},
    {"emulated by the environment", [](Asked &q) { q.environment.emulatesSingle = true; }, Obstacle::emulated_fp32},
    {"float64 in between", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_64F}), Obstacle::bad_argument},
};

} // namespace

TEST_CASE("a library that cannot return its attributes keeps the call and is queried again")
{
	CHECK(static_cast<int>(firstAnswers().withoutDesc) == static_cast<int>(Obstacle::unsupported));
	CHECK(static_cast<int>(firstAnswers().withoutLayout) == static_cast<int>(Obstacle::unsupported));
	CHECK(firstAnswers().left == 0);
	CHECK(static_cast<int>(Asked().described().obstacle) == static_cast<int>(Obstacle::none));
}

TEST_CASE("each reason to leave a cuBLASLt product alone")
{
	firstAnswers();
	for (const Case &one : cases) {
		Asked asked;
		one.change(asked);
		INFO(one.what);
		const Op op = asked.described();
		CHECK(static_cast<int>(op.obstacle) == static_cast<int>(one.expected));
		CHECK((op.obstacle != Obstacle::unsupported || op.cause != Cause::none));
	}
	CHECK(library.live.empty());
}

TEST_CASE("a cuBLASLt product of half that is summed in half")
{
	firstAnswers();
	static const uint16_t zeroThenOne[2] = {0x8000, 0x3c00};
	const Case halves[] = {
	    {"as it is", [](Asked &) {}, Obstacle::none},
	    {"D on two bytes", [](Asked &q) { q.call.D = const_cast<void *>(at(0x4002)); }, Obstacle::none},
	    {"D misaligned", [](Asked &q) { q.call.D = const_cast<void *>(at(0x4001)); }, Obstacle::bad_argument},
	    {"alpha = -0", [](Asked &q) { q.call.alpha = zeroThenOne; }, Obstacle::zero_size},
	    {"scalars in fp32", SET(desc, DESC(SCALE_TYPE), int{CUDA_R_32F}), Obstacle::unsupported},
	    {"bias", [](Asked &q) { q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000); }, Obstacle::none},
	    {"a bias of half",
	     [](Asked &q) {
		     q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000);
		     set(q.desc, DESC(BIAS_DATA_TYPE), int{CUDA_R_16F});
	     },
	     Obstacle::none},
	    {"a bias of fp32",
	     [](Asked &q) {
		     q.epilogue(CUBLASLT_EPILOGUE_BIAS, 0x5000);
		     set(q.desc, DESC(BIAS_DATA_TYPE), int{CUDA_R_32F});
	     },
	     Obstacle::unsupported},
	    {"pedantic", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_16F_PEDANTIC}), Obstacle::already_low},
	    {"summed in fp32", SET(desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_32F}), Obstacle::already_low},
	};
	for (const Case &one : halves) {
		Asked asked;
		asked.everyLayout(LAYOUT(TYPE), int{CUDA_R_16F});
		set(asked.desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_16F});
		set(asked.desc, DESC(SCALE_TYPE), int{CUDA_R_16F});
		asked.call.alpha = asked.call.beta = zeroThenOne + 1;
		one.change(asked);
		INFO(one.what);
		const Op op = asked.described();
		CHECK(static_cast<int>(op.obstacle) == static_cast<int>(one.expected));
		CHECK(((op.flags & flagHalfSums) != 0) == (one.expected != Obstacle::already_low));
	}
}

TEST_CASE("an attribute that a product cannot do without is refused")
{
	firstAnswers();
	const int needed[] = {DESC(COMPUTE_TYPE), DESC(SCALE_TYPE), DESC(POINTER_MODE),
	                      DESC(TRANSA),       DESC(TRANSB),     DESC(EPILOGUE)};
	for (int id : needed) {
		Asked asked;
		fake_lt::of(asked.desc).erase(id);
		CAPTURE(id);
		CHECK(static_cast<int>(asked.described().obstacle) == static_cast<int>(Obstacle::bad_argument));
	}
	const int neededOfLayout[] = {LAYOUT(TYPE), LAYOUT(ORDER),       LAYOUT(ROWS),
	                              LAYOUT(COLS), LAYOUT(BATCH_COUNT), LAYOUT(STRIDED_BATCH_OFFSET),
	                              LAYOUT(LD)};
	for (int id : neededOfLayout) {
		Asked asked;
		fake_lt::of(asked.b).erase(id);
		CAPTURE(id);
		CHECK(static_cast<int>(asked.described().obstacle) == static_cast<int>(Obstacle::bad_argument));
	}
}

TEST_CASE("a cuBLASLt product in our words")
{
	firstAnswers();
	Asked asked;
	set(asked.a, LAYOUT(LD), int64_t{13}), set(asked.b, LAYOUT(LD), int64_t{31}), set(asked.c, LAYOUT(LD), int64_t{12});
	Op op = asked.described();
	CHECK(op.entry == 3);
	CHECK(op.library == Library::cublaslt);
	CHECK(op.kind == Kind::mm);
	CHECK((op.m == 10 && op.n == 20 && op.k == 30 && op.batch == 1));
	CHECK((op.lda == 13 && op.ldb == 31 && op.ldc == 12 && op.ldd == 11));
	CHECK((op.a == Dtype::float32 && op.b == Dtype::float32 && op.out == Dtype::float32 && op.asked == Dtype::float32));
	CHECK(op.flags == 0);

	SECTION("transposed")
	{
		set(asked.desc, DESC(TRANSA), int{CUBLAS_OP_T});
		set(asked.desc, DESC(TRANSB), int{CUBLAS_OP_C});
		asked.shape(asked.a, 30, 10), asked.shape(asked.b, 20, 30);
		op = asked.described();
		CHECK((op.m == 10 && op.n == 20 && op.k == 30));
		CHECK((op.transa == Transpose::transposed && op.transb == Transpose::conjugate));
	}
	SECTION("a transposition that does not exist is reported as none")
	{
		set(asked.desc, DESC(TRANSA), int{CUBLAS_OP_CONJG});
		set(asked.desc, DESC(TRANSB), 200);
		op = asked.described();
		CHECK((op.transa == Transpose::none && op.transb == Transpose::none));
	}
	SECTION("a batch, then strides of a single matrix")
	{
		asked.batch(3, 1, 2, 3, 300);
		op = asked.described();
		CHECK((op.kind == Kind::bmm && op.batch == 3));
		CHECK((op.stridea == 1 && op.strideb == 2 && op.stridec == 3 && op.strided == 300));
		asked.batch(1, 1, 2, 3, 300);
		op = asked.described();
		CHECK((op.stridea == 0 && op.strideb == 0 && op.stridec == 0 && op.strided == 0));
	}
	SECTION("epilogues")
	{
		const struct {
			int epilogue;
			Epilogue expected;
			Kind kind;
		} rows[] = {{CUBLASLT_EPILOGUE_RELU, Epilogue::relu, Kind::mm},
		            {CUBLASLT_EPILOGUE_BIAS, Epilogue::bias, Kind::addmm},
		            {CUBLASLT_EPILOGUE_RELU_BIAS, Epilogue::relu_bias, Kind::addmm},
		            {CUBLASLT_EPILOGUE_GELU_BIAS, Epilogue::gelu_bias, Kind::addmm},
		            {CUBLASLT_EPILOGUE_DGELU_BGRAD, Epilogue::dgelu_bgrad, Kind::mm},
		            {CUBLASLT_EPILOGUE_BGRADB, Epilogue::bgradb, Kind::mm},
		            {3, Epilogue::other, Kind::mm}};
		for (const auto &row : rows) {
			asked.epilogue(row.epilogue, 0x5000);
			op = asked.described();
			CHECK(op.epilogue == static_cast<uint8_t>(row.expected));
			CHECK(static_cast<int>(op.kind) == static_cast<int>(row.kind));
		}
	}
	SECTION("row order and arrays of pointers")
	{
		asked.byRows({asked.a, asked.c, asked.d});
		CHECK(asked.described().flags == (flagRowA | flagRowD));
		asked.byRows({asked.b});
		asked.arrays();
		asked.everyLayout(LAYOUT(STRIDED_BATCH_OFFSET), int64_t{5}); // has no meaning
		op = asked.described();
		CHECK(op.flags == (flagRowA | flagRowB | flagRowD | flagArrays));
		CHECK((op.kind == Kind::bmm && op.batch == 3 && op.stridea == 0 && op.strided == 0));
		CHECK((op.m == 10 && op.n == 20 && op.transa == Transpose::none)); // unchanged
	}
	SECTION("scalars")
	{
		asked.call.beta = &zero;
		CHECK(asked.described().flags == flagBetaZero);
		asked.call.C = nullptr;
		CHECK(asked.described().flags == (flagBetaZero | flagNoC));
		asked.call.alpha = &zero;
		CHECK(asked.described().flags == (flagBetaZero | flagNoC | flagAlphaZero));
		set(asked.desc, DESC(POINTER_MODE), int{CUBLASLT_POINTER_MODE_DEVICE});
		CHECK(asked.described().flags == flagDeviceScalars);
	}
	SECTION("TF32")
	{
		set(asked.desc, DESC(COMPUTE_TYPE), int{CUBLAS_COMPUTE_32F_FAST_TF32});
		CHECK(asked.described().asked == Dtype::tf32);
		asked.environment.tf32Allowed = false;
		CHECK(asked.described().asked == Dtype::float32);
	}
}

TEST_CASE("no cuBLASLt at all")
{
	Asked asked;
	CHECK(static_cast<int>(describe(row, 3, asked.call, nullptr, {}).obstacle) ==
	      static_cast<int>(Obstacle::unsupported));
}

TEST_CASE("attributes that a lowered call keeps")
{
	Asked asked;
	set(asked.desc, DESC(BIAS_POINTER), uint64_t{0x5000});
	set(asked.desc, DESC(BIAS_BATCH_STRIDE), int64_t{64});
	set(asked.desc, DESC(SM_COUNT_TARGET), 12);
	LtExtras extras;
	Op op;
	REQUIRE(readExtras(fake_lt::lt, asked.desc, op, extras));
	CHECK((extras.bias == 0x5000 && extras.biasBatchStride == 64 && extras.smCountTarget == 12));

	// A descriptor that is too short for the later attributes has their defaults.
	fake_lt::of(asked.desc).erase(DESC(BIAS_BATCH_STRIDE));
	fake_lt::of(asked.desc).erase(DESC(SM_COUNT_TARGET));
	REQUIRE(readExtras(fake_lt::lt, asked.desc, op, extras));
	CHECK((extras.bias == 0x5000 && extras.biasBatchStride == 0 && extras.smCountTarget == 0));

	fake_lt::of(asked.desc).erase(DESC(BIAS_POINTER));
	CHECK(!readExtras(fake_lt::lt, asked.desc, op, extras));

	Asked other;
	other.withAux(CUBLASLT_EPILOGUE_GELU_AUX, 16, 320);
	REQUIRE(readExtras(fake_lt::lt, other.desc, op, extras)); // that are not read
	CHECK((extras.aux == 0 && extras.auxLd == 0));
	op.epilogue = static_cast<uint8_t>(Epilogue::gelu_aux);
	REQUIRE(readExtras(fake_lt::lt, other.desc, op, extras));
	CHECK((extras.aux == 0x6000 && extras.auxLd == 16 && extras.auxBatchStride == 320));
}
