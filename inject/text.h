// Functions for text in place of those of libc: the runtime of a sanitizer calls dlsym before it can provide them. Any
// thread.
#pragma once

#include <cstddef>

namespace autoamp::front {

inline bool equal(const char *a, const char *b)
{
	for (; *a && *a == *b; a++, b++)
		;
	return *a == *b;
}

inline bool begins(const char *text, const char *prefix)
{
	for (; *prefix && *text == *prefix; text++, prefix++)
		;
	return !*prefix;
}

inline const char *baseName(const char *path)
{
	const char *name = path;
	for (; *path; path++)
		if (*path == '/')
			name = path + 1;
	return name;
}

inline size_t length(const char *text)
{
	const char *end = text;
	while (*end)
		end++;
	return static_cast<size_t>(end - text);
}

} // namespace autoamp::front
