// The strict check (kernels/strict.cuh): its decision, its result and their determinism, on host memory.
#include "tests/unit/kernels_host.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>

using namespace kernels_host;

namespace {

// One batch of products in any layout, and all memory that its kernels need.
struct Product {
	struct Form {
		int64_t m = 48, n = 40, k = 96, batchA = 1, batchB = 1;
		bool transa = false, transb = false;
	};
	const Form of;
	Matrix a, b;
	std::vector<Prediction> predictions = std::vector<Prediction>(predictionCount);
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();
	std::vector<SiteState> sites = std::vector<SiteState>(siteCount);
	std::vector<uint64_t> memory;
	std::vector<const float *> pointers[operands];
	Call call;
	uint32_t flag = 0;
	static constexpr uint64_t guard = 0x5eadbeef5eadbeef;

	static Shape shape(int64_t rows, int64_t columns, int64_t batch)
	{
		return {rows, columns, rows + 3, (rows + 7) / 8 * 8, batch, 5};
	}
	explicit Product(const Form &form)
	    : of(form), a(shape(of.transa ? of.k : of.m, of.transa ? of.m : of.k, of.batchA), 1),
	      b(shape(of.transb ? of.n : of.k, of.transb ? of.k : of.n, of.batchB)),
	      call(a, b, predictions.data(), ring.get())
	{
		Parameters &p = call.parameters;
		p.isAlongRows[0] = of.transa, p.isAlongRows[1] = !of.transb;
		p.strict = strictLayout(p);
		memory.assign(static_cast<size_t>(p.strict.bytes) / 8 + 4, guard);
		p.strict.memory = reinterpret_cast<uint8_t *>(memory.data() + 2);
		p.strict.isUncured = &flag;
		p.sites = sites.data();
		p.site = 7;
	}
	void usePointers()
	{
		for (int i = 0; i < operands; ++i) {
			Operand &operand = call.parameters.operand[i];
			for (int64_t matrix = 0; matrix < operand.batch; ++matrix)
				pointers[i].push_back(operand.source + matrix * operand.sourceStride);
			operand.source = reinterpret_cast<const float *>(pointers[i].data());
			operand.isArray = true;
		}
	}
	float &atA(int64_t i, int64_t l, int64_t matrix = 0) { return of.transa ? a.at(l, i, matrix) : a.at(i, l, matrix); }
	float &atB(int64_t l, int64_t j, int64_t matrix = 0) { return of.transb ? b.at(j, l, matrix) : b.at(l, j, matrix); }
	int64_t batch() const { return std::max(of.batchA, of.batchB); }
	void fill(unsigned seed = 1) { a.fill(seed), b.fill(seed + 1); }
	// Columns of op(A) by 2^power or 2^-power, rows of op(B) by the reverse: C does not change.
	void oppose(int power, int64_t onlyMatrix = -1)
	{
		const auto scale = [&](int64_t l) { return l * 7 % 5 < 2 ? power : -power; };
		for (int64_t l = 0; l < of.k; ++l) {
			for (int64_t matrix = 0; matrix < of.batchA; ++matrix)
				for (int64_t i = 0; i < of.m && (onlyMatrix < 0 || matrix == onlyMatrix); ++i)
					atA(i, l, matrix) = std::ldexp(atA(i, l, matrix), scale(l));
			for (int64_t matrix = 0; matrix < of.batchB; ++matrix)
				for (int64_t j = 0; j < of.n && (onlyMatrix < 0 || matrix == onlyMatrix); ++j)
					atB(l, j, matrix) = std::ldexp(atB(l, j, matrix), -scale(l));
		}
	}
	void run(unsigned smCount = 132)
	{
		call.cast(smCount);
		launch("autoamp_settle", settleBlocks(call.parameters.castBlocks, smCount, true), call.parameters);
		launch("autoamp_mend", settleBlocks(call.parameters.castBlocks, smCount, true), call.parameters);
		REQUIRE(
		    (memory[0] == guard && memory[1] == guard && memory[memory.size() - 2] == guard && memory.back() == guard));
		REQUIRE((a.isPaddingIntact() && b.isPaddingIntact()));
	}
	const Mending &mending() const { return call.scratch.mending; }
	const Event *last(EventKind kind) const
	{
		const Event *found = nullptr;
		for (uint64_t i = 0; i < ring->written; ++i)
			if (ring->events[i].kind == kind)
				found = &ring->events[i];
		return found;
	}
	bool isUncured() const { return flag == 1; }
	uint32_t total(EventKind kind) const
	{
		return ring->totals[7][0][static_cast<uint32_t>(kind)] + ring->totals[7][1][static_cast<uint32_t>(kind)];
	}
	float copyA(int64_t i, int64_t l, int64_t matrix) const
	{
		return widened(of.transa ? a.target(l, i, matrix) : a.target(i, l, matrix));
	}
	float copyB(int64_t l, int64_t j, int64_t matrix) const
	{
		return widened(of.transb ? b.target(j, l, matrix) : b.target(l, j, matrix));
	}
	// Relative Frobenius error of alpha * copies against fp64, for one matrix. Leaves out Inf and NaN, which must be in
	// both.
	double error(int64_t matrix = 0)
	{
		double wrong = 0, norm = 0;
		const int64_t inA = of.batchA > 1 ? matrix : 0, inB = of.batchB > 1 ? matrix : 0;
		for (int64_t i = 0; i < of.m; ++i)
			for (int64_t j = 0; j < of.n; ++j) {
				double exact = 0, sum = 0;
				for (int64_t l = 0; l < of.k; ++l) {
					exact += double(atA(i, l, inA)) * double(atB(l, j, inB));
					sum += double(copyA(i, l, inA)) * double(copyB(l, j, inB));
				}
				exact *= double(call.parameters.alphaValue);
				sum *= double(call.scratch.alpha);
				CHECK(std::isnan(sum) == std::isnan(exact));
				if (!std::isfinite(exact)) {
					CHECK((std::isnan(exact) || sum == exact));
					continue;
				}
				wrong += (sum - exact) * (sum - exact), norm += exact * exact;
			}
		return std::sqrt(wrong / norm);
	}
	struct Result {
		std::vector<uint16_t> a, b;
		uint32_t alpha;
		bool operator==(const Result &) const = default;
	};
	Result result() { return {a.converted(), b.converted(), std::bit_cast<uint32_t>(call.scratch.alpha)}; }
	// The same operands, cast without a strict check.
	Result unchecked()
	{
		Product plain(of);
		plain.call.parameters.strict = {};
		plain.call.parameters.alphaValue = call.parameters.alphaValue;
		a.each([&](int64_t row, int64_t column, int64_t matrix) {
			plain.a.at(row, column, matrix) = a.at(row, column, matrix);
		});
		b.each([&](int64_t row, int64_t column, int64_t matrix) {
			plain.b.at(row, column, matrix) = b.at(row, column, matrix);
		});
		plain.call.run();
		return plain.result();
	}
};

using Form = Product::Form;
const Form layouts[] = {{}, {.transa = true}, {.transb = true}, {.transa = true, .transb = true}};

} // namespace

