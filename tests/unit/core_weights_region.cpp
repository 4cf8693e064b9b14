// The outermost region of a thread that sets weights, without the front and the other state of regions.
#include "src/place/capture_range.h"
#include "src/place/region/stack.h"

#include <catch2/catch.hpp>

#include <thread>
#include <vector>

constinit thread_local autoamp::front::ThreadBlock autoamp_front_thread;

namespace autoamp::core {

// No calls are intercepted, so that no region needs a policy.
constinit std::atomic<unsigned> regionEpoch{0};
constinit std::atomic<bool> isShared{false};
constinit PerDeviceType<std::atomic<bool>> isRegionRequired{};
bool isIntercepted(DeviceType)
{
	return false;
}
const Configuration *configuration()
{
	return nullptr;
}
uint32_t idOf(const Region &)
{
	return 0;
}
Shared &shared()
{
	static Shared none;
	return none;
}
void shareOthers() {}
void unshare(uint64_t) {}
void lockRegions() {}
void unlockRegions() {}
void endCaptureRange() {}
void inheritCaptureRanges(unsigned) {}

} // namespace autoamp::core

using namespace autoamp::core;

namespace {

std::vector<uint64_t> ended;

struct Listening {
	Listening()
	{
		ended.clear();
		onWeightsRegionEnd = [](uint64_t region) { ended.push_back(region); };
	}
	~Listening() { onWeightsRegionEnd = nullptr; }
};

void openRegion(size_t number, bool setsWeights)
{
	Frame frame = {};
	frame.number = number, frame.setsWeights = setsWeights;
	push(*thisStack(), frame);
}

void closeRegion(size_t number)
{
	Stack &stack = *thisStack();
	for (const Frame &frame : stack.frames)
		if (frame.number == number)
			return remove(stack, &frame);
}

} // namespace

TEST_CASE("the outermost region that sets weights counts, and its end is reported")
{
	const Listening listening;
	CHECK(weightsRegion() == 0);
	openRegion(1, false);
	CHECK(weightsRegion() == 0);
	openRegion(2, true);
	openRegion(3, false);
	openRegion(4, true);
	CHECK(weightsRegion() == 2);
	closeRegion(4);
	closeRegion(3);
	CHECK(weightsRegion() == 2);
	CHECK(ended.empty());
	closeRegion(2);
	CHECK(weightsRegion() == 0);
	CHECK(ended == std::vector<uint64_t>{2});
	closeRegion(1);
	CHECK(ended.size() == 1);
}

TEST_CASE("regions may end in another order")
{
	const Listening listening;
	for (const size_t number : {10, 11, 12})
		openRegion(number, true);
	closeRegion(11);
	CHECK(weightsRegion() == 10);
	CHECK(ended.empty());
	closeRegion(10);
	CHECK(weightsRegion() == 12);
	CHECK(ended == std::vector<uint64_t>{10});
	closeRegion(12);
	CHECK(weightsRegion() == 0);
	CHECK(ended == std::vector<uint64_t>{10, 12});
}

TEST_CASE("a thread has its own region, which ends with it")
{
	const Listening listening;
	openRegion(20, true);
	std::thread([] {
		CHECK(weightsRegion() == 0);
		openRegion(21, true);
		openRegion(22, true);
		CHECK(weightsRegion() == 21);
	}).join();
	CHECK(ended == std::vector<uint64_t>{21});
	CHECK(weightsRegion() == 20);
	closeRegion(20);
	onWeightsRegionEnd = nullptr;
	openRegion(23, true);
	closeRegion(23); // nothing is called
	CHECK(ended == std::vector<uint64_t>{21, 20});
}
