#include "src/config/read_options.h"
#include "src/lists/glob.h"
#include "src/policy/decide.h"

#include <catch2/catch.hpp>

using namespace autoamp;
using namespace autoamp::policy;
using op::Dtype;
using op::Kind;

namespace {

const char *const entryNames[] = {"cublasSgemm_v2",           "cublasSgemm_v2_64", "cublasGemmEx",
                                  "cublasSaxpy_v2",           "cublasLtMatmul",    "cublasSgemv_v2",
                                  "cublasSgemmStridedBatched"};

ParsedOptions parse(const std::string &text, std::vector<const char *> environment = {})
{
	environment.push_back(nullptr);
	const ConfigFile file = {"f.toml", text};
	return parseOptions(environment.data(), entryNames, {&file, 1});
}

State stateOf(const std::string &text, std::vector<const char *> environment = {})
{
	auto [options, error] = parse(text, std::move(environment));
	REQUIRE(error == "");
	return State(options);
}

// A rule of these matchers, as TOML.
std::string rule(const std::string &matchers, const char *precision = "bfloat16")
{
	return "[[rule]]\n" + matchers + "\nprecision = \"" + precision + "\"\n";
}

op::Op product(int64_t m, int64_t n, int64_t k, uint16_t entry = 0, Kind kind = Kind::mm)
{
	op::Op call;
	call.entry = entry;
	call.kind = kind;
	call.a = call.b = call.out = call.asked = Dtype::float32;
	call.m = m, call.n = n, call.k = k;
	return call;
}

const Device h100 = {&gpuConstants(GpuModel::h100, nullptr, 0), 90, true};
const Device turing = {&gpuConstants(GpuModel::automatic, "Tesla T4", 75), 75, true};
const op::Op large = product(4096, 4096, 4096), small = product(8, 8, 8);

} // namespace

TEST_CASE("what a rule matches")
{
	op::Op far = product(300, 200, 100, 2);
	far.batch = 4;
	far.device = 1;
	const op::Op batched = product(300, 200, 100, 0, Kind::bmm);
	const Where where = {"libtorch_cuda.so", 0b10, 0b01};
	const std::string patterns = rule("region = \"other\"\nthread = \"pt_*\"") + rule("region = \"back*\"");
	struct {
		const char *matchers;
		op::Op call;
		bool matches;
	} const cases[] = {
	    {"", small, true},
	    {"entry = \"cublasSgemm*\"", large, true},
	    {"entry = \"cublasSgemm*\"", far, false},
	    {"entry = \"cublas?emmEx\"", far, true},
	    {"op = \"mm\"", large, true},
	    {"op = \"mm\"", batched, false},
	    {"op = \"torch:b*\"", batched, true},
	    {"op = \"matmul\"", batched, true},
	    {"op = \"linear\"", product(8, 8, 8, 4, Kind::addmm), true},
	    {"caller = \"libtorch*\"", large, true},
	    {"caller = \"torch*\"", large, false},
	    {"caller = \"*?*?*?*?*?*?*?*?*?*?*?*!\"", large, false},
	    {"region = \"back*\"", large, true},
	    {"region = \"other\"", large, false},
	    {"thread = \"pt_*\"", large, true},
	    {"thread = \"main\"", large, false},
	    {"m = 300", far, true},
	    {"m = \"300\"", far, true},
	    {"m = \">=300\"", far, true},
	    {"m = \">300\"", far, false},
	    {"m = \"<=300\"", far, true},
	    {"m = \"<300\"", far, false},
	    {"n = \"128..200\"", far, true},
	    {"n = \"201..400\"", far, false},
	    {"k = \"100..100\"", far, true},
	    {"batch = 4", far, true},
	    {"batch = \"<2\"", far, false},
	    {"flops = \">=48e6\"", far, true},
	    {"flops = \">48e6\"", far, false},
	    {"flops = 48000000", far, true},
	    {"device = 1", far, true},
	    {"device = 0", far, false},
	    {"m = 300\nn = 200\nk = 100\nentry = \"*Ex\"", far, true},
	    {"m = 300\nn = 200\nk = 100\nentry = \"*gemm\"", far, false},
	};
	for (const auto &each : cases) {
		INFO(each.matchers);
		const State state = stateOf(patterns + rule(each.matchers)); // the patterns keep their places
		REQUIRE(state.rules->list.size() == 3);
		CHECK(state.rules->list[2].matches(each.call, where) == each.matches);
	}
}

