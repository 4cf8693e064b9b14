#include "src/op/dnn.h"

#include <cudnn.h>

#include <algorithm>
#include <iterator>

namespace autoamp::op {

namespace {

Dtype dtypeOf(cudnnDataType_t type)
{
	switch (type) {
	case CUDNN_DATA_FLOAT:
		return Dtype::float32;
	case CUDNN_DATA_HALF:
		return Dtype::float16;
	case CUDNN_DATA_BFLOAT16:
		return Dtype::bfloat16;
	case CUDNN_DATA_DOUBLE:
		return Dtype::float64;
	default:
		return Dtype::other;
	}
}

// Output of a cuDNN getter: type, number of dimensions, dimensions and strides.
struct Answer {
	int type = 0, rank = 0, dims[CUDNN_DIM_MAX] = {}, strides[CUDNN_DIM_MAX] = {};
};

// Dimensions beyond mostDims are merged into the last one.
Tensor tensorOf(const Answer &answer)
{
	Tensor tensor;
	tensor.type = dtypeOf(static_cast<cudnnDataType_t>(answer.type));
	const int rank = std::clamp(answer.rank, 0, CUDNN_DIM_MAX);
	tensor.rank = std::min(rank, mostDims);
	std::copy_n(answer.dims, tensor.rank, tensor.dims);
	std::copy_n(answer.strides, tensor.rank, tensor.strides);
	for (int i = mostDims; i < rank; i++) {
		tensor.dims[mostDims - 1] *= answer.dims[i];
		tensor.strides[mostDims - 1] = answer.strides[i];
	}
	return tensor;
}

bool readTensor(const DnnGetters &getters, const void *desc, Tensor &tensor)
{
	Answer answer;
	if (!desc || !getters.ops ||
	    getters.ops->cudnnGetTensorNdDescriptor(desc, CUDNN_DIM_MAX, &answer.type, &answer.rank, answer.dims,
	                                            answer.strides))
		return false;
	tensor = tensorOf(answer);
	return true;
}

// A filter descriptor has no strides: they follow from its format.
bool readFilter(const DnnGetters &getters, const void *desc, Tensor &tensor)
{
	Answer answer;
	int format = 0;
	if (!desc || !getters.ops ||
	    getters.ops->cudnnGetFilterNdDescriptor(desc, CUDNN_DIM_MAX, &answer.type, &format, &answer.rank, answer.dims))
		return false;
	tensor = tensorOf(answer);
	const bool isLast = format == CUDNN_TENSOR_NHWC;
	int64_t stride = isLast ? tensor.dims[1] : 1;
	for (int i = tensor.rank - 1; i >= 2; stride *= tensor.dims[i--])
		tensor.strides[i] = stride;
	tensor.strides[1] = isLast ? 1 : stride;
	tensor.strides[0] = isLast ? stride : stride * tensor.dims[1];
	return true;
}

// Arithmetic for fp32 data under a math type.
Arithmetic arithmeticOf(int mathType, const VendorEnvironment &environment)
{
	switch (mathType) {
	case CUDNN_DEFAULT_MATH: // cuDNN developer guide: may use TF32, from compute capability 8.0 on
	case CUDNN_TENSOR_OP_MATH:
		return {environment.tf32Allowed ? Dtype::tf32 : Dtype::float32, Obstacle::none,
		        mathType == CUDNN_DEFAULT_MATH ? Cause::dnn_default : Cause::dnn_tensor_op};
	case CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION:
		return {Dtype::float16, Obstacle::already_low, Cause::dnn_conversion};
	case CUDNN_FMA_MATH:
		return {Dtype::float32, Obstacle::pedantic, Cause::dnn_fma};
	default:
		return {Dtype::float32, Obstacle::bad_argument};
	}
}

struct Types {
	Dtype a = Dtype::none, b = Dtype::none, out = Dtype::none; // none: unknown
	int mathType = CUDNN_DEFAULT_MATH;
};

// Fills in the fields that follow from the entry point, the types and the math mode.
Op begin(const Entry &entry, uint16_t index, const Types &types, const VendorEnvironment &environment)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.kind = entry.kind;
	op.a = op.asked = types.a, op.b = types.b, op.out = types.out;
	const bool isProduct = entry.obstacle == Obstacle::none || entry.obstacle == Obstacle::no_fp32_output; // attention
	op.obstacle = types.a == Dtype::none ? Obstacle::none : typeObstacle(types.a, types.b, types.out);
	if (op.obstacle == Obstacle::none && isProduct && types.a != Dtype::none) {
		const Arithmetic arithmetic = arithmeticOf(types.mathType, environment);
		op.asked = arithmetic.asked, op.obstacle = arithmetic.obstacle, op.cause = arithmetic.cause;
	}
	if (isLow(op.a))
		op.cause = Cause::half_operands;
	if (op.obstacle == Obstacle::none)
		op.obstacle = entry.obstacle;
	return op;
}

Op refused(const Entry &entry, uint16_t index)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.kind = entry.kind;
	op.obstacle = Obstacle::bad_argument;
	return op;
}

