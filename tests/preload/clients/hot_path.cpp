// Counts allocations and locks of autoamp's own code while it handles cached calls (counting.h): in the first turn of
// each case, and in later ones.
#include "counting.h"

#include "inject/autoamp.h"

using namespace client;

namespace {

autoamp_region region(const char *name, const char *dtype = nullptr, int enabled = AUTOAMP_SAME)
{
	autoamp_region made = AUTOAMP_REGION;
	made.name = name, made.dtype = dtype, made.enabled = enabled;
	return made;
}

struct Work {
	const char *name;
	Spec spec; // n = 0: forty of them, more than the memo of a thread holds at the same time
	std::vector<autoamp_region> regions = {}; // each opened around a product, and closed; empty: a product outside
};
const std::vector<autoamp_region> changing = {region("one"), region("two", "bfloat16"), region("off", nullptr, 0)};
const Work works[] = {{"sgemm", {.m = 64}},
                      {"sgemm.64", {.is64 = true, .m = 64}},
                      {"gemm_ex", {.door = Interception::gemmEx, .m = 64}},
                      {"strided", {.door = Interception::sgemmStridedBatched, .m = 64, .batch = 3}},
                      {"batched", {.door = Interception::sgemmBatched, .m = 64, .batch = 3}},
                      {"lt", {.door = Interception::ltMatmul, .m = 64}},
                      {"pedantic", {.m = 64, .mathMode = CUBLAS_PEDANTIC_MATH}},
                      {"many.sgemm", {.m = 64, .n = 0}},
                      {"regions.sgemm", {.m = 64}, changing},
                      {"regions.many", {.m = 64, .n = 0}, changing},
                      {"regions.lt", {.door = Interception::ltMatmul, .m = 64}, changing}};

void turn(Session &session, std::vector<Problem> &problems, const Work &work)
{
	for (size_t i = 0; i < std::max<size_t>(1, work.regions.size()); i++) {
		const bool isInside = i < work.regions.size();
		if (isInside && autoamp_push(&work.regions[i]))
			fail("a region", "is refused");
		for (Problem &problem : problems)
			CHECK(static_cast<cublasStatus_t>(problem.call(session.handle, session.light)));
		if (isInside && autoamp_pop())
			fail("a region", "is gone");
		CHECK(cudaStreamSynchronize(session.stream));
	}
}

void run(const Work &work, Line &line)
{
	Session session;
	std::vector<Problem> other, problems;
	other.emplace_back(Spec{.m = 8});
	Spec spec = work.spec;
	const size_t wanted = spec.n ? 1 : 40;
	for (spec.n = spec.n ? 48 : 1; problems.size() < wanted; spec.n++)
		problems.emplace_back(spec), problems.back().upload();
	other.front().upload();
	turn(session, other, {}); // the core is loaded from here on
	countTurns(line, static_cast<int>(std::max<size_t>(1, work.regions.size()) * wanted),
	           [&] { turn(session, problems, work); });
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases;
	for (const Work &work : works)
		cases.push_back({work.name, [&work](Line &line) { run(work, line); }});
	return runCases(argc, argv, cases);
}
