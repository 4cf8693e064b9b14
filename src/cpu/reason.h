// Reasons why a product was not computed in bfloat16.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

enum class Reason : uint8_t {
	none,
	cpuTooOld,        // no AVX512-BF16, or the kernel has not enabled its registers
	noLibrary,        // neither libdnnl.so.3 nor libdnnl.so.2 could be opened, or the process exits
	noFunction,       // oneDNN lacks dnnl_gemm_bf16bf16f32, or it runs without OpenMP
	nothingToDo,      // a size or alpha is 0
	invalidArguments, // the program's function reports them
	overlap,          // C shares addresses with A or B
	memoryBudget,     // converted operands exceed the budget
	noMemory,
	engineFailed, // oneDNN returned an error or threw
	forkedInside, // at the fork of this process, another thread was in oneDNN, whose lock may stay held
	notKept,      // the caller wants the product only if its weight is kept, and it is not yet
};

// Reasons why the weight of a product is not kept.
enum class WeightReason : uint8_t {
	none,
	weightsOff,
	tooSmall,     // it has less than 256 KiB, or is too narrow: checking takes as long as converting
	changes,      // the content has not been the same for long enough, or it changed too often
	memoryBudget, // copies use their part of the budget, or there is no memory
	sharedMemory, // another process, another mapping or a write to a file could change it without notice
	pinned,       // the process has an open file of an interface that can write to memory without page faults
	noWatch,      // the kernel cannot watch pages, or does not allow it
	manyRows,     // conversion is a small part of the product
	sparse,       // most of the memory between the first and the last element is not part of it
	tooMany,      // the table of weights is full
	busy,         // another thread converts it now
};

// The name in reports; null for none.
inline const char *name(WeightReason reason)
{
	constexpr const char *names[] = {nullptr,  "weights_off", "too_small", "changes", "memory_budget", "shared_memory",
	                                 "pinned", "no_watch",    "many_rows", "sparse",  "too_many",      "busy"};
	return names[static_cast<unsigned>(reason)];
}

} // namespace autoamp::cpu
