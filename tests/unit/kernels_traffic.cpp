// Compiled with -fsanitize=kernel-address, which calls a function of this file before each load and store.
#include "tests/unit/kernels_traffic.h"

#include "tools/emulated/simt.h"

#include "kernels/cast.cuh"

#define UNCOUNTED __attribute__((no_sanitize("kernel-address")))

namespace {

Region *counted = nullptr;
size_t countedRegions = 0;

// No calls: the compiler does not inline a function with counted accesses here.
UNCOUNTED void count(uintptr_t address, size_t bytes, uint64_t Region::*number)
{
	for (size_t i = 0; i < countedRegions; ++i)
		if (address - reinterpret_cast<uintptr_t>(counted[i].begin) < counted[i].size)
			counted[i].*number += bytes;
}

} // namespace

#define ACCESSES(size)                                                                                                 \
	UNCOUNTED void __asan_load##size##_noabort(uintptr_t address)                                                      \
	{                                                                                                                  \
		count(address, size, &Region::loaded);                                                                         \
	}                                                                                                                  \
	UNCOUNTED void __asan_store##size##_noabort(uintptr_t address)                                                     \
	{                                                                                                                  \
		count(address, size, &Region::stored);                                                                         \
	}
extern "C" {
ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)
UNCOUNTED void __asan_loadN_noabort(uintptr_t address, size_t bytes)
{
	count(address, bytes, &Region::loaded);
}
UNCOUNTED void __asan_storeN_noabort(uintptr_t address, size_t bytes)
{
	count(address, bytes, &Region::stored);
}
void __asan_handle_no_return() {}
}

void runCounted(const char *kernel, unsigned blocks, const autoamp::kernels::Parameters &parameters,
                std::span<Region> regions)
{
	constexpr struct {
		const char *name;
		void (*run)(autoamp::kernels::Parameters);
	} kernels[] = {{"autoamp_cast_half", autoamp_cast_half},
	               {"autoamp_cast_bfloat16", autoamp_cast_bfloat16},
	               {"autoamp_settle", autoamp_settle},
	               {"autoamp_cast_kept_half", autoamp_cast_kept_half},
	               {"autoamp_cast_kept_bfloat16", autoamp_cast_kept_bfloat16},
	               {"autoamp_settle_kept_half", autoamp_settle_kept_half},
	               {"autoamp_settle_kept_bfloat16", autoamp_settle_kept_bfloat16}};
	for (const auto &[name, run] : kernels)
		if (std::string_view(kernel) == name) {
			counted = regions.data(), countedRegions = regions.size();
			simt::run(dim3(blocks), dim3(autoamp::kernels::blockSize), [&, run = run] { run(parameters); });
			countedRegions = 0;
			return;
		}
	simt::Machine::fail("no such kernel");
}
