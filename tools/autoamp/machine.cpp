#include "tools/autoamp/machine.h"

#include "inject/entry_index.h"
#include "inject/front.h"
#include "src/cpu/dnnl.h"
#include "src/trace/naming.h"
#include "tools/autoamp/launch.h"

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <functional>
#include <link.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// Each fact is a line with three fields.
using Fact = std::array<std::string, 3>;

template <typename First, typename Second>
void printFact(const First &first, const Second &second, const char *third = "")
{
	fmt::print("{}\t{}\t{}\n", first, second, third);
	std::fflush(stdout); // the next step may end this process
}

std::vector<Fact> factsOf(const std::string &text)
{
	std::vector<Fact> facts;
	std::istringstream lines(text);
	for (Fact fact;
	     std::getline(lines, fact[0], '\t') && std::getline(lines, fact[1], '\t') && std::getline(lines, fact[2]);)
		facts.push_back(fact);
	return facts;
}

template <typename Function>
bool find(void *library, const char *name, Function *&function)
{
	function = reinterpret_cast<Function *>(::dlsym(library, name));
	return function;
}

void printDriver()
{
	void *driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		return;
	printFact("found", ::dlsym(driver, "autoamp_emulated_calls") ? 1 : 0);
	int (*init)(unsigned), (*version)(int *), (*count)(int *), (*name)(char *, int, int), (*attribute)(int *, int, int);
	int number = 0, devices = 0;
	if (find(driver, "cuDriverGetVersion", version) && version(&number) == 0)
		printFact("version", number);
	if (!find(driver, "cuInit", init) || !find(driver, "cuDeviceGetCount", count))
		return printFact("problem", "libcuda.so.1 is not a driver");
	if (const int status = init(0))
		return printFact("problem", fmt::format("cuInit returns {}", status));
	if (const int status = count(&devices))
		return printFact("problem", fmt::format("cuDeviceGetCount returns {}", status));
	for (int device = 0; device < devices; device++) { // device numbers are the driver's device handles
		char text[128] = "unnamed GPU";
		int major = 0, minor = 0;
		constexpr int majorOf = 75, minorOf = 76; // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_...
		if (find(driver, "cuDeviceGetName", name))
			name(text, sizeof text, device);
		if (find(driver, "cuDeviceGetAttribute", attribute) && attribute(&major, majorOf, device) == 0)
			attribute(&minor, minorOf, device);
		printFact("gpu", 10 * major + minor, text);
	}
}

// Queries the version of a library; `soname` selects the query.
std::string versionOf(void *library, std::string_view soname)
{
	int number = 0, part[3] = {};
	int (*runtime)(int *), (*property)(int, int *);
	if (soname.starts_with("libcudart") && find(library, "cudaRuntimeGetVersion", runtime) && runtime(&number) == 0)
		return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
	size_t (*version)();
	if (soname.starts_with("libcudnn") && find(library, "cudnnGetVersion", version)) { // version 8: 8907; version 9:
		                                                                               // 91900
		const auto whole = static_cast<int>(version()), base = whole < 10000 ? 1000 : 10000;
		return fmt::format("{}.{}.{}", whole / base, whole % base / 100, whole % 100);
	}
	const bool isLight = soname.starts_with("libcublasLt");
	if (find(library, isLight ? "cublasLtGetProperty" : "cublasGetProperty", property) && !property(0, &part[0]) &&
	    !property(1, &part[1]) && !property(2, &part[2]))
		return fmt::format("{}.{}.{}", part[0], part[1], part[2]);
	return "version unknown";
}

void printLibraries()
{
	for (const char *soname :
	     {"libcudart.so.13", "libcudart.so.12", "libcublas.so.13", "libcublas.so.12", "libcublas.so.11",
	      "libcublasLt.so.13", "libcublasLt.so.12", "libcudnn.so.9", "libcudnn.so.8"}) {
		void *library = ::dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
		link_map *map = nullptr;
		if (library && ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0)
			printFact(soname, versionOf(library, soname), map->l_name);
	}
}

void printBlas()
{
	for (const char *soname : {"libblas.so.3", "libblas64.so.3", "libopenblas.so.0", "libopenblas64.so.0",
	                           "libblis.so.4", "libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so.1"}) {
		void *library = ::dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
		link_map *map = nullptr;
		if (!library || ::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0)
			continue;
		const char *(*about)();
		const bool isKnown =
		    find(library, "openblas_get_config", about) || find(library, "bli_info_get_version_str", about);
		printFact(soname, isKnown ? about() : "", map->l_name);
	}
}

