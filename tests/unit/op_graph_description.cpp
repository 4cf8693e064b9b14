#include "src/op/graph_description.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>
#include <string>

using namespace autoamp::op;

namespace {

std::string textOf(const char *name)
{
	std::ifstream file(std::string(PLANS "/") + name + ".json");
	std::ostringstream text;
	text << file.rdbuf();
	REQUIRE(text.str().size() > 1000);
	return text.str();
}

std::string replaced(std::string text, const std::string &what, const std::string &with)
{
	const size_t at = text.find(what);
	REQUIRE(at != std::string::npos);
	return text.replace(at, what.size(), with);
}

Op opOf(const KnownGraph &graph, bool isOnTensorCores = false, bool isTf32Allowed = true)
{
	const Entry entry = {
	    .name = "cudnnBackendExecute", .library = Library::cudnn, .dtype = Dtype::none, .obstacle = Obstacle::none};
	VendorEnvironment environment;
	environment.tf32Allowed = isTf32Allowed;
	return describe(entry, 7, graph, isOnTensorCores, environment);
}

} // namespace

TEST_CASE("plans of the real library, in our words")
{
	struct Row {
		const char *name;
		NodeKind kind;
		Kind op;
		Obstacle obstacle;
		int64_t m, n, k;
		int32_t batch;
		size_t nodes;
	};
	constexpr int64_t pixels = 32 * 28 * 28;
	const Row rows[] = {
	    {"forward_f32", NodeKind::forward, Kind::conv2d, Obstacle::none, pixels, 64, 576, 1, 1},
	    {"forward_f32_bias_relu", NodeKind::forward, Kind::conv2d, Obstacle::none, pixels, 64, 576, 1, 3},
	    {"backward_data_f32", NodeKind::backwardData, Kind::conv2d, Obstacle::none, pixels, 64, 576, 1, 1},
	    {"backward_filter_f32", NodeKind::backwardFilter, Kind::conv2d, Obstacle::none, 64, 576, pixels, 1, 1},
	    {"backward_filter_bf16_stride", NodeKind::backwardFilter, Kind::conv2d, Obstacle::already_low, 64, 576,
	     32 * 14 * 14, 1, 1},
	    {"backward_filter_f16_alpha_beta", NodeKind::backwardFilter, Kind::conv2d, Obstacle::already_low, 64, 576,
	     pixels, 1, 4},
	    {"forward_3d_groups_convolution_mode", NodeKind::forward, Kind::conv3d, Obstacle::none, 32 * 14 * 14 * 14, 32,
	     32 * 27, 2, 1},
	    {"forward_f16_alpha_beta", NodeKind::forward, Kind::conv2d, Obstacle::already_low, pixels, 64, 576, 1, 1},
	    {"forward_f16_identity", NodeKind::forward, Kind::conv2d, Obstacle::already_low, pixels, 64, 576, 1, 2},
	    {"forward_f16_mul_device_scalar", NodeKind::forward, Kind::conv2d, Obstacle::already_low, pixels, 64, 576, 1,
	     2},
	    {"forward_f16_mul_value", NodeKind::forward, Kind::conv2d, Obstacle::already_low, pixels, 64, 576, 1, 2},
	    {"matmul_f32_batch", NodeKind::matmul, Kind::bmm, Obstacle::none, 512, 512, 512, 8, 1},
	    {"matmul_f16_transposed", NodeKind::matmul, Kind::mm, Obstacle::already_low, 512, 512, 512, 1, 1},
	};
	for (const Row &row : rows) {
		INFO(row.name);
		const std::string text = textOf(row.name);
		const KnownGraph *const known = knownGraph(text);
		REQUIRE(known);
		CHECK(knownGraph(text) == known);
		CHECK(known->graph.nodes.size() == row.nodes);
		REQUIRE(known->product);
		CHECK(known->product->kind == row.kind);
		const Op op = opOf(*known);
		CHECK(op.kind == row.op);
		CHECK(op.obstacle == row.obstacle);
		CHECK(op.graph == known->number);
		CHECK(op.m == row.m);
		CHECK(op.n == row.n);
		CHECK(op.k == row.k);
		CHECK(op.batch == row.batch);
	}
}

TEST_CASE("the geometry that a plan tells")
{
	const KnownGraph *const known = knownGraph(textOf("forward_3d_groups_convolution_mode"));
	REQUIRE(known);
	const Convolution &c = known->convolution;
	CHECK(c.groups == 2);
	CHECK(c.isFlipped);
	CHECK(c.spatial == 3);
	CHECK(c.x.dims[4] == 14);
	CHECK(c.x.strides[1] == 1);
	CHECK(c.padBefore[2] == 1);
	CHECK(c.padAfter[2] == 1);
	CHECK(c.dilation[0] == 1);
	// Different pads have different names.
	std::string uneven = replaced(textOf("forward_f32"), "\"pad\":[1,1]", "\"pad_upper\":[2,2],\"pad_lower\":[0,0]");
	const KnownGraph *const other = knownGraph(uneven);
	REQUIRE(other);
	CHECK(other->obstacle == Obstacle::none);
	CHECK(other->convolution.padBefore[1] == 0);
	CHECK(other->convolution.padAfter[1] == 2);
	CHECK(tensorOf(other->graph, '1')->alignment == 16);
	// The meaning of its bias and its activation.
	const KnownGraph *const fused = knownGraph(textOf("forward_f32_bias_relu"));
	REQUIRE(fused);
	CHECK(fused->graph.nodes[1].second == 'e');
	CHECK(fused->graph.nodes[2].upperClip > 1e308);
	CHECK(tensorOf(fused->graph, 'v')->isVirtual);
}