TEST_CASE("regions and threads are asked for by each pattern once")
{
	const State state =
	    stateOf(rule("region = \"a\"") + rule("region = \"b*\"\nthread = \"x\"") + rule("region = \"a\""));
	CHECK(state.rules->regionPatterns == std::vector<std::string>{"a", "b*"});
	CHECK(state.rules->threadPatterns == std::vector<std::string>{"x"});
	CHECK(bitsOf(state.rules->regionPatterns, "bc") == 2);
	CHECK(bitsOf(state.rules->regionPatterns, "a") == 1);
	CHECK(bitsOf(state.rules->regionPatterns, "") == 0);
	for (const auto &[key, most] : {std::pair{"region", 64}, std::pair{"thread", 32}}) {
		std::string text;
		for (int i = 0; i < most; ++i)
			text += rule(std::string(key) + " = \"p" + std::to_string(i) + "\"");
		CHECK(parse(text).error.empty());
		const std::string line = std::to_string(3 * most + 2);
		CHECK(parse(text + rule(std::string(key) + " = \"one more\"")).error ==
		      "f.toml:" + line + ":10: " + key + "=one more: more than " + std::to_string(most) +
		          " different patterns");
	}
}

TEST_CASE("what a rule decides")
{
	struct {
		std::string rules;
		const char *variable;
		op::Op call;
		Device device;
		Verdict verdict;
		Reason reason;
		Dtype precision;
		Strategy strategy;
	} const cases[] = {
	    // The first matching rule decides, whatever the model returns; none: the lists decide.
	    {rule("m = \"<64\"", "float16") + rule("", "bfloat16"), "", small, h100, Verdict::lowered, Reason::rule,
	     Dtype::float16, Strategy::cast},
	    {rule("m = \"<64\"", "float16") + rule("", "tf32"), "", large, h100, Verdict::lowered, Reason::rule,
	     Dtype::tf32, Strategy::tf32},
	    {rule("m = \"<64\"", "float32"), "", large, h100, Verdict::lowered, Reason::white_list, Dtype::float16,
	     Strategy::cast},
	    {rule("", "float32"), "", large, h100, Verdict::kept, Reason::rule, Dtype::float32, Strategy::fp32},
	    {rule("", "float16"), "AUTOAMP_CUSTOM_BLACK_LIST=mm", large, h100, Verdict::lowered, Reason::rule,
	     Dtype::float16, Strategy::cast},
	    // The other settings of the configuration give way if they cannot run this precision.
	    {rule("", "float16"), "AUTOAMP_STRATEGY=tf32", large, h100, Verdict::lowered, Reason::rule, Dtype::float16,
	     Strategy::cast},
	    {rule("", "tf32"), "AUTOAMP_STRATEGY=cast", large, h100, Verdict::lowered, Reason::rule, Dtype::tf32,
	     Strategy::tf32},
	    {rule("", "bfloat16"), "AUTOAMP_DTYPE=tf32", large, h100, Verdict::lowered, Reason::rule, Dtype::bfloat16,
	     Strategy::cast},
	    {"dtype = \"bfloat16\"\nstrategy = \"library\"\n" + rule("", "float16"), "", large, h100, Verdict::lowered,
	     Reason::rule, Dtype::float16, Strategy::cast},
	    {"dtype = \"bfloat16\"\nstrategy = \"library\"\n" + rule("", "bfloat16"), "", small, h100, Verdict::lowered,
	     Reason::rule, Dtype::bfloat16, Strategy::library},
	    // Settings that override every rule.
	    {rule("", "float16"), "AUTOAMP_STRATEGY=fp32", large, h100, Verdict::kept, Reason::disabled, Dtype::float32,
	     Strategy::fp32},
	    {rule("", "float16"), "AUTOAMP_ENABLED=0", large, h100, Verdict::kept, Reason::disabled, Dtype::float32,
	     Strategy::fp32},
	    {rule("", "float16"), "AUTOAMP_LEVEL=O0", large, h100, Verdict::observed, Reason::rule, Dtype::float32,
	     Strategy::cast},
	    {rule("", "bfloat16"), "", large, turing, Verdict::kept, Reason::gpu_too_old, Dtype::float32, Strategy::fp32},
	    {rule("", "float16"), "", product(0, 8, 8), h100, Verdict::kept, Reason::zero_size, Dtype::float32,
	     Strategy::fp32},
	    {rule("", "float16"), "", product(8, 8, 8, 3, Kind::none), h100, Verdict::kept, Reason::unlisted,
	     Dtype::float32, Strategy::fp32},
	};
	for (const auto &each : cases) {
		INFO(each.rules << " " << each.variable);
		const Decision decision = decide(each.call, stateOf(each.rules, {each.variable}), {}, each.device);
		CHECK(name(decision.verdict) == std::string(name(each.verdict)));
		CHECK(name(decision.reason) == std::string(name(each.reason)));
		CHECK(decision.precision == each.precision);
		CHECK(decision.strategy == each.strategy);
	}
	op::Op half = large; // summed in half
	half.a = half.b = half.out = half.asked = Dtype::float16;
	half.flags = op::flagHalfSums;
	const Decision raised = decide(half, stateOf(rule("", "float32")), {}, h100);
	CHECK(raised.verdict == Verdict::raised);
	CHECK(raised.reason == Reason::rule);
	CHECK(decide(half, stateOf(rule("", "float16")), {}, h100).reason == Reason::already_low);
	op::Op allowed = large; // TF32 by the application already
	allowed.asked = Dtype::tf32;
	CHECK(decide(allowed, stateOf(rule("", "tf32")), {}, h100).reason == Reason::already_low);

	// TF32 and lower precisions that the application allows: a rule of float32 disables them, a list does not.
	const auto verdict = [](const op::Op &op, const std::string &text, const char *variable, const Device &device) {
		const Decision decision = decide(op, stateOf(text, {variable}), {}, device);
		CHECK(decision.precision == (decision.verdict == Verdict::raised ? Dtype::float32 : op.asked));
		return decision.verdict;
	};
	for (const Dtype asked : {Dtype::tf32, Dtype::float16, Dtype::bfloat16}) {
		allowed.asked = asked;
		allowed.obstacle = asked == Dtype::tf32 ? op::Obstacle::none : op::Obstacle::already_low;
		CHECK(verdict(allowed, rule("", "float32"), "", h100) == Verdict::raised);
		// The call takes the time of a product in fp32, not that of the precision that the application allows.
		const Decision raised = decide(allowed, stateOf(rule("", "float32")), {}, h100);
		op::Op exact = allowed;
		exact.asked = Dtype::float32;
		CHECK(raised.estimateLowered == decide(exact, stateOf(rule("", "float32")), {}, h100).estimate);
		CHECK(verdict(allowed, rule("", "float32"), "AUTOAMP_STRATEGY=fp32", h100) == Verdict::kept);
		CHECK(verdict(allowed, "", "AUTOAMP_CUSTOM_BLACK_LIST=mm", h100) == Verdict::kept);
	}
	allowed.asked = Dtype::tf32, allowed.obstacle = op::Obstacle::none; // which this device has not
	CHECK(decide(allowed, stateOf(rule("", "float32")), {}, turing).verdict == Verdict::kept);
	CHECK(decide(allowed, stateOf(rule("", "bfloat16")), {}, h100).strategy == Strategy::cast);
}

