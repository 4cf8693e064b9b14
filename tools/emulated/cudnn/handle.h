// The contents of a cudnnHandle_t, and how exported functions use it, reject calls and enqueue work. Any thread; the
// user of a handle must guard its settings.
#pragma once

#include "tools/emulated/blas/context.h"
#include "tools/emulated/cudnn/dnn/tensor.h"
#include "tools/emulated/device/device.h"

#include <cudnn.h>

namespace emulated::cudnn {

using blas::Rounding;
using dnn::Tensor;

struct Handle : blas::Context {
	cudaStream_t stream = nullptr;
};

Handle *handleOf(cudnnHandle_t handle);

// Stores the text that cudnnGetLastErrorString returns to this thread, and returns `status`.
cudnnStatus_t refuse(cudnnStatus_t status, const char *why);

// Device memory during one piece of work. Inaccessible memory reads as zeros, is not written, and sets the error of the
// work.
class Memory
{
public:
	cudaError_t error() const { return error_; }
	// The host address of the tensor's first element, or null.
	void *at(const Tensor &tensor, const void *address);
	void *at(const void *address, size_t bytes, size_t alignment = 1);

	template <typename T>
	std::vector<T> read(const Tensor &tensor, const void *address, Rounding rounding = Rounding::None)
	{
		std::vector<T> dense(static_cast<size_t>(tensor.count()));
		if (const void *data = at(tensor, address))
			dnn::load(tensor, data, dense.data(), rounding);
		return dense;
	}
	// stored = alpha * dense + beta * stored. Does not read the old values if beta is 0.
	template <typename T>
	void write(std::vector<T> dense, const Tensor &tensor, void *address, T alpha = 1, T beta = 0)
	{
		void *data = at(tensor, address);
		if (!data)
			return;
		std::vector<T> old(beta != 0 ? dense.size() : 0);
		if (beta != 0)
			dnn::load(tensor, data, old.data());
		for (size_t i = 0; i < dense.size() && (alpha != 1 || beta != 0); ++i)
			dense[i] = beta != 0 ? alpha * dense[i] + beta * old[i] : alpha * dense[i];
		dnn::store(dense.data(), tensor, data);
	}

private:
	cudaError_t error_ = cudaSuccess;
};

// Enqueues work on the handle's stream.
cudnnStatus_t run(const Handle &handle, const char *name, std::function<void(Memory &)> work);

} // namespace emulated::cudnn

#undef FAILED
#define FAILED(status) emulated::cudnn::refuse(CUDNN_STATUS_##status, "AUTOAMP_EMU_FAIL")
#define REFUSE_IF(condition, status)                                                                                   \
	if (condition)                                                                                                     \
	return emulated::cudnn::refuse(CUDNN_STATUS_##status, #condition)
