#include "src/op/backend.h"

#include <catch2/catch.hpp>
#include <cudnn_graph.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

using namespace autoamp::op;

namespace {

// A vendor whose descriptors all have one address, whose plans return `text`, and whose next call fails with `failing`.
int place, asked;
Status failing;
std::string text;

Status answer()
{
	return std::exchange(failing, 0);
}
const CudnnGraph vendor = {.cudnnBackendCreateDescriptor =
                               [](int, void **made) {
	                               *made = &place;
	                               return answer();
                               },
                           .cudnnBackendDestroyDescriptor = [](void *) { return answer(); },
                           .cudnnBackendFinalize = [](void *) { return answer(); },
                           .cudnnBackendSetAttribute = [](void *, int, int, int64_t, const void *) { return answer(); },
                           .cudnnBackendGetAttribute =
                               [](const void *, int name, int, int64_t wanted, int64_t *count, void *values) {
	                               asked++;
	                               *count = 1;
	                               if (name == CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION) {
		                               *count = static_cast<int64_t>(text.size() + 1);
		                               if (wanted)
			                               std::memcpy(values, text.c_str(), text.size() + 1);
	                               } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
		                               std::memset(values, 0, 8);
	                               }
	                               return answer();
                               },
                           .cudnnBackendExecute = nullptr,
                           .cudnnGetVersion = nullptr};

void *make(int type)
{
	void *made = nullptr;
	REQUIRE(watchCreateDescriptor(vendor, type, &made) == 0);
	return made;
}
void *makePlan(const char *name)
{
	std::ifstream file(std::string(PLANS "/") + name + ".json");
	std::ostringstream read;
	read << file.rdbuf();
	text = read.str();
	return make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
}

Status set(void *pack, int name, std::initializer_list<int64_t> values)
{
	return watchSetAttribute(vendor, pack, name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()), values.begin());
}
void *makePack()
{
	void *const pack = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'y'});
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {256, 512, 768});
	return pack;
}

Op described(void *plan, void *pack)
{
	const Entry entry = {
	    .name = "cudnnBackendExecute", .library = Library::cudnn, .dtype = Dtype::none, .obstacle = Obstacle::none};
	static Execution execution; // one thread's, reused for each call
	return describe(entry, 1, {&place, plan, pack}, &vendor, {}, execution);
}

} // namespace

TEST_CASE("a variant pack is what was set last")
{
	void *const pack = makePack();
	Execution execution;
	const VariantPack &seen = execution.pack;
	REQUIRE(findPack(pack, execution));
	CHECK(seen.count == 3);
	CHECK(*seen.find('2') == reinterpret_cast<void *>(512));
	CHECK_FALSE(seen.find('3'));
	CHECK_FALSE(seen.isFinal);
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {1024, 512, 768});
	set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {4096});
	watchFinalize(vendor, pack);
	// A call that the vendor refuses has no effect.
	failing = 2000;
	CHECK(set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {1, 2, 3}) == 2000);
	REQUIRE(findPack(pack, execution));
	CHECK(*seen.find('1') == reinterpret_cast<void *>(1024));
	CHECK(seen.workspace == reinterpret_cast<void *>(4096));
	CHECK(seen.isFinal);
	CHECK(seen.isPlain);
	failing = 2002;
	CHECK(watchDestroyDescriptor(vendor, pack) == 2002);
	CHECK(findPack(pack, execution)); // it lives
	CHECK(watchDestroyDescriptor(vendor, pack) == 0);
	CHECK_FALSE(findPack(pack, execution));
}

TEST_CASE("a pack that is more than uids and pointers, or not even that")
{
	Execution execution;
	const VariantPack &seen = execution.pack;
	void *const pack = makePack();
	set(pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, {'1'});
	REQUIRE(findPack(pack, execution));
	CHECK_FALSE(seen.isPlain);
	watchDestroyDescriptor(vendor, pack);
	void *const large = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	const int64_t many[mostPackTensors + 1] = {};
	for (int name : {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS})
		watchSetAttribute(vendor, large, name, CUDNN_TYPE_INT64, mostPackTensors + 1, many);
	REQUIRE(findPack(large, execution));
	CHECK(seen.count == 0);
	watchDestroyDescriptor(vendor, large);
}

