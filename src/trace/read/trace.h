// Reader of trace files, in any state that their writer left them in. Format: docs/trace-format.md. A Trace must be
// used by one thread at a time. A damaged file cannot crash the reader: sizes in the file are checked.
#pragma once

#include "src/trace/read/content.h"

#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

namespace autoamp::trace {

class Trace
{
public:
	// Returns the content of the file, or nothing; `error` is then the reason ("FILE: not an autoamp trace").
	static std::optional<Trace> open(const std::string &path, std::string &error);

	std::string path;
	uint32_t pid = 0, parentPid = 0;
	RunIds run;             // ids of the `autoamp run` commands
	uint32_t number = 0;    // among the processes of run.inner that began a trace, from 1; 0: unknown
	Conclusion conclusion;  // added by `autoamp run`; includes how the process that it started ended
	bool isForked = false;  // forked from a process that had a trace
	double startedNs = 0;   // CLOCK_REALTIME
	std::string ended;      // "exit 0", "exit" (status unknown), "running", "killed" (inside a call), "no exit
	                        // seen" (killed elsewhere, _exit, exec)
	std::string diedInside; // entry of the call in flight when it was killed; "" if none
	bool emulated = false, hasEvents = false;
	bool hasKernels = false;              // kernels were recorded, perhaps none
	std::string host, rank, exe, program; // program: the script's name for an interpreter; rank "": none
	std::string ranks, job;               // number of ranks, and id of their job; "": unknown
	uint64_t jobNumber = 0;               // Header::job
	std::vector<std::string> command;
	std::string launched; // the program and arguments of `autoamp run`, as a shell reads them; "": started without it
	std::string folder;   // working folder of `autoamp run`, or of the process at its first call; "": unknown
	std::vector<PropertyInfo> config, rules, versions; // in the order written
	std::string cpuConstants;                          // those of the cost model, as in policy/cpu_calibration.h
	std::vector<std::string> devices;                  // by ordinal
	std::vector<int> capabilities;                     // by ordinal: 90 for sm_90; 0: unknown
	std::vector<RowInfo> rows;                         // one per signature and decision; skip rows without calls
	std::vector<ScalerInfo> scaler;
	std::vector<ScalerTotal> scalerTotals;
	std::vector<NoteInfo> notes;
	std::vector<KernelTotal> kernels;
	std::vector<ObservedScaler> observed;
	std::vector<GradientScalerInfo> gradientScalers;
	std::vector<GradientEvent> gradientEvents; // in the order written, like the causes
	std::vector<GradientCauseInfo> gradientCauses;
	std::vector<OverheadInfo> overhead;
	std::vector<ClockInfo> clocks;
	std::vector<LaneInfo> lanes;
	std::optional<CaptureInfo> capture;
	std::optional<LaunchInfo> launches; // empty: kernels were not recorded, or the writer is an older version
	Loss loss;

	const RowInfo *row(uint32_t id) const;
	// Visits every single event, reading one chunk at a time. Events of one lane are visited in recorded order.
	void forEachEvent(const std::function<void(const EventInfo &)> &visit) const;
	// Visits every single kernel, in no particular order.
	void forEachKernel(const std::function<void(const KernelInfo &)> &visit) const;

private:
	Trace() = default;
	struct Loader;
	struct Place { // place of a chunk
		uint32_t sequence, number;
		uint64_t offset;
		uint32_t committed, bytes, lane; // as in FoundChunk
		std::string content;             // content of a chunk in the tail, whose place the writer may reuse
	};
	const std::string &text(uint32_t id) const;
	size_t read(const Place &chunk, char *out) const; // `out`: kMaxChunk bytes
	template <class T, class Visit>
	void forEachIn(const std::vector<Place> &chunks, Visit visit) const;
	std::vector<Place> chunks_, kernelChunks_; // of single events and kernels
	std::unordered_map<uint32_t, std::string> texts_;
	std::vector<uint32_t> rowIndex_; // id -> index + 1
	double nsPerTick_ = 0;
	uint64_t firstTicks_ = 0;
	struct File {
		int descriptor = -1;
		File() = default;
		File(File &&other) noexcept : descriptor(std::exchange(other.descriptor, -1)) {}
		File &operator=(File &&other) noexcept
		{
			std::swap(descriptor, other.descriptor);
			return *this;
		}
		~File();
	} file_;
};

} // namespace autoamp::trace
