#include "src/lower/weights.h"

#include "src/base/faults.h"
#include "src/base/hash.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace autoamp::lower {

namespace {

constexpr uint32_t ways = 4;
static_assert(kernels::weightCount % ways == 0);

} // namespace

Weight *Weights::table()
{
	if (!table_) {
		constexpr size_t bytes = sizeof(Weight) * kernels::weightCount;
		void *const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory != MAP_FAILED)
			table_ = static_cast<Weight *>(memory);
	}
	return table_;
}

Weight *Weights::claim(const void *source, uint64_t layout, bool &isFull)
{
	isFull = false;
	const std::lock_guard lock(mutex_);
	Weight *const all = table();
	if (!all)
		return nullptr;
	const uint64_t hash = base::mix(base::mix(layout, reinterpret_cast<uintptr_t>(source)), 0);
	Weight *const bucket = all + (hash >> 8) % (kernels::weightCount / ways) * ways;
	Weight *oldest = nullptr;
	for (Weight *weight = bucket; weight < bucket + ways; ++weight) {
		if (weight->source == source && weight->layout == layout && !weight->isRetired) {
			if (weight->isClaimed)
				return nullptr;
			weight->isClaimed = true;
			weight->usedAt = ++clock_;
			return weight;
		}
		if (!weight->isClaimed && !weight->copy && (!oldest || weight->usedAt < oldest->usedAt))
			oldest = weight;
	}
	isFull = !oldest;
	if (isFull)
		return nullptr;
	const uint32_t compared = oldest->compared, repeated = oldest->repeated; // the device counts on
	CUevent_st *const event = oldest->used;
	*oldest = Weight{};
	oldest->compared = compared, oldest->repeated = repeated, oldest->used = event;
	oldest->source = source, oldest->layout = layout, oldest->usedAt = ++clock_;
	oldest->generation = nextGeneration();
	oldest->isClaimed = true;
	return oldest;
}

void Weights::release(Weight &weight)
{
	const std::lock_guard lock(mutex_);
	weight.isClaimed = false;
}

bool Weights::reserve(size_t bytes, size_t budget)
{
	const size_t most = std::min(budget / 4 * 3, most_.load(std::memory_order_relaxed));
	size_t held = held_.load(std::memory_order_relaxed);
	do
		if (bytes > most || held > most - bytes)
			return false;
	while (!held_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
	return true;
}

bool Weights::makeRoom(const cuda::Driver &driver, cuda::Memory &memory, size_t bytes)
{
	size_t left = held_.load(std::memory_order_relaxed), releasing = releasing_.load(std::memory_order_acquire);
	const size_t inGraphs = memory.copiesInGraphs(); // cannot be released
	if (left + releasing + inGraphs == 0)
		return false;
	const bool hasEnded =
	    releasing && driver.cuStreamQuery(private_) == 0 && releasing_.compare_exchange_strong(releasing, 0);
	if (hasEnded)
		releasing = 0;
	const size_t ofBudget = memory.missing(driver, bytes); // 0: the driver had none, unless a release has ended
	size_t missing = ofBudget || hasEnded ? ofBudget : bytes;
	missing -= std::min(missing, releasing + (ofBudget ? inGraphs : 0));
	if (missing == 0)
		return true;
	const size_t wanted = left - std::min(left, missing);
	const bool isEnough = left >= missing;
	most_.store(wanted, std::memory_order_relaxed);
	retire([&left, wanted](const Weight &weight) {
		const bool isMeant = left > wanted && !weight.isClaimed;
		left -= isMeant ? weight.bytes : 0;
		return isMeant;
	});
	collect(driver, memory);
	return isEnough;
}

template <typename IsMeant>
void Weights::retire(IsMeant isMeant)
{
	const std::lock_guard lock(mutex_);
	for (Weight *weight = table_; weight && weight < table_ + kernels::weightCount; ++weight)
		if (weight->copy && !weight->isRetired && isMeant(*weight)) {
			weight->isRetired = true; // collect() waits until the call of a claimed operand has ended
			hasRetired_.store(true, std::memory_order_release);
		}
}

void Weights::releaseRegion(uint64_t region)
{
	retire([region](const Weight &weight) { return weight.region == region; });
}

void Weights::releaseFreed(const cuda::Driver &driver)
{
	struct {
		const void *source;
		uint64_t bufferId;
	} kept[64];
	size_t next = 0;
	for (size_t count = std::size(kept); count == std::size(kept);) {
		count = 0;
		{
			const std::lock_guard lock(mutex_);
			for (; table_ && next < kernels::weightCount && count < std::size(kept); ++next)
				if (const Weight &weight = table_[next]; weight.copy && !weight.isClaimed)
					kept[count++] = {weight.source, weight.bufferId};
		}
		for (size_t i = 0; i < count; ++i)
			if (bufferIdOf(driver, kept[i].source) != kept[i].bufferId)
				retire([&](const Weight &weight) {
					return weight.source == kept[i].source && weight.bufferId == kept[i].bufferId && !weight.isClaimed;
				});
	}
}

void Weights::collect(const cuda::Driver &driver, cuda::Memory &memory)
{
	if (!hasRetired_.load(std::memory_order_relaxed) || isCollecting_.exchange(true, std::memory_order_acquire))
		return;
	constexpr unsigned nonBlocking = 1; // CU_STREAM_NON_BLOCKING
	hasRetired_.store(false, std::memory_order_relaxed);
	if (!private_ && driver.cuStreamCreateWithPriority(&private_, nonBlocking, 0))
		private_ = nullptr, hasRetired_.store(true, std::memory_order_relaxed);
	for (uint32_t i = 0; private_ && i < kernels::weightCount; ++i) {
		Weight &weight = table_[i];
		{
			const std::lock_guard lock(mutex_);
			if (!weight.isRetired || !weight.copy || weight.isUnordered)
				continue;
			if (weight.isClaimed) {
				hasRetired_.store(true, std::memory_order_relaxed);
				continue;
			}
			weight.isClaimed = true;
		}
		// Only this private stream waits.
		if (driver.cuStreamWaitEvent(private_, weight.used, 0) || !memory.release(driver, private_, weight.copy))
			base::leaveFault("releasing a kept copy");
		else
			releasing_.fetch_add(weight.bytes, std::memory_order_release);
		giveBack(weight.bytes);
		const std::lock_guard lock(mutex_);
		weight.copy = 0, weight.source = nullptr, weight.usedAt = 0;
		weight.isRetired = weight.isClaimed = false;
	}
	isCollecting_.store(false, std::memory_order_release);
}

void Weights::setCopy(Weight &weight, cuda::Address copy)
{
	const std::lock_guard lock(mutex_);
	weight.copy = copy;
}

uint64_t nextGeneration()
{
	static constinit std::atomic<uint64_t> last{0};
	return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

uint64_t bufferIdOf(const cuda::Driver &driver, const void *source)
{
	constexpr int bufferId = 7; // CU_POINTER_ATTRIBUTE_BUFFER_ID
	unsigned long long id = 0;
	return driver.cuPointerGetAttribute(&id, bufferId, reinterpret_cast<cuda::Address>(source)) ? 0 : id;
}

} // namespace autoamp::lower
