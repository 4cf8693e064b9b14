// The vendor libraries: their names and versions, and the table of entry points. Any thread.
#pragma once

#include "inject/slots.h"

namespace autoamp::front {

constexpr unsigned mostParts = 6;

struct Library {
	const char *sonames[versionCount];
	const char *parts[versionCount][mostParts]; // libraries that it loads; programs may link to them as well
	unsigned &versionInUse; // version of the captured copy; versionCount: a copy in an application file
	int (*absent)();        // called in place of its functions while the newer version is not in the process
};
extern const Library cublas, cublaslt, cudnn, cudart;

struct Entry {
	const char *name;
	const Library &library;
};
extern const Entry entries[rowCount];

constexpr unsigned undecided = versionCount + 1; // value of versionInUse before a copy is captured

// Called in place of an entry point while its library is not in the process. Returns NOT_INITIALIZED of cuBLAS and
// cuDNN 8.
int absent();

// True if `file` is the name of one of the parts of `library` in this version.
bool isPart(const char *file, const Library &library, unsigned version);

// Returns versionCount for other libraries, and for versions with unknown signatures.
unsigned versionOf(const char *file, const Library &library);

// True for NVIDIA libraries, by the name of their file.
bool isVendors(const char *file);

// Returns rowCount if `name` is neither an entry point nor in launches.inc.
unsigned rowOf(const char *name);

} // namespace autoamp::front
