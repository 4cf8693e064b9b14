// Geometry of a convolution as a value, and a table that numbers each distinct geometry: an Op stores the number. Any
// thread; no lock. Values are never freed, so a number stays valid.
#pragma once

#include "src/op/arguments.h"
#include "src/op/op.h"

#include <string>

namespace autoamp::op {

constexpr int mostSpatial = 3, mostDims = 2 + mostSpatial;

// Dimensions: N, C and the spatial ones; for a filter K, C of one group and the spatial ones. Strides in elements.
struct Tensor {
	int64_t dims[mostDims] = {}, strides[mostDims] = {};
	int32_t rank = 0; // 0: no tensor
	Dtype type = Dtype::none;
	uint8_t reserved[3] = {};

	bool operator==(const Tensor &) const = default;
};

// Activation applied to alpha * convolution + bias + beta * z (cudnnConvolutionBiasActivationForward).
enum class Activation : uint8_t { none, relu, other };

// A convolution as the application requests it. Zero-initialised, no padding: hashed and compared as bytes.
struct Convolution {
	Tensor x, w, y;
	int32_t padBefore[mostSpatial] = {}, padAfter[mostSpatial] = {};
	int32_t stride[mostSpatial] = {}, dilation[mostSpatial] = {};
	int32_t groups = 1;
	Direction direction = Direction::forward;
	uint8_t spatial = 0;
	bool isFlipped = false; // CUDNN_CONVOLUTION; else a cross-correlation
	bool hasBias = false;   // one value per channel of y
	bool hasSource = false; // beta multiplies another tensor (z) with the geometry of y; otherwise y itself
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

// Returns the number of a geometry, the same for equal ones. Returns 0 only if the table is full (32 767 geometries
// fit) or memory is exhausted; then the geometry is unknown and the call runs unchanged.
// The table also keeps the tensor that describes another cuDNN call: as x, without w and y. For an RNN, x holds steps,
// batch and input size; w holds hidden size, layers, directions and projection. Its y holds the other descriptor fields
// that affect the weights: algorithm, cell, bias, input mode, flags.
uint32_t numberOf(const Convolution &convolution);
const Convolution *convolutionAt(uint32_t number); // null: number 0

// Values derived from a geometry. For a numbered geometry they are stored with it.
struct Facts {
	int64_t m = 0, n = 0, k = 0; // sizes of the implicit product; its batch is the number of groups
	int32_t batch = 1;
	Kind kind = Kind::none;
	bool fits = false;      // the shapes of the tensors match, as the vendor requires
	bool isOrderly = false; // no negative stride, and no two result elements share an address
};
Facts factsOf(const Convolution &convolution);
const Facts &factsAt(uint32_t number); // not 0

inline void setFacts(Op &op, const Facts &facts)
{
	op.m = facts.m, op.n = facts.n, op.k = facts.k, op.batch = facts.batch, op.kind = facts.kind;
}
// Sets only the sizes of the implicit product.
void setProduct(Op &op, const Convolution &convolution);

// For reports: "n32 c64 28x28 k64 3x3 s1 p1 d1 g1 nhwc" for a convolution, "t20 n32 i128 h256 l2" for an RNN. For other
// calls, "n32 c64 28x28 nhwc" of the tensor that describes the call (only x is set). Empty if the geometry is unknown.
std::string shapeOf(const Op &op);
std::string shapeOf(const Convolution &convolution);
// "nchw" or "nhwc" if the tensor is packed in this order, otherwise "strided".
const char *layoutOf(const Tensor &tensor);

} // namespace autoamp::op
