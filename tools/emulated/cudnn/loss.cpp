// CTC loss: forward and backward sums over the labels with blanks between them, in double. Label 0 is the blank.
#include "tools/emulated/cudnn/layer.h"

#include <cmath>

using namespace emulated::cudnn;

namespace {

using Numbers = std::vector<int>;

struct Samples {
	int64_t steps, batch, alphabet; // dimensions of the probabilities
	Numbers labels, labelLengths, inputLengths;
};

bool isFitting(const Samples &s)
{
	int64_t total = 0;
	for (int64_t n = 0; n < s.batch; ++n) {
		if (s.inputLengths[n] < 0 || s.inputLengths[n] > s.steps || s.labelLengths[n] < 0)
			return false;
		total += s.labelLengths[n];
	}
	return total <= static_cast<int64_t>(s.labels.size()) &&
	       std::all_of(s.labels.begin(), s.labels.end(), [&](int one) { return one > 0 && one < s.alphabet; });
}

// Returns the cost of one sample and replaces its probabilities by gradients with respect to the input of softmax.
double costOf(const Samples &s, int64_t sample, const int *labels, Values &p)
{
	const int64_t steps = s.inputLengths[sample], states = 2 * s.labelLengths[sample] + 1;
	const auto at = [&](int64_t t, int64_t a) { return (t * s.batch + sample) * s.alphabet + a; };
	const auto labelOf = [&](int64_t state) { return state % 2 ? labels[state / 2] : 0; };
	const auto mayJump = [&](int64_t state) { return state % 2 && state > 1 && labelOf(state) != labelOf(state - 2); };
	std::vector<Values> ahead(steps + 1, Values(states + 2)), behind = ahead;
	double whole = steps ? 0 : states == 1;
	for (int64_t t = 0; t < steps; ++t)
		for (int64_t i = 0; i < states; ++i) {
			const double before =
			    t == 0 ? i < 2
			           : ahead[t - 1][i] + (i > 0 ? ahead[t - 1][i - 1] : 0) + (mayJump(i) ? ahead[t - 1][i - 2] : 0);
			ahead[t][i] = before * p[at(t, labelOf(i))];
		}
	for (int64_t t = steps; t-- > 0;)
		for (int64_t i = 0; i < states; ++i) // without the factor of this step
			behind[t][i] =
			    t == steps - 1
			        ? i >= states - 2
			        : behind[t + 1][i] * p[at(t + 1, labelOf(i))] +
			              (i + 1 < states ? behind[t + 1][i + 1] * p[at(t + 1, labelOf(i + 1))] : 0) +
			              (i + 2 < states && mayJump(i + 2) ? behind[t + 1][i + 2] * p[at(t + 1, labelOf(i + 2))] : 0);
	for (int64_t i = 0; i < states && steps; ++i)
		whole += ahead[0][i] * behind[0][i];
	for (int64_t t = 0; t < s.steps; ++t) {
		Values share(s.alphabet);
		for (int64_t i = 0; i < states && t < steps && whole > 0; ++i)
			share[labelOf(i)] += ahead[t][i] * behind[t][i] / whole;
		for (int64_t a = 0; a < s.alphabet; ++a)
			p[at(t, a)] = t < steps && whole > 0 ? p[at(t, a)] - share[a] : 0;
	}
	return -std::log(whole);
}

void softmax(int64_t alphabet, Values &x)
{
	for (auto row = x.begin(); row != x.end(); row += alphabet) {
		const double most = *std::max_element(row, row + alphabet);
		double sum = 0;
		for (int64_t a = 0; a < alphabet; ++a)
			sum += row[a] = std::exp(row[a] - most);
		for (int64_t a = 0; a < alphabet; ++a)
			row[a] /= sum;
	}
}

cudnnStatus_t sizeOf(cudnnTensorDescriptor_t probs, cudnnTensorDescriptor_t gradients, cudnnCTCLossAlgo_t algo,
                     cudnnCTCLossDescriptor_t loss, int longest, size_t &bytes)
{
	REFUSE_IF(!probs || !loss || probs->tensor.rank != 3, BAD_PARAM);
	REFUSE_IF(algo != CUDNN_CTC_LOSS_ALGO_DETERMINISTIC && algo != CUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC, BAD_PARAM);
	REFUSE_IF(gradients && !gradients->tensor.hasSameDims(probs->tensor), BAD_PARAM);
	REFUSE_IF(loss->compute != CUDNN_DATA_FLOAT || probs->tensor.type != CUDNN_DATA_FLOAT, NOT_SUPPORTED);
	const int64_t *dims = probs->tensor.dims;
	bytes = static_cast<size_t>(dims[0] * dims[1] * (2 * longest + 1)) * sizeof(float);
	return CUDNN_STATUS_SUCCESS;
}

struct Call {
	cudnnTensorDescriptor_t probsDesc, gradientsDesc;
	const void *probs;
	void *costs, *gradients, *workspace;
	size_t bytes;
};

// `read` produces the labels and lengths; it returns false if they are missing.
template <typename Read>
cudnnStatus_t loss(cudnnHandle_t handle, const char *name, const Call &call, cudnnCTCLossAlgo_t algo,
                   cudnnCTCLossDescriptor_t descriptor, int longest, Read read)
{
	size_t needed = 0;
	REFUSE_IF(!handleOf(handle) || !call.probs || !call.costs, BAD_PARAM);
	if (cudnnStatus_t status = sizeOf(call.probsDesc, call.gradientsDesc, algo, descriptor, longest, needed))
		return status;
	REFUSE_IF(call.gradients && !call.gradientsDesc, BAD_PARAM);
	REFUSE_IF(!call.workspace || call.bytes < needed, BAD_PARAM);
	const Tensor probs = call.probsDesc->tensor, gradients = call.gradients ? call.gradientsDesc->tensor : probs;
	const bool isSoftmax = descriptor->normalization == CUDNN_LOSS_NORMALIZATION_SOFTMAX;
	return run(*handleOf(handle), name, [=](Memory &memory) {
		Samples samples{probs.dims[0], probs.dims[1], probs.dims[2], {}, {}, {}};
		if (void *room = memory.at(call.workspace, needed))
			std::memset(room, 0xff, needed);
		Values p = memory.read<double>(probs, call.probs);
		if (!read(memory, samples) || !isFitting(samples))
			return;
		if (isSoftmax)
			softmax(samples.alphabet, p);
		Values costs;
		const int *labels = samples.labels.data();
		for (int64_t n = 0; n < samples.batch; labels += samples.labelLengths[n++])
			costs.push_back(costOf(samples, n, labels, p));
		memory.write<double>(costs, emulated::dnn::packed(CUDNN_DATA_FLOAT, 1, &samples.batch), call.costs);
		if (call.gradients)
			memory.write<double>(p, gradients, call.gradients);
	});
}

} // namespace

