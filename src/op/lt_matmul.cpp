#include "src/op/lt_matmul.h"

#include "src/base/faults.h"
#include "src/base/once.h"

#include <cublasLt.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace autoamp::op {

namespace {

// A vendor getter. A failure can mean that the object lacks the attribute, so the getter repeats the query before it
// returns one. If a passing failure were taken for that, the lowered call would compute something else.
struct Getter {
	Status (*get)(const void *, int, void *, size_t, size_t *);
	const char *name;

	Status operator()(const void *object, int id, void *value, size_t size, size_t &written) const
	{
		Status status = get(object, id, value, size, &written);
		if (status && !(status = get(object, id, value, size, &written)))
			base::leaveFault(name);
		return status;
	}
};

Getter getterOfMatmul(const CublasLt &lt)
{
	return {lt.cublasLtMatmulDescGetAttribute, "cublasLtMatmulDescGetAttribute"};
}
Getter getterOfLayout(const CublasLt &lt)
{
	return {lt.cublasLtMatrixLayoutGetAttribute, "cublasLtMatrixLayoutGetAttribute"};
}

template <typename Value>
Status read(const Getter &get, const void *object, int id, Value &value)
{
	size_t written = 0;
	return get(object, id, &value, sizeof value, written);
}

// ---- attributes unknown to autoamp: each id that the loaded library supports, with the size and default of a fresh
// object. If a later library adds an attribute, only the calls that use it are kept.
struct Attribute {
	int id;
	size_t size;
	unsigned char fallback[64]; // the longest known attribute has 8 bytes
};

struct Attributes {
	Attribute list[64];
	int count = 0;

	void learn(const Getter &get, const void *fresh, uint64_t known)
	{
		for (int id = 0; id < 64; id++) {
			Attribute &attribute = list[count];
			attribute = {id, 0, {}};
			if (known >> id & 1 || get(fresh, id, nullptr, 0, attribute.size) || !attribute.size ||
			    attribute.size > sizeof attribute.fallback)
				continue;
			size_t written = 0;
			if (get(fresh, id, attribute.fallback, attribute.size, written) == 0)
				count++;
		}
	}

	bool areDefaults(const Getter &get, const void *object) const
	{
		for (int i = 0; i < count; i++) {
			unsigned char value[sizeof list[i].fallback];
			size_t written = 0;
			if (get(object, list[i].id, value, list[i].size, written) == 0 &&
			    std::memcmp(value, list[i].fallback, list[i].size) != 0)
				return false;
		} // a failure means an object of an older version, without the attribute
		return true;
	}
};

struct Learnt {
	Attributes matmul, layout;
};

constexpr uint64_t bits(std::initializer_list<int> ids)
{
	uint64_t set = 0;
	for (int id : ids)
		set |= uint64_t{1} << id;
	return set;
}

// Attributes that describe() reads or the engine copies. Scale pointers, scale modes and amax are not in the set: they
// have no meaning without tensor-wide scales.
constexpr uint64_t knownOfMatmul =
    bits({CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLASLT_MATMUL_DESC_SCALE_TYPE, CUBLASLT_MATMUL_DESC_POINTER_MODE,
          CUBLASLT_MATMUL_DESC_TRANSA, CUBLASLT_MATMUL_DESC_TRANSB, CUBLASLT_MATMUL_DESC_EPILOGUE,
          CUBLASLT_MATMUL_DESC_BIAS_POINTER, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE,
          CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD,
          CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE});
constexpr uint64_t knownOfLayout =
    bits({CUBLASLT_MATRIX_LAYOUT_TYPE, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_MATRIX_LAYOUT_ROWS,
          CUBLASLT_MATRIX_LAYOUT_COLS, CUBLASLT_MATRIX_LAYOUT_LD, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
          CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE});

const Learnt *learn(const CublasLt &lt)
{
	void *matmul = nullptr, *layout = nullptr;
	const auto worked = [](const char *what, Status status) {
		if (status)
			base::leaveFault(what);
		return status == 0;
	};
	Learnt *learnt = nullptr;
	if (worked("cublasLtMatmulDescCreate", lt.cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
	    worked("cublasLtMatrixLayoutCreate", lt.cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1))) {
		learnt = new Learnt;
		learnt->matmul.learn(getterOfMatmul(lt), matmul, knownOfMatmul);
		learnt->layout.learn(getterOfLayout(lt), layout, knownOfLayout);
	}
	if (matmul)
		worked("cublasLtMatmulDescDestroy", lt.cublasLtMatmulDescDestroy(matmul));
	if (layout)
		worked("cublasLtMatrixLayoutDestroy", lt.cublasLtMatrixLayoutDestroy(layout));
	return learnt;
}

constinit base::Once<const Learnt> theAttributes;

// ---- read

struct Layout {
	uint32_t type = 0;
	int32_t order = 0;
	uint64_t rows = 0, columns = 0;
	int64_t ld = 0, stride = 0;
	int32_t batch = 1;
	uint32_t batchMode = CUBLASLT_BATCH_MODE_STRIDED;

