// Batch normalization: inference, training and backward pass, with a fused addition and activation.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>
#include <cstring>

using namespace emulated::cudnn;

namespace {

struct Norm {
	bool isPerActivation = false, adds = false;
	bool activates = false;
	cudnnActivationStruct activation;
	double epsilon = 0;

	// The index of the statistic for an element.
	int64_t of(const Tensor &x, int64_t i) const
	{
		return isPerActivation ? i % x.countFrom(1) : i / x.countFrom(2) % x.dims[1];
	}
	int64_t statistics(const Tensor &x) const { return isPerActivation ? x.countFrom(1) : x.dims[1]; }
};

cudnnStatus_t describe(Norm &norm, int mode, int ops, const cudnnActivationStruct *activation, double epsilon,
                       const cudnnTensorStruct *x, const cudnnTensorStruct *parameters)
{
	REFUSE_IF(mode < 0 || mode > 2 || ops < 0 || ops > 2, BAD_PARAM);
	REFUSE_IF(!x || !parameters || x->tensor.rank < 4 || x->tensor.rank > 5 || epsilon < 0, BAD_PARAM);
	REFUSE_IF(ops != 0 && (!activation || activation->mode != CUDNN_ACTIVATION_RELU), BAD_PARAM);
	norm.isPerActivation = mode == 0;
	norm.adds = ops == 2;
	norm.activates = ops != 0;
	norm.epsilon = epsilon;
	if (activation)
		norm.activation = *activation;
	const cudnnDataType_t type = x->tensor.type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
	REFUSE_IF(parameters->tensor.type != type, BAD_PARAM);
	REFUSE_IF(parameters->tensor.count() != norm.statistics(x->tensor), BAD_PARAM);
	return CUDNN_STATUS_SUCCESS;
}

size_t workspaceOf(const Norm &norm, const Tensor &x)
{
	return norm.activates ? 8 * norm.statistics(x) : 0;
}

size_t reserveOf(const Norm &norm, const Tensor &x) // one bit for each element that passed the activation
{
	return norm.activates ? (x.count() + 7) / 8 : 0;
}

void spoil(Memory &memory, void *workspace, size_t bytes)
{
	if (void *at = bytes ? memory.at(workspace, bytes) : nullptr)
		std::memset(at, 0xff, bytes);
}

struct Scratch {
	void *workspace = nullptr;
	size_t workspaceBytes = 0;
	void *reserve = nullptr;
	size_t reserveBytes = 0;
};

// y = activation(scale * (x - mean) / deviation + bias [+ z])
Values apply(const Norm &norm, const Tensor &x, const std::vector<Values> &v, const Values &mean, const Values &inverse,
             unsigned char *mask)
{
	Values result(v[0].size());
	for (int64_t i = 0; i < x.count(); ++i) {
		const int64_t s = norm.of(x, i);
		double value = v[1][s] * ((v[0][i] - mean[s]) * inverse[s]) + v[2][s] + (norm.adds ? v[3][i] : 0);
		if (norm.activates)
			value = activate(norm.activation, value);
		if (mask)
			mask[i / 8] = static_cast<unsigned char>((mask[i / 8] & ~(1 << i % 8)) | (value > 0 ? 1 << i % 8 : 0));
		result[i] = value;
	}
	return result;
}

cudnnStatus_t infer(cudnnHandle_t handle, const char *name, const Norm &norm, double a, double b, Part x, Part z,
                    Part y, Part scale, Part bias, Part mean, Part variance)
{
	REFUSE_IF(!y.descriptor || !x.descriptor->tensor.hasSameDims(y.descriptor->tensor), BAD_PARAM);
	const Tensor t = x.descriptor->tensor;
	return blend(handle, name, a, b, {x, scale, bias, z, mean, variance}, y, [=](std::vector<Values> v) {
		for (double &value : v[5])
			value = 1 / std::sqrt(value + norm.epsilon);
		return apply(norm, t, v, v[4], v[5], nullptr);
	});
}

struct Statistics {
	cudnnTensorDescriptor_t descriptor;
	double factor = 0;
	void *runningMean = nullptr, *runningVariance = nullptr, *savedMean = nullptr, *savedInverse = nullptr;
};

cudnnStatus_t train(cudnnHandle_t handle, const char *name, const Norm &norm, double a, double b, Part x, Part z,
                    Part y, Part scale, Part bias, const Statistics &statistics, const Scratch &scratch)
{
	REFUSE_IF(!y.descriptor || !x.descriptor->tensor.hasSameDims(y.descriptor->tensor), BAD_PARAM);
	const Tensor t = x.descriptor->tensor, to = y.descriptor->tensor, stats = statistics.descriptor->tensor;
	REFUSE_IF(scratch.workspaceBytes < workspaceOf(norm, t) || scratch.reserveBytes < reserveOf(norm, t), BAD_PARAM);
	REFUSE_IF(!statistics.runningMean != !statistics.runningVariance, BAD_PARAM);
	REFUSE_IF(!statistics.savedMean != !statistics.savedInverse, BAD_PARAM);
	return launch(handle, name, {x, scale, bias, z}, {y}, [=](Memory &memory, std::vector<Values> v) {
		spoil(memory, scratch.workspace, workspaceOf(norm, t));
		const int64_t count = norm.statistics(t), each = t.count() / count;
		Values mean(count), variance(count), inverse(count);
		for (int64_t i = 0; i < t.count(); ++i)
			mean[norm.of(t, i)] += v[0][i] / static_cast<double>(each);
		for (int64_t i = 0; i < t.count(); ++i) {
			const double off = v[0][i] - mean[norm.of(t, i)];
			variance[norm.of(t, i)] += off * off / static_cast<double>(each);
		}
		for (int64_t i = 0; i < count; ++i)
			inverse[i] = 1 / std::sqrt(variance[i] + norm.epsilon);
		const size_t bits = reserveOf(norm, t);
		auto *mask = static_cast<unsigned char *>(bits ? memory.at(scratch.reserve, bits) : nullptr);
		memory.write(apply(norm, t, v, mean, inverse, mask), to, const_cast<void *>(y.data), a, b);
		if (statistics.savedMean) {
			memory.write(mean, stats, statistics.savedMean);
			memory.write(inverse, stats, statistics.savedInverse);
		}
		if (statistics.runningMean) {
			const double unbiased = each > 1 ? static_cast<double>(each) / static_cast<double>(each - 1) : 1;
			for (double &value : variance)
				value *= unbiased;
			const double old = 1 - statistics.factor;
			memory.write(mean, stats, statistics.runningMean, statistics.factor, old);
			memory.write(variance, stats, statistics.runningVariance, statistics.factor, old);
		}
	});
}

struct Gradients {
	Part dz; // optional
	void *scale, *bias;
	double dataAlpha, dataBeta, alpha, beta;
};

cudnnStatus_t goBack(cudnnHandle_t handle, const char *name, const Norm &norm, Part x, Part dy, Part dx, Part scale,
                     const Gradients &gradients, Part mean, Part inverse, const Scratch &scratch)
{
	REFUSE_IF(!dy.descriptor || !dx.descriptor || !gradients.scale || !gradients.bias, BAD_PARAM);
	REFUSE_IF(!mean.data != !inverse.data, BAD_PARAM);
	const Tensor t = x.descriptor->tensor, to = dx.descriptor->tensor, stats = scale.descriptor->tensor;
	REFUSE_IF(!t.hasSameDims(to) || !t.hasSameDims(dy.descriptor->tensor), BAD_PARAM);
	REFUSE_IF(scratch.workspaceBytes < workspaceOf(norm, t) || scratch.reserveBytes < reserveOf(norm, t), BAD_PARAM);
	REFUSE_IF(norm.adds && (!gradients.dz.data || !gradients.dz.descriptor), BAD_PARAM);
	const Tensor added = norm.adds ? gradients.dz.descriptor->tensor : t;
	return launch(handle, name, {x, dy, scale, mean, inverse}, {dx}, [=](Memory &memory, std::vector<Values> v) {
		spoil(memory, scratch.workspace, workspaceOf(norm, t));
		const int64_t count = norm.statistics(t);
		const double each = static_cast<double>(t.count() / count);
		if (norm.activates)
			if (const auto *mask = static_cast<unsigned char *>(memory.at(scratch.reserve, reserveOf(norm, t))))
				for (int64_t i = 0; i < t.count(); ++i)
					v[1][i] *= mask[i / 8] >> i % 8 & 1;
		if (v[3].empty()) {
			v[3].resize(count);
			v[4].resize(count);
			for (int64_t i = 0; i < t.count(); ++i)
				v[3][norm.of(t, i)] += v[0][i] / each;
			for (int64_t i = 0; i < t.count(); ++i)
				v[4][norm.of(t, i)] += std::pow(v[0][i] - v[3][norm.of(t, i)], 2) / each;
			for (double &value : v[4])
				value = 1 / std::sqrt(value + norm.epsilon);
		}
		auto normal = [&](int64_t i) { return (v[0][i] - v[3][norm.of(t, i)]) * v[4][norm.of(t, i)]; };
		Values toScale(count), toBias(count), toX(t.count());
		for (int64_t i = 0; i < t.count(); ++i) {
			toScale[norm.of(t, i)] += v[1][i] * normal(i);
			toBias[norm.of(t, i)] += v[1][i];
		}
		for (int64_t i = 0; i < t.count(); ++i) {
			const int64_t s = norm.of(t, i);
			toX[i] = v[2][s] * v[4][s] * (v[1][i] - (toBias[s] + normal(i) * toScale[s]) / each);
		}
		if (norm.adds)
			memory.write(v[1], added, const_cast<void *>(gradients.dz.data));
		memory.write(std::move(toX), to, const_cast<void *>(dx.data), gradients.dataAlpha, gradients.dataBeta);
		memory.write(std::move(toScale), stats, gradients.scale, gradients.alpha, gradients.beta);
		memory.write(std::move(toBias), stats, gradients.bias, gradients.alpha, gradients.beta);
	});
}

} // namespace

