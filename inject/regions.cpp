// The functions of autoamp.h, and the NVTX entry. Any thread.
#include "inject/environment.h"
#include "inject/open_core.h"

using namespace autoamp::front;

// Returns null if the core is not open. With `asks`, opens it if necessary: the program requests a region.
static const Regions *regionsOf(bool asks)
{
	const Core *const core = coreOf(asks);
	return core ? core->regions : nullptr;
}

extern "C" int autoamp_enter(const autoamp_region *region, size_t *number)
{
	const Regions *const regions = regionsOf(true);
	return regions ? regions->enter(region, number) : load(decision) ? 0 : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_leave(size_t number)
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->leave(number) : load(decision) ? 0 : AUTOAMP_UNBALANCED;
}

extern "C" int autoamp_push(const autoamp_region *region)
{
	return autoamp_enter(region, nullptr);
}

extern "C" int autoamp_pop()
{
	return autoamp_leave(0);
}

extern "C" int autoamp_require_regions()
{
	return autoamp_require_regions_of(nullptr);
}

extern "C" int autoamp_require_regions_of(const char *device)
{
	const Regions *const regions = regionsOf(true);
	return regions ? regions->require(device) : load(decision) ? 0 : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_current(autoamp_region *region)
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->current(region) : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_active()
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->active() : !load(decision) && !isOff() && !isSet("AUTOAMP_SCOPE=", "regions");
}

extern "C" const char *autoamp_error()
{
	const Regions *const regions = regionsOf(false);
	return regions ? regions->error() : nullptr;
}

extern "C" int InitializeInjectionNvtx2(const void *tables)
{
	const Regions *const regions = regionsOf(true);
	return regions ? regions->receiveRanges(tables) : 0;
}