	bool operator==(const Layout &) const = default;
	bool isByRows() const { return order == CUBLASLT_ORDER_ROW; }
	bool isKnown() const
	{
		return (order == CUBLASLT_ORDER_COL || isByRows()) && batchMode <= CUBLASLT_BATCH_MODE_POINTER_ARRAY;
	}
	bool canHold() const { return ld >= 1 && ld >= static_cast<int64_t>(isByRows() ? columns : rows); }
	// True if the matrix has this shape after the transposition, which must be one that autoamp knows.
	bool hasShape(int32_t transposition, uint64_t wantedRows, uint64_t wantedColumns) const
	{
		if (transposition != CUBLAS_OP_N)
			std::swap(wantedRows, wantedColumns);
		return rows == wantedRows && columns == wantedColumns && transposition >= CUBLAS_OP_N &&
		       transposition <= CUBLAS_OP_C;
	}
};

bool readLayout(const CublasLt &lt, const void *object, Layout &layout)
{
	const Getter get = getterOfLayout(lt);
	// Older libraries lack this attribute and refuse it.
	if (object && read(get, object, CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, layout.batchMode))
		layout.batchMode = CUBLASLT_BATCH_MODE_STRIDED;
	return object && read(get, object, CUBLASLT_MATRIX_LAYOUT_TYPE, layout.type) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_ORDER, layout.order) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_ROWS, layout.rows) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_COLS, layout.columns) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_LD, layout.ld) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout.batch) == 0 &&
	       read(get, object, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout.stride) == 0;
}

// A call and the contents of its descriptors.
struct Product {
	const LtMatmulCall &call;
	const CublasLt &lt;
	const void *const objects[4] = {call.Adesc, call.Bdesc, call.Cdesc, call.Ddesc};
	Layout layouts[4] = {};
	const Layout &a = layouts[0], &b = layouts[1], &c = layouts[2], &d = layouts[3];
	int32_t computeType = 0, scaleType = 0, pointerMode = 0, transa = 0, transb = 0;
	uint32_t epilogue = 0;

	bool areArrays() const { return d.batchMode != CUBLASLT_BATCH_MODE_STRIDED; }
	uint16_t layoutFlags() const
	{
		return (areArrays() ? flagArrays : 0) | (a.isByRows() ? flagRowA : 0) | (b.isByRows() ? flagRowB : 0) |
		       (d.isByRows() ? flagRowD : 0);
	}
	// C and D usually share a descriptor, which is read once.
	int firstWith(int i) const { return static_cast<int>(std::find(objects, objects + i, objects[i]) - objects); }
};

bool readLayouts(Product &product)
{
	for (int i = 0; i < 4; i++)
		if (const int first = product.firstWith(i); first < i)
			product.layouts[i] = product.layouts[first];
		else if (!readLayout(product.lt, product.objects[i], product.layouts[i]))
			return false;
	return true;
}

bool readProduct(Product &product)
{
	const Getter get = getterOfMatmul(product.lt);
	const void *object = product.call.computeDesc;
	return product.call.lightHandle && object &&
	       read(get, object, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, product.computeType) == 0 &&
	       read(get, object, CUBLASLT_MATMUL_DESC_SCALE_TYPE, product.scaleType) == 0 &&
	       read(get, object, CUBLASLT_MATMUL_DESC_POINTER_MODE, product.pointerMode) == 0 &&
	       read(get, object, CUBLASLT_MATMUL_DESC_TRANSA, product.transa) == 0 &&
	       read(get, object, CUBLASLT_MATMUL_DESC_TRANSB, product.transb) == 0 &&
	       read(get, object, CUBLASLT_MATMUL_DESC_EPILOGUE, product.epilogue) == 0 && readLayouts(product);
}

