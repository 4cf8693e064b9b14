// Products of many matrices: arrays of pointers and groups, and the time and place of reads.
#include "tests/emulated/blas/fixture.h"

namespace {

constexpr auto N = CUBLAS_OP_N, T = CUBLAS_OP_T, C = CUBLAS_OP_C;
constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;

// One product of column-major matrices and its expected result, computed element by element in fp64.
template <typename Type>
struct Sample {
	cublasOperation_t transa = N, transb = N;
	int m = 5, n = 4, k = 3, lda = 9, ldb = 8, ldc = 7;
	Wide alpha = {0.5, isComplex<Type> ? 0.25 : 0}, beta = {2, isComplex<Type> ? -1. : 0};
	std::vector<Type> a, b, c;

	explicit Sample(unsigned seed)
	    : a(randomValues<Type>(9 * 9, seed)), b(randomValues<Type>(8 * 8, seed + 100)),
	      c(randomValues<Type>(7 * 7, seed + 200))
	{
	}
	static Wide at(const std::vector<Type> &matrix, int ld, cublasOperation_t operation, int i, int j)
	{
		const Wide value = wide(matrix[operation == N ? i + j * ld : j + i * ld]);
		return operation == C ? std::conj(value) : value;
	}
	bool isResult(const Type *values) const
	{
		for (int j = 0; j < 7; ++j)
			for (int i = 0; i < ldc; ++i) {
				Wide sum = 0, old = wide(c[i + j * ldc]);
				for (int l = 0; l < k; ++l)
					sum += at(a, lda, transa, i, l) * at(b, ldb, transb, l, j);
				const bool isInside = i < m && j < n;
				const double error = std::abs(wide(values[i + j * ldc]) - (isInside ? alpha * sum + beta * old : old));
				if (!(error <= (isInside ? 8 * epsilon<Type>() : 0)))
					return false;
			}
		return true;
	}
};

// The samples' matrices one after the other on the device, and arrays of pointers to them.
template <typename Type>
struct Batch {
	std::vector<Sample<Type>> samples;
	DeviceArray<Type> a, b, c;
	DeviceArray<Type *> as, bs, cs;

	explicit Batch(const std::vector<Sample<Type>> &all)
	    : samples(all), a(joined(&Sample<Type>::a)), b(joined(&Sample<Type>::b)), c(joined(&Sample<Type>::c)),
	      as(pointers(a, 81)), bs(pointers(b, 64)), cs(pointers(c, 49))
	{
	}
	std::vector<Type> joined(std::vector<Type> Sample<Type>::*member) const
	{
		std::vector<Type> all;
		for (const auto &sample : samples)
			all.insert(all.end(), (sample.*member).begin(), (sample.*member).end());
		return all;
	}
	std::vector<Type *> pointers(Type *base, int step) const
	{
		std::vector<Type *> all;
		for (size_t i = 0; i < samples.size(); ++i)
			all.push_back(base + i * step);
		return all;
	}
	// Returns whether all results are there; the next form starts from the old C.
	bool isDone() const
	{
		const std::vector<Type> values = c.read(), old = joined(&Sample<Type>::c);
		cudaMemcpy(c, old.data(), old.size() * sizeof(Type), cudaMemcpyHostToDevice);
		bool isGood = true;
		for (size_t i = 0; i < samples.size(); ++i)
			isGood = isGood && samples[i].isResult(values.data() + i * 49);
		return isGood;
	}
};

OF_FOUR_TYPES(gemm, cublasSgemm, cublasDgemm, cublasCgemm, cublasZgemm)
OF_FOUR_TYPES(gemmStrided, cublasSgemmStridedBatched, cublasDgemmStridedBatched, cublasCgemmStridedBatched,
              cublasZgemmStridedBatched)
OF_FOUR_TYPES(gemmBatched, cublasSgemmBatched, cublasDgemmBatched, cublasCgemmBatched, cublasZgemmBatched)

} // namespace

