#include "tests/unit/kernels_host.h"

#include "kernels/scaling.h"
#include "src/base/hash.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <regex>
#include <set>
#include <thread>

using namespace kernels_host;

namespace {

// A context's tables.
struct Tables {
	std::vector<Prediction> predictions = std::vector<Prediction>(predictionCount);
	std::unique_ptr<Ring> ring = std::make_unique<Ring>();

	uint32_t total(EventKind kind, uint32_t site = 0) const
	{
		uint32_t sum = 0;
		for (const auto &operand : ring->totals[site])
			sum += operand[static_cast<uint32_t>(kind)];
		return sum;
	}
};

Prediction &slot(Tables &tables, uint64_t key)
{
	return tables.predictions[bucketOf(key)];
}

} // namespace

TEST_CASE("a call's result depends on its data alone, whatever was predicted")
{
	Matrix a({70, 9, 71, 72}), b({33, 20, 36, 40});
	std::mt19937 random(7);
	for (const float alpha : {1.0f, -0.3f, 1e-40f, 1e30f, 0.0f}) {
		for (const float scale : {1e-41f, 1e-20f, 1.0f, 3e4f, 1e37f}) {
			a.fill(1, scale);
			b.fill(2, 1 / std::sqrt(scale));
			std::vector<uint16_t> bitsA, bitsB;
			float effective = 0;
			for (int history = 0; history < 12; ++history) {
				Tables tables;
				Call call(a, b, tables.predictions.data());
				if (history > 0)
					slot(tables, history % 2 ? call.parameters.pairKey : call.parameters.signatureKey) = {
					    history % 2 ? call.parameters.pairKey : call.parameters.signatureKey,
					    {static_cast<int>(random() % 254) - 126, static_cast<int>(random() % 254) - 126}};
				call.parameters.alphaValue = alpha;
				call.parameters.betaValue = 5;
				call.run();
				CAPTURE(alpha, scale, history);
				const Scales right = scalesFor(a.amax(), b.amax(), alpha);
				for (int i = 0; i < operands; ++i)
					REQUIRE(call.scratch.right[i] == right.exponent[i]);
				REQUIRE(std::bit_cast<uint32_t>(call.scratch.alpha) == std::bit_cast<uint32_t>(right.alpha));
				REQUIRE(call.scratch.beta == 5);
				if (history == 0) {
					bitsA = a.converted();
					bitsB = b.converted();
					effective = call.scratch.alpha;
					int wrong = 0;
					a.each([&](int64_t r, int64_t c, int64_t k) {
						wrong += a.target(r, c, k) != rounded(a.at(r, c, k), right.exponent[0], half);
					});
					REQUIRE(wrong == 0);
				}
				REQUIRE(a.converted() == bitsA);
				REQUIRE(b.converted() == bitsB);
				REQUIRE(call.scratch.alpha == effective);
				REQUIRE(a.isPaddingIntact());
				REQUIRE(b.isPaddingIntact());
				// And the next call is right at once.
				Call next(a, b, tables.predictions.data());
				next.parameters.alphaValue = alpha;
				next.cast();
				for (int i = 0; i < operands; ++i)
					REQUIRE(next.used(i) == right.exponent[i]);
			}
		}
	}
}

TEST_CASE("only the operand whose prediction was wrong is converted again")
{
	Matrix a({64, 8, 64, 64}), b({64, 8, 64, 64});
	a.fill(1);
	b.fill(2);
	const int right[] = {rightExponent(a.amax()), rightExponent(b.amax())};
	for (const int wrong : {-1, 0, 1}) {
		Tables tables;
		Call call(a, b, tables.predictions.data(), tables.ring.get());
		slot(tables, call.parameters.pairKey) = {call.parameters.pairKey,
		                                         {right[0] + (wrong == 0 ? 8 : 0), right[1] - (wrong == 1 ? 4 : 0)}};
		call.cast();
		a.operand().target[0] = b.operand().target[0] = 0x1111; // a recast overwrites it
		call.settle();
		CAPTURE(wrong);
		CHECK((a.target(0, 0) != 0x1111) == (wrong == 0));
		CHECK((b.target(0, 0) != 0x1111) == (wrong == 1));
		CHECK(tables.total(EventKind::rescale) == (wrong >= 0 ? 1u : 0u));
		if (wrong >= 0) {
			const Event &event = tables.ring->events[0];
			CHECK(event.sequence == 1);
			CHECK(event.kind == EventKind::rescale);
			CHECK(event.operand == static_cast<uint32_t>(wrong));
			CHECK(event.before == right[wrong] + (wrong == 0 ? 8 : -4));
			CHECK(event.after == right[wrong]);
			CHECK(event.amax == (wrong == 0 ? a : b).amax());
		}
	}
}

