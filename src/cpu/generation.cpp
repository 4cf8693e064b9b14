#include "src/cpu/generation.h"

#include "src/base/once.h"
#include "src/base/pages.h"

#include <atomic>
#include <unistd.h>

namespace autoamp::cpu {

namespace {

using Number = std::atomic<uint32_t>;

Number *mapNumber()
{
	void *const page = base::mapPages(sizeof(Number));
	if (page && madvise(page, base::pageRound(sizeof(Number)), MADV_WIPEONFORK) == 0)
		return new (page) Number(0);
	base::unmapPages(page, sizeof(Number));
	return nullptr;
}

} // namespace

uint32_t generation()
{
	static constinit base::Once<Number> once; // a losing thread of a race leaks its page
	static constinit std::atomic<uint32_t> last{0};
	Number *const number = once.get(mapNumber);
	if (!number)
		return static_cast<uint32_t>(getpid()); // Linux before 4.14: a system call each time
	uint32_t known = number->load(std::memory_order_relaxed);
	if (__builtin_expect(known == 0, 0)) {
		const uint32_t next = last.fetch_add(1, std::memory_order_relaxed) + 1;
		if (number->compare_exchange_strong(known, next, std::memory_order_relaxed))
			known = next;
	}
	return known;
}

} // namespace autoamp::cpu
