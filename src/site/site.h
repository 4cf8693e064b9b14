// A signature called by the program, with its decision, lowering state and trace rows. Created at its first call,
// cached in the memo of each thread, never freed. Any thread.
#pragma once

#include "src/lower/lowering.h"
#include "src/op/op.h"
#include "src/policy/decide.h"
#include "src/trace/write/recorder.h"

#include <atomic>

namespace autoamp::core {

struct Site;

// Trace rows of a site for the calls of one context. A site has several if its contexts differ only in an NVTX range
// that no rule names.
struct Rows {
	Site *site = nullptr;
	uint32_t context = 0; // core::contextOf()
	// Fallback rows by reason, then the row of the decision ([count]), then the rows of the substitute by shortage. 0:
	// not created.
	std::atomic<trace::RowId> rows[static_cast<unsigned>(policy::Reason::count) + 1 + policy::shortageCount] = {};
	std::atomic<Rows *> next{nullptr};
};

struct Site {
	op::Op op;
	uint32_t context; // core::decisiveContext()
	uint64_t hash;
	policy::Decision decision;
	lower::SiteCache cache;
	Site *next = nullptr; // next site in the bucket
	Rows rows;            // for the context of its first call
};

// Returns the site of `op` in `context`. Creates it, with its decision, if it is new.
Site &findSite(const op::Op &op, uint32_t context, const policy::Device &device);

// The rows of the calls in `context`; beyond a limit, the rows for the range `(more ranges)`.
Rows &rowsOf(Site &site, uint32_t context);

// Logs a decision with AUTOAMP_LOG=debug. Called once for each signature, and once for each reason of its fallbacks.
void logDecision(const Site &site, policy::Verdict verdict, policy::Reason reason);

// The site with this place in the event ring; null: no site has it.
const Site *siteAt(uint32_t place);

// Called around fork, so that the table is consistent in the child.
void lockSites();
void unlockSites();

} // namespace autoamp::core
