#include "tools/autoamp/temporary_folder.h"

#include "tools/autoamp/failure.h"

#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

int openFolder(const fs::path &path)
{
	return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Deletes the folders of killed commands of this user.
void removeUnused(const fs::path &place, const std::string &prefix)
{
	std::error_code ignored;
	for (const auto &entry : fs::directory_iterator(place, ignored)) {
		if (!entry.path().filename().string().starts_with(prefix))
			continue;
		const int folder = openFolder(entry.path());
		struct stat status = {};
		if (folder >= 0 && fstat(folder, &status) == 0 && status.st_uid == geteuid() &&
		    flock(folder, LOCK_EX | LOCK_NB) == 0)
			fs::remove_all(entry.path(), ignored);
		::close(folder);
	}
}

} // namespace

TemporaryFolder::TemporaryFolder(const char *command)
{
	std::error_code error;
	const auto place = fs::temp_directory_path(error);
	const auto prefix = fmt::format("autoamp-{}.", command);
	if (!error)
		removeUnused(place, prefix);
	do {
		std::string name = place / (prefix + "XXXXXX");
		if (error || !::mkdtemp(name.data()))
			fail(Status::wrong, "{}: a temporary folder cannot be created", name);
		path = name;
		lock_ = openFolder(path);
		flock(lock_, LOCK_EX);
	} while (!fs::exists(path)); // deleted by another command before it had a lock
}

TemporaryFolder::~TemporaryFolder()
{
	std::error_code ignored;
	fs::remove_all(path, ignored);
	::close(lock_);
}

} // namespace autoamp::tool
