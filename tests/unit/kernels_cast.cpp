#include "tests/unit/kernels_host.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace kernels_host;

namespace {

const Shape tiny = {1, 1, 8, 8};

// One long column with every rounding case: each sign, exponent and top mantissa, with the low bits just below, at and
// above a tie of either format.
std::vector<float> interesting()
{
	std::vector<float> values;
	for (uint32_t top = 0; top < 0x10000; top += 0x7)
		for (const uint32_t low : {0x0000, 0x0001, 0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x3001, 0x7fff, 0x8000,
		                           0x8001, 0xefff, 0xf000, 0xffff})
			values.push_back(std::bit_cast<float>(top << 16 | low));
	for (const float x : {65503.99f, 65504.0f, 65519.99f, 65520.0f, 65536.0f, 5.9604645e-8f, 2.9802322e-8f,
	                      2.9802326e-8f, 6.1035156e-5f, 6.097555e-5f, 3.3895314e38f, 3.3961773e38f, 3.3961775e38f,
	                      3.4028235e38f, 1e-45f, INFINITY, NAN}) {
		values.push_back(x);
		values.push_back(-x);
	}
	return values;
}

} // namespace

TEST_CASE("every half has its own value as a float")
{
	for (uint32_t bits = 0; bits < 0x10000; ++bits) {
		const auto half = static_cast<uint16_t>(bits);
		const float value = floatOfHalf(half), expected = widened(half);
		CAPTURE(bits);
		REQUIRE((std::isnan(expected) ? std::isnan(value)
		                              : std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected)));
	}
}

TEST_CASE("every half is the nearest one, at any scale")
{
	const std::vector<float> values = interesting();
	const auto count = static_cast<int64_t>(values.size());
	Matrix a({count, 1, count, (count + 7) / 8 * 8}), b(tiny);
	std::copy(values.begin(), values.end(), &a.at(0, 0));
	b.at(0, 0) = 1;
	for (const int exponent : {0, 14, -1, 127, -126, 100, -20}) {
		Call call(a, b, nullptr);
		call.parameters.predictions = predicting(call.parameters.pairKey, exponent, 0);
		call.cast();
		int wrong = 0;
		for (int64_t i = 0; i < count; ++i)
			wrong += a.target(i, 0) != rounded(values[i], exponent, half);
		CAPTURE(exponent);
		CHECK(wrong == 0);
		CHECK(call.amax(0) == a.amax());
		CHECK(call.nonfinite(0) == 1);
		CHECK(call.nonfinite(1) == 0);
	}
}

TEST_CASE("the reference knows halves by heart")
{
	CHECK(rounded(1, 0, half) == 0x3c00);
	CHECK(rounded(-2, 0, half) == 0xc000);
	CHECK(rounded(65504, 0, half) == 0x7bff);
	CHECK(rounded(65519.99f, 0, half) == 0x7bff);
	CHECK(rounded(65520, 0, half) == 0x7c00);
	CHECK(rounded(std::ldexp(1.0f, -24), 0, half) == 1);
	CHECK(rounded(std::ldexp(1.0f, -25), 0, half) == 0);
	CHECK(rounded(std::ldexp(1.5f, -25), 0, half) == 1);
	CHECK(rounded(1 + std::ldexp(1.0f, -11), 0, half) == 0x3c00);
	CHECK(rounded(1 + std::ldexp(3.0f, -11), 0, half) == 0x3c02);
	CHECK(rounded(1, 0, bfloat16) == 0x3f80);
	CHECK(rounded(std::numeric_limits<float>::max(), 0, bfloat16) == 0x7f80);
	for (uint32_t bits = 0; bits < 0x7c00; ++bits)
		REQUIRE(rounded(widened(bits), 0, half) == bits);
}

TEST_CASE("every bfloat16 is the nearest one that is finite where the number is")
{
	const std::vector<float> values = interesting();
	const auto count = static_cast<int64_t>(values.size());
	Matrix a({count, 1, count, (count + 7) / 8 * 8}), b(tiny);
	std::copy(values.begin(), values.end(), &a.at(0, 0));
	b.at(0, 0) = 0.3f;
	Call call(a, b, nullptr);
	call.parameters.scratch = nullptr; // it has none
	launch("autoamp_cast_bfloat16", gridSize(call.parameters, 132), call.parameters);
	int wrong = 0, clamped = 0;
	for (int64_t i = 0; i < count; ++i) {
		const uint16_t nearest = rounded(values[i], 0, bfloat16);
		const bool isClamped = std::isfinite(values[i]) && (nearest & 0x7fff) == 0x7f80;
		clamped += isClamped;
		wrong += a.target(i, 0) != (isClamped ? nearest - 1 : nearest);
	}
	CHECK(wrong == 0);
	CHECK(clamped == 4);
	CHECK(b.target(0, 0) == rounded(0.3f, 0, bfloat16));

	// The same of runs.
	Runs runs = {};
	std::vector<uint16_t> narrowed(values.size());
	runs.run[0] = {values.data(), narrowed.data(), count};
	runs.count = 1;
	launch("autoamp_runs", gridSize(runs, 132), runs);
	for (int64_t i = 0; i < count; ++i)
		wrong += narrowed[static_cast<size_t>(i)] != a.target(i, 0);
	CHECK(wrong == 0);
}

