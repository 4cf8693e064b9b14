// NVTX calls in each form. The object that includes this file gets its own copy of NVTX.
#pragma once

#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#include <map>
#include <string>

enum { rangeText, rangeWide, rangeAttributes, rangeDomain, rangeRegistered, rangeWideRegistered, rangeForms };

struct Ranges {
	int (*push)(int form, const char *name);
	int (*pop)(int form);
	uint64_t (*start)(int form, const char *name);
	void (*end)(int form, uint64_t range);
};

namespace {

nvtxDomainHandle_t domainOf(int form)
{
	static const nvtxDomainHandle_t domain = nvtxDomainCreateA("a domain"), other = nvtxDomainCreateW(L"another");
	return form == rangeDomain ? domain : form > rangeDomain ? other : nullptr;
}

std::wstring wide(const char *name)
{
	return {name, name + std::string(name).size()};
}

nvtxEventAttributes_t attributesOf(int form, const char *name)
{
	nvtxEventAttributes_t attributes = {};
	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = form < rangeRegistered ? NVTX_MESSAGE_TYPE_ASCII : NVTX_MESSAGE_TYPE_REGISTERED;
	static std::map<std::string, nvtxStringHandle_t> registered;
	if (form < rangeRegistered) {
		attributes.message.ascii = name;
	} else {
		nvtxStringHandle_t &handle = registered[std::to_string(form) + name];
		if (!handle)
			handle = form == rangeRegistered ? nvtxDomainRegisterStringA(domainOf(form), name)
			                                 : nvtxDomainRegisterStringW(domainOf(form), wide(name).c_str());
		attributes.message.registered = handle;
	}
	return attributes;
}

int pushRange(int form, const char *name)
{
	if (form == rangeText)
		return nvtxRangePushA(name);
	if (form == rangeWide)
		return nvtxRangePushW(wide(name).c_str());
	const nvtxEventAttributes_t attributes = attributesOf(form, name);
	return form == rangeAttributes ? nvtxRangePushEx(&attributes) : nvtxDomainRangePushEx(domainOf(form), &attributes);
}

int popRange(int form)
{
	return form < rangeDomain ? nvtxRangePop() : nvtxDomainRangePop(domainOf(form));
}

uint64_t startRange(int form, const char *name)
{
	if (form == rangeText)
		return nvtxRangeStartA(name);
	if (form == rangeWide)
		return nvtxRangeStartW(wide(name).c_str());
	const nvtxEventAttributes_t attributes = attributesOf(form, name);
	return nvtxDomainRangeStartEx(domainOf(form), &attributes);
}

void endRange(int form, uint64_t range)
{
	form < rangeDomain ? nvtxRangeEnd(range) : nvtxDomainRangeEnd(domainOf(form), range);
}

} // namespace

const Ranges ownRanges = {pushRange, popRange, startRange, endRange};
