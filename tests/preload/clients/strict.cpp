// Products that float16 can lose, of the families of families.h and others, and their errors against fp64. One case per
// line: the error of the result, and those that TF32 and fp32 cause.
#include "families.h"

#include <thread>

using namespace client;

namespace {

struct Errors {
	double eta = 0, tf32 = 0, fp32 = 0; // relative Frobenius
};

float tf32(double x)
{
	const auto value = static_cast<float>(x);
	uint32_t bits;
	std::memcpy(&bits, &value, sizeof bits);
	bits = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
	float rounded;
	std::memcpy(&rounded, &bits, sizeof rounded);
	return std::isinf(rounded) ? value : rounded;
}

// Fills the last matrix of a batch; all of them if they share B, because such a batch is one product.
void load(Problem &problem, Operands &from, int64_t matrix)
{
	const auto &[m, n, k] = std::tuple(from.m, from.n, from.k);
	const bool isPlainA = problem.spec.transa == CUBLAS_OP_N, isPlainB = problem.spec.transb == CUBLAS_OP_N;
	for (int l = 0; l < k; l++) {
		for (int i = 0; i < m; i++)
			problem.a.array[problem.a.index(matrix, isPlainA ? i : l, isPlainA ? l : i)] =
			    static_cast<float>(from.atA(i, l));
		for (int j = 0; j < n; j++)
			problem.b.array[problem.b.index(matrix, isPlainB ? l : j, isPlainB ? j : l)] =
			    static_cast<float>(from.atB(l, j));
	}
}

void load(Problem &problem, Operands &from)
{
	for (int64_t matrix = problem.spec.sharesB ? 0 : problem.spec.batch - 1; matrix < problem.spec.batch; matrix++)
		load(problem, from, matrix);
}

// Compares the last matrix of a batch with alpha * A * B.
Errors errorsOf(Problem &problem, Operands &of)
{
	double norm = 0, wrong = 0, wrongTf32 = 0, wrongFp32 = 0;
	const auto scale = [](std::vector<double> &values) {
		double most = 0;
		for (const double x : values)
			most = std::max(most, std::abs(x));
		return most > 0 ? std::ilogb(most) : 0;
	};
	const int a = scale(of.a), b = scale(of.b); // so that the sums in fp32 do not overflow
	for (int i = 0; i < of.m; i++)
		for (int j = 0; j < of.n; j++) {
			double exact = 0, inTf32 = 0;
			float inFp32 = 0;
			for (int l = 0; l < of.k; l++) {
				const double x = of.atA(i, l), y = of.atB(l, j);
				exact += x * y;
				inTf32 += static_cast<double>(tf32(x)) * static_cast<double>(tf32(y));
				inFp32 += static_cast<float>(std::ldexp(x, -a)) * static_cast<float>(std::ldexp(y, -b));
			}
			const double result = static_cast<double>(problem.result().at(problem.spec.batch - 1, i, j)) /
			                      static_cast<double>(problem.spec.alpha);
			const auto square = [](double x) { return x * x; };
			norm += square(exact);
			wrong += square(result - exact);
			wrongTf32 += square(inTf32 - exact);
			wrongFp32 += square(std::ldexp(static_cast<double>(inFp32), a + b) - exact);
		}
	if (norm == 0)
		return {};
	return {std::sqrt(wrong / norm), std::sqrt(wrongTf32 / norm), std::sqrt(wrongFp32 / norm)};
}

// The alpha with which the largest sums are in the range of fp32.
float alphaFor(const Operands &of)
{
	double a = 0, b = 0;
	for (const double x : of.a)
		a = std::max(a, std::abs(x));
	for (const double y : of.b)
		b = std::max(b, std::abs(y));
	const double power = a > 0 && b > 0 ? std::log2(a) + std::log2(b) + std::log2(of.k) : 0;
	return power > 120 ? std::exp2(static_cast<float>(-power)) : 1;
}

void multiply(Session &session, Problem &problem, Line &line)
{
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	line.require(problem.call(session.handle, session.light) == 0, "a product failed");
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
}

void put(Line &line, Problem &problem, Operands &of, const char *name)
{
	const Errors errors = errorsOf(problem, of);
	line.put(name, errors.eta).put("tf32", errors.tf32).put("fp32", errors.fp32);
}

Problem problemOf(Operands &of, Spec spec = {})
{
	spec.m = of.m, spec.n = of.n, spec.k = of.k;
	spec.alpha = alphaFor(of);
	Problem problem(spec);
	load(problem, of);
	return problem;
}

// The first call has no prediction, the second one has. Then a call of other data, which makes the prediction wrong.
void family(Operands of, uint64_t seed, Line &line)
{
	Session session;
	Operands other(of.m, of.n, of.k);
	Spec spec;
	spec.transa = seed & 1 ? CUBLAS_OP_T : CUBLAS_OP_N, spec.transb = seed & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
	Problem problem = problemOf(of, spec);
	multiply(session, problem, line);
	put(line, problem, of, "eta");
	const uint64_t bits = problem.result().array.bits();
	const auto again = [&] {
		multiply(session, problem, line);
		line.require(problem.result().array.bits() == bits, "other bits");
	};
	again();
	std::fill(other.a.begin(), other.a.end(), 1e-12), std::fill(other.b.begin(), other.b.end(), 1e12);
	load(problem, other);
	multiply(session, problem, line);
	load(problem, of);
	again();
	line.bits("bits", bits);
	problem.describe(line);
}

Operands opposed(int m, int n, int k, int power, uint64_t seed = 5)
{
	Operands made(m, n, k);
	Draw r(seed);
	for (int l = 0; l < k; l++) {
		const double scale = std::ldexp(1, l * 7 % 5 < 2 ? power : -power);
		for (int i = 0; i < m; i++)
			made.atA(i, l) = static_cast<float>(r.gaussian() * scale);
		for (int j = 0; j < n; j++)
			made.atB(l, j) = static_cast<float>(r.gaussian() / scale);
	}
	return made;
}

// Products that maxima and energies do not detect (published model of the loss check, table 3).
Operands example(const std::string &name)
{
	constexpr int m = 64, n = 48, k = 300, third = k / 3;
	Operands made(m, n, k);
	Draw r(17);
	const auto positive = [&r] { return std::abs(r.gaussian()) + .1; };
	for (int l = 0; l < k; l++) {
		const double scale = name == "diagonal" ? std::exp2(13 * r.sign()) : 1;
		for (int i = 0; i < m; i++)
			made.atA(i, l) = name == "feature_22" || name == "feature_20" ? std::ldexp(positive(), l ? 0 : 36)
			                 : name == "sentinel"                         ? (l   ? std::ldexp(positive(), -27)
			                                                                 : i ? 0x1p-7
			                                                                     : 16384)
			                 : name == "diagonal"                         ? r.heavy(2.5) * scale
			                 : l < third                                  ? r.gaussian() * 16384
			                 : l < 2 * third                              ? made.atA(i, l - third)
			                                                              : std::ldexp(r.gaussian(), -14);
		for (int j = 0; j < n; j++)
			made.atB(l, j) = name == "feature_22"   ? (l       ? positive()
			                                           : j < 4 ? std::ldexp(positive(), -22)
			                                                   : 0)
			                 : name == "feature_20" ? (l       ? positive()
			                                           : j < 4 ? std::ldexp(positive(), -20)
			                                                   : 0)
			                 : name == "sentinel"   ? (l   ? 4096 * positive()
			                                           : j ? 0
			                                               : 0x1p-8)
			                 : name == "diagonal"   ? r.heavy(2.5) / scale
			                 : l < third            ? std::ldexp(r.gaussian(), -14)
			                 : l < 2 * third        ? -made.atB(l - third, j)
			                                        : r.gaussian();
	}
	for (std::vector<double> *const values : {&made.a, &made.b})
		for (double &x : *values)
			x = static_cast<double>(static_cast<float>(x));
	return made;
}

// Through other entry points; the last matrix of a batch loses.
void door(Spec spec, Line &line)
{
	Session session;
	Operands of = opposed(40, 36, 80, 16);
	spec.m = of.m, spec.n = of.n, spec.k = of.k;
	Problem problem(spec);
	load(problem, of);
	problem.upload();
	problem.runOn(session, line);
	if (spec.beta == 0 && spec.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
		put(line, problem, of, "error");
}

// A graph whose data changes between replays, from harmless to hard and back. Every replay has the bits of a call that
// is not captured.
void replay(Line &line)
{
	Session session;
	Operands easy = opposed(64, 48, 96, 0), hard = opposed(64, 48, 96, 17);
	Problem problem = problemOf(easy);
	multiply(session, problem, line);
	const uint64_t easyBits = problem.result().array.bits();
	load(problem, hard);
	multiply(session, problem, line);
	put(line, problem, hard, "eta");
	const uint64_t hardBits = problem.result().array.bits();
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeThreadLocal));
	line.require(problem.call(session.handle, session.light) == 0, "a captured call failed");
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int i = 0; i < 8; i++) {
		const bool isHard = i % 3 != 1;
		load(problem, isHard ? hard : easy);
		problem.upload();
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaGraphLaunch(executable, session.stream));
		CHECK(cudaStreamSynchronize(session.stream));
		problem.download();
		line.require(problem.result().array.bits() == (isHard ? hardBits : easyBits), "other bits when replayed");
	}
	CHECK(cudaGraphExecDestroy(executable));
	line.bits("bits", hardBits).put("hard", 6);
	problem.putRounded(line);
	problem.describe(line);
}

