// A System V segment: memory that this process shares with the processes to which it passes the id of the segment. A
// process attaches it without a free descriptor and under any limit of file sizes. Main thread.
#pragma once

#include <cstddef>
#include <sys/ipc.h>
#include <sys/shm.h>

namespace autoamp::tool {

class Segment
{
public:
	explicit Segment(size_t bytes) : id_(::shmget(IPC_PRIVATE, bytes, IPC_CREAT | SHM_NORESERVE | 0600))
	{
		if (void *const data = id_ < 0 ? nullptr : ::shmat(id_, nullptr, 0); data != reinterpret_cast<void *>(-1))
			data_ = data;
		// Removed once no process has it attached, also if this one is killed. Until then Linux lets others attach it.
		::shmctl(id_, IPC_RMID, nullptr);
	}
	~Segment()
	{
		if (data_)
			::shmdt(data_);
	}
	Segment(const Segment &) = delete;
	Segment &operator=(const Segment &) = delete;

	int id() const { return id_; }
	void *data() const { return data_; } // zeroed at first; null: this system has no more segments

private:
	int id_;
	void *data_ = nullptr;
};

} // namespace autoamp::tool
