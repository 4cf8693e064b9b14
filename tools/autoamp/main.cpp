// The command line. The arguments become options; each command is one function. Main thread. Every error is one line on
// stderr and an exit status; docs/command-line.md lists the statuses.
#include "inject/entry_table.h"
#include "src/config/environment.h"
#include "src/lists/nearest.h"
#include "tools/autoamp/bisect.h"
#include "tools/autoamp/calibrate.h"
#include "tools/autoamp/check.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/diff.h"
#include "tools/autoamp/doctor.h"
#include "tools/autoamp/escape.h"
#include "tools/autoamp/explain.h"
#include "tools/autoamp/export.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/help.h"
#include "tools/autoamp/lists.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/manual.h"
#include "tools/autoamp/report.h"
#include "tools/autoamp/run.h"
#include "tools/autoamp/self_test.h"
#include "tools/autoamp/text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <iterator>
#include <sstream>
#include <unistd.h>

namespace autoamp::tool {

namespace {

constexpr const char *rawHelp =
    "CSV: write texts unchanged; by default, texts that a spreadsheet would run (= + - @) get a leading '";

constexpr auto entries = [] {
	std::array<const char *, entry::entryCount> names = {};
	for (size_t i = 0; i < names.size(); ++i)
		names[i] = entry::entryTable[i].name;
	return names;
}();

// Options of `run` that set a variable, and their default under `run` if it differs. `bisect` has those before --trace.
constexpr struct {
	const char *names;
	policy::Option option;
	const char *fallback = nullptr;
} mirrored[] = {{"--level", policy::Option::level},
                {"--dtype", policy::Option::dtype},
                {"--lists", policy::Option::lists},
                {"--white", policy::Option::customWhite},
                {"--black", policy::Option::customBlack},
                {"--config", policy::Option::config},
                {"--scaling", policy::Option::scaling},
                {"--strategy", policy::Option::strategy},
                {"--weights", policy::Option::weights},
                {"--trace", policy::Option::trace, "ops"},
                {"--audit", policy::Option::audit},
                {"-o,--trace-file", policy::Option::traceFile, "./%e.%p.aat"},
                {"--capture-range", policy::Option::captureRange},
                {"--delay", policy::Option::delay},
                {"--duration", policy::Option::duration}};

const std::map<std::string, Colour> colours = {
    {"auto", Colour::automatic}, {"always", Colour::always}, {"never", Colour::never}};

std::string nearest(const std::string &word, const std::vector<std::string> &candidates, const char *otherwise)
{
	const std::vector<std::string_view> views(candidates.begin(), candidates.end());
	return policy::nearestHint(word, views, otherwise);
}

// Reports unknown arguments with the nearest option, which CLI11's own message does not name.
void refuseUnknown(const CLI::App &command, Status status)
{
	const auto remaining = command.remaining();
	if (remaining.empty() || (command.get_prefix_command() && !remaining.front().starts_with("-")))
		return;
	std::vector<std::string> names;
	for (const auto *option : command.get_options())
		for (const auto &name : option->get_lnames())
			names.push_back("--" + name);
	const auto word = remaining.front().substr(0, remaining.front().find('='));
	if (!word.starts_with("-"))
		fail(status, "{}: unexpected '{}'", command.get_name(), word);
	fail(status, "{}: unknown option {}{}", command.get_name(), word, nearest(word, names, "; --help lists them"));
}

// Reports the first required argument that is missing. CLI11's own message has the internal name of the argument.
[[noreturn]] void refuseMissing(const CLI::App &command, Status status)
{
	std::string missing, usage;
	for (const auto *option : command.get_options()) {
		if (!option->get_required())
			continue;
		auto name = CLI::detail::split(option->get_type_name(), ':').front();
		std::string value;
		if (!option->get_positional()) {
			name = option->get_name();
			value = " " + option->get_lnames().front();
			std::transform(value.begin(), value.end(), value.begin(), [](unsigned char c) { return std::toupper(c); });
		}
		missing = missing.empty() && option->empty() ? name : missing;
		usage += " " + name + value;
	}
	fail(status, "{0}: {1} is missing; usage: {2} {0}{3}", command.get_name(), missing, invocation, usage);
}

// Accepts whole numbers like CLI::Range, whose message names the limits of the type.
CLI::Validator sizeUpTo(int64_t most)
{
	const auto check = [range = CLI::Range(int64_t{0}, most), most](std::string &text) {
		if (range(text).empty())
			return std::string();
		const bool isNumber = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
		return isNumber ? fmt::format("'{}': too large; at most {}", text, most)
		                : fmt::format("'{}': not a whole number of at least 0", text);
	};
	return CLI::Validator(check, "");
}

std::string takesNoValue(const std::string &text)
{
	return text == "true" || text == "false" ? "" : "'" + text + "': this option takes no value";
}

// The accepted words of a variable, without their aliases.
std::vector<std::string> wordsOf(const policy::OptionRow &row)
{
	auto words = CLI::detail::split(row.values, ' ');
	for (auto &word : words)
		word.resize(std::min(word.find('='), word.size()));
	return words;
}

// Prints the library for LD_PRELOAD, which the loader splits at spaces and colons, without quoting.
[[noreturn]] void printPreloadPath(const std::string &device)
{
	const auto installation = findInstallation();
	const bool isOnCpu = device == "cpu";
	const auto &library = isOnCpu ? installation.cpuLibrary : installation.library;
	if (library.empty())
		fail(Status::wrong, "libautoamp{}.so is neither in {}", isOnCpu ? "-cpu" : "",
		     fmt::join(installation.places, " nor in "));
	if (library.find_first_of(" :") != library.npos)
		fail(Status::wrong, "LD_PRELOAD cannot have a path with a space or colon; use autoamp run: {}", library);
	fmt::print("{}\n", library);
	throw CLI::Success();
}

// Typed values of these options.
struct Settings {
	std::string values[std::size(mirrored)];
	Choices choices;
	CLI::Option *typed[std::size(mirrored)] = {};
	bool noHook = false;

