// Loads plug-ins and libraries, by a script in its arguments. It is not linked to a BLAS. Commands:
//   open NAME FILE [global]   dlopen
//   run NAME, again NAME      the functions of a plug-in
//   where NAME                the address of run() since the first such command: 0 if it is the same
//   lp64 NAME, ilp64 NAME     a product by lookups of cblas_sgemm and sgemm_ in a library
//   tail NAME, tail64 NAME    the same by functions of a plug-in that end in the calls
//   sum NAME                  a function of `own` that ends in the call of another one
//   close NAME                libc's dlclose, which no hook sees
//   copy FROM TO              replaces a file
//   meanwhile NAME FILE       a thread runs NAME; while this starts autoamp, opens FILE, whose constructor multiplies
//   forks NAME FILE           40 forks: the children run NAME, while a thread opens and closes FILE
//   churn NAME FILE           60 times: opens, runs and closes a plug-in, while threads run NAME
//   turns FILE FILE           1000 times: opens each, makes the products of `tail` and closes it, while a thread
//                             looks up names; prints the different results of each
//   sym default|next|NAME SYMBOL   a lookup: the file that has the result, or the error
#include "check.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

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

int unload(void *handle)
{
	static const auto close =
	    reinterpret_cast<int (*)(void *)>(dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "dlclose"));
	return close(handle);
}

void churn(void *other, const char *file)
{
	const char expected = call<char>(other, "run");
	std::atomic<bool> stops{false};
	std::vector<std::thread> threads;
	for (int i = 0; i < 3; i++)
		threads.emplace_back([&] {
			while (!stops)
				if (call<char>(other, "run") != expected)
					std::abort();
		});
	std::string results;
	for (int i = 0; i < 60; i++) {
		void *const handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
		const char result = call<char>(handle, "run");
		if (results.find(result) == std::string::npos)
			results += result;
		unload(handle);
	}
	stops = true;
	for (std::thread &thread : threads)
		thread.join();
	std::printf("%s %c\n", results.c_str(), expected);
}

void turns(const char *const files[2])
{
	std::atomic<bool> stops{false};
	std::thread thread([&] {
		void *const libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
		while (!stops)
			dlsym(libc, "nothing");
	});
	std::string results[2];
	for (int i = 0; i < 2000; i++) {
		void *const handle = dlopen(files[i % 2], RTLD_LAZY | RTLD_LOCAL);
		const char result = checkLp64(dlsym(handle, "multiply"), dlsym(handle, "multiply_"));
		if (results[i % 2].find(result) == std::string::npos)
			results[i % 2] += result;
		unload(handle);
	}
	stops = true;
	thread.join();
	std::printf("%s %s\n", results[0].c_str(), results[1].c_str());
}

void meanwhile(void *other, const char *file)
{
	auto *const run = reinterpret_cast<char (*)()>(dlsym(other, "run"));
	std::atomic<char> result{};
	std::thread thread([&] { result = run(); });
	const auto *const isSlow = static_cast<std::atomic<bool> *>(dlsym(RTLD_DEFAULT, "startIsSlow"));
	while (isSlow && !*isSlow)
		std::this_thread::sleep_for(std::chrono::milliseconds(1));
	const char opened = call<char>(dlopen(file, RTLD_NOW | RTLD_LOCAL), "run");
	thread.join();
	std::printf("%c %c\n", result.load(), opened);
}

void forks(void *other, const char *file)
{
	auto *const run = reinterpret_cast<char (*)()>(dlsym(other, "run"));
	const char expected = run();
	std::atomic<bool> stops{false};
	std::thread thread([&] {
		while (!stops)
			unload(dlopen(file, RTLD_NOW | RTLD_LOCAL));
	});
	int right = 0;
	for (int i = 0; i < 40; i++) {
		std::fflush(stdout);
		const pid_t child = fork();
		if (child == 0) {
			alarm(20);
			_exit(run() != expected);
		}
		int status = 0;
		right += waitpid(child, &status, 0) == child && status == 0;
	}
	stops = true;
	thread.join();
	std::printf("%d right\n", right);
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
		} else if (command == "tail" || command == "tail64") {
			void *const cblas = dlsym(handles.at(name), "multiply"), *const fortran =
			                                                             dlsym(handles.at(name), "multiply_");
			std::printf("%s %c\n", name.c_str(), (command == "tail" ? checkLp64 : checkIlp64)(cblas, fortran));
		} else if (command == "sum") {
			const auto sum = reinterpret_cast<int (*)(int, int)>(dlsym(handles.at(name), "multiply"));
			std::printf("%s %d\n", name.c_str(), sum(12, 34));
		} else if (command == "close") {
			unload(handles.at(name));
		} else if (command == "copy") {
			std::filesystem::remove(*++argv);
			std::filesystem::copy_file(name, *argv);
		} else if (command == "meanwhile") {
			meanwhile(handles.at(name), *++argv);
		} else if (command == "forks") {
			forks(handles.at(name), *++argv);
		} else if (command == "churn") {
			churn(handles.at(name), *++argv);
		} else if (command == "turns") {
			turns(argv++);
		} else if (command == "sym") {
			look(name, *++argv);
		} else {
			return 3;
		}
	}
	return 0;
}
