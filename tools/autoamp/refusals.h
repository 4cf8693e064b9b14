// Counts the kernels that the emulated device could not run in the processes of one `autoamp run`. The device itself
// counts them (tools/emulated/device/refusals.h), because a program that ends before its first intercepted call has no
// trace. Main thread.
#pragma once

#include "tools/autoamp/launch.h"

#include <cstdint>
#include <map>
#include <string>

namespace autoamp::tool {

class Refusals
{
public:
	static constexpr size_t longestName = 1007; // longer ones are cut

	// Passes the counters to the processes that start with `environment`.
	explicit Refusals(Environment &environment);
	~Refusals();
	Refusals(const Refusals &) = delete;
	Refusals &operator=(const Refusals &) = delete;

	// Launches by mangled name; 0: the kernel was only looked up. Empty if there are no kernels or no counters.
	std::map<std::string, uint64_t> read() const;

private:
	int file_ = -1;
};

} // namespace autoamp::tool
