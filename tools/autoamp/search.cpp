#include "tools/autoamp/search.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace autoamp::tool {

std::vector<std::vector<size_t>> responsibleSets(size_t count, const Fails &fails)
{
	std::vector<std::vector<size_t>> sets;
	std::vector<size_t> rest(count); // items outside of the sets
	std::iota(rest.begin(), rest.end(), size_t{0});
	const auto failsWith = [&](const std::vector<size_t> &set, size_t others, size_t left) {
		std::vector<bool> lowered(count);
		for (const size_t item : set)
			lowered[item] = true;
		for (size_t i = 0; i < others; i++)
			lowered[rest[i]] = true;
		return fails(lowered, left);
	};
	do {
		// The check fails with `set` and the first `end` items of `rest`. It passes with `set` and the first `low`.
		std::vector<size_t> set;
		size_t end = rest.size();
		do {
			for (size_t low = 0; end - low > 1;) {
				const size_t middle = low + (end - low) / 2;
				const size_t left = static_cast<size_t>(std::bit_width(end - low - 1)) + 2;
				(failsWith(set, middle, left) ? end : low) = middle;
			}
			set.push_back(rest[--end]);
		} while (end > 0 && !failsWith(set, 0, 2));
		std::erase_if(rest, [&](size_t item) { return std::count(set.begin(), set.end(), item) > 0; });
		std::sort(set.begin(), set.end());
		sets.push_back(std::move(set));
	} while (!rest.empty() && failsWith({}, rest.size(), 1));
	return sets;
}

} // namespace autoamp::tool
