// inside_loader walking|FILE FIFO FUNCTION PLUGIN EARLIER...: forks while another thread is inside dl_iterate_phdr, or
// inside dlopen of FILE, which needs the library FIFO: the loader waits for its writer. A child and its own child run
// FUNCTION of PLUGIN, and print its results. The parent has run that of the EARLIER ones.
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

using Function = char(); // or bool

Function *functionOf(const char *plugin, const char *name)
{
	void *const handle = dlopen(plugin, RTLD_LAZY | RTLD_LOCAL);
	if (!handle)
		std::printf("%s\n", dlerror());
	return reinterpret_cast<Function *>(dlsym(handle, name));
}

void run(Function *function)
{
	const char result = function();
	std::printf("%c", std::isprint(result) ? result : '0' + result);
	std::fflush(stdout);
}

// Returns the status of the child in which it runs, and 0 there if its own child ended well.
int runInChild(Function *function, int levels)
{
	std::fflush(stdout);
	const pid_t child = fork();
	if (child == 0) {
		alarm(20);
		run(function);
		_exit(levels > 1 ? runInChild(function, levels - 1) : 0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return status;
}

// Not _r_debug: a copy of it in the program does not change.
bool isLoading()
{
	const ElfW(Dyn) *entry = _DYNAMIC;
	while (entry->d_tag != DT_DEBUG)
		entry++;
	return reinterpret_cast<const volatile r_debug *>(entry->d_un.d_ptr)->r_state != r_debug::RT_CONSISTENT;
}

std::atomic<bool> isInside{false}, ends{false};

int wait(dl_phdr_info *, size_t, void *)
{
	isInside = true;
	while (!ends)
		std::this_thread::yield();
	return 1;
}

} // namespace

int main(int, char **argv)
{
	const char *const file = argv[1], *const fifo = argv[2], *const name = argv[3];
	Function *const function = functionOf(argv[4], name);
	for (char **earlier = argv + 5; *earlier; earlier++)
		run(functionOf(*earlier, name));
	const bool isWalking = std::strcmp(file, "walking") == 0;
	mkfifo(fifo, 0600);
	std::thread thread([&] { isWalking ? dl_iterate_phdr(wait, nullptr) : dlopen(file, RTLD_NOW) != nullptr; });
	while (!(isWalking ? isInside.load() : isLoading()))
		std::this_thread::yield();
	const int status = runInChild(function, 2);
	ends = true;
	if (!isWalking)
		close(open(fifo, O_WRONLY));
	thread.join();
	std::printf(" %d\n", status);
	return status != 0;
}
