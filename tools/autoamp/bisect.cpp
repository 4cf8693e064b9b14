#include "tools/autoamp/bisect.h"

#include "src/base/hash.h"
#include "tools/autoamp/commands.h"
#include "tools/autoamp/interruption.h"
#include "tools/autoamp/output.h"
#include "tools/autoamp/search.h"
#include "tools/autoamp/sheet.h"
#include "tools/autoamp/temporary_folder.h"
#include "tools/autoamp/traces.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

constexpr const char *stateSchema = "autoamp.bisect/2";
constexpr int mostRounds = 4;              // runs that search for calls which no earlier run made
constexpr uintmax_t leastSpace = 1u << 20; // for the trace of a run

// Calls that one rule keeps.
struct Item {
	std::string rule;      // conditions in TOML; they identify the item
	std::string name;      // for people
	std::string precision; // that leaves the calls as they are: "tf32" if all of them ask for it, otherwise "float32"
	std::string reasons;
	uint64_t calls = 0;
	double flops = 0;
};

// One answered question. Items that were found later were lowered.
struct Answer {
	std::string kept; // '1' for each item that the run kept, else '0'
	bool fails;
	bool isOld; // from an earlier process
};

// A table of a configuration file, with values as they were parsed.
std::string toToml(const policy::Table &table)
{
	std::vector<std::pair<std::string, std::string>> values;
	for (const auto &setting : table.settings) {
		if (!setting.isElement)
			values.emplace_back(setting.key, policy::quoted(setting.value));
		else if (const auto value = setting.isEmpty ? "" : policy::quoted(setting.value);
		         !values.empty() && values.back().first == setting.key)
			values.back().second.insert(values.back().second.size() - 1, ", " + value);
		else
			values.emplace_back(setting.key, "[" + value + "]");
	}
	std::string text;
	for (const auto &[key, value] : values)
		text += key + " = " + value + "\n";
	return text;
}

std::optional<Item> itemOf(const trace::RowInfo &row, const std::string &by)
{
	const std::string asked = row.dtypeAsked == op::name(op::Dtype::tf32) ? row.dtypeAsked : "float32";
	Item item = {{}, {}, asked, row.reason, row.calls, row.flops()};
	if (by == "signature") {
		auto entry = row.entry;
		if (entry.ends_with("_64")) // the name without it matches both
			entry.resize(entry.size() - 3);
		item.rule = fmt::format("entry = {}\nm = {}\nn = {}\nk = {}\nbatch = {}\n", policy::quoted(entry), row.m, row.n,
		                        row.k, row.batch);
		item.name = entry + " " + shapeOf(row);
	} else {
		item.name = by == "caller" ? row.caller : row.region;
		item.rule = by + " = " + policy::quoted(item.name) + "\n";
	}
	// A rule cannot contain control characters.
	const bool hasRule = std::none_of(item.name.begin(), item.name.end(),
	                                  [](char c) { return std::iscntrl(static_cast<unsigned char>(c)); });
	return item.name.empty() || !hasRule ? std::nullopt : std::optional(item);
}

// Replaces the file completely or not at all.
void write(const std::string &path, const std::string &text)
{
	const auto part = fmt::format("{}.part-{}", path, ::getpid());
	std::ofstream file(part, std::ios::binary);
	file << text;
	file.close();
	if (!file || ::rename(part.c_str(), path.c_str()) != 0) {
		const int error = errno;
		::unlink(part.c_str());
		fail(Status::wrong, "{} cannot be written: {}", path, std::strerror(error));
	}
}

// Without space, a run has no trace, or one that lacks calls.
void checkSpace(const fs::path &folder)
{
	std::error_code error;
	if (fs::space(folder, error).available < leastSpace) // the largest number if there is an error
		fail(Status::wrong, "{}: the file system is full", folder.parent_path().string());
}

// Changes if the file is changed.
std::string versionOf(const std::string &path)
{
	struct stat file = {};
	::stat(path.c_str(), &file);
	return fmt::format("{} {} {}\n", file.st_size, file.st_mtim.tv_sec, file.st_mtim.tv_nsec);
}

