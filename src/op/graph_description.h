// Meaning of a finalized cuDNN plan, read from the text that cuDNN returns for it. Any thread.
#pragma once

#include "src/op/convolution.h"
#include "src/op/entry.h"
#include "src/op/gemm.h"
#include "src/op/graph.h"

#include <string_view>

namespace autoamp::op {

// A graph of an application plan, kept for the lifetime of the process.
struct KnownGraph {
	Graph graph;
	Obstacle obstacle = Obstacle::none; // none: one product, else pointwise nodes; all fp32 if its first operand is
	const GraphNode *product = nullptr; // the only product
	Convolution convolution;            // set if the product is one
	// True for one convolution, alone or with the additions of cudnnConvolutionBiasActivationForward to a result that
	// is not channels-last. `convolution` then describes the whole graph, and these are its tensors.
	bool isLegacyCall = false;
	int64_t result = 0, source = 0, bias = 0; // uids; source and bias if `convolution` has them
	double beta = 0;                          // factor of the source, or of the old result
	uint32_t geometry = 0;                    // number of `convolution`
	uint32_t number = 0;                      // value of Op::graph

	KnownGraph() = default;
	KnownGraph(const KnownGraph &) = delete;
	KnownGraph &operator=(const KnownGraph &) = delete;
};

// Returns the graph of the plan with this text, the same for equal graphs. Null if the text is not understood. A node
// that is not understood does not make the graph unknown: it becomes NodeKind::other.
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
