#include "tools/autoamp/doctor.h"
#include "tools/autoamp/escape.h"

#include "kernels/images.h"
#include "src/config/environment.h"
#include "src/cpu/processor.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/cpu.h"
#include "tools/autoamp/emulation.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/write_watch.h"

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gnu/libc-version.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

// A heading with rows of two columns below it. A row without a name continues the previous row.
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
		fmt::print("{}\n{}", terminal.paint(Style::bold, title_), rows_.print(terminal, terminal.width));
	}

private:
	std::string title_;
	Table rows_{"ll"};
};

// Adds a row with the result of a check.
void judge(Section &section, const std::string &name, bool isGood, const std::string &text)
{
	section.add(name, text, isGood ? Style::green : Style::yellow);
}

int glibcHere()
{
	return std::atoi(::gnu_get_libc_version() + 2); // 2.36
}

std::string textOf(const Driver &driver)
{
	if (!driver.isFound)
		return "libcuda.so.1 is not found";
	std::string text = driver.isEmulated ? "that of the emulated device" : "libcuda.so.1", kernel;
	text += fmt::format(", CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10);
	std::ifstream file("/proc/driver/nvidia/version");
	return std::getline(file, kernel) ? text + ", " + kernel : text;
}

std::string textOf(const kernels::Image &image)
{
	return fmt::format("{}_{}, {} bytes", image.isPtx ? "PTX, compute" : "sm", image.architecture, image.size);
}

Section machine(const Driver &driver, const std::vector<Library> &libraries)
{
	Section section("this machine");
	utsname system;
	::uname(&system);
	section.add("system", fmt::format("{} {} {}, glibc {}", system.sysname, system.release, system.machine,
	                                  ::gnu_get_libc_version()));
	section.add("driver", textOf(driver));
	for (const auto &gpu : driver.gpus)
		section.add("GPU", fmt::format("{}, sm_{}", gpu.name, gpu.capability));
	if (driver.gpus.empty())
		section.add("GPU", driver.problem.empty() ? "none" : "none: " + driver.problem);
	for (const auto &library : libraries)
		section.add("library", fmt::format("{} {}  {}", library.name, library.version, library.path));
	return section;
}

std::string processorName()
{
	std::ifstream file("/proc/cpuinfo");
	for (std::string line; std::getline(file, line);)
		if (line.starts_with("model name"))
			return line.substr(std::min(line.find(':'), line.size() - 2) + 2);
	return "unknown model";
}

// The constants of the cost model for this CPU.
void addConstants(Section &section, const policy::Options &options)
{
	const auto known = thisCpu(options);
	const auto path = calibrationPath(options);
	struct stat facts;
	std::tm date = {};
	char text[32] = {};
	if (options.cpuModel != policy::CpuModel::automatic)
		section.add("constants", "those of AUTOAMP_CPU_MODEL=" + options.valueOf(policy::Option::cpuModel));
	else if (!known.problem.empty())
		judge(section, "constants", false, fmt::format("built-in; {} is not used: {}", path, known.problem));
	else if (known.isCalibrated && ::stat(path.c_str(), &facts) == 0 && localtime_r(&facts.st_mtime, &date) &&
	         std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &date))
		judge(section, "constants", true,
		      fmt::format("measured {} on {} with {}: {}", text, cpu::model(), shown(known.blas), path));
	else
		section.add("constants", fmt::format("built-in; {} doctor --calibrate measures those of this CPU", invocation));
}

