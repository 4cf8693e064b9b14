#include "src/config/read_options.h"
#include "src/op/convolution.h"
#include "src/policy/decide.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string>

using namespace autoamp;
using namespace autoamp::policy;
using op::Dtype;
using op::Kind;
using op::Obstacle;

namespace {

const char *const entryNames[] = {"cublasSgemm_v2", "cublasGemmEx", "cublasSaxpy_v2"};

State stateOf(std::vector<const char *> environment)
{
	environment.push_back(nullptr);
	auto [options, error] = parseOptions(environment.data(), entryNames);
	REQUIRE(error == "");
	return State(options);
}

op::Op product(int64_t m, int64_t n, int64_t k, Kind kind = Kind::mm)
{
	op::Op call;
	call.kind = kind;
	call.a = call.b = call.out = call.asked = Dtype::float32;
	call.m = m, call.n = n, call.k = k;
	call.lda = m, call.ldb = k, call.ldc = call.ldd = m;
	return call;
}

template <class Change>
op::Op changed(op::Op call, Change change)
{
	change(call);
	return call;
}

const op::Op large = product(4096, 4096, 4096), small = product(64, 64, 64);
const Device h100 = {&gpuConstants(GpuModel::h100, nullptr, 0), 90, true};
const Device turing = {&gpuConstants(GpuModel::automatic, "Tesla T4", 75), 75, true};
const Device volta = {&gpuConstants(GpuModel::automatic, "Tesla V100", 70), 70, true};
const Device oldDriver = {h100.gpu, 90, false}, noDriver = {h100.gpu, 90, false, false};

// The reasons that all tests of this file produced.
std::set<Reason> &met()
{
	static std::set<Reason> reasons;
	return reasons;
}

Decision decided(const op::Op &call, const State &state, const Device &device = h100)
{
	Decision decision = decide(call, state, {}, device);
	met().insert(decision.reason);
	return decision;
}

void expect(const Decision &decision, Verdict verdict, Reason reason, Dtype precision)
{
	INFO("got " << name(decision.verdict) << " " << name(decision.reason));
	CHECK(decision.verdict == verdict);
	CHECK(decision.reason == reason);
	CHECK(decision.precision == precision);
	CHECK((decision.strategy == Strategy::fp32) == (verdict != Verdict::lowered));
}

void expectKept(const Decision &decision, Reason reason, Dtype precision = Dtype::float32)
{
	expect(decision, Verdict::kept, reason, precision);
}

void expectLowered(const Decision &decision, Reason reason, Dtype precision = Dtype::float16,
                   Strategy strategy = Strategy::cast)
{
	expect(decision, Verdict::lowered, reason, precision);
	CHECK(decision.strategy == strategy);
}

void expectTf32(const Decision &decision)
{
	expectLowered(decision, Reason::white_list, Dtype::tf32, Strategy::tf32);
}

} // namespace

TEST_CASE("a large product is lowered, in the type that was asked for")
{
	expectLowered(decided(large, stateOf({})), Reason::white_list);
	expectLowered(decided(large, stateOf({"AUTOAMP_DTYPE=bfloat16"})), Reason::white_list, Dtype::bfloat16);
	for (Kind kind : {Kind::mm, Kind::addmm, Kind::bmm})
		expectLowered(decided(product(4096, 4096, 4096, kind), stateOf({})), Reason::white_list);
	Decision decision = decided(large, stateOf({}));
	CHECK(decision.estimate > 9 * decision.estimateLowered);
	CHECK(decision.estimateLowered > 0);
}

TEST_CASE("switched off, nothing else is looked at")
{
	Decision decision = decided(large, stateOf({"AUTOAMP_ENABLED=0", "AUTOAMP_LEVEL=O0"}));
	expectKept(decision, Reason::disabled);
	CHECK(decision.estimate < 0);
}

TEST_CASE("an obstacle of the call applies under every policy")
{
	struct {
		Obstacle obstacle;
		Reason reason;
	} const cases[] = {
	    {Obstacle::not_float32, Reason::not_float32},
	    {Obstacle::float64, Reason::float64},
	    {Obstacle::already_low, Reason::already_low},
	    {Obstacle::emulated_fp32, Reason::emulated_fp32},
	    {Obstacle::zero_size, Reason::zero_size},
	    {Obstacle::bad_argument, Reason::bad_argument},
	    {Obstacle::pedantic, Reason::pedantic},
	    {Obstacle::vendor_caller, Reason::vendor_caller},
	    {Obstacle::solver_caller, Reason::solver_caller},
	    {Obstacle::unsupported, Reason::unsupported},
	    {Obstacle::vector_op, Reason::vector_op},
	    {Obstacle::matrix_vector, Reason::matrix_vector},
	    {Obstacle::triangular, Reason::triangular},
	    {Obstacle::rank_update, Reason::rank_update},
	    {Obstacle::symmetric, Reason::symmetric},
	    {Obstacle::complex, Reason::complex},
	    {Obstacle::copy, Reason::copy},
	    {Obstacle::grouped, Reason::grouped},
	    {Obstacle::factorization, Reason::factorization},
	    {Obstacle::host_blocked, Reason::host_blocked},
	    {Obstacle::no_fp32_output, Reason::no_fp32_output},
	    {Obstacle::graph, Reason::graph},
	    {Obstacle::native_graph, Reason::native_graph},
	    {Obstacle::unknown_graph, Reason::unknown_graph},
	    {Obstacle::unseen_graph, Reason::unseen_graph},
	    {Obstacle::softmax, Reason::softmax},
	    {Obstacle::normalization, Reason::normalization},
	    {Obstacle::pooling, Reason::pooling},
	    {Obstacle::elementwise, Reason::elementwise},
	    {Obstacle::reduction, Reason::reduction},
	    {Obstacle::loss, Reason::loss},
	    {Obstacle::sampling, Reason::sampling},
	};
	CHECK(std::size(cases) == static_cast<size_t>(Obstacle::sampling));
	State forced = stateOf({"AUTOAMP_CUSTOM_WHITE_LIST=mm,cublasSgemm*", "AUTOAMP_STRATEGY=cast"});
	for (auto &each : cases) {
		op::Op call = changed(large, [&](op::Op &op) { op.obstacle = each.obstacle; });
		expectKept(decided(call, stateOf({})), each.reason);
		expectKept(decided(call, forced), each.reason);
	}
}

