#include "src/life/weight_events.h"

#include "inject/entry_table.h"
#include "src/base/log.h"
#include "src/op/entry.h"
#include "src/site/rows.h"

#include <atomic>
#include <cmath>
#include <cstdio>

namespace autoamp::core {

namespace {

constinit std::atomic<uint64_t> changes{0};
constinit std::atomic<const Site *> firstChanged{nullptr};
constinit std::atomic<char> firstOperand{'A'};

const char *nameOf(policy::Weights weights)
{
	return weights == policy::Weights::checked ? "checked" : weights == policy::Weights::frozen ? "frozen" : nullptr;
}

void recordOperand(Process &process, const Rows &rows, trace::RowId row, bool isDone, const lower::WeightUse &use,
                   char operand)
{
	const auto record = [&](const char *kind) {
		process.recorder.scaler(
		    {.kind = kind, .row = row, .operand = operand, .exponentBefore = NAN, .exponentAfter = NAN, .amax = NAN});
	};
	if (use.isMade || use.isGivenUp) { // a call that gives a copy up uses none
		process.recorder.weights({.row = row,
		                          .how = nameOf(rows.site->decision.weights),
		                          .made = use.isMade,
		                          .givenUp = use.isGivenUp,
		                          .bytes = use.bytes,
		                          .held = use.held});
		record(use.isMade ? "made" : "given_up");
	}
	if (use.isRefused)
		record("refused");
	const char *const how = nameOf(use.how);
	if (!how && !use.reason && !use.compared)
		return;
	process.recorder.weights({.row = row,
	                          .how = how,
	                          .reason = how ? nullptr : use.reason,
	                          .served = isDone && use.isServed,
	                          .converted = isDone && !use.isServed,
	                          .refused = use.isRefused,
	                          .compared = use.compared,
	                          .repeated = use.repeated,
	                          .bytes = how || use.isRefused ? use.bytes : 0});
}

} // namespace

void recordWeights(Process &process, Rows &rows, trace::RowId row, const lower::Outcome &outcome)
{
	recordOperand(process, rows, row, outcome.isDone, outcome.weights[0], 'A');
	recordOperand(process, rows, row, outcome.isDone, outcome.weights[1], 'B');
}

void noteUnreported(const Site &site, const lower::Outcome &outcome)
{
	for (int i = 0; i < 2; ++i)
		if (outcome.weights[i].unreported)
			noteChange(&site, "AB"[i], outcome.weights[i].unreported);
}

void recordDifferences(Process &process, const Site &site, trace::RowId row, kernels::EventKind kind, uint64_t count)
{
	const bool isChange = kind == kernels::EventKind::changed;
	process.recorder.weights({.row = row,
	                          .how = nameOf(site.decision.weights),
	                          .recast = isChange ? 0 : count,
	                          .changed = isChange ? count : 0});
}

void noteChange(const Site *site, char operand, uint64_t count)
{
	const Site *none = nullptr;
	if (site && firstChanged.compare_exchange_strong(none, site, std::memory_order_relaxed))
		firstOperand.store(operand, std::memory_order_relaxed);
	changes.fetch_add(count, std::memory_order_relaxed);
}

void warnOfChanges()
{
	const uint64_t count = changes.load(std::memory_order_relaxed);
	if (!count)
		return;
	char first[160] = "";
	if (const Site *const site = firstChanged.load(std::memory_order_relaxed))
		std::snprintf(first, sizeof first, ", the first: %c of %s %ldx%ldx%ld",
		              firstOperand.load(std::memory_order_relaxed), entry::entryTable[site->op.entry].name,
		              static_cast<long>(site->op.m), static_cast<long>(site->op.n), static_cast<long>(site->op.k));
	base::log(base::LogLevel::warn,
	          "AUTOAMP_WEIGHTS=frozen: a weight changed, and products used its old values (noticed %lu time%s%s); set "
	          "AUTOAMP_WEIGHTS=checked",
	          static_cast<unsigned long>(count), count == 1 ? "" : "s", first);
}

void forgetChanges()
{
	changes.store(0, std::memory_order_relaxed);
	firstChanged.store(nullptr, std::memory_order_relaxed);
}

} // namespace autoamp::core
