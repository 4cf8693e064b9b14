// The rules of the configuration: which calls they match, and in which precision those run. Values; any thread.
#pragma once

#include <string>
#include <vector>

namespace autoamp::policy {

struct Rules {
	// What the rules ask of a call's surroundings, each pattern once; decide.h has the bits (Where).
	static constexpr size_t mostRegions = 64, mostThreads = 32;
	std::vector<std::string> regionPatterns, threadPatterns;
};

} // namespace autoamp::policy
