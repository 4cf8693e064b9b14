// A program that marks its parts by NVTX ranges, in all NVTX forms: directly and in an object with its own NVTX
// copy. As in regions.cpp, `ran` is the precision that the rounding of each product shows.
#include "ranges.h"
#include "harness.h"

#include <cstring>
#include <dlfcn.h>
#include <thread>

using namespace client;

namespace {

const Ranges *object; // the ranges of the other object

std::string ran;

void product(int m = 64)
{
	static thread_local Session session;
	Problem problem({.m = m, .n = 64, .k = 64});
	problem.upload();
	CHECK(static_cast<cublasStatus_t>(problem.call(session.handle)));
	CHECK(cudaStreamSynchronize(session.stream));
	problem.download();
	const double eta = problem.compare().eta;
	ran += std::string(ran.empty() ? "" : ",") + (eta < 1e-6 ? "float32" : eta < 3.5e-4 ? "float16" : "bfloat16");
}

void inside(const Ranges &ranges, Line &line)
{
	const auto expect = [&line](int level, int expected) {
		line.require(level == expected || level == NVTX_NO_PUSH_POP_TRACKING, "another level");
	};
	for (int form = 0; form < rangeForms; form++) {
		expect(ranges.push(form, "outer work"), 0);
		expect(ranges.push(form, "backward"), 1);
		product();
		expect(ranges.push(form, "inner work"), 2);
		product();
		expect(ranges.pop(form), 2);
		product();
		expect(ranges.pop(form), 1);
		product();
		expect(ranges.pop(form), 0);
	}
}

void pushed(Line &line)
{
	inside(ownRanges, line);
}

void ofAnObject(Line &line)
{
	inside(*object, line);
}

// Domains are separate: a range of one domain is not ended by another domain, nor by another copy of NVTX.
void domains(Line &)
{
	ownRanges.push(rangeDomain, "backward");
	ownRanges.push(rangeText, "nothing");
	object->push(rangeText, "backward");
	product();
	ownRanges.pop(rangeDomain);
	product();
	object->pop(rangeText);
	product();
	ownRanges.pop(rangeText);
	product();
}

void unbalanced(Line &line)
{
	for (int i = 0; i < 3; i++)
		line.require(ownRanges.pop(rangeText) < 0 && ownRanges.pop(rangeDomain) < 0, "there was something to end");
	ownRanges.push(rangeText, "backward");
	product();
	ownRanges.pop(rangeText);
	ownRanges.pop(rangeText);
	product();
}

// Process ranges, from start to end; any thread may end them.
void started(Line &)
{
	for (const int form : {rangeText, rangeWide, rangeDomain}) {
		const uint64_t other = ownRanges.start(form, "nothing"), range = ownRanges.start(form, "backward");
		product();
		std::thread([&] { product(); }).join();
		std::thread([&] { ownRanges.end(form, range); }).join();
		product();
		ownRanges.end(form, other);
		ownRanges.end(form, range);
		product();
	}
}

void threads(Line &)
{
	ownRanges.push(rangeText, "backward");
	std::thread([] {
		product();
		ownRanges.push(rangeText, "backward"); // never ended
		product();
	}).join();
	product();
	ownRanges.pop(rangeText);
	product();
}

void nested(Line &)
{
	ownRanges.push(rangeText, "backward");
	ownRanges.push(rangeText, "exact part");
	product();
	ownRanges.pop(rangeText);
	product();
	ownRanges.pop(rangeText);
	product();
}

// Open ranges of a domain end with it.
void destroyed(Line &)
{
	const nvtxDomainHandle_t domain = nvtxDomainCreateA("short");
	const nvtxEventAttributes_t attributes = attributesOf(rangeAttributes, "backward");
	nvtxDomainRangePushEx(domain, &attributes);
	nvtxDomainRangeStartEx(domain, &attributes);
	product();
	nvtxDomainDestroy(domain);
	product();
}

// Very many ranges: every open range counts, and so does the depth of a thread.
void many(Line &line)
{
	std::vector<uint64_t> ranges;
	for (int i = 0; i < 1000; i++)
		ranges.push_back(ownRanges.start(rangeText, "backward"));
	const uint64_t exact = ownRanges.start(rangeText, "exact");
	product();
	for (const uint64_t range : ranges)
		ownRanges.end(rangeText, range);
	product();
	ownRanges.end(rangeText, exact);
	product();
	int level = 0;
	for (int i = 0; i < 50000; i++)
		level = ownRanges.push(rangeText, "backward");
	line.require(level == 49999 || level == NVTX_NO_PUSH_POP_TRACKING, "another depth");
	product();
	for (int i = 0; i < 50000; i++)
		ownRanges.pop(rangeText);
	product();
}

// Names that a program creates at run time, each around two products.
void steps(Line &)
{
	for (int step = 0; step < 400; step++) {
		ownRanges.push(rangeText, ("step " + std::to_string(step)).c_str());
		product();
		product();
		ownRanges.pop(rangeText);
	}
}

template <void (*body)(Line &)>
void run(Line &line)
{
	ran.clear();
	body(line);
	line.put("ran", ran);
}

} // namespace

int main(int argc, char **argv)
{
	const std::string folder(argv[0], static_cast<size_t>(std::strrchr(argv[0], '/') - argv[0] + 1));
	void *const handle = dlopen((folder + "libranges_object.so").c_str(), RTLD_NOW | RTLD_LOCAL);
	object = handle ? static_cast<const Ranges *>(dlsym(handle, "objectRanges")) : nullptr;
	if (!object)
		fail("dlopen", dlerror());
	return runCases(argc, argv,
	                {{"pushed", run<pushed>},
	                 {"object", run<ofAnObject>},
	                 {"domains", run<domains>},
	                 {"unbalanced", run<unbalanced>},
	                 {"started", run<started>},
	                 {"threads", run<threads>},
	                 {"destroyed", run<destroyed>},
	                 {"many", run<many>},
	                 {"nested", run<nested>},
	                 {"steps", run<steps>}});
}
