// cancellation SCENARIO deferred|asynchronous: cancels a thread at the first system call of the scenario, at the
// second, and so on, each time in a separate child process. Prints how many there were. Without an interposer there are
// none. 77: this kernel cannot intercept system calls.
#include "bound.h"

#include "inject/autoamp.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>

// ---- each system call of a thread, seen by Syscall User Dispatch

asm(".pushsection .text\n"
    "dispatch_begin:\n"
    "dispatch_redo:\n"
    "	mov %rdi, %rax\n	mov %rsi, %rdi\n	mov %rdx, %rsi\n	mov %rcx, %rdx\n	mov %r8, %r10\n	mov %r9, %r8\n"
    "	mov 8(%rsp), %r9\n	syscall\n	ret\n"
    "dispatch_return:\n	mov $15, %eax\n	syscall\n	ud2\n"
    "dispatch_end:\n"
    ".popsection\n");
extern "C" {
extern char dispatch_begin[], dispatch_end[];
void dispatch_return();
long dispatch_redo(long number, long a, long b, long c, long d, long e, long f);
}

static volatile char selector = 0; // 0: system calls pass; 1: each is a SIGSYS
static int seen, wanted;

static void onSystemCall(int, siginfo_t *, void *context)
{
	selector = 0;
	const int error = errno;
	if (++seen == wanted)
		pthread_cancel(pthread_self());
	greg_t *const at = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
	at[REG_RAX] =
	    dispatch_redo(at[REG_RAX], at[REG_RDI], at[REG_RSI], at[REG_RDX], at[REG_R10], at[REG_R8], at[REG_R9]);
	errno = error;
	selector = 1;
}

static bool watchSystemCalls()
{
	const struct {
		void (*handler)(int, siginfo_t *, void *);
		unsigned long flags;
		void (*restorer)();
		unsigned long mask;
	} action = {onSystemCall, SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */, dispatch_return, 0};
	constexpr int setDispatch = 59, on = 1;
	return syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, 8) == 0 &&
	       prctl(setDispatch, on, dispatch_begin, dispatch_end - dispatch_begin, &selector) == 0;
}

struct Watching {
	Watching() { selector = 1; }
	~Watching() { selector = 0; } // also if the thread is cancelled
};

// ---- scenarios

constexpr int size = 8;
static const float one = 1, zero = 0;
static std::string scenario;
static bool isAsynchronous, hasSurvived, isUnable;

struct Product {
	explicit Product(int n) : n(n), host(size, n, size) { cublasCreate_v2(&handle); }
	bool call()
	{
		return cublasSgemm_v2(handle, CUBLAS_OP_N, CUBLAS_OP_N, size, n, size, &one, host.A.data(), size, host.B.data(),
		                      size, &zero, host.C.data(), size) == CUBLAS_STATUS_SUCCESS;
	}
	bool isRight() const { return productError(host, size, n, size) < 5e-3; }
	int n;
	Operands host;
	cublasHandle_t handle = nullptr;
};

// More events than a chunk of the trace holds, and more than the mapped part of the file holds.
constexpr int manyCalls = 3000, mostCalls = 70000;

static void *work(void *given)
{
	Product &product = *static_cast<Product *>(given);
	pthread_setcanceltype(isAsynchronous ? PTHREAD_CANCEL_ASYNCHRONOUS : PTHREAD_CANCEL_DEFERRED, nullptr);
	if (!watchSystemCalls()) {
		isUnable = true;
		return nullptr;
	}
	dlsym(RTLD_DEFAULT, "no such name"); // libc gives the thread a heap
	bool isFine = scenario != "chunk" || product.call();
	{
		const Watching watching;
		autoamp_region region = AUTOAMP_REGION;
		if (scenario == "region") {
			region.name = "a region";
			isFine = autoamp_push(&region) == 0;
		}
		for (int i = 0; isFine && i < (scenario == "chunk" ? mostCalls : 1); i++)
			isFine = product.call();
		if (scenario == "region")
			isFine = isFine && autoamp_pop() == 0;
	}
	hasSurvived = isFine && product.isRight();
	pthread_testcancel();
	return nullptr;
}

static void *nothing(void *)
{
	for (;;)
		pause();
}

enum Result { good, last, wrong, unable };

// In a child. Returns 0 if the next system call can be tried.
static Result cancelAt(int number)
{
	alarm(10); // ends a thread that waits forever, or one for which another waits
	wanted = number;
	Product product(3), other(4), another(5);
	if ((scenario == "thread" || scenario == "region") && !other.call())
		return wrong;
	pthread_t thread;
	void *result = nullptr;
	pthread_create(&thread, nullptr, work, &product);
	pthread_join(thread, &result);
	if (isUnable)
		return unable;
	const bool isLast = seen < number;
	if ((result == PTHREAD_CANCELED) == isLast)
		return wrong;
	// A thread cannot be cancelled in the vendor's function, so the call is complete before the cancellation.
	if (!hasSurvived && (isLast || !isAsynchronous))
		return wrong;
	// The other threads continue: with a new signature and a new thread, and until the trace needs space.
	bool isFine = true;
	std::thread next([&] { isFine = another.call() && another.isRight(); });
	next.join();
	for (int i = 0; i < manyCalls; i++)
		isFine = other.call() && isFine;
	return !isFine || !other.isRight() ? wrong : isLast ? last : good;
}

int main(int, char **argv)
{
	scenario = argv[1];
	isAsynchronous = argv[2][0] == 'a';
	pthread_t thread; // libraries that libc loads for the first cancellation
	pthread_create(&thread, nullptr, nothing, nullptr);
	pthread_cancel(thread);
	pthread_join(thread, nullptr);
	if (scenario == "child") {
		Product product(6);
		if (!product.call())
			return 1;
	}
	for (int number = 1;; number++) {
		const pid_t child = fork();
		if (!child)
			exit(cancelAt(number));
		int status = 0;
		waitpid(child, &status, 0);
		if (WIFEXITED(status) && WEXITSTATUS(status) == unable)
			return 77;
		if (!WIFEXITED(status) || WEXITSTATUS(status) > last) {
			std::printf("cancelled at system call %d: %s %d\n", number, WIFEXITED(status) ? "result" : "signal",
			            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
			return 1;
		}
		if (WEXITSTATUS(status) == last) {
			std::printf("%d system calls\n", number - 1);
			return 0;
		}
	}
}
