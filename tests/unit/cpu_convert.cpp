#include "src/cpu/convert.h"
#include "src/cpu/processor.h"

#include <catch2/catch.hpp>
#include <sys/mman.h>
#include <xmmintrin.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace autoamp::cpu;

namespace {

double valueOf(uint32_t upper)
{
	return (upper & 0x7fff) == 0x7f80 ? std::copysign(std::ldexp(1., 128), upper & 0x8000 ? -1. : 1.)
	                                  : static_cast<double>(std::bit_cast<float>(upper << 16));
}

// The nearer of the two neighbours, by exact differences.
bool isRight(uint32_t bits, uint16_t result)
{
	const float x = std::bit_cast<float>(bits);
	if (std::isnan(x))
		return (result & 0x7fc0) == 0x7fc0;
	const uint32_t down = bits >> 16, up = down + 1;
	if (std::isinf(x))
		return result == down;
	if (std::fpclassify(x) == FP_SUBNORMAL)
		return result == (down & 0x8000);
	const double below = std::abs(x - valueOf(down)), above = std::abs(x - valueOf(up));
	uint32_t nearest = below < above || (below == above && down % 2 == 0) ? down : up;
	if ((nearest & 0x7fff) == 0x7f80)
		nearest = down; // clamped
	return result == nearest;
}

size_t wrongAmong(const std::vector<uint32_t> &bits)
{
	std::vector<uint16_t> results(bits.size());
	const auto count = static_cast<int64_t>(bits.size());
	convert({reinterpret_cast<const float *>(bits.data()), count, 1, count}, 0, count, results.data());
	size_t wrong = 0;
	for (size_t i = 0; i < bits.size(); ++i)
		wrong += !isRight(bits[i], results[i]);
	return wrong;
}

} // namespace

TEST_CASE("every upper half rounds to nearest even")
{
	std::vector<uint32_t> bits;
	for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
		for (uint32_t upper = 0; upper < 65536; ++upper) // neighbours are of one kind, so most vectors have no Inf
			bits.push_back(upper << 16 | lower);
	CHECK(wrongAmong(bits) == 0);
	std::mt19937 random(1);
	std::shuffle(bits.begin(), bits.end(), random); // most vectors contain a NaN, Inf, or clamped value
	CHECK(wrongAmong(bits) == 0);
	for (uint32_t &each : bits)
		each = random() % 4 ? random() : 0;
	CHECK(wrongAmong(bits) == 0);
	for (uint32_t special : {0x7f7f7fffu, 0x7f7f8000u, 0x7f7fffffu, 0xff7fffffu, 0x00000001u, 0x80008000u, 0x7f800001u})
		for (size_t at : {0, 15, 16, 31, 32, 40}) { // one special value among normal ones, in each part of a vector
			std::vector<uint32_t> among(41, 0x3f812345);
			among[at] = special;
			CHECK(wrongAmong(among) == 0);
		}
}

TEST_CASE("lines, gaps, tails and parts of any length are packed")
{
	constexpr uint16_t guard = 0xabcd;
	constexpr size_t page = 4096, bytes = 16 * page;
	// The source ends where a page begins that cannot be read.
	auto *const pages =
	    static_cast<char *>(mmap(nullptr, bytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	REQUIRE(mprotect(pages + bytes, page, PROT_NONE) == 0);
	std::mt19937 random(2);
	for (int64_t length : {1, 2, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100})
		for (int64_t gap : {0, 1, 3, 32})
			for (int64_t misaligned : {0, 4, 1}) {
				const Matrix matrix{nullptr, length, 7, length + gap};
				const auto size = static_cast<size_t>(6 * matrix.ld + length);
				std::vector<float> values(size);
				for (float &value : values)
					value = static_cast<float>(random());
				char *const source = pages + bytes - 4 * size - misaligned;
				std::memcpy(source, values.data(), 4 * size);
				std::vector<uint16_t> target(static_cast<size_t>(7 * length) + 2, guard);
				const int64_t middle = random() % (7 * length + 1);
				Matrix stored = matrix;
				stored.source = reinterpret_cast<const float *>(source);
				convert(stored, 0, middle, target.data() + 1);
				CHECK(target[static_cast<size_t>(middle) + 1] == guard);
				convert(stored, middle, 7 * length, target.data() + 1);
				size_t wrong = 0;
				for (int64_t line = 0; line < 7; ++line)
					for (int64_t i = 0; i < length; ++i)
						wrong += !isRight(std::bit_cast<uint32_t>(values[static_cast<size_t>(line * matrix.ld + i)]),
						                  target[static_cast<size_t>(line * length + i) + 1]);
				CHECK(wrong == 0);
				CHECK((target.front() == guard && target.back() == guard));
			}
	munmap(pages, bytes + page);
}

TEST_CASE("the floating-point environment does not matter and does not change")
{
	std::vector<uint32_t> bits = {0x7f800001, 0x7f7fffff, 0x00012345, 0x3f812345, 0x3f818000, 0x80000001};
	const unsigned before = _mm_getcsr();
	const unsigned strict = 0xe040; // rounds to zero, reads and writes denormals as zero, traps every exception
	_mm_setcsr(strict);
	std::vector<uint16_t> results(bits.size());
	convert({reinterpret_cast<const float *>(bits.data()), 6, 1, 6}, 0, 6, results.data());
	const unsigned after = _mm_getcsr();
	_mm_setcsr(before);
	CHECK(after == strict);
	for (size_t i = 0; i < bits.size(); ++i)
		CHECK(isRight(bits[i], results[i]));
}

TEST_CASE("results are added with a scale")
{
	for (int64_t count : {1, 15, 16, 17, 50}) {
		std::vector<float> target(static_cast<size_t>(count) + 1, 3), source(static_cast<size_t>(count), 5);
		addScaled(target.data(), -2, source.data(), count);
		CHECK(target.back() == 3);
		target.pop_back();
		CHECK(target == std::vector<float>(static_cast<size_t>(count), -1));
	}
}

TEST_CASE("the unit needs the CPU and the registers that the kernel saves")
{
	Registers registers = {
	    .maxLeaf = 7, .ecx1 = 1 << 27, .ebx7 = 0xd0030000 | 1 << 17, .edx7 = 0, .eax71 = 1 << 5, .xcr0 = 0xe7};
	const Registers zen4 = registers;
	CHECK(bf16UnitOf(zen4) == Bf16Unit::avx512);
	const auto without = [&](auto change) {
		registers = zen4;
		change();
		return bf16UnitOf(registers);
	};
	CHECK(without([&] { registers.maxLeaf = 6; }) == Bf16Unit::none);
	CHECK(without([&] { registers.ecx1 = 0; }) == Bf16Unit::none); // the kernel does not use XSAVE
	CHECK(without([&] { registers.xcr0 = 7; }) == Bf16Unit::none); // it saves AVX only
	CHECK(without([&] { registers.eax71 = 0; }) == Bf16Unit::none);
	CHECK(without([&] { registers.ebx7 = 0; }) == Bf16Unit::none);
	const auto sapphireRapids = [&] {
		registers.edx7 = 1 << 22 | 1 << 24;
		registers.xcr0 = 0x602e7;
	};
	CHECK(without(sapphireRapids) == Bf16Unit::amx);
	CHECK(without([&] {
		      sapphireRapids();
		      registers.xcr0 = 0xe7;
	      }) == Bf16Unit::avx512);
	CHECK(without([&] {
		      sapphireRapids();
		      registers.eax71 = 0;
	      }) == Bf16Unit::none);
}
