// Every epilogue of cublasLtMatmul compared with its definition, and the refused calls.
#include "tests/emulated/blas/fixture.h"

namespace {

constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;
constexpr auto Unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
constexpr int m = 20, n = 12, k = 40, batch = 2, maskLd = 128, matrixLd = 24;

enum Vector { NoVector, Adds, RowsOfD, RowsOfA, ColumnsOfB };
enum Auxiliary { NoAux, MaskOut, MaskIn, MatrixOut, MatrixIn };
struct Row {
	cublasLtEpilogue_t epilogue;
	Vector vector;
	Auxiliary aux;
	double (*activate)(double);
	bool intoFloat; // has an engine for 16-bit operands with an fp32 result
};

double same(double x)
{
	return x;
}
double relu(double x)
{
	return x < 0 ? 0 : x;
}
double gelu(double x)
{
	return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double slopeOfGelu(double x)
{
	return (gelu(x + 1e-4) - gelu(x - 1e-4)) / 2e-4;
}

constexpr Row rows[] = {
    {CUBLASLT_EPILOGUE_DEFAULT, NoVector, NoAux, same, true},
    {CUBLASLT_EPILOGUE_RELU, NoVector, NoAux, relu, true},
    {CUBLASLT_EPILOGUE_BIAS, Adds, NoAux, same, true},
    {CUBLASLT_EPILOGUE_RELU_BIAS, Adds, NoAux, relu, true},
    {CUBLASLT_EPILOGUE_GELU, NoVector, NoAux, gelu, true},
    {CUBLASLT_EPILOGUE_GELU_BIAS, Adds, NoAux, gelu, true},
    {CUBLASLT_EPILOGUE_RELU_AUX, NoVector, MaskOut, relu, true},
    {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, Adds, MaskOut, relu, true},
    {CUBLASLT_EPILOGUE_GELU_AUX, NoVector, MatrixOut, gelu, true},
    {CUBLASLT_EPILOGUE_GELU_AUX_BIAS, Adds, MatrixOut, gelu, true},
    {CUBLASLT_EPILOGUE_DRELU, NoVector, MaskIn, same, true},
    {CUBLASLT_EPILOGUE_DRELU_BGRAD, RowsOfD, MaskIn, same, true},
    {CUBLASLT_EPILOGUE_DGELU, NoVector, MatrixIn, same, true},
    {CUBLASLT_EPILOGUE_DGELU_BGRAD, RowsOfD, MatrixIn, same, true},
    {CUBLASLT_EPILOGUE_BGRADA, RowsOfA, NoAux, same, true},
    {CUBLASLT_EPILOGUE_BGRADB, ColumnsOfB, NoAux, same, true},
};

bool isMask(const Row &row)
{
	return row.aux == MaskOut || row.aux == MaskIn;
}

void transpose(LtCall &call, cublasLtMatmulDescAttributes_t id, cublasLtMatrixLayout_t layout, int rows, int columns)
{
	call.set(id, CUBLAS_OP_T);
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_ROWS, uint64_t(columns));
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, uint64_t(rows));
	call.set(layout, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(columns));
}

constexpr size_t room = 4096; // for the gradient of a bias

void describe(LtCall &call, const Row &row, const void *vector, const void *aux, int depth = k)
{
	if (row.vector == ColumnsOfB)
		transpose(call, CUBLASLT_MATMUL_DESC_TRANSB, call.b, depth, n);
	call.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, room);
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, row.epilogue);
	call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
	call.set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t(row.vector == ColumnsOfB ? n : m));
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(isMask(row) ? maskLd : matrixLd));
	call.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t(isMask(row) ? maskLd : matrixLd) * n);
}

