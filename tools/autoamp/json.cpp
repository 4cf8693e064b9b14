// The report as JSON, described in docs/report-json.md. Unknown values are null. The rows are those of the views.
#include "tools/autoamp/traces.h"
#include "tools/autoamp/views.h"

namespace autoamp::tool {

namespace {

// Null: no command is known.
Json toJson(const NextStep &next)
{
	if (next.command.empty())
		return {};
	return {{"title", next.title},
	        {"why", orNull(next.why)},
	        {"command", next.command},
	        {"saves_ns", nanoseconds(next.savesNs)},
	        {"source", orNull(next.source)}};
}

} // namespace

void writeJson(std::FILE *out, const Runs &runs, const Account &account, const Lists &lists)
{
	const Json totals = {{"calls", account.all.calls},
	                     {"eligible", account.eligible.calls},
	                     {"lowered", account.lowered.calls},
	                     {"kept", account.kept.calls},
	                     {"raised", account.raised.calls},
	                     {"fallbacks", account.fallback.calls},
	                     {"observed", account.observed.calls},
	                     {"flops", account.all.flops},
	                     {"eligible_flops", account.eligible.flops},
	                     {"lowered_flops", account.lowered.flops},
	                     {"gain", toJson(account.gain)},
	                     {"weights", toJson(account.weights)},
	                     {"weights_estimate", toJson(account.weightsEstimate)}};
	const auto known = [&](uint64_t number) { return account.hasKernels ? Json(number) : Json(); };
	Json overhead = account.hasKernels ? Json::array() : Json();
	for (const auto &each : account.overhead)
		overhead.push_back({{"kind", orNull(each.kind)}, {"count", each.count}, {"ns", nanoseconds(each.ns)}});
	const Json loss = {{"events_dropped", account.loss.eventsDropped},
	                   {"calls_lost", account.loss.callsLost},
	                   {"events_missing", account.loss.eventsMissing},
	                   {"single_kernels_missing", known(account.loss.singleKernelsMissing)},
	                   {"tail_missing", account.loss.tailMissing},
	                   {"kernels_unattributed", known(account.loss.kernelsUnattributed)},
	                   {"invalid_timestamps", known(account.loss.invalidTimestamps)},
	                   {"kernels_dropped", known(account.loss.kernelsDropped)},
	                   {"kernels_capped", known(account.loss.kernelsCapped)},
	                   {"kernels_missing", known(kernelsMissing(account.loss))},
	                   {"graphs_missing", known(graphsMissing(account.loss))},
	                   {"cupti_overhead", overhead},
	                   {"truncated", account.loss.truncated}};
	fmt::print(out, "{{\"schema\": \"autoamp.report/1\",\n\"what_if\": {},\n\"runs\": [", dump(orNull(account.whatIf)));
	for (size_t id = 0; id < runs.size(); id++)
		fmt::print(out, "{}\n  {}", id ? "," : "", dump(toJson(id, runs[id])));
	fmt::print(out, "],\n\"totals\": {},\n\"next\": {},\n", dump(totals), dump(toJson(account.next)));
	const auto add = [out](const Sheet &sheet, const char *behind) {
		writeJson(out, sheet);
		std::fputs(behind, out);
	};
	add(lists.ops, ",\n");
	if (lists.groups)
		add(*lists.groups, ",\n");
	add(lists.reasons, ",\n\"scaler\": {");
	add(lists.events, ",\n"), add(lists.sites, ",\n"), add(lists.gradient, ",\n"), add(lists.observed, "},\n");
	if (account.hasKernels)
		add(lists.kernels, ",\n");
	add(lists.audits, ",\n");
	Json notEmulated = Json::array();
	for (const auto &[kernel, launches] : account.notEmulated)
		notEmulated.push_back({{"kernel", kernel}, {"demangled", orNull(demangled(kernel))}, {"launches", launches}});
	fmt::print(out, "\"not_emulated\": {},\n", dump(notEmulated));
	Json missing = Json::array();
	for (const auto &each : account.missing)
		missing.push_back({{"of", each.of == Missing::Of::processes ? "processes"
		                          : each.of == Missing::Of::ranks   ? "ranks"
		                                                            : "parents"},
		                   {"group", orNull(each.group)},
		                   {"expected", each.expected},
		                   {"expected_is_least", each.isLeast},
		                   {"found", each.there},
		                   {"missing", each.numbers}});
	fmt::print(out, "\"missing_traces\": {},\n", dump(missing));
	add(lists.losses, ",\n");
	fmt::print(out, "\"loss\": {}}}\n", dump(loss));
}

} // namespace autoamp::tool
