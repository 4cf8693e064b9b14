#include "src/core/subject.h"

#include "src/cuda/driver.h"
#include "src/op/handle.h"

#include <cstring>

namespace autoamp::core {

namespace {

// A driver that did not answer: a signature of its own, so that nothing is decided for good.
constexpr uint16_t unknownDevice = 0xffff;

// The site of a call that the memo does not know.
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
	op.caller = asking.caller.id;
	if (asking.caller.kind == CallerKind::solver && op.obstacle == op::Obstacle::none)
		op.obstacle = op::Obstacle::solver_caller;
	return findSite(asking.process, op, device);
}

int ordinalOr(int otherwise)
{
	int ordinal = 0;
	return currentOrdinal(ordinal) ? ordinal : otherwise;
}

// Found through the memo, or described. What did not get an answer is described anew each time.
template <typename Describe>
void findSite(const Asking &asking, const Key &key, int ordinal, Subject &subject, Describe describe)
{
	Thread::Memo &memo = memoOf(asking.thread, key);
	if (__builtin_expect(memo.key == key, 1)) {
		subject.site = memo.site;
		return;
	}
	subject.site = &newSite(asking, describe(), ordinal, subject);
	if (subject.obstacle == policy::Reason::count)
		memo = {key, subject.site};
}

uint64_t pack(int64_t high, int64_t low)
{
	return static_cast<uint64_t>(high) << 32 | (static_cast<uint64_t>(low) & 0xffffffff);
}

// A lowered run finds it out by itself.
void readCapture(Subject &subject)
{
	if (subject.site->decision.verdict != policy::Verdict::lowered || subject.obstacle != policy::Reason::count)
		subject.isCaptured = reroute::isCapturing(subject.stream);
}

// The stream of the application's handle; only a driver can tell whether it is being captured.
void readStream(const op::Cublas *cublas, void *handle, Subject &subject)
{
	if (!cublas || !cuda::driver() || subject.hasHandleFailed)
		return;
	if (cublas->cublasGetStream_v2(handle, &subject.stream)) {
		subject.obstacle = policy::Reason::engine_failed;
		subject.failed = "cublasGetStream_v2";
	} else {
		readCapture(subject);
	}
}

reroute::Outcome refused(const char *getter)
{
	reroute::Outcome outcome;
	outcome.failed = getter;
	return outcome;
}

reroute::Outcome run(const Asking &asking, const Subject &subject, const reroute::Product &product)
{
	Site &site = *subject.site;
	return reroute::run(site.op, site.decision, site.plan, asking.process.settings, product);
}

} // namespace

Subject describe(const Asking &asking, const op::GemmCall &call)
{
	Subject subject;
	const op::Cublas *const cublas = op::cublas(asking.door.truth);
	const op::HandleModes modes = op::readModes(cublas, call.handle);
	const int ordinal = ordinalOr(unknownDevice);
	// Of the addresses a decision knows whether they are there and aligned, of host scalars whether they are zero.
	const auto a = reinterpret_cast<uintptr_t>(call.A), b = reinterpret_cast<uintptr_t>(call.B),
	           c = reinterpret_cast<uintptr_t>(call.C);
	const bool isUsual = a && b && c && !((a | b | c) & 3) && call.alpha && call.beta && !modes.status;
	const auto described = [&] {
		return op::describe(asking.entry, asking.door.index, call, modes, asking.process.environment);
	};
	if (__builtin_expect(isUsual, 1)) {
		unsigned scalars = modes.isUnknown ? 4 : modes.deviceScalars ? 8 : 0;
		const bool areFloats = call.Atype < 0 || op::dtypeOf(call.Atype) == op::Dtype::float32;
		if (!scalars && areFloats)
			scalars = (*static_cast<const float *>(call.alpha) == 0 ? 1 : 0) |
			          (*static_cast<const float *>(call.beta) == 0 ? 2 : 0);
		const auto word = [](int64_t value) { return static_cast<uint64_t>(value); };
		// Word by word, not copied as bytes: what the door has just stored in small pieces would be waited for.
		const Key key = {{pack(call.transa, call.transb), word(call.m), word(call.n), word(call.k), word(call.lda),
		                  word(call.ldb), word(call.ldc), word(call.strideA), word(call.strideB), word(call.strideC),
		                  word(call.batchCount), pack(call.Atype, call.Btype), pack(call.Ctype, call.computeType), 0,
		                  pack(asking.door.index, asking.caller.id),
		                  pack(ordinal << 8 | modes.mathMode, 16 | scalars)}}; // the last never 0: an empty memo
		findSite(asking, key, ordinal, subject, described);
	} else {
		subject.hasHandleFailed = modes.status != 0;
		subject.failed = modes.refused;
		subject.site = &newSite(asking, described(), ordinal, subject);
	}
	readStream(cublas, call.handle, subject);
	return subject;
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const op::GemmCall &call)
{
	reroute::Product product;
	product.lightHandle = call.handle;
	product.known = asking.door.truth;
	product.stream = subject.stream;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = product.D = call.C;
	if (op::cublas(asking.door.truth)->cublasGetSmCountTarget(call.handle, &product.extras.smCountTarget))
		return refused("cublasGetSmCountTarget");
	return run(asking, subject, product);
}

