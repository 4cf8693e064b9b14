// Small clients, each wrong in one way (`controls NAME wrong`) or right (`controls NAME right`). A client exits with 0
// if its results are correct; controls.py verifies that the wrong ones do not. `controls` lists them.
#include "controls.h"
#include "kernels.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <thread>
#include <vector>

extern "C" unsigned long autoamp_emulated_misuses();

namespace {

constexpr int count = 1000;
constexpr size_t bytes = count * sizeof(float);
bool failed = false;

// A call that must succeed.
void ok(cudaError_t error)
{
	failed |= error != cudaSuccess;
}

float *device(size_t size = bytes)
{
	float *out = nullptr;
	ok(cudaMalloc(reinterpret_cast<void **>(&out), size));
	return out;
}

float *pinned()
{
	float *out = nullptr;
	ok(cudaMallocHost(reinterpret_cast<void **>(&out), bytes));
	return out;
}

cudaStream_t stream(unsigned flags = cudaStreamNonBlocking)
{
	cudaStream_t out = nullptr;
	ok(cudaStreamCreateWithFlags(&out, flags));
	return out;
}

cudaEvent_t event()
{
	cudaEvent_t out = nullptr;
	ok(cudaEventCreateWithFlags(&out, cudaEventDisableTiming));
	return out;
}

// Every element of device memory, read after all work is complete.
bool holds(const float *from, float value)
{
	std::vector<float> host(count);
	ok(cudaDeviceSynchronize());
	ok(cudaMemcpy(host.data(), from, bytes, cudaMemcpyDefault));
	for (const float element : host)
		if (!(element == value))
			return false;
	return true;
}

cudaGraphExec_t instantiated(cudaStream_t captured)
{
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	ok(cudaStreamEndCapture(captured, &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphDestroy(graph));
	return exec;
}

// ---- memory

bool readsDeviceMemoryOnHost(bool right)
{
	float *a = device();
	ok(fill(a, 1, count));
	ok(cudaDeviceSynchronize());
	return right ? holds(a, 1) : *static_cast<volatile float *>(a) == 1;
}

bool givesKernelHostMemory(bool right)
{
	std::vector<float> host(count);
	float *a = right ? device() : host.data();
	ok(fill(a, 1, count));
	return holds(a, 1);
}

bool fillsHostMemory(bool right)
{
	std::vector<float> host(count);
	ok(cudaMemset(right ? device() : host.data(), 0, bytes));
	return true;
}

bool mistakesCopyDirection(bool right)
{
	std::vector<float> host(count);
	ok(cudaMemcpy(device(), host.data(), bytes, right ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost));
	return true;
}

bool countsOnZeros(bool right)
{
	float *a = device();
	if (right)
		ok(cudaMemset(a, 0, bytes));
	float *b = device();
	ok(fill(b, 1, count));
	ok(add(b, a, count));
	return holds(b, 1);
}

bool writesPastTheEnd(bool right)
{
	float *a = device();
	ok(fill(a, 1, right ? count : count + 128));
	return holds(a, 1);
}

bool copiesPastTheEnd(bool right)
{
	std::vector<float> host(count + 1);
	ok(cudaMemcpy(host.data(), device(), bytes + (right ? 0 : 4), cudaMemcpyDeviceToHost));
	return true;
}

bool copiesRectanglePastTheEnd(bool right)
{
	std::vector<float> host(count);
	size_t pitch = 0;
	void *a = nullptr;
	ok(cudaMallocPitch(&a, &pitch, 40, 10));
	ok(cudaMemcpy2DAsync(a, pitch, host.data(), 40, 40, right ? 10 : 11, cudaMemcpyHostToDevice, nullptr));
	ok(cudaDeviceSynchronize());
	return true;
}

bool usesFreedMemory(bool right)
{
	float *a = device(), *b = device();
	ok(fill(a, 1, count));
	if (!right)
		ok(cudaFree(a));
	ok(fill(b, 1, count));
	ok(add(b, a, count));
	return holds(b, 2);
}

bool freesTwice(bool right)
{
	float *a = device();
	ok(cudaFree(a));
	if (!right)
		ok(cudaFree(a));
	return true;
}

bool usesPeerWithoutAccess(bool right)
{
	ok(cudaSetDevice(1));
	float *a = device();
	ok(cudaSetDevice(0));
	if (right)
		ok(cudaDeviceEnablePeerAccess(1, 0));
	ok(fill(a, 1, count));
	return holds(a, 1);
}

bool usesPeerAfterItsAccessEnded(bool right)
{
	ok(cudaSetDevice(1));
	float *a = device();
	ok(cudaSetDevice(0));
	ok(cudaDeviceEnablePeerAccess(1, 0));
	ok(fill(a, 0, count));
	ok(cudaDeviceSynchronize());
	if (!right)
		ok(cudaDeviceDisablePeerAccess(1));
	ok(fill(a, 1, count));
	return holds(a, 1);
}

float *managed(size_t size = bytes)
{
	float *out = nullptr;
	ok(cudaMallocManaged(reinterpret_cast<void **>(&out), size));
	return out;
}

bool writesPastManagedMemory(bool right)
{
	float *a = managed(400);
	ok(fill(a, 1, right ? 100 : 100 + 128));
	ok(cudaDeviceSynchronize());
	return a[99] == 1;
}

bool countsOnZerosInManagedMemory(bool right)
{
	float *a = managed(), *b = device();
	if (right)
		memset(a, 0, bytes);
	ok(fill(b, 1, count));
	ok(add(b, a, count));
	return holds(b, 1);
}

bool readsManagedMemoryWithoutWaiting(bool right)
{
	float *a = managed();
	a[0] = 0;
	ok(fill(a, 1, count));
	if (right)
		ok(cudaDeviceSynchronize());
	return *static_cast<volatile float *>(a) == 1;
}

bool usesManagedMemoryAfterFree(bool right)
{
	float *a = managed();
	a[0] = 1;
	if (!right)
		ok(cudaFree(a));
	return *static_cast<volatile float *>(a) == 1;
}

bool usesHostMemoryAfterUnregistering(bool right)
{
	static float host[count];
	ok(cudaHostRegister(host, bytes, cudaHostRegisterDefault));
	if (!right)
		ok(cudaHostUnregister(host));
	ok(fill(host, 1, count));
	return holds(host, 1);
}

// Peer access applies to ordinary memory; a pool has its own access.
bool usesPoolOfPeer(bool right)
{
	cudaMemPool_t pool = nullptr;
	float *a = nullptr;
	ok(cudaSetDevice(1));
	ok(cudaDeviceGetDefaultMemPool(&pool, 1));
	ok(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, nullptr));
	ok(cudaDeviceSynchronize());
	ok(cudaSetDevice(0));
	ok(cudaDeviceEnablePeerAccess(1, 0));
	const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, {0}}, cudaMemAccessFlagsProtReadWrite};
	if (right)
		ok(cudaMemPoolSetAccess(pool, &access, 1));
	ok(fill(a, 1, count));
	return holds(a, 1);
}

