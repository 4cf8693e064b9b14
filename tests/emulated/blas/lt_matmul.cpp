// cublasLtMatmul and its heuristic on the emulated device.
#include "tests/emulated/blas/fixture.h"

namespace {

using Results = std::vector<cublasLtMatmulHeuristicResult_t>;
constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto Unsupported = CUBLAS_STATUS_NOT_SUPPORTED;

int idOf(const cublasLtMatmulAlgo_t &algo)
{
	int id = -1;
	CHECK(cublasLtMatmulAlgoConfigGetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof id, nullptr) == 0);
	return id;
}

} // namespace

TEST_CASE("Epilogues, separate C and D, batches, row order")
{
	Blas blas;
	const int m = 24, n = 16, k = 40;
	auto a = randomFloats(m * k, 1), b = randomFloats(k * n, 2), c = randomFloats(m * n, 3), bias = randomFloats(m, 4);
	auto product = reference(false, false, m, n, k, a, b, [](float value) { return value; });
	DeviceArray<float> A(a), B(b), C(c), D(m * n), Bias(bias);
	for (auto epilogue :
	     {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS, CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_RELU_BIAS}) {
		LtCall call(m, n, k);
		call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
		if (epilogue & CUBLASLT_EPILOGUE_BIAS) {
			CHECK(call.run(blas.lt(), A, B, C, D) == Invalid); // no bias yet
			call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(Bias.get()));
		}
		REQUIRE(call.run(blas.lt(), A, B, C, D, nullptr, nullptr, 0, 0.5f, 2) == 0);
		auto values = D.read();
		int negative = 0;
		for (int i = 0; i < m * n; ++i) {
			double exact = 0.5 * product[i] + 2 * c[i] + (epilogue & CUBLASLT_EPILOGUE_BIAS ? bias[i % m] : 0);
			exact = epilogue & CUBLASLT_EPILOGUE_RELU ? std::max(exact, 0.) : exact;
			REQUIRE(std::abs(values[i] - exact) < 1e-5);
			negative += values[i] < 0;
		}
		CHECK((negative > 0) == !(epilogue & CUBLASLT_EPILOGUE_RELU));
		CHECK(sameBits(C.read(), c));
	}
	LtCall plain(m, n, k);
	REQUIRE(plain.run(blas.lt(), A, B, C, D) == 0);
	auto columns = D.read();
	SECTION("rows: the transposes of column-major matrices")
	{
		LtCall rows(n, m, k); // D^T = B^T A^T
		const auto order = CUBLASLT_ORDER_ROW;
		for (cublasLtMatrixLayout_t layout : {rows.a, rows.b, rows.c, rows.d})
			rows.set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, order);
		rows.set(rows.a, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(k));
		rows.set(rows.b, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(m));
		rows.set(rows.c, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(m));
		rows.set(rows.d, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(m));
		cudaMemset(D, 0, m * n * sizeof(float));
		REQUIRE(rows.run(blas.lt(), B, A, C, D) == 0);
		CHECK(sameBits(D.read(), columns));
		rows.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
		rows.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(Bias.get()));
		CHECK(rows.run(blas.lt(), B, A, C, D) == Unsupported);
		rows.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
		rows.set(rows.a, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL32);
		CHECK(rows.run(blas.lt(), B, A, C, D) == Unsupported);
		rows.set(rows.a, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL);
		rows.set(rows.a, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(n));
		rows.set(rows.c, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL);
		CHECK(rows.run(blas.lt(), B, A, C, D) == Invalid); // C and D in different orders
	}
	SECTION("a batch, with a bias for each matrix")
	{
		const int batch = 3;
		DeviceArray<float> Ds(m * n * batch), biases(randomFloats(m * batch, 5));
		LtCall call(m, n, k);
		call.setBatch(batch, 0, 0, m * n);
		call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
		call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(biases.get()));
		call.set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t(m));
		REQUIRE(call.run(blas.lt(), A, B, Ds, Ds) == 0);
		auto values = Ds.read(), added = biases.read();
		for (int i = 0; i < m * n * batch; ++i)
			REQUIRE(values[i] == columns[i % (m * n)] + added[i / (m * n) * m + i % m]);
		call.set(call.b, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 2);
		CHECK(call.run(blas.lt(), A, B, Ds, Ds) == Invalid);
	}
	SECTION("device scalars")
	{
		DeviceArray<float> scalars(std::vector<float>{2, 0});
		plain.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
		REQUIRE(cublasLtMatmul(blas.lt(), plain.desc, scalars, A, plain.a, B, plain.b, scalars + 1, C, plain.c, D,
		                       plain.d, nullptr, nullptr, 0, nullptr) == 0);
		CHECK(D.read()[3] == 2 * columns[3]);
	}
	SECTION("C broadcast over the columns, C absent")
	{
		plain.set(plain.c, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(0));
		REQUIRE(plain.run(blas.lt(), A, B, C, D, nullptr, nullptr, 0, 1, 1) == 0);
		auto values = D.read();
		CHECK(values[5 + 7 * m] == columns[5 + 7 * m] + c[5]);
		LtCall call(m, n, k);
		CHECK(call.run(blas.lt(), A, B, nullptr, D) == 0);
		CHECK(sameBits(D.read(), columns));
		CHECK(call.run(blas.lt(), A, B, nullptr, D, nullptr, nullptr, 0, 1, 1) == Invalid);
	}
}

