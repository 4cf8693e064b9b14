// speed: times cuBLAS and cuBLASLt products in one process, interleaved. Each line of standard input is a request:
//   product TRANSA TRANSB M N K BATCH EPILOGUE ROUNDS WAY...   device time; EPILOGUE: none, bias, relu or gelu
//   weight M N K ROUNDS WAY...      device time; A, transposed, is one of several weights in turn, B changes
//   call N ROUNDS WAY...            time of a cublasSgemm of N^3 in the calling thread; 0: the vendor returns at once
// It prints a line for each way and round, then `done`.
#include "tests/gpu/ways.h"

namespace {

using namespace client;
using gpu::Precision;
using gpu::Way;

constexpr size_t noiseCount = (1 << 20) + 7; // odd: columns do not repeat
constexpr int untilKept = 6;                 // products with a weight until its copy is used, and one more
constexpr size_t beyondCaches = 256u << 20, workspaceBytes = 32u << 20;
constexpr const char *cublas = "libcublas.so.13", *cublasLt = "libcublasLt.so.13";

// The vendor's functions, or the linked ones.
struct Functions {
	decltype(cublasSgemm) *sgemm;
	decltype(cublasSgemmStridedBatched) *batched;
	decltype(cublasLtMatmul) *matmul;
};
const Functions linked = {cublasSgemm, cublasSgemmStridedBatched, cublasLtMatmul};

Functions originals()
{
	return {gpu::original<decltype(cublasSgemm)>(cublas, "cublasSgemm_v2"), ORIGINAL(cublas, cublasSgemmStridedBatched),
	        ORIGINAL(cublasLt, cublasLtMatmul)};
}

// Not decltype: in C++, cublas_v2.h overloads this function.
using StridedBatchedEx = cublasStatus_t(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                                        const void *, const void *, cudaDataType, int, long long, const void *,
                                        cudaDataType, int, long long, const void *, void *, cudaDataType, int,
                                        long long, int, cublasComputeType_t, cublasGemmAlgo_t);

struct Shape {
	cublasOperation_t transa = CUBLAS_OP_N, transb = CUBLAS_OP_N;
	int m = 0, n = 0, k = 0, batch = 1;
	std::string epilogue;
	int lda() const { return transa == CUBLAS_OP_N ? m : k; }
	int ldb() const { return transb == CUBLAS_OP_N ? k : n; }
	size_t a() const { return size_t(m) * k * batch; }
	size_t b() const { return size_t(k) * n * batch; }
	size_t c() const { return size_t(m) * n * batch; }
};

const std::pair<const char *, cublasLtEpilogue_t> epilogues[] = {
    {"bias", CUBLASLT_EPILOGUE_BIAS}, {"relu", CUBLASLT_EPILOGUE_RELU_BIAS}, {"gelu", CUBLASLT_EPILOGUE_GELU_BIAS}};

// A cublasLtMatmul with epilogue, with the vendor's first algorithm.
class Matmul
{
public:
	Matmul(const Session &session, const Shape &shape, Precision precision, const float *bias)
	{
		const auto type = precision == Precision::half ? CUDA_R_16F : CUDA_R_32F;
		CHECK(cublasLtMatmulDescCreate(&description,
		                               precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
		                               CUDA_R_32F));
		const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto &value) {
			CHECK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
		};
		set(CUBLASLT_MATMUL_DESC_TRANSA, shape.transa);
		set(CUBLASLT_MATMUL_DESC_TRANSB, shape.transb);
		for (const auto &[name, epilogue] : epilogues)
			if (shape.epilogue == name)
				set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
		set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
		const bool isN[] = {shape.transa == CUBLAS_OP_N, shape.transb == CUBLAS_OP_N};
		layout(a, type, isN[0] ? shape.m : shape.k, isN[0] ? shape.k : shape.m);
		layout(b, type, isN[1] ? shape.k : shape.n, isN[1] ? shape.n : shape.k);
		layout(c, CUDA_R_32F, shape.m, shape.n);
		cublasLtMatmulPreference_t preference;
		CHECK(cublasLtMatmulPreferenceCreate(&preference));
		CHECK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
		                                           &workspaceBytes, sizeof workspaceBytes));
		cublasLtMatmulHeuristicResult_t result = {};
		int found = 0;
		CHECK(cublasLtMatmulAlgoGetHeuristic(session.light, description, a, b, c, c, preference, 1, &result, &found));
		CHECK(cublasLtMatmulPreferenceDestroy(preference));
		if (!found)
			fail("cublasLtMatmulAlgoGetHeuristic", "nothing found");
		algorithm = result.algo;
	}

	~Matmul()
	{
		for (const auto &each : {a, b, c})
			cublasLtMatrixLayoutDestroy(each);
		cublasLtMatmulDescDestroy(description);
	}
	Matmul(const Matmul &) = delete;

	cublasLtMatmulDesc_t description = nullptr;
	cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
	cublasLtMatmulAlgo_t algorithm = {};

