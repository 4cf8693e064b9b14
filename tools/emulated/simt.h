// Runs CUDA kernels on the CPU from their source text: include this file, then the kernels as host C++. Any thread,
// several launches at a time: all state belongs to the calling thread; atomics are real.
//
// The threads of a block run one at a time, in order, each up to its next barrier. Shared memory of a block starts with
// garbage. A missing barrier therefore produces wrong numbers in every run. A thread without barriers costs a function
// call. A thread that waits keeps its stack (a fiber) and is resumed when all threads of the barrier have arrived.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_types.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#ifndef __x86_64__
#error "simt.h switches stacks by hand, on x86-64 only"
#endif

// One section for all shared variables of a translation unit, so that runBlock() can overwrite them all.
#undef __shared__
#define __shared__ static thread_local __attribute__((section("simt_shared")))
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__

inline constinit thread_local uint3 threadIdx{}, blockIdx{};
inline constinit thread_local dim3 blockDim{}, gridDim{};

namespace simt {

[[gnu::visibility("hidden")]] extern thread_local char sharedBegin __asm__("__start_simt_shared");
[[gnu::visibility("hidden")]] extern thread_local char sharedEnd __asm__("__stop_simt_shared");
[[gnu::used]] __shared__ char anyShared; // the linker defines the two symbols only if the section exists

constexpr unsigned warpLanes = 32;

// Saves the callee-saved registers on this stack and continues where `to` was left.
[[gnu::naked, gnu::noinline]] inline void switchStack([[maybe_unused]] void **from, [[maybe_unused]] void *to)
{
	__asm__("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
	        "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
	        "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\t"
	        "popq %rcx\n\tjmp *%rcx"); // not ret: its predicted target would be this function's caller
}

class Machine
{
public:
	using Body = void (*)(const void *kernel);

	static Machine &ofThisThread()
	{
		static thread_local Machine machine;
		return machine;
	}

	void run(dim3 grid, dim3 block, Body body, const void *kernel)
	{
		body_ = body;
		kernel_ = kernel;
		gridDim = grid;
		blockDim = block;
		lanes_.resize(block.x * block.y * block.z);
		for (unsigned i = 0; i < lanes_.size(); ++i)
			lanes_[i].thread = {i % block.x, i / block.x % block.y, i / (block.x * block.y)};
		for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
			for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
				for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x)
					runBlock();
	}

	[[noreturn]] static void fail(const char *what)
	{
		fprintf(stderr, "autoamp emulated: block (%u, %u, %u): %s\n", blockIdx.x, blockIdx.y, blockIdx.z, what);
		abort();
	}

	void waitForBlock() { wait(State::block, 0); }

	// Deposits `value`; returns the value of lane `source` when all lanes of the mask have arrived.
	uint64_t exchange(uint32_t mask, uint64_t value, unsigned source)
	{
		Lane &lane = lanes_[current_];
		lane.value = value;
		lane.source = source;
		wait(State::warp, mask);
		return lanes_[current_].result;
	}
	unsigned laneIndex() const { return current_ % warpLanes; }

private:
	enum class State : uint8_t { fresh, ready, warp, block, done };
	struct Lane {
		uint3 thread;
		State state;
		uint32_t mask;
		unsigned source;
		void *stackPointer;
		uint64_t value, result;
	};

	void runBlock()
	{
		char *shared = &sharedBegin, *end = &sharedEnd;
		// The addresses must not be folded into arithmetic, which does not link in an executable.
		__asm__("" : "+r"(shared), "+r"(end));
		memset(shared, 0xa5, end - shared);
		for (Lane &lane : lanes_)
			lane.state = State::fresh;
		const unsigned count = lanes_.size();
		for (bool isWaiting = true; isWaiting;) {
			isWaiting = false;
			for (unsigned first = 0; first < count; first += warpLanes)
				isWaiting |= runWarp(first, std::min(first + warpLanes, count));
			for (Lane &lane : lanes_) // all live lanes have arrived at the block's barrier
				if (lane.state == State::block)
					lane.state = State::ready;
		}
	}

