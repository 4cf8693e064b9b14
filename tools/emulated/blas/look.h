// Access to device memory when a kernel runs. On the worker.
#pragma once

#include "tools/emulated/blas/convert.h"
#include "tools/emulated/device/device.h"

namespace emulated::blas {

// Finds the memory that a kernel accesses at `address`. Fails unless the access is aligned to its element, as the
// hardware does. `offset`: in elements.
cudaError_t look(const void *&where, const void *address, size_t alignment, size_t bytes);
cudaError_t look(const void *&where, const void *base, cudaDataType type, int64_t offset, int64_t rows, int64_t columns,
                 int64_t ld);

} // namespace emulated::blas
