#include "tests/unit/trace_files.h"

#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <set>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace trace_test;
using trace::Mode;

namespace {

uint64_t calls(const trace::Trace &read)
{
	uint64_t sum = 0;
	for (const auto &row : read.rows)
		sum += row.calls;
	return sum;
}

uint64_t events(const trace::Trace &read)
{
	uint64_t sum = 0;
	read.forEachEvent([&](const trace::EventInfo &) { ++sum; });
	return sum;
}

// Runs `body` in a child process, because its changes to limits and memory must not affect this process.
template <class Body>
int inChild(Body body)
{
	pid_t child = fork();
	if (child == 0) {
		body();
		_exit(0);
	}
	int status = 0;
	waitpid(child, &status, 0);
	return status;
}

} // namespace

TEST_CASE("recorded data can be read")
{
	Folder folder;
	const Mode mode = GENERATE(Mode::summary, Mode::ops);
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	auto opts = options(mode, file);
	opts.emulated = true;
	opts.lookup = [](const char *name) { return strcmp(name, "PMI_RANK") == 0 ? "3" : nullptr; };
	REQUIRE(recorder.open(opts));
	trace::Lane *lane = recorder.attach();
	fill(recorder, lane);

	auto check = [&](const trace::Trace &trace) {
		CHECK(trace.pid == static_cast<uint32_t>(getpid()));
		CHECK(trace.emulated);
		CHECK(trace.rank == "3");
		CHECK(trace.exe.ends_with("/" + trace.program));
		CHECK_FALSE(trace.host.empty());
		CHECK_FALSE(trace.command.empty());
		CHECK(trace.startedNs / 1e9 == Approx(double(time(nullptr))).margin(100));
		REQUIRE(trace.config.size() == 2);
		CHECK(trace.config[1].name == "dtype");
		CHECK(trace.config[1].value == "bfloat16");
		CHECK(trace.config[1].origin == "environment");
		REQUIRE(trace.versions.size() == 1);
		CHECK(trace.versions[0].value == "13.1");
		REQUIRE(trace.devices.size() == 2);
		CHECK(trace.devices[0] == "");
		CHECK(trace.devices[1] == "autoamp emulated (h100 constants)");
		REQUIRE(trace.rows.size() == 20);
		for (const auto &row : trace.rows) {
			CHECK(row.calls == static_cast<uint64_t>(row.m));
			CHECK(row.captured == 1);
			CHECK(row.hostNs > 0);
		}
		const auto &row = trace.rows[6];
		CHECK(row.entry == "cublasSgemm_v2");
		CHECK(row.library == "cublas");
		CHECK(row.op == "mm");
		CHECK((row.m == 7 && row.n == 20 && row.k == 30 && row.batch == 4));
		CHECK((row.transa == 'T' && row.transb == 'N'));
		CHECK((row.dtypeIn == "float32" && row.dtypeAsked == "float32" && row.dtypeCompute == "float16"));
		CHECK((row.dtypeAccumulate == "float32" && row.dtypeOut == "float32"));
		CHECK((row.decision == "lowered" && row.reason == "white_list" && row.strategy == "cast"));
		CHECK(row.caller == "libapp.so");
		CHECK(row.eligible);
		CHECK(row.device == 1);
		CHECK(row.estNs == 1500);
		CHECK(std::isnan(row.estLoweredNs));
		CHECK(row.flops() == 2.0 * 7 * 20 * 30 * 4 * 7);
		REQUIRE(trace.scaler.size() == 1);
		CHECK(trace.scaler[0].kind == "init");
		CHECK(trace.scaler[0].operand == 'A');
		CHECK(trace.scaler[0].site == trace.rows[0].site);
		CHECK(std::isnan(trace.scaler[0].scaleBefore));
		CHECK(trace.scaler[0].scaleAfter == 8);
		CHECK(trace.scaler[0].amax == 0.5);
		REQUIRE(trace.notes.size() == 1);
		CHECK(trace.notes[0].kind == "engine_failed");
		CHECK(trace.notes[0].text == "cublasLtMatmul status 13");
		CHECK(trace.notes[0].count == 2);
		CHECK(trace.row(trace.notes[0].row)->m == 2);
		CHECK(trace.lanes.size() == 1);
		CHECK(trace.hasEvents == (mode == Mode::ops));
		CHECK(events(trace) == (mode == Mode::ops ? 210 : 0));
		CHECK_FALSE(trace.loss.truncated);
	};
	{
		auto trace = read(file);
		CHECK(trace.ended == "running");
		check(trace);
	}
	recorder.close(7);
	auto trace = read(file);
	CHECK(trace.ended == "exit 7");
	check(trace);
	if (mode == Mode::summary)
		CHECK(std::filesystem::file_size(file) <= 16 << 10);
	CHECK_FALSE(std::filesystem::exists(folder / ".a.aat.tail"));
	// Late calls by other threads do no harm and no work.
	lane->record(recorder.row(row(1)), 0, 1, false);
	lane->record(recorder.row(row(999)), 0, 1, false);
	CHECK(read(file).loss.callsLost == 1);
}

TEST_CASE("ticks become nanoseconds")
{
	Folder folder;
	trace::Recorder &recorder = newRecorder();
	std::string file = folder / "a.aat";
	REQUIRE(recorder.open(options(Mode::ops, file)));
	trace::Lane *lane = recorder.attach();
	using Clock = std::chrono::steady_clock;
	const auto outerBegin = Clock::now();
	const uint64_t start = autoamp::base::ticks();
	const auto innerBegin = Clock::now();
	usleep(50000);
	const auto innerEnd = Clock::now();
	const uint64_t end = autoamp::base::ticks();
	const auto outerEnd = Clock::now();
	lane->record(recorder.row(row(1)), start, end, false);
	recorder.close(-1);
	// The thread may be off the CPU at any of these lines.
	const double least = 0.95 * std::chrono::duration<double, std::nano>(innerEnd - innerBegin).count(),
	             most = 1.05 * std::chrono::duration<double, std::nano>(outerEnd - outerBegin).count();
	auto trace = read(file);
	CHECK(trace.ended == "exit");
	CHECK((trace.rows[0].hostNs > least && trace.rows[0].hostNs < most));
	trace.forEachEvent([&](const trace::EventInfo &event) {
		CHECK((event.durationNs > least && event.durationNs < most));
		CHECK(event.startNs >= 0);
		CHECK(event.startNs < 1e9);
	});
}

