// Results of the emulated products: visible rounding, scalars, strides, memory that is read and written.
#include "tests/emulated/blas/fixture.h"

#include <functional>
#include <thread>

namespace {

float tf32(float value)
{
	uint32_t bits = std::bit_cast<uint32_t>(value);
	return std::bit_cast<float>((bits + 0xfff + ((bits >> 13) & 1)) & ~0x1fffu);
}

template <typename T>
std::vector<float> gemmEx(cublasHandle_t handle, int m, int n, int k, const std::vector<float> &a,
                          const std::vector<float> &b, cublasComputeType_t compute, bool ta = false, bool tb = false)
{
	DeviceArray<T> A(as<T>(a)), B(as<T>(b));
	DeviceArray<float> C(std::vector<float>(m * n, NaN));
	const float one = 1, zero = 0;
	REQUIRE(cublasGemmEx(handle, ta ? CUBLAS_OP_T : CUBLAS_OP_N, tb ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &one, A,
	                     TypeOf<T>::value, ta ? k : m, B, TypeOf<T>::value, tb ? n : k, &zero, C, CUDA_R_32F, m,
	                     compute, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
	return C.read();
}

} // namespace

TEST_CASE("Operands are rounded as the types and compute types ask, sums are fp32")
{
	Blas blas;
	const int m = 67, n = 45, k = 129;
	auto a = randomFloats(m * k, 1), b = randomFloats(k * n, 2);
	auto exact = [&](auto keep) { return reference(false, false, m, n, k, a, b, keep); };
	auto half = [](float value) { return float(__half(value)); };
	auto brain = [](float value) { return float(__nv_bfloat16(value)); };
	auto same = [](float value) { return value; };
	auto fp32 = gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F);
	CHECK(relativeError(fp32, exact(same)) < 1e-6);

	struct Row {
		std::vector<float> values;
		std::vector<double> exact;
		double least, most; // distance from the unrounded product
	};
	const Row rows[] = {
	    {gemmEx<__half>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F), exact(half), 1e-4, 4e-4},
	    {gemmEx<__nv_bfloat16>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F), exact(brain), 1e-3, 4e-3},
	    {gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_FAST_TF32), exact(tf32), 1e-4, 4e-4},
	    {gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_FAST_16F), exact(tf32), 1e-4, 4e-4},
	    {gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_FAST_16BF), exact(tf32), 1e-4, 4e-4},
	};
	for (const Row &row : rows) {
		CHECK(relativeError(row.values, row.exact) < 1e-6);
		CHECK(relativeError(row.values, exact(same)) > row.least);
		CHECK(relativeError(row.values, exact(same)) < row.most);
	}
	CHECK(sameBits(fp32, gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_PEDANTIC)));
	CHECK(sameBits(fp32, gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_EMULATED_16BFX9)));

	for (auto [mode, index] : {std::pair{CUBLAS_TF32_TENSOR_OP_MATH, 2}, {CUBLAS_TENSOR_OP_MATH, 3}}) {
		cublasSetMathMode(blas, mode);
		CHECK(sameBits(gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F), rows[index].values));
		CHECK(sameBits(fp32, gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F_PEDANTIC)));
	}
	for (auto mode : {CUBLAS_PEDANTIC_MATH, CUBLAS_DEFAULT_MATH}) {
		cublasSetMathMode(blas, mode);
		CHECK(sameBits(fp32, gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F)));
	}
}

