// Asks a libcudnn, without a device, which engines it offers for the graphs of tools/emulated/cudnn/graph/support.tsv.
// usage: ask LIBRARY [plan]; a line of stdin is an architecture and a graph ("900 dir=fwd in=f16 out=f32 cast=1"), a
// line of stdout is what the table holds for it. With "plan": the plan of each engine of mode A as JSON.
#include <cudnn.h>

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace {

using Dims = std::vector<int64_t>;
using Descriptor = cudnnBackendDescriptor_t;

decltype(&cudnnBackendCreateDescriptor) createDescriptor;
decltype(&cudnnBackendDestroyDescriptor) destroyDescriptor;
decltype(&cudnnBackendSetAttribute) setAttribute;
decltype(&cudnnBackendGetAttribute) getAttribute;
decltype(&cudnnBackendFinalize) finalizeDescriptor;

// The public values of a device of each architecture.
struct Device {
	int version, processors, threads, shared, ctas;
	size_t memory;
	int clock, memoryClock, cache;
	const char *name;
};
constexpr size_t gigabyte = 1 << 30;
constexpr Device devices[] = {
    {750, 40, 1024, 65536, 16, 15 * gigabyte, 1590000, 5001000, 4194304, "Tesla T4"},
    {800, 108, 2048, 166912, 32, 80 * gigabyte, 1410000, 1593000, 41943040, "NVIDIA A100-SXM4-80GB"},
    {860, 82, 1536, 101376, 16, 24 * gigabyte, 1695000, 9751000, 6291456, "NVIDIA GeForce RTX 3090"},
    {890, 128, 1536, 101376, 24, 24 * gigabyte, 2520000, 10501000, 75497472, "NVIDIA GeForce RTX 4090"},
    {900, 132, 2048, 232448, 32, 80 * gigabyte, 1980000, 2619000, 52428800, "NVIDIA H100 80GB HBM3"},
    {1000, 148, 2048, 232448, 32, 180 * gigabyte, 1965000, 3996000, 132644864, "NVIDIA B200"},
    {1200, 170, 1536, 101376, 24, 32 * gigabyte, 2407000, 14001000, 100663296, "NVIDIA GeForce RTX 5090"},
};

std::string propertiesOf(const Device &device)
{
	std::ostringstream text;
	text << "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],\"regsPerBlock\":65536,"
	     << "\"multiProcessorCount\":" << device.processors << ",\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"
	     << "\"maxSharedMemoryPerBlockOptin\":" << device.shared
	     << ",\"reservedSharedMemoryPerBlock\":" << (device.version >= 800 ? 1024 : 0)
	     << ",\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":" << device.ctas
	     << ",\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":" << device.threads
	     << ",\"pciDeviceId\":0,\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":" << device.memory
	     << ",\"smClockRateKHz\":" << device.clock << ",\"memClockRateKHz\":" << device.memoryClock
	     << ",\"l2CacheSize\":" << device.cache << ",\"cudaDeviceId\":0,\"deviceVer\":" << device.version
	     << ",\"driverVer\":13000,\"deviceName\":\"" << device.name << "\"}";
	return text.str();
}

// A graph as the table's key words describe it; everything is destroyed with it.
class Graph
{
public:
	explicit Graph(const std::map<std::string, std::string> &words) : words_(words) { build(); }
	~Graph()
	{
		for (Descriptor one : all_)
			destroyDescriptor(one);
	}
	Descriptor make(cudnnBackendDescriptorType_t type)
	{
		Descriptor made = nullptr;
		check(createDescriptor(type, &made));
		all_.push_back(made);
		return made;
	}
	template <typename T>
	void set(Descriptor to, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::vector<T> values)
	{
		check(setAttribute(to, name, type, static_cast<int64_t>(values.size()), values.data()));
	}
	void link(Descriptor to, cudnnBackendAttributeName_t name, Descriptor value)
	{
		set(to, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::vector{value});
	}
	cudnnStatus_t finalize(Descriptor one)
	{
		const cudnnStatus_t status = finalizeDescriptor(one);
		check(status);
		return status;
	}
	bool isGood() const { return status_ == CUDNN_STATUS_SUCCESS; }
	Descriptor operations() const { return operations_; }

private:
	void check(cudnnStatus_t status)
	{
		if (status_ == CUDNN_STATUS_SUCCESS)
			status_ = status;
	}
	std::string word(const char *name, const char *otherwise) const
	{
		const auto found = words_.find(name);
		return found == words_.end() ? otherwise : found->second;
	}
	int64_t number(const char *name, int64_t otherwise) const
	{
		return std::stoll(word(name, std::to_string(otherwise).c_str()));
	}
	static cudnnDataType_t typeOf(const std::string &name)
	{
		return name == "f16" ? CUDNN_DATA_HALF : name == "bf16" ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
	}
	static Dims packed(const Dims &dims, bool isNhwc)
	{
		std::vector<size_t> order(dims.size()); // innermost last
		std::iota(order.begin(), order.end(), size_t{0});
		if (isNhwc)
			std::rotate(order.begin() + 1, order.begin() + 2, order.end());
		Dims strides(dims.size());
		int64_t next = 1;
		for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
			strides[*dim] = next;
			next *= dims[*dim];
		}
		return strides;
	}
	Descriptor tensor(int64_t uid, cudnnDataType_t type, const Dims &dims, const Dims &strides, bool isVirtual = false,
	                  bool isValue = false)
	{
		Descriptor made = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
		set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{type});
		set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, dims);
		set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides);
		set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, Dims{uid});
		set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, Dims{number("al", 16)});
		for (auto [name, value] :
		     {std::pair(CUDNN_ATTR_TENSOR_IS_VIRTUAL, isVirtual), std::pair(CUDNN_ATTR_TENSOR_IS_BY_VALUE, isValue)})
			if (value)
				check(setAttribute(made, name, CUDNN_TYPE_BOOLEAN, 1, &value));
		finalize(made);
		return made;
	}
	void pointwise(cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y, float scale = 1)
	{
		Descriptor description = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
		set(description, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{mode});
		set(description, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
		finalize(description);
		Descriptor made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
		if (b)
			link(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
		if (scale != 1)
			set(made, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, std::vector{scale});
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
		finalize(made);
		nodes_.push_back(made);
	}
	// The backward pass of ReLU: the gradient where x is positive.
	void reluBackward(Descriptor gradient, Descriptor x, Descriptor result)
	{
		Descriptor description = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
		set(description, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, std::vector{CUDNN_POINTWISE_RELU_BWD});
		set(description, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, std::vector{CUDNN_DATA_FLOAT});
		finalize(description);
		Descriptor made = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, description);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC, gradient);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
		link(made, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC, result);
		finalize(made);
		nodes_.push_back(made);
	}
	void convolution(Descriptor first, Descriptor second, Descriptor result);
	void product(Descriptor a, Descriptor b, Descriptor c);
	Descriptor prologue(Descriptor a, cudnnDataType_t type, const Dims &dims, const Dims &strides);
	void chain(int kind, const Dims &dims, cudnnDataType_t out, bool isNhwc);
	void build();

	const std::map<std::string, std::string> &words_;
	std::vector<Descriptor> all_, nodes_;
	Descriptor operations_ = nullptr;
	Descriptor result_ = nullptr; // what the convolution or product writes
	cudnnStatus_t status_ = CUDNN_STATUS_SUCCESS;
};

