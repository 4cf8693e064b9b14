#include "tests/unit/kernels_host.h"

#include "kernels/weights.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

using namespace kernels_host;

namespace {

// A kept copy or an observed operand, and the device memory of its calls. B is kept.
struct Weight {
	std::vector<Prediction> predictions = std::vector<Prediction>(predictionCount);
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();
	std::vector<KeptRecord> records = std::vector<KeptRecord>(mostCastBlocks);
	WeightState state;
	WeightFacts facts = {};
	bool isHalf, isAlone = false;
	Kept kept = {&state, &facts, 0x1234567800000007, Keeping::checked, sampleShare};
	float alpha = 1;
	Scratch scratch = {}; // as the latest call left it

	explicit Weight(bool half) : isHalf(half) { std::memset(&state, 0x3c, sizeof state); } // not cleared

	void call(const Matrix &a, const Matrix &b, unsigned smCount = 7)
	{
		Call call(a, b, isHalf ? predictions.data() : nullptr, ring.get());
		Parameters &p = call.parameters;
		p.alphaValue = alpha;
		p.site = 1;
		p.kept[1] = kept;
		std::memset(records.data(), 0xa5, records.size() * sizeof records[0]);
		p.keptRecords = isAlone ? nullptr : records.data();
		p.castBlocks = gridSize(p, smCount);
		launch(isHalf ? "autoamp_cast_kept_half" : "autoamp_cast_kept_bfloat16", p.castBlocks, p);
		if (!isAlone)
			launch(isHalf ? "autoamp_settle_kept_half" : "autoamp_settle_kept_bfloat16",
			       settleBlocks(p.castBlocks, smCount), p);
		scratch = call.scratch;
	}
	uint32_t total(EventKind kind) const { return ring->totals[1][1][static_cast<uint32_t>(kind)]; }
};

// Number of elements of the copy that are not those of a conversion now.
int stale(Matrix &b, const Weight &weight)
{
	int count = 0;
	b.each([&](int64_t row, int64_t column, int64_t matrix) {
		count +=
		    b.target(row, column, matrix) != (weight.isHalf ? rounded(b.at(row, column), weight.state.exponent, half)
		                                                    : rounded(b.at(row, column), 0, bfloat16));
	});
	return count;
}

} // namespace

TEST_CASE("any 64 calls in a row compare each line once")
{
	for (const int64_t lines : {1, 31, 64, 100, 128, 300})
		for (int64_t column = 0; column < 500; ++column) {
			std::vector<int> seen(lines);
			for (uint32_t call = 1000; call < 1064; ++call)
				for (int64_t line = firstLine(column, call, sampleShare); line < lines; line += sampleShare)
					++seen[line];
			REQUIRE(std::set(seen.begin(), seen.end()) == std::set{1});
		}
}

TEST_CASE("a call makes the copy, and later calls do not write it")
{
	for (const bool isHalf : {false, true})
		for (const Keeping how : {Keeping::checked, Keeping::frozen})
			for (const unsigned skew : {0, 1}) {
				Matrix a({70, 3, 71, 72}), b({333, 41, 335, 336}, skew);
				a.fill(1), b.fill(2);
				Weight weight(isHalf);
				weight.kept.how = how;
				weight.call(a, b);
				CAPTURE(isHalf, skew);
				CHECK(stale(b, weight) == 0);
				CHECK(weight.state.generation == weight.kept.generation);
				CHECK(weight.total(EventKind::recast) + weight.total(EventKind::changed) == 0);
				const float alphaOfFirst = weight.scratch.alpha;
				// A call that converted would repair this element. It is in no line of the next call's sample.
				b.at(40, 5) *= 2;
				REQUIRE(firstLine(5, 1, sampleShare) != 40 / lineElements);
				weight.call(a, b);
				CHECK(stale(b, weight) == 1);
				CHECK(weight.state.calls == 2);
				if (isHalf)
					CHECK(weight.scratch.alpha == alphaOfFirst);
				CHECK(b.isPaddingIntact());
			}
}

TEST_CASE("a changed element is found within 64 calls: at once if checked, one call later if frozen")
{
	for (const bool isHalf : {false, true})
		for (const bool isAlone : {false, true})
			for (const Keeping how : {Keeping::checked, Keeping::frozen}) {
				if (isAlone && (isHalf || how == Keeping::checked))
					continue;
				Matrix a({8, 2, 8, 8}), b({1024, 65, 1024, 1024});
				a.fill(1), b.fill(2);
				Weight weight(isHalf);
				weight.kept.how = how, weight.isAlone = isAlone;
				if (isAlone)
					weight.state = {};
				int latest = 0;
				for (int edit = 0; edit < 12; ++edit) {
					weight.call(a, b);
					REQUIRE(stale(b, weight) == 0);
					b.at(edit * 83 % 1024, edit * 31 % 65) += 1;
					int calls = 0;
					do
						weight.call(a, b);
					while (stale(b, weight) != 0 && ++calls < 100);
					latest = std::max(latest, calls);
					const EventKind kind = how == Keeping::checked ? EventKind::recast : EventKind::changed;
					CHECK(weight.total(kind) == static_cast<uint32_t>(edit + 1));
					CHECK(weight.facts.changes == tagged(weight.kept.generation, edit + 1));
				}
				CAPTURE(isHalf, isAlone, latest);
				CHECK(latest <= (how == Keeping::checked ? 63 : 64));
				CHECK(latest > 20);
			}
}