TEST_CASE("rows differ by any of their fields, sites only by entry, shape, transposes and caller")
{
	trace::Recorder &recorder = newRecorder();
	const trace::Row base = row(1);
	const auto id = recorder.row(base);
	CHECK(recorder.row(base) == id);
	std::set<trace::RowId> ids = {id};
	auto differs = [&](auto change) {
		trace::Row other = base;
		change(other);
		CHECK(ids.insert(recorder.row(other)).second);
	};
	differs([](trace::Row &row) { row.entry = "x"; });
	differs([](trace::Row &row) { row.library = "x"; });
	differs([](trace::Row &row) { row.op = nullptr; });
	differs([](trace::Row &row) { row.k = 0; });
	differs([](trace::Row &row) { row.batch = 0; });
	differs([](trace::Row &row) { row.transb = 'C'; });
	differs([](trace::Row &row) { row.dtypeAsked = "tf32"; });
	differs([](trace::Row &row) { row.decision = "fallback"; });
	differs([](trace::Row &row) { row.reason = "x"; });
	differs([](trace::Row &row) { row.strategy = "x"; });
	differs([](trace::Row &row) { row.caller = "x"; });
	differs([](trace::Row &row) { row.eligible = false; });
	differs([](trace::Row &row) { row.device = 0; });
	differs([](trace::Row &row) { row.estLoweredNs = 1; });

	Folder folder;
	std::string file = folder / "a.aat";
	REQUIRE(recorder.open(options(Mode::summary, file)));
	trace::Lane *lane = recorder.attach();
	for (auto each : ids)
		lane->record(each, 0, 1, false);
	std::set<std::string> sites;
	for (const auto &row : read(file).rows)
		sites.insert(row.site);
	CHECK(sites.size() == 1 + 5); // entry, k, batch, transb, caller
}

TEST_CASE("a marked call is what a killed process died inside")
{
	Folder folder;
	std::string file = folder / "a.aat";
	const int status = inChild([&] {
		trace::Recorder &recorder = newRecorder();
		recorder.open(options(Mode::summary, file));
		trace::Lane *lane = recorder.attach();
		const auto outer = recorder.row(row(1, "cublasLtMatmul")), inner = recorder.row(row(2, "cublasSgemm_v2"));
		lane->cell(outer);
		trace::InFlight first(*lane, outer);
		{
			trace::InFlight nested(*lane, inner);
		}
		raise(SIGKILL);
	});
	CHECK(WIFSIGNALED(status));
	auto trace = read(file);
	CHECK(trace.ended == "killed");
	CHECK(trace.diedInside == "cublasLtMatmul");
	CHECK(calls(trace) == 0);
}

TEST_CASE("threads count exactly, and lanes are used again")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::ops, file)));
	constexpr int kThreads = 4, kRounds = 5, kCalls = 20000;
	for (int round = 0; round < kRounds; ++round) {
		std::vector<std::thread> threads;
		for (int thread = 0; thread < kThreads; ++thread)
			threads.emplace_back([&] {
				trace::Lane *lane = recorder.attach();
				for (int call = 0; call < kCalls; ++call) {
					const auto id = recorder.row(row(call % 50));
					trace::InFlight inFlight(*lane, id);
					lane->record(id, 5, 6, false);
				}
				recorder.detach(lane);
			});
		for (auto &thread : threads)
			thread.join();
	}
	recorder.close(0);
	auto trace = read(file);
	CHECK(trace.rows.size() == 50);
	CHECK(trace.lanes.size() <= kThreads);
	CHECK(calls(trace) == kThreads * kRounds * kCalls);
	CHECK(events(trace) == kThreads * kRounds * kCalls);
	CHECK_FALSE(trace.loss.truncated);
}

TEST_CASE("a forked child writes its own file, and nothing to that of its parent")
{
	Folder folder;
	std::string pattern = folder / "%p.aat";
	trace::Recorder &recorder = newRecorder();
	recorder.property("config", "level", "O1", "default");
	REQUIRE(recorder.open(options(Mode::ops, pattern)));
	trace::Lane *lane = recorder.attach();
	const auto id = recorder.row(row(1));
	lane->record(id, 0, 100, false);
	recorder.beforeFork();
	pid_t child = fork();
	if (child == 0) {
		recorder.afterForkInChild(lane);
		lane->record(id, 0, 100, false); // before it has a file: not recorded
		if (!recorder.open(options(Mode::ops, pattern)))
			_exit(1);
		const auto other = recorder.row(row(2));
		for (int call = 0; call < 3; ++call)
			lane->record(id, 0, 100, false);
		lane->record(other, 0, 100, false);
		recorder.close(0);
		_exit(0);
	}
	recorder.afterForkInParent();
	int status;
	waitpid(child, &status, 0);
	CHECK(status == 0);
	lane->record(id, 0, 100, false);
	CHECK(folder.files().size() == 2);
	auto parents = read(recorder.path());
	CHECK(parents.rows.size() == 1);
	CHECK(calls(parents) == 2);
	CHECK(events(parents) == 2);
	auto childs = read(folder / (std::to_string(child) + ".aat"));
	CHECK(childs.pid == static_cast<uint32_t>(child));
	CHECK(childs.parentPid == static_cast<uint32_t>(getpid()));
	CHECK(childs.config.size() == 1);
	REQUIRE(childs.lanes.size() == 1);
	CHECK(childs.lanes[0].tid == static_cast<uint32_t>(child));
	REQUIRE(childs.rows.size() == 2);
	CHECK(childs.rows[0].calls == 3);
	CHECK(childs.rows[1].calls == 1);
	CHECK(events(childs) == 4);
	recorder.close(0);
}

