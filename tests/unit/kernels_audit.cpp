#include "kernels/audit.h"
#include "tests/unit/kernels_host.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace kernels_host;

namespace {

// ---- hostile products: the 26 families of the published model of the loss check

struct Values {
	int64_t m, n, k;
	std::vector<double> a, b; // op(A), m x k, and op(B), k x n, by rows
	Values(int64_t m, int64_t n, int64_t k)
	    : m(m), n(n), k(k), a(static_cast<size_t>(m * k)), b(static_cast<size_t>(k * n))
	{
	}
	double &atA(int64_t i, int64_t l) { return a[static_cast<size_t>(i * k + l)]; }
	double &atB(int64_t l, int64_t j) { return b[static_cast<size_t>(l * n + j)]; }
};

class Random
{
public:
	explicit Random(uint64_t seed) : engine_(seed) {}
	double normal() { return normal_(engine_); }
	double uniform(double low = 0, double high = 1) { return low + (high - low) * uniform_(engine_); }
	int64_t below(int64_t end) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(end)); }
	int64_t whole(int64_t low, int64_t end) { return low + below(end - low); }
	bool coin() { return below(2) == 0; }
	double sign() { return coin() ? 1 : -1; }
	double heavy(double width) { return std::exp(width * normal()) * sign(); }
	double student(double freedom) { return std::student_t_distribution<double>(freedom)(engine_); }
	double power(double low, double high) { return std::pow(10, uniform(low, high)); }
	double one(std::initializer_list<double> of) { return of.begin()[below(static_cast<int64_t>(of.size()))]; }

private:
	std::mt19937_64 engine_;
	std::normal_distribution<double> normal_;
	std::uniform_real_distribution<double> uniform_;
};

using Element = std::function<double(int64_t, int64_t)>;
void fillA(Values &v, const Element &of)
{
	for (int64_t i = 0; i < v.m; ++i)
		for (int64_t l = 0; l < v.k; ++l)
			v.atA(i, l) = of(i, l);
}
void fillB(Values &v, const Element &of)
{
	for (int64_t l = 0; l < v.k; ++l)
		for (int64_t j = 0; j < v.n; ++j)
			v.atB(l, j) = of(l, j);
}
std::vector<double> along(int64_t count, const std::function<double()> &of)
{
	std::vector<double> values;
	for (int64_t i = 0; i < count; ++i)
		values.push_back(of());
	return values;
}
double scaled(double x, double exponent)
{
	return x * std::exp2(exponent);
}