TEMPLATE_TEST_CASE("Products of four types in all forms", "", float, double, std::complex<float>, std::complex<double>)
{
	Blas blas;
	for (cublasOperation_t transa : {N, T, C})
		for (cublasOperation_t transb : {N, T, C}) {
			asTwins = transa == transb;
			std::vector<Sample<TestType>> samples{Sample<TestType>(1), Sample<TestType>(2), Sample<TestType>(3)};
			for (auto &sample : samples) {
				sample.transa = transa;
				sample.transb = transb;
			}
			const Batch<TestType> on(samples);
			const Sample<TestType> &s = samples[0];
			const auto alpha = narrow<TestType>(s.alpha), beta = narrow<TestType>(s.beta);
			INFO(transa << " " << transb);
			for (int i = 0; i < 3; ++i)
				CHECK(gemm<TestType>(blas.handle, transa, transb, s.m, s.n, s.k, &alpha, on.a + i * 81, s.lda,
				                     on.b + i * 64, s.ldb, &beta, on.c + i * 49, s.ldc) == 0);
			CHECK(on.isDone());
			CHECK(gemmStrided<TestType>(blas.handle, transa, transb, s.m, s.n, s.k, &alpha, on.a.get(), s.lda, 81,
			                            on.b.get(), s.ldb, 64, &beta, on.c.get(), s.ldc, 49, 3) == 0);
			CHECK(on.isDone());
			CHECK(gemmBatched<TestType>(blas.handle, transa, transb, s.m, s.n, s.k, &alpha, on.as.get(), s.lda,
			                            on.bs.get(), s.ldb, &beta, on.cs.get(), s.ldc, 3) == 0);
			CHECK(on.isDone());
		}
	asTwins = false;
}

