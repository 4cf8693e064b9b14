// What a finalized plan of cuDNN's graph API computes, read from the text in which it describes itself. Any thread.
#pragma once

#include "src/op/convolution.h"
#include "src/op/entry.h"
#include "src/op/gemm.h"
#include "src/op/graph.h"

#include <string_view>

namespace autoamp::op {

// One graph that plans of the application have had, kept for ever.
struct KnownGraph {
	Graph graph;
	Obstacle obstacle = Obstacle::none; // none: one product, and nothing but pointwise nodes with it, all in float
	const GraphNode *product = nullptr; // the only one
	Convolution convolution;            // where it is one
	// True for one convolution, alone or with what cudnnConvolutionBiasActivationForward adds to a result that is not
	// channels-last: `convolution` then describes all of the graph, and these are its tensors.
	bool isLegacyCall = false;
	int64_t result = 0, source = 0, bias = 0; // uids; source and bias if `convolution` has them
	double beta = 0;                          // factor of the source, or of the old result
	uint32_t geometry = 0;                    // its number
	uint32_t number = 0;                      // of Op::graph

	KnownGraph() = default;
	KnownGraph(const KnownGraph &) = delete;
	KnownGraph &operator=(const KnownGraph &) = delete;
};

// The one of the plan that describes itself so, the same for equal ones; null: in words that are not known here. A node
// of which that is true does not make the graph unknown: it is NodeKind::other.
const KnownGraph *knownGraph(std::string_view text);

Op describe(const Entry &entry, uint16_t index, const KnownGraph &known, bool isOnTensorCores,
            const VendorEnvironment &environment);

inline const GraphTensor *tensorOf(const Graph &graph, int64_t uid)
{
	for (const GraphTensor &tensor : graph.tensors)
		if (tensor.uid == uid)
			return &tensor;
	return nullptr;
}

} // namespace autoamp::op
