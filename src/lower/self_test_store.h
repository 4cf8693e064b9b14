// Results of self-tests in the state directory, so that a later process does not repeat them. Two files for each
// combination of core, driver, device and library: one has the tests that passed, the other one a test that failed. A
// process that passes cannot replace the failure of another one. Any thread; makes no CUDA call.
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

	// Returns the texts that write() stored. A file that is damaged, or that belongs to another user or another
	// combination, counts as empty.
	std::string read() const;
	// Replaces a file in one step. An error has no effect.
	void write(const std::string &text, bool isFailed) const;
	std::string failedPath() const { return path_.empty() ? "" : path_ + ".failed"; } // "": nothing is stored

private:
	std::string key_, path_;
};

} // namespace autoamp::lower
