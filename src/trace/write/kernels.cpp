#include "src/trace/write/kernels.h"

#include "src/trace/write/counter.h"

#include <algorithm>

namespace autoamp::trace {

void Kernels::add(std::span<const KernelEvent> events, const KernelLosses &losses, bool areSingles)
{
	if (!losses_ && !(losses_ = records_.add<KernelLossRecord>(RecordType::kernelLoss)))
		return;
	trace::add(losses_->unattributed, losses.unattributed);
	trace::add(losses_->invalid, losses.invalid);
	trace::add(losses_->dropped, losses.dropped);
	for (const KernelEvent &event : events)
		add(event, areSingles && !records_.isCapped());
}

void Kernels::add(const KernelEvent &event, bool isSingle)
{
	constexpr uint16_t kindFlags = kernelOurs | kernelMemory | kernelEmulated;
	const uint32_t name = texts_.intern(event.name), kind = event.flags & kindFlags;
	const uint32_t key[3] = {event.row, name, uint32_t{event.device} << 16 | kind};
	KnownKernel *const known = knownOf(index_, arena_, key);
	if (!known)
		return;
	if (known->written != records_.generation()) {
		texts_.write(name);
		rows_.write(event.row);
		known->total = records_.append<KernelTotalRecord>(RecordType::kernelTotal);
		if (!known->total)
			return;
		known->total->row = event.row;
		known->total->name = name;
		known->total->device = event.device;
		known->total->flags = static_cast<uint16_t>(kind);
		records_.commit();
		known->written = records_.generation();
	}
	KernelTotalRecord &total = *known->total;
	trace::add(total.count, 1);
	if (!event.endNs) // time unknown
		return;
	trace::add(total.ns, event.endNs - event.startNs);
	if (const uint64_t first = total.firstNs.load(std::memory_order_relaxed); !first || event.startNs < first)
		total.firstNs.store(event.startNs, std::memory_order_relaxed);
	if (event.startNs > total.lastNs.load(std::memory_order_relaxed))
		total.lastNs.store(event.startNs, std::memory_order_relaxed);
	uint64_t used = chunk_ ? chunk_->committed.load(std::memory_order_relaxed) : kEventChunk;
	if (isSingle && used + sizeof(Kernel) > kEventChunk) {
		Chunk *const chunk = records_.nextChunk(chunk_, ChunkKind::kernels, 0);
		isSingle = chunk != nullptr;
		if (chunk) {
			chunk_ = chunk;
			used = sizeof(Chunk);
		}
	}
	if (!isSingle) {
		trace::add(losses_->singles, 1);
		return;
	}
	*reinterpret_cast<Kernel *>(reinterpret_cast<char *>(chunk_) + used) = {
	    event.startNs, event.endNs, event.call, name, event.row, event.stream, event.device, event.flags};
	chunk_->committed.store(used + sizeof(Kernel), std::memory_order_release);
}

void Kernels::addOverhead(const char *kind, uint64_t ns, bool isEmulated)
{
	const uint32_t name = texts_.intern(kind);
	const auto known = std::find_if(std::begin(overheads_), std::end(overheads_),
	                                [&](const KnownOverhead &one) { return one.kind == name || one.kind == 0; });
	if (name == 0 || known == std::end(overheads_))
		return;
	known->kind = name;
	if (known->written != records_.generation()) {
		texts_.write(name);
		known->record = records_.append<CuptiOverheadRecord>(RecordType::cuptiOverhead);
		if (!known->record)
			return;
		known->record->kind = name;
		known->record->flags = isEmulated ? kernelEmulated : 0;
		records_.commit();
		known->written = records_.generation();
	}
	trace::add(known->record->count, 1);
	trace::add(known->record->ns, ns);
}

void Kernels::forget()
{
	chunk_ = nullptr;
	losses_ = nullptr;
}

} // namespace autoamp::trace
