#include "src/base/log.h"

#include "src/base/caller_state.h"
#include "src/base/faults.h"
#include "src/base/hash.h"

#include <catch2/catch.hpp>

#include <cstdio>
#include <string>
#include <unistd.h>
#include <vector>

using namespace autoamp::base;

namespace {

// The text that `say` writes to stderr.
template <typename Say>
std::string heard(Say say)
{
	FILE *file = std::tmpfile();
	REQUIRE(file);
	const int saved = dup(2);
	dup2(fileno(file), 2);
	say();
	dup2(saved, 2);
	close(saved);
	std::string text(100000, 0);
	text.resize(static_cast<size_t>(pread(fileno(file), text.data(), text.size(), 0)));
	std::fclose(file);
	return text;
}

} // namespace

TEST_CASE("values of others reach no terminal as control characters")
{
	setLogLevel(LogLevel::info);
	const char *const text = "\x1b]0;x\a gr\xc3\xb6\xc3\x9f\x65 \xff\x80 \xe2\x80\xae \xc2\x9b \xe7\x9f\xa9 \xed\xa0";
	CHECK(heard([&] { log(LogLevel::info, "value %s.", text); }) ==
	      "autoamp: value ?]0;x? gr\xc3\xb6\xc3\x9f\x65 ?? ??? ?? \xe7\x9f\xa9 ??.\n");
}

TEST_CASE("messages below the level are not said")
{
	setLogLevel(LogLevel::info);
	CHECK(heard([] { log(LogLevel::info, "as %s as %d", "many", 3); }) == "autoamp: as many as 3\n");
	CHECK(heard([] { log(LogLevel::debug, "too much"); }) == "");
	setLogLevel(LogLevel::off);
	CHECK(heard([] { log(LogLevel::error, "nothing at all"); }) == "");
	setLogLevel(LogLevel::warn);
	CHECK((logs(LogLevel::error) && logs(LogLevel::warn) && !logs(LogLevel::info)));
}

TEST_CASE("a message that comes back falls silent, others do not")
{
	setLogLevel(LogLevel::warn);
	std::string expected;
	for (int i = 0; i < 7; i++)
		expected += "autoamp: time " + std::to_string(i) + "\n";
	expected += "autoamp: time 7 (not repeated again)\n";
	CHECK(heard([] {
		      for (int i = 0; i < 100; i++)
			      log(LogLevel::warn, "time %d", i);
	      }) == expected);
	CHECK(heard([] { log(LogLevel::warn, "another"); }) == "autoamp: another\n");
}

TEST_CASE("a long message is cut, and stays one line")
{
	const std::string text(5000, 'x');
	for (int i = 0; i < 8; i++) {
		const std::string line = heard([&] { log(LogLevel::warn, "long %s", text.c_str()); });
		CHECK(line.substr(0, 15) == "autoamp: long x");
		CHECK(line.size() < 1024);
		CHECK(line.find('\n') == line.size() - 1);
		CHECK((line.find("(not repeated again)") != line.npos) == (i == 7));
	}
}

TEST_CASE("errno is the application's")
{
	errno = 77;
	close(2000); // EBADF
	{
		errno = 78;
		const CallerState callerState;
		close(2000);
		CHECK(errno == EBADF);
	}
	CHECK(errno == 78);
	const int saved = dup(2);
	close(2); // so that write(2) fails
	errno = 79;
	log(LogLevel::error, "into nothing");
	const int after = errno;
	dup2(saved, 2);
	close(saved);
	CHECK(after == 79);
}

TEST_CASE("hashes that files contain do not change")
{
	CHECK(hashBytes("", 0) == 0xcbf29ce484222325);
	CHECK(hashBytes("a", 1) == 0xaf63dc4c8601ec8c);
	CHECK(hashBytes("foobar", 6) == 0x85944171f73967e8);
	CHECK(hashBytes("bar", 3, hashBytes("foo", 3)) == hashBytes("foobar", 6));
}

TEST_CASE("a fault is reported once")
{
	std::vector<std::string> told;
	const auto take = [&] {
		told.clear();
		takeFaults([&](const char *what) { told.push_back(what); });
		return told;
	};
	take(); // other tests' calls that failed
	CHECK(take().empty());
	leaveFault("one");
	leaveFault("two");
	CHECK(take() == std::vector<std::string>{"one", "two"});
	CHECK(take().empty());
	CHECK(!hasFaults); // and the fast check stays false
	for (int i = 0; i < 20; i++)
		leaveFault("many");
	CHECK(take().size() == 8);
	leaveFault("later");
	CHECK(take() == std::vector<std::string>{"later"});
}
