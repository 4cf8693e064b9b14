#include "tools/emulated/cudnn/layer.h"

#include <cmath>

namespace emulated::cudnn {

double scalar(const void *at, cudnnDataType_t type)
{
	return type == CUDNN_DATA_DOUBLE ? *static_cast<const double *>(at) : *static_cast<const float *>(at);
}

cudnnStatus_t launch(cudnnHandle_t handle, const char *name, const std::vector<Part> &operands,
                     const std::vector<Part> &results, Work work)
{
	const Handle *mine = handleOf(handle);
	REFUSE_IF(!mine, BAD_PARAM);
	std::vector<std::pair<Tensor, const void *>> inputs;
	for (const auto *list : {&operands, &results})
		for (const Part &part : *list) {
			REFUSE_IF(!part.isOptional && (!part.descriptor || !part.data), BAD_PARAM);
			REFUSE_IF(part.data && !part.descriptor, BAD_PARAM);
			if (part.descriptor) {
				REFUSE_IF(part.descriptor->isVectorized || !dnn::sizeOf(part.descriptor->tensor.type), NOT_SUPPORTED);
			}
			if (list == &operands)
				inputs.emplace_back(part.descriptor ? part.descriptor->tensor : Tensor{}, part.data);
		}
	return run(*mine, name, [=, work = std::move(work)](Memory &memory) {
		std::vector<Values> values;
		for (const auto &[tensor, data] : inputs)
			values.push_back(data ? memory.read<double>(tensor, data) : Values());
		if (!memory.error())
			work(memory, std::move(values));
	});
}

cudnnStatus_t blend(cudnnHandle_t handle, const char *name, double alpha, double beta,
                    const std::vector<Part> &operands, Part result, Function function)
{
	const Tensor to = result.descriptor ? result.descriptor->tensor : Tensor{};
	return launch(handle, name, operands, {result},
	              [=, function = std::move(function)](Memory &memory, std::vector<Values> values) {
		              memory.write(function(std::move(values)), to, const_cast<void *>(result.data), alpha, beta);
	              });
}

double activate(const cudnnActivationStruct &activation, double x)
{
	const double limit = activation.coefficient;
	const bool staysNan = std::isnan(x) && activation.nan == CUDNN_PROPAGATE_NAN;
	switch (activation.mode) {
	case CUDNN_ACTIVATION_SIGMOID:
		return 1 / (1 + std::exp(-x));
	case CUDNN_ACTIVATION_RELU:
		return staysNan || x > 0 ? x : 0;
	case CUDNN_ACTIVATION_TANH:
		return std::tanh(x);
	case CUDNN_ACTIVATION_CLIPPED_RELU:
		return staysNan ? x : x > 0 ? std::min(x, limit) : 0;
	case CUDNN_ACTIVATION_ELU:
		return x > 0 ? x : limit * std::expm1(x);
	case CUDNN_ACTIVATION_SWISH:
		return x / (1 + std::exp(-activation.swishBeta * x));
	default:
		return x;
	}
}

double activateBackward(const cudnnActivationStruct &activation, double x, double y, double dy)
{
	const double gate = 1 / (1 + std::exp(-activation.swishBeta * x));
	switch (activation.mode) {
	case CUDNN_ACTIVATION_SIGMOID:
		return dy * y * (1 - y);
	case CUDNN_ACTIVATION_RELU:
		return x > 0 ? dy : 0;
	case CUDNN_ACTIVATION_TANH:
		return dy * (1 - y * y);
	case CUDNN_ACTIVATION_CLIPPED_RELU:
		return x > 0 && x < activation.coefficient ? dy : 0;
	case CUDNN_ACTIVATION_ELU:
		return x > 0 ? dy : dy * activation.coefficient * std::exp(x);
	case CUDNN_ACTIVATION_SWISH:
		return dy * gate * (1 + activation.swishBeta * x * (1 - gate));
	default:
		return dy;
	}
}

bool isBroadcast(const Tensor &part, const Tensor &whole)
{
	bool is = part.rank == whole.rank;
	for (int i = 0; is && i < part.rank; ++i)
		is = part.dims[i] == whole.dims[i] || part.dims[i] == 1;
	return is;
}

std::vector<int64_t> broadcast(const Tensor &part, const Tensor &whole)
{
	std::vector<int64_t> offsets(whole.count());
	for (int64_t i = 0; i < whole.count(); ++i) {
		int64_t rest = i;
		for (int d = whole.rank - 1; d >= 0; --d) {
			offsets[i] += part.dims[d] == 1 ? 0 : rest % whole.dims[d] * part.countFrom(d + 1);
			rest /= whole.dims[d];
		}
	}
	return offsets;
}

} // namespace emulated::cudnn
