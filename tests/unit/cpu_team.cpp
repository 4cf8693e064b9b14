#include "src/cpu/library_threads.h"
#include "src/cpu/product.h"
#include "src/cpu/team.h"
#include "src/cpu/workers.h"
#include "tests/unit/cpu_engine.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

using namespace autoamp::cpu;

namespace {

constexpr size_t budget = size_t{1} << 30;
constinit std::atomic<int> pretendedCpus{0}; // 0: the real ones

// Folders of the worker threads of this process.
std::vector<std::string> workers()
{
	std::vector<std::string> found;
	for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
		std::string name;
		std::getline(std::ifstream(task.path() / "comm"), name);
		if (name == "autoamp-cpu")
			found.push_back(task.path());
	}
	return found;
}

// A new thread takes its name late.
bool becomes(size_t count)
{
	for (int i = 0; i < 5000 && workers().size() != count; ++i)
		usleep(1000);
	return workers().size() == count;
}

// Of /proc/self/task/N/status.
std::string status(const std::string &task, const std::string &key)
{
	std::ifstream file(task + "/status");
	for (std::string line; std::getline(file, line);)
		if (line.starts_with(key + ":\t"))
			return line.substr(key.size() + 2);
	return "";
}

bool succeedsInChild(const std::function<bool()> &run)
{
	const pid_t child = fork();
	if (child == 0) {
		alarm(60); // a child that hangs fails
		_exit(run() ? 0 : 1);
	}
	int result = 0;
	waitpid(child, &result, 0);
	return WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

// One test of this program, in a fresh process.
bool succeedsAlone(const char *test)
{
	return succeedsInChild([&] {
		execl("/proc/self/exe", "unit_cpu", "-w", "NoTests", test, nullptr);
		return false;
	});
}

// A product, whose result is compared with that of one thread.
struct Case {
	std::vector<float> A, B, C;
	Product product;
	Engine on = {bf16Unit(), dnnl()};

	Case(int64_t m, int64_t n, int64_t k, bool transA = false, bool transB = false, float alpha = 1, float beta = 0)
	{
		std::minstd_rand random(1);
		std::uniform_real_distribution<float> values(-1, 1);
		const int64_t ldc = m + 3;
		for (auto [matrix, count] : {std::pair(&A, m * k), {&B, k * n}, {&C, ldc * n}}) {
			matrix->resize(static_cast<size_t>(count));
			for (float &x : *matrix)
				x = values(random);
		}
		product = {transA,   transB,         m,    n,        k,  alpha, A.data(), transA ? k : m,
		           B.data(), transB ? n : k, beta, C.data(), ldc};
	}
	std::vector<float> multiplied(Threads threads)
	{
		std::vector<float> result = C;
		Product copy = product;
		copy.C = result.data();
		if (multiply(copy, threads, budget, on) != Reason::none)
			result.clear();
		return result;
	}
};

const Threads two(2, Pool::own), five(5, Pool::own);

} // namespace

extern "C" __attribute__((visibility("default"))) int sched_getaffinity(pid_t thread, size_t bytes, cpu_set_t *set)
{
	if (const int count = pretendedCpus; count > 0) {
		CPU_ZERO_S(bytes, set);
		for (int i = 0; i < count; ++i)
			CPU_SET_S(static_cast<unsigned>(i), bytes, set);
		return 0;
	}
	CPU_ZERO_S(bytes, set); // the kernel writes only its own length
	return syscall(SYS_sched_getaffinity, thread, bytes, set) < 0 ? -1 : 0;
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define HAS_THREAD_FAULTS
namespace {
constinit thread_local int threadsLeft = -1; // so many more can be started; -1: any number
} // namespace
extern "C" __attribute__((visibility("default"))) int
pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
	static const auto create = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
	if (threadsLeft == 0)
		return EAGAIN;
	if (threadsLeft > 0)
		--threadsLeft;
	return create(thread, attributes, run, argument);
}
#endif