TEST_CASE("a prediction of the pair precedes that of the signature; an unknown key has no prediction")
{
	Matrix a({8, 1, 8, 8}), b({8, 1, 8, 8});
	Tables tables;
	Call call(a, b, tables.predictions.data());
	a.fill(1), b.fill(2);
	call.cast();
	for (int i = 0; i < operands; ++i) {
		CHECK(call.used(i) == 0);
		CHECK(call.amax(i) == (i ? b : a).amax());
		CHECK(call.nonfinite(i) == 0);
	}
	CHECK(call.records[0].call + call.records[0].flags == 0);
	slot(tables, call.parameters.signatureKey) = {call.parameters.signatureKey, {3, 4}};
	call.cast();
	CHECK(call.used(1) == 4);
	CHECK(call.records[0].flags == flagPredicted);
	const uint64_t other = call.parameters.pairKey + 2 * predictionCount;
	REQUIRE(bucketOf(other) == bucketOf(call.parameters.pairKey));
	slot(tables, call.parameters.pairKey) = {other, {7, 8}};
	call.cast();
	CHECK(call.used(1) == 4);
	slot(tables, call.parameters.pairKey) = {call.parameters.pairKey, {7, 8}};
	call.cast();
	CHECK(call.used(0) == 7);
	CHECK(call.used(1) == 8);
}

TEST_CASE("a block that used another prediction than the others has its operand converted again")
{
	Matrix a({4096, 8, 4096, 4096}), b({4096, 6, 4096, 4096});
	a.fill(1, 1e5f);
	b.fill(2, 1e-5f);
	const int right[] = {rightExponent(a.amax()), rightExponent(b.amax())};
	Call blocks(a, b, nullptr);
	blocks.cast();
	const uint32_t last = blocks.parameters.castBlocks - 1;
	REQUIRE(last > 2);
	for (const int operand : {0, 1})
		for (const uint32_t odd : {0u, 1u, last})
			for (const unsigned settling : {1u, 3u, 132u}) {
				Tables tables;
				Call call(a, b, tables.predictions.data(), tables.ring.get());
				const int wrong = right[operand] + 4;
				slot(tables, call.parameters.pairKey) = {call.parameters.pairKey,
				                                         {operand ? right[0] : wrong, operand ? wrong : right[1]}};
				call.cast();
				for (uint32_t block = 0; block <= last; ++block)
					if (block != odd)
						call.records[block].used[operand] = right[operand];
				call.settle(settling);
				CAPTURE(operand, odd, settling);
				int unlike = 0;
				for (Matrix *matrix : {&a, &b})
					matrix->each([&](int64_t r, int64_t c, int64_t k) {
						unlike += matrix->target(r, c, k) != rounded(matrix->at(r, c, k), right[matrix == &b], half);
					});
				REQUIRE(unlike == 0);
				REQUIRE(tables.total(EventKind::rescale) == 1);
				REQUIRE(tables.ring->events[0].before == wrong);
				REQUIRE(tables.ring->events[0].after == right[operand]);
			}
}

