// cuDNN: plans of autoamp's shadow graphs, TF32, failed and captured executions, recurrent networks. libcudnn is loaded
// at run time, because a machine may have none.
#include "hardware_cudnn.h"
#include "src/lower/dnn_plan.h"
#include "src/op/graph_description.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <functional>
#include <memory>

namespace hardware {
namespace {

using namespace autoamp;

const op::CudnnGraph &graphApi()
{
	static const auto *const found = op::cudnn<op::CudnnGraph>(inLibrary<void *>("cudnnBackendExecute"));
	if (!found)
		fail("cudnnBackend", "not in libcudnn.so.9");
	return *found;
}

// ---- convolutions by the graph API

struct Geometry {
	int spatial = 2;
	int64_t n = 4, c = 32, k = 32, size = 14, filter = 3;
	int stride = 1, groups = 1, pad = 1;
};
constexpr Geometry geometries[] = {{},
                                   {.c = 3},
                                   {.filter = 1, .pad = 0},
                                   {.stride = 2},
                                   {.groups = 4},
                                   {.groups = 32},
                                   {.spatial = 1, .size = 50},
                                   {.spatial = 3, .n = 2, .size = 8}};

op::Convolution convolutionOf(const Geometry &from, op::Direction direction)
{
	op::Convolution convolution;
	convolution.direction = direction;
	convolution.spatial = static_cast<uint8_t>(from.spatial);
	convolution.groups = from.groups;
	const auto fill = [&](op::Tensor &tensor, int64_t outer, int64_t channels, int64_t size) {
		tensor.rank = 2 + from.spatial;
		tensor.type = op::Dtype::float32;
		std::fill_n(tensor.dims, tensor.rank, size);
		tensor.dims[0] = outer, tensor.dims[1] = channels;
	};
	fill(convolution.x, from.n, from.c, from.size);
	fill(convolution.w, from.k, from.c / from.groups, from.filter);
	fill(convolution.y, from.n, from.k, (from.size + 2 * from.pad - from.filter) / from.stride + 1);
	for (int i = 0; i < from.spatial; i++) {
		convolution.padBefore[i] = convolution.padAfter[i] = from.pad;
		convolution.stride[i] = from.stride, convolution.dilation[i] = 1;
	}
	return convolution;
}

int64_t countOf(const op::Tensor &tensor)
{
	int64_t count = 1;
	for (int i = 0; i < tensor.rank; i++)
		count *= tensor.dims[i];
	return count;
}

// The largest element of the result if all operands are 1: that of a position whose taps all lie inside. Strides skip
// taps of a data gradient.
double largestOf(const op::Convolution &of)
{
	double taps = 1, positions = static_cast<double>(of.y.dims[0]);
	for (int i = 2; i < of.w.rank; i++)
		taps *= static_cast<double>(of.w.dims[i]), positions *= static_cast<double>(of.y.dims[i]);
	switch (of.direction) {
	case op::Direction::forward:
		return taps * static_cast<double>(of.w.dims[1]);
	case op::Direction::backwardData:
		return of.stride[0] == 1 ? taps * static_cast<double>(of.w.dims[0] / of.groups) : 0;
	default:
		return of.stride[0] == 1 ? positions : 0;
	}
}

// A plan as autoamp makes it, with memory for its tensors. The result begins as NaN.
class Shadow
{
public:
	Shadow(const DnnSession &on, const op::Convolution &from, op::Form form, op::Dtype type, bool isRaised = false)
	    : dnn(on), shape(op::padded(from)), type_(type), form_(form), first(bytesFor(shape.first())),
	      second(bytesFor(shape.second())), result(static_cast<size_t>(countOf(shape.result()))), scale(1)
	{
		lower::DnnAnswer answer;
		plan.reset(lower::makeDnnPlan(graphApi(), {dnn.handle, nullptr, dnn.capability}, op::graphOf(from, form, type),
		                              isRaised, answer));
		status = answer.status;
		Random random(1);
		for (Array *const operand : {&first, &second}) {
			for (size_t i = 0; i < operand->size(); i++)
				(*operand)[i] = type == op::Dtype::float32   ? static_cast<float>(random.gaussian())
				                : type == op::Dtype::float16 ? std::bit_cast<float>(0x3c003c00u)
				                                             : std::bit_cast<float>(0x3f803f80u);
			operand->upload();
		}
		setScale(1);
		result.upload();
		if (plan && plan->workspaceSize)
			CHECK(cudaMalloc(&workspace, plan->workspaceSize));
	}
	~Shadow() { cudaFree(workspace); }
	Shadow(const Shadow &) = delete;

