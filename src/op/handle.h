// What an application's cuBLAS handle says about its calls, asked through the vendor's getters. Any thread.
#pragma once

#include "src/op/vendor.h"

namespace autoamp::op {

struct HandleModes {
	Status status = 0;             // of the getters; not 0: the handle did not answer and nothing else holds
	const char *refused = nullptr; // which getter gave it
	bool isUnknown = false;        // the library has no getters
	bool deviceScalars = false;
	int mathMode = 0; // cublasMath_t without its flags
};

HandleModes readModes(const Cublas *cublas, void *handle);

} // namespace autoamp::op
