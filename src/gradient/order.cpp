#include "src/gradient/order.h"

#include "src/base/faults.h"

#include <algorithm>
#include <bit>

namespace autoamp::gradient {

void Order::open()
{
	std::fill(std::begin(marks_), std::end(marks_), Mark{});
	isLost_ = false;
}

// Uses all pending marks, and a free one for an event of the context, or none if `context` is 0.
Order::Turn Order::reserve(unsigned long long context)
{
	Turn turn;
	const std::lock_guard lock(mutex_);
	for (unsigned i = 0; i < mostMarks; i++) {
		Mark &mark = marks_[i];
		const bool isFree = mark.users == 0 && !mark.isPending && (!mark.event || mark.contextId == context);
		if (mark.isPending)
			turn.earlier |= uint64_t{1} << i;
		else if (context && !turn.own && isFree)
			turn.own = uint64_t{1} << i;
		mark.users += (turn.earlier | turn.own) >> i & 1;
	}
	return turn;
}

void Order::release(uint64_t marks, bool isPending)
{
	for (unsigned i = 0; i < mostMarks; i++)
		if (marks >> i & 1) {
			marks_[i].users--;
			marks_[i].isPending = isPending;
		}
}

namespace {

enum class Life { alive, gone, unknown }; // gone: the work has ended, and the events are invalid

Life lifeOf(const cuda::Driver &driver, CUctx_st *context, unsigned long long id)
{
	constexpr cuda::Result invalidContext = 201, contextIsDestroyed = 709;
	unsigned long long now = 0;
	const cuda::Result result = driver.cuCtxGetId(context, &now);
	if (result == 0)
		return now == id ? Life::alive : Life::gone;
	return result == invalidContext || result == contextIsDestroyed ? Life::gone : Life::unknown;
}

} // namespace

// Calls the function for the events, unless their context was destroyed. False: a call failed.
template <typename Function>
bool Order::all(const cuda::Driver &driver, uint64_t marks, Function function) const
{
	for (unsigned i = 0; i < mostMarks; i++) {
		const Mark &mark = marks_[i];
		if (!(marks >> i & 1))
			continue;
		const Life life = lifeOf(driver, mark.context, mark.contextId);
		if (life == Life::unknown || (life == Life::alive && function(mark.event)))
			return false;
	}
	return true;
}

bool Order::begin(const cuda::Driver &driver, cuda::Stream stream, unsigned long long context, Turn &turn)
{
	constexpr unsigned withoutTimes = 2; // CU_EVENT_DISABLE_TIMING
	turn = reserve(context);
	if (turn.own) {
		Mark &own = marks_[std::countr_zero(turn.own)];
		own.contextId = context;
		if (!own.event && (driver.cuCtxGetCurrent(&own.context) || driver.cuEventCreate(&own.event, withoutTimes)))
			own.event = nullptr;
	}
	const bool isOk =
	    all(driver, turn.earlier, [&](CUevent_st *event) { return driver.cuStreamWaitEvent(stream, event, 0); });
	if (!isOk) {
		const std::lock_guard lock(mutex_);
		release(turn.earlier, true);
		release(turn.own, false);
	}
	return isOk;
}

bool Order::end(const cuda::Driver &driver, cuda::Stream stream, const Turn &turn)
{
	CUevent_st *const event = turn.own ? marks_[std::countr_zero(turn.own)].event : nullptr;
	const bool isMarked = event && driver.cuEventRecord(event, stream) == 0;
	const bool isDone = !isMarked && driver.cuStreamSynchronize(stream) == 0;
	if (!isMarked)
		base::leaveFault("ordering the calls of a gradient scaler");
	const std::lock_guard lock(mutex_);
	isLost_ |= !isMarked && !isDone;
	release(turn.earlier, !isMarked && !isDone);
	release(turn.own, isMarked);
	return isMarked || isDone;
}

bool Order::wait(const cuda::Driver &driver)
{
	const Turn turn = reserve(0);
	const bool isOk = all(driver, turn.earlier, [&](CUevent_st *event) { return driver.cuEventSynchronize(event); });
	const std::lock_guard lock(mutex_);
	release(turn.earlier, !isOk);
	return isOk;
}

bool Order::close(const cuda::Driver &driver)
{
	if (!wait(driver) || isLost_)
		return false;
	uint64_t made = 0;
	for (unsigned i = 0; i < mostMarks; i++)
		made |= uint64_t{marks_[i].event != nullptr} << i;
	return all(driver, made, [&](CUevent_st *event) { return driver.cuEventDestroy_v2(event); });
}

} // namespace autoamp::gradient
