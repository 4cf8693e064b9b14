// Parameters of the kernels of the gradient scaler in autoamp.h. Host and device; plain data.
#pragma once

#include "kernels/cast.h"

namespace autoamp::kernels {

// Arithmetic of a framework: where it rounds the inverse of the scale, and what it tests (gradient.cuh).
enum class Arithmetic : uint32_t { torch, paddle, mindspore };
enum class GradientType : uint32_t { float32, float16, bfloat16, float64 };

constexpr uint32_t scalerOptimizers = 32, scalerDevices = 16;

// State machine with its parameters: when the scale changes, and how. src/gradient/rule.cpp has those of the
// frameworks.
struct ScalerRule {
	// Clean steps since the latest overflow until the scale grows: the tracker equals the interval (exact; wrapping:
	// and is taken modulo it), reaches it, or is a multiple of it (periodic; delayed: one step later, and never at
	// once).
	enum class Growth : uint8_t { exact, wrapping, atLeast, periodic, delayed };
	// Overflows that reduce the scale: each; every `patience`-th in a row; or from the `patience`-th on since the
	// latest growth, or since the latest clean step.
	enum class Overflows : uint8_t { each, inARow, sinceGrowth, sinceClean };
	enum : uint16_t {
		divides = 1,     // an overflow divides by `backoff`
		isWide = 2,      // the scale is a double
		staysFinite = 4, // the scale does not grow to Inf
		keepsLast = 8,   // the number of overflows that are left stays at 1
		stops = 16,      // an overflow at the floor changes nothing
		lastDecides = 32 // only the flag of the optimizer that was stepped last counts
	};

	double growth, backoff;
	double floor;               // an overflow does not reduce the scale below it
	int32_t interval, patience; // interval 0: the scale is fixed
	Growth grows;
	Overflows reduces;
	uint16_t flags;

	AUTOAMP_HOST_DEVICE bool has(uint16_t flag) const { return (flags & flag) != 0; }
	AUTOAMP_HOST_DEVICE bool countsDown() const { return reduces >= Overflows::sinceGrowth; }
};

// State of one scaler, in mapped host memory that all devices can access. Only kernels write it, in the order of the
// program's streams.
struct ScalerState {
	double wide;             // the scale
	float scale;             // the same, rounded
	int32_t tracker;         // clean steps since the latest change
	int32_t other;           // overflows in a row, or left until the scale is reduced (ScalerRule::countsDown)
	uint32_t steps, skipped; // updates so far, and those after an overflow
	float latest;            // lastDecides: flag of the latest step
	float found[scalerOptimizers][scalerDevices]; // 1: Inf or NaN among the gradients since the latest update
};

// Multiplication of tensors, as many as one launch takes, by the scale or its inverse.
constexpr int mostGradients = 240;
constexpr uint64_t gradientChunk = 8192; // elements that a block takes at once
struct Gradients {
	ScalerState *state;
	float *found; // set to 1 if an element is Inf or NaN; null: the tensors are multiplied by the scale
	Arithmetic arithmetic;
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
	ScalerRule rule;
	uint32_t optimizers;    // bit mask of those whose flags count
	uint32_t used, devices; // flags to clear: mask of optimizers, and number of devices
	uint32_t scaler;        // Update::scaler
	enum : uint32_t { setScale = 1, setTracker = 2, setOther = 4, clearFlags = 8 };
	uint32_t set; // 0: an update by the rule
	double scale;
	int32_t tracker, other;
};

// Kernels, all extern "C", with one parameter by value:
//   autoamp_scaler_gradients   a Gradients, blocks of blockSize
//   autoamp_scaler_update      a ScalerUpdate, one thread

} // namespace autoamp::kernels
