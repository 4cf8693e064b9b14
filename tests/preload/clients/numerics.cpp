// Numeric ranges: magnitudes from 1e-40 to 1e37, growth between calls, extremes of alpha, subnormals, Inf and NaN, data
// in which a few elements dominate, and the same operands after any history. One case per line.
#include "harness.h"

#include <limits>
#include <thread>

using namespace client;

namespace {

using Values = std::function<double(Random &)>;

double gaussian(Random &random)
{
	return random.gaussian();
}

double uniform(Random &random)
{
	return random.uniform();
}

double sign(Random &random)
{
	return random.uniform() < 0.5 ? -1 : 1;
}

void fill(Matrix &matrix, uint64_t seed, double factor, const Values &values = gaussian)
{
	Random random(seed);
	matrix.fill([&] { return factor * values(random); });
}

Answer multiply(Session &session, Problem &problem, Line &line)
{
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	line.require(problem.call(session.handle, session.light) == 0, "a call failed");
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	line.require(problem.isPaddingWhole(), "memory outside the matrices changed");
	return problem.compare();
}

void put(Line &line, const Problem &problem, const Answer &answer)
{
	if (answer.isMeasurable)
		line.put("eta", answer.eta).put("omega", answer.omega);
	if (!(answer.beside < 0))
		line.put("beside", answer.beside);
	line.put("nonfinite", answer.nonfinite).put("spoiled", answer.spoiled).bits("classes", answer.classes);
	line.bits("bits", const_cast<Problem &>(problem).result().array.bits());
}

// One site for all magnitudes: mixed calls, each with its own scales.
constexpr Spec magnitudeSpec = {.m = 64, .n = 48, .k = 96};

void magnitude(int powerA, int powerB, Line &line)
{
	Session session;
	Problem problem(magnitudeSpec);
	fill(problem.a, 11, std::pow(10.0, powerA));
	fill(problem.b, 12, std::pow(10.0, powerB));
	const Answer answer = multiply(session, problem, line);
	put(line, problem, answer);
}

// The same where entry points differ: batches share one scale, epilogues read the unscaled result.
void magnitudeOf(Spec spec, Line &line)
{
	Session session;
	spec.padA = spec.padB = spec.padC = 3;
	Problem problem(spec);
	fill(problem.a, 11, 1e25);
	fill(problem.b, 12, 1e-25); // a result as large as C and the bias, where GELU is curved
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
}

// The buffers stay; their content grows and shrinks by 1e6 from call to call.
void growth(Line &line)
{
	Session session;
	Problem problem({.m = 65});
	double worst = 0, best = INFINITY;
	long long spoiled = 0;
	uint64_t bits = 0;
	for (const double factor : {1.0, 1e6, 1e12, 1e18, 1e24, 1e18, 1.0, 1e-6, 1e-12, 1e-18, 1.0}) {
		fill(problem.a, 21, factor);
		const Answer answer = multiply(session, problem, line);
		worst = std::max(worst, answer.eta);
		best = std::min(best, answer.eta);
		spoiled += answer.spoiled;
		bits = bits * 31 + problem.c.array.bits();
	}
	line.put("eta", worst).put("least_eta", best).put("spoiled", spoiled).bits("bits", bits);
}

// Layers of one shape in turn on one site: data of one must not affect another.
void mixed(Line &line)
{
	Session session;
	const double factors[] = {1, 1e5, 1e-9, 3e12};
	std::vector<Problem> layers;
	layers.reserve(4);
	double worst = 0;
	long long spoiled = 0;
	std::vector<uint64_t> first;
	for (int turn = 0; turn < 3; turn++)
		for (size_t i = 0; i < 4; i++) {
			if (!turn) {
				layers.emplace_back(Spec{.m = 66}, i);
				fill(layers[i].a, i, factors[i]);
				fill(layers[i].b, i + 9, factors[3 - i]);
			}
			const Answer answer = multiply(session, layers[i], line);
			worst = std::max(worst, answer.eta);
			spoiled += answer.spoiled;
			if (!turn)
				first.push_back(layers[i].c.array.bits());
			line.require(layers[i].c.array.bits() == first[i], "a layer's bits depend on the turn");
		}
	line.put("eta", worst).put("spoiled", spoiled).bits("bits", hash(first.data(), first.size() * sizeof first[0]));
}

void alphas(bool isDevice, Line &line)
{
	Session session;
	Problem problem({.m = 33, .n = 32, .k = 32, .hasDeviceScalars = isDevice});
	double worst = 0;
	long long spoiled = 0, measured = 0;
	uint64_t bits = 0;
	for (const double a : {1e-38, 1e-19, 1.0, 1e19, 1e37}) {
		fill(problem.a, 31, a / 4);
		for (const double b : {1e-38, 1e-19, 1.0, 1e19, 1e37}) {
			fill(problem.b, 32, b / 4);
			for (const float alpha : {1e-40f, 1e-30f, 1e-4f, 1.0f, -1e30f}) {
				for (const float beta : {0.0f, 1.0f}) {
					fill(problem.c, 33, beta);
					problem.setScalars(alpha, beta);
					const Answer answer = multiply(session, problem, line);
					spoiled += answer.spoiled;
					bits = bits * 31 + problem.c.array.bits();
					if (beta != 0 || !answer.isMeasurable)
						continue;
					worst = std::max(worst, answer.eta);
					measured++;
				}
			}
		}
	}
	line.put("eta", worst).put("spoiled", spoiled).put("measured", measured).bits("bits", bits);
}

// alpha 0, Inf and NaN have the same effect at any scale.
void strangeAlphas(Line &line)
{
	Session session;
	Problem problem({.m = 67, .hasDeviceScalars = true});
	fill(problem.a, 34, 1, uniform); // no sum near 0, whose sign rounding could change
	fill(problem.b, 35, 1, uniform);
	uint64_t classes = 0;
	for (const float alpha : {0.0f, -0.0f, INFINITY, -INFINITY, NAN}) {
		problem.setScalars(alpha, 0);
		classes = classes * 31 + multiply(session, problem, line).classes;
	}
	line.bits("classes", classes);
}

void data(const Spec &spec, const Values &ofA, const Values &ofB, Line &line)
{
	Session session;
	Problem problem(spec);
	fill(problem.a, 41, 1, ofA);
	fill(problem.b, 42, 1, ofB);
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
}

Values lognormal(double width)
{
	return [width](Random &random) { return sign(random) * std::exp(width * random.gaussian()); };
}

// Rows (or columns) as stored times factors of 10^-power to 10^power; undone: divided by the same ones.
void spread(Matrix &matrix, double power, bool isOfColumns = false, bool isUndone = false)
{
	Random random(43);
	std::vector<double> factors;
	for (int64_t i = 0; i < (isOfColumns ? matrix.columns : matrix.rows); i++)
		factors.push_back(std::pow(10, (isUndone ? -1 : 1) * power * (2 * random.uniform() - 1)));
	for (int64_t batch = 0; batch < matrix.batch; batch++)
		for (int64_t j = 0; j < matrix.columns; j++)
			for (int64_t i = 0; i < matrix.rows; i++)
				matrix.array[matrix.index(batch, i, j)] *=
				    static_cast<float>(factors[static_cast<size_t>(isOfColumns ? j : i)]);
}

// Rows of A that differ by six orders of magnitude.
void rowsApart(Line &line)
{
	Session session;
	Problem problem({.m = 70});
	spread(problem.a, 3);
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
}

// Rows of A, columns of B, or both along k with factors that cancel: lost if they differ by more than half can
// represent.
enum class Loss { rows, columns, opposed };
void loss(Spec spec, Loss kind, double power, Line &line)
{
	Session session;
	Problem problem(spec);
	const bool isPlainA = spec.transa == CUBLAS_OP_N, isPlainB = spec.transb == CUBLAS_OP_N;
	if (kind != Loss::columns)
		spread(problem.a, power, isPlainA == (kind == Loss::opposed));
	if (kind != Loss::rows)
		spread(problem.b, power, isPlainB == (kind == Loss::columns), kind == Loss::opposed);
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
}

// One feature of A is 2^36 times larger than the others and nearly pruned in B; or one sentinel value is only in A.
enum class Small { feature, sentinel };
void smallElements(Small kind, int m, Line &line)
{
	Session session;
	Problem problem({.m = m, .n = 96, .k = 256});
	fill(problem.a, 81, 1, [](Random &random) { return std::fabs(random.gaussian()) + 0.1; });
	fill(problem.b, 82, 1, [](Random &random) { return std::fabs(random.gaussian()) + 0.1; });
	const bool isFeature = kind == Small::feature;
	for (int64_t l = 0; l < 256; l++) {
		for (int64_t i = 0; i < m; i++) {
			float &x = problem.a.array[problem.a.index(0, i, l)];
			x = isFeature ? std::ldexp(x, l == 0 ? 36 : 0) : l ? std::ldexp(x, -27) : i ? 0x1p-7f : 16384;
		}
		for (int64_t j = 0; j < 96; j++) {
			float &y = problem.b.array[problem.b.index(0, l, j)];
			if (isFeature)
				y = l ? y : j < 4 ? std::ldexp(y, -22) : 0;
			else
				y = l ? 4096 * y : j ? 0 : 0x1p-8f;
		}
	}
	problem.describe(line);
	multiply(session, problem, line);
	put(line, problem, multiply(session, problem, line));
}

// Harmless at first; a sampled call detects the later loss.
void laterLoss(Line &line)
{
	Session session;
	Problem problem({.m = 79, .n = 32, .k = 32});
	multiply(session, problem, line);
	spread(problem.a, 6);
	constexpr int calls = 255;
	for (int i = 1; i < calls; i++)
		multiply(session, problem, line);
	problem.describe(line);
	line.put("calls", calls);
}

// A mask of -FLT_MAX whose weights are zeros, and one large number that matters; the second call is replayed from a
// graph.
void mask(Spec spec, Line &line)
{
	Session session;
	Problem problem(spec);
	const bool isPlainA = spec.transa == CUBLAS_OP_N, isPlainB = spec.transb == CUBLAS_OP_N;
	constexpr float most = std::numeric_limits<float>::max();
	for (int64_t batch = 0; batch < spec.batch; batch++) {
		for (int64_t i = 0; i < spec.m; i++)
			problem.a.array[problem.a.index(batch, isPlainA ? i : 3, isPlainA ? 3 : i)] = -most;
		for (int64_t j = 0; j < spec.n; j++)
			problem.b.array[problem.b.index(batch, isPlainB ? 3 : j, isPlainB ? j : 3)] = 0;
	}
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
	const uint64_t bits = problem.result().array.bits();

	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeThreadLocal));
	line.require(problem.call(session.handle, session.light) == 0, "a captured call failed");
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int replay = 0; replay < 2; replay++) {
		problem.upload();
		CHECK(cudaGraphLaunch(executable, session.stream));
		CHECK(cudaStreamSynchronize(session.stream));
		problem.download();
		line.require(problem.result().array.bits() == bits, "other bits when replayed");
	}
	CHECK(cudaGraphExecDestroy(executable));
}

