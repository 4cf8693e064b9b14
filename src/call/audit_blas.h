// Audit of a lowered product or batch of a CPU BLAS (AUTOAMP_AUDIT): the call also runs unchanged, into scratch memory,
// which gives the true error and the time in fp32. Any thread.
#pragma once

#include "src/call/described_call.h"

#include <memory>

namespace autoamp::core {

class BlasAudit
{
public:
	// Decides whether the call is audited: one in a period, for each signature. Copies C, which the product may read.
	BlasAudit(const CallInfo &info, const DescribedCall &described, const op::BlasCall &call);
	// The call ran in this time. Computes the reference, and records the audit. The reference is computed last: it
	// finds the operands in the cache, so that the gain is rather too small than too large.
	void finish(uint64_t actualNs);
	// Reason why the call could not be audited, for a note in the trace; null: it is audited, or was not chosen.
	const char *skipped() const { return skipped_; }
	uint64_t ticks() const { return ticks_; } // time that the audit took

private:
	const char *begin(bool isFirst);
	void runUnchanged(); // into reference_
	void compare(uint64_t actualNs);

	const CallInfo &info_;
	const DescribedCall &described_;
	const op::BlasCall &call_;
	std::unique_ptr<float[]> reference_;
	std::unique_ptr<float *[]> results_; // places in reference_, of a batch by pointers
	std::unique_ptr<double[]> sums_;     // two for each element of a line
	uint64_t ticks_ = 0;
	const char *skipped_ = nullptr;
};

} // namespace autoamp::core
