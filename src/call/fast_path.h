// Fast path of a cached call that runs unchanged: a lookup in the thread's memo, the original function, the totals.
// It reads only state that is available without describing the call. Inlined into each wrapper. Uses the state of the
// calling thread only.
#pragma once

#include "src/call/span.h"
#include "src/cuda/context.h"
#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/handle.h"
#include "src/place/policy_context.h"

namespace autoamp::core {

// State of a call in addition to its arguments: current modes of the handle, device and scalars.
struct HandleState {
	op::HandleModes modes;
	int ordinal = 0;
	bool isUsual = true;  // false: the key does not contain everything that the decision depends on
	uint64_t keyWord = 0; // never 0 if isUsual; 0 in an empty memo
};

// Device number if the driver query failed. Such calls have a signature of their own, so that the failure decides
// nothing for later calls.
constexpr uint16_t unknownDevice = 0xffff;

inline int ordinalOf(const cuda::Driver &driver) // device of the current context
{
	int ordinal = 0;
	return cuda::currentDevice(driver, ordinal) ? ordinal : unknownDevice;
}

inline uint64_t pack(int64_t high, int64_t low)
{
	return static_cast<uint64_t>(high) << 32 | (static_cast<uint64_t>(low) & 0xffffffff);
}

inline uint64_t stateOf(int ordinal, int mathMode, unsigned scalars, uint32_t context)
{
	return pack(ordinal << 8 | mathMode, 16 | scalars | int64_t{context} << 8);
}

[[gnu::always_inline]] inline HandleState readHandleState(const op::Entry &entry, const op::Cublas *cublas,
                                                          const cuda::Driver *driver, uint32_t context,
                                                          const op::GemmCall &call)
{
	HandleState handleState;
	// A decision depends on whether each address is non-null and aligned, and on whether host scalars are zero.
	const auto a = reinterpret_cast<uintptr_t>(call.A), b = reinterpret_cast<uintptr_t>(call.B),
	           c = reinterpret_cast<uintptr_t>(call.C);
	const auto alpha = reinterpret_cast<uintptr_t>(call.alpha), beta = reinterpret_cast<uintptr_t>(call.beta);
	// One test for all addresses: a branch for each would cost more. Only 0 - 1 has the highest bit set.
	const bool hasNull = static_cast<int64_t>((a - 1) | (b - 1) | (c - 1) | (alpha - 1) | (beta - 1)) < 0;
	handleState.modes = op::readModes(cublas, call.handle);
	if (driver)
		handleState.ordinal = ordinalOf(*driver);
	handleState.isUsual = !hasNull && !((a | b | c) & (entry.areArrays ? 7 : 3)) && !handleState.modes.status;
	if (!handleState.isUsual)
		return handleState;
	unsigned scalars = handleState.modes.isUnknown ? 4 : 8;
	if (!handleState.modes.isUnknown && !handleState.modes.deviceScalars) {
		if (__builtin_expect(call.groups > 1 && !op::haveSameScalars(call), 0)) {
			handleState.isUsual = false;
			return handleState;
		}
		scalars = call.computeType == op::computeFloat16
		              ? op::isZero(call.alpha, true) | op::isZero(call.beta, true) << 1
		          : call.Atype == op::typeFloat32 ? op::isZero(call.alpha, false) | op::isZero(call.beta, false) << 1
		                                          : 0;
	}
	handleState.keyWord = stateOf(handleState.ordinal, handleState.modes.mathMode, scalars, context);
	return handleState;
}

[[gnu::always_inline]] inline HandleState readHandleState(const op::Entry &, const op::Cublas *,
                                                          const cuda::Driver *driver, uint32_t context,
                                                          const op::PlainCall &)
{
	HandleState handleState;
	if (driver)
		handleState.ordinal = ordinalOf(*driver);
	handleState.keyWord = stateOf(handleState.ordinal, 0, 0, context);
	return handleState;
}

// Calls visit(i, word) for each key word that depends on the arguments, the entry point or the caller. The last word of
// a key is HandleState::keyWord.
template <typename Visit>
[[gnu::always_inline]] inline void eachWord(const op::GemmCall &call, unsigned index, uint32_t caller, Visit visit)
{
	visit(0, static_cast<uint64_t>(call.transa)); // two words: g++ would load a pair wider than the wrapper stored it
	visit(13, static_cast<uint64_t>(call.transb));
	visit(1, static_cast<uint64_t>(call.m));
	visit(2, static_cast<uint64_t>(call.n));
	visit(3, static_cast<uint64_t>(call.k));
	visit(4, static_cast<uint64_t>(call.lda));
	visit(5, static_cast<uint64_t>(call.ldb));
	visit(6, static_cast<uint64_t>(call.ldc));
	visit(7, static_cast<uint64_t>(call.strideA));
	visit(8, static_cast<uint64_t>(call.strideB));
	visit(9, static_cast<uint64_t>(call.strideC));
	visit(10, static_cast<uint64_t>(call.batchCount));
	visit(11, pack(call.Atype, call.Btype));
	visit(12, pack(call.Ctype, call.computeType));
	visit(Key::size - 2, pack(index, caller));
}

template <typename Visit>
[[gnu::always_inline]] inline void eachWord(const op::PlainCall &call, unsigned index, uint32_t caller, Visit visit)
{
	visit(0, pack(call.Atype, call.xType));
	visit(1, static_cast<uint64_t>(call.m));
	visit(2, static_cast<uint64_t>(call.n));
	visit(3, static_cast<uint64_t>(call.k));
	visit(4, static_cast<uint64_t>(call.batchCount));
	visit(13, pack(call.transb, call.transa));
	visit(Key::size - 2, pack(index, caller));
}

template <typename Call>
Key keyOf(const Call &call, unsigned index, uint32_t caller, const HandleState &handleState)
{
	Key key;
	eachWord(call, index, caller, [&](unsigned i, uint64_t word) { key.words[i] = word; });
	key.words[Key::size - 1] = handleState.keyWord;
	return key;
}

// The handle has the stream of the call, unless it is of another kind (cublasXt).
constexpr bool hasStreamInHandle(const op::Entry &entry)
{
	return entry.obstacle != op::Obstacle::host_blocked;
}

bool isCapturing(const op::Cublas &cublas, void *handle);

// Returns null if the call must take the slow path, dispatch().
template <typename Call>
[[gnu::always_inline]] inline const Thread::Memo *
findCached(const Thread &thread, unsigned index, const op::Entry &entry, const void *address, const Call &call)
{
	const Thread::Caller &caller = placeOf(thread, address);
	if (caller.address != address || caller.answer.kind == CallerKind::vendor || !thread.cublas)
		return nullptr;
	const uint32_t context = contextOf(thread, DeviceType::cuda);
	uint64_t hashed[Key::size] = {};
	hashed[Key::size - 1] = uint64_t{context} << 8; // the part of the state that is known before the handle is queried
	eachWord(
	    call, index,
	    caller.answer.id, [&](unsigned i, uint64_t word) __attribute__((always_inline)) { hashed[i] = word; });
	const Thread::Memo &memo = thread.memos[Key::hash(hashed)];
	if (!memo.isPassThrough)
		return nullptr; // before the handle is queried: the slow path queries it again
	const HandleState handleState = readHandleState(entry, thread.cublas, thread.driver, context, call);
	// Without branches: the key nearly always matches. Words that are compile-time constants, such as the strides of an
	// entry point without strides, are equal in every key of that entry point. Word size - 2 identifies the entry
	// point.
	uint64_t difference = memo.key.words[Key::size - 1] ^ handleState.keyWord;
	eachWord(
	    call, index, caller.answer.id, [&](unsigned i, uint64_t word) __attribute__((always_inline)) {
		    if (!__builtin_constant_p(word))
			    difference |= memo.key.words[i] ^ word;
	    });
	return handleState.isUsual && !difference ? &memo : nullptr;
}

template <typename Call, typename Original>
[[gnu::always_inline]] inline auto callOriginal(const Thread &thread, const Thread::Memo &memo, const op::Entry &entry,
                                                const Call &call, Original original)
{
	if (!memo.cell)
		return original();
	const bool isCaptured = __builtin_expect(thread.driver != nullptr, 0) && hasStreamInHandle(entry) && call.handle &&
	                        isCapturing(*thread.cublas, call.handle);
	const Span span(*thread.lane, memo.row, memo.cell);
	const auto status = original();
	span.end(isCaptured);
	return status;
}

} // namespace autoamp::core
