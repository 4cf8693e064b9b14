// The engines that support a graph on an architecture, from a table of the real library's results. Any thread.
#pragma once

#include "tools/emulated/cudnn/graph/graph.h"

namespace emulated::cudnn::graph {

struct Engine {
	int64_t index = 0;
	bool isFallback = false; // listed only in mode FALLBACK
	std::string notes;       // letters of the table
	int64_t tile = 0;        // the configured tile

	bool is(char note) const { return notes.find(note) != std::string::npos; }
	bool usesTensorCores() const { return is('t'); }
	bool isRuntimeCompiled() const { return is('c'); }
	bool hasNativeGraph() const { return is('g'); }
	int64_t tileCount() const { return usesTensorCores() ? 2 : 0; }
};

// `version`: 900 is sm_90. In the order of the heuristics.
std::vector<Engine> enginesFor(const Graph &graph, int version);

} // namespace emulated::cudnn::graph