TEST_CASE("Each operand is rounded to nearest even, without a scale, in every form of a product")
{
	Blas blas;
	const float ulp = 0x1p-10f;
	struct Row {
		float value, tf32;
	};
	const Row rows[] = {
	    {1 + ulp / 2, 1}, // a tie is rounded to the even neighbour
	    {1 + 3 * ulp / 2, 1 + 2 * ulp},
	    {1 + ulp / 2 + 0x1p-23f, 1 + ulp}, // with one more bit it is not a tie
	    {1 + 0x1p-8f, 1 + 0x1p-8f},
	    {-1 - 0x3p-8f, -1 - 0x3p-8f},
	    {65519, 65504},
	    {65520, 65536}, // FAST_16F and CUBLAS_TENSOR_OP_MATH: half would overflow
	    {-70000, -70016},
	    {1e-9f, 0x1.13p-30f},
	    {0x1.8p-24f, 0x1.8p-24f},
	    {3e38f, 0x1.c38p+127f},
	    {-Inf, -Inf},
	};
	const float one = 1, zero = 0;
	for (const Row &row : rows) {
		DeviceArray<float> a(std::vector<float>{row.value}), unit(std::vector<float>{1}), c(1);
		DeviceArray<float *> as(std::vector<float *>{a}), units(std::vector<float *>{unit}),
		    cs(std::vector<float *>{c});
		DeviceArray<std::complex<float>> z(std::vector<std::complex<float>>{{row.value, 1}}), u(1), w(1);
		constexpr auto N = CUBLAS_OP_N;
		auto result = [&](cublasStatus_t status) {
			CHECK(status == CUBLAS_STATUS_SUCCESS);
			const float value = c.read()[0];
			cudaMemset(c, 0xff, sizeof(float));
			return value;
		};
		const std::pair<cublasComputeType_t, float> computes[] = {{CUBLAS_COMPUTE_32F, row.value},
		                                                          {CUBLAS_COMPUTE_32F_PEDANTIC, row.value},
		                                                          {CUBLAS_COMPUTE_32F_FAST_TF32, row.tf32},
		                                                          {CUBLAS_COMPUTE_32F_FAST_16F, row.tf32},
		                                                          {CUBLAS_COMPUTE_32F_FAST_16BF, row.tf32}};
		for (auto [compute, expected] : computes)
			for (bool isFirst : {true, false}) {
				float *left = isFirst ? a : unit, *right = isFirst ? unit : a;
				INFO(row.value << " " << compute);
				CHECK(result(cublasGemmEx(blas, N, N, 1, 1, 1, &one, left, CUDA_R_32F, 1, right, CUDA_R_32F, 1, &zero,
				                          c, CUDA_R_32F, 1, compute, CUBLAS_GEMM_DEFAULT)) == expected);
				LtCall lt(1, 1, 1, CUDA_R_32F, CUDA_R_32F, compute);
				CHECK(result(lt.run(blas.lt(), left, right, c, c)) == expected);
				auto *lefts = (const void **)(isFirst ? as : units).get();
				auto *rights = (const void **)(isFirst ? units : as).get();
				CHECK(result(cublasGemmBatchedEx(blas, N, N, 1, 1, 1, &one, lefts, CUDA_R_32F, 1, rights, CUDA_R_32F, 1,
				                                 &zero, (void **)cs.get(), CUDA_R_32F, 1, 1, compute,
				                                 CUBLAS_GEMM_DEFAULT)) == expected);
			}
		const std::pair<int, float> modes[] = {
		    {CUBLAS_DEFAULT_MATH, row.value},
		    {CUBLAS_PEDANTIC_MATH, row.value},
		    {CUBLAS_TF32_TENSOR_OP_MATH, row.tf32},
		    {CUBLAS_TF32_TENSOR_OP_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, row.tf32},
		    {CUBLAS_TENSOR_OP_MATH, row.tf32}};
		for (auto [mode, expected] : modes) {
			INFO(row.value << " mode " << mode);
			cublasSetMathMode(blas, cublasMath_t(mode));
			CHECK(result(cublasSgemm(blas, N, N, 1, 1, 1, &one, a, 1, unit, 1, &zero, c, 1)) == expected);
			CHECK(result(cublasSgemmBatched(blas, N, N, 1, 1, 1, &one, as, 1, units, 1, &zero, cs, 1, 1)) == expected);
			// A complex operand is rounded part by part: (a + i) i = -1 + ai.
			const cuComplex i{0, 1}, none{0, 0}, unity{1, 0};
			cudaMemcpy(u, &i, sizeof i, cudaMemcpyHostToDevice);
			CHECK(cublasCgemm(blas, N, N, 1, 1, 1, &unity, (cuComplex *)z.get(), 1, (cuComplex *)u.get(), 1, &none,
			                  (cuComplex *)w.get(), 1) == 0);
			if (std::isfinite(expected))
				CHECK(w.read()[0] == std::complex<float>(-1, expected));
			cublasSetMathMode(blas, CUBLAS_DEFAULT_MATH);
		}
	}
}

