#include "tests/unit/kernels_host.h"
#include "tests/unit/kernels_unsynchronized.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>
#include <sys/mman.h>

using namespace kernels_host;

namespace {

// A tensor in memory: all elements outside of it are NaN, and after it there is an unreadable page.
struct Stored {
	std::vector<int64_t> extent; // rows, then the levels of the columns
	std::vector<int64_t> stride;
	Source memory;
	int64_t first = 0; // position of the element with all indices 0: negative strides

	static int64_t span(const std::vector<int64_t> &extent, const std::vector<int64_t> &stride)
	{
		int64_t most = 0;
		for (size_t i = 0; i < extent.size(); ++i)
			most += (extent[i] - 1) * std::abs(stride[i]);
		return most + 1;
	}
	Stored(std::vector<int64_t> extents, std::vector<int64_t> strides, unsigned skew)
	    : extent(std::move(extents)), stride(std::move(strides)), memory(span(extent, stride), skew)
	{
		for (size_t i = 0; i < extent.size(); ++i)
			first += stride[i] < 0 ? (1 - extent[i]) * stride[i] : 0;
	}
	float *base() const { return memory.data() + first; }
	TensorLayout layout() const
	{
		TensorLayout layout = {
		    extent[0], stride[0], std::max<int>(1, static_cast<int>(extent.size()) - 1), {1, 1, 1, 1}, {}};
		for (size_t i = 1; i < extent.size(); ++i)
			layout.extent[i - 1] = extent[i], layout.stride[i - 1] = stride[i];
		return layout;
	}
	// Calls with each element's address, row and position in the order of columns.
	template <class Function>
	void each(Function function) const
	{
		std::vector<int64_t> index(extent.size());
		for (bool isMore = true; isMore;) {
			float *at = base();
			int64_t column = 0, weight = 1;
			for (size_t i = 0; i < index.size(); ++i) {
				at += index[i] * stride[i];
				if (i > 0)
					column += index[i] * weight, weight *= extent[i];
			}
			function(*at, index[0], column);
			isMore = false;
			for (size_t i = 0; i < index.size() && !isMore; ++i) {
				isMore = ++index[i] < extent[i];
				if (!isMore)
					index[i] = 0;
			}
		}
	}
	void fill(unsigned seed, float scale = 1) const
	{
		std::mt19937 random(seed);
		std::normal_distribution<float> normal;
		each([&](float &x, int64_t, int64_t) { x = normal(random) * scale; });
	}
	uint32_t amax() const
	{
		uint32_t most = 0;
		each([&](float x, int64_t, int64_t) {
			const uint32_t bits = std::bit_cast<uint32_t>(x) & 0x7fffffff;
			most = bits < 0x7f800000 ? std::max(most, bits) : most;
		});
		return most;
	}
	int64_t columns() const
	{
		return std::accumulate(extent.begin() + 1, extent.end(), int64_t{1}, std::multiplies<>());
	}
};

constexpr uint16_t guard = 0xbeef;

// Target of a conversion, with guards before and after.
struct Converted {
	int64_t ld, zeroColumns, size;
	std::unique_ptr<uint16_t[], void (*)(uint16_t *)> memory{nullptr, [](uint16_t *words) { free(words); }};

