#include "src/state/thread_name.h"

#include "src/policy/decide.h"

#include <atomic>

namespace autoamp::core {

namespace {

constexpr uint32_t classLimit = 256;

// By class. Append-only; each place is written by one compare-and-swap.
std::atomic<uint32_t> masks[classLimit]; // [0]: none

} // namespace

uint32_t nameClassOf(const Process &process, std::string_view name)
{
	const auto mask = static_cast<uint32_t>(policy::bitsOf(process.options.rules->threadPatterns, name));
	for (uint32_t i = 0; i < classLimit; i++) {
		uint32_t known = masks[i].load(std::memory_order_relaxed);
		if (known == mask || (i > 0 && !known && masks[i].compare_exchange_strong(known, mask)) || known == mask)
			return i;
	}
	return 0;
}

uint32_t patternsOfNameClass(uint32_t nameClass)
{
	return masks[nameClass % classLimit].load(std::memory_order_relaxed);
}

} // namespace autoamp::core
