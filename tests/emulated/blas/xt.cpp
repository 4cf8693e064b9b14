// cublasXt: matrices in any memory, computed when the call returns.
#include "tests/emulated/blas/levels.h"

#include <cublasXt.h>

using namespace levels;

namespace {

struct Xt {
	cublasXtHandle_t handle = nullptr;
	Xt()
	{
		int devices[] = {0, 1};
		REQUIRE(cublasXtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
		REQUIRE(cublasXtDeviceSelect(handle, 2, devices) == CUBLAS_STATUS_SUCCESS);
	}
	Xt(const Xt &) = delete;
	~Xt() { cublasXtDestroy(handle); }
};

#define OF_XT(name, S, D, C, Z)                                                                                        \
	template <typename T, typename... Arguments>                                                                       \
	cublasStatus_t name(Arguments... arguments)                                                                        \
	{                                                                                                                  \
		if constexpr (std::is_same_v<T, float>)                                                                        \
			return S(arguments...);                                                                                    \
		else if constexpr (std::is_same_v<T, double>)                                                                  \
			return D(arguments...);                                                                                    \
		else if constexpr (std::is_same_v<T, std::complex<float>>)                                                     \
			return C(vendors(arguments)...);                                                                           \
		else                                                                                                           \
			return Z(vendors(arguments)...);                                                                           \
	}
OF_XT(gemmXt, cublasXtSgemm, cublasXtDgemm, cublasXtCgemm, cublasXtZgemm)
OF_XT(trsmXt, cublasXtStrsm, cublasXtDtrsm, cublasXtCtrsm, cublasXtZtrsm)
OF_XT(syrkXt, cublasXtSsyrk, cublasXtDsyrk, cublasXtCsyrk, cublasXtZsyrk)

} // namespace

TEMPLATE_TEST_CASE("cublasXt computes with matrices anywhere", "", ALL_TYPES)
{
	using E = TestType;
	Xt xt;
	const auto a = randomValues<E>(80, 1), b = randomValues<E>(80, 2), c = randomValues<E>(80, 3);
	const Wide alpha{0.5, isComplex<E> ? 0.25 : 0}, beta = -1;
	const E al = narrow<E>(alpha), be = narrow<E>(beta);
	auto near = [](E value, Wide exact) {
		return std::abs(wide(value) - exact) <= tolerance<E> * (1 + std::abs(exact));
	};
	for (const char *where : {"host", "pinned", "managed", "device"})
		for (cublasOperation_t trans : {N, T, C}) {
			INFO(where << " " << trans);
			E *to[3];
			std::vector<E> hosts[3] = {a, b, c};
			for (int i = 0; i < 3; ++i) {
				if (*where == 'h')
					to[i] = hosts[i].data();
				else if (*where == 'd')
					REQUIRE(cudaMalloc((void **)&to[i], 80 * sizeof(E)) == cudaSuccess);
				else
					REQUIRE((*where == 'p' ? cudaMallocHost((void **)&to[i], 80 * sizeof(E))
					                       : cudaMallocManaged((void **)&to[i], 80 * sizeof(E))) == cudaSuccess);
				REQUIRE(cudaMemcpy(to[i], hosts[i].data(), 80 * sizeof(E), cudaMemcpyDefault) == cudaSuccess);
			}
			std::vector<E> result(80);
			REQUIRE(gemmXt<E>(xt.handle, N, trans, 5, 4, 3, &al, to[0], 7, to[1], 8, &be, to[2], 6) == 0);
			REQUIRE(cudaMemcpy(result.data(), to[2], 80 * sizeof(E), cudaMemcpyDefault) == cudaSuccess);
			const Matrix left = full(a, 5, 3, 7), right = op(full(b, trans == N ? 3 : 4, trans == N ? 4 : 3, 8), trans);
			const Matrix exact = alpha * (left * right) + beta * full(c, 5, 4, 6);
			for (int i = 0; i < 80; ++i)
				CHECK((i / 6 < 4 && i % 6 < 5 ? near(result[i], exact[i % 6][i / 6])
				                              : std::memcmp(&result[i], &c[i], sizeof(E)) == 0));
			for (int i = 0; i < 3; ++i)
				(*where == 'h' ? cudaSuccess : *where == 'p' ? cudaFreeHost(to[i]) : cudaFree(to[i]));
		}

	// cuBLAS computes the other routines; one of each kind.
	std::vector<E> square = c, solved = b;
	const E one = 1, zero = 0;
	CHECK(syrkXt<E>(xt.handle, Upper, N, 4, 3, &one, a.data(), 7, &zero, square.data(), 6) == 0);
	CHECK(near(square[6], (full(a, 4, 3, 7) * op(full(a, 4, 3, 7), T))[0][1]));
	CHECK(std::memcmp(&square[1], &c[1], sizeof(E)) == 0);
	CHECK(trsmXt<E>(xt.handle, Left, Lower, N, CUBLAS_DIAG_UNIT, 3, 1, &one, a.data(), 7, solved.data(), 8) == 0);
	CHECK(near(narrow<E>(wide(solved[1]) + wide(a[1]) * wide(solved[0])), wide(b[1])));
}

TEST_CASE("cublasXt: handles, settings, arguments")
{
	constexpr auto Invalid = CUBLAS_STATUS_INVALID_VALUE;
	const float one = 1, a[16] = {};
	float c[16] = {};
	cublasXtHandle_t early = nullptr;
	auto gemm = [&](cublasXtHandle_t handle, cublasOperation_t ta, size_t lda, const float *alpha) {
		return cublasXtSgemm(handle, ta, N, 4, 4, 4, alpha, a, lda, a, 4, &one, c, 4);
	};
	REQUIRE(cublasXtCreate(&early) == 0);
	CHECK(gemm(early, N, 4, &one) == CUBLAS_STATUS_NOT_INITIALIZED); // no device was selected
	int ids[] = {0, 7};
	CHECK(cublasXtDeviceSelect(early, 2, ids) == Invalid);
	CHECK(cublasXtDeviceSelect(early, 0, ids) == Invalid);
	CHECK(cublasXtDeviceSelect(early, 1, ids) == 0);
	CHECK(gemm(early, N, 4, &one) == 0);
	CHECK(gemm(nullptr, N, 4, &one) == CUBLAS_STATUS_NOT_INITIALIZED);
	CHECK(gemm(early, cublasOperation_t(9), 4, &one) == Invalid);
	CHECK(gemm(early, N, 3, &one) == Invalid);
	CHECK(gemm(early, N, 4, nullptr) == Invalid);
	int boards = 0;
	CHECK(cublasXtGetNumBoards(1, ids, &boards) == 0);
	CHECK(boards == 1);
	CHECK(cublasXtGetNumBoards(2, ids, &boards) == Invalid);
	CHECK(cublasXtDestroy(early) == 0);
	CHECK(cublasXtDestroy(early) == Invalid);
	CHECK(gemm(early, N, 4, &one) == CUBLAS_STATUS_NOT_INITIALIZED);
	// A handle of one library is not valid in the other.
	Blas blas;
	Xt xt;
	CHECK(gemm(reinterpret_cast<cublasXtHandle_t>(blas.handle), N, 4, &one) == CUBLAS_STATUS_NOT_INITIALIZED);
	CHECK(cublasSgemm(reinterpret_cast<cublasHandle_t>(xt.handle), N, N, 0, 0, 0, &one, a, 4, a, 4, &one, c, 4) ==
	      CUBLAS_STATUS_NOT_INITIALIZED);
}
