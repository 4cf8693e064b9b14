// priorities: an urgent thread makes a call while another thread of the same processor is in the process's first call,
// in which the driver makes it wait. The urgent one must sleep; otherwise the other one never finishes. 77: real-time
// threads are not available.
#include "bound.h"

#include <atomic>
#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

static std::atomic<bool> isUrgentRunning{false};
static int begun[2], goesOn[2];

static void waits()
{
	char byte = 0;
	if (write(begun[1], &byte, 1) != 1 || read(goesOn[0], &byte, 1) != 1)
		_exit(2);
}

static void *calls(void *isUrgent)
{
	if (isUrgent)
		isUrgentRunning = true;
	return multiply(cublas(), 8, 8, 8) ? nullptr : isUrgent;
}

// False: not permitted.
static bool start(pthread_t &thread, int priority, int processor, void *argument)
{
	pthread_attr_t attributes;
	pthread_attr_init(&attributes);
	pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
	pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
	const sched_param parameters = {priority};
	pthread_attr_setschedparam(&attributes, &parameters);
	cpu_set_t processors;
	CPU_ZERO(&processors);
	CPU_SET(processor, &processors);
	pthread_attr_setaffinity_np(&attributes, sizeof processors, &processors);
	return pthread_create(&thread, &attributes, calls, argument) == 0;
}

int main(int, char **argv)
{
	auto **const duringStart = static_cast<void (**)()>(dlsym(dlopen("libslow_driver.so", RTLD_NOW), "duringStart"));
	if (!duringStart || pipe(begun) || pipe(goesOn))
		return 1;
	*duringStart = waits;
	alarm(30);
	const rlimit second = {1000000, 1000000}; // limit for a real-time thread that never sleeps
	setrlimit(RLIMIT_RTTIME, &second);
	const int processor = sched_getcpu();
	pthread_t slow, urgent;
	if (!start(slow, 1, processor, nullptr))
		return 77;
	char byte = 0;
	if (read(begun[0], &byte, 1) != 1)
		return 1;
	if (!start(urgent, 2, processor, argv))
		return 77;
	while (!isUrgentRunning)
		usleep(1000);
	if (write(goesOn[1], &byte, 1) != 1)
		return 1;
	void *wrong[2];
	pthread_join(slow, &wrong[0]);
	pthread_join(urgent, &wrong[1]);
	return wrong[0] || wrong[1];
}
