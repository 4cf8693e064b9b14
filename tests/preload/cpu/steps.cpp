// steps FILE FILE: multiplies with two libraries, by turns, from one place. A signal handler does the same at each of
// the first instructions of a call. The second library negates its results, so each result tells which one computed it.
#include "blas.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <dlfcn.h>
#include <ucontext.h>

namespace {

constexpr greg_t trapFlag = 0x100;
constexpr int most = 300; // instructions: 50 of raise, and those in which a wrapper reads and stores what it knows

CblasGemm *libraries[2];
int inHandler;
std::atomic<int> stepsLeft, wrong;
std::atomic<bool> begins;

[[gnu::noinline]] float multiply(int library)
{
	const float two = 2, three = 3;
	float six = 0;
	libraries[library](columnMajor, noTrans, noTrans, 1, 1, 1, 1, &two, 1, &three, 1, 0, &six, 1);
	return six;
}

float expected(int library)
{
	return library ? -6 : 6;
}

void handle(int, siginfo_t *, void *context)
{
	auto &flags = static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_EFL];
	if (begins) {
		begins = false;
		flags |= trapFlag;
	} else if (--stepsLeft < 0) {
		flags &= ~trapFlag;
		for (int i = 0; i < 3; i++)
			wrong += multiply(inHandler) != expected(inHandler);
	}
}

} // namespace

int main(int, char **argv)
{
	for (int i = 0; i < 2; i++)
		libraries[i] = reinterpret_cast<CblasGemm *>(dlsym(dlopen(argv[1 + i], RTLD_NOW | RTLD_LOCAL), "cblas_sgemm"));
	struct sigaction action = {};
	action.sa_sigaction = handle;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &action, nullptr);
	for (int pair = 0; pair < 4; pair++)
		for (int steps = 0; steps < most; steps++) {
			const int own = pair & 1;
			inHandler = pair >> 1;
			for (int i = 0; i < 3; i++) // the one before
				multiply(!own);
			stepsLeft = steps;
			begins = true;
			raise(SIGTRAP);
			wrong += multiply(own) != expected(own);
		}
	std::printf("%d wrong\n", wrong.load());
}