// Stores the one tensor that describes the call.
void setGeometry(Op &op, const Tensor &tensor)
{
	Convolution geometry;
	geometry.x = tensor;
	op.geometry = numberOf(geometry);
}

bool isMisplaced(const void *pointer)
{
	return !pointer || reinterpret_cast<uintptr_t>(pointer) % sizeof(float) != 0;
}

// True if the result is also an operand. The vendor refuses such a call or defines its result.
bool isInPlace(const ConvolutionCall &call)
{
	const void *const all[] = {call.y, call.x, call.w}; // indexed by Direction: the tensor that is written
	const void *const written = all[static_cast<unsigned>(call.direction)];
	return std::count(std::begin(all), std::end(all), written) > 1;
}

bool readConvolution(const DnnGetters &getters, const ConvolutionCall &call, Convolution &c)
{
	int spatial = 0, pads[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX], dilations[CUDNN_DIM_MAX], mode = 0, compute = 0;
	int mathType = 0;
	if (!call.convDesc || !getters.cnn || !readTensor(getters, call.xDesc, c.x) ||
	    !readFilter(getters, call.wDesc, c.w) || !readTensor(getters, call.yDesc, c.y) ||
	    getters.cnn->cudnnGetConvolutionNdDescriptor(call.convDesc, mostSpatial, &spatial, pads, strides, dilations,
	                                                 &mode, &compute) ||
	    getters.cnn->cudnnGetConvolutionMathType(call.convDesc, &mathType) ||
	    getters.cnn->cudnnGetConvolutionGroupCount(call.convDesc, &c.groups))
		return false;
	c.direction = call.direction;
	c.spatial = static_cast<uint8_t>(std::clamp(spatial, 0, mostSpatial));
	std::copy_n(pads, c.spatial, c.padBefore);
	std::copy_n(pads, c.spatial, c.padAfter);
	std::copy_n(strides, c.spatial, c.stride);
	std::copy_n(dilations, c.spatial, c.dilation);
	c.isFlipped = mode == CUDNN_CONVOLUTION;
	c.mathType = static_cast<uint8_t>(mathType);
	c.compute = dtypeOf(static_cast<cudnnDataType_t>(compute));
	return spatial <= mostSpatial;
}

// Reads bias, activation and z of cudnnConvolutionBiasActivationForward. False: a lowered call cannot apply them.
bool readFollowing(const DnnGetters &getters, const ConvolutionCall &call, Convolution &c)
{
	int mode = 0, nan = 0;
	double coefficient = 0;
	Tensor z, bias;
	if (getters.ops->cudnnGetActivationDescriptor(call.activationDesc, &mode, &nan, &coefficient) ||
	    !readTensor(getters, call.zDesc, z) || !readTensor(getters, call.biasDesc, bias))
		return false;
	c.hasBias = c.hasSource = true;
	c.propagatesNan = nan == CUDNN_PROPAGATE_NAN;
	c.activation = mode == CUDNN_ACTIVATION_IDENTITY ? Activation::none
	               : mode == CUDNN_ACTIVATION_RELU   ? Activation::relu
	                                                 : Activation::other;
	Tensor wanted = c.y;
	std::fill_n(wanted.dims, wanted.rank, 1);
	wanted.dims[1] = c.y.dims[1];
	return c.activation != Activation::other && bias.type == c.y.type && bias.rank == wanted.rank &&
	       std::equal(bias.dims, bias.dims + bias.rank, wanted.dims) && bias.strides[1] == 1 &&
	       z == c.y; // even if z is not read: the vendor may check it
}