// Memory is on the device of its pool, also if it is allocated on a stream of another device.
bool allocatesFromPoolOfPeer(bool right)
{
	cudaMemPool_t pool = nullptr;
	float *a = nullptr;
	ok(cudaDeviceGetDefaultMemPool(&pool, 1));
	const cudaMemAccessDesc access{{cudaMemLocationTypeDevice, {0}}, cudaMemAccessFlagsProtReadWrite};
	if (right)
		ok(cudaMemPoolSetAccess(pool, &access, 1));
	ok(cudaMallocFromPoolAsync(reinterpret_cast<void **>(&a), bytes, pool, nullptr));
	ok(fill(a, 1, count));
	return holds(a, 1);
}

void driver(CUresult error)
{
	failed |= error != CUDA_SUCCESS;
}

constexpr size_t grain = 2 << 20;

// Two grains mapped one after the other; access to the first, or to both.
CUdeviceptr mapped(bool all)
{
	CUmemAllocationProp wanted{};
	wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	wanted.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
	const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {0}}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr base = 0;
	ok(cudaFree(nullptr));
	driver(cuMemAddressReserve(&base, 2 * grain, 0, 0, 0));
	for (int i = 0; i < 2; ++i) {
		CUmemGenericAllocationHandle memory = 0;
		driver(cuMemCreate(&memory, grain, &wanted, 0));
		driver(cuMemMap(base + size_t(i) * grain, grain, 0, memory, 0));
		driver(cuMemRelease(memory));
	}
	driver(cuMemSetAccess(base, all ? 2 * grain : grain, &access, 1));
	return base;
}

