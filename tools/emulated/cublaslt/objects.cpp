// Create, Init, Destroy, Get and Set of the five kinds of objects, with one table of attributes each. As in the real
// library, only id and size are checked here. The heuristic and the product reject invalid values.
#include "tools/emulated/cublaslt/objects.h"
#include "tools/emulated/blas/context.h"

#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

using namespace emulated::cublaslt;

namespace {

struct Attribute {
	int id;
	uint32_t offset;
	uint32_t size;
	uint64_t initial = 0;
};

// Init writes the highest version that fits into the size reserved by the caller.
struct Version {
	size_t reserved;
	uint32_t number;
	size_t written;
};

struct Kind {
	std::span<const Attribute> attributes;
	std::span<const Version> versions; // ascending
	int versionBytes;                  // bytes of the version number at the start of the object; 0: no version
	size_t size;                       // size of an object that Create allocates
};

#define FIELD(Type, id, member, ...)                                                                                   \
	{                                                                                                                  \
		id, offsetof(Type, member), sizeof(Type::member) __VA_OPT__(, ) __VA_ARGS__                                    \
	}
constexpr uint64_t unset = 0xffffffff;

constexpr Attribute matmulAttributes[] = {
    FIELD(MatmulDesc, 0, compute),
    FIELD(MatmulDesc, 1, scale),
    FIELD(MatmulDesc, 2, pointerMode),
    FIELD(MatmulDesc, 3, transa),
    FIELD(MatmulDesc, 4, transb),
    FIELD(MatmulDesc, 5, transc),
    FIELD(MatmulDesc, 6, fill, CUBLAS_FILL_MODE_FULL),
    FIELD(MatmulDesc, 7, epilogue, CUBLASLT_EPILOGUE_DEFAULT),
    FIELD(MatmulDesc, 8, bias),
    FIELD(MatmulDesc, 10, biasStride),
    FIELD(MatmulDesc, 11, aux),
    FIELD(MatmulDesc, 12, auxLd),
    FIELD(MatmulDesc, 13, auxStride),
    FIELD(MatmulDesc, 14, alphaStride),
    FIELD(MatmulDesc, 15, smCount),
    FIELD(MatmulDesc, 16, unnamed),
    FIELD(MatmulDesc, 17, scaleA),
    FIELD(MatmulDesc, 18, scaleB),
    FIELD(MatmulDesc, 19, scaleC),
    FIELD(MatmulDesc, 20, scaleD),
    FIELD(MatmulDesc, 21, amaxD),
    FIELD(MatmulDesc, 22, auxType, unset),
    FIELD(MatmulDesc, 23, auxScale),
    FIELD(MatmulDesc, 24, auxAmax),
    FIELD(MatmulDesc, 25, fastAccumulation),
    FIELD(MatmulDesc, 26, biasType, unset),
    FIELD(MatmulDesc, 31, scaleModeA),
    FIELD(MatmulDesc, 32, scaleModeB),
    FIELD(MatmulDesc, 33, scaleModeC),
    FIELD(MatmulDesc, 34, scaleModeD),
    FIELD(MatmulDesc, 35, auxScaleMode),
    FIELD(MatmulDesc, 36, scaleOutD),
    FIELD(MatmulDesc, 37, scaleOutModeD),
    FIELD(MatmulDesc, 38, emulation),
};
constexpr Attribute layoutAttributes[] = {
    FIELD(MatrixLayout, 0, type),    FIELD(MatrixLayout, 1, order), FIELD(MatrixLayout, 2, rows),
    FIELD(MatrixLayout, 3, columns), FIELD(MatrixLayout, 4, ld),    FIELD(MatrixLayout, 5, batch, 1),
    FIELD(MatrixLayout, 6, stride),  FIELD(MatrixLayout, 7, plane), FIELD(MatrixLayout, 8, batchMode),
};
constexpr Attribute preferenceAttributes[] = {
    FIELD(MatmulPreference, 0, searchMode),
    FIELD(MatmulPreference, 1, maxWorkspace),
    FIELD(MatmulPreference, 3, reductions, CUBLASLT_REDUCTION_SCHEME_MASK),
    FIELD(MatmulPreference, 5, alignA, 256),
    FIELD(MatmulPreference, 6, alignB, 256),
    FIELD(MatmulPreference, 7, alignC, 256),
    FIELD(MatmulPreference, 8, alignD, 256),
    FIELD(MatmulPreference, 9, maxWaves),
    FIELD(MatmulPreference, 12, implementations, ~0ull),
};
constexpr Attribute transformAttributes[] = {
    FIELD(TransformDesc, 0, scale),
    FIELD(TransformDesc, 1, pointerMode),
    FIELD(TransformDesc, 2, transa),
    FIELD(TransformDesc, 3, transb),
};
constexpr Attribute emulationAttributes[] = {
    FIELD(EmulationDesc, 0, strategy),          FIELD(EmulationDesc, 1, specialValues, 0xffff),
    FIELD(EmulationDesc, 2, mantissaControl),   FIELD(EmulationDesc, 3, maxMantissaBits),
    FIELD(EmulationDesc, 4, mantissaBitOffset), FIELD(EmulationDesc, 5, mantissaBitCount),
};

constexpr Version matmulVersions[] = {{56, 1, 56}, {88, 2, 88}, {96, 3, 92}, {184, 4, 164}, {256, 6, 208}};
constexpr Version layoutVersions[] = {{64, 0, 56}};
constexpr Version preferenceVersions[] = {{64, 0, 48}};
constexpr Version transformVersions[] = {{64, 0, 16}};
constexpr Version emulationVersions[] = {{64, 1, 32}};

static_assert(offsetof(MatmulDesc, aux) == 56 && offsetof(MatmulDesc, smCount) == 88);
static_assert(offsetof(MatmulDesc, auxType) == 92 && offsetof(MatmulDesc, scaleModeA) == 164);
static_assert(sizeof(MatmulDesc) == 208 && sizeof(MatrixLayout) == 56 && sizeof(MatmulPreference) == 48);
static_assert(sizeof(TransformDesc) == 16 && sizeof(EmulationDesc) == 32);

constexpr Kind matmulKind{matmulAttributes, matmulVersions, 4, sizeof(cublasLtMatmulDescOpaque_t)};
constexpr Kind layoutKind{layoutAttributes, layoutVersions, 0, sizeof(cublasLtMatrixLayoutOpaque_t)};
constexpr Kind preferenceKind{preferenceAttributes, preferenceVersions, 1, sizeof(cublasLtMatmulPreferenceOpaque_t)};
constexpr Kind transformKind{transformAttributes, transformVersions, 0, sizeof(cublasLtMatrixTransformDescOpaque_t)};
constexpr Kind emulationKind{emulationAttributes, emulationVersions, 4, sizeof(cublasLtEmulationDescOpaque_t)};

size_t writtenBy(const Kind &kind, const void *object)
{
	uint32_t number = 0;
	std::memcpy(&number, object, kind.versionBytes);
	for (const Version &version : kind.versions)
		if (version.number == number)
			return version.written;
	return 0;
}

// `values`: initial attributes from the caller, by id; all versions have these attributes.
cublasStatus_t init(const Kind &kind, void *object, size_t size, std::initializer_list<std::pair<int, uint64_t>> values)
{
	if (!object)
		return CUBLAS_STATUS_INVALID_VALUE;
	const Version *known = nullptr;
	for (const Version &version : kind.versions)
		if (size >= version.reserved)
			known = &version;
	if (!known)
		return CUBLAS_STATUS_ALLOC_FAILED;
	auto *bytes = static_cast<std::byte *>(object);
	if (kind.versionBytes == 1) // a version byte: the rest of its word is not changed
		std::memset(bytes + 4, 0, known->written - 4);
	else
		std::memset(bytes, 0, known->written);
	std::memcpy(bytes, &known->number, kind.versionBytes);
	for (const Attribute &attribute : kind.attributes)
		if (attribute.offset + attribute.size <= known->written)
			std::memcpy(bytes + attribute.offset, &attribute.initial, attribute.size);
	for (auto [id, value] : values)
		for (const Attribute &attribute : kind.attributes)
			if (attribute.id == id)
				std::memcpy(bytes + attribute.offset, &value, attribute.size);
	return CUBLAS_STATUS_SUCCESS;
}

template <typename Object>
cublasStatus_t create(const Kind &kind, Object **object, std::initializer_list<std::pair<int, uint64_t>> values)
{
	if (!object)
		return CUBLAS_STATUS_INVALID_VALUE;
	void *made = std::calloc(1, kind.size);
	if (!made)
		return CUBLAS_STATUS_ALLOC_FAILED;
	*object = static_cast<Object *>(made);
	return init(kind, made, kind.size, values);
}

// Null if the object's version does not have the attribute.
const Attribute *find(const Kind &kind, const void *object, int id)
{
	for (const Attribute &attribute : kind.attributes)
		if (attribute.id == id && attribute.offset + attribute.size <= writtenBy(kind, object))
			return &attribute;
	return nullptr;
}

cublasStatus_t set(const Kind &kind, void *object, int id, const void *buf, size_t sizeInBytes)
{
	const Attribute *attribute = object ? find(kind, object, id) : nullptr;
	if (!attribute || !buf || sizeInBytes != attribute->size)
		return CUBLAS_STATUS_INVALID_VALUE;
	std::memcpy(static_cast<std::byte *>(object) + attribute->offset, buf, sizeInBytes);
	return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t get(const Kind &kind, const void *object, int id, void *buf, size_t sizeInBytes, size_t *sizeWritten)
{
	const Attribute *attribute = object ? find(kind, object, id) : nullptr;
	if (!attribute || (sizeInBytes == 0 ? !sizeWritten : !buf || sizeInBytes != attribute->size))
		return CUBLAS_STATUS_INVALID_VALUE;
	if (sizeInBytes != 0)
		std::memcpy(buf, static_cast<const std::byte *>(object) + attribute->offset, sizeInBytes);
	if (sizeWritten)
		*sizeWritten = attribute->size;
	return CUBLAS_STATUS_SUCCESS;
}

} // namespace

namespace emulated::cublaslt {

MatmulDesc read(cublasLtMatmulDesc_t desc)
{
	MatmulDesc full;
	init(matmulKind, &full, matmulKind.size, {});
	std::memcpy(static_cast<void *>(&full), desc, writtenBy(matmulKind, desc));
	return full;
}

} // namespace emulated::cublaslt

#define OBJECT(name, kind)                                                                                             \
	ENTRY(name##Destroy, INVALID_VALUE, object)                                                                        \
	{                                                                                                                  \
		std::free(object);                                                                                             \
		return CUBLAS_STATUS_SUCCESS;                                                                                  \
	}                                                                                                                  \
	ENTRY(name##SetAttribute, INVALID_VALUE, object, attr, buf, sizeInBytes)                                           \
	{                                                                                                                  \
		return set(kind, object, attr, buf, sizeInBytes);                                                              \
	}                                                                                                                  \
	ENTRY(name##GetAttribute, INVALID_VALUE, object, attr, buf, sizeInBytes, sizeWritten)                              \
	{                                                                                                                  \
		return get(kind, object, attr, buf, sizeInBytes, sizeWritten);                                                 \
	}
OBJECT(cublasLtMatmulDesc, matmulKind)
OBJECT(cublasLtMatrixLayout, layoutKind)
OBJECT(cublasLtMatmulPreference, preferenceKind)
OBJECT(cublasLtMatrixTransformDesc, transformKind)
OBJECT(cublasLtEmulationDesc, emulationKind)

#define WITH(...) , __VA_ARGS__
#define MAKERS(name, kind, parameters, ...)                                                                            \
	ENTRY(name##Init_internal, ALLOC_FAILED, object, size parameters)                                                  \
	{                                                                                                                  \
		return init(kind, object, size, {__VA_ARGS__});                                                                \
	}                                                                                                                  \
	ENTRY(name##Create, ALLOC_FAILED, object parameters)                                                               \
	{                                                                                                                  \
		return create(kind, object, {__VA_ARGS__});                                                                    \
	}
MAKERS(cublasLtMatmulDesc, matmulKind, WITH(computeType, scaleType), {0, computeType}, {1, scaleType})
MAKERS(cublasLtMatrixLayout, layoutKind, WITH(type, rows, cols, ld), {0, type}, {2, rows}, {3, cols},
       {4, static_cast<uint64_t>(ld)})
MAKERS(cublasLtMatrixTransformDesc, transformKind, WITH(scaleType), {0, scaleType})
MAKERS(cublasLtMatmulPreference, preferenceKind, )
MAKERS(cublasLtEmulationDesc, emulationKind, )