void oneLarge(Line &line)
{
	Session session;
	Problem problem({.m = 71});
	problem.a.array[17] = 1e6f;
	problem.describe(line);
	put(line, problem, multiply(session, problem, line));
}

void nonfinite(const std::vector<float> &inA, const std::vector<float> &inB, Line &line)
{
	Session session;
	Problem problem({.m = 72});
	for (size_t i = 0; i < inA.size(); i++)
		problem.a.array[5 + 73 * i] = inA[i];
	for (size_t i = 0; i < inB.size(); i++)
		problem.b.array[7 + 97 * i] = inB[i];
	const Answer answer = multiply(session, problem, line);
	put(line, problem, answer);
	line.require(answer.spoiled == 0, "Inf or NaN where there is none");
}

// ---- the same operands, the same bits

uint64_t bitsOf(Session &session, Problem &problem, Line &line)
{
	multiply(session, problem, line);
	return problem.c.array.bits();
}

void history(Line &line)
{
	const Spec spec = {.m = 73, .padA = 1};
	const auto make = [&spec] {
		Problem problem(spec);
		fill(problem.a, 51, 1, lognormal(3)); // different scales would change its bits
		fill(problem.b, 52, 1, lognormal(3));
		return problem;
	};
	Session session;
	Problem problem = make();
	const uint64_t first = bitsOf(session, problem, line);
	line.bits("bits", first);

	line.require(bitsOf(session, problem, line) == first, "other bits at the second call");
	for (const double factor : {1e6, 1e-9, 33.0}) {
		fill(problem.a, 53, factor);
		fill(problem.b, 54, 1 / factor);
		multiply(session, problem, line);
		fill(problem.a, 51, 1, lognormal(3));
		fill(problem.b, 52, 1, lognormal(3));
		line.require(bitsOf(session, problem, line) == first, "other bits after other operands");
	}
	for (Matrix *matrix : {&problem.a, &problem.b, &problem.c})
		matrix->array.move();
	line.require(bitsOf(session, problem, line) == first, "other bits in other buffers");
	{
		Session other;
		line.require(bitsOf(other, problem, line) == first, "other bits on another handle and stream");
	}
	std::thread([&] {
		Session other;
		Problem same = make();
		line.require(bitsOf(other, same, line) == first, "other bits in another thread");
	}).join();

	// Replayed from a graph.
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeThreadLocal));
	line.require(problem.call(session.handle) == 0, "a captured call failed");
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int replay = 0; replay < 2; replay++) {
		CHECK(cudaGraphLaunch(executable, session.stream));
		CHECK(cudaStreamSynchronize(session.stream));
		problem.download();
		line.require(problem.c.array.bits() == first, "other bits when replayed");
	}
	CHECK(cudaGraphExecDestroy(executable));
}