TEST_CASE("Matmul arguments")
{
	Blas blas;
	DeviceArray<float> memory(1024);
	float *A = memory, *B = memory + 256, *D = memory + 512;
	LtCall call(8, 8, 8);
	Results results;
	const float one = 1, zero = 0;
	CHECK(call.run(nullptr, A, B, D, D) == CUBLAS_STATUS_NOT_INITIALIZED);
	CHECK(call.run(blas.lt(), nullptr, B, D, D) == Invalid);
	CHECK(call.run(blas.lt(), A, nullptr, D, D) == Invalid);
	CHECK(call.run(blas.lt(), A, B, D, nullptr) == Invalid);
	CHECK(call.run(blas.lt(), A, B, D, D) == 0);
	CHECK(cublasLtMatmul(blas.lt(), nullptr, &one, A, call.a, B, call.b, &zero, D, call.c, D, call.d, nullptr, nullptr,
	                     0, nullptr) == Invalid);
	CHECK(cublasLtMatmul(blas.lt(), call.desc, &one, A, call.a, B, call.b, &zero, D, nullptr, D, call.d, nullptr,
	                     nullptr, 0, nullptr) == 0); // Cdesc NULL means Ddesc
	CHECK(cublasLtMatmul(blas.lt(), call.desc, nullptr, A, call.a, B, call.b, &zero, D, call.c, D, call.d, nullptr,
	                     nullptr, 0, nullptr) == Invalid);
	CHECK(call.run(blas.lt(), A, B, D, D, nullptr, memory + 1, 256) == Invalid); // workspace misaligned
	call.set(call.c, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(16));
	CHECK(call.run(blas.lt(), A, B, D, D) == Invalid); // in place through two views
	CHECK(call.run(blas.lt(), A, B, memory + 600, D) == 0);
	for (auto [id, value] : {std::pair{CUBLASLT_MATRIX_LAYOUT_LD, int64_t(7)},
	                         {CUBLASLT_MATRIX_LAYOUT_ROWS, int64_t(9)},
	                         {CUBLASLT_MATRIX_LAYOUT_COLS, int64_t(5)}}) {
		LtCall wrong(8, 8, 8);
		wrong.set(wrong.a, id, value);
		CHECK(wrong.run(blas.lt(), A, B, D, D) == Invalid);
		CHECK(wrong.heuristic(blas.lt(), results) == Invalid);
	}
	LtCall scaled(8, 8, 8);
	scaled.set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void *>(memory));
	CHECK(scaled.run(blas.lt(), A, B, D, D) == Invalid);
	LtCall half(8, 8, 8, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_16F, CUDA_R_16F);
	CHECK(half.run(blas.lt(), A, B, D, D) == Unsupported);
	CHECK(half.heuristic(blas.lt(), results) == Unsupported);
	LtCall mixedScale(8, 8, 8, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F, CUDA_R_32F);
	CHECK(mixedScale.heuristic(blas.lt(), results) == Unsupported);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("The heuristic keeps to alignments and workspace")
{
	Blas blas;
	int count = 5;
	LtCall call(64, 64, 64);
	cublasLtMatmulHeuristicResult_t one;
	auto ask = [&](cublasLtHandle_t handle, int most) {
		return cublasLtMatmulAlgoGetHeuristic(handle, call.desc, call.a, call.b, call.c, call.d, call.preference, most,
		                                      &one, &count);
	};
	CHECK(ask(nullptr, 0) == CUBLAS_STATUS_NOT_INITIALIZED);
	CHECK(count == 5);
	CHECK(ask(blas.lt(), 0) == Invalid);
	Results results;
	REQUIRE(call.heuristic(blas.lt(), results) == 0);
	REQUIRE(results.size() == 2); // vectors of 16 bytes, then any alignment
	CHECK(idOf(results[0].algo) == 0);
	CHECK(idOf(results[1].algo) == 1);
	CHECK(call.heuristic(blas.lt(), results, 1) == 0);
	CHECK(results.size() == 1);

	for (auto [alignment, first] : {std::pair{16u, 0}, {8u, 1}, {4u, 1}}) {
		call.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
		REQUIRE(call.heuristic(blas.lt(), results) == 0);
		CHECK(idOf(results[0].algo) == first);
	}
	call.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, uint32_t(2)); // less than an element
	CHECK(call.heuristic(blas.lt(), results) == Unsupported);
	LtCall odd(63, 64, 64); // columns of 63 floats are not all 16-byte aligned
	REQUIRE(odd.heuristic(blas.lt(), results) == 0);
	CHECK((results.size() == 1 && idOf(results[0].algo) == 1));

	LtCall deep(32, 32, 2048);
	deep.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(1 << 20));
	REQUIRE(deep.heuristic(blas.lt(), results) == 0);
	REQUIRE(results.size() == 3);
	CHECK(idOf(results[0].algo) == 2);
	CHECK(results[0].workspaceSize == 2 * 32 * 32 * sizeof(float));
	const cublasLtMatmulAlgo_t split = results[0].algo, plain = results[1].algo;
	deep.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_INPLACE));
	CHECK(deep.heuristic(blas.lt(), results) == 0);
	CHECK(results.size() == 2);
	deep.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t(CUBLASLT_REDUCTION_SCHEME_MASK));
	deep.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(8191));
	CHECK(deep.heuristic(blas.lt(), results) == 0);
	CHECK(results.size() == 2);

	auto a = randomFloats(32 * 2048, 1), b = randomFloats(32 * 2048, 2);
	DeviceArray<float> A(a), B(b), D(32 * 32), workspace(4096);
	CHECK(deep.run(blas.lt(), A, B, D, D, &split) == Invalid); // too little workspace
	CHECK(deep.run(blas.lt(), A, B, D, D, &split, workspace, 8191) == Invalid);
	REQUIRE(deep.run(blas.lt(), A, B, D, D, &split, workspace, 8192) == 0);
	auto splitSum = D.read();
	auto exact = reference(false, false, 32, 32, 2048, a, b, [](float value) { return value; });
	CHECK(relativeError(splitSum, exact) < 1e-6);
	REQUIRE(deep.run(blas.lt(), A, B, D, D, &plain) == 0);
	CHECK(relativeError(D.read(), exact) < 1e-6);
	CHECK(!sameBits(D.read(), splitSum)); // another algorithm, other bits: a client that mixes them is detected
	REQUIRE(deep.run(blas.lt(), A, B, D, D, nullptr, workspace, 8192) == 0); // the implicit query finds the same
	CHECK(sameBits(D.read(), splitSum));
}