	void add(CLI::App *command, const char *end = "")
	{
		for (size_t i = 0; i < std::size(mirrored) && std::string_view(mirrored[i].names) != end; i++) {
			const auto &row = policy::optionTable()[static_cast<size_t>(mirrored[i].option)];
			const bool isSaid = row.type == policy::ValueType::choice || row.type == policy::ValueType::time ||
			                    row.type == policy::ValueType::fraction || row.type == policy::ValueType::range;
			std::vector<std::string> facts = {row.name};
			if (const std::string fallback = mirrored[i].fallback ? mirrored[i].fallback : row.fallback;
			    !fallback.empty())
				facts.insert(facts.begin(), "default " + fallback);
			if (isSaid)
				facts.insert(facts.begin(), policy::acceptedValues(row));
			typed[i] =
			    command
			        ->add_option(mirrored[i].names, values[i], fmt::format("{} [{}]", row.help, fmt::join(facts, "; ")))
			        ->type_name(row.type == policy::ValueType::text ? "FILE" : "");
			if (row.type == policy::ValueType::choice)
				choices[typed[i]] = wordsOf(row);
		}
	}

	// The values of an option of another command are those of a variable.
	void offer(const CLI::Option *option, policy::Option variable)
	{
		choices[option] = wordsOf(policy::optionTable()[static_cast<size_t>(variable)]);
	}

	void apply(RunOptions &run) const
	{
		for (size_t i = 0; i < std::size(mirrored); i++)
			if (typed[i] && typed[i]->count() > 0) {
				const auto &row = policy::optionTable()[static_cast<size_t>(mirrored[i].option)];
				run.settings.push_back({row.name, values[i], typed[i]->get_name()});
				run.hasFile |= mirrored[i].option == policy::Option::traceFile;
			}
		if (noHook)
			run.settings.push_back({"AUTOAMP_HOOK_DLSYM", "0", "--no-hook"});
	}
};

// Help is wrapped, also if it is read through a pipe.
std::string forTerminal(const std::string &text)
{
	constexpr size_t usualWidth = 100;
	const Terminal terminal(STDOUT_FILENO, Colour::never);
	return reflow(text, terminal.width ? std::min(terminal.width, usualWidth) : usualWidth);
}

// CLI11 would write the internal names of arguments.
struct Formatter : CLI::Formatter {
	std::string make_usage(const CLI::App *app, std::string name) const override
	{
		return app->get_parent() ? "Usage: " + usageOf(*app) + "\n" : CLI::Formatter::make_usage(app, name);
	}
};

struct CommandLine {
	CLI::App app{
	    "autoamp runs the fp32 matrix products and convolutions of unmodified CUDA programs in lower precision.",
	    "autoamp"};
	RunOptions run;
	ReportOptions report;
	DiffOptions diff;
	ExportOptions exporting;
	ExplainRequest request;
	DoctorOptions doctor;
	SelfTestOptions selfTest;
	CalibrateOptions calibrate;
	ListsOptions lists;
	std::string topic, file, shell, helpFormat;
	std::vector<std::string> arguments; // without the words from `--` on
	BisectOptions bisect;
	Settings settings, bisectSettings;