	Converted(const Stored &from, bool isPadded, int64_t zeros)
	    : ld(isPadded ? (from.extent[0] + 7) / 8 * 8 : from.extent[0]), zeroColumns(zeros),
	      size(ld * (from.columns() + zeros))
	{
		memory.reset(static_cast<uint16_t *>(aligned_alloc(64, ((size + 64) * 2 + 63) / 64 * 64)));
		std::fill(memory.get(), memory.get() + size + 64, guard);
	}
	Tensor of(const Stored &from) const { return {from.base(), memory.get() + 32, from.layout(), ld, zeroColumns}; }
	// Number of wrong words.
	int wrong(const Stored &from, int exponent, Format format) const
	{
		std::vector<uint16_t> right(size + 64, guard);
		std::fill(right.begin() + 32, right.begin() + 32 + size, 0);
		from.each([&](float x, int64_t row, int64_t column) {
			const uint16_t nearest = rounded(x, exponent, format);
			const bool isClamped = format.bias == bfloat16.bias && std::isfinite(x) && (nearest & 0x7fff) == 0x7f80;
			right[32 + column * ld + row] = nearest - isClamped;
		});
		int count = 0;
		for (size_t i = 0; i < right.size(); ++i)
			count += right[i] != memory[i];
		return count;
	}
};

struct TensorCall : Memory {
	TensorParameters parameters = {};
	TensorCall(const Tensor &a, const Tensor &b, Prediction *predictions)
	{
		parameters.tensor[0] = a, parameters.tensor[1] = b;
		give(parameters);
		parameters.predictions = predictions;
		parameters.pairKey = 0x1234567, parameters.signatureKey = 0x89abcdf;
		parameters.alphaValue = 1;
	}
	void launchTensor(const char *name, unsigned smCount = 132)
	{
		parameters.castBlocks = gridSize(parameters, smCount);
		launch(name, parameters.castBlocks, parameters);
	}
	void run(unsigned smCount = 132)
	{
		launchTensor("autoamp_cast_tensor_half", smCount);
		launch("autoamp_settle_tensor", settleBlocks(parameters.castBlocks, smCount), parameters);
	}
};

struct Strided {
	std::vector<int64_t> extent, stride;
};

// Channels first and last, packed and not, reversed filters, three spatial dimensions, edges of all kinds.
std::vector<Strided> shapes()
{
	return {
	    {{1, 1}, {1, 1}},
	    {{3, 35}, {35, 1}},
	    {{3, 35, 2}, {35, 1, 105}},                                 // NCHW of two images
	    {{64, 49, 3}, {49, 1, 64 * 49}},                            // a tile does not end where an image does
	    {{64, 49 * 3}, {1, 64}},                                    // the same, NHWC
	    {{65, 33}, {33, 1}},                                        // one row and one column over
	    {{7, 300}, {1, 7}},                                         // NHWC, not a multiple of 8
	    {{100, 130}, {130, 1}},                                     // several tiles either way
	    {{5, 3, 3, 4}, {9, -1, -3, 45}},                            // KCRS reversed
	    {{5, 3, 3, 4}, {1, -5, -15, 45}},                           // KRSC reversed
	    {{6, 5, 4, 3, 2}, {500, 2, 13, 70, 4000}},                  // nothing touches
	    {{6, 5, 4, 3, 2}, {7 * 6 * 3, 1, 7, 7 * 6, 7 * 6 * 3 * 6}}, // rows of images longer than read
	    {{1, 9, 40}, {9, 1, 9}},                                    // depthwise filter
	    {{32, 5, 5}, {0, 1, 5}},                                    // the same plane for every channel
	};
}

} // namespace

TEST_CASE("a tensor of any strides becomes channels-last")
{
	const Stored other({16, 40}, {1, 16}, 0);
	other.fill(3);
	unsigned seed = 0;
	for (const Strided &shape : shapes())
		for (const unsigned skew : {0u, 1u, 3u})
			for (const bool isPadded : {true, false})
				for (const int64_t zeros : {0, 5}) {
					const Stored from(shape.extent, shape.stride, skew);
					from.fill(++seed);
					for (const bool isA : {true, false})
						for (const unsigned smCount : {1u, 132u}) {
							const Converted to(from, isPadded, zeros), otherTo(other, true, 0);
							TensorCall call(isA ? to.of(from) : otherTo.of(other),
							                isA ? otherTo.of(other) : to.of(from), nullptr);
							const int i = isA ? 0 : 1;
							call.parameters.predictions = predicting(call.parameters.pairKey, isA ? 3 : 0, isA ? 0 : 3);
							call.launchTensor("autoamp_cast_tensor_half", smCount);
							CAPTURE(shape.extent, shape.stride, skew, isPadded, zeros, isA, smCount);
							REQUIRE(to.wrong(from, 3, half) == 0);
							REQUIRE(otherTo.wrong(other, 0, half) == 0);
							REQUIRE(call.amax(call.parameters, i) == from.amax());
							REQUIRE(call.amax(call.parameters, 1 - i) == other.amax());
							REQUIRE(call.nonfinite(call.parameters, i) == 0);
						}
					const Converted to(from, isPadded, zeros), otherTo(other, true, 0);
					TensorCall call(to.of(from), otherTo.of(other), nullptr);
					call.parameters.alphaValue = 2.5f;
					call.launchTensor("autoamp_cast_tensor_bfloat16");
					REQUIRE(to.wrong(from, 0, bfloat16) == 0);
					REQUIRE(otherTo.wrong(other, 0, bfloat16) == 0);
					REQUIRE(call.scratch.alpha == 2.5f);
				}
}

