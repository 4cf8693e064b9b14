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

TEST_CASE("a value does not leave the folder that its pattern names")
{
	static const char *value;
	auto expand = [](const char *text, const char *pattern) {
		value = text;
		trace::NameParts all = parts();
		all.lookup = [](const char *) { return value; };
		all.rank = all.program = all.host = text;
		char out[100];
		REQUIRE_FALSE(trace::expandName(pattern, all, 3, out, sizeof out));
		return std::string(out);
	};
	for (const std::string word : {"%q{VAR}", "%rank%", "%e", "%h"}) {
		CAPTURE(word);
		CHECK(expand("../../x", ("d/" + word + ".aat").c_str()) == "d/_._.._x.aat");
		CHECK(expand("/etc/x", (word + ".aat").c_str()) == "_etc_x.aat");
		CHECK(expand("..", ("d/" + word + "/x.aat").c_str()) == "d/_./x.aat");
		CHECK(expand(".", ("d/" + word + word + "/" + "." + word + "/x").c_str()) == "d/_./._/x");
		CHECK(expand(".hidden", ("d/" + word).c_str()) == "d/_hidden");
		CHECK(expand("a.b", (word + "/a" + word).c_str()) == "a.b/aa.b");
		CHECK(expand("a\nb\x1b\x7f", word.c_str()) == "a_b__");
		CHECK(expand("\u00e9 x", word.c_str()) == "\u00e9 x");
	}
	CHECK(expand("", "%q{VAR}/x") == "_/x");
	CHECK(expand("", "/d/%q{VAR}/x") == "/d//x");
}

TEST_CASE("an error of a pattern is reported before anything is written")
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
	const mode_t mask = umask(GENERATE(mode_t{0}, mode_t{022}));
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
	struct stat file = {}, made = {};
	CHECK(stat((folder / "a/b.c/train.py.aat").c_str(), &file) == 0);
	CHECK(stat((folder / "a/b.c").c_str(), &made) == 0);
	CHECK(((file.st_mode & 07777) == 0600 && (made.st_mode & 07777) == 0700));
	CHECK(create("/a/b.c/%e.aat") == "/a/b.c/train.py.1.aat");
	CHECK(create("/a/b.c/%e.aat") == "/a/b.c/train.py.2.aat");
	CHECK(create("/a/b.c/x") == "/a/b.c/x");
	CHECK(create("/a/b.c/x") == "/a/b.c/x.1");
	CHECK(create("/a/b.c/.x") == "/a/b.c/.x");
	CHECK(create("/a/b.c/.x") == "/a/b.c/.x.1");
	CHECK(create("/a/%n.aat") == "/a/1.aat");
	CHECK(create("/a/%n.aat") == "/a/2.aat");
	umask(mask);
}