class Bisection
{
public:
	Bisection(BisectOptions options, std::span<const char *const> entries)
	    : options_(std::move(options)), entries_(entries)
	{
		options_.run.quiet = true;
		configure();
		chooseFiles();
		readState();
		provideInput();
		if (!options_.check.empty() && launch({"/bin/sh", "-n", "-c", options_.check}, {}).status != 0)
			fail(Status::wrong, "--check {}: not a command of /bin/sh", tool::quoted(options_.check));
		noteInterruptions();
	}

	Status find()
	{
		if (!fails(kept(false), 0)) {
			fmt::print("nothing to bisect: the check passes{}\n",
			           items_.empty() ? ", but no call was lowered"
			                          : " with every call lowered that the settings lower");
			if (!options_.out.empty()) // an older result does not belong to this search
				::unlink(options_.out.c_str());
			forget();
			return Status::done;
		}
		keepAll();
		const auto sets = responsibleSets(items_.size(), [&](const std::vector<bool> &lowered, size_t left) {
			std::string kept;
			for (const bool isLowered : lowered)
				kept += isLowered ? '0' : '1';
			return fails(kept, left);
		});
		auto found = kept(false);
		for (const auto &set : sets)
			for (const size_t item : set)
				found[item] = '1';
		for (const auto &set : sets) { // the answers of an earlier process may be those of another program or check
			auto others = kept(true);
			for (const size_t item : set)
				others[item] = '0';
			if (known(others)->isOld)
				ask(others, 1);
		}
		if (latest_ != found) { // the answer is of another process or of an earlier question
			latest_.clear();
			ask(found, 1);
		}
		print(sets);
		if (options_.out.empty())
			fmt::print("\n{}", configuration(found));
		else
			write(options_.out, configuration(found));
		forget();
		return Status::done;
	}

private:
	// A run with all items kept may make other calls, which are lowered: they become items.
	void keepAll()
	{
		for (int round = 1;; round++) {
			const size_t count = items_.size();
			if (!fails(kept(true), count > 1 ? std::bit_width(count - 1) + 3u : 1))
				break;
			if (count == items_.size() || round == mostRounds)
				explainFailure(count != items_.size());
		}
		isListed_ = true;
	}

	// Checks the files before the first run.
	void chooseFiles()
	{
		if (!options_.out.empty())
			options_.out = checkedTarget(options_.out, options_.force);
		std::error_code error;
		if (!options_.state.empty())
			options_.state = checkedTarget(options_.state, true);
		else if (!options_.out.empty())
			options_.state = options_.out + ".state";
		else if (!directory_.empty() && (fs::create_directories(directory_, error) || !error))
			options_.state = fmt::format("{}/bisect-{}.state", directory_, key_);
		if (!options_.out.empty() &&
		    fs::weakly_canonical(fs::absolute(options_.out)) == fs::weakly_canonical(fs::absolute(options_.state)))
			fail(Status::wrong, "-o and --state are the same file");
		for (const auto &path : {options_.out, options_.state})
			if (!path.empty() && !fs::exists(path)) {
				write(path, "");
				::unlink(path.c_str());
			}
	}

