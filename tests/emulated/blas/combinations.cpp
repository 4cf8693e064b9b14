// Exactly the documented types are accepted. The lists are written out here, so that a changed row in the data is
// detected.
#include "tests/emulated/blas/fixture.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace {

using Types = std::tuple<int, int, int, int, int>; // compute, scale, A, B, C and D

constexpr cudaDataType types[] = {CUDA_R_32F, CUDA_R_64F,     CUDA_R_16F, CUDA_R_16BF, CUDA_R_8I,
                                  CUDA_C_8I,  CUDA_R_8F_E4M3, CUDA_C_32F, CUDA_C_64F,  CUDA_R_32I};
constexpr int computes[] = {0, 2, 64, 65, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 1000};

std::set<Types> documented(bool isLt)
{
	std::set<Types> rows;
	for (int compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC})
		for (auto [operand, result] : {std::pair{CUDA_R_32F, CUDA_R_32F},
		                               {CUDA_R_16F, CUDA_R_16F},
		                               {CUDA_R_16F, CUDA_R_32F},
		                               {CUDA_R_16BF, CUDA_R_16BF},
		                               {CUDA_R_16BF, CUDA_R_32F}})
			rows.insert({compute, CUDA_R_32F, operand, operand, result});
	for (int compute : {CUBLAS_COMPUTE_32F_FAST_16F, CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32,
	                    CUBLAS_COMPUTE_32F_EMULATED_16BFX9})
		rows.insert({compute, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F});
	for (int compute : {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_32F_FAST_16F,
	                    CUBLAS_COMPUTE_32F_FAST_16BF, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_COMPUTE_32F_EMULATED_16BFX9})
		rows.insert({compute, CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, CUDA_C_32F});
	for (int compute : {CUBLAS_COMPUTE_16F, CUBLAS_COMPUTE_16F_PEDANTIC})
		rows.insert({compute, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUDA_R_16F});
	for (int compute : {CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC})
		for (cudaDataType type : {CUDA_R_64F, CUDA_C_64F})
			rows.insert({compute, type, type, type, type});
	for (cudaDataType type : {CUDA_R_64F, CUDA_C_64F})
		if (isLt)
			rows.insert({CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT, type, type, type, type});
	return rows;
}

std::set<Types> documentedGroups()
{
	std::set<Types> rows;
	for (cudaDataType type : {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF})
		rows.insert({CUBLAS_COMPUTE_32F, CUDA_R_32F, type, type, type});
	for (int compute : {CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_32F_FAST_TF32})
		rows.insert({compute, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F});
	for (int compute : {CUBLAS_COMPUTE_64F, CUBLAS_COMPUTE_64F_PEDANTIC})
		rows.insert({compute, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F});
	return rows;
}

cublasStatus_t expected(bool isAccepted)
{
	return isAccepted ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

} // namespace

