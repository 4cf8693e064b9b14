// cuDNN's calls in our words: the descriptors are read at the call, through the documented getters, because the next
// call may find other contents at the same address. Any thread.
#pragma once

#include "src/op/arguments.h"
#include "src/op/convolution.h"
#include "src/op/entry.h"
#include "src/op/gemm.h"
#include "src/op/vendor.h"

namespace autoamp::op {

// The getters of the copy in use; null: its part is not there.
struct DnnGetters {
	const CudnnOps *ops = nullptr;
	const CudnnCnn *cnn = nullptr;
	const CudnnAdv *adv = nullptr;
};

// Of a convolution a descriptor that does not answer, and what the vendor refuses anyway, is `bad_argument`; of what is
// never lowered it only leaves unknown what the data is.
Op describe(const Entry &entry, uint16_t index, const ConvolutionCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const RnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const DnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);

// A call of which no more is known than the types of its data, in cuDNN's default math mode.
Op describe(const Entry &entry, uint16_t index, Dtype type, const VendorEnvironment &environment);

} // namespace autoamp::op
