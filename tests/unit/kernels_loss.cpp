#include "tests/unit/kernels_counted.h"
#include "tests/unit/kernels_host.h"

#include "kernels/scaling.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

using namespace kernels_host;

namespace {

// ---- operands that kernels_loss.py also makes

class Mixer
{
public:
	explicit Mixer(uint64_t seed) : state_(seed) {}
	uint64_t next()
	{
		uint64_t z = state_ += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return z ^ z >> 31;
	}
	double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
	int whole(int low, int high) { return low + static_cast<int>(next() % static_cast<uint64_t>(high - low + 1)); }
	double gaussian()
	{
		double total = 0;
		for (int i = 0; i < 12; ++i)
			total += uniform();
		return total - 6;
	}
	double heavy(int width)
	{
		const double x = gaussian();
		return std::ldexp(x, static_cast<int>(std::floor(width * gaussian())));
	}

private:
	uint64_t state_;
};

enum class Family {
	gaussian,
	rows,
	columns,
	opposed,
	heavy_opposed,
	feature,
	sentinel,
	cancelling,
	one_row,
	outlier,
	pruned,
	mask,
	subnormal,
	nonfinite,
	heavy,
	positive
};

// op(A), m x k, and op(B), k x n.
struct Values {
	int64_t m, n, k;
	std::vector<double> a, b;
	double &atA(int64_t i, int64_t l) { return a[static_cast<size_t>(i * k + l)]; }
	double &atB(int64_t l, int64_t j) { return b[static_cast<size_t>(l * n + j)]; }
};

Values valuesOf(Family family, int power, uint64_t seed, int64_t m, int64_t n, int64_t k)
{
	Values values = {m, n, k, std::vector<double>(static_cast<size_t>(m * k)),
	                 std::vector<double>(static_cast<size_t>(k * n))};
	Mixer r(seed);
	std::vector<int> rows, columns, along;
	for (int64_t i = 0; i < m; ++i)
		rows.push_back(r.whole(-power, power));
	for (int64_t j = 0; j < n; ++j)
		columns.push_back(r.whole(-power, power));
	for (int64_t l = 0; l < k; ++l)
		along.push_back(r.next() & 1 ? power : -power);
	for (double &x : values.a)
		x = r.gaussian();
	for (double &y : values.b)
		y = r.gaussian();
	constexpr double most = std::numeric_limits<float>::max();
	const int64_t third = k / 3;
	using std::ldexp;
	for (int64_t i = 0; i < m; ++i)
		for (int64_t l = 0; l < k; ++l) {
			double &x = values.atA(i, l);
			switch (family) {
			case Family::rows:
			case Family::nonfinite:
				x = ldexp(x, rows[i]);
				break;
			case Family::opposed:
				x = ldexp(x, along[l]);
				break;
			case Family::heavy_opposed:
				x = ldexp(r.heavy(2), along[l]);
				break;
			case Family::feature:
				x = ldexp(std::fabs(x) + 0.125, l == 0 ? 36 : 0);
				break;
			case Family::sentinel:
				x = l ? ldexp(std::fabs(x) + 0.5, -27) : i ? 0x1p-7 : 16384;
				break;
			case Family::cancelling:
				x = l < third ? ldexp(x, 14) : l < 2 * third ? values.atA(i, l - third) : ldexp(x, -power);
				break;
			case Family::one_row:
				x = ldexp(x, i == m / 2 ? -40 : 0);
				break;
			case Family::outlier:
				x = i == 0 && l == 0 ? ldexp(1, power) : x;
				break;
			case Family::pruned:
				x = r.next() % 16 == 0 ? ldexp(x, r.whole(-power, 0)) : 0;
				break;
			case Family::mask:
				x = l == k / 2 ? -most : x;
				break;
			case Family::subnormal:
				x = ldexp(x, -133);
				break;
			case Family::heavy:
				x = r.heavy(power);
				break;
			case Family::positive:
				x = l < 2 ? ldexp(x, power) : std::fabs(x) + 0.125;
				break;
			case Family::gaussian:
			case Family::columns:
				break;
			}
		}
	for (int64_t l = 0; l < k; ++l)
		for (int64_t j = 0; j < n; ++j) {
			double &y = values.atB(l, j);
			switch (family) {
			case Family::columns:
				y = ldexp(y, columns[j]);
				break;
			case Family::opposed:
				y = ldexp(y, -along[l]);
				break;
			case Family::heavy_opposed:
				y = ldexp(r.heavy(2), -along[l]);
				break;
			case Family::feature:
				y = l ? std::fabs(y) : j < 4 ? ldexp(std::fabs(y), -power) : 0;
				break;
			case Family::sentinel:
				y = l ? 4096 * (std::fabs(y) + 0.5) : j ? 0 : 0x1p-8;
				break;
			case Family::cancelling:
				y = l < third ? ldexp(y, -14) : l < 2 * third ? -values.atB(l - third, j) : y;
				break;
			case Family::mask:
				y = l == k / 2 ? 0 : y;
				break;
			case Family::subnormal:
				y = ldexp(y, 100);
				break;
			case Family::heavy:
				y = r.heavy(power);
				break;
			case Family::positive:
				y = l < 2 ? ldexp(y, -power) : std::fabs(y) + 0.125;
				break;
			default:
				break;
			}
		}
	if (family == Family::nonfinite)
		values.atA(m / 2, k / 2) = -INFINITY, values.atB(k / 3, n / 2) = NAN;
	return values;
}

// Result of the model. `told`: 0 no event, 1 an event, 2 at the limit, 3 not checked.
struct Found {
	double excess;
	uint32_t leastRows, mostRows, leastColumns, mostColumns;
	int told;
};
const struct {
	Family family;
	int power;
	uint64_t seed;
	int64_t m, n, k;
	Found first, predicted;
} published[] = {
#include "kernels_loss.inc"
};

// ---- one site's calls

// Operands in any layout, and all data that a check needs.
struct Checked {
	int64_t m, n, k;
	bool transa, transb;
	Matrix a, b;
	std::vector<Prediction> predictions = std::vector<Prediction>(predictionCount);
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();
	std::vector<SiteState> sites = std::vector<SiteState>(siteCount);
	std::vector<ProbeSums> memory;
	size_t used; // sums of the call
	Call call;
	std::vector<const float *> pointers[2];
	static constexpr float untouched = 1e33f;

