#include "src/op/convolution.h"

#include <algorithm>
#include <atomic>
#include <new>

namespace autoamp::op {

namespace {

// Hash table with open addressing. The index of a value is its number. Index 0 stays empty.
constexpr uint32_t places = 1u << 16, mostValues = places / 2 - 1;
struct Kept {
	explicit Kept(const Convolution &convolution) : value(convolution), facts(factsOf(convolution)) {}
	const Convolution value;
	const Facts facts;
};
std::atomic<const Kept *> table[places];
std::atomic<uint32_t> valueCount;

// Hashes 8 bytes at a time, because it runs at every call.
uint64_t hashOf(const Convolution &convolution)
{
	constexpr size_t words = sizeof convolution / sizeof(uint64_t);
	static_assert(words * sizeof(uint64_t) == sizeof convolution);
	constexpr uint64_t odd = 0x9e3779b97f4a7c15u;
	const auto word = [at = reinterpret_cast<const char *>(&convolution)](size_t i) {
		uint64_t value;
		std::memcpy(&value, at + i * sizeof value, sizeof value);
		return value;
	};
	uint64_t a = 1, b = 2, c = 3, d = word(words - 1); // independent chains: each step waits for its last
	static_assert(words % 4 == 1);
	for (size_t i = 0; i + 1 < words; i += 4) {
		a = (a ^ word(i)) * odd, b = (b ^ word(i + 1)) * odd;
		c = (c ^ word(i + 2)) * odd, d = (d ^ word(i + 3)) * odd;
	}
	for (const uint64_t other : {b, c, d})
		a = (a ^ a >> 32 ^ other) * odd;
	return a >> 40;
}

int64_t spatialSize(const Tensor &tensor)
{
	int64_t size = 1;
	for (int i = 2; i < tensor.rank; i++)
		size *= tensor.dims[i];
	return size;
}

// True if the tensor has no gaps and its channels vary fastest (isLast), or the spatial dimensions do.
bool isPacked(const Tensor &tensor, bool isLast)
{
	int64_t stride = isLast ? tensor.dims[1] : 1;
	for (int i = tensor.rank - 1; i >= 2; stride *= tensor.dims[i--])
		if (tensor.strides[i] != stride)
			return false;
	return tensor.strides[1] == (isLast ? 1 : stride) &&
	       tensor.strides[0] == (isLast ? stride : stride * tensor.dims[1]);
}

// "28x28"
std::string across(const int64_t *values, int count)
{
	std::string text;
	for (int i = 0; i < count; i++)
		text += (i ? "x" : "") + std::to_string(values[i]);
	return text;
}

// " s1", or " s1x2" if they differ
std::string each(const char *name, const int32_t *values, int count)
{
	int64_t wide[mostSpatial] = {};
	std::copy_n(values, count, wide);
	const bool isOne = std::all_of(values, values + count, [&](int32_t value) { return value == values[0]; });
	return name + across(wide, isOne ? 1 : count);
}

// False for strides that a lowered call cannot use: negative ones, or a result whose elements share addresses.
bool isOrderly(const Tensor &tensor, bool isWritten)
{
	for (int i = 0; i < tensor.rank; i++) {
		int64_t reach = 1; // elements spanned by the dimensions with strides up to this one
		for (int j = 0; j < tensor.rank; j++)
			if (j != i && tensor.strides[j] <= tensor.strides[i])
				reach += (tensor.dims[j] - 1) * tensor.strides[j];
		if (tensor.strides[i] < 0 || (isWritten && tensor.dims[i] > 1 && tensor.strides[i] < reach))
			return false;
	}
	return true;
}

Kind kindOf(const Convolution &convolution)
{
	if (convolution.spatial == 3)
		return Kind::conv3d;
	return convolution.groups > 1 && convolution.w.dims[1] == 1 ? Kind::conv_depthwise2d : Kind::conv2d;
}

bool fits(const Convolution &c)
{
	bool isRight = c.spatial >= 1 && c.x.rank == c.spatial + 2 && c.w.rank == c.x.rank && c.y.rank == c.x.rank &&
	               c.groups >= 1 && c.x.dims[0] == c.y.dims[0] && c.x.dims[1] == c.w.dims[1] * c.groups &&
	               c.y.dims[1] == c.w.dims[0] && c.w.dims[0] % c.groups == 0;
	for (int i = 0; isRight && i < c.spatial; i++) {
		const int64_t reach = int64_t{c.dilation[i]} * (c.w.dims[2 + i] - 1) + 1;
		const int64_t left = c.x.dims[2 + i] + c.padBefore[i] + c.padAfter[i] - reach;
		isRight = c.stride[i] > 0 && left >= 0 && c.y.dims[2 + i] == left / c.stride[i] + 1;
	}
	return isRight;
}

} // namespace

Facts factsOf(const Convolution &convolution)
{
	Op product;
	setProduct(product, convolution);
	return {product.m,
	        product.n,
	        product.k,
	        product.batch,
	        kindOf(convolution),
	        fits(convolution),
	        isOrderly(convolution.first(), false) && isOrderly(convolution.second(), false) &&
	            isOrderly(convolution.result(), true)};
}

uint32_t numberOf(const Convolution &convolution)
{
	const Kept *mine = nullptr;
	uint32_t place = static_cast<uint32_t>(hashOf(convolution)) % places;
	for (;; place = (place + 1) % places) {
		if (!place)
			continue;
		const Kept *known = table[place].load(std::memory_order_acquire);
		if (!known) {
			if (!mine && (valueCount.load(std::memory_order_relaxed) >= mostValues ||
			              !(mine = new (std::nothrow) Kept(convolution))))
				return 0;
			if (table[place].compare_exchange_strong(known, mine, std::memory_order_acq_rel)) {
				valueCount.fetch_add(1, std::memory_order_relaxed);
				return place;
			}
		}
		if (std::memcmp(&known->value, &convolution, sizeof convolution) == 0) {
			delete mine; // another thread was faster
			return place;
		}
	}
}

const Convolution *convolutionAt(uint32_t number)
{
	const Kept *const known = table[number].load(std::memory_order_acquire);
	return known ? &known->value : nullptr;
}

const Facts &factsAt(uint32_t number)
{
	return table[number].load(std::memory_order_acquire)->facts;
}

void setProduct(Op &op, const Convolution &convolution)
{
	const Tensor &x = convolution.x, &w = convolution.w, &y = convolution.y;
	const int64_t groups = std::max(1, convolution.groups);
	const int64_t channels = w.dims[1], filters = w.dims[0] / groups, taps = spatialSize(w); // per group
	op.batch = static_cast<int32_t>(groups);
	switch (convolution.direction) {
	case Direction::forward:
		op.m = y.dims[0] * spatialSize(y), op.n = filters, op.k = channels * taps;
		break;
	case Direction::backwardData:
		op.m = x.dims[0] * spatialSize(x), op.n = channels, op.k = filters * taps;
		break;
	case Direction::backwardFilter:
		op.m = filters, op.n = channels * taps, op.k = y.dims[0] * spatialSize(y);
		break;
	}
}

const char *layoutOf(const Tensor &tensor)
{
	return isPacked(tensor, false) ? "nchw" : isPacked(tensor, true) ? "nhwc" : "strided";
}

std::string shapeOf(const Convolution &convolution)
{
	const Tensor &x = convolution.x, &w = convolution.w;
	const int spatial = convolution.spatial;
	const auto named = [](const char *name, int64_t value) { return name + std::to_string(value); };
	std::string text = named("n", x.dims[0]) + named(" c", x.dims[1]);
	if (x.rank > 2)
		text += " " + across(x.dims + 2, x.rank - 2);
	if (w.rank)
		text += named(" k", w.dims[0]) + " " + across(w.dims + 2, spatial) + each(" s", convolution.stride, spatial) +
		        each(" p", convolution.padBefore, spatial) + each(" d", convolution.dilation, spatial) +
		        named(" g", convolution.groups);
	return text + " " + layoutOf(x);
}

std::string shapeOf(const Op &op)
{
	const Convolution *const geometry = convolutionAt(op.geometry);
	if (!geometry)
		return {};
	if (!isRecurrent(op.kind))
		return shapeOf(*geometry);
	const int64_t *const data = geometry->x.dims, *const net = geometry->w.dims;
	const int64_t values[] = {data[0], data[1], data[2], net[0], net[1]};
	std::string text;
	for (int i = 0; i < 5; i++)
		text += (i ? " " : "") + std::string(1, "tnihl"[i]) + std::to_string(values[i]);
	return text + (net[2] == 2 ? " bidirectional" : "") + (net[3] != net[0] ? " p" + std::to_string(net[3]) : "");
}

} // namespace autoamp::op
