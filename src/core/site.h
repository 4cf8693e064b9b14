// A signature that the program calls: what was decided for it, how it is lowered, its rows in the trace. Made at its
// first call, found again through each thread's memo, never freed. Any thread.
#pragma once

#include "src/core/process.h"
#include "src/op/op.h"
#include "src/policy/decision.h"
#include "src/reroute/gemm.h"
#include "src/trace/recorder.h"

#include <atomic>

namespace autoamp::core {

struct Site {
	op::Op op;
	uint32_t context; // core::contextOf()
	uint64_t hash;
	policy::Decision decision;
	reroute::Plan plan;
	Site *next = nullptr; // in its bucket
	// By reason; [count] is the decision's own row. 0: not made yet.
	std::atomic<trace::RowId> rows[static_cast<unsigned>(policy::Reason::count) + 1] = {};
};

// The site of `op` in that context, deciding it if it is new.
Site &findSite(const op::Op &op, uint32_t context, const policy::Device &device);

// The site with this place in the event ring; null if none has it.
const Site *siteAt(uint32_t place);

// The trace's row for what became of a call: its decision, or `fallback` for `reason`.
trace::RowId makeDecidedRow(Process &process, Site &site);
inline trace::RowId rowOf(Process &process, Site &site)
{
	const trace::RowId row = site.rows[static_cast<unsigned>(policy::Reason::count)].load(std::memory_order_relaxed);
	return __builtin_expect(row != 0, 1) ? row : makeDecidedRow(process, site);
}
trace::RowId fallbackRowOf(Process &process, Site &site, policy::Reason reason);

// Around fork: the table is consistent in the child.
void lockSites();
void unlockSites();

} // namespace autoamp::core