TEST_CASE("a prediction that another stream is writing changes no result")
{
	Matrix a({2048, 4, 2048, 2048}), b({2048, 4, 2048, 2048});
	a.fill(1, 1e5f);
	b.fill(2, 1e-5f);
	const int right[] = {rightExponent(a.amax()), rightExponent(b.amax())};
	Tables tables;
	Call call(a, b, tables.predictions.data());
	Prediction &written = slot(tables, call.parameters.pairKey);
	std::atomic<bool> isOver{false};
	std::thread other([&] {
		for (int i = 0; !isOver; ++i) {
			__atomic_store_n(&written.key, i % 5 ? call.parameters.pairKey : 0, __ATOMIC_RELAXED);
			__atomic_store_n(&written.exponent[i & 1], right[i & 1] + i % 3 * 4, __ATOMIC_RELAXED);
		}
	});
	int mixed = 0, wrong = 0;
	for (int i = 0; i < 300 || (mixed < 100 && i < 20000); ++i) {
		call.cast();
		for (uint32_t block = 0; block < call.parameters.castBlocks; ++block) {
			mixed += call.records[block].used[0] != call.used(0);
		}
		call.settle();
		for (int64_t row = 0; row < 2048; row += 3) {
			wrong += a.target(row, 2) != rounded(a.at(row, 2), right[0], half);
			wrong += b.target(row, 3) != rounded(b.at(row, 3), right[1], half);
		}
		wrong += call.scratch.alpha != scalesFor(a.amax(), b.amax(), 1).alpha;
	}
	isOver = true;
	other.join();
	CHECK(wrong == 0);
	CHECK(mixed > 0); // blocks that used another prediction than the first one of their call
}

TEST_CASE("each of thousands of pairs keeps its prediction")
{
	Matrix a({8, 1, 8, 8}), b({8, 1, 8, 8});
	for (const uint64_t pairs : {1000, 10000}) {
		Tables tables;
		Call call(a, b, tables.predictions.data(), tables.ring.get());
		uint64_t recast = 0;
		for (int round = 0; round < 3; round++)
			for (uint64_t pair = 0; pair < pairs; pair++) {
				// Addresses as from an allocator; neighbouring pairs need different scales.
				call.parameters.pairKey = autoamp::base::mix(autoamp::base::mix(77, 0x7f0000000000 + pair * 512),
				                                             0x7f8000000000 + pair * 512);
				a.each([&](int64_t r, int64_t c, int64_t) {
					a.at(r, c) = std::ldexp(1.0f, static_cast<int>(pair * 8 % 96));
				});
				b.each([&](int64_t r, int64_t c, int64_t) {
					b.at(r, c) = std::ldexp(1.0f, -static_cast<int>(pair * 8 % 72));
				});
				call.cast();
				for (int i = 0; i < operands; i++)
					recast += round > 0 && call.used(i) != rightExponent((i ? b : a).amax());
				call.settle();
			}
		CAPTURE(pairs, recast);
		CHECK(recast <= 2 * 2 * pairs * 2 / 100); // operands, rounds; 2 %
	}
}

TEST_CASE("keys use every bucket of predictions")
{
	std::set<uint32_t> used;
	for (uint64_t word = 0; word < 16 * predictionCount; word++)
		used.insert(bucketOf(autoamp::base::mix(1, word)));
	CHECK(used.size() == predictionCount / predictionsPerBucket);
	CHECK(*used.rbegin() == predictionCount - predictionsPerBucket);
}

TEST_CASE("zeros keep the scale they were given, and so does what is not finite")
{
	Matrix a({16, 4, 16, 16}), b({16, 4, 16, 16});
	for (const float filling : {0.0f, INFINITY, NAN}) {
		a.each([&](int64_t r, int64_t c, int64_t) { a.at(r, c) = filling; });
		b.fill(1);
		Tables tables;
		Call call(a, b, tables.predictions.data(), tables.ring.get());
		slot(tables, call.parameters.pairKey) = {call.parameters.pairKey, {-17, rightExponent(b.amax())}};
		call.parameters.alphaValue = 3;
		call.run();
		CHECK(call.scratch.right[0] == -17);
		CHECK(call.scratch.alpha == 3); // the product is the same at any scale
		CHECK(tables.total(EventKind::rescale) == 0);
		CHECK(tables.total(EventKind::nonfinite_input) == (filling == 0 ? 0u : 1u));
		CHECK(slot(tables, call.parameters.pairKey).exponent[0] == -17);
		a.each([&](int64_t r, int64_t c, int64_t) { REQUIRE(a.target(r, c) == rounded(filling, 0, half)); });
	}
}

TEST_CASE("alpha and beta are read where they are")
{
	Matrix a({8, 1, 8, 8}), b({8, 1, 8, 8});
	a.fill(1);
	b.fill(2);
	Tables tables;
	Call call(a, b, tables.predictions.data());
	const float alpha = 0.7f, beta = NAN;
	call.parameters.alpha = &alpha;
	call.parameters.beta = &beta;
	call.run();
	CHECK(call.scratch.alpha == scalesFor(a.amax(), b.amax(), alpha).alpha);
	CHECK(std::isnan(call.scratch.beta));
}