private:
	static void layout(cublasLtMatrixLayout_t &made, cudaDataType_t type, int rows, int columns)
	{
		CHECK(cublasLtMatrixLayoutCreate(&made, type, uint64_t(rows), uint64_t(columns), rows));
	}
};

// The bits of a number in half, below 1 and truncated.
uint16_t halfOf(float number)
{
	const int exponent = std::ilogb(number);
	const float rest = std::ldexp(std::fabs(number), -exponent) - 1;
	return exponent < -14 ? 0 : static_cast<uint16_t>((number < 0) << 15 | (exponent + 15) << 10 | int(rest * 1024));
}

struct Program {
	Program()
	{
		Random random(1);
		for (size_t i = 0; i < noiseCount; i++)
			noise[i] = static_cast<float>(2 * random.uniform() - 1);
		noise.upload();
		for (size_t i = 0; i < noiseCount; i++) { // two halves in each
			const uint32_t pair = uint32_t(halfOf(noise[i])) << 16 | halfOf(noise[noiseCount - 1 - i]);
			std::memcpy(&halves[i], &pair, sizeof pair);
		}
		halves.upload();
		CHECK(cudaMalloc(&workspace, workspaceBytes));
		CHECK(cudaDeviceSynchronize()); // pageable memory may still be on its way, and the stream does not wait
	}

	// Zeros would run faster than data does.
	void fill(float *data, size_t count, const Array &from)
	{
		for (size_t done = 0; done < count; done += noiseCount)
			CHECK(cudaMemcpyAsync(data + done, from.data(), std::min(noiseCount, count - done) * sizeof(float),
			                      cudaMemcpyDeviceToDevice, session.stream));
	}

	// isWeight: enough weights that their copies do not fit in a cache together, each with its copy.
	void product(const Shape &shape, int rounds, const std::vector<std::string> &names, bool isWeight)
	{
		// A, B and C in fp32, then A and B in half.
		const size_t wide = shape.a() + shape.b() + shape.c(), count = wide + (shape.a() + shape.b() + 1) / 2;
		const size_t bytes = count * sizeof(float);
		size_t available = 0, total = 0;
		CHECK(cudaMemGetInfo(&available, &total));
		if (2 * bytes > available) {
			std::cout << "no_memory" << std::endl;
			return;
		}
		// More sets of operands than any cache holds at once.
		const size_t sets =
		    gpu::isEmulated() ? 1 : std::clamp<size_t>(beyondCaches / (isWeight ? 2 * shape.a() : bytes), 1, 64);
		float *memory = nullptr, *bias = nullptr;
		CHECK(cudaMalloc(reinterpret_cast<void **>(&memory), sets * bytes));
		CHECK(cudaMalloc(reinterpret_cast<void **>(&bias), size_t(shape.m) * sizeof(float)));
		for (size_t set = 0; set < sets; set++) {
			fill(memory + set * count, wide, noise);
			fill(memory + set * count + wide, count - wide, halves);
		}
		fill(bias, size_t(shape.m), noise);
		std::unique_ptr<Matmul> matmuls[3];
		if (shape.epilogue != "none")
			for (const auto precision : {Precision::fp32, Precision::tf32, Precision::half})
				matmuls[int(precision)] = std::make_unique<Matmul>(session, shape, precision, bias);
		gpu::interleave(rounds, names, [&](const Way &way) {
			CHECK(cublasSetMathMode(session.handle, way.precision == Precision::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH
			                                                                         : CUBLAS_DEFAULT_MATH));
			const auto enqueueOne = [&](int i) {
				float *const a = memory + size_t(i) % sets * count, *const c = a + shape.a() + shape.b();
				float *const b = isWeight ? memory + shape.a() : a + shape.a();
				// B must not be kept: it changes within each window of four observed calls. In all ways, so that
				// they have the same cost.
				if (isWeight && i % 3 == 0)
					CHECK(cudaMemcpyAsync(b, noise.data() + size_t(i) % noiseCount, sizeof(float),
					                      cudaMemcpyDeviceToDevice, session.stream));
				auto *const half = reinterpret_cast<uint16_t *>(a + wide);
				const bool isHalf = way.precision == Precision::half;
				enqueue(way, shape, isHalf ? half : static_cast<void *>(a),
				        isHalf ? half + shape.a() : static_cast<void *>(b), c, matmuls[int(way.precision)].get());
			};
			for (int pass = 0; pass < untilKept && isWeight; pass++) {
				for (size_t set = 0; set < sets; set++)
					enqueueOne(pass * static_cast<int>(sets) + static_cast<int>(set));
				CHECK(cudaStreamSynchronize(session.stream)); // the host then knows that the weights stay the same
			}
			return gpu::text(gpu::timeOnDevice(session.stream, enqueueOne));
		});
		CHECK(cudaFree(memory));
		CHECK(cudaFree(bias));
	}

