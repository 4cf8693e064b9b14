// A folder for files of a command. Main thread.
#pragma once

#include <filesystem>

namespace autoamp::tool {

// A folder that is deleted with its contents. If the command is killed, the next one deletes it.
class TemporaryFolder
{
public:
	explicit TemporaryFolder(const char *command);
	~TemporaryFolder();
	TemporaryFolder(const TemporaryFolder &) = delete;
	TemporaryFolder &operator=(const TemporaryFolder &) = delete;
	std::filesystem::path path;

private:
	int lock_; // open folder with a lock: a folder without a lock is not in use
};

} // namespace autoamp::tool