TEST_CASE("without scaling alpha is unchanged, and an overflow is reported")
{
	Matrix a({16, 2, 16, 16}), b({16, 2, 16, 16});
	a.fill(1);
	b.fill(2);
	for (const float top : {65519.99f, -65520.0f}) {
		a.at(3, 1) = top;
		Tables tables;
		Call call(a, b, nullptr, tables.ring.get());
		call.parameters.alphaValue = 1e-40f;
		call.parameters.first = First::yes;
		call.run();
		const bool isOver = top < 0;
		CHECK(call.scratch.alpha == 1e-40f);
		CHECK(call.scratch.overflow[0] == isOver);
		CHECK(call.scratch.overflow[1] == 0);
		CHECK(a.target(3, 1) == (isOver ? 0xfc00 : 0x7bff));
		CHECK(tables.total(EventKind::overflow) == isOver);
		CHECK(tables.ring->written == isOver);
		CHECK(tables.ring->events[0].operand == 0);
	}
}

TEST_CASE("a stale scale overflows the cast, never the result")
{
	Matrix a({16, 2, 16, 16}), b({16, 2, 16, 16});
	a.fill(1, 1e6f);
	b.fill(2);
	Tables tables;
	Call call(a, b, tables.predictions.data(), tables.ring.get());
	slot(tables, call.parameters.pairKey) = {call.parameters.pairKey, {14, 14}};
	call.run();
	CHECK(tables.total(EventKind::overflow) == 0);
	a.each([&](int64_t r, int64_t c, int64_t) { REQUIRE((a.target(r, c) & 0x7fff) < 0x7c00); });
}

TEST_CASE("a first call is an init, not a rescale")
{
	Matrix a({16, 2, 16, 16}), b({16, 2, 16, 16});
	a.fill(1);
	b.fill(2);
	Tables tables;
	Call call(a, b, tables.predictions.data(), tables.ring.get());
	call.parameters.first = First::yes;
	call.parameters.site = 17;
	call.run();
	CHECK(tables.total(EventKind::init, 17) == 2);
	CHECK(tables.total(EventKind::rescale, 17) == 0);
	for (uint32_t i = 0; i < operands; ++i) {
		const Event &event = tables.ring->events[i];
		CHECK(event.sequence == i + 1);
		CHECK(event.site == 17);
		CHECK(event.kind == EventKind::init);
		CHECK(event.operand == i);
		CHECK(event.before == INT32_MIN);
		CHECK(event.after == call.scratch.right[i]);
	}
}

TEST_CASE("two calls may be in flight with their stages mixed")
{
	Matrix a({40, 5, 40, 40}), b({40, 6, 40, 40}), c({40, 7, 40, 40}), d({40, 8, 40, 40});
	a.fill(1, 1e10f);
	b.fill(2, 1e-10f);
	c.fill(3, 1e-30f);
	d.fill(4);
	Tables tables;
	Call alone[] = {{a, b, tables.predictions.data()}, {c, d, tables.predictions.data()}};
	std::vector<uint16_t> bits[4];
	for (Call &call : alone)
		call.run();
	bits[0] = a.converted(), bits[1] = b.converted(), bits[2] = c.converted(), bits[3] = d.converted();
	Call one(a, b, tables.predictions.data()), two(c, d, tables.predictions.data()); // the slot has c, d: wrong for one
	one.cast();
	two.cast();
	one.settle();
	two.settle();
	CHECK(a.converted() == bits[0]);
	CHECK(b.converted() == bits[1]);
	CHECK(c.converted() == bits[2]);
	CHECK(d.converted() == bits[3]);
	CHECK(one.scratch.alpha == alone[0].scratch.alpha);
	CHECK(two.scratch.alpha == alone[1].scratch.alpha);
}

