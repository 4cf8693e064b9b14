// Fast path of calls without a lower-precision form (op::isOnlyCounted): one lookup in a per-thread table and one
// addition. It does not query the handle, the driver or the clock. Inlined into each wrapper. Uses the state of the
// calling thread only.
#pragma once

#include "src/call/interception.h"
#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/place/policy_context.h"
#include "src/state/thread.h"

namespace autoamp::core {

[[gnu::always_inline]] inline Thread::Counted keyOfCounted(const op::PlainCall &call, unsigned index,
                                                           const void *caller, uint32_t context)
{
	return {caller,
	        uint64_t{context} << 32 | index,
	        static_cast<uint64_t>(call.transa) << 32 | static_cast<uint32_t>(call.transb),
	        call.m,
	        call.n,
	        call.k,
	        call.batchCount,
	        nullptr};
}

[[gnu::always_inline]] inline unsigned placeOfCounted(const Thread::Counted &key)
{
	const auto sizes =
	    static_cast<uint64_t>(key.m) + (static_cast<uint64_t>(key.n) << 21) + (static_cast<uint64_t>(key.k) << 43);
	return static_cast<unsigned>((sizes + key.entry + reinterpret_cast<uintptr_t>(key.caller)) * 0x9e3779b97f4a7c15u >>
	                             56);
}

// Null: this call must take the slow path, dispatch().
template <unsigned index>
[[gnu::always_inline]] inline trace::Cell *findCounted(const Thread &thread, const op::Entry &entry, const void *caller,
                                                       const op::PlainCall &call)
{
	const Thread::Counted key = keyOfCounted(call, index, caller, contextOf(thread, DeviceType::cuda));
	const Thread::Counted &known = thread.counted[placeOfCounted(key)];
	// Without branches: the key nearly always matches.
	uint64_t difference = (reinterpret_cast<uintptr_t>(known.caller) ^ reinterpret_cast<uintptr_t>(key.caller)) |
	                      (known.entry ^ key.entry);
	if (entry.kind != op::Kind::none)
		difference |=
		    (known.transposes ^ key.transposes) | static_cast<uint64_t>((known.m ^ key.m) | (known.n ^ key.n) |
		                                                                (known.k ^ key.k) | (known.batch ^ key.batch));
	return __builtin_expect(difference == 0, 1) ? known.cell : nullptr;
}

inline void rememberCounted(Thread &thread, const Interception &interception, uint32_t context,
                            const op::PlainCall &call, trace::Cell *cell)
{
	Thread::Counted key = keyOfCounted(call, interception.entryIndex, interception.returnAddress, context);
	key.cell = cell;
	thread.counted[placeOfCounted(key)] = key;
}

} // namespace autoamp::core
