#include "tools/autoamp/manual.h"

#include "src/config/options.h"
#include "src/policy/decision.h"
#include "tools/autoamp/help.h"
#include "tools/autoamp/text.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>
#include <string_view>

namespace autoamp::tool {

namespace {

// The words of a type name such as TEXT:{auto,cuda}.
std::vector<std::string> wordsOf(const std::string &type)
{
	const auto begin = type.find('{'), end = type.rfind('}');
	return begin == std::string::npos || end < begin ? std::vector<std::string>()
	                                                 : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

OptionFacts factsOf(const CLI::Option &option, const Choices &choices)
{
	OptionFacts facts;
	for (const auto &name : option.get_snames())
		facts.names.push_back("-" + name);
	for (const auto &name : option.get_lnames())
		facts.names.push_back("--" + name);
	const auto type = option.get_type_name();
	const auto known = choices.find(&option);
	facts.choices = known == choices.end() ? wordsOf(type) : known->second;
	facts.help = option.get_description();
	facts.isRequired = option.get_required();
	facts.isRepeated = option.get_items_expected_max() > 1;
	if (option.get_items_expected_max() == 0)
		return facts;
	facts.value = type.substr(0, type.find(':'));
	if (facts.value.empty() || facts.value == "TEXT" || facts.value == "INT")
		facts.value = facts.value == "INT" ? "N" : "VALUE";
	return facts;
}

// Text of a man page. Hyphens of options must remain hyphens when they are copied.
std::string escaped(std::string_view text)
{
	std::string result;
	for (const char c : text) {
		const bool isFirst = result.empty() || result.back() == '\n';
		if (isFirst && (c == '.' || c == '\''))
			result += "\\&";
		result += c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '\'' ? "\\(aq" : std::string(1, c);
	}
	return result;
}

std::string upper(std::string text)
{
	std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
	return text;
}

std::string header(const std::string &page, int section, const std::string &help)
{
	return fmt::format(".TH {} {} \"\" \"autoamp {}\" \"autoamp\"\n.nh\n.ad l\n.SH NAME\n{} \\- {}\n", upper(page),
	                   section, AUTOAMP_VERSION, escaped(page), escaped(help));
}

std::string term(const std::string &name, const std::string &text)
{
	return fmt::format(".TP\n.B {}\n{}\n", escaped(name), escaped(text));
}

// A text with its own lines, for terminals of 80 columns.
std::string preformatted(const std::string &text)
{
	constexpr size_t width = 72; // and the indentation of a page
	return ".nf\n" + escaped(reflow(text, width)) + ".fi\n";
}

std::string optionTerms(const CommandFacts &command)
{
	std::string text;
	for (const auto &option : command.options) {
		const auto words = fmt::format("{}", fmt::join(option.choices, ", "));
		const bool isSaid = words.empty() || option.help.find(words) != std::string::npos;
		text += term(option.usage(), option.help + (isSaid ? "." : ". Values: " + words + "."));
	}
	return text;
}

std::string seeAlso(const std::string &self, const std::vector<CommandFacts> &commands)
{
	std::vector<std::string> pages = {"autoamp(1)"};
	for (const auto &command : commands)
		pages.push_back(fmt::format("autoamp\\-{}(1)", command.name));
	for (const auto *topic : helpTopics)
		pages.push_back(fmt::format("autoamp\\-{}(7)", topic));
	const auto own = std::find_if(pages.begin(), pages.end(),
	                              [&](const auto &page) { return page.starts_with(escaped(self) + "("); });
	if (own != pages.end())
		pages.erase(own);
	return fmt::format(".SH SEE ALSO\n{}\n", fmt::join(pages, ",\n"));
}

constexpr const char *statuses = R"(.SH EXIT STATUS
0 success, 1 the work failed, 2 the command line, a variable or an input file is wrong.
.B autoamp run
returns the status of the program, 128+N for signal N; 125: autoamp failed before the start, 126: the program cannot be
executed, 127: the program was not found.
)";

std::string overviewPage(const std::vector<CommandFacts> &commands)
{
	auto text = header("autoamp", 1, "automatic mixed precision for programs that cannot be changed");
	text += ".SH SYNOPSIS\n.B autoamp\nCOMMAND [OPTIONS] ...\n.SH DESCRIPTION\n" + preformatted(help("")) +
	        ".SH COMMANDS\n";
	for (const auto &command : commands)
		text += term(command.usage(), command.help + ".");
	return text + statuses + seeAlso("autoamp", commands);
}

std::string commandPage(const CommandFacts &command, const std::vector<CommandFacts> &commands)
{
	const auto page = "autoamp-" + command.name;
	return header(page, 1, command.help) + ".SH SYNOPSIS\n" + escaped(command.usage()) + "\n.SH OPTIONS\n" +
	       optionTerms(command) + statuses + seeAlso(page, commands);
}

std::string variables()
{
	std::string text;
	const auto add = [&](const char *name, const char *says, const std::string &values, const char *fallback) {
		text += term(name, fmt::format("{}.", says)) +
		        escaped(fmt::format("Values: {}. Default: {}.", values, *fallback ? fallback : "empty")) + "\n";
	};
	for (const auto &row : policy::optionTable())
		add(row.name, row.help, policy::acceptedValues(row), row.fallback);
	for (const auto &row : policy::emulatorSettings())
		add(row.name, row.help, row.values, row.fallback);
	return text;
}

std::string reasons()
{
	std::string text;
	for (int i = 0; i < static_cast<int>(policy::Reason::count); i++) {
		const auto reason = static_cast<policy::Reason>(i);
		const auto advice = std::string(policy::advice(reason));
		text += term(std::string(policy::name(reason)),
		             fmt::format("{}.{}", policy::meaning(reason), advice.empty() ? "" : " Try: " + advice + "."));
	}
	return text;
}

struct TopicTitle {
	std::string_view topic;
	const char *title;
} constexpr topicTitles[] = {{"env", "variables of autoamp"},
                             {"rules", "configuration files of autoamp"},
                             {"weights", "kept copies of converted operands"},
                             {"reports", "reports of autoamp and the meaning of their numbers"},
                             {"reasons", "reasons why autoamp lowered or kept a call"}};
static_assert(std::size(topicTitles) == std::size(helpTopics));

std::string topicPage(const TopicTitle &row, const std::vector<CommandFacts> &commands)
{
	const auto page = "autoamp-" + std::string(row.topic);
	const auto text = row.topic == "env"       ? variables()
	                  : row.topic == "reasons" ? reasons()
	                                           : preformatted(help(std::string(row.topic)));
	return header(page, 7, row.title) + ".SH DESCRIPTION\n" + text + seeAlso(page, commands);
}

// A cell of a Markdown table.
std::string cell(std::string text)
{
	for (size_t at = 0; (at = text.find_first_of("|*_<", at)) != std::string::npos; at += 2)
		text.insert(at, "\\");
	return text;
}

} // namespace

bool OptionFacts::isFile() const
{
	static constexpr std::string_view files[] = {"FILE", "FILE|DIR", "OUT", "A", "B", "LIBRARY"};
	return std::find(std::begin(files), std::end(files), value) != std::end(files);
}

std::string OptionFacts::usage() const
{
	const auto named = fmt::format("{}", fmt::join(names, ", "));
	return named + (named.empty() || value.empty() ? "" : " ") + value;
}

std::string CommandFacts::usage() const
{
	std::string text = "autoamp " + name + " [OPTIONS]";
	for (const auto &option : options)
		if (option.names.empty()) {
			const auto value = option.value + (option.isRepeated ? "..." : "");
			text += option.isRequired ? " " + value : " [" + value + "]";
		} else if (option.isRequired) {
			text += " " + option.names.back() + " " + option.value;
		}
	return text + (needsProgram ? " -- APP ARGS..." : takesProgram ? " [-- APP ARGS...]" : "");
}

static CommandFacts factsOf(const CLI::App &command, const Choices &choices)
{
	const bool takesProgram = command.get_prefix_command();
	CommandFacts facts = {command.get_name(), command.get_description(), takesProgram,
	                      takesProgram && command.get_name() != "doctor"};
	for (const auto *option : command.get_options([](const CLI::Option *) { return true; }))
		facts.options.push_back(factsOf(*option, choices));
	return facts;
}

std::vector<CommandFacts> describe(const CLI::App &app, const Choices &choices)
{
	std::vector<CommandFacts> commands;
	for (const auto *command : app.get_subcommands([](const CLI::App *) { return true; }))
		commands.push_back(factsOf(*command, choices));
	return commands;
}

std::string usageOf(const CLI::App &command)
{
	return factsOf(command, {}).usage();
}

std::string manualPage(const std::string &page, const std::vector<CommandFacts> &commands)
{
	if (page == "autoamp")
		return overviewPage(commands);
	for (const auto &command : commands)
		if (page == "autoamp-" + command.name)
			return commandPage(command, commands);
	for (const auto &row : topicTitles)
		if (page == "autoamp-" + std::string(row.topic))
			return topicPage(row, commands);
	return {};
}

std::string optionPage(const std::vector<CommandFacts> &commands)
{
	std::string text =
	    "# Options\n\nUse this page to find the options of a command. `autoamp help --format md` prints it.\n";
	for (const auto &command : commands) {
		text += fmt::format("\n## `autoamp {}`\n\n{}.\n\n    {}\n\n| option | values | effect |\n|---|---|---|\n",
		                    command.name, command.help, command.usage());
		for (const auto &option : command.options)
			text += fmt::format("| `{}` | {} | {} |\n", cell(option.usage()), fmt::join(option.choices, ", "),
			                    cell(option.help));
	}
	return text;
}

} // namespace autoamp::tool
