// Appends records and chunks to the trace file. All functions need the lock of the recorder, unless noted.
#pragma once

#include "src/trace/write/file.h"

#include <atomic>
#include <new>

namespace autoamp::trace {

ClockPair clockPair();

class Records
{
public:
	constexpr Records() = default;

	// Creates a file, which needs other records than the one before. Parameters and result are those of File::create().
	bool create(const char *pattern, const NameParts &parts, uint64_t maxSize, char *why, size_t size);
	File &file() { return file_; }
	const File &file() const { return file_; }
	bool isOpen() const { return file_.state() == File::State::open; }          // any thread
	bool isCapped() const { return isCapped_.load(std::memory_order_relaxed); } // no single events any more; any thread
	uint32_t generation() const { return generation_; }                         // counts the files of this process

	// Space for a record, zeroed except its head. commit() makes the record part of the file.
	template <class T>
	T *append(RecordType type, size_t more = 0)
	{
		const uint64_t size = (sizeof(T) + more + 7) & ~uint64_t{7};
		char *const at = take(size, alignof(T));
		if (!at)
			return nullptr;
		T *const record = new (at) T();
		record->type = type;
		record->size = static_cast<uint32_t>(size);
		return record;
	}
	void commit();
	// A record without other content, part of the file at once. Null: there is no file.
	template <class T>
	T *add(RecordType type)
	{
		T *const record = append<T>(type);
		if (record)
			commit();
		return record;
	}
	// Returns the chunk after `chunk` for single events or kernels, in the same memory. Null: no more of them are
	// recorded.
	Chunk *nextChunk(Chunk *chunk, ChunkKind kind, uint32_t lane);

	// Writes new records to a file that a SIGKILL would otherwise leave without them.
	void flushNew();
	// In a forked child: from here on, nothing is written to the parent's file.
	void forget();

private:
	char *take(uint64_t size, size_t alignment);
	Chunk *beginChunk(char *memory, ChunkKind kind, uint64_t size, uint32_t lane, uint32_t number);
	bool open(uint64_t need);

	File file_;
	std::atomic<bool> isCapped_ = false;
	bool isNew_ = false; // something was recorded since the last flush
	uint32_t generation_ = 0;
	uint32_t chunksMade_ = 0;
	Chunk *records_ = nullptr;
	uint64_t end_ = 0; // end of the newest record in the chunk
};

} // namespace autoamp::trace
