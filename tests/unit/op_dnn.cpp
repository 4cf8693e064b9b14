#include "src/op/dnn.h"

#include <catch2/catch.hpp>
#include <cudnn.h>

#include <vector>

using namespace autoamp::op;

namespace {

// Descriptors are structs of this test, read by the getters; `refused` is the one that fails.
struct Fake {
	int type = CUDNN_DATA_FLOAT, rank = 4, dims[8] = {}, strides[8] = {}, format = CUDNN_TENSOR_NCHW, mode = 0;
	int math = CUDNN_DEFAULT_MATH, groups = 1;
};
const char *refused;

const Fake &at(const void *desc)
{
	return *static_cast<const Fake *>(desc);
}

Status tensorOf(const void *desc, int, int *type, int *rank, int *dims, int *strides)
{
	*type = at(desc).type, *rank = at(desc).rank;
	std::copy_n(at(desc).dims, *rank, dims);
	std::copy_n(at(desc).strides, *rank, strides);
	return refused == std::string("tensor");
}
Status filterOf(const void *desc, int, int *type, int *format, int *rank, int *dims)
{
	*type = at(desc).type, *format = at(desc).format, *rank = at(desc).rank;
	std::copy_n(at(desc).dims, *rank, dims);
	return refused == std::string("filter");
}
Status activationOf(const void *desc, int *mode, int *nan, double *coefficient)
{
	*mode = at(desc).mode, *nan = 0, *coefficient = 0;
	return refused == std::string("activation");
}
Status poolingOf(const void *desc, int, int *mode, int *, int *, int *, int *, int *)
{
	*mode = at(desc).mode;
	return 0;
}
Status reductionOf(const void *desc, int *mode, int *, int *, int *, int *)
{
	*mode = at(desc).mode;
	return 0;
}
Status opTensorOf(const void *desc, int *mode, int *, int *)
{
	*mode = at(desc).mode;
	return 0;
}
// dims: padding, strides: strides; dilation 1
Status convolutionOf(const void *desc, int, int *rank, int *pads, int *strides, int *dilations, int *mode, int *compute)
{
	*rank = at(desc).rank, *mode = at(desc).mode, *compute = at(desc).type;
	std::copy_n(at(desc).dims, *rank, pads);
	std::copy_n(at(desc).strides, *rank, strides);
	std::fill_n(dilations, *rank, 1);
	return refused == std::string("convolution");
}
Status mathOf(const void *desc, int *math)
{
	*math = at(desc).math;
	return refused == std::string("math");
}
Status groupsOf(const void *desc, int *groups)
{
	*groups = at(desc).groups;
	return refused == std::string("groups");
}

const CudnnOps ops = {tensorOf, filterOf, activationOf, poolingOf, reductionOf, opTensorOf};
const CudnnCnn cnn = {convolutionOf, mathOf, groupsOf};
const DnnGetters getters = {&ops, &cnn, nullptr};

Fake tensor(std::vector<int> dims)
{
	Fake fake;
	fake.rank = static_cast<int>(dims.size());
	std::copy(dims.begin(), dims.end(), fake.dims);
	for (int i = fake.rank - 1, stride = 1; i >= 0; stride *= fake.dims[i--])
		fake.strides[i] = stride;
	return fake;
}

// 2 images of 8 channels, 16 filters of 3 x 3, padded by 1.
struct Example {
	Fake x = tensor({2, 8, 10, 12}), w = tensor({16, 8, 3, 3}), y = tensor({2, 16, 10, 12}), conv, z, bias, activation;
	float one = 1, zero = 0, memory[4] = {};
	ConvolutionCall call;

	explicit Example(Direction direction = Direction::forward)
	{
		conv.rank = 2, conv.dims[0] = conv.dims[1] = 1, conv.strides[0] = conv.strides[1] = 1;
		conv.mode = CUDNN_CROSS_CORRELATION;
		call.handle = memory;
		call.x = &memory[0], call.w = &memory[1], call.y = &memory[2];
		call.alpha = &one, call.beta = &zero, call.direction = direction;
		call.convDesc = &conv, call.xDesc = &x, call.wDesc = &w, call.yDesc = &y;
	}
	void fuse()
	{
		z = y, bias = tensor({1, 16, 1, 1}), activation.mode = CUDNN_ACTIVATION_RELU;
		call.zDesc = &z, call.biasDesc = &bias, call.activationDesc = &activation, call.z = call.bias = &memory[3];
		call.isFused = true;
	}
	Op described(const VendorEnvironment &environment = {}) const
	{
		const Entry entry = {
		    "cudnnConvolutionForward", Library::cudnn, Dtype::none, Obstacle::none, false, Kind::conv2d};
		return describe(entry, 7, call, getters, environment);
	}
};

constexpr Obstacle usual = Obstacle::none; // the obstacle of a usual call

} // namespace

