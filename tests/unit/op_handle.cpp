#include "src/op/handle.h"

#include <catch2/catch.hpp>
#include <cublas_v2.h>

using namespace autoamp::op;

namespace {

struct Handle {
	int pointerMode = CUBLAS_POINTER_MODE_HOST, mathMode = 0;
	int pointerStatus = 0, mathStatus = 0;
};

const Cublas vendor = {
    nullptr,
    [](void *handle, int *mode) {
	    *mode = static_cast<Handle *>(handle)->pointerMode;
	    return static_cast<Handle *>(handle)->pointerStatus;
    },
    [](void *handle, int *mode) {
	    *mode = static_cast<Handle *>(handle)->mathMode;
	    return static_cast<Handle *>(handle)->mathStatus;
    },
    nullptr,
};

} // namespace

TEST_CASE("a handle's modes")
{
	Handle handle;
	HandleModes modes = readModes(&vendor, &handle);
	CHECK(modes.status == 0);
	CHECK(!modes.isUnknown);
	CHECK(!modes.deviceScalars);
	CHECK(modes.mathMode == 0);

	handle = {CUBLAS_POINTER_MODE_DEVICE, CUBLAS_TF32_TENSOR_OP_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION,
	          0, 0};
	modes = readModes(&vendor, &handle);
	CHECK(modes.deviceScalars);
	CHECK(modes.mathMode == CUBLAS_TF32_TENSOR_OP_MATH); // the flag that is also set stands for 16-bit results
}

TEST_CASE("a handle that does not answer")
{
	Handle handle;
	handle.pointerStatus = CUBLAS_STATUS_NOT_INITIALIZED;
	CHECK(readModes(&vendor, &handle).status == CUBLAS_STATUS_NOT_INITIALIZED);
	handle.pointerStatus = 0;
	handle.mathStatus = CUBLAS_STATUS_INTERNAL_ERROR;
	CHECK(readModes(&vendor, &handle).status == CUBLAS_STATUS_INTERNAL_ERROR);
}

TEST_CASE("a library without getters")
{
	const HandleModes modes = readModes(nullptr, nullptr);
	CHECK(modes.isUnknown);
	CHECK(modes.status == 0);
}
