// Trace rows of a signature: one for each outcome of its calls. Any thread.
#pragma once

#include "src/site/site.h"
#include "src/state/process.h"

namespace autoamp::core {

// The trace row for the outcome of a call: its decision, or `fallback` with `reason`. A call that needs saved time and
// has none is `kept`, `not_profitable`.
trace::RowId makeDecidedRow(Process &process, Rows &rows);
inline trace::RowId rowOf(Process &process, Rows &rows)
{
	const trace::RowId row = rows.rows[static_cast<unsigned>(policy::Reason::count)].load(std::memory_order_relaxed);
	return __builtin_expect(row != 0, 1) ? row : makeDecidedRow(process, rows);
}
trace::RowId fallbackRowOf(Process &process, Rows &rows, policy::Reason reason);
// The row of calls that ran by the substitute of the decision, because of a shortage.
trace::RowId substituteRowOf(Process &process, Rows &rows, policy::Reason shortage);

} // namespace autoamp::core
