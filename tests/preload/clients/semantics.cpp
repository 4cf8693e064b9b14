// Products in all forms that an application may request: every entry point, every argument that changes the result, and
// other actions of a program around them. One case per line; see harness.h for the command line.
#include "harness.h"

#include <array>
#include <atomic>
#include <memory>
#include <thread>

using namespace client;

namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T, C = CUBLAS_OP_C;

struct Row {
	const char *name;
	Spec spec;
};

// No m: each row gets a different one, so that the rows of a report can be distinguished.
const Row rows[] = {
    {"door.sgemm", {.door = Interception::sgemm}},
    {"door.sgemm_64", {.door = Interception::sgemm, .is64 = true}},
    {"door.sgemm_ex", {.door = Interception::sgemmEx}},
    {"door.sgemm_ex_64", {.door = Interception::sgemmEx, .is64 = true}},
    {"door.gemm_ex", {.door = Interception::gemmEx}},
    {"door.gemm_ex_64", {.door = Interception::gemmEx, .is64 = true}},
    {"door.sgemm_strided", {.door = Interception::sgemmStridedBatched, .batch = 3}},
    {"door.sgemm_strided_64", {.door = Interception::sgemmStridedBatched, .is64 = true, .batch = 3}},
    {"door.gemm_strided_ex", {.door = Interception::gemmStridedBatchedEx, .batch = 3}},
    {"door.gemm_strided_ex_64", {.door = Interception::gemmStridedBatchedEx, .is64 = true, .batch = 3}},
    {"door.lt", {.door = Interception::ltMatmul}},
    {"door.sgemm_batched", {.door = Interception::sgemmBatched, .batch = 3}},
    {"door.sgemm_batched_64", {.door = Interception::sgemmBatched, .is64 = true, .batch = 3}},
    {"door.gemm_batched_ex", {.door = Interception::gemmBatchedEx, .batch = 3}},
    {"door.gemm_batched_ex_64", {.door = Interception::gemmBatchedEx, .is64 = true, .batch = 3}},

    {"arrays.one", {.door = Interception::sgemmBatched, .batch = 1}},
    {"arrays.transposed", {.door = Interception::gemmBatchedEx, .batch = 2, .transa = T, .transb = C}},
    {"arrays.padded", {.door = Interception::sgemmBatched, .batch = 3, .padA = 1, .padB = 3, .padC = 5, .gap = 7}},
    {"arrays.unaligned",
     {.door = Interception::sgemmBatched, .batch = 3, .gap = 1, .shiftA = 1, .shiftB = 3, .shiftC = 1}},
    {"arrays.shared", {.door = Interception::sgemmBatched, .batch = 3, .sharesA = true}},
    {"arrays.many", {.door = Interception::sgemmBatched, .n = 5, .k = 33, .batch = 200}},
    {"arrays.scalars", {.door = Interception::sgemmBatched, .batch = 3, .padC = 2, .alpha = -0.75f, .beta = 0.5f}},
    {"arrays.device_scalars",
     {.door = Interception::gemmBatchedEx, .batch = 3, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"arrays.beta_zero_nan", {.door = Interception::sgemmBatched, .batch = 3, .isCNan = true}},
    {"arrays.device_beta_zero_nan",
     {.door = Interception::sgemmBatched, .batch = 3, .hasDeviceScalars = true, .isCNan = true}},
    {"arrays.none", {.door = Interception::sgemmBatched, .batch = 0}},
    {"arrays.pedantic", {.door = Interception::gemmBatchedEx, .batch = 2, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},

    {"grouped.one", {.door = Interception::sgemmGrouped, .batch = 3}},
    {"grouped.one_64", {.door = Interception::sgemmGrouped, .is64 = true, .batch = 3}},
    {"grouped.ex", {.door = Interception::gemmGroupedEx, .batch = 3}},
    {"grouped.ex_64", {.door = Interception::gemmGroupedEx, .is64 = true, .batch = 3}},
    {"grouped.alike",
     {.door = Interception::sgemmGrouped, .batch = 5, .padA = 1, .padC = 2, .groups = 3, .beta = 0.5f}},
    {"grouped.transposed", {.door = Interception::gemmGroupedEx, .is64 = true, .batch = 4, .transa = T, .groups = 2}},
    {"grouped.mixed", {.door = Interception::sgemmGrouped, .batch = 4, .groups = 2, .hasOddGroup = true}},
    {"grouped.mixed_64",
     {.door = Interception::gemmGroupedEx, .is64 = true, .batch = 4, .groups = 2, .hasOddGroup = true}},
    {"grouped.none", {.door = Interception::sgemmGrouped, .batch = 0}},
    {"grouped.pedantic", {.door = Interception::gemmGroupedEx, .batch = 2, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},
    {"grouped.tf32", {.door = Interception::gemmGroupedEx, .batch = 2, .compute = CUBLAS_COMPUTE_32F_FAST_TF32}},

    {"lt.bias", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_BIAS}},
    {"lt.relu", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU}},
    {"lt.relu_bias", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}},
    {"lt.bias_beta",
     {.door = Interception::ltMatmul, .beta = 0.5f, .epilogue = CUBLASLT_EPILOGUE_BIAS, .hasOwnD = true}},
    {"lt.own_handle", {.door = Interception::ltMatmul, .ltHandle = LtHandle::own}},
    {"lt.transposed",
     {.door = Interception::ltMatmul, .transa = T, .transb = N, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}},
    {"lt.padded", {.door = Interception::ltMatmul, .padA = 5, .padB = 3, .padC = 7}},
    {"lt.batched", {.door = Interception::ltMatmul, .batch = 3, .gap = 5}},
    {"lt.on_stack", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_BIAS, .objects = Objects::onStack}},
    {"lt.older_56", {.door = Interception::ltMatmul, .objects = Objects::older, .objectBytes = 56}},
    {"lt.older_88", {.door = Interception::ltMatmul, .transa = T, .objects = Objects::older, .objectBytes = 88}},
    {"lt.older_96",
     {.door = Interception::ltMatmul,
      .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS,
      .objects = Objects::older,
      .objectBytes = 96}},
    {"lt.older_184",
     {.door = Interception::ltMatmul,
      .epilogue = CUBLASLT_EPILOGUE_BIAS,
      .objects = Objects::older,
      .objectBytes = 184}},
    {"lt.guarded", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU, .objects = Objects::guarded}},
    {"lt.separate_d", {.door = Interception::ltMatmul, .beta = -0.5f, .hasOwnD = true}},
    {"lt.in_place", {.door = Interception::ltMatmul, .beta = -0.5f}},
    {"lt.c_is_a",
     {.door = Interception::ltMatmul, .m = 200, .n = 60, .k = 60, .beta = 0.5f, .hasOwnD = true, .isCA = true}},
    {"lt.c_null", {.door = Interception::ltMatmul, .hasOwnD = true, .isCNull = true}},
    {"lt.heuristic", {.door = Interception::ltMatmul, .usesHeuristic = true}},
    {"lt.workspace", {.door = Interception::ltMatmul, .usesHeuristic = true, .workspace = 1 << 20}},
    {"lt.device_scalars", {.door = Interception::ltMatmul, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"lt.device_beta_zero", {.door = Interception::ltMatmul, .hasDeviceScalars = true, .isCNan = true}},
    {"lt.beta_zero_nan", {.door = Interception::ltMatmul, .isCNan = true}},

    // Every epilogue, with variations: C separate and in place, batches, scalars on the device.
    {"beside.gelu", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_GELU}},
    {"beside.gelu_bias",
     {.door = Interception::ltMatmul,
      .alpha = 0.05f,
      .beta = 0.5f,
      .epilogue = CUBLASLT_EPILOGUE_GELU_BIAS,
      .hasOwnD = true}},
    {"beside.gelu_in_place",
     {.door = Interception::ltMatmul,
      .alpha = 0.1f,
      .beta = -1,
      .hasDeviceScalars = true,
      .epilogue = CUBLASLT_EPILOGUE_GELU}},
    {"beside.relu_aux", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_AUX}},
    {"beside.relu_aux_bias",
     {.door = Interception::ltMatmul, .batch = 3, .gap = 8, .beta = 0.5f, .epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS}},
    {"beside.gelu_aux", {.door = Interception::ltMatmul, .padC = 3, .epilogue = CUBLASLT_EPILOGUE_GELU_AUX}},
    {"beside.gelu_aux_bias",
     {.door = Interception::ltMatmul,
      .batch = 2,
      .beta = 0.5f,
      .epilogue = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      .hasOwnD = true}},
    {"beside.drelu", {.door = Interception::ltMatmul, .beta = 0.5f, .epilogue = CUBLASLT_EPILOGUE_DRELU}},
    {"beside.drelu_bgrad",
     {.door = Interception::ltMatmul, .batch = 3, .gap = 5, .alpha = -2, .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD}},
    {"beside.drelu_bgrad_device",
     {.door = Interception::ltMatmul,
      .beta = 0.5f,
      .hasDeviceScalars = true,
      .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD,
      .hasOwnD = true}},
    {"beside.dgelu", {.door = Interception::ltMatmul, .transb = T, .epilogue = CUBLASLT_EPILOGUE_DGELU}},
    {"beside.dgelu_bgrad", {.door = Interception::ltMatmul, .batch = 2, .epilogue = CUBLASLT_EPILOGUE_DGELU_BGRAD}},
    {"beside.bgrada", {.door = Interception::ltMatmul, .alpha = 3, .beta = 0.5f, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
    {"beside.bgrada_transposed",
     {.door = Interception::ltMatmul, .transa = T, .padA = 3, .epilogue = CUBLASLT_EPILOGUE_BGRADA, .hasOwnD = true}},
    {"beside.bgrada_batched",
     {.door = Interception::ltMatmul, .batch = 3, .gap = 3, .shiftA = 1, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
    {"beside.bgrada_shared",
     {.door = Interception::ltMatmul, .batch = 2, .transa = C, .sharesA = true, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
    {"beside.bgradb", {.door = Interception::ltMatmul, .padB = 5, .epilogue = CUBLASLT_EPILOGUE_BGRADB}},
    {"beside.bgradb_transposed",
     {.door = Interception::ltMatmul, .batch = 2, .transb = C, .epilogue = CUBLASLT_EPILOGUE_BGRADB, .isRowA = true}},
    {"beside.bgradb_by_rows", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_BGRADB, .isRowB = true}},
    {"beside.bgradb_shared",
     {.door = Interception::ltMatmul,
      .batch = 2,
      .transb = T,
      .padB = 5,
      .sharesB = true,
      .epilogue = CUBLASLT_EPILOGUE_BGRADB}},
    {"beside.bgrada_by_rows",
     {.door = Interception::ltMatmul, .padA = 3, .epilogue = CUBLASLT_EPILOGUE_BGRADA, .isRowA = true}},
    {"beside.bgrada_large",
     {.door = Interception::ltMatmul, .m = 600, .n = 33, .k = 300, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},

    {"rows.all", {.door = Interception::ltMatmul, .isRowA = true, .isRowB = true, .isRowD = true}},
    {"rows.a", {.door = Interception::ltMatmul, .transb = T, .padA = 3, .isRowA = true}},
    {"rows.b", {.door = Interception::ltMatmul, .transa = C, .isRowB = true}},
    {"rows.d", {.door = Interception::ltMatmul, .transa = T, .beta = 0.5f, .isRowD = true, .hasOwnD = true}},
    {"rows.batched",
     {.door = Interception::ltMatmul,
      .batch = 3,
      .transb = T,
      .padA = 1,
      .padB = 2,
      .padC = 3,
      .gap = 5,
      .sharesA = true,
      .beta = -0.5f,
      .isRowA = true,
      .isRowB = true,
      .isRowD = true}},
    {"rows.gelu", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_GELU, .isRowB = true, .isRowD = true}},
    {"rows.relu",
     {.door = Interception::ltMatmul,
      .beta = 0.5f,
      .hasDeviceScalars = true,
      .epilogue = CUBLASLT_EPILOGUE_RELU,
      .isRowD = true}},
    {"rows.bias",
     {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS, .isRowA = true, .isRowB = true}},

    {"lt_arrays.plain", {.door = Interception::ltMatmul, .batch = 3, .gap = 4, .areArrays = true}},
    {"lt_arrays.one", {.door = Interception::ltMatmul, .areArrays = true}},
    {"lt_arrays.apart",
     {.door = Interception::ltMatmul,
      .batch = 3,
      .transa = T,
      .padA = 4,
      .padC = 8,
      .gap = 4,
      .alpha = -2,
      .beta = 0.5f,
      .areArrays = true,
      .hasOwnD = true}},
    {"lt_arrays.in_place", {.door = Interception::ltMatmul, .batch = 2, .beta = 0.5f, .areArrays = true}},
    {"lt_arrays.device",
     {.door = Interception::ltMatmul,
      .batch = 2,
      .beta = 0.5f,
      .hasDeviceScalars = true,
      .areArrays = true,
      .hasOwnD = true}},
    {"lt_arrays.device_beta_zero",
     {.door = Interception::ltMatmul,
      .batch = 2,
      .hasDeviceScalars = true,
      .isCNan = true,
      .areArrays = true,
      .hasOwnD = true}},
    {"lt_arrays.c_null",
     {.door = Interception::ltMatmul, .batch = 2, .areArrays = true, .hasOwnD = true, .isCNull = true}},
    {"lt_arrays.by_rows",
     {.door = Interception::ltMatmul,
      .batch = 2,
      .transb = T,
      .beta = 0.5f,
      .isRowA = true,
      .isRowD = true,
      .areArrays = true,
      .hasOwnD = true}},

    {"trans.nt", {.transb = T}},
    {"trans.nc", {.transb = C}},
    {"trans.tn", {.transa = T}},
    {"trans.tt", {.transa = T, .transb = T}},
    {"trans.tc", {.transa = T, .transb = C}},
    {"trans.cn", {.transa = C}},
    {"trans.ct", {.transa = C, .transb = T}},
    {"trans.cc", {.transa = C, .transb = C}},
    {"trans.strided_tn", {.door = Interception::sgemmStridedBatched, .batch = 2, .transa = T}},

    {"ld.odd", {.padA = 1, .padB = 3, .padC = 5}},
    {"ld.large", {.padA = 70, .padB = 129, .padC = 33}},
    {"ld.odd_tt", {.transa = T, .transb = T, .padA = 1, .padB = 3, .padC = 5}},
    {"ld.rows_and_k_odd", {.n = 37, .k = 71}},
    {"align.a", {.shiftA = 1}},
    {"align.b", {.shiftB = 3}},
    {"align.c", {.shiftC = 1}},
    {"align.all", {.padA = 3, .padB = 3, .padC = 3, .shiftA = 3, .shiftB = 1, .shiftC = 3}},
    {"stride.zero_a", {.door = Interception::sgemmStridedBatched, .batch = 3, .sharesA = true}},
    {"stride.zero_b", {.door = Interception::gemmStridedBatchedEx, .batch = 3, .sharesB = true}},
    {"stride.zero_both", {.door = Interception::sgemmStridedBatched, .batch = 3, .sharesA = true, .sharesB = true}},
    {"stride.gap", {.door = Interception::sgemmStridedBatched, .batch = 3, .padA = 1, .padC = 2, .gap = 7}},
    {"stride.one_matrix", {.door = Interception::sgemmStridedBatched, .batch = 1}},

    {"scalars.host", {.alpha = -0.75f, .beta = 0.5f}},
    {"scalars.device", {.alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"scalars.device_strided",
     {.door = Interception::sgemmStridedBatched, .batch = 2, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"scalars.beta_zero_nan", {.isCNan = true}},
    {"scalars.device_beta_zero_nan", {.hasDeviceScalars = true, .isCNan = true}},
    {"scalars.alpha_zero_nan", {.alpha = 0, .beta = 0.5f, .isANan = true}},
    {"scalars.device_alpha_zero", {.alpha = 0, .beta = 0.5f, .hasDeviceScalars = true}},

    {"zero.m", {.m = -1}}, // -1: none
    {"zero.n", {.n = 0}},
    {"zero.k", {.k = 0, .beta = 0.5f}},
    {"zero.k_beta_zero", {.k = 0, .isCNan = true}},
    {"zero.batch", {.door = Interception::sgemmStridedBatched, .batch = 0}},

    {"mode.pedantic", {.mathMode = CUBLAS_PEDANTIC_MATH}},
    {"mode.pedantic_ex", {.door = Interception::gemmEx, .mathMode = CUBLAS_PEDANTIC_MATH}},
    {"mode.pedantic_compute", {.door = Interception::gemmEx, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},
    {"mode.pedantic_strided",
     {.door = Interception::gemmStridedBatchedEx, .batch = 2, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},
    {"mode.pedantic_lt", {.door = Interception::ltMatmul, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},
    {"mode.emulated", {.mathMode = CUBLAS_FP32_EMULATED_BF16X9_MATH}},
    {"mode.emulated_compute", {.door = Interception::gemmEx, .compute = CUBLAS_COMPUTE_32F_EMULATED_16BFX9}},
    {"mode.emulated_lt", {.door = Interception::ltMatmul, .compute = CUBLAS_COMPUTE_32F_EMULATED_16BFX9}},
    {"mode.tf32", {.mathMode = CUBLAS_TF32_TENSOR_OP_MATH}},
    {"mode.tf32_compute", {.door = Interception::gemmEx, .compute = CUBLAS_COMPUTE_32F_FAST_TF32}},
    {"mode.tf32_lt", {.door = Interception::ltMatmul, .compute = CUBLAS_COMPUTE_32F_FAST_TF32}},
    {"mode.no_reduced_reduction",
     {.mathMode = static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)}},

    {"size.small", {.m = 34, .n = 32, .k = 32}},
    {"size.middle", {.m = 256, .n = 256, .k = 256}},
    {"size.long", {.m = 32, .n = 32, .k = 4096}},
    {"size.large", {.m = 1024, .n = 1024, .k = 1024}},
    {"size.large_tf32", {.m = 1024, .n = 1024, .k = 1024, .mathMode = CUBLAS_TF32_TENSOR_OP_MATH}},
};

void runSpec(const Spec &spec, Line &line)
{
	Session session;
	Problem(spec).runOn(session, line);
}

// ---- sequences of calls

Spec sized(int m)
{
	return {.m = m};
}

// Calls of cublasLtMatmul with one wrong argument each, and their statuses.
struct LtCalls {
	LtCalls(const Session &session, const Problem &problem)
	    : handle(reinterpret_cast<cublasLtHandle_t>(session.handle)), session(session), problem(problem)
	{
		const auto m = static_cast<uint64_t>(problem.spec.m), n = static_cast<uint64_t>(problem.spec.n),
		           k = static_cast<uint64_t>(problem.spec.k);
		CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
		const auto make = [](cublasLtMatrixLayout_t &layout, uint64_t rows, uint64_t columns) {
			CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, rows, columns, static_cast<int64_t>(rows)));
		};
		make(a, m, k), make(b, k, n), make(d, m, n), make(wrong, k + 1, n);
	}
	~LtCalls()
	{
		for (cublasLtMatrixLayout_t layout : {a, b, d, wrong})
			cublasLtMatrixLayoutDestroy(layout);
		cublasLtMatmulDescDestroy(desc);
	}
	LtCalls(const LtCalls &) = delete;
	void call(cublasLtHandle_t with, cublasLtMatmulDesc_t what, const float *alpha, cublasLtMatrixLayout_t layoutA,
	          cublasLtMatrixLayout_t layoutB)
	{
		const float zero = 0;
		float *const D = problem.c.array.data();
		const int status = cublasLtMatmul(with, what, alpha, problem.a.array.data(), layoutA, problem.b.array.data(),
		                                  layoutB, &zero, D, d, D, d, nullptr, nullptr, 0, session.stream);
		told += (told.empty() ? "" : ",") + std::to_string(status);
	}

	const cublasLtHandle_t handle;
	const Session &session;
	const Problem &problem;
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr, wrong = nullptr;
	std::string told;
};

// The same statuses with and without autoamp: bad calls one after the other, then a good one on the handle.
void badArguments(Line &line)
{
	Session session;
	Problem problem(sized(301));
	problem.upload();
	const float one = 1, zero = 0;
	const float *const A = problem.a.array.data(), *const B = problem.b.array.data();
	float *const D = problem.c.array.data();
	const int m = 301, n = 48, k = 96;
	cublasHandle_t h = session.handle;
	std::string told;
	const auto tell = [&](cublasStatus_t status) { told += (told.empty() ? "" : ",") + std::to_string(status); };
	const auto odd = static_cast<cublasOperation_t>(77);
	constexpr auto f32 = CUDA_R_32F;
	constexpr auto compute = CUBLAS_COMPUTE_32F;
	constexpr auto algo = CUBLAS_GEMM_DEFAULT;

	tell(cublasSgemm(nullptr, N, N, m, n, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, odd, N, m, n, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, -1, n, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, -1, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, n, -1, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, n, k, nullptr, A, m, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, n, k, &one, A, m, B, k, nullptr, D, m));
	tell(cublasSgemm(h, N, N, m, n, k, &one, A, m - 1, B, k, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, n, k, &one, A, m, B, k - 1, &zero, D, m));
	tell(cublasSgemm(h, N, N, m, n, k, &one, A, m, B, k, &zero, D, m - 1));
	tell(cublasSgemm(h, T, N, m, n, k, &one, A, k - 1, B, k, &zero, D, m));
	tell(cublasSgemm_64(nullptr, N, N, m, n, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemm_64(h, N, odd, m, n, k, &one, A, m, B, k, &zero, D, m));
	tell(cublasSgemmEx(nullptr, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, f32, m));
	tell(cublasSgemmEx(h, N, N, m, n, k, &one, A, CUDA_R_64F, m, B, f32, k, &zero, D, f32, m));
	tell(cublasGemmEx(nullptr, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, f32, m, compute, algo));
	tell(cublasGemmEx(h, N, N, m, n, k, &one, A, f32, m, B, CUDA_R_16F, k, &zero, D, f32, m, compute, algo));
	tell(cublasGemmEx(h, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, CUDA_R_64F, m, compute, algo));
	tell(cublasGemmEx(h, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, f32, m - 1, compute, algo));
	for (const int number : {-2, 24, 57, 98, 116, 1000}) {
		const auto other = static_cast<cublasGemmAlgo_t>(number);
		tell(cublasGemmEx(h, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, f32, m, compute, other));
		tell(cublasGemmStridedBatchedEx(h, N, N, m, n, k, &one, A, f32, m, 0, B, f32, k, 0, &zero, D, f32, m, 0, 1,
		                                compute, other));
	}
	for (const int number : {0, 23, 99, 115, 999})
		tell(cublasGemmEx(h, N, N, m, n, k, &one, A, f32, m, B, f32, k, &zero, D, f32, m, compute,
		                  static_cast<cublasGemmAlgo_t>(number)));
	tell(cublasSgemmStridedBatched(nullptr, N, N, m, n, k, &one, A, m, 0, B, k, 0, &zero, D, m, 0, 1));
	tell(cublasSgemmStridedBatched(h, N, N, m, n, k, &one, A, m, 0, B, k, 0, &zero, D, m, 0, -1));
	tell(cublasGemmStridedBatchedEx(nullptr, N, N, m, n, k, &one, A, f32, m, 0, B, f32, k, 0, &zero, D, f32, m, 0, 1,
	                                compute, algo));
	tell(cublasGemmStridedBatchedEx(h, N, N, m, n, k, &one, A, f32, m, 0, B, f32, k, 0, &zero, D, f32, m, 0, -1,
	                                compute, algo));

	const float *const arrays[] = {A, B}; // on the host: they are not read before all other arguments are valid
	const int size = 1, none = -1;
	const float *scalars = &one;
	const auto grouped = [&](cublasHandle_t handle, const int *ms, const int *lds, int count, const int *sizes) {
		tell(cublasSgemmGroupedBatched(handle, &N, &N, ms, &n, &k, scalars, arrays, lds, arrays, &k, &zero,
		                               const_cast<float *const *>(reinterpret_cast<const float *const *>(arrays)), &m,
		                               count, sizes));
	};
	grouped(nullptr, &m, &m, 1, &size);
	grouped(h, nullptr, &m, 1, &size);
	grouped(h, &none, &m, 1, &size);
	grouped(h, &m, &size, 1, &size);
	grouped(h, &m, &m, -1, &size);
	grouped(h, &m, &m, 0, &size);
	grouped(h, &m, &m, 1, &none);
	grouped(h, &m, &m, 1, nullptr);
	scalars = nullptr;
	grouped(h, &m, &m, 1, &size);
	scalars = &one;
	CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_DEVICE));
	grouped(h, &m, &m, 1, &size);
	scalars = A;
	grouped(h, &m, &m, 1, &size);
	scalars = &one;
	CHECK(cublasSetPointerMode(h, CUBLAS_POINTER_MODE_HOST));

	LtCalls lt(session, problem);
	lt.call(nullptr, lt.desc, &one, lt.a, lt.b);
	lt.call(lt.handle, lt.desc, &one, lt.a, lt.wrong);
	line.put("statuses", told + "," + lt.told);
	problem.runOn(session, line);
}

// Null arguments of cublasLtMatmul, which the real library dereferences.
void nullArguments(Line &line)
{
	Session session;
	Problem problem(sized(299));
	problem.upload();
	const float one = 1;
	LtCalls lt(session, problem);
	lt.call(lt.handle, nullptr, &one, lt.a, lt.b);
	lt.call(lt.handle, lt.desc, nullptr, lt.a, lt.b);
	lt.call(lt.handle, lt.desc, &one, nullptr, lt.b);
	lt.call(lt.handle, lt.desc, &one, lt.a, nullptr);
	line.put("statuses", lt.told);
	problem.runOn(session, line);
}

// Calls whose only lower-precision form is a mode of the handle, which must not be set.
void structured(Line &line)
{
	constexpr int size = 96;
	constexpr auto lower = CUBLAS_FILL_MODE_LOWER;
	constexpr auto left = CUBLAS_SIDE_LEFT;
	Session session;
	Problem problem({.m = size, .n = size, .k = size});
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	const float one = 1, half = 0.5f;
	const float *const A = problem.a.array.data(), *const B = problem.b.array.data();
	float *const D = problem.c.array.data();
	const cublasHandle_t h = session.handle;
	const State before(h);
	const int status = cublasSsyrk(h, lower, N, size, size, &one, A, size, &half, D, size) +
	                   cublasSsyrkx(h, lower, T, size, size, &one, A, size, B, size, &half, D, size) +
	                   cublasSsyr2k_64(h, lower, N, size, size, &one, A, size, B, size, &half, D, size) +
	                   cublasSsymm(h, left, lower, size, size, &one, A, size, B, size, &half, D, size) +
	                   cublasStrmm(h, left, lower, N, CUBLAS_DIAG_UNIT, size, size, &one, A, size, B, size, D, size);
	line.require(State(h) == before, "the handle or the pending error changed");
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	line.put("status", status).bits("bits", problem.c.array.bits());
}

// An error of the application's own call stays pending across products that succeed.
void pendingError(Line &line)
{
	Session session;
	Problem problem(sized(302));
	line.require(cudaSetDevice(-1) != cudaSuccess, "device -1 was accepted");
	problem.runOn(session, line); // requires the state to be as before, the pending error included
	line.require(cudaGetLastError() == cudaErrorInvalidDevice, "the pending error is gone");
	line.require(cudaGetLastError() == cudaSuccess, "an error is left");
}

// A times its own transpose: both operands are one buffer.
void sameOperands(Line &line)
{
	Session session;
	Problem problem({.m = 76, .n = 76, .k = 131, .transb = T});
	problem.b.each([&](float &x) { // the host's copy, for the comparison; the device reads A twice
		const auto place = static_cast<size_t>(&x - &problem.b.array[0]);
		x = problem.a.array[place];
	});
	problem.upload();
	const float one = 1, zero = 0;
	const float *const A = problem.a.array.data();
	const int status =
	    cublasSgemm(session.handle, N, T, 76, 76, 131, &one, A, 76, A, 76, &zero, problem.c.array.data(), 76);
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	problem.describe(line);
	const Answer answer = problem.compare();
	line.put("status", status).bits("bits", problem.c.array.bits()).put("eta", answer.eta).put("omega", answer.omega);
	bool isSymmetric = true;
	for (int i = 0; i < 76; i++)
		for (int j = 0; j < i; j++)
			isSymmetric = isSymmetric && std::fabs(problem.c.at(0, i, j) - problem.c.at(0, j, i)) < 1e-2f;
	line.require(isSymmetric, "A times its transpose is not symmetric");
}

// The handle's own workspace: nothing outside it is written, and the next call works as before.
void userWorkspace(Line &line)
{
	constexpr size_t floats = 1 << 20;
	Session session;
	Problem problem(sized(303));
	Array space(floats);
	space.upload();
	CHECK(cublasSetWorkspace(session.handle, space.data(), floats * sizeof(float)));
	problem.runOn(session, line);
	space.download();
	line.require(space.isWholeOutside(std::vector<bool>(floats, true)), "memory outside of the workspace changed");
}

// Everything is enqueued on the handle's stream, with one wait at the end: operands, C and scalars arrive just before
// and are overwritten just after; a result is read just after.
void streamOrder(bool isDevice, Line &line)
{
	Session session;
	const Spec spec = {.m = isDevice ? 309 : 304, .alpha = -2, .beta = 0.5f, .hasDeviceScalars = isDevice};
	Problem problem(spec), other(spec, 2);
	problem.upload();
	other.setScalars(3, 7);
	other.upload();
	const auto replace = [&](const Array &target, const Array &source) {
		CHECK(cudaMemcpyAsync(target.data(), source.data(), target.size() * sizeof(float), cudaMemcpyDeviceToDevice,
		                      session.stream));
	};
	replace(problem.a.array, other.a.array);
	replace(problem.c.array, other.c.array);
	replace(problem.scalars, other.scalars);
	CHECK(cudaDeviceSynchronize());
	problem.a.array.uploadAsync(session.stream);
	problem.c.array.uploadAsync(session.stream);
	problem.scalars.uploadAsync(session.stream);
	const int status = problem.call(session.handle);
	replace(problem.a.array, other.a.array);
	replace(problem.scalars, other.scalars);
	problem.c.array.downloadAsync(session.stream);
	CHECK(cudaStreamSynchronize(session.stream));
	problem.describe(line);
	const Answer answer = problem.compare(); // against the host's A, not its present content
	line.put("status", status).bits("bits", problem.c.array.bits()).put("eta", answer.eta).put("omega", answer.omega);
	line.require(answer.eta < 4e-3, "the product met other operands than its own");
}

// A product on one stream feeds a product on another, ordered by an event.
void streamEvent(Line &line)
{
	Session first, second;
	Problem problem({.m = 90, .n = 50, .k = 96}), next({.m = 305, .n = 50, .k = 90});
	problem.upload();
	next.upload();
	cudaEvent_t done = nullptr;
	CHECK(cudaEventCreateWithFlags(&done, cudaEventDisableTiming));
	CHECK(cudaDeviceSynchronize());
	int status = problem.call(first.handle);
	CHECK(cudaEventRecord(done, first.stream));
	CHECK(cudaStreamWaitEvent(second.stream, done, 0));
	const float one = 1, zero = 0;
	status += cublasSgemm(second.handle, N, N, 305, 50, 90, &one, next.a.array.data(), 305, problem.c.array.data(), 90,
	                      &zero, next.c.array.data(), 305);
	CHECK(cudaStreamSynchronize(second.stream));
	CHECK(cudaEventDestroy(done));
	problem.download();
	next.c.array.download();
	for (int64_t j = 0; j < 50; j++)
		for (int64_t i = 0; i < 90; i++)
			next.b.array[next.b.index(0, i, j)] = problem.c.at(0, i, j);
	next.describe(line);
	const Answer answer = next.compare();
	line.put("status", status).bits("bits", next.c.array.bits()).put("eta", answer.eta).put("omega", answer.omega);
	line.require(answer.eta < 4e-3, "the second product met an unfinished first one");
}

// The null stream, and the per-thread one.
void nullStream(Line &line)
{
	Session session;
	for (cudaStream_t stream : {cudaStream_t{nullptr}, cudaStreamPerThread}) {
		CHECK(cublasSetStream(session.handle, stream));
		Problem problem(sized(306));
		problem.upload();
		const int status = problem.call(session.handle);
		CHECK(cudaDeviceSynchronize());
		problem.download();
		line.require(status == 0 && problem.compare().eta < 4e-3, "wrong result");
		if (stream)
			line.bits("bits", problem.c.array.bits());
		else
			line.bits("null_bits", problem.c.array.bits());
	}
}

// Two handles with their own streams, scalars and modes, in turn.
void twoHandles(Line &line)
{
	Session one, two;
	Problem first({.m = 307, .alpha = 2, .hasDeviceScalars = true}), second({.m = 308, .alpha = 0.5f}, 2);
	first.upload();
	second.upload();
	CHECK(cudaDeviceSynchronize());
	int status = 0;
	for (int turn = 0; turn < 3; turn++)
		status += first.call(one.handle) + second.call(two.handle);
	CHECK(cudaDeviceSynchronize());
	first.download();
	second.download();
	line.put("status", status).bits("bits", first.c.array.bits()).bits("second_bits", second.c.array.bits());
	line.require(first.compare().eta < 4e-3 && second.compare().eta < 4e-3, "wrong result");
}

constexpr int threadCount = 4, callCount = 8;

// Threads with their own handle, stream and data; all make their first calls at once.
void ownThreads(Line &line)
{
	std::vector<std::thread> threads;
	std::array<uint64_t, threadCount> bits{};
	std::atomic<int> wrong{0}, waiting{threadCount};
	for (int i = 0; i < threadCount; i++)
		threads.emplace_back([&, i] {
			Session session;
			Problem problem({.m = 310 + i % 2, .alpha = 1.0f + static_cast<float>(i)}, static_cast<uint64_t>(i));
			problem.upload();
			CHECK(cudaDeviceSynchronize());
			waiting--;
			while (waiting > 0)
				std::this_thread::yield();
			for (int turn = 0; turn < callCount; turn++)
				wrong += problem.call(session.handle) != 0;
			CHECK(cudaStreamSynchronize(session.stream));
			problem.download();
			wrong += problem.compare().eta >= 4e-3;
			bits[static_cast<size_t>(i)] = problem.c.array.bits();
		});
	for (std::thread &thread : threads)
		thread.join();
	line.put("calls", threadCount * callCount).bits("bits", hash(bits.data(), sizeof bits));
	line.require(wrong == 0, "a thread had a wrong result");
}

// Threads that share one handle, as the vendor allows while no thread changes it.
void sharedHandle(Line &line)
{
	Session session;
	std::vector<std::unique_ptr<Problem>> problems;
	for (int i = 0; i < threadCount; i++) {
		problems.push_back(std::make_unique<Problem>(Spec{.m = 312}, static_cast<uint64_t>(i)));
		problems.back()->upload();
	}
	CHECK(cudaDeviceSynchronize());
	std::vector<std::thread> threads;
	std::atomic<int> wrong{0};
	for (auto &problem : problems)
		threads.emplace_back([&] {
			const float one = 1, zero = 0;
			for (int turn = 0; turn < callCount; turn++)
				wrong += cublasSgemm(session.handle, N, N, 312, 48, 96, &one, problem->a.array.data(), 312,
				                     problem->b.array.data(), 96, &zero, problem->c.array.data(), 312) != 0;
		});
	for (std::thread &thread : threads)
		thread.join();
	CHECK(cudaStreamSynchronize(session.stream));
	uint64_t bits = 0;
	for (auto &problem : problems) {
		problem->download();
		wrong += problem->compare().eta >= 4e-3;
		bits = bits * 31 + problem->c.array.bits();
	}
	line.put("calls", threadCount * callCount).bits("bits", bits);
	line.require(wrong == 0, "a thread had a wrong result");
}

// Two devices at once, a thread each; the same data gives the same bits on both.
void twoDevices(Line &line)
{
	int count = 0;
	CHECK(cudaGetDeviceCount(&count));
	if (count < 2) {
		line.put("skipped", "one_device");
		return;
	}
	std::array<uint64_t, 2> bits{};
	std::atomic<int> wrong{0};
	std::vector<std::thread> threads;
	for (int device = 0; device < 2; device++)
		threads.emplace_back([&, device] {
			CHECK(cudaSetDevice(device));
			Session session;
			Problem problem(sized(313));
			problem.upload();
			CHECK(cudaDeviceSynchronize());
			for (int turn = 0; turn < callCount; turn++)
				wrong += problem.call(session.handle) != 0;
			CHECK(cudaStreamSynchronize(session.stream));
			problem.download();
			wrong += problem.compare().eta >= 4e-3;
			bits[static_cast<size_t>(device)] = problem.c.array.bits();
			int now = -1;
			CHECK(cudaGetDevice(&now));
			wrong += now != device;
		});
	for (std::thread &thread : threads)
		thread.join();
	line.put("calls", 2 * callCount).bits("bits", bits[0]);
	line.require(bits[0] == bits[1], "the devices differ");
	line.require(wrong == 0, "a device had a wrong result");
	// One thread that switches devices.
	for (int device : {1, 0, 1, 0}) {
		CHECK(cudaSetDevice(device));
		Session session;
		Problem problem(sized(314));
		problem.upload();
		CHECK(cudaDeviceSynchronize());
		line.require(problem.call(session.handle) == 0, "a call failed after a change of device");
		CHECK(cudaStreamSynchronize(session.stream));
		problem.download();
		line.require(problem.compare().eta < 4e-3, "wrong result after a change of device");
	}
	CHECK(cudaSetDevice(0));
}

// The device is reset in the middle; everything is created again, the results have the same bits.
void deviceReset(Line &line)
{
	std::array<uint64_t, 3> bits{};
	for (uint64_t &result : bits) {
		{
			Session session;
			Problem problem(sized(315));
			problem.upload();
			CHECK(cudaDeviceSynchronize());
			line.require(problem.call(session.handle) == 0, "a call failed");
			line.require(problem.call(session.handle) == 0, "a second call failed");
			CHECK(cudaStreamSynchronize(session.stream));
			problem.download();
			line.require(problem.compare().eta < 4e-3, "wrong result");
			result = problem.c.array.bits();
		}
		CHECK(cudaDeviceReset());
	}
	line.put("calls", 6).bits("bits", bits[0]);
	line.require(bits[0] == bits[1] && bits[1] == bits[2], "other bits after a reset");
	line.require(cudaGetLastError() == cudaSuccess, "an error is left");
}

// Arbitrary combinations in an application.
Spec anySpec(int place)
{
	Random random(static_cast<uint64_t>(place) + 1000);
	const auto below = [&](int bound) { return static_cast<int>(random.uniform() * bound); };
	const cublasOperation_t operations[] = {N, T, C};
	const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT,     CUBLASLT_EPILOGUE_BIAS,
	                                        CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_BIAS,
	                                        CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
	                                        CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA};
	Spec spec = {.m = 320 + place, .n = 32 + below(50), .k = 16 + below(100)};
	constexpr Interception doors[] = {Interception::sgemm,
	                                  Interception::sgemmEx,
	                                  Interception::gemmEx,
	                                  Interception::sgemmStridedBatched,
	                                  Interception::gemmStridedBatchedEx,
	                                  Interception::sgemmBatched,
	                                  Interception::gemmBatchedEx,
	                                  Interception::ltMatmul};
	spec.door = doors[place % 8];
	const bool isLt = spec.door == Interception::ltMatmul;
	spec.is64 = !isLt && below(2);
	if (isLt || spec.door == Interception::sgemmStridedBatched || spec.door == Interception::gemmStridedBatchedEx)
		spec.batch = 1 + below(3);
	spec.transa = operations[below(3)];
	spec.transb = operations[below(3)];
	spec.padA = below(2) * below(20);
	spec.padB = below(2) * below(20);
	spec.padC = below(2) * below(20);
	spec.gap = below(2) * below(20);
	spec.sharesA = spec.batch > 1 && !below(4);
	spec.sharesB = spec.batch > 1 && !below(4);
	spec.shiftA = static_cast<unsigned>(below(4));
	spec.shiftB = static_cast<unsigned>(below(4));
	spec.shiftC = static_cast<unsigned>(below(4));
	spec.alpha = static_cast<float>(random.gaussian());
	spec.beta = below(2) ? static_cast<float>(random.gaussian()) : 0;
	spec.hasDeviceScalars = below(2);
	if (isLt) {
		spec.epilogue = epilogues[below(8)];
		spec.isRowA = below(2);
		spec.isRowB = below(2);
		spec.ltHandle = static_cast<LtHandle>(below(2));
		spec.objects = below(2) ? Objects::created : Objects::onStack;
		spec.hasOwnD = below(2);
	}
	return spec;
}

std::vector<Case> allCases()
{
	std::vector<Case> cases;
	int m = 36;
	for (const Row &row : rows) {
		Spec spec = row.spec;
		if (spec.m == 0)
			spec.m = ++m;
		else if (spec.m < 0)
			spec.m = 0;
		cases.push_back({row.name, [spec](Line &line) { runSpec(spec, line); }});
	}
	for (int place = 0; place < 48; place++)
		cases.push_back({"any." + std::to_string(place), [place](Line &line) { runSpec(anySpec(place), line); }});
	const Case more[] = {
	    {"state.bad_arguments", badArguments},
	    {"sized.null_arguments", nullArguments}, // not on a GPU
	    {"state.structured", structured},
	    {"state.pending_error", pendingError},
	    {"state.workspace", userWorkspace},
	    {"alias.same_operands", sameOperands},
	    {"stream.order", [](Line &line) { streamOrder(false, line); }},
	    {"stream.order_device", [](Line &line) { streamOrder(true, line); }},
	    {"stream.event", streamEvent},
	    {"stream.null", nullStream},
	    {"handles.two", twoHandles},
	    {"threads.own", ownThreads},
	    {"threads.shared", sharedHandle},
	    {"devices.two", twoDevices},
	    {"devices.reset", deviceReset},
	};
	cases.insert(cases.end(), std::begin(more), std::end(more));
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
