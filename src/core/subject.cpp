#include "src/core/subject.h"

#include "src/cuda/driver.h"
#include "src/op/handle.h"

namespace autoamp::core {

namespace {

constexpr uint16_t unknownDevice = 0xffff;

// The rest of a description, whatever the family.
void complete(const Process &process, const CallerAnswer &caller, Subject &subject)
{
	int ordinal = 0;
	if (!currentDevice(process, ordinal, subject.device)) {
		// The driver did not answer this time. A signature of its own, so that nothing is decided for good.
		subject.op.device = unknownDevice;
		subject.device = {&policy::gpuConstants(process.options.gpuModel, nullptr, 0), 90, true};
		subject.obstacle = policy::Reason::engine_failed;
	} else {
		subject.op.device = static_cast<uint16_t>(ordinal);
	}
	subject.op.caller = caller.id;
	if (caller.kind == CallerKind::solver && subject.op.obstacle == op::Obstacle::none)
		subject.op.obstacle = op::Obstacle::solver_caller;
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

Subject describe(const Process &process, const op::Entry &entry, const Door &door, const CallerAnswer &caller,
                 const op::GemmCall &call)
{
	Subject subject;
	const op::Cublas *cublas = op::cublas(door.truth);
	const op::HandleModes modes = op::readModes(cublas, call.handle);
	subject.op = op::describe(entry, door.index, call, modes, process.environment);
	subject.hasHandleFailed = modes.status != 0;
	complete(process, caller, subject);
	readStream(cublas, call.handle, subject);
	if (subject.op.obstacle != op::Obstacle::none)
		return subject;
	reroute::Product &product = subject.product;
	product.lightHandle = call.handle;
	product.known = door.truth;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = product.D = call.C;
	if (cublas->cublasGetSmCountTarget(call.handle, &product.extras.smCountTarget))
		subject.obstacle = policy::Reason::engine_failed;
	return subject;
}

Subject describe(const Process &process, const op::Entry &entry, const Door &door, const CallerAnswer &caller,
                 const op::LtMatmulCall &call)
{
	Subject subject;
	const op::CublasLt *lt = op::cublasLt(door.truth);
	subject.op = op::describe(entry, door.index, call, lt, process.environment);
	// Refused by a getter, not by what the call says: the vendor's fault if the call itself then succeeds.
	subject.hasHandleFailed = subject.op.obstacle == op::Obstacle::bad_argument;
	complete(process, caller, subject);
	subject.product.stream = call.stream;
	subject.isCaptured = reroute::isCapturing(call.stream);
	if (subject.op.obstacle != op::Obstacle::none)
		return subject;
	reroute::Product &product = subject.product;
	product.lightHandle = call.lightHandle;
	product.known = door.truth;
	product.alpha = call.alpha, product.A = call.A, product.B = call.B, product.beta = call.beta;
	product.C = call.C, product.D = call.D;
	if (!op::readExtras(*lt, call.computeDesc, product.extras))
		subject.obstacle = policy::Reason::engine_failed;
	return subject;
}

Subject describe(const Process &process, const op::Entry &entry, const Door &door, const CallerAnswer &caller,
                 const op::PlainCall &call)
{
	Subject subject;
	subject.op = op::describe(entry, door.index, call);
	complete(process, caller, subject);
	if (entry.obstacle != op::Obstacle::host_blocked && call.handle) // cublasXt's handles are of another kind
		readStream(op::cublas(door.truth), call.handle, subject);
	return subject;
}

} // namespace autoamp::core
