// Rules of the configuration: the calls that they match, and the precision and kept weights of these calls. Values; any
// thread.
#pragma once

#include "src/config/toml.h"
#include "src/config/weights.h"
#include "src/lists/lists.h"
#include "src/op/op.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

// Conditions of a rule: name, and one line of help. Globs come first.
#define AUTOAMP_MATCHERS(X)                                                                                            \
	X(entry, "entry point: cublasSgemm*, cublasLtMatmul")                                                              \
	X(op, "op of the list system, with all calls that it reaches: mm, bmm, linear, torch:matmul")                      \
	X(caller, "object file that makes the call, without its folder: libtorch_cuda.so, app")                            \
	X(region, "NVTX range or pushed region of the thread, at any depth")                                               \
	X(thread, "name of the calling thread at its first call; the main thread has the program's name")                  \
	X(m, "rows of the result")                                                                                         \
	X(n, "columns of the result")                                                                                      \
	X(k, "length of the sums")                                                                                         \
	X(batch, "products in the call")                                                                                   \
	X(flops, "2 m n k batch")                                                                                          \
	X(device, "number of the GPU, from 0, or cpu")

enum class Matcher : uint8_t {
#define X(name, help) name,
	AUTOAMP_MATCHERS(X)
#undef X
	    count
};
constexpr size_t matcherCount = static_cast<size_t>(Matcher::count), globCount = static_cast<size_t>(Matcher::m);

struct MatcherRow {
	const char *name, *help;
};
std::span<const MatcherRow> matcherTable(); // by Matcher

// The context of a call, as far as rules have conditions on it.
struct Where {
	std::string_view caller; // name of the object file without its folder
	uint64_t regions = 0;    // bit i: an open region matches Rules::regionPatterns[i]
	uint32_t threads = 0;    // bit i: the thread's name matches Rules::threadPatterns[i]
};

// Both ends are included.
struct Range {
	double low = 0, high = std::numeric_limits<double>::infinity();
	bool has(double value) const { return low <= value && value <= high; }
};

struct Rule {
	std::string asked[matcherCount];       // as typed; empty: no condition
	Range range[matcherCount];             // for the conditions that are not globs
	std::vector<uint64_t> entries;         // bit: row of the entry tables
	uint64_t ops = 0;                      // bit: row of callRows()
	uint8_t region = 0, thread = 0;        // bits of Where
	op::Dtype precision = op::Dtype::none; // none: the rule does not decide it
	std::optional<Weights> weights;        // as typed; empty: the rule does not decide it
	std::string place;                     // file:line:column
	std::string hint;                      // "; did you mean cublasSgemm?" for a name that does not exist

	bool asks(Matcher matcher) const { return !asked[static_cast<size_t>(matcher)].empty(); }
	bool matches(const op::Op &op, const Where &where) const;
};
std::string textOf(const Rule &rule); // as a TOML table: entry = "cublasSgemm*", precision = "bfloat16"

// The first matching rules that decide the precision and the weights; null: no rule does. Often the same rule.
struct RulesOfCall {
	const Rule *precision = nullptr, *weights = nullptr;
};

struct Rules {
	// Patterns of all rules for regions and threads, each once.
	static constexpr size_t mostRegions = 64, mostThreads = 32;
	std::vector<std::string> regionPatterns, threadPatterns;
	std::vector<Rule> list; // highest priority first

	RulesOfCall find(const op::Op &op, const Where &where) const;

	// Appends a rule. Returns the error with its place, or an empty text.
	std::string add(const Table &table, Lists lists, std::span<const char *const> entries);
	// Rules that can never decide about a call, or never lower it as they say, one line each.
	std::vector<std::string> warnings() const;
};

// The patterns that `name` matches, as bits.
uint64_t bitsOf(std::span<const std::string> patterns, std::string_view name);

} // namespace autoamp::policy
