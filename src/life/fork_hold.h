// While a ForkHold lives, forks of other threads wait, at most a second: a child would inherit half-done work of this
// thread.
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
