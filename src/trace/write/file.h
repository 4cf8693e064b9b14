// The trace file, and the memory for its content. Calls of the program store only to that memory: a page of the trace
// file is never mapped, so the file can be truncated or removed at any time. If the file system allows it, the memory
// belongs to a second file, the tail, which survives a SIGKILL and is removed at a clean exit. All functions need the
// owner's lock, unless noted.
#pragma once

#include "src/base/pages.h"
#include "src/trace/format.h"
#include "src/trace/naming.h"

#include <atomic>
#include <cstdint>

namespace autoamp::trace {

class File
{
public:
	enum class State : uint8_t { none, open, stopped, closed };

	// Returns false, with one line in the log and the reason in `why` (`size` bytes), if no file can be created.
	bool create(const char *pattern, const NameParts &parts, uint64_t maxSize, char *why, size_t size);
	// Any thread. If it is not open, there is no memory for new records. Earlier memory stays valid until forget().
	State state() const { return state_.load(std::memory_order_acquire); }
	void giveUp() { state_ = State::stopped; } // no file will be created
	const char *path() const { return file_.path; }
	Header *header() const { return header_; } // null before create()
	// True: a SIGKILL loses nothing. False: flush() must run from time to time.
	bool isKillSafe() const { return isKillSafe_; }

	// Zeroed memory for a chunk of records. Null: no memory or no space on the disk, and the state is stopped.
	char *take(uint64_t size);
	// Zeroed memory for a chunk of single events, kEventChunk bytes. Returns null without space on the disk or beyond
	// the size cap; records continue.
	char *takeSingles();
	// Appends a full chunk of single events to the file and empties its memory. Returns false if there is no space for
	// another chunk. If there was no space for this one, the memory keeps it.
	bool store(Chunk &chunk);
	// Writes the header and the newest records; with `everything`, all records.
	void flush(bool everything);
	int writeHeader(); // 0 or an error number

	// At exit: writes everything and removes the tail, unless other threads are in calls that will still be counted.
	void close(bool isInUse);
	// In a forked child: the memory and both files belong to the parent.
	void forget();

private:
	// An open file whose descriptor the program may have closed. Its number may then be one of the program's files.
	struct Handle {
		int descriptor = -1;
		uint64_t device = 0, inode = 0;
		char path[4096] = {};
		void adopt(int file);
		bool isSame(int file) const;
		int ensure(bool isRecreated); // 0 or an error number
		void close();
	};
	struct Region {
		char *memory;
		uint64_t size;
		bool isSingles;
		uint64_t offset, used; // for records: offset in the file, bytes used
	};
	struct Piece {
		char *memory;
		uint64_t offset;
	};
	bool openTail();
	void removeTail();
	char *mapTail(uint64_t size); // null: the reason is in errno
	int reserve(uint64_t least);  // 0 or an error number, like the next three
	int write(const void *data, uint64_t size, uint64_t offset);
	int writeSingles(const Chunk &chunk);
	void stop(Stopped why, int error);
	void stop(int error);

	std::atomic<State> state_ = State::none;
	bool isKillSafe_ = false;
	Handle file_, tail_;
	uint64_t maxSize_ = 0;
	uint64_t end_ = 0; // end of the last chunk with a place in the file
	uint64_t tailEnd_ = 0;
	uint64_t singles_ = 0; // number of chunks of memory for single events
	uint64_t flushedNs_ = 0;
	int error_ = 0;               // error number of the last failed step
	Region region_ = {};          // region that take() uses; also in regions_
	base::Array<Region> regions_; // all memory
	base::Array<Piece> records_;
	Header *header_ = nullptr;
};

} // namespace autoamp::trace