	CommandLine()
	{
		app.formatter(std::make_shared<Formatter>());
		app.set_version_flag("--version", "autoamp " AUTOAMP_VERSION);
		app.add_option_function<std::string>("--preload-path", printPreloadPath,
		                                     "Print the path of the library for LD_PRELOAD: for CUDA libraries (cuda) "
		                                     "or a CPU BLAS (cpu); default cuda")
		    ->expected(0, 1)
		    ->default_str("cuda")
		    ->check(CLI::IsMember({"cuda", "cpu"}))
		    ->trigger_on_parse();
		app.require_subcommand(1);

		auto *running = app.add_subcommand("run", "Run a program with autoamp preloaded and print a summary at exit");
		running->prefix_command();
		running->footer("The program comes last: autoamp run [OPTIONS] -- APP ARGS...");
		settings.add(running);
		running->add_flag("--force", run.force, "Overwrite the trace file given with -o");
		const auto addLaunch = [](CLI::App *command, RunOptions &options, bool &isUnhooked) {
			command->add_flag("--no-hook", isUnhooked,
			                  "Do not intercept functions looked up with dlsym (AUTOAMP_HOOK_DLSYM=0)");
			command->add_option("--device", options.device)
			    ->description("Device: auto (NVIDIA GPU, checked first), cuda (NVIDIA GPU, not checked), emulated "
			                  "(CUDA calls run on "
			                  "the CPU) or cpu (calls of a CPU BLAS are intercepted, CUDA calls are not); default auto")
			    ->check(CLI::IsMember({"auto", "cuda", "emulated", "cpu"}));
			addColour(command, options.colour);
		};
		addLaunch(running, run, settings.noHook);
		running->add_flag("--quiet", run.quiet, "Do not print the summary at exit");
		running->add_flag("--watch-python", run.watchPython,
		                  "Record the updates of gradient scalers that live in Python (DeepSpeed, Megatron-LM, Paddle, "
		                  "MindSpore)");

		const CLI::Validator notEmpty(
		    [](const std::string &value) { return std::string(value.empty() ? "the value is empty" : ""); }, "");
		auto *bisecting = app.add_subcommand("bisect", "Find the calls whose lowering makes a program fail its check");
		bisecting->prefix_command();
		bisecting->footer("The program comes last: autoamp bisect [OPTIONS] -- APP ARGS...");
		bisecting
		    ->add_option("--check", bisect.check,
		                 "Shell command that runs after each run of APP; status 0: passed. BISECT_STATUS is the exit "
		                 "status of APP. Default: the exit status of APP decides")
		    ->type_name("CMD")
		    ->check(notEmpty);
		bisecting
		    ->add_option("--by", bisect.by,
		                 "Calls that are kept together: signature (entry point and shape), caller or region; default "
		                 "signature")
		    ->check(CLI::IsMember({"signature", "caller", "region"}));
		bisecting
		    ->add_option("-o,--out", bisect.out,
		                 "Configuration file with the rules that keep the responsible calls in fp32; default: print it")
		    ->type_name("FILE")
		    ->check(notEmpty);
		bisecting
		    ->add_option("--state", bisect.state,
		                 "File from which an interrupted search continues; default: FILE of -o with .state")
		    ->type_name("FILE")
		    ->check(notEmpty);
		bisecting->add_flag("--force", bisect.force, "Overwrite the file of -o, and the state of another search");
		bisecting->add_flag("--quiet", bisect.quiet, "Do not print a line for each run");
		bisectSettings.add(bisecting, "--trace");
		addLaunch(bisecting, bisect.run, bisectSettings.noHook);

		auto *reporting = app.add_subcommand("report", "Print a report for one or more traces (default: the newest)");
		reporting->allow_extras();
		reporting->add_option("traces", report.places, "Trace files, or folders of traces")->type_name("FILE|DIR");
		reporting->add_option("--report", report.view, "View to print; default summary, or ops if a list is requested")
		    ->check(CLI::IsMember(views));
		reporting->add_option("--by", report.selection.by, "Add up the rows of ops by this field")
		    ->check(CLI::IsMember(groupings));
		addSelection(reporting, report.selection);
		reporting->add_flag("--raw", isCsvRaw, rawHelp);
		reporting->add_option("--format", report.format, "Output format; default table")->check(CLI::IsMember(formats));
		addColour(reporting, report.colour);

		reporting
		    ->add_option("--what-if", report.whatIf,
		                 "Decide the recorded calls again with other settings, for example LEVEL=O2,DTYPE=bfloat16")
		    ->check([](const std::string &text) { return text.empty() ? "expected NAME=VALUE,..." : ""; })
		    ->type_name("NAME=VALUE,...");

		// A limit of NaN or infinity would never fail the command.
		const CLI::Validator threshold(
		    [](std::string &text) {
			    double number = 0;
			    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
			    const bool isNumber = error == std::errc() && end == text.data() + text.size();
			    return isNumber && std::isfinite(number) && number >= 0 ? ""
			                                                            : "'" + text + "': not a number of at least 0";
		    },
		    "");
		auto *comparing = app.add_subcommand("diff", "Compare two runs by signature");
		comparing->allow_extras();
		comparing->add_option("before", diff.before, "Trace file or folder of the first run")
		    ->required()
		    ->type_name("A");
		comparing->add_option("after", diff.after, "Trace file or folder of the second run")
		    ->required()
		    ->type_name("B");
		comparing
		    ->add_option("--fail-if-slower", diff.slower,
		                 "Exit with status 1 if calls in both runs are more than PCT percent slower")
		    ->check(threshold)
		    ->type_name("PCT");
		comparing
		    ->add_option("--fail-if-error", diff.error,
		                 "Exit with status 1 if an error that AUTOAMP_AUDIT measured in run B is more than E")
		    ->check(threshold)
		    ->type_name("E");
		addSelection(comparing, diff.selection);
		comparing->add_option("--format", diff.format, "Output format; default table")
		    ->check(CLI::IsMember({"table", "json", "csv", "jsonl", "md", "html"}));
		comparing->add_flag("--all", diff.all, "md and html: also print the signatures that did not change");
		comparing->add_flag("--raw", isCsvRaw, rawHelp);
		addColour(comparing, diff.colour);

		auto *exports =
		    app.add_subcommand("export", "Convert traces to SQLite, Perfetto, Chrome, CSV, JSON Lines or Parquet");
		exports->allow_extras();
		exports->add_option("--type", exporting.type, "Output type")->required()->check(CLI::IsMember(exportTypes));
		exports->add_option("-o,--out", exporting.out, "Output file; a folder for parquet")
		    ->required()
		    ->type_name("OUT");
		exports->add_flag("--force", exporting.force, "Overwrite OUT");
		exports->add_flag("--raw", isCsvRaw, rawHelp);
		exports->add_option("traces", exporting.places, "Trace files, or folders of traces")
		    ->required()
		    ->type_name("FILE|DIR");

		auto *explaining =
		    app.add_subcommand("explain", "Show the decision for a call, and its reason, without running it");
		explaining->allow_extras();
		explaining->add_option("--entry", request.entry, "Entry point, for example cublasSgemm_v2 or cublasLtMatmul")
		    ->required();
		const struct {
			const char *name;
			int64_t &size;
			const char *help;
		} sizes[] = {{"--m", request.m, "Rows of the result"},
		             {"--n", request.n, "Columns of the result"},
		             {"--k", request.k, "Length of the sums (inner dimension)"},
		             {"--batch", request.batch, "Number of products in the call; default 1"}};
		for (const auto &[name, size, help] : sizes)
			explaining->add_option(name, size, help)
			    ->check(sizeUpTo(&size == &request.batch ? int64_t{INT32_MAX} : INT64_MAX))
			    ->required(&size != &request.batch);
		explaining->add_option("--dtype-in", request.dtype, "Type of the operands; default float32")
		    ->check(CLI::IsMember(operandTypes));
		explaining->add_option("--caller", request.caller,
		                       "Object file that makes the call, for example libcusolver.so.12");
		explaining->add_option("--region", request.region, "NVTX range or region around the call");
		explaining->add_option("--thread", request.thread, "Name of the calling thread");
		explaining
		    ->add_option("--program", request.program,
		                 "Program whose settings apply: reads ~/.config/autoamp/NAME.toml")
		    ->type_name("NAME");
		explaining
		    ->add_option("--device", request.device,
		                 "Device of the call: cuda or cpu; default: that of the entry point")
		    ->check(CLI::IsMember({"cuda", "cpu"}));
		settings.offer(explaining->add_option("--weights", request.weights, "Weights to keep (AUTOAMP_WEIGHTS)")
		                   ->type_name("MODE"),
		               policy::Option::weights);
		settings.offer(explaining
		                   ->add_option("--gpu", request.gpu,
		                                "GPU constants for the cost model (AUTOAMP_GPU_MODEL); default: detected")
		                   ->type_name("MODEL"),
		               policy::Option::gpuModel);
		explaining->add_option("--format", request.format, "Output format; default text")
		    ->check(CLI::IsMember({"text", "json"}));

		auto *checking = app.add_subcommand("check", "Check a configuration file without running anything");
		checking->allow_extras();
		checking->add_option("file", file, "TOML file (see autoamp help rules)")->required()->type_name("FILE");

		auto *listing = app.add_subcommand("lists", "List each op and entry point with its category");
		listing->allow_extras();
		settings.offer(
		    listing->add_option("--lists", lists.lists, "List system: torch, paddle or mindspore (AUTOAMP_LISTS)")
		        ->type_name("SYSTEM"),
		    policy::Option::lists);
		settings.offer(
		    listing->add_option("--level", lists.level, "Level of the lists (AUTOAMP_LEVEL)")->type_name("LEVEL"),
		    policy::Option::level);
		listing->add_option("--device", lists.device, "Device of the calls: cuda (default) or cpu")
		    ->check(CLI::IsMember({"cuda", "cpu"}));
		listing->add_option("--format", lists.format, "Output format; default text")
		    ->check(CLI::IsMember({"text", "json"}));

		auto *examining = app.add_subcommand("doctor", "Describe this machine and, with APP, how APP is linked");
		examining->prefix_command();
		examining->footer("The program comes last: autoamp doctor -- APP");
		auto *const testing = examining->add_flag(
		    "--self-test", selfTest.isAsked,
		    "Run calls with known results through every method of lowering; exit status 1 if one is wrong");
		examining
		    ->add_option("--device", selfTest.device,
		                 "Device of the self-test: auto (NVIDIA GPU, checked first), cuda (NVIDIA GPU, not checked) or "
		                 "emulated (CPU); default auto")
		    ->check(CLI::IsMember({"auto", "cuda", "emulated"}))
		    ->needs(testing);
		examining->add_option("--format", selfTest.format, "Output format of the self-test; default text")
		    ->check(CLI::IsMember({"text", "json"}))
		    ->needs(testing);
		auto *const calibrating =
		    examining->add_flag("--calibrate", calibrate.isAsked,
		                        "Measure this CPU for a few seconds, and store the constants by which `auto` decides "
		                        "about calls of a CPU BLAS (AUTOAMP_DIR)");
		calibrating->excludes(testing);
		examining
		    ->add_option("--blas", calibrate.blas,
		                 "BLAS to measure, by file or name; default: the one that the loader finds")
		    ->type_name("LIBRARY")
		    ->needs(calibrating);
		addColour(examining, doctor.colour);

		auto *helping = app.add_subcommand("help", "Print the manual");
		helping->allow_extras();
		auto *const page =
		    helping
		        ->add_option("topic", topic,
		                     fmt::format("Topic: {}, or a command; default: an overview", fmt::join(helpTopics, ", ")))
		        ->type_name("TOPIC");
		helping
		    ->add_option("--format", helpFormat,
		                 "Output format: text (default), man (a manual page), or md (the options of all commands)")
		    ->check(CLI::IsMember({"text", "man", "md"}));

		auto *completing = app.add_subcommand("completion", "Print the script that completes command lines in a shell");
		completing->allow_extras();
		completing->add_option("shell", shell, "Shell: bash, zsh or fish")
		    ->required()
		    ->type_name("SHELL")
		    ->check(CLI::IsMember(std::vector<std::string>(std::begin(shells), std::end(shells))));
		settings.choices[page] = topics(); // all commands exist now

		for (auto *command : app.get_subcommands(nullptr))
			for (auto *option : command->get_options())
				if (option->get_items_expected_max() == 0)
					option->check(takesNoValue);
				else if (option->get_items_expected_max() == 1) // not a list of files
					option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
	}

