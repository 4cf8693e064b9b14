#include "src/scale/slots.h"

#include "src/base/log.h"
#include "src/base/own_work.h"

#include <sys/mman.h>

namespace autoamp::scale {

cuda::Failure Slots::open(const cuda::Driver &driver, cuda::Stream stream)
{
	constexpr size_t tableBytes = predictionBytes + sizeof(kernels::SiteState) * kernels::siteCount;
	constexpr unsigned portableAndMapped = 1 | 2; // CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP
	void *const ring = mmap(nullptr, sizeof(kernels::Ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring == MAP_FAILED)
		return cuda::Failure::outOfMemory;
	ring_ = static_cast<kernels::Ring *>(ring);
	bool isMapped = driver.cuMemHostRegister_v2(ring, sizeof(kernels::Ring), portableAndMapped) == 0;
	if (!isMapped) {
		munmap(ring, sizeof(kernels::Ring));
		ring_ = nullptr;
	} else if (driver.cuMemHostGetDevicePointer_v2(&ringOnDevice_, ring, 0)) {
		closeRing(driver);
		isMapped = false;
	}
	// Results do not depend on the ring: without it, only the scaler events are missing.
	if (!isMapped)
		base::log(base::LogLevel::warn, "the device cannot map host memory; scaler events are not recorded");
	cuda::Result result = driver.cuMemAlloc_v2(&predictions_, tableBytes);
	if (!result) {
		const base::OwnWork ownWork;
		result = driver.cuMemsetD8Async(predictions_, 0, tableBytes, stream);
	}
	if (result)
		close(driver);
	return cuda::failureOf(result);
}

void Slots::close(const cuda::Driver &driver)
{
	if (predictions_)
		driver.cuMemFree_v2(predictions_);
	predictions_ = 0;
	closeRing(driver);
}

void Slots::closeRing(const cuda::Driver &driver)
{
	ringOnDevice_ = 0;
	if (ring_ && driver.cuMemHostUnregister(ring_) == 0) // if refused, the memory is still mapped and must not be freed
		munmap(ring_, sizeof(kernels::Ring));
	ring_ = nullptr;
}

bool Slots::next(kernels::Event &event)
{
	uint64_t read = read_.load(std::memory_order_relaxed);
	const uint64_t end = written();
	if (end - read > kernels::ringSize)
		read = end - kernels::ringSize; // the ring wrapped; the totals include the lost events
	if (read == end)
		return false;
	const kernels::Event &arrived = ring_->events[read % kernels::ringSize];
	const uint64_t sequence = __atomic_load_n(&arrived.sequence, __ATOMIC_ACQUIRE);
	if (sequence < read + 1)
		return false; // reserved, but not yet written
	event = arrived;
	read_.store(read + 1, std::memory_order_relaxed);
	std::atomic_thread_fence(std::memory_order_acquire); // otherwise the fields could be read after the sequence below
	// If the event was overwritten during the read, skip it; the totals include it.
	return __atomic_load_n(&arrived.sequence, __ATOMIC_ACQUIRE) == sequence && sequence == read + 1 ? true
	                                                                                                : next(event);
}

} // namespace autoamp::scale
