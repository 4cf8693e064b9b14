// While one of these lives, no thread of the process forks: a child would find what this thread does half done.
#pragma once

#include "inject/front.h"

namespace autoamp::core {

struct ForkHold {
	ForkHold() { autoamp_front_hold_forks(); }
	~ForkHold() { autoamp_front_release_forks(); }
	ForkHold(const ForkHold &) = delete;
	ForkHold &operator=(const ForkHold &) = delete;
};

} // namespace autoamp::core
