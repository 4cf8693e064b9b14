// What tests, benchmarks and the golden file record: 20 signatures, the m-th called m times, and one of everything
// else. One thread.
#pragma once

#include "src/trace/recorder.h"

#include <cmath>
#include <string>

namespace trace_test {

namespace trace = autoamp::trace;

// Never destroyed, as in the library: a helper thread may still use it.
inline trace::Recorder &newRecorder()
{
	return *new trace::Recorder;
}

inline trace::Options options(trace::Mode mode, const std::string &pattern)
{
	trace::Options options;
	options.mode = mode;
	options.pattern = pattern.c_str();
	return options;
}

inline trace::Row row(int64_t m, const char *entry = "cublasSgemm_v2", const char *decision = "lowered")
{
	trace::Row row;
	row.entry = entry;
	row.library = "cublas";
	row.op = "mm";
	row.m = m;
	row.n = 20;
	row.k = 30;
	row.batch = 4;
	row.transa = 'T';
	row.dtypeIn = row.dtypeAsked = row.dtypeAccumulate = row.dtypeOut = "float32";
	row.dtypeCompute = "float16";
	row.decision = decision;
	row.reason = "white_list";
	row.strategy = "cast";
	row.caller = "libapp.so";
	row.eligible = true;
	row.device = 1;
	row.estNs = 1500;
	return row;
}

// A little of everything.
inline void fill(trace::Recorder &recorder, trace::Lane *lane)
{
	recorder.property("config", "level", "O1", "default");
	recorder.property("config", "dtype", "bfloat16", "environment");
	recorder.property("version", "cublas", "13.1");
	recorder.property("device", "1", "autoamp emulated (h100 constants)");
	for (int64_t m = 1; m <= 20; ++m) {
		const trace::RowId id = recorder.row(row(m));
		trace::InFlight inFlight(*lane, id);
		for (int64_t call = 0; call < m; ++call)
			lane->record(id, 1000, 1100, call == 0);
	}
	trace::ScalerEvent event;
	event.kind = "init";
	event.row = recorder.row(row(1));
	event.exponentBefore = NAN;
	event.exponentAfter = 3;
	event.amax = 0.5f;
	recorder.scaler(event);
	recorder.note("engine_failed", "cublasLtMatmul status 13", recorder.row(row(2)));
	recorder.note("engine_failed", "cublasLtMatmul status 13", recorder.row(row(2)));
}

} // namespace trace_test
