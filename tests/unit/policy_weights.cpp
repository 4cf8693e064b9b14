// Kept weights of CUDA calls: the cost model and the decision.
#include "src/config/read_options.h"
#include "src/op/convolution.h"
#include "src/policy/decide.h"

#include <catch2/catch.hpp>

#include <initializer_list>
#include <string>
#include <vector>

using namespace autoamp;
using namespace autoamp::policy;
using op::Dtype;
using op::Kind;

namespace {

const char *const entryNames[] = {"cublasSgemm_v2", "cublasGemmEx", "cblas_sgemm"};

ParsedOptions parse(std::vector<const char *> environment, const std::string &text = "")
{
	environment.push_back(nullptr);
	const ConfigFile file = {"f.toml", text};
	return parseOptions(environment.data(), entryNames, {&file, 1});
}

State stateOf(std::vector<const char *> environment, const std::string &text = "")
{
	auto [options, error] = parse(std::move(environment), text);
	REQUIRE(error == "");
	return State(options);
}

op::Op product(int64_t m, int64_t n, int64_t k, Kind kind = Kind::mm)
{
	op::Op call;
	call.kind = kind;
	call.a = call.b = call.out = call.asked = Dtype::float32;
	call.m = m, call.n = n, call.k = k;
	call.flags = op::flagBetaZero;
	return call;
}

op::Op convolution(int64_t channels, op::Direction direction = op::Direction::forward)
{
	op::Convolution it;
	const auto fill = [](op::Tensor &tensor, int64_t outer, int64_t inner, int64_t extent) {
		tensor = {
		    {outer, inner, extent, extent}, {inner * extent * extent, 1, inner * extent, inner}, 4, Dtype::float32};
	};
	it.spatial = 2, it.direction = direction;
	fill(it.x, 32, channels, 28), fill(it.w, channels, channels, 3), fill(it.y, 32, channels, 28);
	for (int i = 0; i < 2; i++)
		it.stride[i] = it.dilation[i] = it.padBefore[i] = it.padAfter[i] = 1;
	it.compute = Dtype::float32;
	op::Op call = product(1, 1, 1, Kind::conv2d);
	call.library = op::Library::cudnn;
	call.geometry = op::numberOf(it);
	op::setFacts(call, op::factsOf(it));
	return call;
}

Device deviceOf(GpuModel model)
{
	return {&gpuConstants(model, nullptr, 0), 90, true};
}

Decision decided(const op::Op &call, const State &state, GpuModel model = GpuModel::h100)
{
	return decide(call, state, {}, deviceOf(model));
}

Weights keptBy(const op::Op &call, std::vector<const char *> environment, const std::string &text = "")
{
	return decided(call, stateOf(std::move(environment), text)).weights;
}

// ns of a cast to bfloat16, or to float16 with a scale.
double time(GpuModel model, const op::Op &call, Weights weights, Scaling scaling = Scaling::off)
{
	return estimate(gpuConstants(model, nullptr, 0), call, Path::half, scaling, op::Form::wide, weights);
}

const op::Op decoding = product(4096, 16, 4096); // as the program of a row-major framework calls it

} // namespace

TEST_CASE("a kept weight gains what the study's model expects")
{
	// Times of TF32 in relation to those of bfloat16, for 1, 64, 512 and 4096 rows.
	struct {
		GpuModel gpu;
		int64_t size;
		double checked[4], frozen[4];
	} const expected[] = {
	    {GpuModel::a100, 4096, {1.38, 1.34, 1.52, 1.75}, {1.48, 1.43, 1.54, 1.76}},
	    {GpuModel::h100, 4096, {1.26, 1.21, 1.51, 1.52}, {1.38, 1.32, 1.59, 1.54}},
	    {GpuModel::h200, 4096, {1.13, 1.09, 1.48, 1.60}, {1.27, 1.21, 1.56, 1.61}},
	    {GpuModel::b200, 4096, {.96, .97, 1.20, 1.51}, {1.11, 1.11, 1.30, 1.53}},
	    {GpuModel::a100, 8192, {1.68, 1.66, 1.74, 1.86}, {1.72, 1.69, 1.75, 1.86}},
	    {GpuModel::h100, 8192, {1.60, 1.57, 1.51, 1.66}, {1.65, 1.62, 1.54, 1.67}},
	    {GpuModel::h200, 8192, {1.52, 1.49, 1.55, 1.71}, {1.59, 1.56, 1.58, 1.71}},
	    {GpuModel::b200, 8192, {1.42, 1.40, 1.48, 1.64}, {1.52, 1.49, 1.53, 1.64}},
	};
	constexpr int64_t rows[] = {1, 64, 512, 4096};
	for (const auto &each : expected)
		for (size_t i = 0; i < std::size(rows); ++i)
			for (const auto &[weights, wanted] :
			     {std::pair{Weights::checked, each.checked[i]}, {Weights::frozen, each.frozen[i]}}) {
				const op::Op call = product(rows[i], each.size, each.size);
				const double tf32 = estimate(gpuConstants(each.gpu, nullptr, 0), call, Path::tf32, Scaling::off);
				INFO(static_cast<int>(each.gpu) << " " << each.size << " " << rows[i] << " " << name(weights));
				CHECK(tf32 / time(each.gpu, call, weights) == Approx(wanted).margin(0.006));
			}
}

