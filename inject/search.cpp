#include "inject/search.h"

#include "inject/loader.h"
#include "inject/object.h"

namespace autoamp::front {

namespace {

struct Listed {
	const char *file;
	Object object = {};
};

// By its path, the name of the file, or the name by which other objects need it.
int isListed(dl_phdr_info *info, size_t, void *data)
{
	auto &[file, object] = *static_cast<Listed *>(data);
	object = objectOf(*info);
	return object.dynamic &&
	       (equal(object.path, file) || equal(baseName(object.path), file) || equal(object.name(), file));
}

// As dlsym, in the order of the loader: the file, then those that it needs, then those that they need.
void *findWithoutLoader(const char *file, const char *name)
{
	const char *files[128] = {file};
	unsigned count = 1;
	for (unsigned i = 0; i < count; i++) {
		Listed search = {files[i]};
		if (!loader.iterate(isListed, &search))
			continue;
		const Object &object = search.object;
		if (void *const found = object.place(object.find(name)))
			return found;
		for (const ElfW(Dyn) *entry = object.dynamic; entry->d_tag && count < sizeof files / sizeof *files; entry++) {
			if (entry->d_tag != DT_NEEDED)
				continue;
			const char *const needed = object.table<char>(DT_STRTAB) + entry->d_un.d_val;
			unsigned known = 0;
			while (known < count && !equal(files[known], needed))
				known++;
			if (known == count)
				files[count++] = needed;
		}
	}
	return nullptr;
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
