// The custom lists of ops and entry points. Any thread.
#pragma once

#include "src/lists/lists.h"
#include "src/op/op.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autoamp::policy {

// A custom list, resolved to the calls that it names.
struct NameSet {
	std::vector<std::string> names;
	std::vector<std::string> idle; // names of ops that reach no library call with a 16-bit form
	uint64_t ops = 0;              // bit: row of callRows()
	std::vector<uint64_t> entries; // bit: row of the entry tables

	bool has(const op::Op &op) const
	{
		size_t word = op.entry / 64u;
		return (ops >> static_cast<unsigned>(op.kind) & 1u) ||
		       (word < entries.size() && (entries[word] >> op.entry % 64u & 1u));
	}
};

std::string_view trimmed(std::string_view text); // without spaces at its ends

// Adds the names of a comma-separated list (docs/configuration.md) to the set. Returns the error, or an empty text.
std::string parseNames(NameSet &set, std::string_view text, Lists lists, std::span<const char *const> entries);

// Adds `more` to `set` and removes it from `other`.
void unite(NameSet &set, const NameSet &more, NameSet &other, std::span<const char *const> entries);

} // namespace autoamp::policy