	static Shape shape(int64_t rows, int64_t columns, int64_t batch)
	{
		return {rows, columns, rows + 3, (rows + 7) / 8 * 8, batch, 5};
	}
	Checked(int64_t m, int64_t n, int64_t k, bool transa = false, bool transb = false, int64_t batchA = 1,
	        int64_t batchB = 1)
	    : m(m), n(n), k(k), transa(transa), transb(transb), a(shape(transa ? k : m, transa ? m : k, batchA), 1),
	      b(shape(transb ? n : k, transb ? k : n, batchB)), call(a, b, predictions.data(), ring.get())
	{
		Parameters &p = call.parameters;
		p.isAlongRows[0] = transa;
		p.isAlongRows[1] = !transb;
		used = static_cast<size_t>(sumCount(p));
		memory.resize(used + 2, {{untouched, untouched, untouched, untouched}, {}});
		p.sums = memory.data() + 1;
		p.sites = sites.data();
		p.site = 7;
	}
	// The same batch, found by pointers.
	void scatter()
	{
		for (int i = 0; i < 2; ++i) {
			Operand &operand = call.parameters.operand[i];
			for (int64_t matrix = 0; matrix < operand.batch; ++matrix)
				pointers[i].push_back(operand.source + matrix * operand.sourceStride);
			operand.source = reinterpret_cast<const float *>(pointers[i].data());
			operand.isArray = true;
		}
	}
	float &atA(int64_t i, int64_t l, int64_t matrix = 0) { return transa ? a.at(l, i, matrix) : a.at(i, l, matrix); }
	float &atB(int64_t l, int64_t j, int64_t matrix = 0) { return transb ? b.at(j, l, matrix) : b.at(l, j, matrix); }
	void fill(Values values, int64_t matrix = 0)
	{
		for (int64_t i = 0; i < m; ++i)
			for (int64_t l = 0; l < k; ++l)
				atA(i, l, matrix) = static_cast<float>(values.atA(i, l));
		for (int64_t l = 0; l < k && matrix < b.operand().batch; ++l)
			for (int64_t j = 0; j < n; ++j)
				atB(l, j, matrix) = static_cast<float>(values.atB(l, j));
	}
	void fill(Family family, int power = 14, uint64_t seed = 3, int64_t matrix = 0)
	{
		fill(valuesOf(family, power, seed, m, n, k), matrix);
	}
	uint32_t told() const
	{
		const auto kind = static_cast<uint32_t>(EventKind::underflow);
		return ring->totals[7][0][kind] + ring->totals[7][1][kind];
	}
	// The event of this call; null: none.
	const Event *run()
	{
		const uint32_t before = told();
		const uint64_t written = ring->written;
		call.run();
		REQUIRE(memory.front().value[0] == untouched);
		REQUIRE(memory.back().value[0] == untouched);
		if (told() == before)
			return nullptr;
		REQUIRE(told() == before + 1);
		for (uint64_t i = written; i < ring->written; ++i)
			if (ring->events[i % ringSize].kind == EventKind::underflow)
				return &ring->events[i % ringSize];
		FAIL("counted, but no event");
		return nullptr;
	}
	bool isChecked() const { return call.scratch.isChecked; }
	// X/Y of one product, from the sums of its lines.
	double excess(bool isFirst)
	{
		double values = 0, losses = 0;
		const ProbeSums *next = call.parameters.sums;
		for (const int64_t lines : {m, n}) {
			next += partsOf(k, lines, 1) * k;
			for (int64_t i = 0; i < lines; ++i, ++next)
				for (int probe = 0; probe < probes; ++probe) {
					values += double(next->value[probe]) * next->value[probe] / 2;
					losses += double(next->loss[probe]) * next->loss[probe] / (isFirst ? 1 : 2);
				}
		}
		return values > 0 ? std::sqrt(losses / values) : 0;
	}
};

} // namespace

