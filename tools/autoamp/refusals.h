// Counts the kernels that the emulated device could not run in the processes of one `autoamp run`. The device itself
// counts them (tools/emulated/device/refusals.h), because a program that ends before its first intercepted call has no
// trace. Main thread.
#pragma once

#include "tools/autoamp/launch.h"
#include "tools/autoamp/segment.h"

#include <cstdint>
#include <map>
#include <string>

namespace autoamp::tool {

class Refusals
{
public:
	static constexpr size_t longestName = 8175; // longer ones are cut

	// Passes the counters to the processes that start with `environment`.
	explicit Refusals(Environment &environment);

	// Launches by mangled name; 0: the kernel was only looked up. Empty if there are no kernels or no counters.
	std::map<std::string, uint64_t> read() const;

private:
	Segment segment_;
};

} // namespace autoamp::tool
