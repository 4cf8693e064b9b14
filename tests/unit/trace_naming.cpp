#include "src/base/name_pattern.h"
#include "src/trace/file_lock.h"
#include "src/trace/naming.h"
#include "tests/unit/trace_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace trace_test;

namespace {

trace::NameParts parts()
{
	trace::NameParts parts;
	parts.program = "train.py";
	parts.host = "node7";
	parts.pid = 42;
	parts.time = 1767225600;
	parts.lookup = [](const char *name) { return strcmp(name, "JOB") == 0 ? "j1" : nullptr; };
	return parts;
}

std::string expand(const char *pattern, size_t size = 200)
{
	std::string out(size, 'x');
	const char *problem = trace::expandName(pattern, parts(), 3, out.data(), size);
	return problem ? std::string("! ") + problem : out.c_str();
}

template <size_t N>
std::string program(const char (&arguments)[N])
{
	char out[64];
	trace::programName(arguments, N - 1, out, sizeof out);
	return out;
}

} // namespace

TEST_CASE("patterns become names")
{
	CHECK(expand("%e.%t.%p.aat") == "train.py.20260101T000000Z.42.aat");
	CHECK(expand("/x/%h/%q{JOB}-%q{NONE}-%n%%.aat") == "/x/node7/j1--3%.aat");
	CHECK(expand("%rank%") == "0");
	CHECK(expand("plain") == "plain");
	CHECK(expand("%x")[0] == '!');
	CHECK(expand("%")[0] == '!');
	CHECK(expand("%r")[0] == '!');
	CHECK(expand("%q{JOB")[0] == '!');
	CHECK(expand("%q{}")[0] == '!');
	CHECK(expand("%e.%e", 17)[0] == '!');
	CHECK(expand("%e.%e", 18) == "train.py.train.py");
}

TEST_CASE("what is wrong with a pattern is told before anything is written")
{
	using autoamp::base::directiveAt, autoamp::base::problemOfPattern;
	for (const char *pattern : {"", "plain", "%e%t%h%p%n%%", "%rank%%p", "a%q{JOB}b%q{B}", "%%q{", "%q{A}}"}) {
		CAPTURE(pattern);
		CHECK_FALSE(problemOfPattern(pattern));
	}
	for (const char *pattern : {"%", "a%", "%x", "%%%", "%r", "%rank", "%ran%", "%E", "%e %"}) {
		CAPTURE(pattern);
		REQUIRE(problemOfPattern(pattern));
		CHECK(problemOfPattern(pattern) == std::string(directiveAt("%x").problem));
	}
	const std::string tooLong = "%q{" + std::string(300, 'A') + "}";
	for (const char *pattern : {"%q", "%q{", "%q{}", "%q{JOB", "%qJOB}", "%p%q{JOB", tooLong.c_str()}) {
		CAPTURE(pattern);
		REQUIRE(problemOfPattern(pattern));
		CHECK(problemOfPattern(pattern) == std::string(directiveAt("%q").problem));
	}
	CHECK((directiveAt("%rank%x").letter == 'r' && directiveAt("%rank%x").length == 6));
	CHECK((directiveAt("%q{JOB}x").variable == "JOB" && directiveAt("%q{JOB}x").length == 7));
	CHECK((directiveAt("%px").letter == 'p' && directiveAt("%px").length == 2));
}

TEST_CASE("programs are named by what they run")
{
	CHECK(program("/usr/bin/app\0-x\0") == "app");
	CHECK(program("app") == "app");
	CHECK(program("python3.11\0-u\0-W\0ignore\0dir/train.py\0--x\0") == "train.py");
	CHECK(program("/usr/bin/python\0-m\0torch.run\0x.py\0") == "torch.run");
	CHECK(program("python3\0-c\0print()\0") == "python3");
	CHECK(program("python3\0") == "python3");
	CHECK(program("julia\0--project\0a/b.jl\0") == "b.jl");
	CHECK(program("python-server\0x\0") == "python-server");
	CHECK(program("") == "");
}

TEST_CASE("ranks of MPI and Slurm")
{
	CHECK(std::string(trace::jobRank(nullptr)) == "");
	CHECK(std::string(trace::jobRank([](const char *) -> const char * { return nullptr; })) == "");
	CHECK(std::string(trace::jobRank([](const char *name) -> const char * {
		      return strcmp(name, "OMPI_COMM_WORLD_RANK") == 0 ? "5" : nullptr;
	      })) == "5");
}

TEST_CASE("folders are made, files never overwritten")
{
	Folder folder;
	auto create = [&](const std::string &pattern) {
		char out[300];
		const char *problem;
		const int file = trace::createFile((folder.path + pattern).c_str(), parts(), out, sizeof out, &problem);
		REQUIRE(file >= 0);
		CHECK((fcntl(file, F_GETFD) & FD_CLOEXEC));
		close(file);
		return std::string(out).substr(folder.path.size());
	};
	CHECK(create("/a/b.c/%e.aat") == "/a/b.c/train.py.aat");
	CHECK(create("/a/b.c/%e.aat") == "/a/b.c/train.py.1.aat");
	CHECK(create("/a/b.c/%e.aat") == "/a/b.c/train.py.2.aat");
	CHECK(create("/a/b.c/x") == "/a/b.c/x");
	CHECK(create("/a/b.c/x") == "/a/b.c/x.1");
	CHECK(create("/a/b.c/.x") == "/a/b.c/.x");
	CHECK(create("/a/b.c/.x") == "/a/b.c/.x.1");
	CHECK(create("/a/%n.aat") == "/a/1.aat");
	CHECK(create("/a/%n.aat") == "/a/2.aat");
}

TEST_CASE("old traces make room, and only they")
{
	Folder folder;
	auto make = [&](const std::string &name, int age, const std::string &content) {
		spit(folder / name, content);
		timespec times[2] = {};
		times[0].tv_sec = times[1].tv_sec = 1700000000 - age;
		utimensat(AT_FDCWD, (folder / name).c_str(), times, 0);
	};
	const std::string ours = std::string(trace::kMagic, 8) + std::string(992, ' ');
	make("new.aat", 0, ours);
	make("mid.aat", 10, ours);
	make("old.aat", 20, ours);
	make("open.aat", 30, ours);
	make("foreign.aat", 40, std::string(1000, ' '));
	make("notes.txt", 50, ours);
	const int writer = open((folder / "open.aat").c_str(), O_RDWR);
	trace::lockForWriting(writer);

	auto left = [&](size_t files, uint64_t bytes) {
		trace::prune(folder.path.c_str(), files, bytes);
		return folder.files();
	};
	using Names = std::vector<std::string>;
	CHECK(left(10, 10000).size() == 6);
	CHECK(left(10, 2500) == Names{"foreign.aat", "mid.aat", "new.aat", "notes.txt", "open.aat"});
	CHECK(left(1, 10000) == Names{"foreign.aat", "new.aat", "notes.txt", "open.aat"});
	close(writer);
	CHECK(left(1, 10000) == Names{"foreign.aat", "new.aat", "notes.txt"});
	trace::prune((folder / "absent").c_str(), 1, 1);
}

TEST_CASE("a trace without a file name goes to the folder of traces")
{
	Folder folder;
	trace::Recorder &recorder = newRecorder();
	trace::Options options;
	const std::string dir = folder / "50% off";
	options.dir = dir.c_str();
	REQUIRE(recorder.open(options));
	const std::string path = recorder.path();
	CHECK(path.substr(0, dir.size() + 6) == dir + "/unit_");
	CHECK(path.substr(path.size() - 4) == ".aat");
	recorder.close(0);
	CHECK(read(path).rows.empty());
}