TEST_CASE("sums in half are raised where a list wants fp32")
{
	const op::Op half = changed(large, [](op::Op &op) {
		op.a = op.b = op.out = op.asked = Dtype::float16;
		op.flags = op::flagHalfSums;
	});
	const struct {
		std::vector<const char *> environment;
		Verdict verdict;
		Reason reason;
	} rows[] = {
	    {{}, Verdict::kept, Reason::already_low},
	    {{"AUTOAMP_CUSTOM_WHITE_LIST=mm", "AUTOAMP_STRATEGY=cast"}, Verdict::kept, Reason::already_low},
	    {{"AUTOAMP_CUSTOM_BLACK_LIST=bmm"}, Verdict::kept, Reason::already_low},
	    {{"AUTOAMP_CUSTOM_BLACK_LIST=mm"}, Verdict::raised, Reason::custom_black_list},
	    {{"AUTOAMP_CUSTOM_BLACK_LIST=cublasSgemm*", "AUTOAMP_DTYPE=tf32"}, Verdict::raised, Reason::custom_black_list},
	    {{"AUTOAMP_CUSTOM_BLACK_LIST=mm", "AUTOAMP_STRATEGY=fp32"}, Verdict::kept, Reason::disabled},
	    {{"AUTOAMP_CUSTOM_BLACK_LIST=mm", "AUTOAMP_LEVEL=O0"}, Verdict::observed, Reason::custom_black_list},
	};
	for (const auto &row : rows) {
		const Decision decision = decided(half, stateOf(row.environment));
		expect(decision, row.verdict, row.reason, Dtype::float16);
		CHECK(decision.strategy == Strategy::fp32);
		CHECK(decision.isUnchanged() == (row.verdict != Verdict::raised));
	}
	State black = stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=mm"}), listed = stateOf({});
	listed.category[static_cast<unsigned>(Kind::mm)] = Category::fp32;
	expect(decided(half, listed), Verdict::raised, Reason::black_list, Dtype::float16);
	const op::Op empty = changed(half, [](op::Op &op) { op.obstacle = Obstacle::zero_size; });
	expect(decided(empty, black), Verdict::kept, Reason::zero_size, Dtype::float16);
	expect(decided(empty, stateOf({})), Verdict::kept, Reason::already_low, Dtype::float16);
}

TEST_CASE("types and sizes keep a call also without an obstacle")
{
	State state = stateOf({"AUTOAMP_STRATEGY=cast"});
	auto typed = [](Dtype a, Dtype b, Dtype out, Dtype asked) {
		return changed(large, [=](op::Op &op) { op.a = a, op.b = b, op.out = out, op.asked = asked; });
	};
	constexpr Dtype f32 = Dtype::float32, f16 = Dtype::float16, f64 = Dtype::float64;
	expectKept(decided(typed(f64, f64, f64, f64), state), Reason::float64, f64);
	expectKept(decided(typed(Dtype::complex64, Dtype::complex64, Dtype::complex64, Dtype::complex64), state),
	           Reason::complex, Dtype::complex64);
	expectKept(decided(typed(f16, f16, f32, f16), state), Reason::already_low, f16);
	expectKept(decided(typed(f32, f32, f32, f16), state), Reason::already_low, f16);
	expectKept(decided(typed(f32, f16, f32, f32), state), Reason::not_float32);
	expectKept(decided(typed(f32, f32, f16, f32), state), Reason::not_float32);
	expectKept(decided(typed(Dtype::other, Dtype::other, Dtype::other, Dtype::other), state), Reason::not_float32,
	           Dtype::other);
	CHECK(decided(typed(f64, f64, f64, f64), state).estimate < 0);

	expectKept(decided(product(0, 1, 1), state), Reason::zero_size);
	expectKept(decided(product(1, 0, 1), state), Reason::zero_size);
	expectKept(decided(product(1, 1, 0), state), Reason::zero_size);
	expectKept(decided(changed(large, [](op::Op &op) { op.batch = 0; }), state), Reason::zero_size);
	expectKept(decided(changed(large, [](op::Op &op) { op.flags = op::flagAlphaZero; }), state), Reason::zero_size);
	expectKept(decided(product(-1, 1, 1), state), Reason::bad_argument);
}

