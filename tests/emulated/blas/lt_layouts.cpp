// Positions of the matrices and scalars of cublasLtMatmul: orders, batches by stride or by pointers, pointer modes.
#include "tests/emulated/blas/fixture.h"

namespace {

constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto Unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
constexpr int m = 12, n = 8, k = 20, batch = 3;

// A stored matrix of an Lt call and its content.
struct Stored {
	int rows, columns;
	bool byRows;
	std::vector<float> values;

	Stored(int rowCount, int columnCount, bool rowMajor, unsigned seed)
	    : rows(rowCount), columns(columnCount), byRows(rowMajor),
	      values(randomFloats(size_t(ld()) * (byRows ? rows : columns) * batch, seed))
	{
	}
	int ld() const { return (byRows ? columns : rows) + 4; }
	int stride() const { return ld() * (byRows ? rows : columns); }
	size_t at(int z, int row, int column) const
	{
		return size_t(z * stride() + (byRows ? row * ld() + column : row + column * ld()));
	}
	float get(int z, int row, int column, bool isTransposed = false) const
	{
		return values[isTransposed ? at(z, column, row) : at(z, row, column)];
	}
};

void lay(LtCall &call, cublasLtMatrixLayout_t layout, const Stored &matrix, bool arrays)
{
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t(matrix.rows));
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t(matrix.columns));
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(matrix.ld()));
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, matrix.byRows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL);
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t(arrays ? 0 : matrix.stride()));
	if (arrays)
		call.set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, CUBLASLT_BATCH_MODE_POINTER_ARRAY);
}

// Device pointers to the matrices of a batch, the last first.
std::vector<double *> pointersTo(float *memory, int stride)
{
	std::vector<double *> pointers;
	for (int z = 0; z < batch; ++z)
		pointers.push_back(reinterpret_cast<double *>(memory + (batch - 1 - z) * stride));
	return pointers;
}

} // namespace

TEST_CASE("Matrices by rows or columns, transposed or not, a stride apart or where an array says")
{
	Blas blas;
	for (int bits = 0; bits < 64; ++bits) {
		const auto is = [bits](int bit) { return bits >> bit & 1; };
		const bool ta = is(0), tb = is(1), arrays = is(5);
		INFO(bits);
		const Stored a(ta ? k : m, ta ? m : k, is(2), 1), b(tb ? n : k, tb ? k : n, is(3), 2), c(m, n, is(4), 3);
		DeviceArray<float> A(a.values), B(b.values), C(c.values), D(c.values);
		DeviceArray<double *> As(pointersTo(A, a.stride())), Bs(pointersTo(B, b.stride())),
		    Cs(pointersTo(C, c.stride())), Ds(pointersTo(D, c.stride()));
		LtCall call(m, n, k);
		call.set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N);
		call.set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N);
		for (auto [layout, matrix] : {std::pair{call.a, &a}, {call.b, &b}, {call.c, &c}, {call.d, &c}})
			lay(call, layout, *matrix, arrays);
		std::vector<cublasLtMatmulHeuristicResult_t> results;
		REQUIRE(call.heuristic(blas.lt(), results) == 0);
		REQUIRE((arrays ? call.run(blas.lt(), As, Bs, Cs, Ds, &results[0].algo, nullptr, 0, 2, 0.5f)
		                : call.run(blas.lt(), A, B, C, D, &results[0].algo, nullptr, 0, 2, 0.5f)) == 0);
		const auto values = D.read();
		for (int z = 0; z < batch; ++z)
			for (int i = 0; i < m; ++i)
				for (int j = 0; j < n; ++j) {
					double sum = 0.5 * c.get(z, i, j);
					for (int l = 0; l < k; ++l)
						sum += 2. * a.get(z, i, l, ta) * b.get(z, l, j, tb);
					REQUIRE(std::abs(values[c.at(z, i, j)] - sum) < 1e-5);
				}
		for (size_t i = 0; i < values.size(); ++i) // the gaps between columns
			if (int(i) % c.ld() >= c.ld() - 4)
				REQUIRE(values[i] == c.values[i]);
	}
}

