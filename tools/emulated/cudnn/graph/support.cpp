// Finds engines in a table of the real library's results. Each row describes a graph by a family (operation, types,
// chain) and by its deviations from the first row of the family. A graph that matches a row exactly has the engines of
// this row. Any other graph has the engines common to all rows whose deviations are among its own.
#include "tools/emulated/cudnn/graph/support.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <utility>

namespace emulated::cudnn::graph {

namespace {

// The properties on which engines depend. 0: as in the first row of the family.
enum Trait {
	layout,
	alignment,
	first,
	second,
	groups,
	spatial,
	flipped,
	alpha,
	beta,
	dilation,
	stride,
	filter,
	image,
	axis,
	traitCount
};
using Traits = std::array<int, traitCount>;
constexpr int anyGroups = 3;
using Sizes = std::array<int64_t, 6>;

struct Subject {
	std::string operation, in, win, out, compute;
	int chain = 0; // "cast" in the table
	Traits traits{};
	Sizes sizes{};

	bool isSameFamily(const Subject &other) const
	{
		return operation == other.operation && in == other.in && win == other.win && out == other.out &&
		       compute == other.compute && chain == other.chain;
	}
};

constexpr int architectures[] = {750, 800, 860, 890, 900, 1000, 1200};

struct Row {
	Subject subject;
	bool hasPrologue;
	const char *engines[std::size(architectures)];
};

// Engines require channels (or columns) in multiples of 8, 4 or 2.
int granularity(int64_t elements)
{
	return elements % 8 == 0 ? 0 : elements % 4 == 0 ? 4 : elements % 2 == 0 ? 2 : 1;
}

constexpr int layoutCode(const char *letters)
{
	return (letters[0] == 'c' ? 4 : 0) + (letters[1] == 'c' ? 2 : 0) + (letters[2] == 'c' ? 1 : 0);
}

int alignmentCode(int64_t bytes)
{
	return bytes >= 16 ? 0 : bytes >= 4 ? 4 : 2;
}

// Numbers of a convolution, from a row or from a graph.
struct Shape {
	int64_t n = 32, c = 64, k = 64, h = 28, r = 3, groups = 1;
};

// True for pointwise nodes without another operation, and for reductions.
bool isWithoutOperation(const Subject &subject)
{
	return subject.operation == "pw" || subject.operation == "red";
}

// The image dimensions that a reduction keeps.
enum Kept { nothing, channels, allButChannels, anotherChoice };

void describe(const Shape &shape, Subject &subject)
{
	Traits &traits = subject.traits;
	subject.sizes = {shape.n, shape.c, shape.k, shape.h, shape.r, shape.groups};
	if (isWithoutOperation(subject)) {
		traits[groups] = shape.c == 1;
		return;
	}
	traits[first] = granularity(shape.c);
	traits[second] = granularity(shape.k);
	constexpr int depthwise = 1, small = 2, few = 16; // channels per group
	traits[groups] = shape.groups == 1              ? 0
	                 : shape.groups == shape.c      ? depthwise
	                 : shape.c / shape.groups < few ? small
	                                                : anyGroups;
	traits[filter] = shape.r == 1 ? 1 : shape.r < 7 ? 0 : 7;
	traits[image] = shape.n == 1 ? 1 : shape.h < 8 ? 2 : 0;
}

void describe(int64_t m, int64_t n, int64_t k, int64_t batch, Subject &subject)
{
	Traits &traits = subject.traits;
	subject.sizes = {m, n, k, batch};
	traits[first] = granularity(k);
	traits[second] = granularity(n);
	traits[image] = m == 1 ? 1 : 0;
	traits[groups] = batch > 1;
}

Row rowOf(const char *words, std::initializer_list<const char *> engines)
{
	Row row{};
	Subject &subject = row.subject;
	subject.compute = "f32";
	Shape shape;
	int64_t m = 512, n = 512, k = 512, batch = 1;
	std::istringstream text(words);
	for (std::string word; text >> word;) {
		const size_t sign = word.find('=');
		const std::string name = word.substr(0, sign), value = word.substr(sign + 1);
		const int64_t number = std::atoll(value.c_str());
		const std::pair<const char *, std::string *> texts[] = {{"dir", &subject.operation},
		                                                        {"in", &subject.in},
		                                                        {"win", &subject.win},
		                                                        {"out", &subject.out},
		                                                        {"comp", &subject.compute}};
		for (const auto &[known, to] : texts)
			if (name == known)
				*to = value;
		const std::pair<const char *, int64_t *> numbers[] = {
		    {"N", &shape.n},      {"C", &shape.c}, {"K", &shape.k}, {"H", &shape.h}, {"R", &shape.r},
		    {"G", &shape.groups}, {"M", &m},       {"NN", &n},      {"KK", &k},      {"B", &batch}};
		for (const auto &[known, to] : numbers)
			if (name == known)
				*to = number;
		Traits &traits = subject.traits;
		if (name == "pro")
			row.hasPrologue = true;
		else if (name == "axis")
			traits[axis] = static_cast<int>(number) == 1 ? 0 : static_cast<int>(number) + 1;
		else if (name == "keep")
			traits[filter] = value == "c" ? channels : value == "nhw" || value == "nh" ? allButChannels : anotherChoice;
		else if (name == "op")
			subject.chain = static_cast<int>(number);
		else if (name == "cast")
			subject.chain = static_cast<int>(number);
		else if (name == "lay")
			traits[layout] = layoutCode(value.c_str());
		else if (name == "al")
			traits[alignment] = alignmentCode(number);
		else if (name == "sp")
			traits[spatial] = static_cast<int>(number);
		else if (name == "mode")
			traits[flipped] = 1;
		else if (name == "alpha")
			traits[alpha] = 1;
		else if (name == "beta")
			traits[beta] = 1;
		else if (name == "dil")
			traits[dilation] = 1;
		else if (name == "st")
			traits[stride] = 1;
		else if (name == "ta")
			traits[layout] |= 4;
		else if (name == "tb")
			traits[layout] |= 2;
	}
	if (subject.win.empty())
		subject.win = subject.in;
	if (subject.operation == "pw")
		subject.chain = 0;
	if (subject.operation == "mm")
		describe(m, n, k, batch, subject);
	else
		describe(shape, subject);
	std::copy(engines.begin(), engines.end(), row.engines);
	return row;
}

const std::vector<Row> &rows()
{
	static const auto *all = [] {
		auto *made = new std::vector<Row>{
#define ROW(words, ...) rowOf(words, {__VA_ARGS__}),
#include "support.inc"
#undef ROW
		};
		// Removes rows that serve only for comparison in the tests. A residual uses the engines of a bias, a longer
		// chain those of chain 5, and a product with computed operands those of the product.
		std::erase_if(*made, [](const Row &row) {
			const int chain = row.subject.chain;
			return (chain >= 10 && chain <= 12) || chain == 15 || row.hasPrologue;
		});
		return made;
	}();
	return *all;
}

const char *typeName(cudnnDataType_t type)
{
	return type == CUDNN_DATA_HALF       ? "f16"
	       : type == CUDNN_DATA_BFLOAT16 ? "bf16"
	       : type == CUDNN_DATA_FLOAT    ? "f32"
	                                     : "";
}

bool isChannelsLast(const Tensor &tensor)
{
	return tensor.strides[1] == 1;
}

// The code for the letters of "lay". A tensor with one channel, or with one element in each spatial dimension, fits
// both layouts and takes that of the others.
int layoutOf(std::initializer_list<const Tensor *> tensors)
{
	const auto isEither = [](const Tensor *one) { return one->dims[1] == 1 || one->countFrom(2) == 1; };
	const auto clear = std::find_if_not(tensors.begin(), tensors.end(), isEither);
	int code = 0;
	for (const Tensor *one : tensors)
		code = 2 * code + !(clear == tensors.end() || isChannelsLast(isEither(one) ? **clear : *one));
	return code;
}

bool isForward(const Node &node)
{
	return node.kind == Node::Kind::convolution && node.convolution.direction == Direction::forward;
}

int chainOf(const Graph &graph)
{
	constexpr int concatenation = 16;
	if (patternOf(graph) == Pattern::concatenated)
		return concatenation;
	const std::vector<Node> nodes(graph.nodes.begin() + prologueOf(graph), graph.nodes.end());
	if (nodes.size() == 1)
		return 0;
	if (patternOf(graph) == Pattern::biased)
		return !isActivation(nodes.back()) ? 8 : nodes.back().mode == CUDNN_POINTWISE_RELU_FWD ? 7 : 14;
	if (nodes.size() > 2) // a forward convolution of chain 7 is the pattern above
		return nodes.size() == 3 && isActivation(nodes.back()) && !isForward(operationOf(graph)) ? 7 : 5;
	const Node &last = nodes.back();
	const int64_t other = last.first == nodes.front().result ? last.second : last.first;
	switch (last.mode) {
	case CUDNN_POINTWISE_IDENTITY: {
		const Tensor &from = graph.tensor(last.first), &to = graph.tensor(last.result);
		return isChannelsLast(from) == isChannelsLast(to) || from.rank < 4 ? 1 : 6;
	}
	case CUDNN_POINTWISE_MUL:
		return graph.edges.at(other).isByValue ? 3 : 4;
	case CUDNN_POINTWISE_ADD:
		return operationOf(graph).kind == Node::Kind::product ? 8 : 4;
	case CUDNN_POINTWISE_RELU_BWD:
		return 13;
	default:
		return 9;
	}
}

bool isScaled(const Node &node)
{
	return node.kind == Node::Kind::elements && (node.alpha != 1 || (node.hasSecond && node.beta != 1));
}

// No engine supports factors at the bias or its sum; pre-compiled engines support a factor at the residual.
bool isBiasScaled(const Graph &graph)
{
	const size_t activations = isActivation(graph.nodes.back());
	return patternOf(graph) == Pattern::biased && isScaled(*(graph.nodes.end() - 1 - activations));
}

// A reduction must keep whole dimensions. A concatenation must read the result of a forward convolution or a data
// gradient.
bool isReduced(const Graph &graph, const Node &node)
{
	const Tensor &x = graph.tensor(node.first), &y = graph.tensor(node.result);
	return std::mismatch(x.dims, x.dims + x.rank, y.dims, [](int64_t from, int64_t to) {
		       return to == 1 || to == from;
	       }).first == x.dims + x.rank;
}
bool isConcatenated(const Node &operation, const Node &node)
{
	const auto count = std::count(node.inputs.begin(), node.inputs.end(), operation.result);
	return count == 1 && operation.convolution.direction != Direction::backwardFilter;
}

bool isServed(const Graph &graph)
{
	const Pattern pattern = patternOf(graph);
	if (pattern == Pattern::other || (pattern == Pattern::reduction && !isReduced(graph, graph.nodes[0])) ||
	    (pattern == Pattern::concatenated && !isConcatenated(graph.nodes[0], graph.nodes[1])))
		return false;
	const Node &operation = operationOf(graph);
	for (const auto &[uid, edge] : graph.edges) {
		const bool isOperand = uid == operation.first || uid == operation.second,
		           isProduct = operation.kind == Node::Kind::product;
		const bool isWritten = std::any_of(graph.nodes.begin(), graph.nodes.end(),
		                                   [uid = uid](const Node &node) { return node.result == uid; });
		if (edge.vectorCount != 1 ||
		    (edge.isVirtual && (!isWritten || (isOperand ? !isProduct : edge.tensor.type != CUDNN_DATA_FLOAT))))
			return false;
	}
	return true;
}

// Engines for rank 3 require rows; engines for other ranks require channels last.
bool isInOrder(const Tensor &tensor)
{
	return tensor.rank == 3 ? tensor.strides[2] != 1 : tensor.rank < 2 || isChannelsLast(tensor);
}

void describeImage(const Graph &graph, Pattern pattern, Subject &subject)
{
	const Tensor &x = graph.tensor(graph.nodes.front().first), &y = graph.tensor(graph.nodes.back().result);
	Traits &traits = subject.traits;
	subject.operation = pattern == Pattern::elements ? "pw" : "red";
	subject.win = subject.in;
	if (pattern == Pattern::elements) {
		for (const auto &[uid, edge] : graph.edges)
			if (edge.tensor.hasSameDims(y) && !isInOrder(edge.tensor))
				traits[layout] |= uid == graph.nodes.back().result ? 1 : layoutCode("ccn");
	} else {
		traits[layout] = isInOrder(x) ? 0 : layoutCode("ccc");
		subject.chain = graph.nodes[0].reducer;
		int kept = 0, rest = 0; // a bit for each dimension with more than one element; rest: without the channels
		for (int i = 0; i < x.rank; ++i) {
			kept |= (y.dims[i] > 1) << i;
			rest |= (i != 1 && x.dims[i] > 1) << i;
		}
		constexpr int channel = 2;
		traits[filter] = kept == 0         ? nothing
		                 : kept == channel ? channels
		                 : kept == rest    ? allButChannels
		                                   : anotherChoice;
	}
	traits[spatial] = x.rank < 3 || x.rank == 4 ? 0 : x.rank - 2;
	describe({x.dims[0], x.rank > 1 ? x.dims[1] : 1, 0, x.rank > 2 ? x.dims[2] : 1, 0, 1}, subject);
}

Subject subjectOf(const Graph &graph)
{
	Subject subject;
	const Node &operation = operationOf(graph);
	const Tensor &one = graph.tensor(operation.first), &two = graph.tensor(operation.second);
	const Tensor &result = graph.tensor(operation.result), &out = graph.tensor(graph.nodes.back().result);
	subject.in = typeName(one.type);
	subject.win = typeName(two.type);
	subject.out = typeName(out.type);
	subject.compute = typeName(operation.compute);
	if (const Pattern pattern = patternOf(graph); pattern == Pattern::elements || pattern == Pattern::reduction) {
		describeImage(graph, pattern, subject);
		return subject;
	}
	subject.chain = chainOf(graph);
	Traits &traits = subject.traits;
	int64_t least = 16;
	for (const auto &[uid, edge] : graph.edges)
		if (!edge.isVirtual && !edge.isByValue && edge.tensor.count() > 1)
			least = std::min(least, edge.alignment);
	traits[alignment] = alignmentCode(least);
	if (operation.kind == Node::Kind::product) {
		subject.operation = "mm";
		const int last = one.rank - 1;
		traits[layout] = (one.strides[last] != 1 && one.dims[last] > 1 ? 4 : 0) |
		                 (two.strides[last] != 1 && two.dims[last] > 1 ? 2 : 0);
		describe(result.dims[last - 1], result.dims[last], one.dims[last], result.count() / result.countFrom(last - 1),
		         subject);
		return subject;
	}
	const dnn::Convolution &c = operation.convolution;
	constexpr const char *directions[] = {"fwd", "dgrad", "wgrad"};
	subject.operation = directions[static_cast<int>(c.direction)];
	const bool isForward = c.direction == Direction::forward, isData = c.direction == Direction::backwardData;
	const Tensor &x = isData ? result : one,
	             &w = isForward ? two
	                  : isData  ? one
	                            : result,
	             &y = isForward ? result : two;
	// The table has the gradient's operands in the order dy, w.
	const Tensor &left = isData ? two : one, &right = isData ? one : two;
	traits[layout] = layoutOf({&left, &right, &result});
	traits[spatial] = c.spatial == 2 ? 0 : c.spatial;
	traits[flipped] = c.isFlipped;
	traits[alpha] = operation.alpha != 1 || isBiasScaled(graph);
	traits[beta] = operation.beta != 0;
	traits[dilation] = std::any_of(c.dilation, c.dilation + c.spatial, [](int64_t one) { return one > 1; });
	if (subject.chain == 16 && graph.nodes.back().dimension != 1)
		traits[axis] = static_cast<int>(graph.nodes.back().dimension) + 1;
	traits[stride] = std::any_of(c.stride, c.stride + c.spatial, [](int64_t one) { return one > 1; });
	describe({x.dims[0], x.dims[1], y.dims[1], x.dims[2], *std::max_element(w.dims + 2, w.dims + w.rank), c.groups},
	         subject);
	return subject;
}

// Families whose rows complement those of the graph's own family: half for bfloat16, one-step chains for other chains,
// bias and ReLU for other combinations of bias and activation.
std::vector<Subject> familiesOf(const Subject &subject)
{
	std::vector<Subject> families{subject};
	Subject other = subject;
	const bool isBiased = subject.operation == "fwd" && (subject.chain == 8 || subject.chain == 14);
	if (isWithoutOperation(subject)) { // ADD for MIN, MAX and AMAX; fp32 for other types
		if (subject.chain != CUDNN_REDUCE_TENSOR_MUL)
			other.chain = CUDNN_REDUCE_TENSOR_ADD;
		families.push_back(other);
		other.in = other.win = other.out = "f32";
		families.push_back(other);
		return families;
	}
	if (subject.chain > 1 && subject.chain != 16 && !(subject.operation == "fwd" && subject.chain == 7)) {
		other.chain = isBiased ? 7 : 1;
		families.push_back(other);
	}
	if (subject.in == "bf16" && subject.win == "bf16") {
		other.in = other.win = "f16";
		other.out = subject.out == "bf16" ? "f16" : subject.out;
		families.push_back(other);
	}
	return families;
}

bool isWithin(const Traits &some, const Traits &all)
{
	return std::equal(some.begin(), some.end(), all.begin(),
	                  [](int one, int other) { return one == 0 || one == other; });
}

struct Match {
	const Row *row;
	size_t family;
};

std::vector<Match> matchesOf(const Subject &subject)
{
	const std::vector<Subject> families = familiesOf(subject);
	std::vector<Match> matches;
	bool isLayoutKnown = false;
	for (size_t family = 0; family < families.size(); ++family) {
		const auto knows = [&](Trait trait, int value) {
			return std::any_of(rows().begin(), rows().end(), [&](const Row &row) {
				return row.subject.isSameFamily(families[family]) && row.subject.traits[trait] == value;
			});
		};
		Traits traits = subject.traits;
		// A layout that is not in the table counts as all NCHW, the worst one. A group size that is not in the table
		// counts as the general case.
		if (knows(layout, traits[layout]))
			isLayoutKnown = true;
		else
			traits[layout] = isLayoutKnown ? 0 : layoutCode("ccc");
		if (!knows(groups, traits[groups]))
			traits[groups] = anyGroups;
		for (const Row &row : rows())
			if (row.subject.isSameFamily(families[family]) && isWithin(row.subject.traits, traits))
				matches.push_back({&row, family});
	}
	// Drops a row if a closer one matches: with the same and more deviations, or from a nearer family. A row that
	// deviates only in a small image, which has an additional engine, gives no information about deviating filters or
	// strides.
	const auto isImageOnly = [](Traits traits) {
		const bool isSmall = std::exchange(traits[image], 0) != 0;
		return isSmall && traits == Traits{};
	};
	std::vector<Match> best;
	for (const Match &one : matches) {
		const bool isBeaten = std::any_of(matches.begin(), matches.end(), [&](const Match &other) {
			const Traits &mine = one.row->subject.traits, &theirs = other.row->subject.traits;
			if (other.family == one.family && isImageOnly(mine) && (theirs[filter] != 0 || theirs[stride] != 0))
				return true;
			if (other.family != one.family || mine != theirs)
				return isWithin(mine, theirs) && other.family <= one.family;
			const bool isExact = one.row->subject.sizes == subject.sizes;
			return other.row->subject.sizes == subject.sizes ? !isExact : !isExact && other.row < one.row;
		});
		if (!isBeaten)
			best.push_back(one);
	}
	// The order is that of the nearest family.
	std::stable_sort(best.begin(), best.end(), [](const Match &a, const Match &b) {
		const auto deviations = [](const Match &match) {
			return std::count_if(match.row->subject.traits.begin(), match.row->subject.traits.end(),
			                     [](int trait) { return trait != 0; });
		};
		return a.family != b.family ? a.family < b.family : deviations(a) > deviations(b);
	});
	return best;
}

std::vector<Engine> parse(const char *words)
{
	std::vector<Engine> engines;
	std::istringstream text(words);
	for (std::string word; text >> word && word != "BAD_PARAM";) {
		const size_t dot = std::min(word.find('.'), word.size());
		engines.push_back({std::atoll(word.c_str() + 1), word[0] == 'F', word.substr(std::min(dot + 1, word.size()))});
	}
	return engines;
}

// Reports the graph on stderr. An empty list alone looks like a graph that the real library rejects, and programs may
// then read the first of no engines.
std::vector<Engine> unknown(const Graph &graph)
{
	constexpr const char *directions[] = {"convolution", "data gradient", "filter gradient"};
	std::string names;
	for (const Node &node : graph.nodes)
		names += (names.empty() ? "" : ", ") +
		         (node.kind == Node::Kind::convolution     ? directions[static_cast<int>(node.convolution.direction)]
		          : node.kind == Node::Kind::product       ? "matrix product"
		          : node.kind == Node::Kind::elements      ? "pointwise " + std::to_string(node.mode)
		          : node.kind == Node::Kind::concatenation ? "concatenation"
		          : node.kind == Node::Kind::reduction     ? "reduction " + std::to_string(node.reducer)
		                                                   : std::string("other operation"));
	emulated::missing(("the cuDNN graph (" + names + ")").c_str());
	return {};
}

} // namespace

std::vector<Engine> enginesFor(const Graph &graph, int version)
{
	// The column of the same device generation, if there is one.
	size_t column = std::size(architectures);
	for (size_t i = 0; i < std::size(architectures); ++i)
		if (architectures[i] <= version && architectures[i] / 100 == version / 100)
			column = i;
	if (column == std::size(architectures))
		return {};
	if (!isServed(graph))
		return unknown(graph);
	const Subject subject = subjectOf(graph);
	if (subject.operation == "mm" && subject.in != subject.win)
		return {};
	const std::vector<Match> matches = matchesOf(subject);
	if (matches.empty())
		return unknown(graph);
	if (matches[0].row->subject.in != subject.in)
		return {};
	std::vector<std::vector<Engine>> lists;
	for (const Match &match : matches)
		lists.push_back(parse(match.row->engines[column]));
	std::vector<Engine> engines = lists[0];
	for (const auto &left : lists)
		std::erase_if(engines, [&](const Engine &one) {
			return std::none_of(left.begin(), left.end(),
			                    [&](const Engine &other) { return other.index == one.index; });
		});
	const bool isOneFamily = std::all_of(matches.begin(), matches.end(),
	                                     [&](const Match &match) { return match.row->subject.in == subject.in; });
	if (engines.empty() && isOneFamily) // no common engine: those of the shortest list; none if a list is empty
		engines = *std::min_element(lists.begin(), lists.end(),
		                            [](const auto &a, const auto &b) { return a.size() < b.size(); });
	const auto prologueEnd = graph.nodes.begin() + prologueOf(graph);
	if (prologueEnd != graph.nodes.begin() && version < 800)
		return {};
	if (subject.in == "f32" &&
	    std::any_of(graph.nodes.begin(), prologueEnd, [](const Node &node) { return node.hasSecond; }))
		std::erase_if(engines, [](const Engine &one) { return one.index == 1; });
	if (std::any_of(graph.nodes.begin(), graph.nodes.end(), isScaled))
		std::erase_if(engines, [](const Engine &one) { return one.isRuntimeCompiled(); });
	return engines;
}

} // namespace emulated::cudnn::graph
