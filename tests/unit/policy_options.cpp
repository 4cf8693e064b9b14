#include "src/config/read_options.h"
#include "src/lists/lists.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <set>

using namespace autoamp;
using namespace autoamp::policy;

namespace {

const char *const entryNames[] = {"cublasSgemm_v2", "cublasSgemm_v2_64", "cublasGemmEx", "cublasSaxpy_v2",
                                  "cublasLtMatmul"};

ParsedOptions parse(std::vector<const char *> environment)
{
	environment.push_back(nullptr);
	return parseOptions(environment.data(), entryNames);
}

} // namespace

TEST_CASE("an empty environment gives the table's defaults")
{
	auto [options, error] = parse({"PATH=/bin", "HOME=/home/someone", "broken", "AUTOAM=1"});
	REQUIRE(error.empty());
	CHECK(options.enabled);
	CHECK(options.level == Level::O1);
	CHECK(options.dtype == op::Dtype::float16);
	CHECK(options.memory == 1u << 30);
	CHECK(options.trace == TraceLevel::summary);
	CHECK(options.traceMaxSize == 256u << 20);
	CHECK(options.hookDlsym);
	CHECK(options.tf32Allowed);
	CHECK(options.directory == "/home/someone/.local/state/autoamp");
	CHECK(options.traceFile == "/home/someone/.local/state/autoamp/%e.%t.%p.aat");
	CHECK(options.originOf(Option::level) == Origin::fallback);
	CHECK(options.valueOf(Option::level) == "O1");

	// The defaults of the struct are those that help prints.
	for (const OptionRow &row : optionTable()) {
		if (row.type != ValueType::choice && row.type != ValueType::size && row.type != ValueType::time &&
		    row.type != ValueType::fraction)
			continue;
		Options standard = parse({"HOME=/home/someone"}).options;
		std::string setting = std::string(row.name) + "=" + row.fallback;
		auto typed = parse({"HOME=/home/someone", setting.c_str()});
		INFO(setting);
		REQUIRE(typed.error.empty());
		Options &o = typed.options;
		auto values = [](const Options &x) {
			return std::make_tuple(x.enabled, x.level, x.dtype, x.lists, x.scaling, x.strategy, x.memory, x.trace,
			                       x.traceMaxSize, x.log, x.hookDlsym, x.gpuModel, x.cpuModel, x.delayNs, x.durationNs,
			                       x.auditPeriod, x.weights, x.weightsOnCpu);
		};
		CHECK(values(o) == values(standard));
	}
}

