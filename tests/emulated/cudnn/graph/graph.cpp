// Plans of the graph API that run: compared with sums in fp64, on streams, in captures, as nodes, and restored from
// their own text.
#include "tests/emulated/cudnn/fixture.h"
#include "tests/emulated/cudnn/graph/plan.h"

#include <cudnn.h>

#include <memory>
#include <string>

namespace {

using namespace graph;

constexpr int forward = CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA;
constexpr int backwardData = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA;
constexpr int backwardFilter = CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA;
constexpr auto HALF = CUDNN_DATA_HALF, BF16 = CUDNN_DATA_BFLOAT16, FLOAT = CUDNN_DATA_FLOAT;

struct Case {
	const char *name;
	int direction;
	cudnnDataType_t type, out;
	Layout layout;
	int spatial = 2, groups = 1, pad = 1, stride = 1, dilation = 1;
	bool isFlipped = false;
	float alpha = 1, beta = 0;
	int chain = 0; // as in support.tsv: 1 identity, 4 mul by a device scalar, 5 with the old result, 7 bias and relu,
	               // 10 residual, bias and relu, 11 scale by channel, bias and relu, 13 backward relu, 14 bias and
	               // tanh, 15 half the residual, bias and relu
	float scale = 1;
};

const Case cases[] = {
    {"forward half", forward, HALF, HALF, Layout::nhwc},
    {"forward half to NCHW", forward, HALF, HALF, Layout::nchw},
    {"forward bfloat16", forward, BF16, BF16, Layout::nhwc},
    {"forward float", forward, FLOAT, FLOAT, Layout::nhwc},
    {"forward float, NCHW", forward, FLOAT, FLOAT, Layout::nchw},
    {"forward half to float", forward, HALF, FLOAT, Layout::nhwc},
    {"forward grouped", forward, FLOAT, FLOAT, Layout::nchw, 2, 2},
    {"forward dilated", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 2, 1, 2},
    {"forward strided", forward, HALF, HALF, Layout::nhwc, 2, 1, 1, 2},
    {"forward 3-D", forward, FLOAT, FLOAT, Layout::nhwc, 3},
    {"forward flipped", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, true},
    {"forward alpha and beta", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, false, -2, 0.5F},
    {"backward data half", backwardData, HALF, HALF, Layout::nhwc},
    {"backward data float", backwardData, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 2},
    {"backward data alpha and beta", backwardData, FLOAT, FLOAT, Layout::nhwc, 2, 2, 1, 1, 1, false, 3, 1},
    {"backward filter bfloat16", backwardFilter, BF16, BF16, Layout::nhwc},
    {"backward filter float", backwardFilter, FLOAT, FLOAT, Layout::nchw, 3},
    {"backward filter flipped", backwardFilter, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, true, 1, 1},
    {"identity", forward, HALF, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 1},
    {"scaled forward", forward, HALF, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 4},
    {"scaled backward data", backwardData, HALF, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 4},
    {"scaled backward filter", backwardFilter, BF16, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 4},
    {"added to the old", forward, BF16, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 5},
    {"bias and relu", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, false, 1, 0, 7},
    {"bias and relu in half", forward, HALF, HALF, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 7},
    {"residual, bias and relu, NCHW", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, false, 1, 0, 10},
    {"residual, bias and relu in half, NCHW", forward, HALF, HALF, Layout::nchw, 2, 1, 1, 1, 1, false, 1, 0, 10},
    {"residual, bias and relu in bfloat16", forward, BF16, BF16, Layout::nhwc, 2, 1, 1, 2, 1, false, 1, 0, 10},
    {"residual, bias and relu from half", forward, HALF, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 10},
    {"half the residual, bias and relu", forward, FLOAT, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 15},
    {"scale, bias and relu", forward, FLOAT, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 11},
    {"scale, bias and relu from bfloat16", forward, BF16, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 11},
    {"backward data and relu", backwardData, FLOAT, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 13},
    {"backward data and relu in half", backwardData, HALF, HALF, Layout::nhwc, 2, 1, 1, 2, 1, false, 1, 0, 13},
    {"backward data and relu from bfloat16", backwardData, BF16, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 13},
    {"bias and tanh, NCHW", forward, FLOAT, FLOAT, Layout::nchw, 2, 1, 1, 1, 1, false, 1, 0, 14},
    {"bias and tanh in half", forward, HALF, HALF, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 14},
    {"beyond half, in float", forward, HALF, FLOAT, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 4, 200},
    {"beyond half", forward, HALF, HALF, Layout::nhwc, 2, 1, 1, 1, 1, false, 1, 0, 0, 200},
};

float tf32(double value)
{
	auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
	bits += 0xfff + (bits >> 13 & 1);
	return std::bit_cast<float>(bits & ~0x1fffU);
}

// A value as read by a tensor-core engine from a tensor of the type.
double stored(cudnnDataType_t type, double value)
{
	if (type == FLOAT)
		return tf32(value);
	// The nearest value of 11 or 8 significant bits, ties to even.
	const int bits = type == HALF ? 11 : 8;
	int exponent = 0;
	const double fraction = std::frexp(value, &exponent);
	return std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits);
}

Dims wide(const std::vector<int> &values)
{
	return {values.begin(), values.end()};
}

struct Sum {
	double value = 0, weight = 0; // and the sum of the absolute values of the added terms
};

