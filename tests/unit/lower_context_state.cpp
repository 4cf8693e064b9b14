#include "src/lower/context_state.h"

#include "kernels/images.h"
#include "tests/unit/fake_driver.h"

#include <catch2/catch.hpp>

using namespace autoamp;
using namespace autoamp::lower;
using fake_driver::device;
using policy::Reason;

namespace {

const auto stream = reinterpret_cast<cuda::Stream>(0x51);

// On a fresh device with a number that no other test uses, because facts are cached.
void enter(unsigned long long id)
{
	device = {};
	device.context = reinterpret_cast<CUctx_st *>(0x11);
	device.contextId = id;
	device.ordinal = 11;
}

ContextAnswer ask(bool isCapturing = false, bool isCast = true)
{
	return currentContext(fake_driver::table, 1000, stream, isCapturing, isCast);
}

std::string name(CUkern_st *kernel)
{
	return reinterpret_cast<const char *>(kernel);
}

} // namespace

// One test case: loaded kernels stay loaded, so the order matters.
TEST_CASE("the resources of a context are created once, or not at all")
{
	const struct {
		const char *failing;
		cuda::Result result;
		Reason expected;
	} rows[] = {{"cuCtxGetCurrent", 1, Reason::engine_failed},
	            {"cuCtxGetId", 1, Reason::engine_failed},
	            {"cuStreamGetCtx", 1, Reason::engine_failed},
	            {"cuDeviceGetAttribute", 1, Reason::engine_failed},
	            {"cuMemPoolCreate", 1, Reason::engine_failed},
	            {"cuMemPoolCreate", cuda::outOfMemory, Reason::out_of_memory},
	            {"cuMemPoolSetAttribute", 1, Reason::engine_failed},
	            {"cuMemAlloc_v2", 1, Reason::engine_failed},
	            {"cuMemAlloc_v2", cuda::outOfMemory, Reason::out_of_memory},
	            {"cuMemsetD8Async", 1, Reason::engine_failed}};
	for (const auto &row : rows) {
		enter(70);
		device.failing[row.failing] = row.result;
		const ContextAnswer answer = ask();
		CAPTURE(row.failing, answer.what);
		CHECK(answer.context == nullptr);
		CHECK(static_cast<int>(answer.reason) == static_cast<int>(row.expected));
		CHECK(answer.what[0] != 0);
		CHECK(contexts() == nullptr);
		CHECK(device.pools == 0);
		CHECK(device.live.empty());
		CHECK(device.registered.empty());
	}

	enter(70);
	ContextAnswer answer = ask(true);
	CHECK(answer.context == nullptr); // a capture sets nothing up
	CHECK(static_cast<int>(answer.reason) == static_cast<int>(Reason::capture_unready));
	CHECK(device.pools == 0);

	device.contextOfStream = reinterpret_cast<CUctx_st *>(0x12);
	answer = ask();
	CHECK((answer.context == nullptr && answer.what == nullptr));
	CHECK(static_cast<int>(answer.reason) == static_cast<int>(Reason::bad_argument));
	CHECK(device.pools == 0);
	device.contextOfStream = nullptr;

	ContextState *const first = ask().context;
	REQUIRE(first);
	CHECK(first->id == 70);
	CHECK(first->facts->ordinal == 11);
	CHECK(device.poolDevice == 11);
	CHECK(device.stream == stream);
	CHECK(ask().context == first);
	CHECK(device.pools == 1);

	// A stream is compared with the context once. Another stream can have the same handle later, but not the same id.
	CHECK(ask().context == first);
	device.calls.clear();
	CHECK(ask().context == first);
	CHECK(device.calls == std::map<std::string, int>{{"cuCtxGetId", 1}, {"cuStreamGetId", 1}});
	device.contextOfStream = reinterpret_cast<CUctx_st *>(0x12);
	device.streamId += 16;
	CHECK(static_cast<int>(ask().reason) == static_cast<int>(Reason::bad_argument));
	CHECK(static_cast<int>(ask().reason) == static_cast<int>(Reason::bad_argument));
	device.contextOfStream = nullptr, device.streamId -= 16;
	for (const uintptr_t special : {0, 1, 2}) { // always of the current context
		device.calls.clear();
		const auto handle = reinterpret_cast<cuda::Stream>(special);
		CHECK(currentContext(fake_driver::table, 1000, handle, false, true).context == first);
		CHECK(device.calls == std::map<std::string, int>{{"cuCtxGetId", 1}});
	}
	device.failing["cuStreamGetId"] = 1; // then it is compared at every call
	CHECK(ask().context == first);
	device.failing.clear();

	// A capture waits until a call has run outside of one, if it needs kernels that a first call brings.
	CHECK(ask(true, false).context == first);
	answer = ask(true);
	CHECK(static_cast<int>(answer.reason) == static_cast<int>(Reason::capture_unready));
	first->isWarm = true;
	CHECK(ask(true).context == first);

	// Another context, although at the same address; the kernels serve both.
	enter(71);
	ContextState *const second = ask().context;
	REQUIRE(second);
	CHECK(second != first);
	CHECK((contexts() == second && second->next == first && first->next == nullptr));
	device.contextId = 70;
	CHECK(ask().context == first);

	// Another thread is faster: its context is used, and this thread's is released.
	enter(72);
	ContextState *theirs = nullptr;
	device.meanwhile["cuMemsetD8Async"] = [&] { theirs = ask().context; };
	ContextState *const mine = ask().context;
	REQUIRE(theirs);
	CHECK(mine == theirs);
	CHECK((contexts() == theirs && theirs->next == second));
	CHECK(device.pools == 1);
	CHECK(device.live.size() == 1);
	CHECK(device.registered.size() == 1);

	forgetContexts(); // a forked child
	CHECK(contexts() == nullptr);
	ContextState *const child = ask().context;
	REQUIRE(child);
	CHECK(child != theirs);
	forgetContexts();
}