Epilogue epilogueOf(uint32_t epilogue)
{
	switch (epilogue) {
#define X(name, vendor, effects)                                                                                       \
	case CUBLASLT_EPILOGUE_##vendor:                                                                                   \
		return Epilogue::name;
		AUTOAMP_EPILOGUES(X)
#undef X
	default:
		return Epilogue::other;
	}
}

void setShape(Op &op, const Product &product)
{
	const auto &[a, b, c, d] = product.layouts;
	op.a = dtypeOf(static_cast<int>(a.type));
	op.b = dtypeOf(static_cast<int>(b.type));
	op.out = dtypeOf(static_cast<int>(d.type));
	op.transa = transposeOf(product.transa);
	op.transb = transposeOf(product.transb);
	op.m = static_cast<int64_t>(d.rows), op.n = static_cast<int64_t>(d.columns);
	op.k = static_cast<int64_t>(product.transa == CUBLAS_OP_N ? a.columns : a.rows);
	op.lda = a.ld, op.ldb = b.ld, op.ldc = c.ld, op.ldd = d.ld;
	op.batch = d.batch;
	if (op.batch > 1 && !product.areArrays())
		op.stridea = a.stride, op.strideb = b.stride, op.stridec = c.stride, op.strided = d.stride;
	op.epilogue = static_cast<uint8_t>(epilogueOf(product.epilogue));
	const bool isBatch = op.batch != 1 || product.areArrays();
	op.kind = isBatch ? Kind::bmm : epilogueEffects(op) & addsBias ? Kind::addmm : Kind::mm;
}

void setArithmetic(Op &op, const Product &product, const VendorEnvironment &environment)
{
	const Arithmetic arithmetic = arithmeticOf(product.computeType, 0, environment);
	op.cause = op.a == Dtype::float32 ? arithmetic.cause : isLow(op.a) ? Cause::half_operands : Cause::none;
	op.asked = op.a == Dtype::float32 ? arithmetic.asked : op.a;
	op.obstacle = typeObstacle(op, product.computeType);
	if (op.obstacle == Obstacle::none && !(op.flags & flagHalfSums))
		op.obstacle = arithmetic.obstacle;
}

// ---- validate: a call that the vendor would refuse goes to it unchanged

bool areShapesValid(const Op &op, const Product &product)
{
	const auto &[a, b, c, d] = product.layouts;
	const auto k = static_cast<uint64_t>(op.k);
	return a.hasShape(product.transa, d.rows, k) && b.hasShape(product.transb, k, d.columns) &&
	       c.hasShape(CUBLAS_OP_N, d.rows, d.columns) && a.batch == d.batch && b.batch == d.batch &&
	       c.batch == d.batch && op.batch >= 0;
}

bool areLayoutsValid(const Product &product)
{
	return std::all_of(product.layouts, product.layouts + 4, [&product](const Layout &layout) {
		return layout.batchMode == product.d.batchMode && (!layout.isKnown() || layout.canHold());
	});
}

bool arePointersValid(const Op &op, const Product &product)
{
	const LtMatmulCall &call = product.call;
	const size_t alignment = product.areArrays()       ? sizeof(void *)
	                         : op.flags & flagHalfSums ? sizeof(uint16_t)
	                                                   : sizeof(float);
	const auto isAligned = [alignment](const void *pointer) {
		return reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
	};
	// In place with two layouts: the vendor refuses it even if the difference has no effect.
	return call.A && call.B && call.D && isAligned(call.A) && isAligned(call.B) && isAligned(call.C) &&
	       isAligned(call.D) && (call.C != call.D || product.c == product.d);
}