TEST_CASE("every accepted word arrives in its field")
{
	CHECK_FALSE(parse({"AUTOAMP_ENABLED=0"}).options.enabled);
	CHECK(parse({"AUTOAMP_LEVEL=O0"}).options.level == Level::O0);
	for (const char *name : {"AUTOAMP_DTYPE=float16", "AUTOAMP_DTYPE=fp16", "AUTOAMP_DTYPE=half"})
		CHECK(parse({name}).options.dtype == op::Dtype::float16);
	for (const char *name : {"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_DTYPE=bf16"})
		CHECK(parse({name}).options.dtype == op::Dtype::bfloat16);
	CHECK(parse({"AUTOAMP_SCALING=off"}).options.scaling == Scaling::off);
	CHECK(parse({"AUTOAMP_SCALING=strict"}).options.scaling == Scaling::strict);
	CHECK(parse({"AUTOAMP_ROUND_OUTPUT=1"}).options.roundOutput);
	CHECK_FALSE(parse({}).options.roundOutput);
	CHECK(parse({"AUTOAMP_STRATEGY=cast"}).options.strategy == StrategyChoice::cast);
	CHECK(parse({"AUTOAMP_STRATEGY=fp32"}).options.strategy == StrategyChoice::fp32);
	CHECK(parse({"AUTOAMP_TRACE=off"}).options.trace == TraceLevel::off);
	CHECK(parse({"AUTOAMP_TRACE=ops"}).options.trace == TraceLevel::ops);
	CHECK(parse({"AUTOAMP_LOG=debug"}).options.log == LogLevel::debug);
	CHECK_FALSE(parse({"AUTOAMP_HOOK_DLSYM=0"}).options.hookDlsym);
	CHECK(parse({"AUTOAMP_HOOK_DLSYM=got"}).options.hookDlsym);
	CHECK(parse({"AUTOAMP_GPU_MODEL=h200"}).options.gpuModel == GpuModel::h200);
	CHECK(parse({"AUTOAMP_CPU_MODEL=xeon"}).options.cpuModel == CpuModel::xeon);
	CHECK(parse({"AUTOAMP_GPU_MODEL=rtx4090"}).options.gpuModel == GpuModel::rtx4090);
	CHECK(parse({"AUTOAMP_WEIGHTS=off"}).options.weightsOnCpu == Weights::off);
	CHECK(parse({"AUTOAMP_WEIGHTS=checked"}).options.weights == Weights::checked);
	CHECK(parse({"AUTOAMP_WEIGHTS=watched"}).options.weightsOnCpu == Weights::watched);
	CHECK(parse({"AUTOAMP_WEIGHTS=frozen"}).options.weights == Weights::frozen);
	CHECK(parse({}).options.dtypeOnCpu == op::Dtype::bfloat16);
	CHECK(parse({"AUTOAMP_DTYPE=float16"}).options.dtypeOnCpu == op::Dtype::float16);
	CHECK(parse({"AUTOAMP_MEMORY=512K"}).options.memory == 512u << 10);
	CHECK(parse({"AUTOAMP_MEMORY=0"}).options.memory == 0);
	CHECK(parse({"AUTOAMP_TRACE_MAX_SIZE=123"}).options.traceMaxSize == 123);
	CHECK(parse({"AUTOAMP_DELAY=1.5"}).options.delayNs == 1'500'000'000);
	CHECK(parse({"AUTOAMP_DURATION=2m"}).options.durationNs == 120'000'000'000);
	for (const auto &[text, period] :
	     std::initializer_list<std::pair<const char *, uint32_t>>{{"0", 0},
	                                                              {"0.0", 0},
	                                                              {"1", 1},
	                                                              {"1.0", 1},
	                                                              {"0.5", 2},
	                                                              {".25", 4},
	                                                              {"0.01", 100},
	                                                              {"0.3", 3},
	                                                              {"0.7", 1},
	                                                              {"0.000001", 1'000'000}}) {
		const auto parsed = parse({("AUTOAMP_AUDIT=" + std::string(text)).c_str()});
		INFO(text);
		CHECK((parsed.error.empty() && parsed.options.auditPeriod == period));
	}
	for (const char *text : {"", ".", "1.1", "2", "-0.1", "0.", "1e-2", "0.0000001", "0x1", "nan", "0,5", "10"})
		CHECK(parse({("AUTOAMP_AUDIT=" + std::string(text)).c_str()}).error ==
		      "AUTOAMP_AUDIT=" + std::string(text) +
		          ": bad value; accepted: 0 to 1 with at most six decimals, such as 0.01");
	CHECK(parse({"AUTOAMP_CAPTURE_RANGE=nvtx:train"}).options.captureRange.name == "train");
	CHECK(parse({"AUTOAMP_CAPTURE_RANGE="}).options.originOf(Option::captureRange) == Origin::fallback);
	CHECK_FALSE(parse({"NVIDIA_TF32_OVERRIDE=0"}).options.tf32Allowed);
	CHECK(parse({"NVIDIA_TF32_OVERRIDE=1"}).options.tf32Allowed);
	CHECK(parse({"CUBLAS_EMULATE_SINGLE_PRECISION=1"}).options.emulatesSingle);
	CHECK_FALSE(parse({"CUBLAS_EMULATE_SINGLE_PRECISION=0"}).options.emulatesSingle);

	Options paths = parse({"AUTOAMP_DIR=/d", "XDG_STATE_HOME=/x"}).options;
	CHECK(paths.traceFile == "/d/%e.%t.%p.aat");
	CHECK(paths.originOf(Option::directory) == Origin::environment);
	CHECK(parse({"AUTOAMP_TRACE_FILE=%p.aat"}).options.traceFile == "%p.aat");
	CHECK(parse({"XDG_STATE_HOME=/x", "HOME=/h"}).options.directory == "/x/autoamp");
	CHECK(parse({"XDG_STATE_HOME=relative", "HOME=/h", "AUTOAMP_DIR="}).options.directory == "/h/.local/state/autoamp");
	CHECK(parse({}).options.traceFile.empty());

	auto twice = parse({"AUTOAMP_LEVEL=O0", "AUTOAMP_LEVEL=O1"});
	CHECK(twice.options.level == Level::O0);
	CHECK(twice.options.valueOf(Option::level) == "O0");
	CHECK(parse({"AUTOAMP_DIR=", "AUTOAMP_DIR=/d", "HOME=/h"}).options.directory == "/h/.local/state/autoamp");
}

TEST_CASE("an error is one line")
{
	struct {
		const char *setting, *error;
	} const cases[] = {
	    {"AUTOAMP_LEVL=O1", "AUTOAMP_LEVL=O1: no such variable; did you mean AUTOAMP_LEVEL?"},
	    {"AUTOAMP_USE_PROMOTE=2", "AUTOAMP_USE_PROMOTE=2: bad value; accepted: 0, 1"},
	    {"AUTOAMP_LEVEL=O2", "AUTOAMP_LEVEL=O2: not a level of AUTOAMP_LISTS=torch; accepted: O0, O1"},
	    {"AUTOAMP_LEVEL=", "AUTOAMP_LEVEL=: bad value; accepted: O0, O1, O2, O3, auto, OD"},
	    {"AUTOAMP_DTYPE=fp8", "AUTOAMP_DTYPE=fp8: bad value; accepted: float16 (fp16 half), bfloat16 (bf16), tf32"},
	    {"AUTOAMP_LISTS=tf", "AUTOAMP_LISTS=tf: bad value; accepted: torch, paddle, mindspore"},
	    {"AUTOAMP_STRATEGY=split3", "AUTOAMP_STRATEGY=split3: bad value; accepted: auto, cast, fp32, library, tf32"},
	    {"AUTOAMP_HOOK_DLSYM=yes", "AUTOAMP_HOOK_DLSYM=yes: bad value; accepted: 0, 1, got"},
	    {"AUTOAMP_TRACE=all", "AUTOAMP_TRACE=all: bad value; accepted: off, summary, ops, kernels"},
	    {"AUTOAMP_ENABLED=yes\nno", "AUTOAMP_ENABLED=yes\\x0ano: bad value; accepted: 0, 1"},
	    {"AUTOAMP_MEMORY=1T", "AUTOAMP_MEMORY=1T: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=", "AUTOAMP_MEMORY=: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=G", "AUTOAMP_MEMORY=G: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=-1", "AUTOAMP_MEMORY=-1: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=99999999999999999G",
	     "AUTOAMP_MEMORY=99999999999999999G: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=mm,conv2",
	     "AUTOAMP_CUSTOM_WHITE_LIST=mm,conv2: no op or entry point 'conv2'; did you mean conv2d?"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem_v2", "AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem_v2: no op or entry point "
	                                                "'cublasSgem_v2'; did you mean cublasSgemm_v2?"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=torch:cublasSgemm_v2",
	     "AUTOAMP_CUSTOM_BLACK_LIST=torch:cublasSgemm_v2: no op or entry point 'torch:cublasSgemm_v2'; autoamp "
	     "lists shows them"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=embedding",
	     "AUTOAMP_CUSTOM_BLACK_LIST=embedding: no op or entry point 'embedding'; autoamp lists shows them"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem", "AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem: no op or entry point "
	                                             "'cublasSgem'; did you mean cublasSgemm_v2?"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=tf:MatMul",
	     "AUTOAMP_CUSTOM_WHITE_LIST=tf:MatMul: unknown list system in 'tf:MatMul'; accepted: torch, paddle, ms"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=ms:foo.bar.Dense",
	     "AUTOAMP_CUSTOM_BLACK_LIST=ms:foo.bar.Dense: no op or entry point 'ms:foo.bar.Dense'; did you mean "
	     "Dense?"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=MatMul",
	     "AUTOAMP_CUSTOM_WHITE_LIST=MatMul: no op or entry point 'MatMul'; did you mean matmul?"},
	};
	for (auto &each : cases)
		CHECK(parse({each.setting}).error == each.error);
	std::string huge = "AUTOAMP_DTYPE=" + std::string(100000, 'x');
	CHECK(parse({huge.c_str()}).error.size() < 250);
	std::string hugeName = "AUTOAMP_" + std::string(100000, 'x');
	CHECK(parse({hugeName.c_str()}).error.size() < 250);
	CHECK(parse({"AUTOAMP_EMU_FAIL=x:1", "AUTOAMP_EMU_MEMORY=64M", "AUTOAMP_EMU_DEVICES=3", "AUTOAMP_EMU_CUDNN=91002",
	             "AUTOAMP_EMU_DRIVER=12020", "AUTOAMP_EMU_PLUGINS=./a.so:/b/c.so", "AUTOAMP_EMU_CUPTI=late,shuffled"})
	          .error.empty());
	for (const char *empty : {"AUTOAMP_EMU_FAIL=", "AUTOAMP_EMU_MEMORY=", "AUTOAMP_EMU_DEVICES=", "AUTOAMP_EMU_DRIVER=",
	                          "AUTOAMP_EMU_CUDNN=", "AUTOAMP_EMU_CUPTI=", "AUTOAMP_EMU_PLUGINS="})
		CHECK(parse({empty}).error.empty());
	for (const char *wrong :
	     {"AUTOAMP_EMU_ANYTHING=1", "AUTOAMP_EMU_FAIL=x", "AUTOAMP_EMU_FAIL=x:0", "AUTOAMP_EMU_FAIL=:1",
	      "AUTOAMP_EMU_MEMORY=abc", "AUTOAMP_EMU_CUDNN=9.1", "AUTOAMP_EMU_CUDNN=8907", "AUTOAMP_EMU_DEVICES=-3",
	      "AUTOAMP_EMU_DRIVER=12", "AUTOAMP_EMU_DRIVER=11080", "AUTOAMP_EMU_DRIVER=13100", "AUTOAMP_EMU_DEVICES=x",
	      "AUTOAMP_EMU_CUPTI=late,,lost", "AUTOAMP_EMU_CUPTI=sooner", "AUTOAMP_EMU_PLUGINS=a.so",
	      "AUTOAMP_EMU_PLUGINS=/a.so::/b.so"})
		CHECK_FALSE(parse({wrong}).error.empty());
}

TEST_CASE("custom lists name ops and entry points")
{
	auto [options, error] = parse({"AUTOAMP_CUSTOM_WHITE_LIST= torch:bmm, conv2d ,,",
	                               "AUTOAMP_CUSTOM_BLACK_LIST=mm,cublasS?axpy_v2,cublas*64,*Lt*"});
	CHECK(error ==
	      "AUTOAMP_CUSTOM_BLACK_LIST=mm,cublasS?axpy_v2,cublas*64,*Lt*: no op or entry point 'cublasS?axpy_v2'; "
	      "did you mean cublasSaxpy_v2?");

	auto good = parse({"AUTOAMP_CUSTOM_WHITE_LIST= torch:bmm, conv2d ,,",
	                   "AUTOAMP_CUSTOM_BLACK_LIST=mm,cublasS?xpy_v2,cublas*64,*Lt*"});
	REQUIRE(good.error.empty());
	auto call = [](op::Kind kind, uint16_t entry) {
		op::Op call;
		call.kind = kind;
		call.entry = entry;
		return call;
	};
	const NameSet &white = good.options.customWhite, &black = good.options.customBlack;
	CHECK(white.names == std::vector<std::string>{"torch:bmm", "torch:conv2d"});
	CHECK(white.has(call(op::Kind::bmm, 0)));
	CHECK_FALSE(white.has(call(op::Kind::mm, 0)));
	CHECK_FALSE(white.has(call(op::Kind::none, 0)));
	CHECK(black.has(call(op::Kind::mm, 2)));
	CHECK(black.has(call(op::Kind::none, 1)));
	CHECK_FALSE(black.has(call(op::Kind::none, 2)));
	CHECK(black.has(call(op::Kind::none, 3)));
	CHECK(black.has(call(op::Kind::none, 4)));
	CHECK_FALSE(black.has(call(op::Kind::none, 1000)));

	// It would take minutes if each `*` were tried at every place.
	CHECK_FALSE(parse({"AUTOAMP_CUSTOM_WHITE_LIST=*?*?*?*?*?*?*?*?*?*?*?*!"}).error.empty());
}

TEST_CASE("a name in both custom lists is an error in any spelling")
{
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=mm,bmm", "AUTOAMP_CUSTOM_BLACK_LIST=torch:bmm"}).error ==
	      "AUTOAMP_CUSTOM_BLACK_LIST: 'torch:bmm' is also in AUTOAMP_CUSTOM_WHITE_LIST");
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=mm", "AUTOAMP_CUSTOM_BLACK_LIST=cublasSgemm*"}).error.empty());
}

TEST_CASE("every list system takes its own levels only")
{
	const char *const words[] = {"O0", "O1", "O2", "O3", "auto", "OD"};
	const struct {
		const char *lists, *levels;
	} systems[] = {{"torch", "O0, O1"}, {"paddle", "O0, O1, O2, OD"}, {"mindspore", "O0, O1, O2, O3, auto"}};
	for (auto &system : systems) {
		const std::string lists = std::string("AUTOAMP_LISTS=") + system.lists;
		CHECK(parse({lists.c_str()}).options.level == Level::O1);
		for (const char *word : words) {
			const std::string level = std::string("AUTOAMP_LEVEL=") + word;
			const bool isOne = (std::string(system.levels) + ",").find(std::string(word) + ",") != std::string::npos;
			const auto parsed = parse({level.c_str(), lists.c_str()});
			CHECK(parsed.error == (isOne ? "" : level + ": not a level of " + lists + "; accepted: " + system.levels));
			CHECK((!isOne || parsed.options.valueOf(Option::level) == word));
		}
	}
}

TEST_CASE("a bare name belongs to the selected system, at any position in the environment")
{
	constexpr uint64_t mm = 1 << static_cast<int>(op::Kind::mm), bmm = 1 << static_cast<int>(op::Kind::bmm);
	const struct {
		std::vector<const char *> environment;
		uint64_t ops;
		std::vector<std::string> idle;
	} cases[] = {
	    {{"AUTOAMP_CUSTOM_WHITE_LIST=bmm"}, bmm, {}},
	    {{"AUTOAMP_CUSTOM_WHITE_LIST=mul", "AUTOAMP_LISTS=paddle"}, mm, {}},
	    {{"AUTOAMP_LISTS=mindspore", "AUTOAMP_CUSTOM_WHITE_LIST=MatMul,BatchMatMul"}, mm | bmm, {}},
	    {{"AUTOAMP_LISTS=mindspore", "AUTOAMP_CUSTOM_WHITE_LIST=nn.PReLU,ms:ops.MatMul"}, mm, {"ms:PReLU"}},
	    {{"AUTOAMP_CUSTOM_WHITE_LIST=paddle:mul,ms:BatchMatMul,prelu,mv"},
	     mm | bmm | 1 << static_cast<int>(op::Kind::mv),
	     {"torch:prelu", "torch:mv"}},
	};
	for (auto &each : cases) {
		const auto parsed = parse(each.environment);
		REQUIRE(parsed.error == "");
		CHECK(parsed.options.customWhite.ops == each.ops);
		CHECK(parsed.options.customWhite.idle == each.idle);
	}
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=mm", "AUTOAMP_LISTS=paddle"})
	          .error.starts_with("AUTOAMP_CUSTOM_WHITE_LIST=mm: no op or entry point 'mm'; "));
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=torch:mul", "AUTOAMP_CUSTOM_BLACK_LIST=paddle:mul"}).error.empty());
}

