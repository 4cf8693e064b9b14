// Fast path of a cached call of a CPU BLAS that runs unchanged, as fast_path.h for CUDA libraries. Inlined into each
// wrapper. Uses the state of the calling thread only.
#pragma once

#include "src/call/interception.h"
#include "src/call/span.h"
#include "src/op/blas.h"
#include "src/place/policy_context.h"
#include "src/state/thread.h"

namespace autoamp::core {

// Everything that the description of a call depends on.
[[gnu::always_inline]] inline Key keyOf(const op::BlasCall &call, unsigned index, uint32_t caller, uint32_t context)
{
	Key key;
	uint32_t alpha, beta;
	std::memcpy(&alpha, &call.alpha, sizeof alpha);
	std::memcpy(&beta, &call.beta, sizeof beta);
	const unsigned flags = call.isRowMajor | call.isInvalid << 1 | call.isMixed << 2 | (alpha << 1 == 0) << 3 |
	                       (beta << 1 == 0) << 4 | (call.As != nullptr) << 5 | 1 << 6;
	key.words[0] = static_cast<uint64_t>(call.transa) | static_cast<uint64_t>(call.transb) << 8;
	key.words[1] = static_cast<uint64_t>(call.m);
	key.words[2] = static_cast<uint64_t>(call.n);
	key.words[3] = static_cast<uint64_t>(call.k);
	key.words[4] = static_cast<uint64_t>(call.lda);
	key.words[5] = static_cast<uint64_t>(call.ldb);
	key.words[6] = static_cast<uint64_t>(call.ldc);
	key.words[7] = static_cast<uint64_t>(call.batch);
	key.words[8] = static_cast<uint64_t>(call.strideA);
	key.words[9] = static_cast<uint64_t>(call.strideB);
	key.words[10] = static_cast<uint64_t>(call.strideC);
	key.words[Key::size - 2] = uint64_t{index} << 32 | caller;
	key.words[Key::size - 1] = uint64_t{context} << 8 | flags;
	return key;
}

[[gnu::always_inline]] inline uint64_t entryWordOf(const op::BlasCall &call, unsigned slot, bool isInside)
{
	uint32_t alpha, beta;
	std::memcpy(&alpha, &call.alpha, sizeof alpha);
	std::memcpy(&beta, &call.beta, sizeof beta);
	return slot | uint64_t{alpha << 1 == 0} << 16 | uint64_t{beta << 1 == 0} << 17 | uint64_t{isInside} << 18 |
	       uint64_t{call.order} << 32;
}

// `narrow`: the call, with integers read as 32 bits: their width is known only after the lookup.
[[gnu::always_inline]] inline unsigned placeOfBlas(const op::BlasCall &narrow, unsigned slot, const void *address)
{
	const auto sizes = static_cast<uint64_t>(narrow.m) + (static_cast<uint64_t>(narrow.n) << 21) +
	                   (static_cast<uint64_t>(narrow.k) << 43);
	return static_cast<unsigned>((sizes + slot + reinterpret_cast<uintptr_t>(address)) * 0x9e3779b97f4a7c15u >> 56);
}

[[gnu::always_inline]] inline bool isSame(const Thread::BlasMemo &memo, const op::BlasCall &call, unsigned slot,
                                          const void *address, uint32_t context, bool isInside)
{
	// Without branches: the call is nearly always the same.
	const auto sizes = (memo.m ^ call.m) | (memo.n ^ call.n) | (memo.k ^ call.k) | (memo.lda ^ call.lda) |
	                   (memo.ldb ^ call.ldb) | (memo.ldc ^ call.ldc);
	return !((reinterpret_cast<uintptr_t>(memo.address) ^ reinterpret_cast<uintptr_t>(address)) |
	         (memo.entry ^ entryWordOf(call, slot, isInside)) | (memo.written ^ call.written) |
	         static_cast<uint64_t>(sizes) | (memo.context ^ context) |
	         (memo.closes ^ __atomic_load_n(&autoamp_cpu_closes, __ATOMIC_ACQUIRE)));
}

// isInside: the call is inside another one. This function sets the identity of the memo.
inline void rememberBlas(Thread &thread, const op::BlasCall &call, const Interception &interception, uint32_t context,
                         bool isInside, Thread::BlasMemo memo)
{
	op::BlasCall narrow = call;
	for (int64_t op::BlasCall::*size : {&op::BlasCall::m, &op::BlasCall::n, &op::BlasCall::k})
		narrow.*size = static_cast<int32_t>(call.*size);
	memo.entry = entryWordOf(call, call.slot, isInside), memo.written = call.written;
	memo.m = call.m, memo.n = call.n, memo.k = call.k;
	memo.lda = call.lda, memo.ldb = call.ldb, memo.ldc = call.ldc;
	memo.context = context, memo.closes = call.closes, memo.isWide = call.isWide;
	memo.address = interception.returnAddress, memo.original = const_cast<void *>(interception.original);
	replace(thread.blasMemos[placeOfBlas(narrow, call.slot, interception.returnAddress)], memo);
}

} // namespace autoamp::core
