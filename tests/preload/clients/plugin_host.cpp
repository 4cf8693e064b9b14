// plugin_host PLUGIN...: opens each in a scope of its own and lets it multiply. Lookups that failed on the way are not
// for it to see.
#include <cstdio>
#include <dlfcn.h>

int main(int, char **argv)
{
	bool isRight = true;
	for (char **file = argv + 1; *file && isRight; file++) {
		void *plugin = dlopen(*file, RTLD_NOW | RTLD_LOCAL);
		if (!plugin)
			return std::printf("%s\n", dlerror()), 2;
		isRight = reinterpret_cast<bool (*)()>(dlsym(plugin, "pluginMultiplies"))();
		if (const char *error = dlerror())
			return std::printf("dlerror: %s\n", error), 3;
	}
	return !isRight;
}
