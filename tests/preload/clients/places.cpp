// Products of operands in every kind of memory, through every entry point, eager and captured; of operands that
// overlap; and on two devices. One case per line; see harness.h for the command line.
#include "harness.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cuda.h>
#include <memory>
#include <thread>
#include <utility>

using namespace client;

namespace {

constexpr cublasOperation_t N = CUBLAS_OP_N, T = CUBLAS_OP_T;
constexpr double worst = 4e-3; // for the least exact type in which a product may be computed

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

constexpr size_t pitch = 512; // on all devices so far, for rows up to this length

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

constexpr size_t grain = 2 << 20; // on all devices so far
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
	DRIVER(cuMemRelease, physical); // remains allocated as long as the mapping
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

// Memory of the other device.
void *takeFromPeer(size_t bytes)
{
	int device = 0;
	void *memory = nullptr;
	CHECK(cudaGetDevice(&device));
	CHECK(cudaSetDevice(1 - device));
	CHECK(cudaMalloc(&memory, bytes));
	CHECK(cudaSetDevice(device));
	return memory;
}

// Gives this device access to the other one's memory, if there is another one and it can.
bool hasPeer()
{
	int count = 0, device = 0, can = 0;
	CHECK(cudaGetDeviceCount(&count));
	CHECK(cudaGetDevice(&device));
	if (count > 1)
		CHECK(cudaDeviceCanAccessPeer(&can, device, 1 - device));
	if (can && cudaDeviceEnablePeerAccess(1 - device, 0) == cudaErrorPeerAccessAlreadyEnabled)
		cudaGetLastError();
	return can;
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

// An entry point is a row; its `_64` variant is in the same cells.
const struct {
	const char *name;
	bool hasTwin;
	Spec spec;
} doors[] = {
    {"sgemm", true, {.door = Interception::sgemm}},
    {"sgemm_ex", true, {.door = Interception::sgemmEx}},
    {"gemm_ex", true, {.door = Interception::gemmEx}},
    {"sgemm_strided", true, {.door = Interception::sgemmStridedBatched, .batch = 2}},
    {"gemm_strided_ex", true, {.door = Interception::gemmStridedBatchedEx, .batch = 2}},
    {"sgemm_batched", true, {.door = Interception::sgemmBatched, .batch = 2}},
    {"gemm_batched_ex", true, {.door = Interception::gemmBatchedEx, .batch = 2}},
    {"lt", false, {.door = Interception::ltMatmul}},
    {"lt_bias", false, {.door = Interception::ltMatmul, .epilogue = CUBLASLT_EPILOGUE_RELU_BIAS, .hasOwnD = true}},
    {"lt_rows", false, {.door = Interception::ltMatmul, .isRowA = true, .isRowB = true, .isRowD = true}},
    {"lt_strided", false, {.door = Interception::ltMatmul, .batch = 2}},
    {"lt_arrays", false, {.door = Interception::ltMatmul, .batch = 2, .areArrays = true}},
};

// One cell: eager and captured.
void cell(const Spec &spec, Line &line)
{
	static Session &session = *new Session;
	static const bool isWarm = [] { // a call that is captured first would not be lowered
		Problem first({.m = 32, .n = 32, .k = 32});
		first.upload();
		CHECK(cudaDeviceSynchronize());
		return first.call(session.handle) == 0 && cudaStreamSynchronize(session.stream) == cudaSuccess;
	}();
	line.require(isWarm, "the first product failed");
	Problem problem(spec);
	problem.runOn(session, line);
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
	line.bits("captured_bits", problem.result().array.bits());
	line.require(problem.isPaddingWhole(), "memory outside the matrices changed");
	line.put("transa", spec.transa == T ? "T" : "N").put("transb", spec.transb == T ? "T" : "N");
}

std::vector<Case> table()
{
	std::vector<Case> cases;
	for (const auto &door : doors)
		for (const auto &kind : homes)
			for (int bits = 0; bits < (door.hasTwin ? 16 : 8); bits++) {
				Spec spec = door.spec;
				spec.transa = bits & 1 ? T : N, spec.transb = bits & 2 ? T : N;
				spec.hasDeviceScalars = bits & 4, spec.is64 = bits & 8;
				spec.m = 35 + 2 * static_cast<int>(&kind - homes) + spec.hasDeviceScalars; // distinct rows in a report
				spec.n = 34 + static_cast<int>(&door - doors), spec.k = 40;
				spec.alpha = -0.75f, spec.beta = 0.5f;
				spec.padA = 1, spec.padB = 3, spec.padC = 5, spec.gap = 7;
				const Home *const where = &kind.home;
				if (where->take == takePitched) { // lines begin at the pitch of such memory
					const int line = pitch / sizeof(float);
					spec.padA = line - ((spec.transa == T) != spec.isRowA ? spec.k : spec.m);
					spec.padB = line - ((spec.transb == T) != spec.isRowB ? spec.n : spec.k);
					spec.padC = line - (spec.isRowD ? spec.n : spec.m);
					spec.gap = 0;
				}
				std::string name = std::string("table.") + door.name + (spec.is64 ? "_64." : ".") + kind.name +
				                   (spec.hasDeviceScalars ? ".device." : ".host.") + (spec.transa == T ? "t" : "n") +
				                   (spec.transb == T ? "t" : "n");
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

// ---- matrices that overlap

// Positions of the matrices in a piece of memory that all matrices of a call share, in elements.
struct View {
	size_t at;
	int64_t ld, stride = 0;
	size_t index(int64_t matrix, int64_t row, int64_t column) const
	{
		return at + static_cast<size_t>(matrix * stride + column * ld + row);
	}
};

struct Overlap {
	const char *name;
	Interception door;
	View a, b, c, d;
	int batch = 1;
	float beta = 0.5f;
	bool isDefined = true; // false: BLAS does not define the result
};

const View A = {0, 80}, B = {8000, 48}, C = {16000, 80}, D = {32000, 80};
const View manyA = {0, 80, 4000}, manyB = {24000, 48, 2400}, manyC = {32000, 80, 4000};

const Overlap overlaps[] = {
    {"same", Interception::sgemm, A, A, C, C},
    {"partial", Interception::gemmEx, A, {407, 80}, C, C},
    {"views", Interception::sgemmEx, A, {3, 131}, C, C},
    {"blocks", Interception::sgemm, {0, 400}, {100, 400}, {200, 400}, {200, 400}}, // of one matrix
    {"strided", Interception::sgemmStridedBatched, {0, 80, 40}, {3, 48, 0}, manyC, manyC, 3},
    {"side_by_side",
     Interception::sgemmStridedBatched,
     {0, 240, 80},
     {12000, 144, 48},
     {20000, 240, 80},
     {20000, 240, 80},
     3},
    {"arrays_same", Interception::sgemmBatched, A, B, manyC, manyC, 3},
    {"arrays_partial", Interception::gemmBatchedEx, {0, 80, 40}, {7, 48, 33}, manyC, manyC, 3},
    {"arrays_into_one", Interception::sgemmBatched, A, B, D, D, 2, 0},
    {"lt_in_place", Interception::ltMatmul, A, B, C, C},
    {"lt_c_is_a", Interception::ltMatmul, A, B, A, D},
    {"lt_side_by_side", Interception::ltMatmul, {0, 240, 80}, {12000, 144, 48}, {20000, 240, 80}, {32000, 240, 80}, 3},
    {"lt_c_near_b", Interception::ltMatmul, A, B, {8100, 80}, D},

    {"c_is_a", Interception::sgemm, A, B, A, A, 1, 0.5f, false},
    {"c_near_b", Interception::gemmEx, A, B, {8100, 80}, {8100, 80}, 1, 0.5f, false},
    {"strided_into_one", Interception::sgemmStridedBatched, manyA, manyB, D, D, 2, 0.5f, false},
    {"arrays_c_is_a", Interception::gemmBatchedEx, manyA, manyB, manyA, manyA, 2, 0.5f, false},
    {"arrays_others_into_one", Interception::sgemmBatched, manyA, manyB, D, D, 2, 0.5f, false},
    {"lt_d_near_c", Interception::ltMatmul, A, B, C, {16100, 80}, 1, 0.5f, false},
};

int multiply(const Overlap &row, int m, const Session &session, float *memory, const float *alpha)
{
	constexpr int n = 48, k = 48;
	const float *const a = memory + row.a.at, *const b = memory + row.b.at, *const beta = &row.beta;
	float *const c = memory + row.c.at;
	const auto lda = static_cast<int>(row.a.ld), ldb = static_cast<int>(row.b.ld), ldc = static_cast<int>(row.c.ld);
	constexpr auto f32 = CUDA_R_32F;
	constexpr auto compute = CUBLAS_COMPUTE_32F;
	constexpr auto algo = CUBLAS_GEMM_DEFAULT;
	const cublasHandle_t h = session.handle;
	switch (row.door) {
	case Interception::sgemm:
		return cublasSgemm(h, N, N, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
	case Interception::sgemmEx:
		return cublasSgemmEx(h, N, N, m, n, k, alpha, a, f32, lda, b, f32, ldb, beta, c, f32, ldc);
	case Interception::gemmEx:
		return cublasGemmEx(h, N, N, m, n, k, alpha, a, f32, lda, b, f32, ldb, beta, c, f32, ldc, compute, algo);
	case Interception::sgemmStridedBatched:
		return cublasSgemmStridedBatched(h, N, N, m, n, k, alpha, a, lda, row.a.stride, b, ldb, row.b.stride, beta, c,
		                                 ldc, row.c.stride, row.batch);
	case Interception::ltMatmul: {
		cublasLtMatmulDesc_t what = nullptr;
		cublasLtMatrixLayout_t layouts[4];
		CHECK(cublasLtMatmulDescCreate(&what, compute, f32));
		CHECK(cublasLtMatrixLayoutCreate(&layouts[0], f32, static_cast<uint64_t>(m), k, lda));
		CHECK(cublasLtMatrixLayoutCreate(&layouts[1], f32, k, n, ldb));
		CHECK(cublasLtMatrixLayoutCreate(&layouts[2], f32, static_cast<uint64_t>(m), n, ldc));
		CHECK(cublasLtMatrixLayoutCreate(&layouts[3], f32, static_cast<uint64_t>(m), n, row.d.ld));
		const View *const views[] = {&row.a, &row.b, &row.c, &row.d};
		for (int i = 0; i < 4 && row.batch > 1; i++) {
			CHECK(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &row.batch,
			                                       sizeof row.batch));
			CHECK(cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
			                                       &views[i]->stride, sizeof views[i]->stride));
		}
		const int status = cublasLtMatmul(session.light, what, alpha, a, layouts[0], b, layouts[1], beta, c, layouts[2],
		                                  memory + row.d.at, layouts[3], nullptr, nullptr, 0, session.stream);
		for (const auto layout : layouts)
			CHECK(cublasLtMatrixLayoutDestroy(layout));
		CHECK(cublasLtMatmulDescDestroy(what));
		return status;
	}
	default:
		break;
	}
	std::vector<float *> addresses;
	for (const View &view : {row.a, row.b, row.c})
		for (int i = 0; i < row.batch; i++)
			addresses.push_back(memory + view.index(i, 0, 0));
	float **arrays = nullptr; // never freed: the call may still be running
	const size_t bytes = addresses.size() * sizeof(float *);
	CHECK(cudaMalloc(reinterpret_cast<void **>(&arrays), bytes));
	CHECK(cudaMemcpy(arrays, addresses.data(), bytes, cudaMemcpyHostToDevice));
	float **const bs = arrays + row.batch, **const cs = bs + row.batch;
	if (row.door == Interception::sgemmBatched)
		return cublasSgemmBatched(h, N, N, m, n, k, alpha, arrays, lda, bs, ldb, beta, cs, ldc, row.batch);
	return cublasGemmBatchedEx(h, N, N, m, n, k, alpha, reinterpret_cast<void **>(arrays), f32, lda,
	                           reinterpret_cast<void **>(bs), f32, ldb, beta, reinterpret_cast<void **>(cs), f32, ldc,
	                           row.batch, compute, algo);
}

void overlap(const Overlap &row, int m, Line &line)
{
	Session session;
	Array memory(48000), before(48000);
	Random random(1);
	for (size_t i = 0; i < memory.size(); i++)
		memory[i] = before[i] = static_cast<float>(random.gaussian());
	memory.upload();
	CHECK(cudaDeviceSynchronize());
	const float alpha = -0.75f;
	const int status = multiply(row, m, session, memory.data(), &alpha);
	CHECK(cudaStreamSynchronize(session.stream));
	memory.download();
	double error = 0, size = 0;
	std::vector<bool> isResult(memory.size());
	for (int64_t matrix = 0; matrix < row.batch; matrix++)
		for (int64_t j = 0; j < 48; j++)
			for (int64_t i = 0; i < m; i++) {
				double product = 0;
				for (int64_t l = 0; l < 48; l++)
					product +=
					    static_cast<double>(before[row.a.index(matrix, i, l)]) * before[row.b.index(matrix, l, j)];
				product *= alpha;
				const size_t place = row.d.index(matrix, i, j);
				const double difference = memory[place] - product - row.beta * before[row.c.index(matrix, i, j)];
				error += difference * difference;
				size += product * product;
				isResult[place] = true;
				line.require(std::isfinite(memory[place]), "Inf or NaN");
			}
	for (size_t i = 0; i < memory.size(); i++)
		line.require(isResult[i] || memory[i] == before[i], "memory outside the result changed");
	line.put("entry", entryOf({.door = row.door})).put("m", m).put("n", 48).put("k", 48).put("batch", row.batch);
	line.put("status", status);
	if (row.isDefined)
		line.put("eta", std::sqrt(error / size)).bits("bits", memory.bits());
	Problem next({.m = 80}); // whatever the effect of that, the handle and the context work
	Line other("next");
	next.runOn(session, other);
	line.require(other.isOk(), "the product after it is wrong");
}

// ---- devices

// Two devices at once, one thread each, with operands on the other one.
void exchanged(Line &line)
{
	if (!hasPeer()) {
		line.put("skipped", "no_peer");
		return;
	}
	std::array<uint64_t, 2> bits{};
	std::atomic<int> wrong{0}, waiting{2};
	std::vector<std::thread> threads;
	for (int device = 0; device < 2; device++)
		threads.emplace_back([&, device] {
			CHECK(cudaSetDevice(device));
			wrong += !hasPeer();
			const Home peer = {takeFromPeer, given<cudaFree>};
			home = &peer;
			Session session;
			Problem problem({.m = 81, .alpha = -0.75f, .beta = 0.5f, .hasDeviceScalars = true});
			problem.upload();
			CHECK(cudaDeviceSynchronize());
			waiting--;
			while (waiting > 0)
				std::this_thread::yield();
			for (int turn = 0; turn < 8; turn++)
				wrong += problem.call(session.handle) != 0;
			CHECK(cudaStreamSynchronize(session.stream));
			problem.restore();
			problem.upload();
			CHECK(cudaDeviceSynchronize());
			wrong += problem.call(session.handle) != 0;
			CHECK(cudaStreamSynchronize(session.stream));
			problem.download();
			wrong += problem.compare().eta >= worst || !problem.isPaddingWhole();
			bits[static_cast<size_t>(device)] = problem.c.array.bits();
			if (device == 0)
				line.put("eta", problem.compare().eta);
		});
	for (std::thread &thread : threads)
		thread.join();
	line.bits("bits", bits[0]);
	line.require(bits[0] == bits[1], "the devices differ");
	line.require(wrong == 0, "a device had a wrong result");
}

// The other device is current, which no documentation allows: same result as without autoamp, and the device is not
// changed.
void mismatched(Line &line)
{
	int count = 0;
	CHECK(cudaGetDeviceCount(&count));
	if (count < 2) {
		line.put("skipped", "one_device");
		return;
	}
	CHECK(cudaSetDevice(1));
	Session session;
	Problem problem({.m = 83});
	Line lowered("lowered");
	problem.runOn(session, lowered);
	line.require(lowered.isOk(), "wrong result");
	CHECK(cudaSetDevice(0));
	line.put("statuses", std::to_string(problem.call(session.handle)) + "," +
	                         std::to_string(cudaStreamSynchronize(session.stream)));
	CHECK(cudaSetDevice(1));
	line.require(cudaGetLastError() == cudaSuccess, "an error is left");
	problem.runOn(session, line);
	CHECK(cudaSetDevice(0));
}

// The same in a capture, where the stream cannot be asked for its context.
void mismatchedCapture(Line &line)
{
	int count = 0;
	CHECK(cudaGetDeviceCount(&count));
	if (count < 2) {
		line.put("skipped", "one_device");
		return;
	}
	Session first; // after a call there, a captured one could be lowered
	Problem warm({.m = 85});
	Line lowered("lowered");
	warm.runOn(first, lowered);
	line.require(lowered.isOk(), "wrong result");
	CHECK(cudaSetDevice(1));
	Session session;
	Problem problem({.m = 86});
	problem.upload();
	cudaGraph_t graph = nullptr;
	CHECK(cudaStreamBeginCapture(session.stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaSetDevice(0));
	const int status = problem.call(session.handle);
	CHECK(cudaSetDevice(1));
	const cudaError_t end = cudaStreamEndCapture(session.stream, &graph);
	line.put("statuses", std::to_string(status) + "," + std::to_string(end));
	cudaGetLastError();
	if (graph)
		CHECK(cudaGraphDestroy(graph));
	problem.runOn(session, line);
	CHECK(cudaSetDevice(0));
}

// One graph of products on both, each with operands on the other.
void oneGraph(Line &line)
{
	if (!hasPeer()) {
		line.put("skipped", "no_peer");
		return;
	}
	const Home peer = {takeFromPeer, given<cudaFree>}, *const before = std::exchange(home, &peer);
	std::unique_ptr<Session> sessions[2];
	std::unique_ptr<Problem> problems[2];
	uint64_t eager[2] = {};
	for (const int device : {1, 0}) {
		CHECK(cudaSetDevice(device));
		hasPeer();
		sessions[device] = std::make_unique<Session>();
		problems[device] = std::make_unique<Problem>(Spec{.m = 82}, device);
		Problem &problem = *problems[device];
		problem.upload();
		CHECK(cudaDeviceSynchronize());
		line.require(problem.call(sessions[device]->handle) == 0, "an eager call failed");
		CHECK(cudaStreamSynchronize(sessions[device]->stream));
		problem.download();
		eager[device] = problem.c.array.bits();
	}
	const cudaStream_t stream = sessions[0]->stream, other = sessions[1]->stream;
	cudaEvent_t fork = nullptr, join = nullptr;
	CHECK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	CHECK(cudaEventRecord(fork, stream));
	CHECK(cudaStreamWaitEvent(other, fork, 0));
	for (int turn = 0; turn < 3; turn++)
		for (const int device : {1, 0}) {
			CHECK(cudaSetDevice(device));
			line.require(problems[device]->call(sessions[device]->handle) == 0, "a captured call failed");
		}
	CHECK(cudaSetDevice(1));
	CHECK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
	CHECK(cudaEventRecord(join, other));
	CHECK(cudaSetDevice(0));
	CHECK(cudaStreamWaitEvent(stream, join, 0));
	cudaGraph_t graph = nullptr;
	cudaGraphExec_t executable = nullptr;
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	CHECK(cudaGraphDestroy(graph));
	for (int replay = 0; replay < 2; replay++) {
		for (const auto &problem : problems) {
			problem->restore();
			problem->upload();
		}
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaGraphLaunch(executable, stream));
		CHECK(cudaStreamSynchronize(stream));
		for (const int device : {0, 1}) {
			problems[device]->download();
			line.require(problems[device]->c.array.bits() == eager[device], "captured bits differ from eager ones");
		}
	}
	CHECK(cudaGraphExecDestroy(executable));
	line.put("eta", problems[1]->compare().eta).bits("bits", eager[0] ^ eager[1]);
	home = before;
}

std::vector<Case> allCases()
{
	std::vector<Case> cases = table();
	int m = 61; // different in each row, so that the rows of a report can be distinguished
	for (const Overlap &row : overlaps) {
		cases.push_back({std::string(row.isDefined ? "overlap." : "undefined.") + row.name,
		                 [&row, m](Line &line) { overlap(row, m, line); }});
		m++;
	}
	cases.push_back({"devices.exchanged", exchanged});
	cases.push_back({"devices.mismatched", mismatched});
	cases.push_back({"devices.mismatched_capture", mismatchedCapture});
	cases.push_back({"devices.one_graph", oneGraph});
	return cases;
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, allCases());
}