ENTRY(cudnnGetCTCLossWorkspaceSize, BAD_PARAM, handle, probsDesc, gradientsDesc, labels, labelLengths, inputLengths,
      algo, ctcLossDesc, sizeInBytes)
{
	REFUSE_IF(!handleOf(handle) || !probsDesc || !labels || !labelLengths || !inputLengths || !sizeInBytes, BAD_PARAM);
	return sizeOf(probsDesc, gradientsDesc, algo, ctcLossDesc,
	              *std::max_element(labelLengths, labelLengths + probsDesc->tensor.dims[1]), *sizeInBytes);
}

ENTRY(cudnnGetCTCLossWorkspaceSize_v8, BAD_PARAM, handle, algo, ctcLossDesc, probsDesc, gradientsDesc, sizeInBytes)
{
	REFUSE_IF(!handleOf(handle) || !ctcLossDesc || !sizeInBytes, BAD_PARAM);
	return sizeOf(probsDesc, gradientsDesc, algo, ctcLossDesc, ctcLossDesc->maxLabelLength, *sizeInBytes);
}

ENTRY(cudnnCTCLoss, EXECUTION_FAILED, handle, probsDesc, probs, hostLabels, hostLabelLengths, hostInputLengths, costs,
      gradientsDesc, gradients, algo, ctcLossDesc, workspace, workSpaceSizeInBytes)
{
	REFUSE_IF(!probsDesc || !hostLabels || !hostLabelLengths || !hostInputLengths, BAD_PARAM);
	const int64_t batch = probsDesc->tensor.dims[1];
	const Numbers lengths(hostLabelLengths, hostLabelLengths + batch),
	    steps(hostInputLengths, hostInputLengths + batch);
	int total = 0;
	for (int one : lengths)
		total += std::max(one, 0);
	const Numbers labels(hostLabels, hostLabels + total);
	REFUSE_IF(!isFitting({probsDesc->tensor.dims[0], batch, probsDesc->tensor.dims[2], labels, lengths, steps}),
	          BAD_PARAM);
	const Call call{probsDesc, gradientsDesc, probs, costs, gradients, workspace, workSpaceSizeInBytes};
	return loss(handle, __func__, call, algo, ctcLossDesc, *std::max_element(lengths.begin(), lengths.end()),
	            [=](Memory &, Samples &samples) {
		            samples.labels = labels;
		            samples.labelLengths = lengths;
		            samples.inputLengths = steps;
		            return true;
	            });
}

ENTRY(cudnnCTCLoss_v8, EXECUTION_FAILED, handle, algo, ctcLossDesc, probsDesc, probs, labels, labelLengths,
      inputLengths, costs, gradientsDesc, gradients, workSpaceSizeInBytes, workspace)
{
	REFUSE_IF(!ctcLossDesc || !labels || !labelLengths || !inputLengths, BAD_PARAM);
	const Call call{probsDesc, gradientsDesc, probs, costs, gradients, workspace, workSpaceSizeInBytes};
	return loss(
	    handle, __func__, call, algo, ctcLossDesc, ctcLossDesc->maxLabelLength, [=](Memory &memory, Samples &samples) {
		    const auto numbers = [&](const int *from, int64_t count, Numbers &to) {
			    const auto *at =
			        static_cast<const int *>(memory.at(from, static_cast<size_t>(count) * sizeof(int), alignof(int)));
			    if (at)
				    to.assign(at, at + count);
			    return at != nullptr;
		    };
		    if (!numbers(labelLengths, samples.batch, samples.labelLengths) ||
		        !numbers(inputLengths, samples.batch, samples.inputLengths))
			    return false;
		    int64_t total = 0;
		    for (int one : samples.labelLengths)
			    total += std::max(one, 0);
		    return total == 0 || numbers(labels, total, samples.labels);
	    });
}