TEST_CASE("a strategy that does not go with the type")
{
	const char *const strategies[] = {"auto", "cast", "fp32", "library", "tf32"};
	struct {
		const char *dtype, *scaling, *refused; // strategies
	} const cases[] = {{"float16", "auto", "library"},   {"float16", "off", ""},
	                   {"bfloat16", "auto", ""},         {"bfloat16", "off", ""},
	                   {"tf32", "auto", "cast library"}, {"tf32", "off", "cast library"}};
	for (auto &each : cases) {
		for (const char *strategy : strategies) {
			const std::string dtype = std::string("AUTOAMP_DTYPE=") + each.dtype;
			const std::string scaling = std::string("AUTOAMP_SCALING=") + each.scaling;
			const std::string named = std::string("AUTOAMP_STRATEGY=") + strategy;
			const std::string error = parse({named.c_str(), scaling.c_str(), dtype.c_str()}).error;
			INFO(dtype << " " << scaling << " " << named << ": " << error);
			CHECK(error.empty() == (std::string(each.refused).find(strategy) == std::string::npos));
			CHECK((error.empty() || error.starts_with(named + ": ")));
			CHECK(error.find('\n') == std::string::npos);
		}
	}
	CHECK(parse({"AUTOAMP_STRATEGY=library"}).error ==
	      "AUTOAMP_STRATEGY=library: the library does not scale float16; accepted: AUTOAMP_DTYPE=bfloat16, or "
	      "AUTOAMP_SCALING=off with it");
}