// What `run --device cpu` uses.
Section processor(const std::vector<Library> &libraries, const policy::Options &options)
{
	Section section("this CPU");
	const auto unit = cpu::bf16Unit();
	judge(section, "CPU", unit != cpu::Bf16Unit::none,
	      processorName() + (unit == cpu::Bf16Unit::none  ? ": no AVX512-BF16; calls of a BLAS are kept (cpu_too_old)"
	                         : unit == cpu::Bf16Unit::amx ? ": AVX512-BF16 and AMX-BF16"
	                         : cpu::hasSlowDot()
	                             ? ": AVX512-BF16, without AMX no faster than AVX-512 in fp32; few rows gain"
	                             : ": AVX512-BF16"));
	if (unit == cpu::Bf16Unit::amx) {
		const auto engine = queryOneDnn();
		auto text = engine.path.empty() ? "" : fmt::format("{}  {}", engine.version, engine.path);
		if (!engine.problem.empty())
			text += fmt::format("{}AMX is not used: {}", text.empty() ? "" : ": ", engine.problem);
		judge(section, "oneDNN", engine.problem.empty(), text);
	}
	policy::Cpu older;
	older.avx2Speed = older.olderSpeed = 0;
	for (const auto &library : libraries) {
		const bool isSlow = unit != cpu::Bf16Unit::none && policy::librarySpeed(older, library.version) == 0;
		section.add("BLAS", fmt::format("{}  {}{}{}{}", library.name, library.path, library.version.empty() ? "" : ": ",
		                                library.version,
		                                isSlow ? "; kernels of older CPUs: try OPENBLAS_CORETYPE=SkylakeX" : ""));
	}
	if (libraries.empty())
		section.add("BLAS", "none on the loader's paths; a program must provide its own");
	addConstants(section, options);
	const auto problem = whyNoWatch();
	judge(section, "weights", problem.empty(),
	      problem.empty() ? "writes to them can be watched (userfaultfd, PAGEMAP_SCAN)"
	                      : "writes to them cannot be watched, so each call converts them: " + problem);
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
	    "a program must provide its own");
	row(has("libcudnn.so.9"), "cuDNN 9 on the loader's paths (to lower its calls)",
	    has("libcudnn.so.8") ? "cuDNN 8: only legacy calls" : "a program must provide its own");
	const int oldest = kernels::images().front().oldestDriver;
	row(driver.version >= oldest,
	    oldest < 13000
	        ? "a driver that loads autoamp's kernels (525 or newer; tested with 580)"
	        : "a driver that loads autoamp's kernels (580 or newer, because this build lacks NVRTC of CUDA 12)",
	    driver.isFound ? "only strategies without conversion (tf32, library); other calls are kept (driver_too_old)"
	                   : "programs run only on the emulated device");
	for (const auto &gpu : driver.gpus) {
		if (const auto *image = kernels::imageFor(gpu.capability))
			row(kernels::canLoad(gpu.capability, driver.version),
			    fmt::format("kernels for {}: {}", gpu.name, textOf(*image)), "the driver is too old for them");
		row(gpu.capability >= 75, fmt::format("float16 on {}", gpu.name), "calls are kept (gpu_too_old)");
		row(gpu.capability >= 80, fmt::format("bfloat16 and TF32 on {}", gpu.name), "calls are kept (gpu_too_old)");
	}
	return section;
}

void addTrace(Section &section, const std::string &name, const std::string &pattern)
{
	const auto problem = pattern.empty() ? "unknown folder; set AUTOAMP_DIR" : whyNoTrace(pattern);
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
	std::vector<std::string> images;
	for (const auto &image : kernels::images())
		images.push_back(textOf(image));
	section.add("kernels",
	            fmt::format("for driver {} or newer: {}", kernels::images().front().oldestDriver < 13000 ? 525 : 580,
	                        fmt::join(images, "; ")));
	judge(section, "emulated", !installation.emulated.empty(),
	      installation.emulated.empty() ? "the emulated device is not installed" : installation.emulated);
	const auto cpuProblem =
	    installation.cpuLibrary.empty() ? "libautoamp-cpu.so is missing" : whyCoreFails(installation, true);
	judge(section, "for a CPU BLAS", cpuProblem.empty(),
	      cpuProblem.empty() ? installation.cpuLibrary : fmt::format("{}: {}", installation.cpuLibrary, cpuProblem));
	addTrace(section, "traces", options.traceFile);
	if (options.originOf(policy::Option::traceFile) == policy::Origin::fallback)
		addTrace(section, "", "./%e.%p.aat");
	return section;
}

// The error of each variable, by its name. The entry "" has an error that does not belong to one variable.
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
		const char *name, *value, *says; // value: "" matches any value
	} others[] = {
	    {"LD_PRELOAD", "", "another preloaded library; autoamp run adds itself before it"},
	    {"CUDA_INJECTION64_PATH", "", "another tool is loaded into CUDA programs"},
	    {"NVTX_INJECTION64_PATH", "",
	     "another tool receives the NVTX ranges; rules by region match only regions of autoamp.h"},
	    {"NVIDIA_TF32_OVERRIDE", "0", "TF32 is disabled; the cost model compares with fp32"},
	    {"CUBLAS_EMULATE_SINGLE_PRECISION", "1", "cuBLAS emulates fp32 products; they are kept (emulated_fp32)"}};
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
		section.add("rule", fmt::format("{}, {}", policy::textOf(rule), rule.place));
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
		section.add("nothing set", "defaults apply");
	return section;
}

