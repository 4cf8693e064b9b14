#include "src/call/fast_path.h"

#include <catch2/catch.hpp>
#include <cublas_v2.h>

#include <functional>
#include <memory>
#include <xmmintrin.h>

using namespace autoamp;

// Replaces the front and the regions, which are tested in whole programs.
constinit thread_local front::ThreadBlock autoamp_front_thread;
namespace autoamp::core {
std::atomic<unsigned> regionEpoch{0};
void renewRegion() {}
} // namespace autoamp::core

namespace {

struct Handle {
	int pointerMode = CUBLAS_POINTER_MODE_HOST, mathMode = 0, status = 0;
};

const op::Cublas vendor = {
    nullptr,
    [](void *handle, int *mode) {
	    *mode = static_cast<Handle *>(handle)->pointerMode;
	    return static_cast<Handle *>(handle)->status;
    },
    [](void *handle, int *mode) {
	    *mode = static_cast<Handle *>(handle)->mathMode;
	    return 0;
    },
    nullptr,
};

constexpr unsigned row = 7;
constexpr op::Entry entry = {"cublasSgemm_v2", op::Library::cublas, op::Dtype::float32, op::Obstacle::none, false};
constexpr uint32_t caller = 5;
const void *const address = reinterpret_cast<void *>(0x1234);

// A thread that has cached `call` through that wrapper, from that caller, as a call that runs unchanged.
std::unique_ptr<core::Thread> threadThatKnows(const auto &call)
{
	auto thread = std::make_unique<core::Thread>();
	thread->cublas = &vendor;
	const_cast<core::Thread::Caller &>(placeOf(*thread, address)) = {address, {caller, core::CallerKind::application}};
	const core::Key key = keyOf(call, row, caller, core::readHandleState(entry, &vendor, nullptr, 0, call));
	core::Thread::Memo &memo = memoOf(*thread, key);
	memo.key = key;
	memo.isPassThrough = true;
	return thread;
}

} // namespace

TEST_CASE("a call is passed by what is remembered of one that differs in nothing that counts")
{
	Handle handle;
	float one = 1, zero = 0, matrix[4] = {};
	op::GemmCall known{.handle = &handle, .alpha = &one, .A = matrix, .B = matrix, .beta = &zero, .C = matrix};
	known.m = 64, known.n = 32, known.k = 16, known.lda = 64, known.ldb = 16, known.ldc = 64;
	const auto thread = threadThatKnows(known);
	const auto isPassThrough = [&](const op::GemmCall &call) {
		return findCached(*thread, row, entry, address, call) != nullptr;
	};
	REQUIRE(isPassThrough(known));

	SECTION("other operands, scalars that are not zero either")
	{
		op::GemmCall call = known;
		float two = 2, other[4] = {};
		call.A = call.B = call.C = other;
		call.alpha = &two;
		CHECK(isPassThrough(call));
	}
	SECTION("an alpha that is 0 only to a caller who flushes subnormal numbers")
	{
		op::GemmCall call = known;
		float tiny = 1e-42f;
		call.alpha = &tiny;
		const unsigned usual = _mm_getcsr();
		_mm_setcsr(usual | 0x8040); // DAZ and FTZ
		const bool passes = isPassThrough(call), isZero = op::isZero(&tiny, false);
		_mm_setcsr(usual);
		CHECK(passes);
		CHECK(!isZero);
	}
	SECTION("any other size, stride, type, transposition")
	{
		const std::function<void(op::GemmCall &)> changes[] = {
		    [](auto &c) { c.transa++; },     [](auto &c) { c.transb++; },  [](auto &c) { c.m++; },
		    [](auto &c) { c.n++; },          [](auto &c) { c.k++; },       [](auto &c) { c.lda++; },
		    [](auto &c) { c.ldb++; },        [](auto &c) { c.ldc++; },     [](auto &c) { c.strideA++; },
		    [](auto &c) { c.strideB++; },    [](auto &c) { c.strideC++; }, [](auto &c) { c.batchCount++; },
		    [](auto &c) { c.Atype++; },      [](auto &c) { c.Btype++; },   [](auto &c) { c.Ctype++; },
		    [](auto &c) { c.computeType++; }};
		for (const auto &change : changes) {
			op::GemmCall call = known;
			change(call);
			CAPTURE(&change - changes);
			CHECK(!isPassThrough(call));
		}
	}
	SECTION("another zero, another mode, a handle that does not answer")
	{
		for (const void *op::GemmCall::*scalar : {&op::GemmCall::alpha, &op::GemmCall::beta}) {
			op::GemmCall call = known;
			call.*scalar = scalar == &op::GemmCall::alpha ? &zero : &one;
			CHECK(!isPassThrough(call));
		}
		handle.mathMode = CUBLAS_TF32_TENSOR_OP_MATH;
		CHECK(!isPassThrough(known));
		handle = {CUBLAS_POINTER_MODE_DEVICE, 0, 0};
		CHECK(!isPassThrough(known));
		handle = {CUBLAS_POINTER_MODE_HOST, 0, 1};
		CHECK(!isPassThrough(known));
	}
	SECTION("null or misaligned")
	{
		for (const void *op::GemmCall::*pointer :
		     {&op::GemmCall::alpha, &op::GemmCall::A, &op::GemmCall::B, &op::GemmCall::beta}) {
			op::GemmCall call = known;
			call.*pointer = nullptr;
			CHECK(!isPassThrough(call));
		}
		op::GemmCall call = known;
		call.C = nullptr;
		CHECK(!isPassThrough(call));
		call.C = reinterpret_cast<char *>(matrix) + 2;
		CHECK(!isPassThrough(call));
	}
	SECTION("another wrapper, another caller, an NVIDIA library")
	{
		CHECK(!findCached(*thread, row + 1, entry, address, known));
		CHECK(!findCached(*thread, row, entry, static_cast<const char *>(address) + 1, known));
		auto &place = const_cast<core::Thread::Caller &>(placeOf(*thread, address));
		place.answer.id++;
		CHECK(!isPassThrough(known));
		place.answer = {caller, core::CallerKind::vendor};
		CHECK(!isPassThrough(known));
	}
	SECTION("a thread that other rules may mean")
	{
		thread->nameClass = 1;
		CHECK(!isPassThrough(known));
		thread->memos[0] =
		    memoOf(*thread, keyOf(known, row, caller, core::readHandleState(entry, &vendor, nullptr, 0, known)));
		for (auto &memo : thread->memos)
			memo = thread->memos[0]; // any place in the memo
		CHECK(!isPassThrough(known));
		thread->nameClass = 0;
		CHECK(isPassThrough(known));
	}
	SECTION("one that is lowered")
	{
		memoOf(*thread, keyOf(known, row, caller, core::readHandleState(entry, &vendor, nullptr, 0, known)))
		    .isPassThrough = false;
		CHECK(!isPassThrough(known));
	}
}

TEST_CASE("cached state of an entry point that is not a product")
{
	op::PlainCall known;
	known.m = 64, known.n = 32, known.k = 16;
	const auto thread = threadThatKnows(known);
	REQUIRE(findCached(*thread, row, entry, address, known));
	const std::function<void(op::PlainCall &)> changes[] = {[](auto &c) { c.m++; },     [](auto &c) { c.n++; },
	                                                        [](auto &c) { c.k++; },     [](auto &c) { c.batchCount++; },
	                                                        [](auto &c) { c.Atype++; }, [](auto &c) { c.xType++; }};
	for (const auto &change : changes) {
		op::PlainCall call = known;
		change(call);
		CAPTURE(&change - changes);
		CHECK(!findCached(*thread, row, entry, address, call));
	}
}