TEST_CASE("each part is computed once, by the caller and at most the wanted workers")
{
	pretendedCpus = 8;
	for (unsigned wanted : {9, 1, 7, 2, 5})
		for (unsigned parts : {1, 2, 3, 16, 1000}) {
			CAPTURE(wanted, parts);
			struct Part { // ThreadSanitizer checks that each is written before run() returns
				int runs = 0;
				std::thread::id by;
			};
			std::vector<Part> done(parts);
			Workers team(wanted);
			CHECK(team.count() == std::min(wanted, 7u));
			CHECK(Workers(1).count() == 0); // another product at the same time
			team.run(
			    parts,
			    [](void *context, unsigned part) {
				    Part &mine = (*static_cast<std::vector<Part> *>(context))[part];
				    ++mine.runs;
				    mine.by = std::this_thread::get_id();
			    },
			    &done);
			std::set<std::thread::id> threads;
			for (const Part &each : done) {
				CHECK(each.runs == 1);
				threads.insert(each.by);
			}
			CHECK(threads.size() <= std::min(team.count() + 1, parts));
		}
	CHECK(Workers(1).count() == 1);
	CHECK(Workers(0).count() == 0);
	pretendedCpus = 0;
	cpu_set_t before, one;
	REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
	CPU_ZERO(&one);
	CPU_SET(static_cast<unsigned>(sched_getcpu()), &one);
	REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
	CHECK(Workers(3).count() == 0);
	sched_setaffinity(0, sizeof before, &before);
}

TEST_CASE("our own threads give the bits of one thread")
{
	pretendedCpus = 8;
	const int64_t shapes[][3] = {{400, 410, 300}, {97, 1500, 300}, {1500, 97, 300},  {1, 8000, 3000}, {8000, 1, 3000},
	                             {49, 2000, 500}, {5, 6, 1500000}, {300, 310, 1000}, {512, 700, 300}, {64, 20, 9001},
	                             {66, 67, 9000},  {4, 150, 9000},  {192, 70, 9000}};
	for (const auto &[m, n, k] : shapes)
		for (bool transA : {false, true})
			for (bool transB : {false, true}) {
				Case one(m, n, k, transA, transB, 1, 0);
				for (const auto &[alpha, beta, hasAmx] : {std::tuple(1.f, 0.f, true),
				                                          {1.f, 1.f, true},
				                                          {-.3f, 0.f, true},
				                                          {1.7f, -.6f, true},
				                                          {1.7f, -.6f, false}}) {
					CAPTURE(m, n, k, transA, transB, alpha, beta, hasAmx);
					one.product.alpha = alpha, one.product.beta = beta;
					use(one.on, hasAmx ? engineWithAmx() : engine());
					const std::vector<float> expected = one.multiplied(Threads(1));
					REQUIRE(!expected.empty());
					const std::vector<float> byTwo = one.multiplied(two);
					CHECK(one.multiplied(five) == byTwo);
					if (beta != 1) {
						CHECK(byTwo == expected);
						continue;
					}
					// On one thread, oneDNN itself adds to C, in its own order.
					double error = 0, norm = 0;
					for (size_t i = 0; i < expected.size(); ++i) {
						error += std::pow(double{byTwo[i]} - expected[i], 2);
						norm += std::pow(expected[i], 2);
					}
					CHECK(std::sqrt(error / norm) < 1e-6);
				}
			}
	pretendedCpus = 0;
}

TEST_CASE("a failure of oneDNN on one of our own threads is that of the product")
{
	pretendedCpus = 8;
	static std::atomic<int> calls;
	Dnnl failing = dnnl();
	failing.gemm = [](char, char, int64_t, int64_t, int64_t, float, const uint16_t *, int64_t, const uint16_t *,
	                  int64_t, float, float *C, int64_t) {
		*C = 99;
		return ++calls == 2 ? 1 : 0;
	};
	for (float beta : {1.f, .5f}) {
		calls = 0;
		Case one(400, 400, 400, false, false, 1, beta);
		const std::vector<float> before = one.C;
		CHECK(multiply(one.product, five, budget, engineWithAmx(failing)) == Reason::engineFailed);
		CHECK(calls >= 2);
		CHECK(one.C == before);
	}
	pretendedCpus = 0;
}

TEST_CASE("a product inside a parallel region has one thread")
{
	watchRegionsOfDnnl();
	const OpenMp &openMp = dnnl().openMp;
	const int before = openMp.maxThreads();
	openMp.setThreads(2);
	struct Counts {
		std::atomic<unsigned> regions{0}, largest{0};
	} counts;
	openMp.parallel(
	    [](void *data) {
		    if (!dnnl().openMp.inParallel()) // the runtime gave one thread
			    return;
		    ++static_cast<Counts *>(data)->regions;
		    const unsigned size = std::max(Team(dnnl(), two).size(), Team(dnnl(), Threads(2)).size());
		    if (size > 1)
			    static_cast<Counts *>(data)->largest = size;
	    },
	    &counts, 2, 0);
	CHECK(counts.largest == 0);
	CHECK(Team(dnnl(), {2, Pool::none}).size() == 1);
	openMp.setThreads(before);
}

