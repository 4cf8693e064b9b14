// Describes cuDNN calls as an Op. The descriptors are read at each call, through the documented getters, because their
// contents may have changed at the same address. Any thread.
#pragma once

#include "src/op/arguments.h"
#include "src/op/convolution.h"
#include "src/op/entry.h"
#include "src/op/gemm.h"
#include "src/op/vendor.h"

namespace autoamp::op {

// Getters of the copy in use. Null: that sub-library is not available.
struct DnnGetters {
	const CudnnOps *ops = nullptr;
	const CudnnCnn *cnn = nullptr;
	const CudnnAdv *adv = nullptr;
};

// For a convolution, an unreadable descriptor or a call that the vendor refuses gives `bad_argument`. For calls that
// are never lowered, an unreadable descriptor only leaves their data unknown.
Op describe(const Entry &entry, uint16_t index, const ConvolutionCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const RnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);
Op describe(const Entry &entry, uint16_t index, const DnnCall &call, const DnnGetters &getters,
            const VendorEnvironment &environment);

// Describes a call of which only the data type is known, as a call in default math mode.
Op describe(const Entry &entry, uint16_t index, Dtype type, const VendorEnvironment &environment);

} // namespace autoamp::op