TEST_CASE("the table is fit to print")
{
	std::set<std::string> names;
	for (const OptionRow &row : optionTable()) {
		CHECK(names.insert(row.name).second);
		CHECK(std::strncmp(row.name, "AUTOAMP_", 8) == 0);
		CHECK(std::strlen(row.help) > 0);
		CHECK(acceptedValues(row).size() < 68); // after "    values: ", on 80 columns
	}
	for (const EmulatorSetting &row : emulatorSettings()) {
		CHECK(names.insert(row.name).second);
		CHECK(std::strncmp(row.name, "AUTOAMP_EMU_", 12) == 0);
		CHECK(std::strlen(row.help) > 0);
		CHECK(std::strlen(row.values) < 68);
	}
}

namespace {

ParsedOptions layered(std::vector<ConfigFile> files, std::vector<const char *> environment = {})
{
	environment.push_back(nullptr);
	return parseOptions(environment.data(), entryNames, files);
}

} // namespace

TEST_CASE("a scalar is the strongest's, lists are united, rules stand one after the other")
{
	const std::vector<ConfigFile> files = {
	    {"a", "dtype = \"bf16\"\ncustom_black_list = [\"mm\", \"bmm\"]\n[[rule]]\nm = 1\nprecision = \"float32\""},
	    {"b",
	     "memory = \"64M\"\ndtype = \"tf32\"\ncustom_black_list = \"addmm\"\n[[rule]]\nm = 2\nprecision = \"tf32\""}};
	auto [options, error] = layered(files, {"AUTOAMP_CUSTOM_BLACK_LIST=mv", "AUTOAMP_LEVEL=O0"});
	REQUIRE(error == "");
	CHECK(options.dtype == op::Dtype::bfloat16);
	CHECK(options.memory == 64u << 20);
	CHECK(options.level == Level::O0);
	const auto is = [&options = options](Option option, Origin origin, const char *place, const char *value) {
		CHECK(options.originOf(option) == origin);
		CHECK(options.place[static_cast<size_t>(option)] == place);
		CHECK(options.valueOf(option) == value);
	};
	is(Option::level, Origin::environment, "environment", "O0");
	is(Option::dtype, Origin::file, "a:1:1", "bf16");
	is(Option::memory, Origin::file, "b:1:1", "64M");
	is(Option::trace, Origin::fallback, "default", "summary");
	is(Option::customBlack, Origin::environment, "environment, a:2:1, b:3:1", "mv,mm,bmm,addmm");
	CHECK(options.customBlack.names == std::vector<std::string>{"torch:mv", "torch:mm", "torch:bmm", "torch:addmm"});
	REQUIRE(options.rules->list.size() == 2);
	CHECK(textOf(options.rules->list[0]) == "m = \"1\", precision = \"float32\"");
	CHECK(options.rules->list[1].place == "b:4:1");
	CHECK(layered(files, {"AUTOAMP_DTYPE=float16"}).options.dtype == op::Dtype::float16);
}