void printOneDnn()
{
	const auto library = cpu::openDnnl(nullptr);
	Dl_info owner;
	const bool isFound = library.gemm && ::dladdr(reinterpret_cast<void *>(library.gemm), &owner) && owner.dli_fname;
	printFact(fmt::format("{}.{}.{}", library.major, library.minor, library.patch), isFound ? owner.dli_fname : "",
	          library.reason == cpu::Reason::none && cpu::unitOf(library) == cpu::Bf16Unit::amx ? ""
	          : library.reason == cpu::Reason::noLibrary ? "libdnnl.so.3, libdnnl.so.3.6 and libdnnl.so.2 are not found"
	          : library.reason == cpu::Reason::noFunction
	              ? "it lacks dnnl_gemm_bf16bf16f32, or was built without OpenMP"
	          : library.reason == cpu::Reason::none ? "the kernel or ONEDNN_MAX_CPU_ISA does not allow AMX"
	                                                : "no memory");
}

// Loads the core in the same way as the front (inject/open_core.cpp).
void printCore(const Installation &installation, bool isOnCpu)
{
	const auto &front = isOnCpu ? installation.cpuLibrary : installation.library;
	const unsigned count = isOnCpu ? (1 + front::blasCopyCount) * entry::blasEntryCount : entry::vendorEntryCount;
	::dlopen(front.c_str(), RTLD_NOW | RTLD_GLOBAL); // defines symbols of the core
	void *core = ::dlopen(installation.core().c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!core)
		return printFact("problem", ::dlerror());
	const auto *table = static_cast<const front::Core *>(::dlsym(core, isOnCpu ? "autoamp_cpu_core" : "autoamp_core"));
	if (!table || table->abi != front::abi || table->count != count)
		printFact("problem", "it has another version than " + fs::path(front).filename().string());
}

} // namespace

Answer queryInChild(const std::function<void()> &work)
{
	const auto run = [&]() noexcept { work(); }; // no exception may leave the copy of this program

	int ends[2];
	if (::pipe2(ends, O_CLOEXEC) != 0)
		return {};
	std::fflush(nullptr);
	const pid_t child = ::fork();
	if (child == 0) {
		::dup2(ends[1], STDOUT_FILENO);
		::dup2(::open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
		run();
		std::fflush(stdout);
		::_exit(0);
	}
	::close(ends[1]);
	Answer answer;
	char buffer[4096];
	for (ssize_t got; (got = ::read(ends[0], buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR);)
		answer.text.append(buffer, static_cast<size_t>(got > 0 ? got : 0));
	::close(ends[0]);
	int status = 0;
	while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
	}
	answer.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	return answer;
}

OpenedBlas openBlas(const std::string &library)
{
	OpenedBlas blas = {};
	void *const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		blas.problem = ::dlerror();
		return blas;
	}
	const char *(*about)();
	for (const char *name :
	     {"openblas_get_config", "openblas_get_config64_", "scipy_openblas_get_config", "scipy_openblas_get_config64_"})
		if (blas.about.empty() && find(handle, name, about))
			blas.about = about();
	for (const char *name : {"sgemm_", "scipy_sgemm_64_", "scipy_sgemm_", "sgemm_64_"})
		if (!blas.sgemm)
			find(handle, name, blas.sgemm);
	if (!blas.sgemm)
		blas.problem = library + " has no sgemm_";
	return blas;
}

std::string Installation::core() const
{
	return fs::path(library).parent_path() / "libautoamp-core.so";
}

Installation findInstallation()
{
	const auto folder = fs::read_symlink("/proc/self/exe").parent_path();
	const struct {
		fs::path library, emulated, selfTest;
	} places[] = {
	    {folder / "../inject", folder / "emulated", folder / "self_test/autoamp-self-test"},
	    {folder / "../lib/autoamp", folder / "../lib/autoamp/emulated", folder / "../lib/autoamp/autoamp-self-test"}};
	Installation result;
	for (const auto &place : places) {
		const auto library = place.library / "libautoamp.so";
		result.places.push_back(place.library.lexically_normal());
		if (!fs::exists(library) || !result.library.empty())
			continue;
		result.library = fs::canonical(library);
		const auto cpuLibrary = fs::path(result.library).parent_path() / "libautoamp-cpu.so";
		result.cpuLibrary = fs::exists(cpuLibrary) ? cpuLibrary.string() : "";
		result.emulated = fs::exists(place.emulated) ? fs::canonical(place.emulated).string() : "";
		result.selfTest = fs::exists(place.selfTest) ? fs::canonical(place.selfTest).string() : "";
	}
	return result;
}

std::string pythonFolder()
{
	std::error_code ignored;
	const auto here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
	for (const auto *place : {"python", "../../tools/python", "../lib/autoamp/python"})
		if (fs::exists(here / place / "autoamp/parquet.py", ignored))
			return (here / place).lexically_normal().string();
	return {};
}

std::string whyCoreFails(const Installation &installation, bool isOnCpu)
{
	if (!fs::exists(installation.core()))
		return "it is missing";
	const auto answer = queryInChild([&] { printCore(installation, isOnCpu); });
	if (answer.signal)
		return fmt::format("the file is damaged: loading it ends with signal {}", answer.signal);
	const auto facts = factsOf(answer.text);
	return facts.empty() ? "" : facts.front()[1];
}