// Sets the flags of the layouts, and a cause if the obstacle has one.
Obstacle validate(Op &op, const Product &product)
{
	if (!areShapesValid(op, product) || !areLayoutsValid(product))
		return Obstacle::bad_argument;
	op.flags |= product.layoutFlags();
	if (product.pointerMode != CUBLASLT_POINTER_MODE_HOST && product.pointerMode != CUBLASLT_POINTER_MODE_DEVICE) {
		op.cause = Cause::vector_scalars;
		return Obstacle::unsupported;
	}
	if (!product.call.alpha || !product.call.beta)
		return Obstacle::bad_argument;
	if (!op.m || !op.n || !op.k || !op.batch)
		return Obstacle::zero_size;
	return arePointersValid(op, product) ? Obstacle::none : Obstacle::bad_argument;
}

// ---- classify: the cause that keeps a lowered call from computing the same

// True if all attributes that autoamp does not know have their defaults.
bool isPlain(const Product &product)
{
	const auto ask = [&product] { return learn(product.lt); };
	const Learnt *learnt = theAttributes.getOrRetry(ask);
	if (!learnt) // a second try, because the decision depends on it
		learnt = theAttributes.getOrRetry(ask);
	bool isPlain = learnt && learnt->matmul.areDefaults(getterOfMatmul(product.lt), product.call.computeDesc);
	for (int i = 0; i < 4; i++)
		isPlain = isPlain && (product.firstWith(i) < i ||
		                      learnt->layout.areDefaults(getterOfLayout(product.lt), product.objects[i]));
	return isPlain;
}

// Epilogue of a call, with its arguments.
struct EpilogueArguments {
	const Product &product;
	const Op &op;
	int32_t typeOfD;
	LtExtras extras = {};

	bool has(unsigned effects) const { return epilogueEffects(op) & effects; }
	int32_t typeAt(int id) const // -1: the default
	{
		int32_t type = -1;
		return read(getterOfMatmul(product.lt), product.call.computeDesc, id, type) ? -1 : type;
	}
	bool isOfD(int32_t type) const { return type == -1 || type == typeOfD; }

	bool isBiasValid() const { return extras.bias && isOfD(typeAt(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)); }
	// An autoamp kernel writes the sum. It must not run if batches would overwrite each other. The vendor sums only an
	// A that is not transposed and a B that is: cuBLASLt 13.1 refuses the others.
	bool isSumValid() const
	{
		const bool isOfA = op.epilogue == static_cast<uint8_t>(Epilogue::bgrada);
		const int64_t length = isOfA ? op.m : op.n;
		const bool isTransposed = (isOfA ? product.transa : product.transb) != CUBLAS_OP_N;
		return isTransposed != isOfA && typeOfD == CUDA_R_32F && extras.bias % sizeof(float) == 0 &&
		       (op.batch <= 1 || extras.biasBatchStride >= length);
	}
	// The vendor computes the gradient of a bias from partial sums in the workspace: cuBLASLt 13.1 refuses the call
	// without one. This is the least that one row of sums needs.
	bool hasRoomForSums() const
	{
		const auto sums = static_cast<size_t>(op.m * op.batch) * sizeof(float);
		return product.call.workspace && product.call.workspaceSizeInBytes >= sums;
	}
	bool isAuxValid() const
	{
		const int32_t type = typeAt(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE);
		const int64_t grain = has(hasMask) ? 128 : 8; // in bits for a mask, in elements for a matrix
		return extras.aux && extras.auxLd >= op.m && extras.auxLd % grain == 0 && extras.auxBatchStride % grain == 0 &&
		       (has(hasMask) ? type == -1 : isOfD(type));
	}
};

// True if a lowered call can apply the epilogue with its arguments. False if the vendor would refuse them.
bool isCarriedOver(const Product &product, const Op &op, int32_t typeOfD)
{
	EpilogueArguments epilogue = {product, op, typeOfD};
	return op.epilogue != static_cast<uint8_t>(Epilogue::other) &&
	       readExtras(product.lt, product.call.computeDesc, op, epilogue.extras) &&
	       (!epilogue.has(addsBias | writesGradient | sumsOperand) || epilogue.isBiasValid()) &&
	       (!epilogue.has(sumsOperand) || epilogue.isSumValid()) &&
	       (!epilogue.has(writesGradient) || epilogue.hasRoomForSums()) &&
	       (!epilogue.has(hasMatrix | hasMask) || epilogue.isAuxValid());
}

