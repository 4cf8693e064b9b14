#include "inject/cpu/openmp.h"

#include "inject/atomics.h"
#include "inject/front.h"
#include "inject/loader.h"

extern "C" {
int (*autoamp_cpu_in_parallel[autoamp::front::openMpLimit + 1])();
}

namespace autoamp::front {

namespace {

constexpr char function[] = "omp_in_parallel";
// libgomp.so.1, libgomp-a34b3233.so.1.0.0 (in wheels), libomp.so.5, libiomp5.so.
constexpr const char *beginnings[] = {"libgomp", "libomp", "libiomp", "libnvomp"};

struct Search {
	unsigned long long before, now; // numbers of objects loaded until the last call, and so far
	char paths[openMpLimit][512];   // of longer paths, and of more libraries, regions are not noticed
	unsigned count;
};

int isOpenMp(dl_phdr_info *info, size_t, void *data)
{
	auto &[before, now, paths, count] = *static_cast<Search *>(data);
	now = info->dlpi_adds;
	if (now == before)
		return 1;
	const Object object = objectOf(*info);
	const size_t size = length(object.path);
	bool isNamed = false;
	for (const char *beginning : beginnings)
		isNamed |= begins(baseName(object.path), beginning);
	if (isNamed && size < sizeof paths[0] && count < openMpLimit && object.find(function)) {
		for (size_t i = 0; i <= size; i++)
			paths[count][i] = object.path[i];
		count++;
	}
	return 0;
}

} // namespace

bool noteOpenMpLibraries()
{
	static unsigned long long known;
	// In a destructor inside dlclose, keeping a library that is being unloaded would end the process.
	if (loader.isBroken || holderOfLoader() == Loading::self)
		return false;
	Search search = {};
	search.before = load(known);
	loader.iterate(isOpenMp, &search);
	for (unsigned i = 0; i < search.count; i++) {
		void *const handle = loader.open(search.paths[i], RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
		const auto found = reinterpret_cast<int (*)()>(handle ? autoamp_front_dlsym(handle, function) : nullptr);
		if (handle)
			loader.close(handle);
		unsigned place = 0;
		while (found && place < openMpLimit && settle(autoamp_cpu_in_parallel[place], found) != found)
			place++;
	}
	if (search.count)
		loader.error(); // clears the error of these lookups, which the application must not see
	__atomic_store_n(&known, search.now, __ATOMIC_RELEASE);
	return true;
}

} // namespace autoamp::front
