#include "src/cpu/weights.h"

#include "src/base/hash.h"
#include "src/base/pages.h"
#include "src/cpu/budget.h"
#include "src/cpu/fingerprint.h"
#include "src/cpu/generation.h"
#include "src/cpu/watch.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <pthread.h>

namespace autoamp::cpu {

struct Weight {
	// Under the lock of the table.
	Operand operand;
	uint32_t users;   // products that hold it
	bool isExclusive; // the only user changes what follows; other threads do without it
	bool isSteady;    // see KeptWeight
	bool isWatched;   // `pages` are protected
	uint32_t lastUse;

	// Constant while there is more than one user. Credit and isStale: any thread.
	uint16_t *packed; // null: no copy
	size_t bytes;     // of its memory
	WeightHow how;
	Pages pages;                 // the whole pages inside the operand
	std::atomic<int64_t> credit; // see giveUp
	std::atomic<bool> isStale;   // another weight with common pages has collected what was written

	// Only the exclusive user reads and writes these.
	WeightReason reason; // why there is no copy
	uint64_t lastSample, lastFingerprint;
	uint32_t same;           // consecutive products with this fingerprint
	uint32_t wait, nextWait; // products that are not checked
	uint32_t unexamined;     // the first products, while these were patient
};

namespace {

constexpr uint32_t sameProducts = 3;
constexpr size_t edgeBytes = 4096; // at most, on each side

struct Table {
	static constexpr uint32_t size = 4096, window = 64;

	uint32_t generation;
	pthread_mutex_t mutex;
	uint32_t clock;
	std::atomic<uint32_t> collecting; // threads that collect written pages
	uint32_t hashes[size];            // 0: no weight
	Weight weights[size];
};

class Lock
{
public:
	explicit Lock(Table &table) : table_(table) { pthread_mutex_lock(&table_.mutex); }
	~Lock() { pthread_mutex_unlock(&table_.mutex); }
	Lock(const Lock &) = delete;
	Lock &operator=(const Lock &) = delete;

private:
	Table &table_;
};

// That of this process. A child does not use the table of its parent: a thread of the parent can hold the lock.
Table *table()
{
	static constinit std::atomic<Table *> current{nullptr};
	Table *known = current.load(std::memory_order_acquire);
	const uint32_t now = generation();
	if (known && known->generation == now)
		return known;
	auto *const fresh = static_cast<Table *>(base::mapPages(sizeof(Table)));
	if (!fresh)
		return nullptr;
	fresh->generation = now;
	pthread_mutex_init(&fresh->mutex, nullptr);
	if (current.compare_exchange_strong(known, fresh, std::memory_order_acq_rel))
		return fresh;
	base::unmapPages(fresh, sizeof(Table));
	return known;
}

bool isSame(const Operand &a, const Operand &b)
{
	return a.matrix.source == b.matrix.source && a.matrix.length == b.matrix.length &&
	       a.matrix.lines == b.matrix.lines && a.matrix.ld == b.matrix.ld && a.isInnerContiguous == b.isInnerContiguous;
}

uint32_t hashOf(const Operand &operand)
{
	uint64_t hash = reinterpret_cast<uintptr_t>(operand.matrix.source);
	for (int64_t each : {operand.matrix.length, operand.matrix.lines, operand.matrix.ld})
		hash = base::mix(hash, static_cast<uint64_t>(each));
	return static_cast<uint32_t>(hash >> 32 ^ (operand.isInnerContiguous ? 2 : 0)) | 1;
}

// A place for the operand: its own, an empty one, or that of the operand that was not used for the longest time. Null:
// all are in use. Under the lock.
Weight *find(Table &all, const Operand &operand)
{
	const uint32_t hash = hashOf(operand);
	uint32_t best = Table::size;
	for (uint32_t i = 0; i < Table::window; ++i) {
		const uint32_t at = ((hash >> 1) + i) % Table::size;
		Weight &weight = all.weights[at];
		if (all.hashes[at] == hash && isSame(weight.operand, operand))
			return &weight;
		if (all.hashes[at] == 0) {
			best = at;
			break;
		}
		const bool isFree = weight.users == 0 && !weight.isExclusive && !weight.isSteady;
		if (isFree && (best == Table::size || all.clock - weight.lastUse > all.clock - all.weights[best].lastUse))
			best = at;
	}
	if (best == Table::size)
		return nullptr;
	all.hashes[best] = hash;
	Weight &weight = all.weights[best];
	weight.operand = operand;
	weight.reason = WeightReason::changes;
	weight.lastSample = weight.lastFingerprint = weight.same = weight.wait = weight.unexamined = 0;
	weight.nextWait = 1;
	return &weight;
}

bool makeExclusive(Table &all, Weight &weight, uint32_t users)
{
	const Lock lock(all);
	if (weight.isExclusive || weight.users != users)
		return false;
	return weight.isExclusive = true;
}

void endExclusive(Table &all, Weight &weight)
{
	const Lock lock(all);
	weight.isExclusive = false;
}

uintptr_t beginOf(const Matrix &matrix)
{
	return reinterpret_cast<uintptr_t>(matrix.source);
}
uintptr_t endOf(const Matrix &matrix)
{
	return reinterpret_cast<uintptr_t>(matrix.source + (matrix.lines - 1) * matrix.ld + matrix.length);
}

int64_t pagesIn(const Pages &pages)
{
	return static_cast<int64_t>((pages.end - pages.begin) / 4096);
}

// The parts of the operand outside of the whole pages. Other data of the program share their pages, so these parts are
// compared with a saved copy, which is stored after the packed one.
struct Edges {
	const char *head, *tail;
	size_t headBytes, tailBytes;
	char *saved;

