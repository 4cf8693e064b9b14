// The switch functions have no slots and wrappers: a process that uses the switch but no entry point must not open the
// core. The front counts the switches, and the core reads the count.
#include "inject/profiler.h"

#include "inject/fork.h"
#include "inject/loader.h"
#include "inject/object.h"
#include "inject/open_core.h"
#include "inject/slots.h"

namespace autoamp::front {

namespace {

int throwSwitch(unsigned index);
template <unsigned index>
int throwAt()
{
	return throwSwitch(index);
}
// Functions of the runtime and of the driver.
constexpr struct {
	const char *name;
	int (*entry)();
	bool isStart;
	const char *library; // beginning of the names of the files that define it
} switches[] = {{"cudaProfilerStart", throwAt<0>, true, "libcudart"},
                {"cudaProfilerStop", throwAt<1>, false, "libcudart"},
                {"cuProfilerStart", throwAt<2>, true, "libcuda.so"},
                {"cuProfilerStop", throwAt<3>, false, "libcuda.so"}};
constexpr unsigned switchCount = sizeof switches / sizeof *switches;

struct SwitchSearch {
	unsigned index;
	void *found;
};

int hasSwitch(dl_phdr_info *info, size_t, void *data)
{
	auto &[index, found] = *static_cast<SwitchSearch *>(data);
	const Object object = objectOf(*info);
	if (object.dynamic && begins(object.name(), switches[index].library))
		found = object.place(object.find(switches[index].name));
	return found != nullptr;
}

// Finds the original function. An interposer after autoamp stays effective. A library in an RTLD_LOCAL scope is found
// by its name.
void *originalSwitch(unsigned index)
{
	const Resolving resolving;
	SwitchSearch search = {index, nullptr};
	if (resolving.hasLoader && haveLoader()) {
		search.found = autoamp_front_dlsym(RTLD_NEXT, switches[index].name);
		loader.error();
	}
	if (!search.found)
		loader.iterate(hasSwitch, &search);
	return search.found;
}

int throwSwitch(unsigned index)
{
	const bool isStart = switches[index].isStart;
	unsigned count = load(autoamp_front_profiled);
	// A second start without a stop has no effect, as in CUDA.
	while (count % 2 != isStart && !__atomic_compare_exchange_n(&autoamp_front_profiled, &count, count + 1, false,
	                                                            __ATOMIC_SEQ_CST, __ATOMIC_ACQUIRE))
		;
	if (const Core *core = load(decision); core && core->regions)
		core->regions->profilerSwitched();
	auto *const original = reinterpret_cast<int (*)()>(originalSwitch(index));
	autoamp_front_thread.depth++;                 // the runtime's use of the driver switch is not a second switch
	const int status = original ? original() : 3; // "not initialized" in both APIs
	autoamp_front_thread.depth--;
	return status;
}

} // namespace

int (*switchNamed(const char *name))()
{
	for (const auto &each : switches)
		if (equal(each.name, name))
			return each.entry;
	return nullptr;
}

} // namespace autoamp::front

using namespace autoamp::front;

#define SWITCH(name, index)                                                                                            \
	extern "C" AUTOAMP_EXPORT int name()                                                                               \
	{                                                                                                                  \
		return throwSwitch(index);                                                                                     \
	}
SWITCH(cudaProfilerStart, 0)
SWITCH(cudaProfilerStop, 1)
SWITCH(cuProfilerStart, 2)
SWITCH(cuProfilerStop, 3)
#undef SWITCH