TEST_CASE("every setting of a file means what its variable means")
{
	std::set<std::string> keys;
	for (const OptionRow &row : optionTable()) {
		const std::string key = keyOf(row);
		if (key.empty() || row.type == ValueType::names)
			continue;
		keys.insert(key);
		const std::string value = row.type == ValueType::text    ? "/x"
		                          : row.type == ValueType::range ? "calls:2:3"
		                          : *row.fallback == '1'         ? row.fallback
		                                                         : "off";
		const std::string typed = row.type == ValueType::choice && std::strstr(row.values, value.c_str()) == nullptr
		                              ? row.fallback
		                          : value == "off" && row.type == ValueType::size ? "3K"
		                          : value == "off" && row.type == ValueType::time ? "3ms"
		                          : row.type == ValueType::fraction               ? "0.25"
		                                                                          : value;
		const std::string variable = std::string(row.name) + "=" + typed;
		auto [file, fileError] = layered({{"f", key + " = \"" + typed + "\""}});
		auto [environment, error] = parse({variable.c_str()});
		INFO(variable);
		CHECK(fileError == error);
		const auto fields = [](const Options &x) {
			return std::make_tuple(x.enabled, x.level, x.dtype, x.lists, x.scaling, x.strategy, x.memory, x.trace,
			                       x.traceMaxSize, x.log, x.gpuModel, x.cpuModel, x.directory, x.traceFile, x.delayNs,
			                       x.durationNs, x.captureRange.first, x.auditPeriod);
		};
		CHECK(fields(file) == fields(environment));
	}
	CHECK(keys.count("trace_file") + keys.count("level") + keys.count("enabled") == 3);
	CHECK(keys.count("config") + keys.count("hook_dlsym") + keys.count("emu_fail") == 0);
	for (const char *text : {"enabled = false", "enabled = 0", "enabled = \"0\""})
		CHECK_FALSE(layered({{"f", text}}).options.enabled);
	CHECK(layered({{"f", "audit = 0.01"}}).options.auditPeriod == 100);
	CHECK(layered({{"f", "audit = 1e-3\nduration = 2.5"}}).options.auditPeriod == 1000);
	CHECK(layered({{"f", "duration = 2.5"}}).options.durationNs == 2'500'000'000);
	CHECK(layered({{"f", "memory = 4096\ntrace_max_size = 1"}}).options.memory == 4096);
}

TEST_CASE("an error of a file contains its place")
{
	struct {
		const char *text, *error;
	} const cases[] = {
	    {"level = \"O7\"", "f.toml:1:9: level=O7: bad value; accepted: O0, O1, O2, O3, auto, OD"},
	    {"\n  lvel = 1", "f.toml:2:3: lvel: no such key; did you mean level?"},
	    {"rules = 1", "f.toml:1:1: rules: no such key; did you mean rule?"},
	    {"hook_dlsym = 0", "f.toml:1:1: hook_dlsym: not allowed in a file; use the variable AUTOAMP_HOOK_DLSYM"},
	    {"level = [\"O0\"]", "f.toml:1:10: level=O0: expected one value, not an array"},
	    {"level = 1.5", "f.toml:1:9: level=1.5: bad value; accepted: O0, O1, O2, O3, auto, OD"},
	    {"enabled = 1.0", "f.toml:1:11: enabled=1.0: bad value; accepted: 0, 1"},
	    {"audit = 1e-7",
	     "f.toml:1:9: audit=0.0000001: bad value; accepted: 0 to 1 with at most six decimals, such as 0.01"},
	    {"audit = nan", "f.toml:1:9: audit=nan: bad value; accepted: 0 to 1 with at most six decimals, such as 0.01"},
	    {"level = 1979-05-27", "f.toml:1:9: expected a string, a number or true or false"},
	    {"level = {}", "f.toml:1:1: level: no such table; write each rule as [[rule]]"},
	    {"[[rules]]\nm = 1", "f.toml:1:3: rules: no such table; write each rule as [[rule]]"},
	    {"level = []", "f.toml:1:9: level=: expected one value, not an array"},
	    {"bogus = []", "f.toml:1:1: bogus: no such key; autoamp help rules lists them"},
	    {"custom_black_list = [\" \"]", "f.toml:1:22: custom_black_list= : an empty name"},
	    {"memory = -1", "f.toml:1:10: memory=-1: bad value; accepted: bytes, or a number with K, M or G"},
	    {"dir = \"a\\u0000b\"", "f.toml:1:7: a value with a control character"},
	    {"dir = \"a\\nb\"", "f.toml:1:7: a value with a control character"},
	    {"custom_white_list = [\n\"mm\",\n\"conv2\"]",
	     "f.toml:3:1: custom_white_list=conv2: no op or entry point 'conv2'; did you mean conv2d?"},
	    {"custom_white_list = [1]",
	     "f.toml:1:22: custom_white_list=1: no op or entry point '1'; autoamp lists shows them"},
	    {"dtype = fp16", "f.toml:1:9: a text needs quotes: dtype = \"fp16\""},
	    {"level = \"O1\"\n[[rule]]\nentry = cublasS* # all\nprecision = \"float32\"",
	     "f.toml:3:9: a text needs quotes: entry = \"cublasS*\""},
	    {"[[rule]]\nk = 64\nk = 128", "f.toml:3:5: a second value of the same name in this table"},
	    {"dtype = \"bfloat16\nlevel = \"O1\"", "f.toml:1:18: a text without its closing quote"},
	    {"custom_black_list = [mm]", "f.toml:1:22: a text needs quotes: [\"mm\"]"},
	    {"custom_black_list = [mm, conv2d]", "f.toml:1:22: a text needs quotes: [\"mm\"]"},
	    {"custom_black_list = [\"mm\", conv2d]", "f.toml:1:28: a text needs quotes: [\"conv2d\"]"},
	    {"custom_white_list = [[\"mm\"]]", "f.toml:1:22: expected a string, a number or true or false"},
	    {"custom_white_list = [\"mm\"]\ncustom_black_list = [\"mm\"]",
	     "f.toml:2:1: custom_black_list: 'torch:mm' is also in AUTOAMP_CUSTOM_WHITE_LIST"},
	    {"level = \"O1\"\nlevel = \"O0\"", "f.toml:2:"},
	    {"level = \"O1", "f.toml:1:"},
	    {"level", "f.toml:1:"},
	    {"strategy = \"library\"", "f.toml:1:1: strategy=library: the library does not scale float16; accepted: "
	                               "AUTOAMP_DTYPE=bfloat16, or AUTOAMP_SCALING=off with it"},
	    {"rule = 1", "f.toml:1:8: write each rule as [[rule]]"},
	    {"[rule]\nm = 1", "f.toml:1:1: write each rule as [[rule]]"},
	    {"[level]\n", "f.toml:1:2: level: no such table; write each rule as [[rule]]"},
	    {"[[rule]]\nm = 1", "f.toml:1:1: a rule without precision or weights; accepted for precision: float32, "
	                        "float16, bfloat16, tf32"},
	    {"[[rule]]\nprecision = \"fp16\"",
	     "f.toml:2:13: precision=fp16: bad value; accepted: float32, float16, bfloat16, tf32"},
	    {"[[rule]]\nprecison = \"fp16\"", "f.toml:2:1: precison: no such key of a rule; did you mean precision?"},
	    {"[[rule]]\nm = \"256..\"",
	     "f.toml:2:5: m=256..: bad value; accepted: 256, \">=256\", \">256\", \"<=64\", \"<64\", \"128..4096\""},
	    {"[[rule]]\nentry = [\"a\", \"b\"]", "f.toml:2:10: entry=a: a rule asks for one value"},
	    {"[[rule]]\nm = [64, 128]", "f.toml:2:6: m=64: a rule asks for one value"},
	    {"[[rule]]\nentry = []", "f.toml:2:9: entry=: a rule asks for one value"},
	    {"[[rule]]\nbogus = []\nprecision = \"tf32\"", "f.toml:2:9: bogus=: a rule asks for one value"},
	    {"[[rule]]\nentry = \"\"", "f.toml:2:9: entry=: bad value; accepted: a pattern"},
	};
	for (const auto &each : cases) {
		INFO(each.text);
		const std::string error = layered({{"f.toml", each.text}}).error, wanted = each.error;
		CHECK((wanted.ends_with(":") ? error.substr(0, wanted.size()) : error) == wanted);
		CHECK(error.find('\n') == std::string::npos);
	}
	for (const char *range : {"",     " 5", "5 ",    "-5",  "+5",  "=5",      "==5", "=>5",   "><5", "1.5",
	                          "0x10", "1e", "1e400", "nan", "inf", "1..2..3", "..5", "5...6", ">=",  "true"})
		CHECK_FALSE(
		    layered({{"f", std::string("[[rule]]\nprecision = \"tf32\"\nm = \"") + range + "\""}}).error.empty());
	CHECK_FALSE(layered({{"f", "[[rule]]\nprecision = \"tf32\"\nm = true"}}).error.empty());
	// Deep nesting would exhaust the stack of the application's thread.
	for (const std::string deep : {"a.", "[", "{a="}) {
		std::string text = "x = ";
		for (int i = 0; i < 50000; ++i)
			text += deep;
		CHECK(layered({{"f", text}}).error.starts_with("f:1:"));
		CHECK(layered({{"f", text.substr(4) + "b = 1"}}).error.starts_with("f:1:"));
	}
}
