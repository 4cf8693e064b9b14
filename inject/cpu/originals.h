// The original functions of the routines of a CPU BLAS. A process can have several libraries with the same names: the
// loader binds each caller to the one in its scope, and lookups select one. Any thread.
#pragma once

#include "inject/cpu/slots.h"
#include "inject/object.h"

namespace autoamp::front {

struct Original {
	void *function = nullptr;
	bool isWide = false;      // its integers have 64 bits
	bool isShared = false;    // the same for all callers of the slot
	bool isOther = false;     // a function with the name of a routine, in an object that is not a BLAS
	bool staysLoaded = false; // it is pinned, except in the object of the caller while autoamp is off
};

extern const char *const routineNames[blasEntryCount];

// Returns blasEntryCount if `name` is not a routine in one of the tabled spellings.
unsigned rowOf(const char *name);

// Whether the function with the name of this row in `owner` is that of a BLAS, not one of an application.
bool isRoutine(unsigned row, const Object &owner);

// Keeps the library of a function loaded. A slot and the core outlive the client that closes it.
void pin(void *function);

// Finds the function that the loader would have bound without autoamp, and pins it. First the next
// definition in the scope of the program, then that in the scope of the caller's file, then any. A library that joined
// the scope of the program after the caller's file was loaded comes after that in the scope of the file.
Original resolveOriginal(unsigned slot, const void *caller, bool hasLoader);

// The definition that the loader would have bound a reference in `file` to without autoamp. isShared: it is the same
// for all files. Null: there is none in the scope of the program or of the file.
void *definitionFor(unsigned row, const Object &file, bool &isShared);

// The slot for `found`, the result of a lookup of this row. Returns slotCount if all copies belong to other libraries,
// or if autoamp is off.
unsigned slotFor(unsigned row, void *found);

} // namespace autoamp::front
