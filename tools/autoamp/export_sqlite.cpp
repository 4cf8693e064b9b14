// An SQLite database. Its schema is a contract; see docs/export.md.
#include "tools/autoamp/escape.h"
#include "tools/autoamp/export.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <optional>
#include <sqlite3.h>
#include <unordered_map>

namespace autoamp::tool {

namespace {

constexpr const char *schema = R"(
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA page_size = 16384;
CREATE TABLE kernel_names (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE calls (run INTEGER, row INTEGER, thread INTEGER, start_ns INTEGER, duration_ns INTEGER, captured INTEGER, call INTEGER);
CREATE TABLE kernels (run INTEGER, row INTEGER, device INTEGER, stream INTEGER, start_ns INTEGER, duration_ns INTEGER,
                      name INTEGER REFERENCES kernel_names, is_cast INTEGER, is_copy INTEGER, call INTEGER);
CREATE TABLE scaler (run INTEGER, row INTEGER, time_ns INTEGER, kind TEXT, operand TEXT, scale_before REAL, scale_after REAL, amax REAL,
                     excess REAL, lost_rows INTEGER, lost_columns INTEGER);
BEGIN;)";

class SqliteSink : public Sink
{
public:
	SqliteSink(const Runs &runs, const std::string &path) : runs_(runs), path_(path)
	{
		check(sqlite3_open(path.c_str(), &database_));
		check(sqlite3_exec(database_, schema, nullptr, nullptr, nullptr));
		const auto starts = startsOf(runs);
		std::vector<Json> list, signatures;
		for (size_t run = 0; run < runs.size(); run++) {
			auto object = toJson(run, runs[run]);
			object["start_ns"] = starts[run];
			list.push_back(std::move(object));
			for (const auto &row : runs[run].rows) {
				signatures.push_back({{"row", row.id}});
				signatures.back().update(toJson(OpsRow{run, &row}));
			}
		}
		if (signatures.empty()) {
			signatures.push_back({{"row", 0}});
			signatures.back().update(toJson(OpsRow{}));
		}
		fill("runs", list), fill("signatures", signatures);
		fillGradients("gradient_scalers", gradientSheet(runs), starts);
		fillGradients("gradient_events", gradientEventsSheet(runs), starts);
		call_ = prepare("INSERT INTO calls VALUES (?,?,?,?,?,?,?)");
		kernel_ = prepare("INSERT INTO kernels VALUES (?,?,?,?,?,?,?,?,?,?)");
		scale_ = prepare("INSERT INTO scaler VALUES (?,?,?,?,?,?,?,?,?,?,?)");
		name_ = prepare("INSERT INTO kernel_names VALUES (?,?)");
	}
	~SqliteSink() override
	{
		for (auto *statement : statements_)
			sqlite3_finalize(statement);
		sqlite3_close(database_);
	}
	void add(const Item &item) override
	{
		const int64_t run = static_cast<int64_t>(item.run), row = item.row ? item.row->id : 0;
		const auto known = [](bool isKnown, int64_t number) { return isKnown ? std::optional(number) : std::nullopt; };
		const auto call = known(item.number != 0, static_cast<int64_t>(item.number));
		if (item.kind == Item::call) {
			insert(call_, run, row, item.thread, item.startNs, item.durationNs, item.captured, call);
		} else if (item.kind == Item::kernel) {
			const bool isTimed = !runs_[item.run].emulated;
			insert(kernel_, run, known(row != 0, row), item.device, item.stream, known(isTimed, item.startNs),
			       known(isTimed, item.durationNs), nameOf(*item.name), item.isOurs, item.isMemory, call);
		} else {
			const auto &scaler = *item.scaler;
			insert(scale_, run, row, item.startNs, scaler.kind, std::string(1, scaler.operand), scaler.scaleBefore,
			       scaler.scaleAfter, scaler.amax, scaler.excess, wholeOrNull(scaler.lostRows),
			       wholeOrNull(scaler.lostColumns));
		}
	}
	void finish() override { check(sqlite3_exec(database_, "COMMIT", nullptr, nullptr, nullptr)); }

private:
	void check(int result)
	{
		if (result != SQLITE_OK && result != SQLITE_DONE)
			fail(Status::failed, "{}: {}", path_, database_ ? sqlite3_errmsg(database_) : "no memory");
	}
	sqlite3_stmt *prepare(const std::string &text)
	{
		sqlite3_stmt *statement = nullptr;
		check(sqlite3_prepare_v3(database_, text.c_str(), -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr));
		statements_.push_back(statement);
		return statement;
	}
	static int bind(sqlite3_stmt *to, int at, int64_t number) { return sqlite3_bind_int64(to, at, number); }
	static int bind(sqlite3_stmt *to, int at, double number)
	{
		return sqlite3_bind_double(to, at, number);
	} // NaN is written as null
	static int bind(sqlite3_stmt *to, int at, const std::string &text)
	{
		const std::string valid = utf8(text);
		return sqlite3_bind_text(to, at, valid.data(), static_cast<int>(valid.size()), SQLITE_TRANSIENT);
	}
	static int bind(sqlite3_stmt *to, int at, std::optional<int64_t> number)
	{
		return number ? bind(to, at, *number) : sqlite3_bind_null(to, at);
	}
	static int bind(sqlite3_stmt *to, int at, const Json &value)
	{
		return value.is_null()             ? sqlite3_bind_null(to, at)
		       : value.is_boolean()        ? bind(to, at, int64_t{value.get<bool>()})
		       : value.is_number_integer() ? bind(to, at, value.get<int64_t>())
		       : value.is_number()         ? bind(to, at, value.get<double>())
		       : value.is_string()         ? bind(to, at, value.get<std::string>())
		                                   : bind(to, at, dump(value));
	}
	template <typename Value>
	static int bindOne(sqlite3_stmt *to, int at, const Value &value)
	{
		if constexpr (std::is_integral_v<Value>)
			return bind(to, at, static_cast<int64_t>(value));
		else
			return bind(to, at, value);
	}
	template <typename... Values>
	void insert(sqlite3_stmt *statement, const Values &...values)
	{
		int at = 0;
		(check(bindOne(statement, ++at, values)), ...);
		check(sqlite3_step(statement));
		sqlite3_reset(statement);
	}
	// Times are since the start of the first run. A scaler's events have a table of their own.
	void fillGradients(const std::string &table, const Sheet &sheet, const std::vector<int64_t> &starts)
	{
		std::vector<Json> objects = {sheet.sample};
		for (size_t i = 0; i < sheet.size(); i++) {
			objects.push_back(sheet.row(i));
			for (const char *field : {"time_ns", "first_ns", "last_ns"})
				if (auto time = objects.back().find(field); time != objects.back().end() && !time->is_null())
					*time = time->get<int64_t>() + starts[objects.back()["run"].get<size_t>()];
		}
		for (auto &object : objects)
			object.erase("events");
		fill(table, objects);
		check(sqlite3_exec(database_, fmt::format("DELETE FROM {} WHERE rowid = 1", table).c_str(), nullptr, nullptr,
		                   nullptr)); // the sample, which names the columns
	}
	// The columns are the fields of the objects, as in the JSON report.
	void fill(const std::string &table, const std::vector<Json> &objects)
	{
		std::string columns, marks;
		for (const auto &[name, value] : objects.front().items())
			columns += fmt::format("{}\"{}\"", columns.empty() ? "" : ",", name), marks += marks.empty() ? "?" : ",?";
		check(sqlite3_exec(database_, fmt::format("CREATE TABLE {} ({})", table, columns).c_str(), nullptr, nullptr,
		                   nullptr));
		auto *statement = prepare(fmt::format("INSERT INTO {} VALUES ({})", table, marks));
		for (const auto &object : objects) {
			int at = 0;
			for (const auto &[name, value] : object.items())
				check(bind(statement, ++at, value));
			check(sqlite3_step(statement));
			sqlite3_reset(statement);
		}
	}
	int64_t nameOf(const std::string &name)
	{
		const auto [found, isNew] = names_.emplace(name, static_cast<int64_t>(names_.size()) + 1);
		if (isNew)
			insert(name_, found->second, name);
		return found->second;
	}

	const Runs &runs_;
	std::string path_;
	sqlite3 *database_ = nullptr;
	std::vector<sqlite3_stmt *> statements_;
	sqlite3_stmt *call_ = nullptr, *kernel_ = nullptr, *scale_ = nullptr, *name_ = nullptr;
	std::unordered_map<std::string, int64_t> names_;
};

} // namespace

std::unique_ptr<Sink> makeSqliteSink(const Runs &runs, const std::string &path)
{
	return std::make_unique<SqliteSink>(runs, path);
}

} // namespace autoamp::tool