bool usesMappingWithoutAccess(bool right)
{
	auto *a = reinterpret_cast<float *>(mapped(right) + grain);
	ok(fill(a, 1, count));
	return holds(a, 1);
}

bool copiesAcrossMappingsWithoutAccess(bool right)
{
	std::vector<float> host(count, 1);
	auto *a = reinterpret_cast<float *>(mapped(right) + grain - bytes / 2);
	ok(cudaMemcpy(a, host.data(), bytes, cudaMemcpyHostToDevice));
	return holds(a, 1);
}

// Unmapping does not wait for work.
bool unmapsWhileInUse(bool right)
{
	cudaStream_t s = stream();
	const CUdeviceptr a = mapped(true);
	float *b = device();
	ok(fill(reinterpret_cast<float *>(a), 1, count, s));
	ok(cudaMemcpyAsync(b, reinterpret_cast<float *>(a), bytes, cudaMemcpyDeviceToDevice, s));
	if (right)
		ok(cudaStreamSynchronize(s));
	driver(cuMemUnmap(a, 2 * grain));
	return holds(b, 1);
}

bool keepsHandlesOverReset(bool right)
{
	cudaStream_t s = stream();
	float *a = device();
	if (!right)
		ok(cudaDeviceReset());
	ok(fill(a, 1, count, s));
	return holds(a, 1);
}

// ---- stream order

bool usesMemoryFreedInStream(bool right)
{
	cudaStream_t s = stream();
	float *a = nullptr, *b = device();
	ok(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, s));
	ok(fill(a, 1, count, s));
	ok(fill(b, 1, count, s));
	if (!right)
		ok(cudaFreeAsync(a, s));
	ok(add(b, a, count, s));
	return holds(b, 2);
}

// There is no order between the other stream and the free.
bool freesWhileOtherStreamUses(bool right)
{
	cudaStream_t s = stream(), other = stream();
	cudaEvent_t done = event(), used = event();
	float *a = nullptr, *b = device();
	ok(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, s));
	ok(fill(a, 1, count, s));
	ok(fill(b, 1, count, other));
	ok(cudaEventRecord(done, s));
	ok(cudaStreamWaitEvent(other, done, 0));
	ok(add(b, a, count, other));
	ok(cudaEventRecord(used, other));
	if (right)
		ok(cudaStreamWaitEvent(s, used, 0));
	ok(cudaFreeAsync(a, s));
	ok(cudaStreamSynchronize(s));
	return holds(b, 2);
}

// Submitted after the free, on a stream that happens to run first.
bool usesMemoryFreedInOtherStream(bool right)
{
	cudaStream_t s = stream(), other = stream();
	float *a = nullptr, *b = device();
	ok(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, s));
	ok(fill(a, 1, count, s));
	ok(cudaStreamSynchronize(s));
	if (!right)
		ok(cudaFreeAsync(a, s));
	ok(fill(b, 1, count, other));
	ok(add(b, a, count, other));
	ok(cudaStreamSynchronize(other));
	return holds(b, 2);
}

bool usesMemoryBeforeItsStreamHasIt(bool right)
{
	cudaStream_t s = stream(), other = stream();
	cudaEvent_t there = event();
	float *a = nullptr;
	ok(cudaMallocAsync(reinterpret_cast<void **>(&a), bytes, s));
	ok(cudaEventRecord(there, s));
	if (right)
		ok(cudaStreamWaitEvent(other, there, 0));
	ok(fill(a, 1, count, other));
	ok(cudaStreamSynchronize(other));
	return holds(a, 1);
}

bool forgetsEventBetweenStreams(bool right)
{
	cudaStream_t producer = stream(), consumer = stream();
	cudaEvent_t produced = event();
	float *a = device(), *b = device();
	ok(fill(a, 1, count));
	ok(cudaDeviceSynchronize());
	ok(fill(a, 2, count, producer));
	ok(cudaEventRecord(produced, producer));
	if (right)
		ok(cudaStreamWaitEvent(consumer, produced, 0));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, consumer));
	ok(cudaStreamSynchronize(consumer));
	return holds(b, 2);
}

