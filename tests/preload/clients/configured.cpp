// Products that differ in the conditions of a rule: entry point, sizes, thread. One mode changes files and the
// environment between two of them, as the variables CLIENT_* specify.
#include "harness.h"

#include <cstdlib>
#include <fstream>
#include <pthread.h>
#include <thread>

using namespace client;

namespace {

void product(Line &line, const Spec &spec)
{
	Session session;
	Problem(spec).runOn(session, line);
}

double errorOf(Session &session, Problem &problem)
{
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle, session.light)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	return problem.compare().eta;
}

// The same product from the main thread, and from threads of two names, in turn.
void threads(Line &line)
{
	Session session;
	Problem problem({.m = 70});
	line.put("eta_main", errorOf(session, problem));
	for (int turn = 0; turn < 2; turn++)
		for (const char *name : {"worker-7", "loader"})
			std::thread([&] {
				pthread_setname_np(pthread_self(), name);
				line.put((name + ("_" + std::to_string(turn))).c_str(), errorOf(session, problem));
			}).join();
	problem.describe(line);
}

void rewrites(Line &line)
{
	Session session;
	Problem first({.m = 71}), second({.m = 72});
	line.put("eta_before", errorOf(session, first));
	std::ofstream(std::getenv("CLIENT_FILE"), std::ios::trunc) << std::getenv("CLIENT_TEXT");
	setenv(std::getenv("CLIENT_VARIABLE"), std::getenv("CLIENT_VALUE"), 1);
	line.put("eta_after", errorOf(session, second));
	std::thread([&] { line.put("eta_thread", errorOf(session, second)); }).join();
	line.put("eta_again", errorOf(session, first));
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases = {{"threads", threads}, {"rewrites", rewrites}};
	const std::pair<const char *, Spec> products[] = {
	    {"door.sgemm", {.m = 60}},
	    {"door.gemm_ex", {.door = Interception::gemmEx, .m = 61}},
	    {"door.lt", {.door = Interception::ltMatmul, .m = 62}},
	    {"door.strided", {.door = Interception::sgemmStridedBatched, .m = 63, .batch = 3}},
	    {"size.narrow", {.m = 64, .n = 32}},
	    {"size.wide", {.m = 64, .n = 320}},
	    {"mode.pedantic", {.m = 65, .mathMode = CUBLAS_PEDANTIC_MATH}},
	};
	for (const auto &[name, spec] : products)
		cases.push_back({name, [spec](Line &line) { product(line, spec); }});
	// The application itself allows it to be rounded.
	constexpr auto tf32 = CUBLAS_COMPUTE_32F_FAST_TF32, half = CUBLAS_COMPUTE_32F_FAST_16F;
	const std::pair<const char *, Spec> narrow[] = {
	    {"narrow.sgemm", {.m = 80, .beta = 0.5f, .mathMode = CUBLAS_TF32_TENSOR_OP_MATH}},
	    {"narrow.device", {.m = 81, .beta = 0.5f, .hasDeviceScalars = true, .mathMode = CUBLAS_TF32_TENSOR_OP_MATH}},
	    {"narrow.gemm_ex", {.door = Interception::gemmEx, .m = 82, .transa = CUBLAS_OP_T, .padA = 3, .compute = tf32}},
	    {"narrow.strided", {.door = Interception::gemmStridedBatchedEx, .m = 83, .batch = 3, .compute = tf32}},
	    {"narrow.batched", {.door = Interception::gemmBatchedEx, .m = 84, .batch = 3, .compute = tf32}},
	    {"narrow.grouped", {.door = Interception::gemmGroupedEx, .m = 85, .batch = 4, .groups = 2, .compute = tf32}},
	    {"narrow.lt", {.door = Interception::ltMatmul, .m = 86, .beta = 0.5f, .compute = tf32, .hasOwnD = true}},
	    {"narrow.lt_bias",
	     {.door = Interception::ltMatmul, .m = 88, .compute = tf32, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}},
	    {"narrow.lt_rows",
	     {.door = Interception::ltMatmul, .m = 96, .compute = tf32, .isRowA = true, .isRowB = true, .isRowD = true}},
	    {"narrow.half", {.door = Interception::gemmEx, .m = 89, .compute = half}},
	    {"narrow.half_mode", {.m = 90, .mathMode = CUBLAS_TENSOR_OP_MATH}},
	    {"narrow.half_lt", {.door = Interception::ltMatmul, .m = 91, .compute = half}},
	    {"narrow.bfloat16", {.door = Interception::gemmEx, .m = 92, .compute = CUBLAS_COMPUTE_32F_FAST_16BF}},
	    {"stays.sum", {.door = Interception::ltMatmul, .m = 93, .compute = tf32, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
	    {"stays.odd_groups",
	     {.door = Interception::gemmGroupedEx, .m = 94, .batch = 4, .groups = 2, .hasOddGroup = true, .compute = tf32}},
	    {"stays.pedantic", {.door = Interception::gemmEx, .m = 95, .compute = CUBLAS_COMPUTE_32F_PEDANTIC}},
	    {"stays.zero", {.door = Interception::gemmEx, .m = 97, .alpha = 0, .compute = half}},
	};
	for (const auto &[name, spec] : narrow)
		cases.push_back({name, [spec](Line &line) { product(line, spec); }});
	return runCases(argc, argv, cases);
}
