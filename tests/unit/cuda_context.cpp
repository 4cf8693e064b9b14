#include "src/cuda/context.h"

#include "tests/unit/fake_driver.h"

#include <catch2/catch.hpp>

#include <memory>
#include <string>
#include <vector>

using namespace autoamp::cuda;
using fake_driver::device;
using fake_driver::table;

namespace {

constexpr int invalid = CUDA_ERROR_INVALID_VALUE;
constexpr size_t budget = 1000, plenty = size_t{1} << 40;
const auto stream = reinterpret_cast<Stream>(0x51);

std::string nameOf(Failure failure)
{
	const char *const names[] = {"none", "outOfMemory", "overBudget", "noPools", "driverError"};
	return names[static_cast<int>(failure)];
}

// Memory on a fresh device.
struct Opened {
	Memory memory;

	Opened()
	{
		device = {};
		REQUIRE(nameOf(memory.open(table, 3, budget)) == "none");
	}
	std::string allocated(size_t bytes) { return nameOf(memory.allocate(table, stream, bytes).failure); }
	// A capture into `graph`.
	Block captured(CUgraph_st &graph, size_t bytes)
	{
		device.graph = &graph;
		const Block block = memory.allocateForGraph(table, stream, bytes);
		device.graph = nullptr;
		return block;
	}
	std::string capturedOf(CUgraph_st &graph, size_t bytes) { return nameOf(captured(graph, bytes).failure); }
};

// A capture of products, one after the other unless a test sets device.frontier.
struct Captured : Opened {
	CUgraph_st graph;

	Captured() { device.graph = &graph; }
	~Captured()
	{
		device.failing.clear();
		fake_driver::destroyGraph(graph);
		memory.collect(table);
		CHECK(device.live.empty());
	}
	Address product(size_t bytes, int nodesAfter = 1)
	{
		const Block block = memory.allocateForGraph(table, stream, bytes);
		REQUIRE(nameOf(block.failure) == "none");
		CHECK(device.live.at(block.address) >= bytes);
		fake_driver::enqueue();
		if (nodesAfter > 1)
			device.frontier.push_back(&graph.nodes.emplace_back());
		memory.releaseForGraph(table, stream, block);
		return block.address;
	}
};

std::vector<std::string> takenFaults()
{
	std::vector<std::string> faults;
	autoamp::base::takeFaults([&](const char *what) { faults.push_back(what); });
	return faults;
}

} // namespace

