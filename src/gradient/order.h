// The order of the calls of one scaler: the kernels of a call run after those of all calls that have returned before,
// on any stream and device. Any thread. Calls that are captured into a graph are not ordered: a wait for earlier work
// would end the capture with an error.
#pragma once

#include "src/cuda/driver.h"

#include <mutex>

namespace autoamp::gradient {

class Order
{
public:
	// One call: masks of the marks that it waits for, and of its own mark. Without one, end() waits for the stream.
	struct Turn {
		uint64_t earlier = 0, own = 0;
	};

	void open();
	// Lets `stream` wait for the earlier calls. Its context is current and has the id `context`. False: the driver
	// refused. Otherwise end() must follow.
	bool begin(const cuda::Driver &driver, cuda::Stream stream, unsigned long long context, Turn &turn);
	// False: the driver refused, and later calls do not wait for this one.
	bool end(const cuda::Driver &driver, cuda::Stream stream, const Turn &turn);
	// Lets the thread wait for the earlier calls. False: the driver refused.
	bool wait(const cuda::Driver &driver);
	// Also destroys the events. False: kernels may still run.
	bool close(const cuda::Driver &driver);

private:
	static constexpr unsigned mostMarks = 64;
	// An event at the end of a call.
	struct Mark {
		CUevent_st *event;
		CUctx_st *context;
		unsigned long long contextId;
		unsigned users; // calls that wait for the event, or will record it
		bool isPending; // no later call has waited for it
	};

	Turn reserve(unsigned long long context);
	void release(uint64_t marks, bool isPending);
	template <typename Function>
	bool all(const cuda::Driver &driver, uint64_t marks, Function function) const;

	std::mutex
	    mutex_; // protects `users` and `isPending`, and the rest of a mark without users; not held during driver calls
	Mark marks_[mostMarks] = {};
	bool isLost_ = false; // a call has no mark: nothing can wait for it
};

} // namespace autoamp::gradient