TEST_CASE("the kernels are loaded once for each image, when the driver can")
{
	for (const char *failing : {"cuLibraryLoadData", "cuLibraryGetKernel"}) {
		enter(80);
		device.failing[failing] = cuda::outOfMemory;
		const KernelsAnswer answer = conversionKernels(fake_driver::table, 90);
		CHECK(answer.kernels == nullptr);
		CHECK(static_cast<int>(answer.reason) == static_cast<int>(Reason::engine_failed));
	}
	enter(80);
	const Kernels *const kernels = conversionKernels(fake_driver::table, 90).kernels;
	REQUIRE(kernels);
	CHECK(device.image == autoamp_kernel_images + kernels::imageFor(90)->offset);
	CHECK(name(kernels->castHalf) == "autoamp_cast_half");
	CHECK(name(kernels->castBfloat16) == "autoamp_cast_bfloat16");
	CHECK(name(kernels->settle) == "autoamp_settle");
	CHECK(name(kernels->scatter) == "autoamp_scatter");
	CHECK(name(kernels->sum) == "autoamp_sum");
	enter(81);
	CHECK(conversionKernels(fake_driver::table, 90).kernels == kernels);
	CHECK(conversionKernels(fake_driver::table, 70).kernels == nullptr);
	CHECK(device.calls["cuLibraryLoadData"] == 0);
	const Kernels *const others = conversionKernels(fake_driver::table, 86).kernels; // a second GPU in the same process
	REQUIRE(others);
	CHECK(others != kernels);
	CHECK(device.image == autoamp_kernel_images + kernels::imageFor(86)->offset);
	CHECK(conversionKernels(fake_driver::table, 87).kernels == others);
	CHECK(conversionKernels(fake_driver::table, 90).kernels == kernels);
	CHECK(device.calls["cuLibraryLoadData"] == 1);
}

TEST_CASE("an image that the driver cannot use is not tried again")
{
	const std::pair<int, CUresult> rows[] = {
	    {75, CUDA_ERROR_NO_BINARY_FOR_GPU}, {80, CUDA_ERROR_UNSUPPORTED_PTX_VERSION}, {100, CUDA_ERROR_INVALID_IMAGE}};
	for (const auto &[capability, status] : rows) {
		enter(82);
		device.failing["cuLibraryLoadData"] = status;
		for (int turn = 0; turn < 2; turn++) {
			const KernelsAnswer answer = conversionKernels(fake_driver::table, capability);
			CAPTURE(capability, turn);
			CHECK(answer.kernels == nullptr);
			CHECK(static_cast<int>(answer.reason) == static_cast<int>(Reason::driver_too_old));
			CHECK(answer.status == status);
			CHECK(device.calls["cuLibraryLoadData"] == 1);
		}
	}
}

TEST_CASE("the image of a GPU is the newest of its major version, or else PTX")
{
	constexpr kernels::Image table[] = {{75, false, 12000, 0, 1},  {80, false, 12000, 0, 1}, {89, false, 12000, 0, 1},
	                                    {86, false, 12000, 0, 1},  {90, false, 12000, 0, 1}, {100, false, 12000, 0, 1},
	                                    {120, false, 12000, 0, 1}, {80, true, 12000, 0, 1},  {90, true, 13000, 0, 1}};
	const struct {
		int capability, architecture;
		bool isPtx;
	} rows[] = {{75, 75, false},   {80, 80, false},   {86, 86, false}, {87, 86, false},
	            {89, 89, false},   {90, 90, false},   {91, 90, false}, {103, 100, false},
	            {120, 120, false}, {121, 120, false}, {110, 90, true}};
	for (const auto &row : rows) {
		CAPTURE(row.capability);
		const kernels::Image *image = kernels::imageFor(row.capability, table);
		REQUIRE(image);
		CHECK(image->architecture == row.architecture);
		CHECK(image->isPtx == row.isPtx);
	}
	CHECK(kernels::imageFor(88, std::span(table).subspan(7))->architecture == 80);
	CHECK(kernels::imageFor(74, table) == nullptr);
	CHECK(kernels::imageFor(74) == nullptr);
	const int oldest = kernels::imageFor(90)->oldestDriver;
	CHECK(kernels::canLoad(90, oldest));
	CHECK_FALSE(kernels::canLoad(90, oldest - 1));
	CHECK_FALSE(kernels::canLoad(74, 13000));
}
