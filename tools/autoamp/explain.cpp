#include "tools/autoamp/explain.h"
#include "tools/autoamp/escape.h"

#include "inject/entry_table.h"
#include "inject/vendors.h"
#include "kernels/images.h"
#include "src/lists/nearest.h"
#include "src/op/convolution.h"
#include "src/op/dnn.h"
#include "src/policy/cpu_calibration.h"
#include "src/policy/decide.h"
#include "tools/autoamp/account.h"
#include "tools/autoamp/cpu.h"
#include "tools/autoamp/failure.h"
#include "tools/autoamp/launch.h"
#include "tools/autoamp/machine.h"
#include "tools/autoamp/text.h"
#include "tools/left_alone.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

namespace autoamp::tool {

const std::vector<std::string> operandTypes = {"float32", "float16", "bfloat16", "float64", "complex64", "complex128"};

namespace {

using op::Obstacle, policy::Decision, policy::Verdict;
using Json = nlohmann::ordered_json;

// One part of the configuration, and the decision with this part and all before it.
struct Step {
	const char *name;
	std::string says;
	Decision decision;
};

struct Explanation {
	std::string entry;
	op::Op op;
	policy::Category category;
	Decision decision;
	std::vector<Step> steps;
	policy::Candidates candidates;
	policy::RulesOfCall rules;
	policy::Target target;
	policy::Device device;
	std::optional<policy::Cpu> cpu; // for a call of a CPU BLAS
};

// The reason in inject/left_alone why a function is not intercepted; empty if the function is not in that list.
std::string whyLeftAlone(const std::string &name)
{
	const auto plain = name.ends_with("_64") ? name.substr(0, name.size() - 3) : name;
	std::istringstream lines(leftAloneText);
	std::string reason;
	for (std::string line; std::getline(lines, line);) {
		if (line.starts_with("because "))
			reason = line;
		std::istringstream words(line.starts_with("#") || line == reason ? "" : line);
		for (std::string word; words >> word;)
			if (word == plain || word == plain + "_v2")
				return reason;
	}
	return {};
}

size_t indexOf(const std::string &name, std::span<const char *const> entries)
{
	const std::vector<std::string_view> all(entries.begin(), entries.end());
	const bool is64 = name.ends_with("_64"); // programs write cublasSgemm; cublas_v2.h makes it cublasSgemm_v2
	for (const auto &each : {name, name.substr(0, name.size() - 3 * is64) + (is64 ? "_v2_64" : "_v2")})
		if (const auto found = std::find(all.begin(), all.end(), each); found != all.end())
			return static_cast<size_t>(found - all.begin());
	if (const auto reason = whyLeftAlone(name); !reason.empty())
		fail(Status::wrong, "explain: {} is not intercepted, {}", name, reason);
	fail(Status::wrong, "explain: no entry point '{}'{}", name,
	     policy::nearestHint(name, all, "; autoamp lists shows them"));
}

std::string_view fileName(std::string_view path)
{
	return path.substr(path.rfind('/') + 1); // without '/', npos + 1 is 0
}

template <typename Files>
bool isAnyOf(std::string_view path, const Files &beginnings)
{
	const auto file = fileName(path);
	return std::any_of(std::begin(beginnings), std::end(beginnings),
	                   [&](const char *beginning) { return file.starts_with(beginning); });
}

// As a cudaDataType.
int typeOf(const ExplainRequest &request)
{
	int type = 0;
	while (op::name(op::dtypeOf(type)) != request.dtype)
		type++;
	return type;
}

// "paddle O1: mm is lower_precision", and the names of the custom lists without effect.
std::string listsStep(const policy::Options &options, const char *op, policy::Category category)
{
	auto says = fmt::format("{} {}: {} is {}", options.valueOf(policy::Option::lists),
	                        options.valueOf(policy::Option::level), op, policy::name(category));
	for (const auto *set : {&options.customWhite, &options.customBlack})
		for (const auto &name : set->idle)
			says += fmt::format("; {} reaches no library call with a 16-bit form", name);
	return says;
}

// An fp32 product of a CPU BLAS, or the obstacle in the row of the entry tables.
op::Op cpuOpOf(const ExplainRequest &request, size_t index)
{
	const op::Entry &entry = entry::entryTable[index];
	op::Op op;
	op.entry = static_cast<uint16_t>(index);
	op.library = entry.library, op.device = op::cpuDevice;
	op.kind = entry.kind == op::Kind::bmm && request.batch == 1 ? op::Kind::mm : entry.kind;
	op.obstacle = entry.obstacle;
	op.a = op.b = op.out = op.asked = entry.dtype;
	op.m = request.m, op.n = request.n, op.k = request.k, op.batch = static_cast<int32_t>(request.batch);
	op.lda = std::max<int64_t>(1, op.m), op.ldb = std::max<int64_t>(1, op.k), op.ldc = op.ldd = op.lda;
	if (op.batch != 1)
		op.stridea = op.m * op.k, op.strideb = op.k * op.n, op.stridec = op.strided = op.m * op.n;
	if (op.obstacle == Obstacle::none &&
	    (isAnyOf(request.caller, front::blasFiles) || isAnyOf(request.caller, front::blasSolverFiles)))
		op.obstacle = Obstacle::solver_caller;
	return op;
}

// The call as its entry-point wrapper would describe it: a plain product, a convolution that only its types can prevent
// from being lowered, or the obstacle in the row of the entry tables.
op::Op opOf(const ExplainRequest &request, size_t index, const policy::Options &options)
{
	const op::Entry &entry = entry::entryTable[index];
	if (entry.library == op::Library::blas)
		return cpuOpOf(request, index);
	const auto row = static_cast<uint16_t>(index);
	int type = typeOf(request);
	const op::VendorEnvironment environment = {options.tf32Allowed, options.emulatesSingle};
	op::Op op;
	if (entry.library == op::Library::cudnn) {
		op = op::describe(entry, row, op::dtypeOf(type), environment);
		if (entry.obstacle == Obstacle::none && op.kind == op::Kind::none)
			op.kind = op::Kind::conv2d, op.graph = 1; // takes a cuDNN plan with any graph as a convolution, as most
			                                          // plans are
		op.m = request.m, op.n = request.n, op.k = request.k, op.batch = static_cast<int32_t>(request.batch);
	} else if (entry.obstacle != Obstacle::none && entry.obstacle != Obstacle::grouped) {
		op::PlainCall call;
		call.m = request.m, call.n = request.n, call.k = request.k, call.batchCount = request.batch;
		call.Atype = call.xType = type;
		op = op::describe(entry, row, call);
	} else {
		alignas(void *) static uint32_t one = 0x3f803c00, zero = 0; // only these two addresses are read, as float or
		                                                            // half
		op::GemmCall call;
		call.handle = call.C = &one;
		call.alpha = call.A = call.B = &one;
		call.beta = &zero;
		call.m = request.m, call.n = request.n, call.k = request.k, call.batchCount = request.batch;
		call.lda = std::max<int64_t>(1, call.m), call.ldb = std::max<int64_t>(1, call.k), call.ldc = call.lda;
		call.strideA = call.m * call.k, call.strideB = call.k * call.n, call.strideC = call.m * call.n;
		if (entry.dtype == op::Dtype::float16) // by its name: cublasHgemm
			type = op::typeFloat16, call.computeType = op::computeFloat16;
		call.Atype = call.Btype = call.Ctype = type;
		op = op::describe(entry, row, call, {}, environment);
	}
	if (isAnyOf(request.caller, front::vendorFiles))
		op.obstacle = Obstacle::vendor_caller;
	else if (op.obstacle == Obstacle::none && isAnyOf(request.caller, front::solverFiles))
		op.obstacle = Obstacle::solver_caller;
	return op;
}

// The numbers in "28x28" or "s1". A single number stands for `count` equal ones. Empty if the word has another form.
std::vector<int64_t> numbersOf(const std::string &word, const char *letter, size_t count = 0)
{
	std::vector<int64_t> numbers;
	for (size_t at = std::strlen(letter); word.starts_with(letter) && at < word.size();) {
		const auto end = std::min(word.find('x', at), word.size());
		numbers.push_back(std::atoll(word.substr(at, std::min<size_t>(end - at, 9)).c_str()));
		at = end + 1;
	}
	if (numbers.size() == 1)
		numbers.resize(std::max<size_t>(count, 1), numbers.front());
	return numbers;
}

op::Tensor packed(std::vector<int64_t> dims, bool isLast)
{
	op::Tensor tensor;
	tensor.rank = static_cast<int32_t>(dims.size()), tensor.type = op::Dtype::float32;
	int64_t stride = isLast ? dims[1] : 1;
	for (size_t i = dims.size(); i-- > 0;) {
		tensor.dims[i] = dims[i];
		tensor.strides[i] = isLast && i == 1 ? 1 : stride;
		stride *= isLast && i == 1 ? 1 : dims[i];
	}
	return tensor;
}

// Sets the convolution from the shape in a trace (n32 c64 28x28 k64 3x3 s1 p1 d1 g1 nhwc), in the direction that has
// the same product. Leaves `op` without a geometry if the shape is not understood; the model then estimates the
// product.
void setGeometry(op::Op &op, const trace::RowInfo &row)
{
	std::istringstream stream(row.shape);
	const std::vector<std::string> words(std::istream_iterator<std::string>(stream), {});
	if (words.size() != 10)
		return;
	const auto n = numbersOf(words[0], "n"), c = numbersOf(words[1], "c"), image = numbersOf(words[2], ""),
	           k = numbersOf(words[3], "k"), taps = numbersOf(words[4], ""), groups = numbersOf(words[8], "g");
	const size_t spatial = image.size();
	const auto stride = numbersOf(words[5], "s", spatial), pad = numbersOf(words[6], "p", spatial),
	           dilation = numbersOf(words[7], "d", spatial);
	double size = 1;
	for (const auto *list : {&n, &c, &image, &k, &taps, &groups})
		for (const int64_t number : *list)
			size *= static_cast<double>(number);
	if (spatial < 1 || spatial > op::mostSpatial || n.size() != 1 || c.size() != 1 || k.size() != 1 ||
	    groups.size() != 1 || taps.size() != spatial || stride.size() != spatial || pad.size() != spatial ||
	    dilation.size() != spatial || !(size >= 1 && size < 0x1p60))
		return;
	std::vector<int64_t> x = {n[0], c[0]}, w = {k[0], c[0] / groups[0]}, y = {n[0], k[0]};
	op::Convolution convolution;
	for (size_t i = 0; i < spatial; i++) {
		if (stride[i] < 1)
			return;
		x.push_back(image[i]), w.push_back(taps[i]);
		y.push_back((image[i] + 2 * pad[i] - dilation[i] * (taps[i] - 1) - 1) / stride[i] + 1);
		convolution.padBefore[i] = convolution.padAfter[i] = static_cast<int32_t>(pad[i]);
		convolution.stride[i] = static_cast<int32_t>(stride[i]);
		convolution.dilation[i] = static_cast<int32_t>(dilation[i]);
	}
	const bool isLast = words[9] == "nhwc";
	convolution.x = packed(x, isLast), convolution.w = packed(w, isLast), convolution.y = packed(y, isLast);
	convolution.groups = static_cast<int32_t>(groups[0]);
	convolution.spatial = static_cast<uint8_t>(spatial);
	convolution.compute = op::Dtype::float32;
	for (const auto direction : {op::Direction::forward, op::Direction::backwardData, op::Direction::backwardFilter}) {
		convolution.direction = direction;
		const auto facts = op::factsOf(convolution);
		if (!facts.fits || std::tie(facts.m, facts.n, facts.k, facts.batch) != std::tie(row.m, row.n, row.k, row.batch))
			continue;
		op.geometry = op::numberOf(convolution);
		op.flags |= op::flagBetaZero;
		op::setFacts(op, facts);
		return;
	}
}

policy::Where whereOf(const ExplainRequest &request, const policy::Rules &rules)
{
	const auto bits = [](auto &patterns, auto &name) { return name.empty() ? 0 : policy::bitsOf(patterns, name); };
	return {fileName(request.caller), bits(rules.regionPatterns, request.region),
	        static_cast<uint32_t>(bits(rules.threadPatterns, request.thread))};
}

// With AUTOAMP_SCOPE=regions nothing is lowered outside regions.
bool isOutside(const ExplainRequest &request, const policy::Options &options)
{
	return options.scope == policy::Scope::regions && request.region.empty();
}

// The machine for which a call is explained.
struct Machine {
	policy::Device ideal, here; // ideal: it can lower every product
	std::string place;
};

Machine cpuMachine(const KnownCpu &known, const policy::Cpu &idealCpu)
{
	Machine machine = {};
	machine.ideal.cpu = &idealCpu, machine.here.cpu = &known.cpu;
	machine.place =
	    fmt::format("{} constants, one thread{}{}", known.cpu.name,
	                known.problem.empty() ? "" : fmt::format(" ({}: {})", policy::cpuCalibrationFile, known.problem),
	                known.cpu.olderSpeed < 1 ? ", a BLAS with AVX-512; an older OpenBLAS gains more" : "");
	return machine;
}

Machine gpuMachine(const ExplainRequest &request, const policy::Options &options)
{
	const auto driver = request.gpu ? Driver{} : queryDriver();
	const auto *gpu = driver.gpus.empty() ? nullptr : &driver.gpus.front();
	const auto &constants =
	    policy::gpuConstants(options.gpuModel, gpu ? gpu->name.c_str() : nullptr, gpu ? gpu->capability : 0);
	const policy::Device ideal = {&constants, 90, true};
	const policy::Device here =
	    gpu ? policy::Device{&constants, gpu->capability, kernels::canLoad(gpu->capability, driver.version)} : ideal;
	const auto place = gpu ? gpu->name : request.gpu ? "--gpu" : "no GPU here";
	return {ideal, here, fmt::format("{}, constants of {}", place, constants.name)};
}

std::string cpuWeightsStep(const op::Op &op, const policy::Options &options, policy::Weights mode, bool needsKept)
{
	const auto megabytes =
	    static_cast<double>(std::max(op.m, op.n)) * static_cast<double>(op.k) * sizeof(float) / 0x1p20;
	const auto need = needsKept ? fmt::format("a gain needs a kept copy of the weight ({:.1f} MiB of fp32)", megabytes)
	                            : "the decision needs no kept weight";
	// A copy has half the size of the weight. Copies take at most three quarters of the memory.
	const bool hasRoom = megabytes / 2 < static_cast<double>(options.memory) / 0x1p20 * 3 / 4;
	return fmt::format("{}: {}{}", policy::name(mode), need,
	                   !needsKept || mode == policy::Weights::off ? ""
	                   : hasRoom                                  ? "; until there is one, the call runs unchanged"
	                             : "; AUTOAMP_MEMORY has no room for one: the call runs unchanged until the "
	                               "weight has been the same three times, and then converts it each time");
}

// Estimates of a lowered product, in ns: with conversion at each call, and with a kept weight if it has one.
struct WeightTimes {
	float converted;
	std::optional<float> kept;
};
std::optional<WeightTimes> weightTimes(const Explanation &explanation)
{
	const auto &[op, candidates, target] = std::tie(explanation.op, explanation.candidates, explanation.target);
	const auto &cast = candidates[static_cast<size_t>(policy::Strategy::cast)];
	if (candidates[0].estimate < 0 || (!explanation.cpu && cast.estimate < 0))
		return std::nullopt;
	if (const auto &cpu = explanation.cpu) {
		const auto time = [&](policy::CpuPath path) { return static_cast<float>(policy::cpuTime(*cpu, op, path)); };
		WeightTimes times = {time(policy::CpuPath::converted), std::nullopt};
		if (policy::hasWeight(op))
			times.kept = time(policy::CpuPath::kept);
		return times;
	}
	const auto time = [&](policy::Weights weights) {
		return static_cast<float>(policy::estimate(*explanation.device.gpu, op, policy::Path::half,
		                                           target.scalingOfCast(), cast.form, weights));
	};
	WeightTimes times = {time(policy::Weights::off), std::nullopt};
	if (policy::obstacleToKeeping(op, target) == policy::WeightObstacle::none)
		times.kept = time(target.weights);
	return times;
}

// The reason why a CUDA product keeps no copy of a weight; empty: it keeps one.
std::string whyNotKept(const Explanation &explanation)
{
	const auto obstacle = policy::obstacleToKeeping(explanation.op, explanation.target);
	const auto &cast = explanation.candidates[static_cast<size_t>(policy::Strategy::cast)];
	const bool isCast = explanation.decision.strategy == policy::Strategy::cast;
	return isCast && cast.weights != policy::Weights::off ? ""
	       : obstacle != policy::WeightObstacle::none     ? policy::name(obstacle)
	       : isCast                                       ? "not_profitable"
	                                                      : "not_cast";
}

std::string gpuWeightsStep(const Explanation &explanation)
{
	const auto obstacle = policy::obstacleToKeeping(explanation.op, explanation.target);
	const auto why = whyNotKept(explanation);
	const auto megabytes = policy::keptElements(explanation.op) * sizeof(float) / 0x1p20;
	const auto says =
	    why.empty()
	        ? fmt::format("a copy of the weight ({:.1f} MiB of fp32) is kept once it has been the same four times",
	                      megabytes)
	    : obstacle != policy::WeightObstacle::none ? policy::meaning(obstacle)
	    : why == "not_profitable"                  ? "a copy and its check cost more than a conversion at each call"
	                                               : "the decision converts no weight";
	return fmt::format("{}: {}", policy::name(explanation.target.weights), says);
}

Explanation walk(const ExplainRequest &request, const op::Op &op, const policy::Options &options)
{
	const bool isCpu = op.library == op::Library::blas;
	const auto known = isCpu ? thisCpu(options) : KnownCpu{};
	auto idealCpu = known.cpu;
	idealCpu.hasBfloat16 = true;
	const auto [ideal, here, place] = isCpu ? cpuMachine(known, idealCpu) : gpuMachine(request, options);
	policy::State real(options);
	real.isRegionOff = isOutside(request, options);
	const auto &entry = entry::entryTable[op.entry];
	const auto *const listed = policy::rowsAt(entry.name).front();
	const bool isListed = op.kind != op::Kind::none && listed != &policy::callRows().front();
	const auto &categories = isCpu ? real.categoryOnCpu : real.category;
	const auto category = isListed ? categories[static_cast<unsigned>(op.kind)] : real.lists.category(*listed);
	const auto &rules = *options.rules;
	const auto where = whereOf(request, rules);
	const auto rulesOfCall =
	    op::isProduct(op.kind) && !real.isRegionOff ? rules.find(op, where) : policy::RulesOfCall{};
	const auto *const rule = rulesOfCall.precision;
	const auto target = policy::targetFor(real, rulesOfCall);
	Explanation result = {entry.name,  op,
	                      category,    policy::decide(op, real, where, here),
	                      {},          policy::candidatesFor(op, target, here),
	                      rulesOfCall, target,
	                      here,        isCpu ? std::optional(known.cpu) : std::nullopt};
	if (!options.enabled) {
		result.steps.push_back({"enabled", "AUTOAMP_ENABLED=0", result.decision});
		return result;
	}

	// Starts with a configuration that lowers everything; the steps then set each part to its real value.
	auto state = real;
	policy::Device device = ideal;
	state.observeOnly = state.isRegionOff = false;
	// A method that works for every product of the kind.
	state.strategy = policy::StrategyChoice::cast;
	state.dtype = op::limitsOf(op.kind) & op::lacksHalf ? op::Dtype::bfloat16 : op::Dtype::float16;
	state.customWhite = state.customBlack = {};
	state.rules = policy::Options().rules;
	state.dtypeOnCpu = op::Dtype::bfloat16;
	state.weights = policy::Weights::off, state.weightsOnCpu = policy::Weights::watched;
	for (auto *categoriesOf : {&state.category, &state.categoryOnCpu})
		std::fill(std::begin(*categoriesOf), std::end(*categoriesOf), policy::Category::lower_precision);
	const auto isLowered = [&](const char *name, std::string says) {
		result.steps.push_back({name, std::move(says), policy::decide(op, state, where, device)});
		return result.steps.back().decision.verdict == Verdict::lowered;
	};

	const auto *kind = op.kind == op::Kind::none ? "not a product" : policy::name(op.kind);
	const bool isUnlike = entry.dtype != op::Dtype::none && entry.dtype != op.a;
	const bool isGrouped = entry.obstacle == Obstacle::grouped;
	const auto taken = isGrouped ? " if all groups are identical; otherwise kept (grouped)"
	                   : op.graph
	                       ? " or a matmul, if the graph is one product with pointwise nodes; otherwise kept (graph)"
	                   : isUnlike ? fmt::format(" ({} itself takes {})", entry.name, op::name(entry.dtype))
	                              : "";
	bool isGoing = isLowered("call", fmt::format("{} of {} operands{}", kind, op::name(op.a), taken));
	const bool isRaised = result.decision.verdict == Verdict::raised;
	if (isGoing && options.scope == policy::Scope::regions) {
		state.isRegionOff = real.isRegionOff;
		isGoing = isLowered("scope", request.region.empty()
		                                 ? "regions: no region is open (--region)"
		                                 : fmt::format("regions: inside {}, if the program opens it (autoamp.h) or a "
		                                               "rule names it",
		                                               request.region));
	}
	if ((isGoing || isRaised) && !rules.list.empty()) {
		state.rules = options.rules;
		std::string says;
		for (const auto *each : {rulesOfCall.precision, rulesOfCall.weights})
			if (each && (says.empty() || rulesOfCall.precision != rulesOfCall.weights))
				says += fmt::format("{}{}: {}", says.empty() ? "" : "; ", each->place, policy::textOf(*each));
		isGoing = isLowered("rules",
		                    says.empty() ? fmt::format("none of {} matches", plural(rules.list.size(), "rule")) : says);
	}
	if ((isGoing || isRaised) && !rule) {
		std::copy(std::begin(real.category), std::end(real.category), state.category);
		std::copy(std::begin(real.categoryOnCpu), std::end(real.categoryOnCpu), state.categoryOnCpu);
		state.customWhite = real.customWhite, state.customBlack = real.customBlack;
		isGoing = isLowered("lists", listsStep(options, kind, category));
	}
	if (isGoing) {
		state.strategy = real.strategy, state.dtype = real.dtype, state.dtypeOnCpu = real.dtypeOnCpu, device = here;
		state.weights = real.weights; // the estimates of a CUDA product depend on it
		isGoing = isLowered("strategy", fmt::format("{} to {}; {}", options.valueOf(policy::Option::strategy),
		                                            op::name(isCpu ? target.dtypeOnCpu : target.dtype), place));
	}
	if (isGoing && isCpu) {
		const bool needsKept = result.steps.back().decision.needsKept;
		state.weightsOnCpu = real.weightsOnCpu;
		isGoing = isLowered("weights", cpuWeightsStep(op, options, target.weightsOnCpu, needsKept));
	} else if (!isCpu && result.steps.back().name == std::string_view("strategy") && weightTimes(result) &&
	           (rulesOfCall.weights || options.originOf(policy::Option::weights) != policy::Origin::fallback)) {
		isGoing = isLowered("weights", gpuWeightsStep(result));
	}
	state.observeOnly = real.observeOnly;
	if (isGoing || state.observeOnly)
		isLowered("level", options.valueOf(policy::Option::level));
	return result;
}

Json orNull(float ns)
{
	return ns >= 0 ? Json(double{ns}) : Json();
}

// Estimates of all strategies in one line; empty: there are none.
std::string timesOf(const Explanation &explanation)
{
	const auto ofCast = weightTimes(explanation);
	std::string times;
	for (const auto &candidate : explanation.candidates) {
		const bool isCast = ofCast && candidate.strategy == policy::Strategy::cast;
		if (candidate.estimate >= 0)
			times += fmt::format(
			    "{}{} {}{}{}", times.empty() ? "" : ", ", policy::name(candidate.strategy),
			    duration(isCast ? ofCast->converted : candidate.estimate),
			    isCast && ofCast->kept ? fmt::format(" ({} with a kept weight)", duration(*ofCast->kept)) : "",
			    candidate.isAvailable() ? "" : fmt::format(" ({})", policy::name(candidate.why)));
	}
	return times;
}

void writeJson(const Explanation &explanation)
{
	const auto &decision = explanation.decision;
	Json steps = Json::array(), strategies = Json::array();
	for (const auto &step : explanation.steps)
		steps.push_back({{"step", step.name},
		                 {"says", step.says},
		                 {"decision", policy::name(step.decision.verdict)},
		                 {"reason", policy::name(step.decision.reason)}});
	for (const auto &candidate : explanation.candidates)
		if (candidate.estimate >= 0)
			strategies.push_back(
			    {{"strategy", policy::name(candidate.strategy)},
			     {"precision", op::name(candidate.precision)},
			     {"est_ns", orNull(candidate.estimate)},
			     {"unavailable", candidate.isAvailable() ? Json() : Json(policy::name(candidate.why))}});
	Json weights;
	if (const auto times = weightTimes(explanation)) {
		const auto &target = explanation.target;
		const auto why = explanation.cpu ? "" : whyNotKept(explanation);
		weights = {{"mode", policy::name(explanation.cpu ? target.weightsOnCpu : target.weights)},
		           {"kept", explanation.cpu ? Json() : Json(why.empty())},
		           {"reason", why.empty() ? Json() : Json(why)},
		           {"needed", decision.needsKept},
		           {"est_converted_ns", orNull(times->converted)},
		           {"est_kept_ns", times->kept ? orNull(*times->kept) : Json()}};
	}
	const char *const cause = op::name(policy::causeOf(explanation.op, decision.reason));
	const Json document = {{"entry", explanation.entry},
	                       {"op", policy::name(explanation.op.kind)},
	                       {"category", policy::name(explanation.category)},
	                       {"decision", policy::name(decision.verdict)},
	                       {"reason", policy::name(decision.reason)},
	                       {"cause", cause ? Json(cause) : Json()},
	                       {"precision", op::name(decision.precision)},
	                       {"strategy", policy::name(decision.strategy)},
	                       {"est_ns", orNull(decision.estimate)},
	                       {"est_lowered_ns", orNull(decision.estimateLowered)},
	                       {"substitute", decision.substitute == policy::Strategy::fp32
	                                          ? Json()
	                                          : Json(policy::name(decision.substitute))},
	                       {"weights", weights},
	                       {"rule", explanation.rules.precision ? Json(explanation.rules.precision->place) : Json()},
	                       {"strategies", strategies},
	                       {"steps", steps}};
	fmt::print("{}\n", document.dump(1));
}

void writeText(const Explanation &explanation, bool isEnabled)
{
	const auto &decision = explanation.decision;
	const auto &op = explanation.op;
	std::string how;
	if (decision.verdict == Verdict::lowered)
		how = fmt::format(" to {} by {}{}", op::name(decision.precision), policy::name(decision.strategy),
		                  decision.needsKept ? ", once its weight is kept" : "");
	else if (decision.verdict == Verdict::raised)
		how = op.a == op::Dtype::float32 ? " to fp32" : " to sums in fp32";
	else if (decision.strategy != policy::Strategy::fp32)
		how = fmt::format("; O1 would lower it by {}", policy::name(decision.strategy));
	const Terminal terminal(STDOUT_FILENO, Colour::never);
	const auto row = [&](const char *name, const std::string &text) {
		fmt::print("{}\n", wrap(fmt::format("  {:<9} {}", name, text), terminal.width, 12));
	};
	fmt::print("{} {}: {}{}\n", shown(explanation.entry), shape(op.m, op.n, op.k, op.batch),
	           policy::name(decision.verdict), how);
	for (const auto &step : explanation.steps)
		row(step.name, step.says);
	const auto times = timesOf(explanation);
	if (!times.empty())
		row("model", times);
	if (decision.substitute != policy::Strategy::fp32)
		row("else", fmt::format("{} if there is no memory for converted operands", policy::name(decision.substitute)));
	const char *const cause = op::name(policy::causeOf(op, decision.reason));
	const bool isOnCpu = op.library == op::Library::blas;
	row("reason", fmt::format("{}: {}{}{}", policy::name(decision.reason), meaningOf(decision.reason, isOnCpu),
	                          cause ? ": " : "", cause ? cause : ""));
	const std::string advice = isEnabled ? adviceOn(decision.reason, isOnCpu) : "AUTOAMP_ENABLED=1";
	if (!advice.empty())
		row("try", advice);
}

} // namespace

std::optional<Decision> decideAgain(const trace::RowInfo &row, const policy::Device &device,
                                    const policy::Options &options, std::span<const char *const> entries)
{
	const auto found = std::find(entries.begin(), entries.end(), std::string_view(row.entry));
	if (found == entries.end() ||
	    std::find(operandTypes.begin(), operandTypes.end(), row.dtypeIn) == operandTypes.end())
		return std::nullopt;
	ExplainRequest request;
	request.entry = row.entry, request.dtype = row.dtypeIn, request.caller = row.caller, request.region = row.region;
	request.m = row.m, request.n = row.n, request.k = row.k, request.batch = row.batch;
	auto op = opOf(request, static_cast<size_t>(found - entries.begin()), options);
	op.obstacle = Obstacle::none; // obstacles of the call itself are not decided again
	for (const op::Kind kind : {op::Kind::mm, op::Kind::addmm, op::Kind::bmm})
		if (row.op == policy::name(kind)) // cublasLtMatmul can be each of them, and so can a cuDNN plan
			op.kind = kind;
	if (row.dtypeAsked == op::name(op::Dtype::tf32))
		op.asked = op::Dtype::tf32;
	policy::State state(options);
	state.isRegionOff = isOutside(request, options);
	if (op::isConvolution(op.kind))
		setGeometry(op, row);
	return policy::decide(op, state, whereOf(request, *options.rules), device);
}

void explain(const ExplainRequest &request, std::span<const char *const> entries)
{
	const auto index = indexOf(request.entry, entries);
	const auto library = entry::entryTable[index].library;
	const bool isCpu = library == op::Library::blas;
	if (request.device && (*request.device == "cpu") != isCpu)
		fail(Status::wrong, "explain: --device {}: {} is an entry point of {}", *request.device, request.entry,
		     isCpu ? "a CPU BLAS" : op::name(library));
	if (request.batch != 1 && isCpu && request.entry.find("batch") == std::string::npos)
		fail(Status::wrong, "explain: {} has no batch; use cblas_sgemm_batch_strided", request.entry);
	if (request.batch != 1 && library == op::Library::cublas && request.entry.find("Batched") == std::string::npos)
		fail(Status::wrong, "explain: {} has no batch; use cublasSgemmStridedBatched", request.entry);
	const bool is64 = request.entry.ends_with("_64") || request.entry.find("Lt") != std::string::npos;
	if (std::max({request.m, request.n, request.k}) > INT32_MAX && !is64 && !isCpu)
		fail(Status::wrong, "explain: {} takes sizes below 2^31; use its _64 variant", request.entry);
	const double m(request.m), n(request.n), k(request.k);
	if (std::max({m * n, m * k, n * k}) > 0x1p62) // elements are counted as in the library
		fail(Status::wrong, "explain: a matrix of these sizes has more than 2^62 elements");
	Environment environment;
	if (request.gpu)
		environment.set("AUTOAMP_GPU_MODEL", *request.gpu, "--gpu");
	if (request.weights)
		environment.set("AUTOAMP_WEIGHTS", *request.weights, "--weights");
	const auto parsed = environment.parse(entries, request.program);
	if (!parsed.error.empty())
		fail(Status::wrong, "{}", parsed.error);
	const auto &options = parsed.options;
	const auto explanation = walk(request, opOf(request, index, options), options);
	request.format == "json" ? writeJson(explanation) : writeText(explanation, options.enabled);
}

} // namespace autoamp::tool
