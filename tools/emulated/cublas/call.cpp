#include "tools/emulated/cublas/call.h"

#include <cstdlib>
#include <memory>

using namespace emulated::blas;

namespace emulated::cublas {

std::byte *Memory::at(const Matrix &where, int64_t first, int64_t count)
{
	const size_t size = sizeOf(where.type);
	if (error_)
		return nullptr;
	if (reinterpret_cast<uintptr_t>(where.data) % size != 0)
		error_ = cudaErrorMisalignedAddress;
	else if (void *alias = where.data ? view(where.moved(first).data, count * size) : nullptr)
		return static_cast<std::byte *>(alias);
	else if (hasHost_)
		return static_cast<std::byte *>(const_cast<void *>(where.moved(first).data));
	else
		error_ = cudaErrorIllegalAddress;
	return nullptr;
}

Matrix Memory::element(const Matrix &batch, int64_t index)
{
	Matrix one = batch.moved(batch.isArray ? 0 : index * batch.stride);
	one.isArray = false;
	if (batch.isArray) {
		const auto *entry = at({batch.data, CUDA_R_64I}, index, 1);
		one.data = entry ? *reinterpret_cast<void *const *>(entry) : nullptr;
	}
	return one;
}

namespace {

// Calls function() with the address of the lowest element, and with the index of element `first` relative to it.
template <typename Function>
void reach(Memory &memory, const Matrix &matrix, int64_t first, int64_t step, int64_t count, Function function)
{
	const int64_t span = (count - 1) * step, least = std::min(first, first + span);
	if (auto *base = count > 0 ? memory.at(matrix, least, std::abs(span) + 1) : nullptr)
		function(base, first - least);
}

} // namespace

template <typename T>
void Memory::load(const Matrix &from, int64_t first, int64_t step, int64_t count, T *to)
{
	std::fill_n(to, count, T{});
	reach(*this, from, first, step, count, [&](std::byte *base, int64_t begin) {
		inType(from.type, [&]<typename Stored>(Stored) {
			const auto *stored = reinterpret_cast<const Stored *>(base) + begin;
			for (int64_t i = 0; i < count; ++i)
				to[i] = as<T>(stored[i * step]);
		});
		for (int64_t i = 0; sizeOf(from.type) == 2 && i < count; ++i)
			to[i] = as<T>(numberAt(from.type, base + 2 * (begin + i * step)));
	});
}

template <typename T>
void Memory::store(const T *from, const Matrix &to, int64_t first, int64_t step, int64_t count)
{
	reach(*this, to, first, step, count, [&](std::byte *base, int64_t begin) {
		inType(to.type, [&]<typename Stored>(Stored) {
			auto *stored = reinterpret_cast<Stored *>(base) + begin;
			for (int64_t i = 0; i < count; ++i)
				stored[i * step] = as<Stored>(from[i]);
		});
		for (int64_t i = 0; sizeOf(to.type) == 2 && i < count; ++i)
			putNumber(to.type, from[i], base + 2 * (begin + i * step));
	});
}

#define OF_TYPE(T)                                                                                                     \
	template void Memory::load(const Matrix &, int64_t, int64_t, int64_t, T *);                                        \
	template void Memory::store(const T *, const Matrix &, int64_t, int64_t, int64_t);
OF_TYPE(float)
OF_TYPE(double)
OF_TYPE(std::complex<float>)
OF_TYPE(std::complex<double>)
#undef OF_TYPE

Scalar::Scalar(const Call &call, const Matrix &at, double otherwise, int64_t index)
    : at_(at), index_(index), isOnDevice_(at.data && call.handle->hasDeviceScalars()), value_(otherwise)
{
	if (at.data && !isOnDevice_)
		value_ = numberAt(at.type, at.moved(index).data);
}

std::complex<double> Scalar::read(Memory &memory) const
{
	std::complex<double> value = value_;
	if (isOnDevice_)
		memory.load(at_, index_, 1, 1, &value);
	return value;
}

cublasStatus_t run(const Call &call, Work work)
{
	if (call.handle->kind == Context::Kind::CublasXt) {
		Memory memory(true);
		work(memory);
		return memory.error() || stickyError() ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
	}
	if (cublasStatus_t status = ready(*call.handle, call.handle->stream))
		return status;
	auto body = [work = std::move(work)] {
		Memory memory;
		work(memory);
		return memory.error();
	};
	return submit(call.handle->stream, call.name, body) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
	                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

cublasStatus_t runForResult(const Call &call, Work work)
{
	cudaStream_t stream = call.handle->stream;
	const bool isForHost = !call.handle->hasDeviceScalars();
	if (isForHost && isCapturing(stream)) {
		synchronize(stream); // fails, and invalidates the capture
		return CUBLAS_STATUS_EXECUTION_FAILED;
	}
	cublasStatus_t status = run(call, std::move(work));
	if (status == CUBLAS_STATUS_SUCCESS && isForHost && synchronize(stream) != cudaSuccess)
		status = CUBLAS_STATUS_EXECUTION_FAILED;
	return status;
}

cublasStatus_t enter(cublasHandle_t handle, Call &call, Routine &routine)
{
	if (mustFail(call.name))
		return CUBLAS_STATUS_EXECUTION_FAILED;
	if (&routine == gemv && (call.m <= 0 || call.n <= 0)) // the real library does this, contrary to its manual
		return CUBLAS_STATUS_SUCCESS;
	call.handle = handleOf(handle);
	return call.handle ? routine(call) : CUBLAS_STATUS_NOT_INITIALIZED;
}

} // namespace emulated::cublas
