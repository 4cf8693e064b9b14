#include "src/state/thread.h"

#include <catch2/catch.hpp>

#include <memory>
#include <set>

using namespace autoamp::core;

TEST_CASE("the index of a key depends on sizes and entry, and is within the memo")
{
	auto thread = std::make_unique<Thread>();
	constexpr size_t places = sizeof thread->memos / sizeof *thread->memos;
	Key key;
	key.words[1] = key.words[2] = key.words[3] = 1024;
	std::set<const Thread::Memo *> met;
	for (uint64_t size = 1; size <= 64; size++)
		for (unsigned word : {1u, 2u, 3u}) {
			Key other = key;
			other.words[word] = 64 * size;
			other.words[Key::size - 2] = size % 3 << 32;
			const Thread::Memo *place = &memoOf(*thread, other);
			REQUIRE(place >= thread->memos);
			REQUIRE(place < thread->memos + places);
			met.insert(place);
		}
	// About 190 keys in 256 places: a hash that ignores one of these words gives a third fewer places.
	CHECK(met.size() > 110);
	// The three products of a square layer differ only in transpositions.
	met = {&memoOf(*thread, key)};
	for (unsigned word : {0u, 13u}) {
		key.words[word] = 1;
		met.insert(&memoOf(*thread, key));
		key.words[word] = 0;
	}
	CHECK(met.size() == 3);
	for (unsigned word : {0u, 1u, 2u, 3u, 13u, Key::size - 2}) {
		met.clear();
		for (uint64_t value = 1; value <= 32; value++) {
			Key other = key;
			other.words[word] = value;
			met.insert(&memoOf(*thread, other));
		}
		CAPTURE(word);
		CHECK(met.size() > 16);
	}
}

TEST_CASE("an empty memo answers no key whose last word is not 0")
{
	Key key;
	key.words[Key::size - 1] = 16;
	CHECK(!(Thread::Memo().key == key));
}