template <typename Operand, typename Result>
void compute(const Row &row, bool exists)
{
	INFO(row.epilogue << " " << TypeOf<Operand>::value << " " << TypeOf<Result>::value);
	Blas blas;
	const auto a = as<float>(as<Operand>(randomFloats(m * k, 1))), b = as<float>(as<Operand>(randomFloats(k * n, 2)));
	const auto c = as<float>(as<Result>(randomFloats(m * n, 3)));
	const auto bias = as<float>(as<Result>(randomFloats(m * batch, 4))),
	           input = as<float>(as<Result>(randomFloats(matrixLd * n * batch, 5, 3)));
	std::vector<uint8_t> bits(maskLd / 8 * n * batch);
	for (size_t i = 0; i < bits.size(); ++i)
		bits[i] = uint8_t(i * 37 + 11);
	const bool isTransposedA = row.vector != RowsOfA, isTransposedB = row.vector == ColumnsOfB;
	auto product = reference(isTransposedA, isTransposedB, m, n, k, a, b, [](float value) { return value; });

	DeviceArray<Operand> A(as<Operand>(a)), B(as<Operand>(b));
	DeviceArray<Result> C(as<Result>(c)), D(m * n * batch), vector(as<Result>(bias)), matrix(as<Result>(input));
	DeviceArray<uint8_t> mask(bits), workspace(room);
	LtCall call(m, n, k, TypeOf<Operand>::value, TypeOf<Result>::value);
	if (isTransposedA)
		transpose(call, CUBLASLT_MATMUL_DESC_TRANSA, call.a, m, k);
	call.setBatch(batch, 0, 0, 0);
	call.set(call.d, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t(m * n));
	describe(call, row, vector.get(), isMask(row) ? static_cast<void *>(mask) : static_cast<void *>(matrix));
	std::vector<cublasLtMatmulHeuristicResult_t> results;
	CHECK(call.heuristic(blas.lt(), results) == (exists ? CUBLAS_STATUS_SUCCESS : Unsupported));
	CHECK(call.run(blas.lt(), A, B, C, D, nullptr, workspace, room, 0.5f, 2) ==
	      (exists ? CUBLAS_STATUS_SUCCESS : Unsupported));
	if (!exists)
		return;

	const auto values = as<float>(D.read()), sums = as<float>(vector.read()), inputs = as<float>(matrix.read());
	const auto masks = mask.read();
	const double tolerance = sizeof(Result) == 2 ? 4e-3 : 2e-5;
	const auto near = [&](double value, double exact) {
		return std::abs(value - exact) < tolerance * (1 + std::abs(exact));
	};
	const auto bitOf = [&](const auto &from, int z, int i, int j) {
		return from[size_t(maskLd / 8 * (z * n + j) + i / 8)] >> i % 8 & 1;
	};
	for (int z = 0; z < batch; ++z) {
		std::vector<double> rowSums(m);
		for (int j = 0; j < n; ++j)
			for (int i = 0; i < m; ++i) {
				double x = 0.5 * product[i + j * m] + 2 * c[i + j * m] + (row.vector == Adds ? bias[z * m + i] : 0);
				const size_t place = size_t(i + matrixLd * (j + n * z));
				if (row.aux == MaskOut && std::abs(x) > 1e-5)
					REQUIRE(bitOf(masks, z, i, j) == (x >= 0));
				if (row.aux == MatrixOut)
					REQUIRE(near(inputs[place], x));
				x = row.activate(x);
				if (row.aux == MaskIn)
					x = bitOf(bits, z, i, j) ? x : 0;
				if (row.aux == MatrixIn)
					x *= slopeOfGelu(input[place]);
				REQUIRE(near(values[i + m * (j + n * z)], x));
				rowSums[i] += x;
			}
		for (int i = 0; row.vector == RowsOfD && i < m; ++i)
			REQUIRE(near(sums[z * m + i], rowSums[i]));
		for (int i = 0; row.vector == RowsOfA && i < m; ++i) {
			double sum = 0;
			for (int l = 0; l < k; ++l)
				sum += a[i + l * m];
			REQUIRE(near(sums[z * m + i], sum));
		}
		for (int j = 0; row.vector == ColumnsOfB && j < n; ++j) {
			double sum = 0;
			for (int l = 0; l < k; ++l)
				sum += b[j + l * n];
			REQUIRE(near(sums[z * n + j], sum));
		}
	}
	for (size_t place = 0; place < inputs.size(); ++place) // memory between the columns must not change
		if (row.aux != MatrixOut || place % matrixLd >= m)
			REQUIRE(inputs[place] == input[place]);
}

} // namespace

TEST_CASE("Every epilogue is what it is defined to be, where there is an engine")
{
	for (const Row &row : rows) {
		compute<float, float>(row, true);
		compute<__half, __half>(row, true);
		compute<__nv_bfloat16, __nv_bfloat16>(row, true);
		compute<__half, float>(row, row.intoFloat);
		compute<__nv_bfloat16, float>(row, row.intoFloat);
	}
}

