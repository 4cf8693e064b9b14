#include "src/place/region/shared.h"

#include <algorithm>

namespace autoamp::core {

constinit std::atomic<unsigned> regionEpoch{0};
constinit std::atomic<bool> isShared{false};
constinit PerDeviceType<std::atomic<bool>> isRegionRequired{};

constexpr size_t sharedLimit = 256;

Shared &shared()
{
	static auto *const made = new Shared;
	return *made;
}

void shareOthers()
{
	isShared = !shared().regions.empty() || !shared().ranges.empty();
	regionEpoch++;
}

void requireRegion(DeviceType type)
{
	if (isRegionRequired[type])
		return;
	const RegionLock lock;
	isRegionRequired[type] = true;
	regionEpoch++;
}

void renewRange()
{
	Shared &all = shared();
	Region range;
	for (const auto &[name, count] : all.open)
		range.patterns |= name->patterns;
	const auto latest = std::find_if(all.ranges.rbegin(), all.ranges.rend(),
	                                 [](const auto &each) { return each.second.name->patterns != 0; });
	range.name = latest == all.ranges.rend() ? nullptr : latest->second.name->text;
	if (latest != all.ranges.rbegin()) // the innermost is one that no rule names
		range.range = all.ranges.rbegin()->second.name->text;
	if (range.patterns == all.range.patterns && range.name == all.range.name && range.range == all.range.range)
		return;
	all.range = range;
	shareOthers();
}

uint64_t share(const PerDeviceType<Region> &part)
{
	const RegionLock lock;
	Shared &all = shared();
	if (all.regions.size() >= sharedLimit)
		return 0;
	all.regions.push_back({++all.ticketCount, part});
	shareOthers();
	return all.ticketCount;
}

void unshare(uint64_t ticket)
{
	const RegionLock lock;
	if (std::erase_if(shared().regions, [ticket](const Shared::Part &each) { return each.ticket == ticket; }))
		shareOthers();
}

} // namespace autoamp::core