TEST_CASE("a custom name decides about the calls that it reaches, and no other")
{
	const struct {
		const char *word;
		Lists lists;
		std::vector<const char *> levels;
	} systems[] = {{"torch", Lists::torch, {"O1"}},
	               {"paddle", Lists::paddle, {"O1", "O2", "OD"}},
	               {"mindspore", Lists::mindspore, {"O1", "O2", "O3", "auto"}}};
	for (auto &system : systems)
		for (const char *level : system.levels) {
			const std::string lists = std::string("AUTOAMP_LISTS=") + system.word;
			const std::string chosen = std::string("AUTOAMP_LEVEL=") + level;
			const State usual = stateOf({lists.c_str(), chosen.c_str()});
			for (std::string_view name : opsOf(system.lists)) {
				const std::string white = "AUTOAMP_CUSTOM_WHITE_LIST=" + std::string(name);
				const std::string black = "AUTOAMP_CUSTOM_BLACK_LIST=" + std::string(name);
				const State lowering = stateOf({lists.c_str(), chosen.c_str(), white.c_str()});
				const State keeping = stateOf({lists.c_str(), chosen.c_str(), black.c_str()});
				const uint64_t reached = rowsOf(system.lists, name);
				for (unsigned row = 0; row < callRowCount; ++row) {
					const op::Op call = product(1, 1, 1, static_cast<Kind>(row));
					const bool isReached = reached >> row & 1, isNamed = isReached && op::isProduct(call.kind);
					const Listing as = listed(call, usual);
					const Listing lowered = listed(call, lowering), kept = listed(call, keeping);
					if (lowered.isLowered != (isNamed || as.isLowered) ||
					    kept.isLowered != (!isReached && as.isLowered) ||
					    lowered.reason != (isNamed ? Reason::custom_white_list : as.reason) ||
					    kept.reason != (isReached ? Reason::custom_black_list : as.reason))
						FAIL(lists << " " << level << " " << name << " " << callRows()[row].op);
				}
			}
		}
	SUCCEED();
}

TEST_CASE("Paddle's O0 takes no names, and no O0 changes anything")
{
	for (const char *lists : {"AUTOAMP_LISTS=torch", "AUTOAMP_LISTS=paddle", "AUTOAMP_LISTS=mindspore"}) {
		const State state = stateOf({lists, "AUTOAMP_LEVEL=O0", "AUTOAMP_CUSTOM_BLACK_LIST=torch:mm"});
		const Decision decision = decided(large, state);
		CHECK(decision.verdict == Verdict::observed);
		CHECK(decision.precision == Dtype::float32);
		const bool isPaddle = std::string(lists).ends_with("paddle");
		CHECK(decision.reason == (isPaddle ? Reason::white_list : Reason::custom_black_list));
	}
}

TEST_CASE("unlisted ops are lowered if the list system does so")
{
	expectLowered(decided(large, stateOf({"AUTOAMP_LISTS=mindspore", "AUTOAMP_LEVEL=O2"})), Reason::unlisted);
	expectLowered(decided(large, stateOf({"AUTOAMP_LISTS=mindspore", "AUTOAMP_LEVEL=O3"})), Reason::unlisted);
	expectLowered(decided(large, stateOf({"AUTOAMP_LISTS=mindspore", "AUTOAMP_LEVEL=auto"})), Reason::white_list);
	const op::Op vector = product(4096, 1, 4096, Kind::mv); // Paddle's mv: on no list
	const State cast = stateOf({"AUTOAMP_LISTS=paddle", "AUTOAMP_STRATEGY=cast"});
	expectKept(decided(vector, cast), Reason::unlisted);
	const char *const level = "AUTOAMP_LEVEL=O2", *const lists = "AUTOAMP_LISTS=paddle";
	expectKept(decided(vector, stateOf({lists, level, "AUTOAMP_STRATEGY=cast"})), Reason::unlisted);
	expectLowered(decided(vector, stateOf({lists, level, "AUTOAMP_STRATEGY=cast", "AUTOAMP_USE_PROMOTE=0"})),
	              Reason::unlisted);
}

TEST_CASE("the device must be able to")
{
	State cast = stateOf({"AUTOAMP_STRATEGY=cast"});
	State bfloat16 = stateOf({"AUTOAMP_STRATEGY=cast", "AUTOAMP_DTYPE=bf16"});
	expectKept(decided(large, cast, volta), Reason::gpu_too_old);
	expectLowered(decided(large, cast, turing), Reason::white_list);
	expectKept(decided(large, bfloat16, turing), Reason::gpu_too_old);
	expectKept(decided(large, cast, oldDriver), Reason::driver_too_old);
	expectKept(decided(large, bfloat16, oldDriver), Reason::driver_too_old);

	// Strategies without autoamp kernels run with any driver.
	State tf32 = stateOf({"AUTOAMP_STRATEGY=tf32"}), typed = stateOf({"AUTOAMP_DTYPE=tf32"});
	State library = stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_DTYPE=bf16"});
	State unscaled = stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_SCALING=off"});
	expectTf32(decided(large, tf32, oldDriver));
	expectTf32(decided(large, stateOf({}), oldDriver));
	expectLowered(decided(large, library, oldDriver), Reason::white_list, Dtype::bfloat16, Strategy::library);
	expectKept(decided(changed(large, [](op::Op &op) { op.asked = Dtype::tf32; }), stateOf({}), oldDriver),
	           Reason::driver_too_old, Dtype::tf32);
	for (const State *state : {&tf32, &typed, &library, &unscaled}) {
		expectKept(decided(large, *state, noDriver), Reason::driver_too_old);
		expectKept(decided(large, *state, volta), Reason::gpu_too_old);
	}
	expectKept(decided(large, tf32, turing), Reason::gpu_too_old);
	expectKept(decided(large, typed, turing), Reason::gpu_too_old);
	expectKept(decided(large, library, turing), Reason::gpu_too_old);
	expectLowered(decided(large, unscaled, turing), Reason::white_list, Dtype::float16, Strategy::library);
	expectLowered(decided(large, stateOf({}), turing), Reason::white_list);

	const Cpu old; // policy_cpu.cpp has the other cases
	Device cpu = {};
	cpu.cpu = &old;
	expectKept(decided(changed(large, [](op::Op &op) { op.library = op::Library::blas; }), cast, cpu),
	           Reason::cpu_too_old);
}