TEST_CASE("one number near the limit of bfloat16 is right among small ones")
{
	for (uint32_t bits = 0x7f7f7ff0; bits < 0x7f7f8010; ++bits)
		for (int64_t place = 0; place < 16; ++place) {
			Matrix a({16, 1, 16, 16}), b(tiny);
			a.fill(1);
			b.at(0, 0) = 1;
			a.at(place, 0) = std::bit_cast<float>(place % 2 ? bits : bits | 0x80000000);
			Call call(a, b, nullptr);
			launch("autoamp_cast_bfloat16", 1, call.parameters);
			REQUIRE(a.target(place, 0) == (place % 2 ? 0x7f7f : 0xff7f));
			REQUIRE(a.target(place ^ 1, 0) == rounded(a.at(place ^ 1, 0), 0, bfloat16));
		}
}

TEST_CASE("a call that clamps reports it once an operand")
{
	auto ring = std::make_unique<Ring>();
	std::vector<SiteState> sites(siteCount);
	const auto total = [&](uint32_t site, uint32_t operand) {
		return ring->totals[site][operand][static_cast<uint32_t>(EventKind::clamped)];
	};
	Matrix a({5000, 40, 5000, 5000}), b({8, 8, 8, 8});
	Call call(a, b, nullptr, ring.get());
	Parameters &p = call.parameters;
	p.sites = sites.data(), p.site = 7;
	const auto run = [&](uint64_t number) {
		p.call = number;
		launch("autoamp_cast_bfloat16", gridSize(p, 132), p);
	};
	a.fill(1), b.fill(2);
	a.at(3, 3) = -INFINITY, b.at(4, 4) = NAN; // these are unchanged
	b.at(0, 0) = 3.3961773e38f;               // the largest that is rounded down
	run(1);
	CHECK(ring->written == 0);
	const float largest = std::numeric_limits<float>::max();
	a.each([&](int64_t row, int64_t column, int64_t) { a.at(row, column) = row % 3 ? -largest : 1; });
	run(2);
	CHECK(total(7, 0) == 1);
	CHECK(total(7, 1) == 0);
	REQUIRE(ring->written == 1);
	const Event &event = ring->events[0];
	CHECK(event.sequence == 1);
	CHECK(event.site == 7);
	CHECK(event.kind == EventKind::clamped);
	CHECK(event.operand == 0);
	CHECK(event.before == INT32_MIN);
	CHECK(event.after == 0);
	CHECK(event.amax == std::bit_cast<uint32_t>(largest));
	b.at(7, 7) = largest;
	run(3), run(3); // the second: a replay
	CHECK(total(7, 0) == 2);
	CHECK(total(7, 1) == 1);
	CHECK(ring->written == 3);

	Runs runs = {};
	static_cast<Events &>(runs) = p;
	std::vector<uint16_t> narrowed(2000);
	const std::vector<float> large(1000, -largest), plain(1000, 1);
	runs.run[0] = {plain.data(), narrowed.data(), 1000};
	runs.run[1] = {large.data(), narrowed.data() + 1000, 1000};
	runs.count = 2, runs.weights = 1, runs.call = 4;
	launch("autoamp_runs", gridSize(runs, 132), runs);
	CHECK(total(7, 0) == 2);
	CHECK(total(7, 1) == 2);

	p.sites = nullptr;
	run(5);
	CHECK(ring->written == 4);
}