using Family = void (*)(Random &, Values &);
void dense(Random &r, Values &v)
{
	const auto make = [&](int64_t kind) {
		switch (kind) {
		case 0:
			return r.normal();
		case 1:
			return r.uniform();
		case 2:
			return std::max(r.normal(), 0.0);
		case 3:
			return 0.1;
		default:
			return static_cast<double>(r.whole(-8, 8));
		}
	};
	const auto kindA = r.below(5), kindB = r.below(5);
	const double unitA = r.power(-20, 18), unitB = r.power(-20, 18);
	fillA(v, [&](auto, auto) { return make(kindA) * unitA; });
	fillB(v, [&](auto, auto) { return make(kindB) * unitB; });
}
void lognormal(Random &r, Values &v)
{
	const double a = r.uniform(0, 6), b = r.coin() ? r.uniform(0, 6) : 0, dropped = r.one({0, .5, .95});
	const bool isPositive = r.coin();
	const auto make = [&](double width) { return isPositive ? std::fabs(r.heavy(width)) : r.heavy(width); };
	fillA(v, [&](auto, auto) { return r.uniform() > dropped ? make(a) : 0; });
	fillB(v, [&](auto, auto) { return make(b); });
}
void student(Random &r, Values &v)
{
	const double a = r.one({.5, 1, 2, 3}), b = r.one({.5, 1, 2, 3, 9});
	fillA(v, [&](auto, auto) { return r.student(a); });
	fillB(v, [&](auto, auto) { return r.student(b); });
}
void rowUnits(Random &r, Values &v)
{
	const double p = r.uniform(0, 10);
	const auto rows = along(v.m, [&] { return r.power(-p, p); });
	const bool hasColumns = r.coin();
	const auto columns = along(v.n, [&] { return hasColumns ? r.power(-p, p) : 1; });
	fillA(v, [&](auto i, auto) { return r.normal() * rows[size_t(i)]; });
	fillB(v, [&](auto, auto j) { return r.normal() * columns[size_t(j)]; });
}
void fewRows(Random &r, Values &v)
{
	const double exponent = -r.uniform(0, 50);
	const int64_t every = r.whole(v.m / 4, v.m);
	fillA(v, [&](auto i, auto) { return scaled(r.normal(), i % every == 0 ? exponent : 0); });
	fillB(v, [&](auto, auto) { return r.normal(); });
}
void crossed(Random &r, Values &v)
{
	const double p = r.uniform(0, 9), s = r.coin() ? r.uniform(0, 3) : 0;
	const bool isSpread = r.coin();
	const auto d = along(v.k, [&] { return isSpread ? r.power(-p, p) : std::pow(10, p * r.sign()); });
	fillA(v, [&](auto, auto l) { return r.heavy(s) * d[size_t(l)]; });
	fillB(v, [&](auto l, auto) { return r.heavy(s) / d[size_t(l)]; });
}
void signsSearch(Random &r, Values &v)
{
	const double exponent = double(r.whole(6, 19)), s = r.one({0, .5, 1, 1.5, 2, 2.5, 3});
	const auto d = along(v.k, [&] { return r.sign() * exponent; });
	fillA(v, [&](auto, auto l) { return scaled(r.heavy(s), d[size_t(l)]); });
	fillB(v, [&](auto l, auto) { return scaled(r.heavy(s), -d[size_t(l)]); });
}
void feature(Random &r, Values &v)
{
	const int64_t count = r.whole(1, std::max<int64_t>(2, v.k / 16)), zeros = r.below(v.n);
	const double up = r.uniform(4, 44), down = r.uniform(0, up + 2);
	const bool isSigned = r.coin();
	const auto make = [&] { return (std::fabs(r.normal()) + .1) * (isSigned ? r.sign() : 1); };
	fillA(v, [&](auto, auto l) { return scaled(make(), l < count ? up : 0); });
	fillB(v, [&](auto l, auto j) { return l < count ? j < zeros ? scaled(make(), -down) : 0 : make(); });
}
void sentinel(Random &r, Values &v)
{
	const double small = -double(r.whole(8, 40)), first = -double(r.whole(0, 12)), weight = -double(r.whole(0, 20));
	fillA(v, [&](auto i, auto l) {
		return l == 0 ? i == 0 ? 16384 : std::exp2(first) : scaled(std::fabs(r.normal()) + .5, small);
	});
	fillB(v, [&](auto l, auto j) { return l ? 4096 * (std::fabs(r.normal()) + .5) : j ? 0 : std::exp2(weight); });
}
void llm(Random &r, Values &v)
{
	const double channel = r.power(1, 3.5), massive = r.power(0, 2), weight = r.coin() ? r.power(-4, 0) : 1;
	const int64_t at = r.below(v.k), row = r.below(v.m);
	fillA(v, [&](auto i, auto l) { return r.normal() * (l == at ? channel * (i == row ? massive : 1) : 1); });
	fillB(v, [&](auto l, auto) { return .02 * r.normal() * (l == at ? weight : 1); });
}
void softmax(Random &r, Values &v)
{
	const double width = r.uniform(.5, 12);
	const bool isCausal = r.coin();
	fillA(v,
	      [&](auto i, auto l) { return isCausal && l * v.m > i * v.k ? 0 : std::exp(width * r.normal() - 3 * width); });
	for (int64_t i = 0; i < v.m; ++i) {
		double sum = 0;
		for (int64_t l = 0; l < v.k; ++l)
			sum += v.atA(i, l);
		for (int64_t l = 0; l < v.k; ++l)
			v.atA(i, l) /= sum;
	}
	fillB(v, [&](auto, auto) { return r.normal(); });
}
void floatMinMask(Random &r, Values &v)
{
	const int64_t every = 8 + r.below(8);
	const double share = r.uniform(.1, 1);
	fillA(v, [&](auto, auto l) { return l % every == 0 && r.uniform() < share ? -3.4028234e38 : r.normal(); });
	fillB(v, [&](auto l, auto) { return l % every == 0 ? 0 : r.normal(); });
}
void gradient(Random &r, Values &v)
{
	const double p = r.uniform(0, 8), q = r.uniform(0, 3);
	if (r.coin()) {
		const auto tokens = along(v.k, [&] { return 1e-6 * r.power(-p, 0); });
		fillA(v, [&](auto, auto) { return r.normal(); });
		fillB(v, [&](auto l, auto) { return r.heavy(q) * tokens[size_t(l)]; });
		return;
	}
	const auto tokens = along(v.m, [&] { return 1e-6 * r.power(-p, 0); });
	fillA(v, [&](auto i, auto) { return r.heavy(q) * tokens[size_t(i)]; });
	fillB(v, [&](auto, auto) { return .02 * r.normal(); });
}
void oneHot(Random &r, Values &v)
{
	for (int64_t i = 0; i < v.m; ++i)
		v.atA(i, r.below(v.k)) = 1;
	const double p = r.uniform(0, 9);
	const auto rows = along(v.k, [&] { return r.power(-p, 0); });
	fillB(v, [&](auto l, auto) { return r.normal() * rows[size_t(l)]; });
}
void permutation(Random &r, Values &v)
{
	const int64_t step = 2 * r.below(v.k / 2) + 1;
	for (int64_t i = 0; i < std::min(v.m, v.k); ++i)
		v.atA(i, i * step % v.k) = r.uniform(.5, 2);
	const double width = r.uniform(0, 4);
	fillB(v, [&](auto, auto) { return r.heavy(width); });
}
void pruned(Random &r, Values &v)
{
	const double a = r.uniform(0, 2), b = r.uniform(0, 3), shareA = r.power(-3, 0), shareB = r.power(-3, 0);
	const auto units = along(v.k, [&] { return r.power(-5, 0); });
	fillA(v, [&](auto, auto) { return r.uniform() < shareA ? r.heavy(a) : 0; });
	fillB(v, [&](auto l, auto) { return r.uniform() < shareB ? r.heavy(b) * units[size_t(l)] : 0; });
}
void rankOne(Random &r, Values &v)
{
	const double s = r.uniform(0, 5);
	const auto make = [&](int64_t count) { return along(count, [&] { return r.heavy(s); }); };
	const auto ai = make(v.m), al = make(v.k), bl = make(v.k), bj = make(v.n);
	fillA(v, [&](auto i, auto l) { return ai[size_t(i)] * al[size_t(l)]; });
	fillB(v, [&](auto l, auto j) { return bl[size_t(l)] * bj[size_t(j)]; });
}
void banded(Random &r, Values &v)
{
	const double width = r.uniform(.3, 20), fall = r.uniform(-20, 0);
	fillA(v, [&](auto i, auto l) { return std::exp(-std::fabs(double(i * v.k) / double(v.m) - double(l)) / width); });
	fillB(v, [&](auto l, auto) { return r.normal() * std::exp(fall * double(l) / double(v.k)); });
}
void classics(Random &r, Values &v)
{
	const auto kindA = r.below(6), kindB = r.below(3);
	fillA(v, [&](auto i, auto l) {
		const double x = double(i), y = double(l), apart = std::fabs(x - y);
		switch (kindA) {
		case 0:
			return 1 / (x + y + 1);
		case 1:
			return std::cos(M_PI * x * (y + .5) / double(v.k));
		case 2:
			return std::pow(x / double(v.m), std::min(y, 30.0));
		case 3:
			return apart == 0 ? 2.0 : apart == 1 ? -1.0 : 0.0;
		case 4:
			return std::pow(.9, apart);
		default:
			return 1 / (x - y + .5);
		}
	});
	fillB(v, [&](auto l, auto j) {
		return kindB == 0   ? r.normal()
		       : kindB == 1 ? std::cos(double(l * j) / double(v.k))
		                    : 1 / (1.0 + double(l) + double(j));
	});
}
void financial(Random &r, Values &v)
{
	const auto units = along(v.k, [&] { return r.one({1e-5, 1e-2, 1, 1e2, 1e4, 1e9, 1e12, 1e18}); });
	const double width = r.uniform(0, 1.5), undone = r.uniform(0, 1.1);
	fillA(v, [&](auto, auto l) { return std::fabs(r.heavy(width)) * units[size_t(l)]; });
	fillB(v, [&](auto l, auto) { return r.normal() / std::pow(units[size_t(l)], undone); });
}
void cancelling(Random &r, Values &v)
{
	const int64_t quarter = v.k / 4;
	const double s = std::exp2(-r.uniform(0, 36));
	const bool isWhole = r.coin();
	const auto make = [&] { return isWhole ? std::round(8 * r.heavy(1)) : r.heavy(1); };
	fillA(v, [&](auto i, auto l) {
		return l < quarter ? make() : l < 2 * quarter ? v.atA(i, l - quarter) : r.heavy(1) * s;
	});
	fillB(v, [&](auto l, auto j) {
		return l < quarter ? make() : l < 2 * quarter ? -v.atB(l - quarter, j) : r.heavy(1);
	});
}
void coherent(Random &r, Values &v)
{
	const int64_t count = r.whole(1, std::max<int64_t>(2, v.k / 8));
	const double up = r.uniform(10, 34), down = r.uniform(0, up);
	fillA(v, [&](auto, auto l) { return l < count ? scaled(r.normal(), up) : r.uniform() + .1; });
	fillB(v, [&](auto l, auto) { return l < count ? scaled(r.normal(), -down) : r.uniform() + .1; });
}
void extremes(Random &r, Values &v)
{
	const bool isWide = r.coin();
	const double small = r.power(-44, -36);
	fillA(v, [&](auto, auto) { return isWide ? r.power(-37.9, 38) : r.normal() * small; });
	fillB(v, [&](auto, auto) { return isWide ? r.power(-44, -8) : r.normal() * 1e30; });
}
void outlier(Random &r, Values &v)
{
	fillA(v, [&](auto, auto) { return r.normal(); });
	fillB(v, [&](auto, auto) { return r.normal(); });
	const double undone = r.coin() ? r.power(-12, 0) : 1;
	for (int64_t i = r.whole(1, 4); i-- > 0;) {
		const int64_t l = r.below(v.k);
		v.atA(r.below(v.m), l) = r.power(2, 12);
		for (int64_t j = 0; j < v.n; ++j)
			v.atB(l, j) *= undone;
	}
}
void lowDepth(Random &r, Values &v)
{
	v = Values(v.m, v.n, r.whole(1, 6));
	const double a = r.uniform(0, 8), b = r.uniform(0, 8);
	const auto units = along(v.k, [&] { return std::exp2(double(r.whole(-20, 20))); });
	fillA(v, [&](auto, auto) { return r.heavy(a); });
	fillB(v, [&](auto l, auto) { return r.heavy(b) * units[size_t(l)]; });
}
void ids(Random &r, Values &v)
{
	const int64_t count = r.whole(1, 4);
	const double exponent = double(r.whole(0, 40)), down = -r.uniform(0, 50);
	fillA(v, [&](auto, auto l) { return l < count ? scaled(double(r.whole(1, 2048)), exponent) : r.uniform(); });
	fillB(v, [&](auto l, auto) { return l >= count ? r.normal() : r.uniform() < .3 ? scaled(r.normal(), down) : 0; });
}
constexpr Family families[] = {dense,       lognormal, student, rowUnits, fewRows,      crossed,   signsSearch,
                               feature,     sentinel,  llm,     softmax,  floatMinMask, gradient,  oneHot,
                               permutation, pruned,    rankOne, banded,   classics,     financial, cancelling,
                               coherent,    extremes,  outlier, lowDepth, ids};
