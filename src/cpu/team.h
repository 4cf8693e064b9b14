// The threads of one product: those of the OpenMP library that oneDNN uses. A second pool of threads that waits next to
// the program's own makes both slower by half, because OpenMP's threads spin. More than one thread is thus only right
// if the program's BLAS uses the same pool. Any thread; stateless.
#pragma once

#include "src/cpu/dnnl.h"

namespace autoamp::cpu {

// True if `library`, a handle of dlopen, uses the OpenMP library of oneDNN, so that both share one pool.
bool sharesPool(const Dnnl &dnnl, void *library);

// During its lifetime, parallel regions of this thread have `size()` threads. The destructor restores the program's
// number.
class Team
{
public:
	// At most `wanted` threads. One thread inside a parallel region of the program, whose threads are busy, and in a
	// child of the process that opened oneDNN: libgomp would wait for threads that fork() did not copy.
	Team(const Dnnl &dnnl, unsigned wanted);
	~Team();
	Team(const Team &) = delete;
	Team &operator=(const Team &) = delete;

	unsigned size() const { return size_; }

	// Calls work(part, parts) for each part, on one thread each. The runtime may choose fewer parts than size().
	template <typename Work>
	void run(Work work)
	{
		if (size_ == 1)
			return work(0, 1);
		struct Context {
			const OpenMp &openMp;
			Work &work;
		} context{openMp_, work};
		openMp_.parallel(
		    [](void *data) {
			    auto &[openMp, each] = *static_cast<Context *>(data);
			    each(openMp.threadNumber(), openMp.threadCount());
		    },
		    &context, size_, 0);
	}

private:
	const OpenMp &openMp_;
	int before_;
	unsigned size_;
};

} // namespace autoamp::cpu
