#include "src/cpu/workers.h"

#include "src/base/futex.h"
#include "src/base/held_signals.h"
#include "src/base/pages.h"
#include "src/cpu/generation.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace autoamp::cpu {

namespace {

// A job has a number other than 0. The parts that remain are taken from one word, which also has the number and the
// count of parts. A thread that is late thus takes none of a job that has ended.
constexpr uint64_t claimOf(uint32_t job, unsigned parts)
{
	return uint64_t{job} << 32 | uint64_t{parts} << 16;
}
constexpr uint32_t jobOf(uint64_t claim)
{
	return static_cast<uint32_t>(claim >> 32);
}
constexpr unsigned partsOf(uint64_t claim)
{
	return claim >> 16 & 0xffff;
}
constexpr unsigned nextOf(uint64_t claim)
{
	return claim & 0xffff;
}

// The caller may stay awake longer than a worker: its product runs.
constexpr int workerSpins = 200, callerSpins = 2000;
constexpr long idleSeconds = 1;
constexpr uint32_t isWaiting = uint32_t{1} << 31; // in WorkerPool::unfinished: the caller sleeps
constexpr size_t stackBytes = size_t{512} << 10;

struct alignas(64) Worker {
	struct WorkerPool *pool;
	std::atomic<uint32_t> job; // the last one posted; 0: there is no thread
	std::atomic<bool> isAsleep;
	std::atomic<pid_t> thread; // 0: it has not begun
	uint32_t placement;        // WorkerPool::placement when its CPUs were set
};

} // namespace

// Lives as long as the process: a late worker may look at it at any time.
struct WorkerPool {
	uint32_t generation; // that of the process that has the threads
	bool isRefused;      // the system started no thread
	uint32_t lastJob;
	uint32_t placement; // counts changes of `cpus`
	cpu_set_t cpus;     // for the workers: those of the calling thread, except the one that it runs on
	alignas(64) std::atomic<uint32_t> products; // that run, with workers or without
	alignas(64) std::atomic<uint64_t> claim;
	std::atomic<void (*)(void *, unsigned)> task;
	std::atomic<void *> context;
	alignas(64) std::atomic<uint32_t> unfinished; // parts, and isWaiting
	Worker workers[255];

	// Takes parts of a job until none is left.
	void work(uint32_t job)
	{
		uint64_t seen = claim.load(std::memory_order_acquire);
		while (jobOf(seen) == job && nextOf(seen) < partsOf(seen)) {
			if (!claim.compare_exchange_weak(seen, seen + 1, std::memory_order_acq_rel, std::memory_order_acquire))
				continue;
			task.load(std::memory_order_relaxed)(context.load(std::memory_order_relaxed), nextOf(seen));
			if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == (isWaiting | 1))
				base::futexWakeAll(&unfinished);
			seen = claim.load(std::memory_order_acquire);
		}
	}

	void wait()
	{
		for (int i = 0; i < callerSpins; ++i) {
			if (unfinished.load(std::memory_order_acquire) == 0)
				return;
			__builtin_ia32_pause();
		}
		uint32_t left = unfinished.fetch_or(isWaiting, std::memory_order_acq_rel) | isWaiting;
		while (left != isWaiting) {
			base::futexWait(&unfinished, static_cast<int>(left));
			left = unfinished.load(std::memory_order_acquire);
		}
	}
};

