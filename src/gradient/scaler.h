// The gradient scaler of inject/autoamp.h. Any thread. The state is in mapped host memory, so that all devices can
// access it without copies. Functions launch kernels and return; step() and get() wait for the stream and for the calls
// before. The driver is called without a lock.
#pragma once

#include "inject/front.h"
#include "src/gradient/order.h"
#include "src/gradient/rule.h"
#include "src/lower/context_state.h"
#include "src/state/process.h"

#include <atomic>
#include <mutex>

namespace autoamp::gradient {

class Scaler
{
public:
	// Returns an AUTOAMP_ code. The options have been checked.
	static int create(core::Process &process, const autoamp_scaler_options &options, Scaler *&made);
	// Null if there is no such scaler, or if this is a forked child, in which CUDA does not work.
	static Scaler *find(const autoamp_scaler *handle);
	autoamp_scaler *handle() const { return reinterpret_cast<autoamp_scaler *>(handle_.load()); }

	int destroy();
	int scale(const autoamp_tensor *tensors, size_t count, cuda::Stream stream);
	int unscale(unsigned optimizer, const autoamp_tensor *tensors, size_t count, cuda::Stream stream);
	int step(unsigned optimizer, cuda::Stream stream);
	int update(const double *newScale, cuda::Stream stream);
	int get(autoamp_scaler_state &state, cuda::Stream stream);
	int load(const autoamp_scaler_state &state, cuda::Stream stream);
	int pointers(unsigned optimizer, const float *&scale, const float *&found);

private:
	struct Optimizer {
		uint32_t unscaledOn, checkedOn; // bit masks of devices; checked: it had gradients there
		bool isStepped;
		bool isInGraph; // a graph has its calls: their order is not known, and each replay may unscale
	};
	// Where a call launches its kernels.
	struct Place {
		int status = AUTOAMP_FAILED; // 0: the rest is valid
		lower::ContextState *context = nullptr;
		const lower::Kernels *kernels = nullptr;
		bool isCapturing = false;
	};

	bool isUsable() const;
	Place placeOf(cuda::Stream stream) const;
	int wait(cuda::Stream stream);
	template <typename Launch>
	int inOrder(const Place &place, cuda::Stream stream, Launch launch);
	int open(core::Process &process, const cuda::Driver &driver, const autoamp_scaler_options &options,
	         uintptr_t number);
	int multiply(const Place &place, kernels::Gradients &gradients, const autoamp_tensor *tensors, size_t count,
	             cuda::Stream stream) const;
	int reserve(unsigned optimizer, uint32_t device, bool isCapturing);
	kernels::ScalerUpdate newUpdate() const;
	int launchUpdate(const Place &place, kernels::ScalerUpdate &update, cuda::Stream stream);
	int prepareUpdate(const Place &place, const double *newScale, kernels::ScalerUpdate &update);

	std::atomic<uintptr_t> handle_{0}; // 0: this place in the table is free; 1: it is being opened or closed
	core::Process *process_ = nullptr;
	const cuda::Driver *driver_ = nullptr;
	int ownerId_ = 0; // id of the operating system process
	kernels::ScalerState *state_ = nullptr, *onDevice_ = nullptr;
	const Framework *framework_ = nullptr;
	uint32_t index_ = 0; // kernels::Update::scaler
	Order order_;

	std::mutex mutex_; // protects the following; not held during driver calls
	autoamp_scaler_options options_ = {};
	Optimizer optimizers_[kernels::scalerOptimizers] = {};
	uint32_t latest_ = 0;  // mask of the optimizer stepped last since the update
	uint32_t devices_ = 0; // highest device with a flag, + 1
};

} // namespace autoamp::gradient
