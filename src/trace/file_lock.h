// The lock that marks a trace as being written: its writer holds it as long as it lives. Any thread. isBeingWritten()
// takes no lock, so readers do not mistake each other for writers.
#pragma once

#include <fcntl.h>

namespace autoamp::trace {

inline struct flock wholeFile(short type)
{
	struct flock lock = {};
	lock.l_type = type;
	lock.l_whence = SEEK_SET;
	return lock;
}

// The lock belongs to the open file, not to the process: a close() in a child does not release it.
inline void lockForWriting(int file)
{
	struct flock lock = wholeFile(F_WRLCK);
	fcntl(file, F_OFD_SETLK, &lock);
}

inline bool isBeingWritten(int file)
{
	struct flock lock = wholeFile(F_WRLCK);
	return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

} // namespace autoamp::trace
