// Data that tests, benchmarks and the golden file record: 20 signatures, the m-th called m times, and one record of
// every other kind. One thread.
#pragma once

#include "src/trace/write/recorder.h"

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

// The device's work: two casts and a product of a call of the 5th signature, the same from a graph, a fill, a kernel of
// the program, one without valid times and one of unknown origin.
inline void fillKernels(trace::Recorder &recorder, uint64_t call)
{
	const trace::RowId id = recorder.row(row(5));
	const char *const product = "sm90_xmma_gemm_f16f16_f16f32_f32_nt_n_tilesize64x64x64_warpgroupsize1x1x1";
	const char *const unscale = "at::native::_amp_foreach_non_finite_check_and_unscale_cuda_";
	const trace::KernelEvent events[] = {
	    {1000, 1100, call, "autoamp_cast_half", id, 7, 1, trace::kernelOurs},
	    {1100, 1150, call, "autoamp_settle", id, 7, 1, trace::kernelOurs},
	    {1200, 2200, call, product, id, 7, 1, 0},
	    {5200, 5700, call, product, id, 7, 1, trace::kernelGraph},
	    {2200, 2210, call, "[memset]", id, 7, 1, trace::kernelMemory},
	    {3000, 3300, 0, unscale, 0, 8, 1, trace::kernelOutside},
	    {0, 0, call, product, id, 7, 1, 0},
	    {6000, 6001, 0, "stranger", 0, 8, 0, 0},
	};
	recorder.kernels(events, {1, 1, 3});
	recorder.overhead("buffer_flush", 100, false);
	recorder.overhead("resource", 7, false);
	recorder.clock(1767225600000000000);
}

} // namespace trace_test
