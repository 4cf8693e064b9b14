#include "tools/autoamp/search.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <set>

using autoamp::tool::responsibleSets;
using Items = std::vector<bool>;
using Sets = std::vector<std::vector<size_t>>;

namespace {

bool has(const Items &items, const std::vector<size_t> &set)
{
	return std::all_of(set.begin(), set.end(), [&](size_t item) { return items[item]; });
}

// Asks for the sets, and checks the questions and the promises that hold for every predicate.
template <class Predicate>
Sets search(size_t count, Predicate fails, size_t &questions)
{
	std::vector<size_t> lefts;
	const auto sets = responsibleSets(count, [&](const Items &lowered, size_t left) {
		const auto number = std::count(lowered.begin(), lowered.end(), true);
		CHECK((number > 0 && static_cast<size_t>(number) < count));
		lefts.push_back(left);
		return fails(lowered);
	});
	questions = lefts.size();
	Items rest(count, true);
	for (const auto &set : sets) {
		Items lowered(count);
		for (const size_t item : set) {
			CHECK(rest[item]); // in no other set
			rest[item] = false, lowered[item] = true;
		}
		CHECK(fails(lowered));
	}
	CHECK_FALSE(fails(rest));
	if (sets.size() == 1 && sets[0].size() == 1) // as announced
		for (size_t i = 0; i < lefts.size(); i++)
			CHECK(lefts.size() - i <= lefts[i]);
	return sets;
}

} // namespace

TEST_CASE("one responsible item among n takes at most 2 log2(n) + 3 runs")
{
	for (size_t count = 1; count <= 64; count++)
		for (size_t guilty = 0; guilty < count; guilty++) {
			size_t questions = 0;
			CHECK(search(
			          count, [&](const Items &lowered) { return lowered[guilty]; }, questions) == Sets{{guilty}});
			const size_t runs = questions + 2; // with all items lowered, and with all items kept
			CHECK(runs <= static_cast<size_t>(std::bit_width(count - 1)) + 4);
			CHECK(double(runs) <= 2 * std::log2(double(count)) + 3);
		}
}

TEST_CASE("random items that are responsible alone or together are found, and no others")
{
	std::mt19937 random(1);
	const auto below = [&](size_t limit) { return random() % limit; };
	for (int round = 0; round < 1000; round++) {
		const size_t count = 1 + below(40);
		Sets guilty;
		for (size_t i = below(4) + 1; i > 0; i--) {
			std::set<size_t> set;
			for (size_t members = below(4) + 1; members > 0; members--)
				set.insert(below(count));
			guilty.emplace_back(set.begin(), set.end());
		}
		const auto fails = [&](const Items &lowered) {
			return std::any_of(guilty.begin(), guilty.end(), [&](auto &set) { return has(lowered, set); });
		};
		size_t questions = 0, most = 0, again = 0;
		const auto sets = search(count, fails, questions);
		for (const auto &set : sets) {
			CHECK(std::count(guilty.begin(), guilty.end(), set) > 0);
			for (const size_t item : set) { // no member is unnecessary
				Items lowered(count);
				for (const size_t other : set)
					lowered[other] = other != item;
				CHECK_FALSE(fails(lowered));
			}
			most += set.size() * (static_cast<size_t>(std::bit_width(count - 1)) + 1) + 1;
		}
		CHECK(questions <= most);
		CHECK(search(count, fails, again) == sets);
	}
}

TEST_CASE("a check whose answers follow no order ends with a set that passes")
{
	for (unsigned seed = 0; seed < 500; seed++) {
		const size_t count = 1 + seed % 17;
		const auto fails = [&](const Items &lowered) {
			const auto number = static_cast<size_t>(std::count(lowered.begin(), lowered.end(), true));
			if (number == 0 || number == count)
				return number > 0;
			return std::hash<Items>()(lowered) % (seed + 3) % 2 == 1;
		};
		size_t questions = 0;
		search(count, fails, questions);
		CHECK(questions <= count * (static_cast<size_t>(std::bit_width(count)) + 2));
	}
}
