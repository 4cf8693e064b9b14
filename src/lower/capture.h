// Reports whether a stream is being captured into a CUDA graph. Any thread.
#pragma once

#include "src/cuda/driver.h"

namespace autoamp::lower {

enum class Capture { no, yes, forbidden };

inline Capture captureOf(const cuda::Driver &driver, cuda::Stream stream)
{
	int status = 0;
	// The driver returns an error for the legacy stream while another stream is captured: nothing may be enqueued then.
	if (driver.cuStreamIsCapturing(stream, &status))
		return Capture::forbidden;
	return status == 0 ? Capture::no : status == 1 ? Capture::yes : Capture::forbidden;
}

// False without a driver.
inline bool isCapturing(void *stream)
{
	const cuda::Driver *driver = cuda::driver();
	return driver && captureOf(*driver, static_cast<cuda::Stream>(stream)) == Capture::yes;
}

} // namespace autoamp::lower
