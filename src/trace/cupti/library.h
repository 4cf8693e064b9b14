// The CUPTI functions that the collector calls, from the available libcupti, and the fields of its records. Only for
// src/trace/cupti/. Any thread; loaded once.
#pragma once

#include <cupti.h>

#include <cstdint>

namespace autoamp::trace {

#define AUTOAMP_CUPTI_FUNCTIONS(X)                                                                                     \
	X(cuptiGetVersion)                                                                                                 \
	X(cuptiGetTimestamp)                                                                                               \
	X(cuptiSubscribe)                                                                                                  \
	X(cuptiUnsubscribe)                                                                                                \
	X(cuptiEnableCallback)                                                                                             \
	X(cuptiGetGraphNodeId)                                                                                             \
	X(cuptiActivityRegisterCallbacks)                                                                                  \
	X(cuptiActivityEnable)                                                                                             \
	X(cuptiActivityDisable)                                                                                            \
	X(cuptiActivityFlushAll)                                                                                           \
	X(cuptiActivityGetNextRecord)                                                                                      \
	X(cuptiActivityGetNumDroppedRecords)                                                                               \
	X(cuptiActivitySetAttribute)

struct Cupti {
#define X(name) decltype(&::name) name;
	AUTOAMP_CUPTI_FUNCTIONS(X)
#undef X
	decltype(&::cuptiSubscribe_v2) cuptiSubscribe_v2; // null: before CUDA 13
	bool isEmulated;                                  // its times have no meaning
};

// Returns false if there is no libcupti or it lacks a function; `why` is the reason. path: AUTOAMP_CUPTI_PATH, or
// empty.
bool loadCupti(const char *path, Cupti &cupti, char (&why)[160]);

// CUPTI fills the newest version of each record that it knows. These are the beginnings that all versions since CUDA
// 11.0 have in common; src/trace/cupti/library.cpp checks them against the header.
struct [[gnu::packed]] KernelRecord {
	uint32_t kind;
	char unused1[12];
	uint64_t start, end;
	char unused2[8];
	uint32_t deviceId, contextId, streamId;
	char unused3[40];
	uint32_t correlationId;
	char unused4[8];
	const char *name;
	char unused5[32];
	uint64_t graphNodeId;
};

struct [[gnu::packed]] MemoryRecord { // for copies and fills
	uint32_t kind;
	uint8_t copyKind; // for a fill: its value
	char unused1[11];
	uint64_t start, end;
	uint32_t deviceId, contextId, streamId, correlationId;
	char unused2[16];
	uint64_t graphNodeId;
};

struct [[gnu::packed]] OverheadRecord {
	uint32_t kind, overheadKind;
	char unused[16];
	uint64_t start, end;
};

} // namespace autoamp::trace
