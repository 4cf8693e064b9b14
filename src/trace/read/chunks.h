// Header, chunks and tail of a trace file, in any state that the writer left them in. Any thread.
#pragma once

#include "src/trace/format.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <unistd.h>

namespace autoamp::trace {

// Returns the number of bytes, less than `size` at the end of the file or after an error.
size_t readAt(int file, void *out, size_t size, uint64_t offset);

// Memory for file content, aligned like the memory of the writer.
struct Buffer {
	static constexpr size_t kSize = kMaxChunk;
	struct alignas(64) Block {
		char bytes[64];
	};
	std::unique_ptr<Block[]> blocks{new Block[kSize / sizeof(Block)]};
	char *data() { return blocks[0].bytes; }
};

// The reason why the header, of which `got` bytes were read, is not that of a readable trace; "" if it is.
std::string problemOf(const Header &header, size_t got);

// Returns whether a trace must be read together with its tail: its header requires it, or the header was truncated
// away.
bool needsTail(const Header &header, size_t got);

struct FoundChunk {
	ChunkKind kind;
	uint32_t sequence, number, lane, size; // size: chunk size
	uint32_t committed, bytes;             // bytes that the writer has committed, and those that the file still has
	uint64_t offset;
};

// Shortens a chunk of single events or kernels that ends with zeros: the file was truncated inside it, and later writes
// extended the file again.
void dropZeros(int file, FoundChunk &found);

template <class Visit>
void forEachChunk(int file, uint64_t from, uint64_t fileSize, Visit visit)
{
	for (uint64_t offset = from; offset + sizeof(Chunk) <= fileSize;) {
		Chunk chunk;
		if (readAt(file, static_cast<void *>(&chunk), sizeof chunk, offset) < sizeof chunk)
			break;
		if (chunk.magic != kChunkMagic || chunk.size < kPage || chunk.size > kMaxChunk || chunk.size % kPage) {
			offset += kPage; // never used, or damaged: look for the next one
			continue;
		}
		const auto committed = static_cast<uint32_t>(std::min<uint64_t>(chunk.committed.load(), chunk.size));
		FoundChunk found = {chunk.kind,
		                    chunk.sequence(),
		                    chunk.number(),
		                    chunk.kind == ChunkKind::events ? chunk.lane : 0,
		                    chunk.size,
		                    committed,
		                    static_cast<uint32_t>(std::min<uint64_t>(committed, fileSize - offset)),
		                    offset};
		dropZeros(file, found);
		visit(found);
		offset += chunk.size;
	}
}

// Returns "" if the writer has reused the memory of the chunk meanwhile; the chunk is then in the trace.
std::string readWhole(int file, const FoundChunk &found);

// The tail of a trace, see docs/trace-format.md. Closed with the object.
struct Tail {
	std::string path;
	int file = -1;
	uint64_t size = 0;
	Header header = {};
	std::map<uint32_t, std::string> content; // the chunks, by sequence

	Tail() = default;
	Tail(const Tail &) = delete;
	Tail &operator=(const Tail &) = delete;
	~Tail()
	{
		if (file >= 0)
			close(file);
	}
	// Returns false if the trace has no tail. `its`: the header of the trace, of which `got` bytes are valid.
	bool open(const std::string &trace, const Header &its, size_t got);
};

} // namespace autoamp::trace