TEST_CASE("NVIDIA_TF32_OVERRIDE=0 keeps fp32 or 16 bits", "[.override]") // runs in a separate process that sets it
{
	Blas blas;
	const float one = 1, zero = 0, third = 1.f / 3;
	DeviceArray<float> unit(std::vector<float>{1}), c(1);
	const auto computed = [&](float value, cublasComputeType_t compute) {
		DeviceArray<float> a(std::vector<float>{value});
		CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a, CUDA_R_32F, 1, unit, CUDA_R_32F, 1, &zero,
		                   c, CUDA_R_32F, 1, compute, CUBLAS_GEMM_DEFAULT) == 0);
		return c.read()[0];
	};
	for (int mode : {CUBLAS_DEFAULT_MATH, CUBLAS_TF32_TENSOR_OP_MATH}) {
		cublasSetMathMode(blas, cublasMath_t(mode));
		CHECK(computed(third, mode ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32) == third);
	}
	const struct {
		float value, half, brain;
	} rows[] = {{1 + 0x1p-8f, 1 + 0x1p-8f, 1}, {-1 - 0x3p-8f, -1 - 0x3p-8f, -1 - 0x1p-6f},
	            {65519, 65504, 65536},         {65520, Inf, 65536},                // half overflows
	            {1e-9f, 0, 0x1.12p-30f},       {0x1.8p-24f, 0x1p-23f, 0x1.8p-24f}, // and underflows
	            {3e38f, Inf, 0x1.c4p+127f}};
	for (const auto &row : rows) {
		CHECK(computed(row.value, CUBLAS_COMPUTE_32F_FAST_16F) == row.half);
		CHECK(computed(row.value, CUBLAS_COMPUTE_32F_FAST_16BF) == row.brain);
	}
}

TEST_CASE("Transposes")
{
	Blas blas;
	const int m = 19, n = 23, k = 31;
	auto a = randomFloats(m * k, 3), b = randomFloats(k * n, 4);
	for (bool ta : {false, true})
		for (bool tb : {false, true}) {
			auto exact = reference(ta, tb, m, n, k, a, b, [](float value) { return value; });
			CHECK(relativeError(gemmEx<float>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F, ta, tb), exact) < 1e-6);
			auto rounded = reference(ta, tb, m, n, k, a, b, [](float value) { return float(__half(value)); });
			CHECK(relativeError(gemmEx<__half>(blas, m, n, k, a, b, CUBLAS_COMPUTE_32F, ta, tb), rounded) < 1e-6);
		}
}

