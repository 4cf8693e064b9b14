// Products of operands wherever a program may keep them, through every door, eager and captured; of operands that
// overlap; and of two devices. One case a line; see harness.h for the command line.
#include "harness.h"

#include <cstdlib>
#include <cuda.h>

using namespace client;

namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
constexpr double worst = 4e-3; // of the least exact type that a product may be computed in

// ---- kinds of memory

#define TAKE(call)                                                                                                     \
	[](size_t bytes) {                                                                                                 \
		void *memory = nullptr;                                                                                        \
		CHECK(call);                                                                                                   \
		return memory;                                                                                                 \
	}

template <auto function>
void given(void *memory)
{
	CHECK(function(memory));
}

constexpr size_t page = 4096;

void *takeRegistered(size_t bytes)
{
	bytes = (bytes + page - 1) / page * page;
	void *const memory = std::aligned_alloc(page, bytes);
	CHECK(cudaHostRegister(memory, bytes, cudaHostRegisterMapped));
	return memory;
}

void giveRegistered(void *memory)
{
	CHECK(cudaHostUnregister(memory));
	std::free(memory);
}

constexpr size_t pitch = 512; // of every device so far, for a row that is no longer

void *takePitched(size_t bytes)
{
	void *memory = nullptr;
	size_t given = 0;
	CHECK(cudaMallocPitch(&memory, &given, pitch - 100, (bytes + pitch - 1) / pitch));
	if (given != pitch)
		fail("cudaMallocPitch", "another pitch");
	return memory;
}

void *takeFromPool(size_t bytes)
{
	void *memory = nullptr;
	CHECK(cudaMallocAsync(&memory, bytes, cudaStreamPerThread));
	CHECK(cudaStreamSynchronize(cudaStreamPerThread));
	return memory;
}

void giveToPool(void *memory)
{
	CHECK(cudaFreeAsync(memory, cudaStreamPerThread));
}

template <typename Function, typename... Arguments>
void driver(Function *, const char *name, Arguments... arguments)
{
	void *function = nullptr;
	cudaDriverEntryPointQueryResult found = {};
	CHECK(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &found));
	if (found != cudaDriverEntryPointSuccess || reinterpret_cast<Function *>(function)(arguments...) != CUDA_SUCCESS)
		fail(name, "refused");
}
#define DRIVER(name, ...) driver(name, #name, __VA_ARGS__)

constexpr size_t grain = 2 << 20; // of every device so far
std::vector<void *> spareMappings;

void *takeMapped(size_t bytes)
{
	if (bytes > grain)
		fail("takeMapped", "too large");
	if (!spareMappings.empty()) {
		void *const memory = spareMappings.back();
		spareMappings.pop_back();
		return memory;
	}
	CUmemAllocationProp properties = {};
	properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
	CUmemGenericAllocationHandle physical = 0;
	CUdeviceptr address = 0;
	DRIVER(cuMemCreate, &physical, grain, &properties, 0ull);
	DRIVER(cuMemAddressReserve, &address, grain, size_t{0}, CUdeviceptr{0}, 0ull);
	DRIVER(cuMemMap, address, grain, size_t{0}, physical, 0ull);
	DRIVER(cuMemRelease, physical); // lives as long as the mapping
	CUmemAccessDesc access = {};
	access.location = properties.location;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	DRIVER(cuMemSetAccess, address, grain, &access, size_t{1});
	return reinterpret_cast<void *>(address);
}

void giveMapped(void *memory)
{
	spareMappings.push_back(memory);
}

// Of the other device. Peer access is for memory of that device's own making, so a product of this one may have it.
void *takeFromPeer(size_t bytes)
{
	void *memory = nullptr;
	CHECK(cudaSetDevice(1));
	CHECK(cudaMalloc(&memory, bytes));
	CHECK(cudaSetDevice(0));
	return memory;
}

const struct {
	const char *name;
	Home home;
} homes[] = {
    {"malloc", {TAKE(cudaMalloc(&memory, bytes)), given<cudaFree>}},
    {"managed", {TAKE(cudaMallocManaged(&memory, bytes)), given<cudaFree>}},
    {"pinned", {TAKE(cudaMallocHost(&memory, bytes)), given<cudaFreeHost>}},
    {"registered", {takeRegistered, giveRegistered}},
    {"pitched", {takePitched, given<cudaFree>}},
    {"pool", {takeFromPool, giveToPool}},
    {"mapped", {takeMapped, giveMapped}},
    {"peer", {takeFromPeer, given<cudaFree>}},
};