// In fp64: adds every product of an element of x and one of w that contributes to an element of y to the requested
// tensor.
std::vector<Sum> sums(const Case &c, const std::vector<int> &x, const std::vector<int> &w, const std::vector<int> &y,
                      const std::vector<double> &first, const std::vector<double> &second)
{
	const auto count = [](const std::vector<int> &dims, size_t from = 0) {
		int product = 1;
		for (size_t i = from; i < dims.size(); ++i)
			product *= dims[i];
		return product;
	};
	std::vector<Sum> result(static_cast<size_t>(count(c.direction == forward        ? y
	                                                  : c.direction == backwardData ? x
	                                                                                : w)));
	const int taps = count(w, 2), pixels = count(y, 2), filters = w[0] / c.groups;
	for (int n = 0; n < y[0]; ++n)
		for (int k = 0; k < y[1]; ++k)
			for (int p = 0; p < pixels; ++p)
				for (int channel = 0; channel < w[1]; ++channel)
					for (int t = 0; t < taps; ++t) {
						int at = 0, scale = 1, pixel = p, tap = t;
						bool isInside = true;
						for (size_t d = w.size(); d-- > 2;) {
							const int r = c.isFlipped ? w[d] - 1 - tap % w[d] : tap % w[d];
							const int position = pixel % y[d] * c.stride - c.pad + r * c.dilation;
							isInside &= position >= 0 && position < x[d];
							at += position * scale;
							scale *= x[d];
							pixel /= y[d];
							tap /= w[d];
						}
						if (!isInside)
							continue;
						const int xAt = (n * x[1] + k / filters * w[1] + channel) * count(x, 2) + at;
						const int wAt = (k * w[1] + channel) * taps + t, yAt = (n * y[1] + k) * pixels + p;
						const bool isForward = c.direction == forward, isData = c.direction == backwardData;
						const double product = first[static_cast<size_t>(isData ? wAt : xAt)] *
						                       second[static_cast<size_t>(isForward ? wAt : yAt)];
						Sum &sum = result[static_cast<size_t>(isForward ? yAt : isData ? xAt : wAt)];
						sum.value += product;
						sum.weight += std::fabs(product);
					}
	return result;
}

std::vector<double> inTf32(std::vector<double> values)
{
	for (double &value : values)
		value = tf32(value);
	return values;
}

// A tensor of the result's dimensions: positive, negative and zero.
double residualAt(int i)
{
	return (i % 5 - 2) * 0.5;
}

void compare(const Case &c, const std::vector<Sum> &expected, Numbers &result, double old, double bias, double factor)
{
	int worst = -1;
	const int pixels = result.count() / result.dims[0] / result.dims[1];
	for (int i = 0; i < result.count(); ++i) {
		const Sum &sum = expected[static_cast<size_t>(i)];
		double want = c.alpha * factor * sum.value + c.beta * old + (c.chain == 5 ? 2 * old : 0);
		const double channel = i / pixels % result.dims[1];
		if (c.chain == 10 || c.chain == 15)
			want += (c.chain == 10 ? 1 : 0.5) * residualAt(i);
		if (c.chain == 11)
			want *= 1 + channel;
		if (c.chain == 7 || c.chain == 10 || c.chain == 11 || c.chain == 15)
			want = std::fmax(want + bias * channel, 0.0);
		if (c.chain == 13)
			want = residualAt(i) > 0 ? want : 0;
		if (c.chain == 14)
			want = std::tanh(want + bias * channel);
		const double bound = 1e-5 * std::fabs(factor * c.alpha) * (c.chain == 11 ? 1 + channel : 1) * sum.weight +
		                     1e-6 + 2 * roundoff(c.out) * std::fabs(want);
		const bool isTooLarge = c.out == HALF && std::fabs(want) > 65520;
		if (isTooLarge ? !std::isinf(result[i]) : std::fabs(want) < 65500 && !(std::fabs(result[i] - want) <= bound))
			worst = i;
	}
	const auto at = static_cast<size_t>(std::max(worst, 0));
	CAPTURE(result[static_cast<int>(at)], expected[at].value);
	CHECK(worst == -1);
}

} // namespace

