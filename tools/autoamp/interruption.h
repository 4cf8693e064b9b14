// Signals that end a command: noted, so that it can remove its temporary files. Main thread.
#pragma once

namespace autoamp::tool {

// From now on, SIGINT, SIGTERM, SIGHUP and SIGQUIT are only noted, except those that are ignored.
void noteInterruptions();
int interruption(); // the signal; 0: none

} // namespace autoamp::tool
