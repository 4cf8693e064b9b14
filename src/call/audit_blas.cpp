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

// The call of the application, with the result at another place. A library with 32-bit integers reads the lower half of
// each integer.
void callInto(const CallInfo &info, const op::BlasCall &call, float *C, int64_t ldc)
{
	using op::blas::Integer;
	const auto state = static_cast<base::CallerState *>(autoamp_front_thread.callerState);
	const base::CallerState::Restored restored(*state);
	if (styles[info.interception.entryIndex - entry::vendorEntryCount] == Style::cblas) {
		const auto number = [](char letter) -> Integer { return letter == 'N' ? 111 : letter == 'T' ? 112 : 113; };
		using Function = void(Integer, Integer, Integer, Integer, Integer, Integer, float, const float *, Integer,
		                      const float *, Integer, float, float *, Integer);
		reinterpret_cast<Function *>(const_cast<void *>(info.interception.original))(
		    call.isRowMajor ? 101 : 102, number(call.transa), number(call.transb), call.m, call.n, call.k, call.alpha,
		    call.A, call.lda, call.B, call.ldb, call.beta, C, ldc);
	} else {
		using Function = void(const char *, const char *, const Integer *, const Integer *, const Integer *,
		                      const float *, const float *, const Integer *, const float *, const Integer *,
		                      const float *, float *, const Integer *, size_t, size_t);
		reinterpret_cast<Function *>(const_cast<void *>(info.interception.original))(
		    &call.transa, &call.transb, &call.m, &call.n, &call.k, &call.alpha, call.A, &call.lda, call.B, &call.ldb,
		    &call.beta, C, &ldc, 1, 1);
	}
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
	if (described_.site->op.kind == op::Kind::bmm)
		return "a batch of a CPU BLAS";
	const int64_t line = call_.isRowMajor ? call_.n : call_.m, lines = call_.isRowMajor ? call_.m : call_.n;
	reference_.reset(new (std::nothrow) float[static_cast<size_t>(line * lines)]);
	sums_.reset(new (std::nothrow) double[static_cast<size_t>(line) * 2]());
	if (!reference_ || !sums_) {
		reference_.reset();
		return "no memory";
	}
	// The library makes threads and buffers at its first calls. The program unchanged has this time once, but the time
	// of an audited call stands for many.
	if (isFirst) {
		std::fill_n(reference_.get(), line * lines, 0.f);
		callInto(info_, call_, reference_.get(), line);
	}
	for (int64_t i = 0; i < lines && call_.beta != 0; ++i)
		std::copy_n(call_.C + i * call_.ldc, line, reference_.get() + i * line);
	return nullptr;
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
	const int64_t line = call_.isRowMajor ? call_.n : call_.m, lines = call_.isRowMajor ? call_.m : call_.n;
	const uint64_t begin = base::nanoseconds(CLOCK_MONOTONIC);
	callInto(info_, call_, reference_.get(), line);
	const uint64_t fp32Ns = base::nanoseconds(CLOCK_MONOTONIC) - begin;
	double error = 0, norm = 0, worstLine = 0;
	bool hasOverflowed = false;
	double *const errors = sums_.get(), *const norms = errors + line; // sums across the lines
	for (int64_t i = 0; i < lines; ++i) {
		double lineError = 0, lineNorm = 0;
		for (int64_t j = 0; j < line; ++j) {
			const double wanted = static_cast<double>(reference_[static_cast<size_t>(i * line + j)]),
			             difference = static_cast<double>(call_.C[i * call_.ldc + j]) - wanted;
			if (!std::isfinite(difference)) {
				hasOverflowed |= std::isfinite(wanted);
				continue;
			}
			lineError += difference * difference, lineNorm += wanted * wanted;
			errors[j] += difference * difference, norms[j] += wanted * wanted;
		}
		error += lineError, norm += lineNorm;
		worstLine = std::max(worstLine, lineNorm > 0 ? lineError / lineNorm : 0);
	}
	double worstOther = 0;
	for (int64_t j = 0; j < line; ++j)
		worstOther = std::max(worstOther, norms[j] > 0 ? errors[j] / norms[j] : 0);
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