bool recordsEventTooEarly(bool right)
{
	cudaStream_t producer = stream(), consumer = stream();
	cudaEvent_t produced = event();
	float *a = device(), *b = device();
	ok(cudaMemset(a, 0, bytes));
	ok(cudaDeviceSynchronize());
	if (!right)
		ok(cudaEventRecord(produced, producer));
	ok(fill(a, 2, count, producer));
	if (right)
		ok(cudaEventRecord(produced, producer));
	ok(cudaStreamWaitEvent(consumer, produced, 0));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, consumer));
	ok(cudaStreamSynchronize(consumer));
	return holds(b, 2);
}

// A non-blocking stream is not ordered by the default stream.
bool countsOnDefaultStream(bool right)
{
	cudaStream_t s = stream(right ? cudaStreamDefault : cudaStreamNonBlocking);
	float *a = device(), *b = device();
	ok(fill(a, 1, count));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, s));
	ok(cudaStreamSynchronize(s));
	return holds(b, 1);
}

bool readsResultWithoutWaiting(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *host = pinned();
	memset(host, 0, bytes);
	ok(fill(a, 1, count, s));
	ok(cudaMemcpyAsync(host, a, bytes, cudaMemcpyDeviceToHost, s));
	if (right)
		ok(cudaStreamSynchronize(s));
	return host[0] == 1;
}

bool reusesPinnedSourceTooEarly(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *host = pinned();
	for (int i = 0; i < count; ++i)
		host[i] = 1;
	ok(cudaMemcpyAsync(a, host, bytes, cudaMemcpyHostToDevice, s));
	if (right)
		ok(cudaStreamSynchronize(s));
	memset(host, 0, bytes);
	return holds(a, 1);
}

bool callsCudaInHostFunction(bool right)
{
	cudaStream_t s = stream();
	const auto wrong = [](void *) {
		void *a = nullptr;
		cudaMalloc(&a, 16);
	};
	ok(cudaLaunchHostFunc(s, right ? [](void *) {} : static_cast<cudaHostFn_t>(wrong), nullptr));
	ok(cudaStreamSynchronize(s));
	return autoamp_emulated_misuses() == 0;
}

// ---- capture, graphs

bool allocatesInGlobalCapture(bool right)
{
	cudaStream_t s = stream();
	float *a = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	if (!right) {
		void *b = nullptr;
		cudaMalloc(&b, 16); // the client does not check the status
	}
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(a, 1);
}

bool allocatesWhileOtherThreadCaptures(bool right)
{
	cudaStream_t s = stream();
	float *a = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	std::thread([right] {
		cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
		if (right)
			ok(cudaThreadExchangeStreamCaptureMode(&mode));
		void *b = nullptr;
		cudaMalloc(&b, 16);
	}).join();
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(a, 1);
}

bool synchronizesCapturingStream(bool right)
{
	cudaStream_t s = stream();
	float *a = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	ok(fill(a, 1, count, s));
	if (!right)
		cudaStreamSynchronize(s);
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(a, 1);
}

bool usesDefaultStreamInCapture(bool right)
{
	cudaStream_t s = stream(right ? cudaStreamNonBlocking : cudaStreamDefault);
	float *a = device(), *b = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
	ok(fill(a, 1, count, s));
	ok(fill(b, 1, count));
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(a, 1);
}

// The captured copy needs the result of the other branch.
bool forgetsEdgeInGraph(bool right)
{
	cudaStream_t s = stream(), branch = stream();
	cudaEvent_t begin = event(), produced = event(), joined = event();
	float *a = device(), *b = device();
	ok(cudaMemset(a, 0, bytes));
	ok(cudaDeviceSynchronize());
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(cudaEventRecord(begin, s));
	ok(cudaStreamWaitEvent(branch, begin, 0));
	ok(fill(a, 1, count, s));
	ok(cudaEventRecord(produced, s));
	if (right)
		ok(cudaStreamWaitEvent(branch, produced, 0));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, branch));
	ok(cudaEventRecord(joined, branch));
	ok(cudaStreamWaitEvent(s, joined, 0));
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(b, 1);
}

