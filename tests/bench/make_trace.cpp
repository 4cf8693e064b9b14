// Writes a trace: make_trace FILE EVENTS [KERNELS]. It contains the sample of the unit tests, then EVENTS single events
// by two threads. Before the events the sample's kernels are repeated until there are KERNELS of them.
#include "src/base/clock.h"
#include "tests/unit/trace_sample.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace trace_test;

int main(int count, char **arguments)
{
	if (count != 3 && count != 4) {
		fprintf(stderr, "usage: make_trace FILE EVENTS [KERNELS]\n");
		return 2;
	}
	const long events = atol(arguments[2]);
	trace::Recorder &recorder = newRecorder();
	const std::string file = arguments[1];
	auto opts = options(count == 4 ? trace::Mode::kernels : trace::Mode::ops, file);
	opts.maxSize = uint64_t{1} << 40;
	if (!recorder.open(opts))
		return 1;
	for (long kernel = 0; count == 4 && kernel < atol(arguments[3]); kernel += 7)
		fillKernels(recorder, 1 + static_cast<uint64_t>(kernel) / 7);
	fill(recorder, recorder.attach());
	auto work = [&](long share) {
		trace::Lane *lane = recorder.attach();
		uint64_t now = autoamp::base::ticks();
		for (long call = 0; call < share; ++call, now += 500)
			lane->record(recorder.row(row(call % 20 + 1)), now, now + 100, false);
		recorder.detach(lane);
	};
	if (events) {
		std::thread other(work, events / 2);
		work(events - events / 2);
		other.join();
	}
	recorder.close(0);
	printf("%s\n", recorder.path());
}
