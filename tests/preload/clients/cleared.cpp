// cleared: removes its environment before its first call, as some servers do.
#include "bound.h"

#include <cstdlib>

int main()
{
	clearenv();
	return !multiply(cublas());
}