TEST_CASE("a strict check mends what loses, and leaves the bits of everything else")
{
	for (const Form &form : layouts)
		for (const int power : {0, 4, 8, 11, 12, 14, 18, 30, 55}) {
			CAPTURE(form.transa, form.transb, power);
			Product product(form);
			product.fill();
			product.oppose(power);
			product.run();
			CHECK(product.error() < 6e-4);
			CHECK(product.mending().isNeeded == (power > 12));
			CHECK(product.total(EventKind::mended) == (power > 12));
			CHECK_FALSE(product.isUncured());
			CHECK(product.total(EventKind::uncured) == 0);
			if (power <= 12)
				CHECK(product.result() == product.unchecked());
			else
				CHECK(product.mending().excess > 4e-4f);
		}
}

TEST_CASE("the strict decision does not depend on predictions, devices or runs")
{
	for (const int power : {12, 13, 30}) {
		Product product({.m = 200, .n = 130, .k = 700});
		product.fill();
		product.oppose(power);
		product.run();
		const auto first = product.result();
		const Mending mending = product.mending();
		const auto isSame = [&] {
			return product.result() == first && product.mending().excess == mending.excess &&
			       product.mending().isNeeded == mending.isNeeded && product.mending().worse == mending.worse;
		};
		for (const unsigned smCount : {132u, 1u, 7u, 40u}) { // predicted now
			product.run(smCount);
			CHECK(isSame());
		}
		for (const auto &[x, y] : {std::pair(-100, 90), std::pair(127, 127), std::pair(0, -126)}) {
			product.call.parameters.predictions = predicting(product.call.parameters.pairKey, x, y);
			product.run();
			CHECK(isSame());
		}
	}
}

