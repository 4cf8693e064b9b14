// A convolution's geometry as a value, and the place where each one that was met is kept: an Op has its number. Any
// thread; no lock. Values are never freed, so what a number leads to stays.
#pragma once

#include "src/op/arguments.h"
#include "src/op/op.h"

#include <string>

namespace autoamp::op {

constexpr int mostSpatial = 3, mostDims = 2 + mostSpatial;

// N, C, and what is in space; of a filter K, C of one group, and what is in space. In elements.
struct Tensor {
	int64_t dims[mostDims] = {}, strides[mostDims] = {};
	int32_t rank = 0; // 0: there is none
	Dtype type = Dtype::none;
	uint8_t reserved[3] = {};

	bool operator==(const Tensor &) const = default;
};

// What is done with alpha * convolution + bias + beta * z (cudnnConvolutionBiasActivationForward).
enum class Activation : uint8_t { none, relu, other };

// As the application asked for it. Zero-initialised, no padding: hashed and compared as bytes.
struct Convolution {
	Tensor x, w, y;
	int32_t padBefore[mostSpatial] = {}, padAfter[mostSpatial] = {};
	int32_t stride[mostSpatial] = {}, dilation[mostSpatial] = {};
	int32_t groups = 1;
	Direction direction = Direction::forward;
	uint8_t spatial = 0;
	bool isFlipped = false; // CUDNN_CONVOLUTION; else a cross-correlation
	bool hasBias = false;   // of one value a channel of y
	bool hasSource = false; // beta is that of another tensor (z) with y's geometry; else of y itself
	Activation activation = Activation::none;
	uint8_t mathType = 0; // cudnnMathType_t, as set
	Dtype compute = Dtype::none;
	bool propagatesNan = false; // of the activation
	uint8_t reserved[3] = {};

	const Tensor &first() const { return direction == Direction::backwardData ? y : x; }
	const Tensor &second() const { return direction == Direction::backwardFilter ? y : w; }
	const Tensor &result() const
	{
		return direction == Direction::forward ? y : direction == Direction::backwardData ? x : w;
	}
	bool operator==(const Convolution &) const = default;
};
static_assert(std::has_unique_object_representations_v<Convolution>);

// Its number, the same for equal ones, never 0 but where the table is full or the memory (32 767 different ones fit):
// then nobody knows its geometry, and it runs as it was asked.
// Of other calls of cuDNN the same table keeps the tensor that they are about, as x without w and y; of a recurrent net
// steps, batch and input as x, hidden size, layers, directions and projection as w, and as y what else its descriptor
// says of the weights: algorithm, cell, bias, input mode, flags.
uint32_t numberOf(const Convolution &convolution);
const Convolution *convolutionAt(uint32_t number); // null: number 0

// What follows from a geometry alone; of one that has a number it is kept with it.
struct Facts {
	int64_t m = 0, n = 0, k = 0; // of the implicit product, groups as its batch
	int32_t batch = 1;
	Kind kind = Kind::none;
	bool fits = false;      // the vendor takes its tensors together
	bool isOrderly = false; // no stride goes backwards, no two results share a place
};
Facts factsOf(const Convolution &convolution);
const Facts &factsAt(uint32_t number); // not 0

inline void setFacts(Op &op, const Facts &facts)
{
	op.m = facts.m, op.n = facts.n, op.k = facts.k, op.batch = facts.batch, op.kind = facts.kind;
}
// The implicit product alone.
void setProduct(Op &op, const Convolution &convolution);

// For reports: "n32 c64 28x28 k64 3x3 s1 p1 d1 g1 nhwc"; of what is no convolution, "n32 c64 28x28 nhwc" of the tensor
// that it is about (x alone is there), of a recurrent net "t20 n32 i128 h256 l2". Empty: nobody knows.
std::string shapeOf(const Op &op);
std::string shapeOf(const Convolution &convolution);
// "nchw", "nhwc" where its elements lie so without gaps, else "strided".
const char *layoutOf(const Tensor &tensor);

} // namespace autoamp::op
