// The only constructor of the front. Any thread.
#pragma once

namespace autoamp::front {

extern bool isStarted; // the objects that the program started with are bound

} // namespace autoamp::front
