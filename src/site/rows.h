// The rows of a signature in the trace: one for each outcome of its calls. Any thread.
#pragma once

#include "src/site/site.h"
#include "src/state/process.h"

namespace autoamp::core {

// The trace's row for what became of a call: its decision, or `fallback` for `reason`.
trace::RowId makeDecidedRow(Process &process, Rows &rows);
inline trace::RowId rowOf(Process &process, Rows &rows)
{
	const trace::RowId row = rows.rows[static_cast<unsigned>(policy::Reason::count)].load(std::memory_order_relaxed);
	return __builtin_expect(row != 0, 1) ? row : makeDecidedRow(process, rows);
}
trace::RowId fallbackRowOf(Process &process, Rows &rows, policy::Reason reason);
// The row of calls that ran by the decision's substitute, for lack of memory.
trace::RowId substituteRowOf(Process &process, Rows &rows, policy::Reason shortage);

} // namespace autoamp::core
