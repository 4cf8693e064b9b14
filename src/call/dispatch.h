// Handling of one intercepted call, from the application's arguments to the returned status. Any thread. dispatch.cpp
// shows all steps.
#pragma once

#include "src/call/interception.h"
#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/vendor.h"
#include "src/state/process.h"

namespace autoamp {

// The application's call with its original arguments. Points into the frame of the wrapper and must not outlive it.
class Original
{
public:
	template <typename Call>
	explicit Original(const Call &call)
	    : context_(&call),
	      invoke_([](const void *context) { return static_cast<op::Status>((*static_cast<const Call *>(context))()); })
	{
	}
	op::Status operator()() const { return invoke_(context_); }

private:
	const void *context_;
	op::Status (*invoke_)(const void *);
};

// Instantiated for the call structs of op/arguments.h that the wrappers build.
template <typename Call>
op::Status dispatch(core::Process &process, const op::Entry &entry, const Interception &interception, const Call &call,
                    const Original &original);

} // namespace autoamp