// `needsZ`: the call reads z.
bool areMisplaced(const ConvolutionCall &call, bool needsZ)
{
	return isMisplaced(call.x) || isMisplaced(call.w) || isMisplaced(call.y) ||
	       (call.isFused && (isMisplaced(call.bias) || (needsZ && isMisplaced(call.z))));
}

} // namespace

Op describe(const Entry &entry, uint16_t index, Dtype type, const VendorEnvironment &environment)
{
	return begin(entry, index, {type, type, type}, environment);
}

Op describe(const Entry &entry, uint16_t index, const ConvolutionCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment)
{
	Convolution c;
	if (!readConvolution(getters, call, c))
		return refused(entry, index);
	const bool areScalars = call.alpha && call.beta && c.x.type == Dtype::float32;
	const bool isBetaZero = areScalars && isZero(call.beta, false);
	const bool isCarried = !call.isFused || readFollowing(getters, call, c);
	Op op = begin(entry, index, {c.first().type, c.second().type, c.result().type, c.mathType}, environment);
	op.geometry = numberOf(c);
	const Facts facts = op.geometry ? factsAt(op.geometry) : factsOf(c);
	setFacts(op, facts);
	if (op.obstacle != Obstacle::none)
		return op;
	if (isBetaZero)
		op.flags |= flagBetaZero;
	if (areScalars && isZero(call.alpha, false))
		op.flags |= flagAlphaZero;
	const Cause cause = !isCarried         ? Cause::activation
	                    : !op.geometry     ? Cause::geometry
	                    : !facts.isOrderly ? Cause::tensor_layout
	                    : isInPlace(call)  ? Cause::in_place
	                                       : Cause::none;
	if (!call.handle || !areScalars || !facts.fits || c.compute != Dtype::float32 || areMisplaced(call, !isBetaZero))
		op.obstacle = Obstacle::bad_argument;
	else if ((op.flags & flagAlphaZero) || !op.m || !op.n || !op.k)
		op.obstacle = Obstacle::zero_size;
	else if (cause != Cause::none)
		op.obstacle = Obstacle::unsupported, op.cause = cause;
	return op;
}

// The implicit product has the gates as n. Its k adds the sizes that each layer multiplies by its weights: its input
// and its output of the previous step.
Op describe(const Entry &entry, uint16_t index, const RnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment)
{
	int algo = 0, cell = 0, bias = 0, dir = 0, input = 0, type = 0, precision = 0, math = 0, layout = 0, steps = 0;
	int batch = 0, width = 0, dataType = 0;
	int32_t inputSize = 0, hidden = 0, projection = 0, layers = 0;
	uint32_t aux = 0;
	void *dropout = nullptr;
	char fill[sizeof(double)];
	if (!call.rnnDesc || !call.xDesc || !getters.adv ||
	    getters.adv->cudnnGetRNNDescriptor_v8(call.rnnDesc, &algo, &cell, &bias, &dir, &input, &type, &precision, &math,
	                                          &inputSize, &hidden, &projection, &layers, &dropout, &aux) ||
	    getters.adv->cudnnGetRNNDataDescriptor(call.xDesc, &dataType, &layout, &steps, &batch, &width, 0, nullptr,
	                                           fill))
		return refused(entry, index);
	constexpr Kind kinds[] = {Kind::rnn_relu, Kind::rnn_tanh, Kind::lstm, Kind::gru}; // by cudnnRNNMode_t
	constexpr int gates[] = {1, 1, 4, 3};
	const Dtype data = dtypeOf(static_cast<cudnnDataType_t>(dataType));
	Op op = begin(entry, index, {data, dtypeOf(static_cast<cudnnDataType_t>(type)), data, math}, environment);
	if (cell < 0 || cell >= static_cast<int>(std::size(kinds)))
		return refused(entry, index);
	op.kind = kinds[cell];
	const int64_t directions = dir == CUDNN_BIDIRECTIONAL ? 2 : 1;
	op.m = int64_t{steps} * batch, op.n = gates[cell] * hidden * directions;
	op.k = inputSize + (layers - 1) * directions * projection + int64_t{layers} * projection;
	Convolution geometry;
	geometry.x.rank = 3, geometry.w.rank = 4, geometry.y.rank = 5;
	const int64_t data3[] = {steps, batch, inputSize}, net[] = {hidden, layers, directions, projection};
	const int64_t rest[] = {algo, cell, bias, input, aux};
	std::copy_n(data3, 3, geometry.x.dims);
	std::copy_n(net, 4, geometry.w.dims);
	std::copy_n(rest, 5, geometry.y.dims);
	op.geometry = numberOf(geometry); // without the math type, which does not affect the contents of a reserve space
	if (op.obstacle != Obstacle::none)
		return op;
	const void *const weights = call.direction == Direction::backwardFilter ? call.dweightSpace : call.weightSpace;
	const bool isBack = call.direction == Direction::backwardData;
	if (!call.handle || !call.yDesc || isMisplaced(call.x) || isMisplaced(call.y) || isMisplaced(weights) ||
	    (isBack && isMisplaced(call.dy)))
		op.obstacle = Obstacle::bad_argument;
	else if (!op.geometry || algo == CUDNN_RNN_ALGO_PERSIST_DYNAMIC) // PERSIST_DYNAMIC is compiled for its descriptor
		op.obstacle = Obstacle::unsupported, op.cause = op.geometry ? Cause::persist_dynamic : Cause::geometry;
	return op;
}