TEST_CASE("custom lists beat the list system's, black beats white")
{
	op::Op gemmEx = changed(large, [](op::Op &op) { op.entry = 1; });
	State black = stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=cublasGemmEx"});
	expectKept(decided(gemmEx, black), Reason::custom_black_list);
	expectLowered(decided(large, black), Reason::white_list);
	expectKept(decided(large, stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=linear"})), Reason::custom_black_list);

	State both = stateOf({"AUTOAMP_CUSTOM_WHITE_LIST=mm", "AUTOAMP_CUSTOM_BLACK_LIST=cublasGemm*"});
	expectKept(decided(gemmEx, both), Reason::custom_black_list);
	expectLowered(decided(large, both), Reason::custom_white_list);
	expectKept(decided(small, both), Reason::too_small); // being listed is not sufficient

	expectLowered(decided(large, stateOf({"AUTOAMP_CUSTOM_WHITE_LIST=bmm,conv2d"})), Reason::white_list);
}

TEST_CASE("each category has its rule")
{
	struct {
		Category category;
		Reason reason;
	} const cases[] = {{Category::fp32, Reason::black_list},
	                   {Category::promote, Reason::promote},
	                   {Category::banned, Reason::banned},
	                   {Category::unlisted, Reason::unlisted}};
	for (auto &each : cases) {
		State state = stateOf({"AUTOAMP_STRATEGY=cast"}), white = stateOf({"AUTOAMP_CUSTOM_WHITE_LIST=mm"});
		for (State *changing : {&state, &white})
			changing->category[static_cast<unsigned>(Kind::mm)] = each.category;
		expectKept(decided(large, state), each.reason);
		expectLowered(decided(large, white), Reason::custom_white_list);
	}
	op::Op noProduct = product(4096, 4096, 4096, Kind::none);
	expectKept(decided(noProduct, stateOf({"AUTOAMP_STRATEGY=cast", "AUTOAMP_CUSTOM_WHITE_LIST=cublasSgemm_v2"})),
	           Reason::unlisted);
}

TEST_CASE("a named strategy asks no model")
{
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=fp32"})), Reason::disabled);
	expectLowered(decided(small, stateOf({"AUTOAMP_STRATEGY=cast"})), Reason::white_list);
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=cast", "AUTOAMP_CUSTOM_BLACK_LIST=mm"})),
	           Reason::custom_black_list);
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=fp32", "AUTOAMP_CUSTOM_BLACK_LIST=mm"})),
	           Reason::custom_black_list);
}

TEST_CASE("a named strategy runs as named, in its type")
{
	op::Op onTf32 = changed(large, [](op::Op &op) { op.asked = Dtype::tf32; });
	State tf32 = stateOf({"AUTOAMP_STRATEGY=tf32"});
	State library = stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_DTYPE=bf16"});
	State unscaled = stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_SCALING=off"});
	for (const op::Op &call : {large, small}) {
		expectTf32(decided(call, tf32));
		expectLowered(decided(call, library), Reason::white_list, Dtype::bfloat16, Strategy::library);
		expectLowered(decided(call, unscaled), Reason::white_list, Dtype::float16, Strategy::library);
	}
	expectKept(decided(onTf32, tf32), Reason::already_low, Dtype::tf32);
	expectLowered(decided(onTf32, library), Reason::white_list, Dtype::bfloat16, Strategy::library);
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=tf32", "AUTOAMP_CUSTOM_BLACK_LIST=mm"})),
	           Reason::custom_black_list);
	// The vendor's own opt-out applies only to TF32.
	expectKept(decided(large, stateOf({"AUTOAMP_STRATEGY=tf32", "NVIDIA_TF32_OVERRIDE=0"})), Reason::disabled);
	expectKept(decided(large, stateOf({"AUTOAMP_DTYPE=tf32", "NVIDIA_TF32_OVERRIDE=0"})), Reason::disabled);
	expectLowered(decided(large, stateOf({"NVIDIA_TF32_OVERRIDE=0"})), Reason::white_list);
	expectKept(decided(product(256, 256, 256), stateOf({"NVIDIA_TF32_OVERRIDE=0"})), Reason::not_profitable);
}

