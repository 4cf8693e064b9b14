// Processes that were forked while another thread was inside dlopen. Any thread.
#pragma once

#include <atomic>

namespace autoamp::base {

// dlopen would hang or end the process, so nothing more is opened in it. dlsym works. Set by the core.
inline constinit std::atomic<bool> isLoaderBroken{false};

} // namespace autoamp::base
