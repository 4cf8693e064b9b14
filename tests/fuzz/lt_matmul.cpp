// cublasLtMatmul with any attributes on its objects, through the core's wrapper and without it: status, device memory
// and the device's state must be the same. Runs under LD_PRELOAD, on the emulated device. The operands are small whole
// numbers. They are exact in 16 bits, and so are their products, whether lowered or not.
#include "tests/fuzz/fuzz.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <memory>
#include <vector>

namespace {

using Matmul = decltype(cublasLtMatmul);
Matmul *const wrapper = cublasLtMatmul;
Matmul *original;

// The choices of the input, one byte each. After its end zeros follow, which choose the plain product.
struct Input {
	const uint8_t *data, *end;

	uint8_t byte() { return data < end ? *data++ : 0; }
	template <typename Value, size_t count>
	Value pick(const Value (&values)[count])
	{
		return values[byte() % count];
	}
};

// ---- memory: each operand is in the middle of its own array, so that backward access also stays inside

constexpr size_t reach = size_t{32} << 10; // bytes to either side
enum Array { A, B, C, D, bias, aux, scalars, workspace, arrays };

struct Memory {
	static constexpr int matrices = 4; // in a batch by pointers
	static constexpr size_t apart = 4096;
	std::byte *pointers; // to the matrices of A, then of B, C and D
	std::byte *device[arrays];
	std::vector<std::byte> initial[arrays];

	Memory()
	{
		for (int i = 0; i < arrays; ++i) {
			REQUIRE(cudaMalloc(reinterpret_cast<void **>(&device[i]), 2 * reach) == cudaSuccess);
			std::vector<float> values(2 * reach / sizeof(float));
			for (size_t at = 0; at < values.size(); ++at)
				values[at] = static_cast<float>(static_cast<int>(at * 7 % (11 + static_cast<size_t>(i))) - 5);
			initial[i].resize(2 * reach);
			std::memcpy(initial[i].data(), values.data(), 2 * reach);
		}
		const std::byte *places[4 * matrices];
		for (int i = 0; i < 4 * matrices; ++i)
			places[i] = at(static_cast<Array>(i / matrices), static_cast<size_t>(i % matrices) * apart);
		REQUIRE(cudaMalloc(reinterpret_cast<void **>(&pointers), sizeof places) == cudaSuccess);
		REQUIRE(cudaMemcpy(pointers, places, sizeof places, cudaMemcpyHostToDevice) == cudaSuccess);
	}
	void reset() const
	{
		for (int i = 0; i < arrays; ++i)
			REQUIRE(cudaMemcpy(device[i], initial[i].data(), 2 * reach, cudaMemcpyHostToDevice) == cudaSuccess);
	}
	std::vector<std::byte> read() const
	{
		std::vector<std::byte> all(workspace * 2 * reach); // the content of the workspace is not compared
		for (int i = 0; i < workspace; ++i)
			REQUIRE(cudaMemcpy(all.data() + i * 2 * reach, device[i], 2 * reach, cudaMemcpyDeviceToHost) ==
			        cudaSuccess);
		return all;
	}
	std::byte *at(Array array, size_t shift = 0) const { return device[array] + reach + shift; }
	const std::byte *pointersTo(Array array) const
	{
		return pointers + static_cast<size_t>(array) * matrices * sizeof(void *);
	}
};

// ---- objects: made by the library, or, for any version, in memory of their own size

template <typename Object, typename Create, typename Init>
Object *make(size_t size, std::vector<std::unique_ptr<std::byte[]>> &kept, Create create, Init init)
{
	Object *object = nullptr;
	if (!size)
		return create(&object) == CUBLAS_STATUS_SUCCESS ? object : nullptr;
	kept.emplace_back(new std::byte[size]);
	object = reinterpret_cast<Object *>(kept.back().get());
	return init(object, size) == CUBLAS_STATUS_SUCCESS ? object : nullptr;
}

struct Objects {
	bool isDescCreated = false, areLayoutsCreated = false;
	cublasLtMatmulDesc_t desc = nullptr;
	cublasLtMatrixLayout_t layout[4] = {};
	std::vector<std::unique_ptr<std::byte[]>> kept;