Subject describe(const Asking &asking, const op::LtMatmulCall &call)
{
	Subject subject;
	const op::CublasLt *const lt = op::cublasLt(asking.door.truth);
	const op::Op op = op::describe(asking.entry, asking.door.index, call, lt, asking.process.environment);
	// Refused by a getter, not by what the call says: the vendor's fault if the call itself then succeeds.
	subject.hasHandleFailed = op.obstacle == op::Obstacle::bad_argument;
	const int ordinal = ordinalOr(unknownDevice);
	Key key;
	static_assert(sizeof op <= sizeof key.words - 16);
	std::memcpy(key.words, &op, sizeof op); // the descriptors had to be read anyway
	// Where the hash sees it.
	key.words[Key::size - 2] = static_cast<uint64_t>(op.k);
	key.words[Key::size - 1] = pack(ordinal << 8, 16) ^ static_cast<uint64_t>(asking.caller.id) << 16;
	findSite(asking, key, ordinal, subject, [&] { return op; });
	subject.stream = call.stream;
	readCapture(subject);
	return subject;
}

reroute::Outcome lower(const Asking &asking, const Subject &subject, const op::LtMatmulCall &call)
{
	reroute::Product product;
	product.lightHandle = call.lightHandle;
	product.known = asking.door.truth;
	product.stream = call.stream;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = call.C, product.D = call.D;
	const op::CublasLt &lt = *op::cublasLt(asking.door.truth);
	if (!op::readExtras(lt, call.computeDesc, product.extras))
		return refused("cublasLtMatmulDescGetAttribute");
	if (!reroute::isAccepted(subject.site->plan, lt, call)) {
		reroute::Outcome outcome = refused("cublasLtMatmulAlgoCheck");
		outcome.reason = policy::Reason::bad_argument; // the application's own choice, most likely
		return outcome;
	}
	return run(asking, subject, product);
}

Subject describe(const Asking &asking, const op::PlainCall &call)
{
	Subject subject;
	const int ordinal = ordinalOr(unknownDevice);
	Key key = {{static_cast<uint64_t>(call.m), static_cast<uint64_t>(call.n), static_cast<uint64_t>(call.k),
	            static_cast<uint64_t>(call.batchCount), pack(call.Atype, call.xType)}};
	key.words[Key::size - 2] = pack(asking.door.index, asking.caller.id);
	key.words[Key::size - 1] = pack(ordinal << 8, 16);
	findSite(asking, key, ordinal, subject, [&] { return op::describe(asking.entry, asking.door.index, call); });
	if (asking.entry.obstacle != op::Obstacle::host_blocked && call.handle) // cublasXt's handles are of another kind
		readStream(op::cublas(asking.door.truth), call.handle, subject);
	return subject;
}

reroute::Outcome lower(const Asking &, const Subject &, const op::PlainCall &)
{
	return {}; // no decision lowers one
}

} // namespace autoamp::core