void Graph::convolution(Descriptor first, Descriptor second, Descriptor result)
{
	struct Names {
		const char *direction;
		cudnnBackendDescriptorType_t type;
		cudnnBackendAttributeName_t first, second, result, description, alpha, beta;
	};
#define NAMES(word, TYPE, PREFIX, FIRST, SECOND, RESULT)                                                               \
	{                                                                                                                  \
		word, CUDNN_BACKEND_OPERATION_CONVOLUTION_##TYPE##_DESCRIPTOR,                                                 \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##FIRST, CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##SECOND, \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_##RESULT,                                                      \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_ALPHA,  \
		    CUDNN_ATTR_OPERATION_CONVOLUTION_##PREFIX##_BETA                                                           \
	}
	static constexpr Names names[] = {NAMES("fwd", FORWARD, FORWARD, X, W, Y),
	                                  NAMES("dgrad", BACKWARD_DATA, BWD_DATA, DY, W, DX),
	                                  NAMES("wgrad", BACKWARD_FILTER, BWD_FILTER, X, DY, DW)};
	const int64_t spatial = number("sp", 2);
	Descriptor description = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
	set(description, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, Dims{spatial});
	set(description, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{typeOf(word("comp", "f32"))});
	set(description, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE,
	    std::vector{static_cast<cudnnConvolutionMode_t>(number("mode", CUDNN_CROSS_CORRELATION))});
	const auto each = static_cast<size_t>(spatial);
	set(description, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, Dims(each, number("pad", 1)));
	set(description, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, Dims(each, number("pad", 1)));
	set(description, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, Dims(each, number("st", 1)));
	set(description, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, Dims(each, number("dil", 1)));
	finalize(description);
	for (const Names &one : names) {
		if (one.direction != word("dir", ""))
			continue;
		Descriptor made = make(one.type);
		link(made, one.first, first);
		link(made, one.second, second);
		link(made, one.result, result);
		link(made, one.description, description);
		set(made, one.alpha, CUDNN_TYPE_FLOAT, std::vector{static_cast<float>(number("alpha", 1))});
		set(made, one.beta, CUDNN_TYPE_FLOAT, std::vector{static_cast<float>(number("beta", 0))});
		finalize(made);
		nodes_.push_back(made);
	}
}

