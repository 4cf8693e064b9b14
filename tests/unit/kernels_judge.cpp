#include "tests/unit/kernels_host.h"

#include "kernels/scaling.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace kernels_host;

namespace {

using Values = std::function<double(int64_t i, int64_t j)>; // of op(A) or op(B), row and column

// One call's operands however they are stored, and everything that a verdict needs.
struct Judged {
	int64_t m, n, k;
	bool transa, transb;
	Matrix a, b;
	std::vector<Prediction> predictions = std::vector<Prediction>(predictionCount);
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();
	std::vector<SiteState> sites = std::vector<SiteState>(siteCount);
	std::vector<uint32_t> words;
	size_t used; // of them
	Call call;
	static constexpr uint32_t untouched = 0x7b7b7b7b;

	static Shape shape(int64_t rows, int64_t columns, int64_t batch)
	{
		return {rows, columns, rows + 3, (rows + 7) / 8 * 8, batch, 5};
	}
	Judged(int64_t m, int64_t n, int64_t k, bool transa = false, bool transb = false, int64_t batchA = 1,
	       int64_t batchB = 1)
	    : m(m), n(n), k(k), transa(transa), transb(transb), a(shape(transa ? k : m, transa ? m : k, batchA), 1),
	      b(shape(transb ? n : k, transb ? k : n, batchB)), call(a, b, predictions.data(), ring.get())
	{
		Parameters &p = call.parameters;
		used = 0;
		for (const Operand &operand : p.operand)
			used += static_cast<size_t>(maximaWords(operand.rows, operand.columns, operand.batch));
		words.resize(used + 32, untouched);
		p.maxima = words.data() + (16 - reinterpret_cast<uintptr_t>(words.data()) / 4 % 16) % 16;
		p.sites = sites.data();
		p.isAlongRows[0] = transa;
		p.isAlongRows[1] = !transb;
		p.site = 7;
	}
	float &atA(int64_t i, int64_t l, int64_t matrix = 0) { return transa ? a.at(l, i, matrix) : a.at(i, l, matrix); }
	float &atB(int64_t l, int64_t j, int64_t matrix = 0) { return transb ? b.at(j, l, matrix) : b.at(l, j, matrix); }
	void fillA(const Values &values, int64_t matrix = 0)
	{
		for (int64_t i = 0; i < m; ++i)
			for (int64_t l = 0; l < k; ++l)
				atA(i, l, matrix) = static_cast<float>(values(i, l));
	}
	void fillB(const Values &values, int64_t matrix = 0)
	{
		for (int64_t l = 0; l < k; ++l)
			for (int64_t j = 0; j < n; ++j)
				atB(l, j, matrix) = static_cast<float>(values(l, j));
	}
	uint32_t told(int operand) const { return ring->totals[7][operand][static_cast<uint32_t>(EventKind::underflow)]; }
	// Does the next call of a site that has begun none tell of a loss?
	bool isLossy()
	{
		std::fill(sites.begin(), sites.end(), SiteState{});
		const uint32_t before = told(0) + told(1);
		call.run();
		const size_t offset = static_cast<size_t>(call.parameters.maxima - words.data());
		for (size_t i = 0; i < words.size(); ++i)
			if (i < offset || i >= offset + used)
				REQUIRE(words[i] == untouched);
		return told(0) + told(1) > before;
	}

