// Precision, scalars and NaN in cuBLAS products.
#include "hardware.h"

#include <cfloat>

namespace hardware {
namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N;

// 16-bit operands of one value each, one element of the result.
float ofHalves(uint16_t a, uint16_t b, int k)
{
	constexpr int n = 16;
	Session session;
	std::vector<uint16_t> host(static_cast<size_t>(n * k));
	void *A = nullptr, *B = nullptr;
	for (const auto &[value, memory] : {std::pair(a, &A), std::pair(b, &B)}) {
		host.assign(host.size(), value);
		CHECK(cudaMalloc(memory, host.size() * 2));
		CHECK(cudaMemcpy(*memory, host.data(), host.size() * 2, cudaMemcpyHostToDevice));
	}
	CHECK(cudaDeviceSynchronize());
	Array c(n * n);
	const float one = 1, zero = 0;
	CHECK(cublasGemmEx(session.handle, N, N, n, n, k, &one, A, CUDA_R_16F, n, B, CUDA_R_16F, k, &zero, c.data(),
	                   CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
	CHECK(cudaStreamSynchronize(session.stream));
	c.download();
	CHECK(cudaFree(A));
	CHECK(cudaFree(B));
	return c[0];
}

constexpr uint16_t oneHalf = 0x3c00, leastHalf = 0x0001, mostHalf = 0x7bff;
constexpr double fp32Error = 1e-5; // larger than any error of an fp32 product of this size

Spec tensorOps(Spec spec)
{
	spec.door = Interception::gemmEx;
	spec.mathMode = CUBLAS_TENSOR_OP_MATH;
	return spec;
}

Spec fast16(Spec spec)
{
	spec.door = Interception::gemmEx;
	spec.compute = CUBLAS_COMPUTE_32F_FAST_16F;
	return spec;
}

std::string hasLowPrecision(Line &line, const Spec &spec)
{
	return answer(product(line, Problem(spec)).eta > fp32Error);
}

// The result is finite in fp32.
std::string overflows(Line &line, const Spec &spec, float a, float b)
{
	Problem problem(spec);
	problem.a.fill([&] { return a; });
	problem.b.fill([&] { return b; });
	return answer(product(line, std::move(problem)).nonfinite > 0);
}

std::string hasNan(Line &line, const Spec &spec)
{
	return answer(product(line, Problem(spec)).nonfinite > 0);
}

// alpha * sum = (1 + 2^-12)^2, which fp32 rounds to 1 + 2^-11; c takes that away. One operation leaves 2^-24.
std::string scalars(Line &line)
{
	Session session;
	Array a(256), b(256), c(256);
	for (size_t i = 0; i < 256; i++) {
		a[i] = i < 16 ? 1 + 0x1p-12f : 0; // k = 1
		b[i] = 1;
		c[i] = -(1 + 0x1p-11f);
	}
	a.upload(), b.upload(), c.upload();
	const float alpha = 1 + 0x1p-12f, beta = 1;
	CHECK(cublasSgemm(session.handle, N, N, 16, 16, 1, &alpha, a.data(), 16, b.data(), 1, &beta, c.data(), 16));
	CHECK(cudaStreamSynchronize(session.stream));
	c.download();
	line.put("left", double(c[0]));
	return answer(c[0] == 0);
}

uint64_t bitsOn(Session &session, unsigned shift)
{
	Problem problem(with(gaussian, [&](Spec &spec) { spec.shiftA = spec.shiftB = spec.shiftC = shift; }));
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	uint64_t hash = 0;
	problem.c.each([&](float &x) { hash = client::hash(&x, sizeof x, hash); });
	return hash;
}

} // namespace

Rows cublasRows()
{
	static constexpr Spec tf32 = {.m = 256, .n = 256, .k = 512, .mathMode = CUBLAS_TF32_TENSOR_OP_MATH};
	return {
	    {"tf32.rounds_to_nearest", yes, recorded, shared,
	     [](Line &line) { // truncated operands leave 6.5e-4 and more
		     const double eta = product(line, Problem(tf32)).eta;
		     return answer(eta > 2.5e-4 && eta < 3.5e-4);
	     }},
	    {"tf32.the_largest_number_becomes_infinite", yes, recorded, shared,
	     [](Line &line) { return overflows(line, tf32, -FLT_MAX, 0x1p-20f); }},
	    {"gemm_ex.follows_the_math_mode", yes, recorded, shared,
	     [](Line &line) { return hasLowPrecision(line, with(tf32, [](Spec &s) { s.door = Interception::gemmEx; })); }},
	    {"gemm_ex.tensor_op_math_lowers_the_precision", yes, recorded, shared,
	     [](Line &line) { return hasLowPrecision(line, tensorOps(gaussian)); }},
	    {"gemm_ex.tensor_op_math_overflows_beyond_65504", no, recorded, shared,
	     [](Line &line) { return overflows(line, tensorOps(gaussian), 65536, 1); }},
	    {"fast_16f.lowers_the_precision", yes, recorded, shared,
	     [](Line &line) { return hasLowPrecision(line, fast16(gaussian)); }},
	    {"fast_16f.overflows_beyond_65504", no, recorded, shared,
	     [](Line &line) { return overflows(line, fast16(gaussian), 65536, 1); }},
	    {"half.subnormals_count", yes, needed, shared,
	     [](Line &) { return answer(ofHalves(leastHalf, oneHalf, 64) == 0x1p-18f); }},
	    {"half.products_of_subnormals", yes, recorded, shared,
	     [](Line &) { return answer(ofHalves(leastHalf, leastHalf, 64) == 0x1p-42f); }},
	    {"half.sums_beyond_its_range", yes, needed, shared,
	     [](Line &) {
		     return answer(std::fabs(ofHalves(mostHalf, mostHalf, 64) / (64 * 65504.f * 65504.f) - 1) < 1e-5f);
	     }},
	    {"scalars.rounded_one_by_one", yes, recorded, shared, scalars},
	    {"nan.in_c_is_overwritten_at_beta_0", yes, needed, shared,
	     [](Line &line) {
		     return answer(!product(line, Problem(with(gaussian, [](Spec &s) { s.isCNan = true; }))).nonfinite);
	     }},
	    {"nan.in_a_is_read_at_host_alpha_0", no, recorded, shared,
	     [](Line &line) { return hasNan(line, with(gaussian, [](Spec &s) { s.isANan = true, s.alpha = 0; })); }},
	    {"nan.in_a_is_read_at_device_alpha_0", yes, recorded, shared,
	     [](Line &line) {
		     return hasNan(line, with(gaussian, [](Spec &s) { s.isANan = s.hasDeviceScalars = true, s.alpha = 0; }));
	     }},
	    {"nan.passes_relu", yes, recorded, shared,
	     [](Line &line) {
		     return hasNan(line, with(gaussian, [](Spec &s) {
			                   s.door = Interception::ltMatmul;
			                   s.epilogue = CUBLASLT_EPILOGUE_RELU;
			                   s.isANan = true;
		                   }));
	     }},
	    {"bits.same_in_other_buffers_and_streams", yes, recorded, shared,
	     [](Line &) {
		     Session first, second;
		     return answer(bitsOn(first, 0) == bitsOn(second, 0));
	     }},
	    {"bits.same_when_misaligned", yes, recorded, shared,
	     [](Line &) {
		     Session session;
		     return answer(bitsOn(session, 0) == bitsOn(session, 1));
	     }},
	};
}

} // namespace hardware
