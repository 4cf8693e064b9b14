// Prints the results of the cuBLAS libraries of a folder for calls that need no device: sizes, defaults, versions,
// statuses. usage: observe_blas FOLDER [version]
#include <cublasLt.h>
#include <cublasXt.h>
#include <cublas_v2.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void *lt, *cublas;

void *open(const std::string &path)
{
	void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		std::fprintf(stderr, "%s\n", dlerror());
		std::exit(1);
	}
	return library;
}

template <typename Function>
Function *find(void *library, const std::string &name)
{
	void *address = dlsym(library, name.c_str());
	if (!address) {
		std::fprintf(stderr, "no %s\n", name.c_str());
		std::exit(1);
	}
	return reinterpret_cast<Function *>(address);
}
#define CALL(library, name) find<decltype(name)>(library, #name)

using Get = int(void *, int, void *, size_t, size_t *);
using Set = int(void *, int, const void *, size_t);
using Destroy = int(void *);

constexpr unsigned char filler = 0xa5;
constexpr int lastId = 45;

struct Room {
	alignas(16) unsigned char bytes[640];
	Room() { std::memset(bytes, filler, sizeof bytes); }
	int written() const
	{
		int last = sizeof bytes;
		while (last > 0 && bytes[last - 1] == filler)
			--last;
		return last;
	}
};

// Ids, sizes and values of all attributes, and the status of Set for each size.
void attributes(const std::string &kind, void *object)
{
	auto *get = find<Get>(lt, kind + "GetAttribute");
	auto *set = find<Set>(lt, kind + "SetAttribute");
	for (int id = -1; id <= lastId; ++id) {
		size_t size = 99;
		int status = get(object, id, nullptr, 0, &size);
		std::printf("%s attribute %d: %d size %zu", kind.c_str(), id, status, status == 0 ? size : 0);
		unsigned char value[16] = {}, back[16] = {};
		if (status == 0) {
			std::printf(" get %d value", get(object, id, value, size, nullptr));
			for (size_t i = 0; i < size; ++i)
				std::printf(" %02x", value[i]);
			std::printf(" wrong %d %d %d", get(object, id, value, size + 1, &size),
			            get(object, id, nullptr, size, &size), get(object, id, value, 0, nullptr));
		}
		std::printf(" set");
		std::memset(value, 0x11, sizeof value);
		for (size_t bytes : {0, 1, 2, 4, 8, 16})
			std::printf(" %d", set(object, id, value, bytes));
		std::printf(" null %d", set(object, id, nullptr, size));
		if (status == 0)
			std::printf(" back %d %d", get(object, id, back, size, nullptr), std::memcmp(value, back, size));
		std::printf("\n");
	}
	size_t size;
	std::printf("%s null object: %d %d\n", kind.c_str(), get(nullptr, 0, nullptr, 0, &size), set(nullptr, 0, &size, 4));
}

// Init(space, size) for every size: status, number of bytes written, attributes of the version.
template <typename Init>
void inits(const std::string &kind, Init init)
{
	std::string before;
	for (size_t size = 0; size <= 520; ++size) {
		Room room;
		int status = init(room.bytes, size);
		unsigned word = 0;
		std::memcpy(&word, room.bytes, sizeof word);
		std::string line = kind + " init: " + std::to_string(status) + " bytes " + std::to_string(room.written());
		if (line == before)
			continue;
		before = line;
		std::printf("%s from %zu\n", line.c_str(), size);
		if (status == 0)
			attributes(kind, room.bytes);
	}
	std::printf("%s destroy null: %d\n", kind.c_str(), find<Destroy>(lt, kind + "Destroy")(nullptr));
}

template <typename Create>
void created(const std::string &kind, Create create)
{
	void *object = nullptr;
	std::printf("%s create: %d null %d\n", kind.c_str(), create(&object), create(nullptr));
	attributes(kind, object);
	std::printf("%s destroy: %d\n", kind.c_str(), find<Destroy>(lt, kind + "Destroy")(object));
}