TEST_CASE("products of every magnitude are mended")
{
	for (const auto &[x, y, alpha] :
	     {std::tuple(-100, -10, 1.0f), std::tuple(90, 20, 1.0f), std::tuple(-90, 110, 1e-3f),
	      std::tuple(100, -90, -1e8f), std::tuple(-60, -60, 1e30f), std::tuple(0, 0, 3e-30f)}) {
		CAPTURE(x, y, alpha);
		Product product({});
		product.fill();
		product.a.each([&, x = x](auto... at) { product.a.at(at...) = std::ldexp(product.a.at(at...), x); });
		product.b.each([&, y = y](auto... at) { product.b.at(at...) = std::ldexp(product.b.at(at...), y); });
		product.oppose(15);
		product.call.parameters.alphaValue = alpha;
		product.run();
		CHECK(product.mending().isNeeded == 1);
		CHECK(product.error() < 6e-4);
	}
}

TEST_CASE("a shift and an exponent need not be one power of two")
{
	// A shift of 122 and an exponent of about 17, for A or for B.
	for (const bool isB : {false, true}) {
		Product product({.transa = isB});
		product.fill();
		for (int64_t l = 0; l < product.of.k; ++l) {
			const bool isSmall = l % 2 == 0;
			const int a = isSmall ? -124 : 100, b = isSmall ? 120 : -105;
			for (int64_t i = 0; i < product.of.m; ++i)
				product.atA(i, l) = std::ldexp(product.atA(i, l), isB ? b : a);
			for (int64_t j = 0; j < product.of.n; ++j)
				product.atB(l, j) = std::ldexp(product.atB(l, j), isB ? a : b);
		}
		product.run();
		CHECK(product.total(EventKind::mended) == 1);
		CHECK(product.error() < 6e-4);
	}
}

TEST_CASE("the smallest and the largest elements of one operand meet zeros of the other")
{
	// The mask of attention: -FLT_MAX in A where B has zeros, so that the exponent of A loses all other elements.
	for (const bool isB : {false, true}) {
		Product product({.transa = isB});
		product.fill();
		constexpr float most = std::numeric_limits<float>::max();
		for (int64_t i = 0; i < product.of.m; ++i)
			product.atA(i, 5) = isB ? 0 : -most;
		for (int64_t j = 0; j < product.of.n; ++j)
			product.atB(5, j) = isB ? -most : 0;
		product.run();
		CHECK(product.mending().isNeeded == 1);
		CHECK(product.mending().worse == isB);
		CHECK(product.error() < 6e-4);
	}
	// Only the smallest element of B matters: it is 2^140 times smaller than one that meets zeros.
	Product product({});
	product.fill();
	for (int64_t l = 0; l < product.of.k; ++l)
		for (int64_t i = 0; i < product.of.m; ++i)
			product.atA(i, l) = l == 3 ? product.atA(i, l) : 0;
	for (int64_t j = 0; j < product.of.n; ++j)
		product.atB(3, j) = std::ldexp(product.atB(3, j), -70), product.atB(9, j) = std::ldexp(product.atB(9, j), 70);
	product.run();
	CHECK(product.mending().isNeeded == 1);
	CHECK(product.error() < 6e-4);
}

TEST_CASE("Inf, NaN and zeros in a strict check")
{
	Product product({});
	product.fill();
	product.oppose(20);
	product.atA(3, 10) = INFINITY, product.atA(4, 11) = NAN;
	product.atB(12, 5) = -INFINITY;
	for (int64_t i = 0; i < product.of.m; ++i) // Inf meets a column of zeros in one case, finite elements in the other
		product.atA(i, 12) = 0;
	product.run();
	CHECK(product.mending().isNeeded == 1);
	CHECK(product.copyA(3, 10, 0) == INFINITY);
	CHECK(std::isnan(product.copyA(4, 11, 0)));
	CHECK(product.copyB(12, 5, 0) == -INFINITY);
	for (int64_t j = 0; j < product.of.n; ++j) // no element without Inf is lost
		if (j != 5)
			CHECK(product.copyB(12, j, 0) != 0);

	for (const int empty : {0, 1, 2}) { // no data: no decision, and the bits of an unchecked cast
		Product zeros({});
		zeros.fill();
		zeros.oppose(20);
		if (empty != 1)
			zeros.a.fill(1, 0);
		if (empty != 0)
			zeros.b.each([&](auto... at) { zeros.b.at(at...) = NAN; });
		zeros.run();
		CHECK(zeros.mending().isNeeded == 0);
		CHECK(zeros.result() == zeros.unchecked());
	}
}