TEST_CASE("a convolution as its descriptors say it")
{
	refused = "";
	const Example example;
	const Op op = example.described();
	CHECK(op.entry == 7);
	CHECK(op.library == Library::cudnn);
	CHECK(op.kind == Kind::conv2d);
	CHECK(op.obstacle == usual);
	CHECK((op.a == Dtype::float32 && op.b == Dtype::float32 && op.out == Dtype::float32 && op.asked == Dtype::tf32));
	CHECK((op.m == 2 * 10 * 12 && op.n == 16 && op.k == 8 * 9 && op.batch == 1));
	CHECK(op.flags == flagBetaZero);
	REQUIRE(convolutionAt(op.geometry));
	CHECK(shapeOf(op) == "n2 c8 10x12 k16 3x3 s1 p1 d1 g1 nchw");
	CHECK(example.described({false, false}).asked == Dtype::float32); // NVIDIA_TF32_OVERRIDE=0
	CHECK(example.described() == op);
	CHECK(Example(Direction::backwardData).described().k == 16 * 9);
	CHECK(Example(Direction::backwardFilter).described().k == 2 * 10 * 12);
}

TEST_CASE("the contents of a descriptor count, not its address")
{
	refused = "";
	Example example;
	const Op before = example.described();
	example.x = tensor({4, 8, 10, 12}), example.y = tensor({4, 16, 10, 12});
	const Op after = example.described();
	CHECK_FALSE(after == before);
	CHECK(after.m == 2 * before.m);
	CHECK(shapeOf(after) == "n4 c8 10x12 k16 3x3 s1 p1 d1 g1 nchw");
}

TEST_CASE("obstacles of a convolution")
{
	refused = "";
	const auto changed = [](auto change) {
		Example example;
		change(example);
		return example.described();
	};
	const struct {
		Obstacle obstacle;
		void (*change)(Example &);
		Cause cause = Cause::none; // of `unsupported`
	} cases[] = {
	    {usual, [](Example &) {}},
	    {Obstacle::pedantic, [](Example &e) { e.conv.math = CUDNN_FMA_MATH; }},
	    {Obstacle::already_low, [](Example &e) { e.conv.math = CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION; }},
	    {usual, [](Example &e) { e.conv.math = CUDNN_TENSOR_OP_MATH; }},
	    {Obstacle::bad_argument, [](Example &e) { e.conv.math = 17; }},
	    {Obstacle::already_low, [](Example &e) { e.x.type = e.w.type = e.y.type = CUDNN_DATA_HALF; }},
	    {Obstacle::already_low, [](Example &e) { e.x.type = e.w.type = e.y.type = CUDNN_DATA_BFLOAT16; }},
	    {Obstacle::float64, [](Example &e) { e.x.type = e.w.type = e.y.type = CUDNN_DATA_DOUBLE; }},
	    {Obstacle::not_float32, [](Example &e) { e.x.type = e.w.type = e.y.type = CUDNN_DATA_INT8; }},
	    {Obstacle::bad_argument, [](Example &e) { e.conv.type = CUDNN_DATA_HALF; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.handle = nullptr; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.x = nullptr; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.w = reinterpret_cast<char *>(e.memory) + 2; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.alpha = nullptr; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.xDesc = nullptr; }},
	    {Obstacle::bad_argument, [](Example &e) { e.call.convDesc = nullptr; }},
	    {Obstacle::bad_argument,
	     [](Example &e) {
		     e.x = tensor({2, 9, 10, 12});
	     }},
	    {Obstacle::bad_argument,
	     [](Example &e) {
		     e.y = tensor({2, 16, 10, 11});
	     }},
	    {Obstacle::bad_argument, [](Example &e) { e.conv.groups = 3; }},
	    {Obstacle::bad_argument, [](Example &e) { e.conv.strides[0] = 0; }},
	    {Obstacle::zero_size, [](Example &e) { e.one = 0; }},
	    {Obstacle::unsupported, [](Example &e) { e.x.strides[2] = -12; }, Cause::tensor_layout},
	    {Obstacle::unsupported, [](Example &e) { e.y.strides[2] = 1; }, Cause::tensor_layout},
	    {Obstacle::unsupported, [](Example &e) { e.call.y = e.call.x; }, Cause::in_place},
	    {Obstacle::unsupported, [](Example &e) { e.call.w = e.call.y; }, Cause::in_place},
	    {usual, [](Example &e) { e.call.w = e.call.x; }},
	};
	for (const auto &each : cases) {
		INFO(&each - cases);
		const Op op = changed(each.change);
		CHECK(op.obstacle == each.obstacle);
		if (op.obstacle == Obstacle::unsupported)
			CHECK(op.cause == each.cause);
	}
	for (const char *getter : {"tensor", "filter", "convolution", "math", "groups"}) {
		refused = getter;
		CHECK(changed([](Example &) {}).obstacle == Obstacle::bad_argument);
	}
	refused = "";
}