TEST_CASE("a convolution is cast where a tensor-core engine takes it")
{
	op::Convolution it;
	it.spatial = 2;
	const auto fill = [](op::Tensor &tensor, int64_t outer, int64_t channels, int64_t size) {
		tensor = {{outer, channels, size, size}, {channels * size * size, size * size, size, 1}, 4, Dtype::float32};
	};
	fill(it.x, 64, 256, 56), fill(it.w, 256, 256, 3), fill(it.y, 64, 256, 56);
	for (int i = 0; i < 2; i++)
		it.padBefore[i] = it.padAfter[i] = it.stride[i] = it.dilation[i] = 1;
	const auto callOf = [](const op::Convolution &convolution) {
		op::Op call = product(1, 1, 1, Kind::conv2d);
		call.asked = Dtype::tf32;
		op::setProduct(call, convolution);
		call.geometry = op::numberOf(convolution);
		call.library = op::Library::cudnn;
		return call;
	};
	op::Convolution depthwise = it;
	depthwise.groups = 256, depthwise.w.dims[1] = 1;
	const State half = stateOf({}), brain = stateOf({"AUTOAMP_DTYPE=bfloat16"});
	const State cast = stateOf({"AUTOAMP_STRATEGY=cast"}),
	            brainCast = stateOf({"AUTOAMP_STRATEGY=cast", "AUTOAMP_DTYPE=bfloat16"});
	for (const op::Direction direction :
	     {op::Direction::forward, op::Direction::backwardData, op::Direction::backwardFilter}) {
		it.direction = depthwise.direction = direction;
		CHECK(decided(callOf(it), half).strategy == Strategy::cast);
		CHECK(decided(callOf(it), brain).strategy == Strategy::cast);
		CHECK(decided(callOf(it), cast, turing).strategy == Strategy::cast);
		CHECK(decided(callOf(it), brainCast, turing).reason == Reason::gpu_too_old);
		CHECK(decided(callOf(it), half).form == op::Form::wide);
		// A strict check measures no convolution. Its reason is not that of a missing engine.
		for (const char *const strategy : {"AUTOAMP_STRATEGY=auto", "AUTOAMP_STRATEGY=cast"}) {
			const State strict = stateOf({strategy, "AUTOAMP_SCALING=strict"});
			CHECK(decided(callOf(it), strict).verdict == Verdict::kept);
			CHECK(decided(callOf(it), strict).reason == Reason::strict_scaling);
			CHECK(decided(callOf(it), strict).precision == Dtype::tf32);
		}
		CHECK(decided(callOf(it), stateOf({"AUTOAMP_SCALING=strict", "AUTOAMP_DTYPE=bf16"})).strategy ==
		      Strategy::cast);
		// float16 has no engine for it, bfloat16 has one with a bfloat16 result.
		for (const State *state : {&half, &cast}) {
			CHECK(decided(callOf(depthwise), *state).verdict == Verdict::kept);
			CHECK(decided(callOf(depthwise), *state).reason ==
			      (state == &half ? Reason::already_low : Reason::no_fp32_output));
			CHECK(decided(callOf(depthwise), *state).precision == Dtype::tf32);
		}
		CHECK(decided(callOf(depthwise), brainCast).verdict == Verdict::lowered);
		CHECK(decided(callOf(depthwise), brainCast).form == op::Form::narrow);
		// The faster of both forms, if the result is large and has to be copied.
		op::Convolution thin = it;
		thin.x.dims[1] = thin.w.dims[1] = 64;
		const op::Form home = direction == op::Direction::forward ? op::Form::narrow : op::Form::wide;
		CHECK(decided(callOf(thin), brainCast).form == home);
		op::Convolution last = thin;
		for (op::Tensor *tensor : {&last.x, &last.w, &last.y}) {
			const int64_t channels = tensor->dims[1], size = tensor->dims[2];
			const int64_t strides[] = {channels * size * size, 1, channels * size, channels};
			std::copy_n(strides, 4, tensor->strides);
		}
		op::Op call = callOf(last);
		call.flags = op::flagBetaZero;
		CHECK(decided(call, brainCast).form == op::Form::wide);
		call.flags = 0;
		CHECK(decided(call, brainCast).form == home);
		CHECK(decided(callOf(it), stateOf({"AUTOAMP_STRATEGY=tf32"})).reason == Reason::already_low);
		CHECK(decided(callOf(it), stateOf({"AUTOAMP_CUSTOM_BLACK_LIST=conv2d"})).verdict == Verdict::kept);
		const State library = stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_SCALING=off"});
		CHECK(decided(callOf(it), library).strategy == Strategy::library);
		op::Op planned = callOf(it);
		planned.graph = 1;
		CHECK(decided(planned, library).reason == Reason::unsupported);
		CHECK(decided(callOf(it), stateOf({"AUTOAMP_STRATEGY=library", "AUTOAMP_DTYPE=bfloat16"})).reason ==
		      Reason::unsupported);
	}
}

TEST_CASE("tf32 as the lower type")
{
	State state = stateOf({"AUTOAMP_DTYPE=tf32"});
	expectTf32(decided(large, state));
	expectTf32(decided(product(256, 256, 256), state));
	expectKept(decided(small, state), Reason::not_profitable); // without a conversion it is never too small
	expectKept(decided(changed(large, [](op::Op &op) { op.asked = Dtype::tf32; }), state), Reason::already_low,
	           Dtype::tf32);
}

TEST_CASE("a recurrent net is lowered to bfloat16 alone, and goes back as it came")
{
	const auto net = [](uint16_t flags, Obstacle obstacle = Obstacle::none) {
		op::Op op = product(6400, 4096, 2048, Kind::lstm);
		op.library = op::Library::cudnn, op.asked = Dtype::tf32;
		op.flags = flags, op.obstacle = obstacle;
		return op;
	};
	const State bfloat16 = stateOf({"AUTOAMP_DTYPE=bfloat16", "AUTOAMP_STRATEGY=cast"});
	expectLowered(decided(net(0), bfloat16), Reason::white_list, Dtype::bfloat16);
	expectLowered(decided(net(0), stateOf({"AUTOAMP_DTYPE=bfloat16"})), Reason::white_list, Dtype::bfloat16);
	expectKept(decided(net(0), stateOf({"AUTOAMP_STRATEGY=cast"})), Reason::no_fp32_output, Dtype::tf32);
	expectKept(decided(net(0), stateOf({})), Reason::no_fp32_output, Dtype::tf32);
	expectKept(decided(net(0), stateOf({"AUTOAMP_STRATEGY=tf32"})), Reason::already_low, Dtype::tf32);
	expectKept(decided(net(0), bfloat16, turing), Reason::gpu_too_old);
	expectLowered(decided(net(op::flagMustBeLow), bfloat16), Reason::white_list, Dtype::bfloat16);
	expectKept(decided(net(op::flagMustNotBeLow), bfloat16), Reason::reserve_space, Dtype::tf32);
	for (std::vector<const char *> changed : std::vector<std::vector<const char *>>{
	         {}, {"AUTOAMP_LEVEL=O0"}, {"AUTOAMP_CUSTOM_BLACK_LIST=lstm"}, {"AUTOAMP_STRATEGY=fp32"}}) {
		State state = stateOf(changed);
		expectLowered(decided(net(op::flagMustBeLow), state), Reason::reserve_space, Dtype::bfloat16);
		state.isRegionOff = true;
		expectLowered(decided(net(op::flagMustBeLow), state), Reason::reserve_space, Dtype::bfloat16);
	}
	expectKept(decided(net(op::flagMustBeLow, Obstacle::bad_argument), bfloat16), Reason::bad_argument, Dtype::tf32);
}

