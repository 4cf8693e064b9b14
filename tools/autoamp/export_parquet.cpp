// Parquet: batches of columns go through a pipe to tools/python/autoamp/parquet.py, which uses Arrow.
#include "tools/autoamp/export.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace autoamp::tool {

namespace fs = std::filesystem;

namespace {

constexpr size_t batchRows = 1 << 18;
constexpr int firstErrno = 100; // the helper's exit status is this plus an errno

// Some columns of one run, in Arrow's layout.
struct Batch {
	const char *table;
	std::vector<std::pair<const char *, std::vector<int64_t>>> columns; // unknown: INT64_MIN
	size_t rows() const { return columns.front().second.size(); }
};

class ParquetSink : public Sink
{
public:
	ParquetSink(const Runs &runs, const std::string &path) : runs_(runs), path_(path)
	{
		Environment environment;
		if (const auto folder = pythonFolder(); !folder.empty())
			environment.prepend("PYTHONPATH", folder);
		start({"python3", "-m", "autoamp.parquet", path}, environment);
		const auto starts = startsOf(runs);
		Json list = Json::array();
		for (size_t run = 0; run < runs.size(); run++) {
			list.push_back(toJson(run, runs[run]));
			list.back()["start_ns"] = starts[run];
			Json rows = Json::array();
			for (const auto &row : runs[run].rows) {
				rows.push_back({{"row", row.id}});
				rows.back().update(toJson(OpsRow{run, &row}));
			}
			send({{"table", "signatures"}, {"run", run}, {"rank", runs[run].rank}, {"objects", std::move(rows)}});
		}
		send({{"table", "runs"}, {"objects", std::move(list)}});
	}
	~ParquetSink() override
	{
		if (pipe_ >= 0)
			::close(pipe_);
		if (helper_ > 0)
			::waitpid(helper_, nullptr, 0);
	}
	void add(const Item &item) override
	{
		if (item.kind == Item::scale)
			return;
		auto &batch = item.kind == Item::call ? calls_ : kernels_;
		if (item.run != run_ || batch.rows() == batchRows)
			flush(), run_ = item.run;
		const int64_t row = item.row ? item.row->id : 0, call = static_cast<int64_t>(item.number);
		const bool isTimed = item.kind == Item::call || !runs_[item.run].emulated;
		const int64_t start = isTimed ? item.startNs : INT64_MIN, duration = isTimed ? item.durationNs : INT64_MIN;
		if (item.kind == Item::call)
			put(batch, {row, start, duration, call, item.thread, item.captured});
		else
			put(batch,
			    {row, start, duration, call, item.device, item.stream, item.isOurs, item.isMemory, nameOf(*item.name)});
	}
	void finish() override
	{
		flush();
		if (const int code = end(); code != 0)
			fail(code);
	}

private:
	int end()
	{
		::close(std::exchange(pipe_, -1));
		int status = 0;
		::waitpid(std::exchange(helper_, -1), &status, 0);
		return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	}
	[[noreturn]] void fail(int code)
	{
		if (code > firstErrno)
			tool::fail(Status::failed, "{}: {}", path_, std::strerror(code - firstErrno));
		tool::fail(Status::failed, "parquet: {}",
		           code == 3 ? "the Python package pyarrow is missing; pip install pyarrow"
		                     : "the Python helper failed");
	}
	void start(std::vector<std::string> words, const Environment &environment)
	{
		auto variables = environment.strings();
		std::vector<char *> arguments, values;
		for (auto &word : words)
			arguments.push_back(word.data());
		for (auto &variable : variables)
			values.push_back(variable.data());
		arguments.push_back(nullptr), values.push_back(nullptr);
		int ends[2];
		if (::pipe2(ends, O_CLOEXEC) != 0)
			tool::fail(Status::failed, "parquet: cannot create a pipe");
		::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
		posix_spawn_file_actions_t actions;
		posix_spawn_file_actions_init(&actions);
		posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
		// Runs in a separate process group: Ctrl-C reaches only this program, which then reports the state of OUT.
		posix_spawnattr_t attributes;
		posix_spawnattr_init(&attributes);
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
		const int error =
		    ::posix_spawnp(&helper_, words[0].c_str(), &actions, &attributes, arguments.data(), values.data());
		posix_spawnattr_destroy(&attributes);
		posix_spawn_file_actions_destroy(&actions);
		::close(ends[0]);
		pipe_ = ends[1];
		if (error != 0) {
			helper_ = -1;
			tool::fail(Status::failed, "parquet: python3 is not on the PATH");
		}
	}
	void sendBytes(std::string_view bytes)
	{
		while (!bytes.empty()) {
			const auto written = ::write(pipe_, bytes.data(), bytes.size());
			if (written < 0 && errno == EINTR)
				continue;
			if (written < 0)
				fail(end()); // the helper has ended
			bytes.remove_prefix(static_cast<size_t>(written));
		}
	}
	void send(const Json &object) { sendBytes(dump(object) + "\n"); }
	static void put(Batch &batch, std::initializer_list<int64_t> values)
	{
		auto column = batch.columns.begin();
		for (const int64_t value : values)
			(column++)->second.push_back(value);
	}
	void flush()
	{
		if (!newNames_.empty())
			send({{"table", "names"}, {"names", std::exchange(newNames_, Json::array())}});
		for (auto *batch : {&calls_, &kernels_}) {
			if (batch->rows() == 0)
				continue;
			Json names = Json::array();
			for (const auto &[name, values] : batch->columns)
				names.push_back(name);
			send({{"table", batch->table},
			      {"run", run_},
			      {"rank", runs_[run_].rank},
			      {"rows", batch->rows()},
			      {"columns", std::move(names)}});
			for (auto &[name, values] : batch->columns) {
				sendBytes({reinterpret_cast<const char *>(values.data()), values.size() * sizeof values[0]});
				values.clear();
			}
		}
	}
	int64_t nameOf(const std::string &name)
	{
		const auto [found, isNew] = names_.emplace(&name, static_cast<int64_t>(names_.size()));
		if (isNew)
			newNames_.push_back(name);
		return found->second;
	}

	const Runs &runs_;
	std::string path_;
	pid_t helper_ = -1;
	int pipe_ = -1;
	size_t run_ = 0;
	Batch calls_ = {
	    "calls", {{"row", {}}, {"start_ns", {}}, {"duration_ns", {}}, {"call", {}}, {"thread", {}}, {"captured", {}}}};
	Batch kernels_ = {"kernels",
	                  {{"row", {}},
	                   {"start_ns", {}},
	                   {"duration_ns", {}},
	                   {"call", {}},
	                   {"device", {}},
	                   {"stream", {}},
	                   {"is_cast", {}},
	                   {"is_copy", {}},
	                   {"name", {}}}};
	Json newNames_ = Json::array();
	std::map<const std::string *, int64_t> names_;
};

} // namespace

std::unique_ptr<Sink> makeParquetSink(const Runs &runs, const std::string &path)
{
	return std::make_unique<ParquetSink>(runs, path);
}

} // namespace autoamp::tool