#define NORM(ops, activation, epsilon, parameters)                                                                     \
	REFUSE_IF(!handleOf(handle), BAD_PARAM);                                                                           \
	Norm norm;                                                                                                         \
	if (cudnnStatus_t status = describe(norm, mode, ops, activation, epsilon, xDesc, parameters))                      \
		return status;
#define SIZE(value)                                                                                                    \
	REFUSE_IF(!bytes, BAD_PARAM);                                                                                      \
	*bytes = value;                                                                                                    \
	return CUDNN_STATUS_SUCCESS
#define GRADIENTS(dz)                                                                                                  \
	REFUSE_IF(!alphaData || !betaData || !alphaParameters || !betaParameters, BAD_PARAM);                              \
	const cudnnDataType_t type = xDesc->tensor.type;                                                                   \
	const Gradients gradients                                                                                          \
	{                                                                                                                  \
		dz, dScale, dBias, scalar(alphaData, type), scalar(betaData, type), scalar(alphaParameters, type),             \
		    scalar(betaParameters, type)                                                                               \
	}

ENTRY(cudnnBatchNormalizationForwardInference, EXECUTION_FAILED, handle, mode, alpha, beta, xDesc, x, yDesc, y,
      parameters, scale, bias, mean, variance, epsilon)
{
	NORM(0, nullptr, epsilon, parameters)
	SCALARS(yDesc);
	return infer(handle, __func__, norm, a, b, {xDesc, x}, {nullptr, nullptr, true}, {yDesc, y}, {parameters, scale},
	             {parameters, bias}, {parameters, mean}, {parameters, variance});
}

