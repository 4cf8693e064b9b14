#include "inject/search.h"

#include "inject/loader.h"
#include "inject/object.h"

namespace autoamp::front {

namespace {

struct Listed {
	const char *file;
	Object object = {};
};

int isListed(dl_phdr_info *info, size_t, void *data)
{
	auto &[file, object] = *static_cast<Listed *>(data);
	object = objectOf(*info);
	return object.dynamic && (equal(object.path, file) || equal(object.name(), file));
}

void *findWithoutLoader(const char *file, const char *name, int level = 0)
{
	Listed search = {file};
	if (!loader.iterate(isListed, &search))
		return nullptr;
	const Object &object = search.object;
	void *found = object.place(object.find(name));
	for (const ElfW(Dyn) *entry = object.dynamic; !found && entry->d_tag && level < 3; entry++)
		if (entry->d_tag == DT_NEEDED)
			found = findWithoutLoader(object.table<char>(DT_STRTAB) + entry->d_un.d_val, name, level + 1);
	return found;
}

} // namespace

void *findLoaded(const char *file, const char *name)
{
	if (loader.isBroken)
		return findWithoutLoader(file, name);
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
