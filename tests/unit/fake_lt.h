// A cuBLASLt for tests: objects are lists of attributes, every call can be made to fail and every object is counted.
// One thread.
#pragma once

#include "src/op/vendor.h"

#include <cublasLt.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake_lt {

using Bytes = std::vector<unsigned char>;
using Attributes = std::map<int, Bytes>;

constexpr int invalidValue = CUBLAS_STATUS_INVALID_VALUE, internalError = CUBLAS_STATUS_INTERNAL_ERROR;

template <typename Value>
Bytes bytesOf(const Value &value)
{
	const auto *first = reinterpret_cast<const unsigned char *>(&value);
	return {first, first + sizeof value};
}

// Attributes that autoamp's tables do not have, as in a later library.
constexpr int laterOfMatmul = 60, largeOfMatmul = 61, laterOfLayout = 40;
const Bytes largeDefault(24, 7);

struct Library {
	std::set<void *> live;
	std::set<std::string> failing; // these always fail
	int failAt = 0;                // this one fails, counted from 1, functions that destroy are not counted; 0: none
	int calls = 0;
	std::string failed; // the last one that failed
	// The heuristic's result, and the parameters of its query.
	std::vector<cublasStatus_t> states = {CUBLAS_STATUS_SUCCESS};
	int status = 0;
	struct Question {
		void *handle = nullptr;
		Attributes description, a, b, c, d, preference;
		int most = 0;
	} asked;
	// An algorithm of the application: the result of its check, and the checked descriptors.
	int checkStatus = 0;
	size_t checkedWorkspace = 0;
	uint32_t alignmentOfD = 0; // alignment that the algorithm needs
	std::vector<const void *> checked;

	bool fails(const char *name)
	{
		if (++calls != failAt && !failing.count(name))
			return false;
		failed = name;
		return true;
	}
};
inline Library library;

inline Attributes &of(const void *object)
{
	return *static_cast<Attributes *>(const_cast<void *>(object));
}

template <typename Value>
void set(const void *object, int id, const Value &value)
{
	of(object)[id] = bytesOf(value);
}

template <typename Value>
Value get(const Attributes &attributes, int id)
{
	Value value{};
	const Bytes &bytes = attributes.at(id);
	if (bytes.size() != sizeof value)
		throw std::string("attribute of another size");
	std::memcpy(&value, bytes.data(), sizeof value);
	return value;
}

inline int make(void **object, Attributes attributes)
{
	*object = new Attributes(std::move(attributes));
	library.live.insert(*object);
	return 0;
}

inline int destroy(void *object)
{
	if (!library.live.erase(object))
		throw std::string("destroyed twice");
	delete static_cast<Attributes *>(object);
	return 0;
}

inline int read(const void *object, int id, void *value, size_t size, size_t *written)
{
	const auto found = of(object).find(id);
	if (found == of(object).end() || (size && size != found->second.size()))
		return invalidValue;
	*written = found->second.size();
	if (size)
		std::memcpy(value, found->second.data(), size);
	return 0;
}

inline int write(void *object, int id, const void *value, size_t size)
{
	const auto found = of(object).find(id);
	if (found == of(object).end() || size != found->second.size())
		return invalidValue;
	std::memcpy(found->second.data(), value, size);
	return 0;
}

inline Attributes freshMatmul(int computeType, int scaleType)
{
	const Bytes four(4, 0), eight(8, 0);
	Attributes fresh = {{CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, bytesOf(computeType)},
	                    {CUBLASLT_MATMUL_DESC_SCALE_TYPE, bytesOf(scaleType)},
	                    {CUBLASLT_MATMUL_DESC_POINTER_MODE, four},
	                    {CUBLASLT_MATMUL_DESC_TRANSA, four},
	                    {CUBLASLT_MATMUL_DESC_TRANSB, four},
	                    {CUBLASLT_MATMUL_DESC_TRANSC, four},
	                    {CUBLASLT_MATMUL_DESC_FILL_MODE, bytesOf(2)},
	                    {CUBLASLT_MATMUL_DESC_EPILOGUE, bytesOf(1)},
	                    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, eight},
	                    {CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, eight},
	                    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, eight},
	                    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, eight},
	                    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, eight},
	                    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, bytesOf(-1)},
	                    {CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, four},
	                    {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, eight},
	                    {CUBLASLT_MATMUL_DESC_FAST_ACCUM, Bytes(1, 0)},
	                    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, bytesOf(-1)},
	                    {laterOfMatmul, bytesOf(int64_t{3})},
	                    {largeOfMatmul, largeDefault}};
	return fresh;
}