	// The definition (verified_scaling.py), in double.
	bool isLossyByDefinition()
	{
		double most[2] = {0, 0}, lost = 0, product = 0;
		std::vector<double> rows(m), columns(n), ofA(k), ofB(k);
		const auto size = [](float x) { return std::isfinite(x) ? std::fabs(double(x)) : 0.0; };
		for (int64_t l = 0; l < k; ++l) {
			for (int64_t i = 0; i < m; ++i)
				rows[i] = std::max(rows[i], size(atA(i, l))), ofA[l] = std::max(ofA[l], size(atA(i, l)));
			for (int64_t j = 0; j < n; ++j)
				columns[j] = std::max(columns[j], size(atB(l, j))), ofB[l] = std::max(ofB[l], size(atB(l, j)));
			most[0] = std::max(most[0], ofA[l]), most[1] = std::max(most[1], ofB[l]);
			product = std::max(product, ofA[l] * ofB[l]);
		}
		double scale[2];
		for (int i = 0; i < 2; ++i) {
			const int exponent =
			    most[i] == 0 ? 0 : std::min(127.0, 14 + 4 * std::floor(-std::floor(std::log2(most[i])) / 4));
			scale[i] = std::ldexp(1.0, exponent);
			double few = 0, all = 0;
			for (const double each : i == 0 ? rows : columns)
				all += each > 0, few += each > 0 && each * scale[i] < std::ldexp(1.0, -10);
			if (exponent < 127)
				lost = std::max(lost, few / std::max(1.0, all));
		}
		const bool isCrossed =
		    product > 0 &&
		    product * scale[0] * scale[1] < std::ldexp(1.0, -12) * std::max(most[0] * scale[0], most[1] * scale[1]);
		return lost > std::ldexp(1.0, -10) || isCrossed;
	}
};

std::mt19937_64 engine(5);
double uniform(double low = 0, double high = 1)
{
	return std::uniform_real_distribution(low, high)(engine);
}
double gaussian()
{
	return std::normal_distribution<>()(engine);
}
Values of(std::function<double()> value)
{
	return [value](int64_t, int64_t) { return value(); };
}
Values lognormal(double width, double zeros = 0)
{
	return of([=] {
		const double value = std::exp(width * gaussian());
		return uniform() < zeros ? 0 : uniform() < 0.5 ? -value : value;
	});
}
std::vector<double> powers(int64_t count, double most)
{
	std::vector<double> values(static_cast<size_t>(count));
	for (double &value : values)
		value = std::pow(10, uniform(-most, most));
	return values;
}
Values rowsTimes(std::vector<double> factors, bool isUndone = false)
{
	return [=](int64_t i, int64_t) { return gaussian() * (isUndone ? 1 / factors[i] : factors[i]); };
}
Values columnsTimes(std::vector<double> factors)
{
	return [=](int64_t, int64_t j) { return gaussian() * factors[j]; };
}
Values withOne(double outlier)
{
	return [=](int64_t i, int64_t j) { return i == 0 && j == 0 ? outlier : gaussian(); };
}

} // namespace

