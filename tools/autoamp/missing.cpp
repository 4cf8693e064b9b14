#include "tools/autoamp/missing.h"

#include "tools/autoamp/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

namespace autoamp::tool {

namespace {

constexpr size_t kListed = 8;

// The first numbers from `first` on that are not in the set, at most kListed. `expected` comes from files and can be
// billions.
std::vector<uint64_t> gaps(const std::set<uint64_t> &there, uint64_t first, uint64_t expected)
{
	std::vector<uint64_t> numbers;
	for (uint64_t number = first; number < first + expected && numbers.size() < kListed; number++)
		if (!there.contains(number))
			numbers.push_back(number);
	return numbers;
}

bool parse(const std::string &text, uint64_t &number)
{
	const auto *const end = text.data() + text.size();
	const auto result = std::from_chars(text.data(), end, number);
	return result.ec == std::errc() && result.ptr == end;
}

struct Found {
	uint64_t expected = 0;
	bool isLeast = true;
	std::set<uint64_t> numbers;
};

// Groups by `autoamp run`: processes that began a trace are numbered from 1.
std::map<std::string, Found> processesOf(const std::vector<trace::Trace> &runs)
{
	std::map<std::string, Found> found;
	for (const auto &run : runs) {
		if (run.number == 0)
			continue;
		auto &group = found[fmt::format("{:016x}", run.run.inner)];
		group.numbers.insert(run.number);
		group.expected = std::max<uint64_t>({group.expected, run.number, run.conclusion.processes});
		group.isLeast &= run.conclusion.processes == 0;
	}
	return found;
}

// Groups by job, from the variables of MPI or Slurm: ranks are numbered from 0.
std::map<std::string, Found> ranksOf(const std::vector<trace::Trace> &runs)
{
	std::map<std::string, Found> found;
	uint64_t rank = 0, ranks = 0;
	for (const auto &run : runs) {
		if (!parse(run.rank, rank) || !parse(run.ranks, ranks) || rank >= ranks)
			continue;
		auto &group = found[run.job.empty() ? fmt::format("{:016x}", run.jobNumber) : run.job];
		group.numbers.insert(rank);
		group.expected = std::max(group.expected, ranks);
		group.isLeast = false;
	}
	return found;
}

} // namespace

std::vector<Missing> missingTraces(const std::vector<trace::Trace> &runs)
{
	std::vector<Missing> list;
	const auto add = [&list](Missing::Of of, uint64_t first, const std::map<std::string, Found> &groups) {
		for (const auto &[name, group] : groups)
			if (group.numbers.size() < group.expected)
				list.push_back({of, name, group.expected, group.numbers.size(), group.isLeast,
				                gaps(group.numbers, first, group.expected)});
	};
	add(Missing::Of::processes, 1, processesOf(runs));
	add(Missing::Of::ranks, 0, ranksOf(runs));
	std::set<std::pair<std::string, uint32_t>> there;
	for (const auto &run : runs)
		there.emplace(run.host, run.pid);
	for (const auto &run : runs) // with a number, processesOf() already covers the parent
		if (run.isForked && run.number == 0 && there.emplace(run.host, run.parentPid).second)
			list.push_back({Missing::Of::parents, "", 1, 0, true, {run.parentPid}});
	return list;
}

std::string textOf(const Missing &missing)
{
	const auto absent = missing.expected - missing.there;
	auto numbers = fmt::format("{}", fmt::join(missing.numbers, ", "));
	if (absent > missing.numbers.size())
		numbers += fmt::format(" and {} more", count(absent - missing.numbers.size()));
	const auto part = fmt::format("traces: {} of {}{}", count(missing.there), missing.isLeast ? "at least " : "",
	                              count(missing.expected));
	switch (missing.of) {
	case Missing::Of::processes:
		return fmt::format("{} processes of run {}; without process {} (`report FOLDER` reads all traces of a folder)",
		                   part, missing.group, numbers);
	case Missing::Of::ranks:
		return fmt::format("{} ranks of job {}; without rank {} (a rank without a call writes no trace)", part,
		                   missing.group, numbers);
	case Missing::Of::parents:
		break;
	}
	return fmt::format("traces: that of pid {} is missing; the trace of a process that it forked is present", numbers);
}

} // namespace autoamp::tool
