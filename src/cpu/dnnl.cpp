#include "src/cpu/dnnl.h"

#include "src/base/broken_loader.h"
#include "src/base/once.h"

#include <cstdio>
#include <dlfcn.h>
#include <new>
#include <sched.h>

namespace autoamp::cpu {

namespace {

// libgomp binds the thread that loads it to one CPU if OMP_PROC_BIND is set, as it is for many programs that do not use
// OpenMP themselves.
void *openBeside(const char *path)
{
	if (base::isLoaderBroken)
		return nullptr;
	cpu_set_t before;
	const bool isKnown = sched_getaffinity(0, sizeof before, &before) == 0;
	void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (isKnown)
		sched_setaffinity(0, sizeof before, &before);
	return library;
}

Dnnl read(void *library)
{
	Dnnl found;
	found.reason = Reason::none;
	struct Version { // its first members, in all versions
		int major, minor, patch;
	};
	const Version *(*version)();
	if (resolve(version, library, "dnnl_version")) {
		const Version *const known = version();
		found.major = known->major, found.minor = known->minor, found.patch = known->patch;
	}
	resolve(found.exceptions.begin, library, "__cxa_begin_catch");
	resolve(found.exceptions.end, library, "__cxa_end_catch");
	resolve(found.exceptions.setIp, library, "_Unwind_SetIP");
	if (!resolve(found.gemm, library, "dnnl_gemm_bf16bf16f32") ||
	    !resolve(found.effectiveIsa, library, "dnnl_get_effective_cpu_isa") || !findOpenMp(library, found.openMp))
		found.reason = Reason::noFunction;
	return found;
}

} // namespace

Dnnl openDnnl(const char *folder)
{
	Dnnl found;
	// Debian 13 has the second name.
	for (const char *name : {"libdnnl.so.3", "libdnnl.so.3.6", "libdnnl.so.2"}) {
		char path[4096];
		const int length = std::snprintf(path, sizeof path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name);
		void *const library = length < static_cast<int>(sizeof path) ? openBeside(path) : nullptr;
		if (!library)
			continue;
		found = read(library);
		if (found.reason == Reason::none)
			break;
	}
	dlerror(); // clears the error, which must not reach the application
	return found;
}

Bf16Unit unitOf(const Dnnl &dnnl)
{
	constexpr int bf16 = 0xe7, amx = 0x3e7; // dnnl_cpu_isa_avx512_core_bf16, ..._amx; supersets have the same bits
	const int isa = dnnl.reason == Reason::none ? dnnl.effectiveIsa() : 0;
	return (isa & amx) == amx ? Bf16Unit::amx : (isa & bf16) == bf16 ? Bf16Unit::avx512 : Bf16Unit::none;
}

const Dnnl &dnnl()
{
	static constinit base::Once<const Dnnl> once; // a losing thread of a race leaks its copy
	static constexpr Dnnl failed{.reason = Reason::noMemory};
	const Dnnl *const known = once.getOrRetry([] { return new (std::nothrow) Dnnl(openDnnl(nullptr)); });
	return known ? *known : failed;
}

bool callGemm(const Dnnl &dnnl, char transA, char transB, int64_t m, int64_t n, int64_t k, float alpha,
              const uint16_t *A, int64_t lda, const uint16_t *B, int64_t ldb, float beta, float *C, int64_t ldc)
{
	int status = 1;
	auto call = [&] { status = dnnl.gemm(transA, transB, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc); };
	// It generates its code with `new`, at the first calls.
	const bool hasReturned = callGuarded(
	    dnnl.exceptions, [](void *each) { (*static_cast<decltype(call) *>(each))(); }, &call);
	return hasReturned && status == 0;
}

} // namespace autoamp::cpu