TEST_CASE("Half results overflow to Inf, subnormals survive, half accumulators lose")
{
	Blas blas;
	const float one = 1, zero = 0;
	DeviceArray<__half> a(as<__half>({300, 1e-7f, NaN, 1})), b(as<__half>({300, 1, 1, -Inf})), c(4);
	for (int i = 0; i < 4; ++i)
		REQUIRE(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, a + i, CUDA_R_16F, 1, b + i, CUDA_R_16F, 1,
		                     &zero, c + i, CUDA_R_16F, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == 0);
	auto values = c.read();
	CHECK(float(values[0]) == Inf);
	CHECK(float(values[1]) == float(__half(1e-7f)));
	CHECK(float(values[1]) > 0);
	CHECK(std::isnan(float(values[2])));
	CHECK(float(values[3]) == -Inf);

	const int k = 4096; // 1 + 1 + ... stops at 2048 + 2048 * ulp in a half accumulator, does not in fp32
	DeviceArray<__half> ones(as<__half>(std::vector<float>(k, 1.0625f)));
	const __half oneHalf(1.f), zeroHalf(0.f);
	float sums[2];
	for (int i = 0; i < 2; ++i) {
		const void *alpha = i ? static_cast<const void *>(&oneHalf) : &one;
		const void *beta = i ? static_cast<const void *>(&zeroHalf) : &zero;
		REQUIRE(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, k, alpha, ones, CUDA_R_16F, k, ones, CUDA_R_16F, k,
		                     beta, c, CUDA_R_16F, 1, i ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F,
		                     CUBLAS_GEMM_DEFAULT) == 0);
		sums[i] = float(c.read()[0]);
	}
	CHECK(sums[0] == float(__half(1.0625f * 1.0625f * k)));
	CHECK(sums[1] != sums[0]);
	CHECK(std::abs(sums[1] - sums[0]) / sums[0] < 0.05f);
}

TEST_CASE("alpha, beta, leading dimensions: elements that are read and written")
{
	Blas blas;
	const int m = 5, n = 4, k = 3, lda = 7, ldb = 6, ldc = 8;
	auto a = randomFloats(lda * k, 5), b = randomFloats(ldb * n, 6), c = randomFloats(ldc * n, 7);
	auto expect = [&](float alpha, float beta) {
		auto result = c;
		for (int j = 0; j < n; ++j)
			for (int i = 0; i < m; ++i) {
				double sum = 0;
				for (int l = 0; l < k; ++l)
					sum += double(a[i + l * lda]) * b[l + j * ldb];
				result[i + j * ldc] = float(alpha * sum + (beta != 0 ? beta * c[i + j * ldc] : 0));
			}
		return result;
	};
	auto run = [&](float alpha, float beta, bool onDevice, int depth = 3) {
		DeviceArray<float> A(a), B(b), C(c), scalars(std::vector<float>{alpha, beta});
		cublasSetPointerMode(blas, onDevice ? CUBLAS_POINTER_MODE_DEVICE : CUBLAS_POINTER_MODE_HOST);
		REQUIRE(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, depth, onDevice ? scalars : &alpha, A, lda, B, ldb,
		                    onDevice ? scalars + 1 : &beta, C, ldc) == CUBLAS_STATUS_SUCCESS);
		alpha = beta = NaN; // host scalars have been read
		return C.read();
	};
	auto isClose = [](const std::vector<float> &left, const std::vector<float> &right) {
		for (size_t i = 0; i < left.size(); ++i)
			if (!(std::abs(left[i] - right[i]) <= 1e-5f) && std::bit_cast<int>(left[i]) != std::bit_cast<int>(right[i]))
				return false;
		return true;
	};
	for (bool onDevice : {false, true}) {
		for (auto [alpha, beta] : {std::pair{1.f, 0.f}, {2.f, 1.f}, {-0.5f, 3.f}, {0.f, 2.f}, {0.f, 0.f}})
			CHECK(isClose(run(alpha, beta, onDevice), expect(alpha, beta)));
		CHECK(sameBits(run(1, 2, onDevice, 0), run(0, 2, false))); // k = 0 scales C
	}
	auto clean = c;
	std::fill(c.begin(), c.end(), NaN); // also between the columns, where it must remain
	CHECK(isClose(run(1, 0, false), expect(1, 0)));
	CHECK(isClose(run(1, 0, true), expect(1, 0)));
	CHECK(std::isnan(run(1, 1, false)[0]));
	c = clean;
	a[0] = NaN;
	CHECK(isClose(run(0, 2, false), expect(0, 2)) == false); // the expectation reads A
	auto scaled = run(0, 2, false);
	CHECK(scaled[0] == 2 * c[0]);          // host alpha 0: A is not read
	CHECK(std::isnan(run(0, 2, true)[0])); // device alpha 0: A is read
}

