#include "src/base/pages.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <vector>

using namespace autoamp::base;

TEST_CASE("an arena's pieces are zero, aligned and apart")
{
	Arena arena;
	std::vector<std::pair<char *, size_t>> pieces;
	for (size_t size : {1, 64, 65, 1000, 70000, 64, 60000, 10000}) {
		auto *piece = static_cast<char *>(arena.take(size));
		REQUIRE(piece);
		CHECK(reinterpret_cast<uintptr_t>(piece) % 64 == 0);
		CHECK(std::all_of(piece, piece + size, [](char byte) { return byte == 0; }));
		std::memset(piece, 1, size);
		for (const auto &[other, otherSize] : pieces)
			CHECK((piece + size <= other || other + otherSize <= piece));
		pieces.emplace_back(piece, size);
	}
	struct Thing {
		int value = 7;
	};
	CHECK(arena.make<Thing>(100)->value == 7);
}

TEST_CASE("an array keeps what it holds while it grows")
{
	Array<uint64_t> array;
	for (uint64_t i = 0; i < 5000; i++)
		REQUIRE(array.push(i * i));
	REQUIRE(array.size() == 5000);
	bool isSame = true;
	for (uint64_t i = 0; i < 5000; i++)
		isSame = isSame && array[i] == i * i;
	CHECK(isSame);
	REQUIRE(array.resize(20000));
	CHECK(array[4999] == uint64_t{4999} * 4999);
	CHECK(std::all_of(array.begin() + 5000, array.end(), [](uint64_t value) { return value == 0; }));
	array.clear();
	CHECK(array.size() == 0);
	CHECK(array.begin() == array.end());
}

TEST_CASE("an index finds each thing again, also those of one hash")
{
	struct Thing {
		uint64_t hash;
		int number;
	};
	std::vector<Thing> things;
	for (int i = 0; i < 2000; i++)
		things.push_back({static_cast<uint64_t>(i % 3 == 0 ? -1 : i * 1000), i}); // many at the end of any table
	Index<Thing> index;
	const auto find = [&](const Thing &wanted) {
		return index.find(wanted.hash, [&](const Thing &thing) { return thing.number == wanted.number; });
	};
	CHECK(find(things[0]) == nullptr);
	for (Thing &thing : things) {
		REQUIRE(find(thing) == nullptr);
		REQUIRE(index.add(thing.hash, &thing));
	}
	int found = 0;
	for (Thing &thing : things)
		found += find(thing) == &thing;
	CHECK(found == 2000);
	CHECK(find({~uint64_t{0}, -1}) == nullptr);
	// A different hash at the same place.
	CHECK(index.find(~(uint64_t{1} << 40), [](const Thing &) { return true; }) == nullptr);
}