// ---- a sequence whose rare events are known for each call

// Element magnitudes are powers of two, so that the largest one is known exactly.
void events(Line &line)
{
	Session session;
	Problem problem({.m = 74});
	int calls = 0;
	const auto call = [&](double a, double b, float alpha = 1, float oddA = 0, float oddB = 0) {
		fill(problem.a, 61, a, sign);
		fill(problem.b, 62, b, sign);
		if (oddA != 0)
			problem.a.array[3] = oddA;
		if (oddB != 0)
			problem.b.array[3] = oddB;
		problem.setScalars(alpha, 0);
		multiply(session, problem, line);
		calls++;
	};
	call(1, 1);
	call(1, 1);
	call(0x1p20, 1); // another scale of A
	call(0x1p20, 1);
	call(1, 1);                     // A
	call(1, 1, 1, INFINITY);        // a non-finite A
	call(1, 1, 1, 0, NAN);          // a non-finite B
	call(0x1p30, 0x1p30, 0x1p100f); // A, B, and an alpha that cannot remove their scales
	call(1, 1);                     // A, B
	call(0.5, 1);                   // within the cell of four binades
	call(2, 1);                     // A: the next cell
	call(16, 1);                    // within it
	call(1, 1, 0x1p-120f);          // A, B: alpha is so small that both scales are reduced
	problem.describe(line);
	line.put("calls", calls);
}

