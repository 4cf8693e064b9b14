// The common form of all legacy calls except convolutions: result = alpha * function(operands) + beta * result, in
// double, with one rounding. Any thread.
#pragma once

#include "tools/emulated/cudnn/descriptors.h"

namespace emulated::cudnn {

using Values = std::vector<double>; // the elements of a tensor, in dense order

struct Part {
	cudnnTensorDescriptor_t descriptor;
	const void *data; // null: missing; only an optional part may be missing
	bool isOptional = false;
};

// Host scalars: double for double data, float for all other types.
double scalar(const void *at, cudnnDataType_t type);

using Function = std::function<Values(std::vector<Values> operands)>;
// BAD_PARAM for missing parts; NOT_SUPPORTED for types and layouts without a computation. A missing optional part is
// empty.
cudnnStatus_t blend(cudnnHandle_t handle, const char *name, double alpha, double beta,
                    const std::vector<Part> &operands, Part result, Function function);
// The same for several results; `work` must write them.
using Work = std::function<void(Memory &memory, std::vector<Values> operands)>;
cudnnStatus_t launch(cudnnHandle_t handle, const char *name, const std::vector<Part> &operands,
                     const std::vector<Part> &results, Work work);

// The activation of a number, and its gradient.
double activate(const cudnnActivationStruct &activation, double x);
double activateBackward(const cudnnActivationStruct &activation, double x, double y, double dy);

// For each element of the whole tensor, the offset in the broadcast one; both in dense order.
std::vector<int64_t> broadcast(const Tensor &part, const Tensor &whole);
bool isBroadcast(const Tensor &part, const Tensor &whole);

// The dropout states contain the number of masks made so far. A mask is a hash of the seed, this number and the
// element.
struct DropoutState {
	static constexpr size_t bytes = 1 << 16;
	unsigned long long seed, masks;
	bool isKept(int64_t element, float probability) const
	{
		uint64_t bits = seed * 0x9e3779b97f4a7c15u + masks * 0xd1342543de82ef95u + static_cast<uint64_t>(element);
		for (int i = 0; i < 3; ++i) {
			bits = (bits ^ (bits >> 31)) * 0xbf58476d1ce4e5b9u;
			bits ^= bits >> 27;
		}
		return static_cast<double>(bits >> 11) * 0x1p-53 >= probability;
	}
};

} // namespace emulated::cudnn

// Defines `a` and `b`, the two scalars of a call.
#define SCALARS(result)                                                                                                \
	REFUSE_IF(!alpha || !beta || !(result), BAD_PARAM);                                                                \
	const double a = scalar(alpha, (result)->tensor.type), b = scalar(beta, (result)->tensor.type)
