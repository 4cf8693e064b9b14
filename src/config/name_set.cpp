#include "src/config/name_set.h"

#include "src/config/toml.h"
#include "src/lists/glob.h"
#include "src/lists/nearest.h"
#include "src/lists/split.h"

#include <algorithm>

namespace autoamp::policy {

namespace {

// Adds one name of a custom list (docs/configuration.md) to the set. Returns the error, or an empty text.
std::string addName(NameSet &set, std::string_view name, Lists lists, std::span<const char *const> entries)
{
	const size_t colon = name.find(':');
	const bool bare = colon == name.npos;
	std::string systems; // names of all list systems; empty if the prefix is one of them
	for (unsigned i = 0; i < listsCount && !bare; ++i) {
		const char *prefix = listSystem(static_cast<Lists>(i)).prefix;
		systems += (systems.empty() ? "" : ", ") + std::string(prefix);
		if (name.substr(0, colon) == prefix) {
			lists = static_cast<Lists>(i);
			systems.clear();
			break;
		}
	}
	if (!systems.empty())
		return "unknown list system in '" + shown(name) + "'; accepted: " + systems;

	const std::string op(withoutModule(lists, bare ? name : name.substr(colon + 1)));
	auto candidates = opsOf(lists);
	if (std::binary_search(candidates.begin(), candidates.end(), op)) {
		const uint64_t rows = rowsOf(lists, op);
		set.ops |= rows;
		set.names.push_back(listSystem(lists).prefix + (":" + op));
		if (!hasLowForm(rows))
			set.idle.push_back(set.names.back());
		return {};
	}
	if (bare) {
		const size_t count = candidates.size();
		candidates.insert(candidates.end(), entries.begin(), entries.end());
		bool known = false;
		set.entries.resize((candidates.size() - count + 63) / 64);
		for (size_t row = 0; row < candidates.size() - count; ++row)
			if (matchesEntry(op, candidates[count + row])) {
				known = true;
				set.entries[row / 64] |= uint64_t{1} << row % 64;
			}
		if (known) {
			set.names.push_back(op);
			return {};
		}
	}
	return "no op or entry point '" + shown(name) + "'" + nearestHint(op, candidates, "; autoamp lists shows them");
}

// Names for the rest of `set` without `taken`. If `taken` has some calls of an op, the op is replaced by names for its
// other calls.
std::vector<std::string> namesWithout(const NameSet &set, const NameSet &taken, std::span<const char *const> entries)
{
	std::vector<std::string> left;
	const auto keep = [&left](const std::string &name) {
		if (std::find(left.begin(), left.end(), name) == left.end())
			left.push_back(name);
	};
	const auto bitsOf = [](const NameSet &names, size_t word) {
		return word < names.entries.size() ? names.entries[word] : 0;
	};
	for (const std::string &name : set.names) {
		NameSet one;
		addName(one, name, Lists::torch, entries);
		bool isTouched = one.ops & taken.ops;
		for (size_t word = 0; word < one.entries.size(); ++word)
			isTouched |= (bitsOf(one, word) & bitsOf(taken, word)) != 0;
		if (!isTouched)
			keep(name);
		for (size_t row = 0; row < callRowCount && isTouched; ++row)
			if ((one.ops & ~taken.ops) >> row & 1)
				keep(torchLists.prefix + (":" + std::string(callRows()[row].op)));
		for (size_t row = 0; row < entries.size() && isTouched; ++row)
			if ((bitsOf(one, row / 64) & ~bitsOf(taken, row / 64)) >> row % 64 & 1)
				keep(entries[row]);
	}
	return left;
}

} // namespace

std::string_view trimmed(std::string_view text)
{
	while (!text.empty() && text.front() == ' ')
		text.remove_prefix(1);
	while (!text.empty() && text.back() == ' ')
		text.remove_suffix(1);
	return text;
}

std::string parseNames(NameSet &set, std::string_view text, Lists lists, std::span<const char *const> entries)
{
	std::string problem;
	anyPart(text, ',', [&](std::string_view name) {
		name = trimmed(name);
		if (!name.empty())
			problem = addName(set, name, lists, entries);
		return !problem.empty();
	});
	return problem;
}

void unite(NameSet &set, const NameSet &more, NameSet &other, std::span<const char *const> entries)
{
	other.names = namesWithout(other, more, entries);
	set.ops |= more.ops;
	other.ops &= ~more.ops;
	set.entries.resize(std::max(set.entries.size(), more.entries.size()));
	for (size_t word = 0; word < more.entries.size(); ++word) {
		set.entries[word] |= more.entries[word];
		if (word < other.entries.size())
			other.entries[word] &= ~more.entries[word];
	}
	for (const std::string &name : more.names) {
		std::erase(set.names, name);
		set.names.push_back(name);
	}
	for (const std::string &name : more.idle) {
		std::erase(other.idle, name);
		std::erase(set.idle, name);
		set.idle.push_back(name);
	}
}

} // namespace autoamp::policy