TEST_CASE("the loss check finds what the published model finds, in a first call and in a predicted one")
{
	int layout = 0, told = 0;
	for (const auto &each : published) {
		++layout; // each stored in a different layout
		Checked checked(each.m, each.n, each.k, layout & 1, layout & 2);
		checked.fill(valuesOf(each.family, each.power, each.seed, each.m, each.n, each.k));
		for (const Found *found : {&each.first, &each.predicted}) {
			CAPTURE(static_cast<int>(each.family), each.power, each.seed, found == &each.first);
			const Event *const event = checked.run();
			REQUIRE(checked.isChecked());
			if (found->told == 3) {
				CHECK(event == nullptr);
				continue;
			}
			// Sums in fp32 differ if the product itself cancels.
			const double margin = each.family == Family::cancelling ? 0.5 : 1e-3;
			CHECK(checked.excess(found == &each.first) == Approx(found->excess).epsilon(margin).margin(1e-30));
			if (found->told != 2)
				CHECK((event != nullptr) == (found->told == 1));
			if (!event)
				continue;
			++told;
			CHECK(event->loss.excess == Approx(found->excess).epsilon(margin));
			const uint32_t slack = each.family == Family::cancelling ? 3 : 0;
			CHECK(event->loss.lostRows + slack >= found->leastRows);
			CHECK(event->loss.lostRows <= found->mostRows + slack);
			CHECK(event->loss.lostColumns + slack >= found->leastColumns);
			CHECK(event->loss.lostColumns <= found->mostColumns + slack);
			CHECK(event->before == event->after);
		}
	}
	CHECK(told > 40);
}

TEST_CASE("a line is lost above one in 1024")
{
	for (const auto &[m, lost, isLossy] : {std::make_tuple(1023, 1, true), std::make_tuple(1024, 1, false),
	                                       std::make_tuple(1024, 2, true), std::make_tuple(2048, 2, false)}) {
		Checked checked(m, 8, 16);
		checked.fill(Family::gaussian);
		for (int i = 0; i < lost; ++i)
			for (int64_t l = 0; l < 16; ++l)
				checked.atA(100 * i + 5, l) *= 0x1p-40f;
		CAPTURE(m, lost);
		const Event *const event = checked.run();
		CHECK((event != nullptr) == isLossy);
		if (event) {
			CHECK(event->loss.lostRows == static_cast<uint32_t>(lost));
			CHECK(event->loss.lostColumns == 0);
			CHECK(event->loss.excess < 1e-9);
			CHECK(event->operand == 0);
		}
	}
}