TEST_CASE("only the oldest jobs' traces are removed")
{
	constexpr int64_t now = 1767225600, hour = 3600, day = 24 * hour;
	Folder folder;
	auto make = [&](const std::string &name, int64_t age, uint64_t job,
	                const std::string &magic = {trace::kMagic, sizeof trace::kMagic}) {
		std::string content(1000, ' ');
		content.replace(0, 8, magic.substr(0, 8));
		memcpy(content.data() + offsetof(trace::Header, job), &job, sizeof job);
		spit(folder / name, content);
		timespec times[2] = {};
		times[0].tv_sec = times[1].tv_sec = now - age;
		utimensat(AT_FDCWD, (folder / name).c_str(), times, 0);
	};
	auto prune = [&](size_t files, uint64_t bytes) {
		unlink((folder / ".pruned").c_str());
		const size_t before = folder.files().size(), removed = trace::prune(folder.path.c_str(), files, bytes, now);
		CHECK(folder.files().size() + removed == before);
		return removed;
	};
	auto name = [](int number) { return "a.b.20251231T235959Z." + std::to_string(number) + ".aat"; };
	auto isThere = [&](const std::string &which) { return std::filesystem::exists(folder / which); };

	// Never removed: other names, other content, younger than a day, a job with a trace that is younger or still open.
	const std::vector<std::string> others = {"baseline7.aat",
	                                         "a.aat",
	                                         "a.7.aat",
	                                         "a.20251231T235959Z.aat",
	                                         "a.20251231T235959Z.7.aat.bak",
	                                         "a.20251231T235959Z.7x.aat",
	                                         "a.20251231-2359590.7.aat",
	                                         ".20251231T235959Z.7.aat",
	                                         "20251231T235959Z.7.aat"};
	for (const auto &other : others)
		make(other, 300 * day, 1);
	make("c.20251231T235959Z.1.aat", 300 * day, 1, "foreign!");
	make("d.20251231T235959Z.1.aat", 23 * hour, 2);
	make("d.20251231T235959Z.2.aat", 200 * day, 2);
	make("e.20251231T235959Z.1.aat", 200 * day, 3);
	make("e.20251231T235959Z.2.aat", 200 * day, 3);
	const int writer = open((folder / "e.20251231T235959Z.2.aat").c_str(), O_RDWR);
	trace::lockForWriting(writer);
	CHECK(prune(0, 0) == 0);
	CHECK(folder.files().size() == others.size() - 1 + 5); // one is hidden
	close(writer);
	CHECK(prune(0, 0) == 2);
	CHECK(prune(0, 0) == 0);
	unlink((folder / "d.20251231T235959Z.1.aat").c_str());
	CHECK(prune(0, 0) == 1);

	// Whole jobs, the oldest first, each as old as its newest trace; the tails go with them.
	for (int number = 0; number < 30; ++number)
		make(name(number), (2 + number % 3) * day + number, 10 + number % 3);
	spit(folder / (".a.b.20251231T235959Z.5.aat.tail"), "x");
	spit(folder / (".a.b.20251231T235959Z.4.aat.tail"), "x");
	make("f.20251231T235959Z.1.1.aat", 100 * day, 11);
	CHECK(prune(31, 1u << 20) == 0);
	CHECK(prune(30, 1u << 20) == 10);
	CHECK((isThere(name(0)) && isThere(name(1)) && !isThere(name(2)) && isThere("f.20251231T235959Z.1.1.aat")));
	CHECK((isThere(".a.b.20251231T235959Z.4.aat.tail") && !isThere(".a.b.20251231T235959Z.5.aat.tail")));
	CHECK(prune(100, 20999) == 11);
	CHECK((isThere(name(0)) && !isThere(name(1)) && !isThere("f.20251231T235959Z.1.1.aat")));
	CHECK(prune(9, 1u << 20) == 10);

	// Older writers store no job: traces of one day stay together.
	make("g.20251230T000000Z.1.aat", 3 * day, 0);
	make("g.20251231T000000Z.1.aat", 3 * day - 1, 0);
	make("g.20251231T230000Z.2.aat", 2 * day, 0);
	CHECK(prune(2, 1u << 20) == 1);
	CHECK(prune(1, 1u << 20) == 2);

	// Once an hour.
	make(name(1), 3 * day, 1);
	CHECK(trace::prune(folder.path.c_str(), 0, 0, now) == 0);
	CHECK(trace::prune(folder.path.c_str(), 0, 0, now + hour - 1) == 0);
	CHECK(trace::prune(folder.path.c_str(), 0, 0, now + hour) == 1);
	CHECK(trace::prune((folder / "absent").c_str(), 1, 1, now) == 0);
}

TEST_CASE("processes of one job share a number")
{
	const uint64_t here = trace::jobOf(nullptr);
	int pipes[2];
	REQUIRE(pipe(pipes) == 0);
	for (bool isOther : {false, true}) {
		if (fork() == 0) {
			if (isOther)
				setpgid(0, 0);
			const uint64_t job = trace::jobOf(nullptr);
			_exit(write(pipes[1], &job, sizeof job) != sizeof job);
		}
		uint64_t job = 0;
		REQUIRE(::read(pipes[0], &job, sizeof job) == sizeof job);
		CHECK((job == here) == !isOther);
	}
	static const char *value;
	auto slurm = [](const char *its) {
		value = its;
		return trace::jobOf([](const char *name) { return strcmp(name, "SLURM_JOB_ID") == 0 ? value : nullptr; });
	};
	CHECK(slurm("1") == slurm("1"));
	CHECK(slurm("1") != slurm("2"));
	CHECK(slurm("1") != here);
	CHECK(slurm("") == here);
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