	// Runs until each lane is done or at the block's barrier. Returns true if a lane is at the barrier.
	bool runWarp(unsigned first, unsigned last)
	{
		do {
			end_ = last;
			for (unsigned i = first; i < last; ++i) {
				if (lanes_[i].state == State::fresh)
					begin(i);
				else if (lanes_[i].state == State::ready)
					resume(i);
			}
		} while (releaseWarp(first, last));
		for (unsigned i = first; i < last; ++i)
			if (lanes_[i].state == State::block)
				return true;
		return false;
	}

	bool releaseWarp(unsigned first, unsigned last)
	{
		bool isReleased = false;
		uint32_t arrived = 0; // lanes whose whole mask has arrived
		for (unsigned i = first; i < last; ++i) {
			Lane &lane = lanes_[i];
			if (lane.state != State::warp)
				continue;
			for (unsigned j = 0; j < warpLanes && !(arrived >> (i - first) & 1); ++j)
				if (lane.mask >> j & 1 && (first + j >= last || lanes_[first + j].mask != lane.mask))
					fail("a lane of the mask did not come to the warp's exchange");
			arrived |= lane.mask;
			if (!(lane.mask >> lane.source & 1))
				fail("a lane asks for the value of one outside the mask");
			lane.result = lanes_[first + lane.source].value;
			isReleased = true;
		}
		for (unsigned i = first; i < last; ++i) {
			if (lanes_[i].state == State::warp) {
				lanes_[i].state = State::ready;
				lanes_[i].mask = 0;
			}
		}
		return isReleased;
	}

	void wait(State state, uint32_t mask)
	{
		const unsigned me = current_;
		Lane &lane = lanes_[me];
		lane.state = state;
		lane.mask = mask;
		switchStack(&lane.stackPointer, scheduler_);
		setCurrent(me);
	}

	void setCurrent(unsigned index)
	{
		current_ = index;
		threadIdx = lanes_[index].thread;
	}

	void resume(unsigned index)
	{
		switchStack(&scheduler_, lanes_[index].stackPointer);
		reclaim();
	}

	// The carrier runs the fresh lanes of a warp one after the other on one stack. A lane that waits keeps that stack;
	// the next lane begins on another stack.
	void begin(unsigned index)
	{
		next_ = index;
		if (free_.empty())
			free_.push_back(newStack());
		starting_ = free_.back();
		free_.pop_back();
		void **top = static_cast<void **>(starting_);
		top[-2] = reinterpret_cast<void *>(&carrier); // return address of the first switch, aligned as after a call
		switchStack(&scheduler_, top - 8);            // the initial values of the six registers do not matter
		reclaim();
	}

	static void carrier()
	{
		Machine &machine = ofThisThread();
		void *const stack = machine.starting_;
		while (machine.next_ < machine.end_) {
			const unsigned index = machine.next_++;
			machine.setCurrent(index);
			machine.lanes_[index].mask = 0;
			machine.body_(machine.kernel_);
			machine.lanes_[index].state = State::done;
		}
		machine.finished_ = stack;
		void *unused;
		switchStack(&unused, machine.scheduler_);
		__builtin_unreachable();
	}

	void reclaim()
	{
		if (finished_)
			free_.push_back(finished_);
		finished_ = nullptr;
	}

	// The tops are staggered; stacks at equal distances would share a few sets of the cache.
	void *newStack()
	{
		constexpr size_t size = 32768, stagger = 7 * 64;
		memory_.push_back(std::make_unique_for_overwrite<char[]>(size));
		const uintptr_t top = reinterpret_cast<uintptr_t>(memory_.back().get()) + size - memory_.size() % 8 * stagger;
		return reinterpret_cast<void *>(top & ~uintptr_t{63});
	}

	std::vector<Lane> lanes_;
	std::vector<std::unique_ptr<char[]>> memory_;
	std::vector<void *> free_;
	void *scheduler_ = nullptr, *starting_ = nullptr, *finished_ = nullptr;
	unsigned current_ = 0, next_ = 0, end_ = 0;
	Body body_ = nullptr;
	const void *kernel_ = nullptr;
};

