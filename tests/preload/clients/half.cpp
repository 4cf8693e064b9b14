// Half products with half sums: every entry point, every argument that changes the result, eager and captured, checked
// on the host against fp64. One case per line; see harness.h for the command line.
#include "harness.h"

#include <bit>
#include <cstring>
#include <cuda_fp16.h>

using namespace client;

namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
constexpr cudaDataType type = CUDA_R_16F;
constexpr cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT;

enum class Candidate { hgemm, strided, batched, ex, stridedEx, batchedEx, lt };
constexpr const char *names[] = {"cublasHgemm",   "cublasHgemmStridedBatched",  "cublasHgemmBatched",
                                 "cublasGemmEx",  "cublasGemmStridedBatchedEx", "cublasGemmBatchedEx",
                                 "cublasLtMatmul"};

struct Product {
	Candidate way = Candidate::hgemm;
	bool is64 = false;
	int k = 4096, batch = 1; // so long that half sums visibly lose
	cublasOperation_t transa = T, transb = N;
	int pad = 0, shift = 0; // extra elements in the leading dimensions; elements off alignment
	float alpha = 1, beta = 0;
	bool hasDeviceScalars = false, isCaptured = false, isFirst = false, hasBias = false;
	cublasMath_t mathMode = CUBLAS_DEFAULT_MATH;
	cublasComputeType_t compute = CUBLAS_COMPUTE_16F;
	int m = 48, n = 16;
};

struct Row {
	const char *name;
	Product product;
};

