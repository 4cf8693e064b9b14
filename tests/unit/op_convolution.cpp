#include "src/op/convolution.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <thread>
#include <vector>

using namespace autoamp::op;

namespace {

Tensor packed(std::initializer_list<int64_t> dims, bool isLast = false)
{
	Tensor tensor;
	tensor.type = Dtype::float32;
	tensor.rank = static_cast<int32_t>(dims.size());
	std::copy(dims.begin(), dims.end(), tensor.dims);
	int64_t stride = isLast ? tensor.dims[1] : 1;
	for (int i = tensor.rank - 1; i >= 2; stride *= tensor.dims[i--])
		tensor.strides[i] = stride;
	tensor.strides[1] = isLast ? 1 : stride;
	tensor.strides[0] = isLast ? stride : stride * tensor.dims[1];
	return tensor;
}

// 2 images of 6 channels, 12 filters of 3 x 1 in 3 groups.
Convolution example(Direction direction = Direction::forward, bool isLast = false)
{
	Convolution convolution;
	convolution.x = packed({2, 6, 10, 8}, isLast);
	convolution.w = packed({12, 2, 3, 1}, isLast);
	convolution.y = packed({2, 12, 5, 10}, isLast);
	convolution.spatial = 2;
	convolution.padBefore[0] = convolution.padAfter[0] = 1;
	convolution.padBefore[1] = convolution.padAfter[1] = 1;
	convolution.stride[0] = 2, convolution.stride[1] = 1;
	convolution.dilation[0] = convolution.dilation[1] = 1;
	convolution.groups = 3;
	convolution.direction = direction;
	return convolution;
}

} // namespace

TEST_CASE("a convolution has one number for all callers")
{
	const Convolution first = example(), other = example(Direction::backwardData);
	const uint32_t number = numberOf(first);
	CHECK(number != 0);
	CHECK(numberOf(example()) == number);
	CHECK(numberOf(other) != number);
	REQUIRE(convolutionAt(number));
	CHECK(*convolutionAt(number) == first);
	CHECK_FALSE(convolutionAt(0));
	std::vector<std::thread> threads;
	std::vector<uint32_t> found[8];
	for (auto &mine : found)
		threads.emplace_back([&mine] {
			for (int i = 0; i < 2000; i++) {
				Convolution each = example();
				each.x.dims[0] = i;
				mine.push_back(numberOf(each));
			}
		});
	for (std::thread &thread : threads)
		thread.join();
	for (const auto &each : found)
		CHECK(each == found[0]);
	std::sort(found[0].begin(), found[0].end());
	CHECK(std::unique(found[0].begin(), found[0].end()) == found[0].end());
}

TEST_CASE("the implicit product of a convolution")
{
	const auto is = [](Direction direction, int64_t m, int64_t n, int64_t k) {
		Op op;
		setProduct(op, example(direction));
		return op.m == m && op.n == n && op.k == k && op.batch == 3;
	};
	CHECK(is(Direction::forward, 2 * 5 * 10, 4, 2 * 3));
	CHECK(is(Direction::backwardData, 2 * 10 * 8, 2, 4 * 3));
	CHECK(is(Direction::backwardFilter, 4, 2 * 3, 2 * 5 * 10));
}

TEST_CASE("a convolution's shape as a report says it")
{
	CHECK(shapeOf(example()) == "n2 c6 10x8 k12 3x1 s2x1 p1 d1 g3 nchw");
	CHECK(shapeOf(example(Direction::forward, true)) == "n2 c6 10x8 k12 3x1 s2x1 p1 d1 g3 nhwc");
	Convolution wide = example();
	wide.x.strides[0]++;
	CHECK(shapeOf(wide) == "n2 c6 10x8 k12 3x1 s2x1 p1 d1 g3 strided");
}

TEST_CASE("a full table leaves the rest without a number") // last: it stays full
{
	Convolution convolution = example();
	uint32_t known = numberOf(convolution), number = known;
	for (int64_t i = 0; number; i++) {
		REQUIRE(i < 40000);
		convolution.x.strides[0] = 100000 + i;
		number = numberOf(convolution);
	}
	CHECK(numberOf(example()) == known);
}