TEST_CASE("plans compute what their graph says, on every engine")
{
	for (const Case &c : cases) {
		CAPTURE(c.name);
		Dnn dnn;
		const int channels = 16, filters = 8, size = 6;
		std::vector<int> x{2, channels}, w{filters, channels / c.groups}, y{2, filters};
		x.insert(x.end(), c.spatial, size);
		w.insert(w.end(), c.spatial, 3);
		y.insert(y.end(), c.spatial, (size + 2 * c.pad - 2 * c.dilation - 1) / c.stride + 1);
		const bool isForward = c.direction == forward, isData = c.direction == backwardData;
		auto random = gaussian(1);
		const auto next = [&] { return c.scale * random(); };
		constexpr double old = 0.5, bias = 0.25, factor = 0.125;
		Numbers first(c.type, c.layout, isData ? w : x, next), second(c.type, c.layout, isForward ? w : y, next);
		Numbers scalar(FLOAT, Layout::nchw, std::vector<int>(x.size(), 1), [=] { return factor; });
		Numbers twice(FLOAT, Layout::nchw, std::vector<int>(x.size(), 1), [] { return 2.0; });
		std::vector<int> biasDims(x.size(), 1);
		biasDims[1] = isForward ? y[1] : isData ? x[1] : w[1];
		Numbers biases(c.out, Layout::nhwc, biasDims, [channel = 0]() mutable { return bias * channel++; });
		Numbers scales(c.out, Layout::nhwc, biasDims, [channel = 0]() mutable { return 1.0 + channel++; });
		const auto resultDims = isForward ? y : isData ? x : w;
		Numbers whole(c.out, c.layout, resultDims, [i = 0]() mutable { return residualAt(i++); });

		Client client;
		const auto edge = [&](int64_t uid, const Numbers &numbers) {
			return client.tensor(uid, numbers.type, wide(numbers.dims), wide(numbers.strides));
		};
		Numbers result(c.out, c.layout, resultDims, [=] { return old; });
		const auto between = [&](int64_t uid) {
			return client.tensor(uid, FLOAT, wide(result.dims), wide(result.strides), true);
		};
		Descriptor a = edge(1, first), b = edge(2, second), end = edge(3, result);
		Descriptor convolved = c.chain ? between(10) : end;
		const auto each = static_cast<size_t>(c.spatial);
		Descriptor node = client.convolution(c.direction,
		                                     isForward ? b
		                                     : isData  ? a
		                                               : convolved,
		                                     isForward ? a
		                                     : isData  ? convolved
		                                               : a,
		                                     isForward ? convolved : b, Dims(each, c.pad), Dims(each, c.stride),
		                                     Dims(each, c.dilation), c.isFlipped, c.alpha, c.beta);
		std::vector<Descriptor> nodes{node};
		std::vector<std::pair<int64_t, void *>> pointers{{1, first.device}, {2, second.device}, {3, result.device}};
		Numbers before(FLOAT, c.layout, resultDims, [=] { return old; });
		if (c.chain == 1) {
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_IDENTITY, convolved, nullptr, end));
		} else if (c.chain == 4) {
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_MUL, convolved, edge(4, scalar), end));
			pointers.emplace_back(4, scalar.device);
		} else if (c.chain == 5) {
			Descriptor left = between(11), right = between(12);
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_MUL, convolved, edge(4, scalar), left));
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_MUL, edge(5, before), edge(6, twice), right));
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_ADD, left, right, end));
			pointers.insert(pointers.end(), {{4, scalar.device}, {5, before.device}, {6, twice.device}});
		} else if (c.chain == 13) {
			nodes.push_back(client.reluBackward(convolved, edge(5, whole), end));
			pointers.emplace_back(5, whole.device);
		} else if (c.chain != 0) {
			Descriptor before = convolved, sum = between(11);
			if (c.chain == 10 || c.chain == 15) {
				nodes.push_back(client.pointwise(CUDNN_POINTWISE_ADD, convolved, edge(5, whole), before = between(12),
				                                 c.chain == 10 ? 1 : 0.5F));
				pointers.emplace_back(5, whole.device);
			} else if (c.chain == 11) {
				nodes.push_back(
				    client.pointwise(CUDNN_POINTWISE_MUL, convolved, edge(6, scales), before = between(12)));
				pointers.emplace_back(6, scales.device);
			}
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_ADD, before, edge(4, biases), sum));
			nodes.push_back(client.pointwise(c.chain == 14 ? CUDNN_POINTWISE_TANH_FWD : CUDNN_POINTWISE_RELU_FWD, sum,
			                                 nullptr, end));
			pointers.emplace_back(4, biases.device);
		}
		const double scale = c.chain == 4 || c.chain == 5 ? factor : 1;
		const std::vector<double> ones = first.values(), twos = second.values();
		const auto exact = sums(c, x, w, y, ones, twos);
		const auto rounded = sums(c, x, w, y, inTf32(ones), inTf32(twos));
		const auto configs = client.configs(client.operations(dnn, nodes));
		CHECK(client.status() == CUDNN_STATUS_SUCCESS);
		CHECK_FALSE(configs.empty());
		for (Descriptor config : configs) {
			result.fill(old);
			Descriptor plan = client.plan(dnn, config);
			void *workspace = nullptr;
			REQUIRE(cudaMalloc(&workspace, static_cast<size_t>(client.workspace(plan)) + 1) == cudaSuccess);
			OK(cudnnBackendExecute(dnn, plan, client.pack(pointers, workspace)));
			CHECK(client.status() == CUDNN_STATUS_SUCCESS);
			CHECK(result.download());
			const bool isTf32 = c.type == FLOAT && client.usesTensorCores(config);
			compare(c, isTf32 ? rounded : exact, result, old, bias, scale);
			CHECK(cudaFree(workspace) == cudaSuccess);
		}
	}
}

TEST_CASE("matrix products, batched, broadcast and followed by more")
{
	for (cudnnDataType_t type : {HALF, BF16, FLOAT})
		for (bool isTransposed : {false, true})
			for (bool isChain : {false, true}) {
				CAPTURE(type, isTransposed, isChain);
				Dnn dnn;
				Client client;
				const int batch = 3, m = 8, n = 16, k = 24;
				Numbers a(type, Layout::nchw, {batch, m, k}, gaussian(1)),
				    c(FLOAT, Layout::nchw, {batch, m, n}, gaussian(2));
				Numbers b(type, Layout::nchw, isTransposed ? std::vector{1, n, k} : std::vector{1, k, n}, gaussian(3));
				float factor = -0.5F;
				const Dims bStrides = isTransposed ? Dims{n * k, 1, k} : Dims{n * k, n, 1};
				Descriptor end = client.tensor(3, FLOAT, wide(c.dims), wide(c.strides));
				Descriptor product = isChain ? client.tensor(9, FLOAT, wide(c.dims), wide(c.strides), true) : end;
				std::vector<Descriptor> nodes{client.product(client.tensor(1, type, wide(a.dims), wide(a.strides)),
				                                             client.tensor(2, type, {1, k, n}, bStrides), product)};
				std::vector<std::pair<int64_t, void *>> pointers{{1, a.device}, {2, b.device}, {3, c.device}};
				if (isChain) {
					Descriptor value = client.tensor(4, FLOAT, {1, 1, 1}, {1, 1, 1}, false, true);
					nodes.push_back(client.pointwise(CUDNN_POINTWISE_MUL, product, value, end));
					pointers.emplace_back(4, &factor);
				}
				const auto configs = client.configs(client.operations(dnn, nodes));
				REQUIRE_FALSE(configs.empty());
				Descriptor pack = client.pack(pointers, nullptr);
				OK(cudnnBackendExecute(dnn, client.plan(dnn, configs[0]), pack));
				if (isChain)
					factor = NaN; // was read when it was executed
				CHECK(client.status() == CUDNN_STATUS_SUCCESS);
				CHECK(c.download());
				bool isRight = true;
				for (int i = 0; i < c.count(); ++i) {
					double want = 0, weight = 0;
					for (int j = 0; j < k; ++j) {
						const int column = i % n, row = i / n;
						double left = a[row * k + j], right = b[isTransposed ? column * k + j : j * n + column];
						if (type == FLOAT) {
							left = tf32(left);
							right = tf32(right);
						}
						want += left * right;
						weight += std::fabs(left * right);
					}
					isRight &= std::fabs(c[i] - (isChain ? -0.5 : 1) * want) <= 1e-5 * weight;
				}
				CHECK(isRight);
			}
}

