// Our own threads, which help the calling thread with a product. They sleep in the kernel while idle, and end after a
// second without work. A process that needs none has none; a forked child starts its own. Any thread; no lock.
#pragma once

#include <cstdint>

namespace autoamp::cpu {

// The threads that help with one product. They help with one at a time: products that begin while another runs get
// none.
class Workers
{
public:
	// At most `wanted` threads, and at most one for each further CPU that the calling thread may use.
	explicit Workers(unsigned wanted);
	~Workers();
	Workers(const Workers &) = delete;
	Workers &operator=(const Workers &) = delete;

	unsigned count() const { return count_; }

	// Calls task(context, part) for each part, at most 65535. The calling thread and the workers take one part after
	// the other. A worker that starts late, or cannot be started, thus delays nothing.
	void run(unsigned parts, void (*task)(void *context, unsigned part), void *context);

private:
	struct WorkerPool *pool_ = nullptr;
	unsigned count_ = 0;
};

} // namespace autoamp::cpu
