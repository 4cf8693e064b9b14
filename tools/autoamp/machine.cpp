#include "tools/autoamp/machine.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

struct Answer {
	std::string text;
	int signal = 0; // that ended the child
};

// What `work` writes to stdout, in a child process whose stderr nobody hears.
Answer askChild(const std::function<void()> &work)
{
	int ends[2];
	if (::pipe(ends) != 0)
		return {};
	std::fflush(nullptr);
	const pid_t child = ::fork();
	if (child == 0) {
		::dup2(ends[1], STDOUT_FILENO);
		::dup2(::open("/dev/null", O_WRONLY), STDERR_FILENO);
		::close(ends[0]);
		::close(ends[1]);
		work();
		std::fflush(stdout);
		::_exit(0);
	}
	::close(ends[1]);
	Answer answer;
	char buffer[4096];
	for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);)
		answer.text.append(buffer, static_cast<size_t>(std::max<ssize_t>(got, 0)));
	::close(ends[0]);
	int status = 0;
	while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	answer.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return answer;
}

template <typename Function>
bool find(void *library, const char *name, Function *&function)
{
	function = reinterpret_cast<Function *>(::dlsym(library, name));
	return function;
}

// One line a fact: the word, a number, a text.
void tell(const char *word, int number, const char *text = "")
{
	std::printf("%s %d %s\n", word, number, text);
	std::fflush(stdout); // what follows may be the end of this process
}

void tellOfDriver()
{
	void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return;
	tell("found", ::dlsym(driver, "autoamp_emulated_calls") != nullptr);
	int (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, int), (*attribute)(int *, int, int);
	int number = 0;
	if (find(driver, "cuDriverGetVersion", version) && version(&number) == 0)
		tell("version", number);
	if (!find(driver, "cuInit", init) || !find(driver, "cuDeviceGetCount", count))
		return tell("problem", 0, "it lacks cuInit or cuDeviceGetCount");
	int devices = 0;
	if (const int status = init(0))
		return tell("problem", status, "cuInit");
	if (const int status = count(&devices))
		return tell("problem", status, "cuDeviceGetCount");
	for (int device = 0; device < devices; device++) { // their numbers are their handles
		char text[128] = "unnamed GPU";
		int major = 0, minor = 0;
		constexpr int majorOf = 75, minorOf = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
		if (find(driver, "cuDeviceGetName", name))
			name(text, sizeof text, device);
		if (find(driver, "cuDeviceGetAttribute", attribute) && attribute(&major, majorOf, device) == 0)
			attribute(&minor, minorOf, device);
		tell("gpu", 10 * major + minor, text);
	}
}

} // namespace

Installation findInstallation()
{
	const auto folder = fs::read_symlink("/proc/self/exe").parent_path();
	const struct {
		fs::path library, emulated;
	} places[] = {{folder / "../inject", folder / "emulated"},
	              {folder / "../lib/autoamp", folder / "../lib/autoamp/emulated"}};
	Installation result;
	for (const auto &place : places) {
		const auto library = place.library / "libautoamp.so";
		result.places.push_back(place.library.lexically_normal());
		if (!fs::exists(library) || !result.library.empty())
			continue;
		result.library = fs::canonical(library);
		result.emulated = fs::exists(place.emulated) ? fs::canonical(place.emulated).string() : "";
	}
	return result;
}

Driver askDriver()
{
	const auto answer = askChild(tellOfDriver);
	Driver driver;
	std::istringstream lines(answer.text);
	std::string word, text;
	for (int number = 0; lines >> word >> number && std::getline(lines, text);) {
		text.erase(0, 1);
		if (word == "found")
			driver.isFound = true, driver.isEmulated = number;
		else if (word == "version")
			driver.version = number;
		else if (word == "gpu")
			driver.gpus.push_back({number, text});
		else if (word == "problem")
			driver.problem = number ? fmt::format("{} gives {}", text, number) : text;
	}
	if (answer.signal)
		driver = {driver.isFound, driver.version, fmt::format("it dies of signal {}", answer.signal), {}, false};
	return driver;
}

} // namespace autoamp::tool