inline Attributes freshLayout(int type, uint64_t rows, uint64_t columns, int64_t ld)
{
	return {{CUBLASLT_MATRIX_LAYOUT_TYPE, bytesOf(type)},
	        {CUBLASLT_MATRIX_LAYOUT_ORDER, bytesOf(int{CUBLASLT_ORDER_COL})},
	        {CUBLASLT_MATRIX_LAYOUT_ROWS, bytesOf(rows)},
	        {CUBLASLT_MATRIX_LAYOUT_COLS, bytesOf(columns)},
	        {CUBLASLT_MATRIX_LAYOUT_LD, bytesOf(ld)},
	        {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, bytesOf(1)},
	        {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, bytesOf(int64_t{0})},
	        {CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, bytesOf(0)},
	        {CUBLASLT_MATRIX_LAYOUT_PLANE_OFFSET, bytesOf(int64_t{0})},
	        {laterOfLayout, bytesOf(5)}};
}

inline Attributes freshPreference()
{
	return {{CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytesOf(uint64_t{0})},
	        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, bytesOf(uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK})},
	        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytesOf(uint32_t{256})},
	        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytesOf(uint32_t{256})},
	        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, bytesOf(uint32_t{256})},
	        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, bytesOf(uint32_t{256})}};
}

#define FAILS(name) library.fails(name) ? internalError

inline autoamp::op::CublasLt makeTable()
{
	autoamp::op::CublasLt lt = {};
	lt.cublasLtMatmulDescCreate = [](void **object, int computeType, int scaleType) {
		return FAILS("cublasLtMatmulDescCreate") : make(object, freshMatmul(computeType, scaleType));
	};
	lt.cublasLtMatmulDescDestroy = destroy;
	lt.cublasLtMatmulDescSetAttribute = [](void *object, int id, const void *value, size_t size) {
		return FAILS("cublasLtMatmulDescSetAttribute") : write(object, id, value, size);
	};
	lt.cublasLtMatmulDescGetAttribute = [](const void *object, int id, void *value, size_t size, size_t *written) {
		return FAILS("cublasLtMatmulDescGetAttribute") : read(object, id, value, size, written);
	};
	lt.cublasLtMatrixLayoutCreate = [](void **object, int type, uint64_t rows, uint64_t columns, int64_t ld) {
		return FAILS("cublasLtMatrixLayoutCreate") : make(object, freshLayout(type, rows, columns, ld));
	};
	lt.cublasLtMatrixLayoutDestroy = destroy;
	lt.cublasLtMatrixLayoutSetAttribute = [](void *object, int id, const void *value, size_t size) {
		return FAILS("cublasLtMatrixLayoutSetAttribute") : write(object, id, value, size);
	};
	lt.cublasLtMatrixLayoutGetAttribute = [](const void *object, int id, void *value, size_t size, size_t *written) {
		return FAILS("cublasLtMatrixLayoutGetAttribute") : read(object, id, value, size, written);
	};
	lt.cublasLtMatmulPreferenceCreate = [](void **object) {
		return FAILS("cublasLtMatmulPreferenceCreate") : make(object, freshPreference());
	};
	lt.cublasLtMatmulPreferenceDestroy = destroy;
	lt.cublasLtMatmulPreferenceSetAttribute = [](void *object, int id, const void *value, size_t size) {
		return FAILS("cublasLtMatmulPreferenceSetAttribute") : write(object, id, value, size);
	};
	lt.cublasLtMatmulAlgoGetHeuristic = [](void *handle, const void *description, const void *a, const void *b,
	                                       const void *c, const void *d, void *preference, int most, void *results,
	                                       int *found) {
		if (library.fails("cublasLtMatmulAlgoGetHeuristic"))
			return internalError;
		library.asked = {handle, of(description), of(a), of(b), of(c), of(d), of(preference), most};
		*found = static_cast<int>(library.states.size());
		for (int i = 0; i < *found; i++) { // each has its own number
			cublasLtMatmulHeuristicResult_t result = {};
			result.state = library.states[static_cast<size_t>(i)];
			result.workspaceSize = 1000 + static_cast<size_t>(i);
			std::memset(&result.algo, 0x40 + i, sizeof result.algo);
			static_cast<cublasLtMatmulHeuristicResult_t *>(results)[i] = result;
		}
		return library.status;
	};
	lt.cublasLtMatmulAlgoCheck = [](void *handle, const void *description, const void *a, const void *b, const void *c,
	                                const void *d, const void *algo, void *result) {
		library.checked = {handle, description, a, b, c, d, algo};
		static_cast<cublasLtMatmulHeuristicResult_t *>(result)->workspaceSize = library.checkedWorkspace;
		return library.checkStatus;
	};
	lt.cublasLtMatmulAlgoCapGetAttribute = [](const void *, int id, void *value, size_t size, size_t *written) {
		const bool isOfD = id == CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES;
		const uint32_t bytes = isOfD ? library.alignmentOfD : 0;
		*written = size;
		std::memcpy(value, &bytes, size);
		return FAILS("cublasLtMatmulAlgoCapGetAttribute") : 0;
	};
	return lt;
}
#undef FAILS

inline const autoamp::op::CublasLt lt = makeTable();

} // namespace fake_lt
