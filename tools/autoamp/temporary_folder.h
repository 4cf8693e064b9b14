// A folder for files of a command. Main thread.
#pragma once

#include "tools/autoamp/failure.h"

#include <cstdlib>
#include <filesystem>
#include <string>

namespace autoamp::tool {

// A folder that is deleted with its contents.
class TemporaryFolder
{
public:
	explicit TemporaryFolder(const char *command)
	{
		std::error_code error;
		std::string name = std::filesystem::temp_directory_path(error) / fmt::format("autoamp-{}.XXXXXX", command);
		if (error || !::mkdtemp(name.data()))
			fail(Status::wrong, "{}: a temporary folder cannot be created", name);
		path = name;
	}
	~TemporaryFolder()
	{
		std::error_code ignored;
		std::filesystem::remove_all(path, ignored);
	}
	TemporaryFolder(const TemporaryFolder &) = delete;
	TemporaryFolder &operator=(const TemporaryFolder &) = delete;
	std::filesystem::path path;
};

} // namespace autoamp::tool
