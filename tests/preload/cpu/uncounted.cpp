// A dl_iterate_phdr that does not count loaded and unloaded objects, as older ones and some replacements.
#include <dlfcn.h>
#include <link.h>

using Callback = int(dl_phdr_info *, size_t, void *);

namespace {

struct Request {
	Callback *callback;
	void *data;
};

int report(dl_phdr_info *info, size_t size, void *request)
{
	const auto &[callback, data] = *static_cast<Request *>(request);
	dl_phdr_info uncounted = *info;
	uncounted.dlpi_adds = uncounted.dlpi_subs = 0;
	return callback(&uncounted, size, data);
}

} // namespace

extern "C" int dl_iterate_phdr(Callback *callback, void *data)
{
	static const auto original = reinterpret_cast<int (*)(Callback *, void *)>(dlsym(RTLD_NEXT, "dl_iterate_phdr"));
	Request request = {callback, data};
	return original(report, &request);
}
