// Convolutions with filters of more than 1 MiB that stay the same, and that change. One case per line; see weights.cpp.
#include "dnn.h"
#include "weight_history.h"

using namespace client;

namespace {

constexpr double worst = 4e-3;
constexpr int outputs = 192, filter = 3, size = 2; // outputs * inputs * 9 floats are more than 1 MiB
constexpr int warming = 8, afterDense = 3, afterSparse = 64 + 2;

PointerCache copyOf;

// Forward: y = w * x. Data: x is the gradient that is computed from y.
class Problem
{
public:
	Problem(int inputs, bool isForward, bool isNhwc, bool isExact)
	    : inputs_(inputs), isForward_(isForward), isNhwc_(isNhwc), x_(count(inputs)), y_(count(outputs)),
	      w_(static_cast<size_t>(outputs * inputs * filter * filter)), history(filled(w_.size(), isExact, false, 1))
	{
		const Content from = filled(isForward ? x_.size() : y_.size(), isExact, true, 2);
		Array &data = isForward ? x_ : y_;
		for (size_t i = 0; i < from.size(); i++)
			data[i] = from[i];
		x_.upload(), y_.upload();
		write(nullptr);
		const auto tensor = [&](cudnnTensorDescriptor_t &descriptor, int channels) {
			DNN(cudnnCreateTensorDescriptor(&descriptor));
			DNN(cudnnSetTensor4dDescriptor(descriptor, isNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT,
			                               1, channels, size, size));
		};
		tensor(xDescriptor_, inputs), tensor(yDescriptor_, outputs);
		DNN(cudnnCreateFilterDescriptor(&wDescriptor_));
		DNN(cudnnSetFilter4dDescriptor(wDescriptor_, CUDNN_DATA_FLOAT, isNhwc ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
		                               outputs, inputs, filter, filter));
		DNN(cudnnCreateConvolutionDescriptor(&convolution_));
		DNN(cudnnSetConvolution2dDescriptor(convolution_, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
	}
	~Problem()
	{
		DNN(cudnnDestroyTensorDescriptor(xDescriptor_));
		DNN(cudnnDestroyTensorDescriptor(yDescriptor_));
		DNN(cudnnDestroyFilterDescriptor(wDescriptor_));
		DNN(cudnnDestroyConvolutionDescriptor(convolution_));
	}
	Problem(const Problem &) = delete;

	void change(const std::function<void(Content &)> &edit, bool isDense, cudaStream_t stream)
	{
		Content next = history.now();
		edit(next);
		history.replace(std::move(next), isDense);
		write(stream);
	}
	void run(const DnnSession &session)
	{
		const float one = 1, zero = 0;
		const float *const w = copyOf(w_.data(), w_.size(), inputs_);
		if (isForward_) {
			constexpr auto algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
			size_t bytes = 0;
			DNN(cudnnGetConvolutionForwardWorkspaceSize(session.handle, xDescriptor_, wDescriptor_, convolution_,
			                                            yDescriptor_, algorithm, &bytes));
			DNN(cudnnConvolutionForward(session.handle, &one, xDescriptor_, x_.data(), wDescriptor_, w, convolution_,
			                            algorithm, workspace(bytes), bytes, &zero, yDescriptor_, y_.data()));
		} else {
			constexpr auto algorithm = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
			size_t bytes = 0;
			DNN(cudnnGetConvolutionBackwardDataWorkspaceSize(session.handle, wDescriptor_, yDescriptor_, convolution_,
			                                                 xDescriptor_, algorithm, &bytes));
			DNN(cudnnConvolutionBackwardData(session.handle, &one, wDescriptor_, w, yDescriptor_, y_.data(),
			                                 convolution_, algorithm, workspace(bytes), bytes, &zero, xDescriptor_,
			                                 x_.data()));
		}
		CHECK(cudaStreamSynchronize(session.stream));
		result().download();
	}
	void runAndJudge(const DnnSession &session)
	{
		run(session);
		Content got(result().size());
		for (size_t i = 0; i < got.size(); i++)
			got[i] = result()[i];
		history.judge(got, [&](const Content &content) { return referenceOf(content); });
	}
	double error()
	{
		const Content expected = referenceOf(history.now());
		double error = 0, all = 0;
		for (size_t i = 0; i < expected.size(); i++) {
			error += std::pow(static_cast<double>(result()[i]) - static_cast<double>(expected[i]), 2);
			all += std::pow(static_cast<double>(expected[i]), 2);
		}
		return std::sqrt(error / all);
	}
	uint64_t bits() { return result().bits(); }
	size_t inFilter(int k, int c, int r, int s) const
	{
		return static_cast<size_t>(isNhwc_ ? ((k * filter + r) * filter + s) * inputs_ + c
		                                   : ((k * inputs_ + c) * filter + r) * filter + s);
	}
	void describe(Line &line) const { line.put("inputs", inputs_); }
	int inputs() const { return inputs_; }

private:
	static size_t count(int channels) { return static_cast<size_t>(channels * size * size); }
	static Content filled(size_t count, bool isExact, bool isPositive, uint64_t seed)
	{
		Random random(seed);
		Content content(count);
		for (float &x : content)
			x = static_cast<float>(!isExact     ? random.gaussian()
			                       : isPositive ? 1 + std::floor(random.uniform() * 4)
			                                    : std::floor(random.uniform() * 15) - 7);
		return content;
	}
	size_t inTensor(int channels, int c, int h, int w) const
	{
		return static_cast<size_t>(isNhwc_ ? (h * size + w) * channels + c : (c * size + h) * size + w);
	}
	Array &result() { return isForward_ ? y_ : x_; }
	void *workspace(size_t bytes)
	{
		if (workspace_.size() * sizeof(float) < bytes)
			workspace_ = Array(bytes / sizeof(float) + 1);
		return bytes ? workspace_.data() : nullptr;
	}
	void write(cudaStream_t stream) const
	{
		CHECK(cudaMemcpyAsync(w_.data(), history.now().data(), w_.size() * sizeof(float), cudaMemcpyHostToDevice,
		                      stream));
		if (!stream)
			CHECK(cudaDeviceSynchronize());
	}
	Content referenceOf(const Content &content) const
	{
		Content sums(isForward_ ? y_.size() : x_.size());
		for (int k = 0; k < outputs; k++)
			for (int c = 0; c < inputs_; c++)
				for (int r = 0; r < filter; r++)
					for (int s = 0; s < filter; s++) {
						const float weight = content[inFilter(k, c, r, s)];
						for (int h = std::max(0, 1 - r); h < std::min(size, size + 1 - r); h++)
							for (int w = std::max(0, 1 - s); w < std::min(size, size + 1 - s); w++) {
								const size_t in = inTensor(inputs_, c, h + r - 1, w + s - 1),
								             out = inTensor(outputs, k, h, w);
								sums[isForward_ ? out : in] += weight * (isForward_ ? x_[in] : y_[out]);
							}
					}
		return sums;
	}

	const int inputs_;
	const bool isForward_, isNhwc_;
	Array x_, y_, w_, workspace_{0};
	cudnnTensorDescriptor_t xDescriptor_ = nullptr, yDescriptor_ = nullptr;
	cudnnFilterDescriptor_t wDescriptor_ = nullptr;
	cudnnConvolutionDescriptor_t convolution_ = nullptr;

public:
	History history;
};

struct Edit {
	const char *name;
	bool isDense;
	void (*apply)(const Problem &, Content &);
};

const Edit edits[] = {
    {"step", true,
     [](const Problem &, Content &content) {
	     for (size_t i = 0; i < content.size(); i++)
		     content[i] += i % 3 ? 1 : -1;
     }},
    {"scaled", true,
     [](const Problem &, Content &content) {
	     for (float &x : content)
		     x *= 0x1p20f;
     }},
    {"output", false,
     [](const Problem &problem, Content &content) {
	     for (int c = 0; c < problem.inputs(); c++)
		     content[problem.inFilter(100, c, 1, 1)] += 4;
     }},
    {"element", false, [](const Problem &problem, Content &content) { content[problem.inFilter(150, 90, 2, 0)] += 2; }},
};

std::vector<Case> allCases()
{
	std::vector<Case> cases;
	int inputs = 144; // differs in each case
	for (const bool isForward : {true, false})
		for (const bool isNhwc : {false, true}) {
			const std::string way = std::string(isForward ? ".forward" : ".data") + (isNhwc ? "_nhwc" : "");
			inputs += 8;
			cases.push_back({"same" + way, [=](Line &line) {
				                 const DnnSession session;
				                 Problem problem(inputs, isForward, isNhwc, false);
				                 uint64_t bits = 0;
				                 for (int i = 0; i < warming; i++) {
					                 problem.run(session);
					                 bits = (bits ^ problem.bits()) * 0x9e3779b97f4a7c15u;
				                 }
				                 problem.describe(line);
				                 line.bits("bits", bits).put("eta", problem.error());
				                 line.require(problem.error() < worst, "wrong result");
			                 }});
			for (const Edit &edit : edits) {
				if (!edit.isDense && isForward == isNhwc)
					continue;
				inputs += 8;
				cases.push_back({"edit." + std::string(edit.name) + way, [=, &edit](Line &line) {
					                 const DnnSession session;
					                 Problem problem(inputs, isForward, isNhwc, true);
					                 for (int i = 0; i < warming; i++)
						                 problem.runAndJudge(session);
					                 problem.change([&](Content &content) { edit.apply(problem, content); },
					                                edit.isDense, session.stream);
					                 for (int i = 0; i < (edit.isDense ? afterDense : afterSparse); i++)
						                 problem.runAndJudge(session);
					                 problem.describe(line);
					                 problem.history.put(line);
				                 }});
			}
		}
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