TEST_CASE("at the size cap single events stop and totals go on")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	auto opts = options(Mode::ops, file);
	opts.maxSize = 1 << 20;
	REQUIRE(recorder.open(opts));
	trace::Lane *lane = recorder.attach();
	constexpr uint64_t kCalls = 200000;
	for (uint64_t call = 0; call < kCalls; ++call)
		lane->record(recorder.row(row(1)), 0, 1, false);
	lane->record(recorder.row(row(2)), 0, 1, false);
	recorder.close(0);
	CHECK(std::filesystem::file_size(file) <= opts.maxSize);
	auto trace = read(file);
	CHECK(calls(trace) == kCalls + 1);
	CHECK(events(trace) > 50000);
	CHECK(events(trace) + trace.loss.eventsDropped == kCalls + 1);
	CHECK(trace.loss.truncated);
	CHECK_FALSE(trace.loss.diskFull);
}

TEST_CASE("too many signatures share a row")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	trace::Lane *lane = recorder.attach();
	constexpr int64_t kShapes = trace::kMaxRows + 1000;
	for (int64_t m = 1; m <= kShapes; ++m)
		lane->record(recorder.row(row(m)), 0, 1, false);
	recorder.close(0);
	auto trace = read(file);
	CHECK(calls(trace) == kShapes);
	CHECK(trace.rows.size() == trace::kMaxRows);
	CHECK(trace.rows.back().entry == "(more signatures)");
	CHECK(trace.rows.back().calls == 1001);
}

TEST_CASE("scaler events: a few singles, exact totals")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	trace::ScalerEvent event;
	event.kind = "rescale";
	event.row = recorder.row(row(1));
	event.exponentBefore = event.exponentAfter = 2;
	event.amax = 1;
	for (char operand : {'A', 'B'})
		for (int times = 0; times < (operand == 'A' ? 1000 : 10); ++times) {
			event.operand = operand;
			recorder.scaler(event);
		}
	event.count = 5;
	recorder.scaler(event);
	recorder.close(0);
	auto trace = read(file);
	CHECK(trace.scaler.size() == 64 + 11);
	REQUIRE(trace.scalerTotals.size() == 2);
	CHECK((trace.scalerTotals[0].operand == 'A' && trace.scalerTotals[0].count == 1000));
	CHECK((trace.scalerTotals[1].operand == 'B' && trace.scalerTotals[1].count == 15));
}

TEST_CASE("audits have exact totals for each row")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	trace::AuditResult result;
	result.row = recorder.row(row(1));
	for (int i = 1; i <= 100; ++i) {
		result.error = i <= 90 ? 1e-4 : i <= 99 ? 1e-2 : 0.5;
		result.worstRow = 2 * result.error, result.worstColumn = 3 * result.error;
		result.isRecomputed = i == 7;
		recorder.audit(result);
	}
	result = {result.row, 4, NAN, NAN, NAN, false, true, true}; // three results before it were lost
	recorder.audit(result);
	result = {recorder.row(row(2)), 1, 0, 0, 0, false, false, false, 900, 300};
	recorder.audit(result);
	result.fp32Ns = 0; // not timed
	recorder.audit(result);
	result.fp32Ns = 100, result.actualNs = 200;
	recorder.audit(result);
	recorder.close(0);
	const auto trace = read(file);
	REQUIRE(trace.rows.size() == 2);
	const auto &audit = trace.rows[0].audit;
	CHECK((audit.audited == 104 && audit.lost == 3 && audit.recomputed == 1 && audit.unmeasured == 1));
	CHECK((audit.partial == 1 && audit.overflowed == 1 && audit.measured() == 100));
	CHECK((audit.most == 0.5 && audit.worstRow == 1.0 && audit.worstColumn == 1.5));
	CHECK(audit.sum == Approx(90e-4 + 9e-2 + 0.5));
	CHECK(audit.quantile(0.5) == Approx(1e-4).epsilon(0.2));
	CHECK(audit.quantile(0.95) == Approx(1e-2).epsilon(0.2));
	CHECK(audit.quantile(1) == Approx(0.5).epsilon(0.2));
	CHECK(
	    (trace.rows[1].audit.audited == 3 && trace.rows[1].audit.most == 0 && trace.rows[1].audit.quantile(0.5) == 0));
	CHECK(trace.rows[0].audit.timed == 0);
	trace::AuditInfo timed = trace.rows[1].audit;
	CHECK((timed.timed == 2 && timed.fp32Ns == 1000 && timed.actualNs == 500));
	timed.add(timed);
	CHECK((timed.timed == 4 && timed.fp32Ns == 2000 && timed.actualNs == 1000));
	CHECK(std::isnan(trace::AuditInfo().quantile(0.5)));
}

TEST_CASE("kept copies have exact totals for each row, way and reason")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	const trace::RowId id = recorder.row(row(1));
	recorder.weights({.row = id, .how = "watched", .served = 99}); // before there is a file
	REQUIRE(recorder.open(options(Mode::summary, file)));
	recorder.attach()->record(id, 1, 2, false);
	recorder.weights({.row = id, .how = "watched", .converted = 1, .made = 1, .bytes = 4096});
	recorder.weights({.row = id, .how = "watched", .served = 5, .recast = 2, .bytes = 8192});
	recorder.weights({.row = id, .how = "watched", .givenUp = 1, .bytes = 0});
	recorder.weights({.row = id, .reason = "changes", .converted = 7});
	recorder.weights({.row = id, .how = "frozen", .made = 1, .bytes = 100});
	recorder.weights({.row = id, .how = "frozen", .made = 1, .bytes = 100});
	recorder.weights({.row = id, .how = "frozen", .givenUp = 1, .bytes = 100});
	recorder.weights({.row = id, .how = "frozen", .made = 1, .changed = 3, .bytes = 100});
	recorder.weights({.row = id, .reason = "memory_budget", .refused = 1, .bytes = 1000});
	recorder.weights({.row = id, .reason = "memory_budget", .refused = 1, .compared = 5, .repeated = 4, .bytes = 500});
	recorder.close(0);
	const auto trace = read(file);
	REQUIRE(trace.rows.size() == 1);
	REQUIRE(trace.rows[0].weights.size() == 4);
	const auto &watched = trace.rows[0].weights[0], &none = trace.rows[0].weights[1];
	CHECK((watched.how == "watched" && watched.reason.empty() && watched.served == 5 && watched.converted == 1));
	CHECK((watched.made == 1 && watched.recast == 2 && watched.givenUp == 1 && watched.bytes == 8192));
	CHECK((none.how.empty() && none.reason == "changes" && none.converted == 7 && none.served == 0));
	const auto &frozen = trace.rows[0].weights[2], &refused = trace.rows[0].weights[3];
	CHECK((frozen.made == 3 && frozen.givenUp == 1 && frozen.changed == 3));
	CHECK(frozen.bytes == 200); // no more than two copies at one time
	CHECK((refused.refused == 2 && refused.compared == 5 && refused.repeated == 4 && refused.bytes == 1500));
}