// A product that balancing does not cure: large elements of one row of A cancel exactly, because two rows of B are
// equal. The device reports it, and the next calls of the signature avoid float16. A captured call keeps its cast.
void uncured(int size, Line &line)
{
	Session session;
	Operands of = opposed(size, size, size, 0);
	for (int l = 0; l < size; l++)
		of.atA(0, l) = l == 0 ? 0x1p64 : l == 1 ? -0x1p64 : 0;
	for (int j = 0; j < size; j++)
		of.atB(1, j) = of.atB(0, j);
	Problem problem = problemOf(of);
	multiply(session, problem, line);
	put(line, problem, of, "first");
	multiply(session, problem, line);
	line.put("eta", errorsOf(problem, of).eta);
	load(problem, of = opposed(size, size, size, 0)); // the signature counts, not the data
	multiply(session, problem, line);
	problem.describe(line);
}

// Two threads with a stream each, which share the predictions.
void streams(Line &line)
{
	constexpr int calls = 20;
	Operands of[] = {opposed(50, 48, 96, 0), opposed(50, 48, 96, 18)};
	uint64_t bits[2] = {};
	bool isSame[2] = {true, true};
	const auto run = [&](int which) {
		Session session;
		Problem problem = problemOf(of[which]);
		for (int i = 0; i < calls; i++) {
			problem.upload();
			CHECK(cudaStreamSynchronize(session.stream));
			if (problem.call(session.handle))
				fail("streams", "a product failed");
			CHECK(cudaStreamSynchronize(session.stream));
			problem.download();
			isSame[which] = isSame[which] && (i == 0 || problem.result().array.bits() == bits[which]);
			bits[which] = problem.result().array.bits();
		}
		if (which == 1) {
			put(line, problem, of[1], "eta");
			problem.describe(line);
		}
	};
	std::thread first(run, 0), second(run, 1);
	first.join(), second.join();
	line.require(isSame[0] && isSame[1], "other bits");
	line.bits("bits", bits[1]).put("hard", calls);
}