TEST_CASE("the loss verdict is that of the published table")
{
	const Values normal = of(gaussian);
	struct Case {
		const char *name;
		bool isLossy;
		std::vector<int64_t> depths;
		std::function<Values(int64_t k)> a, b; // b empty: Gaussian
	};
	std::vector<double> d; // of the opposed scalings: made for A, undone for B
	const auto opposed = [&](double most, bool isLossy) {
		return Case{"opposed scalings",
		            isLossy,
		            {64, 4096},
		            [&d, most](int64_t k) { return columnsTimes(d = powers(k, most)); },
		            [&d](int64_t) { return rowsTimes(d, true); }};
	};
	const auto plain = [](Values values) { return [values](int64_t) { return values; }; };
	const std::vector<int64_t> both = {64, 4096};
	const std::vector<Case> cases = {
	    {"gaussian", false, both, plain(normal), {}},
	    {"uniform", false, both, plain(of([] { return uniform(); })), plain(of([] { return uniform(); }))},
	    {"relu", false, both, plain(of([] { return std::max(gaussian(), 0.0); })), {}},
	    {"relu, 95 % zeros", false, both, plain(of([] { return std::max(gaussian() - 1.65, 0.0); })), {}},
	    {"log-normal 2", false, both, plain(lognormal(2)), plain(lognormal(2))},
	    {"log-normal 3", false, both, plain(lognormal(3)), {}},
	    {"log-normal 3, masked", false, both, plain(lognormal(3, 0.5)), {}},
	    {"log-normal 4", false, both, plain(lognormal(4)), plain(lognormal(4))},
	    {"band",
	     false,
	     both,
	     [](int64_t k) -> Values {
		     return [k](int64_t i, int64_t l) { return std::exp(-std::fabs(double(i * k) / 64 - double(l)) / 2); };
	     },
	     {}},
	    {"rows 10^U(-6,6)", true, both, [](int64_t) { return rowsTimes(powers(64, 6)); }, {}},
	    {"rows 10^U(-3,3)", false, both, [](int64_t) { return rowsTimes(powers(64, 3)); }, {}},
	    {"one row 1e-10", true, both, plain([](int64_t i, int64_t) { return gaussian() * (i == 32 ? 1e-10 : 1); }), {}},
	    {"outlier 1e6", false, both, plain(withOne(1e6)), {}},
	    {"outlier 1e8", true, both, plain(withOne(1e8)), {}},
	    {"outlier 1e9", true, both, plain(withOne(1e9)), {}},
	    opposed(6, true),
	    opposed(5, true),
	    opposed(4, true),
	    opposed(3, false),
	    {"subnormals", false, both, plain(of([] { return 1e-40 * gaussian(); })),
	     plain(of([] { return 1e30 * gaussian(); }))},
	    {"subnormals, some far below",
	     false,
	     both, // all of them exact in half
	     plain([](int64_t i, int64_t) { return (i % 2 ? 1e-44 : 1e-40) * gaussian(); }),
	     {}},
	    {"magnitudes", true, {16}, plain(of([] { return std::pow(10, uniform(-37.9, 38)); })), plain(of([] {
		     return std::pow(10, uniform(-45, -8));
	     }))},
	    {"magnitudes", false, {4096}, plain(of([] { return std::pow(10, uniform(-37.9, 38)); })), plain(of([] {
		     return std::pow(10, uniform(-45, -8));
	     }))},
	    {"all equal", false, both, plain(of([] { return .1; })), plain(of([] { return .3; }))},
	    {"zeros", false, both, plain(of([] { return 0; })), {}},
	};
	int transposition = 0;
	for (const Case &each : cases)
		for (const int64_t k : each.depths) {
			++transposition; // each as stored in another way
			Judged judged(64, 64, k, transposition & 1, transposition & 2);
			judged.fillA(each.a(k));
			judged.fillB(each.b ? each.b(k) : normal);
			CAPTURE(each.name, k, judged.transa, judged.transb);
			CHECK(judged.isLossyByDefinition() == each.isLossy);
			CHECK(judged.isLossy() == each.isLossy);
		}
}

TEST_CASE("a large operand with heavy tails loses nothing")
{
	for (const double zeros : {0.5, 0.99}) { // 43 % of its elements are below half's normal range
		Judged judged(2048, 64, 2048);
		judged.fillA(lognormal(4, zeros));
		judged.fillB(of(gaussian));
		CHECK(judged.isLossy() == judged.isLossyByDefinition());
		CHECK((zeros > 0.9 || !judged.isLossy()));
	}
}

TEST_CASE("the limits of the verdict, to the bit")
{
	// Scales of 2^14: a row is lost below 2^-24, more than one row in 1024.
	for (const bool isTransposed : {false, true})
		for (const auto &[lost, empty, below, isLossy] :
		     {std::make_tuple(0, 0, 1, false), std::make_tuple(1, 0, 1, false), std::make_tuple(1, 1, 1, true),
		      std::make_tuple(2, 0, 1, true), std::make_tuple(2, 0, 0, false), std::make_tuple(0, 900, 1, false)}) {
			const float small = std::ldexp(below ? 0x1.fffffep-1f : 1, -24);
			for (const int operand : {0, 1}) {
				Judged judged(operand ? 4 : 1024, operand ? 1024 : 4, 8, isTransposed, isTransposed);
				const auto value = [&](int64_t row, int64_t l) {
					return row < lost              ? (l == 5 ? -small : 0)
					       : row < lost + empty    ? 0
					       : row == 1000 && l == 3 ? 1.0
					                               : 0.5;
				};
				const auto other = of([] { return 1; });
				judged.fillA(operand ? other : value);
				judged.fillB(operand ? [&](int64_t l, int64_t column) { return value(column, l); } : other);
				CAPTURE(isTransposed, lost, empty, below, operand);
				CHECK(judged.isLossy() == isLossy);
				CHECK(judged.told(operand) == isLossy);
				CHECK(judged.told(1 - operand) == 0);
			}
		}
	// cross: 2^(14 - x) against 2^-12; a loss of both operands.
	for (const auto &[x, isLossy] : {std::make_pair(26, false), std::make_pair(27, true)}) {
		Judged judged(3, 5, 2);
		judged.fillA([&](int64_t, int64_t l) { return l ? std::ldexp(1, -x) : 1; });
		judged.fillB([&](int64_t l, int64_t) { return l ? 1 : std::ldexp(1, -x); });
		CHECK(judged.isLossy() == isLossy);
		CHECK(judged.told(0) == isLossy);
		CHECK(judged.told(1) == isLossy);
	}
	// What is not finite is no maximum.
	Judged judged(64, 64, 64);
	judged.fillA(of(gaussian));
	judged.fillB(of(gaussian));
	judged.atA(3, 3) = INFINITY;
	judged.atB(4, 4) = NAN;
	CHECK_FALSE(judged.isLossy());
}