TEST_CASE("kept operands in a trace of an older version")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	const trace::RowId id = recorder.row(row(1));
	recorder.attach()->record(id, 1, 2, false);
	recorder.weights({.row = id, .how = "watched", .served = 5, .changed = 7, .repeated = 9});
	recorder.close(0);
	std::string content = slurp(file);
	const uint16_t head[4] = {static_cast<uint16_t>(trace::RecordType::weights), 0,
	                          sizeof(trace::ComparedWeightsRecord)};
	const size_t at = content.find(std::string(reinterpret_cast<const char *>(head), sizeof head));
	REQUIRE(at != std::string::npos);
	const auto write = [&](size_t place, trace::Record record) { memcpy(&content[place], &record, sizeof record); };
	constexpr uint32_t size = sizeof(trace::WeightsRecord), added = sizeof(trace::ComparedWeightsRecord) - size;
	write(at, {trace::RecordType::weights, 0, size});
	write(at + size, {trace::RecordType::padding, 0, added});
	spit(file, content);
	const auto trace = read(file);
	REQUIRE(trace.rows[0].weights.size() == 1);
	const auto &weights = trace.rows[0].weights[0];
	CHECK((weights.how == "watched" && weights.served == 5 && weights.changed == 0 && weights.repeated == 0));
	CHECK_FALSE(trace.loss.truncated);
}

namespace {

// Updates of torch's scaler with growth interval 2, started by `scale`.
struct Torch {
	trace::GradientScaler scaler{"torch", 0x7f0000000100, 1, "update_kernel", 2, 0.5, 2};
	float scale = 8;
	int tracker = 0;
	trace::Recorder &recorder;

	void update(bool isFound, std::span<const trace::GradientCause> causes = {})
	{
		trace::GradientUpdate update;
		update.before = {scale, tracker, -1};
		tracker = isFound ? 0 : tracker + 1;
		scale *= isFound ? 0.5f : tracker == 2 && scale * 2 <= 16 ? 2 : 1;
		tracker %= 2;
		update.after = {scale, tracker, -1};
		update.foundInf = isFound;
		recorder.gradient(scaler, update, causes);
	}
};

} // namespace

TEST_CASE("updates of a gradient scaler: events of each kind, and totals")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	Torch torch{.recorder = recorder};
	const trace::RowId id = recorder.row(row(1));
	const trace::GradientCause cause{id, "nonfinite_input", 'B', 5};
	torch.update(true, {&cause, 1}); // 8 -> 4
	torch.update(true);              // -> 2
	for (int i = 0; i < 4; i++)
		torch.update(false); // -> 4 -> 8
	torch.scale = 16;
	torch.update(false);
	torch.update(false); // 32 is refused
	trace::GradientUpdate held;
	held.before = held.after = {4, 0, 1};
	held.foundInf = 2;
	recorder.gradient({"torch", 1, 0, "python"}, held);
	held.before = held.after = {}; // an update whose values are unknown
	recorder.gradient({"paddle", 1, 0, "unscale_kernel"}, held);
	held.steps = 12, held.skipped = 7; // 10 updates were lost
	recorder.gradient({"paddle", 1, 0, "unscale_kernel"}, held);
	recorder.close(0);

	const auto trace = read(file);
	REQUIRE(trace.gradientScalers.size() == 3);
	const trace::GradientScalerInfo &first = trace.gradientScalers[0];
	CHECK((first.name == "torch#0" && first.how == "update_kernel" && first.device == 1 && first.interval == 2));
	CHECK((first.growth == 2 && first.backoff == 0.5));
	CHECK((first.steps == 8 && first.skipped == 2 && first.longestSkipped == 2 && first.unseen == 0));
	CHECK((first.backoffs == 2 && first.growths == 2 && first.sets == 1 && first.refusals == 1 && first.holds == 0));
	CHECK((first.scaleFirst == 8 && first.scaleLeast == 2 && first.scaleMost == 16 && first.scaleLast == 16));
	CHECK((first.tracker == 0 && first.lastNs > first.firstNs));
	std::string kinds;
	for (const trace::GradientEvent &event : trace.gradientEvents)
		if (event.scaler == first.id)
			kinds += event.kind + std::to_string(event.step) + ' ';
	CHECK(kinds == "first1 backoff1 backoff2 growth4 growth6 set7 growth_refused8 ");
	const trace::GradientEvent &set = trace.gradientEvents[5];
	CHECK((set.scaleBefore == 8 && set.scaleAfter == 16 && set.trackerBefore == -1 && set.trackerAfter == 0));
	CHECK((trace.gradientEvents[1].foundInf == 1 && trace.gradientEvents[1].trackerAfter == 0));
	REQUIRE(trace.gradientCauses.size() == 1);
	CHECK((trace.gradientCauses[0].step == 1 && trace.gradientCauses[0].kind == "nonfinite_input"));
	CHECK((trace.gradientCauses[0].row == id && trace.gradientCauses[0].operand == 'B'));

	const trace::GradientScalerInfo &second = trace.gradientScalers[1], &third = trace.gradientScalers[2];
	CHECK((second.name == "torch#1" && second.holds == 1 && second.skipped == 1 && std::isnan(second.growth)));
	CHECK((third.name == "paddle#0" && third.steps == 12 && third.skipped == 7 && third.unseen == 10));
	CHECK((third.holds == 2 && std::isnan(third.scaleLast) && third.tracker == -1));
}

