// Kept copies of converted weights in the trace, and the warning about changed weights of AUTOAMP_WEIGHTS=frozen. Any
// thread; never waits.
#pragma once

#include "src/lower/context_state.h"
#include "src/lower/lowering.h"
#include "src/site/site.h"
#include "src/state/process.h"

namespace autoamp::core {

// Adds the use of kept copies by one call to the totals of `row`, and its events to the scaler events.
void recordWeights(Process &process, Rows &rows, trace::RowId row, const lower::Outcome &outcome);
// Adds differences that the device found, `recast` or `changed`, to the totals of the row.
void recordDifferences(Process &process, const Site &site, trace::RowId row, kernels::EventKind kind, uint64_t count);

// Counts changes of frozen operands outside of the recorded range of the run, which have no events.
void noteUnreported(const Site &site, const lower::Outcome &outcome);
// Counts a broken promise, also without a trace. site: null if it has no place in the event ring.
void noteChange(const Site *site, char operand, uint64_t count);
// Logs the broken promises of this process. Called once, at exit.
void warnOfChanges();
// For a forked child, which has made no promise.
void forgetChanges();

} // namespace autoamp::core
