#include "src/cpu/budget.h"
#include "src/cpu/product.h"
#include "src/cpu/watch.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <functional>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <memory>
#include <random>
#include <string>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace autoamp::cpu;

namespace {

constexpr size_t budget = size_t{1} << 30;

bool succeedsInChild(const std::function<bool()> &run, pid_t (*create)() = fork)
{
	const pid_t child = create();
	if (child == 0) {
		alarm(60); // a child that hangs fails
		_exit(run() ? 0 : 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool canWatch()
{
	void *const memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const auto at = reinterpret_cast<uintptr_t>(memory);
	return watch({at, at + 4096}) == WeightReason::none && isWritten({at, at + 4096}) != Written::unknown;
}

__attribute__((constructor)) void skip()
{
	const char *reason = nullptr;
	if (bf16Unit() == Bf16Unit::none)
		reason = "this CPU has no AVX512-BF16";
	else if (!succeedsInChild([] { return openDnnl(nullptr).reason == Reason::none; }))
		reason = "no usable oneDNN: install libdnnl2";
	else if (!succeedsInChild(canWatch))
		reason = "this kernel does not watch pages for this process";
	if (!reason)
		return;
	std::printf("skipped: %s\n", reason);
	std::fflush(stdout);
	_exit(77);
}

thread_local std::mt19937 generator(1);

void fill(float *target, int64_t count)
{
	std::normal_distribution<float> normal;
	for (int64_t i = 0; i < count; ++i)
		target[i] = normal(generator);
}

// Memory of a program, at an address that no earlier one had: a weight there has no history.
struct Mapping {
	char *address;
	size_t bytes;

	explicit Mapping(size_t bytes, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int file = -1) : bytes(bytes)
	{
#ifdef __SANITIZE_THREAD__ // it supports other addresses than its sibling
		static std::atomic<uintptr_t> next{uintptr_t{1} << 38};
#else
		static std::atomic<uintptr_t> next{uintptr_t{1} << 45};
#endif
		void *const wanted = reinterpret_cast<void *>(next.fetch_add((bytes + (4 << 20)) >> 21 << 21));
		address =
		    static_cast<char *>(mmap(wanted, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, file, 0));
		if (address != wanted)
			std::abort();
	}
	~Mapping()
	{
		munmap(address, bytes);
	}
	Mapping(const Mapping &) = delete;
	Mapping &operator=(const Mapping &) = delete;
	float *floats(size_t offset = 0) const
	{
		return reinterpret_cast<float *>(address + offset);
	}
};

// Products of one weight with a few rows. The weight is `outer` x `inner` in one of four forms.
struct Site {
	int64_t outer, inner, rows, ld;
	const float *weight;
	bool isA, isInnerContiguous;
	float alpha, beta;
	std::vector<float> x, before, C, expected;
	WeightUse use;

	Site(const float *weight, int64_t outer, int64_t inner, bool isA = true, bool isInnerContiguous = false,
	     int64_t pad = 0, int64_t rows = 5, float alpha = 1, float beta = 0)
	    : outer(outer), inner(inner), rows(rows), ld((isInnerContiguous ? inner : outer) + pad), weight(weight),
	      isA(isA), isInnerContiguous(isInnerContiguous), alpha(alpha), beta(beta),
	      x(static_cast<size_t>(rows * inner)), before(static_cast<size_t>(rows * outer))
	{
		std::mt19937 random(7);
		std::normal_distribution<float> normal;
		for (float &each : x)
			each = normal(random);
		for (float &each : before)
			each = normal(random);
	}
	Product product(std::vector<float> &result) const
	{
		if (isA)
			return {isInnerContiguous, false, outer, rows,          inner, alpha, weight, ld,
			        x.data(),          inner, beta,  result.data(), outer};
		return {true, !isInnerContiguous, rows, outer, inner, alpha, x.data(), inner, weight, ld,
		        beta, result.data(),      rows};
	}
	Reason multiplyKept(WeightMode mode = WeightMode::watched, size_t bytes = budget, bool onlyIfKept = false)
	{
		C = before;
		return multiply(product(C), 1, bytes, {mode, onlyIfKept}, use);
	}
	// The bits are those of a product whose weight is converted.
	bool isRight(WeightMode mode = WeightMode::watched, size_t bytes = budget)
	{
		if (multiplyKept(mode, bytes) != Reason::none)
			return false;
		expected = before;
		return multiply(product(expected), 1, budget) == Reason::none &&
		       std::memcmp(C.data(), expected.data(), C.size() * sizeof(float)) == 0;
	}
	// Multiplies until the copy is used.
	bool becomesKept(WeightMode mode = WeightMode::watched, size_t bytes = budget)
	{
		for (int i = 0; i < 10000; ++i) {
			if (!isRight(mode, bytes))
				return false;
			if (use.isServed)
				return true;
		}
		return false;
	}
	// Three products after a change are right. The first one must not use the old copy.
	bool noticesChange()
	{
		if (!isRight() || use.isServed)
			return false;
		return isRight() && isRight();
	}
};

constexpr int64_t N = 512; // 1 MiB
constexpr size_t bytesOf = N * N * sizeof(float);

// A weight that begins 16 bytes after a page, as those of malloc do.
struct Fixture {
	Mapping mapping{bytesOf + 8192};
	float *weight = mapping.floats(16);
	Site site{weight, N, N};

	Fixture() { fill(weight, N * N); }
};

std::vector<int> ownDescriptors() // userfaultfd and pagemap
{
	std::vector<int> found;
	for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
		std::error_code error;
		const std::string target = std::filesystem::read_symlink(entry, error);
		if (target == "anon_inode:[userfaultfd]" || target.ends_with("/pagemap"))
			found.push_back(std::stoi(entry.path().filename()));
	}
	return found;
}

int openRing()
{
	io_uring_params parameters{};
	return static_cast<int>(syscall(SYS_io_uring_setup, 4, &parameters));
}

} // namespace

TEST_CASE("a weight is kept after three products with the same content, in each form")
{
	Mapping mapping(4 << 20);
	fill(mapping.floats(), 1 << 20);
	for (const bool isA : {false, true})
		for (const bool isInnerContiguous : {false, true})
			for (const int64_t pad : {0, 3})
				for (const auto &[outer, inner] : std::initializer_list<std::pair<int64_t, int64_t>>{
				         {512, 256}, {301, 259}, {1000, 129}, {256, 257}})
					for (const int64_t rows : {1, 5, 17, bf16Unit() == Bf16Unit::amx ? 32 : 64}) {
						CAPTURE(isA, isInnerContiguous, pad, outer, inner, rows);
						static size_t offset = 0; // each weight has another address
						Site site(mapping.floats(offset += 4), outer, inner, isA, isInnerContiguous, pad, rows,
						          rows == 5 ? .7f : 1, rows == 17 ? -.3f : 0);
						for (int i = 0; i < 3; ++i) {
							CHECK(site.isRight());
							CHECK((site.use.how == WeightHow::none && site.use.reason == WeightReason::changes));
						}
						CHECK(site.isRight());
						CHECK((site.use.isMade && site.use.how == WeightHow::watched && site.use.bytes > 0));
						for (int i = 0; i < 2; ++i) {
							CHECK(site.isRight());
							CHECK((site.use.isServed && site.use.how == WeightHow::watched));
						}
					}
}

TEST_CASE("a patient weight is kept after eight more products")
{
	Fixture one;
	for (int i = 0; i < 20; ++i) {
		one.site.C = one.site.before;
		REQUIRE(multiply(one.site.product(one.site.C), 1, budget, {WeightMode::watched, false, 8}, one.site.use) ==
		        Reason::none);
		CHECK(one.site.use.isMade == (i == 11));
		CHECK(one.site.use.isServed == (i > 11));
	}
}

TEST_CASE("the patience of one product is not that of another one")
{
	Fixture one;
	const auto multiplied = [&](uint32_t patience) {
		one.site.C = one.site.before;
		return multiply(one.site.product(one.site.C), 1, budget, {WeightMode::watched, false, patience},
		                one.site.use) == Reason::none;
	};
	REQUIRE(multiplied(8));
	for (int i = 0; i < 4; ++i) {
		REQUIRE(multiplied(0));
		CHECK(one.site.use.isMade == (i == 3));
	}
	REQUIRE(multiplied(8));
	CHECK(one.site.use.isServed);
}

TEST_CASE("the reason for not keeping is reported")
{
	Fixture one;
	CHECK(one.site.isRight(WeightMode::off));
	CHECK(one.site.use.reason == WeightReason::weightsOff);
	Site small(one.weight, 255, 257);
	CHECK(small.isRight());
	CHECK(small.use.reason == WeightReason::tooSmall);
	Site sparse(one.weight, 300, 250, true, false, 301);
	CHECK(sparse.isRight());
	CHECK(sparse.use.reason == WeightReason::sparse);
	Site square(one.weight, N, N, true, false, 0, 300);
	CHECK(square.isRight());
	CHECK(square.use.reason == WeightReason::manyRows);
	CHECK(square.multiplyKept(WeightMode::watched, budget, true) == Reason::notKept);
	CHECK(square.C == square.before);
}

TEST_CASE("operands that change at the same address are not kept")
{
	Fixture one;
	for (int i = 0; i < 600; ++i) {
		fill(one.weight, i % 8 == 0 ? N * N : 1);
		if (i % 7 == 0)
			one.weight[N * N / 2] = static_cast<float>(i); // between the sampled elements
		CHECK(one.site.isRight());
		CHECK(one.site.use.how == WeightHow::none);
	}
}

TEST_CASE("a product with few rows runs only once its weight was kept, until that is given up")
{
	const auto run = [](Site &site, size_t bytes = budget) {
		return site.multiplyKept(WeightMode::watched, bytes, true);
	};
	{
		Fixture one;
		for (int i = 0; i < 3; ++i) {
			CHECK(run(one.site) == Reason::notKept);
			CHECK(one.site.C == one.site.before);
		}
		bool isGivenUp = false;
		for (int i = 0; i < 200; ++i) {
			const Reason reason = run(one.site);
			isGivenUp |= one.site.use.isGivenUp;
			CHECK(reason == (isGivenUp ? Reason::notKept : Reason::none));
			CHECK((isGivenUp || one.site.isRight()));
			fill(one.weight, N * N);
		}
		CHECK(isGivenUp);
	}
	{ // the memory for the copy does not decide
		Fixture one;
		for (int i = 0; i < 3; ++i)
			CHECK(run(one.site, 500 << 10) == Reason::notKept);
		for (int i = 0; i < 200; ++i) {
			CHECK(run(one.site, 500 << 10) == Reason::none);
			CHECK(one.site.use.reason == WeightReason::memoryBudget);
			CHECK(one.site.use.isRefused == (i == 0));
			CHECK((i > 0 || one.site.use.bytes > N * N * 2));
		}
	}
	{ // memory that the kernel does not watch
		Mapping shared(bytesOf, MAP_SHARED | MAP_ANONYMOUS);
		fill(shared.floats(), N * N);
		Site site(shared.floats(), N, N);
		for (int i = 0; i < 30; ++i)
			CHECK(run(site) == Reason::notKept);
	}
	Fixture one;
	CHECK(one.site.multiplyKept(WeightMode::off, budget, true) == Reason::notKept);
}

TEST_CASE("each way of writing is noticed")
{
	int zeros = open("/dev/zero", O_RDONLY);
	int sockets[2];
	REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
	char file[] = "/tmp/unit_weights.XXXXXX";
	const int values = mkstemp(file);
	unlink(file);
	const std::vector<float> ones(N * N, 1);
	REQUIRE(write(values, ones.data(), bytesOf) == bytesOf);
	const struct {
		const char *name;
		std::function<void(Fixture &)> write;
	} ways[] = {
	    {"element", [](Fixture &one) { one.weight[5 * N + 7] += 1; }},
	    {"first element", [](Fixture &one) { one.weight[0] += 1; }},
	    {"last element", [](Fixture &one) { one.weight[N * N - 1] += 1; }},
	    {"last element of the head", [](Fixture &one) { one.weight[1019] += 1; }},
	    {"first element of the first page", [](Fixture &one) { one.weight[1020] += 1; }},
	    {"row", [](Fixture &one) { fill(one.weight + 100 * N, N); }},
	    {"two rows and a half", [](Fixture &one) { fill(one.weight + 100 * N, N * 5 / 2); }},
	    {"column",
	     [](Fixture &one) {
		     for (int64_t i = 0; i < N; ++i)
			     one.weight[i * N + 3] *= 2;
	     }},
	    {"all", [](Fixture &one) { fill(one.weight, N * N); }},
	    {"another thread", [](Fixture &one) { std::thread([&] { one.weight[77777] += 1; }).join(); }},
	    {"read", [&](Fixture &one) { CHECK(read(zeros, one.weight + 4096, 100) == 100); }},
	    {"pread of all", [&](Fixture &one) { CHECK(pread(values, one.weight, bytesOf, 0) == bytesOf); }},
	    {"recvmsg",
	     [&](Fixture &one) {
		     CHECK(write(sockets[1], "abcdefgh", 8) == 8);
		     iovec part{one.weight + 5000, 8};
		     msghdr message{};
		     message.msg_iov = &part, message.msg_iovlen = 1;
		     CHECK(recvmsg(sockets[0], &message, 0) == 8);
	     }},
	    {"process_vm_writev by a child",
	     [](Fixture &one) {
		     const pid_t parent = getpid();
		     CHECK(succeedsInChild([&] {
			     float value = 3;
			     iovec local{&value, 4}, remote{one.weight + 9999, 4};
			     return process_vm_writev(parent, &local, 1, &remote, 1, 0) == 4;
		     }));
	     }},
	    {"/proc/self/mem",
	     [](Fixture &one) {
		     const int memory = open("/proc/self/mem", O_RDWR);
		     const float value = 3;
		     CHECK(pwrite(memory, &value, 4, reinterpret_cast<off_t>(one.weight + 6666)) == 4);
		     close(memory);
	     }},
	    {"MADV_DONTNEED of a page", [](Fixture &one) { madvise(one.mapping.address + 40960, 4096, MADV_DONTNEED); }},
	    {"MADV_DONTNEED of all", [](Fixture &one) { madvise(one.mapping.address, one.mapping.bytes, MADV_DONTNEED); }},
	    {"mmap over it",
	     [](Fixture &one) {
		     mmap(one.mapping.address, one.mapping.bytes, PROT_READ | PROT_WRITE,
		          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	     }},
	    {"munmap and mmap of a page",
	     [](Fixture &one) {
		     munmap(one.mapping.address + 81920, 4096);
		     mmap(one.mapping.address + 81920, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		          -1, 0);
	     }},
	    {"mremap over it",
	     [](Fixture &one) {
		     void *const other =
		         mmap(nullptr, one.mapping.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		     std::memset(other, 1, one.mapping.bytes);
		     CHECK(mremap(other, one.mapping.bytes, one.mapping.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		                  one.mapping.address) == one.mapping.address);
	     }},
	    {"a file mapped over it",
	     [&](Fixture &one) {
		     mmap(one.mapping.address, bytesOf, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, values, 0);
	     }},
	    {"mprotect, and a store",
	     [](Fixture &one) {
		     mprotect(one.mapping.address, one.mapping.bytes, PROT_READ);
		     mprotect(one.mapping.address, one.mapping.bytes, PROT_READ | PROT_WRITE);
		     one.weight[12345] += 1;
	     }},
	    {"fork, and a store",
	     [](Fixture &one) {
		     CHECK(succeedsInChild([] { return true; }));
		     one.weight[23456] += 1;
	     }},
	};
	for (const auto &[name, write] : ways)
		for (const int advice : {MADV_NOHUGEPAGE, MADV_HUGEPAGE}) {
			CAPTURE(name, advice);
			Fixture one;
			madvise(one.mapping.address, one.mapping.bytes, advice);
			REQUIRE(one.site.becomesKept());
			write(one);
			CHECK(one.site.noticesChange());
			write(one); // again, after a refresh
			CHECK(one.site.isRight());
			// The control: without the watch, the old copy is used.
			Fixture other;
			REQUIRE(other.site.becomesKept(WeightMode::frozen));
			write(other);
			CHECK(!other.site.isRight(WeightMode::frozen));
		}
	close(zeros), close(values), close(sockets[0]), close(sockets[1]);
}

TEST_CASE("a weight that is freed and allocated again is another one")
{
	for (int i = 0; i < 6; ++i) {
		std::vector<float> weight(N * N);
		fill(weight.data(), N * N);
		Site site(weight.data(), N, N);
		for (int j = 0; j < 30; ++j)
			CHECK(site.isRight());
		weight.resize(2 * N * N); // realloc, often at the same address
		Site moved(weight.data(), N, N);
		CHECK((moved.isRight() && moved.isRight()));
	}
}

TEST_CASE("only written pages are converted again")
{
	Fixture one;
	REQUIRE(one.site.becomesKept());
	for (int i = 0; i < 300; ++i) {
		one.weight[i * 500] += 1;
		CHECK(one.site.isRight());
		CHECK((one.site.use.isRecast && one.site.use.how == WeightHow::watched && !one.site.use.isGivenUp));
		CHECK((one.site.isRight() && one.site.use.isServed));
		CHECK((one.site.isRight() && one.site.use.isServed));
		CHECK((one.site.isRight() && one.site.use.isServed));
		one.mapping.floats()[0] += 1; // a neighbour in the first page, which is not part of the weight
		CHECK((one.site.isRight() && one.site.use.isServed));
	}
}

TEST_CASE("a weight that changes too often is given up, and kept again when it no longer changes")
{
	Fixture one;
	REQUIRE(one.site.becomesKept());
	int recast = 0;
	bool isGivenUp = false;
	for (int i = 0; i < 20 && !isGivenUp; ++i) {
		fill(one.weight, N * N);
		CHECK(one.site.isRight());
		isGivenUp = one.site.use.isGivenUp;
		recast += one.site.use.isRecast;
	}
	CHECK((isGivenUp && recast > 0));
	const auto at = reinterpret_cast<uintptr_t>(one.mapping.address);
	CHECK(isWritten({at + 4096, at + 8192}) == Written::unknown); // its pages are not watched any more
	CHECK(one.site.use.reason == WeightReason::changes);
	CHECK(one.site.becomesKept());
}

TEST_CASE("memory that others can write is not kept")
{
	char file[] = "/tmp/unit_weights.XXXXXX";
	const int descriptor = mkstemp(file);
	unlink(file);
	std::vector<float> content(N * N);
	fill(content.data(), N * N);
	const auto restore = [&] { REQUIRE(pwrite(descriptor, content.data(), bytesOf, 0) == bytesOf); };
	const auto writeFile = [&](Mapping &) {
		const float value = 9;
		REQUIRE(pwrite(descriptor, &value, 4, 40000) == 4);
	};
	const auto writeInChild = [](Mapping &mapping) {
		CHECK(succeedsInChild([&] {
			mapping.floats()[10000] = 9;
			return true;
		}));
	};
	const auto check = [](Mapping &mapping, const std::function<void(Mapping &)> &write) {
		Site site(mapping.floats(), N, N);
		for (int i = 0; i < 30; ++i) {
			CHECK(site.isRight());
			CHECK(site.use.how == WeightHow::none);
			if (i >= 3)
				CHECK(site.use.reason == WeightReason::sharedMemory);
			if (i % 5 == 4)
				write(mapping);
		}
	};
	restore();
	Mapping shared(bytesOf, MAP_SHARED, descriptor);
	check(shared, writeFile);
	restore();
	Mapping copyOnWrite(bytesOf, MAP_PRIVATE, descriptor);
	copyOnWrite.floats()[5000] = 1;
	check(copyOnWrite, writeFile);
	Mapping anonymous(bytesOf, MAP_SHARED | MAP_ANONYMOUS);
	fill(anonymous.floats(), N * N);
	check(anonymous, writeInChild);
	const int memory = memfd_create("unit_weights", MFD_CLOEXEC);
	REQUIRE(ftruncate(memory, bytesOf) == 0);
	Mapping first(bytesOf, MAP_SHARED, memory), second(bytesOf, MAP_SHARED, memory);
	fill(first.floats(), N * N);
	check(first, [&](Mapping &) { second.floats()[7777] += 1; });
	close(descriptor), close(memory);

	// Control: the kernel does not notice it.
	Mapping control(bytesOf, MAP_SHARED | MAP_ANONYMOUS);
	fill(control.floats(), N * N);
	const Pages pages{reinterpret_cast<uintptr_t>(control.address),
	                  reinterpret_cast<uintptr_t>(control.address) + bytesOf};
	REQUIRE(watch(pages) == WeightReason::none);
	REQUIRE(collect(pages, [](const Pages &) {}));
	writeInChild(control);
	CHECK(isWritten(pages) == Written::no);
}

TEST_CASE("a process that can pin memory keeps no weights")
{
	const int ring = openRing();
	if (ring >= 0) {
		Fixture one;
		for (int i = 0; i < 10; ++i)
			CHECK((one.site.isRight() && one.site.use.how == WeightHow::none));
		CHECK(one.site.use.reason == WeightReason::pinned);
		close(ring);
		CHECK(one.site.becomesKept());
		// A pin after the protection counts as a write. The next protection would not see writes through it.
		const int later = openRing();
		iovec buffer{one.weight, 65536};
		REQUIRE(syscall(SYS_io_uring_register, later, IORING_REGISTER_BUFFERS, &buffer, 1) == 0);
		CHECK((one.site.isRight() && one.site.use.how == WeightHow::none));
		CHECK(one.site.use.reason == WeightReason::pinned);
		close(later);
	}
	Fixture one;
	const int other = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
	REQUIRE(other >= 0);
	for (int i = 0; i < 4; ++i)
		CHECK((one.site.isRight() && one.site.use.how == WeightHow::none));
	CHECK(one.site.use.reason == WeightReason::pinned);
	close(other);
}

TEST_CASE("memory of another userfaultfd is not kept")
{
	Fixture one;
	const int other = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
	uffdio_api api{UFFD_API, 0, 0};
	REQUIRE(ioctl(other, UFFDIO_API, &api) == 0);
	uffdio_register request{};
	request.range = {reinterpret_cast<uintptr_t>(one.mapping.address), one.mapping.bytes};
	request.mode = UFFDIO_REGISTER_MODE_MISSING;
	REQUIRE(ioctl(other, UFFDIO_REGISTER, &request) == 0);
	for (int i = 0; i < 10; ++i)
		CHECK((one.site.isRight() && one.site.use.how == WeightHow::none));
	CHECK(one.site.use.reason == WeightReason::noWatch);
	close(other);
}

TEST_CASE("descriptors that the program closes or replaces are noticed")
{
	Fixture one, another;
	REQUIRE((one.site.becomesKept() && another.site.becomesKept()));
	std::vector<int> descriptors = ownDescriptors();
	REQUIRE(descriptors.size() == 2);
	for (const int closed : descriptors)
		for (const bool isReplaced : {false, true}) {
			REQUIRE((one.site.becomesKept() && another.site.becomesKept()));
			int number = closed;
			if (std::vector<int> now = ownDescriptors(); std::find(now.begin(), now.end(), number) == now.end())
				number = now[0];
			const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
			close(number);
			if (isReplaced)
				dup2(null, number);
			one.weight[3 * N] += 1;
			CHECK(one.site.noticesChange());
			CHECK(another.site.isRight());
			CHECK((one.site.becomesKept() && another.site.becomesKept()));
			if (isReplaced) {
				char byte;
				CHECK(read(number, &byte, 1) == 0); // the program's file is still open
				close(number);
			}
			close(null);
		}
	CHECK(ownDescriptors().size() == 2);
	for (const int descriptor : ownDescriptors()) {
		CHECK(descriptor >= 200);
		CHECK((fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0);
	}
}

TEST_CASE("a forked child does not ask about the memory of its parent")
{
	Mapping mapping(8192);
	const auto at = reinterpret_cast<uintptr_t>(mapping.address);
	const Pages pages{at, at + 8192};
	REQUIRE((watch(pages) == WeightReason::none && collect(pages, [](const Pages &) {})));
	CHECK(isWritten(pages) == Written::no);
	CHECK(succeedsInChild([&] {
		mapping.address[0] = 1;
		return isWritten(pages) == Written::unknown && !collect(pages, [](const Pages &) {});
	}));
	CHECK(isWritten(pages) == Written::no);
	endWatch(pages);
	CHECK(isWritten(pages) == Written::unknown);
}

TEST_CASE("a forked child has its own copies")
{
	Fixture one;
	REQUIRE(one.site.becomesKept());
	const auto child = [&] {
		one.weight[9 * N] = 3;
		bool isRight = one.site.noticesChange() && one.site.becomesKept();
		one.weight[8 * N] = 3;
		isRight = isRight && one.site.noticesChange() && ownDescriptors().size() == 2;
		return isRight && succeedsInChild([&] {
			       one.weight[7 * N] = 3;
			       return one.site.noticesChange() && one.site.becomesKept();
		       });
	};
	CHECK(succeedsInChild(child));
	CHECK(succeedsInChild(child, _Fork)); // without handlers
	CHECK((one.site.isRight() && one.site.use.isServed));
	one.weight[1] = 2;
	CHECK(one.site.noticesChange());
}

TEST_CASE("a process that must not use userfaultfd converts at each call")
{
	CHECK(succeedsInChild([] {
		sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
		                        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 0, 1),
		                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
		                        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
		sock_fprog program{4, filter};
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
			return false;
		Fixture one;
		bool isRight = true;
		for (int i = 0; i < 30; ++i) {
			isRight = isRight && one.site.isRight() && one.site.use.how == WeightHow::none;
			if (i % 6 == 5)
				one.weight[i] += 1;
		}
		return isRight && one.site.use.reason == WeightReason::noWatch && one.site.becomesKept(WeightMode::frozen);
	}));
}

TEST_CASE("copies use three quarters of the budget at most, and those of unmapped memory are released")
{
	CHECK(succeedsInChild([] {            // the account is empty
		constexpr size_t small = 2 << 20; // for two copies of 1/2 MiB
		auto first = std::make_unique<Fixture>();
		Fixture second, third;
		bool isRight = first->site.becomesKept(WeightMode::watched, small);
		isRight = isRight && second.site.becomesKept(WeightMode::watched, small);
		const size_t held = bytesHeld();
		for (int i = 0; i < 10; ++i)
			isRight = isRight && third.site.isRight(WeightMode::watched, small) &&
			          third.site.use.how == WeightHow::none && first->site.isRight() && first->site.use.isServed;
		isRight = isRight && third.site.use.reason == WeightReason::memoryBudget && bytesHeld() <= small;
		first.reset();
		return isRight && third.site.becomesKept(WeightMode::watched, small) && bytesHeld() == held &&
		       second.site.isRight() && second.site.use.isServed;
	}));
}

TEST_CASE("weights with common pages do not hide writes from each other")
{
	Fixture one;
	Site same(one.weight, N, N), transposed(one.weight, N, N, true, true), asB(one.weight, N, N, false, false),
	    part(one.weight + 128, N - 200, N, true, false, 200), lower(one.weight + 200 * N, N, N - 200);
	Site *const sites[] = {&same, &transposed, &asB, &part, &lower};
	for (Site *each : sites)
		REQUIRE(each->becomesKept());
	for (int round = 0; round < 10; ++round) {
		one.weight[250 * N + 140 + round] += 1;
		for (int i = 0; i < 5; ++i)
			CHECK((sites[(i + round) % 5]->isRight()));
		for (Site *each : sites)
			CHECK((each->isRight() && each->isRight() && each->becomesKept()));
	}
}

TEST_CASE("two directions of a weight in turn use their copies")
{
	Fixture one;
	Site same(one.weight, N, N), transposed(one.weight, N, N, true, true);
	REQUIRE((same.becomesKept() && transposed.becomesKept()));
	for (int round = 0; round < 4; ++round) {
		CHECK((same.isRight() && same.use.isServed));
		CHECK((transposed.isRight() && transposed.use.isServed));
	}
	one.weight[N] += 1;
	CHECK((same.noticesChange() && transposed.noticesChange()));
	CHECK((same.isRight() && same.use.isServed));
	CHECK((transposed.isRight() && transposed.use.isServed));
}

TEST_CASE("threads share a copy, and notice writes between their products")
{
	Fixture one;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	constexpr int count = 6, rounds = 40;
#else
	constexpr int count = 6, rounds = 400;
#endif
	std::barrier barrier(count);
	std::atomic<int> wrong{0}, served{0}, kept{0};
	std::vector<std::thread> threads;
	for (int thread = 0; thread < count; ++thread)
		threads.emplace_back([&, thread] {
			Site site(one.weight, N, N, true, thread % 2 == 1); // two weights with common pages
			for (int round = 0; round < rounds; ++round) {
				barrier.arrive_and_wait();
				if (round % 4 != 0 && round % count == thread)
					for (int64_t i = round; i < N * N; i += 4000) // many pages: their conversion takes a while
						one.weight[i] += 1;
				barrier.arrive_and_wait();
				for (int i = 0; i < 4; ++i) {
					wrong += !site.isRight();
					served += site.use.isServed;
					kept += site.use.how == WeightHow::watched;
				}
			}
		});
	for (std::thread &each : threads)
		each.join();
	CHECK(wrong == 0);
	CHECK(served > 0);
	CHECK(kept >= served);
}

TEST_CASE("a write during a product is noticed by the next one")
{
	constexpr int64_t count = 2 << 20; // 8 MiB: the conversion takes a millisecond
	Mapping mapping(count * 4);
	fill(mapping.floats(), count);
	float *const weight = mapping.floats();
	Site site(weight, 2048, count / 2048, true, false, 0, 1);
	REQUIRE(site.becomesKept());
	std::atomic<int> begun{0}, done{0};
	constexpr int rounds = 300;
	std::thread writer([&] {
		std::mt19937 random(3);
		for (int round = 1; round <= rounds; ++round) {
			while (begun < round)
				std::this_thread::yield();
			for (unsigned spin = random() % 1500000; spin > 0; --spin)
				asm volatile("");
			for (int i = 0; i < 8; ++i)
				std::atomic_ref(weight[random() % count]).fetch_add(1, std::memory_order_relaxed);
			done = round;
		}
	});
	int recast = 0, wrong = 0;
	for (int round = 1; round <= rounds; ++round) {
		for (int64_t i = 0; i < count; i += count / 8)
			std::atomic_ref(weight[i]).fetch_add(1, std::memory_order_relaxed);
		begun = round;
		site.multiplyKept(); // its result is undefined, because the program has a race
		recast += site.use.isRecast;
		while (done < round)
			std::this_thread::yield();
		for (int i = 0; i < 4; ++i)
			wrong += !site.isRight();
	}
	writer.join();
	CHECK(wrong == 0);
	CHECK(recast > rounds / 2);
}

TEST_CASE("threads keep weights while the process forks")
{
	std::atomic<bool> isDone{false};
	std::atomic<int> wrong{0}, products{0};
	Fixture shared;
	const auto work = [&](int thread) {
		Fixture own;
		Site site(shared.weight, N, N);
		do {
			own.weight[products % 1000] += 1;
			for (int i = 0; i < 5; ++i)
				wrong += !own.site.isRight() || !site.isRight();
			++products;
		} while (!isDone && thread >= 0);
	};
	std::thread first(work, 1), second(work, 2);
	for (int i = 0; i < 10; ++i) {
		while (products < 3 * i)
			std::this_thread::yield();
		CHECK(succeedsInChild([&] {
			Site site(shared.weight, N, N);
			return site.becomesKept();
		}));
	}
	isDone = true;
	first.join(), second.join();
	CHECK(wrong == 0);
}

TEST_CASE("random writes between random products")
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	constexpr int seeds = 1, steps = 60; // a step is a hundred times slower
#else
	constexpr int seeds = 6, steps = 700;
#endif
	int served = 0, recast = 0, made = 0;
	for (unsigned seed = 1; seed <= seeds; ++seed) {
		std::mt19937 random(seed);
		const auto below = [&](int64_t limit) {
			return static_cast<int64_t>(std::uniform_int_distribution<int64_t>(0, limit - 1)(random));
		};
		Mapping mapping(4 << 20); // 1 Mi elements
		constexpr int64_t count = 1 << 20;
		if (seed % 2)
			madvise(mapping.address, mapping.bytes, MADV_HUGEPAGE);
		fill(mapping.floats(), count);
		std::vector<Site> sites;
		for (int i = 0; i < 8; ++i) { // these overlap
			const int64_t outer = 257 + below(400), inner = 257 + below(400), pad = below(3) ? 0 : below(200);
			sites.emplace_back(mapping.floats(static_cast<size_t>(4 * below(count / 4))), outer, inner, below(2) == 0,
			                   below(2) == 0, pad, 1 + below(20));
		}
		const int zeros = open("/dev/zero", O_RDONLY);
		for (int step = 0; step < steps; ++step) {
			const int64_t at = below(count - 70000);
			float *const target = mapping.floats() + at;
			switch (below(14)) {
			case 0:
				*target += 1;
				break;
			case 1:
				fill(target, 1 + below(3000));
				break;
			case 2:
				fill(target, 1 + below(60000));
				break;
			case 3:
				CHECK(read(zeros, target, static_cast<size_t>(4 * (1 + below(2000)))) > 0);
				break;
			case 4:
				madvise(mapping.address + at * 4 / 4096 * 4096, 8192, MADV_DONTNEED);
				break;
			case 5: {
				char *const page = mapping.address + at * 4 / 4096 * 4096;
				munmap(page, 4096);
				mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
				break;
			}
			case 6: { // threads write at once
				std::thread first([&] { target[0] += 1, target[40000] += 1; });
				std::thread second([&] {
					for (int64_t i = 1; i < 30000; i += 3000)
						target[i] *= 2;
				});
				first.join(), second.join();
				break;
			}
			case 7:
				if (step % 10 == 0)
					CHECK(succeedsInChild([&] { return *target += 1, sites[0].isRight(); }));
				break;
			default:
				break;
			}
			for (int64_t i = below(30); i >= 0; --i) {
				Site &site = sites[static_cast<size_t>(below(8))];
				CAPTURE(seed, step);
				CHECK(site.isRight());
				served += site.use.isServed, recast += site.use.isRecast, made += site.use.isMade;
			}
		}
		close(zeros);
	}
	CHECK(served > seeds * steps / 4);
	CHECK(recast > 10);
	CHECK(made >= 4);
}