	void setScale(float to)
	{
		scale[0] = to;
		scale.upload();
	}
	int enqueue(void *firstOperand, void *work, size_t operands = 4) const
	{
		const int64_t uids[] = {op::uidFirst, op::uidSecond, op::uidResult, op::uidScale};
		void *const pointers[] = {firstOperand, second.data(), result.data(), scale.data()};
		const size_t count = std::min<size_t>(operands, form_ == op::Form::wide ? 4 : 3);
		return lower::execute(graphApi(), dnn.handle, *plan, {uids, count}, {pointers, count}, work).status;
	}
	int enqueue() const { return enqueue(first.data(), workspace); }
	std::vector<float> values()
	{
		CHECK(cudaStreamSynchronize(dnn.stream));
		result.download();
		const bool isWide = type_ == op::Dtype::float32 || form_ == op::Form::wide; // otherwise two bfloat16 in a float
		std::vector<float> all(static_cast<size_t>(countOf(shape.result())));
		for (size_t i = 0; i < all.size(); i++) {
			const auto bits = std::bit_cast<uint32_t>(result[isWide ? i : i / 2]);
			all[i] = std::bit_cast<float>(isWide ? bits : i % 2 ? bits & 0xffff0000u : bits << 16);
		}
		return all;
	}

	const DnnSession &dnn;
	const op::Convolution shape;

private:
	size_t bytesFor(const op::Tensor &tensor) const // in floats
	{
		return static_cast<size_t>(type_ == op::Dtype::float32 ? countOf(tensor) : (countOf(tensor) + 1) / 2);
	}
	const op::Dtype type_;
	const op::Form form_;

public:
	Array first, second, result, scale;
	std::unique_ptr<lower::DnnPlan> plan;
	void *workspace = nullptr;
	int status = 0;
};

bool isLargest(const std::vector<float> &values, double wanted)
{
	return wanted == 0 || *std::max_element(values.begin(), values.end()) == static_cast<float>(wanted);
}

// Results for the forms that autoamp would use here. autoamp's table of forms was filled without a GPU.
struct Plans {
	int asked = 0, built = 0, right = 0, scaled = 0, rescaled = 0;
};
Plans runForms()
{
	const DnnSession dnn;
	const auto version = static_cast<size_t>(graphApi().cudnnGetVersion());
	const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(15); // some plans are compiled
	Plans plans;
	const auto run = [&](const op::Convolution &convolution, op::Form form, op::Dtype type) {
		if (std::chrono::steady_clock::now() > end)
			return;
		Shadow shadow(dnn, convolution, form, type);
		plans.asked++, plans.built += shadow.plan != nullptr;
		if (!shadow.plan || shadow.enqueue())
			return;
		std::vector<float> once = shadow.values();
		plans.right += isLargest(once, largestOf(shadow.shape));
		if (form != op::Form::wide)
			return;
		shadow.setScale(0.25f);
		for (float &value : once)
			value *= 0.25f;
		plans.scaled++, plans.rescaled += !shadow.enqueue() && shadow.values() == once;
	};
	for (const Geometry &geometry : geometries)
		for (const auto direction :
		     {op::Direction::forward, op::Direction::backwardData, op::Direction::backwardFilter})
			for (const auto type : {op::Dtype::float16, op::Dtype::bfloat16}) {
				const op::Convolution convolution = convolutionOf(geometry, direction);
				const op::Forms forms = op::formsOf(convolution, type, dnn.capability, version);
				if (forms.isWide)
					run(convolution, op::Form::wide, type);
				if (forms.isNarrow)
					run(convolution, op::Form::narrow, type);
			}
	return plans;
}
const Plans &plansHere()
{
	static const Plans plans = runForms();
	return plans;
}

std::string enginesRun(Line &line)
{
	if (!library())
		return absent;
	const Plans &plans = plansHere();
	line.put("version", graphApi().cudnnGetVersion()).put("asked", plans.asked);
	line.put("built", plans.built).put("right", plans.right);
	return answer(plans.asked && plans.right == plans.asked);
}

std::string scaleIsRead(Line &line)
{
	if (!library())
		return absent;
	const Plans &plans = plansHere();
	line.put("plans", plans.scaled).put("right", plans.rescaled);
	return answer(plans.scaled && plans.rescaled == plans.scaled);
}

// An fp32 engine with the note TENSOR_CORE, compared with one without.
std::string noteMeansTf32(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	const op::Convolution convolution = convolutionOf({.c = 64, .k = 64}, op::Direction::forward);
	Shadow fast(dnn, convolution, op::Form::narrow, op::Dtype::float32);
	Shadow exact(dnn, convolution, op::Form::narrow, op::Dtype::float32, true);
	line.put("with", fast.status).put("without", exact.status);
	if (!fast.plan || !exact.plan || fast.enqueue() || exact.enqueue())
		return "no_engine";
	const double error = difference(fast.values(), exact.values());
	line.put("difference", error);
	return answer(error > fp32Error);
}

// Executions with a missing tensor, a misaligned operand and without a workspace.
std::string refusedExecutions(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	Shadow shadow(dnn, convolutionOf({}, op::Direction::forward), op::Form::wide, op::Dtype::float16);
	if (!shadow.plan)
		return "no_engine";
	auto *const operand = reinterpret_cast<char *>(shadow.first.data());
	std::string statuses;
	int refused = 0;
	bool isNothing = true;
	const auto before = shadow.result.bits();
	for (const auto &call : std::initializer_list<std::function<int()>>{
	         [&] { return shadow.enqueue(operand, shadow.workspace, 2); },
	         [&] { return shadow.enqueue(operand + 2, shadow.workspace); },
	         [&] { return shadow.plan->workspaceSize ? shadow.enqueue(operand, nullptr) : 0; }}) {
		cudaGraph_t graph = nullptr;
		size_t nodes = 0;
		CHECK(cudaStreamBeginCapture(dnn.stream, cudaStreamCaptureModeRelaxed));
		const int status = call();
		if (!cudaStreamEndCapture(dnn.stream, &graph)) {
			CHECK(cudaGraphGetNodes(graph, nullptr, &nodes));
			CHECK(cudaGraphDestroy(graph));
		}
		cudaGetLastError();
		statuses += (statuses.empty() ? "" : ",") + std::to_string(status);
		if (!status) // it might break the context
			continue;
		refused++;
		const bool isRefused = call() == status && !cudaStreamSynchronize(dnn.stream);
		shadow.result.download();
		isNothing = isNothing && nodes == 0 && isRefused && shadow.result.bits() == before;
	}
	line.put("statuses", statuses);
	return refused ? answer(isNothing) : "nothing_was_refused";
}

std::string executionIsCaptured(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	Shadow shadow(dnn, convolutionOf({}, op::Direction::forward), op::Form::wide, op::Dtype::float16);
	if (!shadow.plan)
		return "no_engine";
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(dnn.stream, cudaStreamCaptureModeRelaxed));
	const int status = shadow.enqueue();
	const cudaError_t end = cudaStreamEndCapture(dnn.stream, &graph);
	line.put("status", status).put("end", end);
	if (status || end)
		return no;
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	bool isRight = true;
	for (const float scale : {1.f, 0.25f}) {
		shadow.setScale(scale);
		CHECK(cudaGraphLaunch(executable, dnn.stream));
		isRight = isRight && isLargest(shadow.values(), scale * largestOf(shadow.shape));
	}
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	return answer(isRight);
}

// autoamp's reader of plans, for a plan that was compiled at run time.
std::string readsCompiledPlan(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	const Shadow shadow(dnn, convolutionOf({}, op::Direction::forward), op::Form::wide, op::Dtype::float16);
	if (!shadow.plan)
		return "no_engine";
	int64_t length = 0;
	const auto get = [&](int64_t room, char *text) {
		return graphApi().cudnnBackendGetAttribute(shadow.plan->plan.get(),
		                                           CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, room,
		                                           &length, text);
	};
	if (get(0, nullptr) || length <= 0)
		return "no_text";
	std::string text(static_cast<size_t>(length), '\0');
	if (get(length, text.data()))
		return "no_text";
	const op::KnownGraph *const known = op::knownGraph(text.c_str());
	const bool isCompiled = text.find("\"payload\"") != std::string::npos;
	line.put("bytes", static_cast<long long>(length)).put("compiled", isCompiled);
	return answer(known && known->product && known->graph.nodes.size() == 2);
}

// ---- the legacy interface

std::string convolutionIsTf32(Line &line)
{
	if (!library())
		return absent;
	const DnnSession dnn;
	cudnnTensorDescriptor_t tensor;
	cudnnFilterDescriptor_t filter;
	cudnnConvolutionDescriptor_t convolution;
	DNN(cudnnCreateTensorDescriptor, &tensor);
	DNN(cudnnCreateFilterDescriptor, &filter);
	DNN(cudnnCreateConvolutionDescriptor, &convolution);
	DNN(cudnnSetTensor4dDescriptor, tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 4, 64, 16, 16);
	DNN(cudnnSetFilter4dDescriptor, filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 64, 64, 3, 3);
	DNN(cudnnSetConvolution2dDescriptor, convolution, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
	Array x(4 * 64 * 16 * 16), w(64 * 64 * 3 * 3), y(x.size());
	Random random(1);
	for (Array *const array : {&x, &w}) {
		for (size_t i = 0; i < array->size(); i++)
			(*array)[i] = static_cast<float>(random.gaussian());
		array->upload();
	}
	constexpr auto algo = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
	const float one = 1, zero = 0;
	std::vector<float> results[2];
	for (const auto math : {CUDNN_DEFAULT_MATH, CUDNN_FMA_MATH}) {
		size_t bytes = 0;
		DNN(cudnnSetConvolutionMathType, convolution, math);
		DNN(cudnnGetConvolutionForwardWorkspaceSize, dnn.handle, tensor, filter, convolution, tensor, algo, &bytes);
		Array workspace(bytes / sizeof(float) + 1);
		DNN(cudnnConvolutionForward, dnn.handle, &one, tensor, x.data(), filter, w.data(), convolution, algo,
		    workspace.data(), bytes, &zero, tensor, y.data());
		CHECK(cudaStreamSynchronize(dnn.stream));
		y.download();
		for (size_t i = 0; i < y.size(); i++)
			results[math == CUDNN_FMA_MATH].push_back(y[i]);
	}
	DNN(cudnnDestroyConvolutionDescriptor, convolution);
	DNN(cudnnDestroyFilterDescriptor, filter);
	DNN(cudnnDestroyTensorDescriptor, tensor);
	const double error = difference(results[0], results[1]);
	line.put("difference", error);
	return answer(error > fp32Error);
}

} // namespace

Rows cudnnRows()
{
	return {
	    {"cudnn.engines_of_shadow_graphs_build_and_run", yes, recorded, shared, enginesRun},
	    {"cudnn.plans_read_the_scale_at_each_run", yes, needed, shared, scaleIsRead},
	    {"cudnn.an_fp32_engine_on_tensor_cores_is_tf32", yes, recorded, shared, noteMeansTf32},
	    {"cudnn.default_math_is_tf32_for_convolutions", yes, recorded, shared, convolutionIsTf32},
	    {"cudnn.a_refused_execution_enqueues_nothing", yes, needed, shared, refusedExecutions},
	    {"cudnn.an_execution_can_be_captured", yes, recorded, shared, executionIsCaptured},
	    {"cudnn.the_text_of_a_compiled_plan_is_understood", yes, recorded, shared, readsCompiledPlan},
	};
}

} // namespace hardware
