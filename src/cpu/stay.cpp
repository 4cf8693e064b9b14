#include "src/cpu/stay.h"

#include "src/base/futex.h"
#include "src/cpu/generation.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace autoamp::cpu {

namespace {

// The process (generation(), 32 bits), whether exit has begun, and the number of threads inside, in one word: a child
// must not wait for threads that it does not have.
constinit std::atomic<uint64_t> state{0};
constexpr uint64_t isOver = uint64_t{1} << 31, countMask = isOver - 1;
constinit thread_local uint32_t mine = 0; // above 1 in a signal handler
constinit std::atomic<bool> wasForkedInside{false};

uint32_t countIn(uint64_t word)
{
	return word >> 32 == generation() ? static_cast<uint32_t>(word & countMask) : 0;
}

void add(int change)
{
	uint64_t word = state.load(std::memory_order_relaxed), next;
	do {
		const uint32_t count = countIn(word);
		if (word >> 32 != generation() && (word & countMask) != 0)
			wasForkedInside.store(true, std::memory_order_relaxed); // before this thread replaces the parent's word
		if (change < 0 && count == 0)                               // the parent of this process entered
			return;
		next = uint64_t{generation()} << 32 | (word & isOver) | (count + static_cast<uint32_t>(change));
	} while (!state.compare_exchange_weak(word, next, std::memory_order_seq_cst));
}

void end()
{
	state.fetch_or(isOver);
	const base::Deadline deadline(2);
	constexpr timespec moment = {0, 100000};
	while (countIn(state.load()) > mine && !deadline.isOver())
		nanosleep(&moment, nullptr);
}

} // namespace

Stay::Stay()
{
	mine++;
	add(1);
	isPermitted_ = !(state.load() & isOver);
}

Stay::~Stay()
{
	add(-1);
	mine--;
}

bool Stay::mayHang() const
{
	return wasForkedInside.load(std::memory_order_relaxed);
}

void guardExit()
{
	std::atexit(end);
}

} // namespace autoamp::cpu