const Row rows[] = {
    {"door.hgemm", {}},
    {"door.hgemm_64", {.is64 = true}},
    {"door.strided", {.way = Candidate::strided, .batch = 3}},
    {"door.strided_64", {.way = Candidate::strided, .is64 = true, .batch = 3}},
    {"door.batched", {.way = Candidate::batched, .batch = 3}},
    {"door.batched_64", {.way = Candidate::batched, .is64 = true, .batch = 3}},
    {"door.ex", {.way = Candidate::ex}},
    {"door.ex_64", {.way = Candidate::ex, .is64 = true}},
    {"door.strided_ex", {.way = Candidate::stridedEx, .batch = 3}},
    {"door.strided_ex_64", {.way = Candidate::stridedEx, .is64 = true, .batch = 3}},
    {"door.batched_ex", {.way = Candidate::batchedEx, .batch = 3}},
    {"door.batched_ex_64", {.way = Candidate::batchedEx, .is64 = true, .batch = 3}},
    {"door.lt", {.way = Candidate::lt}},
    {"door.lt_batched", {.way = Candidate::lt, .batch = 3}},
    {"door.lt_bias", {.way = Candidate::lt, .hasBias = true}},
    {"shape.nt", {.transa = N, .transb = T}},
    {"shape.padded", {.pad = 3}},
    {"shape.unaligned", {.pad = 1, .shift = 1}},
    {"shape.unaligned_lt", {.way = Candidate::lt, .pad = 1, .shift = 1}},
    {"scalars.host", {.alpha = -0.75f, .beta = 0.5f}},
    {"scalars.subnormal", {.alpha = 0x1p-16f}},
    {"scalars.lt", {.way = Candidate::lt, .alpha = -0.75f, .beta = 0.5f}},
    {"scalars.device", {.alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"scalars.device_strided",
     {.way = Candidate::stridedEx, .batch = 2, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"scalars.device_batched",
     {.way = Candidate::batched, .batch = 2, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"scalars.device_lt", {.way = Candidate::lt, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true}},
    {"captured.host", {.alpha = -0.75f, .beta = 0.5f, .isCaptured = true}},
    {"captured.device", {.alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true, .isCaptured = true}},
    {"captured.batched", {.way = Candidate::batchedEx, .batch = 2, .isCaptured = true}},
    {"captured.lt", {.way = Candidate::lt, .alpha = -0.75f, .hasDeviceScalars = true, .isCaptured = true}},
    {"first.host", {.isCaptured = true, .isFirst = true}},
    {"first.device", {.hasDeviceScalars = true, .isCaptured = true, .isFirst = true}},
    {"mode.tensor_op", {.mathMode = CUBLAS_TENSOR_OP_MATH}},
    {"kept.pedantic_mode", {.mathMode = CUBLAS_PEDANTIC_MATH}},
    {"kept.pedantic_compute", {.way = Candidate::ex, .compute = CUBLAS_COMPUTE_16F_PEDANTIC}},
    {"kept.alpha_zero", {.alpha = 0, .beta = 0.5f}},
    {"kept.zero_k", {.k = 0, .beta = 0.5f}},
    {"kept.zero_m", {.m = 0}},
    {"kept.zero_batch", {.way = Candidate::batched, .batch = 0}},
    {"kept.sums_in_fp32", {.way = Candidate::ex, .compute = CUBLAS_COMPUTE_32F}},
};

// Halves on the device, `shift` off a 256-byte boundary.
class Halves
{
public:
	Halves(size_t count, int shift) : values(count), shift_(static_cast<size_t>(shift))
	{
		CHECK(cudaMalloc(&memory_, (count + shift_ + 1) * sizeof(__half)));
	}
	~Halves() { cudaFree(memory_); }
	Halves(const Halves &) = delete;
	__half *data() const { return static_cast<__half *>(memory_) + shift_; }
	void upload() const
	{
		CHECK(cudaMemcpy(data(), values.data(), values.size() * sizeof(__half), cudaMemcpyHostToDevice));
		CHECK(cudaStreamSynchronize(cudaStreamLegacy));
	}
	void download()
	{
		CHECK(cudaMemcpy(values.data(), data(), values.size() * sizeof(__half), cudaMemcpyDeviceToHost));
	}

	std::vector<__half> values;

private:
	void *memory_ = nullptr;
	size_t shift_;
};

class Problem16
{
public:
	explicit Problem16(const Product &p)
	    : p(p), lda((p.transa == N ? p.m : p.k) + p.pad + !p.k + !p.m), ldb((p.transb == N ? p.k : p.n) + p.pad + !p.k),
	      ldc(p.m + p.pad + !p.m), strideA(lda * (p.transa == N ? p.k : p.m)),
	      strideB(ldb * (p.transb == N ? p.n : p.k)), strideC(ldc * p.n),
	      a(static_cast<size_t>(strideA * (p.batch + 1)), p.shift),
	      b(static_cast<size_t>(strideB * (p.batch + 1)), p.shift),
	      c(static_cast<size_t>(strideC * (p.batch + 1)), p.shift), bias(static_cast<size_t>(p.m) + 1, 0), scalars(2, 0)
	{
		Random random(7);
		for (Halves *matrix : {&a, &b, &c, &bias})
			for (__half &x : matrix->values)
				x = __float2half(static_cast<float>(random.uniform() - (matrix == &c ? 0.5 : 0.25))); // sums that grow
		scalars.values = {__float2half(p.alpha), __float2half(p.beta)};
		before_ = c.values;
		for (int side = 0; side < 3; side++)
			for (int i = 0; i < p.batch; i++)
				pointers_.push_back(side == 0   ? a.data() + i * strideA
				                    : side == 1 ? b.data() + i * strideB
				                                : c.data() + i * strideC);
		CHECK(cudaMalloc(reinterpret_cast<void **>(&arrays_), (pointers_.size() + 1) * sizeof(void *)));
	}
	~Problem16() { cudaFree(arrays_); }
	Problem16(const Problem16 &) = delete;

	void upload()
	{
		c.values = before_;
		for (const Halves *halves : {&a, &b, &c, &bias, &scalars})
			halves->upload();
		CHECK(cudaMemcpy(arrays_, pointers_.data(), pointers_.size() * sizeof(void *), cudaMemcpyHostToDevice));
		CHECK(cudaDeviceSynchronize());
	}

	int call(cublasHandle_t h, cudaStream_t stream)
	{
		CHECK(cublasSetPointerMode(h, p.hasDeviceScalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
		CHECK(cublasSetMathMode(h, p.mathMode));
		const bool isWide = p.compute == CUBLAS_COMPUTE_32F; // the scalars are floats
		const void *const alpha = isWide               ? static_cast<const void *>(&p.alpha)
		                          : p.hasDeviceScalars ? scalars.data()
		                                               : &scalars.values[0];
		const void *const beta = isWide               ? static_cast<const void *>(&p.beta)
		                         : p.hasDeviceScalars ? scalars.data() + 1
		                                              : &scalars.values[1];
		const auto *const x = static_cast<const __half *>(alpha), *const y = static_cast<const __half *>(beta);
		__half *const A = a.data(), *const B = b.data(), *const C = c.data();
		__half **const as = arrays_, **const bs = as + p.batch, **const cs = bs + p.batch;
		const auto voids = [](__half **array) { return reinterpret_cast<void **>(array); };
		switch (p.way) {
#define EITHER(name, ...)                                                                                              \
	return p.is64 ? name##_64(h, p.transa, p.transb, p.m, p.n, p.k, __VA_ARGS__)                                       \
	              : name(h, p.transa, p.transb, p.m, p.n, p.k, __VA_ARGS__)
		case Candidate::hgemm:
			EITHER(cublasHgemm, x, A, lda, B, ldb, y, C, ldc);
		case Candidate::strided:
			EITHER(cublasHgemmStridedBatched, x, A, lda, strideA, B, ldb, strideB, y, C, ldc, strideC, p.batch);
		case Candidate::batched:
			EITHER(cublasHgemmBatched, x, as, lda, bs, ldb, y, cs, ldc, p.batch);
		case Candidate::ex:
			EITHER(cublasGemmEx, alpha, A, type, lda, B, type, ldb, beta, C, type, ldc, p.compute, algo);
		case Candidate::stridedEx:
			EITHER(cublasGemmStridedBatchedEx, alpha, A, type, lda, strideA, B, type, ldb, strideB, beta, C, type, ldc,
			       strideC, p.batch, p.compute, algo);
		case Candidate::batchedEx:
			EITHER(cublasGemmBatchedEx, alpha, voids(as), type, lda, voids(bs), type, ldb, beta, voids(cs), type, ldc,
			       p.batch, p.compute, algo);
#undef EITHER
		case Candidate::lt:
			break;
		}
		cublasLtMatmulDesc_t desc = nullptr;
		cublasLtMatrixLayout_t layouts[3] = {};
		CHECK(cublasLtMatmulDescCreate(&desc, p.compute, type));
		const auto set = [&](cublasLtMatmulDescAttributes_t id, const auto &value) {
			CHECK(cublasLtMatmulDescSetAttribute(desc, id, &value, sizeof value));
		};
		set(CUBLASLT_MATMUL_DESC_TRANSA, p.transa);
		set(CUBLASLT_MATMUL_DESC_TRANSB, p.transb);
		if (p.hasDeviceScalars)
			set(CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_POINTER_MODE_DEVICE);
		if (p.hasBias) {
			set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
			set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.data());
		}
		const int64_t sizes[3][4] = {{p.transa == N ? p.m : p.k, p.transa == N ? p.k : p.m, lda, strideA},
		                             {p.transb == N ? p.k : p.n, p.transb == N ? p.n : p.k, ldb, strideB},
		                             {p.m, p.n, ldc, strideC}};
		for (int i = 0; i < 3; i++) {
			CHECK(cublasLtMatrixLayoutCreate(&layouts[i], type, static_cast<uint64_t>(sizes[i][0]),
			                                 static_cast<uint64_t>(sizes[i][1]), sizes[i][2]));
			CHECK(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &p.batch,
			                                       sizeof p.batch));
			CHECK(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
			                                       &sizes[i][3], sizeof sizes[i][3]));
		}
		const int status = cublasLtMatmul(reinterpret_cast<cublasLtHandle_t>(h), desc, alpha, A, layouts[0], B,
		                                  layouts[1], beta, C, layouts[2], C, layouts[2], nullptr, nullptr, 0, stream);
		for (cublasLtMatrixLayout_t layout : layouts)
			CHECK(cublasLtMatrixLayoutDestroy(layout));
		CHECK(cublasLtMatmulDescDestroy(desc));
		return status;
	}

	// Relative Frobenius error against fp64; requires that the padding is unchanged.
	double compare(Line &line)
	{
		double error = 0, size = 0;
		for (size_t place = 0; place < c.values.size(); place++) {
			const auto at = static_cast<int64_t>(place);
			const int64_t matrix = at / strideC, column = at % strideC / ldc, row = at % ldc;
			if (matrix >= p.batch || row >= p.m) {
				line.require(std::memcmp(&c.values[place], &before_[place], sizeof(__half)) == 0, "padding changed");
				continue;
			}
			double sum = 0;
			for (int64_t l = 0; l < p.k; l++)
				sum += of(a, matrix * strideA + (p.transa == N ? l * lda + row : row * lda + l)) *
				       of(b, matrix * strideB + (p.transb == N ? column * ldb + l : l * ldb + column));
			const double wanted = static_cast<double>(p.alpha) * sum +
			                      static_cast<double>(p.beta) * static_cast<double>(__half2float(before_[place])) +
			                      (p.hasBias ? of(bias, row) : 0);
			const double difference = of(c, at) - wanted;
			error += difference * difference;
			size += wanted * wanted;
		}
		return size > 0 ? std::sqrt(error / size) : 0;
	}

	const Product p;
	const int lda, ldb, ldc;
	const int64_t strideA, strideB, strideC;
	Halves a, b, c, bias, scalars;

private:
	static double of(const Halves &halves, int64_t place)
	{
		return static_cast<double>(__half2float(halves.values[static_cast<size_t>(place)]));
	}
	std::vector<__half> before_;
	std::vector<__half *> pointers_;
	__half **arrays_ = nullptr;
};

// Captured: replayed twice, after an eager call unless it is to be the first.
void run(const Product &product, Line &line)
{
	Session session;
	Problem16 problem(product);
	if (product.isCaptured && !product.isFirst) {
		problem.upload();
		line.require(problem.call(session.handle, session.stream) == 0, "the eager call failed");
		CHECK(cudaStreamSynchronize(session.stream));
	}
	problem.upload();
	CHECK(cublasSetPointerMode(session.handle,
	                           product.hasDeviceScalars ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST));
	CHECK(cublasSetMathMode(session.handle, product.mathMode));
	const State before(session.handle);
	int status = 0;
	if (product.isCaptured) {
		cudaGraph_t graph = nullptr;
		cudaGraphExec_t executable = nullptr;
		CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
		status = problem.call(session.handle, session.stream);
		CHECK(cudaStreamEndCapture(session.stream, &graph));
		CHECK(cudaGraphInstantiate(&executable, graph, 0));
		for (int i = 0; i < 2; i++) {
			problem.upload();
			CHECK(cudaGraphLaunch(executable, session.stream));
			CHECK(cudaStreamSynchronize(session.stream));
		}
		CHECK(cudaGraphExecDestroy(executable));
		CHECK(cudaGraphDestroy(graph));
	} else {
		status = problem.call(session.handle, session.stream);
		CHECK(cudaStreamSynchronize(session.stream));
	}
	line.require(State(session.handle) == before, "the handle or the pending error changed");
	problem.c.download();
	line.put("entry", std::string(names[static_cast<size_t>(product.way)]) + (product.is64 ? "_64" : ""));
	line.put("m", product.m).put("n", product.n).put("k", product.k).put("batch", product.batch).put("status", status);
	line.bits("bits", hash(problem.c.values.data(), problem.c.values.size() * sizeof(__half)));
	line.put("eta", problem.compare(line));
}

// The same statuses with and without autoamp.
void badArguments(Line &line)
{
	Session session;
	Problem16 p({.k = 64});
	p.upload();
	const __half one = __float2half(1), zero = __float2half(0);
	const cublasHandle_t h = session.handle;
	const __half *const A = p.a.data(), *const B = p.b.data();
	__half *const C = p.c.data();
	std::string told;
	const auto tell = [&](cublasStatus_t status) { told += (told.empty() ? "" : ",") + std::to_string(status); };
	tell(cublasHgemm(nullptr, N, N, 8, 8, 8, &one, A, 8, B, 8, &zero, C, 8));
	tell(cublasHgemm(h, static_cast<cublasOperation_t>(77), N, 8, 8, 8, &one, A, 8, B, 8, &zero, C, 8));
	tell(cublasHgemm(h, N, N, -1, 8, 8, &one, A, 8, B, 8, &zero, C, 8));
	tell(cublasHgemm(h, N, N, 8, 8, 8, nullptr, A, 8, B, 8, &zero, C, 8));
	tell(cublasHgemm(h, N, N, 8, 8, 8, &one, A, 7, B, 8, &zero, C, 8));
	tell(cublasHgemm_64(h, N, N, 8, 8, 8, &one, A, 8, B, 8, nullptr, C, 8));
	tell(cublasHgemmStridedBatched(h, N, N, 8, 8, 8, &one, A, 8, 64, B, 8, 64, &zero, C, 8, 64, -1));
	tell(cublasHgemmBatched(nullptr, N, N, 8, 8, 8, &one, nullptr, 8, nullptr, 8, &zero, nullptr, 8, 1));
	tell(cublasGemmEx(h, N, N, 8, 8, 8, &one, A, type, 8, B, CUDA_R_16BF, 8, &zero, C, type, 8, CUBLAS_COMPUTE_16F,
	                  algo));
	tell(cublasGemmEx(h, N, N, 8, 8, 8, &one, A, type, 8, B, type, 8, &zero, C, CUDA_R_32F, 8, CUBLAS_COMPUTE_16F,
	                  algo));
	line.put("statuses", told);
}

std::vector<Case> allCases()
{
	std::vector<Case> cases = {{"bad.arguments", badArguments}};
	int m = 48;
	for (const Row &row : rows) {
		Product product = row.product;
		if (product.m)
			product.m = m++; // so that the rows of a report can be distinguished
		cases.push_back({row.name, [product](Line &line) { run(product, line); }});
	}
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