TEST_CASE("every candidate has its estimate, or the reason why it is unavailable")
{
	const auto check = [](std::vector<const char *> environment, const Device &device, Dtype asked,
	                      std::array<Dtype, strategyCount> precisions, std::array<Reason, strategyCount> reasons) {
		op::Op call = changed(large, [=](op::Op &op) { op.asked = asked; });
		State state = stateOf(environment);
		const Candidates candidates = candidatesFor(call, state, device);
		for (unsigned i = 0; i < strategyCount; ++i) {
			INFO(name(static_cast<Strategy>(i)) << " " << name(candidates[i].why));
			CHECK(candidates[i].strategy == static_cast<Strategy>(i));
			CHECK(candidates[i].precision == precisions[i]);
			CHECK(candidates[i].why == reasons[i]);
			CHECK((candidates[i].estimate > 0) == (reasons[i] != Reason::disabled));
		}
		CHECK(candidatesFor(product(0, 1, 1), state, device)[1].estimate < 0);
		return candidates;
	};
	constexpr Dtype f32 = Dtype::float32, f16 = Dtype::float16, b16 = Dtype::bfloat16, t32 = Dtype::tf32;
	constexpr Reason none = Reason::count, off = Reason::disabled, old = Reason::gpu_too_old;
	const Candidates half = check({}, h100, f32, {f32, f16, f16, t32}, {none, none, off, none});
	const Candidates bfloat = check({"AUTOAMP_DTYPE=bf16"}, h100, f32, {f32, b16, b16, t32}, {none, none, off, none});
	CHECK(bfloat[1].estimate == half[1].estimate - 4000); // no scales
	CHECK(half[1].estimate < half[3].estimate);
	CHECK(half[3].estimate < half[0].estimate);
	check({}, h100, t32, {t32, f16, f16, t32}, {none, none, off, Reason::already_low});
	check({"AUTOAMP_SCALING=off"}, h100, f32, {f32, f16, f16, t32}, {none, none, off, none});
	check({"AUTOAMP_SCALING=off", "AUTOAMP_STRATEGY=library"}, h100, f32, {f32, f16, f16, t32},
	      {none, none, none, none});
	check({"AUTOAMP_DTYPE=tf32"}, h100, f32, {f32, t32, t32, t32}, {none, off, off, none});
	check({"NVIDIA_TF32_OVERRIDE=0"}, h100, f32, {f32, f16, f16, t32}, {none, none, off, off});
	check({}, turing, t32, {f32, f16, f16, t32}, {none, none, off, old});
	check({"AUTOAMP_DTYPE=bf16"}, turing, f32, {f32, b16, b16, t32}, {none, old, off, old});
	check({}, oldDriver, f32, {f32, f16, f16, t32}, {none, Reason::driver_too_old, off, none});

	// If an autoamp kernel is needed next to the product, only the cast is possible, and the kernel's cost counts.
	const auto sum = [](op::Op &op) { op.epilogue = static_cast<uint8_t>(op::Epilogue::bgradb); };
	for (const op::Op &call : {changed(large, sum), changed(large, [](op::Op &op) { op.flags |= op::flagArrays; })}) {
		const Candidates candidates = candidatesFor(call, stateOf({}), h100);
		CHECK((candidates[1].isAvailable() && candidates[1].estimate > half[1].estimate + 1000));
		CHECK((candidates[3].why == Reason::unsupported && candidates[2].why == off));
	}
}

TEST_CASE("a cast has a substitute that needs no memory")
{
	const op::Op huge = product(16384, 16384, 16384);
	const auto expectSubstitute = [](const Decision &decision, Strategy strategy, Dtype precision) {
		REQUIRE(decision.strategy == Strategy::cast);
		CHECK(decision.substitute == strategy);
		const Decision other = decision.substituted(Reason::memory_budget);
		CHECK(other.verdict == Verdict::lowered);
		CHECK(other.reason == Reason::memory_budget);
		CHECK(other.strategy == strategy);
		CHECK(other.precision == precision);
		CHECK(other.estimateLowered < other.estimate);
		CHECK(other.estimateLowered >= decision.estimateLowered);
		CHECK(other.needsNoMemory);
	};
	for (const char *strategy : {"AUTOAMP_STRATEGY=auto", "AUTOAMP_STRATEGY=cast"}) {
		expectSubstitute(decided(huge, stateOf({strategy})), Strategy::tf32, Dtype::tf32);
		const State unscaled = stateOf({strategy, "AUTOAMP_SCALING=off"}); // FAST_16F only for users who name it
		expectSubstitute(decided(huge, unscaled), Strategy::tf32, Dtype::tf32);
	}
	const State bfloat16 = stateOf({"AUTOAMP_STRATEGY=cast", "AUTOAMP_DTYPE=bfloat16"});
	expectSubstitute(decided(huge, bfloat16), Strategy::tf32, Dtype::tf32);

	const State cast = stateOf({"AUTOAMP_STRATEGY=cast"});
	const auto hasNone = [](const op::Op &call, const State &state, const Device &device = h100) {
		const Decision decision = decided(call, state, device);
		return decision.strategy == Strategy::cast && decision.substitute == Strategy::fp32;
	};
	CHECK(hasNone(huge, stateOf({"AUTOAMP_STRATEGY=cast", "NVIDIA_TF32_OVERRIDE=0"})));
	CHECK(hasNone(huge, cast, turing));
	CHECK(hasNone(changed(huge, [](op::Op &call) { call.flags |= op::flagArrays; }), cast));
	CHECK(hasNone(changed(huge, [](op::Op &call) { call.asked = Dtype::tf32; }), cast)); // is TF32 already
	CHECK(hasNone(product(16, 16, 16), cast));                                           // no gain
}