	// Every run must get the same input.
	void provideInput()
	{
		struct stat input = {};
		if (::fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode))
			inputStart_ = ::lseek(STDIN_FILENO, 0, SEEK_CUR);
		else if (const int none = ::open("/dev/null", O_RDONLY); none > STDIN_FILENO) {
			::dup2(none, STDIN_FILENO);
			::close(none);
		}
	}

	Ending launched(const std::function<Ending()> &start)
	{
		if (inputStart_ >= 0)
			::lseek(STDIN_FILENO, inputStart_, SEEK_SET);
		auto ending = start();
		if (ending.signal == SIGUSR1 || ending.signal == SIGUSR2) // sent to this command
			ending.received = ending.signal;
		if (!ending.received)
			ending.received = interruption();
		if (ending.received)
			fail(static_cast<Status>(128 + ending.received), "interrupted{}",
			     options_.state.empty() ? "" : "; the same command continues the search");
		return ending;
	}

	// Reads the settings that the program would get, and the file whose settings and rules stay valid.
	void configure()
	{
		Environment environment;
		for (const auto &[variable, value, option] : options_.run.settings)
			environment.set(variable, value, option);
		const auto parsed = environment.parse(entries_, programName(options_.run.command));
		if (!parsed.error.empty())
			fail(Status::wrong, "{}", parsed.error);
		const auto &settings = parsed.options;
		directory_ = settings.directory;
		// Settings that decide which calls are lowered become part of the result.
		std::set<std::string> given;
		for (auto each = policy::Option::level; each != policy::Option::count;
		     each = static_cast<policy::Option>(static_cast<size_t>(each) + 1)) {
			const bool decides = each < policy::Option::trace || each >= policy::Option::gpuModel;
			if (decides && settings.originOf(each) == policy::Origin::environment) {
				const auto key = policy::keyOf(policy::optionTable()[static_cast<size_t>(each)]);
				top_ += key + " = " + policy::quoted(settings.valueOf(each)) + "\n";
				given.insert(key);
			}
		}
		if (!settings.enabled || settings.level == policy::Level::O0)
			fail(Status::wrong, "nothing to bisect: {} lowers no call",
			     settings.enabled ? "AUTOAMP_LEVEL=O0" : "AUTOAMP_ENABLED=0");
		policy::ConfigFile file;
		if (settings.originOf(policy::Option::config) != policy::Origin::fallback) {
			std::string problem;
			if (policy::readFile(settings.valueOf(policy::Option::config), file, problem) != policy::Reading::done)
				fail(Status::wrong, "{}: {}", settings.valueOf(policy::Option::config), problem);
			auto document = policy::parseToml(file);
			std::erase_if(document.top.settings, [&](auto &each) { return given.contains(each.key); });
			top_ += toToml(document.top);
			for (const auto &rule : document.rules)
				rules_ += "\n[[rule]]\n" + toToml(rule);
		}
		// The trace of a run must contain all calls.
		for (const auto &[name, isSet, value] :
		     {std::tuple("AUTOAMP_CAPTURE_RANGE", settings.captureRange.kind != policy::CaptureRange::Kind::none,
		                 "calls:1:999999999999"),
		      std::tuple("AUTOAMP_DELAY", settings.delayNs > 0, "0"),
		      std::tuple("AUTOAMP_DURATION", settings.durationNs > 0, "0"),
		      std::tuple("AUTOAMP_TRACE", true, "summary")})
			if (isSet)
				options_.run.settings.push_back({name, value, "autoamp bisect"});

		std::string key = fmt::format("{}\n{}\n{}\n{}\n{}\n", AUTOAMP_VERSION, options_.run.device, options_.by,
		                              options_.check, fs::current_path().string());
		for (const auto &word : options_.run.command)
			key += word + '\0';
		for (size_t i = 0; i < static_cast<size_t>(policy::Option::count); i++)
			key += settings.value[i] + "\n";
		for (const auto &rule : settings.rules->list)
			key += policy::textOf(rule) + "\n";
		key += versionOf(inspect(options_.run.command.front()).path);
		for (const auto &word : options_.run.command) // the script of an interpreter
			if (fs::path(word).filename() == programName(options_.run.command))
				key += versionOf(word);
		key_ = fmt::format("{:016x}", base::hashBytes(key.data(), key.size()));
	}

	void readState()
	{
		std::ifstream file(options_.state, std::ios::binary);
		if (options_.state.empty() || !file)
			return;
		const auto state = Json::parse(file, nullptr, false);
		try {
			if (state.at("schema") != stateSchema)
				throw std::invalid_argument("schema");
			if (state.at("key") != key_ && !options_.force)
				fail(Status::wrong, "{} belongs to another search, program or settings; --force overwrites it",
				     options_.state);
			if (state.at("key") != key_)
				return;
			for (const auto &item : state.at("items"))
				items_.push_back({item.at("rule"), item.at("name"), item.at("precision"), item.at("reasons"),
				                  item.at("calls"), item.at("flops")});
			for (const auto &run : state.at("runs"))
				answers_.push_back({run.at("kept"), run.at("fails"), true});
			for (const auto &answer : answers_)
				if (answer.kept.size() > items_.size() || answer.kept.find_first_not_of("01") != std::string::npos)
					throw std::invalid_argument("kept");
		} catch (const std::exception &) {
			fail(Status::wrong, "{} is not a state of autoamp bisect", options_.state);
		}
		say(fmt::format("continuing after {}", plural(answers_.size(), "run")));
	}

	void writeState() const
	{
		if (options_.state.empty())
			return;
		Json items = Json::array(), runs = Json::array();
		for (const auto &item : items_)
			items.push_back({{"rule", item.rule},
			                 {"name", item.name},
			                 {"precision", item.precision},
			                 {"reasons", item.reasons},
			                 {"calls", item.calls},
			                 {"flops", item.flops}});
		for (const auto &answer : answers_)
			runs.push_back({{"kept", answer.kept}, {"fails", answer.fails}});
		write(options_.state, dump({{"schema", stateSchema}, {"key", key_}, {"items", items}, {"runs", runs}}) + "\n");
	}

	void forget() const
	{
		if (!options_.state.empty())
			::unlink(options_.state.c_str());
	}

	void say(const std::string &line) const
	{
		if (!options_.quiet)
			complain("autoamp: " + line + "\n");
	}

	std::string kept(bool all) const { return std::string(items_.size(), all ? '1' : '0'); }

	// The configuration file of a run: the kept items have priority over the rules of the user's file.
	std::string configuration(const std::string &kept) const
	{
		std::string text = top_;
		for (size_t i = 0; i < kept.size(); i++)
			if (kept[i] == '1')
				text += "\n[[rule]]\n" + items_[i].rule + "precision = " + policy::quoted(items_[i].precision) + "\n";
		text += rules_;
		if (text.size() > policy::mostBytes)
			fail(Status::wrong, "{} need more rules than a configuration file can have; try --by caller or region",
			     plural(items_.size(), options_.by.c_str()));
		return text;
	}

	// Runs the program and the check. Adds the lowered calls of the run to the items until all items are listed.
	bool run(const std::string &configuration, const char *level)
	{
		const TemporaryFolder folder("bisect");
		const auto trace = folder.path / "trace.aat", config = folder.path / "rules.toml";
		checkSpace(folder.path);
		write(config, configuration);
		auto options = options_.run;
		options.settings.push_back({"AUTOAMP_CONFIG", config, "autoamp bisect"});
		options.settings.push_back({"AUTOAMP_TRACE_FILE", trace, "autoamp bisect"});
		if (level)
			options.settings.push_back({"AUTOAMP_LEVEL", level, "autoamp bisect"});
		auto ending = launched([&] { return tool::run(options, entries_); });
		checkSpace(folder.path);
		if (!options_.check.empty()) {
			Environment environment;
			environment.set("BISECT_STATUS", std::to_string(ending.status));
			ending = launched([&] { return launch({"/bin/sh", "-c", options_.check}, environment); });
			if (ending.status == 126 || ending.status == 127)
				fail(Status::wrong, "--check {}: cannot be executed (status {})", tool::quoted(options_.check),
				     ending.status);
		}
		if (!isListed_ && fs::exists(trace))
			addItems(trace);
		return ending.status != 0;
	}

	void addItems(const std::string &trace)
	{
		Status status = Status::done;
		std::map<std::string, Item> found; // by rule: the order does not depend on the order of the calls
		for (const auto &process : gather({trace}, {}, status))
			for (const auto &row : process.rows)
				if (const auto item = itemOf(row, options_.by); item && row.calls > 0 && row.decision == "lowered") {
					const Item empty = {item->rule, item->name, item->precision, {}, 0, 0};
					auto &known = found.try_emplace(item->rule, empty).first->second;
					known.calls += item->calls, known.flops += item->flops;
					if (known.precision != item->precision)
						known.precision = "float32";
					if ((", " + known.reasons + ",").find(", " + item->reasons + ",") == std::string::npos)
						known.reasons += (known.reasons.empty() ? "" : ", ") + item->reasons;
				}
		for (const auto &[rule, item] : found)
			if (std::none_of(items_.begin(), items_.end(), [&](auto &known) { return known.rule == rule; }))
				items_.push_back(item);
	}

	// The answer of an earlier run with the same items kept. Null: there is none.
	Answer *known(const std::string &kept)
	{
		for (auto &answer : answers_) {
			answer.kept.resize(kept.size(), '0');
			if (answer.kept == kept)
				return &answer;
		}
		return nullptr;
	}

	bool fails(const std::string &kept, size_t left)
	{
		if (const Answer *const answer = known(kept))
			return answer->fails;
		const bool isFailure = ask(kept, left);
		for (size_t i = 0; i + 1 < answers_.size() && !isContradictory_; i++)
			if (contradicts(answers_[i], kept, isFailure)) {
				isContradictory_ = true;
				say(fmt::format(
				    "runs {} and {} contradict each other: keeping more calls made the check fail; repeating "
				    "both",
				    i + 1, answers_.size()));
				ask(std::string(answers_[i].kept), left + 2);
				ask(kept, left + 1);
				say("both answers are repeatable; the result may contain more calls than necessary");
			}
		return isFailure;
	}

	// True if the check passes with a part of the items kept with which it fails.
	static bool contradicts(const Answer &before, const std::string &kept, bool isFailure)
	{
		if (before.fails == isFailure)
			return false;
		const auto &more = isFailure ? kept : before.kept, &fewer = isFailure ? before.kept : kept;
		return std::equal(fewer.begin(), fewer.end(), more.begin(), [](char one, char other) { return one <= other; });
	}

	// Runs the program with these items kept. The search ends if the answer differs from that of an earlier run.
	bool ask(const std::string &kept, size_t left)
	{
		const bool isFailure = run(configuration(kept), nullptr);
		Answer *const before = known(kept);
		const bool isSame = !before || before->fails == isFailure;
		if (!before)
			answers_.push_back({kept, isFailure, false});
		else
			before->isOld = false;
		const bool isOver = isFailure && kept.find('0') == kept.npos; // no further item can be kept
		const auto more = left > 1 && !isOver ? fmt::format(" (at most {} unless further {}s are responsible)",
		                                                    plural(left - 1, "more run"), options_.by)
		                                      : "";
		say(fmt::format("run {}: {} of {} kept: {}{}", ++runs_, std::count(kept.begin(), kept.end(), '1'),
		                plural(items_.size(), options_.by.c_str()), isFailure ? "fails" : "passes", more));
		if (!isSame) {
			forget();
			fail(Status::failed, "the check is not repeatable: with the same calls lowered, it {} before and {} now",
			     isFailure ? "passed" : "failed", isFailure ? "fails" : "passes");
		}
		latest_ = isFailure ? "" : kept;
		writeState();
		return isFailure;
	}

	[[noreturn]] void explainFailure(bool changes)
	{
		const bool isOwn = run({}, "O0");
		forget();
		if (isOwn)
			fail(Status::failed, "the program fails by itself: the check fails although no call is lowered");
		if (changes)
			fail(Status::failed, "each run makes calls that no earlier run made; with all earlier ones kept, the check "
			                     "fails, and it passes with --level O0");
		fail(Status::failed,
		     "the check fails with every {} kept, and passes with --level O0: no rule by {} matches the responsible "
		     "calls",
		     options_.by, options_.by);
	}

	void print(const std::vector<std::vector<size_t>> &sets) const
	{
		Table table("llrrl");
		table.add({"group", options_.by, "calls", "FLOP", "lowered because"}, Style::bold);
		size_t count = 0;
		for (size_t i = 0; i < sets.size(); i++)
			for (const size_t item : sets[i]) {
				const auto &each = items_[item];
				table.add({std::to_string(i + 1), shown(each.name), tool::count(each.calls), amount(each.flops),
				           each.reasons});
				count++;
			}
		const Terminal terminal(STDOUT_FILENO, options_.run.colour);
		fmt::print("responsible: {} of {}, in {}; each group alone makes the check fail\n{}", count,
		           plural(items_.size(), options_.by.c_str()), plural(sets.size(), "group"),
		           table.print(terminal, terminal.width));
	}

	BisectOptions options_;
	std::span<const char *const> entries_;
	std::string top_, rules_; // parts of the user's file
	std::string key_;         // identifies the search
	std::vector<Item> items_;
	std::string directory_; // AUTOAMP_DIR
	off_t inputStart_ = -1; // offset in the file on stdin; negative: not a file
	std::vector<Answer> answers_;
	std::string latest_; // items that the latest run of this process kept, if the check passed
	size_t runs_ = 0;    // of this process
	bool isListed_ = false, isContradictory_ = false;
};

} // namespace

Status bisect(BisectOptions options, std::span<const char *const> entries)
{
	try {
		return Bisection(std::move(options), entries).find();
	} catch (const Failure &failure) { // 125 to 127 are statuses of `autoamp run`
		const bool isRun = failure.status >= Status::notStarted && failure.status <= Status::notFound;
		throw Failure{isRun ? Status::wrong : failure.status, failure.line};
	}
}

} // namespace autoamp::tool