	~Objects()
	{
		if (isDescCreated)
			cublasLtMatmulDescDestroy(desc);
		for (cublasLtMatrixLayout_t each : layout)
			if (areLayoutsCreated)
				cublasLtMatrixLayoutDestroy(each);
	}
};

template <typename Value>
Value get(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t id)
{
	Value value{};
	size_t written;
	REQUIRE(cublasLtMatrixLayoutGetAttribute(layout, id, &value, sizeof value, &written) == CUBLAS_STATUS_SUCCESS);
	return value;
}

template <typename Value>
Value get(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t id)
{
	Value value{};
	size_t written;
	const cublasStatus_t status = cublasLtMatmulDescGetAttribute(desc, id, &value, sizeof value, &written);
	return status == CUBLAS_STATUS_SUCCESS ? value : Value{}; // an older version may lack it
}

using Wide = __int128;

bool isNear(Wide elements) // of eight bytes at most
{
	constexpr Wide most = reach / 8 - 512; // pointers are shifted
	return elements > -most && elements < most;
}

// All memory that the call can access is in its array.
bool isInside(const Objects &objects)
{
	uint64_t longest = 0;
	int32_t batch = 1;
	for (cublasLtMatrixLayout_t layout : objects.layout) {
		const auto rows = get<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS);
		const auto columns = get<uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS);
		const auto ld = get<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD);
		const auto stride = get<int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
		batch = get<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
		const bool isByRows = get<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW;
		const uint64_t across = isByRows ? columns : rows, along = isByRows ? rows : columns;
		const Wide matrix = Wide{across} + Wide{along} * ld, batches = Wide{batch} * stride;
		if (across > reach || along > reach || !isNear(matrix) || !isNear(batches) || !isNear(matrix + batches))
			return false;
		if (get<int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) != 0 &&
		    (batch > Memory::matrices || matrix * Wide{sizeof(double)} > Wide{Memory::apart}))
			return false;
		longest = std::max({longest, rows, columns});
	}
	// The device requires aligned masks of ReLU.
	constexpr uintptr_t maskBytes = 16, maskBits = 8 * maskBytes;
	const auto auxPlace = get<uintptr_t>(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
	const auto auxStride = get<int64_t>(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE);
	if (auxPlace % maskBytes || auxStride % static_cast<int64_t>(maskBits))
		return false;
	const auto auxLd = get<int64_t>(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
	for (auto id : {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
	                CUBLASLT_MATMUL_DESC_ALPHA_VECTOR_BATCH_STRIDE}) {
		const Wide batches = Wide{batch} * get<int64_t>(objects.desc, id), vector = longest;
		if (!isNear(batches + vector) || !isNear(batches + vector * auxLd) || !isNear(batches))
			return false;
	}
	return true;
}

// ---- one call

struct Call {
	Objects objects;
	const void *alpha, *beta;
	const std::byte *A, *B, *C;
	std::byte *D, *workspace;
	size_t workspaceSize;
	const cublasLtMatmulAlgo_t *algo;
	cudaStream_t stream;
};

struct Outcome {
	cublasStatus_t status;
	cudaError_t error;
	std::vector<std::byte> memory;
};

cublasLtHandle_t handle;
const Memory *memory;

Outcome run(Matmul *matmul, const Call &call)
{
	memory->reset();
	Outcome outcome;
	const cublasLtMatrixLayout_t *layout = call.objects.layout;
	outcome.status =
	    matmul(handle, call.objects.desc, call.alpha, call.A, layout[0], call.B, layout[1], call.beta, call.C,
	           layout[2], call.D, layout[3], call.algo, call.workspace, call.workspaceSize, call.stream);
	outcome.error = cudaDeviceSynchronize();
	outcome.memory = memory->read();
	return outcome;
}

// A pointer value for attributes that are pointers.
bool isAddress(int id)
{
	constexpr int ids[] = {8, 11, 17, 18, 19, 20, 21, 23, 24, 36, 38};
	return std::find(std::begin(ids), std::end(ids), id) != std::end(ids);
}

void setAny(Input &input, const Objects &objects)
{
	constexpr size_t sizes[] = {4, 8, 1, 2, 0, 16, 64, 3};
	constexpr int64_t values[] = {
	    0, 1, 2, 3, 4, 8, 16, 64, 128, -1, -2, 255, INT32_MAX, INT32_MIN, int64_t{1} << 40, INT64_MAX, INT64_MIN};
	const std::byte *const places[] = {nullptr, memory->at(bias), memory->at(aux), memory->at(bias, 4),
	                                   memory->at(scalars)};
	const unsigned which = input.byte();
	const int id = input.byte() % 64;
	const size_t size = input.pick(sizes);
	unsigned char value[64] = {};
	if (which % 5 == 4 && isAddress(id)) {
		const std::byte *const place = input.pick(places);
		std::memcpy(value, &place, sizeof place);
	} else {
		const int64_t number = which & 128 ? input.byte() | input.byte() << 8 : input.pick(values);
		std::memcpy(value, &number, sizeof number);
	}
	if (which % 5 == 4)
		cublasLtMatmulDescSetAttribute(objects.desc, static_cast<cublasLtMatmulDescAttributes_t>(id), value, size);
	else
		cublasLtMatrixLayoutSetAttribute(objects.layout[which % 5], static_cast<cublasLtMatrixLayoutAttribute_t>(id),
		                                 value, size);
}

template <typename Value>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t id, Value value)
{
	cublasLtMatmulDescSetAttribute(desc, id, &value, sizeof value);
}