TEST_CASE("the model keeps the operand that looks like a weight")
{
	constexpr double large = 1 << 18; // elements of 1 MiB
	CHECK(keptElements(product(512, 512, 512)) == large);
	CHECK(keptElements(product(512, 512, 511)) == 0);
	CHECK(keptElements(product(4096, 16, 4096)) == 0x1p24);
	CHECK(keptElements(product(16, 4096, 4096)) == 0x1p24);
	CHECK(keptElements(product(1 << 16, 1024, 1024)) == 0x1p20); // both are large; the second one is a square
	CHECK(keptElements(product(1024, 1 << 16, 1024)) == 0x1p20);
	CHECK(keptElements(convolution(256)) == 9 * 65536);
	CHECK(keptElements(convolution(128)) == 0); // 0.6 MiB
	CHECK(keptElements(convolution(256, op::Direction::backwardData)) == 9 * 65536);
	CHECK(keptElements(convolution(256, op::Direction::backwardFilter)) == 0);
}

TEST_CASE("a check needs a launch of its own only without the kernels of the scaling")
{
	for (const Scaling scaling : {Scaling::off, Scaling::automatic}) {
		const auto of = [scaling](Weights weights) { return time(GpuModel::h100, decoding, weights, scaling); };
		CHECK(of(Weights::checked) - of(Weights::frozen) == Approx(scaling == Scaling::off ? 2000 : 0).margin(1e-6));
		CHECK(of(Weights::frozen) < of(Weights::off));
	}
	// The conversion of the filter alone is replaced.
	const op::Op images = convolution(512);
	const double bytes = 6 * keptElements(images), terabytes = gpuConstants(GpuModel::h100, nullptr, 0).bandwidth;
	CHECK(time(GpuModel::h100, images, Weights::off) - time(GpuModel::h100, images, Weights::frozen) ==
	      Approx(bytes * (1 - 1. / 32) / (1e3 * terabytes)));
	// A product without a weight has one cost.
	const op::Op small = product(256, 256, 256);
	CHECK(time(GpuModel::h100, small, Weights::checked) == time(GpuModel::h100, small, Weights::off));
}

TEST_CASE("each device has its own modes and its own default")
{
	using W = Weights;
	struct {
		const char *setting;
		W gpu, cpu;
	} const cases[] = {
	    {"AUTOAMP_LOG=warn", W::off, W::watched},        {"AUTOAMP_WEIGHTS=auto", W::off, W::watched},
	    {"AUTOAMP_WEIGHTS=off", W::off, W::off},         {"AUTOAMP_WEIGHTS=checked", W::checked, W::watched},
	    {"AUTOAMP_WEIGHTS=watched", W::off, W::watched}, {"AUTOAMP_WEIGHTS=frozen", W::frozen, W::frozen}};
	for (const auto &[setting, gpu, cpu] : cases) {
		INFO(setting);
		const State state = stateOf({setting, "AUTOAMP_STRATEGY=cast"});
		CHECK(state.weights == gpu);
		CHECK(state.weightsOnCpu == cpu);
		CHECK(decided(decoding, state).weights == gpu);
	}
}

