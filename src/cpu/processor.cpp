#include "src/cpu/processor.h"

#include <atomic>
#include <cpuid.h>
#include <cstring>

namespace autoamp::cpu {

namespace {

// A value that is determined once, because a CPUID instruction takes many microseconds in a virtual machine.
class Known
{
public:
	template <class Determine>
	uint8_t value(Determine determine)
	{
		uint8_t value = value_.load(std::memory_order_relaxed);
		if (value == unknown)
			value_.store(value = determine(), std::memory_order_relaxed); // racing threads store the same value
		return value;
	}

private:
	static constexpr uint8_t unknown = 255;
	std::atomic<uint8_t> value_{unknown};
};

Registers readRegisters()
{
	Registers registers;
	uint32_t eax, ebx, ecx, edx;
	registers.maxLeaf = __get_cpuid_max(0, nullptr);
	if (registers.maxLeaf < 7)
		return registers;
	__cpuid(1, eax, ebx, registers.ecx1, edx);
	__cpuid_count(7, 0, eax, registers.ebx7, ecx, registers.edx7);
	if (eax >= 1)
		__cpuid_count(7, 1, registers.eax71, ebx, ecx, edx);
	if (registers.ecx1 & bit_OSXSAVE) {
		asm volatile("xgetbv" : "=a"(eax), "=d"(edx) : "c"(0));
		registers.xcr0 = uint64_t{edx} << 32 | eax;
	}
	return registers;
}

uint32_t signatureOf()
{
	uint32_t signature, ebx, ecx, edx;
	__cpuid(1, signature, ebx, ecx, edx);
	return signature;
}

constexpr uint32_t bitsOf(uint32_t word, unsigned first, unsigned count)
{
	return word >> first & ((1u << count) - 1);
}

unsigned modelNumber()
{
	const uint32_t signature = signatureOf();
	return bitsOf(signature, 4, 4) | bitsOf(signature, 16, 4) << 4;
}

} // namespace

Bf16Unit bf16UnitOf(const Registers &registers)
{
	constexpr uint32_t avx512 = bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL, avx512Bf16 = 1 << 5;
	constexpr uint32_t amx = 1 << 22 | 1 << 24;              // AMX-BF16, AMX-TILE
	constexpr uint64_t zmmState = 0xe6, tileState = 3 << 17; // zmm: SSE, AVX, masks, both halves of zmm
	if (registers.maxLeaf < 7 || !(registers.ecx1 & bit_OSXSAVE) || (registers.xcr0 & zmmState) != zmmState ||
	    (registers.ebx7 & avx512) != avx512 || !(registers.eax71 & avx512Bf16))
		return Bf16Unit::none;
	const bool hasAmx = (registers.edx7 & amx) == amx && (registers.xcr0 & tileState) == tileState;
	return hasAmx ? Bf16Unit::amx : Bf16Unit::avx512;
}

Bf16Unit bf16Unit()
{
	static constinit Known known;
	return static_cast<Bf16Unit>(known.value([] { return static_cast<uint8_t>(bf16UnitOf(readRegisters())); }));
}

bool hasSlowDot()
{
	static constinit Known known;
	return known.value([]() -> uint8_t {
		constexpr unsigned cooperLake = 85;
		uint32_t eax, ebx, ecx, edx;
		__cpuid(0, eax, ebx, ecx, edx);
		return ebx == signature_INTEL_ebx && !(family() == 6 && modelNumber() == cooperLake);
	});
}

unsigned family()
{
	const uint32_t signature = signatureOf();
	return bitsOf(signature, 8, 4) + bitsOf(signature, 20, 8);
}

std::string model()
{
	uint32_t words[12] = {};
	if (__get_cpuid_max(0x80000000, nullptr) >= 0x80000004)
		for (uint32_t i = 0; i < 3; ++i)
			__cpuid(0x80000002 + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
	char brand[sizeof words + 1] = {};
	std::memcpy(brand, words, sizeof words);
	return std::string(brand) + " " + std::to_string(family()) + "." + std::to_string(modelNumber()) + "." +
	       std::to_string(bitsOf(signatureOf(), 0, 4));
}

} // namespace autoamp::cpu