void Graph::product(Descriptor a, Descriptor b, Descriptor c)
{
	Descriptor description = make(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
	set(description, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, std::vector{typeOf(word("comp", "f32"))});
	finalize(description);
	Descriptor made = make(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	link(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
	link(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
	link(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
	link(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, description);
	finalize(made);
	nodes_.push_back(made);
}

// What follows the operation: the words "cast=N" of the table.
void Graph::chain(int kind, const Dims &dims, cudnnDataType_t out, bool isNhwc)
{
	const Dims strides = packed(dims, isNhwc || kind == 6), ones(dims.size(), 1);
	const Dims bias = [&] {
		Dims made = ones;
		const size_t channels = dims.size() == 3 && word("dir", "") == "mm" ? 2 : 1;
		made[channels] = dims[channels];
		return made;
	}();
	if (kind == 0) {
		result_ = tensor('y', out, dims, strides);
		return;
	}
	Descriptor y = tensor('y', out, dims, packed(dims, isNhwc && kind != 6));
	const auto between = [&](int64_t uid) { return tensor(uid, CUDNN_DATA_FLOAT, dims, strides, true); };
	const auto whole = [&](int64_t uid) { return tensor(uid, out, dims, strides); };
	const auto channels = [&](int64_t uid) { return tensor(uid, out, bias, packed(bias, true)); };
	const auto scalar = [&](int64_t uid) { return tensor(uid, CUDNN_DATA_FLOAT, ones, ones, false, kind == 3); };
	result_ = between('v');
	switch (kind) {
	case 1:
	case 6:
		pointwise(CUDNN_POINTWISE_IDENTITY, result_, nullptr, y);
		break;
	case 3:
	case 4:
		pointwise(CUDNN_POINTWISE_MUL, result_, scalar('s'), y);
		break;
	case 5: {
		Descriptor left = between('l'), right = between('r');
		pointwise(CUDNN_POINTWISE_MUL, result_, scalar('s'), left);
		pointwise(CUDNN_POINTWISE_MUL, whole('o'), scalar('t'), right);
		pointwise(CUDNN_POINTWISE_ADD, left, right, y);
		break;
	}
	case 9:
		pointwise(CUDNN_POINTWISE_RELU_FWD, result_, nullptr, y);
		break;
	case 10:
	case 11:
	case 12:
	case 15: {
		Descriptor first = between('l'), second = between('m');
		if (kind == 10 || kind == 15)
			pointwise(CUDNN_POINTWISE_ADD, result_, whole('z'), first, kind == 15 ? 0.5F : 1);
		else
			pointwise(CUDNN_POINTWISE_MUL, result_, channels('s'), first);
		pointwise(CUDNN_POINTWISE_ADD, first, channels('e'), second);
		if (kind == 12)
			pointwise(CUDNN_POINTWISE_ADD, second, whole('z'), first = between('n'));
		pointwise(CUDNN_POINTWISE_RELU_FWD, kind == 12 ? first : second, nullptr, y);
		break;
	}
	case 13:
		reluBackward(result_, whole('o'), y);
		break;
	default: {
		Descriptor sum = kind == 8 ? y : between('l');
		pointwise(CUDNN_POINTWISE_ADD, result_, channels('e'), sum);
		if (kind != 8)
			pointwise(kind == 14 ? CUDNN_POINTWISE_TANH_FWD : CUDNN_POINTWISE_RELU_FWD, sum, nullptr, y);
	}
	}
}

// Returns the tensor that a product reads instead of its first operand: absolute values, or sums with a value for each
// row.
Descriptor Graph::prologue(Descriptor a, cudnnDataType_t type, const Dims &dims, const Dims &strides)
{
	const int64_t kind = number("pro", 0);
	if (kind == 0)
		return a;
	Descriptor read = tensor('p', typeOf(word("virt", word("in", "").c_str())), dims, strides, true);
	if (kind == 1)
		pointwise(CUDNN_POINTWISE_ABS, a, nullptr, read);
	else
		pointwise(CUDNN_POINTWISE_ADD, a, tensor('q', type, {dims[0], dims[1], 1}, {dims[1], 1, 1}), read);
	return read;
}

void Graph::build()
{
	const auto first = typeOf(word("in", "")), out = typeOf(word("out", ""));
	const auto second = typeOf(word("win", word("in", "").c_str()));
	const std::string direction = word("dir", ""), layouts = word("lay", "nnn");
	const int kind = static_cast<int>(number("cast", 0));
	if (direction == "mm") {
		const int64_t b = number("B", 1), m = number("M", 512), n = number("NN", 512), k = number("KK", 512);
		const auto matrix = [](int64_t rows, int64_t columns, bool isTransposed) {
			return isTransposed ? Dims{rows * columns, 1, rows} : Dims{rows * columns, columns, 1};
		};
		const Dims left = matrix(m, k, number("ta", 0));
		Descriptor a = tensor('a', first, {b, m, k}, left);
		Descriptor other = tensor('b', second, {b, k, n}, matrix(k, n, number("tb", 0)));
		chain(kind, {b, m, n}, out, false);
		product(prologue(a, first, {b, m, k}, left), other, result_);
	} else {
		const auto spatial = static_cast<size_t>(number("sp", 2));
		const int64_t c = number("C", 64), k = number("K", 64), h = number("H", 28), r = number("R", 3);
		const int64_t reach = (r - 1) * number("dil", 1) + 1;
		Dims x{number("N", 32), c}, w{k, c / number("G", 1)}, y{number("N", 32), k};
		x.insert(x.end(), spatial, h);
		w.insert(w.end(), spatial, r);
		y.insert(y.end(), spatial, (h + 2 * number("pad", 1) - reach) / number("st", 1) + 1);
		const bool isForward = direction == "fwd", isData = direction == "dgrad";
		const Dims &one = isData ? y : x, &two = isForward || isData ? w : y;
		Descriptor left = tensor('1', first, one, packed(one, layouts[0] == 'n'));
		Descriptor right = tensor('2', second, two, packed(two, layouts[1] == 'n'));
		chain(kind, isForward ? y : isData ? x : w, out, layouts[2] == 'n');
		convolution(left, right, result_);
	}
	std::rotate(nodes_.begin(), nodes_.end() - 1, nodes_.end()); // the operation comes before its chain
	operations_ = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
	set(operations_, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, nodes_);
	finalize(operations_);
}

Descriptor descriptorOf(Graph &graph, Descriptor from, cudnnBackendAttributeName_t name,
                        cudnnBackendDescriptorType_t type)
{
	Descriptor made = graph.make(type);
	int64_t count = 0;
	getAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &made);
	return made;
}

void answer(const Device &device, const std::map<std::string, std::string> &words, bool asksPlans)
{
	Graph graph(words);
	if (!graph.isGood()) {
		std::puts("BAD_PARAM");
		return;
	}
	Descriptor properties = graph.make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
	const std::string text = propertiesOf(device);
	graph.set(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
	          std::vector<char>(text.c_str(), text.c_str() + text.size() + 1));
	graph.finalize(properties);
	std::map<int64_t, bool> seen;
	std::string line;
	for (auto [letter, mode] : {std::pair('A', CUDNN_HEUR_MODE_A), std::pair('F', CUDNN_HEUR_MODE_FALLBACK)}) {
		Descriptor heuristic = graph.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
		graph.link(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.operations());
		graph.set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, std::vector{mode});
		graph.link(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
		if (finalizeDescriptor(heuristic) != CUDNN_STATUS_SUCCESS)
			continue;
		int64_t count = 0;
		getAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr);
		std::vector<Descriptor> results;
		for (int64_t i = 0; i < count; ++i)
			results.push_back(graph.make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
		getAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count,
		             results.data());
		for (int64_t i = 0; i < count; ++i) {
			Descriptor config = results[static_cast<size_t>(i)];
			Descriptor engine =
			    descriptorOf(graph, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
			int64_t index = -1, numbers = 0, behaviours = 0, one = 0;
			cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
			cudnnBackendBehaviorNote_t behaviour[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
			getAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one, &index);
			if (!asksPlans && std::exchange(seen[index], true))
				continue;
			getAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
			             CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &numbers, numerical);
			getAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
			             CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &behaviours, behaviour);
			std::string notes, flags;
			for (int64_t note = 0; note < numbers; ++note)
				notes += "tdrfnwwwws"[numerical[note]];
			for (int64_t note = 0; note < behaviours; ++note)
				notes += "c  gl"[behaviour[note]];
			for (char flag : std::string("tcglnswrdf"))
				if (notes.find(flag) != std::string::npos)
					flags += flag;
			line += (line.empty() ? "" : " ") + std::string(1, letter) + std::to_string(index) +
			        (flags.empty() ? "" : "." + flags);
			if (!asksPlans)
				continue;
			Descriptor plan = graph.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
			graph.link(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
			graph.link(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, properties);
			const cudnnStatus_t status = finalizeDescriptor(plan);
			int64_t length = 0, workspace = -1;
			getAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &length, nullptr);
			std::string json(static_cast<size_t>(length), '\0');
			getAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length, &length,
			             json.data());
			getAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &workspace);
			std::printf("%c%ld %d %ld %ld %s\n", letter, index, status, workspace, length, json.c_str());
		}
	}
	if (!asksPlans)
		std::puts(line.c_str());
}

} // namespace

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
	if (!library) {
		std::fprintf(stderr, "%s\n", argc > 1 ? dlerror() : "usage: ask LIBRARY [plan]");
		return 77;
	}
	createDescriptor = reinterpret_cast<decltype(createDescriptor)>(dlsym(library, "cudnnBackendCreateDescriptor"));
	destroyDescriptor = reinterpret_cast<decltype(destroyDescriptor)>(dlsym(library, "cudnnBackendDestroyDescriptor"));
	setAttribute = reinterpret_cast<decltype(setAttribute)>(dlsym(library, "cudnnBackendSetAttribute"));
	getAttribute = reinterpret_cast<decltype(getAttribute)>(dlsym(library, "cudnnBackendGetAttribute"));
	finalizeDescriptor = reinterpret_cast<decltype(finalizeDescriptor)>(dlsym(library, "cudnnBackendFinalize"));
	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream text(line);
		int version = 0;
		text >> version;
		std::map<std::string, std::string> words;
		for (std::string one; text >> one;)
			words[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
		for (const Device &device : devices)
			if (device.version == version)
				answer(device, words, argc > 2);
		std::fflush(stdout);
	}
}
