#include "tools/emulated/cublas/call.h"

namespace emulated::cublas {

cublasStatus_t enter(cublasHandle_t handle, Call &call, Routine &routine)
{
	if (mustFail(call.name))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	call.handle = handleOf(handle);
	return call.handle ? routine(call) : CUBLAS_STATUS_NOT_INITIALIZED;
}

} // namespace emulated::cublas