TEST_CASE("some calls keep no weight")
{
	const auto changed = [](op::Op call, auto change) {
		change(call);
		return call;
	};
	struct {
		op::Op call;
		WeightObstacle obstacle;
	} const cases[] = {
	    {decoding, WeightObstacle::none},
	    {product(16, 4096, 4096, Kind::addmm), WeightObstacle::none},
	    {product(511, 512, 512), WeightObstacle::none}, // the second operand has 1 MiB
	    {product(511, 511, 512), WeightObstacle::too_small},
	    {changed(decoding, [](op::Op &call) { call.batch = 2; }), WeightObstacle::batched},
	    {changed(decoding, [](op::Op &call) { call.flags |= op::flagArrays; }), WeightObstacle::batched},
	    {changed(decoding, [](op::Op &call) { call.graph = 1; }), WeightObstacle::graph},
	    {changed(decoding, [](op::Op &call) { call.kind = Kind::lstm; }), WeightObstacle::recurrent},
	    {convolution(256), WeightObstacle::none},
	    {convolution(128), WeightObstacle::too_small},
	    {changed(convolution(256), [](op::Op &call) { call.graph = 1; }), WeightObstacle::none},
	    {changed(convolution(256), [](op::Op &call) { call.batch = 2; }), WeightObstacle::none}, // two groups
	    {convolution(256, op::Direction::backwardData), WeightObstacle::none},
	    {convolution(256, op::Direction::backwardFilter), WeightObstacle::no_filter},
	};
	for (const char *type : {"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_DTYPE=float16"}) {
		const State state = stateOf({"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=cast", type});
		for (const auto &[call, obstacle] : cases) {
			INFO(type << " " << policy::name(call.kind) << " " << call.m << " " << call.n << " " << call.k);
			CHECK(obstacleToKeeping(call, state) == obstacle);
			const Decision decision = decided(call, state);
			if (decision.verdict == Verdict::lowered)
				CHECK((decision.weights == Weights::frozen) == (obstacle == WeightObstacle::none));
		}
	}
	// Only float16 is checked, and perhaps changed, by AUTOAMP_SCALING=strict.
	const auto strict = [](const char *type) {
		return obstacleToKeeping(decoding, stateOf({"AUTOAMP_WEIGHTS=checked", "AUTOAMP_SCALING=strict", type}));
	};
	CHECK(strict("AUTOAMP_DTYPE=float16") == WeightObstacle::strict_scaling);
	CHECK(strict("AUTOAMP_DTYPE=bfloat16") == WeightObstacle::none);
	CHECK(obstacleToKeeping(decoding, stateOf({})) == WeightObstacle::off);
	CHECK(meaning(WeightObstacle::none) == nullptr);
}

TEST_CASE("auto expects the cost of a kept weight, and keeps none that does not pay")
{
	const State off = stateOf({"AUTOAMP_DTYPE=bfloat16"}),
	            checked = stateOf({"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_WEIGHTS=checked"}),
	            frozen = stateOf({"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_WEIGHTS=frozen"});
	// A few rows: the conversion of the weight costs more than the product in fp32.
	CHECK(decided(decoding, off).verdict == Verdict::kept);
	for (const State *state : {&checked, &frozen}) {
		const Decision decision = decided(decoding, *state);
		CHECK(decision.strategy == Strategy::cast);
		CHECK(decision.weights == state->weights);
		CHECK(decision.estimateLowered == static_cast<float>(time(GpuModel::h100, decoding, state->weights)));
	}
	// A B200 converts faster, so that a check does not pay.
	CHECK(decided(decoding, checked, GpuModel::b200).verdict == Verdict::kept);
	CHECK(decided(decoding, checked, GpuModel::b200).weights == Weights::off);
	CHECK(decided(decoding, frozen, GpuModel::b200).weights == Weights::frozen);
	// 2 us for the check are more than the conversion of 4 MiB.
	const op::Op small = product(1024, 1024, 1024);
	const Decision decision = decided(small, checked);
	CHECK(decision.strategy == Strategy::cast);
	CHECK(decision.weights == Weights::off);
	CHECK(decision.estimateLowered == decided(small, off).estimateLowered);
	// A strategy or a rule that the user selects is a demand.
	const State cast = stateOf({"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_WEIGHTS=checked", "AUTOAMP_STRATEGY=cast"}),
	            rule = stateOf({"AUTOAMP_WEIGHTS=checked"}, "[[rule]]\nprecision = \"bfloat16\"\n");
	for (const State *state : {&cast, &rule}) {
		CHECK(decided(small, *state).weights == Weights::checked);
		CHECK(decided(small, *state).estimateLowered ==
		      static_cast<float>(time(GpuModel::h100, small, Weights::checked)));
	}
}

TEST_CASE("only a call that is cast keeps a weight")
{
	CHECK(keptBy(decoding, {"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=tf32"}) == Weights::off);
	CHECK(keptBy(decoding, {"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=fp32"}) == Weights::off);
	CHECK(keptBy(decoding, {"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=cast", "AUTOAMP_LEVEL=O0"}) == Weights::off);
	CHECK(keptBy(decoding, {"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=cast", "AUTOAMP_CUSTOM_BLACK_LIST=mm"}) ==
	      Weights::off);
	// The substitute does not convert.
	const Decision decision =
	    decided(product(4096, 4096, 4096), stateOf({"AUTOAMP_WEIGHTS=frozen", "AUTOAMP_STRATEGY=cast"}));
	CHECK(decision.weights == Weights::frozen);
	CHECK(decision.substituted(Reason::out_of_memory).weights == Weights::off);
}

