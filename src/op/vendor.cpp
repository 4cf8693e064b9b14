#include "src/op/vendor.h"

#include "src/cuda/library.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>

namespace autoamp::op {

namespace {

template <typename Result, typename... A, typename... B>
constexpr bool isSame(Result (*)(A...), Status (*)(B...))
{
	return sizeof...(A) == sizeof...(B) && ((sizeof(A) == sizeof(B)) && ...);
}
#define X(name, arguments) static_assert(isSame(&::name, static_cast<Status(*) arguments>(nullptr)));
AUTOAMP_CUBLAS_FUNCTIONS(X)
AUTOAMP_CUBLASLT_FUNCTIONS(X)
AUTOAMP_CUDNN_FUNCTIONS(X)
AUTOAMP_CUDNN_OPS_FUNCTIONS(X)
AUTOAMP_CUDNN_CNN_FUNCTIONS(X)
AUTOAMP_CUDNN_CONVOLUTION_FUNCTIONS(X)
AUTOAMP_CUDNN_ADV_FUNCTIONS(X)
AUTOAMP_CUDNN_RNN_FUNCTIONS(X)
AUTOAMP_CUDNN_GRAPH_FUNCTIONS(X)
#undef X
static_assert(pointerModeDevice == CUBLAS_POINTER_MODE_DEVICE);

template <typename Function>
bool find(Function &function, const void *original, const char *name)
{
	function = reinterpret_cast<Function>(cuda::findInLibraryOf(original, name));
	return function;
}

template <typename Table, typename Fill>
const Table *load(Fill fill)
{
	auto *table = new Table{};
	if (fill(*table))
		return table;
	delete table;
	return nullptr;
}

} // namespace

const Cublas *loadCublas(const void *original)
{
	return load<Cublas>([&](Cublas &table) {
		bool isComplete = true;
#define X(name, arguments) isComplete = find(table.name, original, #name) && isComplete;
		AUTOAMP_CUBLAS_FUNCTIONS(X)
#undef X
		return isComplete;
	});
}

const CublasLt *loadCublasLt(const void *original)
{
	return load<CublasLt>([&](CublasLt &table) {
		bool isComplete = true;
#define X(name, arguments) isComplete = find(table.name, original, #name) && isComplete;
		AUTOAMP_CUBLASLT_FUNCTIONS(X)
#undef X
		return isComplete;
	});
}

#define X(name, arguments) isComplete = find(table.name, original, #name) && isComplete;
#define PART(Part, FUNCTIONS)                                                                                          \
	template <>                                                                                                        \
	const Part *loadCudnn(const void *original)                                                                        \
	{                                                                                                                  \
		return load<Part>([&](Part &table) {                                                                           \
			bool isComplete = true;                                                                                    \
			FUNCTIONS(X)                                                                                               \
			return isComplete;                                                                                         \
		});                                                                                                            \
	}
PART(Cudnn, AUTOAMP_CUDNN_FUNCTIONS)
PART(CudnnOps, AUTOAMP_CUDNN_OPS_FUNCTIONS)
PART(CudnnCnn, AUTOAMP_CUDNN_CNN_FUNCTIONS)
PART(CudnnConvolutions, AUTOAMP_CUDNN_CONVOLUTION_FUNCTIONS)
PART(CudnnAdv, AUTOAMP_CUDNN_ADV_FUNCTIONS)
PART(CudnnRnn, AUTOAMP_CUDNN_RNN_FUNCTIONS)
PART(CudnnGraph, AUTOAMP_CUDNN_GRAPH_FUNCTIONS)
#undef PART
#undef X

} // namespace autoamp::op
