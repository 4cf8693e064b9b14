// One intercepted call, from the application's arguments to the library's answer. Any thread. Read dispatch.cpp first:
// it is the whole story on one screen.
#pragma once

#include "src/call/interception.h"
#include "src/op/arguments.h"
#include "src/op/entry.h"
#include "src/op/vendor.h"
#include "src/state/process.h"

namespace autoamp {

// The application's own call, as it was made: no more than a pointer to the door's frame.
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

// For the calls of op/arguments.h that the doors make.
template <typename Call>
op::Status dispatch(core::Process &process, const op::Entry &entry, const Door &door, const Call &call,
                    const Original &original);

} // namespace autoamp