std::vector<Case> allCases()
{
	std::vector<Case> cases;
	for (const int a : {-30, -20, -10, 0, 10, 20, 30})
		for (const int b : {-30, -20, -10, 0, 10, 20, 30})
			cases.push_back({"magnitude.1e" + std::to_string(a) + "_1e" + std::to_string(b),
			                 [a, b](Line &line) { magnitude(a, b, line); }});
	int m = 200;
	const std::pair<const char *, Spec> doors[] = {
	    {"sgemm", {}},
	    {"gemm_ex", {.door = Interception::gemmEx, .transa = CUBLAS_OP_T}},
	    {"strided", {.door = Interception::sgemmStridedBatched, .batch = 3, .gap = 3}},
	    {"batched", {.door = Interception::sgemmBatched, .batch = 3, .gap = 3}},
	    {"strided_ex", {.door = Interception::gemmStridedBatchedEx, .batch = 3, .sharesB = true}},
	    {"lt_relu_bias", {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS}},
	    {"lt_batched", {.door = Interception::ltMatmul, .batch = 2}},
	    {"lt_gelu_bias", {.door = Interception::ltMatmul, .beta = 2, .epilogue = CUBLASLT_EPILOGUE_GELU_BIAS}},
	    {"lt_relu_aux",
	     {.door = Interception::ltMatmul,
	      .batch = 2,
	      .beta = 2,
	      .epilogue = CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
	      .hasOwnD = true}},
	    {"lt_drelu_bgrad",
	     {.door = Interception::ltMatmul, .batch = 2, .beta = 2, .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD}},
	    {"lt_drelu_apart",
	     {.door = Interception::ltMatmul,
	      .alpha = 0.5f,
	      .beta = -2,
	      .hasDeviceScalars = true,
	      .epilogue = CUBLASLT_EPILOGUE_DRELU_BGRAD,
	      .hasOwnD = true}},
	    {"lt_bgrada", {.door = Interception::ltMatmul, .batch = 2, .beta = 2, .epilogue = CUBLASLT_EPILOGUE_BGRADA}},
	    {"lt_bgradb", {.door = Interception::ltMatmul, .transb = CUBLAS_OP_T, .epilogue = CUBLASLT_EPILOGUE_BGRADB}},
	    {"lt_rows",
	     {.door = Interception::ltMatmul, .beta = 2, .isRowA = true, .isRowB = true, .isRowD = true, .hasOwnD = true}},
	    {"lt_arrays",
	     {.door = Interception::ltMatmul, .batch = 3, .gap = 3, .beta = 2, .areArrays = true, .hasOwnD = true}},
	};
	for (const auto &[name, door] : doors) {
		Spec spec = door;
		spec.m = ++m;
		cases.push_back({std::string("doors.") + name, [spec](Line &line) { magnitudeOf(spec, line); }});
	}
	const Values large = [](Random &random) { return 1e30 * random.gaussian(); };
	const Values subnormal = [](Random &random) { return 1e-40 * random.gaussian(); };
	const Case more[] = {
	    {"growth", growth},
	    {"mixed", mixed},
	    {"alpha.host", [](Line &line) { alphas(false, line); }},
	    {"alpha.device", [](Line &line) { alphas(true, line); }},
	    {"alpha.strange", strangeAlphas},
	    {"data.gaussian_16", [](Line &line) { data({.m = 90, .k = 16}, gaussian, gaussian, line); }},
	    {"data.gaussian_512", [](Line &line) { data({.m = 91, .k = 512}, gaussian, gaussian, line); }},
	    {"data.uniform_64", [](Line &line) { data({.m = 92, .k = 64}, uniform, uniform, line); }},
	    {"data.uniform_512", [](Line &line) { data({.m = 93, .k = 512}, uniform, uniform, line); }},
	    {"data.lognormal_2", [](Line &line) { data({.m = 94}, lognormal(2), lognormal(2), line); }},
	    {"data.lognormal_4", [](Line &line) { data({.m = 95}, lognormal(4), lognormal(4), line); }},
	    {"data.zeros",
	     [](Line &line) {
		     data(
		         {.m = 96}, [](Random &) { return 0; }, gaussian, line);
	     }},
	    {"data.subnormal_a", [=](Line &line) { data({.m = 97}, subnormal, large, line); }},
	    {"data.subnormal_b", [=](Line &line) { data({.m = 98}, large, subnormal, line); }},
	    {"data.rows_apart", rowsApart},
	    {"data.one_large", oneLarge},
	    {"nonfinite.inf_a", [](Line &line) { nonfinite({INFINITY}, {}, line); }},
	    {"nonfinite.infs_a",
	     [](Line &line) {
		     nonfinite({INFINITY, -INFINITY, INFINITY}, {}, line);
	     }},
	    {"nonfinite.nan_b", [](Line &line) { nonfinite({}, {NAN}, line); }},
	    {"nonfinite.both",
	     [](Line &line) {
		     nonfinite({-INFINITY, NAN}, {INFINITY}, line);
	     }},
	    {"loss.rows", [](Line &line) { loss({.m = 101}, Loss::rows, 6, line); }},
	    {"loss.rows_transposed",
	     [](Line &line) { loss({.m = 102, .transa = CUBLAS_OP_T, .transb = CUBLAS_OP_T}, Loss::rows, 6, line); }},
	    {"loss.columns", [](Line &line) { loss({.m = 103, .transb = CUBLAS_OP_T}, Loss::columns, 6, line); }},
	    {"loss.opposed", [](Line &line) { loss({.m = 104}, Loss::opposed, 6, line); }},
	    {"loss.batched",
	     [](Line &line) {
		     loss({.door = Interception::sgemmStridedBatched, .m = 105, .batch = 3, .sharesB = true}, Loss::opposed, 6,
		          line);
	     }},
	    {"loss.lt",
	     [](Line &line) {
		     loss({.door = Interception::ltMatmul, .m = 106, .transa = CUBLAS_OP_T}, Loss::opposed, 6, line);
	     }},
	    {"loss.by_rows",
	     [](Line &line) { loss({.door = Interception::ltMatmul, .m = 111, .isRowD = true}, Loss::rows, 6, line); }},
	    {"loss.feature", [](Line &line) { smallElements(Small::feature, 112, line); }},
	    {"loss.sentinel", [](Line &line) { smallElements(Small::sentinel, 113, line); }},
	    {"loss.later", laterLoss},
	    {"kept.opposed", [](Line &line) { loss({.m = 107}, Loss::opposed, 3, line); }},
	    {"kept.columns", [](Line &line) { loss({.m = 108}, Loss::columns, 3, line); }},
	    {"history", history},
	    {"events", events},
	};
	cases.insert(cases.end(), std::begin(more), std::end(more));
	return cases;
}

// Only if they are named: TF32 and the vendor's own narrowing give NaN, unlike fp32.
std::vector<Case> masks()
{
	return {
	    {"mask.plain", [](Line &line) { mask({.m = 121}, line); }},
	    {"mask.transposed", [](Line &line) { mask({.m = 122, .transa = CUBLAS_OP_T, .transb = CUBLAS_OP_T}, line); }},
	    {"mask.strided",
	     [](Line &line) { mask({.door = Interception::sgemmStridedBatched, .m = 123, .batch = 3}, line); }},
	    {"mask.arrays",
	     [](Line &line) {
		     mask({.door = Interception::sgemmBatched, .m = 124, .batch = 3, .hasDeviceScalars = true}, line);
	     }},
	    {"mask.lt", [](Line &line) { mask({.door = Interception::ltMatmul, .m = 125}, line); }},
	};
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases = allCases();
	if (argc > 1)
		for (const Case &each : masks())
			cases.push_back(each);
	return runCases(argc, argv, cases);
}