TEST_CASE("a batch is mended as a whole, strided, by pointers and with a shared operand")
{
	for (const bool isShared : {false, true})
		for (const bool areArrays : {false, true})
			for (const int bad : {-1, 0, 2}) {
				CAPTURE(isShared, areArrays, bad);
				Product product(
				    {.m = 30, .n = 70, .k = 65, .batchA = 3, .batchB = isShared ? 1 : 3, .transa = bad == 0});
				product.fill();
				if (bad >= 0)
					product.oppose(16, isShared ? -1 : bad);
				if (areArrays)
					product.usePointers();
				product.run();
				CHECK(product.mending().isNeeded == (bad >= 0));
				for (int64_t matrix = 0; matrix < 3; ++matrix)
					CHECK(product.error(matrix) < 6e-4);
			}
	// More matrices than a sampled check reads; the last one is bad.
	Product many({.m = 4, .n = 5, .k = 9, .batchA = 150, .batchB = 150});
	many.fill();
	many.oppose(18, 149);
	many.run();
	CHECK(many.mending().isNeeded == 1);
	for (const int64_t matrix : {0, 77, 149})
		CHECK(many.error(matrix) < 2e-3);
}

TEST_CASE("every part of a large product counts")
{
	// Only the last lines and the last values of k are not zeros.
	for (const Form &layout : layouts) {
		Product product({.m = 600, .n = 300, .k = 600, .transa = layout.transa, .transb = layout.transb});
		product.fill();
		product.oppose(18);
		for (int64_t l = 0; l < product.of.k; ++l) {
			for (int64_t i = 0; i < product.of.m; ++i)
				product.atA(i, l) = i < 560 || l < 560 ? 0 : product.atA(i, l);
			for (int64_t j = 0; j < product.of.n; ++j)
				product.atB(l, j) = j < 280 || l < 560 ? 0 : product.atB(l, j);
		}
		product.run();
		CHECK(product.mending().isNeeded == 1);
		CHECK(product.error() < 6e-4);
	}
}

TEST_CASE("lines that cancel each other are measured")
{
	Product product({});
	product.fill();
	for (int64_t l = 0; l < product.of.k; ++l) {
		for (int64_t i = 1; i < product.of.m; i += 2)
			product.atA(i, l) = -product.atA(i - 1, l);
		for (int64_t j = 1; j < product.of.n; j += 2)
			product.atB(l, j) = -product.atB(l, j - 1);
	}
	product.oppose(16);
	product.run();
	CHECK(product.mending().isNeeded == 1);
	CHECK(product.error() < 6e-4);
}

TEST_CASE("losses of small products do not matter")
{
	for (const bool areFirst : {false, true}) {
		Product product({});
		product.fill();
		product.oppose(20);
		for (int64_t l = 0; l < product.of.k; ++l) {
			const bool isSmall = (l < product.of.k / 2) == areFirst;
			const int undo = l * 7 % 5 < 2 ? 20 : -20;
			for (int64_t i = 0; i < product.of.m; ++i)
				product.atA(i, l) = std::ldexp(product.atA(i, l), isSmall ? -40 : -undo);
			for (int64_t j = 0; j < product.of.n; ++j)
				product.atB(l, j) = std::ldexp(product.atB(l, j), isSmall ? -40 : undo);
		}
		product.run();
		CHECK(product.mending().isNeeded == 0);
		CHECK(product.result() == product.unchecked());
	}
}

TEST_CASE("k of 1, and sizes around those of a tile")
{
	for (const int64_t k : {1, 31, 32, 33, 64, 65, 300})
		for (const int64_t m : {1, 63, 65, 600}) {
			CAPTURE(k, m);
			Product product({.m = m, .n = 3, .k = k, .transb = k % 2 == 0});
			product.fill();
			product.oppose(25);
			product.run(4);
			CHECK(product.error() < 1.5e-3);
			if (k > 30)
				CHECK(product.mending().isNeeded == 1);
		}
}

TEST_CASE("lost lines of a strict call are reported by sample, and not mended")
{
	Product product({});
	product.fill();
	for (int64_t l = 0; l < product.of.k; ++l)
		product.atA(7, l) *= 0x1p-40f;
	for (int i = 0; i < 130; ++i)
		product.run(2);
	CHECK(product.total(EventKind::mended) == 0);
	CHECK(product.total(EventKind::underflow) == 3); // calls 0, 1 and 127
	const Event *const lost = product.last(EventKind::underflow);
	REQUIRE(lost);
	CHECK(lost->operand == 0);
	CHECK(lost->loss.lostRows == 1);
	CHECK(lost->loss.lostColumns == 0);
}

