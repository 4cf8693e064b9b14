#include "src/call/described_call.h"

#include "src/base/held_signals.h"
#include "src/call/blas_path.h"
#include "src/call/counted.h"
#include "src/call/fast_path.h"
#include "src/cpu/library.h"
#include "src/life/fork_hold.h"
#include "src/lower/capture.h"
#include "src/op/dnn.h"
#include "src/place/capture_range.h"
#include "src/place/region/stack.h"
#include "src/site/device.h"
#include "src/site/rows.h"

#include <cstring>

namespace autoamp::core {

namespace {

// The site of a call that is not in the memo.
Site &newSite(const CallInfo &info, op::Op op, int ordinal, DescribedCall &described)
{
	policy::Device device;
	policy::Cpu cpu;
	if (op.library == op::Library::blas) {
		{
			const ForkHold hold; // at the first call of a library
			// The decision depends on the threads of the library, and on its kernels.
			cpu::watchRegions(autoamp_cpu_in_parallel);
			cpu::recordLibrary(info.interception.original, autoamp_front_loading() != front::Loading::self);
		}
		const cpu::Threads threads = cpu::threadsOf(info.interception.original);
		cpu = info.process.cpu;
		cpu.threads = threads.most, cpu.usesThreads = threads.pool != cpu::Pool::otherOpenMp;
		cpu.perThread = cpu::leastPerThread(threads.pool), cpu.hasTwoPools = threads.pool == cpu::Pool::own;
		cpu.librarySpeed = policy::librarySpeed(cpu, cpu::kernelsOfLibrary(info.interception.original));
		device = deviceOf(cpu);
	} else if (ordinal == unknownDevice || !deviceAt(info.process, ordinal, device)) {
		op.device = unknownDevice;
		device = {&policy::gpuConstants(info.process.options.gpuModel, nullptr, 0), 90, true};
		described.obstacle = policy::Reason::engine_failed;
		described.failed = ordinal == unknownDevice ? "cuCtxGetDevice" : "cuDeviceGetAttribute";
	} else {
		op.device = static_cast<uint16_t>(ordinal);
	}
	if (op.library == op::Library::cudnn)
		if (const auto *const cudnn = op::cudnn<op::CudnnGraph>(info.interception.original))
			device.cudnnVersion = static_cast<size_t>(cudnn->cudnnGetVersion());
	op.caller = info.caller.id;
	if (info.caller.kind == CallerKind::solver && op.obstacle == op::Obstacle::none)
		op.obstacle = op::Obstacle::solver_caller;
	return findSite(op, decisiveContext(info.context), device);
}

// Sets site and rows from the memo, or describes the call. A call whose device could not be queried is not cached.
template <typename Describe>
void findSite(const CallInfo &info, const Key &key, int ordinal, DescribedCall &described, Describe describe)
{
	Thread::Memo &memo = memoOf(info.thread, key);
	if (__builtin_expect(memo.key == key, 1)) {
		described.rows = memo.rows, described.site = memo.rows->site;
		return;
	}
	const base::HeldSignals held; // it allocates memory, and takes the lock of the sites
	described.site = &newSite(info, describe(), ordinal, described);
	described.rows = &rowsOf(*described.site, info.context);
	if (described.obstacle != policy::Reason::count)
		return;
	memo = {key, described.rows};
	const policy::Decision &decision = described.site->decision;
	if (!decision.isUnchanged() && !decision.needsSaved())
		return;
	if (isEachDescribed(info.process))
		return;
	if (trace::Lane *const lane = info.thread.lane) {
		memo.row = decision.needsSaved() ? fallbackRowOf(info.process, *described.rows, policy::Reason::not_profitable)
		                                 : rowOf(info.process, *described.rows);
		memo.cell = lane->cell(memo.row);
	}
	memo.isPassThrough = memo.cell || !info.thread.lane;
}

// Not for lowered calls: lower::run() queries the capture state itself.
void readCapture(DescribedCall &described)
{
	if (described.site->decision.isUnchanged() || described.obstacle != policy::Reason::count)
		described.isCaptured = lower::isCapturing(described.stream);
}

// Reads the stream of the application's handle with `get`, which has the name `name`. Does nothing if `get` is null, or
// without a driver: only a driver reports whether the stream is being captured.
void readStream(op::Status (*get)(void *, void **), const char *name, void *handle, DescribedCall &described)
{
	if (!get || !cuda::driver() || described.hasHandleFailed)
		return;
	if (get(handle, &described.stream)) {
		described.obstacle = policy::Reason::engine_failed;
		described.failed = name;
	} else {
		readCapture(described);
	}
}

void readStream(const op::Cublas *cublas, void *handle, DescribedCall &described)
{
	readStream(cublas ? cublas->cublasGetStream_v2 : nullptr, "cublasGetStream_v2", handle, described);
}

// For calls whose descriptors must be read in any case: their key is the Op.
DescribedCall describedBy(const CallInfo &info, op::Op op)
{
	DescribedCall described;
	op.caller = info.caller.id;
	// A getter failed. If the call itself then succeeds, the failure is a fault of the vendor library.
	described.hasHandleFailed = op.obstacle == op::Obstacle::bad_argument;
	const int ordinal = info.thread.driver ? ordinalOf(*info.thread.driver) : 0;
	Key key;
	static_assert(sizeof op <= sizeof key.words - 16);
	std::memcpy(key.words, &op, sizeof op);
	// Key::hash() includes this word.
	key.words[Key::size - 2] = static_cast<uint64_t>(op.k) + op.geometry;
	key.words[Key::size - 1] = stateOf(ordinal, 0, 0, info.context);
	findSite(info, key, ordinal, described, [&] { return op; });
	return described;
}

void readDnnStream(const void *original, void *handle, DescribedCall &described)
{
	const op::Cudnn *const cudnn = op::cudnn<op::Cudnn>(original);
	readStream(cudnn && handle ? cudnn->cudnnGetStream : nullptr, "cudnnGetStream", handle, described);
}

template <typename Call>
DescribedCall describeDnn(const CallInfo &info, const Call &call)
{
	const void *const original = info.interception.original;
	constexpr bool isConvolution = std::is_same_v<Call, op::ConvolutionCall>, isRnn = std::is_same_v<Call, op::RnnCall>;
	op::DnnGetters getters;
	getters.ops = op::cudnn<op::CudnnOps>(original);
	if constexpr (isConvolution)
		getters.cnn = op::cudnn<op::CudnnCnn>(original);
	if (isRnn || info.entry.obstacle == op::Obstacle::no_fp32_output)
		getters.adv = op::cudnn<op::CudnnAdv>(original);
	op::Op op = op::describe(info.entry, info.interception.entryIndex, call, getters, info.process.environment);
	if constexpr (isRnn) {
		const op::Cudnn *const cudnn = op::cudnn<op::Cudnn>(original);
		void *stream = nullptr;
		if (cudnn && call.handle && cudnn->cudnnGetStream(call.handle, &stream))
			stream = nullptr; // readDnnStream() below queries again and reports the failure
		op.flags |= lower::updateReserve(call, op, stream);
	}
	DescribedCall described = describedBy(info, op);
	if constexpr (isRnn)
		described.refusal = lower::refusalOf(call, op);
	if (described.hasHandleFailed)
		described.failed = "reading cuDNN descriptors";
	readDnnStream(original, call.handle, described);
	return described;
}

} // namespace

lower::LoweredCall loweredCall(const CallInfo &info, const DescribedCall &described, const policy::Decision &decision)
{
	Site &site = *described.site;
	lower::Settings settings = info.process.settings;
	settings.reportsEvents = info.isRecorded;
	settings.estimatesWeights = info.isRecorded && info.process.isTracing;
	return {site.op,
	        decision,
	        site.cache,
	        settings,
	        info.interception.original,
	        static_cast<cuda::Stream>(described.stream),
	        false,
	        decision.weights == policy::Weights::off ? 0 : weightsRegion()};
}

bool isCapturing(const op::Cublas &cublas, void *handle)
{
	void *stream = nullptr;
	return cublas.cublasGetStream_v2(handle, &stream) == 0 && lower::isCapturing(stream);
}

DescribedCall describe(const CallInfo &info, const op::GemmCall &call)
{
	DescribedCall described;
	const op::Cublas *const cublas = op::cublas(info.interception.original);
	info.thread.cublas = cublas;
	const HandleState handleState = readHandleState(info.entry, cublas, info.thread.driver, info.context, call);
	const auto describeOp = [&] {
		return op::describe(info.entry, info.interception.entryIndex, call, handleState.modes,
		                    info.process.environment);
	};
	if (handleState.isUsual) {
		const Key key = keyOf(call, info.interception.entryIndex, info.caller.id, handleState);
		findSite(info, key, handleState.ordinal, described, describeOp);
	} else {
		described.hasHandleFailed = handleState.modes.status != 0;
		described.failed = handleState.modes.refused;
		described.site = &newSite(info, describeOp(), handleState.ordinal, described);
		described.rows = &rowsOf(*described.site, info.context);
	}
	readStream(cublas, call.handle, described);
	return described;
}

DescribedCall describe(const CallInfo &info, const op::LtMatmulCall &call)
{
	const op::CublasLt *const lt = op::cublasLt(info.interception.original);
	DescribedCall described =
	    describedBy(info, op::describe(info.entry, info.interception.entryIndex, call, lt, info.process.environment));
	described.stream = call.stream;
	readCapture(described);
	return described;
}

// Does not query the device: the query would cost more than everything else here.
DescribedCall describeCounted(const CallInfo &info, const op::PlainCall &call)
{
	DescribedCall described;
	op::Op op = op::describe(info.entry, info.interception.entryIndex, call);
	op.device = unknownDevice;
	op.caller = info.caller.id;
	const auto &gpu = policy::gpuConstants(info.process.options.gpuModel, nullptr, 0);
	described.site = &findSite(op, decisiveContext(info.context), {&gpu, 90, true});
	described.rows = &rowsOf(*described.site, info.context);
	if (isEachDescribed(info.process)) {
		if (call.handle)
			readStream(op::cublas(info.interception.original), call.handle, described);
		return described;
	}
	trace::Lane *const lane = info.thread.lane;
	trace::Cell *const cell = lane ? lane->cell(rowOf(info.process, *described.rows)) : &info.thread.untraced;
	if (cell) {
		trace::Lane::count(*cell);
		rememberCounted(info.thread, info.interception, info.context, call, cell);
	}
	described.isCounted = cell;
	return described;
}

DescribedCall describe(const CallInfo &info, const op::PlainCall &call)
{
	if (op::isOnlyCounted(info.entry))
		return describeCounted(info, call);
	DescribedCall described;
	info.thread.cublas = op::cublas(info.interception.original);
	const HandleState handleState = readHandleState(info.entry, nullptr, info.thread.driver, info.context, call);
	const Key key = keyOf(call, info.interception.entryIndex, info.caller.id, handleState);
	findSite(info, key, handleState.ordinal, described,
	         [&] { return op::describe(info.entry, info.interception.entryIndex, call); });
	if (hasStreamInHandle(info.entry) && call.handle)
		readStream(info.thread.cublas, call.handle, described);
	return described;
}

DescribedCall describe(const CallInfo &info, const op::BlasCall &call)
{
	DescribedCall described;
	const Key key = keyOf(call, info.interception.entryIndex, info.caller.id, info.context);
	findSite(info, key, op::cpuDevice, described,
	         [&] { return op::describe(info.entry, info.interception.entryIndex, call); });
	const Thread::Memo &memo = memoOf(info.thread, key);
	if (!memo.isPassThrough || call.closes == 0)
		return described;
	const Site &site = *described.site;
	const bool hasObstacle = site.op.obstacle != info.entry.obstacle; // in its arguments
	Thread::BlasMemo known;
	known.isForSizes = !hasObstacle && policy::dependsOnSizesOnly(site.decision, site.op, info.process.cpu) &&
	                   callerOf(info.thread, info.interception.original).kind == CallerKind::vendor;
	known.needsSaved = site.decision.needsSaved();
	known.row = memo.row, known.cell = memo.cell;
	rememberBlas(info.thread, call, info.interception, info.context, false, known);
	if (memo.cell && op::isOnlyCounted(info.entry)) {
		trace::Lane::count(*memo.cell);
		described.isCounted = true;
	}
	return described;
}

DescribedCall describe(const CallInfo &info, const op::ConvolutionCall &call)
{
	return describeDnn(info, call);
}

DescribedCall describe(const CallInfo &info, const op::GraphCall &call)
{
	const void *const original = info.interception.original;
	DescribedCall described = describedBy(info, op::describe(info.entry, info.interception.entryIndex, call,
	                                                         op::cudnn<op::CudnnGraph>(original),
	                                                         info.process.environment, info.thread.execution));
	readDnnStream(original, call.handle, described);
	return described;
}

DescribedCall describe(const CallInfo &info, const op::RnnCall &call)
{
	return describeDnn(info, call);
}

DescribedCall describe(const CallInfo &info, const op::DnnCall &call)
{
	return describeDnn(info, call);
}

} // namespace autoamp::core