TEST_CASE("a process without large products has none of our threads", "[.]")
{
	for (const Threads &threads :
	     {Threads(1), Threads(1, Pool::own), Threads(8, Pool::none), Threads(8, Pool::otherOpenMp)})
		CHECK(!Case(300, 300, 300).multiplied(threads).empty());
	CHECK(!Case(64, 64, 64).multiplied(five).empty()); // too small for two
	CHECK(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}) == 1);
}

TEST_CASE("our own threads sleep while idle and then end", "[.]")
{
	pretendedCpus = 8;
	Case one(400, 400, 400);
	REQUIRE(!one.multiplied(five).empty());
	REQUIRE(becomes(4));
	const std::vector<std::string> tasks = workers();
	usleep(50000);
	const auto cpuTime = [&] { // ns on a CPU, ns of waiting for one, times
		std::string sum;
		for (const auto &task : tasks) {
			std::string line;
			std::getline(std::ifstream(task + "/schedstat"), line);
			sum += line + '\n';
		}
		return sum;
	};
	const std::string before = cpuTime();
	usleep(300000);
	CHECK(cpuTime() == before);
	for (const auto &task : tasks) {
		const uint64_t blocked = std::stoull(status(task, "SigBlk"), nullptr, 16);
		for (int signal : {SIGTERM, SIGINT, SIGCHLD, SIGUSR1, SIGRTMAX, SIGALRM, SIGPROF})
			CHECK((blocked >> (signal - 1) & 1) == 1);
		for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL})
			CHECK((blocked >> (signal - 1) & 1) == 0);
	}
	for (int i = 0; i < 10 && !becomes(0); ++i)
		;
	CHECK(workers().empty());
	CHECK(one.multiplied(five) == one.multiplied(Threads(1))); // with new ones
	CHECK(becomes(4));
}

#ifdef HAS_THREAD_FAULTS
TEST_CASE("a thread that cannot be started is missing", "[.]")
{
	pretendedCpus = 8;
	threadsLeft = 2;
	Case one(400, 400, 400);
	CHECK(one.multiplied(five) == one.multiplied(Threads(1)));
	threadsLeft = 0;
	CHECK(one.multiplied(five) == one.multiplied(Threads(1)));
	CHECK(becomes(2));
	threadsLeft = -1;
}
#endif

TEST_CASE("our own threads are started only when needed, and end")
{
	CHECK(succeedsAlone("a process without large products has none of our threads"));
	CHECK(succeedsAlone("our own threads sleep while idle and then end"));
#ifdef HAS_THREAD_FAULTS
	CHECK(succeedsAlone("a thread that cannot be started is missing"));
#endif
}

TEST_CASE("the main thread can leave a program that has our own threads")
{
	CHECK(succeedsInChild([] {
		pretendedCpus = 8;
		if (!Case(400, 400, 400).multiplied(five).empty() && becomes(4))
			syscall(SYS_exit, 0); // only this thread, as in pthread_exit(), which Catch does not let unwind
		return false;
	}));
}

TEST_CASE("our own threads multiply for many callers while the process forks")
{
	pretendedCpus = 4;
	Case model(400, 410, 220);
	use(model.on, engineWithAmx());
	const std::vector<float> expected = model.multiplied(Threads(1));
	std::atomic<bool> isDone{false};
	std::atomic<int> wrong{0}, products{0};
	const auto work = [&] {
		Case mine(400, 410, 220);
		use(mine.on, engineWithAmx());
		do {
			wrong += mine.multiplied({4, Pool::own}) != expected;
			++products;
		} while (!isDone);
	};
	// On a busy machine, a worker may have ended before the last one has its name: each product starts it again. A
	// child that was forked while a thread was in oneDNN does not use it.
	const auto isRight = [&](bool mayBeKept) {
		Case mine(400, 410, 220);
		use(mine.on, engineWithAmx());
		bool isEqual = workers().empty();
		if (mayBeKept && multiply(mine.product, {4, Pool::own}, budget, mine.on) == Reason::forkedInside)
			return true;
		do
			isEqual = isEqual && mine.multiplied({4, Pool::own}) == expected;
		while (isEqual && workers().size() != 3);
		return isEqual;
	};
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; ++i)
		threads.emplace_back(work);
	for (int i = 0; i < 15; ++i) {
		while (products < 3 * i)
			std::this_thread::yield();
		CHECK(succeedsInChild([&] { return isRight(true) && succeedsInChild([&] { return isRight(true); }); }));
	}
	isDone = true;
	for (auto &each : threads)
		each.join();
	CHECK(succeedsInChild([&] { return isRight(false) && succeedsInChild([&] { return isRight(false); }); }));
	CHECK(wrong == 0);
	CHECK(workers().size() <= 3);
	pretendedCpus = 0;
}