void objects()
{
	using DescInit = int(void *, size_t, int, int);
	using DescCreate = int(void **, int, int);
	using LayoutInit = int(void *, size_t, int, uint64_t, uint64_t, int64_t);
	using LayoutCreate = int(void **, int, uint64_t, uint64_t, int64_t);
	using PlainInit = int(void *, size_t);
	using PlainCreate = int(void **);
	using TransformInit = int(void *, size_t, int);
	using TransformCreate = int(void **, int);
	auto name = [](const char *kind) { return std::string("cublasLt") + kind; };

	std::string kind = name("MatmulDesc");
	auto *descInit = find<DescInit>(lt, kind + "Init_internal");
	auto *descCreate = find<DescCreate>(lt, kind + "Create");
	inits(kind, [&](void *room, size_t size) { return descInit(room, size, 74, 0); });
	created(kind, [&](void **object) { return descCreate(object, 5, 77); });
	kind = name("MatrixLayout");
	auto *layoutInit = find<LayoutInit>(lt, kind + "Init_internal");
	auto *layoutCreate = find<LayoutCreate>(lt, kind + "Create");
	inits(kind, [&](void *room, size_t size) { return layoutInit(room, size, 2, 3, 5, 7); });
	created(kind, [&](void **object) { return layoutCreate(object, 14, 1ull << 63, 0, -1); });
	std::printf("layout init null: %d\n", layoutInit(nullptr, 64, 0, 1, 1, 1));
	for (const char *plain : {"MatmulPreference", "EmulationDesc"}) {
		kind = name(plain);
		auto *init = find<PlainInit>(lt, kind + "Init_internal");
		auto *create = find<PlainCreate>(lt, kind + "Create");
		inits(kind, [&](void *room, size_t size) { return init(room, size); });
		created(kind, [&](void **object) { return create(object); });
	}
	kind = name("MatrixTransformDesc");
	auto *transformInit = find<TransformInit>(lt, kind + "Init_internal");
	auto *transformCreate = find<TransformCreate>(lt, kind + "Create");
	inits(kind, [&](void *room, size_t size) { return transformInit(room, size, 1); });
	created(kind, [&](void **object) { return transformCreate(object, 2); });
}

