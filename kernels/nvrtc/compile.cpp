// compile NVRTC ARCHITECTURE SOURCE OUTPUT OPTION...: compiles device code with the libnvrtc at the path NVRTC. Writes
// a bare cubin for an architecture like sm_90, or PTX for one like compute_80. A warning is an error. NVRTC is opened
// with dlopen, so that one build uses several versions of it.
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using Program = struct _nvrtcProgram *;
void *library = nullptr;
const char *architecture = nullptr;

[[noreturn]] void fail(const std::string &what)
{
	std::fprintf(stderr, "compiling the kernels for %s: %s\n", architecture, what.c_str());
	std::exit(1);
}

template <class... Arguments>
int call(const char *name, Arguments... arguments)
{
	void *const found = dlsym(library, name);
	if (!found)
		fail(std::string(name) + " is not in the library");
	return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
}

// Returns the text or image that the functions `name`Size and `name` give.
std::string fetch(Program program, const std::string &name)
{
	size_t size = 0;
	if (call((name + "Size").c_str(), program, &size))
		fail(name + "Size failed");
	std::string result(size, '\0');
	if (call(name.c_str(), program, result.data()))
		fail(name + " failed");
	return result;
}

} // namespace

int main(int count, char **words)
{
	if (count < 5) {
		std::fprintf(stderr, "usage: compile NVRTC ARCHITECTURE SOURCE OUTPUT OPTION...\n");
		return 2;
	}
	architecture = words[2];
	library = dlopen(words[1], RTLD_NOW);
	if (!library)
		fail(dlerror());
	std::ifstream file(words[3]);
	const std::string source{std::istreambuf_iterator<char>(file), {}};
	if (source.empty())
		fail(std::string("cannot read ") + words[3]);
	Program program = nullptr;
	const char **const none = nullptr;
	if (call("nvrtcCreateProgram", &program, source.c_str(), static_cast<const char *>(words[3]), 0, none, none))
		fail("nvrtcCreateProgram failed");
	const std::string target = std::string("--gpu-architecture=") + architecture;
	std::vector<const char *> options = {target.c_str(), "--std=c++20"};
	options.insert(options.end(), words + 5, words + count);
	const int status = call("nvrtcCompileProgram", program, static_cast<int>(options.size()), options.data());
	std::string log = fetch(program, "nvrtcGetProgramLog");
	log.resize(log.find_last_not_of(std::string("\0\n ", 3)) + 1);
	if (status || !log.empty())
		fail("nvrtcCompileProgram returns " + std::to_string(status) + "\n" + log);
	const bool isPtx = target.find("=compute_") != target.npos;
	std::string image = fetch(program, isPtx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
	std::ofstream out(words[4], std::ios::binary);
	out << image;
	out.close();
	if (!out)
		fail(std::string("cannot write ") + words[4]);
	return 0;
}