std::vector<Case> allCases()
{
	std::vector<Case> cases;
	constexpr uint64_t seeds = 12;
	for (const auto &each : families)
		for (uint64_t seed = 0; seed < seeds; seed++)
			cases.push_back({std::string("family.") + each.name + "." + std::to_string(seed),
			                 [name = each.name, seed](Line &line) { family(drawn(name, seed), seed, line); }});
	for (const char *const name : {"feature_22", "feature_20", "sentinel", "diagonal", "cancelling"})
		cases.push_back({std::string("example.") + name, [=](Line &line) { family(example(name), 1, line); }});
	using enum Interception;
	const struct {
		const char *name;
		Spec spec;
	} doors[] = {
	    {"gemm_ex", {.door = gemmEx, .transa = CUBLAS_OP_T, .alpha = -3}},
	    {"strided", {.door = sgemmStridedBatched, .batch = 4, .transb = CUBLAS_OP_T}},
	    {"shared", {.door = sgemmStridedBatched, .batch = 4, .sharesB = true}},
	    {"pointers", {.door = sgemmBatched, .batch = 3, .alpha = 2}},
	    {"pointers_beta", {.door = sgemmBatched, .batch = 3, .beta = 0.5f}},
	    {"lt", {.door = ltMatmul, .transb = CUBLAS_OP_T}},
	    {"by_rows", {.door = ltMatmul, .isRowA = true, .isRowB = true, .isRowD = true}},
	    {"device_scalars", {.alpha = -2, .beta = 0.5f, .hasDeviceScalars = true}},
	    {"relu", {.door = ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}},
	    {"bgrada", {.door = ltMatmul, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
	};
	for (const auto &each : doors)
		cases.push_back({std::string("door.") + each.name, [spec = each.spec](Line &line) { door(spec, line); }});
	for (const int size : {32, 256}) // TF32 is not faster than fp32 at the first size
		cases.push_back({"uncured." + std::to_string(size), [=](Line &line) { uncured(size, line); }});
	cases.push_back({"replay", replay});
	cases.push_back({"streams", streams});
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