TEST_CASE("Half products with half accumulators, and arrays of 16-bit matrices")
{
	Blas blas;
	const Batch<__half> on({Sample<__half>(4), Sample<__half>(5)});
	const Sample<__half> &s = on.samples[0];
	const auto alpha = narrow<__half>(s.alpha), beta = narrow<__half>(s.beta);
	CHECK(cublasHgemm(blas, N, N, 5, 4, 3, &alpha, on.a, 9, on.b, 8, &beta, on.c, 7) == 0);
	CHECK(cublasHgemm_64(blas, N, N, 5, 4, 3, &alpha, on.a + 81, 9, on.b + 64, 8, &beta, on.c + 49, 7) == 0);
	CHECK(on.isDone());
	CHECK(cublasHgemmStridedBatched(blas, N, N, 5, 4, 3, &alpha, on.a, 9, 81, on.b, 8, 64, &beta, on.c, 7, 49, 2) == 0);
	CHECK(on.isDone());
	// k is odd, so the manual requires only the alignment of the element.
	CHECK(cublasHgemmBatched(blas, N, N, 5, 4, 3, &alpha, on.as, 9, on.bs, 8, &beta, on.cs, 7, 2) == 0);
	CHECK(on.isDone());
	const float wideAlpha = float(alpha), wideBeta = float(beta);
	CHECK(cublasGemmBatchedEx(blas, N, N, 5, 4, 3, &wideAlpha, (const void **)on.as.get(), CUDA_R_16F, 9,
	                          (const void **)on.bs.get(), CUDA_R_16F, 8, &wideBeta, (void **)on.cs.get(), CUDA_R_16F, 7,
	                          2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == 0);
	CHECK(on.isDone());

	// 1 + 1 + ... in half stops growing, in a batch as in a single product.
	const int k = 4096;
	DeviceArray<__half> ones(as<__half>(std::vector<float>(k, 1.0625f))), sum(2);
	DeviceArray<__half *> one(std::vector<__half *>{ones}), to(std::vector<__half *>{sum + 1});
	const __half unit(1.f), zero(0.f);
	CHECK(cublasHgemm(blas, T, N, 1, 1, k, &unit, ones, k, ones, k, &zero, sum, 1) == 0);
	CHECK(cublasHgemmBatched(blas, T, N, 1, 1, k, &unit, one, k, one, k, &zero, to, 1, 1) == 0);
	CHECK(cudaDeviceSynchronize() == cudaErrorMisalignedAddress); // tensor cores, k % 8 == 0: 16 bytes
	cudaDeviceReset();
	cudaGetLastError();
}

TEMPLATE_TEST_CASE("Groups", "", float, double, __half, __nv_bfloat16)
{
	Blas blas;
	std::vector<Sample<TestType>> samples;
	for (unsigned i = 0; i < 5; ++i)
		samples.emplace_back(10 + i);
	// Groups of two, no and three products, each with its own sizes, operations and scalars.
	const int m[] = {5, 3, 2}, n[] = {4, 3, 6}, k[] = {3, 3, 7}, lda[] = {9, 3, 9}, ldb[] = {8, 3, 8},
	          ldc[] = {7, 3, 7}, sizes[] = {2, 0, 3};
	const cublasOperation_t transa[] = {N, N, T}, transb[] = {N, N, C};
	for (int i = 0; i < 5; ++i) {
		const int group = i < 2 ? 0 : 2;
		samples[i].m = m[group], samples[i].n = n[group], samples[i].k = k[group];
		samples[i].transa = transa[group], samples[i].transb = transb[group];
		samples[i].alpha = 1. + group, samples[i].beta = 1. - group;
	}
	using Scale = std::conditional_t<std::is_same_v<TestType, double>, double, float>;
	const Scale alpha[] = {1, 0, 3}, beta[] = {1, 0, -1};
	const Batch<TestType> on(samples);
	auto wide64 = [](const int *from) { return std::vector<int64_t>(from, from + 3); };
	auto ex = [&](cublasComputeType_t compute) {
		return cublasGemmGroupedBatchedEx(blas, transa, transb, m, n, k, alpha, (const void **)on.as.get(),
		                                  TypeOf<TestType>::value, lda, (const void **)on.bs.get(),
		                                  TypeOf<TestType>::value, ldb, beta, (void **)on.cs.get(),
		                                  TypeOf<TestType>::value, ldc, 3, sizes, compute);
	};
	constexpr bool isDouble = std::is_same_v<TestType, double>;
	CHECK(ex(isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) == 0);
	CHECK(on.isDone());
	CHECK(cublasGemmGroupedBatchedEx_64(blas, transa, transb, wide64(m).data(), wide64(n).data(), wide64(k).data(),
	                                    alpha, (const void **)on.as.get(), TypeOf<TestType>::value, wide64(lda).data(),
	                                    (const void **)on.bs.get(), TypeOf<TestType>::value, wide64(ldb).data(), beta,
	                                    (void **)on.cs.get(), TypeOf<TestType>::value, wide64(ldc).data(), 3,
	                                    wide64(sizes).data(), isDouble ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) == 0);
	CHECK(on.isDone());
	if constexpr (std::is_same_v<TestType, float>)
		CHECK(cublasSgemmGroupedBatched(blas, transa, transb, m, n, k, alpha, on.as, lda, on.bs, ldb, beta, on.cs, ldc,
		                                3, sizes) == 0);
	else if constexpr (isDouble)
		CHECK(cublasDgemmGroupedBatched(blas, transa, transb, m, n, k, alpha, on.as, lda, on.bs, ldb, beta, on.cs, ldc,
		                                3, sizes) == 0);
	else
		return;
	CHECK(on.isDone());
}

TEST_CASE("Arguments of batched and grouped products")
{
	Blas blas;
	const float one = 1;
	DeviceArray<float> memory(64);
	DeviceArray<float *> arrays(std::vector<float *>{memory});
	auto batched = [&](cublasHandle_t handle, cublasOperation_t ta, int m, int k, int lda, const float *alpha,
	                   int count) {
		return cublasSgemmBatched(handle, ta, N, m, 2, k, alpha, arrays, lda, arrays, 2, &one, arrays, 4, count);
	};
	CHECK(batched(blas, N, 4, 2, 4, &one, 1) == 0);
	CHECK(batched(blas, N, 4, 2, 4, &one, 0) == 0);
	CHECK(batched(nullptr, N, -1, 2, 4, &one, 1) == CUBLAS_STATUS_NOT_INITIALIZED);
	CHECK(batched(blas, cublasOperation_t(7), 4, 2, 4, &one, 1) == Invalid);
	CHECK(batched(blas, N, -1, 2, 4, &one, 1) == Invalid);
	CHECK(batched(blas, N, 4, -1, 4, &one, 1) == Invalid);
	CHECK(batched(blas, N, 4, 2, 3, &one, 1) == Invalid);
	CHECK(batched(blas, T, 4, 2, 2, &one, 1) == 0);
	CHECK(batched(blas, N, 4, 2, 4, nullptr, 1) == Invalid);
	CHECK(batched(blas, N, 4, 2, 4, &one, -1) == Invalid);

	const cublasOperation_t operations[] = {N, N};
	const int two[] = {2, 2}, ones[] = {1, 0}, bad[] = {2, -1};
	const float scalars[] = {1, 1};
	auto grouped = [&](const cublasOperation_t *ops, const int *m, const int *lda, const float *alpha, int count,
	                   const int *sizes) {
		return cublasSgemmGroupedBatched(blas, ops, operations, m, two, two, alpha, arrays, lda, arrays, two, scalars,
		                                 arrays, two, count, sizes);
	};
	CHECK(grouped(operations, two, two, scalars, 2, ones) == 0);
	CHECK(grouped(operations, two, two, scalars, 0, ones) == 0);
	CHECK(grouped(nullptr, two, two, scalars, 2, ones) == Invalid);
	CHECK(grouped(operations, nullptr, two, scalars, 2, ones) == Invalid);
	CHECK(grouped(operations, two, nullptr, scalars, 2, ones) == Invalid);
	CHECK(grouped(operations, two, two, nullptr, 2, ones) == Invalid);
	CHECK(grouped(operations, two, two, scalars, 2, nullptr) == Invalid);
	CHECK(grouped(operations, two, two, scalars, -1, ones) == Invalid);
	CHECK(grouped(operations, bad, two, scalars, 2, ones) == Invalid);
	CHECK(grouped(operations, two, bad, scalars, 2, ones) == Invalid);
	CHECK(grouped(operations, two, two, scalars, 2, bad) == Invalid);
	cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE);
	CHECK(grouped(operations, two, two, scalars, 2, ones) == CUBLAS_STATUS_NOT_SUPPORTED);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("Pointers are read when the work runs, at every replay")
{
	Blas blas;
	cudaStream_t stream;
	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	cublasSetStream(blas, stream);
	DeviceArray<float> a(std::vector<float>{2, 3, 5}), c(std::vector<float>{0, 0, 0});
	DeviceArray<float *> as(std::vector<float *>{a, a + 1}), cs(std::vector<float *>{c, c + 1});
	const float one = 1, zero = 0;
	auto square = [&] { return cublasSgemmBatched(blas, N, N, 1, 1, 1, &one, as, 1, as, 1, &zero, cs, 1, 2); };
	auto point = [&](float *first, float *second) {
		float *const values[] = {first, second};
		CHECK(cudaMemcpy(as, values, sizeof values, cudaMemcpyHostToDevice) == cudaSuccess);
	};
	CHECK(square() == 0);
	point(a + 1, a + 2); // blocks, except for a stream that does not wait for this one
	CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
	CHECK(c.read() == std::vector<float>{9, 25, 0});

	const int ones[] = {1, 1}, two = 2;
	const cublasOperation_t operation = N;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
	CHECK(square() == 0);
	CHECK(cublasSgemmGroupedBatched(blas, &operation, &operation, ones, ones, ones, &one, as, ones, as, ones, &one, cs,
	                                ones, 1, &two) == 0);
	REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
	for (int i : {0, 1}) {
		point(a + i, a + i + 1);
		CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
		CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
		CHECK(c.read() == (i ? std::vector<float>{18, 50, 0} : std::vector<float>{8, 18, 0}));
	}
	cudaGraphExecDestroy(exec);
	cudaGraphDestroy(graph);
	cudaStreamDestroy(stream);
}