TEST_CASE("any layout is converted, what lies between is neither read nor written")
{
	std::vector<Shape> shapes;
	for (const int64_t rows : {0, 1, 3, 7, 8, 9, 12, 15, 16, 17, 64, 100})
		for (const int64_t columns : {0, 1, 2, 5})
			for (const int64_t padding : {0, 1, 3, 4})
				shapes.push_back(
				    {rows, columns, std::max<int64_t>(rows, 1) + padding, (rows + 7) / 8 * 8 + (padding & 1) * 8});
	shapes.push_back({20, 3, 24, 24, 4, 5}); // stride not a multiple of 4
	shapes.push_back({20, 3, 24, 24, 4, 8});
	shapes.push_back({8, 8, 8, 8, 3, 0});   // one contiguous run
	shapes.push_back({5, 1, 5, 8, 300, 0}); // many small ones
	shapes.push_back({1000, 130, 1001, 1008});
	shapes.push_back({4096, 33, 4096, 4096}); // more vectors than threads of a small grid
	for (const Shape &shape : shapes)
		for (const unsigned skew : {0u, 1u, 2u, 3u}) {
			Matrix matrix(shape, skew), other({16, 2, 16, 16});
			matrix.fill(shape.rows + skew);
			other.fill(3);
			for (const bool isA : {true, false}) {
				for (const unsigned smCount : {1u, 132u}) {
					Call call(isA ? matrix : other, isA ? other : matrix, nullptr);
					const int i = isA ? 0 : 1;
					call.parameters.predictions = predicting(call.parameters.pairKey, isA ? 3 : 0, isA ? 0 : 3);
					call.cast(smCount);
					CAPTURE(shape.rows, shape.columns, shape.sourceLd, shape.batch, skew, isA, smCount);
					int wrong = 0;
					matrix.each([&](int64_t row, int64_t column, int64_t k) {
						wrong += matrix.target(row, column, k) != rounded(matrix.at(row, column, k), 3, half);
					});
					REQUIRE(wrong == 0);
					REQUIRE(matrix.isPaddingIntact());
					REQUIRE(other.isPaddingIntact());
					REQUIRE(call.amax(i) == matrix.amax());
					REQUIRE(call.amax(1 - i) == other.amax());
					REQUIRE(call.nonfinite(i) == 0);
				}
			}
		}
}

TEST_CASE("the maximum and what is not finite are found wherever they are")
{
	Matrix a({1000, 3, 1000, 1000}), b({40, 40, 41, 40});
	for (int64_t place = 0; place < 3000; place += 7) {
		a.fill(1);
		b.fill(2);
		float &x = a.at(place % 1000, place / 1000);
		x = place % 2 ? -77.5f : 77.5f;
		b.at(place % 40, place % 37) = place % 3 ? -INFINITY : NAN;
		Call call(a, b, nullptr);
		call.cast(1);
		REQUIRE(call.amax(0) == std::bit_cast<uint32_t>(77.5f));
		REQUIRE(call.nonfinite(0) == 0);
		REQUIRE(call.amax(1) == b.amax());
		REQUIRE(call.nonfinite(1) == 1);
	}
}

TEST_CASE("the grid follows the work and the device")
{
	Matrix a({4096, 32, 4096, 4096}), b(tiny);
	Call call(a, b, nullptr);
	CHECK(gridSize(call.parameters, 132) == 32); // 4096 * 32 / 8 vectors, 512 a block
	CHECK(gridSize(call.parameters, 2) == 16);
	CHECK(gridSize(Call(b, b, nullptr).parameters, 132) == 1);
}

TEST_CASE("the sum of an operand is what is stored, however many blocks take it")
{
	for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {67, 45}, {45, 67}, {300, 7}})
		for (const bool isAlongRows : {false, true})
			for (const unsigned blocks : {1u, 3u, 100u}) {
				Matrix a({rows, columns, rows + 3, (rows + 7) / 8 * 8, 2, 5}, 1);
				a.fill(7);
				const int64_t outputs = isAlongRows ? columns : rows, depth = isAlongRows ? rows : columns;
				const int64_t stride = outputs + 2;
				std::vector<float> sums(static_cast<size_t>(2 * stride), -1);
				const Operand &operand = a.operand();
				launch("autoamp_sum", blocks,
				       Sum{operand.source, sums.data(), outputs, depth, operand.sourceLd, operand.sourceStride, stride,
				           2, isAlongRows});
				std::vector<double> right(sums.size()), size(sums.size());
				a.each([&](int64_t row, int64_t column, int64_t matrix) {
					const auto i = static_cast<size_t>(matrix * stride + (isAlongRows ? column : row));
					right[i] += a.at(row, column, matrix);
					size[i] += std::fabs(a.at(row, column, matrix));
				});
				CAPTURE(rows, columns, isAlongRows, blocks);
				for (size_t i = 0; i < sums.size(); ++i)
					if (static_cast<int64_t>(i) % stride < outputs)
						CHECK(std::fabs(sums[i] - right[i]) <= 1e-6 * size[i]);
					else
						CHECK(sums[i] == -1);
			}
}
