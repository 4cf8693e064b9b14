// daemon FILE: closes its inherited descriptors, so that FILE becomes descriptor 2, as servers do. FILE must contain
// only the text that this program writes.
#include "bound.h"

#include <fcntl.h>
#include <unistd.h>

int main(int, char **argv)
{
	for (int descriptor = 0; descriptor < 3; descriptor++)
		close(descriptor);
	for (int descriptor = 0; descriptor < 3; descriptor++)
		if (open(argv[1], O_RDWR | O_CREAT | O_APPEND, 0600) != descriptor)
			return 2;
	if (write(2, "data\n", 5) != 5)
		return 3;
	return !multiply(cublas());
}