	std::vector<std::string> topics() const
	{
		std::vector<std::string> names(std::begin(helpTopics), std::end(helpTopics));
		for (const auto *command : app.get_subcommands([](const CLI::App *) { return true; }))
			names.push_back(command->get_name());
		return names;
	}

	// The commands and their options, for manual pages and completions.
	std::vector<CommandFacts> commands() const
	{
		auto choices = settings.choices;
		choices.insert(bisectSettings.choices.begin(), bisectSettings.choices.end());
		return describe(app, choices);
	}

	// Prints the manual of `help`, as text or as a page.
	void printHelp() const
	{
		const auto known = topics();
		if (!topic.empty() && std::find(known.begin(), known.end(), topic) == known.end())
			fail(Status::wrong, "unknown topic '{}'{}", topic,
			     nearest(topic, known, fmt::format("; topics: {}", fmt::join(known, ", ")).c_str()));
		if (helpFormat == "md" && !topic.empty())
			fail(Status::wrong, "help: --format md takes no topic");
		if (helpFormat == "md")
			fmt::print("{}", optionPage(commands()));
		else if (helpFormat == "man")
			fmt::print("{}", manualPage(topic.empty() ? "autoamp" : "autoamp-" + topic, commands()));
		else if (const auto found =
		             app.get_subcommands([&](const CLI::App *each) { return each->get_name() == topic; });
		         !found.empty())
			fmt::print("{}", forTerminal(found.front()->help("autoamp")));
		else
			fmt::print("{}", forTerminal(help(topic)));
	}