template <typename Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t id, Value value)
{
	REQUIRE(cublasLtMatrixLayoutSetAttribute(layout, id, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
}

bool makeObjects(Input &input, Objects &objects)
{
	constexpr int64_t extents[] = {16, 1, 2, 3, 4, 5, 7, 8, 12, 17, 0};
	constexpr cublasComputeType_t computes[] = {CUBLAS_COMPUTE_32F,          CUBLAS_COMPUTE_32F_FAST_TF32,
	                                            CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_COMPUTE_32F_FAST_16F,
	                                            CUBLAS_COMPUTE_64F,          CUBLAS_COMPUTE_16F};
	constexpr cudaDataType types[] = {CUDA_R_32F,  CUDA_R_32F, CUDA_R_32F, CUDA_R_16F,
	                                  CUDA_R_16BF, CUDA_R_64F, CUDA_R_8I};
	constexpr size_t descSizes[] = {0, 256, 184, 96, 88, 56, 300}; // 0: created
	constexpr size_t layoutSizes[] = {0, 64, 80};
	constexpr cublasLtEpilogue_t epilogues[] = {
	    CUBLASLT_EPILOGUE_DEFAULT,       CUBLASLT_EPILOGUE_BIAS,        CUBLASLT_EPILOGUE_RELU,
	    CUBLASLT_EPILOGUE_RELU_BIAS,     CUBLASLT_EPILOGUE_GELU,        CUBLASLT_EPILOGUE_RELU_AUX,
	    CUBLASLT_EPILOGUE_BGRADB,        CUBLASLT_EPILOGUE_BGRADA,      CUBLASLT_EPILOGUE_GELU_BIAS,
	    CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX,    CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
	    CUBLASLT_EPILOGUE_DRELU,         CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_DGELU,
	    CUBLASLT_EPILOGUE_DGELU_BGRAD};
	const int64_t m = input.pick(extents), n = input.pick(extents), k = input.pick(extents);
	const auto transa = static_cast<cublasOperation_t>(input.byte() % 3);
	const auto transb = static_cast<cublasOperation_t>(input.byte() % 3);
	const cublasComputeType_t compute = input.pick(computes);
	const cudaDataType scale = compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F, type = input.pick(types);
	const size_t descSize = input.pick(descSizes), layoutSize = input.pick(layoutSizes);
	objects.isDescCreated = !descSize;
	objects.desc = make<cublasLtMatmulDescOpaque_t>(
	    descSize, objects.kept,
	    [&](cublasLtMatmulDesc_t *made) { return cublasLtMatmulDescCreate(made, compute, scale); },
	    [&](cublasLtMatmulDesc_t made, size_t size) {
		    return cublasLtMatmulDescInit_internal(made, size, compute, scale);
	    });
	objects.areLayoutsCreated = !layoutSize;
	const int32_t batch = input.byte() % 4 + 1;
	const int64_t sizes[4][2] = {{m, k}, {k, n}, {m, n}, {m, n}};
	const uint8_t orders = input.byte(); // mostly columns, and strides
	const bool areArrays = orders >= 224;
	for (int i = 0; i < 4; ++i) {
		const bool isTransposed = (i == A && transa) || (i == B && transb);
		const int64_t rows = sizes[i][isTransposed], columns = sizes[i][!isTransposed];
		const uint8_t form = input.byte();
		const bool isByRows = orders >> std::min(i, 2) & 1 && orders >= 128;
		const int64_t ld = std::max<int64_t>(isByRows ? columns : rows, 1) + form % 4;
		objects.layout[i] = make<cublasLtMatrixLayoutOpaque_t>(
		    layoutSize, objects.kept,
		    [&](cublasLtMatrixLayout_t *made) { return cublasLtMatrixLayoutCreate(made, type, rows, columns, ld); },
		    [&](cublasLtMatrixLayout_t made, size_t size) {
			    return cublasLtMatrixLayoutInit_internal(made, size, type, rows, columns, ld);
		    });
		if (!objects.layout[i])
			return false;
		set(objects.layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batch);
		const bool isShared = i < C && form & 16;
		set(objects.layout[i], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
		    isShared ? int64_t{0} : ld * (isByRows ? rows : columns) + form / 32);
		if (isByRows)
			set(objects.layout[i], CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_ROW);
		if (areArrays)
			set(objects.layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, CUBLASLT_BATCH_MODE_POINTER_ARRAY);
	}
	if (!objects.desc)
		return false;
	set(objects.desc, CUBLASLT_MATMUL_DESC_TRANSA, transa);
	set(objects.desc, CUBLASLT_MATMUL_DESC_TRANSB, transb);
	const cublasLtEpilogue_t epilogue = input.pick(epilogues);
	set(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
	if (epilogue != CUBLASLT_EPILOGUE_DEFAULT)
		set(objects.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, memory->at(bias));
	if (epilogue & 128) { // has an auxiliary matrix
		set(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, memory->at(aux));
		set(objects.desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, int64_t{128});
	}
	if (epilogue >= CUBLASLT_EPILOGUE_BGRADA)
		set(objects.desc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, int64_t{orders} & 127);
	return true;
}

cublasStatus_t askHeuristic(const Objects &objects, cublasLtMatmulHeuristicResult_t &result)
{
	cublasLtMatmulPreference_t preference = nullptr;
	REQUIRE(cublasLtMatmulPreferenceCreate(&preference) == CUBLAS_STATUS_SUCCESS);
	int found = 0;
	const cublasStatus_t status =
	    cublasLtMatmulAlgoGetHeuristic(handle, objects.desc, objects.layout[0], objects.layout[1], objects.layout[2],
	                                   objects.layout[3], preference, 1, &result, &found);
	cublasLtMatmulPreferenceDestroy(preference);
	return status;
}

} // namespace

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Input input{data, data + size};
	static constexpr float factors[] = {1, 0, -2, 0.5f};
	constexpr size_t shifts[] = {0, 16, 4, 8, 256};
	constexpr size_t workspaceSizes[] = {0, 4096, 16, 16384};
	constexpr size_t workspaceShifts[] = {0, 256, 16, 8};
	Call call{};
	if (!makeObjects(input, call.objects))
		return 0;
	const uint8_t form = input.byte();
	const auto pointerMode = static_cast<int32_t>(form % 8 < 4 ? 0 : form % 8 - 3); // HOST more often than others
	set(call.objects.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE, pointerMode);
	const bool isAlphaOnHost = pointerMode == CUBLASLT_POINTER_MODE_HOST;
	const bool isBetaOnHost = isAlphaOnHost || pointerMode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
	const float alpha = input.pick(factors), beta = input.pick(factors);
	const double wide[] = {alpha, beta}; // for a product of doubles
	const bool isWide = get<int32_t>(call.objects.desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_64F;
	call.alpha = isAlphaOnHost ? isWide ? static_cast<const void *>(&wide[0]) : &alpha : memory->at(scalars);
	call.beta = isBetaOnHost ? isWide ? static_cast<const void *>(&wide[1]) : &beta : memory->at(scalars, 8);
	call.A = memory->at(A, input.pick(shifts));
	call.B = memory->at(B, input.pick(shifts));
	call.D = memory->at(D, input.pick(shifts));
	call.C = form & 8 ? call.D : memory->at(C, input.pick(shifts));
	if (form & 16)
		call.workspace = memory->at(workspace, input.pick(workspaceShifts));
	call.workspaceSize = input.pick(workspaceSizes);
	switch (input.byte()) { // the missing argument
	case 1:
		call.A = nullptr;
		break;
	case 2:
		call.B = nullptr;
		break;
	case 3:
		if (isBetaOnHost) // else the device reads it
			call.C = nullptr;
		break;
	case 4:
		call.D = nullptr;
		break;
	case 5:
		call.alpha = nullptr;
		break;
	case 6:
		call.beta = nullptr;
		break;
	}
	for (int most = 12; input.data < input.end && most; --most)
		setAny(input, call.objects);

	const auto modeOf = [&call](int i) {
		return get<int32_t>(call.objects.layout[i], CUBLASLT_MATRIX_LAYOUT_BATCH_MODE);
	};
	if (modeOf(D)) { // calls in which only some are arrays are refused
		const bool isInPlace = call.C == call.D;
		call.A = call.A ? memory->pointersTo(A) : nullptr;
		call.B = call.B ? memory->pointersTo(B) : nullptr;
		call.C = isInPlace ? memory->pointersTo(D) : call.C ? memory->pointersTo(C) : nullptr;
		call.D = call.D ? const_cast<std::byte *>(memory->pointersTo(D)) : nullptr;
	}
	const auto mode = get<int32_t>(call.objects.desc, CUBLASLT_MATMUL_DESC_POINTER_MODE);
	const bool isStillWide = get<int32_t>(call.objects.desc, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_64F;
	cublasLtMatmulHeuristicResult_t result = {};
	const cublasStatus_t advice = askHeuristic(call.objects, result);
	// Refuses scalars that would be read from invalid memory, and calls that would break the device.
	const bool isSane = mode == pointerMode && isStillWide == isWide;
	if (advice == CUBLAS_STATUS_SUCCESS && (!isSane || !isInside(call.objects)))
		return 0;
	if (form & 32) {
		if (!isSane) // the library can read the scalars before it refuses an algorithm that is not one
			return 0;
		call.algo = &result.algo;
	}

	const Outcome expected = run(original, call), got = run(wrapper, call);
	if (got.status != expected.status || got.error != expected.error)
		std::fprintf(stderr, "status %d, device %d; without autoamp: %d, %d\n", got.status, got.error, expected.status,
		             expected.error);
	REQUIRE(got.status == expected.status && got.error == expected.error);
	REQUIRE(expected.error == cudaSuccess); // no further difference could be found
	REQUIRE(got.memory == expected.memory);
	return 0;
}

extern "C" int LLVMFuzzerInitialize(int *, char ***);

// Checks that autoamp is loaded and lowers: the product of numbers that are not exact in 16 bits differs through the
// wrapper.
int LLVMFuzzerInitialize(int *, char ***)
{
	void *const library = dlopen("libcublasLt.so.13", RTLD_LAZY | RTLD_NOLOAD);
	original = reinterpret_cast<Matmul *>(dlsym(library, "cublasLtMatmul")); // AUTOAMP_HOOK_DLSYM=0
	REQUIRE(original && original != wrapper);
	memory = new Memory;
	REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
	static const float alpha = 1, beta = 0;
	for (const bool isExact : {true, false}) {
		Memory inexact;
		for (size_t at = 0; !isExact && at < 2 * reach; at += sizeof(float)) {
			const float value = 1 + static_cast<float>(at) * 0x1p-20f;
			std::memcpy(&inexact.initial[A][at], &value, sizeof value);
		}
		const Memory *const usual = std::exchange(memory, &inexact);
		Call call{};
		Input input{};
		REQUIRE(makeObjects(input, call.objects));
		call.alpha = &alpha, call.beta = &beta;
		call.A = inexact.at(A), call.B = inexact.at(B), call.C = call.D = inexact.at(D);
		const Outcome expected = run(original, call), got = run(wrapper, call);
		REQUIRE(expected.status == CUBLAS_STATUS_SUCCESS && got.status == CUBLAS_STATUS_SUCCESS);
		REQUIRE((got.memory == expected.memory) == isExact);
		memory = usual;
	}
	return 0;
}
