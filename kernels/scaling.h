// Rules of verified scaling: the power of two that scales an fp32 operand before its conversion to half, and the alpha
// that reverses it. Pure functions of bits, the same for host and device; any thread.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define AUTOAMP_HOST_DEVICE __host__ __device__
#else
#define AUTOAMP_HOST_DEVICE
#endif

namespace autoamp::kernels {

// s = 2^exponent is a normal float over the whole range, so one multiplication scales. It is exact unless its result is
// below fp32's normal range; there the half is a zero of the same sign anyway.
constexpr int maxExponent = 127, minExponent = -126;
constexpr uint32_t infinityBits = 0x7f800000, magnitudeMask = 0x7fffffff, mantissaMask = 0x007fffff;

AUTOAMP_HOST_DEVICE inline uint32_t bitsOf(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits;
}

AUTOAMP_HOST_DEVICE inline float floatOf(uint32_t bits)
{
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

// Exact value of a half.
AUTOAMP_HOST_DEVICE inline float floatOfHalf(uint16_t half)
{
	const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, magnitude = half & 0x7fffu;
	if (magnitude >= 0x7c00) // Inf and NaN
		return floatOf(sign | infinityBits | magnitude << 13);
	// These bits are a float that is 2^112 times too small, also for subnormal halves. The product is exact.
	const float scaled = floatOf(magnitude << 13) * floatOf(0x77800000);
	return floatOf(sign | bitsOf(scaled));
}

// 2^exponent for an exponent in [-126, 127].
AUTOAMP_HOST_DEVICE inline float powerOfTwo(int exponent)
{
	return floatOf(static_cast<uint32_t>(exponent + 127) << 23);
}

// Returns the bits of |x|. For a subnormal x, returns those of |x| * 2^24, which is normal; `shift` is then 24,
// otherwise 0.
AUTOAMP_HOST_DEVICE inline uint32_t normalized(uint32_t magnitude, int &shift)
{
	shift = magnitude <= mantissaMask ? 24 : 0;
	return shift ? bitsOf(floatOf(magnitude) * 16777216.0f) : magnitude;
}

// floor(log2 |x|) of a finite nonzero x, also if it is subnormal.
AUTOAMP_HOST_DEVICE inline int exponentOf(uint32_t magnitude)
{
	int shift;
	const uint32_t bits = normalized(magnitude, shift);
	return static_cast<int>(bits >> 23) - 127 - shift;
}

// Exponent for an operand: amax * 2^e is in [2^11, 2^15). Exponents have steps of four binades, so that a small drift
// of amax does not change them. amax = 0: 0.
AUTOAMP_HOST_DEVICE inline int rightExponent(uint32_t amax)
{
	if (amax == 0)
		return 0;
	const int exponent = 14 + ((-exponentOf(amax)) & ~3); // & rounds towards minus infinity; / would not
	return exponent < maxExponent ? exponent : maxExponent;
}

struct Scales {
	int exponent[2]; // exponents that the operands must have; arbitrary for an operand whose amax is 0
	float alpha;     // alpha that reverses them, exact unless excess > 0
	int excess;      // > 0: alpha would need an exponent this much above 127; it was clamped (event scale_range)
};

// Computes alpha for the exponents a and b, which it reduces if alpha would be subnormal. It never multiplies two
// scales in floating point: the product could be 2^254.
AUTOAMP_HOST_DEVICE inline Scales scalesOf(int a, int b, float alpha)
{
	const uint32_t bits = bitsOf(alpha), magnitude = bits & magnitudeMask;
	if (magnitude == 0 || magnitude >= infinityBits) // the product is 0, Inf or NaN at any scale
		return {{a, b}, alpha, 0};
	const int limit = exponentOf(magnitude) + 126; // a larger a + b would make alpha subnormal, which loses bits
	if (const int over = a + b - limit; over > 0) {
		a -= (over + 1) / 2;
		a = a > minExponent ? a : minExponent;
		b = limit - a > minExponent ? limit - a : minExponent;
		a = a < limit - b ? a : limit - b; // only if b was clamped
	}
	const int wanted = exponentOf(magnitude) - (a + b);
	const int exponent = wanted < maxExponent ? wanted : maxExponent;
	int shift;
	const uint32_t mantissa = normalized(magnitude, shift) & mantissaMask;
	const uint32_t result = (bits & ~magnitudeMask) | (static_cast<uint32_t>(exponent + 127) << 23) | mantissa;
	return {{a, b}, floatOf(result), wanted - exponent};
}

// Computes exponents and alpha from the maxima of both operands. A product of zeros, Infs and NaNs is the same at any
// scale.
AUTOAMP_HOST_DEVICE inline Scales scalesFor(uint32_t amaxA, uint32_t amaxB, float alpha)
{
	const int a = rightExponent(amaxA), b = rightExponent(amaxB);
	return amaxA == 0 || amaxB == 0 ? Scales{{a, b}, alpha, 0} : scalesOf(a, b, alpha);
}

} // namespace autoamp::kernels
