#include "src/place/region/stack.h"

#include "src/base/caller_state.h"
#include "src/place/capture_range.h"

#include <algorithm>
#include <new>
#include <pthread.h>
#include <utility>

namespace autoamp::core {

constinit std::atomic<void (*)(uint64_t region)> onWeightsRegionEnd{nullptr};

namespace {

pthread_key_t stackKey;

void endWeightsRegion(uint64_t number)
{
	const auto notify = onWeightsRegionEnd.load(std::memory_order_acquire);
	if (number && notify)
		notify(number);
}

void giveBack(void *state)
{
	const base::CallerState callerState;
	auto *const stack = static_cast<Stack *>(state);
	autoamp_front_thread.regions = nullptr;
	autoamp_front_thread.epoch = regionEpoch.load(std::memory_order_relaxed) - 1; // later calls renew the region
	for (const Frame &frame : stack->frames) {
		if (frame.ticket)
			unshare(frame.ticket);
		if (frame.isCapture)
			endCaptureRange();
	}
	endWeightsRegion(stack->weightsRegion);
	delete stack;
}

// In a forked child only this thread remains, with the regions that it shares.
void afterForkInChild()
{
	const Stack *const stack = knownStack();
	std::erase_if(shared().regions, [stack](const Shared::Part &each) {
		const auto isIts = [&each](const Frame &frame) { return frame.ticket == each.ticket; };
		return !(stack && std::any_of(stack->frames.begin(), stack->frames.end(), isIts));
	});
	shareOthers();
	const auto isOpen = [](const auto &range) { return range.second.name->isCapture; };
	auto open = std::count_if(shared().ranges.begin(), shared().ranges.end(), isOpen);
	if (stack)
		open += std::count_if(stack->frames.begin(), stack->frames.end(),
		                      [](const Frame &frame) { return frame.isCapture; });
	inheritCaptureRanges(static_cast<unsigned>(open));
	unlockRegions();
}

Region above(const Region &below, const Region &own)
{
	return {own.policy ? own.policy : below.policy, below.patterns | own.patterns, own.name ? own.name : below.name,
	        own.name || own.range ? own.range : below.range};
}

// The merged region of a thread's calls on one type: its own regions and the ranges of the process. A thread without
// own regions uses the regions for all threads.
Region together(const Region &own, DeviceType type)
{
	Region all;
	if (isShared) {
		const RegionLock lock;
		const Shared &others = shared();
		uint64_t innermost = 0; // ticket of a region for all threads
		for (const Shared::Part &each : others.regions)
			if (!own.policy && each.region[type].policy)
				all = above(all, each.region[type]), innermost = each.ticket;
		const bool isRangeInner = !innermost || others.ranges.empty() || others.ranges.rbegin()->first > innermost;
		all = isRangeInner ? above(all, others.range) : above(others.range, all);
	}
	all = above(all, own);
	const Configuration &known = *configuration();
	if (!all.policy)
		all.policy = all.patterns ? &known.base : isRegionRequired[type] ? &known.outside : known.none.policy;
	return all;
}

PerDeviceType<uint32_t> idsOf(const PerDeviceType<Region> &own)
{
	PerDeviceType<uint32_t> ids;
	for (const DeviceType type : deviceTypes)
		ids[type] = isIntercepted(type) ? idOf(together(own[type], type)) : 0;
	return ids;
}

// `stack`: null if the thread has none.
void settle(Stack *stack)
{
	front::ThreadBlock &block = autoamp_front_thread;
	block.epoch = regionEpoch.load(std::memory_order_acquire);
	Frame *const frame = stack && !stack->frames.empty() ? &stack->frames.back() : nullptr;
	if (frame && frame->epoch != block.epoch) {
		frame->ids = idsOf(frame->all);
		frame->epoch = block.epoch;
	}
	const PerDeviceType<uint32_t> ids = frame ? frame->ids : idsOf({});
	std::copy(ids.begin(), ids.end(), block.region);
}

void pileUp(Stack &stack, size_t from)
{
	for (size_t i = from; i < stack.frames.size(); i++) {
		Frame &frame = stack.frames[i];
		frame.below = std::exchange(stack.tops[frame.domain], i + 1);
		frame.level = frame.below ? stack.frames[frame.below - 1].height() : 0;
		for (const DeviceType type : deviceTypes)
			frame.all[type] = above(i ? stack.frames[i - 1].all[type] : Region{}, frame.own[type]);
		frame.epoch = regionEpoch.load(std::memory_order_relaxed) - 1;
	}
}

} // namespace

Stack *knownStack()
{
	return static_cast<Stack *>(autoamp_front_thread.regions);
}

void watchForks()
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, [] {
		pthread_key_create(&stackKey, giveBack);
		pthread_atfork(lockRegions, unlockRegions, afterForkInChild);
	});
}

Stack *thisStack()
{
	if (Stack *const known = knownStack())
		return known;
	watchForks();
	auto *const made = new (std::nothrow) Stack;
	if (made) {
		autoamp_front_thread.regions = made;
		pthread_setspecific(stackKey, made);
	}
	return made;
}

void push(Stack &stack, const Frame &frame)
{
	stack.frames.push_back(frame);
	if (frame.setsWeights && !stack.weightsRegion)
		stack.weightsRegion = frame.number;
	pileUp(stack, stack.frames.size() - 1);
	settle(&stack);
}

Frame *innermost(Stack &stack, uint64_t domain)
{
	const auto top = stack.tops.find(domain);
	return top == stack.tops.end() || !top->second ? nullptr : &stack.frames[top->second - 1];
}

void remove(Stack &stack, const Frame *frame)
{
	const auto place = static_cast<size_t>(frame - stack.frames.data());
	const uint64_t ended = frame->setsWeights && frame->number == stack.weightsRegion ? stack.weightsRegion : 0;
	if (frame->ticket)
		unshare(frame->ticket);
	if (frame->isCapture)
		endCaptureRange();
	for (size_t i = stack.frames.size(); i-- > place;)
		stack.tops[stack.frames[i].domain] = stack.frames[i].below;
	stack.frames.erase(stack.frames.begin() + static_cast<std::ptrdiff_t>(place));
	pileUp(stack, place);
	settle(&stack);
	if (ended) {
		const auto next =
		    std::find_if(stack.frames.begin(), stack.frames.end(), [](const Frame &each) { return each.setsWeights; });
		stack.weightsRegion = next == stack.frames.end() ? 0 : next->number;
		endWeightsRegion(ended);
	}
}

int levelOf(Stack &stack, uint64_t domain)
{
	const Frame *const top = innermost(stack, domain);
	return top ? top->height() : 0;
}

void renewRegion()
{
	const base::CallerState callerState;
	settle(knownStack());
}

} // namespace autoamp::core
