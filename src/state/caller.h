// The caller: the object file that contains a return address. Any thread.
#pragma once

#include <cstdint>

namespace autoamp::core {

enum class CallerKind : uint32_t { application, vendor, solver };

struct CallerAnswer {
	uint32_t id;
	CallerKind kind;
};
CallerAnswer findCaller(const void *address);

// The file's name without its folder; "" for an unknown id. Lives as long as the process.
const char *callerName(uint32_t id);

} // namespace autoamp::core
