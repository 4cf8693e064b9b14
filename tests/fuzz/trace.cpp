// Any bytes as a trace file: they are read, or refused with a reason, and nothing is reported that they do not contain.
#include "src/trace/read/trace.h"
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

using namespace autoamp;

namespace {

// The file in memory, and its path.
struct File {
	int descriptor = memfd_create("trace", MFD_CLOEXEC);
	std::string path = "/proc/self/fd/" + std::to_string(descriptor);

	void write(const uint8_t *data, size_t size) const
	{
		REQUIRE(ftruncate(descriptor, 0) == 0);
		REQUIRE(pwrite(descriptor, data, size, 0) == static_cast<ssize_t>(size));
	}
};

size_t bytes(const std::vector<trace::PropertyInfo> &properties)
{
	size_t sum = 0;
	for (const trace::PropertyInfo &property : properties)
		sum = std::max({sum, property.name.size(), property.value.size(), property.origin.size()});
	return sum;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const File file;
	file.write(data, size);
	std::string error;
	const auto opened = trace::Trace::open(file.path, error);
	REQUIRE(opened.has_value() == error.empty());
	if (!opened) {
		REQUIRE(error.starts_with(file.path + ": ") && error.find('\n') == error.npos);
		return 0;
	}
	const trace::Trace &trace = *opened;
	REQUIRE(!trace.ended.empty());
	REQUIRE(trace.rows.size() <= size / sizeof(trace::RowRecord));
	for (const trace::RowInfo &row : trace.rows) {
		REQUIRE(trace.row(row.id) == &row);
		REQUIRE(row.entry.size() <= size && row.caller.size() <= size);
		REQUIRE(!(row.flops() < 0) && !(row.estNs < 0) && !(row.estLoweredNs < 0));
	}
	REQUIRE(bytes(trace.config) <= size && bytes(trace.versions) <= size);
	REQUIRE(trace.scaler.size() <= size / sizeof(trace::ScalerRecord));
	REQUIRE(trace.scalerTotals.size() <= size / sizeof(trace::ScalerTotalRecord));
	REQUIRE(trace.gradientScalers.size() <= size / sizeof(trace::GradientScalerRecord));
	REQUIRE(trace.gradientEvents.size() <= size / sizeof(trace::GradientEventRecord));
	REQUIRE(trace.gradientCauses.size() <= size / sizeof(trace::GradientCauseRecord));
	REQUIRE(trace.notes.size() <= size / sizeof(trace::NoteRecord));
	REQUIRE(trace.lanes.size() <= size / sizeof(trace::LaneRecord));
	REQUIRE(trace.kernels.size() <= size / sizeof(trace::KernelTotalRecord));
	REQUIRE(trace.observed.size() <= trace.kernels.size());
	REQUIRE(trace.clocks.size() <= size / sizeof(trace::ClockRecord));
	REQUIRE(trace.diedInside.empty() || trace.ended == "killed");
	size_t events = 0;
	trace.forEachEvent([&](const trace::EventInfo &event) {
		REQUIRE(event.row < trace::kRowLimit && !(event.durationNs < 0));
		++events;
	});
	REQUIRE(events <= size / sizeof(trace::Event));
	size_t kernels = 0;
	trace.forEachKernel([&](const trace::KernelInfo &kernel) {
		REQUIRE(kernel.name.size() <= size && !(kernel.durationNs < 0));
		++kernels;
	});
	REQUIRE(kernels <= size / sizeof(trace::Kernel));
	return 0;
}

// Most of a file is empty: only mutations of a header, a chunk's head or its first records have an effect.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
	constexpr size_t window = 128, pages = 32;
	const size_t page = seed % pages, within = seed / pages % 8;
	const size_t at = within < 4 ? page / 4 * trace::kPage : page / 4 * trace::kPage + (seed / 256 % 2048 & ~7u);
	if (within == 7 || at + window > size)
		return LLVMFuzzerMutate(data, size, most);
	LLVMFuzzerMutate(data + at, window, window);
	return size;
}
