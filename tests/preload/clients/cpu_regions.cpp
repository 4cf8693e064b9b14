// A program that sets the precision of its products on the CPU by regions. Each line lists the precision that the
// rounding of each product shows. It is linked to a BLAS and knows nothing of the front.
#include "inject/autoamp.h"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <semaphore>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern "C" void sgemm_(const char *transa, const char *transb, const int *m, const int *n, const int *k,
                       const float *alpha, const float *A, const int *lda, const float *B, const int *ldb,
                       const float *beta, float *C, const int *ldc);

namespace {

std::string line;

void put(const std::string &word)
{
	line += (line.empty() ? "" : ",") + word;
}

const char *product()
{
	constexpr int n = 64;
	constexpr float exact = 1 + 1.f / 512 + 1.f / 4096, one = 1, zero = 0; // bfloat16 keeps the 1 only
	std::vector<float> A(n * n, exact), B(n * n, 1), C(n * n);
	float first = 0;
	for (int i = 0; i < 3; i++) { // equal calls may be handled faster
		sgemm_("N", "N", &n, &n, &n, &one, A.data(), &n, B.data(), &n, &zero, C.data(), &n);
		if (i > 0 && C[0] != first)
			return "not equal";
		first = C[0];
	}
	return first == n * exact ? "float32" : first == n ? "bfloat16" : "wrong";
}

autoamp_region region(const char *device, int enabled = AUTOAMP_SAME, const char *dtype = nullptr)
{
	autoamp_region made = AUTOAMP_REGION;
	made.device = device, made.enabled = enabled, made.dtype = dtype;
	return made;
}

std::string elsewhere()
{
	std::string found;
	std::thread([&found] { found = product(); }).join();
	return found;
}

std::string current(const char *device)
{
	autoamp_region now = region(device);
	const int status = autoamp_current(&now);
	return status ? std::to_string(status) : now.enabled ? now.dtype : "off";
}

void nested()
{
	put(product());
	const autoamp::Region on(region("cpu", 1));
	put(product());
	{
		const autoamp::Region off(region("cpu", 0));
		put(product());
		const autoamp::Region again(region("cpu", 1));
		put(product());
	}
	put(product());
}

// A region of CUDA calls neither changes nor encloses those of the CPU.
void devices()
{
	product(); // it opens the core
	const autoamp::Region cuda(region("cuda", 0, "bfloat16"));
	put(product());
	const autoamp::Region cpu(region("cpu"));
	put(product());
	const autoamp::Region all(region(nullptr, 0));
	put(product());
}

// The CPU multiplies in bfloat16 only. `float16` without a device is the type of the CPU as well.
void types()
{
	for (const char *device : {"cpu", (const char *)nullptr, "cuda"})
		for (const char *dtype : {"float16", "bfloat16"}) {
			const autoamp::Region inside(region(device, 1, dtype));
			put(product());
		}
	const autoamp::Region half(region(nullptr, 1, "float16"));
	put(current("cpu"));
}

void required()
{
	product(); // it opens the core
	put(std::to_string(autoamp_require_regions_of("xpu")));
	autoamp_require_regions_of("cuda");
	put(product());
	autoamp_require_regions_of("cpu");
	put(product());
	{
		const autoamp::Region cuda(region("cuda", 1));
		put(product());
		put(std::to_string(autoamp_active()));
		const autoamp::Region cpu(region("cpu", 1));
		put(product());
		put(std::to_string(autoamp_active()));
	}
	put(product());
}

void all()
{
	autoamp_require_regions();
	put(elsewhere());
	autoamp_region shared = region("cpu", 1);
	shared.threads = "all";
	{
		const autoamp::Region inside(shared);
		put(elsewhere());
		shared.device = "cuda", shared.enabled = 0;
		const autoamp::Region cuda(shared); // for all threads, and in front of those of the CPU
		put(elsewhere());
		const pid_t child = fork();
		if (!child)
			_exit(strcmp(product(), "bfloat16"));
		int status = 0;
		waitpid(child, &status, 0);
		put(std::to_string(status));
	}
	put(elsewhere());
	put(product()); // before, during and after a region of another thread for all threads
	std::binary_semaphore opened{0}, used{0};
	std::thread other([&] {
		shared.device = "cpu", shared.enabled = 1;
		const autoamp::Region inside(shared);
		opened.release();
		used.acquire();
	});
	opened.acquire();
	put(product());
	used.release();
	other.join();
	put(product());
}

// Structs of an earlier and a later version.
void sizes()
{
	struct Later {
		autoamp_region known;
		const char *more;
	} later = {region("cpu", 0), nullptr};
	later.known.size = sizeof later;
	put(std::to_string(autoamp_push(&later.known)));
	put(product());
	autoamp_pop();
	later.more = "unknown";
	put(std::to_string(autoamp_push(&later.known)));
	autoamp_region earlier = region("never read", 0);
	earlier.size = offsetof(autoamp_region, device);
	put(std::to_string(autoamp_push(&earlier)));
	put(product());
	earlier.enabled = 1;
	put(std::to_string(autoamp_current(&earlier)));
	put(earlier.enabled ? "on" : "off");
	autoamp_pop();
	earlier.size++;
	put(std::to_string(autoamp_push(&earlier)));
	const autoamp_region bad = region("xpu");
	put(std::to_string(autoamp_push(&bad)));
	put(product());
}

void described()
{
	product();
	put(current("cpu") + "/" + current("cuda") + "/" + current(nullptr) + "/" + current("xpu"));
	const autoamp::Region cuda(region("cuda", 0));
	const autoamp::Region cpu(region("cpu", 1, "float16"));
	put(current("cpu") + "/" + current("cuda"));
}

// Rules and reports that name a region mean the calls on its device.
void named()
{
	for (const char *device : {"cpu", "cuda"}) {
		autoamp_region part = region(device);
		part.name = device;
		const autoamp::Region inside(part);
		put(product());
	}
}

} // namespace

int main(int argc, char **argv)
{
	const std::pair<const char *, void (*)()> cases[] = {
	    {"nested", nested}, {"devices", devices}, {"types", types},         {"required", required},
	    {"all", all},       {"sizes", sizes},     {"described", described}, {"named", named}};
	for (const auto &[name, run] : cases)
		if (argc == 2 && !strcmp(argv[1], name)) {
			run();
			return puts(line.c_str()) < 0;
		}
	return 2;
}