// ---- checks of a program

struct Findings {
	std::vector<Library> closure;                          // every library that the loader loads with the program
	std::vector<std::pair<std::string, Executable>> files; // the program and its own libraries, by name
	std::vector<std::string> missing;

	bool has(Sign sign) const
	{
		return std::any_of(files.begin(), files.end(), [=](auto &each) { return !each.second.sign(sign).empty(); });
	}
};

// Not every library that begins with libcu: libcurl, libcups.
bool isOfCuda(const std::string &name)
{
	static constexpr const char *beginnings[] = {"libcuda",   "libcublas",   "libcudnn",    "libcufft",
	                                             "libcurand", "libcusparse", "libcusolver", "libcupti"};
	return std::any_of(std::begin(beginnings), std::end(beginnings),
	                   [&](const char *beginning) { return name.starts_with(beginning); });
}

Findings look(const std::string &name, const Executable &program)
{
	Findings findings;
	findings.files.emplace_back(name, program);
	findings.closure = loadedWith(program.path);
	size_t left = searchLimit - program.searched;
	for (const auto &library : findings.closure) {
		const bool isVendors = isOfCuda(library.name) || library.name.starts_with("libnv") || isBlas(library.name);
		if (library.path.empty()) {
			findings.missing.push_back(library.name);
		} else if (!isVendors) {
			findings.files.emplace_back(library.name, inspect(library.path, left));
			left -= findings.files.back().second.searched;
		}
	}
	return findings;
}

void addContents(Section &section, const Findings &findings)
{
	static constexpr struct {
		Sign sign;
		const char *name, *text;
	} rows[] = {{Sign::runtime, "contains", "the static CUDA runtime"},
	            {Sign::cublas, "contains", "the static cuBLAS"},
	            {Sign::opens, "contains",
	             "a cuBLAS or cuDNN library name; programs that open the library with dlopen contain it"},
	            {Sign::cutlass, "contains", "CUTLASS kernels, or names of them"},
	            {Sign::triton, "contains", "Triton kernels, or names of them"},
	            {Sign::blas, "contains", "a CPU BLAS"}};
	for (const auto &[name, path, version] : findings.closure)
		judge(section, "needs", !path.empty(), fmt::format("{}: {}", name, path.empty() ? "not found" : path));
	for (const auto &[name, file] : findings.files) {
		const auto in = file.isLibrary ? " in " + name : "";
		for (const auto &[sign, what, text] : rows)
			if (!file.sign(sign).empty())
				section.add(what, fmt::format("{}{} (text found: \"{}\")", text, in, file.sign(sign)));
		if (file.hasKernels)
			section.add("contains", "device code" + in);
		if (file.isSearchedInPart)
			section.add("", fmt::format("only a part of {} was searched for such texts", name));
	}
}

// The libraries that autoamp intercepts, with their supported versions.
constexpr struct {
	const char *name, *library;
	std::pair<const char *, const char *> versions[2]; // each version with its capabilities
} interceptedLibraries[] = {{"cuBLAS", "libcublas.so.", {{"13", ""}, {"12", ""}}},
                            {"cuBLASLt", "libcublasLt.so.", {{"13", ""}, {"12", ""}}},
                            {"cuDNN", "libcudnn.so.", {{"9", ""}, {"8", " (cuDNN 8: only legacy calls)"}}}};

// Removes the hash that wheels add to file names: libcudnn-463fd6d5.so.8.9.7 becomes libcudnn.so.8.9.7.
std::string withoutHash(const std::string &name)
{
	const auto dash = name.find('-'), suffix = name.find(".so");
	return dash < suffix && suffix != std::string::npos ? name.substr(0, dash) + name.substr(suffix) : name;
}