TEST_CASE("of a batch each product is judged by itself, a shared operand in all of them")
{
	for (const bool isShared : {false, true})
		for (const int bad : {-1, 0, 2}) {
			Judged judged(40, 24, 33, bad == 0, bad == 2, 3, isShared ? 1 : 3);
			const auto d = powers(33, 6);
			for (int matrix = 0; matrix < 3; ++matrix) {
				const bool isOpposed = matrix == bad && !isShared;
				judged.fillA(isOpposed       ? columnsTimes(d)
				             : matrix == bad ? of([] { return 1e-12 * gaussian(); })
				                             : of(gaussian),
				             matrix);
				if (matrix == 0 || !isShared)
					judged.fillB(isOpposed ? rowsTimes(d, true) : of(gaussian), matrix);
			}
			CAPTURE(isShared, bad);
			CHECK(judged.isLossy() == (bad >= 0));
		}
}

TEST_CASE("one call in 127 of a site is judged, the first included, and none differs from the others")
{
	Judged judged(64, 32, 48), clean(64, 32, 48);
	for (Judged *each : {&judged, &clean}) {
		engine.seed(9);
		each->fillA(rowsTimes(powers(64, 6)));
		each->fillB(of(gaussian));
	}
	clean.call.parameters.sites = nullptr;
	clean.call.run();
	const uint32_t amax = judged.a.amax();
	for (uint32_t call = 0; call < 2 * judgedEvery + 1; ++call) {
		std::fill(judged.words.begin(), judged.words.end(), Judged::untouched);
		judged.call.run();
		REQUIRE(judged.told(0) == call / judgedEvery + 1);
		REQUIRE(judged.told(1) == 0);
		const bool isTouched = judged.words[judged.words.size() / 2] != Judged::untouched;
		REQUIRE(isTouched == (call % judgedEvery == 0));
		REQUIRE(judged.a.converted() == clean.a.converted());
		REQUIRE(judged.b.converted() == clean.b.converted());
		REQUIRE(judged.call.scratch.alpha == clean.call.scratch.alpha);
	}
	CHECK(clean.told(0) == 0);

	// Its event; the first call's were those of the scales.
	int events = 0;
	for (uint64_t i = 0; i < judged.ring->written; ++i) {
		const Event &event = judged.ring->events[i];
		if (event.kind != EventKind::underflow)
			continue;
		++events;
		CHECK(event.site == 7);
		CHECK(event.operand == 0);
		CHECK(event.before == rightExponent(amax));
		CHECK(event.after == rightExponent(amax));
		CHECK(event.amax == amax);
	}
	CHECK(events == 3);

	// Sites are counted apart; those beyond the table together.
	judged.call.parameters.site = 8;
	judged.call.run();
	CHECK(judged.call.scratch.isJudged == 1);
	for (uint32_t site : {siteCount, siteCount + 5}) {
		judged.call.parameters.site = site;
		judged.call.run();
		CHECK(judged.call.scratch.isJudged == (site == siteCount));
	}
	CHECK(judged.ring->totals[0][0][static_cast<uint32_t>(EventKind::underflow)] == 1);
}