// Runs `kernel()` once per thread of the grid.
template <class Kernel>
void run(dim3 grid, dim3 block, const Kernel &kernel)
{
	Machine::ofThisThread().run(
	    grid, block, [](const void *k) { (*static_cast<const Kernel *>(k))(); }, &kernel);
}

} // namespace simt

inline void __syncthreads()
{
	simt::Machine::ofThisThread().waitForBlock();
}

template <class T>
T __shfl_xor_sync(uint32_t mask, T value, unsigned laneMask)
{
	static_assert(sizeof(T) <= sizeof(uint64_t) && std::is_trivially_copyable_v<T>);
	simt::Machine &machine = simt::Machine::ofThisThread();
	uint64_t word = 0;
	memcpy(&word, &value, sizeof value);
	word = machine.exchange(mask, word, machine.laneIndex() ^ laneMask);
	memcpy(&value, &word, sizeof value);
	return value;
}

template <class T>
T atomicAdd(T *address, T value)
{
	return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
}

inline float atomicAdd(float *address, float value)
{
	float seen;
	__atomic_load(address, &seen, __ATOMIC_RELAXED);
	for (float sum = seen + value;
	     !__atomic_compare_exchange(address, &seen, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
		sum = seen + value;
	return seen;
}

template <class T>
T atomicMax(T *address, T value)
{
	T seen = __atomic_load_n(address, __ATOMIC_RELAXED);
	while (seen < value &&
	       !__atomic_compare_exchange_n(address, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
	}
	return seen;
}

template <class T>
T atomicMin(T *address, T value)
{
	T seen = __atomic_load_n(address, __ATOMIC_RELAXED);
	while (value < seen &&
	       !__atomic_compare_exchange_n(address, &seen, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
	}
	return seen;
}

using std::max;
using std::min;
inline void __threadfence()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline void __threadfence_system()
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

namespace simt {

// The GPU faults on accesses that are not aligned to their size; x86 does not.
template <class T>
T *aligned(T *address)
{
	if (reinterpret_cast<uintptr_t>(address) % sizeof(T))
		Machine::fail("misaligned address");
	return address;
}

} // namespace simt

template <class T>
T __ldcs(const T *address)
{
	return *simt::aligned(address);
}

template <class T>
void __stwb(T *address, T value)
{
	*simt::aligned(address) = value;
}

namespace simt {

// Conversion without branches. The vendor's host conversion has branches that every other element mispredicts, which
// costs more than the rest of a cast.
inline __half floatToHalf(float x)
{
	int32_t bits;
	memcpy(&bits, &x, sizeof bits);
	const int32_t magnitude = bits & 0x7fffffff;
	// Normal halves: nearest, ties to even by the last remaining bit; too large becomes Inf.
	const int32_t rounded = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
	const int32_t normal = rounded < 0x7c00 ? rounded : 0x7c00;
	// Subnormal halves: after adding 1/2, the last bit of the float has the weight of their last bit, so the addition
	// rounds.
	float sum;
	memcpy(&sum, &magnitude, sizeof sum);
	sum += 0.5f;
	int32_t subnormal;
	memcpy(&subnormal, &sum, sizeof subnormal);
	const int32_t isSubnormal = -(magnitude < 0x38800000);
	const int32_t finite = (isSubnormal & (subnormal - 0x3f000000)) | (~isSubnormal & normal);
	const int32_t isNan = -(magnitude > 0x7f800000);
	return __ushort_as_half((isNan & 0x7fff) | (~isNan & (finite | (bits >> 16 & 0x8000))));
}

inline __nv_bfloat16 floatToBfloat16(float x)
{
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	const uint32_t magnitude = bits & 0x7fffffff;
	const uint32_t rounded = (magnitude + 0x7fff + (magnitude >> 16 & 1)) >> 16;
	return __ushort_as_bfloat16(magnitude > 0x7f800000 ? 0x7fff : rounded | (bits >> 16 & 0x8000));
}

inline __nv_bfloat162 floatsToBfloat162(float x, float y)
{
	return {floatToBfloat16(x), floatToBfloat16(y)};
}

} // namespace simt

#define __float2half_rn simt::floatToHalf
#define __float2bfloat16_rn simt::floatToBfloat16
#define __floats2bfloat162_rn simt::floatsToBfloat162