TEST_CASE("each product of a batch is checked by itself, a shared operand in all of them, strided or by pointers")
{
	for (const bool isShared : {false, true})
		for (const bool areArrays : {false, true})
			for (const int bad : {-1, 0, 2}) {
				Checked checked(40, 24, 33, bad == 0, bad == 2, 3, isShared ? 1 : 3);
				for (int matrix = 0; matrix < 3; ++matrix)
					checked.fill(matrix == bad ? Family::sentinel : Family::gaussian, 14, 3, matrix);
				if (bad == 2 && isShared) // the other two also have a loss if the sentinel is in B
					continue;
				if (areArrays)
					checked.scatter();
				CAPTURE(isShared, areArrays, bad);
				for (int i = 0; i < 2; ++i) {
					const Event *const event = checked.run();
					CHECK((event != nullptr) == (bad >= 0));
					if (event)
						CHECK(event->loss.excess > 4e-4f);
				}
			}
}

TEST_CASE("a large batch is checked in turns")
{
	Checked checked(4, 4, 8, false, true, 150, 150);
	for (int64_t matrix = 0; matrix < 150; ++matrix)
		checked.fill(matrix == 130 ? Family::feature : Family::gaussian, 30, 3, matrix);
	CHECK(checked.used == 2 * 64 * (8 + 4));
	std::vector<uint32_t> lossy;
	for (uint32_t call = 0; call < 3 * checkedEvery; ++call) {
		checked.sites[7].calls = call;
		if (call > 1 && call % checkedEvery)
			continue;
		if (checked.run())
			lossy.push_back(call);
	}
	// All matrices have one exponent, so the small ones lose their rows.
	CHECK(lossy.size() >= 1);
	checked.sites[7].calls = 2 * checkedEvery; // matrices 128 … 149 and 0 … 41
	const Event *const event = checked.run();
	REQUIRE(event);
	CHECK(checked.call.records[0].call == 2 * checkedEvery);
}

TEST_CASE("the first two calls of a site are checked and one in 127, and none differs from the others")
{
	Checked checked(64, 32, 48), clean(64, 32, 48);
	for (Checked *each : {&checked, &clean})
		each->fill(Family::sentinel);
	clean.call.parameters.sums = nullptr;
	for (uint32_t call = 0; call < 2 * checkedEvery + 1; ++call) {
		for (ProbeSums &each : checked.memory)
			each.value[0] = Checked::untouched;
		const bool isExpected = call < 2 || call % checkedEvery == 0;
		clean.call.run();
		REQUIRE((checked.run() != nullptr) == isExpected);
		REQUIRE(checked.isChecked() == isExpected);
		REQUIRE((checked.memory[checked.used / 2].value[0] == Checked::untouched) == !isExpected);
		REQUIRE(checked.a.converted() == clean.a.converted());
		REQUIRE(checked.b.converted() == clean.b.converted());
		REQUIRE(checked.call.scratch.alpha == clean.call.scratch.alpha);
	}
	CHECK(clean.told() == 0);

	// Sites are counted separately; those beyond the table are counted together.
	checked.call.parameters.site = 8;
	checked.call.run();
	CHECK(checked.isChecked());
	for (const uint32_t site : {siteCount, siteCount + 5, siteCount + 6}) {
		checked.call.parameters.site = site;
		checked.call.run();
		CHECK(checked.isChecked() == (site != siteCount + 6));
	}
	checked.call.parameters.sites = nullptr;
	checked.call.run();
	CHECK_FALSE(checked.isChecked());
}

