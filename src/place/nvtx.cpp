// NVTX ranges as regions. If NVTX_INJECTION64_PATH names the front, NVTX (version 2, or version 3 in each object that
// includes its header) calls receiveRanges() before its first range. NVTX then calls the functions in its tables on the
// caller's thread. push/pop ranges belong to their thread. start/end ranges belong to the process, as NVTX defines
// them, and cover all threads.
#include "src/place/nvtx.h"

#include "src/place/capture_range.h"
#include "src/place/region/ranges.h"

#define NVTX_NO_IMPL // types only: the functions would make the core an NVTX client
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <string>

namespace autoamp::core {

namespace {

// Domains are identified by numbers: 0 is for autoamp.h, 1 for the default domain.
std::atomic<uint64_t> domainCount{1};
uint64_t numberOf(nvtxDomainHandle_t domain)
{
	return domain ? reinterpret_cast<uintptr_t>(domain) : 1;
}

const RangeName unmeant = {0, nullptr, false};

const RangeName *nameOf(const char *text)
{
	return text ? findRangeName(text) : nullptr;
}

const RangeName *nameOf(const wchar_t *text)
{
	std::string bytes; // UTF-8
	for (; text && *text; text++) {
		const auto c = static_cast<uint32_t>(*text);
		if (c < 0x80) {
			bytes += static_cast<char>(c);
			continue;
		}
		const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
		bytes += static_cast<char>(0xff00 >> (more + 1) | c >> 6 * more);
		for (int i = more; i-- > 0;)
			bytes += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
	}
	return nameOf(bytes.c_str());
}

const RangeName *nameOf(const nvtxEventAttributes_t *attributes)
{
	constexpr size_t needed = offsetof(nvtxEventAttributes_t, message) + sizeof attributes->message;
	if (!attributes || attributes->size < needed)
		return nullptr;
	const nvtxMessageValue_t &message = attributes->message;
	switch (attributes->messageType) {
	case NVTX_MESSAGE_TYPE_ASCII:
		return nameOf(message.ascii);
	case NVTX_MESSAGE_TYPE_UNICODE:
		return nameOf(message.unicode);
	case NVTX_MESSAGE_TYPE_REGISTERED: {
		const auto *const name = reinterpret_cast<const RangeName *>(message.registered);
		return name == &unmeant ? nullptr : name;
	}
	default:
		return nullptr;
	}
}

template <typename Name>
int pushIn(nvtxDomainHandle_t domain, Name name)
{
	return pushRange(numberOf(domain), nameOf(name));
}
template <typename Name>
int push(Name name)
{
	return pushRange(1, nameOf(name));
}
int popIn(nvtxDomainHandle_t domain)
{
	return popRange(numberOf(domain));
}
int pop()
{
	return popRange(1);
}

template <typename Name>
nvtxRangeId_t startIn(nvtxDomainHandle_t domain, Name name)
{
	return startRange(numberOf(domain), nameOf(name));
}
template <typename Name>
nvtxRangeId_t start(Name name)
{
	return startRange(1, nameOf(name));
}
void endIn(nvtxDomainHandle_t, nvtxRangeId_t id)
{
	endRange(id);
}

template <typename Name>
nvtxStringHandle_t registerIn(nvtxDomainHandle_t, Name text)
{
	const RangeName *const name = nameOf(text);
	return reinterpret_cast<nvtxStringHandle_t>(const_cast<RangeName *>(name ? name : &unmeant));
}
template <typename Name>
nvtxDomainHandle_t create(Name)
{
	return reinterpret_cast<nvtxDomainHandle_t>(++domainCount);
}
void destroy(nvtxDomainHandle_t domain)
{
	endRanges(numberOf(domain));
}

using Text = const char *;
using WideText = const wchar_t *;
using Attributes = const nvtxEventAttributes_t *;

// A function and its place in an NVTX table, checked against the NVTX type of that place.
struct Entry {
	unsigned place;
	NvtxFunctionPointer function;
};
#define ENTRY(module, name, function)                                                                                  \
	Entry                                                                                                              \
	{                                                                                                                  \
		NVTX_CBID_##module##_##name,                                                                                   \
		    reinterpret_cast<NvtxFunctionPointer>(static_cast<nvtx##name##_impl_fntype>(function))                     \
	}
const Entry entries[] = {ENTRY(CORE, RangeStartEx, start<Attributes>), ENTRY(CORE, RangeStartA, start<Text>),
                         ENTRY(CORE, RangeStartW, start<WideText>),    ENTRY(CORE, RangeEnd, endRange),
                         ENTRY(CORE, RangePushEx, push<Attributes>),   ENTRY(CORE, RangePushA, push<Text>),
                         ENTRY(CORE, RangePushW, push<WideText>),      ENTRY(CORE, RangePop, pop)};
const Entry domainEntries[] = {ENTRY(CORE2, DomainRangeStartEx, startIn<Attributes>),
                               ENTRY(CORE2, DomainRangeEnd, endIn),
                               ENTRY(CORE2, DomainRangePushEx, pushIn<Attributes>),
                               ENTRY(CORE2, DomainRangePop, popIn),
                               ENTRY(CORE2, DomainRegisterStringA, registerIn<Text>),
                               ENTRY(CORE2, DomainRegisterStringW, registerIn<WideText>),
                               ENTRY(CORE2, DomainCreateA, create<Text>),
                               ENTRY(CORE2, DomainCreateW, create<WideText>),
                               ENTRY(CORE2, DomainDestroy, destroy)};
#undef ENTRY

template <size_t count>
void fill(const NvtxExportTableCallbacks &tables, NvtxCallbackModule module, const Entry (&entries)[count])
{
	NvtxFunctionTable table = nullptr;
	unsigned size = 0;
	if (!tables.GetModuleFunctionTable(module, &table, &size))
		return;
	for (const Entry &entry : entries)
		if (entry.place < size && table[entry.place]) // the table of an older NVTX may be shorter
			*table[entry.place] = entry.function;
}

} // namespace

int receiveRanges(const void *given)
{
	if (!areRangesUsed())
		return 0;
	const auto getTable = reinterpret_cast<NvtxGetExportTableFunc_t>(const_cast<void *>(given));
	const auto *const tables = static_cast<const NvtxExportTableCallbacks *>(getTable(NVTX_ETID_CALLBACKS));
	if (!tables || tables->struct_size < sizeof *tables)
		return 0;
	areRangesSeen = true;
	fill(*tables, NVTX_CB_MODULE_CORE, entries);
	fill(*tables, NVTX_CB_MODULE_CORE2, domainEntries);
	return 1;
}

} // namespace autoamp::core
