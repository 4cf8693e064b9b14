// The threads of one product. There are two kinds: the threads of the OpenMP library of the program's BLAS, and our
// own, if the BLAS has threads without OpenMP. A second OpenMP pool would make both slower by half, because its idle
// threads spin. Any thread; stateless.
#pragma once

#include "src/cpu/dnnl.h"
#include "src/cpu/library_threads.h"
#include "src/cpu/workers.h"

namespace autoamp::cpu {

// During its lifetime, parallel regions of oneDNN on this thread have the threads of the team, or one. The destructor
// restores the program's number.
class Team
{
public:
	// At most `wanted` threads. One thread inside a parallel region of the program, whose threads are busy. Also one if
	// oneDNN was opened and uses another OpenMP library, or without hasOpenMpThreads().
	Team(const Dnnl &dnnl, Threads wanted);
	~Team();
	Team(const Team &) = delete;
	Team &operator=(const Team &) = delete;

	unsigned size() const { return workers_.count() + static_cast<unsigned>(openMpThreads_); }

	unsigned mostParts() const { return workers_.count() > 0 ? partsPerThread * size() : size(); }

	// Calls work(part, parts) for each part, of at most mostParts(). The runtime of OpenMP may choose fewer parts than
	// size(); our own threads get more, and take one after the other.
	template <typename Work>
	void run(Work work)
	{
		if (size() == 1)
			return work(0, 1);
		if (workers_.count() > 0)
			return runParts(mostParts(), work);
		struct Context {
			const OpenMp &openMp;
			Work &work;
		} context{openMp_, work};
		openMp_.parallel(
		    [](void *data) {
			    auto &[openMp, each] = *static_cast<Context *>(data);
			    each(openMp.threadNumber(), openMp.threadCount());
		    },
		    &context, size(), 0);
	}

	// callGemm() on all threads. The result has the same bits for each number of our own threads.
	bool gemm(char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *A, int64_t lda,
	          const uint16_t *B, int64_t ldb, float beta, float *C, int64_t ldc);

private:
	static constexpr unsigned partsPerThread = 4;

	template <typename Work>
	void runParts(unsigned parts, const Work &work)
	{
		struct Context {
			unsigned parts;
			const Work &work;
		} context{parts, work};
		workers_.run(
		    parts,
		    [](void *data, unsigned part) {
			    auto &[count, each] = *static_cast<Context *>(data);
			    each(part, count);
		    },
		    &context);
	}

	const Dnnl &dnnl_;
	const OpenMp &openMp_;
	Workers workers_;
	const int before_, openMpThreads_; // numbers of this thread; one if there are workers
};

} // namespace autoamp::cpu
