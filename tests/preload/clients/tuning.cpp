// Programs that time their candidates before they choose, like XLA's autotuner, TunableOp and CUBLAS_GEMM_AUTOTUNE:
// each candidate several times between two events, all compared. Each case runs in its own process, because it tests
// the process's first calls.
#include "harness.h"

using namespace client;

namespace {

constexpr int repeats = 3;

// `call` runs one candidate; a refused one does not count. Adds the number of candidates to the line.
template <typename Call>
void tune(Session &session, Problem &problem, Line &line, int candidates, Call call)
{
	const State before(session.handle);
	cudaEvent_t begin = nullptr, end = nullptr;
	CHECK(cudaEventCreate(&begin));
	CHECK(cudaEventCreate(&end));
	problem.upload();
	std::string statuses;
	uint64_t bits = 0;
	int calls = 0;
	for (int candidate = 0; candidate < candidates; candidate++) {
		int status = 0;
		CHECK(cudaEventRecord(begin, session.stream));
		for (int i = 0; i < repeats && !status; i++)
			status = call(candidate);
		CHECK(cudaEventRecord(end, session.stream));
		CHECK(cudaEventSynchronize(end));
		float milliseconds = -1;
		CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
		line.require(milliseconds >= 0, "no time");
		statuses += (candidate ? "," : "") + std::to_string(status);
		if (status)
			continue;
		calls += repeats;
		problem.download();
		line.require(!bits || bits == problem.result().array.bits(), "a candidate differs from the others");
		bits = problem.result().array.bits();
	}
	line.put("statuses", statuses).put("calls", calls).bits("bits", bits);
	line.require(problem.compare().eta < 4e-3, "wrong result");
	line.require(State(session.handle) == before, "the handle answers otherwise");
	CHECK(cudaEventDestroy(begin));
	CHECK(cudaEventDestroy(end));
	problem.describe(line);
	line.putCounts();
}

void gemmEx(Line &line)
{
	Session session;
	Problem p({.door = Interception::gemmEx, .m = 40});
	constexpr int algorithms[] = {CUBLAS_GEMM_DEFAULT,
	                              CUBLAS_GEMM_ALGO0,
	                              CUBLAS_GEMM_ALGO5,
	                              CUBLAS_GEMM_ALGO23,
	                              CUBLAS_GEMM_DEFAULT_TENSOR_OP,
	                              CUBLAS_GEMM_ALGO3_TENSOR_OP,
	                              CUBLAS_GEMM_ALGO15_TENSOR_OP,
	                              999 /* AUTOTUNE, of CUDA 13 */};
	tune(session, p, line, std::size(algorithms), [&](int candidate) {
		return cublasGemmEx(session.handle, CUBLAS_OP_N, CUBLAS_OP_N, p.spec.m, p.spec.n, p.spec.k, &p.spec.alpha,
		                    p.a.array.data(), CUDA_R_32F, static_cast<int>(p.a.ld), p.b.array.data(), CUDA_R_32F,
		                    static_cast<int>(p.b.ld), &p.spec.beta, p.c.array.data(), CUDA_R_32F,
		                    static_cast<int>(p.c.ld), CUBLAS_COMPUTE_32F,
		                    static_cast<cublasGemmAlgo_t>(algorithms[candidate]));
	});
}

void ltMatmul(Line &line)
{
	Session session;
	Problem p({.door = Interception::ltMatmul, .m = 41});
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t layouts[3] = {};
	const Matrix *const matrices[] = {&p.a, &p.b, &p.c};
	cublasLtMatmulPreference_t preference = nullptr;
	cublasLtMatmulHeuristicResult_t results[8] = {};
	int count = 0;
	CHECK(cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F));
	for (int i = 0; i < 3; i++)
		CHECK(cublasLtMatrixLayoutCreate(&layouts[i], CUDA_R_32F, static_cast<uint64_t>(matrices[i]->rows),
		                                 static_cast<uint64_t>(matrices[i]->columns), matrices[i]->ld));
	CHECK(cublasLtMatmulPreferenceCreate(&preference));
	const auto ask = [&] {
		CHECK(cublasLtMatmulAlgoGetHeuristic(session.light, desc, layouts[0], layouts[1], layouts[2], layouts[2],
		                                     preference, std::size(results), results, &count));
		return hash(results, sizeof results);
	};
	const uint64_t heuristics = ask();
	tune(session, p, line, count, [&](int candidate) {
		return cublasLtMatmul(session.light, desc, &p.spec.alpha, p.a.array.data(), layouts[0], p.b.array.data(),
		                      layouts[1], &p.spec.beta, p.c.array.data(), layouts[2], p.c.array.data(), layouts[2],
		                      &results[candidate].algo, nullptr, 0, session.stream);
	});
	line.put("heuristics", count).bits("heuristic_bits", heuristics);
	line.require(count > 0 && ask() == heuristics, "other heuristics than before");
	CHECK(cublasLtMatmulPreferenceDestroy(preference));
	for (cublasLtMatrixLayout_t layout : layouts)
		CHECK(cublasLtMatrixLayoutDestroy(layout));
	CHECK(cublasLtMatmulDescDestroy(desc));
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, {{"gemm_ex", gemmEx}, {"lt", ltMatmul}});
}
