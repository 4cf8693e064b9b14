// Kernels of the gradient scalers of programs, by mangled name: the parameters that hold the state of a scaler.
// Constant data; any thread.
#pragma once

#include <cstdint>
#include <string_view>

namespace autoamp::scale {

// Indices of the parameters that point to a part of the state; -1: there is none.
struct StateParameters {
	int8_t scale = -1, tracker = -1, hysteresis = -1;
};

struct GradientKernel {
	// update: the kernel changes the scale. begin, end: two kernels that unscale gradients. The scale is read before
	// the first one, found_inf after the second one. The host changes the scale.
	enum class Part : uint8_t { update, begin, end };

	const char *framework;
	Part part;
	StateParameters before = {}, after = {};
	int8_t foundInf = -1;
	int8_t foundInfBytes = 4;                        // 4: float; 1: bool
	bool isFoundInfValue = false;                    // the parameter is the bool, not its address
	int8_t growth = -1, backoff = -1, interval = -1; // values
	bool hasFloatFactors = false;                    // growth and backoff are float, not double
	int8_t identity;                                 // the parameter whose address is the same at each step
	uint8_t sizes[12] = {};                          // bytes of each parameter; 0: the end
};

struct NamedKernel {
	enum class Use : uint8_t {
		none,      // does not belong to a gradient scaler
		watched,   // `kernel` is its layout
		unknown,   // the name is that of a scaler, the parameters are not: they must not be read
		valueless, // belongs to a scaler whose state cannot be read at it: `reason`
	};
	Use use = Use::none;
	const GradientKernel *kernel = nullptr;
	const char *reason = nullptr;
};

NamedKernel gradientKernel(std::string_view mangled);

} // namespace autoamp::scale