TEST_CASE("a sampled call that was not predicted has the next one checked, too, and that one none")
{
	// Columns of C that lose because A's elements vanish are detected only if A was predicted.
	Checked checked(64, 48, 96);
	checked.fill(Family::gaussian);
	for (uint32_t call = 0; call < checkedEvery; ++call)
		REQUIRE(checked.run() == nullptr);
	checked.fill(Family::feature, 30, 65);
	const Event *event = checked.run();
	REQUIRE(event);
	const uint32_t columns = event->loss.lostColumns;
	event = checked.run();
	REQUIRE(event);
	CHECK(checked.isChecked());
	CHECK(event->loss.lostColumns > columns);
	checked.run();
	CHECK_FALSE(checked.isChecked());
	// Different operands at every call: the sampled one and the next are checked, not all of them.
	int checks = 0;
	for (uint32_t call = 0; call < 2 * checkedEvery; ++call) {
		checked.fill(call & 1 ? Family::gaussian : Family::feature, 30, call);
		checked.run();
		checks += checked.isChecked();
	}
	CHECK(checks == 4);
}

TEST_CASE("a check without the share of each block gives no verdict, and the next call is checked instead")
{
	for (const int change : {0, 1, 2, 3, 4}) {
		Checked checked(2048, 32, 48);
		checked.fill(Family::sentinel);
		REQUIRE(checked.run());
		REQUIRE(checked.run());
		checked.sites[7].calls = checkedEvery;
		checked.call.cast();
		REQUIRE(checked.call.parameters.castBlocks > 2);
		CastRecord &odd = checked.call.records[checked.call.parameters.castBlocks - 1];
		REQUIRE(odd.flags == (flagPredicted | flagChecked | flagRegular));
		switch (change) {
		case 1:
			odd.flags = flagPredicted; // it read the count before another call was settled
			odd.call = checkedEvery - 1;
			break;
		case 2:
			odd.call = checkedEvery - 1; // both are checked, of different matrices
			break;
		case 3:
			odd.used[1] += 4; // its sums have another scale
			break;
		case 4:
			odd.flags = flagChecked | flagRegular;
			break;
		}
		const uint32_t told = checked.told();
		checked.call.settle();
		CAPTURE(change);
		CHECK(checked.isChecked() == (change == 0));
		CHECK(checked.told() == told + (change == 0));
		CHECK(checked.sites[7].isCheckedAgain == (change != 0));
		if (change) {
			CHECK(checked.run());
			CHECK(checked.isChecked());
			CHECK(checked.sites[7].isCheckedAgain == 0);
		}
	}
}

TEST_CASE("calls in flight at once do not skip a check")
{
	Checked checked(64, 32, 48);
	checked.fill(Family::sentinel);
	Call other(checked.a, checked.b, checked.predictions.data(), checked.ring.get());
	static_cast<Parameters &>(other.parameters) = checked.call.parameters;
	other.give(other.parameters);
	REQUIRE(checked.run());
	REQUIRE(checked.run());
	checked.sites[7].calls = checkedEvery - 1; // two calls read it; one of them has the number 127
	checked.call.cast();
	other.cast();
	checked.call.settle();
	CHECK(checked.sites[7].isCheckedAgain == 0);
	other.settle();
	CHECK_FALSE(checked.isChecked());
	CHECK(checked.sites[7].calls == checkedEvery + 1);
	CHECK(checked.sites[7].isCheckedAgain == 1);
	CHECK(checked.run());
	CHECK(checked.run() == nullptr);
}

TEST_CASE("the result of a check does not depend on the number of settle blocks")
{
	const auto excessWith = [](unsigned smCount) {
		Checked checked(700, 300, 520, true);
		checked.fill(Family::feature, 22, 61);
		checked.run();
		const uint64_t written = checked.ring->written;
		checked.call.cast();
		checked.call.settle(smCount);
		REQUIRE(checked.ring->written == written + 1);
		const Event &event = checked.ring->events[written];
		REQUIRE(event.kind == EventKind::underflow);
		return event.loss.excess;
	};
	const float one = excessWith(1);
	CHECK(one > 4e-4f);
	CHECK(excessWith(7) == Approx(one).epsilon(1e-5));
	CHECK(excessWith(1000) == Approx(one).epsilon(1e-5));
}

