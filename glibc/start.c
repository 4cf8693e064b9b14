// The start of a program for glibc older than 2.34, which runs no constructors of a program by itself: the start files
// of this machine leave them to libc. The linker sends the call of the start files here (--wrap).
typedef int Main(int count, char **arguments, char **environment);
typedef void Constructor(int count, char **arguments, char **environment);
typedef void Handler(void);

#pragma GCC visibility push(hidden)
extern Constructor *__init_array_start[], *__init_array_end[];
extern Handler _init;
int __wrap___libc_start_main(Main *program, int count, char **arguments, Constructor *start, Handler *end,
                             Handler *loaderEnd, void *stack);
#pragma GCC visibility pop
extern int __real___libc_start_main(Main *program, int count, char **arguments, Constructor *start, Handler *end,
                                    Handler *loaderEnd, void *stack);

static void construct(int count, char **arguments, char **environment)
{
	_init();
	for (Constructor **each = __init_array_start; each != __init_array_end; each++)
		(*each)(count, arguments, environment);
}

int __wrap___libc_start_main(Main *program, int count, char **arguments, Constructor *start, Handler *end,
                             Handler *loaderEnd, void *stack)
{
	return __real___libc_start_main(program, count, arguments, start ? start : construct, end, loaderEnd, stack);
}