TEST_CASE("a gradient scaler has exact totals, and at most 1024 events")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	Torch torch{.recorder = recorder};
	for (int i = 0; i < 3000; i++)
		torch.update(i % 3 == 0); // two clean steps double the scale again
	recorder.close(0);
	const auto trace = read(file);
	CHECK(trace.gradientEvents.size() == 1024);
	CHECK((trace.gradientScalers[0].backoffs == 1000 && trace.gradientScalers[0].growths == 1000));
	CHECK((trace.gradientScalers[0].scaleLeast == 4 && trace.gradientScalers[0].scaleMost == 8));
}

// Whatever is refused, the caller gets a result and no signal.
static void recordAll(const std::string &file, Mode mode, int rows = 100)
{
	trace::Recorder &recorder = newRecorder();
	recorder.open(options(mode, file));
	trace::Lane *lane = recorder.attach();
	fill(recorder, lane);
	for (int call = 0; call < 500000; ++call)
		lane->record(recorder.row(row(call % rows)), 0, 1, false);
	for (int round = 0; mode == Mode::kernels && round < 1000; ++round)
		fillKernels(recorder, lane->nextCall());
	fill(recorder, lane);
	recorder.close(0);
}

TEST_CASE("a full disk ends the trace, not the application")
{
	Folder folder;
	const auto size = GENERATE("size=4k", "size=16k", "size=100k", "size=1m");
	if (mount("tmpfs", folder.path.c_str(), "tmpfs", 0, size) != 0) {
		WARN("skipped: no right to mount a small file system");
		return;
	}
	struct Unmount {
		const Folder &folder;
		~Unmount() { umount(folder.path.c_str()); }
	} unmount{folder};
	const std::string file = folder / "a.aat";
	CHECK(inChild([&] { recordAll(file, Mode::ops, 3000); }) == 0);
	auto trace = read(file);
	CHECK(trace.loss.diskFull);
	CHECK(trace.loss.truncated);
	CHECK(calls(trace) + trace.loss.callsLost == 500000 + 2 * 210);
}

TEST_CASE("where files cannot be mapped safely, whole chunks are written")
{
	Folder folder;
	if (mount("ramfs", folder.path.c_str(), "ramfs", 0, nullptr) != 0) {
		WARN("skipped: no right to mount a file system of another kind");
		return;
	}
	struct Unmount {
		const Folder &folder;
		~Unmount() { umount(folder.path.c_str()); }
	} unmount{folder};
	const std::string file = folder / "a.aat";
	CHECK(inChild([&] { recordAll(file, Mode::kernels); }) == 0);
	{
		auto trace = read(file);
		uint64_t kernels = 0;
		trace.forEachKernel([&](const trace::KernelInfo &kernel) { kernels += kernel.name != ""; });
		CHECK(kernels == 7000);
		CHECK(trace.ended == "exit 0");
		CHECK(calls(trace) == 500000 + 2 * 210);
		CHECK(events(trace) == 500000 + 2 * 210);
		CHECK_FALSE(trace.loss.truncated);
	}
	// Killed: only the events of a thread's incomplete chunk are lost.
	const std::string killed = folder / "killed.aat";
	inChild([&] {
		trace::Recorder &recorder = newRecorder();
		recorder.open(options(Mode::ops, killed));
		trace::Lane *lane = recorder.attach();
		fill(recorder, lane);
		for (int call = 0; call < 100000; ++call)
			lane->record(recorder.row(row(call % 20 + 1)), 0, 1, false);
		raise(SIGKILL);
	});
	auto trace = read(killed);
	CHECK(trace.ended == "no exit seen");
	CHECK(trace.rows.size() == 20);
	CHECK(events(trace) > 100210 - 4094);
	CHECK(events(trace) <= 100210);
	CHECK(trace.loss.truncated);
	CHECK(trace.loss.tailMissing);
}

TEST_CASE("kernels whose times are impossible have a count and no time")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::kernels, file)));
	const trace::RowId some = recorder.row(row(1)), none = recorder.row(row(2));
	const trace::KernelEvent events[] = {
	    {0, 0, 0, "some", some, 7, 0, 0},
	    {0, 0, 0, "never", some, 7, 0, 0},
	    {500, 600, 0, "some", some, 7, 0, 0},
	    {300, 310, 0, "some", some, 7, 0, 0},
	    {0, 0, 0, "never", none, 7, 0, 0},
	    {500, 600, 0, "emulated", none, 7, 0, trace::kernelEmulated},
	    {0, 0, 0, "CheckFiniteAndUnscale<float>", 0, 7, 0, 0},
	    {700, 800, 0, "CheckFiniteAndUnscale<double>", 0, 7, 0, 0},
	};
	recorder.kernels(events, {0, 4, 0});
	recorder.overhead("buffer_flush", 5, true);
	recorder.close(0);

	const auto trace = read(file);
	REQUIRE(trace.kernels.size() == 6);
	const auto &known = trace.kernels[0], &never = trace.kernels[1];
	CHECK((known.name == "some" && known.count == 3));
	CHECK((known.ns == 110 && known.firstNs == 300 && known.lastNs == 500));
	CHECK((never.name == "never" && never.count == 1));
	CHECK((std::isnan(never.ns) && std::isnan(never.firstNs) && std::isnan(never.lastNs)));
	CHECK(trace.row(known.row)->kernelNs == 110);
	CHECK(std::isnan(trace.row(trace.kernels[2].row)->kernelNs));
	REQUIRE(trace.observed.size() == 1);
	CHECK((trace.observed[0].count == 2 && trace.observed[0].firstNs == 700 && trace.observed[0].lastNs == 700));
	CHECK(trace.loss.invalidTimestamps == 4);
	CHECK((trace.kernels[3].name == "emulated" && std::isnan(trace.kernels[3].ns))); // not measured
	REQUIRE(trace.overhead.size() == 1);
	CHECK((trace.overhead[0].count == 1 && std::isnan(trace.overhead[0].ns)));
}

