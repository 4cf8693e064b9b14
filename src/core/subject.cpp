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
	if (__builtin_expect(memo.site && memo.key == key, 1)) {
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

bool isZero(const void *scalar)
{
	return scalar && *static_cast<const float *>(scalar) == 0;
}

// The stream of the application's handle; only a driver can tell whether it is being captured.
void readStream(const op::Cublas *cublas, void *handle, Subject &subject)
{
	if (!cublas || !cuda::driver() || subject.hasHandleFailed)
		return;
	if (cublas->cublasGetStream_v2(handle, &subject.product.stream))
		subject.obstacle = policy::Reason::engine_failed;
	else
		subject.isCaptured = reroute::isCapturing(subject.product.stream);
}

} // namespace

Subject describe(const Asking &asking, const op::GemmCall &call)
{
	Subject subject;
	const op::Cublas *cublas = op::cublas(asking.door.truth);
	const op::HandleModes modes = op::readModes(cublas, call.handle);
	subject.hasHandleFailed = modes.status != 0;
	const int ordinal = ordinalOr(unknownDevice);
	// Of the addresses only: null or not, aligned or not. Of host scalars: zero or not.
	const auto a = reinterpret_cast<uintptr_t>(call.A), b = reinterpret_cast<uintptr_t>(call.B),
	           c = reinterpret_cast<uintptr_t>(call.C);
	const bool isFp32 = call.Atype < 0 || op::dtypeOf(call.Atype) == op::Dtype::float32;
	const bool readsScalars = isFp32 && !modes.deviceScalars && !modes.isUnknown && !modes.status;
	const uint64_t flags = static_cast<uint64_t>((a | b | c) & 3) | (a ? 4u : 0u) | (b ? 8u : 0u) | (c ? 16u : 0u) |
	                       (call.alpha ? 32u : 0u) | (call.beta ? 64u : 0u) | (call.handle ? 128u : 0u) |
	                       (modes.deviceScalars ? 256u : 0u) | (modes.isUnknown ? 512u : 0u) |
	                       (modes.status ? 1024u : 0u) | (readsScalars && isZero(call.alpha) ? 2048u : 0u) |
	                       (readsScalars && isZero(call.beta) ? 4096u : 0u);
	const Key key = {{static_cast<uint64_t>(call.m),
	                  static_cast<uint64_t>(call.n),
	                  static_cast<uint64_t>(call.k),
	                  pack(asking.door.index, call.transa * 16 + call.transb),
	                  pack(asking.caller.id, modes.mathMode),
	                  flags,
	                  static_cast<uint64_t>(call.lda),
	                  static_cast<uint64_t>(call.ldb),
	                  static_cast<uint64_t>(call.ldc),
	                  static_cast<uint64_t>(call.strideA),
	                  static_cast<uint64_t>(call.strideB),
	                  static_cast<uint64_t>(call.strideC),
	                  static_cast<uint64_t>(call.batchCount),
	                  pack(call.Atype, call.Btype),
	                  pack(call.Ctype, call.computeType),
	                  pack(ordinal, call.transa)}};
	findSite(asking, key, ordinal, subject, [&] {
		return op::describe(asking.entry, asking.door.index, call, modes, asking.process.environment);
	});
	readStream(cublas, call.handle, subject);
	if (subject.site->decision.verdict != policy::Verdict::lowered)
		return subject;
	reroute::Product &product = subject.product;
	product.lightHandle = call.handle;
	product.known = asking.door.truth;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = product.D = call.C;
	if (cublas->cublasGetSmCountTarget(call.handle, &product.extras.smCountTarget))
		subject.obstacle = policy::Reason::engine_failed;
	return subject;
}

Subject describe(const Asking &asking, const op::LtMatmulCall &call)
{
	Subject subject;
	const op::CublasLt *lt = op::cublasLt(asking.door.truth);
	const op::Op op = op::describe(asking.entry, asking.door.index, call, lt, asking.process.environment);
	// Refused by a getter, not by what the call says: the vendor's fault if the call itself then succeeds.
	subject.hasHandleFailed = op.obstacle == op::Obstacle::bad_argument;
	const int ordinal = ordinalOr(unknownDevice);
	Key key;
	static_assert(sizeof op <= sizeof key.words - 16);
	std::memcpy(key.words, &op, sizeof op); // the descriptors had to be read anyway
	key.words[Key::size - 1] = pack(ordinal, asking.caller.id);
	findSite(asking, key, ordinal, subject, [&] { return op; });
	subject.product.stream = call.stream;
	subject.isCaptured = reroute::isCapturing(call.stream);
	if (subject.site->decision.verdict != policy::Verdict::lowered)
		return subject;
	reroute::Product &product = subject.product;
	product.lightHandle = call.lightHandle;
	product.known = asking.door.truth;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = call.C, product.D = call.D;
	if (!op::readExtras(*lt, call.computeDesc, product.extras))
		subject.obstacle = policy::Reason::engine_failed;
	return subject;
}

Subject describe(const Asking &asking, const op::PlainCall &call)
{
	Subject subject;
	const int ordinal = ordinalOr(unknownDevice);
	const Key key = {{static_cast<uint64_t>(call.m), static_cast<uint64_t>(call.n), static_cast<uint64_t>(call.k),
	                  pack(asking.door.index, asking.caller.id), static_cast<uint64_t>(call.batchCount),
	                  pack(call.Atype, call.xType), pack(ordinal, 0)}};
	findSite(asking, key, ordinal, subject, [&] { return op::describe(asking.entry, asking.door.index, call); });
	if (asking.entry.obstacle != op::Obstacle::host_blocked && call.handle) // cublasXt's handles are of another kind
		readStream(op::cublas(asking.door.truth), call.handle, subject);
	return subject;
}

} // namespace autoamp::core
