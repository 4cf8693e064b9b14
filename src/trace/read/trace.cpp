#include "src/trace/read/trace.h"

#include "src/trace/read/chunks.h"
#include "src/trace/read/since.h"

#include <cstring>
#include <unistd.h>

namespace autoamp::trace {

double AuditInfo::quantile(double share) const
{
	const auto count = static_cast<double>(measured());
	double seen = 0;
	for (uint32_t i = 0; i < kErrorBuckets && count > 0; ++i) {
		seen += static_cast<double>(histogram[i]);
		if (seen >= share * count && seen > 0) // the middle of the bucket; at most the largest error
			return i == 0 ? std::fmin(most, std::exp2(-23.5)) : std::fmin(most, std::exp2((i - 47.5) / 2));
	}
	return NAN;
}

Trace::File::~File()
{
	if (descriptor >= 0)
		close(descriptor);
}

const RowInfo *Trace::row(uint32_t id) const
{
	const uint32_t at = id < rowIndex_.size() ? rowIndex_[id] : 0;
	return at ? &rows[at - 1] : nullptr;
}

const std::string &Trace::text(uint32_t id) const
{
	static const std::string none;
	auto found = texts_.find(id);
	return found == texts_.end() ? none : found->second;
}

size_t Trace::read(const Place &chunk, char *out) const
{
	if (chunk.content.empty())
		return readAt(file_.descriptor, out, chunk.bytes, chunk.offset);
	memcpy(out, chunk.content.data(), chunk.content.size());
	return chunk.content.size();
}

template <class T, class Visit>
void Trace::forEachIn(const std::vector<Place> &chunks, Visit visit) const
{
	Buffer buffer;
	for (const Place &chunk : chunks) {
		const size_t got = read(chunk, buffer.data());
		auto *thing = reinterpret_cast<const T *>(buffer.data() + sizeof(Chunk));
		const size_t count = got > sizeof(Chunk) ? (got - sizeof(Chunk)) / sizeof(T) : 0;
		for (size_t at = 0; at < count; ++at)
			visit(thing[at], chunk, at);
	}
}

void Trace::forEachEvent(const std::function<void(const EventInfo &)> &visit) const
{
	std::unordered_map<uint32_t, uint64_t> counts; // by lane
	forEachIn<Event>(chunks_, [&](const Event &event, const Place &chunk, size_t at) {
		uint64_t &count = counts[chunk.lane];
		count = chunk.number ? uint64_t{chunk.number - 1} * kEventsInChunk + at + 1 : count + 1;
		visit({static_cast<uint32_t>(event.packed >> 44), chunk.lane, (event.packed >> 40 & eventCaptured) != 0,
		       since(event.start, firstTicks_) * nsPerTick_,
		       static_cast<double>(event.packed & kMaxDuration) * nsPerTick_, uint64_t{chunk.lane} << 32 | count});
	});
}

void Trace::forEachKernel(const std::function<void(const KernelInfo &)> &visit) const
{
	forEachIn<Kernel>(kernelChunks_, [&](const Kernel &kernel, const Place &, size_t) {
		const bool isUpdate = kernel.flags & kernelUpdate;
		visit({text(kernel.name), kernel.row, kernel.device, kernel.stream, isUpdate ? 0 : kernel.call,
		       isUpdate ? static_cast<uint32_t>(kernel.call) : 0, (kernel.flags & kernelOurs) != 0,
		       (kernel.flags & kernelMemory) != 0, (kernel.flags & kernelGraph) != 0,
		       (kernel.flags & kernelOutside) != 0, static_cast<double>(kernel.startNs),
		       static_cast<double>(kernel.endNs - kernel.startNs)});
	});
}

} // namespace autoamp::trace
