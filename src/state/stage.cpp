#include "src/state/stage.h"

#include "inject/front.h"
#include "src/base/futex.h"
#include "src/state/process.h"

namespace autoamp::core {

constinit std::atomic<Stage> stage{Stage::none};
constinit std::atomic<bool> isWoken{false};

bool awaitStart()
{
	static_assert(sizeof stage == sizeof(int) && std::atomic<Stage>::is_always_lock_free);
	for (bool isPatient = true; stage.load(std::memory_order_acquire) == Stage::starting;) {
		const front::Loading loading = autoamp_front_loading();
		if (loading == front::Loading::self || (loading == front::Loading::other && !isPatient))
			return false;
		const base::Deadline second(1);
		base::futexWait(&stage, static_cast<int>(Stage::starting), second.at());
		isPatient = !second.isOver();
	}
	return true;
}

void endStart(Stage started)
{
	stage.store(started, std::memory_order_release);
	base::futexWakeAll(&stage);
}

void wakeProcess()
{
	if (isWoken.load(std::memory_order_relaxed) || isWoken.exchange(true))
		return;
	awaitStart();
	if (stage.load(std::memory_order_acquire) == Stage::off) {
		stage.store(Stage::none, std::memory_order_release);
		isIdle = false;
	}
}

} // namespace autoamp::core
