#include "src/trace/write/records.h"

#include "src/base/clock.h"
#include "src/base/pages.h"

#include <algorithm>
#include <ctime>

namespace autoamp::trace {

ClockPair clockPair()
{
	return {base::ticks(), base::nanoseconds(CLOCK_MONOTONIC)};
}

bool Records::create(const char *pattern, const NameParts &parts, uint64_t maxSize, char *why, size_t size)
{
	if (!file_.create(pattern, parts, maxSize, why, size))
		return false;
	generation_++;
	isCapped_ = false;
	records_ = nullptr;
	chunksMade_ = 0;
	return true;
}

void Records::flushNew()
{
	if (isNew_ && !file_.isKillSafe() && isOpen()) {
		isNew_ = false;
		file_.flush(false);
	}
}

void Records::forget()
{
	file_.forget();
	records_ = nullptr;
}

Chunk *Records::beginChunk(char *memory, ChunkKind kind, uint64_t size, uint32_t lane, uint32_t number)
{
	auto *chunk = new (memory) Chunk();
	chunk->kind = kind;
	chunk->size = static_cast<uint32_t>(size);
	chunk->lane = lane;
	chunk->committed.store(sizeof(Chunk), std::memory_order_relaxed);
	chunk->order.store(uint64_t{number} << 32 | chunksMade_++, std::memory_order_relaxed);
	std::atomic_signal_fence(std::memory_order_release);
	chunk->magic = kChunkMagic; // last: the process may be killed in between
	return chunk;
}

bool Records::open(uint64_t need)
{
	need += sizeof(Chunk) + 64; // for alignment
	const uint32_t number = records_ ? records_->number() + 1 : 1;
	if (records_)
		file_.flush(false);
	// The first chunk shares its space with the header.
	const uint64_t size = std::max<uint64_t>(number == 1 ? kRecordChunk - kPage : kRecordChunk, base::pageRound(need));
	char *memory = file_.take(size);
	if (!memory)
		return false;
	records_ = beginChunk(memory, ChunkKind::records, size, 0, number);
	end_ = sizeof(Chunk);
	return true;
}

char *Records::take(uint64_t size, size_t alignment)
{
	if (!isOpen())
		return nullptr;
	auto aligned = [this, alignment] { return (end_ + alignment - 1) & ~uint64_t{alignment - 1}; };
	if ((!records_ || aligned() + size > records_->size) && !open(size))
		return nullptr;
	char *const chunk = reinterpret_cast<char *>(records_);
	if (const uint64_t gap = aligned() - end_) {
		auto *padding = new (chunk + end_) Record();
		padding->size = static_cast<uint32_t>(gap);
		end_ += gap;
	}
	end_ += size;
	return chunk + end_ - size;
}

void Records::commit()
{
	records_->committed.store(end_, std::memory_order_release);
	file_.header()->last = clockPair();
	isNew_ = true;
}

Chunk *Records::nextChunk(Chunk *chunk, ChunkKind kind, uint32_t lane)
{
	if (!isOpen())
		return nullptr;
	char *memory = nullptr;
	if (chunk ? !file_.store(*chunk) : !(memory = file_.takeSingles())) {
		isCapped_ = true;
		return nullptr;
	}
	file_.header()->last = clockPair();
	isNew_ = true;
	if (!chunk)
		return beginChunk(memory, kind, kEventChunk, lane, 1);
	// One store: before it, a reader finds this chunk in the file; after it, the chunk is new and empty.
	chunk->order.store(uint64_t{chunk->number() + 1} << 32 | chunksMade_++, std::memory_order_release);
	return chunk;
}

} // namespace autoamp::trace
