// Any text as the description of a cuDNN plan: its graph is unknown or complete, and the same for the same text.
#include "src/op/graph_description.h"
#include "tests/fuzz/fuzz.h"

using namespace autoamp::op;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const std::string_view text(reinterpret_cast<const char *>(data), size);
	const KnownGraph *const known = knownGraph(text);
	REQUIRE(knownGraph(text) == known);
	if (!known)
		return 0;
	const Op op = describe({.name = "", .library = Library::cudnn, .dtype = Dtype::none, .obstacle = Obstacle::none}, 0,
	                       *known, false, {});
	REQUIRE(op.graph == known->number);
	REQUIRE(known->product || op.obstacle != Obstacle::none);
	if (op.obstacle != Obstacle::none)
		return 0;
	REQUIRE(op.m > 0 && op.n > 0 && op.k > 0 && op.a == Dtype::float32 && op.b == Dtype::float32);
	for (const GraphNode &node : known->graph.nodes)
		for (const int64_t uid : {node.first, node.result, node.second ? node.second : node.first})
			REQUIRE(tensorOf(known->graph, uid) && tensorOf(known->graph, uid)->type == Dtype::float32);
	return 0;
}
