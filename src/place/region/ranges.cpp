#include "src/place/region/ranges.h"

#include "src/base/caller_state.h"
#include "src/base/log.h"
#include "src/place/capture_range.h"
#include "src/place/region/stack.h"

#include <vector>

namespace autoamp::core {

constexpr size_t rangeLimit = 1u << 16;

const RangeName *findRangeName(std::string_view text)
{
	const base::CallerState callerState;
	return nameOf(text, false);
}

int pushRange(uint64_t domain, const RangeName *name)
{
	const base::CallerState callerState;
	Stack *const stack = thisStack();
	if (!stack)
		return 0;
	const int level = levelOf(*stack, domain);
	Frame frame = {};
	frame.domain = domain;
	for (Region &own : frame.own)
		if (name && name->patterns)
			own = {nullptr, name->patterns, name->text};
		else if (name)
			own.range = name->text;
	frame.isRange = name;
	frame.above = !name;
	Frame *const below = innermost(*stack, domain);
	const bool isTooDeep = name && stack->frames.size() >= depthLimit;
	if (isTooDeep)
		base::log(base::LogLevel::warn, "a thread has %zu open regions; further NVTX ranges are ignored", depthLimit);
	if ((!name || isTooDeep) && below) {
		below->above++;
	} else {
		if ((frame.isCapture = name && name->isCapture))
			beginCaptureRange();
		push(*stack, frame);
	}
	return level;
}

int popRange(uint64_t domain)
{
	const base::CallerState callerState;
	Stack *const stack = knownStack();
	Frame *const frame = stack ? innermost(*stack, domain) : nullptr;
	if (!frame)
		return -1;
	if (frame->above)
		frame->above--;
	else
		remove(*stack, frame);
	if (const Frame *const counter = innermost(*stack, domain); counter && !counter->above && !counter->isRange)
		remove(*stack, counter);
	return levelOf(*stack, domain);
}

uint64_t startRange(uint64_t domain, const RangeName *name)
{
	const base::CallerState callerState;
	if (!name)
		return 1;
	watchForks();
	uint64_t ticket = 0;
	{
		const RegionLock lock;
		Shared &all = shared();
		if (all.ranges.size() < rangeLimit) {
			ticket = all.ranges.emplace(++all.ticketCount, Shared::Range{domain, name}).first->first;
			all.open[name]++;
			renewRange();
		}
	}
	if (ticket) {
		if (name->isCapture)
			beginCaptureRange();
		return ticket;
	}
	base::log(base::LogLevel::warn, "the process has %zu open NVTX ranges; further ones are ignored", rangeLimit);
	return 1;
}

void endRange(uint64_t id)
{
	const base::CallerState callerState;
	const RangeName *name = nullptr;
	{
		const RegionLock lock;
		Shared &all = shared();
		const auto known = all.ranges.find(id);
		if (known == all.ranges.end())
			return;
		name = known->second.name;
		if (!--all.open[name])
			all.open.erase(name);
		all.ranges.erase(known);
		renewRange();
	}
	if (name->isCapture) // not under the lock: CUPTI may be called
		endCaptureRange();
}

void endRanges(uint64_t domain)
{
	const base::CallerState callerState;
	while (popRange(domain) >= 0)
		;
	std::vector<uint64_t> started;
	{
		const RegionLock lock;
		for (const auto &[id, range] : shared().ranges)
			if (range.domain == domain)
				started.push_back(id);
	}
	for (const uint64_t id : started)
		endRange(id);
}

} // namespace autoamp::core
