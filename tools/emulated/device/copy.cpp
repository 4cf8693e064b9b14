#include "core.h"

#include <cstring>

namespace emulated {
namespace {

// Number of bytes from the first to the last byte of a rectangle.
size_t extent(size_t pitch, size_t width, size_t height)
{
	return height ? (height - 1) * pitch + width : 0;
}

enum class Side { Host, Device, Any };

// The checks on one side of a copy before it runs. `pageable`: CUDA does not know the memory.
cudaError_t check(const void *address, size_t bytes, Side side, bool *pageable)
{
	const auto one = findAllocation(address);
	*pageable = !one && !isDevicePointer(address);
	if (!one)
		return *pageable && side != Side::Device ? cudaSuccess : cudaErrorInvalidValue;
	const bool mayGoOn = one->kind == Allocation::Registered || one->kind == Allocation::Mapped; // into the next one
	if (uintptr_t(address) + bytes > one->base + one->bytes && !mayGoOn)
		return cudaErrorInvalidValue;
	if (side == Side::Host && onDevice(one->kind))
		return cudaErrorInvalidValue;
	return cudaSuccess;
}

// The address of one side when the copy runs. Null if the device may not access it, for example after a free.
char *resolveSide(const void *address, size_t bytes, bool pageable)
{
	return static_cast<char *>(pageable ? const_cast<void *>(address) : anyView(address, bytes));
}

// The property of an operand that an update of an executable graph must not change.
uint64_t placeOf(const void *address)
{
	const auto one = findAllocation(address);
	return one && onDevice(one->kind) ? uint64_t(one->context->device) + 1 : 0;
}

cudaError_t run(const Rectangle &what, const char *from, char *to)
{
	if (!from || !to)
		return cudaErrorIllegalAddress;
	for (size_t row = 0; row < what.height; ++row)
		memmove(to + row * what.toPitch, from + row * what.fromPitch, what.width);
	return cudaSuccess;
}

} // namespace

cudaError_t copy(const Rectangle &what, cudaMemcpyKind kind, cudaStream_t stream, bool async)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
		return cudaErrorInvalidMemcpyDirection;
	if (what.height > 1 && (what.width > what.toPitch || what.width > what.fromPitch))
		return cudaErrorInvalidPitchValue;
	if (what.width == 0 || what.height == 0)
		return cudaSuccess;
	const bool any = kind == cudaMemcpyDefault;
	const bool toDevice = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
	const bool fromDevice = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
	const size_t toBytes = extent(what.toPitch, what.width, what.height);
	const size_t fromBytes = extent(what.fromPitch, what.width, what.height);
	bool toPageable = false, fromPageable = false;
	const auto side = [any](bool device) { return any ? Side::Any : device ? Side::Device : Side::Host; };
	if (const cudaError_t error = check(what.to, toBytes, side(toDevice), &toPageable))
		return error;
	if (const cudaError_t error = check(what.from, fromBytes, side(fromDevice), &fromPageable))
		return error;
	if (!async)
		if (const cudaError_t error = unsafeCall())
			return error;
	// Hardware may read pageable memory during the call (it stages the data), and pinned memory when the stream runs
	// the copy.
	std::shared_ptr<std::vector<char>> staged;
	const auto *source = static_cast<const char *>(what.from);
	if (fromPageable && async && !isCapturing(stream))
		staged = std::make_shared<std::vector<char>>(source, source + fromBytes);
	OpPointer op;
	const cudaError_t error = submitOp(
	    stream, "copy", cudaGraphNodeTypeMemcpy,
	    [=] {
		    return run(what, staged ? staged->data() : resolveSide(what.from, fromBytes, fromPageable),
		               resolveSide(what.to, toBytes, toPageable));
	    },
	    &op, placeOf(what.to) * 64 + placeOf(what.from));
	if (error)
		return error;
	// Copies between device buffers do not wait, even without Async in the name. Copies into pageable memory always
	// wait.
	const bool onDevice = isDevicePointer(what.from) && isDevicePointer(what.to);
	return (async ? toPageable : !onDevice) ? finish(op) : cudaSuccess;
}

cudaError_t fill(const Fill &what, cudaStream_t stream, bool async)
{
	Context *current = nullptr;
	if (const cudaError_t error = requireContext(&current))
		return error;
	if (what.width == 0 || what.height == 0)
		return cudaSuccess;
	const size_t row = what.width * what.unit, bytes = extent(what.pitch, row, what.height);
	bool pageable = false;
	if (uintptr_t(what.to) % what.unit || (what.height > 1 && row > what.pitch))
		return cudaErrorInvalidValue;
	if (const cudaError_t error = check(what.to, bytes, Side::Device, &pageable))
		return error;
	if (!async)
		if (const cudaError_t error = unsafeCall())
			return error;
	const uint64_t area = what.height > 1 ? (what.pitch * 31 + row) * 31 + what.height : 0;
	OpPointer op;
	const cudaError_t error = submitOp(
	    stream, "memset", cudaGraphNodeTypeMemset,
	    [=] {
		    char *to = resolveSide(what.to, bytes, false);
		    if (!to)
			    return cudaErrorIllegalAddress;
		    for (size_t y = 0; y < what.height; ++y, to += what.pitch)
			    for (size_t x = 0; x < what.width; ++x)
				    memcpy(to + x * what.unit, &what.value, what.unit); // little endian
		    return cudaSuccess;
	    },
	    &op, area * 64 + placeOf(what.to));
	if (error || async || isDevicePointer(what.to)) // memset of device memory is asynchronous
		return error;
	return finish(op);
}

} // namespace emulated