TEST_CASE("An array of pointers is read when the work runs")
{
	Blas blas;
	const Stored a(m, k, false, 1), b(k, n, false, 2), c(m, n, false, 3);
	DeviceArray<float> A(a.values), B(b.values), D(c.values);
	DeviceArray<double *> As(pointersTo(A, a.stride())), Bs(pointersTo(B, b.stride())), Ds(batch);
	LtCall call(m, n, k);
	for (auto [layout, matrix] : {std::pair{call.a, &a}, {call.b, &b}, {call.c, &c}, {call.d, &c}})
		lay(call, layout, *matrix, true);
	double **late = nullptr;
	REQUIRE(cudaMallocHost(reinterpret_cast<void **>(&late), batch * sizeof *late) == cudaSuccess);
	cudaMemcpyAsync(Ds, late, batch * sizeof *late, cudaMemcpyHostToDevice, nullptr);
	REQUIRE(call.run(blas.lt(), As, Bs, nullptr, Ds) == 0);
	const auto pointers = pointersTo(D, c.stride());
	std::copy(pointers.begin(), pointers.end(), late); // before the copy runs: there was no synchronisation yet
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
	CHECK(D.read()[0] != c.values[0]);
	cudaFreeHost(late);

	std::vector<cublasLtMatmulHeuristicResult_t> results;
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU);
	CHECK(call.heuristic(blas.lt(), results) == Unsupported);
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
	for (int mode = CUBLASLT_POINTER_MODE_HOST; mode <= CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST; ++mode) {
		call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, mode);
		CHECK(call.heuristic(blas.lt(), results) == (mode < 2 ? CUBLAS_STATUS_SUCCESS : Unsupported));
	}
	call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_HOST);
	call.set(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, int64_t(m));
	CHECK(call.heuristic(blas.lt(), results) == Invalid);
	call.set(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, int64_t(0));
	call.set(call.b, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, CUBLASLT_BATCH_MODE_STRIDED);
	CHECK(call.heuristic(blas.lt(), results) == Invalid);
	for (cublasLtMatrixLayout_t layout : {call.a, call.b, call.c, call.d})
		call.set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 2);
	CHECK(call.heuristic(blas.lt(), results) == Invalid);
}

TEST_CASE("Scalars in each pointer mode, some of them a vector")
{
	Blas blas;
	const Stored a(m, k, false, 1), b(k, n, false, 2), c(m, n, false, 3);
	const auto factors = randomFloats(2 * m * batch, 4);
	DeviceArray<float> A(a.values), B(b.values), C(c.values), D(c.values), vectors(factors);
	const float one = 1, alphaValue = 3, betaValue = 0.25f;
	const float *alphas = vectors, *betas = vectors + m * batch;
	const struct {
		cublasLtPointerMode_t mode;
		const float *alpha, *beta;
		bool alphaVector;
		int64_t stride;
		double (*betaOf)(const std::vector<float> &, int row);
	} rows[] = {
	    {CUBLASLT_POINTER_MODE_HOST, &alphaValue, &betaValue, false, 0, [](const auto &, int) { return 0.25; }},
	    {CUBLASLT_POINTER_MODE_DEVICE, alphas, betas, false, 0,
	     [](const auto &from, int) { return double(from[m * batch]); }},
	    {CUBLASLT_POINTER_MODE_DEVICE_VECTOR, alphas, betas, true, 0,
	     [](const auto &from, int row) { return double(from[size_t(m * batch + row)]); }},
	    {CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO, alphas, nullptr, true, 0,
	     [](const auto &, int) { return 0.; }},
	    {CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST, alphas, &betaValue, true, m,
	     [](const auto &, int) { return 0.25; }},
	};
	for (const auto &row : rows) {
		INFO(row.mode);
		LtCall call(m, n, k);
		for (auto [layout, matrix] : {std::pair{call.a, &a}, {call.b, &b}, {call.c, &c}, {call.d, &c}})
			lay(call, layout, *matrix, false);
		call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, row.mode);
		call.set(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, row.stride);
		const auto run = [&](const float *alpha, const float *beta) {
			return cublasLtMatmul(blas.lt(), call.desc, alpha, A, call.a, B, call.b, beta, C, call.c, D, call.d,
			                      nullptr, nullptr, 0, nullptr);
		};
		CHECK(run(nullptr, &one) == Invalid);
		if (row.beta)
			CHECK(run(row.alpha, nullptr) == Invalid);
		REQUIRE(run(row.alpha, row.beta) == 0);
		const auto values = D.read();
		for (int z = 0; z < batch; ++z)
			for (int i = 0; i < m; ++i)
				for (int j = 0; j < n; ++j) {
					double sum = 0;
					for (int l = 0; l < k; ++l)
						sum += double(a.get(z, i, l)) * b.get(z, l, j);
					const double alpha = row.alphaVector ? factors[size_t(i + row.stride * z)]
					                     : row.mode      ? factors[0]
					                                     : alphaValue;
					REQUIRE(std::abs(values[c.at(z, i, j)] - alpha * sum - row.betaOf(factors, i) * c.get(z, i, j)) <
					        1e-5);
				}
		std::vector<cublasLtMatmulHeuristicResult_t> results;
		call.set(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, int64_t(m));
		const bool mayStep = row.mode != CUBLASLT_POINTER_MODE_DEVICE_VECTOR &&
		                     row.mode != CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO;
		CHECK(call.heuristic(blas.lt(), results) == (mayStep ? CUBLAS_STATUS_SUCCESS : Invalid));
		call.set(CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE, int64_t(0));
		for (cublasLtMatrixLayout_t layout : {call.c, call.d})
			call.set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW);
		CHECK(call.heuristic(blas.lt(), results) == (row.alphaVector ? Unsupported : CUBLAS_STATUS_SUCCESS));
	}
	LtCall deep(32, 32, 2048);
	std::vector<cublasLtMatmulHeuristicResult_t> results;
	deep.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t(1 << 20));
	for (const auto &row : rows) { // an algorithm reports the modes that it supports
		deep.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, row.mode);
		REQUIRE(deep.heuristic(blas.lt(), results) == 0);
		for (const auto &result : results) {
			uint32_t mask = 0;
			CHECK(cublasLtMatmulAlgoCapGetAttribute(&result.algo, CUBLASLT_ALGO_CAP_POINTER_MODE_MASK, &mask, 4,
			                                        nullptr) == 0);
			CHECK((mask >> row.mode & 1));
		}
		CHECK(results.size() == (row.alphaVector ? 2 : 3));
	}
	deep.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, 5);
	CHECK(deep.heuristic(blas.lt(), results) == Invalid);
}