ENTRY(cudnnBatchNormalizationForwardTrainingEx, EXECUTION_FAILED, handle, mode, ops, alpha, beta, xDesc, x, zDesc, z,
      yDesc, y, parameters, scale, bias, factor, runningMean, runningVariance, epsilon, savedMean, savedInverse,
      activation, workspace, workspaceBytes, reserve, reserveBytes)
{
	NORM(ops, activation, epsilon, parameters)
	SCALARS(yDesc);
	return train(handle, __func__, norm, a, b, {xDesc, x},
	             {norm.adds ? zDesc : nullptr, norm.adds ? z : nullptr, !norm.adds}, {yDesc, y}, {parameters, scale},
	             {parameters, bias}, {parameters, factor, runningMean, runningVariance, savedMean, savedInverse},
	             {workspace, workspaceBytes, reserve, reserveBytes});
}

ENTRY(cudnnBatchNormalizationForwardTraining, EXECUTION_FAILED, handle, mode, alpha, beta, xDesc, x, yDesc, y,
      parameters, scale, bias, factor, runningMean, runningVariance, epsilon, savedMean, savedInverse)
{
	NORM(0, nullptr, epsilon, parameters)
	SCALARS(yDesc);
	return train(handle, __func__, norm, a, b, {xDesc, x}, {nullptr, nullptr, true}, {yDesc, y}, {parameters, scale},
	             {parameters, bias}, {parameters, factor, runningMean, runningVariance, savedMean, savedInverse}, {});
}

