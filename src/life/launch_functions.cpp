// The launch functions of the CUDA runtime while kernels are traced. A kernel that does not belong to a gradient scaler
// costs one lookup of its handle.
#include "src/life/launch_functions.h"

#include "inject/front.h"
#include "inject/launches.h"
#include "src/base/caller_state.h"
#include "src/base/own_work.h"
#include "src/cuda/library.h"
#include "src/life/gradients.h"
#include "src/life/scaler.h"
#include "src/state/thread.h"

#include <driver_types.h>
#include <optional>
#include <type_traits>

namespace autoamp::core {

namespace {

// Handles of kernels that do not belong to a gradient scaler, by hash. Threads may overwrite entries of each other.
struct alignas(64) Handles {
	std::atomic<uintptr_t> handle[8];
};
constexpr unsigned handleBits = 10;
constinit Handles others[1 << handleBits] = {};

[[gnu::always_inline]] inline Handles &handlesFor(uintptr_t handle)
{
	return others[handle * 0x9e3779b97f4a7c15u >> (64 - handleBits)];
}

[[gnu::always_inline]] inline bool isOther(const void *kernel)
{
	const auto handle = reinterpret_cast<uintptr_t>(kernel);
	for (const std::atomic<uintptr_t> &known : handlesFor(handle).handle)
		if (known.load(std::memory_order_relaxed) == handle)
			return true;
	return false;
}

void addOther(const void *kernel)
{
	const auto handle = reinterpret_cast<uintptr_t>(kernel);
	Handles &handles = handlesFor(handle);
	uintptr_t last = handle;
	for (std::atomic<uintptr_t> &known : handles.handle) // the oldest one leaves
		if (last = known.exchange(last, std::memory_order_relaxed); !last)
			return;
}

// Another kernel may get the handle of an unloaded one.
void forgetHandles()
{
	for (Handles &handles : others)
		for (std::atomic<uintptr_t> &known : handles.handle)
			if (known.load(std::memory_order_relaxed))
				known.store(0, std::memory_order_relaxed);
}

template <class Function, unsigned launch>
Function *original()
{
	return reinterpret_cast<Function *>(
	    __atomic_load_n(&autoamp_front_originals[entry::vendorEntryCount + launch], __ATOMIC_ACQUIRE));
}

// Functions of the runtime that name a kernel. They set the program's last error if they fail.
struct Names {
	cudaError_t (*cudaFuncGetName)(const char **, const void *);
	cudaError_t (*cudaGetKernel)(cudaKernel_t *, const void *);
	cudaError_t (*cudaPeekAtLastError)();
	cudaError_t (*cudaGetLastError)();
};

const Names *findNames(const void *runtime)
{
	auto *const names = new Names{};
	const auto find = [runtime](auto &function, const char *name) {
		void *const found = cuda::findInLibraryOf(runtime, name);
		// The launch function may be that of another tool.
		function =
		    reinterpret_cast<std::remove_reference_t<decltype(function)>>(found ? found : cuda::findInProcess(name));
		return function != nullptr;
	};
	if (find(names->cudaFuncGetName, "cudaFuncGetName") && find(names->cudaGetKernel, "cudaGetKernel") &&
	    find(names->cudaPeekAtLastError, "cudaPeekAtLastError") && find(names->cudaGetLastError, "cudaGetLastError"))
		return names;
	delete names;
	return nullptr;
}

// autoamp's part of a launch: its driver calls are not intercepted, and change no state of the thread.
struct OwnPart {
	OwnPart() { autoamp_front_thread.depth++; }
	~OwnPart() { autoamp_front_thread.depth--; }
	base::CallerState callerState;
};

struct Launched {
	const void *runtime; // the original function
	const void *kernel;
	bool isKernel; // a cudaKernel_t; otherwise it may also be the stub of a kernel
	void **arguments;
	cuda::Stream stream;
};

// Returns null for a kernel that does not belong to a gradient scaler, or whose values cannot be read.
const scale::GradientKernel *identify(Process &process, const Launched &launched)
{
	static constinit base::Once<const Names> theNames;
	const Names *const names = theNames.get([&] { return findNames(launched.runtime); });
	if (!names) {
		process.recorder.note(trace::noteOfGradient,
		                      "the CUDA runtime has no function for the names of kernels (older than 12.3)");
		addOther(launched.kernel);
		return nullptr;
	}
	const cudaError_t before = names->cudaPeekAtLastError();
	const char *name = nullptr;
	scale::NamedKernel named;
	if (names->cudaFuncGetName(&name, launched.kernel) == cudaSuccess && name)
		named = scale::gradientKernel(name);
	if (named.kernel) {
		auto *kernel = static_cast<cudaKernel_t>(const_cast<void *>(launched.kernel));
		if (!launched.isKernel && names->cudaGetKernel(&kernel, launched.kernel) != cudaSuccess)
			kernel = nullptr;
		if (!lower::hasParameters(*cuda::driver(), reinterpret_cast<CUkern_st *>(kernel), named.kernel->sizes))
			named = {scale::NamedKernel::Use::unknown};
	}
	if (before == cudaSuccess && names->cudaPeekAtLastError() != cudaSuccess)
		names->cudaGetLastError();
	if (named.use == scale::NamedKernel::Use::unknown || named.use == scale::NamedKernel::Use::valueless)
		noteUnread(process, named, name);
	if (!named.kernel)
		addOther(launched.kernel);
	return named.kernel;
}

Process *tracingProcess()
{
	Process *const process = theProcess.load(std::memory_order_acquire);
	// CUDA does not work in a forked child.
	return process && process->isTracing && !process->isForked.load(std::memory_order_relaxed) ? process : nullptr;
}

template <class Call>
[[gnu::noinline]] cudaError_t watch(const Launched &launched, Call call)
{
	Process *const process = autoamp_front_thread.depth ? nullptr : tracingProcess();
	const scale::GradientKernel *kernel = nullptr;
	if (process && cuda::driver()) {
		const OwnPart own;
		const cuda::RelaxedCapture relaxed(*cuda::driver());
		thisThread(*process); // the probes are hidden from CUPTI by the state of the thread
		kernel = identify(*process, launched);
	}
	if (!kernel)
		return call();
	std::optional<WatchedLaunch> watched;
	{
		const OwnPart own;
		watched.emplace(*process, ScalerLaunch{*kernel, launched.arguments, launched.stream});
	}
	cudaError_t status;
	{
		const base::OwnedWork owned(watched->owner());
		status = call();
	}
	const OwnPart own;
	if (status == cudaSuccess)
		watched->end();
	drainScalerEvents(*process);
	return status;
}

// The stream of the thread: the null stream of a program compiled with --default-stream per-thread.
constexpr uintptr_t streamPerThread = 2;

template <bool isPerThread>
cuda::Stream streamOf(cudaStream_t stream)
{
	return isPerThread && !stream ? reinterpret_cast<cuda::Stream>(streamPerThread) : stream;
}

template <unsigned launch, bool isKernel, bool isPerThread>
cudaError_t launchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                         cudaStream_t stream)
{
	auto *const function = original<decltype(launchKernel<launch, isKernel, isPerThread>), launch>();
	if (__builtin_expect(isOther(kernel), 1))
		return function(kernel, grid, block, arguments, shared, stream);
	const Launched launched = {reinterpret_cast<const void *>(function), kernel, isKernel, arguments,
	                           streamOf<isPerThread>(stream)};
	return watch(launched, [&] { return function(kernel, grid, block, arguments, shared, stream); });
}

template <unsigned launch, bool isPerThread>
cudaError_t launchWith(const cudaLaunchConfig_t *how, const void *kernel, void **arguments)
{
	auto *const function = original<decltype(launchWith<launch, isPerThread>), launch>();
	if (__builtin_expect(isOther(kernel) || !how, 1))
		return function(how, kernel, arguments);
	const Launched launched = {reinterpret_cast<const void *>(function), kernel, false, arguments,
	                           streamOf<isPerThread>(how->stream)};
	return watch(launched, [&] { return function(how, kernel, arguments); });
}

// A graph may contain updates. Those of earlier launches are recorded now, so that they have a time near their own.
template <unsigned launch>
cudaError_t launchGraph(cudaGraphExec_t graph, cudaStream_t stream)
{
	const cudaError_t status = original<decltype(launchGraph<launch>), launch>()(graph, stream);
	if (Process *const process = autoamp_front_thread.depth ? nullptr : tracingProcess()) {
		const OwnPart own;
		drainScalerEvents(*process);
	}
	return status;
}

void unregister(void **image)
{
	original<decltype(unregister), entry::launch___cudaUnregisterFatBinary>()(image);
	forgetHandles();
}

cudaError_t unload(void *library)
{
	const cudaError_t status = original<decltype(unload), entry::launch_cudaLibraryUnload>()(library);
	forgetHandles();
	return status;
}

template <class Function>
void *address(Function *function)
{
	return reinterpret_cast<void *>(function);
}

} // namespace

void watchLaunchFunctions()
{
	using namespace entry;
	static void *const functions[launchCount] = {
	    address(launchKernel<launch_cudaLaunchKernel, false, false>),
	    address(launchKernel<launch_cudaLaunchKernel_ptsz, false, true>),
	    address(launchKernel<launch___cudaLaunchKernel, true, false>),
	    address(launchKernel<launch___cudaLaunchKernel_ptsz, true, true>),
	    address(launchWith<launch_cudaLaunchKernelExC, false>),
	    address(launchWith<launch_cudaLaunchKernelExC_ptsz, true>),
	    address(launchGraph<launch_cudaGraphLaunch>),
	    address(launchGraph<launch_cudaGraphLaunch_ptsz>),
	    address(unregister),
	    address(unload),
	};
	if (autoamp_front_divert)
		autoamp_front_divert(functions);
}

} // namespace autoamp::core
