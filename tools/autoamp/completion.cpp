// Shell completions. Each shell gets one function with the commands and options as data. Words after `--` belong to the
// program, and are completed as its own command line.
#include "tools/autoamp/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace autoamp::tool {

const char *const shells[3] = {"bash", "zsh", "fish"};

namespace {

// Replaces a character in text for a quoted string of a shell.
std::string replaced(std::string text, char old, const std::string &by)
{
	for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
		text.replace(at, 1, by);
	return text;
}

std::string names(const std::vector<CommandFacts> &commands)
{
	std::string text;
	for (const auto &command : commands)
		text += command.name + " ";
	return text + "--help --preload-path --version";
}

// `words` are the accepted words, or - for files.
constexpr const char *bashFunction = R"(_autoamp() {
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=- i
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$_autoamp_commands" -- "$current")
        return
    fi
    for ((i = 2; i < COMP_CWORD; i++)); do
        [ "${COMP_WORDS[i]}" = -- ] || continue
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif [ $((i + 1)) = "$COMP_CWORD" ]; then
            mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -f -- "$current")
        else
            mapfile -t COMPREPLY < <(compgen -f -- "$current")
        fi
        return
    done
    if [ "$current" = = ]; then # --option=
        current=
    elif [ "$previous" = = ]; then
        previous=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    case $current in
    -*) _autoamp_options "$command" ;;
    *) _autoamp_values "$command" "$previous" ;;
    esac
    case $words in
    -) mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current") ;;
    esac
}
complete -o filenames -F _autoamp autoamp
)";

std::string bash(const std::vector<CommandFacts> &commands)
{
	std::string options = "_autoamp_options() { # COMMAND\n    case $1 in\n";
	std::string values = "_autoamp_values() { # COMMAND OPTION: - for files\n    case $1,$2 in\n";
	for (const auto &command : commands) {
		std::vector<std::string> all;
		std::string positional;
		for (const auto &option : command.options) {
			all.insert(all.end(), option.names.begin(), option.names.end());
			const auto words = fmt::format("{}", fmt::join(option.choices, " "));
			if (option.names.empty())
				positional = words;
			else if (!option.value.empty() && !option.isFile()) {
				std::string pattern;
				for (const auto &name : option.names)
					pattern += fmt::format("{}{},{}", pattern.empty() ? "" : " | ", command.name, name);
				values += fmt::format("    {}) words='{}' ;;\n", pattern, words);
			}
		}
		options += fmt::format("    {}) words='{}' ;;\n", command.name, fmt::join(all, " "));
		if (!positional.empty())
			values += fmt::format("    {},*) words='{}' ;;\n", command.name, positional);
	}
	values += "    --preload-path,*) words='cuda cpu' ;;\n";
	return fmt::format(
	    "# Completion of autoamp for bash; written by `autoamp completion bash`.\n_autoamp_commands='{}'\n{}    "
	    "esac\n}}\n{}    esac\n}}\n{}",
	    names(commands), options, values, bashFunction);
}

// A text inside '…' of zsh, where brackets and colons separate the parts of a specification.
std::string zshText(const std::string &text)
{
	std::string result;
	for (const char c : text) {
		if (c == '[' || c == ']' || c == ':' || c == '\\')
			result += '\\';
		result += c;
	}
	return replaced(result, '\'', "'\\''");
}

std::string zshSpecification(const OptionFacts &option)
{
	const auto action = option.isFile()        ? ":" + zshText(option.value) + ":_files"
	                    : option.value.empty() ? std::string()
	                    : option.choices.empty()
	                        ? ":" + zshText(option.value) + ": "
	                        : fmt::format(":{}:({})", zshText(option.value), fmt::join(option.choices, " "));
	if (option.names.empty())
		return fmt::format(" \\\n            '*{}'", action);
	std::string text;
	for (const auto &name : option.names)
		text += fmt::format(" \\\n            '({}){}{}[{}]{}'", fmt::join(option.names, " "), name,
		                    option.value.empty()     ? ""
		                    : name.starts_with("--") ? "="
		                                             : "+",
		                    zshText(option.help), action);
	return text;
}

std::string zsh(const std::vector<CommandFacts> &commands)
{
	std::string described, cases;
	for (const auto &command : commands) {
		described += fmt::format("        '{}:{}'\n", command.name, zshText(command.help));
		cases += fmt::format("    {})\n        _arguments -s -S", command.name);
		for (const auto &option : command.options)
			cases += zshSpecification(option);
		cases += std::string(command.takesProgram ? " \\\n            '*::arguments: _normal'" : "") + " ;;\n";
	}
	return fmt::format(
	    "#compdef autoamp\n# Completion of autoamp for zsh; written by `autoamp completion zsh`.\n"
	    "_autoamp() {{\n    local -a commands\n    commands=(\n{}    )\n"
	    "    if (( CURRENT == 2 )); then\n        _describe command commands\n"
	    "        [[ $words[2] != -* ]] || compadd -- --help --preload-path --version\n        return\n    fi\n"
	    "    shift words\n    (( CURRENT-- ))\n    case $words[1] in\n{}    esac\n}}\n"
	    "if [ \"$funcstack[1]\" = _autoamp ]; then\n    _autoamp \"$@\"\nelse\n    compdef _autoamp autoamp\nfi\n",
	    described, cases);
}

std::string fishText(const std::string &text)
{
	return "'" + replaced(replaced(text, '\\', "\\\\"), '\'', "\\'") + "'";
}

std::string fish(const std::vector<CommandFacts> &commands)
{
	std::string text =
	    "# Completion of autoamp for fish; written by `autoamp completion fish`.\n"
	    "complete -c autoamp -n __fish_use_subcommand -f\n"
	    "complete -c autoamp -n __fish_use_subcommand -l version -d 'Print the version'\n"
	    "complete -c autoamp -n __fish_use_subcommand -l preload-path -x -a 'cuda cpu' -d 'Print the path "
	    "of the library for LD_PRELOAD'\n";
	for (const auto &command : commands) {
		text += fmt::format("complete -c autoamp -n __fish_use_subcommand -a {} -d {}\n", command.name,
		                    fishText(command.help));
		const auto here = fmt::format("complete -c autoamp -n '__fish_seen_subcommand_from {}'", command.name);
		for (const auto &option : command.options) {
			std::string line = here;
			for (const auto &name : option.names)
				line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
			const auto words = fmt::format("{}", fmt::join(option.choices, " "));
			if (!option.value.empty() && !option.names.empty())
				line += option.isFile() ? " -r" : " -x";
			if (!words.empty())
				line += " -a " + fishText(words);
			if (!option.names.empty() || !words.empty())
				text += line + " -d " + fishText(option.help) + "\n";
		}
		if (command.takesProgram)
			text += here + " -a '(__fish_complete_subcommand --fcs-skip=2)'\n";
	}
	return text;
}

} // namespace

std::string completion(const std::string &shell, const std::vector<CommandFacts> &commands)
{
	return shell == "bash" ? bash(commands) : shell == "zsh" ? zsh(commands) : fish(commands);
}

} // namespace autoamp::tool
