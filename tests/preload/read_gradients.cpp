// read_gradients FILE...: prints the gradient scalers of the traces, one JSON object per scaler and line.
#include "src/trace/read/trace.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

using namespace autoamp;

int main(int count, char **arguments)
{
	for (int i = 1; i < count; i++) {
		std::string error;
		const auto trace = trace::Trace::open(arguments[i], error);
		if (!trace) {
			std::fprintf(stderr, "%s\n", error.c_str());
			return 1;
		}
		std::map<uint32_t, int> kernels; // by owner
		trace->forEachKernel([&](const trace::KernelInfo &kernel) { kernels[kernel.updatedOwner]++; });
		for (const trace::GradientScalerInfo &scaler : trace->gradientScalers) {
			nlohmann::json events = nlohmann::json::array();
			for (const trace::GradientEvent &event : trace->gradientEvents)
				if (event.scaler == scaler.id)
					events.push_back({event.kind, event.step, event.scaleBefore, event.scaleAfter, event.foundInf,
					                  event.trackerBefore, event.trackerAfter, event.hysteresis});
			const nlohmann::json told = {{"name", scaler.name},
			                             {"how", scaler.how},
			                             {"device", scaler.device},
			                             {"growth", scaler.growth}, // NaN: null
			                             {"backoff", scaler.backoff},
			                             {"interval", scaler.interval},
			                             {"steps", scaler.steps},
			                             {"skipped", scaler.skipped},
			                             {"unseen", scaler.unseen},
			                             {"growths", scaler.growths},
			                             {"backoffs", scaler.backoffs},
			                             {"sets", scaler.sets},
			                             {"refusals", scaler.refusals},
			                             {"holds", scaler.holds},
			                             {"scale_first", scaler.scaleFirst},
			                             {"scale_last", scaler.scaleLast},
			                             {"tracker", scaler.tracker},
			                             {"kernels", scaler.owner ? kernels[scaler.owner] : 0},
			                             {"events", events}};
			std::puts(told.dump().c_str());
		}
	}
}