TEST_CASE("cublasGemmEx and its batched forms take the documented types and no others")
{
	constexpr auto N = CUBLAS_OP_N;
	constexpr auto algorithm = CUBLAS_GEMM_DEFAULT;
	Blas blas;
	DeviceArray<double> memory(128);
	DeviceArray<void *> pointers(std::vector<void *>{memory, memory + 32, memory + 64});
	const double doubles[2] = {1, 0};
	const float floats[2] = {1, 0};
	const __half half(1.f);
	const std::set<Types> rows = documented(false), groups = documentedGroups();
	const int two = 2, one = 1;
	int accepted = 0, acceptedGroups = 0;
	for (int number : computes)
		for (cudaDataType a : types)
			for (cudaDataType b : types)
				for (cudaDataType c : types) {
					auto isIn = [&](const std::set<Types> &all) {
						return std::any_of(std::begin(types), std::end(types), [&](cudaDataType scale) {
							return all.contains({number, scale, a, b, c});
						});
					};
					const auto compute = cublasComputeType_t(number);
					const void *alpha = number == 64 || number == 65   ? static_cast<const void *>(&half)
					                    : number == 70 || number == 71 ? static_cast<const void *>(doubles)
					                                                   : floats;
					INFO(compute << " " << a << " " << b << " " << c);
					CHECK(cublasGemmEx(blas, N, N, 2, 2, 2, alpha, memory, a, 2, memory + 32, b, 2, alpha, memory + 64,
					                   c, 2, compute, algorithm) == expected(isIn(rows)));
					CHECK(cublasGemmStridedBatchedEx(blas, N, N, 2, 2, 2, alpha, memory, a, 2, 4, memory + 32, b, 2, 4,
					                                 alpha, memory + 64, c, 2, 4, 2, compute,
					                                 algorithm) == expected(isIn(rows)));
					CHECK(cublasGemmBatchedEx(blas, N, N, 2, 2, 2, alpha, pointers, a, 2, pointers + 1, b, 2, alpha,
					                          pointers + 2, c, 2, 1, compute, algorithm) == expected(isIn(rows)));
					CHECK(cublasGemmGroupedBatchedEx(blas, &N, &N, &two, &two, &two, alpha, pointers, a, &two,
					                                 pointers + 1, b, &two, alpha, pointers + 2, c, &two, 1, &one,
					                                 compute) == expected(isIn(groups)));
					accepted += isIn(rows);
					acceptedGroups += isIn(groups);
				}
	CHECK(accepted == 26);
	CHECK(acceptedGroups == 7);
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("cublasSgemmEx takes the documented types and no others")
{
	Blas blas;
	DeviceArray<double> memory(64);
	const float one = 1;
	int accepted = 0;
	for (cudaDataType a : types)
		for (cudaDataType b : types)
			for (cudaDataType c : types) {
				bool isKnown =
				    a == b && (a == CUDA_R_32F || a == CUDA_R_16F || a == CUDA_R_16BF) && (c == CUDA_R_32F || c == a);
				INFO(a << " " << b << " " << c);
				REQUIRE(cublasSgemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, memory, a, 2, memory + 16, b, 2,
				                      &one, memory + 32, c, 2) == expected(isKnown));
				accepted += isKnown;
			}
	CHECK(accepted == 5);
}

TEST_CASE("The Lt heuristic takes the documented types and no others")
{
	Blas blas;
	std::set<Types> rows = documented(true);
	int accepted = 0;
	for (int compute : computes)
		for (cudaDataType scale : types)
			for (cudaDataType a : types)
				for (cudaDataType b : types)
					for (cudaDataType c : types)
						for (cudaDataType d : types) {
							bool isKnown = c == d && rows.contains({compute, scale, a, b, c});
							int ids[8], count = 0;
							cublasStatus_t status = cublasLtMatmulAlgoGetIds(blas.lt(), cublasComputeType_t(compute),
							                                                 scale, a, b, c, d, 8, ids, &count);
							if (status != expected(isKnown) || (count > 0) != isKnown)
								FAIL(compute << " " << scale << " " << a << " " << b << " " << c << " " << d);
							accepted += isKnown;
						}
	CHECK(accepted == 28);
}

TEST_CASE("A documented Lt product runs, a bias has the documented type")
{
	Blas blas;
	DeviceArray<double> memory(256);
	for (auto [compute, scale, a, b, d] : documented(true)) {
		INFO(compute << " " << scale << " " << a << " " << d);
		LtCall call(4, 4, 4, cudaDataType(a), cudaDataType(d), cublasComputeType_t(compute), cudaDataType(scale));
		std::vector<cublasLtMatmulHeuristicResult_t> results;
		const bool isComplex = scale == CUDA_C_32F || scale == CUDA_C_64F;
		call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
		call.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void *>(memory + 192));
		REQUIRE(call.heuristic(blas.lt(), results) == expected(!isComplex));
		if (isComplex) { // no epilogue
			call.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
			REQUIRE(call.heuristic(blas.lt(), results) == CUBLAS_STATUS_SUCCESS);
		}
		const double one[2] = {1, 0};
		const float oneFloat[2] = {1, 0};
		const __half oneHalf(1.f);
		const void *alpha = scale == CUDA_R_64F || scale == CUDA_C_64F ? static_cast<const void *>(one)
		                    : scale == CUDA_R_16F                      ? static_cast<const void *>(&oneHalf)
		                                                               : oneFloat;
		CHECK(cublasLtMatmul(blas.lt(), call.desc, alpha, memory, call.a, memory + 64, call.b, alpha, memory + 128,
		                     call.c, memory + 128, call.d, &results[0].algo, nullptr, 0,
		                     nullptr) == CUBLAS_STATUS_SUCCESS);
		for (cudaDataType bias : types) {
			if (isComplex)
				break;
			call.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(bias));
			CHECK(call.heuristic(blas.lt(), results) == expected(bias == d));
		}
	}
	CHECK(cudaDeviceSynchronize() == cudaSuccess);
}