TEST_CASE("a rule is printed in full")
{
	const State state = stateOf(rule("op = 'b?\"x\\'\nm = 7\nflops = \">=1e9\""));
	CHECK(textOf(state.rules->list[0]) == R"(op = "b?\"x\\", m = "7", flops = ">=1e9", precision = "bfloat16")");
	CHECK(state.rules->list[0].place == "f.toml:1:1");
}

TEST_CASE("a ? is a character, whatever its bytes")
{
	CHECK(matches("caf?", "caf\u00e9"));
	CHECK(matches("?", "\u20ac"));
	CHECK(matches("*?.so", "a\u00e9.so"));
	CHECK_FALSE(matches("?", "\u00e9\u00e9"));
	CHECK_FALSE(matches("??", "\u00e9"));
}

TEST_CASE("rules that can never match are reported")
{
	const auto warnings = [](const std::string &text) { return stateOf(text).rules->warnings(); };
	CHECK(warnings(rule("m = \">=256\"") + rule("m = \">=128\"") + rule("")).empty());
	CHECK(warnings(rule("caller = \"lib?\"") + rule("caller = \"lib*\"")).empty());
	CHECK(warnings(rule("region = \"*\"") + rule("") + rule("")).size() == 1); // a call may be outside of all regions
	CHECK(warnings(rule("m = \"<256\"") + rule("m = \">256\"") + rule("")).empty());
	CHECK(warnings(rule("m = \"<256\"\nn = 1") + rule("m = \">=256\"") + rule("")).empty());
	CHECK(warnings(rule("entry = \"cublasSgemmStridedBatched\"\nop = \"mm\"")).empty()); // a batch of one
	CHECK(warnings(rule("m = \">=10\"\nn = \">=10\"\nk = \">=10\"\nflops = \"<=2000\"")).empty());
	CHECK(warnings(rule("thread = \"fifteen*letters*\"") + rule("caller = \"lib*\"")).empty());
	struct {
		std::string rules;
		const char *warning;
	} const cases[] = {
	    {rule("entry = \"cudnn*\""),
	     R"(f.toml:1:1: the rule never matches: entry = "cudnn*" matches no entry point of a product)"},
	    {rule("op = \"softmax\""),
	     R"(f.toml:1:1: the rule never matches: op = "softmax" reaches no product that autoamp intercepts)"},
	    {rule("op = \"x.mm\""),
	     R"(f.toml:1:1: the rule never matches: op = "x.mm" reaches no product that autoamp intercepts; did you mean bmm?)"},
	    {rule("entry = \"cublasSgem_v2\""),
	     R"(f.toml:1:1: the rule never matches: entry = "cublasSgem_v2" matches no entry point of a product; did you mean cublasSgemm_v2?)"},
	    {rule("op = \"matmull\""),
	     R"(f.toml:1:1: the rule never matches: op = "matmull" reaches no product that autoamp intercepts; did you mean matmul?)"},
	    {"[[rule]]\ndevice = \"cpu\"\nprecision = \"tf32\"\n",
	     "f.toml:1:1: a CPU lowers calls to bfloat16 only; the rule keeps them unchanged"},
	    {rule("k = \"9..8\""), R"(f.toml:1:1: the rule never matches: k = "9..8" is an empty range)"},
	    {rule("m = \"<0\""), R"(f.toml:1:1: the rule never matches: m = "<0" is an empty range)"},
	    {rule("") + rule("m = 1"), "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("m = \">=128\"") + rule("m = \">=256\"\nn = 1"),
	     "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("entry = \"cublasS*\"") + rule("entry = \"cublasSgemm*\""),
	     "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("op = \"linear\"") + rule("op = \"mm\""),
	     "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("region = \"back*\"") + rule("region = \"backward*\""),
	     "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("caller = \"lib?\"") + rule("caller = \"liba\""),
	     "f.toml:4:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("entry = \"*\"\nop = \"*\"\ncaller = \"**\"\nthread = \"*\"\nm = \">=0\"") + rule(""),
	     "f.toml:8:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"},
	    {rule("m = \"<256\"") + rule("m = \">=256\"") + rule("n = 1"),
	     "f.toml:7:1: the rule never matches: earlier rules match all its calls"},
	    {rule("k = \"1..9\"") + rule("k = \"10..19\"") + rule("k = \"5..15\""),
	     "f.toml:7:1: the rule never matches: earlier rules match all its calls"},
	    {rule("entry = \"cublasSgemv*\"\nop = \"mm\""),
	     R"(f.toml:1:1: the rule never matches: entry = "cublasSgemv*" matches no entry point of a product with that op)"},
	    {rule("entry = \"cublasSaxpy*\""),
	     R"(f.toml:1:1: the rule never matches: entry = "cublasSaxpy*" matches no entry point of a product)"},
	    {rule("caller = \"/usr/lib/x.so\""),
	     R"(f.toml:1:1: the rule never matches: caller = "/usr/lib/x.so" contains a folder; only file names are compared)"},
	    {rule("thread = \"sixteen_letters_\""),
	     R"(f.toml:1:1: the rule never matches: thread = "sixteen_letters_" is longer than 15 bytes, the maximum of a thread name)"},
	    {rule("m = \">=10\"\nn = \">=10\"\nk = \">=10\"\nflops = \"<2000\""),
	     R"(f.toml:1:1: the rule never matches: flops = "<2000" is not the work of products of these sizes)"},
	};
	for (const auto &each : cases)
		CHECK(warnings(each.rules) == std::vector<std::string>{each.warning});
}