TEST_CASE("a block adds its share of an operand's loss at once")
{
	for (const unsigned blocks : {1u, 6u}) {
		Checked checked(700, 300, 520, true);
		checked.fill(Family::feature, 22, 61);
		checked.run();
		checked.call.cast();
		const unsigned count = countedSettle(checked.call.parameters, blocks);
		CHECK(count >= 1);
		CHECK(count <= operands * blocks);
		CHECK(checked.call.scratch.checkers == blocks);
	}
}

TEST_CASE("sums that are made in parts are those of one part")
{
	// Lines from 256 on make parts. Without one, its lines would have no share in the sums.
	const int64_t m = 1500, n = 16, k = 24;
	REQUIRE(partsOf(k, m, 1) > 3);
	Checked checked(m, n, k);
	checked.fill(Family::gaussian);
	checked.run();
	const ProbeSums *const sums = checked.call.parameters.sums;
	double total = 0, single = 0;
	for (int64_t l = 0; l < k; ++l)
		for (int probe = 0; probe < probes; ++probe) {
			double sum = 0;
			for (int64_t part = 0; part < partsOf(k, m, 1); ++part)
				sum += double(sums[part * k + l].value[probe]) * 0x1p20;
			total += sum * sum;
		}
	for (int64_t i = 0; i < m; ++i)
		for (int64_t l = 0; l < k; ++l)
			single += double(checked.atA(i, l)) * checked.atA(i, l) * probes;
	CHECK(total == Approx(single).epsilon(0.25)); // E|v A|^2 = |A|^2

	// Settle adds the parts: the columns of the product are as large as its rows, although they come from these sums.
	double rows = 0, columns = 0;
	const ProbeSums *const linesA = sums + partsOf(k, m, 1) * k, *const linesB = linesA + m + partsOf(k, n, 1) * k;
	for (int probe = 0; probe < probes; ++probe) {
		for (int64_t i = 0; i < m; ++i)
			rows += double(linesA[i].value[probe]) * linesA[i].value[probe];
		for (int64_t j = 0; j < n; ++j)
			columns += double(linesB[j].value[probe]) * linesB[j].value[probe];
	}
	CHECK(columns > rows / 2); // four random signs are a rough measure
	CHECK(columns < rows * 2);
}

TEST_CASE("one operand that was predicted is enough for all of the loss")
{
	// The loss is A's alone. With A predicted the columns have all of it, with B predicted the rows.
	for (const int changed : {0, 1}) {
		Checked checked(64, 48, 96), reference(64, 48, 96);
		checked.fill(Family::feature, 22, 61);
		reference.fill(Family::feature, 22, 61);
		reference.run();
		const Event *const expected = reference.run();
		REQUIRE(expected);
		checked.run();
		for (Prediction &prediction : checked.predictions)
			if (prediction.key)
				prediction.exponent[changed] += 8;
		const Event *const event = checked.run();
		REQUIRE(event);
		CHECK(event->loss.excess == Approx(expected->loss.excess).epsilon(0.35));
		CHECK(checked.sites[7].isCheckedAgain == 1);
	}
}

TEST_CASE("a wrong prediction that makes the sums overflow gives no verdict; the next call gives one")
{
	Checked checked(32, 24, 40);
	const auto tiny = [&] {
		Values values = valuesOf(Family::gaussian, 14, 3, 32, 24, 40);
		for (double &x : values.a)
			x = std::ldexp(x, -130);
		checked.fill(values);
	};
	tiny();
	checked.run();
	checked.sites[7].calls = checkedEvery - 1;
	checked.run();
	checked.fill(Family::mask);
	CHECK(checked.run() == nullptr);
	CHECK(checked.isChecked());
	const Event *const event = checked.run();
	REQUIRE(event);
	CHECK(event->loss.excess > 0.5f);
	CHECK(event->loss.lostRows == 32);
}

TEST_CASE("no numbers, no verdict")
{
	for (const int operand : {0, 1}) {
		Checked checked(16, 16, 16);
		checked.fill(Family::gaussian);
		Matrix &empty = operand ? checked.b : checked.a;
		empty.each([&](int64_t row, int64_t column, int64_t) { empty.at(row, column) = row == 3 ? NAN : 0; });
		CHECK(checked.run() == nullptr);
		CHECK(checked.run() == nullptr);
		CHECK(checked.sites[7].isCheckedAgain == 0);
	}
}