namespace {

// A chain on a runtime engine of half operands, or a plain float convolution on a pre-compiled one: 1x1, of ones.
struct Small {
	Dnn dnn;
	Client client;
	Numbers x, w, y, scalar;
	Descriptor operations = nullptr;
	std::vector<Descriptor> configs;
	std::vector<std::pair<int64_t, void *>> pointers;

	explicit Small(bool isChain, bool hasDoubles = false)
	    : x(isChain ? HALF : FLOAT, Layout::nhwc, {1, 8, 2, 2}, [] { return 1.0; }),
	      w(isChain ? HALF : FLOAT, Layout::nhwc, {8, 8, 1, 1}, [] { return 1.0; }),
	      y(FLOAT, Layout::nhwc, {1, 8, 2, 2}, [] { return 0.0; }),
	      scalar(FLOAT, Layout::nchw, {1, 1, 1, 1}, [] { return 2.0; })
	{
		const auto edge = [&](int64_t uid, const Numbers &numbers, bool isVirtual = false) {
			return client.tensor(uid, numbers.type, wide(numbers.dims), packed(wide(numbers.dims), true), isVirtual);
		};
		Descriptor end = edge(3, y), middle = isChain ? edge(9, y, true) : end;
		std::vector<Descriptor> nodes{client.convolution(forward, edge(2, w), edge(1, x), middle, {0, 0}, {1, 1},
		                                                 {1, 1}, false, 1, 0, hasDoubles)};
		pointers = {{1, x.device}, {2, w.device}, {3, y.device}};
		if (isChain) {
			nodes.push_back(client.pointwise(CUDNN_POINTWISE_MUL, middle, edge(4, scalar), end));
			pointers.emplace_back(4, scalar.device);
		}
		operations = client.operations(dnn, nodes);
		configs = client.configs(operations);
		REQUIRE_FALSE(configs.empty());
	}
	double first()
	{
		CHECK(y.download());
		return y[0];
	}
};

} // namespace

namespace {

std::vector<char> textOf(Client &client, Descriptor plan)
{
	constexpr auto name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
	int64_t length = 0;
	client.get(plan, name, CUDNN_TYPE_CHAR, 0, &length, nullptr);
	std::vector<char> text(static_cast<size_t>(length));
	client.get(plan, name, CUDNN_TYPE_CHAR, length, &length, text.data());
	return text;
}

// Not finalized.
Descriptor planOf(Client &client, cudnnHandle_t handle, const std::vector<char> &text)
{
	Descriptor one = client.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
	client.set(one, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, std::vector{handle});
	client.set(one, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, text);
	return one;
}

// Runs the first plan of a graph that needs no workspace, then a plan made from its text. `check` examines each result.
void execute(Dnn &dnn, Client &client, const std::vector<Descriptor> &nodes,
             const std::vector<std::pair<int64_t, void *>> &pointers, const std::function<void()> &check)
{
	const auto configs = client.configs(client.operations(dnn, nodes));
	REQUIRE_FALSE(configs.empty());
	Descriptor pack = client.pack(pointers, nullptr), plan = client.plan(dnn, configs[0]);
	Descriptor again = client.finalized(planOf(client, dnn, textOf(client, plan)));
	CHECK((textOf(client, again) == textOf(client, plan)));
	for (Descriptor one : {plan, again}) {
		OK(cudnnBackendExecute(dnn, one, pack));
		CHECK(client.status() == CUDNN_STATUS_SUCCESS);
		check();
	}
}

Descriptor edgeOf(Client &client, int64_t uid, const Numbers &numbers, bool isVirtual = false)
{
	return client.tensor(uid, numbers.type, wide(numbers.dims), wide(numbers.strides), isVirtual);
}

} // namespace

TEST_CASE("a pre-compiled engine reads doubles as floats")
{
	for (const bool isChain : {false, true}) {
		CAPTURE(isChain);
		Small small(isChain, true);
		Descriptor plan = small.client.plan(small.dnn, small.configs[0]);
		void *workspace = nullptr;
		REQUIRE(cudaMalloc(&workspace, static_cast<size_t>(small.client.workspace(plan)) + 1) == cudaSuccess);
		OK(cudnnBackendExecute(small.dnn, plan, small.client.pack(small.pointers, workspace)));
		CHECK(small.first() == (isChain ? 16 : 0));
		CHECK(cudaFree(workspace) == cudaSuccess);
	}
}

