#include "tools/emulated/blas/look.h"

namespace emulated::blas {

cudaError_t look(const void *&where, const void *address, size_t alignment, size_t bytes)
{
	if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
		return cudaErrorMisalignedAddress;
	where = view(address, bytes);
	return where ? cudaSuccess : cudaErrorIllegalAddress;
}

cudaError_t look(const void *&where, const void *base, cudaDataType type, int64_t offset, int64_t rows, int64_t columns,
                 int64_t ld)
{
	const size_t size = sizeOf(type);
	const auto *address = static_cast<const std::byte *>(base) + offset * static_cast<int64_t>(size);
	return base ? look(where, address, size, ((columns - 1) * ld + rows) * size) : cudaErrorIllegalAddress;
}

} // namespace emulated::blas
