// Results of self-tests in the state directory, so that a later process does not repeat them. One file for each
// combination of core, driver, device and library. Any thread; makes no CUDA call.
#pragma once

#include "src/cuda/context.h"

#include <cstdint>
#include <string>

namespace autoamp::lower {

class TestStore
{
public:
	// directory: "" if there is none; nothing is stored then.
	TestStore(const char *directory, const cuda::Driver &driver, const cuda::DeviceFacts &facts, const char *library,
	          uint64_t version);

	// Returns the text that write() stored; empty if there is none, if the file is damaged, or if it belongs to another
	// user or another combination.
	std::string read() const;
	// Replaces the file in one step. An error has no effect.
	void write(const std::string &text) const;
	const char *path() const { return path_.c_str(); } // "": nothing is stored

private:
	std::string key_, path_;
};

} // namespace autoamp::lower