// Two branches that each need their memory for two steps: they conflict only if their steps alternate.
bool sharesMemoryBetweenBranches(bool right)
{
	cudaStream_t s = stream(), branch = stream();
	cudaEvent_t begin = event(), joined = event();
	float *own = device(), *other = right ? device() : own, *a = device(), *b = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(cudaEventRecord(begin, s));
	ok(cudaStreamWaitEvent(branch, begin, 0));
	ok(fill(own, 1, count, s));
	ok(cudaMemcpyAsync(a, own, bytes, cudaMemcpyDeviceToDevice, s));
	ok(fill(other, 2, count, branch));
	ok(cudaMemcpyAsync(b, other, bytes, cudaMemcpyDeviceToDevice, branch));
	ok(cudaEventRecord(joined, branch));
	ok(cudaStreamWaitEvent(s, joined, 0));
	cudaGraphExec_t exec = instantiated(s);
	bool content = true;
	for (int i = 0; i < 2; ++i) {
		ok(cudaGraphLaunch(exec, s));
		content = holds(a, 1) && holds(b, 2) && content;
	}
	return content;
}

// The copy needs the result of the node two steps before it; one of the two edges to that node may be removed.
bool cutsTheOnlyEdge(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *b = device(), *c = device();
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t exec = nullptr;
	cudaGraphNode_t nodes[2];
	const auto last = [&] {
		cudaStreamCaptureStatus status = {};
		const cudaGraphNode_t *found = nullptr;
		size_t number = 0;
		ok(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &found, nullptr, &number));
		return *found;
	};
	ok(fill(a, 0, count));
	ok(cudaDeviceSynchronize());
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	nodes[0] = last();
	ok(fill(c, 1, count, s));
	nodes[1] = last();
	if (right)
		ok(cudaStreamUpdateCaptureDependencies(s, &nodes[0], nullptr, 1, cudaStreamAddCaptureDependencies));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, s));
	ok(cudaStreamEndCapture(s, &graph));
	ok(cudaGraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphLaunch(exec, s));
	return holds(b, 1);
}

bool leavesBranchUnjoined(bool right)
{
	cudaStream_t s = stream(), branch = stream();
	cudaEvent_t begin = event(), joined = event();
	float *a = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(cudaEventRecord(begin, s));
	ok(cudaStreamWaitEvent(branch, begin, 0));
	ok(fill(a, 1, count, branch));
	ok(cudaEventRecord(joined, branch));
	if (right)
		ok(cudaStreamWaitEvent(s, joined, 0));
	ok(cudaGraphLaunch(instantiated(s), s));
	return holds(a, 1);
}

bool freesMemoryOfGraph(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *b = device();
	ok(fill(a, 1, count));
	ok(fill(b, 1, count));
	ok(cudaDeviceSynchronize());
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(add(b, a, count, s));
	cudaGraphExec_t exec = instantiated(s);
	ok(cudaGraphLaunch(exec, s));
	ok(cudaStreamSynchronize(s));
	if (!right)
		ok(cudaFree(a));
	ok(cudaGraphLaunch(exec, s));
	return holds(b, 3);
}

// Assumes that an executable graph can be updated to any other graph.
bool ignoresThatAnUpdateFailed(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *b = device();
	cudaGraph_t graph = nullptr;
	cudaGraphExecUpdateResultInfo info;
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	cudaGraphExec_t exec = instantiated(s);
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 2, count, s));
	ok(fill(b, 2, count, s));
	ok(cudaStreamEndCapture(s, &graph));
	if (cudaGraphExecUpdate(exec, graph, &info) != cudaSuccess && right)
		ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphLaunch(exec, s));
	return holds(a, 2);
}

bool forgetsDependencyOfChildGraph(bool right)
{
	cudaStream_t s = stream();
	float *a = device(), *b = device();
	cudaGraph_t graph = nullptr, part = nullptr;
	cudaGraphNode_t first = nullptr, second = nullptr;
	cudaGraphExec_t exec = nullptr;
	ok(cudaGraphCreate(&graph, 0));
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	ok(cudaStreamEndCapture(s, &part));
	ok(cudaGraphAddChildGraphNode(&first, graph, nullptr, 0, part));
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(cudaMemcpyAsync(b, a, bytes, cudaMemcpyDeviceToDevice, s));
	ok(cudaStreamEndCapture(s, &part));
	ok(cudaGraphAddChildGraphNode(&second, graph, &first, right ? 1 : 0, part));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphLaunch(exec, s));
	return holds(b, 1);
}