TEST_CASE("auto lowers what gains against the path that the call would have taken")
{
	State state = stateOf({}), unscaled = stateOf({"AUTOAMP_SCALING=off"}), bfloat16 = stateOf({"AUTOAMP_DTYPE=bf16"});
	auto tf32 = [](op::Op op) { return changed(op, [](op::Op &call) { call.asked = Dtype::tf32; }); };
	op::Op square2048 = product(2048, 2048, 2048), decode = product(1, 4096, 4096), square320 = product(320, 320, 320);

	expectKept(decided(small, state), Reason::too_small);
	expectTf32(decided(product(256, 256, 256), state)); // there is no conversion cost
	expectLowered(decided(square2048, unscaled), Reason::white_list);
	expectLowered(decided(product(4096, 3072, 1024), state), Reason::white_list);
	expectTf32(decided(square2048, state)); // the two small kernels of the scales decide it
	expectKept(decided(tf32(square2048), state), Reason::not_profitable, Dtype::tf32);
	expectLowered(decided(tf32(large), state), Reason::white_list);
	expectKept(decided(decode, state), Reason::not_profitable);
	expectKept(decided(tf32(decode), bfloat16), Reason::not_profitable, Dtype::tf32);
	CHECK(decided(tf32(large), state).estimate < decided(large, state).estimate / 5);

	// The scales cost two small kernels that bfloat16 does not need.
	const auto estimate = [&](const State &state) { return candidatesFor(square320, state, h100)[1].estimate; };
	CHECK(estimate(state) > estimate(bfloat16));
	CHECK(estimate(unscaled) == estimate(bfloat16));
	State strict = stateOf({"AUTOAMP_SCALING=strict"});
	CHECK(estimate(strict) > estimate(state));
	CHECK(estimate(stateOf({"AUTOAMP_SCALING=strict", "AUTOAMP_DTYPE=bf16"})) == estimate(bfloat16));
	expectLowered(decided(large, strict), Reason::white_list);
	// Rounding of the result does not change a decision, although it takes time: it shows the effect of autocast.
	for (const char *const scaling : {"AUTOAMP_SCALING=strict", "AUTOAMP_SCALING=auto"})
		for (const op::Op &op : {large, square2048, square320, product(4096, 4096, 64)}) {
			const Decision plain = decided(op, stateOf({scaling}));
			const Decision rounding = decided(op, stateOf({scaling, "AUTOAMP_ROUND_OUTPUT=1"}));
			CHECK(rounding.strategy == plain.strategy);
			CHECK(rounding.estimateLowered == plain.estimateLowered);
		}

	// The vendor's own conversion runs only if named, even if the model finds it faster: it has neither scale nor
	// clamp.
	const Device geforce = {&gpuConstants(GpuModel::rtx4090, nullptr, 0), 89, true};
	for (const State *each : {&state, &unscaled, &bfloat16})
		expectLowered(decided(square2048, *each, geforce), Reason::white_list,
		              each == &bfloat16 ? Dtype::bfloat16 : Dtype::float16);

	// A device without TF32 runs such a call in fp32.
	Decision onTuring = decided(tf32(square2048), state, turing);
	expectLowered(onTuring, Reason::white_list);
	expectKept(decided(tf32(small), state, turing), Reason::too_small);
}

TEST_CASE("auto lowers only calls with an expected gain")
{
	State state = stateOf({});
	bool hasShort = false; // a call whose gain is more than 5 % and less than 1 us
	for (GpuModel model : {GpuModel::a100, GpuModel::h100, GpuModel::h200, GpuModel::b200, GpuModel::rtx4090}) {
		Device device = {&gpuConstants(model, nullptr, 0), 90, true};
		for (Dtype asked : {Dtype::float32, Dtype::tf32}) {
			for (int64_t m = 1; m <= 16384; m *= 4) {
				for (int64_t n = 1; n <= 16384; n *= 4) {
					for (int64_t k = 16; k <= 16384; k *= 4) {
						op::Op call = changed(product(m, n, k), [=](op::Op &op) { op.asked = asked; });
						Decision decision = decided(call, state, device);
						double gain = decision.estimate / decision.estimateLowered;
						const bool isGain = gain >= 1.05f && decision.estimate - decision.estimateLowered >= 1000;
						REQUIRE((decision.verdict == Verdict::lowered) == isGain);
						hasShort |= gain >= 1.05f && !isGain;
					}
				}
			}
		}
	}
	CHECK(hasShort);
	expectKept(decided(product(96, 64, 96), state), Reason::too_small);
}

