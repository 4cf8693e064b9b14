#include "src/trace/naming.h"

#include "src/base/name_pattern.h"
#include "src/base/pages.h"
#include "src/trace/file_lock.h"

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

namespace autoamp::trace {
namespace {

constexpr const char *kTooLong = "the file name is too long";

// Appends to a buffer that stays terminated; remembers that something did not fit.
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
	bool fits() const { return fits_; }

private:
	char *out_;
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
	// A version may follow: python3.11.
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

// Every folder on the way to the file; what cannot be made shows when the file is opened.
void makeFolders(char *path)
{
	for (char *slash = path + (*path == '/'); (slash = strchr(slash, '/')); ++slash) {
		*slash = 0;
		mkdir(path, 0777);
		*slash = '/';
	}
}

bool isTraceName(std::string_view name)
{
	return name.size() > 4 && name.substr(name.size() - 4) == ".aat";
}

void removeTrace(int folder, const char *name)
{
	int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (file < 0)
		return;
	char magic[sizeof kMagic];
	if (pread(file, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, kMagic, sizeof magic) == 0 &&
	    !isBeingWritten(file))
		unlinkat(folder, name, 0);
	close(file);
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
			writer.put(std::string_view(parts.program));
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
			writer.put(std::string_view(parts.host));
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
			writer.put(lookUp(parts.lookup, std::string(found.variable).c_str()));
			break;
		default:
			writer.put(std::string_view(*parts.rank ? parts.rank : "0"));
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
				break; // the program is the command line itself
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
	for (const char *name : {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID"})
		if (std::string_view value = lookUp(lookup, name); !value.empty())
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
		int file = open(out, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (file >= 0 || errno != EEXIST)
			return file >= 0 ? file : -errno;
		struct stat there; // beside a device, /dev/null for one, no files are wanted
		if (!attempt && stat(out, &there) == 0 && !S_ISREG(there.st_mode))
			return -EEXIST;
	}
	return -EEXIST;
}

void prune(const char *folder, size_t files, uint64_t bytes)
{
	struct Old {
		int64_t seconds, nanoseconds;
		uint64_t size;
		char name[256];
	};
	DIR *listing = opendir(folder);
	if (!listing)
		return;
	base::Array<Old> traces;
	while (dirent *entry = readdir(listing)) {
		struct stat status;
		if (!isTraceName(entry->d_name) || fstatat(dirfd(listing), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(status.st_mode))
			continue;
		Old old = {status.st_mtim.tv_sec, status.st_mtim.tv_nsec, static_cast<uint64_t>(status.st_size), {}};
		memcpy(old.name, entry->d_name, std::min(sizeof old.name - 1, strlen(entry->d_name)));
		if (!traces.push(old))
			break;
	}
	std::sort(traces.begin(), traces.end(), [](const Old &x, const Old &y) {
		return x.seconds != y.seconds ? x.seconds > y.seconds : x.nanoseconds > y.nanoseconds;
	});
	uint64_t kept = 0, keptBytes = 0;
	for (const Old &old : traces)
		if (++kept > files || (keptBytes += old.size) > bytes)
			removeTrace(dirfd(listing), old.name);
	traces.clear();
	closedir(listing);
}

} // namespace autoamp::trace
