// Fast path of a cached call of a CPU BLAS that runs unchanged, as fast_path.h for CUDA libraries. Inlined into each
// wrapper. Uses the state of the calling thread only.
#pragma once

#include "src/call/counted.h"
#include "src/call/span.h"
#include "src/op/blas.h"
#include "src/place/policy_context.h"
#include "src/state/thread.h"

namespace autoamp::core {

inline op::PlainCall plainCall(const op::BlasCall &call)
{
	op::PlainCall plain;
	plain.transa = call.transa, plain.transb = call.transb;
	plain.m = call.m, plain.n = call.n, plain.k = call.k, plain.batchCount = call.batch;
	return plain;
}

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

// Returns null if the call must take the slow path, dispatch().
[[gnu::always_inline]] inline const Thread::Memo *findCached(const Thread &thread, const op::BlasCall &call,
                                                             unsigned index, uint32_t caller)
{
	const Key key = keyOf(call, index, caller, contextOf(thread));
	const Thread::Memo &memo = thread.memos[Key::hash(key.words)];
	if (!memo.isPassThrough)
		return nullptr;
	uint64_t difference = 0; // without branches: the key nearly always matches
	for (unsigned word = 0; word < 11; word++)
		difference |= memo.key.words[word] ^ key.words[word];
	difference |= memo.key.words[Key::size - 2] ^ key.words[Key::size - 2];
	difference |= memo.key.words[Key::size - 1] ^ key.words[Key::size - 1];
	return difference ? nullptr : &memo;
}

} // namespace autoamp::core