TEST_CASE("Wrong programs: pointers and scalars that the device cannot reach")
{
	static float host[1024];
	static void *hostArray[batch];
	enum Wrong { Nothing, ArrayOnHost, EntryOnHost, EntryFreed, EntryNull, EntryOdd, VectorOnHost, VectorShort };
	const auto run = [](Wrong wrong) {
		cublasLtHandle_t handle = nullptr;
		REQUIRE(cublasLtCreate(&handle) == 0);
		char *memory = nullptr, *freed = nullptr, *ends = nullptr;
		void **array = nullptr;
		for (void *out : {static_cast<void *>(&memory), static_cast<void *>(&freed)})
			REQUIRE(cudaMalloc(static_cast<void **>(out), 1 << 16) == cudaSuccess);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&ends), 512) == cudaSuccess);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&array), sizeof hostArray) == cudaSuccess);
		for (void *&entry : hostArray)
			entry = memory;
		hostArray[1] = wrong == EntryOnHost  ? host
		               : wrong == EntryFreed ? freed
		               : wrong == EntryNull  ? nullptr
		               : wrong == EntryOdd   ? memory + 8
		                                     : static_cast<void *>(memory);
		REQUIRE(cudaMemcpy(array, hostArray, sizeof hostArray, cudaMemcpyHostToDevice) == cudaSuccess);
		cudaFree(freed);
		const float zero = 0;
		LtCall call(16, 16, 16, CUDA_R_16F, CUDA_R_16F);
		if (wrong == VectorOnHost || wrong == VectorShort) {
			call.set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST);
			const void *alpha = wrong == VectorOnHost ? host : static_cast<void *>(ends + 480);
			REQUIRE(cublasLtMatmul(handle, call.desc, alpha, memory, call.a, memory, call.b, &zero, memory, call.c,
			                       memory, call.d, nullptr, nullptr, 0, nullptr) == 0);
		} else {
			for (cublasLtMatrixLayout_t layout : {call.a, call.b, call.c, call.d}) {
				call.set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, CUBLASLT_BATCH_MODE_POINTER_ARRAY);
				call.set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
			}
			REQUIRE(call.run(handle, array, wrong == ArrayOnHost ? hostArray : array, array, array) == 0);
		}
		const cudaError_t error = cudaDeviceSynchronize();
		cudaDeviceReset();
		cublasLtDestroy(handle);
		return error;
	};
	CHECK(run(Nothing) == cudaSuccess);
	for (const Wrong wrong : {ArrayOnHost, EntryOnHost, EntryFreed, EntryNull, VectorOnHost, VectorShort})
		CHECK(run(wrong) == cudaErrorIllegalAddress);
	CHECK(run(EntryOdd) == cudaErrorMisalignedAddress);
}
