#include "inject/environment.h"

#include "inject/atomics.h"
#include "inject/text.h"

#include <sys/auxv.h>
#include <unistd.h>

namespace autoamp::front {

bool isPrivileged()
{
	return getauxval(AT_SECURE) != 0;
}

const char *valueOf(const char *text)
{
	for (char **variable = environ; variable && *variable; variable++)
		if (begins(*variable, text))
			return *variable + length(text);
	return nullptr;
}

bool isSet(const char *text, const char *value)
{
	const char *const found = valueOf(text);
	return found && equal(found, value);
}

Hook hook()
{
	static Hook known;
	Hook answer = load(known);
	if (answer == Hook::unknown) {
		const char *const name = "AUTOAMP_HOOK_DLSYM=";
		answer = isPrivileged() || isSet(name, "0") ? Hook::off : isSet(name, "got") ? Hook::got : Hook::on;
		__atomic_store_n(&known, answer, __ATOMIC_RELEASE);
	}
	return answer;
}

} // namespace autoamp::front
