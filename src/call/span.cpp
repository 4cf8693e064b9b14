#include "src/call/span.h"

#include "src/base/log.h"
#include "src/policy/decision.h"
#include "src/state/process.h"

namespace autoamp::core {

void Span::recordFaults()
{
	base::takeFaults([](const char *what) {
		base::log(base::LogLevel::info, "%s failed; no data was lost", what);
		theProcess.load()->recorder.note(policy::name(policy::Reason::engine_failed), what);
	});
}

} // namespace autoamp::core
