#include "src/core/context.h"

#include "src/core/caller.h"

namespace autoamp::core {

policy::Where whereOf(const Process &, uint32_t context, const op::Op &op)
{
	return {callerName(op.caller), regionOf(context).patterns};
}

} // namespace autoamp::core