TEST_CASE("at O0 reason and strategy say what would have been, precision what is")
{
	State observing = stateOf({"AUTOAMP_LEVEL=O0"});
	auto observed = [&](const op::Op &call, const State &state, Strategy strategy, Reason reason, Dtype precision) {
		Decision decision = decided(call, state);
		CHECK(decision.verdict == Verdict::observed);
		CHECK(decision.strategy == strategy);
		CHECK(decision.reason == reason);
		CHECK(decision.precision == precision);
		return decision;
	};
	Decision decision = observed(large, observing, Strategy::cast, Reason::white_list, Dtype::float32);
	CHECK(decision.estimate > decision.estimateLowered);
	observed(small, observing, Strategy::fp32, Reason::too_small, Dtype::float32);
	observed(changed(large, [](op::Op &op) { op.asked = Dtype::tf32; }), observing, Strategy::cast, Reason::white_list,
	         Dtype::tf32);
	observed(changed(large, [](op::Op &op) { op.obstacle = Obstacle::pedantic; }), observing, Strategy::fp32,
	         Reason::pedantic, Dtype::float32);
	observed(large, stateOf({"AUTOAMP_LEVEL=O0", "AUTOAMP_STRATEGY=fp32"}), Strategy::fp32, Reason::disabled,
	         Dtype::float32);
}

TEST_CASE("the same call always gets the same answer")
{
	State state = stateOf({}), again = stateOf({});
	auto bytes = [](const Decision &decision) {
		return std::make_tuple(decision.verdict, decision.strategy, decision.reason, decision.precision,
		                       decision.estimate, decision.estimateLowered);
	};
	for (const op::Op &call : {large, small, product(300, 17, 5000, Kind::bmm), product(0, 0, 0)}) {
		op::Op before = call;
		auto first = bytes(decide(call, state, {}, h100));
		decide(large, again, {}, volta);
		CHECK(bytes(decide(call, again, {}, h100)) == first);
		CHECK(call == before);
	}
}

TEST_CASE("every reason has its text, and is given either by the policy or by another component")
{
	// rule has its own tests, region_disabled needs regions. The others are set elsewhere: in the wrapper (nested,
	// second_copy) or during lowering.
	const std::set<Reason> elsewhere = {Reason::rule,
	                                    Reason::region_disabled,
	                                    Reason::nested,
	                                    Reason::second_copy,
	                                    Reason::capture_unready,
	                                    Reason::out_of_memory,
	                                    Reason::no_memory_pools,
	                                    Reason::memory_budget,
	                                    Reason::uncured,
	                                    Reason::engine_failed,
	                                    Reason::no_onednn,
	                                    Reason::forked_inside,
	                                    Reason::weight_not_kept,
	                                    Reason::self_test_failed};
	if (met().empty())
		return; // run alone
	std::set<std::string> names;
	for (unsigned i = 0; i < static_cast<unsigned>(Reason::count); ++i) {
		auto reason = static_cast<Reason>(i);
		INFO(name(reason));
		CHECK(names.insert(name(reason)).second);
		CHECK(std::strlen(meaning(reason)) > 0);
		CHECK(met().count(reason) + elsewhere.count(reason) == 1);
	}
	CHECK(std::string(name(Reason::white_list)) == "white_list");
	CHECK(std::string(advice(Reason::too_small)) == "batch small products");
	CHECK(std::string(name(Verdict::fallback)) == "fallback");
	CHECK(std::string(name(Strategy::cast)) == "cast");
	CHECK(std::string(name(Reason::count)) == "?");
	CHECK(std::string(name(static_cast<Verdict>(99))) == "?");
}

TEST_CASE("whatever a custom list names, nothing else is decided otherwise, and nothing is done at O0")
{
	const auto isSame = [](const Decision &x, const Decision &y) {
		return x.verdict == y.verdict && x.reason == y.reason && x.strategy == y.strategy && x.precision == y.precision;
	};
	const struct {
		const char *lists, *prefix;
		Lists system;
		std::vector<const char *> levels;
	} systems[] = {{"AUTOAMP_LISTS=torch", "torch:", Lists::torch, {"O0", "O1"}},
	               {"AUTOAMP_LISTS=paddle", "paddle:", Lists::paddle, {"O0", "OD", "O1", "O2"}},
	               {"AUTOAMP_LISTS=mindspore", "ms:", Lists::mindspore, {"O0", "O1", "O2", "O3", "auto"}}};
	for (const auto &[lists, prefix, system, levels] : systems)
		for (const char *level : levels) {
			const std::string levelIs = std::string("AUTOAMP_LEVEL=") + level;
			const State without = stateOf({lists, levelIs.c_str()});
			for (const std::string_view name : opsOf(system))
				for (const bool isWhite : {true, false}) {
					const std::string named = (isWhite ? "AUTOAMP_CUSTOM_WHITE_LIST=" : "AUTOAMP_CUSTOM_BLACK_LIST=") +
					                          (prefix + std::string(name));
					const State with = stateOf({lists, levelIs.c_str(), named.c_str()});
					for (const Kind kind :
					     {Kind::none, Kind::mm, Kind::addmm, Kind::bmm}) { // mv always has an obstacle
						const op::Op call = product(4096, 4096, 4096, kind);
						const Decision decision = decided(call, with);
						const bool isNamed = rowsOf(system, name) >> static_cast<unsigned>(kind) & 1u;
						INFO(lists << " " << level << " " << named << " " << policy::name(kind));
						if (!isNamed)
							REQUIRE(isSame(decision, decided(call, without)));
						if (without.observeOnly)
							REQUIRE(decision.isUnchanged());
						else if (isNamed && kind != Kind::none)
							REQUIRE((decision.verdict == Verdict::lowered) == isWhite);
					}
				}
		}
}
