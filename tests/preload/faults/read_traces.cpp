// Trace files as lines for the tests in Python: `file`, then its calls in order, its totals, its notes, how it ended.
#include "src/trace/read/trace.h"

#include <algorithm>
#include <cstdio>

using namespace autoamp::trace;

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		std::string error;
		const auto trace = Trace::open(argv[i], error);
		std::printf("file\t%s\t%s\n", argv[i], trace ? "" : error.c_str());
		if (!trace)
			continue;
		std::printf("end\t%s\t%s\t%llu\n", trace->ended.c_str(), trace->diedInside.c_str(),
		            static_cast<unsigned long long>(trace->loss.callsLost));
		std::printf("missing\t%llu\t%llu\n", static_cast<unsigned long long>(trace->loss.eventsMissing),
		            static_cast<unsigned long long>(trace->loss.eventsDropped));
		std::vector<EventInfo> events;
		trace->forEachEvent([&](const EventInfo &event) { events.push_back(event); });
		std::stable_sort(events.begin(), events.end(),
		                 [](const EventInfo &a, const EventInfo &b) { return a.startNs < b.startNs; });
		for (const EventInfo &event : events)
			if (const RowInfo *row = trace->row(event.row))
				std::printf("call\t%s\t%s\t%s\n", row->entry.c_str(), row->decision.c_str(), row->reason.c_str());
		for (const RowInfo &row : trace->rows)
			std::printf("row\t%s\t%s\t%s\t%llu\t%llu\n", row.entry.c_str(), row.decision.c_str(), row.reason.c_str(),
			            static_cast<unsigned long long>(row.calls), static_cast<unsigned long long>(row.captured));
		for (const NoteInfo &note : trace->notes)
			std::printf("note\t%s\t%s\t%llu\n", note.kind.c_str(), note.text.c_str(),
			            static_cast<unsigned long long>(note.count));
	}
	return 0;
}