	static void addSelection(CLI::App *command, Selection &selection)
	{
		command->add_option("--sort", selection.sort, "Sort the list by a column, named as in JSON")
		    ->type_name("COLUMN");
		command->add_option("--top", selection.top, "Print only the first N rows of the list")
		    ->check(CLI::Range(1, INT32_MAX))
		    ->type_name("N");
	}

	static void addColour(CLI::App *command, Colour &colour)
	{
		const auto take = [&colour](const std::string &word) { colour = colours.at(word); };
		command
		    ->add_option_function<std::string>("--color", take,
		                                       "Color the output; auto needs a terminal and honors NO_COLOR")
		    ->check(CLI::IsMember({"auto", "always", "never"}));
	}
};

int carryOut(CommandLine &line, const std::vector<std::string> &application)
{
	const auto *command = line.app.get_subcommands().front();
	const auto program = [&] {
		auto words = command->remaining();
		words.insert(words.end(), application.begin(), application.end());
		return words;
	};
	if (command->get_name() == "run") {
		refuseUnknown(*command, Status::notStarted);
		line.run.command = program();
		line.run.typed.assign(line.arguments.begin() + 1,
		                      line.arguments.end() - static_cast<ptrdiff_t>(command->remaining().size()));
		if (line.run.command.empty())
			fail(Status::notStarted, "run: no program given; usage: {} run [OPTIONS] -- APP ARGS...", invocation);
		line.settings.apply(line.run);
		return run(line.run, entries).status;
	}

	refuseUnknown(*command, Status::wrong);
	if (command->get_name() == "bisect") {
		line.bisect.run.command = program();
		if (line.bisect.run.command.empty())
			fail(Status::wrong, "bisect: no program given; usage: {} bisect [OPTIONS] -- APP ARGS...", invocation);
		line.bisectSettings.apply(line.bisect.run);
		return static_cast<int>(bisect(line.bisect, entries));
	}
	if (command->get_name() == "check") {
		check(line.file, entries);
		return static_cast<int>(Status::done);
	}
	if (command->get_name() == "completion") {
		fmt::print("{}", completion(line.shell, line.commands()));
		return static_cast<int>(Status::done);
	}
	if (command->get_name() == "lists") {
		lists(line.lists, entries);
		return static_cast<int>(Status::done);
	}
	const auto parsed = command->get_name() == "help" // help ignores configuration files
	                        ? policy::parseOptions(policy::processEnvironment(), entries)
	                        : Environment().parse(entries, programName(program()));
	Status status = parsed.error.empty() ? Status::done : Status::wrong;
	if (command->get_name() == "doctor") {
		line.doctor.command = program(); // doctor reports invalid values itself
		if (line.selfTest.isAsked && !line.doctor.command.empty())
			fail(Status::wrong, "doctor: --self-test takes no program");
		if (line.calibrate.isAsked && !line.doctor.command.empty())
			fail(Status::wrong, "doctor: --calibrate takes no program");
		line.selfTest.colour = line.calibrate.colour = line.doctor.colour;
		if (line.selfTest.isAsked)
			return static_cast<int>(selfTest(line.selfTest, parsed.options));
		if (!line.calibrate.isAsked)
			doctor(line.doctor, parsed, entries);
		else if (parsed.error.empty())
			calibrate(line.calibrate, parsed.options);
	} else if (command->get_name() == "help") {
		// help is printed even if a setting is invalid, because it lists the valid values.
		line.printHelp();
	} else if (status == Status::done && command->get_name() == "explain") {
		explain(line.request, entries);
	} else if (status == Status::done && command->get_name() == "diff") {
		status = diff(line.diff, parsed.options, entries);
	} else if (status == Status::done && command->get_name() == "export") {
		status = exportTraces(line.exporting, parsed.options);
	} else if (status == Status::done) {
		status = report(line.report, parsed.options, entries);
	}
	if (!parsed.error.empty())
		fail(Status::wrong, "{}", parsed.error);
	return static_cast<int>(status);
}

int start(int count, char **words)
{
	invocation =
	    count > 0 && std::string_view(words[0]).find('/') != std::string_view::npos ? quoted(words[0]) : "autoamp";
	std::vector<std::string> arguments(words + std::min(count, 1), words + count), application;
	const std::string name = arguments.empty() ? "" : arguments.front();
	const bool hasProgram = name == "run" || name == "doctor" || name == "bisect";
	const Status wrong = name == "run" ? Status::notStarted : Status::wrong;
	if (hasProgram) {
		// Arguments after `--` belong to the application, even if they look like options.
		const auto separator = std::find(arguments.begin(), arguments.end(), "--");
		application.assign(separator, arguments.end());
		arguments.erase(separator, arguments.end());
	}
	CommandLine line;
	if (arguments.empty())
		arguments = {"help"};
	std::vector<std::string> names = {"-h", "--help", "--version", "--preload-path"};
	for (const auto *command : line.app.get_subcommands(nullptr))
		names.push_back(command->get_name());
	const auto first = arguments.front().substr(0, arguments.front().find('='));
	if (std::find(names.begin(), names.end(), first) == names.end())
		fail(wrong, "unknown command '{}'{}", arguments.front(),
		     nearest(arguments.front(), names, "; autoamp help lists them"));
	line.arguments = arguments;
	try {
		std::reverse(arguments.begin(), arguments.end()); // CLI11 expects them in reverse order
		line.app.parse(arguments);
	} catch (const CLI::Success &success) {
		std::ostringstream text;
		const int status = line.app.exit(success, text, text);
		fmt::print("{}", forTerminal(text.str()));
		return status;
	} catch (const CLI::RequiredError &) {
		refuseMissing(*line.app.get_subcommands().front(), wrong);
	} catch (const CLI::ParseError &error) {
		fail(wrong, "{}", error.what());
	}
	// `run ./app -- x`: the application begins before the separator, so the separator is one of its arguments.
	if (hasProgram && !application.empty() && line.app.get_subcommand(name)->remaining().empty())
		application.erase(application.begin());
	return carryOut(line, application);
}

} // namespace

} // namespace autoamp::tool

int main(int count, char **words)
{
	using namespace autoamp::tool;
	try {
		const int status = start(count, words);
		// A closed pipe (`| head`) is not a failure; a full disk is.
		if ((std::fflush(stdout) != 0 || std::ferror(stdout)) && errno != EPIPE)
			fail(Status::failed, "cannot write the output: {}", std::strerror(errno));
		return status;
	} catch (const Failure &failure) {
		const Terminal terminal(STDERR_FILENO, Colour::never);
		complain(wrap("autoamp: " + failure.line, terminal.width, 2) + "\n"); // made safe by fail()
		return static_cast<int>(failure.status);
	} catch (const std::exception &error) {
		if (errno == EPIPE)
			return 0;
		complain(message("autoamp: {}\n", error.what()));
		return static_cast<int>(Status::failed);
	}
}
