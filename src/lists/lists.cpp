#include "src/lists/lists.h"

#include "src/lists/split.h"

#include <algorithm>
#include <cctype>

namespace autoamp::policy {

namespace {

constexpr const char *categoryNames[] = {"unlisted", "lower_precision", "fp32", "promote", "banned"};

bool hasWord(std::string_view words, std::string_view word)
{
	return anyPart(words, ' ', [&](std::string_view each) { return each == word; });
}

// Calls `visit(name)` for each name of a row until one returns true. Includes both spellings of a name.
template <class Visit>
bool anyName(const CallRow &row, Lists lists, Visit visit)
{
	return anyPart(row.names[static_cast<unsigned>(lists)], ' ',
	               [&](std::string_view group) { return anyPart(group, '=', visit); });
}

void sortOnce(std::vector<std::string_view> &names)
{
	std::sort(names.begin(), names.end());
	names.erase(std::unique(names.begin(), names.end()), names.end());
}

} // namespace

const char *name(Category category)
{
	return categoryNames[static_cast<unsigned>(category)];
}

const char *name(op::Kind kind)
{
	return callRows()[static_cast<unsigned>(kind)].op;
}

const ListSystem &listSystem(Lists lists, bool isCpu)
{
	static constexpr const ListSystem *systems[listsCount] = {&torchLists, &paddleLists, &mindsporeLists};
	return isCpu && lists == Lists::torch ? torchCpuLists : *systems[static_cast<unsigned>(lists)];
}

Category ListChoice::category(std::string_view op) const
{
	const uint8_t wanted = bit(level == Level::O0 ? Level::O1 : level);
	for (const OpList &list : listSystem(lists, isCpu).lists)
		if ((list.levels & wanted) && (!list.isFloat16Only || dtype == op::Dtype::float16) && hasWord(list.names, op))
			return list.category;
	return Category::unlisted;
}

Category ListChoice::category(const CallRow &row) const
{
	std::string_view names = row.names[static_cast<unsigned>(lists)];
	Category found = Category::unlisted;
	anyPart(names.substr(0, names.find(' ')), '=', [&](std::string_view op) {
		found = category(op);
		return found != Category::unlisted;
	});
	return found;
}

bool ListChoice::lowers(Category category) const
{
	const ListSystem &system = listSystem(lists, isCpu);
	const uint8_t lowering = system.lowersUnlisted & ~(usePromote ? system.promotes : 0);
	return category == Category::lower_precision || (category == Category::unlisted && (lowering & bit(level)));
}

uint64_t rowsOf(Lists lists, std::string_view op)
{
	uint64_t bits = 0;
	for (size_t row = 0; row < callRowCount; ++row)
		if (anyName(callRows()[row], lists, [&](std::string_view name) { return name == op; }))
			bits |= uint64_t{1} << row;
	return bits;
}

bool hasLowForm(uint64_t rows)
{
	bool any = false;
	for (size_t row = 0; row < callRowCount; ++row)
		any |= (rows >> row & 1) && callRows()[row].hasLowForm;
	return any;
}

std::string_view withoutModule(Lists lists, std::string_view op)
{
	if (lists != Lists::mindspore)
		return op;
	for (const std::string_view module : {"mindspore.", "mint.", "nn.", "ops.", "functional."})
		if (op.starts_with(module))
			op.remove_prefix(module.size());
	return op;
}

std::vector<std::string_view> opsOf(Lists lists)
{
	std::vector<std::string_view> ops;
	const auto take = [&ops](std::string_view name) {
		ops.push_back(name);
		return false;
	};
	for (const bool isCpu : {false, true})
		for (const OpList &list : listSystem(lists, isCpu).lists)
			anyPart(list.names, ' ', take);
	for (const CallRow &row : callRows())
		anyName(row, lists, take);
	sortOnce(ops);
	return ops;
}

std::string routineOf(std::string_view entry)
{
	for (const std::string_view prefix : {"scipy_", "cblas_"})
		if (entry.starts_with(prefix))
			entry.remove_prefix(prefix.size());
	for (const std::string_view suffix : {"_", "64", "_"})
		if (entry.ends_with(suffix))
			entry.remove_suffix(suffix.size());
	std::string routine(entry);
	std::transform(routine.begin(), routine.end(), routine.begin(), [](unsigned char c) { return std::tolower(c); });
	return routine;
}

std::vector<const CallRow *> rowsAt(std::string_view entry)
{
	const std::string_view name = entry.ends_with("_64") ? entry.substr(0, entry.size() - 3) : entry;
	const std::string routine = routineOf(entry);
	std::vector<const CallRow *> found;
	for (const CallRow &row : callRows())
		if (hasWord(row.entries, name) || hasWord(row.entries, routine))
			found.push_back(&row);
	if (found.empty())
		found.push_back(&callRows()[0]);
	return found;
}

} // namespace autoamp::policy
