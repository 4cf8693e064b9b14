// plugin_host PLUGIN: opens it in a scope of its own and lets it multiply. Lookups that failed on the way are not for
// it to see.
#include <cstdio>
#include <dlfcn.h>

int main(int, char **argv)
{
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		return std::printf("%s\n", dlerror()), 2;
	const bool isRight = reinterpret_cast<bool (*)()>(dlsym(plugin, "pluginMultiplies"))();
	const char *error = dlerror();
	if (error)
		std::printf("dlerror: %s\n", error);
	return !isRight || error;
}
