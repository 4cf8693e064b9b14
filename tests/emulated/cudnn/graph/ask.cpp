// Queries a libcudnn, without a device, for its engines for the graphs of tools/emulated/cudnn/graph/support.tsv.
// usage: ask [plan], with the library in LD_LIBRARY_PATH. A line of stdin is an architecture and a graph ("900 dir=fwd
// in=f16 out=f32 cast=1"), a line of stdout is the content of the table for it. With "plan": the plan of each engine of
// mode A as JSON.
#include "tests/emulated/cudnn/graph/plan.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

namespace {

using graph::Descriptor;
using graph::Dims;
using graph::packed;

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

// A graph described by the table's key words; everything is destroyed with it.
class Graph : public graph::Client
{
public:
	explicit Graph(const std::map<std::string, std::string> &words) : words_(words) { build(); }
	bool isGood() const { return status() == CUDNN_STATUS_SUCCESS; }
	Descriptor operations() const { return operations_; }

private:
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
	void pointwise(cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y, float factor = 1)
	{
		nodes_.push_back(Client::pointwise(mode, x, b, y, factor));
	}
	void convolution(Descriptor first, Descriptor second, Descriptor result);
	Descriptor prologue(Descriptor a, cudnnDataType_t type, const Dims &dims, const Dims &strides);
	void chain(int kind, const Dims &dims, cudnnDataType_t out, bool isNhwc);
	void build();

	const std::map<std::string, std::string> &words_;
	std::vector<Descriptor> nodes_;
	Descriptor operations_ = nullptr;
	Descriptor result_ = nullptr; // output of the convolution or product
};

void Graph::convolution(Descriptor first, Descriptor second, Descriptor result)
{
	const std::string direction = word("dir", "");
	const bool isForward = direction == "fwd", isData = direction == "dgrad";
	const auto each = static_cast<size_t>(number("sp", 2));
	nodes_.push_back(Client::convolution(isForward ? CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA
	                                     : isData  ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA
	                                               : CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
	                                     isForward || isData ? second : result, isData ? result : first,
	                                     isForward ? result
	                                     : isData  ? first
	                                               : second,
	                                     Dims(each, number("pad", 1)), Dims(each, number("st", 1)),
	                                     Dims(each, number("dil", 1)), number("mode", 1) == CUDNN_CONVOLUTION,
	                                     static_cast<float>(number("alpha", 1)),
	                                     static_cast<float>(number("beta", 0))));
}

// The nodes after the operation: the words "cast=N" of the table.
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
	Dims end = dims;
	if (kind == 16)
		end[static_cast<size_t>(number("axis", 1))] *= 2;
	Descriptor y = tensor('y', out, end, packed(end, isNhwc && kind != 6));
	const auto between = [&](int64_t uid) { return tensor(uid, CUDNN_DATA_FLOAT, dims, strides, true); };
	const auto whole = [&](int64_t uid) { return tensor(uid, out, dims, strides); };
	const auto channels = [&](int64_t uid) { return tensor(uid, out, bias, packed(bias, true)); };
	const auto scalar = [&](int64_t uid) { return tensor(uid, CUDNN_DATA_FLOAT, ones, ones, false, kind == 3); };
	result_ = word("dir", "") == "pw" ? tensor('x', typeOf(word("in", "")), dims, packed(dims, isNhwc)) : between('v');
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
	case 16: {
		const int64_t inPlace = number("place", 1);
		const std::vector inputs{result_, whole('z')};
		nodes_.push_back(concatenation(number("axis", 1), inputs, y, inPlace));
		break;
	}
	case 13:
		nodes_.push_back(reluBackward(result_, whole('o'), y));
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
	alignment = number("al", 16);
	compute = typeOf(word("comp", "f32"));
	Dims image{number("N", 32), number("C", 64)};
	image.resize(2 + static_cast<size_t>(number("sp", 2)), number("H", 28));
	if (direction == "red") {
		Dims kept = image;
		const std::string letters = word("keep", "");
		for (size_t i = 0; i < kept.size(); ++i)
			if (letters.find("nchwd"[i]) == std::string::npos)
				kept[i] = 1;
		const bool isLast = layouts[0] == 'n';
		Descriptor x = tensor('x', first, image, packed(image, isLast)),
		           y = tensor('y', out, kept, packed(kept, isLast));
		nodes_.push_back(reduction(static_cast<cudnnReduceTensorOp_t>(number("op", 0)), x, y));
	} else if (direction == "pw") {
		chain(kind, image, out, layouts[0] == 'n');
	} else if (direction == "mm") {
		const int64_t b = number("B", 1), m = number("M", 512), n = number("NN", 512), k = number("KK", 512);
		const auto matrix = [](int64_t rows, int64_t columns, bool isTransposed) {
			return isTransposed ? Dims{rows * columns, 1, rows} : Dims{rows * columns, columns, 1};
		};
		const Dims left = matrix(m, k, number("ta", 0));
		Descriptor a = tensor('a', first, {b, m, k}, left);
		Descriptor other = tensor('b', second, {b, k, n}, matrix(k, n, number("tb", 0)));
		chain(kind, {b, m, n}, out, false);
		Descriptor read = prologue(a, first, {b, m, k}, left);
		nodes_.push_back(product(read, other, result_));
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
	if (direction != "pw") // the operation comes before its chain
		std::rotate(nodes_.begin(), nodes_.end() - 1, nodes_.end());
	operations_ = Client::operations(nullptr, nodes_);
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
	graph.finalized(properties);
	std::map<int64_t, bool> seen;
	std::string line;
	for (auto [letter, mode] : {std::pair('A', CUDNN_HEUR_MODE_A), std::pair('F', CUDNN_HEUR_MODE_FALLBACK)}) {
		for (Descriptor config : graph.configs(graph.operations(), mode, properties)) {
			Descriptor engine = graph.engineOf(config);
			int64_t index = -1, numbers = 0, behaviours = 0, one = 0;
			cudnnBackendNumericalNote_t numerical[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
			cudnnBackendBehaviorNote_t behaviour[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
			cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &one, &index);
			if (!asksPlans && std::exchange(seen[index], true))
				continue;
			cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
			                         CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &numbers, numerical);
			cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
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
			const cudnnStatus_t status = cudnnBackendFinalize(plan);
			int64_t length = 0, workspace = -1;
			cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, 0, &length,
			                         nullptr);
			std::string json(static_cast<size_t>(length), '\0');
			cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, length,
			                         &length, json.data());
			cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one,
			                         &workspace);
			std::printf("%c%ld %d %ld %ld %s\n", letter, index, status, workspace, length, json.c_str());
		}
	}
	if (!asksPlans)
		std::puts(line.c_str());
}

} // namespace

int main(int argc, char **)
{
	for (std::string line; std::getline(std::cin, line);) {
		std::istringstream text(line);
		int version = 0;
		text >> version;
		std::map<std::string, std::string> words;
		for (std::string one; text >> one;)
			words[one.substr(0, one.find('='))] = one.substr(one.find('=') + 1);
		for (const Device &device : devices)
			if (device.version == version)
				answer(device, words, argc > 1);
		std::fflush(stdout);
	}
}