bool launchesDestroyedExec(bool right)
{
	cudaStream_t s = stream();
	float *a = device();
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	cudaGraphExec_t exec = instantiated(s); // the graph is destroyed, too
	if (!right)
		ok(cudaGraphExecDestroy(exec));
	ok(cudaGraphLaunch(exec, s));
	return holds(a, 1);
}

bool callsCudaInDestructor(bool right)
{
	static std::atomic<bool> gone{false};
	const auto wrong = [](void *memory) {
		cudaFree(memory);
		gone = true;
	};
	cudaStream_t s = stream();
	cudaUserObject_t object = nullptr;
	float *a = device();
	ok(cudaUserObjectCreate(&object, a, right ? [](void *) { gone = true; } : static_cast<cudaHostFn_t>(wrong), 1,
	                        cudaUserObjectNoDestructorSync));
	cudaGraph_t graph = nullptr;
	ok(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	ok(fill(a, 1, count, s));
	ok(cudaStreamEndCapture(s, &graph));
	ok(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
	ok(cudaGraphDestroy(graph));
	while (!gone)
		std::this_thread::yield();
	return autoamp_emulated_misuses() == 0;
}

constexpr struct {
	const char *name;
	bool (*run)(bool right);
} controls[] = {
    CONTROL(readsDeviceMemoryOnHost),
    CONTROL(givesKernelHostMemory),
    CONTROL(fillsHostMemory),
    CONTROL(mistakesCopyDirection),
    CONTROL(countsOnZeros),
    CONTROL(writesPastTheEnd),
    CONTROL(copiesPastTheEnd),
    CONTROL(copiesRectanglePastTheEnd),
    CONTROL(usesFreedMemory),
    CONTROL(freesTwice),
    CONTROL(usesPeerWithoutAccess),
    CONTROL(usesPeerAfterItsAccessEnded),
    CONTROL(writesPastManagedMemory),
    CONTROL(countsOnZerosInManagedMemory),
    CONTROL(readsManagedMemoryWithoutWaiting),
    CONTROL(usesManagedMemoryAfterFree),
    CONTROL(usesHostMemoryAfterUnregistering),
    CONTROL(usesPoolOfPeer),
    CONTROL(allocatesFromPoolOfPeer),
    CONTROL(usesMappingWithoutAccess),
    CONTROL(copiesAcrossMappingsWithoutAccess),
    CONTROL(unmapsWhileInUse),
    CONTROL(keepsHandlesOverReset),
    CONTROL(usesMemoryFreedInStream),
    CONTROL(freesWhileOtherStreamUses),
    CONTROL(usesMemoryFreedInOtherStream),
    CONTROL(usesMemoryBeforeItsStreamHasIt),
    CONTROL(forgetsEventBetweenStreams),
    CONTROL(recordsEventTooEarly),
    CONTROL(countsOnDefaultStream),
    CONTROL(readsResultWithoutWaiting),
    CONTROL(reusesPinnedSourceTooEarly),
    CONTROL(callsCudaInHostFunction),
    CONTROL(allocatesInGlobalCapture),
    CONTROL(allocatesWhileOtherThreadCaptures),
    CONTROL(synchronizesCapturingStream),
    CONTROL(usesDefaultStreamInCapture),
    CONTROL(forgetsEdgeInGraph),
    CONTROL(sharesMemoryBetweenBranches),
    CONTROL(cutsTheOnlyEdge),
    CONTROL(leavesBranchUnjoined),
    CONTROL(freesMemoryOfGraph),
    CONTROL(ignoresThatAnUpdateFailed),
    CONTROL(forgetsDependencyOfChildGraph),
    CONTROL(launchesDestroyedExec),
    CONTROL(callsCudaInDestructor),
};

} // namespace

int main(int argc, char **argv)
{
	return runControl(argc, argv, controls, [](const auto &row, bool isRight) { return row.run(isRight) && !failed; });
}
