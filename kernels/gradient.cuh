// The kernels of the gradient scaler (see gradient.h), with the arithmetic of the frameworks bit for bit.
#pragma once

#include "kernels/cast.cuh"
#include "kernels/gradient.h"

namespace autoamp::kernels {

// As isfinite(float). A double is narrowed before the test, as in torch.
__device__ inline bool isFinite(float x)
{
	return (bitsOf(x) & magnitudeMask) < infinityBits;
}
__device__ inline bool isFinite(double x)
{
	return isFinite(static_cast<float>(x));
}

// Conversion between a stored element and the type in which it is multiplied.
template <GradientType type>
struct Element;
template <>
struct Element<GradientType::float32> {
	using Stored = float;
	using Value = float;
	static __device__ float load(float x) { return x; }
	static __device__ float store(float x) { return x; }
};
template <>
struct Element<GradientType::float64> {
	using Stored = double;
	using Value = double;
	static __device__ double load(double x) { return x; }
	static __device__ double store(double x) { return x; }
};
template <>
struct Element<GradientType::float16> {
	using Stored = uint16_t;
	using Value = float;
	static __device__ float load(uint16_t x) { return floatOfHalf(x); }
	static __device__ uint16_t store(float x) { return __half_as_ushort(__float2half_rn(x)); }
};
template <>
struct Element<GradientType::bfloat16> {
	using Stored = uint16_t;
	using Value = float;
	static __device__ float load(uint16_t x) { return floatOf(uint32_t{x} << 16); }
	static __device__ uint16_t store(float x) { return __bfloat16_as_ushort(__float2bfloat16_rn(x)); }
};

// 1 / scale. MindSpore narrows it to the type of the gradients; Paddle divides in double for double gradients.
template <GradientType type>
static __device__ inline typename Element<type>::Value inverseOf(float scale, Arithmetic arithmetic)
{
	using Value = typename Element<type>::Value;
	const double exact = 1.0 / static_cast<double>(scale);
	if (arithmetic == Arithmetic::paddle)
		return static_cast<Value>(exact);
	const Value inverse = static_cast<float>(exact);
	return arithmetic == Arithmetic::mindspore ? Element<type>::load(Element<type>::store(inverse)) : inverse;
}

template <GradientType type>
struct Multiplication {
	using Elements = Element<type>;
	typename Elements::Value factor;
	bool isTestedAfter; // paddle: the result is tested, not the gradient
	bool isFound;

