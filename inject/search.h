// Lookups without the names that the front exports. Any thread; they need the loader (haveLoader).
#pragma once

namespace autoamp::front {

// Result of the hooks of dlsym and dlvsym, in registers.
struct Answer {
	void *symbol;
	long isFinal; // 0: jump to the original dlsym or dlvsym
};

// Looks the name up in a loaded file and its dependencies.
void *findLoaded(const char *file, const char *name);

// The result that a lookup has without the front. Returns null if nothing is found; dlerror() may be set or not.
// `path`: the caller's file.
void *findBehind(void *handle, const char *name, const char *version, const char *path);

// Sets dlerror() by repeating the lookup in which findBehind() found nothing.
Answer findNothing(void *handle, const char *name, const char *version);

} // namespace autoamp::front
