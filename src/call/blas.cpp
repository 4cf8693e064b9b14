// Wrappers of the routines of a CPU BLAS: one call, from the arguments of the application to the return. Any thread.
#include "inject/entry_table.h"
#include "inject/front.h"
#include "src/call/blas_path.h"
#include "src/call/dispatch.h"
#include "src/call/passed_product.h"
#include "src/call/unwinding.h"
#include "src/gradient/api.h"
#include "src/life/start.h"
#include "src/place/region/api.h"

#include <algorithm>
#include <iterator>

namespace autoamp::entry {

namespace {

// Calls inside another call run the original function directly.
struct Inside {
	Inside() { autoamp_front_thread.depth++; }
	~Inside() { autoamp_front_thread.depth--; }
};

// The slow path, once for each list of parameters.
template <typename... Args>
struct Slow {
	using Function = void(Args...);

	[[gnu::noinline]] static void dispatchFrom(unsigned slot, op::BlasCall (*describe)(bool, Args...),
	                                           const void *address, Args... args)
	{
		core::OwnCode ownCode;
		bool isWide = false;
		void *function = nullptr;
		const auto original = [&] {
			const base::CallerState::Restored restored(ownCode.callerState);
			reinterpret_cast<Function *>(function)(args...);
			return op::Status{0};
		};
		core::Process *const process = core::process();
		unsigned closes;
		function = autoamp_cpu_original(slot, address, &isWide, &closes);
		if (!function)
			return; // a weak reference to a routine that no library has
		// In a signal handler that interrupted autoamp, nothing is remembered.
		const bool isInside = autoamp_front_thread.depth > 1;
		core::Thread *thread = nullptr;
		if (process && !isInside)
			thread = core::thisThread(*process);
		else if (process && closes != 0 && !ownCode.outer)
			thread = core::knownThread();
		if (!thread) {
			original();
			return;
		}
		// Another object may have been loaded at the address of the caller.
		if (thread->closes != closes || closes == 0) {
			std::fill(std::begin(thread->callers), std::end(thread->callers), core::Thread::Caller{});
			thread->closes = closes;
		}
		const unsigned index = vendorEntryCount + slot % blasEntryCount;
		const Interception interception = {static_cast<uint16_t>(index), function, address};
		op::BlasCall call = describe(isWide, args...);
		call.slot = static_cast<uint16_t>(slot), call.isWide = isWide, call.closes = closes;
		const bool isUnseen = core::isIdle.load(std::memory_order_relaxed) ||
		                      core::callerOf(*thread, address).kind == core::CallerKind::vendor;
		if (isInside || isUnseen) {
			core::Thread::BlasMemo memo;
			memo.isForSizes = !isInside && core::callerOf(*thread, function).kind == core::CallerKind::vendor;
			if (closes != 0)
				core::rememberBlas(*thread, call, interception, core::contextOf(*thread, core::DeviceType::cpu),
				                   isInside, memo);
			original();
			return;
		}
		dispatch(*process, entryTable[index], interception, call, Original(original));
	}
};

template <unsigned slot, auto describe>
struct Routine;

template <unsigned slot, typename... Args, op::BlasCall (*describe)(bool, Args...)>
struct Routine<slot, describe> {
	static constexpr unsigned index = vendorEntryCount + slot % blasEntryCount;
	using Function = void(Args...);

	static constexpr bool isBatch = entryTable[index].kind == op::Kind::bmm;

	static void call(Args... args)
	{
		AUTOAMP_LEAVES_CALL_WHEN_UNWOUND;
		const void *const address = __builtin_return_address(0);
		core::Thread *const thread = core::knownThread();
		const Inside inside; // no tail call: g++ would copy the stack arguments twice
		if (!isBatch && __builtin_expect(thread != nullptr, 1)) {
			const bool isInside = autoamp_front_thread.depth > 1;
			const auto &memo = thread->blasMemos[core::placeOfBlas(describe(false, args...), slot, address)];
			const unsigned version = memo.version; // a signal handler may replace the memo
			std::atomic_signal_fence(std::memory_order_seq_cst);
			const op::BlasCall call = describe(memo.isWide, args...);
			const uint32_t context = core::contextOf(*thread, core::DeviceType::cpu);
			const bool isKnown =
			    core::isSame(memo, call, slot, address, context, isInside) && !(memo.needsSaved && thread->savedNs > 0);
			const auto original = reinterpret_cast<Function *>(memo.original);
			trace::Cell *const cell = memo.cell;
			const trace::RowId row = memo.row;
			const bool isForSizes = memo.isForSizes;
			const unsigned closes = memo.closes;
			std::atomic_signal_fence(std::memory_order_seq_cst);
			if (__builtin_expect(isKnown && version == memo.version, 1)) {
				if (op::isOnlyCounted(entryTable[index]) || !cell) {
					if (cell)
						trace::Lane::count(*cell);
					else if (entryTable[index].kind == op::Kind::mm && isForSizes && autoamp_front_thread.passed)
						core::rememberPassed(*thread, reinterpret_cast<void *>(original), static_cast<uint32_t>(call.m),
						                     static_cast<uint32_t>(call.n), static_cast<uint32_t>(call.k), slot,
						                     address, context >> 8, closes);
					return original(args...);
				}
				const core::Span span(*thread->lane, row, cell);
				original(args...);
				return span.end(false);
			}
		}
		Slow<Args...>::dispatchFrom(slot, describe, address, args...);
	}

	static constexpr auto wrapper = [] {
		if constexpr (entryTable[index].kind != op::Kind::mm)
			return &call;
		else if constexpr ((std::is_same_v<Args, const char *> || ...)) // Fortran
			return &core::passReferences<slot, &call>;
		else
			return &core::passValues<slot, &call>;
	}();
};

constexpr unsigned copyCount = 1 + front::blasCopyCount;

// By slot.
void *const all[] = {
#define ROUTINE(copy, name, style, routine)                                                                            \
	reinterpret_cast<void *>(                                                                                          \
	    Routine<copy * blasEntryCount + index_##name - vendorEntryCount, op::blas::style::routine>::wrapper),
#define BLAS(...) ROUTINE(0, __VA_ARGS__)
#include "inject/blas.inc"
#undef BLAS
#define BLAS(...) ROUTINE(1, __VA_ARGS__)
#include "inject/blas.inc"
#undef BLAS
#define BLAS(...) ROUTINE(2, __VA_ARGS__)
#include "inject/blas.inc"
#undef BLAS
#define BLAS(...) ROUTINE(3, __VA_ARGS__)
#include "inject/blas.inc"
#undef BLAS
#define BLAS(...) ROUTINE(4, __VA_ARGS__)
#include "inject/blas.inc"
#undef BLAS
#undef ROUTINE
};
static_assert(sizeof all / sizeof *all == copyCount * blasEntryCount);

} // namespace

} // namespace autoamp::entry

extern "C" const autoamp::front::Core autoamp_cpu_core = {
    autoamp::front::abi, sizeof autoamp::entry::all / sizeof(void *), autoamp::entry::all, &autoamp::core::regionCalls,
    &autoamp::gradient::scalerCalls};