	__device__ typename Elements::Stored operator()(typename Elements::Stored stored)
	{
		const auto value = Elements::load(stored);
		const typename Elements::Stored result = factor == 1 ? stored : Elements::store(value * factor);
		isFound = isFound || !isFinite(isTestedAfter ? Elements::load(result) : value);
		return result;
	}
};

// The elements [begin, end) of a tensor, by all threads of a block. `begin` is a multiple of the chunk.
template <GradientType type>
static __device__ inline void multiply(void *data, uint64_t begin, uint64_t end, Multiplication<type> &work)
{
	using Stored = typename Element<type>::Stored;
	constexpr uint64_t wide = sizeof(uint4) / sizeof(Stored);
	Stored *const elements = static_cast<Stored *>(data);
	uint64_t done = begin;
	if (reinterpret_cast<uintptr_t>(data) % sizeof(uint4) == 0) {
		done = begin + (end - begin) / wide * wide;
		for (uint64_t i = begin + threadIdx.x * wide; i < done; i += blockSize * wide) {
			uint4 *const address = reinterpret_cast<uint4 *>(elements + i);
			uint4 pack = *address;
			Stored x[wide];
			memcpy(x, &pack, sizeof pack);
			AUTOAMP_UNROLL
			for (uint64_t j = 0; j < wide; ++j)
				x[j] = work(x[j]);
			memcpy(&pack, x, sizeof pack);
			*address = pack;
		}
	}
	for (uint64_t i = done + threadIdx.x; i < end; i += blockSize)
		elements[i] = work(elements[i]);
}

// Blocks take the chunks of all tensors in turn. A block finds its next chunk by walking the tensors once.
template <GradientType type>
static __device__ inline void multiplyAll(const Gradients &g)
{
	const float scale = *static_cast<const volatile float *>(&g.state->scale);
	Multiplication<type> work = {g.found ? inverseOf<type>(scale, g.arithmetic) : scale,
	                             g.arithmetic == Arithmetic::paddle, false};
	if (!g.found && g.arithmetic == Arithmetic::mindspore)
		work.factor = Element<type>::load(Element<type>::store(work.factor));
	uint64_t first = 0; // number of chunks of the tensors before this one
	uint64_t next = blockIdx.x;
	for (uint32_t i = 0; i < g.count; ++i) {
		const uint64_t count = g.tensor[i].count, chunks = (count + gradientChunk - 1) / gradientChunk;
		for (; next < first + chunks; next += gridDim.x) {
			const uint64_t begin = (next - first) * gradientChunk;
			const uint64_t end = begin + gradientChunk;
			multiply(g.tensor[i].data, begin, end < count ? end : count, work);
		}
		first += chunks;
	}
	if (g.found && work.isFound)
		*static_cast<volatile float *>(g.found) = 1.0f;
}

__device__ inline void setScale(ScalerState &state, const ScalerRule &rule, double scale)
{
	state.scale = static_cast<float>(scale);
	state.wide = rule.has(ScalerRule::isWide) ? scale : static_cast<double>(state.scale);
}

__device__ inline void changeAfterOverflow(ScalerState &state, const ScalerRule &rule)
{
	const bool countsDown = rule.countsDown();
	int32_t other = state.other + (countsDown ? -1 : 1);
	const bool isReduced =
	    rule.reduces == ScalerRule::Overflows::each || (countsDown ? other <= 0 : other == rule.patience);
	if (isReduced && rule.has(ScalerRule::stops) && state.wide == rule.floor)
		return;
	if (isReduced) {
		const double reduced = rule.has(ScalerRule::divides) ? state.wide / rule.backoff : state.wide * rule.backoff;
		setScale(state, rule, reduced < rule.floor ? rule.floor : reduced);
		other = rule.reduces == ScalerRule::Overflows::inARow ? 0 : rule.has(ScalerRule::keepsLast) ? 1 : other;
	}
	state.tracker = 0;
	state.other = other;
}

__device__ inline void changeAfterCleanStep(ScalerState &state, const ScalerRule &rule)
{
	using Growth = ScalerRule::Growth;
	const int32_t clean = rule.grows == Growth::delayed ? state.tracker : state.tracker + 1;
	const bool isPeriodic = rule.grows >= Growth::periodic;
	const bool isGrowing = isPeriodic                      ? clean > 0 && clean % rule.interval == 0
	                       : rule.grows == Growth::atLeast ? clean >= rule.interval
	                                                       : clean == rule.interval;
	const double grown = state.wide * rule.growth;
	if (isGrowing && (!rule.has(ScalerRule::staysFinite) || isFinite(grown)))
		setScale(state, rule, grown);
	state.tracker = rule.grows == Growth::wrapping ? clean % rule.interval
	                : isGrowing && !isPeriodic     ? 0
	                                               : state.tracker + 1;
	if (isGrowing || rule.reduces != ScalerRule::Overflows::sinceGrowth)
		state.other = rule.countsDown() ? rule.patience : 0;
}

__device__ inline GradientState reportedState(const ScalerState &state, const ScalerRule &rule)
{
	return {state.scale, state.tracker, rule.countsDown() ? state.other : -1};
}

__device__ inline void reportUpdate(const ScalerUpdate &u, const Update &update)
{
	if (!u.ring)
		return;
	const uint64_t index = begin(*u.ring);
	Event &event = u.ring->events[index % ringSize];
	event.kind = EventKind::update;
	event.before = static_cast<int32_t>(u.ticks);
	event.after = static_cast<int32_t>(u.ticks >> 32);
	event.update = update;
	complete(*u.ring, index);
}

// Clears the flags that the program has used since the latest update, and returns the sum of those that count.
__device__ inline float takeFlags(ScalerState &state, const ScalerUpdate &u)
{
	float sum = 0;
	for (uint32_t i = 0; i < scalerOptimizers; ++i)
		for (uint32_t device = 0; (u.used >> i & 1) && device < u.devices; ++device) {
			volatile float &found = state.found[i][device];
			sum += u.optimizers >> i & 1 ? found : 0.0f;
			found = 0;
		}
	return sum;
}

__device__ inline void setState(ScalerState &state, const ScalerUpdate &u)
{
	if (u.set & ScalerUpdate::setScale)
		setScale(state, u.rule, u.scale);
	if (u.set & ScalerUpdate::setTracker)
		state.tracker = u.tracker;
	if (u.set & ScalerUpdate::setOther)
		state.other = u.other;
	if (u.set & ScalerUpdate::clearFlags)
		takeFlags(state, u);
}

__device__ inline void update(const ScalerUpdate &u)
{
	ScalerState &state = *u.state;
	if (u.set) {
		setState(state, u);
		return;
	}
	Update update = {};
	update.before = reportedState(state, u.rule);
	update.foundInf = takeFlags(state, u);
	if (u.rule.has(ScalerRule::lastDecides))
		update.foundInf = state.latest = u.optimizers ? update.foundInf : state.latest;
	const bool isFound = update.foundInf != 0;
	if (u.rule.interval == 0)
		; // the scale is fixed
	else if (isFound)
		changeAfterOverflow(state, u.rule);
	else
		changeAfterCleanStep(state, u.rule);
	update.after = reportedState(state, u.rule);
	update.scaler = u.scaler;
	update.steps = ++state.steps;
	update.skipped = state.skipped += isFound;
	reportUpdate(u, update);
}

} // namespace autoamp::kernels

extern "C" __global__ void __launch_bounds__(autoamp::kernels::blockSize)
    autoamp_scaler_gradients(const __grid_constant__ autoamp::kernels::Gradients g)
{
	using namespace autoamp::kernels;
	if (g.type == GradientType::float32)
		multiplyAll<GradientType::float32>(g);
	else if (g.type == GradientType::float16)
		multiplyAll<GradientType::float16>(g);
	else if (g.type == GradientType::bfloat16)
		multiplyAll<GradientType::bfloat16>(g);
	else
		multiplyAll<GradientType::float64>(g);
}

extern "C" __global__ void autoamp_scaler_update(const __grid_constant__ autoamp::kernels::ScalerUpdate u)
{
	autoamp::kernels::update(u);
}