TEST_CASE("kernels are read back, each and in their totals")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	const bool isEmulated = GENERATE(false, true), isCapped = GENERATE(false, true);
	trace::Recorder &recorder = newRecorder();
	auto opts = options(Mode::kernels, file);
	opts.emulated = isEmulated;
	if (isCapped)
		opts.maxSize = 0;
	REQUIRE(recorder.open(opts));
	trace::Lane *lane = recorder.attach();
	for (int call = 0; call < 3; ++call)
		lane->record(recorder.row(row(4)), 1, 2, false);
	const uint64_t call = lane->nextCall();
	lane->record(recorder.row(row(5)), 3, 4, false);
	for (int round = 0; round < 1000; ++round)
		fillKernels(recorder, call);
	recorder.close(0);

	const auto trace = read(file);
	CHECK(trace.hasKernels);
	CHECK(trace.loss.kernelsUnattributed == 1000);
	CHECK(trace.loss.invalidTimestamps == 1000);
	CHECK(trace.loss.kernelsDropped == 3000);
	CHECK(trace.loss.kernelsCapped == (isCapped ? 7000 : 0));
	REQUIRE(trace.clocks.size() == 1000);
	CHECK(trace.clocks[0].cuptiNs == 1767225600000000000);
	CHECK(trace.clocks[9].traceNs > 0);
	CHECK(trace.clocks[9].traceNs < 1e11);
	CHECK(double(trace.clocks[9].realtimeNs) == Approx(trace.startedNs).epsilon(1e-3));

	REQUIRE(trace.kernels.size() == 6);
	const auto &cast = trace.kernels[0], &product = trace.kernels[2];
	CHECK((cast.isOurs && cast.name == "autoamp_cast_half" && cast.count == 1000 && cast.device == 1));
	CHECK((!product.isOurs && product.count == 3000));
	CHECK(product.facts.tensorCores == trace::TensorCores::yes);
	CHECK(product.facts.dtype == std::string("float16"));
	CHECK(trace.kernels[3].isMemory);
	CHECK(trace.kernels[4].row == 0);
	const auto *called = trace.row(product.row);
	REQUIRE(called);
	CHECK(called->m == 5);
	CHECK(called->tensorCores == trace::TensorCores::yes);
	CHECK(called->casts == 2000);
	CHECK(called->kernels == 4000);
	REQUIRE(trace.observed.size() == 1);
	CHECK((trace.observed[0].framework == "torch" && trace.observed[0].step == "unscale"));
	CHECK(trace.observed[0].count == 1000);
	if (isEmulated) { // times that were not measured are not reported
		CHECK(std::isnan(cast.ns));
		CHECK((std::isnan(called->kernelNs) && std::isnan(called->castNs) && std::isnan(trace.observed[0].firstNs)));
	} else {
		CHECK(cast.ns == 1000 * 100);
		CHECK(called->castNs == 1000 * 150);
		CHECK(called->kernelNs == 1000 * 1510);
		CHECK((product.firstNs == 1200 && product.lastNs == 5200));
	}
	CHECK(std::isnan(trace.rows[0].kernelNs));
	REQUIRE(trace.overhead.size() == 2);
	CHECK((trace.overhead[0].kind == "buffer_flush" && trace.overhead[0].count == 1000));
	CHECK((trace.overhead[1].kind == "resource" && trace.overhead[1].count == 1000));
	if (isEmulated)
		CHECK(std::isnan(trace.overhead[0].ns));
	else
		CHECK(trace.overhead[0].ns == 1000 * 100);

	uint64_t kernels = 0, graphs = 0, outside = 0, found = 0, last = 0;
	trace.forEachEvent([&](const trace::EventInfo &event) { found = event.call == call ? event.row : found; });
	trace.forEachKernel([&](const trace::KernelInfo &kernel) {
		++kernels;
		graphs += kernel.isGraph;
		outside += kernel.isOutside;
		last += kernel.startNs == 6000 && kernel.durationNs == 1 && kernel.name == "stranger";
		if (kernel.row)
			CHECK((kernel.row == called->id && kernel.call == call && kernel.stream == 7));
	});
	CHECK(kernels == (isCapped ? 0 : 7000));
	CHECK((graphs == kernels / 7 && outside == kernels / 7 && last == kernels / 7));
	CHECK(found == (isCapped ? 0 : called->id));
}

TEST_CASE("updates have the times of their kernels on the device")
{
	const bool isEmulated = GENERATE(false, true);
	const int missing = GENERATE(0, 1);
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	trace::Options given = options(Mode::kernels, file);
	given.emulated = isEmulated;
	REQUIRE(recorder.open(given));
	Torch torch{.recorder = recorder};
	torch.scaler.owner = 7;
	for (int step = 1; step <= 4; step++)
		torch.update(step == 3);
	std::vector<trace::KernelEvent> kernels;
	for (const uint64_t ns : {4000, 3000, 1000, 2000}) // not in their order
		kernels.push_back({ns, ns + 10, 7, "update", 0, 8, 1, trace::kernelOutside | trace::kernelUpdate});
	kernels.push_back({500, 510, 8, "update", 0, 8, 1, trace::kernelOutside | trace::kernelUpdate}); // of another
	kernels.erase(kernels.begin(), kernels.begin() + missing);
	recorder.kernels(kernels, {});
	recorder.close(0);

	const auto trace = read(file);
	REQUIRE(trace.gradientScalers.size() == 1);
	const trace::GradientScalerInfo &scaler = trace.gradientScalers[0];
	REQUIRE(trace.gradientEvents.size() == 3); // first, growth at step 2, backoff at step 3
	CHECK(scaler.hasDeviceTimes == (!isEmulated && !missing));
	CHECK((trace.gradientEvents[2].timeNs == 3010) == scaler.hasDeviceTimes);
	CHECK((scaler.firstNs == 1010 && scaler.lastNs == 4010) == scaler.hasDeviceTimes);
	trace.forEachKernel([&](const trace::KernelInfo &kernel) { CHECK((kernel.updatedOwner && !kernel.call)); });
}

TEST_CASE("a call's number goes on where its lane's chunk ends")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::kernels, file)));
	recorder.attach();
	trace::Lane *lane = recorder.attach(); // the second
	std::vector<uint64_t> calls;
	for (int call = 0; call < 10000; ++call) {
		calls.push_back(lane->nextCall());
		lane->record(recorder.row(row(1)), 1, 2, false);
	}
	recorder.close(0);
	size_t at = 0;
	read(file).forEachEvent([&](const trace::EventInfo &event) { CHECK(event.call == calls.at(at++)); });
	CHECK(at == 10000);
	CHECK(calls[9999] == (uint64_t{1} << 32 | 10000));
}