static_assert(std::size(families) == 26);

Values valuesOf(size_t family, uint64_t seed)
{
	Random r(1000 * seed + family);
	const auto size = [&](std::initializer_list<double> of) { return static_cast<int64_t>(r.one(of)); };
	Values v(size({16, 64, 128}), size({16, 64, 128}), size({32, 128, 512}));
	families[family](r, v);
	for (std::vector<double> *operand : {&v.a, &v.b})
		for (double &x : *operand)
			x = static_cast<double>(static_cast<float>(std::clamp(x, -3.4028234e38, 3.4028234e38)));
	if (r.coin()) { // either operand may be the hostile one
		Values turned(v.n, v.m, v.k);
		fillA(turned, [&](auto i, auto l) { return v.atB(l, i); });
		fillB(turned, [&](auto l, auto j) { return v.atA(j, l); });
		return turned;
	}
	return v;
}

// ---- the types of lowered products

enum class Type { float16, bfloat16, tf32 };

// The operand as the product reads it, as a multiple of its scale.
std::vector<double> lowered(const std::vector<double> &operand, Type type)
{
	double most = 0;
	for (const double x : operand)
		most = std::max(most, std::fabs(x));
	const int exponent = rightExponent(bitsOf(static_cast<float>(most)));
	std::vector<double> result;
	for (const double x : operand) {
		const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
		const auto cut = [&](uint32_t drop) {
			const uint32_t half = (1u << (drop - 1)) - 1;
			const uint32_t rounded = (bits + half + (bits >> drop & 1)) & ~((1u << drop) - 1);
			return static_cast<double>(
			    std::bit_cast<float>((rounded & magnitudeMask) >= infinityBits ? bits & ~((1u << drop) - 1) : rounded));
		};
		result.push_back(
		    type == Type::tf32 ? cut(13)
		    : type == Type::bfloat16
		        ? cut(16)
		        : std::ldexp(static_cast<double>(widened(rounded(static_cast<float>(x), exponent, half))), -exponent));
	}
	return result;
}