namespace {

// The next job, or 0 if there was none for a while: the thread then ends.
uint32_t nextJob(Worker &worker, uint32_t last)
{
	for (int i = 0; i < workerSpins; ++i) {
		if (const uint32_t job = worker.job.load(std::memory_order_acquire); job != last)
			return job;
		__builtin_ia32_pause();
	}
	const base::Deadline end(idleSeconds);
	for (;;) {
		worker.isAsleep.store(true); // before the kernel reads `job`; post() accesses both in the other order
		base::futexWait(&worker.job, static_cast<int>(last), end.at());
		if (const uint32_t job = worker.job.load(std::memory_order_acquire); job != last)
			return job;
		uint32_t expected = last;
		if (end.isOver() && worker.job.compare_exchange_strong(expected, 0))
			return 0;
	}
}

void *serve(void *argument)
{
	auto &worker = *static_cast<Worker *>(argument);
	worker.thread.store(gettid());
	prctl(PR_SET_NAME, "autoamp-cpu");
	__builtin_ia32_ldmxcsr(0x1f80); // the default, as on the calling thread
	for (uint32_t job = worker.job.load(std::memory_order_acquire); job != 0; job = nextJob(worker, job))
		worker.pool->work(job);
	return nullptr;
}

bool start(Worker &worker, const cpu_set_t &cpus)
{
	pthread_attr_t attributes;
	if (pthread_attr_init(&attributes) != 0)
		return false;
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attributes, stackBytes);
	pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
	pthread_t thread;
	bool isStarted;
	{
		const base::HeldSignals held; // in the new thread, too: signals of the program are for its own threads
		isStarted = pthread_create(&thread, &attributes, serve, &worker) == 0;
	}
	pthread_attr_destroy(&attributes);
	return isStarted;
}

void post(WorkerPool &pool, Worker &worker, uint32_t job)
{
	if (worker.job.exchange(job) != 0) { // the thread does not end before this job
		const pid_t thread = worker.thread.load();
		if (worker.placement != pool.placement && thread != 0) {
			sched_setaffinity(thread, sizeof pool.cpus, &pool.cpus);
			worker.placement = pool.placement;
		}
		if (worker.isAsleep.exchange(false))
			base::futexWakeAll(&worker.job);
		return;
	}
	worker.pool = &pool;
	worker.isAsleep.store(false);
	worker.thread.store(0);
	worker.placement = pool.placement;
	if (pool.isRefused || !start(worker, pool.cpus)) {
		pool.isRefused = true;
		worker.job.store(0);
	}
}

WorkerPool *poolOfProcess()
{
	static constinit std::atomic<WorkerPool *> current{nullptr};
	const uint32_t now = generation();
	WorkerPool *known = current.load(std::memory_order_acquire);
	if (known && known->generation == now)
		return known;
	void *const pages =
	    base::mapPages(sizeof(WorkerPool)); // zeros; not the heap, which another thread may hold at a clone()
	if (!pages)
		return nullptr;
	WorkerPool *const fresh = new (pages) WorkerPool;
	fresh->generation = now;
	if (current.compare_exchange_strong(known, fresh, std::memory_order_acq_rel))
		return fresh;
	base::unmapPages(pages, sizeof(WorkerPool));
	return known;
}

// A worker on the CPU of the calling thread would only interrupt it, and some kernels wake a thread just there. Returns
// how many CPUs are left.
unsigned place(WorkerPool &pool)
{
	cpu_set_t cpus;
	if (sched_getaffinity(0, sizeof cpus, &cpus) != 0)
		return 0;
	if (const int own = sched_getcpu(); own >= 0)
		CPU_CLR(static_cast<unsigned>(own), &cpus);
	if (!CPU_EQUAL(&cpus, &pool.cpus)) {
		pool.cpus = cpus;
		++pool.placement;
	}
	return static_cast<unsigned>(CPU_COUNT(&cpus));
}

} // namespace

Workers::Workers(unsigned wanted)
{
	if (wanted == 0)
		return;
	pool_ = poolOfProcess();
	if (pool_ && pool_->products.fetch_add(1, std::memory_order_acq_rel) == 0)
		count_ = std::min({wanted, place(*pool_), static_cast<unsigned>(std::size(pool_->workers))});
}

Workers::~Workers()
{
	if (pool_)
		pool_->products.fetch_sub(1, std::memory_order_acq_rel);
}

void Workers::run(unsigned parts, void (*task)(void *, unsigned), void *context)
{
	uint32_t &job = pool_->lastJob;
	if (++job == 0)
		++job;
	pool_->task.store(task, std::memory_order_relaxed);
	pool_->context.store(context, std::memory_order_relaxed);
	pool_->unfinished.store(parts, std::memory_order_relaxed);
	pool_->claim.store(claimOf(job, parts), std::memory_order_release);
	for (unsigned i = 0; i < std::min(count_, parts - 1); ++i)
		post(*pool_, pool_->workers[i], job);
	pool_->work(job);
	pool_->wait();
}

} // namespace autoamp::cpu