TEST_CASE("An algorithm serves what it was made for")
{
	Blas blas;
	DeviceArray<float> memory(4096);
	float *A = memory, *B = memory + 1024, *D = memory + 2048;
	LtCall call(16, 16, 16);
	Results results;
	REQUIRE(call.heuristic(blas.lt(), results) == 0);
	const cublasLtMatmulAlgo_t vector = results[0].algo, any = results[1].algo;
	CHECK(call.run(blas.lt(), A, B, D, D, &vector) == 0);
	CHECK(call.run(blas.lt(), A + 1, B, D, D, &vector) == Unsupported); // promised 256 bytes, gave 4
	CHECK(call.run(blas.lt(), A + 1, B, D, D, &any) == 0);
	LtCall odd(15, 16, 16);
	CHECK(odd.run(blas.lt(), A, B, D, D, &vector) == Unsupported);
	CHECK(odd.run(blas.lt(), A, B, D, D, &any) == 0);
	LtCall half(16, 16, 16, CUDA_R_16F, CUDA_R_32F);
	CHECK(half.run(blas.lt(), A, B, D, D, &any) == Invalid);
	LtCall fast(16, 16, 16, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32);
	CHECK(fast.run(blas.lt(), A, B, D, D, &any) == Invalid);
	LtCall transposed(16, 16, 16);
	transposed.set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
	CHECK(transposed.run(blas.lt(), A, B, D, D, &any) == Invalid);
	const cublasLtMatmulAlgo_t nothing{};
	CHECK(call.run(blas.lt(), A, B, D, D, &nothing) == Invalid);

	cublasLtMatmulHeuristicResult_t checked;
	CHECK(cublasLtMatmulAlgoCheck(blas.lt(), call.desc, call.a, call.b, call.c, call.d, &any, &checked) == 0);
	CHECK((checked.state == 0 && checked.workspaceSize == 0 && checked.wavesCount > 0));
	CHECK(cublasLtMatmulAlgoCheck(blas.lt(), half.desc, half.a, half.b, half.c, half.d, &any, &checked) == Invalid);

	cublasLtMatmulAlgo_t own;
	auto init = [&](int id) {
		return cublasLtMatmulAlgoInit(blas.lt(), CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
		                              CUDA_R_32F, id, &own);
	};
	CHECK(init(77) == Invalid);
	REQUIRE(init(2) == 0);
	CHECK(call.run(blas.lt(), A, B, D, D, &own) == Invalid); // its split is not configured
	int32_t parts = 2;
	uint32_t scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	auto configure = [&](cublasLtMatmulAlgoConfigAttributes_t id, const void *value, size_t size) {
		return cublasLtMatmulAlgoConfigSetAttribute(&own, id, value, size);
	};
	CHECK(configure(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, 8) == Invalid);
	CHECK(configure(CUBLASLT_ALGO_CONFIG_ID, &parts, 4) == Invalid);
	CHECK(configure(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &parts, 4) == 0);
	CHECK(configure(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, 4) == 0);
	CHECK(call.run(blas.lt(), A, B, D, D, &own, memory + 3072, 4096) == 0);
	int32_t supported = 0;
	size_t written = 0;
	CHECK(cublasLtMatmulAlgoCapGetAttribute(&own, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, &supported, 4, &written) == 0);
	CHECK((supported == 1 && written == 4));
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("A descriptor of an older library's size")
{
	Blas blas;
	DeviceArray<float> memory(std::vector<float>(256, 1));
	alignas(8) char room[96];
	std::memset(room, 0x5a, sizeof room);
	auto *desc = reinterpret_cast<cublasLtMatmulDesc_t>(room);
	REQUIRE(cublasLtMatmulDescInit_internal(desc, 56, CUBLAS_COMPUTE_32F, CUDA_R_32F) == 0);
	LtCall call(8, 8, 8);
	const float one = 1, zero = 0;
	CHECK(cublasLtMatmul(blas.lt(), desc, &one, memory, call.a, memory, call.b, &zero, memory + 128, call.c,
	                     memory + 128, call.d, nullptr, nullptr, 0, nullptr) == 0);
	CHECK(memory.read()[128] == 8);
	for (int i = 56; i < 96; ++i)
		REQUIRE(room[i] == 0x5a);
}
