#include "src/lower/self_test_store.h"

#include "src/base/hash.h"
#include "src/base/quiet_write.h"

#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::lower {

namespace {

constexpr size_t mostBytes = 4096;
constexpr const char *end = "end\n"; // last line: a file without it is incomplete

std::string readFile(const char *path, bool isOwn)
{
	std::string text;
	const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (file < 0)
		return text;
	struct stat facts;
	if (fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) &&
	    (!isOwn || (facts.st_uid == geteuid() && !(facts.st_mode & (S_IWGRP | S_IWOTH))))) {
		text.resize(mostBytes);
		const ssize_t size = ::read(file, text.data(), mostBytes);
		text.resize(size > 0 ? static_cast<size_t>(size) : 0);
	}
	close(file);
	return text;
}

// The linker's id of this build of the core, in hexadecimal; empty if the core has none.
std::string buildId()
{
	dl_find_object object;
	if (_dl_find_object(reinterpret_cast<void *>(&buildId), &object))
		return {};
	const auto *const base = static_cast<const char *>(object.dlfo_map_start);
	const auto *const header = reinterpret_cast<const ElfW(Ehdr) *>(base);
	const auto *segment = reinterpret_cast<const ElfW(Phdr) *>(base + header->e_phoff);
	for (int i = 0; i < header->e_phnum; i++, segment++)
		for (size_t at = 0; segment->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= segment->p_memsz;) {
			const auto *const note = reinterpret_cast<const ElfW(Nhdr) *>(base + segment->p_vaddr + at);
			const size_t name = (note->n_namesz + 3) / 4 * 4, size = (note->n_descsz + 3) / 4 * 4;
			const auto *const text = reinterpret_cast<const unsigned char *>(note + 1);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(text, "GNU", 4) == 0) {
				std::string id;
				for (size_t j = 0; j < note->n_descsz; j++) {
					char digits[3];
					std::snprintf(digits, sizeof digits, "%02x", text[name + j]);
					id += digits;
				}
				return id;
			}
			at += sizeof *note + name + size;
		}
	return {};
}

void makeFolders(std::string path)
{
	for (size_t slash = path.find('/', 1); slash != path.npos; slash = path.find('/', slash + 1)) {
		path[slash] = 0;
		mkdir(path.c_str(), 0700);
		path[slash] = '/';
	}
}

} // namespace

TestStore::TestStore(const char *directory, const cuda::Driver &driver, const cuda::DeviceFacts &facts,
                     const char *library, uint64_t version)
{
	const std::string build = buildId();
	if (!*directory || build.empty())
		return;
	// Has the version of the kernel driver. cuDriverGetVersion() returns only the CUDA version.
	const std::string kernelDriver = driver.isEmulated ? "" : readFile("/proc/driver/nvidia/version", false);
	char text[512];
	std::snprintf(text, sizeof text, "autoamp self-test 1\ncore %s %s\ndriver %d%s %016llx\ndevice %s sm_%d\n%s %llu\n",
	              AUTOAMP_VERSION, build.c_str(), driver.version, driver.isEmulated ? " emulated" : "",
	              static_cast<unsigned long long>(base::hashBytes(kernelDriver.data(), kernelDriver.size())),
	              facts.name, facts.capability, library, static_cast<unsigned long long>(version));
	key_ = text;
	char name[48];
	std::snprintf(name, sizeof name, "/self-test.%016llx",
	              static_cast<unsigned long long>(base::hashBytes(key_.data(), key_.size())));
	path_ = std::string(directory) + name;
}

std::string TestStore::read() const
{
	std::string texts;
	for (const std::string &path : {path_, failedPath()}) {
		const std::string text = path.empty() ? "" : readFile(path.c_str(), true);
		if (text.starts_with(key_) && text.ends_with(end))
			texts += text.substr(key_.size(), text.size() - key_.size() - std::strlen(end));
	}
	return texts;
}

void TestStore::write(const std::string &text, bool isFailed) const
{
	if (path_.empty())
		return;
	makeFolders(path_);
	const std::string path = isFailed ? failedPath() : path_, temporary = path + "." + std::to_string(getpid());
	const std::string whole = key_ + text + end;
	const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (file < 0)
		return;
	const base::WriteSignals signals;
	const bool isWritten = ::write(file, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size());
	close(file);
	if (!isWritten || rename(temporary.c_str(), path.c_str()))
		unlink(temporary.c_str());
}

} // namespace autoamp::lower
