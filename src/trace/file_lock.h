// How a reader knows that a trace is still being written: its writer holds a lock for as long as it lives.
// Any thread. Asking takes no lock itself, so readers do not mistake each other for writers.
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

// Belongs to the open file, not to the process: a child's close() does not end it.
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
