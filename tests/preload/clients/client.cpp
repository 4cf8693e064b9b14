// client [MODE]: programs make their first call in different ways. 0: all products were right.
#include "bound.h"

#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static bool calls()
{
	return multiply(cublas());
}

static bool childAgrees()
{
	const pid_t child = fork();
	if (!child)
		_exit(!calls());
	int status = 0;
	waitpid(child, &status, 0);
	return !status;
}

static bool inThreads(int count)
{
	std::vector<char> good(count);
	std::vector<std::thread> threads;
	int ready = 0;
	for (char &g : good)
		threads.emplace_back([&] {
			__atomic_add_fetch(&ready, 1, __ATOMIC_SEQ_CST);
			while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < count)
				;
			g = calls();
		});
	for (auto &thread : threads)
		thread.join();
	for (const char g : good)
		if (!g)
			return false;
	return true;
}

// The first call alone, without the preparation in multiply(). No handle: an error on any device.
static void touch()
{
	cublas().sgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, nullptr, nullptr, 1, nullptr, 1, nullptr, nullptr, 1);
}

// Children are forked while other threads make the first call of their process.
static bool forksInFirstCall(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		const pid_t round = fork();
		if (!round) {
			std::thread first(touch), second(touch), third(touch);
			const bool isRight = childAgrees();
			first.join(), second.join(), third.join();
			_exit(!isRight);
		}
		int status = 0;
		waitpid(round, &status, 0);
		if (status)
			return false;
	}
	return true;
}

// The library is unloaded, other memory takes its place, the library is loaded again.
static bool reopens()
{
	for (int i = 0; i < 3; i++) {
		if (!calls())
			return false;
		closeCublas();
		for (int j = 0; j < 64; j++)
			mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		openCublas();
	}
	return calls();
}

// Code that looks up the name of the function, or compares it with the function that other code finds.
static bool isNamed()
{
	auto *const function = reinterpret_cast<void *>(cublas().sgemm);
	Dl_info info = {};
	return dladdr(function, &info) && info.dli_sname == std::string("cublasSgemm_v2") &&
	       (!isLinked || dlsym(RTLD_DEFAULT, "cublasSgemm_v2") == function);
}

static bool run(const std::string &mode, char **argv)
{
	if (mode == "chdir" && chdir("/"))
		return false;
	openCublas();
	if (mode == "threads")
		return inThreads(16);
	if (mode == "fork") // CUDA works in a child only if the parent has not used it
		return childAgrees() && calls();
	if (mode == "forklate")
		return calls() && childAgrees() && calls();
	if (mode == "forkrace")
		return forksInFirstCall(200);
	if (mode == "named")
		return isNamed() && calls() && isNamed();
	if (mode == "reopen")
		return reopens();
	if (mode == "exec") {
		if (!calls())
			return false;
		char *const next[] = {argv[0], nullptr};
		return execv("/proc/self/exe", next) == 0;
	}
	return calls();
}

int main(int, char **argv)
{
	return !run(argv[1] ? argv[1] : "plain", argv);
}
