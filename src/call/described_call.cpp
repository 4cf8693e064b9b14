#include "src/call/described_call.h"

#include "src/call/counted.h"
#include "src/call/fast_path.h"
#include "src/op/dnn.h"
#include "src/place/capture_range.h"
#include "src/reroute/capture.h"
#include "src/reroute/convolution.h"
#include "src/reroute/graph.h"
#include "src/reroute/rnn.h"
#include "src/site/device.h"
#include "src/site/rows.h"

#include <cstring>

namespace autoamp::core {

namespace {

// The site of a call that is not in the memo.
Site &newSite(const Asking &asking, op::Op op, int ordinal, Subject &subject)
{
	policy::Device device;
	if (ordinal == unknownDevice || !deviceAt(asking.process, ordinal, device)) {
		op.device = unknownDevice;
		device = {&policy::gpuConstants(asking.process.options.gpuModel, nullptr, 0), 90, true};
		subject.obstacle = policy::Reason::engine_failed;
		subject.failed = ordinal == unknownDevice ? "cuCtxGetDevice" : "cuDeviceGetAttribute";
	} else {
		op.device = static_cast<uint16_t>(ordinal);
	}
	if (op.library == op::Library::cudnn)
		if (const auto *const cudnn = op::cudnn<op::CudnnGraph>(asking.door.truth))
			device.cudnnVersion = static_cast<size_t>(cudnn->cudnnGetVersion());
	op.caller = asking.caller.id;
	if (asking.caller.kind == CallerKind::solver && op.obstacle == op::Obstacle::none)
		op.obstacle = op::Obstacle::solver_caller;
	return findSite(op, decisiveContext(asking.context), device);
}

// Sets site and rows from the memo, or describes the call. A call whose device could not be queried is not cached.
template <typename Describe>
void findSite(const Asking &asking, const Key &key, int ordinal, Subject &subject, Describe describe)
{
	Thread::Memo &memo = memoOf(asking.thread, key);
	if (__builtin_expect(memo.key == key, 1)) {
		subject.rows = memo.rows, subject.site = memo.rows->site;
		return;
	}
	subject.site = &newSite(asking, describe(), ordinal, subject);
	subject.rows = &rowsOf(*subject.site, asking.context);
	if (subject.obstacle != policy::Reason::count)
		return;
	memo = {key, subject.rows};
	if (!subject.site->decision.isAsAsked())
		return;
	if (isEachDescribed(asking.process))
		return;
	if (trace::Lane *const lane = asking.thread.lane) {
		memo.row = rowOf(asking.process, *subject.rows);
		memo.cell = lane->cell(memo.row);
	}
	memo.isPassed = memo.cell || !asking.thread.lane;
}

// Not for lowered calls: reroute::run() queries the capture state itself.
void readCapture(Subject &subject)
{
	if (subject.site->decision.isAsAsked() || subject.obstacle != policy::Reason::count)
		subject.isCaptured = reroute::isCapturing(subject.stream);
}

// Reads the stream of the application's handle with `get`, which has the name `name`. Does nothing if `get` is null, or
// without a driver: only a driver reports whether the stream is being captured.
void readStream(op::Status (*get)(void *, void **), const char *name, void *handle, Subject &subject)
{
	if (!get || !cuda::driver() || subject.hasHandleFailed)
		return;
	if (get(handle, &subject.stream)) {
		subject.obstacle = policy::Reason::engine_failed;
		subject.failed = name;
	} else {
		readCapture(subject);
	}
}

void readStream(const op::Cublas *cublas, void *handle, Subject &subject)
{
	readStream(cublas ? cublas->cublasGetStream_v2 : nullptr, "cublasGetStream_v2", handle, subject);
}

// For calls whose descriptors must be read in any case: their key is the Op.
Subject subjectOf(const Asking &asking, op::Op op)
{
	Subject subject;
	op.caller = asking.caller.id;
	// A getter failed. If the call itself then succeeds, the failure is a fault of the vendor library.
	subject.hasHandleFailed = op.obstacle == op::Obstacle::bad_argument;
	const int ordinal = asking.thread.driver ? ordinalOf(*asking.thread.driver) : 0;
	Key key;
	static_assert(sizeof op <= sizeof key.words - 16);
	std::memcpy(key.words, &op, sizeof op);
	// Key::hash() includes this word.
	key.words[Key::size - 2] = static_cast<uint64_t>(op.k) + op.geometry;
	key.words[Key::size - 1] = stateOf(ordinal, 0, 0, asking.context);
	findSite(asking, key, ordinal, subject, [&] { return op; });
	return subject;
}

void readDnnStream(const void *known, void *handle, Subject &subject)
{
	const op::Cudnn *const cudnn = op::cudnn<op::Cudnn>(known);
	readStream(cudnn && handle ? cudnn->cudnnGetStream : nullptr, "cudnnGetStream", handle, subject);
}

template <typename Call>
Subject describeDnn(const Asking &asking, const Call &call)
{
	const void *const known = asking.door.truth;
	constexpr bool isConvolution = std::is_same_v<Call, op::ConvolutionCall>, isRnn = std::is_same_v<Call, op::RnnCall>;
	op::DnnGetters getters;
	getters.ops = op::cudnn<op::CudnnOps>(known);
	if constexpr (isConvolution)
		getters.cnn = op::cudnn<op::CudnnCnn>(known);
	if (isRnn || asking.entry.obstacle == op::Obstacle::no_fp32_output)
		getters.adv = op::cudnn<op::CudnnAdv>(known);
	op::Op op = op::describe(asking.entry, asking.door.index, call, getters, asking.process.environment);
	if constexpr (isRnn) {
		const op::Cudnn *const cudnn = op::cudnn<op::Cudnn>(known);
		void *stream = nullptr;
		if (cudnn && call.handle && cudnn->cudnnGetStream(call.handle, &stream))
			stream = nullptr; // readDnnStream() below queries again and reports the failure
		op.flags |= reroute::meetReserve(call, op, stream);
	}
	Subject subject = subjectOf(asking, op);
	if constexpr (isRnn)
		subject.refusal = reroute::refusalOf(call, op);
	if (subject.hasHandleFailed)
		subject.failed = "reading cuDNN's descriptors";
	readDnnStream(known, call.handle, subject);
	return subject;
}

reroute::Outcome refused(const char *getter)
{
	reroute::Outcome outcome;
	outcome.failed = getter;
	return outcome;
}

reroute::Settings settingsOf(const Asking &asking)
{
	reroute::Settings settings = asking.process.settings;
	settings.isTold = asking.isRecorded;
	return settings;
}

reroute::Outcome run(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                     const reroute::Product &product)
{
	Site &site = *subject.site;
	return reroute::run(site.op, decision, site.plan, settingsOf(asking), product);
}

} // namespace

bool isCapturing(const op::Cublas &cublas, void *handle)
{
	void *stream = nullptr;
	return cublas.cublasGetStream_v2(handle, &stream) == 0 && reroute::isCapturing(stream);
}

Subject describe(const Asking &asking, const op::GemmCall &call)
{
	Subject subject;
	const op::Cublas *const cublas = op::cublas(asking.door.truth);
	asking.thread.cublas = cublas;
	const Glance glance = glanceAt(asking.entry, cublas, asking.thread.driver, asking.context, call);
	const auto described = [&] {
		return op::describe(asking.entry, asking.door.index, call, glance.modes, asking.process.environment);
	};
	if (glance.isUsual) {
		const Key key = keyOf(call, asking.door.index, asking.caller.id, glance);
		findSite(asking, key, glance.ordinal, subject, described);
	} else {
		subject.hasHandleFailed = glance.modes.status != 0;
		subject.failed = glance.modes.refused;
		subject.site = &newSite(asking, described(), glance.ordinal, subject);
		subject.rows = &rowsOf(*subject.site, asking.context);
	}
	readStream(cublas, call.handle, subject);
	return subject;
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::GemmCall &call)
{
	if (!op::isAlgorithm(call.algo)) { // only the vendor library knows the status for an invalid algorithm
		reroute::Outcome outcome;
		outcome.reason = policy::Reason::bad_argument;
		return outcome;
	}
	reroute::Product product;
	product.lightHandle = call.handle;
	product.known = asking.door.truth;
	product.stream = subject.stream;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = product.D = call.C;
	if (op::cublas(asking.door.truth)->cublasGetSmCountTarget(call.handle, &product.extras.smCountTarget))
		return refused("cublasGetSmCountTarget");
	return run(asking, subject, decision, product);
}

Subject describe(const Asking &asking, const op::LtMatmulCall &call)
{
	const op::CublasLt *const lt = op::cublasLt(asking.door.truth);
	Subject subject =
	    subjectOf(asking, op::describe(asking.entry, asking.door.index, call, lt, asking.process.environment));
	subject.stream = call.stream;
	readCapture(subject);
	return subject;
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::LtMatmulCall &call)
{
	reroute::Product product;
	product.lightHandle = call.lightHandle;
	product.known = asking.door.truth;
	product.stream = call.stream;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = call.C, product.D = call.D;
	const op::CublasLt &lt = *op::cublasLt(asking.door.truth);
	if (!op::readExtras(lt, call.computeDesc, subject.site->op, product.extras))
		return refused("cublasLtMatmulDescGetAttribute");
	if (const char *const refusal = reroute::refusalOf(subject.site->plan, lt, subject.site->op, call)) {
		reroute::Outcome outcome = refused(refusal);
		outcome.reason = policy::Reason::bad_argument; // most likely the application's own choice
		return outcome;
	}
	return run(asking, subject, decision, product);
}

// Does not query the device: the query would cost more than everything else here.
Subject describeCounted(const Asking &asking, const op::PlainCall &call)
{
	Subject subject;
	op::Op op = op::describe(asking.entry, asking.door.index, call);
	op.device = unknownDevice;
	op.caller = asking.caller.id;
	const auto &gpu = policy::gpuConstants(asking.process.options.gpuModel, nullptr, 0);
	subject.site = &findSite(op, decisiveContext(asking.context), {&gpu, 90, true});
	subject.rows = &rowsOf(*subject.site, asking.context);
	if (isEachDescribed(asking.process)) {
		if (call.handle)
			readStream(op::cublas(asking.door.truth), call.handle, subject);
		return subject;
	}
	trace::Lane *const lane = asking.thread.lane;
	trace::Cell *const cell = lane ? lane->cell(rowOf(asking.process, *subject.rows)) : &asking.thread.untraced;
	if (cell) {
		trace::Lane::count(*cell);
		rememberCounted(asking.thread, asking.door, asking.context, call, cell);
	}
	subject.isCounted = cell;
	return subject;
}

Subject describe(const Asking &asking, const op::PlainCall &call)
{
	if (op::isOnlyCounted(asking.entry))
		return describeCounted(asking, call);
	Subject subject;
	asking.thread.cublas = op::cublas(asking.door.truth);
	const Glance glance = glanceAt(asking.entry, nullptr, asking.thread.driver, asking.context, call);
	const Key key = keyOf(call, asking.door.index, asking.caller.id, glance);
	findSite(asking, key, glance.ordinal, subject, [&] { return op::describe(asking.entry, asking.door.index, call); });
	if (hasStreamInHandle(asking.entry) && call.handle)
		readStream(asking.thread.cublas, call.handle, subject);
	return subject;
}

Subject describe(const Asking &asking, const op::ConvolutionCall &call)
{
	return describeDnn(asking, call);
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::ConvolutionCall &call)
{
	Site &site = *subject.site;
	return reroute::run(site.op, decision, site.plan, settingsOf(asking), call, asking.door.truth, subject.stream);
}

Subject describe(const Asking &asking, const op::GraphCall &call)
{
	const void *const known = asking.door.truth;
	Subject subject =
	    subjectOf(asking, op::describe(asking.entry, asking.door.index, call, op::cudnn<op::CudnnGraph>(known),
	                                   asking.process.environment, asking.thread.execution));
	readDnnStream(known, call.handle, subject);
	return subject;
}

// For strategy cast, a graph that corresponds to a call of the legacy API runs as that call, whatever its layouts.
// Otherwise the application's graph runs with other operands.
reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::GraphCall &call)
{
	Site &site = *subject.site;
	const op::KnownGraph &graph = *asking.thread.execution.graph;
	const op::VariantPack &pack = asking.thread.execution.pack;
	const op::GraphNode &product = *graph.product;
	if (!graph.isLegacyCall || decision.strategy != policy::Strategy::cast)
		return reroute::run(site.op, decision, site.plan, settingsOf(asking), graph, pack, call.handle,
		                    asking.door.truth, subject.stream);
	const float alpha = static_cast<float>(product.alpha), beta = static_cast<float>(graph.beta);
	void *const first = *pack.find(product.first), *const second = *pack.find(product.second),
	            *const result = *pack.find(graph.result);
	const bool isData = product.kind == op::NodeKind::backwardData,
	           isFilter = product.kind == op::NodeKind::backwardFilter;
	op::ConvolutionCall convolution;
	convolution.handle = call.handle;
	convolution.alpha = &alpha, convolution.beta = &beta;
	convolution.x = isData ? result : first;
	convolution.w = isFilter ? result : second;
	convolution.y = isData ? first : isFilter ? second : result;
	if (graph.convolution.hasSource)
		convolution.z = *pack.find(graph.source);
	if (graph.convolution.hasBias)
		convolution.bias = *pack.find(graph.bias);
	convolution.direction = graph.convolution.direction;
	return reroute::run(site.op, decision, site.plan, settingsOf(asking), convolution, asking.door.truth,
	                    subject.stream);
}

Subject describe(const Asking &asking, const op::RnnCall &call)
{
	return describeDnn(asking, call);
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const policy::Decision &decision,
                       const op::RnnCall &call)
{
	Site &site = *subject.site;
	return reroute::run(site.op, decision, site.plan, settingsOf(asking), call, asking.door.truth, subject.stream);
}

Subject describe(const Asking &asking, const op::DnnCall &call)
{
	return describeDnn(asking, call);
}

} // namespace autoamp::core
