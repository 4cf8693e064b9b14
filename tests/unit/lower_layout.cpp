#include "src/lower/dnn_plan.h"
#include "src/op/graph.h"

#include <catch2/catch.hpp>

using namespace autoamp;

namespace {

struct Layout {
	kernels::TensorLayout layout;
	int64_t first;
};

Layout layoutOf(const std::vector<int64_t> &dims, const std::vector<int64_t> &strides, int inner = 1,
                bool isFlipped = false)
{
	op::GraphTensor tensor;
	tensor.rank = static_cast<int>(dims.size());
	std::copy(dims.begin(), dims.end(), tensor.dims);
	std::copy(strides.begin(), strides.end(), tensor.strides);
	Layout made = {};
	made.layout = lower::layoutOf(tensor, inner, isFlipped, made.first);
	return made;
}

} // namespace

TEST_CASE("the columns of a packed tensor are one level, or two with channels first")
{
	const auto [last, first] = layoutOf({2, 24, 5, 7}, {840, 1, 168, 24});
	CHECK(first == 0);
	CHECK(last.rows == 24);
	CHECK(last.rowStride == 1);
	REQUIRE(last.levels == 1);
	CHECK(last.extent[0] == 70);
	CHECK(last.stride[0] == 24);

	const kernels::TensorLayout channelsFirst = layoutOf({2, 24, 5, 7}, {840, 35, 7, 1}).layout;
	CHECK(channelsFirst.rowStride == 35);
	REQUIRE(channelsFirst.levels == 2);
	CHECK(channelsFirst.extent[0] == 35);
	CHECK(channelsFirst.stride[0] == 1);
	CHECK(channelsFirst.extent[1] == 2);
	CHECK(channelsFirst.stride[1] == 840);
	CHECK(layoutOf({2, 24, 5, 7}, {1000, 1, 200, 24}).layout.levels == 2); // a gap after each row
	CHECK(layoutOf({2, 24, 5, 7}, {1001, 1, 200, 24}).layout.levels == 3); // and after each image
	CHECK(layoutOf({4, 6, 8}, {48, 8, 1}, 2).layout.levels == 1);          // a batch of matrices by rows
}

TEST_CASE("a flipped filter begins with its last element")
{
	const auto [layout, first] = layoutOf({8, 4, 3, 3}, {36, 9, 3, 1}, 1, true);
	CHECK(first == 8);
	REQUIRE(layout.levels == 2);
	CHECK(layout.stride[0] == -1);
	CHECK(layout.extent[0] == 9);
	CHECK(layout.stride[1] == 36);
	CHECK(layoutOf({1, 1, 1, 1}, {1, 1, 1, 1}).layout.levels == 1);
}