TEST_CASE("arithmetic that an engine permits on fp32 data")
{
	const KnownGraph *const known = knownGraph(textOf("forward_f32"));
	REQUIRE(known);
	CHECK(opOf(*known).asked == Dtype::float32);
	CHECK(opOf(*known, true).asked == Dtype::tf32);
	CHECK(opOf(*known, true, false).asked == Dtype::float32); // NVIDIA_TF32_OVERRIDE=0
}

TEST_CASE("unknown plans are not lowered")
{
	struct Row {
		const char *name, *what, *with;
		bool isKnown;
		Obstacle obstacle; // for a known graph
	};
	const Row rows[] = {
	    {"forward_f32", "\"schemaVersion\":4", "\"schemaVersion\":5", false, {}},
	    {"forward_f32", "\"cudnnVersion\":91900", "\"cudnnVersion\":101900", false, {}},
	    {"forward_f32", "\"vectCount\":1", "\"vectCount\":4", false, {}},
	    {"forward_f32", "REORDERING_NONE", "REORDERING_INT8x32", false, {}},
	    {"forward_f32", "\"isByValue\":false", "\"isByValue\":false,\"isRagged\":true", false, {}},
	    {"forward_f32", "\"name\":\"49\"", "\"name\":\"x\"", false, {}},
	    {"forward_f32", "\"name\":\"49\"", "\"name\":\"50\"", false, {}},
	    {"forward_f32", "\"X\":\"49\"", "\"X\":\"48\"", false, {}},
	    {"forward_f32", "\"dim\":[32,64,28,28]", "\"dim\":[32,64,28]", false, {}},
	    {"forward_f32", "\"dim\":[32,64,28,28]", "\"dim\":[32,64,29,28]", true, Obstacle::graph},
	    {"forward_f32", "\"dim\":[32,64,28,28]", "\"dim\":[32,64.5,28,28]", false, {}},
	    {"forward_f32", "\"dim\":[32,64,28,28]", "\"dim\":[32,0,28,28]", true, Obstacle::graph},
	    {"forward_f32", "\"alpha\":1.0", "\"alpha\":null", true, Obstacle::graph},
	    {"forward_f32", "\"alpha\":1.0", "\"alpha\":0.0", true, Obstacle::zero_size},
	    {"forward_f32", "\"beta\":0.0", "\"beta\":0.0,\"gamma\":1.0", true, Obstacle::graph},
	    {"forward_f32", "\"mathPrec\":\"CUDNN_DATA_FLOAT\"", "\"mathPrec\":\"CUDNN_DATA_HALF\"", true, Obstacle::graph},
	    {"forward_f32", "CONVOLUTION_FORWARD_DESCRIPTOR", "NORM_FORWARD_DESCRIPTOR", true, Obstacle::normalization},
	    {"forward_f32", "CONVOLUTION_FORWARD_DESCRIPTOR", "REDUCTION_DESCRIPTOR", true, Obstacle::reduction},
	    {"forward_f32", "CONVOLUTION_FORWARD_DESCRIPTOR", "SDPA_FWD_DESCRIPTOR", true, Obstacle::graph},
	    {"forward_f32_bias_relu", "POINTWISE_RELU_FWD", "POINTWISE_GEN_INDEX", true, Obstacle::graph},
	    {"forward_f32_bias_relu", "OPERATION_POINTWISE_DESCRIPTOR", "OPERATION_REDUCTION_DESCRIPTOR", true,
	     Obstacle::graph},
	    {"forward_f32_bias_relu", "\"CUDNN_DATA_FLOAT\",\"dim\":[1,64,1,1]", "\"CUDNN_DATA_HALF\",\"dim\":[1,64,1,1]",
	     true, Obstacle::graph},
	    {"matmul_f32_batch", "\"matB\":\"98\"", "\"matB\":\"0\"", false, {}}, // 0 is a uid, and does not exist here
	    {"forward_f32", "\"W\":\"50\"", "\"W\":\"0\"", false, {}},
	    {"matmul_f32_batch", "\"dim\":[8,512,512]", "\"dim\":[7,512,512]", true, Obstacle::graph},
	    {"matmul_f32_batch", "\"dim\":[8,512,512]", "\"dim\":[1,512,512]", true, Obstacle::none},
	};
	for (const Row &row : rows) {
		INFO(row.name << ": " << row.with);
		const KnownGraph *const known = knownGraph(replaced(textOf(row.name), row.what, row.with));
		REQUIRE((known != nullptr) == row.isKnown);
		if (known)
			CHECK(opOf(*known).obstacle == row.obstacle);
	}
}

TEST_CASE("a plan that ends anywhere, or with any byte another one")
{
	const std::string text = textOf("forward_f32_bias_relu");
	const size_t graphEnd = text.find("GPUProfile"), end = text.rfind('}');
	for (size_t size = 0; size <= end; size++)
		REQUIRE_FALSE(knownGraph(std::string_view(text).substr(0, size)));
	for (size_t at = 0; at < graphEnd; at += 3)
		for (const char byte : {'"', '9', '}', '\xff'}) {
			std::string other = text;
			other[at] = byte;
			if (const KnownGraph *const known = knownGraph(other))
				opOf(*known);
		}
}
