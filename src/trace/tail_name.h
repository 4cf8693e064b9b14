// The name of the tail, the file next to a trace with content that is not in the trace so far: FOLDER/.NAME.tail. It is
// hidden, so that operations on FOLDER/*.aat do not affect it: truncating the tail would end its writer with a SIGBUS.
// Any thread.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstring>

namespace autoamp::trace {

// False: the name does not fit.
inline bool tailName(const char *path, char *out, size_t size)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	const int length = snprintf(out, size, "%.*s.%s.tail", static_cast<int>(name - path), path, name);
	return length > 0 && static_cast<size_t>(length) < size;
}

} // namespace autoamp::trace