TEST_CASE("small tensors of every orientation, pitch and alignment, with all kinds of numbers")
{
	constexpr float largest = std::numeric_limits<float>::max();
	const float kinds[] = {1.5f, -0.0f, 1e-40f, -largest, 3.3961773e38f, INFINITY, -INFINITY, NAN, -1e-8f, 65520, 7};
	const Stored other({8, 8}, {1, 8}, 0);
	other.fill(1);
	unsigned number = 0;
	for (const int64_t rows :
	     {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 24, 31, 32, 33, 60, 63, 64, 65, 68, 72, 129})
		for (const int64_t columns : {1, 2, 3, 33})
			for (const int64_t gap : {0, 1, 2, 3, 4})
				for (const unsigned skew : {0u, 1u, 2u, 3u})
					for (const int orientation : {0, 1, 2}) { // channels first, last, two levels of columns
						const int64_t pitch = orientation == 0 ? columns + gap : rows + gap;
						const Strided shape = orientation == 0 ? Strided{{rows, columns}, {pitch, 1}}
						                      : orientation == 1
						                          ? Strided{{rows, columns}, {1, pitch}}
						                          : Strided{{rows, columns, 2}, {1, -pitch, columns * pitch + 4}};
						const Stored from(shape.extent, shape.stride, skew);
						uint32_t amax = 0;
						bool isNonfinite = false;
						from.each([&](float &x, int64_t, int64_t) {
							x = kinds[++number % 101 < 90 ? number % 101 % 2 : number % 11];
							isNonfinite |= !std::isfinite(x);
						});
						amax = from.amax();
						const bool isPadded = number % 2, isHalf = number / 2 % 2;
						const Converted to(from, isPadded, number / 4 % 3), otherTo(other, true, 0);
						TensorCall call(to.of(from), otherTo.of(other), nullptr);
						call.parameters.predictions = predicting(call.parameters.pairKey, 3, 0);
						call.launchTensor(isHalf ? "autoamp_cast_tensor_half" : "autoamp_cast_tensor_bfloat16");
						CAPTURE(shape.extent, shape.stride, skew, isPadded, isHalf);
						REQUIRE((isHalf ? to.wrong(from, 3, half) : to.wrong(from, 0, bfloat16)) == 0);
						REQUIRE(otherTo.wrong(other, 0, isHalf ? half : bfloat16) == 0);
						if (!isHalf)
							continue;
						REQUIRE(call.amax(call.parameters, 0) == amax);
						REQUIRE(call.nonfinite(call.parameters, 0) == isNonfinite);
					}
}

namespace {

// Address space of which only touched pages need memory.
struct Space {
	static constexpr size_t bytes = size_t{512} << 30;
	void *const memory =
	    mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	~Space() { munmap(memory, bytes); }
	template <class T>
	T *at(int64_t index) const
	{
		return static_cast<T *>(memory) + index;
	}
};

} // namespace