Op describe(const Entry &entry, uint16_t index, const DnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment)
{
	Tensor tensor;
	const CudnnOps *const ops = getters.ops;
	if (call.sequence) {
		Answer answer;
		int axes[CUDNN_SEQDATA_DIM_COUNT];
		size_t lengths = 0;
		char fill[sizeof(double)];
		if (!getters.adv ||
		    getters.adv->cudnnGetSeqDataDescriptor(call.sequence, &answer.type, &answer.rank, CUDNN_SEQDATA_DIM_COUNT,
		                                           answer.dims, axes, &lengths, 0, nullptr, fill))
			return begin(entry, index, {}, environment);
		tensor = tensorOf(answer);
	} else if (call.filter ? !readFilter(getters, call.filter, tensor)
	                       : call.tensor && !readTensor(getters, call.tensor, tensor)) {
		return begin(entry, index, {}, environment);
	}
	Op op = begin(entry, index, {tensor.type, tensor.type, tensor.type}, environment);
	int mode = -1, number = 0;
	double coefficient = 0;
	int ignored[3][CUDNN_DIM_MAX];
	const auto among = [&](std::initializer_list<Kind> kinds) {
		op.kind = mode >= 0 && mode < static_cast<int>(kinds.size()) ? kinds.begin()[mode] : Kind::none;
	};
	if (op.kind == Kind::relu && call.activationDesc) {
		if (ops->cudnnGetActivationDescriptor(call.activationDesc, &mode, &number, &coefficient) == 0)
			among({Kind::sigmoid, Kind::relu, Kind::tanh, Kind::relu, Kind::elu, Kind::none, Kind::silu});
	} else if (call.poolingDesc) {
		if (ops->cudnnGetPoolingNdDescriptor(call.poolingDesc, mostSpatial, &mode, &number, ignored[0], ignored[0],
		                                     ignored[1], ignored[2]) == 0)
			among({Kind::max_pool2d, Kind::avg_pool2d, Kind::avg_pool2d, Kind::max_pool2d});
	} else if (call.reduceTensorDesc) {
		if (ops->cudnnGetReduceTensorDescriptor(call.reduceTensorDesc, &mode, ignored[0], ignored[0], ignored[0],
		                                        ignored[0]) == 0)
			among({Kind::sum, Kind::prod, Kind::min, Kind::max, Kind::max, Kind::mean, Kind::norm, Kind::norm,
			       Kind::prod});
	} else if (call.opTensorDesc) {
		if (ops->cudnnGetOpTensorDescriptor(call.opTensorDesc, &mode, ignored[0], ignored[0]) == 0)
			among({Kind::add, Kind::mul, Kind::min, Kind::max});
	} else if (op.kind == Kind::softmax && call.algo == CUDNN_SOFTMAX_LOG) {
		op.kind = Kind::log_softmax;
	} else if (op.kind == Kind::conv2d && tensor.rank == 5) { // gradient of a bias
		op.kind = Kind::conv3d;
	}
	if (tensor.rank)
		setGeometry(op, tensor);
	return op;
}

} // namespace autoamp::op