std::vector<double> productOf(const std::vector<double> &a, const std::vector<double> &b, const Values &v)
{
	std::vector<double> product(static_cast<size_t>(v.m * v.n));
	for (int64_t i = 0; i < v.m; ++i)
		for (int64_t l = 0; l < v.k; ++l)
			for (int64_t j = 0; j < v.n; ++j)
				product[size_t(i * v.n + j)] += a[size_t(i * v.k + l)] * b[size_t(l * v.n + j)];
	return product;
}

// ---- one audited call

// An audited product, with operands in any layout. Memory outside of the matrices is NaN.
struct Audited {
	AuditCall call = {};
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();
	std::vector<SiteState> sites = std::vector<SiteState>(siteCount);
	std::vector<float> memory[4];
	std::vector<const float *> pointers[4];
	std::vector<AuditSums> sums;
	AuditState state;
	static constexpr double untouched = 1e33;

	Audited(int64_t m, int64_t n, int64_t k, int64_t batch = 1, unsigned layout = 0)
	{
		call.ring = ring.get();
		call.sites = sites.data();
		call.site = 7;
		call.alphaValue = 1;
		call.batch = batch;
		call.matrices = checkedMatrices(batch);
		const auto axis = [](int64_t size) { return Axis{size, {size, 1, 1, 1}, 1}; };
		call.row = axis(m), call.column = axis(n), call.depth = axis(k);
		AuditOperand *const all[] = {&call.a, &call.b, &call.c, &call.d};
		const int64_t sizes[4][2] = {{m, k}, {k, n}, {m, n}, {m, n}};
		for (int i = 0; i < 4; ++i) {
			const bool isByRows = layout >> i & 1;
			const int64_t inner = sizes[i][isByRows], ld = inner + 3, stride = ld * sizes[i][!isByRows] + 5;
			memory[i].assign(size_t(stride * batch), NAN);
			all[i]->source = memory[i].data();
			all[i]->matrixStride = stride;
			all[i]->stride[0][0] = isByRows ? ld : 1;
			all[i]->stride[1][0] = isByRows ? 1 : ld;
			for (int64_t each = 0; each < batch; ++each)
				pointers[i].push_back(memory[i].data() + each * stride);
		}
		std::memset(&state, 0x5a, sizeof state);
	}
	float &at(const AuditOperand &operand, int64_t x, int64_t y, int64_t matrix = 0)
	{
		return const_cast<float *>(
		    operand.source)[matrix * operand.matrixStride + x * operand.stride[0][0] + y * operand.stride[1][0]];
	}
	void fill(const AuditOperand &operand, const std::vector<double> &values, int64_t columns, int64_t matrix = 0)
	{
		for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i)
			at(operand, i / columns, i % columns, matrix) = static_cast<float>(values[size_t(i)]);
	}
	void byPointers()
	{
		AuditOperand *const all[] = {&call.a, &call.b, &call.c, &call.d};
		for (int i = 0; i < 4; ++i)
			all[i]->isArray = true, all[i]->source = reinterpret_cast<const float *>(pointers[i].data());
	}
	void before(unsigned blocks = 24)
	{
		sums.assign(size_t(auditSumCount(call)) + 2, {{untouched, untouched, untouched, untouched}});
		call.sums = sums.data() + 1;
		call.state = &state;
		call.beforeBlocks = blocks;
		launch("autoamp_audit_before", blocks, call);
	}
	// The event of this call; null: none.
	const Event *after(unsigned blocks = 24)
	{
		const uint64_t written = ring->written;
		launch("autoamp_audit_after", blocks, call);
		REQUIRE(sums.front().value[0] == untouched);
		REQUIRE(sums.back().value[0] == untouched);
		REQUIRE(ring->written - written <= 1);
		return ring->written > written ? &ring->events[written % ringSize] : nullptr;
	}
	Audit run(unsigned blocks = 24)
	{
		before(blocks);
		const Event *const event = after(blocks);
		REQUIRE(event);
		REQUIRE((event->kind == EventKind::audit && event->site == 7));
		return event->audit;
	}
};