TEST_CASE("a plan is read once, and another one at its address again")
{
	Execution execution;
	const PlanFacts &facts = execution.facts;
	void *const plan = makePlan("forward_f32");
	REQUIRE(findPlan(vendor, plan, execution));
	REQUIRE(facts.graph);
	const KnownGraph *const first = facts.graph;
	const int before = asked;
	REQUIRE(findPlan(vendor, plan, execution));
	CHECK(asked == before);
	watchDestroyDescriptor(vendor, plan);
	CHECK_FALSE(findPlan(vendor, plan, execution));
	REQUIRE(makePlan("matmul_f32_batch") == plan);
	REQUIRE(findPlan(vendor, plan, execution));
	CHECK(facts.graph != first);
	CHECK(facts.graph->product->kind == NodeKind::matmul);
	// Destroyed without interception, and made again.
	REQUIRE(makePlan("forward_f32") == plan);
	REQUIRE(findPlan(vendor, plan, execution));
	CHECK(facts.graph == first);
	// A different descriptor is at this address now.
	make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	CHECK_FALSE(findPlan(vendor, plan, execution));
}

TEST_CASE("a plan whose query fails is queried again")
{
	Execution execution;
	const PlanFacts &facts = execution.facts;
	void *const plan = makePlan("forward_f32");
	failing = 1001;
	REQUIRE(findPlan(vendor, plan, execution));
	CHECK_FALSE(facts.graph);
	REQUIRE(findPlan(vendor, plan, execution));
	CHECK(facts.graph);
	watchDestroyDescriptor(vendor, plan);
}

TEST_CASE("obstacles of one execution")
{
	// The vendor above has one address for all: a pack and a plan need two.
	static int other;
	const CudnnGraph &real = vendor;
	CudnnGraph second = real;
	second.cudnnBackendCreateDescriptor = [](int, void **made) {
		*made = &other;
		return 0;
	};
	void *const plan = makePlan("forward_f32");
	void *pack = nullptr;
	CHECK(described(plan, &other).obstacle == Obstacle::unseen_graph);
	REQUIRE(watchCreateDescriptor(second, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack) == 0);
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'y'});
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {256, 512, 768});
	CHECK(described(plan, pack).obstacle == Obstacle::bad_argument); // not finalized
	watchFinalize(vendor, pack);
	const Op op = described(plan, pack);
	CHECK(op.obstacle == Obstacle::none);
	CHECK(op.kind == Kind::conv2d);
	const int before = asked;
	CHECK(described(plan, pack) == op);
	CHECK(asked == before);
	const std::initializer_list<int64_t> wrong[] = {{256, 512, 0}, {256, 512, 770}};
	for (const auto &pointers : wrong) {
		set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, pointers);
		CHECK(described(plan, pack).obstacle == Obstacle::bad_argument);
	}
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {256, 512, 768});
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'x'});
	CHECK(described(plan, pack).obstacle == Obstacle::bad_argument);
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'y', 'q'}); // no node uses q: the vendor ignores it
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {256, 512, 768, 1024});
	CHECK(described(plan, pack).obstacle == Obstacle::none);
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'y', 'y'});
	CHECK(described(plan, pack).obstacle == Obstacle::bad_argument);
	set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, {'1', '2', 'y'});
	set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, {256, 512, 768});
	CHECK(described(plan, pack).obstacle == Obstacle::none);
	set(pack, CUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, {'1'});
	CHECK(described(plan, pack).obstacle == Obstacle::unsupported);
	CHECK(described(plan, pack).cause == Cause::variant_pack);
	watchDestroyDescriptor(vendor, plan);
	CHECK(described(plan, pack).obstacle == Obstacle::unseen_graph);
	text = "{}";
	REQUIRE(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) == plan);
	CHECK(described(plan, pack).obstacle == Obstacle::unknown_graph);
	watchDestroyDescriptor(vendor, plan);
	watchDestroyDescriptor(vendor, pack);
}
