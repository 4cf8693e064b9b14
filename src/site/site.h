// A signature that the program calls: its decision, how it is lowered, its rows in the trace. Made at its first call,
// found again through each thread's memo, never freed. Any thread.
#pragma once

#include "src/op/op.h"
#include "src/policy/decide.h"
#include "src/reroute/lowering.h"
#include "src/trace/recorder.h"

#include <atomic>

namespace autoamp::core {

struct Site;

// The rows of a site for the calls of one context. A site has several where the contexts differ in nothing but an NVTX
// range that no rule names.
struct Rows {
	Site *site = nullptr;
	uint32_t context = 0; // core::contextOf()
	// Fallbacks by reason, the decision's own row ([count]), then those of the substitute, by shortage. 0: not made
	// yet.
	std::atomic<trace::RowId> rows[static_cast<unsigned>(policy::Reason::count) + 1 + policy::shortageCount] = {};
	std::atomic<Rows *> next{nullptr};
};

struct Site {
	op::Op op;
	uint32_t context; // core::decisiveContext()
	uint64_t hash;
	policy::Decision decision;
	reroute::Plan plan;
	Site *next = nullptr; // in its bucket
	Rows rows;            // for the context of its first call
};

// The site of `op` in that context, deciding it if it is new.
Site &findSite(const op::Op &op, uint32_t context, const policy::Device &device);

// Those of the calls in `context`; past a limit, those of `(more ranges)`.
Rows &rowsOf(Site &site, uint32_t context);

// AUTOAMP_LOG=debug: once for each signature, and once for each reason that its calls fell back for.
void logDecision(const Site &site, policy::Verdict verdict, policy::Reason reason);

// The site with this place in the event ring; null if none has it.
const Site *siteAt(uint32_t place);

// Around fork: the table is consistent in the child.
void lockSites();
void unlockSites();

} // namespace autoamp::core
