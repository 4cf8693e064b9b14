#include "src/scale/slots.h"

#include "tests/unit/fake_driver.h"

#include <catch2/catch.hpp>

#include <bit>

using namespace autoamp;
using namespace autoamp::scale;
using fake_driver::device;
using fake_driver::table;
using kernels::Event;
using kernels::EventKind;

namespace {

using Numbers = std::vector<uint32_t>;
const auto stream = reinterpret_cast<cuda::Stream>(0x51);

// Slots of a fresh device, and the kernels' writes to the ring.
struct Opened {
	Slots slots;
	kernels::Ring *ring;
	std::vector<uint32_t> counts; // in the last drain

	Opened()
	{
		device = {};
		REQUIRE(slots.open(table, stream) == cuda::Failure::none);
		ring = static_cast<kernels::Ring *>(*device.registered.begin());
	}
	~Opened() { slots.close(table); }
	Opened(const Opened &) = delete;

	uint64_t reserve() { return ring->written++; }
	void write(uint64_t index)
	{
		const auto number = static_cast<uint32_t>(index);
		ring->events[index % kernels::ringSize] = {index + 1,
		                                           number % 10,
		                                           EventKind::rescale,
		                                           number % 2,
		                                           -static_cast<int>(number),
		                                           static_cast<int>(number),
		                                           std::bit_cast<uint32_t>(0.5f),
		                                           {}};
	}
	void report(int count)
	{
		for (int i = 0; i < count; i++)
			write(reserve());
	}
	Numbers drained()
	{
		Numbers numbers;
		counts.clear();
		slots.drain([&](const Event &event, uint32_t count) {
			numbers.push_back(static_cast<uint32_t>(event.after));
			counts.push_back(count);
		});
		return numbers;
	}
};

} // namespace