TEST_CASE("the threads of the program's library are found")
{
	const auto of = [](const std::string &path) {
		void *const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
		REQUIRE(library);
		const LibraryThreads found = threadsOf(library);
		CHECK(dlerror() == nullptr);
		return found;
	};
	const std::string stubs = STUBS;
	struct {
		const char *name;
		Pool pool;
		unsigned threads;
	} const expected[] = {{"wheel", Pool::own, 7},      {"scipy", Pool::own, 7}, {"numpy", Pool::own, 7},
	                      {"serial", Pool::none, 1},    {"unset", Pool::own, 1}, {"blis", Pool::own, 7},
	                      {"mkl", Pool::otherOpenMp, 7}};
	for (const auto &[name, pool, threads] : expected) {
		CAPTURE(name);
		const LibraryThreads found = of(stubs + "/libblas-" + name + ".so");
		CHECK(found.pool == pool);
		CHECK(found.now().pool == pool);
		CHECK(found.now().most == threads);
	}
	CHECK(of("libm.so.6").pool == Pool::none); // as a reference BLAS
	CHECK(of("libm.so.6").now().most == 1);
	CHECK(of(stubs + "/libblas-other.so").pool == Pool::otherOpenMp); // perhaps for other routines

	const OpenMp &openMp = dnnl().openMp;
	const int before = openMp.maxThreads();
	const LibraryThreads shared = of(stubs + "/libblas-openmp.so");
	CHECK(shared.pool == Pool::openMp);
	openMp.setThreads(3);
	CHECK(shared.now().most == 3);
	openMp.setThreads(before);

	LibraryThreads other = shared;
	other.openMp.parallel = [](void (*)(void *), void *, unsigned, unsigned) {};
	openMp.setThreads(2);
	const auto size = [](const Dnnl &engine, const LibraryThreads &library) {
		return Team(engine, library.now()).size();
	};
	const auto hasNone = [&] {
		return shared.now().pool == Pool::otherOpenMp && size(dnnl(), shared) == 1 && size(Dnnl{}, shared) == 1;
	};
	if (hasOpenMpThreads()) { // else a test before used them, and this is a child
		CHECK(size(dnnl(), shared) == 2);
		CHECK(size(Dnnl{}, shared) == 2);
		CHECK(size(Dnnl{}, other) == 2);
		CHECK(size(dnnl(), other) == 1); // oneDNN has another one
	}
	CHECK(succeedsInChild([&] { return hasNone() && succeedsInChild(hasNone); }));
	openMp.setThreads(before);
}

TEST_CASE("a child of a process without regions of OpenMP has its own", "[.]")
{
	void *const library = dlopen(STUBS "/libblas-openmp.so", RTLD_NOW | RTLD_LOCAL);
	REQUIRE(library);
	const LibraryThreads found = threadsOf(library);
	found.openMp.setThreads(2);
	CHECK(succeedsInChild([&] { return Team(Dnnl{}, found.now()).size() == 2; }));
}

TEST_CASE("threads of OpenMP in children")
{
	CHECK(succeedsAlone("a child of a process without regions of OpenMP has its own"));
}

TEST_CASE("a library with threads of its own has one in a parallel region of the program")
{
	void *const library = dlopen(STUBS "/libblas-wheel.so", RTLD_NOW | RTLD_LOCAL);
	REQUIRE(library);
	const LibraryThreads found = threadsOf(library);
	CHECK(found.now().most == 7);
	watchRegionsOfDnnl();
	static std::atomic<unsigned> inside, wrong;
	dnnl().openMp.parallel(
	    [](void *each) {
		    if (dnnl().openMp.inParallel()) // the runtime may give one thread
			    ++inside, wrong += static_cast<const LibraryThreads *>(each)->now().most != 1;
	    },
	    const_cast<LibraryThreads *>(&found), 2, 0);
	CHECK((inside == 2 || inside == 0));
	CHECK(wrong == 0);
}

TEST_CASE("the threads of the OpenBLAS libraries of Debian are found")
{
	for (const auto &[build, pool] :
	     {std::pair("serial", Pool::none), {"pthread", Pool::own}, {"openmp", Pool::openMp}}) {
		const std::string path = std::string("/usr/lib/x86_64-linux-gnu/openblas-") + build + "/libblas.so.3";
		void *const library = std::filesystem::exists(path) ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
		if (!library)
			continue;
		CAPTURE(path);
		const LibraryThreads found = threadsOf(library);
		CHECK(found.pool == pool);
		if (pool == Pool::none)
			continue;
		const auto set = reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
		set(2);
		CHECK(found.now().most == 2);
		set(1);
		CHECK(found.now().most == 1);
	}
	dnnl().openMp.setThreads(2);
}