	explicit Edges(const Weight &weight)
	    : head(reinterpret_cast<const char *>(weight.operand.matrix.source)),
	      tail(reinterpret_cast<const char *>(weight.pages.end)),
	      headBytes(weight.pages.begin - beginOf(weight.operand.matrix)),
	      tailBytes(endOf(weight.operand.matrix) - weight.pages.end),
	      saved(reinterpret_cast<char *>(weight.packed) + weight.bytes - 2 * edgeBytes)
	{
	}
	bool areSaved() const
	{
		return std::memcmp(saved, head, headBytes) == 0 && std::memcmp(saved + edgeBytes, tail, tailBytes) == 0;
	}
	void save() const
	{
		std::memcpy(saved, head, headBytes);
		std::memcpy(saved + edgeBytes, tail, tailBytes);
	}
};

// Converts a part of the operand. The panels are narrower than the operand if its lines are in different pages.
void pack(const Weight &weight, int64_t outerBegin, int64_t outerEnd, int64_t innerBegin, int64_t innerEnd)
{
	const Operand &operand = weight.operand;
	outerBegin = outerBegin / panelWidth * panelWidth;
	outerEnd = std::min(panelsOf(outerEnd) * panelWidth, operand.outer());
	innerBegin = innerBegin / 2 * 2;
	innerEnd = std::min((innerEnd + 1) / 2 * 2, operand.inner());
	const int64_t stride = panelStride(operand.pairs());
	const int64_t outerStep = operand.isInnerContiguous ? panelWidth : 8 * panelWidth, innerStep = 1024;
	for (int64_t outer = outerBegin; outer < outerEnd; outer += outerStep)
		for (int64_t inner = innerBegin; inner < innerEnd; inner += innerStep)
			packPanels(operand.part(outer, std::min(outer + outerStep, outerEnd), inner,
			                        std::min(inner + innerStep, innerEnd)),
			           weight.packed + outer / panelWidth * stride + inner / 2 * pairElements, stride);
}

void packAll(const Weight &weight)
{
	pack(weight, 0, weight.operand.outer(), 0, weight.operand.inner());
}

// Converts the elements in an address range. If they are in several lines, all of these lines are converted.
void packRange(const Weight &weight, uintptr_t begin, uintptr_t end)
{
	if (begin >= end)
		return;
	const auto &[source, length, lines, ld] = weight.operand.matrix;
	const auto first = static_cast<int64_t>(begin - beginOf(weight.operand.matrix)) / 4;
	const auto last = static_cast<int64_t>(end - 1 - beginOf(weight.operand.matrix)) / 4;
	const int64_t line = first / ld, lastLine = last / ld;
	int64_t at = 0, atEnd = length;
	if (line == lastLine)
		at = first % ld, atEnd = std::min(last % ld + 1, length);
	if (at >= atEnd)
		return; // in a gap
	if (weight.operand.isInnerContiguous)
		pack(weight, line, lastLine + 1, at, atEnd);
	else
		pack(weight, at, atEnd, line, lastLine + 1);
}

enum class Collected : uint8_t {
	all,
	some, // another thread can have collected the rest
	unknown,
};

// Collects the written pages of a weight. A second weight with some of these pages, such as the same matrix in another
// direction, must not take them for unchanged: it becomes stale, and while a thread collects, others do not rely on
// what they find. If nothing was written, the others stay valid: two directions in turn would otherwise make each other
// stale for good.
template <typename Found>
Collected collectWritten(Table &all, Weight &weight, Found found)
{
	all.collecting.fetch_add(1);
	Pages taken{}; // from the first to the last one
	Collected result = Collected::all;
	if (!collect(weight.pages, [&](const Pages &region) {
		    if (taken.end == 0)
			    taken.begin = region.begin;
		    taken.end = region.end;
		    found(region);
	    })) {
		taken = weight.pages;
		result = Collected::unknown;
	}
	// A thread that collected before this one has either made the weight stale, or still counts.
	if (result == Collected::all && (all.collecting != 1 || weight.isStale))
		result = Collected::some;
	if (taken.end != 0) {
		const Lock lock(all);
		for (uint32_t i = 0; i < Table::size; ++i)
			if (Weight &other = all.weights[i]; all.hashes[i] != 0 && other.isWatched && &other != &weight &&
			                                    other.pages.begin < taken.end && taken.begin < other.pages.end)
				other.isStale = true;
	}
	all.collecting.fetch_sub(1);
	return result;
}

void drop(Table &all, Weight &weight, bool isStillWatched)
{
	if (weight.isWatched && isStillWatched)
		endWatch(weight.pages);
	{
		const Lock lock(all);
		weight.isWatched = false;
	}
	base::unmapPages(weight.packed, weight.bytes);
	letGo(weight.bytes, all.generation);
	weight.packed = nullptr;
	weight.same = 0;
}

// After a copy that did not pay, or could not be made.
void postpone(Weight &weight, WeightReason reason)
{
	weight.reason = reason;
	weight.nextWait = std::min(std::max(weight.nextWait * 4, 16u), 4096u);
	weight.wait = weight.nextWait;
	weight.same = 0;
}

// Copies of memory that the program has unmapped.
void dropUnmapped(Table &all)
{
	for (uint32_t i = 0; i < Table::size; ++i) {
		Weight &weight = all.weights[i];
		if (all.hashes[i] == 0 || !makeExclusive(all, weight, 0))
			continue;
		if (weight.packed && !isMapped(weight.pages))
			drop(all, weight, false);
		endExclusive(all, weight);
	}
}

bool allocate(Table &all, Weight &weight, size_t budget)
{
	const Operand &operand = weight.operand;
	const auto elements = static_cast<size_t>(panelsOf(operand.outer()) * panelStride(operand.pairs()));
	weight.bytes = base::pageRound(elements * 2) + 2 * edgeBytes;
	const size_t most = budget / 4 * 3;
	if (!hold(weight.bytes, most)) {
		dropUnmapped(all);
		if (!hold(weight.bytes, most))
			return false;
	}
	void *const memory = base::mapPages(weight.bytes);
	if (!memory) {
		letGo(weight.bytes, all.generation);
		return false;
	}
	madvise(memory, weight.bytes, MADV_DONTFORK);
	madvise(memory, weight.bytes, MADV_HUGEPAGE);
	weight.packed = static_cast<uint16_t *>(memory);
	return true;
}

// Makes the copy. The pages are protected before they are read, so that a write meanwhile is found later.
void make(Table &all, Weight &weight, WeightMode mode, size_t budget, WeightUse &use)
{
	if (!allocate(all, weight, budget)) {
		use.isRefused = weight.reason != WeightReason::memoryBudget;
		use.bytes = weight.bytes;
		return postpone(weight, WeightReason::memoryBudget);
	}
	const Matrix &matrix = weight.operand.matrix;
	const Pages pages{(beginOf(matrix) + 4095) & ~uintptr_t{4095}, endOf(matrix) & ~uintptr_t{4095}};
	weight.how = mode == WeightMode::frozen ? WeightHow::frozen : WeightHow::watched;
	weight.credit = pagesIn(pages) * 16;
	weight.isStale = false;
	{
		const Lock lock(all);
		weight.pages = pages;
		weight.isWatched = mode == WeightMode::watched;
	}
	const Edges edges(weight);
	if (mode == WeightMode::watched) {
		WeightReason reason = watch(pages);
		if (reason == WeightReason::none && collectWritten(all, weight, [](const Pages &) {}) == Collected::unknown)
			reason = WeightReason::noWatch;
		if (reason != WeightReason::none) {
			drop(all, weight, true);
			return postpone(weight, reason);
		}
	}
	edges.save();
	packAll(weight);
	if (mode == WeightMode::watched)
		if (const WeightReason reason = findUnwatchedWriter(pages); reason != WeightReason::none) {
			drop(all, weight, true);
			return postpone(weight, reason);
		}
	use.isMade = true;
}

// Counts a product with an operand that has no copy. True if it has been the same for long enough. Fingerprints of an
// operand that changes would cost more than they can gain, so after each change more products are not checked.
bool isSameAgain(Weight &weight, uint32_t patience)
{
	if (weight.unexamined < patience) {
		++weight.unexamined;
		return false;
	}
	if (weight.wait > 0) {
		--weight.wait;
		return false;
	}
	const Matrix &matrix = weight.operand.matrix;
	const auto restart = [&] {
		weight.same = 0;
		weight.wait = weight.nextWait;
		weight.nextWait = std::min(weight.nextWait * 4, 256u);
	};
	if (const uint64_t now = sample(matrix); now != weight.lastSample) {
		const bool isFirst = weight.lastSample == 0;
		weight.lastSample = now;
		if (!isFirst)
			restart();
		return false;
	}
	const uint64_t now = fingerprint(matrix);
	if (weight.same > 0 && now != weight.lastFingerprint) {
		restart();
		return false;
	}
	weight.lastFingerprint = now;
	return ++weight.same == sameProducts;
}

// A hit saves 0.16 us for each page, and a written page costs 1.2 us: the fault of the program and its new conversion.
bool paysOff(Weight &weight, int64_t writtenPages)
{
	const int64_t pages = pagesIn(weight.pages);
	weight.credit = std::min(weight.credit + pages - 8 * writtenPages - 512, 64 * pages);
	return weight.credit >= 0;
}

Written stateOf(const Table &all, const Weight &weight)
{
	const Written written = isWritten(weight.pages);
	if (written != Written::no)
		return written;
	// In this order: a thread that collects increments, collects, makes others stale, and decrements.
	return all.collecting == 0 && !weight.isStale && Edges(weight).areSaved() ? Written::no : Written::yes;
}

// Converts what was written since the last conversion. False: the copy is dropped, or not up to date.
bool refresh(Table &all, Weight &weight, WeightUse &use)
{
	const Edges edges(weight);
	const bool isStale = weight.isStale.exchange(false);
	int64_t written = 0;
	const Collected collected = collectWritten(all, weight, [&](const Pages &region) {
		written += pagesIn(region);
		if (!isStale)
			packRange(weight, region.begin, region.end);
	});
	if (collected == Collected::unknown) {
		drop(all, weight, false);
		use.reason = weight.reason = WeightReason::changes;
		return false;
	}
	if (collected == Collected::some) {
		weight.isStale = true;
		use.reason = WeightReason::busy;
		return false;
	}
	edges.save();
	if (isStale) {
		packAll(weight);
	} else {
		packRange(weight, beginOf(weight.operand.matrix), weight.pages.begin);
		packRange(weight, weight.pages.end, endOf(weight.operand.matrix));
	}
	if (const WeightReason reason = findUnwatchedWriter(weight.pages); reason != WeightReason::none) {
		drop(all, weight, true);
		postpone(weight, reason);
		return false;
	}
	if (!paysOff(weight, written)) {
		drop(all, weight, true);
		postpone(weight, WeightReason::changes);
		use.isGivenUp = true;
		return false;
	}
	return use.isRecast = true;
}

} // namespace

KeptWeight::KeptWeight(const Operand &operand, WeightMode mode, size_t budget, uint32_t patience, WeightUse &use)
{
	const Matrix &matrix = operand.matrix;
	if (mode == WeightMode::off) {
		use.reason = WeightReason::weightsOff;
		return;
	}
	if (matrix.ld > matrix.length * 2) {
		use.reason = WeightReason::sparse;
		return;
	}
	Table *const all = table();
	if (!all) {
		use.reason = WeightReason::memoryBudget;
		return;
	}
	{
		const Lock lock(*all);
		Weight *const weight = find(*all, operand);
		if (!weight) {
			use.reason = WeightReason::tooMany;
			return;
		}
		isSteady_ = weight->isSteady;
		weight->lastUse = ++all->clock;
		if (weight->isExclusive) {
			use.reason = WeightReason::busy;
			return;
		}
		++weight->users;
		weight_ = weight;
	}
	useCopy(mode, budget, patience, use);
	if (packed_) {
		use.how = weight_->how;
		use.bytes = weight_->bytes;
	}
}

void KeptWeight::useCopy(WeightMode mode, size_t budget, uint32_t patience, WeightUse &use)
{
	Table &all = *table();
	Weight &weight = *weight_;
	const auto isKeptFor = [&] { return mode == WeightMode::frozen || weight.how == WeightHow::watched; };
	if (weight.packed && isKeptFor() && (mode == WeightMode::frozen || stateOf(all, weight) == Written::no)) {
		if (mode == WeightMode::watched && weight.credit < 64 * pagesIn(weight.pages))
			weight.credit += pagesIn(weight.pages);
		packed_ = weight.packed;
		use.isServed = true;
		return;
	}
	if (!makeExclusive(all, weight, 1)) {
		use.reason = WeightReason::busy;
		return;
	}
	bool isUsable = true;
	if (weight.packed && !isKeptFor()) {
		drop(all, weight, false);
		make(all, weight, mode, budget, use);
	} else if (weight.packed) {
		isUsable = refresh(all, weight, use);
		isSteady_ &= !use.isGivenUp;
	} else if (isSameAgain(weight, patience)) {
		make(all, weight, mode, budget, use);
		isSteady_ =
		    weight.packed || (weight.reason != WeightReason::noWatch && weight.reason != WeightReason::sharedMemory);
	}
	packed_ = isUsable ? weight.packed : nullptr;
	if (!packed_ && use.reason == WeightReason::none)
		use.reason = weight.reason;
	const Lock lock(all);
	weight.isSteady = isSteady_;
	weight.isExclusive = false;
}

KeptWeight::~KeptWeight()
{
	if (!weight_)
		return;
	const Lock lock(*table());
	--weight_->users;
}

} // namespace autoamp::cpu
