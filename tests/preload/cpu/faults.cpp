// Programs in difficult circumstances, linked to a BLAS: each prints a line for each product, 'e' exact, 'r' rounded to
// bfloat16, 'w' wrong.
#include "blas.h"
#include "check.h"

#include <atomic>
#include <cfenv>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>
#include <xmmintrin.h>

extern "C" CblasGemm cblas_sgemm;
extern "C" Gemm sgemm_;

namespace {

char product()
{
	return check(reinterpret_cast<void *>(cblas_sgemm), reinterpret_cast<void *>(sgemm_));
}

// A larger product with known sums: 2 n for all elements, exact in bfloat16 as well.
bool isRight(Int n)
{
	const auto size = static_cast<std::size_t>(n * n);
	const std::vector<float> A(size, 1), B(size, 2);
	std::vector<float> C(size, -1);
	cblas_sgemm(rowMajor, noTrans, trans, n, n, n, 1, A.data(), n, B.data(), n, 0, C.data(), n);
	for (float element : C)
		if (element != static_cast<float>(2 * n))
			return false;
	return true;
}

void say(const char *what, char result)
{
	std::printf("%s %c\n", what, result);
	std::fflush(stdout);
}

// The exit status of the child is the class of its product.
char childProduct(int depth = 0)
{
	std::fflush(stdout);
	const pid_t child = fork();
	if (child == 0) {
		char result = product();
		if (!isRight(100))
			result = 'w';
		if (depth > 0 && childProduct(depth - 1) != result)
			result = 'w';
		_exit(result);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? static_cast<char>(WEXITSTATUS(status)) : 'w';
}

void forks()
{
	say("before", childProduct()); // before any product
	say("parent", product());
	say("after", childProduct());
	say("descendants", childProduct(3));
	say("parent", product());
}

volatile sig_atomic_t forksLeft = 2000, failures = 0;

void awaitTick()
{
	const itimerval soon = {{0, 0}, {0, 50 + forksLeft % 97}};
	setitimer(ITIMER_REAL, &soon, nullptr);
}

// The sizes are new each time. The children end at once.
void forkInHandler()
{
	std::signal(SIGALRM, [](int) {
		const pid_t child = fork();
		if (child == 0)
			_exit(0);
		int status = 0;
		failures = failures + (waitpid(child, &status, 0) != child || status != 0);
		forksLeft = forksLeft - 1;
		if (forksLeft != 0)
			awaitTick();
	});
	awaitTick();
	static float C[1 << 20];
	const Int n = 1;
	const float one = 1, zero = 0;
	for (Int ldc = 1; forksLeft != 0; ldc++)
		sgemm_("N", "N", &n, &n, &n, &one, &one, &n, &one, &n, &zero, C, &ldc, 1, 1);
	say("forked", failures != 0 || C[0] != 1 ? 'w' : product());
}

std::atomic<bool> stops;

void forkBusy()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 4; i++)
		threads.emplace_back([] {
			while (!stops)
				if (!isRight(64))
					std::abort();
		});
	for (int i = 0; i < 20; i++)
		say("child", childProduct());
	stops = true;
	for (std::thread &thread : threads)
		thread.join();
	say("parent", product());
}

void crowd()
{
	std::vector<std::thread> threads;
	std::atomic<int> wrong{0};
	for (int i = 0; i < 64; i++)
		threads.emplace_back([&wrong, i] {
			for (int j = 0; j < 5; j++)
				wrong += !isRight(i % 8 ? 8 + i : 256) + (product() == 'w');
		});
	for (std::thread &thread : threads)
		thread.join();
	say("threads", wrong ? 'w' : product());
}

void *multiplyForEver(void *ready)
{
	for (;;) {
		isRight(32);
		static_cast<std::atomic<int> *>(ready)->fetch_add(1);
		pthread_testcancel();
	}
}

void *multiplyAsynchronously(void *ready)
{
	constexpr Int n = 96;
	static float A[n * n], B[n * n];
	static thread_local float C[n * n];
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	for (;;) {
		cblas_sgemm(rowMajor, noTrans, noTrans, n, n, n, 1, A, n, B, n, 0, C, n);
		static_cast<std::atomic<int> *>(ready)->fetch_add(1);
	}
}

void cancellation()
{
	for (auto *function : {multiplyForEver, multiplyAsynchronously})
		for (int i = 0; i < 10; i++) {
			std::atomic<int> ready{0};
			pthread_t thread;
			pthread_create(&thread, nullptr, function, &ready);
			while (ready < i)
				usleep(100);
			pthread_cancel(thread);
			pthread_join(thread, nullptr);
		}
	say("cancelled", product());
}

