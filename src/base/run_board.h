// Memory that `autoamp run` shares with the processes of its run. It holds the number of processes that began a trace,
// and the reason why autoamp could not work in one of them. Front and core, any thread; errno may change.
// The memory is a System V segment, because a process can attach one without a free descriptor and under any limit of
// file sizes. Its owner marks it for removal at once, so that it disappears with the last process that uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace autoamp::base {

// Variable in which `autoamp run` passes its board: SEGMENT:RUN, both in hexadecimal.
constexpr const char *runBoardVariable = "_AUTOAMP_RUN_BOARD";

struct RunBoard {
	enum class Failure : uint32_t { none, off, noTrace };

	uint64_t run; // id of the run: the identifier of a removed segment may have been given to another one
	uint32_t processes;
	Failure failure;      // set after `text`
	uint32_t isTextTaken; // 1 after the first failure: only the first process that fails writes the text
	char text[1004];
};
static_assert(sizeof(RunBoard) == 1024);

// The board of one variable's value, attached as long as this object exists.
class AttachedBoard
{
public:
	explicit AttachedBoard(const char *value)
	{
		uint64_t number[2] = {}; // segment, run
		int field = 0;
		for (; value && *value; value++)
			if (*value == ':' && field == 0)
				field++;
			else
				number[field] =
				    number[field] * 16 + static_cast<uint64_t>(*value <= '9' ? *value - '0' : *value - 'a' + 10);
		shmid_ds facts;
		// System calls: the front uses few symbols of libc.
		if (!number[1] || syscall(SYS_shmctl, number[0], IPC_STAT, &facts) || facts.shm_segsz != sizeof(RunBoard))
			return;
		const long address = syscall(SYS_shmat, number[0], nullptr, 0);
		if (address == -1)
			return;
		board_ = reinterpret_cast<RunBoard *>(address);
		if (board_->run != number[1])
			detach();
	}
	~AttachedBoard() { detach(); }
	AttachedBoard(const AttachedBoard &) = delete;
	AttachedBoard &operator=(const AttachedBoard &) = delete;

	// Counts this process and returns its number, from 1; 0: there is no board of this run.
	uint32_t join(uint64_t run)
	{
		return board_ && board_->run == run ? __atomic_add_fetch(&board_->processes, 1, __ATOMIC_RELAXED) : 0;
	}
	// Only the first failure of a run is stored.
	void report(RunBoard::Failure failure, const char *text)
	{
		if (!board_ || __atomic_exchange_n(&board_->isTextTaken, 1, __ATOMIC_RELAXED))
			return;
		for (size_t i = 0; text[i] && i + 1 < sizeof board_->text; i++)
			board_->text[i] = text[i];
		__atomic_store(&board_->failure, &failure, __ATOMIC_RELEASE);
	}

private:
	void detach()
	{
		if (board_)
			syscall(SYS_shmdt, board_);
		board_ = nullptr;
	}
	RunBoard *board_ = nullptr;
};

} // namespace autoamp::base
