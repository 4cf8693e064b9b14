#include "tests/unit/trace_files.h"

#include <random>

using namespace trace_test;

namespace {

std::string sample(const Folder &folder)
{
	const std::string file = folder / "sample.aat";
	trace::Recorder &recorder = newRecorder();
	recorder.open(options(trace::Mode::ops, file));
	fill(recorder, recorder.attach());
	recorder.close(0);
	return slurp(file);
}

// Reads everything; it must only return.
bool readAll(const std::string &path)
{
	std::string error;
	auto opened = trace::Trace::open(path, error);
	CHECK(opened.has_value() == error.empty());
	if (!opened) {
		CHECK(error.substr(0, path.size() + 2) == path + ": ");
		return false;
	}
	opened->forEachEvent([&](const trace::EventInfo &event) { opened->row(event.row); });
	opened->forEachKernel([&](const trace::KernelInfo &kernel) { opened->row(kernel.row); });
	return true;
}

} // namespace

TEST_CASE("a file cut at any byte is read as far as it goes")
{
	Folder folder("/dev/shm");
	const std::string whole = sample(folder), file = folder / "cut.aat";
	size_t rows = 0;
	spit(file, whole);
	for (size_t size = whole.size(); size-- > 0;) {
		if (size > 24000 && size % 64) // single events: all identical
			continue;
		std::filesystem::resize_file(file, size);
		const bool readable = readAll(file);
		if (readable != (size >= sizeof(trace::Header)))
			FAIL("at " << size);
		if (!readable)
			continue;
		auto cut = read(file);
		if (!cut.loss.truncated || (size < 24000 && cut.rows.size() < rows && size % 4096 == 1))
			FAIL("at " << size);
		rows = cut.rows.size();
	}
	CHECK(rows == 0);
}

TEST_CASE("damaged files do no harm")
{
	Folder folder("/dev/shm");
	const bool hasKernels = GENERATE(false, true);
	const std::string whole = hasKernels ? slurp(GOLDEN "/v1-kernels.aat") : sample(folder).substr(0, 20000);
	const std::string file = folder / "damaged.aat";
	std::mt19937 random(1);
	for (int round = 0; round < (hasKernels ? 600 : 3000); ++round) {
		std::string bytes = whole;
		for (unsigned hits = 1 + random() % 20; hits--;) {
			const size_t at = round % 2 ? random() % bytes.size() : 4096 + random() % 8000;
			switch (random() % 3) {
			case 0:
				bytes[at] = static_cast<char>(random());
				break;
			case 1:
				bytes[at] = static_cast<char>(0xff);
				break;
			default:
				for (size_t byte = at / 4 * 4; byte < at / 4 * 4 + 4 && byte < bytes.size(); ++byte)
					bytes[byte] = static_cast<char>(random());
			}
		}
		spit(file, bytes);
		readAll(file);
	}
	for (int round = 0; round < 200; ++round) {
		std::string bytes = whole.substr(0, round % 2 ? 4096 + 32 : 8);
		while (bytes.size() < 20000)
			bytes += static_cast<char>(random());
		spit(file, bytes);
		readAll(file);
	}
}

TEST_CASE("chunks are read in the order they were begun, wherever they lie")
{
	Folder folder;
	const std::string file = folder / "x.aat";
	trace::Recorder &recorder = newRecorder();
	REQUIRE(recorder.open(options(trace::Mode::summary, file)));
	trace::Lane *lane = recorder.attach();
	for (int64_t m = 1; m <= 500; ++m) {
		const std::string caller = "lib" + std::to_string(m); // one string per row, some in the chunk before
		auto one = row(m);
		one.caller = caller.c_str();
		lane->record(recorder.row(one), 0, 1, false);
	}
	recorder.close(0);
	std::string bytes = slurp(file);
	std::vector<size_t> places;
	for (size_t at = 4096; at < bytes.size(); at += 4096)
		if (memcmp(&bytes[at], "AACk", 4) == 0)
			places.push_back(at);
	REQUIRE(places.size() > 3);
	REQUIRE(places[2] - places[1] == places[3] - places[2]);
	std::swap_ranges(bytes.begin() + places[1], bytes.begin() + places[2], bytes.begin() + places[2]);
	spit(file, bytes);
	auto trace = read(file);
	REQUIRE(trace.rows.size() == 500);
	for (const auto &row : trace.rows)
		CHECK(row.caller == "lib" + std::to_string(row.m));
}