TEST_CASE("a product that balancing does not repair is uncured")
{
	// Large elements of A meet equal rows of B and cancel exactly.
	for (const Form &form : layouts) {
		CAPTURE(form.transa, form.transb);
		Product product(form);
		product.fill();
		for (int64_t i = 0; i < product.of.m; ++i)
			product.atA(i, 0) = i ? 0 : 0x1p64f, product.atA(i, 1) = i ? 0 : -0x1p64f;
		for (int64_t j = 0; j < product.of.n; ++j)
			product.atB(1, j) = product.atB(0, j);
		for (int run = 1; run < 3; ++run) {
			product.run(run == 1 ? 132 : 3);
			CHECK(product.error() > 4e-3);
			CHECK(product.mending().isNeeded == 1);
			CHECK(product.isUncured());
			CHECK(product.total(EventKind::mended) == 0);
			CHECK(product.total(EventKind::uncured) == static_cast<uint32_t>(run));
			const Event *const event = product.last(EventKind::uncured);
			REQUIRE(event);
			CHECK(double(event->loss.excess) == Approx(product.error()).epsilon(0.6));
			CHECK(event->loss.lostRows > 0);
		}
	}
	// Without a place for the flag, and without a ring, nothing is written.
	Product silent({});
	silent.fill();
	for (int64_t i = 0; i < silent.of.m; ++i)
		silent.atA(i, 0) = i ? 0 : 0x1p64f, silent.atA(i, 1) = i ? 0 : -0x1p64f;
	for (int64_t j = 0; j < silent.of.n; ++j)
		silent.atB(1, j) = silent.atB(0, j);
	silent.call.parameters.strict.isUncured = nullptr;
	silent.call.parameters.ring = nullptr;
	silent.run();
	CHECK(silent.mending().isNeeded == 1);
	CHECK_FALSE(silent.isUncured());
}

TEST_CASE("a matrix of a batch that is smaller in both operands is mended as far as float16 reaches, else uncured")
{
	for (const bool areArrays : {false, true})
		for (const int power : {0, -16, -22, -26, -30, -40}) {
			CAPTURE(areArrays, power);
			Product product({.m = 30, .n = 70, .k = 65, .batchA = 4, .batchB = 4});
			product.fill();
			product.oppose(16);
			const auto shrink = [&](Matrix &matrix) {
				matrix.each([&](int64_t row, int64_t column, int64_t index) {
					if (index == 2)
						matrix.at(row, column, index) = std::ldexp(matrix.at(row, column, index), power);
				});
			};
			shrink(product.a), shrink(product.b);
			if (areArrays)
				product.usePointers();
			product.run();
			double worst = 0;
			for (int64_t matrix = 0; matrix < 4; ++matrix)
				worst = std::max(worst, product.error(matrix));
			CAPTURE(worst);
			if (!product.isUncured())
				CHECK(worst < 8e-4);
			CHECK(product.isUncured() == (power <= -30));
			CHECK(product.total(EventKind::uncured) == (power <= -30));
			if (product.isUncured())
				CHECK(double(product.last(EventKind::uncured)->loss.excess) == Approx(worst).epsilon(0.6));
		}
}

TEST_CASE("a mended operand uses the whole range of float16")
{
	for (const int power : {13, 16, 19, 21}) {
		Product product({});
		product.fill();
		product.oppose(power);
		product.run();
		REQUIRE(product.mending().isNeeded == 1);
		for (const bool isB : {false, true}) {
			float most = 0;
			for (int64_t l = 0; l < product.of.k; ++l)
				for (int64_t i = 0; i < (isB ? product.of.n : product.of.m); ++i)
					most = std::max(most, std::abs(isB ? product.copyB(l, i, 0) : product.copyA(i, l, 0)));
			CHECK(most >= 0x1p14f);
			CHECK(most <= 0x1p15f);
		}
	}
}