TEST_CASE("results of convolutions and gradients are concatenated with other tensors")
{
	constexpr int pixels = 6, old = 77, channels = 16, filters = 8, more = 3;
	for (cudnnDataType_t type : {FLOAT, HALF, BF16})
		for (bool isForward : {true, false})
			for (int inPlace : {-1, 0, 1, 2}) { // 1: the sums, which are always written
				CAPTURE(type, isForward, inPlace);
				Dnn dnn;
				Client client;
				// 1x1: sums over the channels of either side. The gradient reads the filter transposed.
				const int length = isForward ? filters : channels, terms = isForward ? channels : filters;
				Numbers x(type, Layout::nhwc, {2, terms, 2, 3}, gaussian(1)),
				    w(type, Layout::nhwc, {filters, channels, 1, 1}, gaussian(2)),
				    before(FLOAT, Layout::nhwc, {2, more, 2, 3}, gaussian(3)),
				    behind(FLOAT, Layout::nhwc, {2, 1, 2, 3}, gaussian(4)),
				    all(FLOAT, Layout::nhwc, {2, more + length + 1, 2, 3}, [] { return old; });
				Descriptor summed = client.tensor(9, FLOAT, {2, length, 2, 3}, packed({2, length, 2, 3}, true), true);
				Descriptor first = edgeOf(client, 1, x), second = edgeOf(client, 2, w);
				const Dims none(2, 0), ones(2, 1);
				Descriptor node = isForward ? client.convolution(forward, second, first, summed, none, ones, ones)
				                            : client.convolution(backwardData, second, summed, first, none, ones, ones);
				Descriptor joined = client.concatenation(
				    1, {edgeOf(client, 4, before), summed, edgeOf(client, 5, behind)}, edgeOf(client, 3, all), inPlace);
				const auto operand = [&](const Numbers &from, int index) {
					return type == FLOAT ? tf32(from[index]) : from[index];
				};
				const auto expected = [&](int n, int channel, int pixel) -> std::pair<double, double> {
					if (channel < more)
						return {inPlace == 0 ? old : before[(n * more + channel) * pixels + pixel], 0};
					if (channel == more + length)
						return {inPlace == 2 ? old : behind[n * pixels + pixel], 0};
					double sum = 0, weight = 0;
					for (int i = 0; i < terms; ++i) {
						const int row = channel - more;
						const double product = operand(x, (n * terms + i) * pixels + pixel) *
						                       operand(w, isForward ? row * channels + i : i * channels + row);
						sum += product;
						weight += std::fabs(product);
					}
					return {sum, 1e-5 * weight};
				};
				execute(dnn, client, {joined, node},
				        {{1, x.device}, {2, w.device}, {3, all.device}, {4, before.device}, {5, behind.device}}, [&] {
					        CHECK(all.download());
					        bool isRight = true;
					        for (int i = 0; i < all.count(); ++i) {
						        const int channel = i / pixels % all.dims[1], n = i / pixels / all.dims[1];
						        const auto [want, bound] = expected(n, channel, i % pixels);
						        isRight &= std::fabs(all[i] - want) <= bound;
					        }
					        CHECK(isRight);
					        all.fill(old);
				        });
			}
}

TEST_CASE("pointwise nodes alone")
{
	for (bool isMatrix : {false, true}) // rows of rank 3, channels last of rank 4
		for (cudnnDataType_t type : {FLOAT, HALF, BF16}) {
			CAPTURE(isMatrix, type);
			Dnn dnn;
			Client client;
			const auto layout = isMatrix ? Layout::nchw : Layout::nhwc;
			const std::vector<int> dims = isMatrix ? std::vector{2, 4, 8} : std::vector{2, 4, 3, 5};
			Numbers x(type, layout, dims, gaussian(1)), z(type, layout, dims, gaussian(2)),
			    y(FLOAT, layout, dims, [] { return 9.0; });
			float factor = -0.5F;
			const Dims one(dims.size(), 1);
			Descriptor value = client.tensor(4, FLOAT, one, one, false, true),
			           scaled = client.tensor(8, FLOAT, wide(dims), wide(y.strides), true),
			           sum = client.tensor(9, FLOAT, wide(dims), wide(y.strides), true);
			Descriptor scaling = client.pointwise(CUDNN_POINTWISE_MUL, edgeOf(client, 1, x), value, scaled),
			           adding = client.pointwise(CUDNN_POINTWISE_ADD, scaled, edgeOf(client, 2, z), sum),
			           relu = client.pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, edgeOf(client, 3, y));
			execute(dnn, client, {relu, scaling, adding}, {{1, x.device}, {2, z.device}, {3, y.device}, {4, &factor}},
			        [&] {
				        CHECK(y.download());
				        bool isRight = true;
				        for (int i = 0; i < y.count(); ++i) {
					        const double want = std::fmax(-0.5 * x[i] + z[i], 0.0);
					        isRight &= std::fabs(y[i] - want) <= 1e-6 * (std::fabs(x[i]) + std::fabs(z[i]));
				        }
				        CHECK(isRight);
				        y.fill(9);
			        });
		}
}

TEST_CASE("reductions")
{
	const std::vector<int> dims{3, 8, 2, 5};
	for (cudnnDataType_t type : {FLOAT, HALF})
		for (cudnnReduceTensorOp_t reducer :
		     {CUDNN_REDUCE_TENSOR_ADD, CUDNN_REDUCE_TENSOR_MIN, CUDNN_REDUCE_TENSOR_MAX, CUDNN_REDUCE_TENSOR_AMAX})
			for (const std::vector<int> &kept : {std::vector{1, 1, 1, 1}, {1, 8, 1, 1}, {3, 1, 2, 5}}) {
				CAPTURE(type, reducer, kept);
				Dnn dnn;
				Client client;
				Numbers x(type, Layout::nhwc, dims, gaussian(1)), y(FLOAT, Layout::nhwc, kept, [] { return 9.0; });
				Descriptor node = client.reduction(reducer, edgeOf(client, 1, x), edgeOf(client, 2, y));
				execute(dnn, client, {node}, {{1, x.device}, {2, y.device}}, [&] {
					CHECK(y.download());
					const int pixels = dims[2] * dims[3];
					bool isRight = true;
					for (int i = 0; i < y.count(); ++i) {
						double sum = 0, weight = 0, least = 1e9, most = -1e9;
						for (int j = 0; j < x.count(); ++j) {
							const int channel = j / pixels % dims[1],
							          place = j / pixels / dims[1] * pixels + j % pixels;
							if (i != (kept[1] > 1 ? channel : kept[0] > 1 ? place : 0))
								continue;
							sum += x[j];
							weight += std::fabs(x[j]);
							least = std::fmin(least, x[j]);
							most = std::fmax(most, x[j]);
						}
						const double want = reducer == CUDNN_REDUCE_TENSOR_ADD   ? sum
						                    : reducer == CUDNN_REDUCE_TENSOR_MIN ? least
						                    : reducer == CUDNN_REDUCE_TENSOR_MAX ? most
						                                                         : std::fmax(most, -least);
						isRight &= std::fabs(y[i] - want) <= (reducer == CUDNN_REDUCE_TENSOR_ADD ? 1e-6 * weight : 0);
					}
					CHECK(isRight);
					y.fill(9);
				});
			}
}

