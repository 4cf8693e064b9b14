// Parameters of the kernels of the gradient scaler in autoamp.h. Host and device; plain data.
#pragma once

#include "kernels/cast.h"

namespace autoamp::kernels {

// State machines, named after the framework that has them (docs/gradient-scaler.md).
enum class ScalerRule : uint32_t { torch, paddle, mindspore, megatron };
enum class GradientType : uint32_t { float32, float16, bfloat16, float64 };

constexpr uint32_t scalerOptimizers = 32, scalerDevices = 16;

// State of one scaler, in mapped host memory that all devices can access. Only kernels write it, in the order of the
// program's streams.
struct ScalerState {
	float scale;
	int32_t tracker;         // clean steps since the latest change
	int32_t other;           // paddle: overflows in a row; megatron: overflows left until the scale is reduced
	uint32_t steps, skipped; // updates so far, and those after an overflow
	float latest;            // paddle: flag of the latest step
	float found[scalerOptimizers][scalerDevices]; // 1: Inf or NaN among the gradients since the latest update
};

// Multiplication of tensors, as many as one launch takes, by the scale or its inverse.
constexpr int mostGradients = 240;
constexpr uint64_t gradientChunk = 8192; // elements that a block takes at once
struct Gradients {
	ScalerState *state;
	float *found; // set to 1 if an element is Inf or NaN; null: the tensors are multiplied by the scale
	ScalerRule rule;
	GradientType type;
	uint32_t count;
	struct {
		void *data; // aligned to its elements
		uint64_t count;
	} tensor[mostGradients];
};
static_assert(sizeof(Gradients) <= 4096);

// The end of a step, or new values for the state. One thread.
struct ScalerUpdate {
	ScalerState *state;
	Ring *ring;     // null: no event
	uint64_t ticks; // host time of the launch; 0 in a graph
	double growth, backoff, leastScale;
	int32_t interval, backoffEvery, hysteresis; // interval 0: the scale is fixed
	ScalerRule rule;
	uint32_t optimizers;    // bit mask of those whose flags count
	uint32_t used, devices; // flags to clear: mask of optimizers, and number of devices
	uint32_t scaler;        // Update::scaler
	enum : uint32_t { setScale = 1, setTracker = 2, setOther = 4, clearFlags = 8 };
	uint32_t set; // 0: an update by the rule
	float scale;
	int32_t tracker, other;
};

// Kernels, all extern "C", with one parameter by value:
//   autoamp_scaler_gradients   a Gradients, blocks of blockSize
//   autoamp_scaler_update      a ScalerUpdate, one thread

} // namespace autoamp::kernels
