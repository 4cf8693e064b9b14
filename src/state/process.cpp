#include "src/state/process.h"

namespace autoamp::core {

constinit std::atomic<Process *> theProcess{nullptr};
constinit std::atomic<bool> isIdle{false};

} // namespace autoamp::core
