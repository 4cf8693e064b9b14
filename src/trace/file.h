// A file that is memory too: pieces of it are given out and stored to, and are in the file whatever happens next.
// Under its owner's lock.
#pragma once

#include "src/base/pages.h"
#include "src/trace/format.h"
#include "src/trace/naming.h"

#include <atomic>
#include <cstdint>
#include <pthread.h>

namespace autoamp::trace {

class File
{
public:
	enum class State : uint8_t { none, open, stopped, closed };

	explicit constexpr File(pthread_mutex_t &lock) : lock_(lock) {}

	// False: one line in the log. isBusy: pieces of kEventChunk will be needed fast, up to maxSize.
	bool create(const char *pattern, const NameParts &parts, uint64_t maxSize, bool isBusy);
	// Any thread. Nothing new is given out unless it is open; what was given out can be stored to for ever.
	State state() const { return state_.load(std::memory_order_acquire); }
	void giveUp() { state_ = State::stopped; } // there will be none
	const char *path() const { return path_; }
	Header *header() const { return header_; } // null before create()

	// Zeroed memory for the next piece, null: the file has ended. isKept: flush() writes it again.
	char *take(uint64_t size, uint64_t &offset, bool isKept);
	// How much is left without asking the system; whether a piece of kEventChunk is below the cap.
	uint64_t rest() const { return isMapped() ? window_.offset + window_.size - next_ : 0; }
	bool hasRoom() const;

	// Not mapped: a place in the file for memory that is used again; a piece that is full; all that is kept.
	bool isMapped() const { return isMapped_; }
	bool place(uint64_t size, uint64_t &offset);
	bool write(const void *data, uint64_t size, uint64_t offset);
	void flush(bool everything);

	uint64_t usedEnd() const { return usedEnd_; } // of all pieces
	void close(uint64_t size);                    // at exit; the file keeps its place in memory
	// In a forked child: the parent's file is the parent's.
	void forget();

private:
	struct Piece {
		char *memory;
		uint64_t offset, size;
	};
	void stop(int error);
	bool isOurs() const;
	bool fits(uint64_t size) const;
	uint64_t windowSize() const;
	bool allocate(Piece &window);
	bool grow(uint64_t need);
	void cut(uint64_t size);

	pthread_mutex_t &lock_;
	std::atomic<State> state_ = State::none;
	bool isMapped_ = false, isBusy_ = false;
	int descriptor_ = -1;
	uint64_t device_ = 0, inode_ = 0; // the application may have closed the descriptor
	uint64_t maxSize_ = 0;
	uint64_t end_ = 0;                // of the place in the file that somebody has
	uint64_t next_ = 0, usedEnd_ = 0; // where the next piece goes; the end of all that were given away
	Piece window_ = {};               // where next_ is
	uint64_t flushedNs_ = 0;
	base::Array<Piece> pieces_; // mapped: windows; else the pieces that are kept
	Header *header_ = nullptr;
	char path_[4096] = {};
};

} // namespace autoamp::trace
