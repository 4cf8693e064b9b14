// Opens the core, once. Any thread.
#pragma once

#include "inject/atomics.h"
#include "inject/front.h"

namespace autoamp::front {

// The core's table for this front, and the number of its wrappers.
extern const char coreName[];
extern const unsigned wrapperCount;

extern const Core untouched; // the decision not to use the core
extern const Core *decision; // null: none so far

// AUTOAMP_ENABLED=0, or the program has more rights than its user: the core will not be opened.
bool isOff();

// Opens the core if there is no decision.
const Core *findCore();

// Returns null if there is no decision. With `asks`, opens the core if necessary: the program requests something of it.
const Core *coreOf(bool asks);

} // namespace autoamp::front