std::string whyNoTrace(const std::string &pattern)
{
	char path[PATH_MAX];
	if (const char *problem = trace::expandName(pattern.c_str(), {}, 0, path, sizeof path))
		return problem;
	auto folder = fs::path(pattern.substr(0, pattern.find('%'))).parent_path();
	std::error_code error;
	while (folder.has_relative_path() && !fs::exists(fs::symlink_status(folder, error)))
		folder = folder.parent_path();
	// Tests the start of the recorder: a file of a few pages. The file has no name, or loses it immediately.
	auto name = (folder / ".autoamp-XXXXXX").string();
	int file = ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0 && (errno == EOPNOTSUPP || errno == EISDIR) && (file = ::mkostemp(name.data(), O_CLOEXEC)) >= 0)
		::unlink(name.c_str());
	if (file < 0)
		return std::strerror(errno);
	std::signal(SIGXFSZ, SIG_IGN); // a limit on file sizes is reported and must not end this process
	const int status = ::posix_fallocate(file, 0, 20 << 10);
	::close(file);
	return status ? std::strerror(status) : "";
}

Driver queryDriver()
{
	const auto answer = queryInChild(printDriver);
	Driver driver;
	for (const auto &[word, value, text] : factsOf(answer.text)) {
		driver.isFound = true;
		if (word == "found")
			driver.isEmulated = value == "1";
		else if (word == "version")
			driver.version = std::stoi(value);
		else if (word == "gpu")
			driver.gpus.push_back({std::stoi(value), text});
		else if (word == "problem")
			driver.problem = value;
	}
	if (answer.signal) {
		driver.problem = fmt::format("the driver ends the process with signal {}", answer.signal);
		driver.gpus.clear();
	}
	return driver;
}

std::vector<Library> visibleLibraries()
{
	std::vector<Library> libraries;
	for (const auto &[name, version, path] : factsOf(queryInChild(printLibraries).text))
		libraries.push_back({name, path, version});
	return libraries;
}

std::vector<Library> visibleBlas()
{
	std::vector<Library> libraries;
	for (const auto &[name, about, path] : factsOf(queryInChild(printBlas).text)) {
		std::error_code error;
		const auto whole = fs::canonical(path, error);
		libraries.push_back({name, error ? path : whole.string(), about});
	}
	return libraries;
}

OneDnn queryOneDnn()
{
	const auto answer = queryInChild(printOneDnn);
	const auto facts = factsOf(answer.text);
	if (answer.signal || facts.empty())
		return {"", "", fmt::format("opening it ends with signal {}", answer.signal)};
	const auto &[version, path, problem] = facts.front();
	return {path, version == "0.0.0" ? "" : version, problem};
}

std::vector<Library> loadedWith(const std::string &program, const std::string &folder)
{
	const auto loader = inspect("/proc/self/exe", 0).interpreter; // the loader of this process, not the one that the
	                                                              // program names
	Environment environment;
	if (!folder.empty())
		environment.prepend("LD_LIBRARY_PATH", folder);
	const auto *path = environment.get("LD_LIBRARY_PATH");
	const auto variable = "LD_LIBRARY_PATH=" + (path ? *path : "");
	const auto list = [&] { // as in ldd; other LD_ variables could run the program's code
		::execle(loader.c_str(), loader.c_str(), fs::absolute(program).c_str(), nullptr,
		         std::array{"LD_TRACE_LOADED_OBJECTS=1", variable.c_str(), static_cast<const char *>(nullptr)}.data());
	};
	// A line is "\tNAME => PATH (0x...)", "\tNAME => not found", or "\tPATH (0x...)" for the loader and for a library
	// that is needed by its path. The line of the kernel's vdso contains no slash.
	std::vector<Library> libraries;
	std::istringstream lines(queryInChild(list).text);
	for (std::string line; std::getline(lines, line);) {
		const auto arrow = line.find(" => ");
		if (line.empty() || line[0] != '\t' || (arrow == std::string::npos && line[1] != '/'))
			continue;
		const auto found = line.substr(arrow == std::string::npos ? 1 : arrow + 4);
		const auto path = found[0] == '/' ? found.substr(0, found.rfind(" (")) : "";
		libraries.push_back(
		    {arrow == std::string::npos ? fs::path(path).filename().string() : line.substr(1, arrow - 1), path, ""});
	}
	return libraries;
}

std::string blasOf(const Executable &program)
{
	if (!program.isElf || program.isStatic)
		return {};
	for (const auto &library : loadedWith(program.path))
		if (isBlas(library.name))
			return library.name;
	if (!fs::path(program.path).filename().string().starts_with("python"))
		return {};
	const auto prefix = fs::absolute(program.path).parent_path().parent_path(); // that of a virtual environment
	std::error_code error;
	for (const char *folder : {"lib", "local/lib"})
		for (const auto &entry : fs::directory_iterator(prefix / folder, error))
			if (entry.path().filename().string().starts_with("python"))
				for (const char *packages : {"site-packages", "dist-packages"})
					if (fs::exists(entry.path() / packages / "numpy", error))
						return "NumPy";
	return {};
}

} // namespace autoamp::tool
