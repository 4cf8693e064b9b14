// What the library's own code allocates and locks while it handles what it knows. This program's malloc and
// pthread_mutex_lock count the calls that come from libautoamp-core.so: at the first turn of each case, and in later
// ones.
#include "harness.h"

#include "inject/autoamp.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

namespace {

uintptr_t low, high; // of the core; nothing before it is there
struct Count {
	int allocations, locks;
};
thread_local Count count; // of this program: initial-exec, so counting allocates nothing

bool isOurs(const void *caller)
{
	return reinterpret_cast<uintptr_t>(caller) - low < high - low;
}

} // namespace

extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t number, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes)
{
	count.allocations += isOurs(__builtin_return_address(0));
	return __libc_malloc(bytes);
}
void *calloc(size_t number, size_t bytes)
{
	count.allocations += isOurs(__builtin_return_address(0));
	return __libc_calloc(number, bytes);
}
void *realloc(void *memory, size_t bytes)
{
	count.allocations += isOurs(__builtin_return_address(0));
	return __libc_realloc(memory, bytes);
}
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static std::atomic<int (*)(pthread_mutex_t *)> known;
	if (!known)
		known = reinterpret_cast<int (*)(pthread_mutex_t *)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
	count.locks += isOurs(__builtin_return_address(0));
	return known.load()(mutex);
}
}

using namespace client;

namespace {

int findCore(dl_phdr_info *object, size_t, void *)
{
	if (!std::strstr(object->dlpi_name, "libautoamp-core.so"))
		return 0;
	low = object->dlpi_addr;
	for (int i = 0; i < object->dlpi_phnum; i++)
		high = std::max<uintptr_t>(high, low + object->dlpi_phdr[i].p_vaddr + object->dlpi_phdr[i].p_memsz);
	return 1;
}

autoamp_region region(const char *name, const char *dtype = nullptr, int enabled = AUTOAMP_SAME)
{
	autoamp_region made = AUTOAMP_REGION;
	made.name = name, made.dtype = dtype, made.enabled = enabled;
	return made;
}

struct Work {
	const char *name;
	Spec spec; // n = 0: forty of them, more than the memo of a thread can hold side by side
	std::vector<autoamp_region> regions = {}; // each opened around a product, and closed; none: a product outside
};
const std::vector<autoamp_region> changing = {region("one"), region("two", "bfloat16"), region("off", nullptr, 0)};
const Work works[] = {{"sgemm", {.m = 64}},
                      {"sgemm.64", {.is64 = true, .m = 64}},
                      {"gemm_ex", {.door = Door::gemmEx, .m = 64}},
                      {"strided", {.door = Door::sgemmStridedBatched, .m = 64, .batch = 3}},
                      {"batched", {.door = Door::sgemmBatched, .m = 64, .batch = 3}},
                      {"lt", {.door = Door::ltMatmul, .m = 64}},
                      {"pedantic", {.m = 64, .mathMode = CUBLAS_PEDANTIC_MATH}},
                      {"many.sgemm", {.m = 64, .n = 0}},
                      {"regions.sgemm", {.m = 64}, changing},
                      {"regions.many", {.m = 64, .n = 0}, changing},
                      {"regions.lt", {.door = Door::ltMatmul, .m = 64}, changing}};

void turn(Session &session, std::vector<Problem> &problems, const Work &work)
{
	for (size_t i = 0; i < std::max<size_t>(1, work.regions.size()); i++) {
		const bool isInside = i < work.regions.size();
		if (isInside && autoamp_push(&work.regions[i]))
			fail("a region", "is refused");
		for (Problem &problem : problems)
			CHECK(static_cast<cublasStatus_t>(problem.call(session.handle, session.light)));
		if (isInside && autoamp_pop())
			fail("a region", "is gone");
		CHECK(cudaStreamSynchronize(session.stream));
	}
}

void run(const Work &work, Line &line)
{
	Session session;
	std::vector<Problem> other, problems;
	other.emplace_back(Spec{.m = 8});
	Spec spec = work.spec;
	const size_t wanted = spec.n ? 1 : 40;
	for (spec.n = spec.n ? 48 : 1; problems.size() < wanted; spec.n++)
		problems.emplace_back(spec), problems.back().upload();
	other.front().upload();
	turn(session, other, {}); // the core is there from here on
	dl_iterate_phdr(findCore, nullptr);
	count = {};
	turn(session, problems, work);
	line.put("first_allocations", count.allocations).put("first_locks", count.locks);
	for (int i = 0; i < 3; i++)
		turn(session, problems, work);
	count = {};
	constexpr int rounds = 40;
	for (int i = 0; i < rounds; i++)
		turn(session, problems, work);
	line.put("calls", static_cast<int>(std::max<size_t>(1, work.regions.size()) * wanted) * rounds);
	line.put("allocations", count.allocations).put("locks", count.locks);
}

} // namespace

int main(int argc, char **argv)
{
	std::vector<Case> cases;
	for (const Work &work : works)
		cases.push_back({work.name, [&work](Line &line) { run(work, line); }});
	return runCases(argc, argv, cases);
}
