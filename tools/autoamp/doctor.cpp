#include "tools/autoamp/doctor.h"

#include "src/policy/decide.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/report.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// A heading and rows of two columns below it; a row without a name goes on with the one before.
class Section
{
public:
	explicit Section(std::string title) : title_(std::move(title)) {}
	void add(const std::string &name, const std::string &text, Style style = Style::plain)
	{
		rows_.add({"  " + name, text}, style);
	}
	void print(const Terminal &terminal) const
	{
		fmt::print("{}\n{}", terminal.paint(Style::bold, title_), rows_.print(terminal, 0));
	}

private:
	std::string title_;
	Table rows_{"ll"};
};

// A row that says whether something holds.
void judge(Section &section, const std::string &name, bool isGood, const std::string &text)
{
	section.add(name, text, isGood ? Style::green : Style::yellow);
}

int glibcHere()
{
	return std::atoi(::gnu_get_libc_version() + 2); // 2.36
}

std::string describe(const Driver &driver)
{
	if (!driver.isFound)
		return "libcuda.so.1 is not found";
	std::string text = driver.isEmulated ? "the emulated device's" : "libcuda.so.1", kernel;
	text += fmt::format(", CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10);
	std::ifstream file("/proc/driver/nvidia/version");
	return std::getline(file, kernel) ? text + ", " + kernel : text;
}

Section machine(const Driver &driver, const std::vector<Library> &libraries)
{
	Section section("this machine");
	utsname system;
	::uname(&system);
	section.add("system", fmt::format("{} {} {}, glibc {}", system.sysname, system.release, system.machine,
	                                  ::gnu_get_libc_version()));
	section.add("driver", describe(driver));
	for (const auto &gpu : driver.gpus)
		section.add("GPU", fmt::format("{}, sm_{}", gpu.name, gpu.capability));
	if (driver.gpus.empty())
		section.add("GPU", driver.problem.empty() ? "none" : "none: " + driver.problem);
	for (const auto &library : libraries)
		section.add("library", fmt::format("{} {}  {}", library.name, library.version, library.path));
	return section;
}

// The support matrix, for this machine.
Section support(const Driver &driver, const std::vector<Library> &libraries, const Executable &core)
{
	Section section("supported here");
	const auto row = [&](bool holds, const std::string &text, const std::string &otherwise = "") {
		judge(section, holds ? "yes" : "no", holds, holds || otherwise.empty() ? text : text + ": " + otherwise);
	};
	row(true, "Linux x86-64");
	row(glibcHere() >= 17, "the front, which needs glibc 2.17");
	row(glibcHere() >= core.glibc, fmt::format("the core, which needs glibc 2.{}", core.glibc), "autoamp stays off");
	const auto has = [&](std::string_view name) {
		return std::any_of(libraries.begin(), libraries.end(), [=](const auto &each) { return each.name == name; });
	};
	row(has("libcublas.so.12") || has("libcublas.so.13"), "cuBLAS of CUDA 12 or 13 on the loader's paths",
	    "a program has to bring its own");
	row(has("libcudnn.so.9"), "cuDNN 9 on the loader's paths, whose convolutions can be lowered",
	    has("libcudnn.so.8") ? "of cuDNN 8 the legacy calls alone" : "a program has to bring its own");
	row(driver.version >= policy::Device::oldestDriver, "a driver that loads our kernels (CUDA 13: 580 or newer)",
	    driver.isFound ? "the vendor's TF32 and FAST_16BF alone, else driver_too_old"
	                   : "programs run on the emulated device only");
	for (const auto &gpu : driver.gpus) {
		row(gpu.capability >= 75, fmt::format("float16 on {}", gpu.name), "observed only, gpu_too_old");
		row(gpu.capability >= 80, fmt::format("bfloat16 and TF32 on {}", gpu.name), "gpu_too_old");
	}
	return section;
}

void tellTrace(Section &section, const std::string &name, const std::string &pattern)
{
	const auto problem = pattern.empty() ? "no folder is known: set AUTOAMP_DIR" : whyNoTrace(pattern);
	judge(section, name, problem.empty(), problem.empty() ? pattern : fmt::format("{}: {}", pattern, problem));
}

Section installation(const Installation &installation, const policy::Options &options)
{
	Section section("autoamp");
	const auto places = fmt::format("{}", fmt::join(installation.places, " nor in "));
	const bool isThere = !installation.library.empty();
	judge(section, "front", isThere, isThere ? installation.library : "libautoamp.so is neither in " + places);
	if (isThere) {
		const auto problem = whyCoreFails(installation);
		judge(section, "core", problem.empty(),
		      installation.core() + (problem.empty() ? ": it loads" : ": " + problem));
	}
	judge(section, "emulated", !installation.emulated.empty(),
	      installation.emulated.empty() ? "the emulated device is not installed" : installation.emulated);
	tellTrace(section, "traces", options.traceFile);
	if (options.originOf(policy::Option::traceFile) == policy::Origin::fallback)
		tellTrace(section, "", "./%e.%p.aat");
	return section;
}

// What each variable has wrong where the others are as they are, by name; "": what no variable alone has.
std::map<std::string, std::string> judgeVariables(policy::ParsedOptions configuration,
                                                  std::span<const char *const> entries, const std::string &program)
{
	std::map<std::string, std::string> problems;
	Environment environment;
	while (!configuration.error.empty()) {
		const auto name = configuration.error.substr(0, configuration.error.find_first_of("=:"));
		const auto *value = environment.get(name);
		if (!value) {
			problems[""] = configuration.error;
			break;
		}
		const auto text = configuration.error.substr(name.size());
		const auto typed = "=" + policy::shown(*value) + ": ";
		problems[name] = text.substr(text.starts_with(typed) ? typed.size() : text.find(": ") + 2);
		environment.unset(name);
		configuration = environment.parse(entries, program);
	}
	return problems;
}

Section environment(const policy::ParsedOptions &configuration, std::span<const char *const> entries,
                    const std::string &program, const Installation &installation)
{
	static constexpr struct {
		const char *name, *value, *says; // value: "" any
	} others[] = {{"LD_PRELOAD", "", "preloaded too; autoamp run puts itself before it"},
	              {"CUDA_INJECTION64_PATH", "", "another tool is loaded into CUDA programs"},
	              {"NVTX_INJECTION64_PATH", "",
	               "another tool receives the NVTX ranges: rules by region see regions of autoamp.h alone"},
	              {"NVIDIA_TF32_OVERRIDE", "0", "no TF32: products are compared with fp32"},
	              {"CUBLAS_EMULATE_SINGLE_PRECISION", "1", "fp32 products are emulated: kept, emulated_fp32"}};
	Section section("environment");
	auto problems = judgeVariables(configuration, entries, program);
	bool isEmpty = configuration.error.empty();
	for (auto *variable = policy::processEnvironment(); *variable; variable++) {
		const std::string text = *variable, name = text.substr(0, text.find('='));
		if (!name.starts_with("AUTOAMP_"))
			continue;
		judge(section, text, !problems.count(name), problems.count(name) ? problems[name] : "valid");
		isEmpty = false;
	}
	const auto &options = configuration.options;
	const auto table = policy::optionTable();
	for (size_t i = 0; i < table.size(); i++)
		if (options.origin[i] == policy::Origin::file)
			section.add(fmt::format("{}={}", policy::keyOf(table[i]), options.value[i]), options.place[i]);
	for (const auto &rule : options.rules->list)
		section.add("rule", fmt::format("{}, {}", policy::describe(rule), rule.place));
	isEmpty &= std::count(std::begin(options.origin), std::end(options.origin), policy::Origin::file) == 0 &&
	           options.rules->list.empty();
	if (problems.count(""))
		judge(section, "together", false, problems[""]);
	for (const auto &[name, wanted, says] : others) {
		const char *value = policy::environmentValue(policy::processEnvironment(), name);
		if (!value || !*value || (*wanted && value != std::string_view(wanted)))
			continue;
		std::error_code error;
		const bool isOurs = fs::equivalent(value, installation.library, error);
		section.add(fmt::format("{}={}", name, value), isOurs ? "autoamp's own" : says);
		isEmpty = false;
	}
	if (isEmpty)
		section.add("nothing set", "the defaults hold");
	return section;
}

// ---- a program

struct Findings {
	std::vector<Library> closure;                          // CUDA's, and what is missing
	std::vector<std::pair<std::string, Executable>> files; // the program and its own libraries, by name
	std::vector<std::string> missing;
	std::string cublas; // what the loader would load: libcublas.so.13

	bool has(Sign sign) const
	{
		return std::any_of(files.begin(), files.end(), [=](auto &each) { return !each.second.sign(sign).empty(); });
	}
};

Findings look(const std::string &name, const Executable &program)
{
	Findings findings;
	findings.files.emplace_back(name, program);
	size_t left = searchLimit - program.searched;
	for (const auto &library : loadedWith(program.path)) {
		const bool isVendors = library.name.starts_with("libcu") || library.name.starts_with("libnv");
		if (library.path.empty())
			findings.missing.push_back(library.name);
		if (isVendors || library.path.empty()) {
			findings.closure.push_back(library);
		} else {
			findings.files.emplace_back(library.name, inspect(library.path, left));
			left -= findings.files.back().second.searched;
		}
		if (library.name.starts_with("libcublas.so") ||
		    (findings.cublas.empty() && library.name.starts_with("libcublasLt.so")))
			findings.cublas = library.name;
	}
	return findings;
}

void tellContents(Section &section, const Findings &findings)
{
	static constexpr struct {
		Sign sign;
		const char *name, *text;
	} rows[] = {{Sign::runtime, "carries", "the static CUDA runtime"},
	            {Sign::cublas, "carries", "the static cuBLAS"},
	            {Sign::opensCublas, "opens", "cuBLAS by dlopen"},
	            {Sign::cutlass, "carries", "CUTLASS kernels, or names of them"},
	            {Sign::triton, "carries", "Triton kernels, or names of them"}};
	for (const auto &[name, path, version] : findings.closure)
		judge(section, "needs", !path.empty(), fmt::format("{}: {}", name, path.empty() ? "not found" : path));
	for (const auto &[name, file] : findings.files) {
		const auto in = file.isLibrary ? " in " + name : "";
		for (const auto &[sign, what, text] : rows)
			if (!file.sign(sign).empty())
				section.add(what, fmt::format("{}{} (it has the text \"{}\")", text, in, file.sign(sign)));
		if (file.hasKernels)
			section.add("carries", "device code" + in);
		if (file.isSearchedInPart)
			section.add("", fmt::format("not all of {} was searched for such texts", name));
	}
}

// The emulated device stands in for all CUDA libraries that it needs.
bool isServedByEmulated(const Findings &findings, const std::string &folder)
{
	std::error_code error;
	return !folder.empty() && !findings.files.front().second.carriesRuntime() &&
	       std::all_of(findings.closure.begin(), findings.closure.end(),
	                   [&](const auto &library) { return fs::exists(fs::path(folder) / library.name, error); });
}

// What autoamp can do for it and what not; the next command.
std::string conclude(Section &section, const Findings &findings, const policy::Options &options, const Driver &driver,
                     const std::string &emulated, const std::string &command)
{
	const auto &program = findings.files.front().second;
	const auto can = [&](const char *text) { judge(section, "autoamp can", true, text); };
	const auto cannot = [&](const std::string &text) { judge(section, "autoamp cannot", false, text); };
	const bool isServed = isServedByEmulated(findings, emulated);
	const bool hasGpu = !driver.gpus.empty() && !driver.isEmulated && findings.missing.empty();
	if (!findings.missing.empty() && !isServed) {
		cannot(fmt::format("run it: it does not start here without {}", fmt::join(findings.missing, ", ")));
		return "ldd " + quoted(here(program.path));
	}
	if (findings.cublas.ends_with(".so.11"))
		cannot("lower its calls: it is built for CUDA 11, and 12 and 13 are supported");
	else if (!findings.cublas.empty())
		can("catch its calls of cuBLAS");
	else if (program.needs("libcudnn"))
		can("catch its calls of cuDNN");
	else if (!options.hookDlsym)
		cannot("catch calls of a cuBLAS that it opens while it runs: AUTOAMP_HOOK_DLSYM=0");
	else if (findings.has(Sign::opensCublas))
		can("catch its calls of the cuBLAS that it opens");
	else
		can("catch calls of a cuBLAS that comes later, with a plug-in or a Python module; there is no sign of one in "
		    "it");
	for (const auto &[name, file] : findings.files)
		if (file.carriesCublas() && findings.cublas.empty())
			cannot(fmt::format("catch calls of the static cuBLAS in {}", name));
	if (findings.has(Sign::cutlass) || findings.has(Sign::triton) ||
	    std::any_of(findings.files.begin(), findings.files.end(), [](auto &each) { return each.second.hasKernels; }))
		cannot("see products in kernels of its own: they run as they are");
	if (program.carriesRuntime())
		cannot("run it on the emulated device: its static CUDA runtime needs a driver (nvcc -cudart shared)");
	else if (!isServed)
		cannot("run it on the emulated device, which stands in for CUDA 13's libraries alone");
	return fmt::format("{} run {}-- {}", invocation, !hasGpu && isServed ? "--device emulated " : "", command);
}

} // namespace

