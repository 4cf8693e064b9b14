#include "src/site/rows.h"

#include "inject/entry_table.h"
#include "src/lists/lists.h"
#include "src/op/blas.h"
#include "src/op/convolution.h"
#include "src/op/entry.h"
#include "src/place/capture_range.h"
#include "src/place/policy_context.h"
#include "src/state/caller.h"

namespace autoamp::core {

namespace {

// `eligible` of docs/glossary.md: the data is fp32, and the op has a lower-precision form.
bool isEligible(const op::Op &op)
{
	using op::Kind, op::Obstacle;
	return op::isProduct(op.kind) && op.kind != Kind::mv && op.a == op::Dtype::float32 &&
	       (op.obstacle == Obstacle::none || op.obstacle == Obstacle::pedantic ||
	        op.obstacle == Obstacle::emulated_fp32 || op.obstacle == Obstacle::solver_caller ||
	        op.obstacle == Obstacle::grouped || op.obstacle == Obstacle::unsupported);
}

trace::RowId makeRow(Process &process, const Rows &rows, const policy::Decision &decision)
{
	const Site &site = *rows.site;
	const op::Op &op = site.op;
	const char *compute = op::name(decision.isUnchanged() ? op.asked : decision.precision);
	trace::Row row;
	row.entry = entry::entryTable[op.entry].name;
	row.library = op::name(op.library);
	row.op = policy::name(op.kind);
	row.m = op.m, row.n = op.n, row.k = op.k, row.batch = op.batch;
	row.transa = letter(op.transa), row.transb = letter(op.transb);
	row.dtypeIn = op::name(op.a);
	row.dtypeAsked = op::name(op.asked);
	row.dtypeCompute = compute;
	const bool isHalf = op.flags & op::flagHalfSums && decision.verdict != policy::Verdict::raised;
	row.dtypeAccumulate = op::name(isHalf || op.a == op::Dtype::float64 ? op.a : op::Dtype::float32);
	row.dtypeOut = op::name(op.out);
	row.decision = policy::name(decision.verdict);
	row.reason = policy::name(decision.reason);
	row.cause = op::name(policy::causeOf(op, decision.reason));
	row.strategy = policy::name(decision.strategy);
	row.caller = callerName(op.caller);
	const Region &region = regionOf(rows.context);
	row.region = region.range ? region.range : region.name;
	const std::string shape = op::shapeOf(op);
	const op::Entry &entry = entry::entryTable[op.entry];
	const bool isProduct = op.kind == op::Kind::mm || op.kind == op::Kind::bmm; // a cuDNN plan has these too
	const bool hasNoSizes =
	    (op.library == op::Library::cudnn && !isProduct) || (op::isOnlyCounted(entry) && entry.kind == op::Kind::none);
	row.shape = !shape.empty() ? shape.c_str() : hasNoSizes ? "unknown" : nullptr;
	row.eligible = isEligible(op);
	row.isCounted = op::isOnlyCounted(entry) && !isEachDescribed(process);
	row.device = op.device == op::cpuDevice ? trace::kNoDevice : op.device;
	row.estNs = decision.estimate;
	row.estLoweredNs = decision.estimateLowered;
	return process.recorder.row(row);
}

trace::RowId rowAt(Process &process, Rows &rows, unsigned place, const policy::Decision &decision)
{
	trace::RowId row = rows.rows[place].load(std::memory_order_relaxed);
	if (__builtin_expect(!row, 0)) {
		const trace::RowId mine = makeRow(process, rows, decision);
		// If another thread was faster, use its row: otherwise the calls of one signature would be split between two
		// rows.
		if (rows.rows[place].compare_exchange_strong(row, mine, std::memory_order_relaxed))
			row = mine;
	}
	return row;
}

} // namespace

trace::RowId makeDecidedRow(Process &process, Rows &rows)
{
	return rowAt(process, rows, static_cast<unsigned>(policy::Reason::count), rows.site->decision);
}

trace::RowId fallbackRowOf(Process &process, Rows &rows, policy::Reason reason)
{
	policy::Decision decision = rows.site->decision;
	// Without saved time, the call is one that the policy does not select.
	const bool isKept = reason == policy::Reason::not_profitable;
	decision.verdict = isKept ? policy::Verdict::kept : policy::Verdict::fallback;
	if (!isKept && !rows.rows[static_cast<unsigned>(reason)].load(std::memory_order_relaxed))
		logDecision(*rows.site, decision.verdict, reason);
	decision.strategy = policy::Strategy::fp32;
	decision.reason = reason;
	return rowAt(process, rows, static_cast<unsigned>(reason), decision);
}

trace::RowId substituteRowOf(Process &process, Rows &rows, policy::Reason shortage)
{
	const unsigned place = static_cast<unsigned>(policy::Reason::count) + 1 + policy::shortageIndex(shortage);
	return rowAt(process, rows, place, rows.site->decision.substituted(shortage));
}

} // namespace autoamp::core
