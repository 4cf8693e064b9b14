// An operation graph from cuDNN's graph API, as a value and as the JSON text in a plan. Any thread.
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
using Json = nlohmann::ordered_json; // keeps the order, as in the real library's text

struct Edge {
	int64_t uid = 0;
	Tensor tensor;
	int64_t alignment = 0, vectorCount = 1, vectorDimension = -1;
	bool isVirtual = false, isByValue = false;
};

struct Node {
	// opaque: no engine supports the node
	enum class Kind { convolution, product, elements, concatenation, reduction, opaque };
	Kind kind = Kind::opaque;
	dnn::Convolution convolution;
	cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
	cudnnDataType_t compute = CUDNN_DATA_FLOAT;
	double alpha = 1, beta = 0;    // elements: factors of the first and second operand
	bool hasDoubleScalars = false; // the attributes of a convolution's alpha and beta are doubles
	double lowerClip = 0, upperClip = std::numeric_limits<double>::max(), lowerClipSlope = 0; // RELU
	double parameter = 1; // ELU (alpha), SWISH and SOFTPLUS (beta)
	int64_t first = 0, second = 0,
	        result = 0; // uids; a convolution has the order of dnn::convolve, RELU_BWD has dy and x
	bool hasSecond = true;
	std::vector<int64_t> inputs; // uids of a concatenation
	int64_t dimension = 0;       // dimension of the concatenation
	int64_t inPlace = -1;        // index of the input that already is part of the result; -1: none
	cudnnReduceTensorOp_t reducer = CUDNN_REDUCE_TENSOR_ADD;

	std::vector<int64_t> sources() const; // uids of the inputs
};

struct Graph {
	std::map<int64_t, Edge> edges;
	std::vector<Node> nodes; // sorted: each node after its inputs

	const Tensor &tensor(int64_t uid) const { return edges.at(uid).tensor; }
};

enum class Pattern { convolution, biased, chain, concatenated, product, elements, reduction, other };
// Convolution + residual + bias + activation has its own engines; all other chains share engines.
Pattern patternOf(const Graph &graph);
// The convolution, product or reduction; the first node of a graph without these.
const Node &operationOf(const Graph &graph);
// Number of nodes before the operation if it reads their results, else 0.
std::ptrdiff_t prologueOf(const Graph &graph);
int64_t engineCountOf(const Graph &graph);

// The emulated pointwise modes, and those with two operands.
bool isEvaluated(cudnnPointwiseMode_t mode);
bool isBinary(cudnnPointwiseMode_t mode);
bool isActivation(const Node &node);

// Sorts the nodes; false: two nodes write one tensor, or there is a cycle.
bool arrange(Graph &graph);

Json jsonOf(const Graph &graph);
// Null: this library did not write the text.
std::shared_ptr<const Graph> graphOf(const Json &json);

} // namespace emulated::cudnn::graph