std::optional<Diagnosis> whyOutOfReach(const Executable &program)
{
	const auto path = quoted(here(program.path)), &interpreter = program.interpreter;
	const auto loader = fs::path(interpreter).filename().string();
	std::error_code error;
	const struct {
		bool holds;
		std::string cause;
		const char *next; // null: of a copy that has no privileges
	} obstacles[] = {
	    {program.isForeign, "is not a 64-bit x86 program: the library cannot be loaded into it", "file"},
	    {program.isLibrary, "is a shared library: ask about the program that loads it", "file"},
	    {program.isStatic, "is statically linked: nothing can be preloaded into it; link it dynamically", "file"},
	    {program.isPrivileged, "is set-user-id or has capabilities: the loader preloads nothing into it; run a copy",
	     nullptr},
	    {!loader.empty() && !loader.starts_with("ld-linux-x86-64.so"),
	     fmt::format("has another C library's loader ({}), not glibc's: the library cannot be loaded", interpreter),
	     "file"},
	    {!loader.empty() && !fs::exists(interpreter, error),
	     fmt::format("does not start here: its loader {} is missing", interpreter), "file"},
	    {program.carriesCublas(),
	     "is linked with the static cuBLAS, whose calls cannot be caught; link -lcublas instead", "ldd"}};
	for (const auto &[holds, cause, next] : obstacles)
		if (holds)
			return Diagnosis{path + " " + cause,
			                 next ? fmt::format("{} {}", next, path)
			                      : fmt::format("cp {} ./copy && {} doctor -- ./copy", path, invocation)};
	return {};
}

