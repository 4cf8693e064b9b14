// Shared by the fuzz targets: a property that does not hold ends the process, like a crash. One thread.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define REQUIRE(property)                                                                                              \
	do {                                                                                                               \
		if (!(property)) {                                                                                             \
			std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #property);                         \
			std::abort();                                                                                              \
		}                                                                                                              \
	} while (0)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
