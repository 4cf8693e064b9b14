// The strings of a trace: each is stored once per process and written once per file. All functions need the lock of the
// recorder.
#pragma once

#include "src/base/hash.h"
#include "src/base/pages.h"
#include "src/trace/write/records.h"

#include <cstring>

namespace autoamp::trace {

class Texts
{
public:
	constexpr Texts(Records &records, base::Arena &arena) : records_(records), arena_(arena) {}

	uint32_t intern(const char *text); // 0: empty, or no memory
	bool write(uint32_t id);           // unless this file contains it

private:
	struct Text {
		uint32_t id, length, written; // written: generation of the file that contains it
		char bytes[1];
	};
	Records &records_;
	base::Arena &arena_;
	base::Array<Text *> texts_;
	base::Index<Text> index_;
};

// Finds or makes the entry of a key, which is its beginning. Null: no memory.
template <class Known>
Known *knownOf(base::Index<Known> &index, base::Arena &arena, const uint32_t (&key)[3])
{
	const uint64_t hash = base::hashBytes(key, sizeof key);
	Known *known = index.find(hash, [&](const Known &other) { return memcmp(&other, key, sizeof key) == 0; });
	if (known || !(known = arena.make<Known>()))
		return known;
	memcpy(static_cast<void *>(known), key, sizeof key);
	index.add(hash, known);
	return known;
}

} // namespace autoamp::trace