TEST_CASE("an audit compares all elements")
{
	Matrix a({8, 2, 8, 8}), b({1024, 65, 1024, 1024});
	a.fill(1), b.fill(2);
	Weight weight(true);
	weight.kept.share = 1;
	for (int edit = 0; edit < 5; ++edit) {
		weight.call(a, b);
		REQUIRE(stale(b, weight) == 0);
		b.at(edit * 83 % 1024, edit * 31 % 65) += 1;
	}
	CHECK(weight.total(EventKind::recast) == 4);
}

TEST_CASE("a changed operand gets the bits of a new conversion, also with another exponent")
{
	Matrix a({8, 2, 8, 8}), b({512, 70, 512, 512});
	for (const bool isHalf : {false, true}) {
		Weight weight(isHalf);
		int seed = 0;
		for (const float factor : {1.0f, 1e6f, 1e-30f, 3e-2f, 1e30f, 0.0f, 1.0f, NAN, 2.0f, INFINITY, 1.0f, 1e-44f}) {
			a.fill(++seed), b.fill(++seed, factor);
			weight.call(a, b);
			CAPTURE(isHalf, factor);
			REQUIRE(stale(b, weight) == 0);
			Call call(a, b, isHalf ? weight.predictions.data() : nullptr);
			if (isHalf) {
				call.run();
				CHECK(weight.state.exponent == call.scratch.right[1]);
				CHECK(std::bit_cast<uint32_t>(weight.scratch.alpha) == std::bit_cast<uint32_t>(call.scratch.alpha));
				CHECK(weight.scratch.nonfinite[1] == call.scratch.nonfinite[1]);
				REQUIRE(stale(b, weight) == 0); // the conversion wrote the same bits
			}
		}
	}
}

TEST_CASE("a dense change is found although it rounds to the same halves at the exponent of the copy")
{
	Matrix a({8, 2, 8, 8}), b({512, 70, 512, 512});
	a.fill(1);
	const struct {
		float before, after;
	} changes[] = {{0, 1e-9f}, {INFINITY, 1e6f}, {1, 1e20f}, {1e-30f, 3e-30f}};
	for (const bool isHalf : {false, true})
		for (const auto &[before, after] : changes)
			for (const bool isFirstKept : {false, true}) { // one element that does not change
				const auto set = [&b, isFirstKept](float value, bool isFirst) {
					b.each([&](int64_t row, int64_t column, int64_t) {
						if (isFirst || !isFirstKept || row + column > 0)
							b.at(row, column) = value;
					});
				};
				Weight weight(isHalf);
				set(before, true);
				weight.call(a, b);
				set(after, false);
				weight.call(a, b);
				CAPTURE(isHalf, before, after);
				CHECK(weight.total(EventKind::recast) == 1);
				CHECK(stale(b, weight) == 0);
			}
}

TEST_CASE("an alpha that needs smaller exponents changes the copy, and back")
{
	Matrix a({8, 2, 8, 8}), b({512, 70, 512, 512});
	a.fill(1, 1e-30f), b.fill(2, 1e-30f);
	Weight weight(true);
	for (const float alpha : {1.0f, 1e-30f, 1e-30f, 1.0f, 1e-38f}) {
		weight.alpha = alpha;
		weight.call(a, b);
		const Scales right = scalesFor(a.amax(), b.amax(), alpha);
		CAPTURE(alpha);
		CHECK(weight.state.exponent == right.exponent[1]);
		CHECK(weight.scratch.alpha == right.alpha);
		CHECK(stale(b, weight) == 0);
	}
	CHECK(weight.total(EventKind::recast) == 0);
}

TEST_CASE("a copy of another generation has no content")
{
	for (const bool isHalf : {false, true}) {
		Matrix a({8, 2, 8, 8}), b({512, 70, 512, 512}), other({512, 70, 512, 512});
		a.fill(1), b.fill(2), other.fill(3);
		Weight weight(isHalf);
		weight.call(a, b);
		++weight.kept.generation;
		b.at(3, 3) += 1; // in no line of the sample of the second call
		weight.call(a, b);
		CHECK(stale(b, weight) == 0);
		CHECK(weight.total(EventKind::recast) == 0);
	}
}

TEST_CASE("the fingerprint shows any change, and equal conversions in a row")
{
	for (const bool isHalf : {false, true}) {
		Matrix a({8, 2, 8, 8}), b({520, 70, 521, 520}, 1);
		a.fill(1), b.fill(2);
		Weight weight(isHalf);
		weight.kept.how = Keeping::observed;
		const auto inARow = [&] { return static_cast<uint16_t>(weight.facts.inARow); };
		weight.state.compared = weight.state.repeated = 0;
		for (uint32_t i = 0; i < 4; ++i) {
			weight.call(a, b, 3 + i); // another grid
			CHECK(inARow() == i);
			CHECK(weight.facts.inARow >> 32 == 7);
			CHECK(static_cast<uint16_t>(weight.facts.inARow >> 16) == i + 1);
			if (!isHalf)
				CHECK(stale(b, weight) == 0);
		}
		CHECK(weight.facts.compared == 3);
		CHECK(weight.facts.repeated == 3);
		std::swap(b.at(1, 1), b.at(9, 1));
		weight.call(a, b);
		CHECK(inARow() == 0);
		for (int64_t row = 0; row < 520; ++row)
			std::swap(b.at(row, 1), b.at(row, 2));
		weight.call(a, b);
		CHECK(inARow() == 0);
		b.at(519, 69) = -b.at(519, 69);
		weight.call(a, b);
		CHECK(inARow() == 0);
		weight.call(a, b);
		CHECK(inARow() == 1);
		++weight.kept.generation;
		weight.call(a, b);
		CHECK(inARow() == 0);
		CHECK(weight.facts.compared == 7);
		CHECK(weight.facts.repeated == 4);
	}
}
