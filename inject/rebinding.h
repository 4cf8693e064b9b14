// Redirects the references of objects that the loader bound without interception. For an object opened with
// RTLD_DEEPBIND, its own libraries precede preloaded ones. Any thread.
#pragma once

namespace autoamp::front {

// Called at first calls and at every lookup: a program that loads a plug-in looks up functions in it. If other threads
// keep loading objects, this may fail; the next lookup retries.
void rebindObjects();

} // namespace autoamp::front