ENTRY(cudnnBatchNormalizationBackward, EXECUTION_FAILED, handle, mode, alphaData, betaData, alphaParameters,
      betaParameters, xDesc, x, dyDesc, dy, dxDesc, dx, parameters, scale, dScale, dBias, epsilon, mean, inverse)
{
	NORM(0, nullptr, epsilon, parameters)
	GRADIENTS((Part{nullptr, nullptr, true}));
	return goBack(handle, __func__, norm, {xDesc, x}, {dyDesc, dy}, {dxDesc, dx}, {parameters, scale}, gradients,
	              {parameters, mean, true}, {parameters, inverse, true}, {});
}

ENTRY(cudnnBatchNormalizationBackwardEx, EXECUTION_FAILED, handle, mode, ops, alphaData, betaData, alphaParameters,
      betaParameters, xDesc, x, unused, unused2, dyDesc, dy, dzDesc, dz, dxDesc, dx, parameters, scale, unused3, dScale,
      dBias, epsilon, mean, inverse, activation, workspace, workspaceBytes, reserve, reserveBytes)
{
	NORM(ops, activation, epsilon, parameters)
	GRADIENTS((Part{dzDesc, dz, true}));
	return goBack(handle, __func__, norm, {xDesc, x}, {dyDesc, dy}, {dxDesc, dx}, {parameters, scale}, gradients,
	              {parameters, mean, true}, {parameters, inverse, true},
	              {workspace, workspaceBytes, reserve, reserveBytes});
}

ENTRY(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize, EXECUTION_FAILED, handle, mode, ops, xDesc, unused,
      unused2, parameters, activation, bytes)
{
	NORM(ops, activation, 0, parameters)
	SIZE(workspaceOf(norm, xDesc->tensor));
}

ENTRY(cudnnGetBatchNormalizationBackwardExWorkspaceSize, EXECUTION_FAILED, handle, mode, ops, xDesc, unused, unused2,
      unused3, unused4, parameters, activation, bytes)
{
	NORM(ops, activation, 0, parameters)
	SIZE(workspaceOf(norm, xDesc->tensor));
}

ENTRY(cudnnGetBatchNormalizationTrainingExReserveSpaceSize, EXECUTION_FAILED, handle, mode, ops, activation, xDesc,
      bytes)
{
	cudnnTensorStruct parameters;
	if (xDesc)
		::cudnnDeriveBNTensorDescriptor(&parameters, xDesc, mode); // invalid arguments are rejected below
	NORM(ops, activation, 0, &parameters)
	SIZE(reserveOf(norm, xDesc->tensor));
}
