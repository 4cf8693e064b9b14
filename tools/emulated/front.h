// What the cudart and the cuda front share. Any thread.
#pragma once

#include "device/core.h"

#include <iterator>

namespace emulated {

struct ErrorName {
	int number;
	const char *name;
};

// Says which kind of call the thread is in, for as long as the call lasts.
class CallScope
{
public:
	CallScope(bool driver, bool perThread) : me_(thread()), driver_(me_.driver), perThread_(me_.perThreadDefault)
	{
		me_.driver = driver;
		me_.perThreadDefault = perThread;
	}
	~CallScope()
	{
		me_.driver = driver_;
		me_.perThreadDefault = perThread_;
	}
	CallScope(const CallScope &) = delete;

private:
	Thread &me_;
	const bool driver_, perThread_;
};

// A readable line for an error number, which runtime and driver share; null for a number that neither has.
inline const char *errorText(const ErrorName *names, int number)
{
	static constexpr ErrorName texts[] = {
	    {0, "no error"},
	    {1, "invalid argument"},
	    {2, "out of memory"},
	    {3, "initialization error"},
	    {4, "driver shutting down"},
	    {9, "invalid configuration argument"},
	    {12, "invalid pitch argument"},
	    {21, "invalid copy direction for memcpy"},
	    {98, "invalid device function"},
	    {100, "no CUDA-capable device is detected"},
	    {101, "invalid device ordinal"},
	    {201, "invalid device context"},
	    {400, "invalid resource handle"},
	    {401, "the operation cannot be performed in the present state"},
	    {500, "named symbol not found"},
	    {600, "device not ready"},
	    {700, "an illegal memory access was encountered"},
	    {701, "too many resources requested for launch"},
	    {704, "peer access is already enabled"},
	    {705, "peer access has not been enabled"},
	    {709, "context is destroyed"},
	    {712, "part or all of the requested memory range is already mapped"},
	    {713, "pointer does not correspond to a registered memory region"},
	    {719, "unspecified launch failure"},
	    {800, "operation not permitted"},
	    {801, "operation not supported"},
	    {900, "operation not permitted when stream is capturing"},
	    {901, "operation failed due to a previous error during capture"},
	    {902, "operation would result in a merge of separate capture sequences"},
	    {903, "capture was not initiated in this stream"},
	    {904, "capturing stream has unjoined work"},
	    {905, "dependency created on uncaptured work in another stream"},
	    {906, "operation would make the legacy stream depend on a capturing blocking stream"},
	    {907, "operation not permitted on an event last recorded in a capturing stream"},
	    {908, "attempt to terminate a thread-local capture sequence from another thread"},
	    {999, "unknown error"},
	};
	for (const auto &row : texts)
		if (row.number == number)
			return row.name;
	for (const ErrorName *row = names; row->name; ++row)
		if (row->number == number)
			return row->name;
	return nullptr;
}

inline const char *errorName(const ErrorName *names, int number)
{
	for (const ErrorName *row = names; row->name; ++row)
		if (row->number == number)
			return row->name;
	return nullptr;
}

template <class Out, class Value>
cudaError_t give(Out *out, Value value)
{
	if (!out)
		return cudaErrorInvalidValue;
	*out = Out(value);
	return cudaSuccess;
}

} // namespace emulated
