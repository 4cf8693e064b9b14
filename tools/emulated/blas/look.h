// Memory of the device as a kernel finds it when it runs. On the worker.
#pragma once

#include "tools/emulated/blas/convert.h"
#include "tools/emulated/device/device.h"

namespace emulated::blas {

// What the device sees of memory that a kernel touches when it runs. Every access must be aligned to its element; the
// hardware raises an error of its own otherwise. `offset`: in elements.
cudaError_t look(const void *&where, const void *address, size_t alignment, size_t bytes);
cudaError_t look(const void *&where, const void *base, cudaDataType type, int64_t offset, int64_t rows, int64_t columns,
                 int64_t ld);

} // namespace emulated::blas