TEST_CASE("offsets of more than 2^32 elements are right")
{
	const Space sources, targets;
	REQUIRE(sources.memory != MAP_FAILED);
	REQUIRE(targets.memory != MAP_FAILED);
	const Stored other({8, 8}, {1, 8}, 0);
	other.fill(1);
	const Converted otherTo(other, true, 0);
	const int64_t far = (int64_t{1} << 32) + 4;
	// rows, columns of two levels: channels first with distant rows, channels last with distant columns, and reversed
	for (const auto &[row, column, image, first] :
	     {std::array{far, int64_t{1}, int64_t{64}, int64_t{0}}, {1, far, 64, 0}, {1, 64, -far, far}}) {
		constexpr int64_t rows = 20, ld = 24, count = rows * 6;
		const TensorLayout layout = {rows, row, 2, {3, 2, 1, 1}, {column, image}};
		std::vector<int64_t> offsets;
		for (int64_t i = 0; i < count; ++i)
			offsets.push_back(first + i % rows * row + i / rows % 3 * column + i / rows / 3 * image);
		std::vector<uint16_t> converted(6 * ld), expected(6 * ld);
		for (int64_t i = 0; i < count; ++i) {
			const float x = *sources.at<float>(offsets[i]) = static_cast<float>(i) - 7.25f;
			expected[i / rows * ld + i % rows] = rounded(x, 0, half);
		}
		uint16_t *const target = targets.at<uint16_t>(0);
		TensorCall call({sources.at<float>(first), target, layout, ld, 0}, otherTo.of(other), nullptr);
		call.launchTensor("autoamp_cast_tensor_half");
		std::copy(target, target + 6 * ld, converted.begin());
		CHECK(converted == expected);

		std::vector<float> result(6 * ld);
		std::iota(result.begin(), result.end(), 1.0f);
		launch("autoamp_place", 2,
		       Placement{result.data(), false, ld, targets.at<float>(first), layout, nullptr, 1, 0, nullptr,
		                 Activation::none});
		for (int64_t i = 0; i < count; ++i)
			CHECK(*targets.at<float>(offsets[i]) == result[i / rows * ld + i % rows]);
	}

	// Matrices: columns and matrices far apart, in the source and in the target.
	// More vectors than threads, so that a thread continues in another column.
	constexpr int64_t rows = 803, columns = 7;
	const Operand operand = {
	    sources.at<float>(0), targets.at<uint16_t>(0), rows, columns, far, far + 4, columns * far, 8 * far, 2};
	const auto each = [&](auto function) {
		for (int64_t i = 0; i < rows * columns * 2; ++i) {
			const int64_t row = i % rows, column = i / rows % columns, matrix = i / rows / columns;
			function(static_cast<float>(i) - 7.25f, row + column * far + matrix * columns * far,
			         row + column * (far + 4) + matrix * 8 * far);
		}
	};
	each([&](float x, int64_t source, int64_t) { *sources.at<float>(source) = x; });
	Memory memory;
	Parameters p = {};
	p.operand[0] = operand, p.operand[1] = operand;
	memory.give(p);
	p.castBlocks = 1;
	launch("autoamp_cast_half", 1, p);
	each([&](float x, int64_t, int64_t target) { REQUIRE(*targets.at<uint16_t>(target) == rounded(x, 0, half)); });
	CHECK(memory.amax(p, 0) == std::bit_cast<uint32_t>(rows * columns * 2 - 1 - 7.25f));
}

TEST_CASE("indices are divided exactly, also beyond 32 bits")
{
	std::vector<int64_t> numbers = {1, 2, 3, 7, 8, 100};
	for (int bit = 30; bit < 63; ++bit)
		for (int64_t offset : {-1, 0, 1, 12345})
			numbers.push_back((int64_t{1} << bit) + offset);
	for (const int64_t divisor : numbers) {
		CHECK(quotient(0, divisor) == 0);
		for (const int64_t dividend : numbers)
			REQUIRE(quotient(dividend, divisor) == dividend / divisor);
		for (const int64_t middle : numbers)
			for (const uint32_t index : {0u, 1u, 99u, 524287u}) {
				const std::array<uint32_t, 3> split = splitIndex(index, divisor, middle);
				REQUIRE(split[0] == index % divisor);
				REQUIRE(split[1] == index / divisor % middle);
				REQUIRE(split[2] == index / divisor / middle);
			}
	}
}

TEST_CASE("the scale of a tensor is that of its data alone")
{
	std::vector<Prediction> predictions(predictionCount);
	for (const float magnitude : {1.0f, 1e6f, 1e-9f, 3e38f, 1e-44f, 0.0f}) {
		const Stored a({20, 49, 3}, {49, 1, 980}, 0), b({20, 9, 7}, {9, 1, 180}, 0);
		a.fill(1), b.fill(2, 1e-3f);
		if (magnitude != 1)
			a.each([&](float &x, int64_t row, int64_t column) {
				x = static_cast<float>((row + column) % 3 - 1) * magnitude;
			});
		for (const int stale : {0, -100, 100}) { // for any prediction
			predictions[bucketOf(0x1234567)] = {0x1234567, {stale, stale}};
			const Converted toA(a, true, 0), toB(b, true, 1);
			TensorCall call(toA.of(a), toB.of(b), predictions.data());
			call.run();
			CAPTURE(magnitude, stale);
			const Scales right = scalesFor(a.amax(), b.amax(), 1);
			const int exponentA = magnitude == 0 ? stale : right.exponent[0]; // for zeros any exponent is right
			CHECK(call.scratch.right[0] == exponentA);
			CHECK(toA.wrong(a, exponentA, half) == 0);
			CHECK(toB.wrong(b, right.exponent[1], half) == 0);
			CHECK(call.scratch.alpha == right.alpha);
		}
	}
}