	void enqueue(const Way &way, const Shape &s, const void *a, const void *b, float *c, const Matmul *matmul)
	{
		const Functions &call = way.isBare ? bare : linked;
		const float one = 1, zero = 0;
		const long long strideA = (long long)s.m * s.k, strideB = (long long)s.k * s.n, strideC = (long long)s.m * s.n;
		if (matmul)
			CHECK(call.matmul(session.light, matmul->description, &one, a, matmul->a, b, matmul->b, &zero, c, matmul->c,
			                  c, matmul->c, &matmul->algorithm, workspace, workspaceBytes, session.stream));
		else if (way.precision == Precision::half)
			CHECK(ex(session.handle, s.transa, s.transb, s.m, s.n, s.k, &one, a, CUDA_R_16F, s.lda(), strideA, b,
			         CUDA_R_16F, s.ldb(), strideB, &zero, c, CUDA_R_32F, s.m, strideC, s.batch, CUBLAS_COMPUTE_32F,
			         CUBLAS_GEMM_DEFAULT));
		else if (s.batch == 1)
			CHECK(call.sgemm(session.handle, s.transa, s.transb, s.m, s.n, s.k, &one, static_cast<const float *>(a),
			                 s.lda(), static_cast<const float *>(b), s.ldb(), &zero, c, s.m));
		else
			CHECK(call.batched(session.handle, s.transa, s.transb, s.m, s.n, s.k, &one, static_cast<const float *>(a),
			                   s.lda(), strideA, static_cast<const float *>(b), s.ldb(), strideB, &zero, c, s.m,
			                   strideC, s.batch));
	}

	void call(int n, int rounds, const std::vector<std::string> &names)
	{
		const auto count = static_cast<size_t>(std::max(n * n, 1));
		Array a(count), b(count), c(count);
		const float one = 1, zero = 0;
		const int ld = std::max(n, 1);
		gpu::interleave(rounds, names, [&](const Way &way) {
			const auto sgemm = (way.isBare ? bare : linked).sgemm;
			return gpu::text(gpu::timeOnHost(
			    session.stream,
			    [&] {
				    sgemm(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a.data(), ld, b.data(), ld, &zero,
				          c.data(), ld);
			    },
			    n ? 200 : 10'000)); // fewer than a stream accepts without blocking the caller
		});
	}

	Session session;
	const Functions bare = originals();
	StridedBatchedEx *const ex = gpu::original<StridedBatchedEx>(cublas, "cublasGemmStridedBatchedEx");
	Array noise{noiseCount}, halves{noiseCount};
	void *workspace = nullptr;
};

cublasOperation_t operationOf(const std::string &name)
{
	return name == "T" ? CUBLAS_OP_T : CUBLAS_OP_N;
}

} // namespace

int main()
{
	Program program;
	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream words(line);
		std::string what, transa, transb;
		int rounds = 0, n = 0;
		Shape shape;
		words >> what;
		if (what == "product") {
			words >> transa >> transb >> shape.m >> shape.n >> shape.k >> shape.batch >> shape.epilogue >> rounds;
			shape.transa = operationOf(transa), shape.transb = operationOf(transb);
			program.product(shape, rounds, gpu::words(words), false);
		} else if (what == "weight") {
			words >> shape.m >> shape.n >> shape.k >> rounds;
			shape.transa = CUBLAS_OP_T, shape.epilogue = "none";
			program.product(shape, rounds, gpu::words(words), true);
		} else if (what == "call") {
			words >> n >> rounds;
			program.call(n, rounds, gpu::words(words));
		} else {
			fail(line.c_str(), "not understood");
		}
	}
}
