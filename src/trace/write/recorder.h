// Writer of the trace, used by the core while the application runs. Format: docs/trace-format.md. Any thread. Nothing
// here throws, prints (except through base/log) or uses the heap. errno is preserved.
#pragma once

#include "src/trace/write/audits.h"
#include "src/trace/write/events.h"
#include "src/trace/write/gradients.h"
#include "src/trace/write/kernels.h"
#include "src/trace/write/lane.h"
#include "src/trace/write/weights.h"

#include <pthread.h>

namespace autoamp::trace {

// One per process, never destroyed. All functions are rare; none of them is for the hot path.
class Recorder
{
public:
	constexpr Recorder() = default;

	// Creates the file. Called at the first intercepted call, once per process (and again in a forked child). If it
	// returns false, there is one line in the log, and the functions below have no effect.
	bool open(const Options &options);
	// Called at exit. The memory stays valid, because other threads may still count calls. No rows are added
	// afterwards. `status` negative: unknown.
	void close(int status);
	bool isOpen() const { return records_.isOpen(); }
	const char *path() const { return records_.file().path(); } // "" before open

	// Finds or creates a row; also before open(). Cache the result: this function hashes strings under the lock.
	RowId row(const Row &row);
	// Gives the calling thread a lane (null only if memory is short). detach() releases it when the thread ends;
	// another thread can then get it.
	Lane *attach();
	void detach(Lane *lane);

	// Adds a property of the run; also before open(), and kept for forked children. group: run | argument | config |
	// version | device (name: the ordinal). origin: source of a config value. open() itself adds exe, program, host,
	// rank and the command line.
	void property(const char *group, const char *name, const char *value, const char *origin = "");
	// Counts an event exactly per site, operand and kind. The first 64 of each are also recorded as single events.
	void scaler(const ScalerEvent &event);
	// Adds the result of an audit to the totals of its row.
	void audit(const AuditResult &result);
	// Adds events of kept operands to the totals of their row.
	void weights(const WeightCounts &counts);
	// Records an update of a gradient scaler: totals, and up to 1024 events per scaler.
	void gradient(const GradientScaler &scaler, const GradientUpdate &update,
	              std::span<const GradientCause> causes = {});
	// Records an autoamp failure as text ("engine_failed", "cublasLtMatmul status 13"); equal notes are counted. Also
	// for notes that are not failures, such as noteOfPlan with the build time.
	void note(const char *kind, const char *text, RowId row = 0, uint64_t count = 1);

	// Records kernels, in Mode::kernels: totals and, up to the size cap, single kernels. One thread at a time.
	void kernels(std::span<const KernelEvent> events, const KernelLosses &losses);
	// Records CUPTI's own overhead, in Mode::kernels. One thread at a time.
	void overhead(const char *kind, uint64_t ns, bool isEmulated);
	// Records the time on all clocks; cuptiNs: the current CUPTI time. Returns ns since the start of the trace.
	uint64_t clock(uint64_t cuptiNs);

	// Adds calls that were not intercepted: they are in no total.
	void addLost(uint64_t calls);
	// Counters for traces that do not record all calls, one record per file. Null: no file. Any thread may use the
	// counters until a fork.
	CaptureRecord *capture();
	// Counters of kernel launches, in Mode::kernels. Null: there is no file. Any thread, until a fork.
	LaunchRecord *launches();

	// Around fork(2), from the fork handlers of the core. `own`: the lane of the forking thread, may be null. It and
	// all row ids stay valid; the file does not: the child opens its own file at its first call.
	void beforeFork();
	void afterForkInParent();
	void afterForkInChild(Lane *own);

private:
	friend class Lane;
	class Lock;

	// All of these need the lock.
	bool makeFile(const Options &options);
	void completeHeader(const Options &options);
	void addArguments(const char *arguments, size_t size);
	bool writeLane(Lane &lane);
	bool addCell(Lane &lane, RowId row);
	bool newChunk(Lane &lane);

	pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
	bool singles_ = false;
	uint32_t lanesMade_ = 0;
	Lane *lanes_ = nullptr;
	base::Arena arena_;
	Records records_;
	Texts texts_{records_, arena_};
	RowTable rows_{records_, arena_, texts_};
	Properties properties_{records_, texts_};
	Events events_{records_, arena_, texts_, rows_};
	Gradients gradients_{records_, arena_, texts_, rows_};
	Audits audits_{records_, arena_, rows_};
	Weights weights_{records_, arena_, texts_, rows_};
	Kernels kernels_{records_, arena_, texts_, rows_};
};

} // namespace autoamp::trace