void doctor(const DoctorOptions &options, const policy::ParsedOptions &configuration,
            std::span<const char *const> entries)
{
	Executable program;
	std::string command;
	for (const auto &word : options.command)
		command += (command.empty() ? "" : " ") + quoted(word);
	if (!options.command.empty()) {
		program = inspect(options.command.front());
		if (!program.problem.empty())
			fail(Status::wrong, "{}: {}", options.command.front(), program.problem);
	}
	const Terminal terminal(STDOUT_FILENO, options.colour);
	const auto driver = askDriver();
	const auto libraries = visibleLibraries();
	const auto house = findInstallation();
	machine(driver, libraries).print(terminal);
	support(driver, libraries, inspect(house.core())).print(terminal);
	installation(house, configuration.options).print(terminal);
	environment(configuration, entries, programName(options.command), house).print(terminal);
	std::string next = fmt::format("{} doctor -- APP", invocation);
	if (!command.empty()) {
		Section section(options.command.front());
		if (!program.script.empty())
			section.add("script",
			            here(program.script) + ": programs that it starts get the library too, ask about them");
		section.add("program", fmt::format("{}, {}", here(program.path), program.machine));
		if (const auto obstacle = whyOutOfReach(program)) {
			tellContents(section, {{}, {{options.command.front(), program}}, {}, {}});
			judge(section, "autoamp cannot", false, "reach it: " + obstacle->cause);
			next = obstacle->next;
		} else {
			const auto findings = look(options.command.front(), program);
			tellContents(section, findings);
			next = conclude(section, findings, configuration.options, driver, house.emulated, command);
		}
		section.print(terminal);
	}
	fmt::print("next: {}\n", configuration.error.empty() ? next : invocation + " help env");
}

} // namespace autoamp::tool