struct Product : Audited {
	Values values;
	std::vector<double> truth;
	double error = 0; // relative Frobenius error; NaN: the lowered product is not finite

	Product(const Values &of, Type type, unsigned layout = 0) : Audited(of.m, of.n, of.k, 1, layout), values(of)
	{
		truth = productOf(of.a, of.b, of);
		const auto d = productOf(lowered(of.a, type), lowered(of.b, type), of);
		fill(call.a, of.a, of.k), fill(call.b, of.b, of.n), fill(call.d, d, of.n);
		double difference = 0, norm = 0;
		for (size_t i = 0; i < d.size(); ++i) {
			difference += std::pow(double(static_cast<float>(d[i])) - truth[i], 2);
			norm += truth[i] * truth[i];
		}
		error = difference == 0 ? 0 : std::sqrt(difference / norm);
	}
};

} // namespace

TEST_CASE("an audit measures the error of hostile products within a factor of 3, in all types")
{
	for (const Type type : {Type::float16, Type::bfloat16, Type::tf32}) {
		int count = 0, wrong = 0, skipped = 0;
		double most = 1;
		for (size_t family = 0; family < std::size(families); ++family)
			for (uint64_t seed = 0; seed < 6; ++seed) {
				Product product(valuesOf(family, seed), type, static_cast<unsigned>(seed * 5 + family));
				if (!std::isfinite(product.error)) { // beyond the range of fp32
					++skipped;
					continue;
				}
				const Audit audit = product.run();
				CAPTURE(static_cast<int>(type), family, seed, product.error, audit.error);
				REQUIRE(audit.flags == 0);
				++count;
				if (product.error == 0) {
					wrong += !(double(audit.error) < 1e-12);
					continue;
				}
				const double factor =
				    std::max(double(audit.error) / product.error, product.error / double(audit.error));
				if (!(factor <= 3))
					UNSCOPED_INFO("family " << family << " seed " << seed << " true " << product.error << " measured "
					                        << audit.error);
				wrong += !(factor <= 3);
				most = std::max(most, factor);
			}
		CAPTURE(static_cast<int>(type), count, wrong, skipped, most);
		CHECK(count > 130);
		CHECK(20 * wrong <= count);
		CHECK(most < 2.5); // with the signs of this version
	}
}

