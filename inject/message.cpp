#include "inject/message.h"

#include "inject/environment.h"
#include "inject/front.h"
#include "inject/text.h"
#include "src/base/quiet_write.h"
#include "src/base/run_board.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::front {

namespace {

struct FileIdentity {
	dev_t device;
	ino_t inode;
	bool isOpen;
};
FileIdentity stderrAtStart;

// A system call: the symbol of fstat is newer than GLIBC_2.28.
FileIdentity identify(int descriptor)
{
	struct stat file;
	const bool isOpen = syscall(SYS_fstat, descriptor, &file) == 0;
	return isOpen ? FileIdentity{file.st_dev, file.st_ino, true} : FileIdentity{};
}

void say(const char *start, const char *end)
{
	if (!autoamp_front_has_stderr())
		return;
	const iovec parts[] = {{const_cast<char *>(start), length(start)},
	                       {const_cast<char *>(end), length(end)},
	                       {const_cast<char *>("\n"), 1}};
	base::writeLine(STDERR_FILENO, parts, 3);
}

} // namespace

void rememberStderr()
{
	stderrAtStart = identify(STDERR_FILENO);
}

void sayOff(const char *why)
{
	base::AttachedBoard(valueOf("_AUTOAMP_RUN_BOARD=")).report(base::RunBoard::Failure::off, why);
	say("autoamp: off, cannot load the core: ", why);
}

void sayAbsent(const char *name)
{
	say("autoamp: this program works only without libautoamp-cpu.so: it calls a function that no library has: ", name);
}

} // namespace autoamp::front

using namespace autoamp::front;

extern "C" bool autoamp_front_has_stderr()
{
	const FileIdentity now = identify(STDERR_FILENO);
	return now.isOpen && stderrAtStart.isOpen && now.device == stderrAtStart.device && now.inode == stderrAtStart.inode;
}
