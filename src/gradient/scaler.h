// The gradient scaler of inject/autoamp.h. Any thread: each function locks its scaler. The state is in mapped host
// memory, so that all devices can access it without copies. Functions launch kernels and return; step() and get() wait
// for the stream.
#pragma once

#include "inject/front.h"
#include "kernels/gradient.h"
#include "src/lower/context_state.h"
#include "src/state/process.h"

#include <mutex>

namespace autoamp::gradient {

class Scaler
{
public:
	// Returns an AUTOAMP_ code. The options have been checked.
	static int create(core::Process &process, const autoamp_scaler_options &options, Scaler *&made);
	// Null if there is no such scaler, or if this is a forked child, in which CUDA does not work.
	static Scaler *find(const autoamp_scaler *handle);

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
	};
	// Where a call launches its kernels.
	struct Place {
		int status = AUTOAMP_FAILED; // 0: the rest is valid
		lower::ContextState *context = nullptr;
		const lower::Kernels *kernels = nullptr;
		bool isCapturing = false;
	};

	Place placeOf(cuda::Stream stream) const;
	int wait(cuda::Stream stream) const;
	int open(const autoamp_scaler_options &options);
	int multiply(const Place &place, kernels::Gradients &gradients, const autoamp_tensor *tensors, size_t count,
	             cuda::Stream stream) const;
	kernels::ScalerUpdate newUpdate() const;
	int launchUpdate(const Place &place, kernels::ScalerUpdate &update, cuda::Stream stream) const;
	int updateByRule(const Place &place, cuda::Stream stream);

	core::Process *process_ = nullptr; // null: this place in the table is free
	const cuda::Driver *driver_ = nullptr;
	int ownerId_ = 0;                  // id of the operating system process
	unsigned long long contextId_ = 0; // the context in which the scaler was made
	int device_ = 0;
	kernels::ScalerState *state_ = nullptr, *onDevice_ = nullptr;
	kernels::ScalerRule rule_ = {};
	double growth_ = 0, backoff_ = 0, leastScale_ = 0;
	int interval_ = 0, backoffEvery_ = 0, hysteresis_ = 0;
	uint32_t index_ = 0; // kernels::Update::scaler
	std::mutex mutex_;
	Optimizer optimizers_[kernels::scalerOptimizers] = {};
	uint32_t latest_ = 0;  // mask of the optimizer stepped last since the update
	uint32_t devices_ = 0; // highest device with a flag, + 1
};

// Returns the rule with this name; false: there is none.
bool ruleOf(const char *name, kernels::ScalerRule &rule);

} // namespace autoamp::gradient