// For a row-major D the transpose is computed. Only an epilogue that treats all elements identically can follow it.
// For a batch by pointers, beta * C is added last, so that no epilogue can follow the product.
bool preventsEpilogue(const Product &product, const Op &op)
{
	return (product.d.isByRows() && epilogueEffects(op)) ||
	       (product.areArrays() && product.epilogue != CUBLASLT_EPILOGUE_DEFAULT);
}

Cause classify(const Product &product, const Op &op)
{
	const auto &layouts = product.layouts;
	const bool areKnown = product.c.order == product.d.order &&
	                      std::all_of(layouts, layouts + 4, [](const Layout &layout) { return layout.isKnown(); });
	const int32_t scalarType = op.flags & flagHalfSums ? CUDA_R_16F : CUDA_R_32F; // and type of bias, auxiliary matrix
	const bool isPlainCall = isPlain(product); // also for a call whose order is not known
	return !areKnown                                            ? Cause::matrix_order
	       : !isPlainCall                                       ? Cause::attribute
	       : product.scaleType != scalarType                    ? Cause::scale_type
	       : product.c.type != product.d.type                   ? Cause::result_types
	       : !areApart(op)                                      ? Cause::overlap
	       : op.stridea < 0 || op.strideb < 0 || op.stridec < 0 ? Cause::strides
	       : preventsEpilogue(product, op)                      ? Cause::epilogue_layout
	       : !isCarriedOver(product, op, scalarType)            ? Cause::epilogue
	                                                            : Cause::none;
}

// The scalars are read last: if the vendor refuses the call, they may be device memory even in host pointer mode.
// False if beta * C needs a C and there is none.
bool readScalars(Op &op, const Product &product)
{
	const LtMatmulCall &call = product.call;
	const bool isHalf = op.flags & flagHalfSums;
	if (product.pointerMode == CUBLASLT_POINTER_MODE_DEVICE)
		op.flags |= flagDeviceScalars;
	else
		op.flags |= (isZero(call.alpha, isHalf) ? flagAlphaZero : 0) | (isZero(call.beta, isHalf) ? flagBetaZero : 0);
	if (!call.C && !(op.flags & flagBetaZero))
		return false;
	op.flags |= call.C ? 0 : flagNoC;
	return true;
}

} // namespace

Op describe(const Entry &entry, uint16_t index, const LtMatmulCall &call, const CublasLt *lt,
            const VendorEnvironment &environment)
{
	Op op;
	op.entry = index;
	op.library = entry.library;
	op.kind = Kind::mm;
	op.obstacle = Obstacle::bad_argument;
	if (!lt) {
		op.obstacle = Obstacle::unsupported, op.cause = Cause::no_getters;
		return op;
	}
	Product product = {call, *lt};
	if (!readProduct(product))
		return op;
	setShape(op, product);
	setArithmetic(op, product, environment);
	if (op.obstacle != Obstacle::none && !isNarrowed(op))
		return op;

	// From here on the call is an fp32 product, whatever arithmetic it permits, or a float16 product summed in float16.
	const Obstacle usual = op.obstacle;
	op.obstacle = validate(op, product);
	if (op.obstacle != Obstacle::none)
		return op;
	if (const Cause cause = classify(product, op); cause != Cause::none)
		op.obstacle = Obstacle::unsupported, op.cause = cause;
	else if (!readScalars(op, product))
		op.obstacle = Obstacle::bad_argument;
	else
		op.obstacle = op.flags & flagAlphaZero ? Obstacle::zero_size : usual;
	return op;
}

bool readExtras(const CublasLt &lt, const void *computeDesc, const Op &op, LtExtras &extras)
{
	const Getter get = getterOfMatmul(lt);
	if (read(get, computeDesc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, extras.bias))
		return false;
	// Later library versions added these two: a shorter descriptor refuses them, and their defaults apply.
	if (read(get, computeDesc, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, extras.biasBatchStride))
		extras.biasBatchStride = 0;
	if (read(get, computeDesc, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, extras.smCountTarget))
		extras.smCountTarget = 0;
	if (epilogueEffects(op) & (hasMatrix | hasMask))
		return read(get, computeDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, extras.aux) == 0 &&
		       read(get, computeDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, extras.auxLd) == 0 &&
		       read(get, computeDesc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, extras.auxBatchStride) == 0;
	return true;
}

} // namespace autoamp::op