namespace {

// Gaussian operands, a float16 product, and beta C.
struct Gauss : Audited {
	Values values;
	std::vector<double> old;
	static Values gaussian(int64_t m, int64_t n, int64_t k, uint64_t seed)
	{
		Random r(seed);
		Values v(m, n, k);
		fillA(v, [&](auto, auto) { return static_cast<double>(static_cast<float>(r.normal())); });
		fillB(v, [&](auto, auto) { return static_cast<double>(static_cast<float>(r.normal())); });
		return v;
	}
	Gauss(int64_t m = 70, int64_t n = 65, int64_t k = 300, int64_t batch = 1, unsigned layout = 0)
	    : Audited(m, n, k, batch, layout), values(gaussian(m, n, k, 1))
	{
		for (int64_t matrix = 0; matrix < batch; ++matrix)
			fillMatrix(matrix, 1);
	}
	// D of one matrix, with its error multiplied.
	void fillMatrix(int64_t matrix, double factor)
	{
		const Values v = gaussian(values.m, values.n, values.k, 7 + static_cast<uint64_t>(matrix));
		auto d = productOf(lowered(v.a, Type::float16), lowered(v.b, Type::float16), v);
		const auto exact = productOf(v.a, v.b, v);
		for (size_t i = 0; i < d.size(); ++i)
			d[i] = exact[i] + factor * (d[i] - exact[i]);
		fill(call.a, v.a, v.k, matrix), fill(call.b, v.b, v.n, matrix), fill(call.d, d, v.n, matrix);
	}
	// D becomes alpha D + beta C + bias, and C gets new values: it may be D.
	void add(float alpha, float beta, const std::vector<float> &bias = {}, bool isOfRows = true)
	{
		Random r(99);
		for (int64_t matrix = 0; matrix < call.batch; ++matrix)
			for (int64_t i = 0; i < values.m; ++i)
				for (int64_t j = 0; j < values.n; ++j) {
					const auto c = static_cast<float>(3 * r.normal());
					at(call.c, i, j, matrix) = c;
					float &d = at(call.d, i, j, matrix);
					d = alpha * d + beta * c + (bias.empty() ? 0 : bias[size_t(isOfRows ? i : j)]);
				}
		call.alphaValue = alpha, call.betaValue = beta;
		if (!bias.empty())
			call.bias = bias.data(), call.biasOf = isOfRows ? BiasOf::rows : BiasOf::columns;
	}
};

bool isHalf(float error)
{
	return error > 1e-4f && error < 9e-4f;
}

std::vector<float> manyNumbers(size_t count)
{
	std::vector<float> numbers;
	for (size_t i = 0; i < count; ++i)
		numbers.push_back(0.25f * static_cast<float>(i % 17) - 2);
	return numbers;
}

} // namespace