TEST_CASE("fp64, all entries and their twins agree")
{
	Blas blas;
	const int n = 33;
	auto a = randomFloats(n * n, 8), b = randomFloats(n * n, 9);
	auto exact = reference(false, false, n, n, n, a, b, [](float value) { return value; });
	DeviceArray<float> A(a), B(b), C(n * n);
	DeviceArray<double> DA(as<double>(a)), DB(as<double>(b)), DC(n * n);
	const float one = 1, zero = 0;
	const double done = 1, dzero = 0;
	constexpr auto N = CUBLAS_OP_N;
	using Call = std::function<cublasStatus_t()>;
	const Call calls[] = {
	    [&] { return cublasSgemm(blas, N, N, n, n, n, &one, A, n, B, n, &zero, C, n); },
	    [&] { return cublasSgemm_64(blas, N, N, n, n, n, &one, A, n, B, n, &zero, C, n); },
	    [&] {
		    return cublasSgemmEx(blas, N, N, n, n, n, &one, A, CUDA_R_32F, n, B, CUDA_R_32F, n, &zero, C, CUDA_R_32F,
		                         n);
	    },
	    [&] {
		    return cublasSgemmEx_64(blas, N, N, n, n, n, &one, A, CUDA_R_32F, n, B, CUDA_R_32F, n, &zero, C, CUDA_R_32F,
		                            n);
	    },
	    [&] {
		    return cublasGemmEx_64(blas, N, N, n, n, n, &one, A, CUDA_R_32F, n, B, CUDA_R_32F, n, &zero, C, CUDA_R_32F,
		                           n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
	    },
	    [&] { return cublasSgemmStridedBatched(blas, N, N, n, n, n, &one, A, n, 0, B, n, 0, &zero, C, n, 0, 1); },
	    [&] { return cublasSgemmStridedBatched_64(blas, N, N, n, n, n, &one, A, n, 0, B, n, 0, &zero, C, n, 0, 1); },
	    [&] {
		    return cublasGemmStridedBatchedEx_64(blas, N, N, n, n, n, &one, A, CUDA_R_32F, n, 0, B, CUDA_R_32F, n, 0,
		                                         &zero, C, CUDA_R_32F, n, 0, 1, CUBLAS_COMPUTE_32F,
		                                         CUBLAS_GEMM_DEFAULT);
	    },
	};
	std::vector<float> first;
	for (const Call &call : calls) {
		cudaMemset(C, 0xff, n * n * sizeof(float));
		REQUIRE(call() == CUBLAS_STATUS_SUCCESS);
		auto values = C.read();
		CHECK(relativeError(values, exact) < 1e-6);
		if (first.empty())
			first = values;
		CHECK(sameBits(first, values));
	}
	const Call doubles[] = {
	    [&] { return cublasDgemm(blas, N, N, n, n, n, &done, DA, n, DB, n, &dzero, DC, n); },
	    [&] { return cublasDgemm_64(blas, N, N, n, n, n, &done, DA, n, DB, n, &dzero, DC, n); },
	    [&] { return cublasDgemmStridedBatched(blas, N, N, n, n, n, &done, DA, n, 0, DB, n, 0, &dzero, DC, n, 0, 1); },
	};
	for (const Call &call : doubles) {
		cudaMemset(DC, 0xff, n * n * sizeof(double));
		REQUIRE(call() == CUBLAS_STATUS_SUCCESS);
		auto values = DC.read();
		for (int i = 0; i < n * n; ++i)
			REQUIRE(std::abs(values[i] - exact[i]) < 1e-13);
	}
}

TEST_CASE("A batch computes what single calls compute, wherever the operands lie")
{
	Blas blas;
	const int m = 40, n = 30, k = 50, batch = 3;
	auto a = randomFloats(m * k * batch, 10), b = randomFloats(k * n, 11);
	const float one = 1, zero = 0;
	DeviceArray<float> A(a), B(b), C(m * n * batch), single(m * n + 8);
	REQUIRE(cublasSgemmStridedBatched(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, A, m, m * k, B, k, 0, &zero, C, m,
	                                  m * n, batch) == CUBLAS_STATUS_SUCCESS);
	auto all = C.read();
	for (int i = 0; i < batch; ++i)
		for (int shift : {0, 1, 3}) {
			std::vector<float> moved(shift);
			moved.insert(moved.end(), a.begin() + i * m * k, a.begin() + (i + 1) * m * k);
			DeviceArray<float> copy(moved);
			REQUIRE(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, copy + shift, m, B, k, &zero,
			                    single + shift, m) == CUBLAS_STATUS_SUCCESS);
			auto values = single.read();
			CHECK(std::memcmp(values.data() + shift, all.data() + i * m * n, m * n * sizeof(float)) == 0);
		}
}

