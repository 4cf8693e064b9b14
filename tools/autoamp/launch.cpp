#include "tools/autoamp/launch.h"

#include "src/trace/naming.h"
#include "tools/autoamp/failure.h"

#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace autoamp::tool {

namespace fs = std::filesystem;

Environment::Environment()
{
	for (char **entry = environ; *entry; entry++)
		if (const char *equals = std::strchr(*entry, '='))
			values_.emplace(std::string(*entry, static_cast<size_t>(equals - *entry)), equals + 1);
}

const std::string *Environment::get(const std::string &name) const
{
	const auto found = values_.find(name);
	return found == values_.end() ? nullptr : &found->second;
}

void Environment::set(const std::string &name, const std::string &value)
{
	values_[name] = value;
}

void Environment::set(const std::string &name, const std::string &value, const std::string &option)
{
	set(name, value);
	auto &settings = values_["_AUTOAMP_RUN"];
	settings += (settings.empty() ? "" : "\n") + option + " " + name + "=" + value;
}

void Environment::unset(const std::string &name)
{
	values_.erase(name);
}

void Environment::prepend(const std::string &name, const std::string &entry)
{
	auto &value = values_[name];
	const std::string separators = name == "LD_PRELOAD" ? ": " : ":;";
	for (size_t start = 0; start < value.size();) {
		const auto end = std::min(value.find_first_of(separators, start), value.size());
		if (value.compare(start, end - start, entry) == 0)
			return; // nested `autoamp run`
		start = end + 1;
	}
	value = value.empty() ? entry : entry + ":" + value;
}

std::vector<std::string> Environment::strings() const
{
	std::vector<std::string> result;
	for (const auto &[name, value] : values_)
		result.push_back(name + "=" + value);
	return result;
}

policy::ParsedOptions Environment::parse(std::span<const char *const> entries, const std::string &program) const
{
	const auto texts = strings();
	std::vector<const char *> pointers;
	for (const auto &text : texts)
		pointers.push_back(text.c_str());
	pointers.push_back(nullptr);
	return policy::configure(pointers.data(), entries, program);
}

std::string programName(const std::vector<std::string> &command)
{
	std::string arguments;
	for (const auto &word : command)
		arguments += word + '\0';
	char name[NAME_MAX + 1];
	trace::programName(arguments.data(), arguments.size(), name, sizeof name);
	return name;
}

namespace {

constexpr int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
volatile pid_t application = 0; // 0: before the start or after the end
volatile std::sig_atomic_t received = 0;

void forward(int signal, siginfo_t *information, void *)
{
	if (signal != SIGUSR1 && signal != SIGUSR2)
		received = signal;
	// The terminal signals the whole foreground process group, so the application has already received this signal.
	if (application > 0 && information->si_code != SI_KERNEL)
		::kill(application, signal);
}

} // namespace

Ending launch(const std::vector<std::string> &command, const Environment &environment)
{
	const auto variables = environment.strings();
	std::vector<char *> arguments, values;
	for (const auto &word : command)
		arguments.push_back(const_cast<char *>(word.c_str()));
	for (const auto &value : variables)
		values.push_back(const_cast<char *>(value.c_str()));
	arguments.push_back(nullptr);
	values.push_back(nullptr);

	// Signals are blocked until the application exists and can receive them. It starts with this process's original
	// mask.
	sigset_t ours, before;
	sigemptyset(&ours);
	for (const int signal : forwarded)
		sigaddset(&ours, signal);
	sigprocmask(SIG_BLOCK, &ours, &before);
	posix_spawnattr_t attributes;
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &before);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	Ending ending;
	const int error =
	    ::posix_spawnp(&ending.pid, command[0].c_str(), nullptr, &attributes, arguments.data(), values.data());
	posix_spawnattr_destroy(&attributes);
	if (error == ENOENT && command[0].find('/') != std::string::npos && fs::exists(command[0]))
		fail(Status::notExecutable, "{}: its interpreter or loader is missing", command[0]);
	if (error != 0)
		fail(error == ENOENT || error == ENOTDIR ? Status::notFound : Status::notExecutable, "{}: {}", command[0],
		     std::strerror(error));

	application = ending.pid;
	received = 0;
	struct sigaction old[std::size(forwarded)];
	for (size_t i = 0; i < std::size(forwarded); i++) {
		struct sigaction action = {};
		action.sa_sigaction = forward;
		action.sa_flags = SA_SIGINFO | SA_RESTART;
		sigaction(forwarded[i], &action, &old[i]);
	}
	sigprocmask(SIG_SETMASK, &before, nullptr);

	// WNOWAIT keeps the zombie and its pid, so that no other process can receive a signal meant for the application.
	siginfo_t ended;
	while (::waitid(P_PID, static_cast<id_t>(ending.pid), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
	}
	application = 0;
	for (size_t i = 0; i < std::size(forwarded); i++)
		sigaction(forwarded[i], &old[i], nullptr);
	ending.received = received;
	int status = 0;
	::waitpid(ending.pid, &status, 0);
	ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	ending.isCoreDumped = ending.signal && WCOREDUMP(status);
	ending.status = ending.signal ? 128 + ending.signal : WEXITSTATUS(status);
	return ending;
}

} // namespace autoamp::tool