TEST_CASE("an audit reads every layout, and only the matrices")
{
	for (unsigned layout = 0; layout < 16; ++layout) {
		CAPTURE(layout);
		Gauss sum(70, 65, 300, 2, layout);
		sum.add(-2, 0.5f);
		const Audit audit = sum.run();
		CHECK(isHalf(audit.error));
		CHECK(audit.flags == 0);
		Gauss same(70, 65, 300, 2, layout);
		same.add(-2, 0.5f);
		same.byPointers();
		const Audit byPointers = same.run();
		CHECK(byPointers.error == audit.error);
		CHECK(byPointers.worstRow == audit.worstRow);
		CHECK(audit.worstRow >= audit.error);
		CHECK(audit.worstColumn >= audit.error);
	}
}

TEST_CASE("C is measured before the product overwrites it, and only if beta is not 0")
{
	Gauss sum;
	sum.add(-2, 0.5f);
	const float expected = sum.run().error;
	const std::vector<float> before = sum.memory[2];
	sum.before();
	sum.memory[2].assign(before.size(), NAN);
	CHECK(sum.after()->audit.error == expected);

	Gauss unread;
	unread.call.c.source = nullptr;
	CHECK(isHalf(unread.run().error));
	const float alpha = 1, beta = 0;
	unread.call.alpha = &alpha, unread.call.beta = &beta;
	CHECK(isHalf(unread.run().error));

	// On the device, alpha and beta are those of the call.
	const float device[] = {-2, 0.5f};
	sum.memory[2] = before;
	sum.call.alpha = device, sum.call.beta = device + 1;
	sum.call.alphaValue = sum.call.betaValue = 77;
	CHECK(sum.run().error == expected);
	sum.call.betaValue = 0;
	CHECK(sum.run().error == expected);
}

TEST_CASE("a wrong alpha, beta or bias is a large error")
{
	const auto ofRows = manyNumbers(70), ofColumns = manyNumbers(65);
	for (const bool isOfRows : {true, false}) {
		CAPTURE(isOfRows);
		const auto &bias = isOfRows ? ofRows : ofColumns;
		Gauss sum;
		sum.add(1.5f, -1, bias, isOfRows);
		CHECK(isHalf(sum.run().error));
		sum.call.alphaValue = 1.6f;
		CHECK(sum.run().error > 0.02f);
		sum.call.alphaValue = 1.5f, sum.call.betaValue = -0.9f;
		CHECK(sum.run().error > 0.01f);
		sum.call.betaValue = -1, sum.call.biasOf = BiasOf::none;
		CHECK(sum.run().error > 0.01f);
	}
}

TEST_CASE("with an alpha of 0, A and B are not read")
{
	Gauss sum;
	sum.add(0, 1);
	sum.call.a.source = sum.call.b.source = nullptr;
	const Audit audit = sum.run();
	CHECK((audit.error == 0 && audit.flags == 0));
}

TEST_CASE("one wrong row, column or matrix is found")
{
	Gauss sum(70, 65, 300, 3);
	const Audit audit = sum.run();
	for (int64_t j = 0; j < 65; ++j)
		sum.at(sum.call.d, 69, j, 1) *= 1.5f;
	const Audit row = sum.run();
	CHECK(row.worstRow == Approx(0.5f).epsilon(0.01));
	CHECK(row.error == Approx(0.5 / std::sqrt(70)).epsilon(0.6));
	sum.fillMatrix(1, 1);
	CHECK(sum.run().error == audit.error);
	sum.at(sum.call.d, 3, 64, 1) += 1000;
	const Audit column = sum.run();
	CHECK(column.worstColumn > 3 * column.error);
	CHECK(column.worstRow > 3 * column.error);
	sum.fillMatrix(1, 1);
	sum.fillMatrix(2, 20);
	CHECK(sum.run().error > 10 * audit.error);
}

