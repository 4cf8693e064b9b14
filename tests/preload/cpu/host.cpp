// Loads plug-ins and libraries, by a script in its arguments. It is not linked to a BLAS. Commands:
//   open NAME FILE [global]   dlopen
//   run NAME, again NAME      the functions of a plug-in
//   where NAME                the address of run() since the first such command: 0 if it is the same
//   lp64 NAME, ilp64 NAME     a product by lookups of cblas_sgemm and sgemm_ in a library
//   close NAME                dlclose
//   sym default|next|NAME SYMBOL   a lookup: the file that has the result, or the error
#include "check.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>

namespace {

std::map<std::string, void *> handles;

const char *baseName(const char *path)
{
	const char *const slash = std::strrchr(path, '/');
	return slash ? slash + 1 : path;
}

void look(const std::string &where, const char *symbol)
{
	dlerror();
	void *const found = dlsym(where == "default" ? RTLD_DEFAULT
	                          : where == "next"  ? RTLD_NEXT
	                                             : handles.at(where),
	                          symbol);
	const char *const error = dlerror();
	Dl_info info = {};
	if (found)
		dladdr(found, &info);
	std::printf("%s %s: %s%s\n", where.c_str(), symbol, found ? baseName(info.dli_fname) : "null, ",
	            found   ? ""
	            : error ? error
	                    : "no error");
}

template <typename Result>
Result call(void *handle, const char *name)
{
	return reinterpret_cast<Result (*)()>(dlsym(handle, name))();
}

} // namespace

int main(int, char **argv)
{
	void *first = nullptr;
	while (*++argv) {
		const std::string command = *argv, name = *++argv;
		if (command == "open") {
			const char *const file = *++argv;
			const bool isGlobal = argv[1] && std::strcmp(argv[1], "global") == 0;
			argv += isGlobal;
			void *const handle = handles[name] = dlopen(file, RTLD_LAZY | (isGlobal ? RTLD_GLOBAL : RTLD_LOCAL));
			if (!handle)
				return std::fprintf(stderr, "%s\n", dlerror()), 2;
		} else if (command == "run") {
			std::printf("%s %c\n", name.c_str(), call<char>(handles.at(name), "run"));
		} else if (command == "again") {
			std::printf("%s %d\n", name.c_str(), call<int>(handles.at(name), "again"));
		} else if (command == "where") {
			void *const run = dlsym(handles.at(name), "run");
			first = first ? first : run;
			std::printf("%s %td\n", name.c_str(), static_cast<char *>(run) - static_cast<char *>(first));
		} else if (command == "lp64" || command == "ilp64") {
			void *const handle = name == "default" ? RTLD_DEFAULT : handles.at(name),
			            *const cblas = dlsym(handle, "cblas_sgemm"), *const fortran = dlsym(handle, "sgemm_");
			std::printf("%s %c\n", name.c_str(), (command == "lp64" ? checkLp64 : checkIlp64)(cblas, fortran));
		} else if (command == "close") {
			dlclose(handles.at(name));
		} else if (command == "sym") {
			look(name, *++argv);
		} else {
			return 3;
		}
	}
	return 0;
}