TEST_CASE("the kinds of convolutions")
{
	refused = "";
	Example grouped, deep, depthwise;
	grouped.w = tensor({16, 4, 3, 3}), grouped.conv.groups = 2;
	CHECK(grouped.described().batch == 2);
	CHECK(grouped.described().kind == Kind::conv2d);
	depthwise.w = tensor({16, 1, 3, 3}), depthwise.conv.groups = 8;
	CHECK(depthwise.described().kind == Kind::conv_depthwise2d);
	deep.x = tensor({2, 8, 4, 10, 12}), deep.w = tensor({16, 8, 1, 3, 3}), deep.y = tensor({2, 16, 4, 10, 12});
	deep.conv.rank = 3, deep.conv.dims[0] = 0, deep.conv.dims[2] = 1, deep.conv.strides[2] = 1;
	CHECK(deep.described().kind == Kind::conv3d);
	CHECK(shapeOf(deep.described()) == "n2 c8 4x10x12 k16 1x3x3 s1 p0x1x1 d1 g1 nchw");
	Example last;
	last.w.format = CUDNN_TENSOR_NHWC;
	const Op op = last.described();
	CHECK(std::string(layoutOf(convolutionAt(op.geometry)->w)) == "nhwc");
}

TEST_CASE("bias and activation are part of the geometry")
{
	refused = "";
	Example plain, fused;
	fused.fuse();
	const Op op = fused.described();
	CHECK(op.obstacle == usual);
	CHECK(op.geometry != plain.described().geometry);
	REQUIRE(convolutionAt(op.geometry));
	CHECK(convolutionAt(op.geometry)->activation == Activation::relu);
	CHECK(convolutionAt(op.geometry)->hasBias);
	fused.call.bias = nullptr;
	CHECK(fused.described().obstacle == Obstacle::bad_argument);
	fused.fuse(), fused.call.z = nullptr; // beta is 0: z is not read
	CHECK(fused.described().obstacle == usual);
	fused.zero = 1;
	CHECK(fused.described().obstacle == Obstacle::bad_argument);
	fused.fuse(), fused.z.strides[0]++;
	CHECK(fused.described().obstacle == Obstacle::unsupported);
	CHECK(fused.described().cause == Cause::activation);
}

TEST_CASE("other calls say what they do and to what")
{
	refused = "";
	const auto described = [](Kind kind, const DnnCall &call) {
		return describe({"cudnnSome", Library::cudnn, Dtype::none, Obstacle::pooling, false, kind}, 3, call, getters,
		                {});
	};
	Fake data = tensor({2, 3, 4, 5}), wide = tensor({2, 3, 4, 5, 6, 7}), how;
	DnnCall call;
	call.tensor = &data;
	const auto kindOf = [&](Kind kind, void *DnnCall::*desc, int mode) {
		DnnCall one = call;
		how.mode = mode, one.*desc = &how;
		return described(kind, one).kind;
	};
	CHECK(kindOf(Kind::relu, &DnnCall::activationDesc, CUDNN_ACTIVATION_TANH) == Kind::tanh);
	CHECK(kindOf(Kind::relu, &DnnCall::activationDesc, CUDNN_ACTIVATION_RELU) == Kind::relu);
	CHECK(kindOf(Kind::batch_norm, &DnnCall::activationDesc, CUDNN_ACTIVATION_TANH) == Kind::batch_norm);
	CHECK(kindOf(Kind::max_pool2d, &DnnCall::poolingDesc, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING) ==
	      Kind::avg_pool2d);
	CHECK(kindOf(Kind::sum, &DnnCall::reduceTensorDesc, CUDNN_REDUCE_TENSOR_NORM2) == Kind::norm);
	CHECK(kindOf(Kind::sum, &DnnCall::reduceTensorDesc, 99) == Kind::none);
	CHECK(kindOf(Kind::add, &DnnCall::opTensorDesc, CUDNN_OP_TENSOR_MUL) == Kind::mul);
	call.algo = CUDNN_SOFTMAX_LOG;
	Op op = described(Kind::softmax, call);
	CHECK(op.kind == Kind::log_softmax);
	CHECK(op.obstacle == Obstacle::pooling);
	CHECK(op.a == Dtype::float32);
	CHECK(shapeOf(op) == "n2 c3 4x5 nchw");
	call.tensor = &wide;
	CHECK(shapeOf(described(Kind::none, call)) == "n2 c3 4x5x42 nchw");
	data.type = CUDNN_DATA_HALF, call.tensor = &data;
	CHECK(described(Kind::none, call).obstacle == Obstacle::already_low);
	refused = "tensor";
	CHECK(described(Kind::none, call).obstacle == Obstacle::pooling);
	CHECK(described(Kind::none, call).a == Dtype::none);
	refused = "";
	CHECK(described(Kind::none, {}).a == Dtype::none); // no descriptor of the data
}
