// OpenMP libraries of the process. Any thread.
#pragma once

namespace autoamp::front {

// Finds those that were loaded since the last call, and keeps them loaded. Called at lookups in a handle and at the
// first call of a place: code of a plug-in can have loaded one. Like other work of the front, it needs the loader.
// Returns false inside dlopen or dlclose.
bool noteOpenMpLibraries();

} // namespace autoamp::front
