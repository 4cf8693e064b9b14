#include "src/policy/lists.h"
#include "src/policy/options.h"

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
		if (row.type != ValueType::words && row.type != ValueType::size)
			continue;
		Options standard = parse({"HOME=/home/someone"}).options;
		std::string setting = std::string(row.name) + "=" + row.fallback;
		auto typed = parse({"HOME=/home/someone", setting.c_str()});
		INFO(setting);
		REQUIRE(typed.error.empty());
		Options &o = typed.options;
		auto values = [](const Options &x) {
			return std::make_tuple(x.enabled, x.level, x.dtype, x.lists, x.scaling, x.strategy, x.memory, x.trace,
			                       x.traceMaxSize, x.log, x.hookDlsym, x.gpuModel);
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
	CHECK(parse({"AUTOAMP_STRATEGY=cast"}).options.strategy == StrategyChoice::cast);
	CHECK(parse({"AUTOAMP_STRATEGY=fp32"}).options.strategy == StrategyChoice::fp32);
	CHECK(parse({"AUTOAMP_TRACE=off"}).options.trace == TraceLevel::off);
	CHECK(parse({"AUTOAMP_TRACE=ops"}).options.trace == TraceLevel::ops);
	CHECK(parse({"AUTOAMP_LOG=debug"}).options.log == LogLevel::debug);
	CHECK_FALSE(parse({"AUTOAMP_HOOK_DLSYM=0"}).options.hookDlsym);
	CHECK(parse({"AUTOAMP_HOOK_DLSYM=got"}).options.hookDlsym);
	CHECK(parse({"AUTOAMP_GPU_MODEL=h200"}).options.gpuModel == GpuModel::h200);
	CHECK(parse({"AUTOAMP_GPU_MODEL=rtx4090"}).options.gpuModel == GpuModel::rtx4090);
	CHECK(parse({"AUTOAMP_MEMORY=512K"}).options.memory == 512u << 10);
	CHECK(parse({"AUTOAMP_MEMORY=0"}).options.memory == 0);
	CHECK(parse({"AUTOAMP_TRACE_MAX_SIZE=123"}).options.traceMaxSize == 123);
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

TEST_CASE("what is wrong is named on one line")
{
	struct {
		const char *setting, *error;
	} const cases[] = {
	    {"AUTOAMP_LEVL=O1", "AUTOAMP_LEVL=O1: no such variable; the nearest is AUTOAMP_LEVEL"},
	    {"AUTOAMP_USE_PROMOTE=2", "AUTOAMP_USE_PROMOTE=2: bad value; accepted: 0, 1"},
	    {"AUTOAMP_LEVEL=O2", "AUTOAMP_LEVEL=O2: not a level of AUTOAMP_LISTS=torch; accepted: O0, O1"},
	    {"AUTOAMP_LEVEL=", "AUTOAMP_LEVEL=: bad value; accepted: O0, O1, O2, O3, auto, OD"},
	    {"AUTOAMP_DTYPE=fp8", "AUTOAMP_DTYPE=fp8: bad value; accepted: float16 (fp16 half), bfloat16 (bf16), tf32"},
	    {"AUTOAMP_LISTS=tf", "AUTOAMP_LISTS=tf: bad value; accepted: torch, paddle, mindspore"},
	    {"AUTOAMP_STRATEGY=split3", "AUTOAMP_STRATEGY=split3: bad value; accepted: auto, cast, fp32, library, tf32"},
	    {"AUTOAMP_HOOK_DLSYM=yes", "AUTOAMP_HOOK_DLSYM=yes: bad value; accepted: 0, 1, got"},
	    {"AUTOAMP_TRACE=kernels", "AUTOAMP_TRACE=kernels: bad value; accepted: off, summary, ops"},
	    {"AUTOAMP_ENABLED=yes\nno", "AUTOAMP_ENABLED=yes?no: bad value; accepted: 0, 1"},
	    {"AUTOAMP_MEMORY=1T", "AUTOAMP_MEMORY=1T: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=", "AUTOAMP_MEMORY=: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=G", "AUTOAMP_MEMORY=G: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=-1", "AUTOAMP_MEMORY=-1: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_MEMORY=99999999999999999G",
	     "AUTOAMP_MEMORY=99999999999999999G: bad value; accepted: bytes, or a number with K, M or G"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=mm,conv2",
	     "AUTOAMP_CUSTOM_WHITE_LIST=mm,conv2: no op or entry point 'conv2'; the nearest is conv2d"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem_v2", "AUTOAMP_CUSTOM_BLACK_LIST=cublasSgem_v2: no op or entry point "
	                                                "'cublasSgem_v2'; the nearest is cublasSgemm_v2"},
	    {"AUTOAMP_CUSTOM_BLACK_LIST=torch:cublasSgemm_v2",
	     "AUTOAMP_CUSTOM_BLACK_LIST=torch:cublasSgemm_v2: no op or entry point 'torch:cublasSgemm_v2'; the nearest is "
	     "baddbmm"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=tf:MatMul",
	     "AUTOAMP_CUSTOM_WHITE_LIST=tf:MatMul: unknown list system in 'tf:MatMul'; accepted: torch, paddle, ms"},
	    {"AUTOAMP_CUSTOM_WHITE_LIST=MatMul",
	     "AUTOAMP_CUSTOM_WHITE_LIST=MatMul: no op or entry point 'MatMul'; the nearest is matmul"},
	};
	for (auto &each : cases)
		CHECK(parse({each.setting}).error == each.error);
	std::string huge = "AUTOAMP_DTYPE=" + std::string(100000, 'x');
	CHECK(parse({huge.c_str()}).error.size() < 250);
	std::string hugeName = "AUTOAMP_" + std::string(100000, 'x');
	CHECK(parse({hugeName.c_str()}).error.size() < 250);
	CHECK(parse({"AUTOAMP_EMU_FAIL=x:1", "AUTOAMP_EMU_MEMORY=64M", "AUTOAMP_EMU_DEVICES=3",
	             "AUTOAMP_EMU_PLUGINS=./a.so:/b/c.so"})
	          .error.empty());
	for (const char *wrong :
	     {"AUTOAMP_EMU_ANYTHING=1", "AUTOAMP_EMU_FAIL=x", "AUTOAMP_EMU_FAIL=x:0", "AUTOAMP_EMU_FAIL=:1",
	      "AUTOAMP_EMU_MEMORY=abc", "AUTOAMP_EMU_DEVICES=-3", "AUTOAMP_EMU_DEVICES=x",
	      "AUTOAMP_EMU_PLUGINS=", "AUTOAMP_EMU_PLUGINS=a.so", "AUTOAMP_EMU_PLUGINS=/a.so::/b.so"})
		CHECK_FALSE(parse({wrong}).error.empty());
}

TEST_CASE("custom lists name ops and entry points")
{
	auto [options, error] = parse({"AUTOAMP_CUSTOM_WHITE_LIST= torch:bmm, conv2d ,,",
	                               "AUTOAMP_CUSTOM_BLACK_LIST=mm,cublasS?axpy_v2,cublas*64,*Lt*"});
	CHECK(error ==
	      "AUTOAMP_CUSTOM_BLACK_LIST=mm,cublasS?axpy_v2,cublas*64,*Lt*: no op or entry point 'cublasS?axpy_v2'; the "
	      "nearest is cublasSaxpy_v2");

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

	// Minutes, were each `*` tried at every place.
	CHECK_FALSE(parse({"AUTOAMP_CUSTOM_WHITE_LIST=*?*?*?*?*?*?*?*?*?*?*?*!"}).error.empty());
}

TEST_CASE("a name in both custom lists is an error, in whichever spelling")
{
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=mm,bmm", "AUTOAMP_CUSTOM_BLACK_LIST=torch:bmm"}).error ==
	      "AUTOAMP_CUSTOM_BLACK_LIST: 'torch:bmm' is in AUTOAMP_CUSTOM_WHITE_LIST as well");
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

TEST_CASE("a bare name is one of the chosen system, wherever that stands in the environment")
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
	          .error.starts_with("AUTOAMP_CUSTOM_WHITE_LIST=mm: no op or entry point 'mm'; the nearest is "));
	CHECK(parse({"AUTOAMP_CUSTOM_WHITE_LIST=torch:mul", "AUTOAMP_CUSTOM_BLACK_LIST=paddle:mul"}).error.empty());
	// No door catches it, but the lists know it.
	CHECK(parse({"AUTOAMP_CUSTOM_BLACK_LIST=cudnnConvolution*"}).error.empty());
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
}
