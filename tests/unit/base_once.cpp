#include "src/base/once.h"

#include <catch2/catch.hpp>

#include <atomic>
#include <thread>
#include <vector>

using autoamp::base::Once;

TEST_CASE("a result is kept, also a null one")
{
	static constinit Once<int> found, absent;
	int first = 1, second = 2;
	CHECK(found.get([&] { return &first; }) == &first);
	CHECK(found.get([&] { return &second; }) == &first);
	CHECK(absent.get([] { return static_cast<int *>(nullptr); }) == nullptr);
	CHECK(absent.get([&] { return &second; }) == nullptr);
}

TEST_CASE("a failed attempt is repeated until it succeeds")
{
	static constinit Once<int> once;
	int tries = 0, first = 1, second = 2;
	for (int i = 0; i < 3; i++)
		CHECK(once.getOrRetry([&] {
			tries++;
			return static_cast<int *>(nullptr);
		}) == nullptr);
	CHECK(tries == 3);
	CHECK(once.getOrRetry([&] { return &first; }) == &first);
	CHECK(once.getOrRetry([&] { return &second; }) == &first);
}

TEST_CASE("threads that find out at the same time agree")
{
	// The finder itself stores another value, as a faster thread would: no lock deadlocks, and the stored value
	// remains.
	static constinit Once<int> nested, nestedRetry;
	int mine = 1, theirs = 2;
	CHECK(nested.get([&] {
		CHECK(nested.get([&] { return &theirs; }) == &theirs);
		return &mine;
	}) == &theirs);
	CHECK(nestedRetry.getOrRetry([&] {
		CHECK(nestedRetry.getOrRetry([&] { return &theirs; }) == &theirs);
		return &mine;
	}) == &theirs);

	constexpr int count = 4;
	static constinit Once<int> once;
	static int candidates[count];
	int *answers[count] = {};
	std::atomic<int> waiting{0};
	std::vector<std::thread> threads;
	for (int i = 0; i < count; i++)
		threads.emplace_back([&, i] {
			answers[i] = once.get([&] {
				waiting++;
				while (waiting < count) // all have entered before one returns
					std::this_thread::yield();
				return &candidates[i];
			});
		});
	for (std::thread &thread : threads)
		thread.join();
	for (const int *answer : answers)
		CHECK(answer == answers[0]);
}
