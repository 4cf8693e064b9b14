// A graph of operations as cuDNN's graph API describes it, as a value, and as the JSON in which a plan tells it. Any
// thread.
#pragma once

#include "tools/emulated/cudnn/dnn/convolution.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace emulated::cudnn::graph {

using dnn::Direction;
using dnn::Tensor;
using Json = nlohmann::ordered_json; // the real library writes its text in this order too

struct Edge {
	int64_t uid = 0;
	Tensor tensor;
	int64_t alignment = 0, vectorCount = 1, vectorDimension = -1;
	bool isVirtual = false, isByValue = false;
};

struct Node {
	enum class Kind { convolution, product, elements, concatenation, reduction, opaque }; // opaque: no engine knows it
	Kind kind = Kind::opaque;
	dnn::Convolution convolution;
	cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	double alpha = 1, beta = 0; // of elements: the factors of the first and the second operand
	double lowerClip = 0, upperClip = std::numeric_limits<double>::max(), lowerClipSlope = 0; // of RELU
	double parameter = 1; // of ELU (alpha), SWISH and SOFTPLUS (beta)
	int64_t first = 0, second = 0,
	        result = 0; // uids; of a convolution in the order of dnn::convolve, of RELU_BWD dy and x
	bool hasSecond = true;
	std::vector<int64_t> inputs; // uids, of a concatenation
	int64_t dimension = 0;       // in which they are concatenated
	int64_t inPlace = -1;        // index of the input that is a part of the result already, -1: none is
	cudnnReduceTensorOp_t reducer = CUDNN_REDUCE_TENSOR_ADD;

	std::vector<int64_t> sources() const; // uids of what it reads
};

struct Graph {
	std::map<int64_t, Edge> edges;
	std::vector<Node> nodes; // each after what it reads

	const Tensor &tensor(int64_t uid) const { return edges.at(uid).tensor; }
};

enum class Pattern { convolution, biased, chain, concatenated, product, elements, reduction, other };
// Convolution + residual + bias + activation has its own engines; all other chains share theirs.
Pattern patternOf(const Graph &graph);
// The convolution, product or reduction; the first node of a graph that has none.
const Node &operationOf(const Graph &graph);
// Number of nodes before it if it reads their results, else 0.
std::ptrdiff_t prologueOf(const Graph &graph);
int64_t engineCountOf(const Graph &graph);

// The pointwise modes that are emulated, and those of two operands.
bool isEvaluated(cudnnPointwiseMode_t mode);
bool isBinary(cudnnPointwiseMode_t mode);
bool isActivation(const Node &node);

// Puts the nodes in order; false: two of them write one tensor, or they go round in a circle.
bool arrange(Graph &graph);

Json jsonOf(const Graph &graph);
// Null: not a text that this library wrote.
std::shared_ptr<const Graph> graphOf(const Json &json);

} // namespace emulated::cudnn::graph