TEST_CASE("the pool is the device's, keeps what the budget allows and orders no streams")
{
	Opened opened;
	CHECK(device.allocationType == CU_MEM_ALLOCATION_TYPE_PINNED);
	CHECK(device.poolDevice == 3);
	CHECK(device.poolAttributes.at(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == budget);
	CHECK(device.poolAttributes.at(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) == 0);
	CHECK(device.pools == 1);
	opened.memory.close(table);
	opened.memory.close(table);
	CHECK(device.pools == 0);
}

TEST_CASE("a pool that cannot be made")
{
	const struct {
		const char *failing;
		Result result;
		std::string expected;
	} rows[] = {{"cuMemPoolCreate", outOfMemory, "outOfMemory"},
	            {"cuMemPoolCreate", invalid, "driverError"},
	            {"cuMemPoolSetAttribute", invalid, "driverError"}};
	for (const auto &row : rows) {
		device = {};
		device.failing[row.failing] = row.result;
		Memory memory;
		CHECK(nameOf(memory.open(table, 0, budget)) == row.expected);
		memory.close(table);
		CHECK(device.pools == 0);
	}
}

TEST_CASE("memory within the budget and a quarter of what is free")
{
	const struct {
		size_t used, reserved, free, bytes;
		std::string expected;
	} rows[] = {
	    {0, 0, plenty, 1000, "none"},     {0, 0, plenty, 1001, "overBudget"},
	    {600, 1000, plenty, 400, "none"}, {600, 1000, plenty, 401, "overBudget"},
	    {0, 0, 400, 100, "none"},         {0, 0, 400, 101, "overBudget"},
	    {50, 80, 400, 130, "none"},                                // the pool grows by 100
	    {50, 80, 400, 131, "overBudget"}, {50, 80, 0, 30, "none"}, // it does not grow
	    {50, 80, 0, 31, "overBudget"},
	};
	for (const auto &row : rows) {
		Opened opened;
		device.used = row.used, device.reserved = row.reserved, device.free = row.free;
		CAPTURE(row.used, row.reserved, row.free, row.bytes);
		CHECK(opened.allocated(row.bytes) == row.expected);
		CHECK(device.calls["cuMemGetInfo_v2"] ==
		      (row.bytes + row.used > budget || row.bytes + row.used <= row.reserved ? 0 : 1));
		CHECK(device.calls["cuMemAllocFromPoolAsync"] == (row.expected == "none" ? 1 : 0));
	}
}

TEST_CASE("a pool that is known to be large enough is only queried for its use")
{
	Opened opened;
	device.reserved = 600;
	const auto queriesOf = [&](size_t bytes) {
		device.calls.clear();
		CHECK(opened.allocated(bytes) == "none");
		return device.calls["cuMemPoolGetAttribute"];
	};
	CHECK(queriesOf(100) == 2);
	CHECK(queriesOf(600) == 1);
	device.used = 100;
	CHECK(queriesOf(500) == 1);
	CHECK(queriesOf(501) == 2); // it must grow
	CHECK(device.calls["cuMemGetInfo_v2"] == 1);
	device.failing["cuMemAllocFromPoolAsync"] = outOfMemory; // the pool is trimmed
	CHECK(opened.allocated(100) == "outOfMemory");
	device.failing.clear();
	CHECK(queriesOf(50) == 2);
	device.used = 0, device.reserved = 600;
	CHECK(queriesOf(500) == 2);
	CHECK(queriesOf(500) == 1);
	CUgraph_st graph; // takes from the same budget
	CHECK(opened.capturedOf(graph, 700) == "none");
	CHECK(queriesOf(200) == 2);
	CHECK(opened.allocated(301) == "overBudget");
	fake_driver::destroyGraph(graph);
	opened.memory.collect(table);
}

TEST_CASE("memory comes and goes on the call's stream")
{
	Opened opened;
	const Block block = opened.memory.allocate(table, stream, 100);
	REQUIRE(block.failure == Failure::none);
	CHECK(device.inPool.at(block.address) == 100);
	CHECK(device.stream == stream);
	device.stream = nullptr;
	CHECK(opened.memory.release(table, stream, block.address));
	CHECK(device.stream == stream);
	CHECK(device.inPool.empty());
	device.failing["cuMemFreeAsync"] = invalid;
	CHECK(!opened.memory.release(table, stream, block.address));
}

TEST_CASE("an allocation that the driver refuses")
{
	const struct {
		const char *failing;
		Result result;
		std::string expected;
		bool isTrimmed;
	} rows[] = {{"cuMemAllocFromPoolAsync", outOfMemory, "outOfMemory", true},
	            {"cuMemAllocFromPoolAsync", invalid, "driverError", true},
	            {"cuMemPoolGetAttribute", invalid, "driverError", false},
	            {"cuMemGetInfo_v2", invalid, "driverError", false}};
	for (const auto &row : rows) {
		Opened opened;
		device.failing[row.failing] = row.result;
		CAPTURE(row.failing);
		CHECK(opened.allocated(100) == row.expected);
		CHECK((device.trimmedTo == 0) == row.isTrimmed);
		CHECK(opened.memory.allocate(table, stream, 100).address == 0);
	}
}

TEST_CASE("a captured call's memory lives as long as its graph, and is freed by a later call")
{
	Opened opened;
	CUgraph_st graph;
	const Block block = opened.captured(graph, 100);
	REQUIRE(block.failure == Failure::none);
	CHECK(device.live.at(block.address) == 100);
	CHECK(device.inPool.empty());
	REQUIRE(graph.owned.size() == 1);
	CHECK(graph.owned[0]->references == 1);
	CHECK(device.objectFlags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
	CHECK(device.retainFlags == CU_GRAPH_USER_OBJECT_MOVE);

	opened.memory.collect(table);
	CHECK(device.live.size() == 1);   // the graph owns it
	fake_driver::destroyGraph(graph); // throws if the destructor calls the driver
	CHECK(device.live.size() == 1);
	opened.memory.collect(table);
	CHECK(device.live.empty());
	opened.memory.collect(table);
	CHECK(device.calls["cuMemFree_v2"] == 1);
}

TEST_CASE("memory of graphs counts until it is freed")
{
	Opened opened;
	CUgraph_st first, second;
	CHECK(opened.capturedOf(first, 600) == "none");
	CHECK(opened.capturedOf(second, 401) == "overBudget");
	CHECK(opened.capturedOf(second, 400) == "none");
	CHECK(opened.allocated(1) == "overBudget");
	fake_driver::destroyGraph(first);
	CHECK(opened.allocated(1) == "overBudget");
	opened.memory.collect(table);
	CHECK(opened.allocated(600) == "none");
	CHECK(opened.allocated(601) == "overBudget");

	// Memory used by eager calls counts, too. Idle memory of their pool does not help, because a graph's memory is
	// allocated separately.
	device.used = 300, device.reserved = 600;
	CHECK(opened.capturedOf(first, 301) == "overBudget");
	device.free = 1199;
	CHECK(opened.capturedOf(first, 300) == "overBudget");
	device.free = 1200;
	CHECK(opened.capturedOf(first, 300) == "none");
	fake_driver::destroyGraph(first);
	fake_driver::destroyGraph(second);
	opened.memory.collect(table);
}

TEST_CASE("a graph reuses a block that an earlier graph released, if it fits")
{
	const struct {
		size_t before, now;
		bool isReused;
	} rows[] = {{200, 200, true}, {200, 201, false}, {200, 100, true}, {200, 99, false}};
	for (const auto &row : rows) {
		Opened opened;
		CUgraph_st first, second, third;
		const Block before = opened.captured(first, row.before);
		fake_driver::destroyGraph(first);
		const Block now = opened.captured(second, row.now);
		CAPTURE(row.before, row.now);
		REQUIRE(now.failure == Failure::none);
		CHECK((now.address == before.address) == row.isReused);
		CHECK(device.calls["cuMemAlloc_v2"] == (row.isReused ? 1 : 2));
		CHECK(device.calls["cuMemFree_v2"] == 0); // a capture may not wait
		if (row.isReused) {                       // only one graph can use it
			CHECK(opened.captured(third, row.now).address != now.address);
			fake_driver::destroyGraph(third);
		}
		fake_driver::destroyGraph(second);
		opened.memory.collect(table);
		CHECK(device.live.empty()); // including blocks that were not reused
	}
}

TEST_CASE("if two blocks fit, one is taken and the other stays")
{
	Opened opened;
	CUgraph_st both, one;
	opened.captured(both, 200);
	opened.captured(both, 200);
	fake_driver::destroyGraph(both);
	CHECK(opened.capturedOf(one, 200) == "none");
	CHECK(opened.capturedOf(one, 200) == "none");
	CHECK(device.calls["cuMemAlloc_v2"] == 2);
	fake_driver::destroyGraph(one);
	CHECK(opened.capturedOf(one, 200) == "none");
	opened.memory.collect(table);
	CHECK(device.live.size() == 1);
	fake_driver::destroyGraph(one);
	opened.memory.collect(table);
	CHECK(device.live.empty());
}

TEST_CASE("a capture that fails")
{
	const struct {
		const char *failing;
		Result result;
		std::string expected;
		size_t left; // remains on the list for the next
	} rows[] = {{"cuStreamGetCaptureInfo_v2", invalid, "driverError", 0},
	            {"cuMemPoolGetAttribute", invalid, "driverError", 0},
	            {"cuMemGetInfo_v2", invalid, "driverError", 0},
	            {"cuMemAlloc_v2", outOfMemory, "outOfMemory", 0},
	            {"cuMemAlloc_v2", invalid, "driverError", 0},
	            {"cuUserObjectCreate", invalid, "driverError", 1},
	            {"cuGraphRetainUserObject", invalid, "driverError", 1}};
	for (const auto &row : rows) {
		Opened opened;
		CUgraph_st graph;
		device.failing[row.failing] = row.result;
		CAPTURE(row.failing);
		CHECK(opened.capturedOf(graph, 100) == row.expected);
		CHECK(device.live.size() == row.left);
		CHECK(device.objects == 0);
		CHECK(graph.owned.empty());
		device.failing.clear();
		CHECK(opened.capturedOf(graph, 100) == "none");
		CHECK(device.live.size() == 1);
		fake_driver::destroyGraph(graph);
		opened.memory.collect(table);
		CHECK(device.live.empty());
	}

	Opened opened; // the stream is not captured
	CHECK(nameOf(opened.memory.allocateForGraph(table, stream, 100).failure) == "driverError");
	CHECK(device.live.empty());
}

TEST_CASE("memory that cannot be freed now is freed later")
{
	Opened opened;
	CUgraph_st graph;
	opened.captured(graph, 100);
	opened.captured(graph, 300);
	fake_driver::destroyGraph(graph);
	device.failing["cuMemFree_v2"] = invalid;
	opened.memory.collect(table);
	CHECK(device.live.size() == 2);
	CHECK(opened.allocated(601) == "overBudget");
	device.failing.clear();
	opened.memory.collect(table);
	CHECK(device.live.empty());
	CHECK(opened.allocated(1000) == "none");
}

TEST_CASE("products of one capture that come one after the other share a block")
{
	Captured captured;
	const Address first = captured.product(200);
	CHECK(captured.product(200) == first);
	CHECK(captured.product(20) == first);
	CHECK(captured.product(200) == first);
	CHECK(device.calls["cuGraphNodeGetDependencies"] == 0);
	CHECK(device.calls["cuStreamUpdateCaptureDependencies"] == 0); // the edge exists already
	const Address larger = captured.product(201);
	CHECK(larger != first);
	CHECK(captured.product(200) == larger); // the nearest
	CHECK(captured.product(201) == larger);
	CHECK(device.calls["cuMemAlloc_v2"] == 2);
	CHECK(captured.graph.owned.size() == 2);
}

TEST_CASE("the last user of a block is found behind other nodes, and gets a separate edge")
{
	const struct {
		int nodes;
		bool isShared;
	} rows[] = {{1, true}, {3, true}, {255, true}, {256, false}};
	for (const auto &row : rows) {
		Captured captured;
		const Address first = captured.product(200);
		CUgraphNode_st *const last = device.frontier[0];
		for (int i = 0; i < row.nodes; i++)
			fake_driver::enqueue();
		CUgraphNode_st *const before = device.frontier[0];
		const size_t count = captured.graph.nodes.size();
		CAPTURE(row.nodes);
		CHECK((captured.product(200) == first) == row.isShared);
		CHECK(captured.graph.nodes[count].after == (row.isShared ? std::vector{before, last} : std::vector{before}));
	}
}

TEST_CASE("concurrent branches of the application get separate blocks")
{
	Captured captured;
	fake_driver::enqueue();
	const auto root = device.frontier;
	const Address left = captured.product(200);
	const auto leftEnd = device.frontier;
	device.frontier = root;
	const Address right = captured.product(200);
	const auto rightEnd = device.frontier;
	CHECK(left != right);
	device.frontier = leftEnd;
	CHECK(captured.product(200) == left);
	device.frontier.push_back(rightEnd[0]); // joined
	const Address joined = captured.product(200);
	CHECK(joined == left);
	CHECK(captured.product(200) == joined);
	device.frontier = {};
	CHECK(captured.product(200) != right); // depends on no node
	CHECK(device.calls["cuStreamUpdateCaptureDependencies"] == 0);
	CHECK(device.calls["cuMemAlloc_v2"] == 3);
}

TEST_CASE("blocks that are not shared")
{
	const struct {
		const char *what;
		std::function<void()> between; // two products
		int nodesAfter;
		std::vector<std::string> faults;
	} rows[] = {
	    {"another capture into the same graph", [] { device.capture++; }, 1, {}},
	    {"a product that ends in two nodes", [] {}, 2, {}},
	    {"an edge that is not a full dependency", [] { device.partial = fake_driver::enqueue(); }, 1, {}},
	    {"one further back", [] { device.partial = fake_driver::enqueue(), fake_driver::enqueue(); }, 1, {}},
	    {"a frontier that is not reported",
	     [] { // once
		     device.failing["cuStreamGetCaptureInfo_v2"] = invalid;
		     device.meanwhile["cuStreamGetCaptureInfo_v2"] = [] {
			     device.meanwhile["cuStreamGetCaptureInfo_v2"] = [] { device.failing.clear(); };
		     };
	     },
	     1,
	     {"cuStreamGetCaptureInfo_v2"}},
	    {"dependencies that are not reported",
	     [] { fake_driver::enqueue(), device.failing["cuGraphNodeGetDependencies"] = invalid; },
	     1,
	     {"cuGraphNodeGetDependencies"}},
	    {"an edge that is refused",
	     [] { fake_driver::enqueue(), device.failing["cuStreamUpdateCaptureDependencies"] = invalid; },
	     1,
	     {"cuStreamUpdateCaptureDependencies"}},
	};
	takenFaults();
	for (const auto &row : rows) {
		Captured captured;
		const Address first = captured.product(200, row.nodesAfter);
		row.between();
		CAPTURE(row.what);
		CHECK(captured.product(200) != first);
		CHECK(takenFaults() == row.faults);
	}
}

TEST_CASE("a block that was shared goes with its graph")
{
	Opened opened;
	CUgraph_st graph;
	device.graph = &graph;
	const Block block = opened.memory.allocateForGraph(table, stream, 200);
	fake_driver::enqueue();
	opened.memory.releaseForGraph(table, stream, block);
	fake_driver::destroyGraph(graph);
	device.capture++;
	const Block next = opened.memory.allocateForGraph(table, stream, 200);
	CHECK(next.address == block.address);
	CHECK(graph.owned.size() == 1); // it has an owner again
	opened.memory.releaseForGraph(table, stream, next);

	// A graph is destroyed while a call is being captured into it: only the next graph gets the block.
	device.capture++;
	const Block late = opened.memory.allocateForGraph(table, stream, 200);
	fake_driver::destroyGraph(graph);
	opened.memory.releaseForGraph(table, stream, late);
	opened.memory.collect(table);
	CHECK(device.live.empty());
}

TEST_CASE("pool and graphs together keep to the budget")
{
	const struct {
		size_t used, reserved, bytes, trimmedTo; // 1: not trimmed
		std::string expected;
	} rows[] = {
	    {0, 0, 1000, 1, "none"},    {0, 600, 400, 1, "none"},      {0, 601, 400, 600, "none"},
	    {0, 1000, 1000, 0, "none"}, {300, 1000, 700, 300, "none"}, {300, 1000, 701, 1, "overBudget"},
	};
	for (const auto &row : rows) {
		Opened opened;
		CUgraph_st graph;
		device.used = row.used, device.reserved = row.reserved;
		CAPTURE(row.used, row.reserved, row.bytes);
		CHECK(opened.capturedOf(graph, row.bytes) == row.expected);
		CHECK(device.trimmedTo == row.trimmedTo);
		uint64_t &threshold = device.poolAttributes.at(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
		CHECK(threshold == (row.expected == "none" ? budget - row.bytes : budget));
		fake_driver::destroyGraph(graph);
		opened.memory.collect(table);
		CHECK(threshold == budget);
	}
	takenFaults();
	for (const char *failing : {"cuMemPoolTrimTo", "cuMemPoolSetAttribute"}) {
		Opened opened;
		CUgraph_st graph;
		device.reserved = 1000;
		device.failing[failing] = invalid;
		CHECK(opened.capturedOf(graph, 100) == "none");
		CHECK(takenFaults() == std::vector<std::string>{failing});
		fake_driver::destroyGraph(graph);
		opened.memory.collect(table);
		takenFaults();
	}
}

TEST_CASE("a device's facts, asked until there is an answer and then no more")
{
	device = {};
	const int ordinal = 5;
	device.failing["cuDeviceGetName"] = invalid;
	CHECK(deviceFacts(table, ordinal) == nullptr);
	device.failing = {{"cuDeviceGetAttribute", invalid}};
	CHECK(deviceFacts(table, ordinal) == nullptr);
	device.failing.clear();
	const DeviceFacts *facts = deviceFacts(table, ordinal);
	REQUIRE(facts);
	CHECK(facts->ordinal == 5);
	CHECK(facts->capability == 93);
	CHECK(facts->smCount == 77);
	CHECK(facts->name == std::string("number 5"));
	device.failing = {{"cuDeviceGetAttribute", invalid}};
	CHECK(deviceFacts(table, ordinal) == facts);
	device.failing.clear();
	CHECK(deviceFacts(table, 6) != facts);
	CHECK(deviceFacts(table, -1) == nullptr);
	CHECK(deviceFacts(table, 1000) == nullptr);
}

TEST_CASE("the device that a thread's calls go to")
{
	device = {};
	const auto context = reinterpret_cast<CUctx_st *>(0x11), primary = reinterpret_cast<CUctx_st *>(0x22);
	int ordinal = -1;

	device.context = context;
	device.ordinal = 2;
	CHECK(currentDevice(table, ordinal));
	CHECK(ordinal == 2);
	device.failing["cuCtxGetDevice"] = invalid;
	CHECK(!currentDevice(table, ordinal));
	CHECK(device.context == context);

	device.failing["cuCtxGetDevice"] = CUDA_ERROR_INVALID_CONTEXT; // although there is one
	device.primary = primary;
	device.isPrimaryActive = 1;
	CHECK(!currentDevice(table, ordinal));
	CHECK(device.context == context);

	// A thread's first call: the first device's primary context becomes current, if there is one.
	device = {};
	device.primary = primary;
	device.isPrimaryActive = 1;
	CHECK(currentDevice(table, ordinal));
	CHECK(ordinal == 0);
	CHECK(device.context == primary);
	CHECK(device.retained == 0);
	CHECK(device.captureMode == 0);
	CHECK(device.calls["cuThreadExchangeStreamCaptureMode"] == 2);

	device = {};
	device.primary = primary;
	CHECK(!currentDevice(table, ordinal)); // the application creates it
	CHECK(device.calls["cuDevicePrimaryCtxRetain"] == 0);
	for (const char *failing : {"cuCtxGetCurrent", "cuThreadExchangeStreamCaptureMode", "cuDevicePrimaryCtxGetState",
	                            "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent"}) {
		device = {};
		device.primary = primary;
		device.isPrimaryActive = 1;
		device.failing[failing] = invalid;
		CAPTURE(failing);
		CHECK(!currentDevice(table, ordinal));
		CHECK(device.context == nullptr);
		CHECK(device.retained == 0);
		CHECK(device.captureMode == 0);
	}
}

TEST_CASE("the current context, or none")
{
	device = {};
	Current current;
	CHECK(!currentContext(table, current));
	device.context = reinterpret_cast<CUctx_st *>(0x11);
	device.ordinal = 4;
	REQUIRE(currentContext(table, current));
	CHECK(current.handle == device.context);
	CHECK(current.id == 41);
	CHECK(current.device == 4);
	for (const char *failing : {"cuCtxGetCurrent", "cuCtxGetId", "cuCtxGetDevice"}) {
		device.failing = {{failing, invalid}};
		CAPTURE(failing);
		CHECK(!currentContext(table, current));
	}
}

TEST_CASE("a device without memory pools is queried once; calls without another strategy still get memory")
{
	device = {};
	device.hasPools = false;
	Memory memory;
	REQUIRE(nameOf(memory.open(table, 3, budget)) == "none");
	for (int i = 0; i < 3; i++)
		CHECK(nameOf(memory.allocate(table, stream, 10).failure) == "noPools");
	CHECK(!memory.hasPool());
	CHECK(device.calls["cuMemPoolCreate"] == 0);
	CHECK(device.calls["cuMemAllocFromPoolAsync"] == 0);
	CHECK(device.calls["cuMemPoolTrimTo"] == 0);
	const Block block = memory.allocate(table, stream, 10, true);
	CHECK(nameOf(block.failure) == "none");
	CHECK(device.live.size() == 1);
	CHECK(memory.release(table, stream, block.address));
	CHECK(device.live.empty());

	CUgraph_st graph;
	device.graph = &graph;
	CHECK(nameOf(memory.allocateForGraph(table, stream, 10).failure) == "none");
	fake_driver::destroyGraph(graph);
	memory.collect(table);
	CHECK(device.live.empty());
	CHECK(device.calls["cuMemPoolGetAttribute"] == 0);
}
