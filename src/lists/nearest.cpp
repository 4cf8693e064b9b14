#include "src/lists/nearest.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <tuple>
#include <vector>

namespace autoamp::policy {

namespace {

// The part of a name that distinguishes it: without the prefix of a variable or option, and without cuBLAS suffixes.
std::string stemOf(std::string_view name)
{
	for (const std::string_view prefix : {"AUTOAMP_", "--"})
		if (name.starts_with(prefix))
			name.remove_prefix(prefix.size());
	if (name.starts_with("cublas"))
		for (const std::string_view suffix : {"_64", "_v2"})
			if (name.ends_with(suffix))
				name.remove_suffix(suffix.size());
	std::string stem(name.substr(0, 100)); // a value may be a whole file
	std::transform(stem.begin(), stem.end(), stem.begin(), [](unsigned char c) { return std::tolower(c); });
	return stem;
}

size_t distanceOf(const std::string &name, const std::string &candidate)
{
	std::vector<size_t> distance(name.size() + 1); // from the first i characters to the candidate read so far
	std::iota(distance.begin(), distance.end(), size_t{0});
	for (const char c : candidate) {
		size_t diagonal = distance[0]++;
		for (size_t i = 1; i <= name.size(); ++i) {
			const size_t changed = diagonal + (name[i - 1] != c);
			diagonal = distance[i];
			distance[i] = std::min({changed, distance[i] + 1, distance[i - 1] + 1});
		}
	}
	return distance.back();
}

// True if `part` is a part of `whole`, perhaps with gaps: cudnnConvForward and cudnnConvolutionForward.
bool isPartOf(const std::string &part, const std::string &whole)
{
	size_t found = 0;
	for (const char c : whole)
		found += found < part.size() && part[found] == c;
	return part.size() > 3 && 2 * part.size() >= whole.size() && found == part.size();
}

} // namespace

std::string_view nearestName(std::string_view name, std::span<const std::string_view> candidates)
{
	const std::string stem = stemOf(name);
	// Equal distance: the longest common beginning wins, then the same integer width.
	const auto rankOf = [&](std::string_view candidate) {
		const std::string other = stemOf(candidate);
		const auto differs = std::mismatch(stem.begin(), stem.end(), other.begin(), other.end()).first;
		return std::tuple(!isPartOf(stem, other), distanceOf(stem, other), stem.end() - differs,
		                  candidate.ends_with("_64") != name.ends_with("_64"));
	};
	const auto best =
	    std::min_element(candidates.begin(), candidates.end(), [&](auto &x, auto &y) { return rankOf(x) < rankOf(y); });
	return best == candidates.end() ? std::string_view() : *best;
}

const char *nearestName(std::string_view name, std::span<const char *const> candidates)
{
	return nearestName(name, std::vector<std::string_view>(candidates.begin(), candidates.end())).data();
}

std::string nearestHint(std::string_view name, std::span<const std::string_view> candidates, std::string_view otherwise)
{
	const std::string_view nearest = nearestName(name, candidates);
	const std::string stem = stemOf(name), other = stemOf(nearest);
	const bool contains = other.size() > 3 && stem.find(other) != stem.npos;
	const size_t most = std::max<size_t>(stem.size() > 2 ? 2 : 1, (stem.size() + 2) / 3); // two swapped letters are 2
	const bool isNear = contains || isPartOf(stem, other) || distanceOf(stem, other) <= most;
	return isNear ? "; did you mean " + std::string(nearest) + "?" : std::string(otherwise);
}

std::string nearestHint(std::string_view name, std::span<const char *const> candidates, std::string_view otherwise)
{
	return nearestHint(name, std::vector<std::string_view>(candidates.begin(), candidates.end()), otherwise);
}

} // namespace autoamp::policy