TEST_CASE("nonfinite values are found in a tensor, and are not its maximum")
{
	const Stored b({8, 8}, {1, 8}, 0);
	b.fill(1);
	for (int64_t place = 0; place < 20 * 147; place += 13) {
		const Stored a({20, 49, 3}, {49, 1, 980}, 0);
		a.fill(2);
		a.each([&](float &x, int64_t row, int64_t column) {
			const int64_t at = row * 147 + column;
			x = at == place ? (place % 2 ? NAN : -INFINITY) : at == place + 1 ? 77 : x;
		});
		const Converted toA(a, true, 0), toB(b, true, 0);
		TensorCall call(toA.of(a), toB.of(b), nullptr);
		call.launchTensor("autoamp_cast_tensor_half", 1);
		REQUIRE(call.amax(call.parameters, 0) == std::bit_cast<uint32_t>(77.0f));
		REQUIRE(call.nonfinite(call.parameters, 0) == 1);
		REQUIRE(call.nonfinite(call.parameters, 1) == 0);
	}
}

TEST_CASE("a result is copied to any strides, and only there")
{
	std::mt19937 random(5);
	std::normal_distribution<float> normal;
	for (const Strided &shape : shapes()) {
		if (shape.stride[0] == 0)
			continue; // no target
		const int64_t rows = shape.extent[0];
		// The result with aligned columns, and with columns or a base that are not aligned.
		for (const auto &[isBfloat16, ld, skew] : {std::tuple{false, (rows + 7) / 8 * 8, 0u},
		                                           {true, (rows + 7) / 8 * 8, 0u},
		                                           {false, rows, 0u},
		                                           {true, rows, 0u},
		                                           {false, (rows + 7) / 8 * 8, 1u},
		                                           {true, (rows + 7) / 8 * 8, 1u}})
			for (const float factor : {0.0f, -1.5f})
				for (const Activation activation : {Activation::none, Activation::relu, Activation::reluOfNan}) {
					const Stored target(shape.extent, shape.stride, 1);
					// Added from another one, or from the target itself.
					const Stored separate(shape.extent, shape.stride, 2);
					const Stored &added = activation == Activation::none ? target : separate;
					target.fill(3), separate.fill(4);
					const auto size = static_cast<size_t>(ld * target.columns());
					const Source memory(size, skew);
					float *const result = memory.data();
					std::vector<uint16_t> narrow(skew + size);
					for (size_t i = 0; i < size; ++i) {
						result[i] = i % 31 == 30 ? NAN : normal(random);
						narrow[skew + i] = rounded(result[i], 0, bfloat16);
						if (isBfloat16)
							result[i] = 0.5f * std::bit_cast<float>(static_cast<uint32_t>(narrow[skew + i]) << 16);
					}
					std::vector<float> bias(shape.extent[0]);
					std::generate(bias.begin(), bias.end(), [&] { return normal(random); });
					Placement p = {
					    result,        isBfloat16,      ld,
					    target.base(), target.layout(), nullptr,
					    0.5f,          factor,          activation == Activation::relu ? bias.data() : nullptr,
					    activation};
					if (isBfloat16)
						p.result = narrow.data() + skew;
					if (factor != 0) {
						p.added = added.base();
					}
					std::vector<float> expected(Stored::span(shape.extent, shape.stride));
					std::copy(target.memory.data(), target.memory.data() + expected.size(), expected.begin());
					std::vector<float> terms(size);
					if (factor != 0)
						added.each([&](float x, int64_t row, int64_t column) { terms[column * ld + row] = x; });
					target.each([&](const float &x, int64_t row, int64_t column) {
						const int64_t at = column * ld + row;
						float y = std::fma(factor, terms[at], result[at]) + (p.bias ? bias[row] : 0);
						if (activation == Activation::relu)
							y = y > 0 ? y : 0;
						else if (activation == Activation::reluOfNan)
							y = std::isnan(y) || y > 0 ? y : 0;
						expected[&x - target.memory.data()] = y;
					});
					launch("autoamp_place", gridSize(p, 2), p);
					int wrong = 0;
					for (size_t i = 0; i < expected.size(); ++i) {
						const float got = target.memory.data()[i];
						wrong += std::isnan(expected[i]) ? !std::isnan(got) : got != expected[i];
					}
					CAPTURE(shape.extent, shape.stride, isBfloat16, ld, skew, factor, static_cast<int>(activation));
					REQUIRE(wrong == 0);
				}
	}
}

