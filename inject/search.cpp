#include "inject/search.h"

#include "inject/loader.h"

namespace autoamp::front {

void *findLoaded(const char *file, const char *name)
{
	void *const handle = loader.open(file, RTLD_LAZY | RTLD_NOLOAD);
	void *const found = handle ? autoamp_front_dlsym(handle, name) : nullptr;
	if (handle)
		loader.close(handle); // the application decides how long it stays loaded; captured libraries are pinned
	return found;
}

namespace {

void *look(void *where, const char *name, const char *version)
{
	return version ? autoamp_front_dlvsym(where, name, version) : autoamp_front_dlsym(where, name);
}

} // namespace

// Exporting a name must not make a program believe that CUDA is
// present. A lookup that finds a function of the front therefore continues with the next definition, then with the
// dependencies of the caller's file. Returns null if nothing is found; dlerror() may be set or not.
void *findBehind(void *handle, const char *name, const char *version, const char *path)
{
	if (void *const found = handle == RTLD_NEXT ? nullptr : look(handle, name, version);
	    handle != RTLD_NEXT && !isFront(found))
		return found;
	void *found = look(RTLD_NEXT, name, version);
	if (!found && (found = findLoaded(path, name)))
		loader.error();
	return isFront(found) ? nullptr : found;
}

Answer findNothing(void *handle, const char *name, const char *version)
{
	const bool isPseudo = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
	void *const found = look(isPseudo ? RTLD_NEXT : handle, name, version);
	return {isFront(found) ? look(RTLD_NEXT, name, version) : found, 1};
}

} // namespace autoamp::front