// As much as a thread may have at least, and four times this.
void stacks()
{
	for (std::size_t size : {std::size_t{64} << 10, std::size_t{256} << 10}) {
		pthread_attr_t attributes;
		pthread_attr_init(&attributes);
		pthread_attr_setstacksize(&attributes, size);
		pthread_t thread;
		pthread_create(
		    &thread, &attributes, [](void *) -> void * { return reinterpret_cast<void *>(isRight(100) ? 'e' : 'w'); },
		    nullptr);
		void *result;
		pthread_join(thread, &result);
		say(size >> 10 == 64 ? "small" : "larger", static_cast<char>(reinterpret_cast<std::intptr_t>(result)));
	}
}

void environment()
{
	const char usual = product();
	for (int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
		std::fesetround(mode);
		if (!isRight(100) || std::fegetround() != mode)
			say("mode", 'w');
		std::fesetround(FE_TONEAREST);
	}
	_mm_setcsr(_mm_getcsr() | 0x8040); // flush denormals to zero
	if (!isRight(100) || (_mm_getcsr() & 0x8040) != 0x8040)
		say("flush", 'w');
	_mm_setcsr(_mm_getcsr() & ~0x8040u);
	std::feclearexcept(FE_ALL_EXCEPT);
	feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
	if (!isRight(100) || fegetexcept() != (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW))
		say("exceptions", 'w');
	fedisableexcept(FE_ALL_EXCEPT);
	say("environment", usual);
}

// The program ends while threads multiply.
void exitBusy()
{
	for (int i = 0; i < 3; i++)
		std::thread([] {
			while (isRight(64))
				;
			std::abort();
		}).detach();
	say("product", product());
	usleep(20000);
}

// Calls by destructors of a thread, before and after those of autoamp.
void threadEnd()
{
	struct AtEnd {
		~AtEnd() { say("thread", product()); }
	};
	static pthread_key_t keys[3];
	for (pthread_key_t &key : keys)
		pthread_key_create(&key, [](void *rounds) {
			say("key", product());
			if (rounds != reinterpret_cast<void *>(1))
				pthread_setspecific(keys[0], static_cast<char *>(rounds) - 1);
		});
	for (int i = 0; i < 3; i++)
		std::thread([] {
			thread_local AtEnd atEnd;
			pthread_setspecific(keys[0], reinterpret_cast<void *>(3));
			say("first", product());
			pthread_setspecific(keys[1], reinterpret_cast<void *>(1));
			static_cast<void>(&atEnd);
		}).join();
}

void atExit()
{
	std::atexit([] { say("early", product()); });
	say("product", product());
	std::atexit([] { say("late", product()); });
}

bool throws = false;

// An error handler of the program's own, which throws.
void handler()
{
	throws = true;
	say("first", product());
	const Int m = -1, n = 2;
	const float one = 1;
	float C[4] = {};
	for (int i = 0; i < 3; i++)
		try {
			sgemm_("N", "N", &m, &n, &n, &one, C, &n, C, &n, &one, C, &n, 1, 1);
			say("returned", 'w');
		} catch (int parameter) {
			say("thrown", parameter == 3 ? product() : 'w');
		}
}

void leave()
{
	say("product", product());
	_exit(0);
}

void die()
{
	say("product", product());
	raise(SIGKILL);
}

void one()
{
	say("product", product());
}

// More converted operands than a small budget permits.
void large()
{
	say("small", isRight(64) ? 'e' : 'w');
	say("large", isRight(700) ? 'e' : 'w');
	say("small", isRight(64) ? 'e' : 'w');
}

} // namespace

extern "C" void xerbla_(const char *name, const Int *parameter, std::size_t)
{
	if (throws)
		throw static_cast<int>(*parameter);
	std::fprintf(stderr, "%.6s %d\n", name, static_cast<int>(*parameter));
}

int main(int argc, char **argv)
{
	constexpr std::pair<const char *, void (*)()> all[] = {{"forks", forks},
	                                                       {"fork_busy", forkBusy},
	                                                       {"fork_in_handler", forkInHandler},
	                                                       {"crowd", crowd},
	                                                       {"cancellation", cancellation},
	                                                       {"stacks", stacks},
	                                                       {"environment", environment},
	                                                       {"leave", leave},
	                                                       {"die", die},
	                                                       {"one", one},
	                                                       {"exit_busy", exitBusy},
	                                                       {"thread_end", threadEnd},
	                                                       {"at_exit", atExit},
	                                                       {"handler", handler},
	                                                       {"large", large}};
	for (const auto &[name, run] : all)
		if (argc > 1 && std::strcmp(argv[1], name) == 0)
			return run(), 0;
	return 2;
}
