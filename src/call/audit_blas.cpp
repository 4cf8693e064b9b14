#include "src/call/audit_blas.h"

#include "inject/entry_table.h"
#include "src/base/caller_state.h"
#include "src/base/clock.h"
#include "src/site/rows.h"

#include <algorithm>
#include <cmath>
#include <new>

namespace autoamp::core {

namespace {

// The interface of each routine.
enum class Style : uint8_t { cblas, fortran };
constexpr Style styles[] = {
#define BLAS(name, style, routine) Style::style,
#include "inject/blas.inc"
#undef BLAS
};

struct Results {
	float *C;         // that of the first product
	float *const *Cs; // those of all products, for a batch by pointers
	int64_t ldc, strideC;
};

// The call of the application, with the results at other places. A batch by pointers is passed as one group: the groups
// of a lowered batch are equal. A library with 32-bit integers reads the lower half of each integer.
void callInto(const CallInfo &info, const op::BlasCall &call, const Results &results)
{
	using op::blas::Integer;
	const auto state = static_cast<base::CallerState *>(autoamp_front_thread.callerState);
	const base::CallerState::Restored restored(*state);
	const auto run = [&info](auto... arguments) {
		reinterpret_cast<void (*)(decltype(arguments)...)>(const_cast<void *>(info.interception.original))(
		    arguments...);
	};
	const Integer groups = 1;
	const float *const alpha = &call.alpha, *const beta = &call.beta;
	const bool isStrided = entry::entryTable[info.interception.entryIndex].kind == op::Kind::bmm && !call.As;
	if (styles[info.interception.entryIndex - entry::vendorEntryCount] == Style::cblas) {
		const auto number = [](char letter) -> int32_t { return letter == 'N' ? 111 : letter == 'T' ? 112 : 113; };
		const int32_t transa = number(call.transa), transb = number(call.transb);
		const Integer order = call.isRowMajor ? 101 : 102, a = transa, b = transb;
		if (call.As)
			run(order, &transa, &transb, &call.m, &call.n, &call.k, alpha, call.As, &call.lda, call.Bs, &call.ldb, beta,
			    results.Cs, &results.ldc, groups, &call.batch);
		else if (isStrided)
			run(order, a, b, call.m, call.n, call.k, *alpha, call.A, call.lda, call.strideA, call.B, call.ldb,
			    call.strideB, *beta, results.C, results.ldc, results.strideC, call.batch);
		else
			run(order, a, b, call.m, call.n, call.k, *alpha, call.A, call.lda, call.B, call.ldb, *beta, results.C,
			    results.ldc);
		return;
	}
	const char *const a = &call.transa, *const b = &call.transb;
	const size_t length = 1;
	if (call.As)
		run(a, b, &call.m, &call.n, &call.k, alpha, call.As, &call.lda, call.Bs, &call.ldb, beta, results.Cs,
		    &results.ldc, &groups, &call.batch, length, length);
	else if (isStrided)
		run(a, b, &call.m, &call.n, &call.k, alpha, call.A, &call.lda, &call.strideA, call.B, &call.ldb, &call.strideB,
		    beta, results.C, &results.ldc, &results.strideC, &call.batch, length, length);
	else
		run(a, b, &call.m, &call.n, &call.k, alpha, call.A, &call.lda, call.B, &call.ldb, beta, results.C, &results.ldc,
		    length, length);
}

// Lines are contiguous: columns, or rows of a row-major matrix.
int64_t lineOf(const op::BlasCall &call)
{
	return call.isRowMajor ? call.n : call.m;
}
int64_t linesOf(const op::BlasCall &call)
{
	return call.isRowMajor ? call.m : call.n;
}

const float *resultOf(const op::BlasCall &call, int64_t i)
{
	return call.Cs ? call.Cs[i] : call.C + i * call.strideC;
}

} // namespace

BlasAudit::BlasAudit(const CallInfo &info, const DescribedCall &described, const op::BlasCall &call)
    : info_(info), described_(described), call_(call)
{
	const uint32_t period = info.process.settings.auditPeriod;
	if (!period || !info.isRecorded)
		return;
	const uint32_t number = described.site->cache.audited.fetch_add(1, std::memory_order_relaxed);
	if (number % period == 0) {
		const uint64_t start = base::ticks();
		skipped_ = begin(number == 0);
		ticks_ = base::ticks() - start;
	}
}

const char *BlasAudit::begin(bool isFirst)
{
	const int64_t line = lineOf(call_), size = line * linesOf(call_);
	int64_t all;
	if (!__builtin_mul_overflow(size, call_.batch, &all))
		reference_.reset(new (std::nothrow) float[static_cast<size_t>(all)]);
	sums_.reset(new (std::nothrow) double[static_cast<size_t>(line) * 2]);
	if (call_.Cs)
		results_.reset(new (std::nothrow) float *[static_cast<size_t>(call_.batch)]);
	if (!reference_ || !sums_ || (call_.Cs && !results_)) {
		reference_.reset();
		return "no memory";
	}
	for (int64_t i = 0; results_ && i < call_.batch; ++i)
		results_[static_cast<size_t>(i)] = reference_.get() + i * size;
	// The library makes threads and buffers at its first calls. The program unchanged has this time once, but the time
	// of an audited call stands for many.
	if (isFirst) {
		std::fill_n(reference_.get(), all, 0.f);
		runUnchanged();
	}
	for (int64_t i = 0; i < linesOf(call_) && call_.beta != 0; ++i) // a lowered batch has none
		std::copy_n(call_.C + i * call_.ldc, line, reference_.get() + i * line);
	return nullptr;
}

void BlasAudit::runUnchanged()
{
	const int64_t line = lineOf(call_);
	callInto(info_, call_, {reference_.get(), results_.get(), line, line * linesOf(call_)});
}

void BlasAudit::finish(uint64_t actualNs)
{
	if (!reference_)
		return;
	const uint64_t start = base::ticks();
	compare(actualNs);
	ticks_ += base::ticks() - start;
}

void BlasAudit::compare(uint64_t actualNs)
{
	const int64_t line = lineOf(call_), lines = linesOf(call_);
	const uint64_t begin = base::nanoseconds(CLOCK_MONOTONIC);
	runUnchanged();
	const uint64_t fp32Ns = base::nanoseconds(CLOCK_MONOTONIC) - begin;
	double error = 0, norm = 0, worstLine = 0, worstOther = 0;
	bool hasOverflowed = false;
	double *const errors = sums_.get(), *const norms = errors + line; // sums across the lines of a product
	for (int64_t product = 0; product < call_.batch; ++product) {
		const float *const result = resultOf(call_, product), *const wanted = reference_.get() + product * line * lines;
		std::fill_n(sums_.get(), line * 2, 0);
		for (int64_t i = 0; i < lines; ++i) {
			double lineError = 0, lineNorm = 0;
			for (int64_t j = 0; j < line; ++j) {
				const double value = static_cast<double>(wanted[i * line + j]),
				             difference = static_cast<double>(result[i * call_.ldc + j]) - value;
				if (!std::isfinite(difference)) {
					hasOverflowed |= std::isfinite(value);
					continue;
				}
				lineError += difference * difference, lineNorm += value * value;
				errors[j] += difference * difference, norms[j] += value * value;
			}
			error += lineError, norm += lineNorm;
			worstLine = std::max(worstLine, lineNorm > 0 ? lineError / lineNorm : 0);
		}
		for (int64_t j = 0; j < line; ++j)
			worstOther = std::max(worstOther, norms[j] > 0 ? errors[j] / norms[j] : 0);
	}
	trace::AuditResult result;
	result.row = rowOf(info_.process, *described_.rows);
	result.error = norm > 0 ? std::sqrt(error / norm) : 0;
	result.worstRow = std::sqrt(call_.isRowMajor ? worstLine : worstOther);
	result.worstColumn = std::sqrt(call_.isRowMajor ? worstOther : worstLine);
	result.isRecomputed = true, result.hasOverflowed = hasOverflowed;
	result.fp32Ns = fp32Ns, result.actualNs = actualNs;
	info_.process.recorder.audit(result);
}

} // namespace autoamp::core