// ---- the table

// A door is a row; its `_64` twin is in the same cells. `batch`: the matrices of a call.
const struct {
	const char *name;
	Door door;
	bool hasTwin;
	int batch;
} doors[] = {
    {"sgemm", Door::sgemm, true, 1},
    {"sgemm_ex", Door::sgemmEx, true, 1},
    {"gemm_ex", Door::gemmEx, true, 1},
    {"sgemm_strided", Door::sgemmStridedBatched, true, 2},
    {"gemm_strided_ex", Door::gemmStridedBatchedEx, true, 2},
    {"sgemm_batched", Door::sgemmBatched, true, 2},
    {"gemm_batched_ex", Door::gemmBatchedEx, true, 2},
    {"lt", Door::ltMatmul, false, 1},
};

bool hasPeer()
{
	int count = 0, can = 0;
	CHECK(cudaGetDeviceCount(&count));
	if (count > 1)
		CHECK(cudaDeviceCanAccessPeer(&can, 0, 1));
	if (!can)
		return false;
	const cudaError_t status = cudaDeviceEnablePeerAccess(1, 0);
	if (status != cudaErrorPeerAccessAlreadyEnabled)
		CHECK(status);
	return cudaGetLastError() || true;
}

// One cell: eager and captured, the same bits both times.
void cell(const Spec &spec, Line &line)
{
	static Session &session = *new Session;
	static const bool isWarm = [] { // what is captured first would not be lowered
		Problem first({.m = 32, .n = 32, .k = 32});
		first.upload();
		CHECK(cudaDeviceSynchronize());
		return first.call(session.handle) == 0 && cudaStreamSynchronize(session.stream) == cudaSuccess;
	}();
	line.require(isWarm, "the first product failed");
	Problem problem(spec);
	problem.runOn(session, line);
	const uint64_t eager = problem.result().array.bits();
	problem.restore();
	problem.upload();
	CHECK(cudaDeviceSynchronize());
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	line.put("captured_status", problem.call(session.handle, session.light));
	CHECK(cudaStreamEndCapture(session.stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphLaunch(executable, session.stream));
	CHECK(cudaStreamSynchronize(session.stream));
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	problem.download();
	line.require(problem.result().array.bits() == eager, "captured bits differ from eager ones");
	line.require(problem.isPaddingWhole(), "memory outside the matrices changed");
	line.put("transa", spec.transa == T ? "T" : "N").put("transb", spec.transb == T ? "T" : "N");
}

std::vector<Case> table()
{
	std::vector<Case> cases;
	for (const auto &door : doors)
		for (size_t kind = 0; kind < std::size(homes); kind++)
			for (const bool hasDeviceScalars : {false, true})
				for (const cublasOperation_t transa : {N, T})
					for (const cublasOperation_t transb : {N, T})
						for (int twin = 0; twin <= door.hasTwin; twin++) {
							Spec spec = {.door = door.door, .is64 = twin == 1, .n = 34, .k = 40, .batch = door.batch};
							spec.m = 35 + 2 * static_cast<int>(kind) + hasDeviceScalars; // a report's rows apart
							spec.transa = transa, spec.transb = transb;
							spec.padA = 1, spec.padB = 3, spec.padC = 5, spec.gap = 7;
							const Home *const where = &homes[kind].home;
							if (where->take == takePitched) { // columns begin where the rows of such memory do
								const int columns = pitch / sizeof(float);
								spec.padA = columns - (transa == T ? spec.k : spec.m);
								spec.padB = columns - (transb == T ? spec.n : spec.k);
								spec.padC = columns - spec.m;
								spec.gap = 0;
							}
							spec.alpha = -0.75f, spec.beta = 0.5f, spec.hasDeviceScalars = hasDeviceScalars;
							std::string name = std::string("table.") + door.name + (twin ? "_64" : "") + "." +
							                   homes[kind].name + (hasDeviceScalars ? ".device." : ".host.") +
							                   (transa == T ? "t" : "n") + (transb == T ? "t" : "n");
							cases.push_back({std::move(name), [spec, where](Line &line) {
								                 if (where->take == takeFromPeer && !hasPeer()) {
									                 line.put("skipped", "no_peer");
									                 return;
								                 }
								                 const Home *const before = std::exchange(home, where);
								                 cell(spec, line);
								                 home = before;
							                 }});
						}
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, table());
}