TEST_CASE("the first rule with weights decides the weights, the first with a precision the precision")
{
	const std::string weights = "[[rule]]\nm = \">=4096\"\nweights = \"checked\"\n",
	                  precision = "[[rule]]\nop = \"mm\"\nprecision = \"bfloat16\"\n",
	                  both = "[[rule]]\nn = \"<=16\"\nprecision = \"float16\"\nweights = \"frozen\"\n";
	const auto answer = [](const std::string &rules, const op::Op &call = decoding) {
		const Decision decision = decided(call, stateOf({"AUTOAMP_STRATEGY=cast"}, rules));
		return std::string(op::name(decision.precision)) + " " + name(decision.weights) + " " + name(decision.reason);
	};
	CHECK(answer("") == "float16 off white_list");
	CHECK(answer(weights) == "float16 checked white_list"); // the lists decide
	CHECK(answer(precision) == "bfloat16 off rule");
	CHECK(answer(weights + precision) == "bfloat16 checked rule");
	CHECK(answer(precision + weights) == "bfloat16 checked rule");
	CHECK(answer(both + weights + precision) == "float16 frozen rule");
	CHECK(answer(weights + both) == "float16 checked rule");
	CHECK(answer(precision + both) == "bfloat16 frozen rule");
	CHECK(answer(weights + precision, product(2048, 16, 4096)) == "bfloat16 off rule");
	// A rule has priority over the variable. On a GPU nothing is watched.
	for (const auto &[mode, wanted] :
	     {std::pair{"off", Weights::off}, {"watched", Weights::off}, {"checked", Weights::checked}})
		CHECK(keptBy(decoding, {"AUTOAMP_STRATEGY=cast", "AUTOAMP_WEIGHTS=frozen"},
		             "[[rule]]\nweights = \"" + std::string(mode) + "\"\n") == wanted);
	// A rule about weights does not make a call pay.
	const op::Op small = product(64, 64, 64);
	CHECK(decided(small, stateOf({}, "[[rule]]\nweights = \"frozen\"\n")).verdict == Verdict::kept);
}

TEST_CASE("rules about weights have their text, errors and warnings")
{
	const std::string file = "[[rule]]\nop = \"mm\"\nweights = \"checked\"\n[[rule]]\nprecision = \"tf32\"\nweights = "
	                         "\"off\"\n";
	const auto rules = parse({}, file).options.rules;
	CHECK(textOf(rules->list[0]) == "op = \"mm\", weights = \"checked\"");
	CHECK(textOf(rules->list[1]) == "precision = \"tf32\", weights = \"off\"");
	CHECK(parse({}, "[[rule]]\nweights = \"auto\"\n").error ==
	      "f.toml:2:11: weights=auto: bad value; accepted: off, checked, watched, frozen");
	CHECK(parse({}, "[[rule]]\nwheights = \"off\"\n").error ==
	      "f.toml:2:1: wheights: no such key of a rule; did you mean weights?");
	CHECK(parse({}, "weights = \"cheked\"\n").error ==
	      "f.toml:1:11: weights=cheked: bad value; accepted: auto, off, checked, watched, frozen");
	const auto warnings = [](const std::string &text) { return parse({}, text).options.rules->warnings(); };
	const std::string precision = "[[rule]]\nprecision = \"tf32\"\n", weights = "[[rule]]\nweights = \"off\"\n",
	                  both = "[[rule]]\nm = 1\nprecision = \"tf32\"\nweights = \"off\"\n";
	CHECK(warnings(precision + weights).empty());
	CHECK(warnings(precision + both).empty());
	CHECK(warnings(weights + both).empty());
	CHECK(warnings(weights + precision + both) ==
	      std::vector<std::string>{"f.toml:5:1: the rule never matches: earlier rules match all its calls"});
	CHECK(warnings(weights + weights) ==
	      std::vector<std::string>{"f.toml:3:1: the rule never matches: the rule at f.toml:1:1 matches all its calls"});
}

TEST_CASE("rules and variables decide about the weights of CPU calls too")
{
	Cpu cpu;
	cpu.hasBfloat16 = true;
	Device device = {};
	device.cpu = &cpu;
	op::Op few = product(4096, 4, 4096);
	few.library = op::Library::blas, few.device = op::cpuDevice;
	const auto weights = [&](std::vector<const char *> environment, const std::string &rules = "") {
		return decide(few, stateOf(std::move(environment), rules), {}, device).weights;
	};
	CHECK(weights({}) == Weights::watched);
	CHECK(weights({"AUTOAMP_WEIGHTS=checked"}) == Weights::watched);
	CHECK(weights({"AUTOAMP_WEIGHTS=frozen"}) == Weights::frozen);
	CHECK(weights({}, "[[rule]]\nweights = \"frozen\"\n") == Weights::frozen);
	CHECK(weights({}, "[[rule]]\ndevice = 0\nweights = \"frozen\"\n") == Weights::watched);
	CHECK(decide(few, stateOf({}, "[[rule]]\nweights = \"off\"\n"), {}, device).verdict == Verdict::kept);
}
