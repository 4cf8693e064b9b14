// Calls of a CPU BLAS: cost model, decisions, and the file of constants.
#include "src/config/read_options.h"
#include "src/policy/cpu_calibration.h"
#include "src/policy/decide.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <string>
#include <vector>

using namespace autoamp;
using namespace autoamp::policy;
using op::Dtype;
using op::Kind;

namespace {

const char *const entryNames[] = {"cublasSgemm_v2", "cblas_sgemm", "sgemm_", "scipy_cblas_sgemm64_"};
constexpr uint16_t gpuEntry = 0, cpuEntry = 1;

State stateOf(std::vector<const char *> environment, const std::string &file = {})
{
	environment.push_back(nullptr);
	const ConfigFile config = {"f.toml", file};
	auto [options, error] = parseOptions(environment.data(), entryNames, {&config, 1});
	REQUIRE(error == "");
	return State(options);
}

op::Op product(int64_t m, int64_t n, int64_t k, Kind kind = Kind::mm)
{
	op::Op call;
	call.entry = cpuEntry;
	call.library = op::Library::blas;
	call.device = op::cpuDevice;
	call.kind = kind;
	call.a = call.b = call.out = call.asked = Dtype::float32;
	call.m = m, call.n = n, call.k = k;
	call.lda = m, call.ldb = k, call.ldc = call.ldd = m;
	return call;
}

Cpu cpuOf(unsigned threads, bool usesThreads)
{
	Cpu cpu;
	cpu.hasBfloat16 = true, cpu.threads = threads, cpu.usesThreads = usesThreads;
	return cpu;
}

const Cpu one = cpuOf(1, false), two = cpuOf(2, true), split = cpuOf(2, false), old = {};

Device deviceOf(const Cpu &cpu)
{
	Device device = {};
	device.cpu = &cpu;
	return device;
}

Decision decided(const op::Op &call, const State &state, const Cpu &cpu = one)
{
	return decide(call, state, {}, deviceOf(cpu));
}

void expect(const Decision &decision, Verdict verdict, Reason reason, bool needsKept = false)
{
	INFO("got " << name(decision.verdict) << " " << name(decision.reason) << " " << decision.estimate << " "
	            << decision.estimateLowered);
	CHECK(decision.verdict == verdict);
	CHECK(decision.reason == reason);
	CHECK(decision.needsKept == needsKept);
	const bool isLowered = verdict == Verdict::lowered;
	CHECK(decision.precision == (isLowered ? Dtype::bfloat16 : Dtype::float32));
	if (verdict != Verdict::observed)
		CHECK(decision.strategy == (isLowered ? Strategy::cast : Strategy::fp32));
}

void expectKept(const Decision &decision, Reason reason)
{
	expect(decision, Verdict::kept, reason);
}

const op::Op large = product(1024, 1024, 1024), few = product(4096, 1, 4096);

} // namespace

