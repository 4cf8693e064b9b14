#include "tools/autoamp/interruption.h"

#include <csignal>
#include <initializer_list>

namespace autoamp::tool {

namespace {

volatile std::sig_atomic_t noted = 0;

void note(int signal)
{
	noted = signal;
}

} // namespace

void noteInterruptions()
{
	for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
		struct sigaction action = {}, before;
		action.sa_handler = note;
		action.sa_flags = SA_RESTART;
		if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) // nohup
			sigaction(signal, &action, nullptr);
	}
}

int interruption()
{
	return noted;
}

} // namespace autoamp::tool