TEST_CASE("Threads and streams at once compute the same bits")
{
	const int n = 96, threads = 4, rounds = 20;
	auto a = randomFloats(n * n, 12), b = randomFloats(n * n, 13);
	std::vector<std::vector<float>> results(threads);
	std::vector<std::thread> workers;
	for (int t = 0; t < threads; ++t)
		workers.emplace_back([&, t] {
			cublasHandle_t handle;
			cudaStream_t stream;
			cublasCreate(&handle);
			cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
			cublasSetStream(handle, stream);
			float *memory;
			cudaMalloc(reinterpret_cast<void **>(&memory), (2 + rounds) * n * n * sizeof(float));
			cudaMemcpy(memory, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice);
			cudaMemcpy(memory + n * n, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice);
			const float one = 1, zero = 0;
			for (int i = 0; i < rounds; ++i)
				cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, memory, n, memory + n * n, n, &zero,
				            memory + (2 + i) * n * n, n);
			cudaStreamSynchronize(stream);
			results[t].resize(rounds * n * n);
			cudaMemcpy(results[t].data(), memory + 2 * n * n, results[t].size() * sizeof(float),
			           cudaMemcpyDeviceToHost);
			cudaFree(memory);
			cublasDestroy(handle);
			cudaStreamDestroy(stream);
		});
	for (std::thread &worker : workers)
		worker.join();
	for (int t = 0; t < threads; ++t)
		for (int i = 0; i < rounds; ++i)
			REQUIRE(std::memcmp(results[0].data(), results[t].data() + i * n * n, n * n * sizeof(float)) == 0);
	auto exact = reference(false, true, n, n, n, a, b, [](float value) { return value; });
	results[0].resize(n * n);
	CHECK(relativeError(results[0], exact) < 1e-6);
}

TEST_CASE("Copies between host and device")
{
	std::vector<float> host{1, 2, 3, 4, 5, 6}, back(6, 0);
	DeviceArray<float> device(std::vector<float>(8, 9));
	CHECK(cublasSetMatrix(2, 2, sizeof(float), host.data(), 3, device, 4) == 0);
	CHECK(device.read() == std::vector<float>{1, 2, 9, 9, 4, 5, 9, 9});
	CHECK(cublasGetMatrix(2, 2, sizeof(float), device, 4, back.data(), 3) == 0);
	CHECK(back == std::vector<float>{1, 2, 0, 4, 5, 0});
	CHECK(cublasSetVectorAsync(3, sizeof(float), host.data(), 2, device, 1, nullptr) == 0);
	host.assign(6, 0); // pageable memory has been read when the call returns
	CHECK(cublasGetVectorAsync(3, sizeof(float), device, 1, back.data(), 1, nullptr) == 0);
	CHECK(back == std::vector<float>{1, 3, 5, 4, 5, 0});
	CHECK(cublasSetVector(3, 0, host.data(), 1, device, 1) == CUBLAS_STATUS_INVALID_VALUE);
	CHECK(cublasSetVector(3, 4, host.data(), 1, host.data(), 1) == CUBLAS_STATUS_MAPPING_ERROR);
}
