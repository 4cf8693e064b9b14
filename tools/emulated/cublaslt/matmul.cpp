// cublasLtMatmul and its heuristic: argument checks, choice of the algorithm, and its workspace.
#include "tools/emulated/blas/context.h"
#include "tools/emulated/blas/product.h"
#include "tools/emulated/cublaslt/objects.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace emulated::blas;
using namespace emulated::cublaslt;

namespace {

struct Algorithm {
	int id;
	int split;
	cublasLtReductionScheme_t reduction;
	uint32_t alignment;
	uint32_t pointers; // mask of cublasLtPointerMode_t
	bool arrays;
};

#define ROW(...) {__VA_ARGS__},
constexpr Algorithm algorithms[] = {
#include "algorithms.inc"
};
#undef ROW

// The existing engines of an epilogue, by column of epilogues.tsv (see engineTypes).
struct Epilogue {
	cublasLtEpilogue_t id;
	bool rows; // supports a D stored by rows too
	uint64_t leastK;
	bool exists[7];
};
constexpr bool yes = true, guess = true, none = false;
#define ROW(id, rows, leastK, ...) {id, rows, leastK, {__VA_ARGS__}},
constexpr Epilogue epilogues[] = {
#include "epilogues.inc"
};
#undef ROW

// The contents of a cublasLtMatmulAlgo_t in this library: an algorithm, its configuration, and the problem that it was
// chosen for.
struct Choice {
	static constexpr uint32_t magicNumber = 0x616d6c61;
	static constexpr uint8_t anyOperation = 0xff;
	uint32_t magic;
	int32_t id;
	uint32_t tile;
	int32_t split;
	uint32_t reduction, swizzle, custom, stages;
	uint16_t innerShape, clusterShape, unnamed, reserved; // unnamed: attribute id 10, which the real library accepts
	                                                      // too
	uint8_t compute, scale, a, b, c, d, transa, transb;
};
static_assert(sizeof(Choice) <= sizeof(cublasLtMatmulAlgo_t));

Choice choiceOf(const cublasLtMatmulAlgo_t *algo)
{
	Choice choice;
	std::memcpy(&choice, algo, sizeof choice);
	return choice;
}

const Algorithm *algorithmOf(const Choice &choice)
{
	for (const Algorithm &algorithm : algorithms)
		if (choice.magic == Choice::magicNumber && algorithm.id == choice.id)
			return &algorithm;
	return nullptr;
}

// The checked descriptors of one call. The product lacks only its scalars and workspace.
struct Problem {
	MatmulDesc desc;
	MatrixLayout a, b, c, d;
	Product product;
};

struct Pointers {
	const void *a, *b, *c, *d;
};

const MatrixLayout &layoutOf(cublasLtMatrixLayout_t layout)
{
	return *reinterpret_cast<const MatrixLayout *>(layout);
}

bool isRow(const MatrixLayout &layout)
{
	return layout.order == CUBLASLT_ORDER_ROW;
}

bool isOperation(cublasOperation_t operation)
{
	return operation == CUBLAS_OP_N || operation == CUBLAS_OP_T || operation == CUBLAS_OP_C;
}

bool hasShape(const MatrixLayout &layout, bool isTransposed, uint64_t rows, uint64_t columns)
{
	return (isTransposed ? layout.columns : layout.rows) == rows &&
	       (isTransposed ? layout.rows : layout.columns) == columns;
}

// INVALID_VALUE for contradictions; NOT_SUPPORTED for layouts that no algorithm supports.
cublasStatus_t checkLayouts(const Problem &p)
{
	const MatrixLayout *all[] = {&p.a, &p.b, &p.c, &p.d};
	for (const MatrixLayout *layout : all) {
		const bool isBroadcast = layout == &p.c && layout->ld == 0;
		const auto least = static_cast<int64_t>(isRow(*layout) ? layout->columns : layout->rows);
		if ((layout->ld < std::max<int64_t>(1, least) && !isBroadcast) || layout->batch < 1 ||
		    layout->batch != p.d.batch || layout->batchMode != p.d.batchMode)
			return CUBLAS_STATUS_INVALID_VALUE;
	}
	const bool transa = p.desc.transa != CUBLAS_OP_N, transb = p.desc.transb != CUBLAS_OP_N;
	const uint64_t k = transa ? p.a.rows : p.a.columns;
	if (!hasShape(p.a, transa, p.d.rows, k) || !hasShape(p.b, transb, k, p.d.columns) ||
	    !hasShape(p.c, false, p.d.rows, p.d.columns) || p.c.order != p.d.order)
		return CUBLAS_STATUS_INVALID_VALUE;
	for (const MatrixLayout *layout : all)
		if (layout->order != CUBLASLT_ORDER_COL && layout->order != CUBLASLT_ORDER_ROW)
			return CUBLAS_STATUS_NOT_SUPPORTED;
	return p.d.batchMode <= CUBLASLT_BATCH_MODE_POINTER_ARRAY ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t checkDescriptor(const MatmulDesc &desc)
{
	if (!isOperation(desc.transa) || !isOperation(desc.transb))
		return CUBLAS_STATUS_INVALID_VALUE;
	// Scales and maxima belong to types of 8 bits or less, which no supported combination has.
	if (desc.scaleA || desc.scaleB || desc.scaleC || desc.scaleD || desc.amaxD || desc.auxScale || desc.auxAmax ||
	    desc.scaleOutD)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (desc.transc != CUBLAS_OP_N || desc.fill != CUBLAS_FILL_MODE_FULL)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	return CUBLAS_STATUS_SUCCESS;
}

// The column of epilogues.tsv.
int engineTypes(const Problem &p)
{
	if (p.a.type == CUDA_R_64F)
		return 6;
	if (p.desc.scale == CUDA_R_16F)
		return 5;
	if (p.a.type == CUDA_R_32F)
		return 0;
	return (p.d.type == CUDA_R_32F ? 3 : 1) + (p.a.type == CUDA_R_16BF);
}

bool hasArrays(const Problem &p)
{
	return p.d.batchMode == CUBLASLT_BATCH_MODE_POINTER_ARRAY;
}

// Checks vectors of scalars, with one element per row of D, and arrays of pointers.
cublasStatus_t checkPointers(const MatmulDesc &desc, const Problem &p)
{
	if (desc.pointerMode < CUBLASLT_POINTER_MODE_HOST ||
	    desc.pointerMode > CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST)
		return CUBLAS_STATUS_INVALID_VALUE;
	const bool hasVector = desc.pointerMode > CUBLASLT_POINTER_MODE_DEVICE;
	const bool mayStep = desc.pointerMode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST;
	if (hasArrays(p) && (hasVector || desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (desc.alphaStride != 0 && (hasArrays(p) || (hasVector && !mayStep)))
		return CUBLAS_STATUS_INVALID_VALUE;
	return hasVector && isRow(p.d) ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t checkEpilogue(const Problem &p, const Combination &types)
{
	const MatmulDesc &desc = p.desc;
	const auto *row = std::find_if(std::begin(epilogues), std::end(epilogues),
	                               [&](const Epilogue &epilogue) { return epilogue.id == desc.epilogue; });
	if (row == std::end(epilogues))
		return CUBLAS_STATUS_INVALID_VALUE;
	const bool isTransposedA = desc.transa != CUBLAS_OP_N, isTransposedB = desc.transb != CUBLAS_OP_N;
	const uint64_t k = isTransposedA ? p.a.rows : p.a.columns;
	const bool canSum = row->id == CUBLASLT_EPILOGUE_BGRADA   ? !isTransposedA
	                    : row->id == CUBLASLT_EPILOGUE_BGRADB ? isTransposedB
	                                                          : true;
	if (!canSum || !row->exists[engineTypes(p)] || (isRow(p.d) && !row->rows) || k < row->leastK)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (row->id != CUBLASLT_EPILOGUE_DEFAULT && types.bias == noType)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if ((row->id & vectorBits) && desc.biasType != -1 && desc.biasType != types.bias)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (!(row->id & auxBit))
		return CUBLAS_STATUS_SUCCESS;
	const bool isMask = row->id & maskBits;
	const int64_t grain = isMask ? 128 : 8;
	const bool isKnownType = desc.auxType == -1 || (!isMask && desc.auxType == p.d.type);
	if (desc.auxLd % grain || desc.auxLd < static_cast<int64_t>(p.d.rows) || desc.auxStride % grain || !isKnownType ||
	    (!isMask && !desc.aux)) // the real heuristic already requires this pointer (nvmath-python passes 1)
		return CUBLAS_STATUS_INVALID_VALUE;
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t describe(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                        cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc, const Pointers &at, Problem &p)
{
	if (!desc || !Adesc || !Bdesc || !Ddesc)
		return CUBLAS_STATUS_INVALID_VALUE;
	p = {read(desc), layoutOf(Adesc), layoutOf(Bdesc), layoutOf(Cdesc ? Cdesc : Ddesc), layoutOf(Ddesc), {}};
	if (cublasStatus_t status = checkDescriptor(p.desc))
		return status;
	if (cublasStatus_t status = checkLayouts(p))
		return status;
	const Combination *types = find(Table::lt, p.desc.compute, p.desc.scale, p.a.type, p.b.type, p.c.type, p.d.type);
	if (!types)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	if (cublasStatus_t status = checkPointers(p.desc, p))
		return status;
	if (cublasStatus_t status = checkEpilogue(p, *types))
		return status;

	Product &product = p.product;
	product.m = static_cast<int64_t>(p.d.rows);
	product.n = static_cast<int64_t>(p.d.columns);
	product.k = static_cast<int64_t>(p.desc.transa != CUBLAS_OP_N ? p.a.rows : p.a.columns);
	product.a = {at.a, p.a.type, p.a.ld, p.a.stride, hasArrays(p)};
	product.b = {at.b, p.b.type, p.b.ld, p.b.stride, hasArrays(p)};
	product.c = {at.c, p.c.type, p.c.ld, p.c.stride, hasArrays(p)};
	product.d = {at.d, p.d.type, p.d.ld, p.d.stride, hasArrays(p)};
	// A matrix stored by rows is its transpose stored by columns: D^T = op(B)^T op(A)^T.
	product.transposeA = (p.desc.transa != CUBLAS_OP_N) != isRow(p.a);
	product.transposeB = (p.desc.transb != CUBLAS_OP_N) != isRow(p.b);
	product.a.isConjugated = p.desc.transa == CUBLAS_OP_C;
	product.b.isConjugated = p.desc.transb == CUBLAS_OP_C;
	if (isRow(p.d)) {
		std::swap(product.m, product.n);
		std::swap(product.a, product.b);
		std::swap(product.transposeA, product.transposeB);
		product.transposeA = !product.transposeA;
		product.transposeB = !product.transposeB;
	}
	product.batch = p.d.batch;
	product.compute = p.desc.compute;
	product.rounding = roundingOf(p.desc.compute);
	product.scaleType = p.desc.scale;
	product.deviceScalars = p.desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE;
	product.hasAlphaVector = p.desc.pointerMode > CUBLASLT_POINTER_MODE_DEVICE;
	product.hasBetaVector = p.desc.pointerMode == CUBLASLT_POINTER_MODE_DEVICE_VECTOR;
	product.alphaStride = p.desc.alphaStride;
	product.epilogue = p.desc.epilogue;
	product.bias = p.desc.bias;
	product.biasType = types->bias;
	product.biasStride = p.desc.biasStride;
	product.aux = p.desc.aux;
	product.auxLd = p.desc.auxLd;
	product.auxStride = p.desc.auxStride;
	return CUBLAS_STATUS_SUCCESS;
}

// The largest power of two up to 256 that divides the address; 256 for null.
uint32_t alignmentOf(const void *address)
{
	auto value = reinterpret_cast<uintptr_t>(address) | 256;
	return static_cast<uint32_t>(value & -value);
}

struct Alignments {
	uint32_t a, b, c, d;
};

bool isAligned(const Algorithm &algorithm, const Problem &p, const Alignments &promised)
{
	auto check = [&](const MatrixLayout &layout, uint32_t base) {
		auto element = static_cast<int64_t>(sizeOf(layout.type));
		int64_t needed = std::max<int64_t>(algorithm.alignment, element);
		return base % needed == 0 && layout.ld * element % needed == 0 &&
		       (layout.batch == 1 || hasArrays(p) || layout.stride * element % needed == 0);
	};
	return check(p.a, promised.a) && check(p.b, promised.b) && check(p.c, promised.c) && check(p.d, promised.d);
}

// A split of k is useful if the result alone does not fill the device. Half accumulators are never split.
bool isWorthSplitting(const Product &product)
{
	const bool isLong = product.k >= 1024 && product.k >= 4 * std::max(product.m, product.n);
	return isLong && product.scaleType != CUDA_R_16F;
}

bool canAddress(const Algorithm &algorithm, const Problem &p)
{
	return algorithm.pointers >> p.desc.pointerMode & 1 && (algorithm.arrays || !hasArrays(p));
}

Choice choose(const Algorithm &algorithm, const Problem &p)
{
	Choice choice{};
	choice.magic = Choice::magicNumber;
	choice.id = algorithm.id;
	choice.split = algorithm.split;
	choice.reduction = algorithm.reduction;
	choice.compute = static_cast<uint8_t>(p.desc.compute);
	choice.scale = static_cast<uint8_t>(p.desc.scale);
	choice.a = static_cast<uint8_t>(p.a.type);
	choice.b = static_cast<uint8_t>(p.b.type);
	choice.c = static_cast<uint8_t>(p.c.type);
	choice.d = static_cast<uint8_t>(p.d.type);
	choice.transa = static_cast<uint8_t>(p.desc.transa);
	choice.transb = static_cast<uint8_t>(p.desc.transb);
	return choice;
}

// INVALID_VALUE if the algorithm is unknown or misconfigured, or was made for other types or operations; NOT_SUPPORTED
// if it was made for other alignments.
cublasStatus_t checkChoice(const Choice &choice, const Problem &p, const Alignments &alignments)
{
	const Algorithm *algorithm = algorithmOf(choice);
	if (!algorithm)
		return CUBLAS_STATUS_INVALID_VALUE;
	Choice expected = choose(*algorithm, p);
	if (choice.transa == Choice::anyOperation)
		expected.transa = expected.transb = Choice::anyOperation;
	const bool isSame = std::memcmp(&choice.compute, &expected.compute, sizeof choice - offsetof(Choice, compute)) == 0;
	const bool isConfigured = choice.split == expected.split && choice.reduction == expected.reduction &&
	                          choice.swizzle <= 1 && choice.custom == 0;
	const bool canSplit = choice.split == 1 || p.desc.scale != CUDA_R_16F;
	if (!isSame || !isConfigured || !canSplit || !canAddress(*algorithm, p))
		return CUBLAS_STATUS_INVALID_VALUE;
	return isAligned(*algorithm, p, alignments) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

// The gradient of a bias is computed from partial sums, which are in the workspace.
size_t workspaceOf(const Choice &choice, const Problem &p)
{
	Product product = p.product;
	product.split = choice.split;
	const auto sums = static_cast<size_t>(product.m * product.batch) * sizeof(float);
	return emulated::blas::workspaceOf(product) + (p.desc.epilogue & gradientBit ? sums : 0);
}

void report(const Choice &choice, const Problem &p, cublasLtMatmulHeuristicResult_t &result)
{
	constexpr uint64_t tile = 128, multiprocessors = 132;
	std::memset(&result, 0, sizeof result);
	std::memcpy(&result.algo, &choice, sizeof choice);
	result.workspaceSize = workspaceOf(choice, p);
	result.state = CUBLAS_STATUS_SUCCESS;
	uint64_t tiles = (p.d.rows + tile - 1) / tile * ((p.d.columns + tile - 1) / tile) * p.d.batch * choice.split;
	result.wavesCount = static_cast<float>(tiles) / multiprocessors;
}

// All algorithms that may run, best first.
int candidates(const Problem &p, const Alignments &alignments, size_t workspace, uint32_t reductions, Choice *choices,
               int most)
{
	int count = 0;
	for (const Algorithm &algorithm : algorithms) {
		Choice choice = choose(algorithm, p);
		const bool isSplit = algorithm.split > 1;
		if (count == most || (isSplit && (!isWorthSplitting(p.product) || !(reductions & algorithm.reduction))) ||
		    workspaceOf(choice, p) > workspace || !canAddress(algorithm, p) || !isAligned(algorithm, p, alignments))
			continue;
		choices[count++] = choice;
	}
	return count;
}

constexpr int algorithmCount = std::size(algorithms);
constexpr uintptr_t workspaceAlignment = 256;

} // namespace

ENTRY(cublasLtMatmul, EXECUTION_FAILED, lightHandle, computeDesc, alpha, A, Adesc, B, Bdesc, beta, C, Cdesc, D, Ddesc,
      algo, workspace, workspaceSizeInBytes, stream)
{
	Context *handle = live(lightHandle);
	if (!handle)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	Problem p;
	if (cublasStatus_t status = describe(computeDesc, Adesc, Bdesc, Cdesc, Ddesc, {A, B, C, D}, p))
		return status;
	const bool hasBeta = p.desc.pointerMode != CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO;
	if (!A || !B || !D || !alpha || (!beta && hasBeta) || ((p.desc.epilogue & vectorBits) && !p.desc.bias) ||
	    ((p.desc.epilogue & auxBit) && !p.desc.aux))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (C == D && std::memcmp(&p.c, &p.d, sizeof p.c) != 0) // in place, but with different views of the matrix
		return CUBLAS_STATUS_INVALID_VALUE;
	if (reinterpret_cast<uintptr_t>(workspace) % workspaceAlignment != 0)
		return CUBLAS_STATUS_INVALID_VALUE;
	const size_t room = workspace ? workspaceSizeInBytes : 0;

	Alignments alignments{alignmentOf(A), alignmentOf(B), alignmentOf(C), alignmentOf(D)};
	if (hasArrays(p)) // the pointers are read only on the device
		alignments = {256, 256, 256, 256};
	Choice choice;
	if (algo) {
		choice = choiceOf(algo);
		if (cublasStatus_t status = checkChoice(choice, p, alignments))
			return status;
	} else if (candidates(p, alignments, room, CUBLASLT_REDUCTION_SCHEME_MASK, &choice, 1) == 0) {
		return CUBLAS_STATUS_NOT_SUPPORTED;
	}
	if (workspaceOf(choice, p) > room)
		return CUBLAS_STATUS_INVALID_VALUE;

	Product &product = p.product;
	product.alpha = alpha;
	product.beta = hasBeta ? beta : nullptr;
	product.split = choice.split;
	product.workspace = workspace;
	product.workspaceBytes = room;
	readScalars(product);
	if (!C && !product.deviceScalars && (product.betaValue != 0.0 || product.hasBetaVector))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (cublasStatus_t status = ready(*handle, stream))
		return status;
	if (product.m == 0 || product.n == 0)
		return CUBLAS_STATUS_SUCCESS;
	return enqueue(stream, __func__, {product});
}

ENTRY(cublasLtMatmulAlgoGetHeuristic, NOT_SUPPORTED, lightHandle, operationDesc, Adesc, Bdesc, Cdesc, Ddesc, preference,
      requestedAlgoCount, heuristicResultsArray, returnAlgoCount)
{
	if (!live(lightHandle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (requestedAlgoCount <= 0 || !preference || !heuristicResultsArray || !returnAlgoCount)
		return CUBLAS_STATUS_INVALID_VALUE;
	*returnAlgoCount = 0;
	Problem p;
	if (cublasStatus_t status = describe(operationDesc, Adesc, Bdesc, Cdesc, Ddesc, {}, p))
		return status;
	const auto &wish = *reinterpret_cast<const MatmulPreference *>(preference);
	if (wish.searchMode != CUBLASLT_SEARCH_BEST_FIT) {
		emulated::missing("cublasLtMatmulAlgoGetHeuristic with a search mode other than BEST_FIT");
		return CUBLAS_STATUS_NOT_SUPPORTED;
	}
	Choice choices[algorithmCount];
	int count = candidates(p, {wish.alignA, wish.alignB, wish.alignC, wish.alignD}, wish.maxWorkspace, wish.reductions,
	                       choices, std::min(requestedAlgoCount, algorithmCount));
	for (int i = 0; i < count; ++i)
		report(choices[i], p, heuristicResultsArray[i]);
	*returnAlgoCount = count;
	return count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

ENTRY(cublasLtMatmulAlgoCheck, NOT_SUPPORTED, lightHandle, operationDesc, Adesc, Bdesc, Cdesc, Ddesc, algo, result)
{
	if (!live(lightHandle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!algo || !result)
		return CUBLAS_STATUS_INVALID_VALUE;
	Problem p;
	if (cublasStatus_t status = describe(operationDesc, Adesc, Bdesc, Cdesc, Ddesc, {}, p))
		return status;
	const Choice choice = choiceOf(algo);
	if (cublasStatus_t status = checkChoice(choice, p, {256, 256, 256, 256}))
		return status;
	report(choice, p, *result); // algo may be &result->algo
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasLtMatmulAlgoGetIds, NOT_SUPPORTED, lightHandle, computeType, scaleType, Atype, Btype, Ctype, Dtype,
      requestedAlgoCount, algoIdsArray, returnAlgoCount)
{
	if (!live(lightHandle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (requestedAlgoCount <= 0 || !algoIdsArray || !returnAlgoCount)
		return CUBLAS_STATUS_INVALID_VALUE;
	*returnAlgoCount = 0;
	if (!find(Table::lt, computeType, scaleType, Atype, Btype, Ctype, Dtype))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	for (const Algorithm &algorithm : algorithms)
		if (*returnAlgoCount < requestedAlgoCount)
			algoIdsArray[(*returnAlgoCount)++] = algorithm.id;
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasLtMatmulAlgoInit, NOT_SUPPORTED, lightHandle, computeType, scaleType, Atype, Btype, Ctype, Dtype, algoId,
      algo)
{
	if (!live(lightHandle))
		return CUBLAS_STATUS_NOT_INITIALIZED;
	if (!algo)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (!find(Table::lt, computeType, scaleType, Atype, Btype, Ctype, Dtype))
		return CUBLAS_STATUS_NOT_SUPPORTED;
	const Algorithm *known = std::find_if(std::begin(algorithms), std::end(algorithms),
	                                      [&](const Algorithm &algorithm) { return algorithm.id == algoId; });
	if (known == std::end(algorithms))
		return CUBLAS_STATUS_INVALID_VALUE;
	Problem p{};
	p.desc.compute = computeType;
	p.desc.scale = scaleType;
	p.a.type = Atype;
	p.b.type = Btype;
	p.c.type = Ctype;
	p.d.type = Dtype;
	Choice choice = choose(*known, p);
	choice.split = 1; // an algorithm that the program configures starts with defaults
	choice.reduction = CUBLASLT_REDUCTION_SCHEME_NONE;
	choice.transa = choice.transb = Choice::anyOperation;
	std::memset(algo, 0, sizeof *algo);
	std::memcpy(algo, &choice, sizeof choice);
	return CUBLAS_STATUS_SUCCESS;
}

namespace {

// The configuration of an algorithm, by CUBLASLT_ALGO_CONFIG_* id; the first one is read-only.
struct Field {
	size_t offset, size;
};
#define FIELD(member)                                                                                                  \
	{                                                                                                                  \
		offsetof(Choice, member), sizeof(Choice::member)                                                               \
	}
constexpr Field configuration[] = {FIELD(id),     FIELD(tile),   FIELD(split),      FIELD(reduction),    FIELD(swizzle),
                                   FIELD(custom), FIELD(stages), FIELD(innerShape), FIELD(clusterShape), {},
                                   FIELD(unnamed)};

cublasStatus_t answer(const void *value, size_t size, void *buf, size_t sizeInBytes, size_t *sizeWritten)
{
	if (sizeInBytes == 0 ? !sizeWritten : !buf || sizeInBytes != size)
		return CUBLAS_STATUS_INVALID_VALUE;
	if (sizeInBytes != 0)
		std::memcpy(buf, value, size);
	if (sizeWritten)
		*sizeWritten = size;
	return CUBLAS_STATUS_SUCCESS;
}

const Field *fieldOf(cublasLtMatmulAlgoConfigAttributes_t attr)
{
	const bool isKnown = attr >= 0 && attr < static_cast<int>(std::size(configuration)) && configuration[attr].size > 0;
	return isKnown ? &configuration[attr] : nullptr;
}

} // namespace

ENTRY(cublasLtMatmulAlgoConfigGetAttribute, INVALID_VALUE, algo, attr, buf, sizeInBytes, sizeWritten)
{
	const Field *field = fieldOf(attr);
	if (!algo || !field)
		return CUBLAS_STATUS_INVALID_VALUE;
	return answer(reinterpret_cast<const std::byte *>(algo) + field->offset, field->size, buf, sizeInBytes,
	              sizeWritten);
}

ENTRY(cublasLtMatmulAlgoConfigSetAttribute, INVALID_VALUE, algo, attr, buf, sizeInBytes)
{
	const Field *field = fieldOf(attr);
	if (!algo || !buf || !field || attr == CUBLASLT_ALGO_CONFIG_ID || sizeInBytes != field->size)
		return CUBLAS_STATUS_INVALID_VALUE;
	std::memcpy(reinterpret_cast<std::byte *>(algo) + field->offset, buf, sizeInBytes);
	return CUBLAS_STATUS_SUCCESS;
}

ENTRY(cublasLtMatmulAlgoCapGetAttribute, INVALID_VALUE, algo, attr, buf, sizeInBytes, sizeWritten)
{
	const Algorithm *algorithm = algo ? algorithmOf(choiceOf(algo)) : nullptr;
	if (!algorithm)
		return CUBLAS_STATUS_INVALID_VALUE;
	uint32_t value = 0; // the value of all other attributes, and of lists with a single undefined tile or stage
	switch (attr) {
	case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
		value = algorithm->split > 1;
		break;
	case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
		value = algorithm->reduction;
		break;
	case CUBLASLT_ALGO_CAP_STRIDED_BATCH_SUPPORT:
	case CUBLASLT_ALGO_CAP_OUT_OF_PLACE_RESULT_SUPPORT:
		value = 1;
		break;
	case CUBLASLT_ALGO_CAP_POINTER_ARRAY_BATCH_SUPPORT:
		value = algorithm->arrays;
		break;
	case CUBLASLT_ALGO_CAP_POINTER_MODE_MASK:
		value = algorithm->pointers;
		break;
	case CUBLASLT_ALGO_CAP_EPILOGUE_MASK:
		for (const Epilogue &epilogue : epilogues)
			value |= epilogue.id;
		break;
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
	case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
		value = algorithm->alignment;
		break;
	case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
	case CUBLASLT_ALGO_CAP_UPLO_SUPPORT:
	case CUBLASLT_ALGO_CAP_TILE_IDS:
	case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
	case CUBLASLT_ALGO_CAP_CUSTOM_MEMORY_ORDER:
	case CUBLASLT_ALGO_CAP_STAGES_IDS:
	case CUBLASLT_ALGO_CAP_LD_NEGATIVE:
	case CUBLASLT_ALGO_CAP_FLOATING_POINT_EMULATION_SUPPORT:
		break;
	case CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS: {
		const uint64_t flags = CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA;
		return answer(&flags, sizeof flags, buf, sizeInBytes, sizeWritten);
	}
	default:
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	return answer(&value, sizeof value, buf, sizeInBytes, sizeWritten);
}