TEST_CASE("plans are captured and replayed, and runtime engines are not built meanwhile")
{
	Small small(true);
	Client &client = small.client;
	Descriptor plan = client.plan(small.dnn, small.configs[0]), pack = client.pack(small.pointers, nullptr);
	cudaStream_t stream = nullptr;
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	REQUIRE(cudaStreamCreate(&stream) == cudaSuccess);
	OK(cudnnSetStream(small.dnn, stream));
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	OK(cudnnBackendExecute(small.dnn, plan, pack));
	REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
	CHECK(small.first() == 0);
	REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
	for (float scale : {3.0F, -1.0F}) {
		small.scalar.fill(scale);
		REQUIRE(cudaGraphLaunch(executable, stream) == cudaSuccess);
		CHECK(small.first() == 8 * scale);
	}
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	Client late;
	late.plan(small.dnn, small.configs[0]);
	CHECK(late.status() == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
	cudaGraph_t broken = nullptr;
	CHECK(cudaStreamEndCapture(stream, &broken) == cudaErrorStreamCaptureInvalidated);
	cudaGetLastError();

	Small plain(false);
	OK(cudnnSetStream(plain.dnn, stream));
	REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
	plain.client.plan(plain.dnn, plain.configs[0]);
	CHECK(plain.client.status() == CUDNN_STATUS_SUCCESS);
	CHECK(cudaStreamEndCapture(stream, &broken) == cudaSuccess);
	cudaGraphDestroy(broken);
	cudaGraphExecDestroy(executable);
	cudaGraphDestroy(graph);
	cudaStreamDestroy(stream);
}

TEST_CASE("matrix products of what other nodes compute")
{
	constexpr int batch = 2, m = 8, n = 16, k = 24;
	for (cudnnDataType_t type : {FLOAT, HALF, BF16})
		for (bool isBias : {false, true}) {
			CAPTURE(type, isBias);
			Dnn dnn;
			Client client;
			Numbers a(type, Layout::nchw, {batch, m, k}, gaussian(1)),
			    b(type, Layout::nchw, {batch, k, n}, gaussian(2)), bias(type, Layout::nchw, {batch, m, 1}, gaussian(3)),
			    c(FLOAT, Layout::nchw, {batch, m, n}, gaussian(4));
			Descriptor first = client.tensor(1, type, wide(a.dims), wide(a.strides)),
			           second = client.tensor(2, type, wide(b.dims), wide(b.strides)),
			           added = client.tensor(4, type, wide(bias.dims), wide(bias.strides)),
			           read = client.tensor(9, type, wide(a.dims), wide(a.strides), true),
			           end = client.tensor(3, FLOAT, wide(c.dims), wide(c.strides));
			// The order in which the nodes are set does not matter.
			Descriptor product = client.product(read, second, end);
			Descriptor node = isBias ? client.pointwise(CUDNN_POINTWISE_ADD, first, added, read)
			                         : client.pointwise(CUDNN_POINTWISE_ABS, first, nullptr, read);
			const auto configs = client.configs(client.operations(dnn, {product, node}));
			REQUIRE_FALSE(configs.empty());
			std::vector<std::pair<int64_t, void *>> pointers{{1, a.device}, {2, b.device}, {3, c.device}};
			if (isBias)
				pointers.emplace_back(4, bias.device);
			OK(cudnnBackendExecute(dnn, client.plan(dnn, configs[0]), client.pack(pointers, nullptr)));
			CHECK(client.status() == CUDNN_STATUS_SUCCESS);
			CHECK(c.download());
			bool isRight = true;
			for (int i = 0; i < c.count(); ++i) {
				const int row = i / n, column = i % n, matrix = row / m;
				double want = 0, weight = 0;
				for (int j = 0; j < k; ++j) {
					const double left = a[row * k + j], right = b[(matrix * k + j) * n + column];
					const double read =
					    isBias ? static_cast<float>(left) + static_cast<float>(bias[row]) : std::fabs(left);
					want += stored(type, read) * stored(type, right);
					weight += std::fabs(read * right);
				}
				isRight &= std::fabs(c[i] - want) <= 1e-5 * weight;
			}
			CHECK(isRight);
		}
}

TEST_CASE("products of computed operands that the real library refuses")
{
	Dnn dnn;
	Client client;
	const Dims dims{1, 64, 64}, strides{64 * 64, 64, 1};
	Descriptor first = client.tensor(1, HALF, dims, strides), second = client.tensor(2, HALF, dims, strides),
	           end = client.tensor(3, HALF, dims, strides), read = client.tensor(9, FLOAT, dims, strides, true);
	Descriptor node = client.pointwise(CUDNN_POINTWISE_ABS, first, nullptr, read);
	CHECK(client.configs(client.operations(dnn, {node, client.product(read, second, end)})).empty());
	CHECK(client.status() == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("engines with the note become nodes, others do not")
{
	Small small(true), plain(false);
	Client &client = small.client;
	Descriptor plan = client.plan(small.dnn, small.configs[0]);
	cudaGraph_t graph = nullptr, other = nullptr, whole = nullptr;
	cudaGraphExec_t executable = nullptr;
	REQUIRE(cudaGraphCreate(&graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphCreate(&other, 0) == cudaSuccess);
	REQUIRE(cudaGraphCreate(&whole, 0) == cudaSuccess);
	OK(cudnnBackendPopulateCudaGraph(small.dnn, plan, client.pack(small.pointers, nullptr), graph));
	cudaGraphNode_t child = nullptr;
	REQUIRE(cudaGraphAddChildGraphNode(&child, whole, nullptr, 0, graph) == cudaSuccess);
	REQUIRE(cudaGraphInstantiate(&executable, whole, 0) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(executable, nullptr) == cudaSuccess);
	CHECK(small.first() == 16);
	cudaGraphExecDestroy(executable);

	auto pointers = small.pointers;
	Numbers elsewhere(FLOAT, Layout::nchw, {1, 1, 1, 1}, [] { return -4.0; });
	pointers[3].second = elsewhere.device;
	OK(cudnnBackendUpdateCudaGraph(small.dnn, plan, client.pack(pointers, nullptr), graph));
	REQUIRE(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
	REQUIRE(cudaGraphLaunch(executable, nullptr) == cudaSuccess);
	CHECK(small.first() == -32);
	CHECK(cudnnBackendUpdateCudaGraph(small.dnn, plan, client.pack(pointers, nullptr), other) ==
	      CUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
	Descriptor compiled = plain.client.plan(plain.dnn, plain.configs[0]);
	CHECK(cudnnBackendPopulateCudaGraph(plain.dnn, compiled, plain.client.pack(plain.pointers, nullptr), other) ==
	      CUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
	cudaGraphExecDestroy(executable);
	for (cudaGraph_t one : {graph, other, whole})
		cudaGraphDestroy(one);
}

TEST_CASE("a plan's text is a plan")
{
	for (auto [isChain, config] : {std::pair(false, size_t{0}), {false, 1}, {true, 0}, {true, 1}}) {
		Small small(isChain);
		Client &client = small.client;
		Descriptor plan = client.plan(small.dnn, small.configs[config]);
		const auto text = textOf(client, plan);
		Descriptor again = client.finalized(planOf(client, small.dnn, text));
		CHECK(textOf(client, again) == text);
		const int64_t bytes = client.workspace(again);
		CHECK(bytes == client.workspace(plan));
		Descriptor readBack = client.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
		int64_t count = 0;
		client.get(again, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &readBack);
		CHECK(client.usesTensorCores(readBack) == client.usesTensorCores(small.configs[config]));
		void *workspace = nullptr;
		REQUIRE(cudaMalloc(&workspace, static_cast<size_t>(bytes) + 1) == cudaSuccess);
		OK(cudnnBackendExecute(small.dnn, again, client.pack(small.pointers, workspace)));
		CHECK(client.status() == CUDNN_STATUS_SUCCESS);
		CHECK(small.first() == (isChain ? 16 : 8));
		std::string other(text.begin(), text.end());
		other.replace(other.find("91"), 2, "77");
		CHECK(cudnnBackendFinalize(planOf(client, small.dnn, {other.begin(), other.end()})) ==
		      CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
		CHECK(cudnnBackendFinalize(planOf(client, small.dnn, {text.begin(), text.end() - 9})) ==
		      CUDNN_STATUS_BAD_PARAM);
		CHECK(cudaFree(workspace) == cudaSuccess);
	}
}

TEST_CASE("an engine is listed with each of its tiles and takes no other knob")
{
	Small small(false);
	Client &client = small.client;
	Descriptor engine = client.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR),
	           info = client.make(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
	const auto number = [&](Descriptor from, int name) {
		int64_t value = -1, count = 0;
		client.get(from, name, CUDNN_TYPE_INT64, 1, &count, &value);
		return value;
	};
	const auto at = std::find_if(small.configs.begin(), small.configs.end(),
	                             [&](Descriptor config) { return client.usesTensorCores(config); });
	REQUIRE(at + 1 < small.configs.end());
	int64_t count = 0;
	client.get(*at, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine);
	client.get(engine, CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &info);
	CHECK(count == 1);
	int knob = -1;
	client.get(info, CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &knob);
	CHECK(knob == CUDNN_KNOB_TYPE_TILE_SIZE);
	CHECK(number(info, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE) == 1);
	const auto roomOf = [&](Descriptor config) {
		const int64_t room = client.workspace(client.plan(small.dnn, config));
		CHECK(number(config, CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE) == room);
		return room;
	};
	const int64_t room = roomOf(at[0]);
	CHECK(roomOf(at[1]) > room + (1 << 20));
	const auto with = [&](int type, int64_t value) {
		Descriptor choice = client.make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR),
		           config = client.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
		client.set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, std::vector{type});
		client.set(choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, std::vector{value});
		client.link(config, CUDNN_ATTR_ENGINECFG_ENGINE, engine);
		client.link(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, client.finalized(choice));
		return config;
	};
	CHECK(roomOf(client.finalized(with(CUDNN_KNOB_TYPE_TILE_SIZE, 1))) == roomOf(at[1]));
	CHECK(roomOf(client.finalized(with(CUDNN_KNOB_TYPE_TILE_SIZE, 0))) == room);
	CHECK(cudnnBackendFinalize(with(CUDNN_KNOB_TYPE_TILE_SIZE, 2)) == CUDNN_STATUS_NOT_SUPPORTED);
	CHECK(cudnnBackendFinalize(with(CUDNN_KNOB_TYPE_SWIZZLE, 0)) == CUDNN_STATUS_NOT_SUPPORTED);
	CHECK(client.status() == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("required content of a variant pack")
{
	Small small(false);
	Client &client = small.client;
	Descriptor plan = nullptr;
	for (Descriptor config : small.configs)
		if (!plan || client.workspace(plan) == 0)
			plan = client.plan(small.dnn, config);
	REQUIRE(client.workspace(plan) > 0);
	void *workspace = nullptr;
	REQUIRE(cudaMalloc(&workspace, 1024) == cudaSuccess);
	const auto with = [&](size_t which, std::pair<int64_t, void *> other, void *room) {
		auto pointers = small.pointers;
		if (which < pointers.size())
			pointers[which] = other;
		return cudnnBackendExecute(small.dnn, plan, client.pack(pointers, room));
	};
	OK(with(9, {}, workspace));
	CHECK(with(0, {77, small.x.device}, workspace) == CUDNN_STATUS_BAD_PARAM);
	CHECK(with(0, {1, nullptr}, workspace) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
	CHECK(with(0, {1, small.x.device + 4}, workspace) == CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
	CHECK(with(9, {}, nullptr) == CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
	auto pointers = small.pointers;
	pointers.emplace_back(5, small.x.device); // names no tensor of the graph
	OK(cudnnBackendExecute(small.dnn, plan, client.pack(pointers, workspace)));
	Small chain(true);
	pointers = chain.pointers;
	pointers.emplace_back(9, chain.x.device); // names a virtual tensor
	OK(cudnnBackendExecute(chain.dnn, chain.client.plan(chain.dnn, chain.configs[0]),
	                       chain.client.pack(pointers, nullptr)));
	CHECK(chain.first() == 16);
	Descriptor open = client.make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
	CHECK(cudnnBackendExecute(small.dnn, plan, open) == CUDNN_STATUS_BAD_PARAM);
	CHECK(cudnnBackendExecute(small.dnn, open, plan) == CUDNN_STATUS_BAD_PARAM);
	Descriptor gone = nullptr;
	OK(cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &gone));
	OK(cudnnBackendDestroyDescriptor(gone));
	CHECK(cudnnBackendDestroyDescriptor(gone) == CUDNN_STATUS_BAD_PARAM);
	CHECK(cudnnBackendExecute(small.dnn, plan, gone) == CUDNN_STATUS_BAD_PARAM);
	CHECK(cudnnBackendExecute(nullptr, plan, client.pack(small.pointers, workspace)) == CUDNN_STATUS_BAD_PARAM);
	CHECK(small.first() == 8);
	CHECK(cudaFree(workspace) == cudaSuccess);
}

TEST_CASE("graphs that no engine serves", "[none]")
{
	Small small(true);
	Client &client = small.client;
	Descriptor norm = client.finalized(client.make(CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR));
	CHECK(client.configs(client.operations(small.dnn, {norm})).empty());
	Descriptor engine = client.make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
	client.link(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, small.operations);
	client.set(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, Dims{4});
	CHECK(cudnnBackendFinalize(engine) == CUDNN_STATUS_NOT_SUPPORTED);
	CHECK(client.status() == CUDNN_STATUS_SUCCESS);
}

// AUTOAMP_EMU_FAIL names one of the functions: the first client gets its failure, the second succeeds.
TEST_CASE("a failure is reported and does not persist", "[fail]")
{
	const auto serve = [] {
		Dnn dnn;
		Client client;
		Numbers x(HALF, Layout::nhwc, {1, 8, 2, 2}, [] { return 1.0; }),
		    w(HALF, Layout::nhwc, {8, 8, 1, 1}, [] { return 1.0; }),
		    y(FLOAT, Layout::nhwc, {1, 8, 2, 2}, [] { return 0.0; });
		Descriptor spare = nullptr;
		client.check(cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &spare));
		client.check(spare ? cudnnBackendInitialize(spare) : CUDNN_STATUS_BAD_PARAM);
		client.check(spare ? cudnnBackendDestroyDescriptor(spare) : CUDNN_STATUS_BAD_PARAM);
		const auto edge = [&](int64_t uid, const Numbers &numbers, bool isVirtual = false) {
			return client.tensor(uid, numbers.type, wide(numbers.dims), packed(wide(numbers.dims), true), isVirtual);
		};
		Descriptor middle = edge(9, y, true);
		Descriptor node = client.convolution(forward, edge(2, w), edge(1, x), middle, {0, 0}, {1, 1}, {1, 1});
		Descriptor copied = client.pointwise(CUDNN_POINTWISE_IDENTITY, middle, nullptr, edge(3, y));
		const auto configs = client.configs(client.operations(dnn, {node, copied}));
		Descriptor plan = client.plan(dnn, configs.empty() ? nullptr : configs[0]);
		Descriptor pack = client.pack({{1, x.device}, {2, w.device}, {3, y.device}}, nullptr);
		client.check(cudnnBackendExecute(dnn, plan, pack));
		cudaGraph_t graph = nullptr;
		CHECK(cudaGraphCreate(&graph, 0) == cudaSuccess);
		client.check(cudnnBackendPopulateCudaGraph(dnn, plan, pack, graph));
		client.check(cudnnBackendUpdateCudaGraph(dnn, plan, pack, graph));
		CHECK(cudaGraphDestroy(graph) == cudaSuccess);
		CHECK(y.download());
		return std::pair(client.status(), y[0]);
	};
	CHECK(serve().first != CUDNN_STATUS_SUCCESS);
	CHECK(serve() == std::pair(CUDNN_STATUS_SUCCESS, 8.0));
}
