#include "src/trace/naming.h"

#include "src/base/hash.h"
#include "src/base/name_pattern.h"
#include "src/base/pages.h"
#include "src/base/quiet_write.h"
#include "src/trace/file_lock.h"
#include "src/trace/tail_name.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace autoamp::trace {
namespace {

constexpr const char *kTooLong = "the file name is too long";
constexpr const char *kJobVariables[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PMIX_NAMESPACE"};
// Variables with the rank and the number of ranks.
constexpr std::pair<const char *, const char *> kRankVariables[] = {{"SLURM_PROCID", "SLURM_NTASKS"},
                                                                    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                                    {"PMI_RANK", "PMI_SIZE"},
                                                                    {"PMIX_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                                    {"MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};

// Appends to a buffer that stays terminated; records whether something did not fit.
class Writer
{
public:
	Writer(char *out, size_t size) : out_(out), left_(size) { *out_ = 0; }
	void put(std::string_view text)
	{
		if (text.size() >= left_) {
			fits_ = false;
			return;
		}
		memcpy(out_, text.data(), text.size());
		out_ += text.size();
		left_ -= text.size();
		*out_ = 0;
	}
	void put(uint32_t number)
	{
		char digits[16];
		snprintf(digits, sizeof digits, "%u", number);
		put(std::string_view(digits));
	}
	// Appends a value that is not literally in the pattern: it must not leave the folder that the pattern names.
	// `next`: the next character of the pattern.
	void putValue(std::string_view value, char next)
	{
		for (const char c : value) {
			const bool isHidden = c == '.' && isOnlyDots();
			const bool isPlain = c != '/' && static_cast<unsigned char>(c) >= 0x20 && c != 0x7f && !isHidden;
			put(std::string_view(isPlain ? &c : "_", 1));
		}
		if (out_ == begin_ && next == '/') // otherwise the path would be absolute
			put("_");
	}
	bool fits() const { return fits_; }

private:
	bool isOnlyDots() const // the last component of the name so far
	{
		const char *at = out_;
		while (at > begin_ && at[-1] == '.')
			--at;
		return at == begin_ || at[-1] == '/';
	}
	char *out_, *const begin_ = out_;
	size_t left_;
	bool fits_ = true;
};

std::string_view lookUp(Lookup lookup, const char *name)
{
	const char *value = lookup ? lookup(name) : nullptr;
	return value ? value : "";
}

std::string_view baseName(std::string_view path)
{
	return path.substr(path.rfind('/') + 1);
}

bool isInterpreter(std::string_view name)
{
	// The name may end with a version: python3.11.
	name = name.substr(0, name.find_last_not_of("0123456789.") + 1);
	for (std::string_view known : {"python", "pypy", "perl", "ruby", "julia", "Rscript", "bash", "sh", "dash", "zsh",
	                               "node", "lua", "luajit", "octave", "octave-cli"})
		if (name == known)
			return true;
	return false;
}

bool usesCounter(std::string_view pattern)
{
	for (size_t at = 0; (at = pattern.find('%', at)) != pattern.npos;) {
		const base::Directive found = base::directiveAt(pattern.substr(at));
		if (found.letter == 'n')
			return true;
		at += found.length;
	}
	return false;
}

// Creates every folder of the path. Errors show when the file is opened.
void makeFolders(char *path)
{
	for (char *slash = path + (*path == '/'); (slash = strchr(slash, '/')); ++slash) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
}

// Removes the last ".suffix" of a name if its length and characters are accepted; otherwise returns false.
template <class IsOf>
bool takeSuffix(std::string_view &name, size_t least, size_t most, IsOf isOf)
{
	const size_t dot = name.rfind('.');
	if (dot == name.npos || name.size() - dot - 1 < least || name.size() - dot - 1 > most)
		return false;
	if (!std::all_of(name.begin() + static_cast<ptrdiff_t>(dot) + 1, name.end(), isOf))
		return false;
	name.remove_suffix(name.size() - dot);
	return true;
}

// %e.%t.%p.aat, perhaps with .1, .2 … before the suffix. `day`: the day in %t.
bool isDefaultName(std::string_view name, std::string_view &day)
{
	const auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
	const auto isTime = [&](char c) { return isDigit(c) || c == 'T' || c == 'Z'; };
	if (name.size() < 4 || name.substr(name.size() - 4) != ".aat")
		return false;
	name.remove_suffix(4);
	if (!takeSuffix(name, 1, 10, isDigit))
		return false;
	takeSuffix(name, 1, 10, isDigit);
	const std::string_view before = name;
	if (!takeSuffix(name, 16, 16, isTime) || name.empty())
		return false;
	const std::string_view time = before.substr(name.size() + 1);
	day = time.substr(0, 8);
	return time[8] == 'T' && time[15] == 'Z' && std::count(time.begin(), time.end(), 'T') == 1 &&
	       std::count(time.begin(), time.end(), 'Z') == 1;
}

// Returns true, and stores the time, if no process looked for old traces within the last hour.
bool isTimeToPrune(int folder, int64_t now)
{
	constexpr const char *name = ".pruned";
	struct stat status;
	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_mtim.tv_sec <= now &&
	    now - status.st_mtim.tv_sec < 3600)
		return false;
	const int file = openat(folder, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (file < 0)
		return false;
	timespec times[2] = {};
	times[0].tv_sec = times[1].tv_sec = now;
	const bool isNoted = futimens(file, times) == 0;
	close(file);
	return isNoted;
}

struct OldTrace {
	uint64_t job, size;
	int64_t written; // seconds since the epoch
	bool isOpen;
	char name[256];
};

// False: it is not a trace, or not readable.
bool readOld(int folder, OldTrace &trace, std::string_view day)
{
	const int file = openat(folder, trace.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return false;
	Header header = {};
	struct stat status = {};
	const bool isTrace = pread(file, static_cast<void *>(&header), sizeof header, 0) == sizeof header &&
	                     memcmp(header.magic, kMagic, sizeof kMagic) == 0 && fstat(file, &status) == 0 &&
	                     S_ISREG(status.st_mode);
	trace.job = header.job ? header.job : base::hashBytes(day.data(), day.size());
	trace.size = static_cast<uint64_t>(status.st_size);
	trace.written = status.st_mtim.tv_sec;
	trace.isOpen = isBeingWritten(file);
	close(file);
	return isTrace;
}

void removeTrace(int folder, const char *name)
{
	char tail[300];
	if (unlinkat(folder, name, 0) == 0 && tailName(name, tail, sizeof tail))
		unlinkat(folder, tail, 0);
}

} // namespace

const char *expandName(const char *pattern, const NameParts &parts, unsigned counter, char *out, size_t size)
{
	Writer writer(out, size);
	for (const char *at = pattern; *at; ++at) {
		if (*at != '%') {
			writer.put(std::string_view(at, 1));
			continue;
		}
		const base::Directive found = base::directiveAt(at);
		if (found.problem)
			return found.problem;
		at += found.length - 1;
		switch (found.letter) {
		case 'e':
			writer.putValue(parts.program, at[1]);
			break;
		case 't': {
			time_t seconds = static_cast<time_t>(parts.time);
			struct tm utc;
			char text[32] = "0";
			if (gmtime_r(&seconds, &utc))
				strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
			writer.put(std::string_view(text));
			break;
		}
		case 'h':
			writer.putValue(parts.host, at[1]);
			break;
		case 'p':
			writer.put(parts.pid);
			break;
		case 'n':
			writer.put(counter);
			break;
		case '%':
			writer.put("%");
			break;
		case 'q':
			writer.putValue(lookUp(parts.lookup, std::string(found.variable).c_str()), at[1]);
			break;
		default:
			writer.putValue(*parts.rank ? parts.rank : "0", at[1]);
		}
	}
	return writer.fits() ? nullptr : kTooLong;
}

void programName(const char *arguments, size_t size, char *out, size_t outSize)
{
	std::string_view rest(arguments, size);
	auto next = [&rest] {
		std::string_view word = rest.substr(0, rest.find('\0'));
		rest.remove_prefix(std::min(rest.size(), word.size() + 1));
		return word;
	};
	std::string_view name = baseName(next());
	if (isInterpreter(name)) {
		const bool python = name.substr(0, 2) == "py";
		while (!rest.empty()) {
			std::string_view word = next();
			if (word == "-c" || word == "-e" || word == "-")
				break; // the program is an argument or standard input
			if (python && word == "-m") {
				name = next();
				break;
			}
			if (python && (word == "-W" || word == "-X"))
				next();
			else if (!word.empty() && word[0] != '-') {
				name = baseName(word);
				break;
			}
		}
	}
	Writer writer(out, outSize);
	writer.put(name.substr(0, outSize - 1));
}

const char *jobRank(Lookup lookup)
{
	for (const auto &[rank, ranks] : kRankVariables)
		if (const std::string_view value = lookUp(lookup, rank); !value.empty())
			return value.data();
	return "";
}

const char *jobRanks(Lookup lookup)
{
	for (const auto &[rank, ranks] : kRankVariables)
		if (!lookUp(lookup, rank).empty())
			return lookUp(lookup, ranks).data();
	return "";
}

const char *jobName(Lookup lookup)
{
	for (const char *name : kJobVariables)
		if (const std::string_view value = lookUp(lookup, name); !value.empty())
			return value.data();
	return "";
}

RunIds runIds(Lookup lookup)
{
	const std::string_view value = lookUp(lookup, kRunVariable);
	RunIds ids;
	const char *at = value.data(), *const end = at + value.size();
	const auto inner = std::from_chars(at, end, ids.inner, 16);
	if (inner.ptr == end || *inner.ptr != ':')
		return {};
	const auto outer = std::from_chars(inner.ptr + 1, end, ids.outer, 16);
	return outer.ec == std::errc() && outer.ptr == end ? ids : RunIds();
}

int createFile(const char *pattern, const NameParts &parts, char *out, size_t size, const char **problem)
{
	const bool counted = usesCounter(pattern);
	for (unsigned attempt = 0; attempt < 100000; ++attempt) {
		*problem = expandName(pattern, parts, counted ? attempt + 1 : 0, out, size);
		if (!*problem && attempt && !counted) {
			char number[16];
			int digits = snprintf(number, sizeof number, ".%u", attempt);
			char *base = strrchr(out, '/') ? strrchr(out, '/') + 1 : out;
			char *suffix = strrchr(base, '.');
			if (!suffix || suffix == base)
				suffix = base + strlen(base);
			if (strlen(out) + digits >= size)
				*problem = kTooLong;
			else {
				memmove(suffix + digits, suffix, strlen(suffix) + 1);
				memcpy(suffix, number, digits);
			}
		}
		if (*problem)
			return -EINVAL;
		if (!attempt)
			makeFolders(out);
		int file = open(out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (file >= 0 || errno != EEXIST)
			return file >= 0 ? file : -errno;
		struct stat there; // next to a device such as /dev/null, no other names are tried
		if (!attempt && stat(out, &there) == 0 && !S_ISREG(there.st_mode))
			return -EEXIST;
	}
	return -EEXIST;
}

uint64_t jobOf(Lookup lookup)
{
	for (const char *name : kJobVariables)
		if (const std::string_view value = lookUp(lookup, name); !value.empty())
			return base::hashBytes(value.data(), value.size(), base::hashBytes(name, strlen(name)));
	// The number of a process group can be used again. While its leader lives, the leader's start time distinguishes
	// the groups.
	char line[1024] = {};
	const pid_t group = getpgrp();
	snprintf(line, sizeof line, "/proc/%d/stat", group);
	const int file = open(line, O_RDONLY | O_CLOEXEC);
	const ssize_t bytes = file >= 0 ? read(file, line, sizeof line - 1) : 0;
	if (file >= 0)
		close(file);
	std::string_view rest(line, bytes > 0 ? static_cast<size_t>(bytes) : 0);
	rest.remove_prefix(std::min(rest.size(), rest.rfind(')') + 1)); // the program's name may contain any character
	for (int field = 2; field < 22; ++field)
		rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
	rest = rest.substr(0, rest.find(' '));
	return base::hashBytes(rest.data(), rest.size(), base::hashBytes(&group, sizeof group));
}

size_t prune(const char *folder, size_t files, uint64_t bytes, int64_t now)
{
	constexpr int64_t kDay = 24 * 3600;
	DIR *listing = opendir(folder);
	if (!listing)
		return 0;
	base::Array<OldTrace> traces;
	const int directory = dirfd(listing);
	const dirent *entry = isTimeToPrune(directory, now) ? readdir(listing) : nullptr;
	for (; entry; entry = readdir(listing)) {
		std::string_view day;
		OldTrace trace = {};
		if (!isDefaultName(entry->d_name, day))
			continue;
		memcpy(trace.name, entry->d_name, std::min(sizeof trace.name - 1, strlen(entry->d_name)));
		if (readOld(directory, trace, day) && !traces.push(trace))
			break;
	}
	// Job by job; a job is as old as its newest trace.
	std::sort(traces.begin(), traces.end(), [](const OldTrace &x, const OldTrace &y) {
		return x.job != y.job ? x.job < y.job : x.written > y.written;
	});
	struct Job {
		int64_t written;
		size_t first, count;
		uint64_t bytes;
		bool isOpen;
	};
	base::Array<Job> jobs;
	for (size_t at = 0; at < traces.size(); ++at) {
		const OldTrace &trace = traces[at];
		const bool isNew = at == 0 || traces[at - 1].job != trace.job;
		if (isNew && !jobs.push({trace.written, at, 0, 0, false}))
			break;
		Job &job = jobs[jobs.size() - 1];
		++job.count;
		job.bytes += trace.size;
		job.isOpen |= trace.isOpen;
	}
	std::sort(jobs.begin(), jobs.end(), [](const Job &x, const Job &y) { return x.written > y.written; });
	size_t kept = 0, removed = 0;
	uint64_t keptBytes = 0;
	bool isFull = false; // newer jobs have reached a limit
	for (const Job &job : jobs) {
		isFull = isFull || kept + job.count > files || keptBytes + job.bytes > bytes;
		kept += job.count;
		keptBytes += job.bytes;
		if (!isFull || job.isOpen || now - job.written <= kDay)
			continue;
		for (size_t at = job.first; at < job.first + job.count; ++at, ++removed)
			removeTrace(directory, traces[at].name);
	}
	jobs.clear();
	traces.clear();
	closedir(listing);
	return removed;
}

} // namespace autoamp::trace
