// A program with gradient scalers: its own, whose updates it reports to the trace, and those of autoamp.h.
#include "harness.h"

#include "inject/autoamp.h"

#include <cmath>
#include <limits>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace client;

namespace {

autoamp_scaler_update update(double before, double after, double foundInf)
{
	autoamp_scaler_update made = {};
	made.size = sizeof made;
	made.framework = "mine", made.how = "python", made.scaler = &made, made.device = 1;
	made.scale_before = before, made.scale_after = after, made.found_inf = foundInf;
	made.growth_factor = 2, made.backoff_factor = NAN, made.interval = 3;
	made.tracker_before = made.tracker_after = made.hysteresis = -1;
	made.scaler = reinterpret_cast<void *>(0x1000);
	return made;
}

void record(Line &line)
{
	autoamp_scaler_update each = update(8, 4, 1);
	std::string statuses = std::to_string(autoamp_record_update(&each));
	each = update(4, 4, 0);
	autoamp_record_update(&each);
	each = update(4, 8, NAN);
	autoamp_record_update(&each);
	each = update(8, 4, NAN); // found_inf unknown: the scale shows it
	autoamp_record_update(&each);
	each.scaler = nullptr;
	std::thread([&each] { autoamp_record_update(&each); }).join();
	line.put("status", statuses);
}

void refused(Line &line)
{
	autoamp_scaler_update each = update(8, 4, 1);
	std::string statuses = std::to_string(autoamp_record_update(nullptr));
	const auto with = [&](auto change) {
		autoamp_scaler_update changed = each;
		change(changed);
		statuses += "," + std::to_string(autoamp_record_update(&changed));
	};
	with([](auto &changed) { changed.size--; });
	with([](auto &changed) { changed.framework = nullptr; });
	with([](auto &changed) { changed.how = nullptr; });
	with([](auto &changed) { changed.interval = -1; });
	with([](auto &changed) { changed.device = -1; });
	struct {
		autoamp_scaler_update update;
		int later;
	} longer = {each, 0};
	longer.update.size = sizeof longer;
	statuses += "," + std::to_string(autoamp_record_update(&longer.update));
	longer.later = 1;
	statuses += "," + std::to_string(autoamp_record_update(&longer.update));
	line.put("statuses", statuses);
}

// The child writes another trace.
void forked(Line &line)
{
	autoamp_scaler_update each = update(8, 4, 1);
	const int status = autoamp_record_update(&each);
	const pid_t child = fork();
	if (child == 0) {
		each = update(4, 2, 1);
		exit(autoamp_record_update(&each));
	}
	int ended = 0;
	waitpid(child, &ended, 0);
	line.put("status", status).put("child", WEXITSTATUS(ended));
}

} // namespace

int main(int argc, char **argv)
{
	return runCases(argc, argv, {{"record", record}, {"refused", refused}, {"forked", forked}});
}
