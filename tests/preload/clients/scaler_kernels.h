// Update kernels of gradient scalers with the names, parameters and rules of the frameworks. The device runs their
// bodies as kernels of scalers.cu, the emulated device as host functions of scaler_kernels.cpp.
#pragma once

#include <cfloat>
#include <cstdint>

#ifdef __CUDACC__
#define SCALER_FUNCTION inline __host__ __device__
#else
#define SCALER_FUNCTION inline
#endif

namespace scaler {

// torch from 2.1 on refuses a growth to Inf.
SCALER_FUNCTION void torch(const float *scale, int *tracker, const float *foundInf, double growth, double backoff,
                           int64_t interval, bool isGuarded, float *scaleOut)
{
	if (*foundInf) {
		*scaleOut = static_cast<float>(*scale * backoff);
		*tracker = 0;
		return;
	}
	const int successful = *tracker + 1;
	float scaleNow = *scale;
	if (successful == interval) {
		const auto grown = static_cast<float>(*scale * growth);
		if (!isGuarded || grown <= FLT_MAX)
			scaleNow = grown;
		*tracker = 0;
	} else {
		*tracker = successful;
	}
	*scaleOut = scaleNow;
}

SCALER_FUNCTION void torchFirst(const float *scale, const float *foundInf, float *scaleOut, double growth,
                                double backoff)
{
	*scaleOut = static_cast<float>(*scale * (*foundInf ? backoff : growth));
}

SCALER_FUNCTION void apex(float *scale, int *tracker, int *hysteresisTracker, const float *foundInf, double growth,
                          double backoff, int interval, int hysteresis)
{
	if (*foundInf > 0) {
		*hysteresisTracker -= 1;
		if (*hysteresisTracker > 0) {
			*tracker = 0;
			return;
		}
	}
	torch(scale, tracker, foundInf, growth, backoff, interval, true, scale);
	if (!*foundInf)
		*hysteresisTracker = hysteresis;
}

SCALER_FUNCTION void paddle(bool foundInf, const float *scale, const int *good, const int *bad, int incrEvery,
                            int decrEvery, float incr, float decr, float *scaleOut, int *goodOut, int *badOut)
{
	float next = *scale;
	int goodNow = 0, badNow = 0;
	if (foundInf) {
		badNow = *bad + 1;
		if (badNow == decrEvery) {
			const float lower = *scale * decr;
			next = lower < 1 ? 1 : lower;
			badNow = 0;
		}
	} else {
		goodNow = *good + 1;
		if (goodNow == incrEvery) {
			const float higher = *scale * incr;
			next = higher <= FLT_MAX ? higher : *scale;
			goodNow = 0;
		}
	}
	*scaleOut = next;
	*goodOut = goodNow;
	*badOut = badNow;
}

} // namespace scaler