TEST_CASE("a file that is not a trace is reported")
{
	Folder folder;
	const std::string whole = sample(folder), file = folder / "x.aat";
	auto errorOf = [](const std::string &path) {
		std::string error;
		CHECK_FALSE(trace::Trace::open(path, error));
		return error;
	};
	CHECK(errorOf(folder / "absent") == folder / "absent: No such file or directory");
	CHECK(errorOf(folder.path) == folder.path + ": a folder, not a trace");
	CHECK(errorOf("/dev/null") == "/dev/null: not a regular file");
	spit(file, "");
	CHECK(errorOf(file) == file + ": empty file");
	spit(file, "hello, world");
	CHECK(errorOf(file) == file + ": not an autoamp trace");
	std::string other = whole;
	std::swap(other[12], other[15]);
	std::swap(other[13], other[14]);
	spit(file, other);
	CHECK(errorOf(file) == file + ": written on a machine of the other byte order");
	other = whole;
	other[8] = 9;
	spit(file, other);
	CHECK(errorOf(file) == file + ": format version 9, this program reads version 1");
}

TEST_CASE("records of unknown types are skipped")
{
	Folder folder;
	std::string bytes = sample(folder);
	const std::string file = folder / "x.aat";
	// The first record becomes one of an unknown type: the string with its id is then missing.
	REQUIRE(bytes[4096 + 32] == static_cast<char>(trace::RecordType::string));
	bytes[4096 + 32] = 99;
	spit(file, bytes);
	auto trace = read(file);
	CHECK(trace.rows.size() == 20);
	CHECK_FALSE(trace.loss.truncated);
}

TEST_CASE("a trace of format version 1 remains readable")
{
	auto trace = read(GOLDEN "/v1.aat");
	CHECK(trace.ended == "exit 0");
	CHECK(trace.command == std::vector<std::string>{"./app", "v1.aat", "0"});
	CHECK(trace.host == "golden");
	CHECK(trace.pid == 1234);
	CHECK(trace.startedNs == 1767225600e9);
	CHECK(trace.rows.size() == 20);
	CHECK(trace.rows[9].calls == 10);
	CHECK(trace.rows[9].site == "41d24ec4");
	CHECK(trace.rows[9].hostNs == Approx(10 * 100 * 0.5));
	CHECK(trace.config.size() == 2);
	CHECK(trace.scaler.size() == 1);
	CHECK(trace.notes.size() == 1);
	uint64_t events = 0, captured = 0;
	trace.forEachEvent([&](const trace::EventInfo &event) {
		++events;
		captured += event.captured;
		CHECK(event.durationNs == Approx(50));
	});
	CHECK(events == 210);
	CHECK(captured == 20);
	CHECK_FALSE(trace.loss.truncated);
}

TEST_CASE("a trace of format version 1 with kernels remains readable")
{
	auto trace = read(GOLDEN "/v1-kernels.aat");
	CHECK(trace.host == "golden");
	CHECK(trace.rows.size() == 20);
	CHECK(trace.hasKernels);
	CHECK(trace.loss.kernelsUnattributed == 2);
	CHECK(trace.loss.invalidTimestamps == 2);
	CHECK(trace.loss.kernelsDropped == 6);
	CHECK(trace.kernels.size() == 6);
	REQUIRE(trace.clocks.size() == 2);
	CHECK(trace.clocks[1].realtimeNs == 1767225600000002000);
	CHECK(trace.clocks[1].traceNs == 2000);
	const auto row = std::find_if(trace.rows.begin(), trace.rows.end(), [](auto &info) { return info.m == 5; });
	REQUIRE(row != trace.rows.end());
	CHECK((row->kernelNs == 2 * 1510 && row->castNs == 2 * 150));
	CHECK(row->tensorCores == trace::TensorCores::yes);
	REQUIRE(trace.observed.size() == 1);
	CHECK((trace.observed[0].framework == "torch" && trace.observed[0].count == 2));
	uint64_t kernels = 0;
	trace.forEachKernel([&](const trace::KernelInfo &kernel) { kernels += kernel.durationNs > 0; });
	CHECK(kernels == 14);
	CHECK_FALSE(trace.loss.truncated);
}