TEST_CASE("often-made calls are timed one time in 16, without bias")
{
	Folder folder;
	std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::summary, file)));
	trace::Lane *lane = recorder.attach();
	const auto id = recorder.row(row(1));
	CHECK(lane->timing(nullptr) == 1);
	uint64_t sum = 0, timed = 0, estimate = 0;
	for (int call = 0; call < 160000; ++call) {
		const uint64_t duration = call % 16 == 3 ? 1600 : 100; // in step with the sampling rate
		const unsigned weight = lane->timing(lane->cell(id));
		lane->record(id, 1, 1 + duration, false, weight);
		CHECK((call >= 64 || weight == 1));
		sum += duration;
		timed += weight != 0;
		estimate += weight * duration;
	}
	CHECK(timed < 160000 / 16 + 200);
	CHECK(double(estimate) == Approx(double(sum)).epsilon(0.02));
	auto trace = read(file);
	CHECK(trace.rows[0].calls == 160000);
}

TEST_CASE("a limit on the size of files ends the trace without a signal")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	CHECK(inChild([&] {
		      rlimit limit = {300 << 10, 300 << 10};
		      setrlimit(RLIMIT_FSIZE, &limit);
		      recordAll(file, Mode::ops);
	      }) == 0);
	CHECK(std::filesystem::file_size(file) <= 300 << 10);
	CHECK(calls(read(file)) == 500000 + 2 * 210);
}

TEST_CASE("an unwritable place records nothing and reports it once")
{
	Folder folder;
	spit(folder / "file", "");
	trace::Recorder &recorder = newRecorder();
	const std::string pattern = GENERATE_REF(folder / "file" + "/a.aat", folder / "%x.aat", std::string("/proc/a.aat"));
	CHECK_FALSE(recorder.open(options(Mode::ops, pattern)));
	CHECK_FALSE(recorder.open(options(Mode::ops, pattern)));
	trace::Lane *lane = recorder.attach();
	fill(recorder, lane);
	recorder.close(0);
}

TEST_CASE("a descriptor that the application closed is never written to")
{
	Folder folder;
	const std::string file = folder / "a.aat", theirs = folder / "theirs";
	CHECK(inChild([&] {
		      trace::Recorder recorder;
		      recorder.open(options(Mode::ops, file));
		      trace::Lane *lane = recorder.attach();
		      fill(recorder, lane);
		      const int descriptor = open(theirs.c_str(), O_RDWR | O_CREAT, 0666);
		      for (int other = 3; other < 1000; ++other)
			      if (other != descriptor)
				      dup2(descriptor, other);
		      for (int call = 0; call < 100000; ++call)
			      lane->record(recorder.row(row(call % 100)), 0, 1, false);
		      recorder.close(0);
	      }) == 0);
	CHECK(std::filesystem::file_size(theirs) == 0);
	CHECK(calls(read(file)) == 210 + 100000);
	CHECK(events(read(file)) == 210 + 100000);
}

namespace {

// Counts in four threads and, in a second file, in a child, while the parent does `harm` to the file at several
// moments. Returns the child's status.
int recordUnderHarm(const std::string &file, bool isKilled, const std::function<void()> &harm)
{
	int pipes[2], answers[2];
	REQUIRE(pipe(pipes) == 0);
	REQUIRE(pipe(answers) == 0);
	const pid_t child = fork();
	if (child == 0) {
		char byte = 0;
		trace::Recorder &recorder = newRecorder();
		recorder.open(options(Mode::ops, file));
		for (int round = 0; round < 4; ++round) {
			std::vector<std::thread> threads;
			for (int thread = 0; thread < 4; ++thread)
				threads.emplace_back([&recorder, round] {
					trace::Lane *lane = recorder.attach();
					for (int call = 0; call < 25000; ++call)
						lane->record(recorder.row(row(round * 100 + call % 100 + 1)), 0, 1, false);
					recorder.detach(lane);
				});
			for (auto &thread : threads)
				thread.join();
			if (write(pipes[1], &byte, 1) != 1 || ::read(answers[0], &byte, 1) != 1)
				_exit(1);
		}
		if (isKilled)
			raise(SIGKILL);
		recorder.close(0);
		_exit(0);
	}
	char byte = 0;
	for (int round = 0; round < 4; ++round) {
		REQUIRE(::read(pipes[0], &byte, 1) == 1);
		harm();
		REQUIRE(write(answers[1], &byte, 1) == 1);
	}
	int status = 0;
	waitpid(child, &status, 0);
	for (int end : {pipes[0], pipes[1], answers[0], answers[1]})
		close(end);
	return status;
}

constexpr uint64_t kHarmedCalls = 4 * 4 * 25000;

} // namespace

TEST_CASE("a trace that is truncated or removed while it is written keeps its totals")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	const bool isKilled = GENERATE(false, true);
	const std::string how =
	    GENERATE("empty", "100 bytes", "a page", "three pages", "half", "less a page", "removed", "never");
	CAPTURE(how, isKilled);
	const int status = recordUnderHarm(file, isKilled, [&] {
		std::error_code error;
		const uint64_t size = std::filesystem::file_size(file, error);
		if (how == "removed")
			unlink(file.c_str());
		else if (how != "never" && !error)
			std::filesystem::resize_file(file, how == "empty"         ? 0
			                                   : how == "100 bytes"   ? 100
			                                   : how == "a page"      ? 4096
			                                   : how == "three pages" ? 3 * 4096
			                                   : how == "less a page" ? size - 4096
			                                                          : size / 2);
	});
	CHECK(status == (isKilled ? SIGKILL : 0));
	if (isKilled && how == "removed") { // after the newest chunk, so nothing created it again
		CHECK(folder.files().empty());
		std::filesystem::rename(folder / ".a.aat.tail", file);
	}
	const auto check = [&] {
		const auto trace = read(file);
		CHECK(trace.ended == (isKilled ? "no exit seen" : "exit 0"));
		CHECK(trace.rows.size() == 400);
		CHECK(calls(trace) == kHarmedCalls);
		CHECK(events(trace) + trace.loss.eventsMissing == kHarmedCalls);
		if (how != "less a page") { // that page may be one that the recorder writes again
			CHECK((trace.loss.eventsMissing > 0) == (how != "never"));
			CHECK(trace.loss.truncated == (how != "never"));
		}
		CHECK(trace.loss.eventsDropped == 0);
		CHECK_FALSE(trace.loss.tailMissing);
		// Events after a gap keep their numbers.
		std::set<uint64_t> numbers;
		trace.forEachEvent([&](const trace::EventInfo &event) { numbers.insert(event.call); });
		CHECK(numbers.size() == events(trace));
	};
	check();
	CHECK(std::filesystem::exists(folder / ".a.aat.tail") == (isKilled && how != "removed"));
	if (!isKilled || how == "removed")
		return;
	CHECK(trace::foldTail(file));
	CHECK_FALSE(std::filesystem::exists(folder / ".a.aat.tail"));
	check();
	CHECK(trace::foldTail(file));
}