// Adds one row for each library that autoamp intercepts or could intercept in another version.
void addInterception(Section &section, const Findings &findings, const policy::Options &options)
{
	const auto can = [&](const std::string &text) { judge(section, "autoamp can", true, text); };
	const auto cannot = [&](const std::string &text) { judge(section, "autoamp cannot", false, text); };
	bool isLinked = false;
	for (const auto &[name, prefix, versions] : interceptedLibraries)
		for (const auto &library : findings.closure) {
			const auto plain = withoutHash(library.name);
			if (!plain.starts_with(prefix))
				continue;
			const auto rest = plain.substr(std::string_view(prefix).size());
			const auto *known = std::find_if(std::begin(versions), std::end(versions), [&](const auto &version) {
				return rest == version.first || rest.starts_with(version.first + std::string("."));
			});
			if (known != std::end(versions))
				can(fmt::format("intercept its {} calls{}", name, known->second));
			else
				cannot(fmt::format("intercept its {} calls: it needs {}; supported versions are {} and {}", name,
				                   library.name, versions[1].first, versions[0].first));
			isLinked = true;
		}
	const bool opens = findings.has(Sign::opens);
	if (!options.hookDlsym && (opens || !isLinked))
		cannot("intercept calls of libraries that it opens with dlopen: AUTOAMP_HOOK_DLSYM=0");
	else if (opens)
		can("intercept calls of a cuBLAS or cuDNN that it opens with dlopen");
	else if (!isLinked)
		can("intercept calls of a cuBLAS or cuDNN that it loads later, as a plug-in or a Python module does; neither "
		    "is linked");
	for (const auto &[name, file] : findings.files)
		if (file.carriesCublas())
			cannot(fmt::format("intercept calls of the static cuBLAS in {}", name));
	for (const auto &library : findings.closure)
		if (isBlas(library.name))
			can(fmt::format("intercept its calls of {} (run --device cpu)", library.name));
	if (const auto blas = blasOf(findings.files.front().second); !blas.empty() && !isBlas(blas))
		can(fmt::format("intercept the products of {}, which has a BLAS of its own (run --device cpu)", blas));
	for (const auto &[name, file] : findings.files)
		if (file.exportsBlas)
			can(fmt::format("intercept its calls of the BLAS in {} (run --device cpu)", name));
		else if (file.carriesBlas())
			cannot(fmt::format("intercept calls of the static BLAS in {}; link a shared one, such as -lblas", name));
	const bool hasBlas = !blasOf(findings.files.front().second).empty() ||
	                     std::any_of(findings.closure.begin(), findings.closure.end(),
	                                 [](auto &library) { return isBlas(library.name); }) ||
	                     std::any_of(findings.files.begin(), findings.files.end(),
	                                 [](auto &each) { return each.second.exportsBlas || each.second.carriesBlas(); });
	if (!isLinked && !hasBlas)
		can("intercept calls of a CPU BLAS that it loads later, as Python does with NumPy (run --device cpu)");
	if (findings.has(Sign::cutlass) || findings.has(Sign::triton) ||
	    std::any_of(findings.files.begin(), findings.files.end(), [](auto &each) { return each.second.hasKernels; }))
		cannot("intercept products computed by its own kernels; they run unchanged");
	if (options.level == policy::Level::O0)
		cannot("change a call: level O0 only records");
}

// Adds rows about what autoamp can and cannot do for the program; returns the next command.
std::string conclude(Section &section, const Findings &findings, const policy::Options &options, const Driver &driver,
                     const Installation &installation, const std::string &command)
{
	const auto &program = findings.files.front().second;
	const auto cannot = [&](const std::string &text) { judge(section, "autoamp cannot", false, text); };
	const auto emulation = emulationOf(program, installation);
	const bool hasGpu = !driver.gpus.empty() && !driver.isEmulated && findings.missing.empty();
	if (!options.enabled)
		cannot("do anything: AUTOAMP_ENABLED=0");
	else if (const auto problem =
	             installation.library.empty() ? "libautoamp.so is missing" : whyCoreFails(installation);
	         !problem.empty())
		cannot(fmt::format("do anything: its core does not load: {}", problem));
	else if (findings.missing.empty() || emulation.problem.empty())
		addInterception(section, findings, options);
	if (!emulation.problem.empty())
		cannot("run it on the emulated device: " + emulation.problem);
	for (const auto &name : emulation.missing)
		cannot(fmt::format("emulate {}, which one of its libraries needs", name));
	if (!findings.missing.empty())
		cannot(fmt::format("run it{}: {} is not found", emulation.problem.empty() ? " without the emulated device" : "",
		                   fmt::join(findings.missing, ", ")));
	const auto launch = [&](const char *device) { return fmt::format("{} run {}-- {}", invocation, device, command); };
	if (hasGpu)
		return launch("");
	const auto isCuda = [](const Library &library) { return isOfCuda(library.name); };
	const auto isCudaFree = findings.missing.empty() && !findings.has(Sign::opens) &&
	                        std::none_of(findings.closure.begin(), findings.closure.end(), isCuda);
	const auto exportsBlas = [](const auto &each) { return each.second.exportsBlas; };
	if (isCudaFree &&
	    (!blasOf(program).empty() || std::any_of(findings.files.begin(), findings.files.end(), exportsBlas)))
		return launch("--device cpu ");
	const auto carriesBlas = [](const auto &each) { return each.second.carriesBlas(); };
	if (isCudaFree && std::any_of(findings.files.begin(), findings.files.end(), carriesBlas))
		return "ldd " + quoted(here(program.path));
	if (isCudaFree)
		judge(section, "found", false,
		      "no call that autoamp intercepts; if a run records no call either, its products run elsewhere, and "
		      "autoamp cannot help");
	if (emulation.problem.empty())
		return launch("--device emulated ");
	if (!emulation.build.empty())
		return emulation.build;
	return findings.missing.empty() ? "on a machine with an NVIDIA GPU: " + launch("")
	                                : "ldd " + quoted(here(program.path));
}

} // namespace