TEST_CASE("predictions are cleared on the call's stream, the ring is mapped for every context")
{
	Opened opened;
	CHECK(device.live.size() == 1);
	const size_t predictions = sizeof(kernels::Prediction) * kernels::predictionCount;
	CHECK(device.live.begin()->second == predictions + sizeof(kernels::SiteState) * kernels::siteCount);
	CHECK(reinterpret_cast<cuda::Address>(opened.slots.sites()) == device.live.begin()->first + predictions);
	CHECK(reinterpret_cast<cuda::Address>(opened.slots.predictions()) == device.live.begin()->first);
	CHECK(device.calls["cuMemsetD8Async"] == 1);
	CHECK(device.stream == stream);
	CHECK(device.registerFlags == (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
	CHECK(reinterpret_cast<uintptr_t>(opened.slots.ringOnDevice()) == 0x7000);

	opened.slots.close(table);
	CHECK(device.live.empty());
	CHECK(device.registered.empty());
	opened.slots.close(table);
	CHECK(device.calls["cuMemHostUnregister"] == 1);
}

TEST_CASE("slots that cannot be made leave nothing behind")
{
	for (const char *failing : {"cuMemAlloc_v2", "cuMemsetD8Async"}) {
		device = {};
		device.failing[failing] = CUDA_ERROR_OUT_OF_MEMORY;
		Slots slots;
		CAPTURE(failing);
		CHECK(slots.open(table, stream) == cuda::Failure::outOfMemory);
		CHECK(device.live.empty());
		CHECK(device.registered.empty());
		slots.drain([](const Event &, uint32_t) { FAIL("an event of nowhere"); });
		slots.drainTotals(0, [](EventKind, uint32_t, uint32_t) { FAIL("a total of nowhere"); });
	}
}

TEST_CASE("without mapped host memory there are predictions and no events")
{
	for (const char *failing : {"cuMemHostRegister_v2", "cuMemHostGetDevicePointer_v2"}) {
		device = {};
		device.failing[failing] = CUDA_ERROR_NOT_SUPPORTED;
		Slots slots;
		CAPTURE(failing);
		CHECK(slots.open(table, stream) == cuda::Failure::none);
		CHECK(slots.predictions() != nullptr);
		CHECK(slots.ringOnDevice() == nullptr);
		CHECK(device.registered.empty());
		slots.drain([](const Event &, uint32_t) { FAIL("an event of nowhere"); });
		slots.drainTotals(0, [](EventKind, uint32_t, uint32_t) { FAIL("a total of nowhere"); });
		slots.close(table);
		CHECK(device.live.empty());
	}
}

TEST_CASE("a ring that the driver still has is not unmapped")
{
	Opened opened;
	device.failing["cuMemHostUnregister"] = CUDA_ERROR_INVALID_VALUE;
	opened.slots.close(table);
	opened.ring->written = 1; // would be a fault
	CHECK(opened.drained().empty());
}

TEST_CASE("each event is handed out once, in order, as it was")
{
	Opened opened;
	CHECK(opened.drained().empty());
	opened.report(3);
	int count = 0;
	opened.slots.drain([&](const Event &event, uint32_t) {
		CHECK(event.site == static_cast<uint32_t>(count));
		CHECK(event.kind == EventKind::rescale);
		CHECK(event.operand == static_cast<uint32_t>(count % 2));
		CHECK(event.before == -count);
		CHECK(event.after == count);
		CHECK(std::bit_cast<float>(event.amax) == 0.5f);
		count++;
	});
	CHECK(count == 3);
	CHECK(opened.drained().empty());
	opened.report(2);
	CHECK(opened.drained() == Numbers{3, 4});
}

TEST_CASE("an event that is being written is waited for by a later drain")
{
	Opened opened;
	opened.report(1);
	const uint64_t late = opened.reserve();
	opened.report(1);
	CHECK(opened.drained() == Numbers{0});
	CHECK(opened.drained().empty());
	opened.write(late);
	CHECK(opened.drained() == Numbers{1, 2});
}

TEST_CASE("a ring that wrapped contains the newest events")
{
	Opened opened;
	opened.report(2);
	CHECK(opened.drained() == Numbers{0, 1});
	opened.report(kernels::ringSize + 10);
	const Numbers numbers = opened.drained();
	REQUIRE(numbers.size() == kernels::ringSize);
	CHECK(numbers.front() == 12);
	CHECK(numbers.back() == kernels::ringSize + 11);

	// Exactly full once more: none is lost.
	opened.report(kernels::ringSize);
	CHECK(opened.drained().size() == kernels::ringSize);
	// One too many, and the next one is being written to its place: the record of the previous round is there, or none.
	for (const bool isTakenBack : {false, true}) {
		opened.report(kernels::ringSize);
		const uint64_t late = opened.reserve();
		if (isTakenBack)
			opened.ring->events[late % kernels::ringSize].sequence = 0;
		CHECK(opened.drained().size() == kernels::ringSize - 1);
		opened.write(late);
		CHECK(opened.drained() == Numbers{static_cast<uint32_t>(late)});
	}
}

TEST_CASE("a record that a newer one has overtaken is passed over")
{
	Opened opened;
	opened.report(2);
	opened.write(kernels::ringSize); // in the place of the first, before `written` was read
	CHECK(opened.drained() == Numbers{1});
}

TEST_CASE("who drains is alone")
{
	Opened opened;
	opened.report(2);
	int inner = 0, outer = 0;
	opened.slots.drain([&](const Event &, uint32_t) {
		outer++;
		opened.slots.drain([&](const Event &, uint32_t) { inner++; });
	});
	CHECK(outer == 2);
	CHECK(inner == 0);
	opened.report(1);
	CHECK(opened.drained() == Numbers{2}); // the next drain works
}

TEST_CASE("each is counted once, with its event or at the end")
{
	Opened opened;
	const auto report = [&](uint32_t operand, EventKind kind) {
		opened.ring->totals[7][operand][static_cast<uint32_t>(kind)]++;
		const uint64_t index = opened.reserve();
		opened.ring->events[index % kernels::ringSize] = {index + 1, 7, kind, operand, 0, 0, 0, {}};
	};
	const auto &counts = opened.counts;
	report(0, EventKind::init);
	report(1, EventKind::init);
	report(1, EventKind::rescale);
	opened.drained();
	CHECK(counts == std::vector<uint32_t>{1, 1, 1});
	report(1, EventKind::rescale);
	report(1, EventKind::rescale);
	opened.drained();
	CHECK(counts == std::vector<uint32_t>{2, 0}); // reported with the first of them

	// Events that the ring lost.
	for (uint32_t i = 0; i < kernels::ringSize + 5; i++)
		report(0, EventKind::overflow);
	opened.drained();
	CHECK(counts.size() == kernels::ringSize);
	CHECK(counts.front() == kernels::ringSize + 5);

	opened.ring->totals[7][1][static_cast<uint32_t>(EventKind::scale_range)] += 3; // without an event
	opened.ring->totals[8][0][static_cast<uint32_t>(EventKind::scale_range)] += 4;
	for (int i = 0; i < 2; i++) {
		int met = 0;
		opened.slots.drainTotals(7, [&](EventKind kind, uint32_t operand, uint32_t count) {
			met++;
			CHECK((kind == EventKind::scale_range && operand == 1 && count == 3));
		});
		CHECK(met == (i == 0 ? 1 : 0));
	}
}