TEST_CASE("an audit of a large batch measures matrices from all of it")
{
	Gauss sum(20, 10, 40, 130);
	CHECK(sum.call.matrices == mostChecked);
	const Audit audit = sum.run();
	CHECK(isHalf(audit.error));
	sum.fillMatrix(126, 100);
	sum.fillMatrix(127, 100);
	CHECK(sum.run().error > 20 * audit.error);
}

TEST_CASE("lines with Inf and NaN are left out, and an overflow is reported")
{
	Gauss sum;
	const Audit audit = sum.run();
	for (int64_t j = 0; j < 65; ++j)
		sum.at(sum.call.d, 5, j) = NAN;
	sum.at(sum.call.a, 5, 17) = INFINITY;
	const Audit rowsOnly = sum.run();
	CHECK(rowsOnly.flags == auditPartial); // every column has a NaN
	CHECK(isHalf(rowsOnly.error));
	CHECK(rowsOnly.worstColumn == 0);
	sum.at(sum.call.b, 17, 4) = NAN;
	for (int64_t i = 0; i < 70; ++i)
		sum.at(sum.call.d, i, 4) = NAN;
	const Audit nothing = sum.run();
	CHECK(nothing.flags == (auditPartial | auditUnmeasured));
	CHECK(std::isnan(nothing.error));

	Gauss overflow;
	overflow.at(overflow.call.d, 9, 9) = INFINITY;
	const Audit lost = overflow.run();
	CHECK(lost.flags == (auditPartial | auditOverflow));
	CHECK(lost.error == Approx(audit.error).epsilon(0.2));
}

TEST_CASE("an audit is a function of the data, on any device and after any contents of the memory")
{
	Gauss sum(200, 130, 700);
	sum.add(1.5f, -1);
	const Audit first = sum.run(1);
	for (const unsigned blocks : {2u, 7u, 512u}) {
		const Audit other = sum.run(blocks);
		CHECK(std::memcmp(&first, &other, sizeof first) == 0);
	}
}

TEST_CASE("a result is compared directly with a reference")
{
	Gauss sum(70, 65, 300, 2);
	std::vector<float> reference = sum.memory[3];
	double difference = 0, norm = 0;
	for (int64_t i = 0; i < 70; ++i)
		for (int64_t j = 0; j < 65; ++j) {
			const float d = std::max(sum.at(sum.call.d, i, j, 1), 0.0f); // ReLU
			sum.at(sum.call.d, i, j, 1) = d;
			float &exact = reference[size_t(&sum.at(sum.call.d, i, j, 1) - sum.memory[3].data())];
			exact = d + 1e-3f * static_cast<float>(i);
			difference += std::pow(double(d) - double(exact), 2), norm += double(exact) * double(exact);
		}
	sum.memory[0].clear(), sum.memory[1].clear();
	sum.call.a.source = sum.call.b.source = nullptr;
	sum.call.reference = reference.data();
	const Audit audit = sum.run();
	CHECK(audit.flags == auditRecomputed);
	CHECK(double(audit.error) == Approx(std::sqrt(difference / norm)).epsilon(1e-6));
}

TEST_CASE("replays are audited by the number of the site's replay")
{
	Gauss sum;
	sum.call.period = 3;
	std::string seen;
	for (int replay = 0; replay < 8; ++replay) {
		sum.before();
		seen += sum.after() ? 'x' : '.';
	}
	CHECK(seen == "x..x..x.");
	CHECK(sum.sites[7].replays == 8);
	CHECK(sum.sites[7].audits == 3);
	CHECK(sum.ring->events[2].operand == 3);

	// The replay is not counted if a call on another stream was counted meanwhile.
	sum.before();
	sum.state.counts[5] = 9;
	CHECK(sum.after() == nullptr);
	CHECK(sum.sites[7].replays == 8);
}

TEST_CASE("a replay that is not audited touches only its counts")
{
	Gauss sum;
	sum.call.period = 2;
	sum.sites[7].replays = 1;
	sum.before();
	CHECK(sum.after() == nullptr);
	CHECK(sum.state.finished == 0x5a5a5a5a);
	for (const AuditSums &each : sum.sums)
		REQUIRE(each.value[0] == Audited::untouched);
}