std::optional<Diagnosis> whyOutOfReach(const Executable &program, bool isOnCpu)
{
	const auto path = quoted(here(program.path)), &interpreter = program.interpreter;
	const auto loader = fs::path(interpreter).filename().string();
	std::error_code error;
	const std::pair<bool, std::string> obstacles[] = {
	    {program.isForeign, "is not a 64-bit x86 program: the library cannot be loaded into it"},
	    {!program.damage.empty(), "is damaged: " + program.damage},
	    {program.isLibrary, "is a shared library; run doctor with the program that loads it"},
	    {program.isStatic, "is statically linked: no library can be preloaded into it; link it dynamically"},
	    {program.isPrivileged,
	     "is set-user-id or has capabilities; the loader ignores preloaded libraries. Run a copy"},
	    {!loader.empty() && !loader.starts_with("ld-linux-x86-64.so"),
	     fmt::format("uses the loader {} instead of that of glibc; the library cannot be loaded into it", interpreter)},
	    {!loader.empty() && !fs::exists(interpreter, error),
	     fmt::format("cannot start: its loader {} is missing", interpreter)},
	    {isOnCpu && program.carriesBlas(),
	     fmt::format(
	         "contains a static BLAS ({}), whose calls cannot be intercepted; link a shared one, such as -lblas",
	         program.sign(Sign::blas))},
	    {!isOnCpu && program.carriesCublas(),
	     "is linked with the static cuBLAS, whose calls cannot be intercepted; link -lcublas instead"}};
	for (const auto &[holds, cause] : obstacles)
		if (holds)
			return Diagnosis{path + " " + cause,
			                 program.isPrivileged ? fmt::format("cp {} ./copy && {} doctor -- ./copy", path, invocation)
			                                      : "ldd " + path};
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
	const auto driver = queryDriver();
	const auto libraries = visibleLibraries();
	const auto blas = visibleBlas();
	const auto installed = findInstallation();
	machine(driver, libraries).print(terminal);
	processor(blas, configuration.options).print(terminal);
	support(driver, libraries, inspect(installed.core())).print(terminal);
	installation(installed, configuration.options).print(terminal);
	environment(configuration, entries, programName(options.command), installed).print(terminal);
	std::string next = fmt::format("{} doctor -- APP", invocation);
	if (!command.empty()) {
		Section section(options.command.front());
		if (!program.script.empty())
			section.add("script",
			            here(program.script) +
			                ": the library is also loaded into programs that it starts; run doctor with these");
		section.add("program", fmt::format("{}, {}", here(program.path), program.machine));
		const auto findings = look(options.command.front(), program);
		addContents(section, findings);
		if (const auto obstacle = whyOutOfReach(program)) {
			judge(section, "autoamp cannot", false, "intercept its calls: " + obstacle->cause);
			next = obstacle->next;
		} else {
			next = conclude(section, findings, configuration.options, driver, installed, command);
		}
		section.print(terminal);
	}
	fmt::print("next: {}\n", shown(configuration.error.empty() ? next : invocation + " help env"));
}

} // namespace autoamp::tool
