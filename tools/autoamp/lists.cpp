#include "tools/autoamp/lists.h"

#include "inject/entry_table.h"
#include "src/lists/lists.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace autoamp::tool {

namespace {

using Json = nlohmann::ordered_json;

// An entry point and one of the ops that it can compute.
struct Arrival {
	std::string_view entry;
	const policy::CallRow *row;
	bool hasLowForm; // has a lower-precision form for a call on fp32 data
};

std::vector<Arrival> arrivals(bool isCpu)
{
	std::vector<Arrival> all;
	for (const auto &entry : entry::entryTable) {
		if ((entry.library == op::Library::blas) != isCpu)
			continue;
		const bool mayBeProduct = entry.obstacle == op::Obstacle::none || entry.obstacle == op::Obstacle::grouped;
		const bool takesSingle = entry.dtype == op::Dtype::none || entry.dtype == op::Dtype::float32;
		for (const auto *row : policy::rowsAt(entry.name)) {
			const auto kind = static_cast<op::Kind>(row - policy::callRows().data());
			// cuDNN computes a transposed convolution as the gradient of another convolution.
			const bool isProduct = op::isProduct(kind) || std::string_view(row->op).starts_with("conv_transpose");
			all.push_back({entry.name, row, mayBeProduct && takesSingle && isProduct});
		}
	}
	return all;
}

struct Line {
	std::string_view op;
	policy::Category category;
	bool hasCall = false, hasLowForm = false;
	std::vector<std::string_view> entries = {};
};

std::vector<Line> opLines(const policy::ListChoice &choice, const std::vector<Arrival> &all)
{
	std::vector<Line> lines;
	for (const auto op : policy::opsOf(choice.lists)) {
		Line line = {op, choice.category(op)};
		const auto rows = policy::rowsOf(choice.lists, op);
		for (const auto &[entry, row, hasLowForm] : all) {
			if (!(rows >> (row - policy::callRows().data()) & 1u))
				continue;
			line.hasCall = true, line.hasLowForm |= hasLowForm;
			if (line.entries.empty() || line.entries.back() != entry)
				line.entries.push_back(entry);
		}
		lines.push_back(line);
	}
	return lines;
}

// The entry point of a CPU BLAS with the number of its names: cblas_sgemm (13 spellings).
std::string withSpellings(std::string_view entry, const std::vector<Arrival> &all)
{
	const auto routine = policy::routineOf(entry);
	const auto count = std::count_if(all.begin(), all.end(),
	                                 [&](const Arrival &other) { return policy::routineOf(other.entry) == routine; });
	return fmt::format("{} ({} spellings)", entry, count);
}

} // namespace

void lists(const ListsOptions &options, std::span<const char *const> entries)
{
	Environment environment;
	if (options.lists)
		environment.set("AUTOAMP_LISTS", *options.lists, "--lists");
	if (options.level)
		environment.set("AUTOAMP_LEVEL", *options.level, "--level");
	const auto parsed = environment.parse(entries);
	if (!parsed.error.empty())
		fail(Status::wrong, "{}", parsed.error);
	const auto &set = parsed.options;
	const bool isCpu = options.device == "cpu";
	const policy::ListChoice choice = {set.lists, set.level, isCpu ? set.dtypeOnCpu : set.dtype, set.usePromote, isCpu};
	const auto all = arrivals(isCpu);
	const auto lines = opLines(choice, all);
	const auto lowers = [&](policy::Category category) {
		return set.level != policy::Level::O0 && choice.lowers(category);
	};
	const std::string system = set.valueOf(policy::Option::lists), level = set.valueOf(policy::Option::level);
	const char *const source = policy::listSystem(set.lists, isCpu).source;

	if (options.format == "json") {
		Json ops = Json::array(), calls = Json::array();
		for (const auto &line : lines)
			ops.push_back({{"op", line.op},
			               {"category", policy::name(line.category)},
			               {"lowered", lowers(line.category)},
			               {"call", line.hasCall},
			               {"available", line.hasCall},
			               {"low_form", line.hasLowForm},
			               {"entries", line.entries}});
		for (const auto &[entry, row, hasLowForm] : all) {
			const auto category = choice.category(*row);
			calls.push_back({{"entry", entry},
			                 {"op", row->op},
			                 {"category", policy::name(category)},
			                 {"lowered", lowers(category) && hasLowForm},
			                 {"available", true},
			                 {"low_form", hasLowForm}});
		}
		const Json document = {
		    {"lists", system},  {"level", level}, {"device", options.device}, {"dtype", op::name(choice.dtype)},
		    {"source", source}, {"ops", ops},     {"entries", calls}};
		fmt::print("{}\n", document.dump(1));
		return;
	}

	Table ops("llll"), calls("llll");
	ops.add({"op", "category", "fp32 data", "library call"}, Style::bold);
	for (const auto &line : lines)
		ops.add({std::string(line.op), policy::name(line.category), lowers(line.category) ? "lowered" : "kept",
		         !line.hasCall     ? "none"
		         : line.hasLowForm ? "yes"
		                           : "no 16-bit form"});
	calls.add({"entry point", "op", "category", "caught"}, Style::bold);
	std::set<std::string> routines; // a CPU BLAS has many names for each
	for (const auto &[entry, row, hasLowForm] : all) {
		if (isCpu && !routines.insert(policy::routineOf(entry)).second)
			continue;
		calls.add({isCpu ? withSpellings(entry, all) : std::string(entry), row->op, policy::name(choice.category(*row)),
		           hasLowForm ? "yes" : "kept: no 16-bit form"});
	}
	const Terminal terminal(STDOUT_FILENO, Colour::automatic);
	fmt::print("{} {} {} ({})\n\n{}\n{}", system, level, op::name(choice.dtype), source,
	           ops.print(terminal, terminal.width), calls.print(terminal, terminal.width));
}

} // namespace autoamp::tool