TEST_CASE("a result is rounded to 16 bits in place, and in the copies of results")
{
	const auto expected = [](float x, Rounding rounding) {
		return rounding == Rounding::none ? x
		       : rounding == Rounding::half
		           ? widened(rounded(x, 0, half))
		           : std::bit_cast<float>(static_cast<uint32_t>(rounded(x, 0, bfloat16)) << 16);
	};
	// A matrix of 5 x 6 with a gap, and two of them.
	const TensorLayout layout = {5, 1, 2, {6, 2, 1, 1}, {8, 50, 0, 0}};
	for (const Rounding rounding : {Rounding::none, Rounding::half, Rounding::bfloat16})
		for (const float scale : {1.0f, 1e5f, 3e38f, 1e-6f, 1e-40f}) { // beyond both ranges, and subnormal
			std::mt19937 random(7);
			std::uniform_real_distribution<float> uniform(-1.13f, 1.13f);
			std::vector<float> before(100), product(100), target(100, 7);
			for (size_t i = 0; i < before.size(); ++i)
				product[i] = before[i] = uniform(random) * scale;
			launch("autoamp_round", 1, Rounded{product.data(), layout, rounding});
			const Placement placement = {before.data(), false, 5, target.data(), {5, 1, 1, {6, 1, 1, 1}, {8, 0, 0, 0}},
			                             nullptr,       1,     0, nullptr,       Activation::none,
			                             rounding};
			launch("autoamp_place", 1, placement);
			std::vector<float> scattered(100, 7);
			float *const pointer = scattered.data();
			launch("autoamp_scatter", 1,
			       Scatter{before.data(), nullptr, &pointer, 5, 6, 5, 0, 8, 30, 1, nullptr, 0, rounding});
			int wrong = 0;
			for (int64_t matrix = 0; matrix < 2; ++matrix)
				for (int64_t i = 0; i < 50; ++i) {
					const bool isInside = i < 48 && i % 8 < 5;
					const size_t at = static_cast<size_t>(matrix * 50 + i);
					wrong += product[at] != (isInside ? expected(before[at], rounding) : before[at]);
					const float copied = matrix == 0 && isInside
					                         ? expected(before[static_cast<size_t>(i / 8 * 5 + i % 8)], rounding)
					                         : 7;
					wrong += target[at] != copied, wrong += scattered[at] != copied;
				}
			CAPTURE(static_cast<int>(rounding), scale);
			CHECK(wrong == 0);
		}
}

TEST_CASE("runs of elements become bfloat16 and float again")
{
	const float x[] = {1, 1.00390625f, 1.01171875f, -3.3895314e38f, 1e-40f, HUGE_VALF, -0.0f};
	const uint16_t rounded[] = {0x3f80, 0x3f80, 0x3f82, 0xff7f, 0x0001, 0x7f80, 0x8000}; // ties to even
	std::vector<uint16_t> narrow(20, 0x4242);
	Runs runs = {};
	runs.run[0] = {x, narrow.data(), 7};
	runs.run[1] = {nullptr, narrow.data() + 8, 3};
	runs.run[2] = {x + 1, narrow.data() + 12, 2};
	runs.count = 3;
	launch("autoamp_runs", gridSize(runs, 2), runs);
	for (int i = 0; i < 20; ++i) {
		const uint16_t wanted = i < 7                ? rounded[i]
		                        : i >= 8 && i < 11   ? 0
		                        : i == 12 || i == 13 ? rounded[i - 11]
		                                             : 0x4242;
		CHECK(narrow[i] == wanted);
	}
	std::vector<float> wide(4000, 5);
	std::vector<uint16_t> many(3000, 0x3fc0);
	for (const bool isAdded : {false, true}) {
		runs.run[0] = {many.data(), wide.data() + 1, 3000};
		runs.count = 1, runs.isWidening = true, runs.isAdded = isAdded;
		launch("autoamp_runs", gridSize(runs, 2), runs);
		for (int i = 0; i < 4000; ++i)
			REQUIRE(wide[i] == (i < 1 || i > 3000 ? 5 : isAdded ? 3 : 1.5f));
	}
}