// us on one thread of a Zen 4 (OpenBLAS 0.3.21, matmul primitives of oneDNN 2.6.3, with three weights in turn for
// `kept`).
TEST_CASE("the CPU model is near measured times")
{
	const struct {
		int64_t m, n, k;
		double single, converted, kept; // 0: not measured
	} rows[] = {
	    {64, 64, 64, 4.77, 3.62, 0},
	    {96, 96, 96, 15.5, 9.9, 0},
	    {128, 128, 128, 42.8, 23.0, 0},
	    {256, 256, 256, 332, 164, 0},
	    {512, 512, 512, 2711, 1297, 0},
	    {1024, 1024, 1024, 21'500, 10'900, 0},
	    {4096, 4096, 4096, 1'309'000, 705'000, 0},
	    {4096, 512, 512, 21'900, 10'900, 0},
	    {4096, 128, 4096, 49'400, 29'200, 0},
	    {4096, 64, 4096, 28'600, 19'000, 10'100},
	    {4096, 32, 4096, 19'900, 14'500, 5'500},
	    {4096, 16, 4096, 14'500, 13'100, 3'100},
	    {4096, 8, 4096, 12'500, 11'200, 2'100},
	    {4096, 1, 4096, 10'800, 10'200, 1'900},
	};
	for (const auto &row : rows) {
		const op::Op call = product(row.m, row.n, row.k);
		INFO(row.m << " " << row.n << " " << row.k);
		CHECK(cpuTime(one, call, CpuPath::single) == Approx(1e3 * row.single).epsilon(.25));
		CHECK(cpuTime(one, call, CpuPath::converted) == Approx(1e3 * row.converted).epsilon(.25));
		if (row.kept > 0)
			CHECK(cpuTime(one, call, CpuPath::kept) == Approx(1e3 * row.kept).epsilon(.25));
		const op::Op turned = product(row.n, row.m, row.k);
		for (const CpuPath path : {CpuPath::single, CpuPath::converted, CpuPath::kept})
			CHECK(cpuTime(one, turned, path) == Approx(cpuTime(one, call, path)));
	}
	// Two threads of both libraries: 188 and 100 us at 256^3.
	CHECK(cpuTime(two, product(256, 256, 256), CpuPath::single) == Approx(188e3).epsilon(.25));
	CHECK(cpuTime(two, product(256, 256, 256), CpuPath::converted) == Approx(100e3).epsilon(.25));
	CHECK(cpuTime(split, large, CpuPath::converted) == cpuTime(one, large, CpuPath::converted));
	CHECK(cpuTime(one, product(16, 16, 16), CpuPath::converted) > cpuTime(one, product(16, 16, 16), CpuPath::single));
	op::Op batched = large;
	batched.batch = 3;
	CHECK(cpuTime(one, batched, CpuPath::single) == Approx(3 * cpuTime(one, large, CpuPath::single)));
}

// us on one thread of a Xeon (family 6, model 207) without AMX: OpenBLAS 0.3.21 with the kernels SkylakeX, three
// weights in turn.
TEST_CASE("an Intel CPU without AMX gains with few rows only")
{
	Cpu xeon = builtInCpu(CpuModel::xeon);
	xeon.hasBfloat16 = true;
	const struct {
		int64_t rows;
		double single, kept;
	} rows[] = {{1, 11'900, 2'440},   {8, 12'900, 3'690},    {16, 13'400, 5'370},  {32, 18'800, 9'530},
	            {64, 26'200, 20'300}, {128, 36'000, 33'900}, {256, 64'300, 71'900}};
	const State usual = stateOf({});
	for (const auto &[count, single, kept] : rows) {
		const op::Op call = product(4096, count, 4096);
		INFO(count);
		CHECK(cpuTime(xeon, call, CpuPath::single) == Approx(1e3 * single).epsilon(.25));
		CHECK(cpuTime(xeon, call, CpuPath::kept) == Approx(1e3 * kept).epsilon(.25));
		if (count > 64)
			expectKept(decided(call, usual, xeon), Reason::not_profitable);
		else
			expect(decided(call, usual, xeon), Verdict::lowered, Reason::white_list, true);
	}
	expectKept(decided(product(4096, 4096, 8), usual, xeon), Reason::not_profitable);
	for (const int64_t n : {64, 128, 256, 512, 1024, 4096})
		CHECK_FALSE(decided(product(n, n, n), usual, xeon).verdict == Verdict::lowered);
}

TEST_CASE("a CPU has the constants of the nearest measured one")
{
	CHECK((cpuModelOf(25, false) == CpuModel::zen4 && cpuModelOf(26, false) == CpuModel::zen5));
	CHECK((cpuModelOf(27, false) == CpuModel::zen4 && cpuModelOf(6, true) == CpuModel::zen4));
	CHECK((cpuModelOf(6, false) == CpuModel::xeon && cpuModelOf(19, false) == CpuModel::xeon));
}

TEST_CASE("an OpenBLAS with kernels for older CPUs is slower")
{
	Cpu xeon = builtInCpu(CpuModel::xeon);
	xeon.hasBfloat16 = true;
	const auto speed = [&xeon](const char *kernels) {
		return librarySpeed(xeon, std::string("OpenBLAS 0.3.21 DYNAMIC_ARCH ") + kernels + " MAX_THREADS=64");
	};
	for (const char *best : {"SkylakeX", "Cooperlake", "SapphireRapids", "SKYLAKEX"})
		CHECK(speed(best) == 1);
	CHECK((librarySpeed(xeon, "") == 1 && librarySpeed(xeon, "BLIS 0.9.0") == 1 && speed("") == 1));
	CHECK((speed("Haswell") == xeon.avx2Speed && speed("ZEN") == xeon.avx2Speed));
	CHECK((speed("Prescott") == xeon.olderSpeed && speed("NEHALEM") == xeon.olderSpeed));
	CHECK(librarySpeed(cpuOf(1, false), "OpenBLAS Prescott") == 1); // not measured

	// GFLOP/s of the same library and CPU at 1024^3: 145 (SkylakeX), 78 (Haswell), 31 (Prescott).
	const auto flops = [&xeon](double librarySpeed) {
		Cpu cpu = xeon;
		cpu.librarySpeed = librarySpeed;
		return 2 * std::pow(1024., 3) / cpuTime(cpu, large, CpuPath::single);
	};
	CHECK(flops(1) == Approx(145).epsilon(.1));
	CHECK(flops(xeon.avx2Speed) == Approx(78).epsilon(.1));
	CHECK(flops(xeon.olderSpeed) == Approx(31).epsilon(.1));

	const State usual = stateOf({});
	for (const double each : {xeon.avx2Speed, xeon.olderSpeed}) {
		xeon.librarySpeed = each;
		expect(decided(large, usual, xeon), Verdict::lowered, Reason::white_list);
	}
	// Sizes only decide for every library.
	xeon.librarySpeed = 1;
	const op::Op small = product(64, 64, 64);
	CHECK_FALSE(dependsOnSizesOnly(decided(small, usual, xeon), small, xeon));
}

TEST_CASE("auto lowers the CPU products that gain")
{
	const State usual = stateOf({}), off = stateOf({"AUTOAMP_WEIGHTS=off"});
	enum Way { small, kept, converted, weight };
	const struct {
		int64_t m, n, k;
		Way single, shared; // on one thread, on two of both libraries
	} rows[] = {
	    {16, 16, 16, small, small},
	    {32, 32, 32, small, small},
	    {64, 64, 64, kept, kept},
	    {96, 96, 96, kept, kept},
	    {128, 128, 128, converted, converted},
	    {1024, 1024, 1024, converted, converted},
	    {1024, 32, 1024, converted, converted},
	    {4096, 64, 4096, converted, converted},
	    {4096, 16, 4096, converted, converted},
	    {4096, 8, 4096, weight, weight},
	    {4096, 1, 4096, weight, weight},
	    {1, 4096, 4096, weight, weight},
	    {256, 1, 256, kept, kept},
	};
	for (const auto &row : rows)
		for (const bool isShared : {false, true}) {
			const op::Op call = product(row.m, row.n, row.k);
			const Cpu &cpu = isShared ? two : one;
			INFO(row.m << " " << row.n << " " << row.k << " threads " << cpu.threads);
			const Way way = isShared ? row.shared : row.single;
			const Decision decision = decided(call, usual, cpu), without = decided(call, off, cpu);
			if (way == small || way == kept)
				expectKept(decision, way == small ? Reason::too_small : Reason::not_profitable);
			else
				expect(decision, Verdict::lowered, Reason::white_list, way == weight);
			if (way == weight) {
				expectKept(without, Reason::not_profitable);
				CHECK(decision.estimateLowered < without.estimateLowered);
			} else {
				CHECK(without.verdict == decision.verdict);
				CHECK(without.estimateLowered == decision.estimateLowered);
			}
			CHECK(decision.estimate == static_cast<float>(cpuTime(cpu, call, CpuPath::single)));
		}
	// The program's library has two threads, a lowered product one.
	expectKept(decided(large, usual, split), Reason::not_profitable);
	expect(decided(few, usual, split), Verdict::lowered, Reason::white_list, true);
	// The last layer of a classifier: 156 us on two threads, 270 us lowered on the one thread that its work allows.
	Cpu sleeping = two;
	sleeping.perThread = 1 << 23;
	const op::Op last = product(10000, 10, 100);
	CHECK(cpuTime(sleeping, last, CpuPath::converted) == cpuTime(one, last, CpuPath::converted));
	expectKept(decided(last, off, sleeping), Reason::not_profitable);
}

TEST_CASE("time saved on our threads pays for products that do not gain")
{
	Cpu cpu = builtInCpu(CpuModel::zen5);
	cpu.hasBfloat16 = cpu.usesThreads = cpu.hasTwoPools = true, cpu.threads = 2, cpu.perThread = 1 << 23;
	const State usual = stateOf({}), off = stateOf({"AUTOAMP_WEIGHTS=off"});
	const op::Op large = product(512, 512, 512), thin = product(1024, 512, 10), narrow = product(1024, 10, 512);
	const auto loss = [&](const op::Op &call) {
		return cpuTime(cpu, call, CpuPath::converted) - cpuTime(cpu, call, CpuPath::single) + cpu.fork;
	};

	// It runs on our threads, and saves what it gains. 200³ runs on one thread, and delays no other product.
	const Decision saving = decided(large, usual, cpu);
	expect(saving, Verdict::lowered, Reason::white_list);
	CHECK(saving.saved == Approx(saving.estimate - saving.estimateLowered));
	expect(decided(product(200, 200, 200), usual, cpu), Verdict::lowered, Reason::white_list);
	CHECK(decided(product(200, 200, 200), usual, cpu).saved == 0);

	const Decision paid = decided(thin, usual, cpu);
	expect(paid, Verdict::lowered, Reason::white_list);
	CHECK(paid.saved == Approx(-loss(thin)));
	CHECK(paid.estimateLowered > paid.estimate);
	CHECK_FALSE(dependsOnSizesOnly(paid, thin, cpu));
	const Decision weight = decided(narrow, usual, cpu);
	expect(weight, Verdict::lowered, Reason::white_list, true);
	CHECK(weight.saved == Approx(-loss(narrow)));
	CHECK(decided(narrow, off, cpu).saved == weight.saved);

	// Not worth all that can be saved; not on threads of the library; demanded; other pools.
	Cpu older = builtInCpu(CpuModel::zen4);
	older.hasBfloat16 = older.usesThreads = older.hasTwoPools = true, older.threads = 2, older.perThread = 1 << 23;
	expectKept(decided(product(4000, 512, 8), off, older), Reason::not_profitable);
	expectKept(decided(product(256, 8, 64), usual, cpu), Reason::too_small);
	CHECK(decided(thin, stateOf({"AUTOAMP_STRATEGY=cast"}), cpu).saved == 0);
	expect(decided(thin, stateOf({"AUTOAMP_LEVEL=O0"}), cpu), Verdict::observed, Reason::not_profitable);
	cpu.hasTwoPools = false;
	expectKept(decided(thin, usual, cpu), Reason::not_profitable);
	CHECK(decided(large, usual, cpu).saved == 0);
}

TEST_CASE("a weight is one matrix of at least 256 KiB")
{
	CHECK(hasWeight(product(256, 1, 256)));
	CHECK_FALSE(hasWeight(product(255, 1, 256)));
	CHECK_FALSE(hasWeight(product(65536, 1, 127)));
	CHECK(hasWeight(product(512, 256, 256)));
	CHECK_FALSE(hasWeight(product(511, 256, 256))); // more than half as many rows
	CHECK_FALSE(hasWeight(product(4096, 257, 4096)));
	op::Op batched = few;
	batched.batch = 2;
	CHECK_FALSE(hasWeight(batched));
	expectKept(decided(batched, stateOf({})), Reason::not_profitable);
	expect(decided(few, stateOf({"AUTOAMP_WEIGHTS=frozen"})), Verdict::lowered, Reason::white_list, true);
	// A demand needs no gain, and hence no kept weight.
	expect(decided(few, stateOf({"AUTOAMP_STRATEGY=cast"})), Verdict::lowered, Reason::white_list);
	expect(decided(few, stateOf({}, "[[rule]]\nprecision = \"bfloat16\"\n")), Verdict::lowered, Reason::rule);
	const Decision observed = decided(few, stateOf({"AUTOAMP_LEVEL=O0"}));
	expect(observed, Verdict::observed, Reason::white_list, true);
	CHECK(observed.strategy == Strategy::cast);
}

TEST_CASE("a CPU multiplies in bfloat16 alone")
{
	expect(decided(large, stateOf({})), Verdict::lowered, Reason::white_list);
	expect(decided(large, stateOf({"AUTOAMP_DTYPE=bf16", "AUTOAMP_SCALING=strict"})), Verdict::lowered,
	       Reason::white_list);
	for (const char *type : {"AUTOAMP_DTYPE=float16", "AUTOAMP_DTYPE=tf32"}) {
		expectKept(decided(large, stateOf({type})), Reason::unsupported);
		expect(decided(large, stateOf({type}, "[[rule]]\nprecision = \"bfloat16\"\n")), Verdict::lowered, Reason::rule);
	}
	for (const char *type : {"float16", "tf32"}) {
		const State state = stateOf({}, std::string("[[rule]]\nprecision = \"") + type + "\"\n");
		expectKept(decided(large, state), Reason::unsupported);
	}
	CHECK(causeOf(large, Reason::unsupported) == op::Cause::cpu_type);
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=fp32"})), Reason::disabled);
	const std::vector<const char *> library = {"AUTOAMP_STRATEGY=library", "AUTOAMP_DTYPE=bfloat16"};
	for (const auto &settings : {library, {"AUTOAMP_STRATEGY=tf32"}, {"AUTOAMP_STRATEGY=tf32", "AUTOAMP_DTYPE=tf32"}}) {
		expectKept(decided(large, stateOf(settings)), Reason::unsupported);
		expect(decided(large, stateOf(settings, "[[rule]]\nprecision = \"bfloat16\"\n")), Verdict::lowered,
		       Reason::rule);
	}
	expectKept(decided(large, stateOf({}), old), Reason::cpu_too_old);
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=cast"}), old), Reason::cpu_too_old);

	const Candidates candidates = candidatesFor(few, stateOf({}), deviceOf(one));
	CHECK((candidates[0].isAvailable() && candidates[1].isAvailable()));
	CHECK((candidates[1].needsKept && candidates[1].precision == Dtype::bfloat16));
	for (const size_t i : {2, 3})
		CHECK((candidates[i].why == Reason::disabled && candidates[i].estimate < 0));
}

TEST_CASE("a region sets the type of CPU calls only if it names one")
{
	const char *const nothing = nullptr;
	const Options around = parseOptions(&nothing, entryNames).options;
	const Change type[] = {{"AUTOAMP_DTYPE", "float16"}}, level[] = {{"AUTOAMP_STRATEGY", "cast"}};
	expectKept(decided(large, State(policy::changed(around, type, entryNames).options)), Reason::unsupported);
	expect(decided(large, State(policy::changed(around, level, entryNames).options)), Verdict::lowered,
	       Reason::white_list);
}

TEST_CASE("obstacles, lists and rules decide about CPU calls")
{
	op::Op call = large;
	call.obstacle = op::Obstacle::solver_caller;
	expectKept(decided(call, stateOf({"AUTOAMP_STRATEGY=cast"})), Reason::solver_caller);
	expectKept(decided(product(0, 8, 8), stateOf({})), Reason::zero_size);
	expectKept(decided(large, stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=cblas_sgemm"})), Reason::custom_black_list);
	expectKept(decided(large, stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=linear"})), Reason::custom_black_list);
	expect(decided(large, stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=cublas*"})), Verdict::lowered, Reason::white_list);
	expect(decided(product(1024, 1024, 1024, Kind::bmm), stateOf({"AUTOAMP_CUSTOM_WHITE_LIST=bmm"})), Verdict::lowered,
	       Reason::custom_white_list);
	for (const char *lists : {"AUTOAMP_LISTS=paddle", "AUTOAMP_LISTS=mindspore"})
		expect(decided(large, stateOf({lists})), Verdict::lowered, Reason::white_list);
	State region = stateOf({});
	region.isRegionOff = true;
	expectKept(decided(large, region), Reason::region_disabled);
	expectKept(decided(large, stateOf({"AUTOAMP_ENABLED=0"})), Reason::disabled);
}

TEST_CASE("rules select CPU calls by their device")
{
	op::Op onGpu = large;
	onGpu.entry = gpuEntry, onGpu.library = op::Library::cublas, onGpu.device = 1;
	const auto matches = [](const char *device, const op::Op &call) {
		const State state = stateOf({}, std::string("[[rule]]\n") + device + "\nprecision = \"float32\"\n");
		return state.rules->find(call, {}).precision != nullptr;
	};
	const struct {
		const char *device;
		bool isCpu, isGpu;
	} rows[] = {{"", true, true},
	            {"device = \"cpu\"", true, false},
	            {"device = 1", false, true},
	            {"device = \">=0\"", false, true},
	            {"device = 65534", false, false}};
	for (const auto &row : rows) {
		INFO(row.device);
		CHECK(matches(row.device, large) == row.isCpu);
		CHECK(matches(row.device, onGpu) == row.isGpu);
	}
	const auto shadowed = stateOf({}, "[[rule]]\ndevice = \">=0\"\nprecision = \"float32\"\n"
	                                  "[[rule]]\ndevice = \"cpu\"\nprecision = \"bfloat16\"\n");
	CHECK(shadowed.rules->warnings().empty());
	CHECK(stateOf({}, "[[rule]]\ndevice = 65534\nprecision = \"float32\"\n").rules->warnings().size() == 1);
	const auto warningOf = [](const std::string &conditions) {
		const auto state = stateOf({}, "[[rule]]\n" + conditions + "\nprecision = \"bfloat16\"\n");
		const auto lines = state.rules->warnings();
		return lines.empty() ? "" : lines.front().substr(lines.front().find("matches: ") + 9);
	};
	for (const char *possible :
	     {"device = \"cpu\"\nentry = \"*gemm*\"", "device = 0\nentry = \"*gemm*\"", "device = \"cpu\"\nop = \"linear\"",
	      "device = \"cpu\"\nop = \"mm\"\nentry = \"sgemm_\""})
		CHECK(warningOf(possible) == "");
	CHECK(warningOf("device = \"cpu\"\nentry = \"cublasSgemm*\"") ==
	      R"(entry = "cublasSgemm*" matches no entry point of a product on that device)");
	CHECK(warningOf("device = \">=0\"\nentry = \"cblas_sgemm\"") ==
	      R"(entry = "cblas_sgemm" matches no entry point of a product on that device)");
	CHECK(warningOf("device = \"cpu\"\nop = \"conv2d\"") ==
	      R"(op = "conv2d" reaches no product that autoamp intercepts on that device)");
	const ConfigFile file = {"f.toml", "[[rule]]\nm = \"cpu\"\nprecision = \"float32\"\n"};
	const char *const nothing = nullptr;
	CHECK_FALSE(parseOptions(&nothing, entryNames, {&file, 1}).error.empty());
}

TEST_CASE("the file of constants is read only whole, and on its CPU")
{
	Cpu made = two;
	made.cache = 12345678, made.rates[2].far = 0.1 / 3, made.keptLeast = 1e-3;
	const std::string text = textOf(made, "Some CPU 9=1", "libblas.so"), other = "Some CPU";
	Cpu read = cpuOf(4, false);
	std::string blas;
	CHECK(readCalibration(text, "Some CPU 9=1", read, &blas) == "");
	CHECK(blas == "libblas.so");
	CHECK(read.name == std::string("calibrated"));
	CHECK((read.threads == 4 && read.hasBfloat16 && !read.usesThreads));
	CHECK((read.cache == made.cache && read.rates[2].far == made.rates[2].far && read.keptLeast == made.keptLeast));
	CHECK(textOf(read, "Some CPU 9=1", "libblas.so") == text);

	const auto refused = [](const std::string &changed, const char *model = "Some CPU 9=1") {
		Cpu cpu = one;
		const std::string why = readCalibration(changed, model, cpu);
		CHECK(textOf(cpu, "", "") == textOf(one, "", ""));
		CHECK(cpu.name == std::string("built-in"));
		return why;
	};
	CHECK(refused(text, "Some CPU") == "it was made on another CPU");
	CHECK(refused("") == "it has another version, or is not a calibration");
	CHECK(refused("version=1" + text.substr(9)) == "it has another version, or is not a calibration");
	for (size_t length = text.find("\n", 16); length < text.size(); ++length)
		CHECK(refused(text.substr(0, length)) == "it is damaged");
	for (size_t at = 16; at < text.size(); ++at) {
		std::string changed = text;
		changed[at] ^= 1;
		REQUIRE(refused(changed) != "");
	}
	CHECK(refused(text + "\n") == "it is damaged");
	for (const double bad : {0., -1., static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
		Cpu wrong = one;
		wrong.rates[1].flops = bad;
		CHECK(refused(textOf(wrong, "Some CPU 9=1", "libblas.so")) == "it is damaged");
	}
}

TEST_CASE("a decision that depends on sizes only is the same for each number of threads")
{
	const State states[] = {stateOf({}), stateOf({"AUTOAMP_LEVEL=O0"}), stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=mm"})};
	int byTime = 0, byOthers = 0;
	for (const State &state : states)
		for (const CpuModel model : {CpuModel::zen4, CpuModel::zen5, CpuModel::xeon})
			for (int64_t n = 8; n <= 512; n += 8)
				for (unsigned first : {1, 2, 8}) {
					Cpu cpu = builtInCpu(model);
					cpu.hasBfloat16 = true, cpu.threads = first;
					const op::Op call = product(n, n, n);
					const Decision decision = decided(call, state, cpu);
					if (!decision.isUnchanged() || !dependsOnSizesOnly(decision, call, cpu))
						continue;
					++(&state == states ? byTime : byOthers);
					for (unsigned threads : {1, 2, 4, 16})
						for (bool usesThreads : {false, true}) {
							cpu.threads = threads, cpu.usesThreads = usesThreads;
							CHECK(decided(call, state, cpu).isUnchanged());
						}
				}
	CHECK((byTime > 20 && byOthers > 2 * 64 * 3)); // all of the black list, and some at O0
}
