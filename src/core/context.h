// What a decision knows of a call's surroundings besides the caller: one number, equal where the rules see the same.
// Any thread, of itself.
#pragma once

#include "src/core/process.h"
#include "src/core/region.h"
#include "src/core/thread.h"
#include "src/policy/decide.h"

#include <string_view>

namespace autoamp::core {

// The class of a thread with that name: the rules see the same in two of one class. At most 8 bits.
uint32_t nameClassOf(const Process &process, std::string_view name);

// 24 bits, that is what a key has room for: the class of the thread's name in the lowest 8, then the region.
inline uint32_t contextOf(const Thread &thread)
{
	return thread.nameClass | currentRegion() << 8;
}
static_assert(regionBits <= 16);
// The part of the context that decides: without the range that no rule names.
inline uint32_t decisiveContext(uint32_t context)
{
	return regionAt(context >> 8).decisive << 8 | (context & 0xff);
}
// The same with `(more ranges)` for the range that no rule names.
inline uint32_t withoutRange(uint32_t context)
{
	return regionAt(context >> 8).unnamed << 8 | (context & 0xff);
}
inline const Region &regionOf(uint32_t context)
{
	return regionAt(context >> 8);
}

policy::Where whereOf(uint32_t context, const op::Op &op);

} // namespace autoamp::core
