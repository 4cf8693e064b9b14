#include "kernels/scaling.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace autoamp::kernels;

namespace {

struct Answer {
	uint32_t amaxA, amaxB, alpha;
	int a, b;
	uint32_t effective;
	int excess;
};
const Answer answers[] = {
#include "kernels_scaling.inc"
};

} // namespace

TEST_CASE("scales are those of the model, bit for bit")
{
	for (const Answer &answer : answers) {
		CAPTURE(answer.amaxA, answer.amaxB, answer.alpha);
		const Scales scales = scalesFor(answer.amaxA, answer.amaxB, floatOf(answer.alpha));
		CHECK(scales.exponent[0] == answer.a);
		CHECK(scales.exponent[1] == answer.b);
		CHECK(bitsOf(scales.alpha) == answer.effective);
		CHECK(scales.excess == answer.excess);
	}
}

TEST_CASE("exponents are floor(log2), subnormals included")
{
	for (uint32_t binade = 0; binade < 255; ++binade)
		for (const uint32_t mantissa : {0u, 1u, 0x400000u, 0x7fffffu})
			if (const uint32_t bits = binade << 23 | mantissa)
				REQUIRE(exponentOf(bits) == std::ilogb(floatOf(bits)));
	for (int shift = 0; shift < 23; ++shift)
		REQUIRE(exponentOf(1u << shift) == shift - 149);
}

TEST_CASE("the largest value lands in the four binades below 2^15")
{
	for (uint32_t bits = 1; bits < infinityBits; bits += 0x1fff3) {
		const int exponent = rightExponent(bits);
		const double top = std::ldexp(static_cast<double>(floatOf(bits)), exponent);
		CAPTURE(bits, exponent);
		REQUIRE(top < 32768);
		REQUIRE((top >= 2048 || exponent == maxExponent));
		REQUIRE(exponent >= minExponent);
		REQUIRE(std::ldexp(1.0, exponent) == powerOfTwo(exponent));
	}
}

TEST_CASE("alpha undoes the scales exactly, or the excess tells by how much it does not")
{
	for (uint32_t a = 0x1234; a < infinityBits; a += 0x2468ace)
		for (uint32_t b = 0x4321; b < infinityBits; b += 0x3579bdf)
			for (uint32_t alphaBits = 3; alphaBits < infinityBits; alphaBits += 0x6fedcba) {
				const float alpha = floatOf(alphaBits);
				const Scales scales = scalesFor(a, b, alpha);
				CAPTURE(a, b, alphaBits);
				for (const int exponent : scales.exponent)
					REQUIRE((exponent >= minExponent && exponent <= maxExponent));
				// Shrunk, never grown: no operand overflows because of alpha.
				REQUIRE(scales.exponent[0] <= rightExponent(a));
				REQUIRE(scales.exponent[1] <= rightExponent(b));
				const double undone = std::ldexp(static_cast<double>(scales.alpha),
				                                 scales.exponent[0] + scales.exponent[1] + scales.excess);
				REQUIRE(undone == alpha);
				REQUIRE(std::isnormal(scales.alpha));
				if (scales.excess > 0) // only where |alpha| amaxA amaxB is far beyond fp32
					REQUIRE(std::log2(alpha) + std::log2(floatOf(a)) + std::log2(floatOf(b)) >= 150);
			}
}