TEST_CASE("the ring wraps, totals do not; threads at once lose nothing")
{
	constexpr int threads = 4, calls = 700; // 2 events a call: more than the ring holds
	Tables tables;
	std::vector<std::thread> workers;
	for (int i = 0; i < threads; ++i)
		workers.emplace_back([&, i] {
			Matrix a({16, 2, 16, 16}), b({16, 2, 16, 16});
			a.fill(i);
			b.fill(i + 9);
			for (int call = 0; call < calls; ++call) {
				Call it(a, b, tables.predictions.data(), tables.ring.get());
				it.parameters.site = i == 3 ? siteCount : i; // more sites than there are totals
				it.parameters.first = First::yes;
				it.run();
				if (it.scratch.right[0] != rightExponent(a.amax()))
					std::abort();
			}
		});
	for (std::thread &worker : workers)
		worker.join();
	CHECK(tables.total(EventKind::init, 0) == 2 * 2 * calls); // site 0 and the nameless
	CHECK(tables.total(EventKind::init, 1) == 2 * calls);
	CHECK(tables.total(EventKind::init, 2) == 2 * calls);
	CHECK(tables.ring->written == 3 * 2 * calls);
	const uint64_t written = tables.ring->written;
	for (uint64_t index = written - ringSize; index < written; ++index) {
		const Event &event = tables.ring->events[index % ringSize];
		REQUIRE(event.sequence == index + 1);
		REQUIRE(event.kind == EventKind::init);
		REQUIRE(event.site < 3);
	}
}

TEST_CASE("products over all magnitudes have no Inf or NaN that fp32 has not")
{
	constexpr int m = 16, n = 16, k = 32;
	Matrix a({m, k, m, m}), b({k, n, k, k});
	std::vector<float> c0(m * n);
	std::mt19937 random(5);
	std::normal_distribution<float> normal;
	for (float &c : c0)
		c = normal(random);
	int combinations = 0, spurious = 0, flagged = 0;
	double worst = 0;
	for (const float alpha : {0.0f, 1e-40f, 1e-30f, 1e-4f, 1.0f, 1e30f})
		for (const float scaleA : {1e-38f, 1e-20f, 1.0f, 1e20f, 1e37f})
			for (const float scaleB : {1e-38f, 1e-20f, 1.0f, 1e20f, 1e37f}) {
				a.fill(1, scaleA);
				b.fill(2, scaleB);
				Tables tables;
				Call call(a, b, tables.predictions.data(), tables.ring.get());
				call.parameters.alphaValue = alpha;
				call.run();
				flagged += tables.total(EventKind::scale_range);
				for (const float beta : {0.0f, 1.0f, 1e10f}) {
					++combinations;
					for (int j = 0; j < n; ++j)
						for (int i = 0; i < m; ++i) {
							float sum = 0;
							double exact = 0, size = 0;
							for (int l = 0; l < k; ++l) {
								sum += widened(a.target(i, l)) * widened(b.target(l, j));
								exact += static_cast<double>(a.at(i, l)) * b.at(l, j);
								size += std::fabs(static_cast<double>(a.at(i, l)) * b.at(l, j));
							}
							const float c = call.scratch.alpha * sum + (beta == 0 ? 0 : beta * c0[i + j * m]);
							const double right = alpha * exact + static_cast<double>(beta) * c0[i + j * m];
							const double bound =
							    std::fabs(alpha) * size + std::fabs(beta * c0[i + j * m]) + std::ldexp(1, -126);
							if (!std::isfinite(static_cast<float>(right)))
								continue;
							spurious += !std::isfinite(c);
							if (std::isfinite(c))
								worst = std::max(worst, std::fabs(c - right) / bound);
						}
				}
			}
	CHECK(combinations == 450);
	CHECK(spurious == 0);
	CHECK(worst < 4e-4);
	CHECK(flagged > 0);
}

TEST_CASE("the emulated device knows every kernel")
{
	std::string source;
	for (const char *file : {"/audit.cuh", "/cast.cuh", "/gradient.cuh"}) {
		std::ifstream text(std::string(KERNEL_SOURCES) + file);
		REQUIRE(text);
		source.append(std::istreambuf_iterator<char>(text), {});
	}
	const std::regex kernel("__global__[^{;]*?\\b(autoamp_\\w+)\\(");
	std::vector<std::string> names;
	for (std::sregex_iterator it(source.begin(), source.end(), kernel), end; it != end; ++it)
		names.push_back((*it)[1]);
	std::sort(names.begin(), names.end());
	std::vector<std::string> known = registered();
	std::sort(known.begin(), known.end());
	CHECK(names.size() == 26);
	CHECK(known == names);
}