TEST_CASE("a trace whose name is taken leaves its totals next to it")
{
	Folder folder;
	const std::string file = folder / "a.aat", other = folder / "other";
	const bool isFolder = GENERATE(false, true);
	spit(other, "text");
	CHECK(recordUnderHarm(file, false, [&] {
		      if (isFolder && unlink(file.c_str()) == 0)
			      std::filesystem::create_directory(file);
		      else if (!isFolder)
			      rename(other.c_str(), file.c_str());
	      }) == 0);
	if (!isFolder)
		CHECK(slurp(file) == "text");
	const auto trace = read(folder / ".a.aat.tail");
	CHECK(trace.ended == "exit 0");
	CHECK(calls(trace) == kHarmedCalls);
	CHECK(trace.loss.unwritable);
}

TEST_CASE("a trace that is renamed is complete under its new name")
{
	Folder folder;
	const std::string file = folder / "a.aat", moved = folder / "b.aat";
	CHECK(recordUnderHarm(file, false, [&] { rename(file.c_str(), moved.c_str()); }) == 0);
	CHECK(folder.files() == std::vector<std::string>{"b.aat"});
	CHECK_FALSE(std::filesystem::exists(folder / ".a.aat.tail"));
	CHECK(calls(read(moved)) == kHarmedCalls);
	CHECK(events(read(moved)) == kHarmedCalls);
	CHECK_FALSE(read(moved).loss.truncated);
}

TEST_CASE("the tail of another run is not taken for a trace's own")
{
	Folder folder;
	const std::string file = folder / "a.aat", tail = folder / ".a.aat.tail";
	recordUnderHarm(file, true, [] {});
	const std::string stale = slurp(tail);
	unlink(file.c_str());
	const int status = inChild([&] { // finds the tail there, and makes its own
		trace::Recorder &recorder = newRecorder();
		recorder.open(options(Mode::summary, file));
		recorder.attach()->record(recorder.row(row(1)), 0, 1, false);
		raise(SIGKILL);
	});
	CHECK(WIFSIGNALED(status));
	CHECK(calls(read(file)) == 1);
	CHECK_FALSE(read(file).loss.truncated);
	spit(tail, stale);
	CHECK(read(file).loss.tailMissing);
	CHECK(read(file).loss.truncated);
	CHECK_FALSE(trace::foldTail(file));
	CHECK(slurp(tail) == stale);
}

TEST_CASE("a call that ends after the trace was closed is counted")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(Mode::ops, file)));
	trace::Lane *lane = recorder.attach();
	const auto id = recorder.row(row(1));
	trace::Cell *cell = lane->cell(id);
	lane->record(id, 0, 1, false);
	{
		trace::InFlight inFlight(*lane, id);
		recorder.close(3);
		lane->record(cell, id, 0, 1, false, 1);
	}
	CHECK(read(file).ended == "exit 3");
	CHECK(calls(read(file)) == 2);
	CHECK(events(read(file)) == 2);
	CHECK_FALSE(read(file).loss.truncated);
}

TEST_CASE("all that was recorded before a SIGKILL is read")
{
	Folder folder;
	const std::string file = folder / "a.aat";
	const int round = GENERATE(range(0, 12));
	int pipes[2];
	REQUIRE(pipe(pipes) == 0);
	pid_t child = fork();
	if (child == 0) {
		trace::Recorder &recorder = newRecorder();
		recorder.open(options(Mode::ops, file));
		trace::Lane *lane = recorder.attach();
		trace::RowId ids[997] = {};
		for (int call = 0;; ++call) {
			trace::RowId &id = ids[call % 997];
			if (!id)
				id = recorder.row(row(call % 997 + 1));
			trace::InFlight inFlight(*lane, id);
			lane->record(id, 100, 200, false);
			if (call % 1000 == 0 && write(pipes[1], &call, sizeof call) != sizeof call)
				_exit(1);
		}
	}
	close(pipes[1]);
	int done = 0, last = 0;
	auto next = [&] { return ::read(pipes[0], &done, sizeof done) == sizeof done; };
	for (int reports = 0; reports < 1 + round * 7 && next(); ++reports)
		last = done;
	usleep(static_cast<useconds_t>(round * 37));
	kill(child, SIGKILL);
	while (next())
		last = done;
	waitpid(child, nullptr, 0);
	close(pipes[0]);
	auto trace = read(file);
	CHECK(trace.ended == (trace.diedInside.empty() ? "no exit seen" : "killed"));
	CHECK((trace.diedInside == "cublasSgemm_v2" || trace.diedInside.empty()));
	const uint64_t counted = calls(trace);
	CHECK(counted >= static_cast<uint64_t>(last) + 1);
	CHECK(counted <= static_cast<uint64_t>(last) + 1002);
	uint64_t seen = 0;
	trace.forEachEvent([&](const trace::EventInfo &event) {
		++seen;
		REQUIRE(trace.row(event.row)->m == static_cast<int64_t>((seen - 1) % 997 + 1));
	});
	CHECK(seen + 1 >= counted);
	CHECK(seen <= counted);
	CHECK_FALSE(trace.loss.truncated);
}