TEST_CASE("columns that cancel under signs are measured")
{
	// Only A loses. Columns of B are equal or opposite, in pairs and patterns whose signs are equal in all probes.
	struct Pattern {
		int64_t columns;
		std::vector<float> factors; // by which the first columns are multiplied; the others are 0
	};
	const Pattern patterns[] = {{1, {1}},           {2, {1, 1}},         {2, {1, -1}},        {3, {1, 1, 1}},
	                            {4, {0, 0, 1, -1}}, {64, {0, 0, 1, -1}}, {4, {1, 2, -2, -1}}, {4, {1, -1, 1, -1}}};
	for (const bool isB : {false, true})
		for (const auto &[columns, factors] : patterns) {
			CAPTURE(isB, columns, factors);
			Product product({.m = isB ? columns : 64, .n = isB ? 64 : columns, .k = 64});
			const auto lossy = [&](int64_t line, int64_t l) -> float & {
				return isB ? product.atB(l, line) : product.atA(line, l);
			};
			const auto other = [&](int64_t l, int64_t line) -> float & {
				return isB ? product.atA(line, l) : product.atB(l, line);
			};
			for (int64_t l = 0; l < 64; ++l)
				for (int64_t i = 0; i < 64; ++i)
					lossy(i, l) = l == 0   ? std::ldexp(1 + float(i * 37 % 64) / 64, -38)
					              : l == 1 ? float(i == 0)
					                       : std::ldexp(float(i * l * 29 % 61) / 61 - 0.5f, -6);
			for (int64_t l = 0; l < 64; ++l)
				for (int64_t j = 0; j < columns; ++j)
					other(l, j) = (static_cast<size_t>(j) < factors.size() ? factors[static_cast<size_t>(j)] : 0) *
					              (l == 0   ? 0x1p21f
					               : l == 1 ? 0.0f
					               : l % 3  ? 0x1p-12f
					                        : -0x1p-12f);
			product.run();
			CHECK(product.mending().isNeeded == 1);
			CHECK_FALSE(product.isUncured());
			CHECK(product.error() < 6e-4);
		}
}

TEST_CASE("an Inf or NaN without finite elements at its k does not take the range of the others")
{
	for (const bool isB : {false, true})
		for (const float strange : {INFINITY, -INFINITY, NAN})
			for (const int power : {20, 40, 60}) {
				CAPTURE(isB, strange, power);
				Product product({.transb = isB});
				product.fill();
				const auto lossy = [&](int64_t l, int64_t line) -> float & {
					return isB ? product.atA(line, l) : product.atB(l, line);
				};
				const auto copied = [&](int64_t l, int64_t line) {
					return isB ? product.copyA(line, l, 0) : product.copyB(l, line, 0);
				};
				for (int64_t line = 0; line < (isB ? product.of.n : product.of.m); ++line)
					(isB ? product.atB(5, line) : product.atA(line, 5)) = line == 3 ? strange : 0;
				const int64_t lines = isB ? product.of.m : product.of.n;
				for (int64_t line = 0; line < lines; ++line)
					lossy(5, line) = line == 7 ? 0 : std::ldexp(lossy(5, line), line == 9 && power > 20 ? -120 : power);
				product.run();
				CHECK(product.mending().isNeeded == (power > 20));
				CHECK_FALSE(product.isUncured());
				for (int64_t line = 0; line < lines && power > 20; ++line) // Inf times these keeps its sign, or is NaN
					CHECK(copied(5, line) == (line == 7 ? 0 : std::copysign(1.0f, lossy(5, line))));
				const float kept = isB ? product.copyB(5, 3, 0) : product.copyA(3, 5, 0);
				CHECK((std::isnan(strange) ? std::isnan(kept) : kept == strange));
				CHECK(product.error() < 6e-4);
			}
}

TEST_CASE("large integers that cancel exactly hide no loss")
{
	// [X X S] [Y; -Y; Z] with integers in X and Y: only S Z remains, of which float16 loses a part.
	for (const bool isB : {false, true}) {
		constexpr int64_t third = 32;
		Product product({.m = 64, .n = 48, .k = 3 * third, .transa = isB});
		product.fill();
		for (int64_t l = 0; l < product.of.k; ++l) {
			for (int64_t i = 0; i < product.of.m; ++i)
				product.atA(i, l) = l < third       ? float((i * 1331 + l * 717) % 3001 - 1500)
				                    : l < 2 * third ? product.atA(i, l - third)
				                                    : std::ldexp(product.atA(i, l), isB ? -10 : -26);
			for (int64_t j = 0; j < product.of.n; ++j)
				product.atB(l, j) = l < third       ? float((j * 129 + l * 113) % 509 - 254)
				                    : l < 2 * third ? -product.atB(l - third, j)
				                                    : std::ldexp(product.atB(l, j), isB ? -26 : -10);
		}
		product.run();
		CHECK(product.mending().isNeeded == 1);
		CHECK(product.total(EventKind::mended) == 1);
		CHECK(product.error() < 6e-4);
	}
}