TEST_CASE("Epilogues without an engine, and impossible ones")
{
	Blas blas;
	DeviceArray<double> memory(4096);
	DeviceArray<uint8_t> workspace(room);
	double *vector = memory + 2048, *aux = memory + 2560;
	std::vector<cublasLtMatmulHeuristicResult_t> results;
	for (const Row &row : rows) {
		INFO(row.epilogue);
		const auto ask = [&](auto change, cudaDataType type = CUDA_R_32F, int depth = k) {
			const auto compute = type == CUDA_R_64F   ? CUBLAS_COMPUTE_64F
			                     : type == CUDA_R_16F ? CUBLAS_COMPUTE_16F
			                                          : CUBLAS_COMPUTE_32F;
			LtCall call(m, n, depth, type, type, compute, type);
			describe(call, row, vector, aux, depth);
			change(call);
			const float one = 1;
			const cublasStatus_t found = call.heuristic(blas.lt(), results);
			const cublasStatus_t ran =
			    cublasLtMatmul(blas.lt(), call.desc, &one, memory, call.a, memory + 512, call.b, &one, memory + 1024,
			                   call.c, memory + 1024, call.d, nullptr, workspace, room, nullptr);
			CHECK((found == ran || found == 0)); // the heuristic may know fewer, never more
			return ran;
		};
		const auto nothing = [](LtCall &) {};
		const bool isPlain = row.aux == NoAux && (row.vector == NoVector || row.vector == Adds);
		for (const cudaDataType type : {CUDA_R_64F, CUDA_R_16F})
			CHECK(ask(nothing, type) == (isPlain ? CUBLAS_STATUS_SUCCESS : Unsupported));
		CHECK(ask(nothing, CUDA_R_32F, 1) ==
		      (row.aux == MaskIn || row.aux == MatrixIn ? Unsupported : CUBLAS_STATUS_SUCCESS));
		const auto byRows = [](LtCall &call) {
			for (cublasLtMatrixLayout_t layout : {call.c, call.d}) {
				call.set(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW);
				call.set(layout, CUBLASLT_MATRIX_LAYOUT_LD, int64_t(n));
			}
		};
		CHECK(ask(byRows) == (row.vector == NoVector && row.aux == NoAux ? CUBLAS_STATUS_SUCCESS : Unsupported));
		const auto setTo = [](auto id, auto value) { return [=](LtCall &call) { call.set(id, value); }; };
		const auto none = static_cast<const void *>(nullptr);
		CHECK((ask(setTo(CUBLASLT_MATMUL_DESC_BIAS_POINTER, none)) == Invalid) == (row.vector != NoVector));
		for (const auto &wrong : {setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(m + 1)),
		                          setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t(0)),
		                          setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, int64_t(4))})
			CHECK((ask(wrong) == Invalid) == (row.aux != NoAux));
		CHECK((ask(setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, none)) == Invalid) == (row.aux != NoAux));
		CHECK((ask(setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t(CUDA_R_16F))) == Invalid) ==
		      (row.aux != NoAux));
		CHECK((ask(setTo(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t(CUDA_R_32F))) == Invalid) == isMask(row));
	}
	for (const Row &row : {Row{CUBLASLT_EPILOGUE_BGRADA, RowsOfA, NoAux, same, true},
	                       Row{CUBLASLT_EPILOGUE_BGRADB, NoVector, NoAux, same, true}}) { // sums of other operands
		LtCall call(m, n, k);
		describe(call, row, vector, nullptr);
		if (row.vector == RowsOfA)
			transpose(call, CUBLASLT_MATMUL_DESC_TRANSA, call.a, m, k);
		CHECK(call.heuristic(blas.lt(), results) == Unsupported);
	}
	LtCall unknown(m, n, k);
	unknown.set(CUBLASLT_MATMUL_DESC_EPILOGUE, 3);
	CHECK(unknown.heuristic(blas.lt(), results) == Invalid);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("Wrong programs: memory that an epilogue cannot reach breaks the context")
{
	static float host[matrixLd * n * batch];
	enum Where { Good, Host, Short, Odd };
	const auto run = [](const Row &row, Where vector, Where aux) {
		cublasLtHandle_t handle = nullptr;
		REQUIRE(cublasLtCreate(&handle) == 0);
		char *memory = nullptr, *ends = nullptr;
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&memory), 1 << 16) == cudaSuccess);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&ends), 512) == cudaSuccess);
		const auto place = [&](Where where, size_t offset) -> const void * {
			return where == Host    ? static_cast<void *>(host)
			       : where == Short ? ends + 496
			                        : memory + offset + (where == Odd);
		};
		LtCall call(m, n, k);
		describe(call, row, place(vector, 32768), place(aux, 40960));
		REQUIRE(call.run(handle, memory, memory + 8192, memory + 16384, memory + 16384, nullptr, memory + 61440,
		                 room) == 0);
		const cudaError_t error = cudaDeviceSynchronize();
		cudaDeviceReset();
		cublasLtDestroy(handle);
		return error;
	};
	for (const Row &row : rows) {
		INFO(row.epilogue);
		CHECK(run(row, Good, Good) == cudaSuccess);
		for (const auto &[where, error] : {std::pair{Host, cudaErrorIllegalAddress},
		                                   {Short, cudaErrorIllegalAddress},
		                                   {Odd, cudaErrorMisalignedAddress}}) {
			CHECK(run(row, where, Good) == (row.vector == NoVector ? cudaSuccess : error));
			CHECK(run(row, Good, where) == (row.aux == NoAux ? cudaSuccess : error));
		}
	}
}