void libraries()
{
	for (int status = -1; status <= 20; ++status) {
		auto value = static_cast<cublasStatus_t>(status);
		std::printf("status %d: %s, %s; %s, %s\n", status, CALL(lt, cublasLtGetStatusName)(value),
		            CALL(lt, cublasLtGetStatusString)(value), CALL(cublas, cublasGetStatusName)(value),
		            CALL(cublas, cublasGetStatusString)(value));
	}
	int version = 0;
	std::printf("versions: %zu %zu %zu", CALL(lt, cublasLtGetVersion)(), CALL(lt, cublasLtGetCudartVersion)(),
	            CALL(cublas, cublasGetCudartVersion)());
	std::printf(" %d", CALL(cublas, cublasGetVersion_v2)(nullptr, &version));
	std::printf(" %d null %d\n", version, CALL(cublas, cublasGetVersion_v2)(nullptr, nullptr));
	for (int type = -1; type < 5; ++type) {
		int value = -7, other = -7;
		int status = CALL(lt, cublasLtGetProperty)(static_cast<libraryPropertyType>(type), &value);
		int second = CALL(cublas, cublasGetProperty)(static_cast<libraryPropertyType>(type), &other);
		std::printf("property %d: %d %d, %d %d\n", type, status, value, second, other);
	}
	std::printf("property null: %d %d\n", CALL(lt, cublasLtGetProperty)(MAJOR_VERSION, nullptr),
	            CALL(cublas, cublasGetProperty)(MAJOR_VERSION, nullptr));
	size_t capacity = 0;
	std::printf("cache: %d", CALL(lt, cublasLtHeuristicsCacheGetCapacity)(&capacity));
	std::printf(" %zu\n", capacity);
	for (int level = -2; level < 9; ++level) // lines that the real library itself logs begin with "["
		std::printf("log level %d: %d\n", level, CALL(lt, cublasLtLoggerSetLevel)(level));
	CALL(lt, cublasLtLoggerSetLevel)(0);
	std::printf("log: %d %d %d %d %d\n", CALL(lt, cublasLtLoggerSetMask)(0), CALL(lt, cublasLtLoggerSetMask)(-1),
	            CALL(lt, cublasLtLoggerSetCallback)(nullptr), CALL(lt, cublasLtLoggerOpenFile)("/nowhere/log"),
	            CALL(lt, cublasLtHeuristicsCacheGetCapacity)(nullptr));
	cublasLogCallback callback = nullptr;
	std::printf("cublas log: %d %d %d %d\n", CALL(cublas, cublasLoggerConfigure)(0, 0, 0, nullptr),
	            CALL(cublas, cublasSetLoggerCallback)(nullptr), CALL(cublas, cublasGetLoggerCallback)(&callback),
	            CALL(cublas, cublasGetLoggerCallback)(nullptr));
	cublasLtMatmulAlgo_t algo{};
	for (int id = -1; id < 12; ++id) {
		auto attribute = static_cast<cublasLtMatmulAlgoConfigAttributes_t>(id);
		size_t size = 0;
		int known = CALL(lt, cublasLtMatmulAlgoConfigGetAttribute)(&algo, attribute, nullptr, 0, &size);
		std::printf("algo config %d: %d %zu set", id, known, known == 0 ? size : 0);
		const uint64_t one = 1;
		for (size_t bytes : {0, 1, 2, 4, 8})
			std::printf(" %d", CALL(lt, cublasLtMatmulAlgoConfigSetAttribute)(&algo, attribute, &one, bytes));
		std::printf("\n");
	}
	std::printf("algo null: %d\n",
	            CALL(lt, cublasLtMatmulAlgoConfigGetAttribute)(nullptr, CUBLASLT_ALGO_CONFIG_ID, nullptr, 0, nullptr));
	std::printf("null handles: %d %d %d %d %d\n", CALL(cublas, cublasDestroy_v2)(nullptr),
	            CALL(lt, cublasLtDestroy)(nullptr), CALL(cublas, cublasCreate_v2)(nullptr),
	            CALL(lt, cublasLtCreate)(nullptr), CALL(cublas, cublasSetStream_v2)(nullptr, nullptr));
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t layout;
	cublasLtMatmulPreference_t preference;
	CALL(lt, cublasLtMatmulDescCreate)(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
	CALL(lt, cublasLtMatrixLayoutCreate)(&layout, CUDA_R_32F, 8, 8, 8);
	CALL(lt, cublasLtMatmulPreferenceCreate)(&preference);
	cublasLtMatmulHeuristicResult_t result;
	int count = 5, status = 0;
	const float one = 1;
	for (int requested : {0, 1}) {
		status = CALL(lt, cublasLtMatmulAlgoGetHeuristic)(nullptr, desc, layout, layout, layout, layout, preference,
		                                                  requested, &result, &count);
		std::printf("null heuristic: %d %d\n", status, count);
	}
	status = CALL(lt, cublasLtMatmul)(nullptr, desc, &one, nullptr, layout, nullptr, layout, &one, nullptr, layout,
	                                  nullptr, layout, nullptr, nullptr, 0, nullptr);
	std::printf("null matmul: %d\n", status);
	std::printf("null gemm: %d\n", CALL(cublas, cublasSgemm_v2)(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, nullptr,
	                                                            nullptr, 1, nullptr, 1, nullptr, nullptr, 1));
}

// Results of cublasXt before a device is selected.
void xt()
{
	cublasXtHandle_t handle = nullptr;
	int number = -5;
	auto mode = CUBLASXT_PINNING_DISABLED;
	std::printf("xt null: %d %d %d", CALL(cublas, cublasXtCreate)(nullptr), CALL(cublas, cublasXtDestroy)(nullptr),
	            CALL(cublas, cublasXtGetBlockDim)(nullptr, nullptr));
	std::printf(" create %d", CALL(cublas, cublasXtCreate)(&handle));
	std::printf(" max %d", CALL(cublas, cublasXtMaxBoards)(&number));
	std::printf(" %d", number);
	std::printf(" boards %d", CALL(cublas, cublasXtGetNumBoards)(0, nullptr, nullptr));
	for (int count : {0, -1})
		std::printf(" select %d", CALL(cublas, cublasXtDeviceSelect)(handle, count, &number));
	std::printf(" %d\n", CALL(cublas, cublasXtDeviceSelect)(handle, 1, nullptr));
	for (int value : {-1, 0, 1, 2, 1000, 100000}) {
		int block = CALL(cublas, cublasXtSetBlockDim)(handle, value);
		int pin = CALL(cublas, cublasXtSetPinningMemMode)(handle, static_cast<cublasXtPinnedMemMode_t>(value));
		std::printf("xt set %d: %d %d", value, block, pin);
		block = CALL(cublas, cublasXtGetBlockDim)(handle, &number);
		pin = CALL(cublas, cublasXtGetPinningMemMode)(handle, &mode);
		std::printf(" get %d %d, %d %d\n", block, number, pin, mode);
	}
	for (int routine = -1; routine <= 12; ++routine)
		for (int type = -1; type <= 4; ++type) {
			auto op = static_cast<cublasXtBlasOp_t>(routine);
			auto of = static_cast<cublasXtOpType_t>(type);
			std::printf("xt cpu %d %d: %d %d\n", routine, type, CALL(cublas, cublasXtSetCpuRatio)(handle, op, of, 0),
			            CALL(cublas, cublasXtSetCpuRoutine)(handle, op, of, nullptr));
		}
	const float one = 1;
	std::printf("xt gemm %d\n", CALL(cublas, cublasXtSgemm)(handle, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, &one, 1,
	                                                        &one, 1, &one, nullptr, 1));
	std::printf("xt destroy %d\n", CALL(cublas, cublasXtDestroy)(handle));
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	std::string folder = argv[1];
	lt = open(folder + "/libcublasLt.so.13");
	cublas = open(folder + "/libcublas.so.13");
	if (argc > 2) {
		std::printf("%zu\n", CALL(lt, cublasLtGetVersion)());
		return 0;
	}
	libraries();
	xt();
	objects();
}
