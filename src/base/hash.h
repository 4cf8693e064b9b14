// hashBytes: FNV-1a. Files and reports contain it, so it must not change between runs or versions. mix: only for tables
// in memory. Any thread.
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

// Bit 0 of the result is always set, so 0 can mean that there is no hash.
constexpr uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
	return (hash ^ hash >> 32) | 1;
}

} // namespace autoamp::base
