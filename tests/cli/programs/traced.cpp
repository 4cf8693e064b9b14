// Stands in for an application under the library: writes the trace of a scenario to AUTOAMP_TRACE_FILE, then ends as
// the scenario requires. `traced SCENARIO [NUMBER]`; without an intercepted call nothing is written, as in the core.
#include "src/base/clock.h"
#include "src/trace/write/recorder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

using namespace autoamp::trace;

namespace {

Recorder recorder;

Row product(const char *decision, const char *reason, int64_t size)
{
	Row row;
	row.entry = "cublasSgemm_v2";
	row.library = "cublas";
	row.op = "mm";
	row.m = row.n = row.k = size;
	row.transa = 'T';
	row.dtypeIn = row.dtypeAsked = row.dtypeAccumulate = row.dtypeOut = "float32";
	row.dtypeCompute = std::string(decision) == "lowered" ? "float16" : "float32";
	row.decision = decision;
	row.reason = reason;
	row.strategy = std::string(reason) == "white_list" ? "cast" : "fp32";
	row.caller = "/opt/my \"app\", two\nlines/program";
	row.eligible = true;
	row.estNs = 3000;
	row.estLoweredNs = 1500;
	return row;
}

// With the estimates of the model in the variable EST.
Row estimated(Row row, int64_t m)
{
	row.m = m, row.transa = 'N';
	if (std::sscanf(std::getenv("EST"), "%f %f", &row.estNs, &row.estLoweredNs) != 2)
		std::exit(9);
	return row;
}

Row other(const char *entry, const char *dtype, const char *reason)
{
	Row row = product("kept", reason, 64);
	row.entry = entry;
	row.op = nullptr;
	row.dtypeIn = row.dtypeAsked = row.dtypeCompute = row.dtypeOut = dtype;
	row.eligible = false;
	row.estNs = row.estLoweredNs = -1;
	return row;
}

Row onCpu(Row row)
{
	row.entry = row.op ? "cblas_sgemm" : "cblas_dgemm";
	row.library = "blas";
	row.device = kNoDevice;
	if (row.dtypeCompute == std::string("float16"))
		row.dtypeCompute = "bfloat16";
	return row;
}

// Time stamps in this time, by the rate of 20 ms.
uint64_t ticksIn(double ns)
{
	using Clock = std::chrono::steady_clock;
	const auto begin = Clock::now();
	const uint64_t first = autoamp::base::ticks();
	while (Clock::now() - begin < std::chrono::milliseconds(20)) {
	}
	const double passed = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
	return static_cast<uint64_t>(ns * static_cast<double>(autoamp::base::ticks() - first) / passed);
}

RowId call(Lane *lane, const Row &row, int times, bool captured = false, uint64_t ticks = 1000)
{
	const RowId id = recorder.row(row);
	for (int i = 0; i < times; i++) {
		const uint64_t start = autoamp::base::ticks();
		InFlight mark(*lane, id);
		lane->record(id, start, start + ticks, captured);
	}
	return id;
}

void scaler(RowId row, const char *kind, char operand)
{
	recorder.scaler(
	    {.kind = kind, .row = row, .operand = operand, .exponentBefore = NAN, .exponentAfter = 3, .amax = 1.5f});
}

// 100 calls, three of four lowered, each with its kernels; one kernel of a gradient scaler, one of unknown origin.
void deviceWork(Lane *lane, int kernelNs, const KernelLosses &losses, bool hasScaler)
{
	recorder.clock(0);
	for (uint64_t i = 0; i < 100; i++) {
		const bool isLowered = i % 4 != 0;
		const Row row = isLowered ? product("lowered", "white_list", 1024) : product("kept", "black_list", 512);
		const uint64_t number = lane->nextCall(), start = 1000000 + i * 10000,
		               end = start + static_cast<uint64_t>(kernelNs);
		const RowId id = call(lane, row, 1);
		if (i == 0)
			scaler(id, "init", 'A');
		const KernelEvent cast = {start - 500, start - 100, number, "autoamp_cast_half", id, 7, 0, kernelOurs};
		const KernelEvent gemm = {
		    start, end, number, isLowered ? "sm90_xmma_gemm_f16f16_f16f32_f32_nt_n" : "sgemm <a|b>", id, 7, 0, 0};
		const KernelEvent both[] = {cast, gemm};
		recorder.kernels(std::span(both).subspan(isLowered ? 0 : 1), {});
	}
	const char *const unscale = "at::native::_amp_foreach_non_finite_check_and_unscale_cuda_";
	const KernelEvent others[] = {{5000000, 5000300, 0, unscale, 0, 8, 0, kernelOutside},
	                              {6000000, 6000100, 0, "_Z8strangerPfi", 0, 8, 0, 0}};
	recorder.kernels(std::span(others).subspan(hasScaler ? 0 : 1), losses);
	for (const auto &[kind, ns] : {std::pair("buffer_flush", 700), {"resource", 50}, {"buffer_flush", 800}})
		recorder.overhead(kind, static_cast<uint64_t>(ns), false);
}

// `steps` updates of a torch scaler with growth interval 4 and first scale 2^16. Steps 1, 2 and 6 are skipped, and each
// 10th after step 100; the sixth after a scaler event of `row`.
void gradientSteps(RowId row, int steps)
{
	const GradientScaler torch = {"torch", 0x7f0000000100, 0, "update_kernel", 2, 0.5, 4};
	GradientState state = {65536, 0, -1};
	for (int step = 1; step <= steps; step++) {
		if (step == 11) // load_state_dict
			state = {1024, 0, -1};
		const bool isSkipped = step <= 2 || step == 6 || (step > 100 && step % 10 == 0);
		GradientCause cause = {row, "nonfinite_input", 'B', autoamp::base::ticks()};
		if (step == 6)
			recorder.scaler({.kind = "nonfinite_input",
			                 .row = row,
			                 .operand = 'B',
			                 .exponentBefore = NAN,
			                 .exponentAfter = 3,
			                 .amax = 1.5f,
			                 .ticks = cause.ticks});
		GradientUpdate update = {.before = state, .after = {}, .foundInf = isSkipped ? 1.0 : 0.0};
		state.tracker = isSkipped ? 0 : state.tracker + 1;
		state.scale *= isSkipped ? 0.5 : state.tracker == 4 ? 2 : 1;
		state.tracker %= 4;
		update.after = state;
		recorder.gradient(torch, update, {&cause, step == 6 ? 1u : 0u});
	}
}

// `number` signatures with one call each, lowered and kept in turn; a lowered one of eight is slower than unchanged.
void signatures(Lane *lane, int number)
{
	for (int i = 0; i < number; i++) {
		Row row = i % 2 ? product("kept", "too_small", 64) : product("lowered", "white_list", 1024);
		row.m = 1 + i, row.op = i % 3 ? "mm" : "addmm";
		row.estNs = 1000 + i, row.estLoweredNs = i % 8 ? 500 + i : 2000 + i;
		call(lane, row, 1);
	}
}

// Texts of the program that would break out of an HTML page or a Markdown table.
void hostileWork(Lane *lane)
{
	Row row = product("lowered", "white_list", 1024);
	row.caller = "</script><img src=x onerror=alert(1)>";
	row.region = "\"><svg onload=alert(2)>|`";
	const RowId id = call(lane, row, 3);
	scaler(id, "rescale", 'A');
	const KernelEvent kernel = {1000, 2000, 1, "</script><script>alert('3')</script>\" onclick=\"alert(4)",
	                            id,   7,    0, 0};
	recorder.kernels({&kernel, 1}, {});
	recorder.property("config", "AUTOAMP_CUSTOM_WHITE_LIST", "</style><b title='x'>|[a](http://x)", "environment");
}

// Scalers of each kind of finding, with the skipped steps of a loop.
void gradientFindings()
{
	const auto add = [](const char *framework, double before, double after, int tracker, bool isSkipped) {
		const GradientScaler scaler = {framework, 1, 0, "python", 2, 0.5, 10};
		recorder.gradient(scaler, {{before, tracker, -1}, {after, tracker, -1}, isSkipped ? 1.0 : 0});
	};
	add("zero", 1, 0, 0, true);
	add("infinite", 1, HUGE_VAL, 0, false);
	add("small", 0.5, 0.25, 0, true);
	add("stopped", 8, 8, 10, false);
	add("deepspeed", 8, 8, 10, false); // counts on after a growth
	add("low", 0.5, 0.5, 1, false);
	recorder.gradient({"refused", 1, 0, "python", 2, 0.5, 10}, {{0x1p127, 9, -1}, {0x1p127, 0, -1}});
	for (int step = 1; step <= 200; step++)
		add("often", 1024, 1024, -1, step > 100 && step <= 106);
	for (int step = 1; step <= 200; step++)
		add("seldom", 1024, 1024, -1, step <= 105);
	recorder.gradient({"lost", 1, 0, "update_kernel"}, {{8, 0, -1}, {8, 1, -1}, 0, 7, 2});
}

void write(const std::string &scenario, int number)
{
	Options options;
	const char *pattern = std::getenv("AUTOAMP_TRACE_FILE");
	const char *mode = std::getenv("AUTOAMP_TRACE");
	options.pattern = pattern;
	const bool hasKernels = scenario.find("kernels") != std::string::npos;
	options.mode = mode && std::string(mode) == "summary" ? Mode::summary : hasKernels ? Mode::kernels : Mode::ops;
	options.lookup = [](const char *name) -> const char * { return std::getenv(name); };
	const bool isOnCpu = scenario.starts_with("cpu") || scenario == "weights";
	options.emulated = scenario != "real" && scenario != "kernels" && !isOnCpu;
	options.maxSize = scenario == "lossy_kernels" ? 0 : scenario == "capped" ? 1u << 20 : 1u << 30;
	if (!recorder.open(options))
		std::exit(9);
	const bool isObserved = scenario == "observed" || scenario == "turing" || scenario == "convolutions";
	recorder.property("config", "AUTOAMP_LEVEL", isObserved ? "O0" : "O1", "environment");
	recorder.property("config", "AUTOAMP_DTYPE", "float16", "default");
	if (const char *const weights = std::getenv("AUTOAMP_WEIGHTS"))
		recorder.property("config", "AUTOAMP_WEIGHTS", weights, "environment");
	recorder.property("version", "autoamp", "0.1.0");
	recorder.property("version", "cublas", "13.1.0");
	if (scenario == "turing")
		recorder.property("device", "0", "Tesla T4", "sm_75");
	else if (!isOnCpu)
		recorder.property("device", "0", options.emulated ? "autoamp emulated (h100 constants)" : "NVIDIA H100");
	Lane *lane = recorder.attach();
	if (scenario == "first") { // dies in its first call
		const Row row = product("lowered", "white_list", 1024);
		lane->cell(recorder.row(row));
		InFlight mark(*lane, recorder.row(row));
		::raise(SIGSEGV);
	} else if (scenario == "lingers") {
		call(lane, product("lowered", "white_list", 1024), 3);
		::pause();
	} else if (scenario == "harmed") { // runs the command in HARM between its calls
		call(lane, product("lowered", "white_list", 1024), 3);
		if (std::system(std::getenv("HARM")) != 0)
			std::exit(9);
		call(lane, product("lowered", "white_list", 1024), 4);
	} else if (scenario == "outside") { // a capture range that never begins
		recorder.property("config", "AUTOAMP_CAPTURE_RANGE", "cudaProfilerApi", "environment");
		recorder.capture()->outside.store(7);
	} else if (scenario == "refused") {
		call(lane, product("lowered", "white_list", 1024), 3);
		recorder.note(noteOfRefused, "_Z5scalePffi", 0, 7);
	} else if (scenario == "audited") { // the argument: the largest error, in 1e-6; 0: an Inf that fp32 does not have
		const RowId first = call(lane, product("lowered", "white_list", 1024), 300);
		const RowId second = call(lane, product("lowered", "white_list", 512), 100);
		AuditResult result = {.row = first, .error = 2e-4, .worstRow = 3e-4, .worstColumn = 4e-4};
		recorder.audit(result);
		recorder.audit(result);
		result.error = 1e-6 * number, result.worstRow = 2e-6 * number, result.hasOverflowed = number == 0;
		result.row = number == 0 ? second : first;
		recorder.audit(result);
		result = {.row = second, .error = 1e-4, .worstRow = 1e-4, .worstColumn = 1e-4, .isRecomputed = true};
		recorder.audit(result);
		recorder.note(noteOfAudit, "a graph with other nodes", call(lane, product("lowered", "white_list", 256), 7));
	} else if (scenario == "cpu") { // the argument: audited calls of the first signature; 2 us instead of 4 us
		const RowId first = call(lane, onCpu(product("lowered", "white_list", 1024)), 300, false, ticksIn(2000));
		call(lane, onCpu(product("lowered", "white_list", 512)), 100);
		call(lane, onCpu(product("kept", "too_small", 64)), 50);
		call(lane, onCpu(other("cblas_dgemm", "float64", "float64")), 5);
		for (int i = 0; i < number; i++)
			recorder.audit({.row = first,
			                .error = 2e-3,
			                .worstRow = 3e-3,
			                .worstColumn = 4e-3,
			                .isRecomputed = true,
			                .fp32Ns = 4000,
			                .actualNs = i == 0 ? 1002000u : 2000u}); // the first one also opens oneDNN
		recorder.property("version", "blas", "libblas.so.3 (OpenBLAS 0.3.21)");
	} else if (scenario == "cpu_slower") { // the argument: audited calls, at least one
		const RowId row =
		    call(lane, onCpu(product("lowered", "white_list", 1024)), std::max(10, number), false, ticksIn(3000));
		for (int i = 0; i < std::max(1, number); i++)
			recorder.audit({.row = row, .error = 2e-3, .fp32Ns = 1000, .actualNs = 3000});
	} else if (scenario == "cpu_few_rows") {
		Row row = onCpu(product("lowered", "white_list", 4096));
		row.m = 16;
		call(lane, row, 60);
	} else if (scenario == "cpu_threads") { // decided with the threads of the BLAS, which the trace does not contain
		call(lane, onCpu(product("kept", "not_profitable", 1024)), 10);
		call(lane, onCpu(product("fallback", "weight_not_kept", 512)), 10);
		call(lane, onCpu(product("kept", "solver_caller", 256)), 10);
	} else if (scenario == "cpu_refused") {
		const RowId row = call(lane, onCpu(product("lowered", "white_list", 4096)), 60);
		recorder.weights({.row = row, .reason = "memory_budget", .converted = 1, .refused = 1, .bytes = 600 << 20});
		recorder.weights({.row = row, .reason = "memory_budget", .converted = 59});
	} else if (scenario == "cpu_observed") {
		call(lane, onCpu(product("observed", "white_list", 1024)), 10);
		Row row = onCpu(other("cblas_dgemm", "float64", "float64"));
		row.decision = "observed";
		call(lane, row, 5);
	} else if (scenario == "weights") {
		const RowId first = call(lane, onCpu(product("lowered", "white_list", 1024)), 300);
		recorder.weights({.row = first, .how = "watched", .served = 290, .converted = 2, .made = 1, .bytes = 1 << 21});
		recorder.weights({.row = first, .reason = "changes", .converted = 8});
		recorder.weights({.row = first, .reason = "busy"}); // the call then ran unchanged
		const RowId second = call(lane, onCpu(product("lowered", "white_list", 512)), 100);
		recorder.weights({.row = second, .how = "watched", .served = 0, .bytes = 1 << 21}); // the same copy
	} else if (scenario == "kept") { // a GPU whose calls keep copies; the argument: products with a changed weight
		const RowId first = call(lane, product("lowered", "white_list", 1024), 300);
		const RowId second = call(lane, product("lowered", "white_list", 512), 100);
		recorder.weights({.row = first, .how = "checked", .made = 1, .bytes = 3 << 20});
		recorder.weights({.row = first, .how = "checked", .made = 1, .bytes = 3 << 20});
		recorder.weights(
		    {.row = first, .how = "checked", .served = 290, .converted = 2, .recast = 3, .bytes = 3 << 20});
		recorder.weights({.row = first, .reason = "unproven", .converted = 8, .compared = 8, .repeated = 6});
		for (int i = 0; i < 2; i++)
			recorder.weights(
			    {.row = second, .reason = "memory_budget", .converted = 1, .refused = 1, .bytes = 1 << 20});
		recorder.weights({.row = second, .reason = "memory_budget", .converted = 98});
		for (const char *kind : {"made", "recast", "given_up", "refused"})
			recorder.scaler(
			    {.kind = kind, .row = first, .operand = 'B', .exponentBefore = NAN, .exponentAfter = NAN, .amax = NAN});
		if (number > 0) {
			recorder.weights({.row = second, .how = "frozen", .changed = static_cast<uint64_t>(number)});
			recorder.scaler({.kind = "changed",
			                 .row = second,
			                 .operand = 'A',
			                 .exponentBefore = NAN,
			                 .exponentAfter = NAN,
			                 .amax = NAN,
			                 .count = static_cast<uint64_t>(number)});
		}
	} else if (scenario == "repeats") { // the argument: equal conversions of B, in percent
		recorder.property("config", "AUTOAMP_STRATEGY", "cast", "environment");
		const RowId id = call(lane, estimated(product("lowered", "white_list", 4096), 64), 1000);
		recorder.weights({.row = id,
		                  .reason = "weights_off",
		                  .converted = 2000,
		                  .compared = 2000,
		                  .repeated = static_cast<uint64_t>(10 * number)});
	} else if (scenario == "unchanged") { // products for which a conversion at each call does not pay
		recorder.property("config", "AUTOAMP_DTYPE", "bfloat16", "environment");
		call(lane, estimated(product("kept", "not_profitable", 4096), 1), 20);
	} else if (scenario == "costs") { // the argument: the setting that costs time; 4 and 5: hardly any
		static constexpr struct {
			const char *variable, *value, *decision, *reason;
			int calls;
		} cases[] = {{"AUTOAMP_STRATEGY", "cast", "lowered", "white_list", 100},
		             {"AUTOAMP_CONFIG", "rules.toml", "lowered", "rule", 100},
		             {"AUTOAMP_STRATEGY", "auto", "kept", "black_list", 100},
		             {"AUTOAMP_STRATEGY", "auto", "fallback", "memory_budget", 100},
		             {"AUTOAMP_STRATEGY", "cast", "lowered", "white_list", 1},
		             {"AUTOAMP_STRATEGY", "auto", "lowered", "white_list", 1},
		             {"AUTOAMP_SCOPE", "regions", "kept", "region_disabled", 100}};
		const auto &chosen = cases[number];
		recorder.property("config", chosen.variable, chosen.value, "environment");
		Row row = product(chosen.decision, chosen.reason, 1024);
		if (std::string(chosen.decision) == "lowered")
			std::swap(row.estNs, row.estLoweredNs);
		call(lane, row, chosen.calls);
		row.dtypeCompute = row.strategy = "tf32";
		if (number == 5)
			call(lane, row, 1);
		call(lane, product("kept", "too_small", 8), 100);
	} else if (scenario == "math_mode") {
		Row row = other("cublasSgemm_v2", "float32", "already_low");
		row.cause = "CUBLAS_TF32_TENSOR_OP_MATH";
		call(lane, row, 7);
	} else if (scenario == "signatures") {
		signatures(lane, number);
	} else if (scenario == "hostile_kernels") {
		recorder.clock(0);
		hostileWork(lane);
	} else if (scenario == "low") {
		call(lane, other("cublasGemmEx", "float16", "already_low"), 7);
	} else if (scenario == "vectors") {
		call(lane, other("cublasSaxpy_v2", "float32", "vector_op"), 5);
		call(lane, other("cublasDgemm_v2", "float64", "float64"), 6);
	} else if (scenario.starts_with("gradient")) {
		if (scenario == "gradient_kernels")
			deviceWork(lane, 1000, {1, 0, 0}, true);
		gradientSteps(call(lane, product("lowered", "white_list", 1024), 10), number);
		const KernelEvent update = {5000, 5100, 0, "_ZN2at6native30amp_update_scale_cuda_kernelEPfPiPKfddi",
		                            0,    8,    0, kernelOutside};
		if (scenario == "gradient_refused")
			recorder.note(noteOfGradient, "an update was captured into a graph");
		const bool hasUpdates = scenario == "gradient_statically" || scenario == "gradient_refused";
		for (int i = 0; hasUpdates && i < number + 4; i++)
			recorder.kernels({&update, 1}, {});
		if (scenario == "gradient_killed")
			::raise(SIGKILL);
	} else if (scenario == "findings") {
		gradientFindings();
	} else if (scenario == "observed") {
		call(lane, product("observed", "white_list", 1024), 10);
		call(lane, product("observed", "too_small", 8), 30);
	} else if (scenario == "turing") {
		call(lane, product("observed", "white_list", 1024), 10);
	} else if (scenario == "convolutions") {
		for (const char *shape :
		     {"n32 c256 28x28 k256 3x3 s1 p1 d1 g1 nchw", "n32 c256 28x28 k256 3x3 s1 p1 d1 g1 nhwc", "somehow"}) {
			Row row = product("observed", "white_list", 256);
			row.entry = "cudnnConvolutionForward", row.library = "cudnn", row.op = "conv2d", row.shape = shape;
			row.m = 32 * 28 * 28, row.k = 256 * 9, row.transa = 'N';
			call(lane, row, 1);
		}
	} else if (scenario == "forks") {
		recorder.beforeFork();
		const pid_t child = ::fork();
		child ? recorder.afterForkInParent() : recorder.afterForkInChild(lane);
		if (child ? ::waitpid(child, nullptr, 0) < 0 : !recorder.open(options))
			std::exit(9);
		call(lane, product("lowered", "white_list", 1024), 10);
	} else if (scenario == "threads") {
		call(lane, product("lowered", "white_list", 1024), 10);
		std::thread([] {
			Lane *other = recorder.attach();
			call(other, product("lowered", "white_list", 1024), 4);
			call(other, product("kept", "too_small", 8), 3);
			recorder.detach(other);
		}).join();
	} else if (scenario == "paddle_kernels") {
		const KernelEvent unscale = {5000, 5300, 0, "_ZN3phi21CheckFiniteAndUnscaleIffEEvPPKT_",
		                             0,    8,    0, kernelOutside};
		recorder.kernels({&unscale, 1}, {});
	} else if (hasKernels) {
		deviceWork(lane, number, scenario == "lossy_kernels" ? KernelLosses{1, 2, 3} : KernelLosses{1, 0, 0},
		           !scenario.starts_with("quiet_kernels"));
		if (scenario.ends_with("kernels_killed"))
			::raise(SIGKILL);
	} else if (scenario == "capped" || scenario == "many") {
		call(lane, product("lowered", "white_list", 1024), number);
	} else if (scenario == "unmapped" || scenario == "quietly_killed") {
		call(lane, product("lowered", "white_list", 1024), 3);
		if (scenario == "unmapped")
			recorder.note(noteOfScaler, "the device cannot map host memory");
		else
			::raise(SIGKILL);
	} else {
		const RowId lowered = call(lane, product("lowered", "white_list", 1024), 900, false);
		call(lane, product("lowered", "white_list", 512), 100, true);
		call(lane, product("kept", "not_profitable", 256), 400);
		call(lane, product("kept", "too_small", 8), 1600);
		call(lane, other("cublasSaxpy_v2", "float32", "vector_op"), 5);
		if (scenario == "copies")
			call(lane, other("cublasSgemm_v2", "float32", "second_copy"), 1);
		scaler(lowered, "init", 'A');
		scaler(lowered, "rescale", 'A');
		scaler(lowered, "nonfinite_input", 'B');
		if (scenario == "faults") {
			call(lane, product("fallback", "engine_failed", 2048), 2);
			recorder.note("memory_budget", "allocating device memory", lowered); // that call did not fall back
			recorder.note("engine_failed", "cublasLtMatmul status 13",
			              recorder.row(product("fallback", "engine_failed", 2048)));
			static constexpr const char *reasons[] = {"black_list",      "unlisted",      "pedantic",
			                                          "capture_unready", "out_of_memory", "memory_budget",
			                                          "unsupported",     "driver_too_old"};
			for (int i = 0; i < 8; i++)
				call(lane, product("kept", reasons[i], 128 + i), 3);
			scaler(lowered, "overflow", 'A');
			scaler(lowered, "scale_range", 'A');
			scaler(lowered, "clamped", 'B');
			recorder.scaler({.kind = "underflow",
			                 .row = lowered,
			                 .operand = 'B',
			                 .exponentBefore = 14,
			                 .exponentAfter = 14,
			                 .amax = 1.5f,
			                 .excess = 0.26f,
			                 .lostRows = 256,
			                 .lostColumns = 252});
		}
		InFlight mark(*lane, lowered);
		if (scenario == "signalled")
			::raise(number);
		if (scenario == "killed")
			::raise(SIGKILL);
		if (scenario == "quits")
			::_exit(number);
		if (scenario == "becomes")
			::execl("/proc/self/exe", "traced", "low", nullptr);
	}
	recorder.close(0);
}

} // namespace

int main(int count, char **words)
{
	const std::string scenario = count > 1 ? words[1] : "mixed";
	if (scenario == "processes") { // two children, each through a shell that leaves no trace
		const std::string child = std::string("'") + words[0] + "' mixed; true";
		return std::system(child.c_str()) + std::system(child.c_str());
	}
	if (scenario != "nothing")
		write(scenario, count > 2 ? std::atoi(words[2]) : 1);
	return 0;
}
