#include "src/place/policy_context.h"

#include "src/state/caller.h"
#include "src/state/thread_name.h"

namespace autoamp::core {

policy::Where whereOf(uint32_t context, const op::Op &op)
{
	return {callerName(op.caller), regionOf(context).patterns, patternsOfNameClass(context & 0xff)};
}

} // namespace autoamp::core
