// unwinding: calls that are left inside the vendor's function, where its logger calls the program: by an exception, by
// the end of the thread, by its cancellation. Each is followed by one that returns. Prints how many there were.
#include "bound.h"

#include <csignal>
#include <functional>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <unistd.h>

static int calls;
static thread_local std::function<void()> inside;

static void onLog(const char *)
{
	if (inside)
		inside();
}

static bool product(int n = 8)
{
	calls++;
	return multiply(cublas(), 8, n, 8);
}

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	std::printf("not so: %s\n", what);
	std::fflush(stdout);
	_exit(1);
}

// A destructor of the program runs during the unwinding: the thread is not in a call any more.
struct CallsAtItsEnd {
	~CallsAtItsEnd()
	{
		inside = nullptr;
		require(product(), "a call while the thread ends");
	}
};

static void throwsAt(int n)
{
	bool isCaught = false;
	inside = [] { throw std::runtime_error("inside"); };
	try {
		product(n);
	} catch (const std::runtime_error &error) {
		isCaught = error.what() == std::string("inside");
	}
	inside = nullptr;
	require(isCaught, "an exception of a callback arrives");
	require(product(n), "the next call");
}

static void *ends(void *how)
{
	const CallsAtItsEnd last;
	if (how)
		require(product(), "a cached call");
	inside = [] { pthread_exit(nullptr); };
	product();
	return how;
}

static int pipes[2];

static void *waits(void *asynchronous)
{
	if (asynchronous)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	const CallsAtItsEnd last;
	inside = [=] {
		if (write(pipes[1], "", 1) != 1)
			return;
		while (true)
			if (!asynchronous)
				pause();
	};
	product();
	return nullptr;
}

static void inThread(void *(*work)(void *), void *argument, bool isCancelled)
{
	pthread_t thread;
	void *result = &thread;
	char byte;
	pthread_create(&thread, nullptr, work, argument);
	if (isCancelled) {
		require(read(pipes[0], &byte, 1) == 1, "the call has begun");
		pthread_cancel(thread);
	}
	pthread_join(thread, &result);
	require(result == (isCancelled ? PTHREAD_CANCELED : nullptr), "how the thread ended");
}

int main()
{
	alarm(20);
	require(pipe(pipes) == 0, "a pipe");
	cublasSetLoggerCallback(onLog);
	for (int i = 0; i < 3; i++) // the process's first call, then a cached one
		throwsAt(8);
	throwsAt(16); // with a new signature
	std::thread(throwsAt, 8).join();
	int known;
	for (void *how : {static_cast<void *>(nullptr), static_cast<void *>(&known)}) {
		inThread(ends, how, false);
		inThread(waits, how, true);
	}
	throwsAt(8);
	std::printf("%d calls\n", calls);
}
