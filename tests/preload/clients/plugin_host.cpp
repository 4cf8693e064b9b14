// plugin_host PLUGIN...: opens each in its own scope and lets it multiply. Checks: failed lookups are not visible to
// it, read-only data of the loader stays so, and closed files are unloaded, except for a copy of cuBLAS. `deep:` before
// its name: its own libraries come before preloaded ones. `lazy:`: the same, and a function is bound at its first call.
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <link.h>
#include <string>

static int isWritable(dl_phdr_info *info, size_t, void *)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
		std::ifstream maps("/proc/self/maps");
		for (std::string line; info->dlpi_phdr[i].p_type == PT_GNU_RELRO && std::getline(maps, line);) {
			uintptr_t from = 0, to = 0;
			char mode[5] = "";
			std::sscanf(line.c_str(), "%lx-%lx %4s", &from, &to, mode);
			if (mode[1] == 'w' && from < (end & ~uintptr_t{4095}) && to > begin)
				return std::printf("%s: writable: %s\n", info->dlpi_name, line.c_str());
		}
	}
	return 0;
}

int main(int, char **argv)
{
	for (char **argument = argv + 1; *argument; argument++) {
		const std::string_view name = *argument;
		const bool isLazy = name.starts_with("lazy:"), isDeep = isLazy || name.starts_with("deep:");
		const char *const file = *argument + (isDeep ? 5 : 0);
		void *plugin = dlopen(file, RTLD_LOCAL | (isLazy ? RTLD_LAZY : RTLD_NOW) | (isDeep ? RTLD_DEEPBIND : 0));
		if (!plugin)
			return std::printf("%s\n", dlerror()), 2;
		if (!reinterpret_cast<bool (*)()>(dlsym(plugin, "pluginMultiplies"))())
			return 1;
		if (const char *error = dlerror())
			return std::printf("dlerror: %s\n", error), 3;
		if (dl_iterate_phdr(isWritable, nullptr))
			return 4;
		dlclose(plugin);
		if (dlopen(file, RTLD_LAZY | RTLD_NOLOAD) && !name.ends_with("carrier.so"))
			return std::printf("%s is still there\n", file), 5;
	}
}
