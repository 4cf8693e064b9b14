// Runs a product of a CPU BLAS in bfloat16 on the CPU (src/cpu).
#include "src/base/clock.h"
#include "src/call/audit_blas.h"
#include "src/call/described_call.h"
#include "src/cpu/convert.h"
#include "src/cpu/library.h"
#include "src/cpu/product.h"
#include "src/life/fork_hold.h"
#include "src/site/rows.h"

#include <algorithm>
#include <utility>

namespace autoamp::core {

namespace {

using policy::Reason;

Reason reasonOf(cpu::Reason reason)
{
	switch (reason) {
	case cpu::Reason::cpuTooOld:
		return Reason::cpu_too_old;
	case cpu::Reason::noLibrary:
	case cpu::Reason::noFunction:
		return Reason::no_onednn;
	case cpu::Reason::nothingToDo:
		return Reason::zero_size;
	case cpu::Reason::invalidArguments:
		return Reason::bad_argument;
	case cpu::Reason::overlap:
		return Reason::unsupported;
	case cpu::Reason::memoryBudget:
		return Reason::memory_budget;
	case cpu::Reason::noMemory:
		return Reason::out_of_memory;
	case cpu::Reason::forkedInside:
		return Reason::forked_inside;
	case cpu::Reason::notKept:
		return Reason::weight_not_kept;
	case cpu::Reason::none:
	case cpu::Reason::engineFailed:
		break;
	}
	return Reason::engine_failed;
}

// The product of number `i` of a batch, column-major: a row-major product is the transposed one.
cpu::Product productOf(const op::BlasCall &call, int64_t i)
{
	cpu::Product product = {call.transa != 'N',
	                        call.transb != 'N',
	                        call.m,
	                        call.n,
	                        call.k,
	                        call.alpha,
	                        call.As ? call.As[i] : call.A + i * call.strideA,
	                        call.lda,
	                        call.As ? call.Bs[i] : call.B + i * call.strideB,
	                        call.ldb,
	                        call.beta,
	                        call.As ? call.Cs[i] : call.C + i * call.strideC,
	                        call.ldc};
	if (call.isRowMajor) {
		std::swap(product.transA, product.transB);
		std::swap(product.m, product.n);
		std::swap(product.A, product.B);
		std::swap(product.lda, product.ldb);
	}
	return product;
}

cpu::WeightMode modeOf(policy::Weights weights)
{
	return weights == policy::Weights::watched  ? cpu::WeightMode::watched
	       : weights == policy::Weights::frozen ? cpu::WeightMode::frozen
	                                            : cpu::WeightMode::off;
}

const char *name(cpu::WeightHow how)
{
	constexpr const char *names[] = {nullptr, "watched", "frozen"};
	return names[static_cast<unsigned>(how)];
}

void recordWeights(const CallInfo &info, const DescribedCall &described, cpu::Reason reason, const cpu::WeightUse &use)
{
	trace::WeightCounts counts;
	counts.row = reason == cpu::Reason::notKept ? fallbackRowOf(info.process, *described.rows, Reason::weight_not_kept)
	                                            : rowOf(info.process, *described.rows);
	counts.how = name(use.how);
	counts.reason = use.how == cpu::WeightHow::none ? cpu::name(use.reason) : nullptr;
	counts.served = use.isServed, counts.made = use.isMade, counts.recast = use.isRecast;
	counts.givenUp = use.isGivenUp, counts.refused = use.isRefused;
	counts.converted = reason == cpu::Reason::none && !use.isServed;
	counts.bytes = use.bytes;
	info.process.recorder.weights(counts);
}

// Rounds the results through bfloat16 (AUTOAMP_ROUND_OUTPUT).
void roundResults(const op::BlasCall &call)
{
	for (int64_t i = 0; i < call.batch; ++i) {
		const cpu::Product product = productOf(call, i);
		for (int64_t column = 0; column < product.n; ++column)
			cpu::roundToBfloat16(product.C + column * product.ldc, product.m);
	}
}

} // namespace

lower::Outcome lower(const CallInfo &info, const DescribedCall &described, const policy::Decision &decision,
                     const op::BlasCall &call)
{
	double &saved = info.thread.savedNs;
	const bool isPaid = decision.saved < 0 && saved + decision.saved >= 0;
	if (decision.needsSaved() && !isPaid) {
		saved = 0; // the next calls take the fast path
		return lower::decline(Reason::not_profitable);
	}
	BlasAudit audit(info, described, call);
	const uint64_t begin = base::nanoseconds(CLOCK_MONOTONIC);
	static constinit std::atomic<bool> isOpen{false};
	cpu::WeightUse use;
	const auto multiply = [&] {
		const cpu::Engine engine = cpu::engine();
		const cpu::Threads threads = cpu::threadsOf(info.interception.original);
		// A copy costs as much as ten conversions (docs/adr/0055), so a weight is converted almost as often before.
		const cpu::Keeping keeping = {modeOf(decision.weights), decision.needsKept && !isPaid,
		                              decision.needsKept ? 0u : 8u};
		cpu::Reason reason = cpu::Reason::none;
		for (int64_t i = 0; i < call.batch && reason == cpu::Reason::none; ++i)
			reason =
			    cpu::multiply(productOf(call, i), threads, info.process.settings.memoryBudget, keeping, use, engine);
		return reason;
	};
	cpu::Reason reason;
	if (isOpen.load(std::memory_order_relaxed)) {
		reason = multiply();
	} else {
		const ForkHold hold; // the first product can open oneDNN
		reason = multiply();
		isOpen.store(true, std::memory_order_relaxed);
	}
	if (info.isRecorded && info.process.isTracing)
		recordWeights(info, described, reason, use);
	if (reason != cpu::Reason::none)
		return lower::decline(reasonOf(reason), reason == cpu::Reason::engineFailed ? "oneDNN" : nullptr);
	if (decision.saved > 0 || (isPaid && !(decision.needsKept && use.isServed)))
		saved = std::min(saved + decision.saved, policy::mostSavedNs);
	if (info.process.settings.roundsOutput)
		roundResults(call);
	audit.finish(base::nanoseconds(CLOCK_MONOTONIC) - begin);
	lower::Outcome outcome;
	outcome.isDone = true;
	outcome.unaudited = audit.skipped();
	outcome.auditTicks = audit.ticks();
	return outcome;
}

} // namespace autoamp::core