TEST_CASE("a trace of format version 1 with a gradient scaler remains readable")
{
	auto trace = read(GOLDEN "/v1-gradient.aat");
	REQUIRE(trace.gradientScalers.size() == 1);
	const trace::GradientScalerInfo &scaler = trace.gradientScalers[0];
	CHECK((scaler.name == "torch#0" && scaler.how == "update_kernel" && scaler.device == 0));
	CHECK((scaler.growth == 2 && scaler.backoff == 0.5 && scaler.interval == 4));
	CHECK((scaler.steps == 30 && scaler.skipped == 3 && scaler.longestSkipped == 2 && scaler.unseen == 0));
	CHECK(
	    (scaler.growths == 6 && scaler.backoffs == 3 && scaler.sets == 1 && scaler.refusals == 0 && scaler.holds == 0));
	CHECK((scaler.scaleFirst == 65536 && scaler.scaleLeast == 1024 && scaler.scaleMost == 65536));
	CHECK((scaler.scaleLast == 32768 && scaler.tracker == 0));
	CHECK((scaler.firstNs > 0 && scaler.lastNs > scaler.firstNs));
	REQUIRE(trace.gradientEvents.size() == 11);
	const trace::GradientEvent &event = trace.gradientEvents[3];
	CHECK((event.kind == "backoff" && event.step == 6 && event.scaler == scaler.id));
	CHECK((event.scaleBefore == 16384 && event.scaleAfter == 8192 && event.foundInf == 1));
	CHECK((event.trackerBefore == 3 && event.trackerAfter == 0 && event.hysteresis == -1));
	REQUIRE(trace.gradientCauses.size() == 1);
	const trace::GradientCauseInfo &cause = trace.gradientCauses[0];
	CHECK((cause.kind == "nonfinite_input" && cause.operand == 'B' && cause.step == 6 && cause.scaler == scaler.id));
	REQUIRE(trace.row(cause.row));
	REQUIRE(trace.scaler.size() == 1);
	CHECK((trace.scaler[0].timeNs == cause.timeNs && trace.scaler[0].row == cause.row));
}

TEST_CASE("the files of one run are found together")
{
	Folder folder;
	for (const char *name : {"a.aat", "a.1.aat", "a.2.aat", "a.4.aat", "b"})
		spit(folder / name, "");
	CHECK(trace::family(folder / "a.aat") ==
	      std::vector<std::string>{folder / "a.aat", folder / "a.1.aat", folder / "a.2.aat"});
	CHECK(trace::family(folder / "b") == std::vector<std::string>{folder / "b"});
	CHECK(trace::family(folder / "c").empty());

	const auto write = [](const std::string &path, const char *ids) {
		static const char *value = nullptr;
		value = ids;
		trace::Recorder &recorder = newRecorder();
		auto options = trace_test::options(trace::Mode::summary, path);
		options.lookup = [](const char *name) { return strcmp(name, trace::kRunVariable) == 0 ? value : nullptr; };
		REQUIRE(recorder.open(options));
		recorder.close(0);
	};
	for (const char *ids : {"1a:1a", "2b:2b", "1a:1a", "3c:1a", "", "1a", "1a:", "x:y"})
		write(folder / "r.aat", ids);
	CHECK(trace::family(folder / "r.aat") ==
	      std::vector<std::string>{folder / "r.aat", folder / "r.2.aat", folder / "r.3.aat"});
	CHECK(trace::runIdsOf(folder / "r.3.aat")->inner == 0x3c);
	CHECK(trace::runIdsOf(folder / "r.3.aat")->outer == 0x1a);
	for (const char *name : {"r.4.aat", "r.5.aat", "r.6.aat", "r.7.aat"}) // text that is not an id gives no id
		CHECK((trace::runIdsOf(folder / name)->inner == 0 && trace::runIdsOf(folder / name)->outer == 0));
	CHECK_FALSE(trace::runIdsOf(folder / "a.aat"));
	CHECK_FALSE(trace::runIdsOf(folder / "c"));
}
