// FNV-1a: hashes that stand in files and reports, so they must not change between runs or versions.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace autoamp::base {

constexpr uint64_t kHashSeed = 0xcbf29ce484222325;

constexpr uint64_t hashByte(unsigned char byte, uint64_t hash)
{
	return (hash ^ byte) * 0x100000001b3;
}

inline uint64_t hashBytes(const void *data, size_t size, uint64_t hash = kHashSeed)
{
	for (auto *byte = static_cast<const unsigned char *>(data); size--; ++byte)
		hash = hashByte(*byte, hash);
	return hash;
}

} // namespace autoamp::base
