// The context of a call: one number for the name class of its thread and its region. Any thread, for itself.
#pragma once

#include "src/place/region/stack.h"
#include "src/policy/decide.h"
#include "src/state/thread.h"

namespace autoamp::core {

// 24 bits, the space in a Key: the class of the thread's name in the lowest 8, then the region.
inline uint32_t contextOf(const Thread &thread, DeviceType type)
{
	return thread.nameClass | currentRegion(type) << 8;
}
static_assert(regionBits <= 16);
// The part of the context that decisions depend on: without the range that no rule names.
inline uint32_t decisiveContext(uint32_t context)
{
	return regionAt(context >> 8).decisive << 8 | (context & 0xff);
}
// The context with `(more ranges)` in place of the range that no rule names.
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
