#include "src/gradient/scaler.h"

#include "kernels/launch.h"
#include "src/base/clock.h"
#include "src/base/own_work.h"
#include "src/life/gradient_table.h"
#include "src/life/scaler.h"
#include "src/lower/capture.h"
#include "src/state/thread.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>

namespace autoamp::gradient {

using namespace kernels;

namespace {

constexpr size_t mostScalers = 128;
const auto threadStream = reinterpret_cast<cuda::Stream>(2); // legal while another thread captures

static_assert(std::is_trivially_destructible_v<Scaler>); // a program may call at its exit
constinit Scaler scalers[mostScalers];

size_t sizeOf(int dtype)
{
	constexpr size_t sizes[] = {4, 2, 2, 8};
	return dtype >= AUTOAMP_FLOAT32 && dtype <= AUTOAMP_FLOAT64 ? sizes[dtype] : 0;
}

bool areValid(const autoamp_tensor *tensors, size_t count)
{
	return (tensors || count == 0) && std::all_of(tensors, tensors + count, [](const autoamp_tensor &each) {
		       const size_t size = sizeOf(each.dtype);
		       return size && (each.data || each.count == 0) && reinterpret_cast<uintptr_t>(each.data) % size == 0;
	       });
}

unsigned blocksFor(const Gradients &gradients, unsigned smCount)
{
	uint64_t chunks = 0;
	for (uint32_t i = 0; i < gradients.count; i++)
		chunks += (gradients.tensor[i].count + gradientChunk - 1) / gradientChunk;
	return gridOfTiles(static_cast<int64_t>(chunks), smCount);
}

int launch(const cuda::Driver &driver, CUkern_st *kernel, unsigned blocks, unsigned threads, cuda::Stream stream,
           void *argument, bool isCaptured)
{
	const base::OwnWork ownWork;
	void *arguments[] = {argument};
	return cuda::launch(driver, kernel, blocks, threads, stream, arguments, isCaptured) ? AUTOAMP_FAILED : 0;
}

} // namespace

// A handle is a number that is never used again, times mostScalers, plus the index.
Scaler *Scaler::find(const autoamp_scaler *handle)
{
	const auto number = reinterpret_cast<uintptr_t>(handle);
	Scaler &scaler = scalers[number % mostScalers];
	const bool isKnown = number >= mostScalers && scaler.handle_.load(std::memory_order_acquire) == number;
	return isKnown && scaler.ownerId_ == getpid() ? &scaler : nullptr;
}

int Scaler::create(core::Process &process, const autoamp_scaler_options &options, Scaler *&made)
{
	const cuda::Driver *const driver = cuda::driver();
	if (!driver)
		return AUTOAMP_UNKNOWN;
	for (Scaler &each : scalers) {
		uintptr_t free = 0;
		if (!each.handle_.compare_exchange_strong(free, 1, std::memory_order_acq_rel))
			continue;
		static constinit std::atomic<uintptr_t> count{0};
		const uintptr_t number = ++count;
		const int status = each.open(process, *driver, options, number);
		each.handle_.store(status ? 0 : number * mostScalers + static_cast<uintptr_t>(&each - scalers),
		                   std::memory_order_release);
		made = status ? nullptr : &each;
		return status;
	}
	return AUTOAMP_TOO_MANY;
}

int Scaler::open(core::Process &process, const cuda::Driver &driver, const autoamp_scaler_options &options,
                 uintptr_t number)
{
	process_ = &process;
	driver_ = &driver;
	const cuda::RelaxedCapture relaxed(driver);
	if (!isUsable())
		return AUTOAMP_BAD_STAGE;
	const Place place = placeOf(threadStream);
	if (place.status)
		return place.status;
	constexpr unsigned portableAndMapped = 1 | 2; // CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP
	void *const memory = mmap(nullptr, sizeof(ScalerState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return AUTOAMP_FAILED;
	cuda::Address address = 0;
	const bool isRegistered = driver.cuMemHostRegister_v2(memory, sizeof(ScalerState), portableAndMapped) == 0;
	if (!isRegistered || driver.cuMemHostGetDevicePointer_v2(&address, memory, 0)) {
		if (!isRegistered || driver.cuMemHostUnregister(memory) == 0)
			munmap(memory, sizeof(ScalerState));
		return AUTOAMP_FAILED;
	}
	ownerId_ = getpid();
	state_ = static_cast<ScalerState *>(memory);
	onDevice_ = reinterpret_cast<ScalerState *>(address);
	framework_ = frameworkOf(options.rule);
	options_ = options;
	const ScalerRule rule = ruleOf(*framework_, options);
	state_->scale = static_cast<float>(options.init_scale); // no kernel uses it yet
	state_->wide = rule.has(ScalerRule::isWide) ? options.init_scale : static_cast<double>(state_->scale);
	state_->other = rule.countsDown() ? rule.patience : 0;
	std::fill(std::begin(optimizers_), std::end(optimizers_), Optimizer{});
	latest_ = devices_ = 0;
	order_.open();
	trace::GradientScaler scaler;
	scaler.framework = options.name ? options.name : "autoamp";
	scaler.how = "autoamp";
	scaler.identity = number;
	scaler.device = static_cast<uint16_t>(place.context->facts->ordinal);
	scaler.growth = options.growth_factor, scaler.backoff = options.backoff_factor;
	scaler.interval = static_cast<uint32_t>(options.growth_interval);
	index_ = core::scalerIndex(scaler, place.context->id);
	if (!index_ && process.isTracing)
		process.recorder.note(trace::noteOfGradient, "there are too many gradient scalers");
	return 0;
}

int Scaler::destroy()
{
	uintptr_t alive = handle_.load();
	if (alive < mostScalers || !handle_.compare_exchange_strong(alive, 1, std::memory_order_acq_rel))
		return AUTOAMP_BAD_VALUE;
	const cuda::RelaxedCapture relaxed(*driver_);
	// If the driver refuses, because the context is gone, the memory may be in use and must not be freed.
	const bool isOk = isUsable() && order_.close(*driver_) && driver_->cuMemHostUnregister(state_) == 0;
	if (isOk)
		munmap(state_, sizeof(ScalerState));
	state_ = onDevice_ = nullptr;
	handle_.store(0, std::memory_order_release);
	return isOk ? 0 : AUTOAMP_FAILED;
}

// False: this thread has no context, or the context in which the scaler was made is gone, and with it the mapping of
// the state for all devices.
bool Scaler::isUsable() const
{
	int device = 0;
	cuda::Address address = 0;
	if (!cuda::currentDevice(*driver_, device))
		return false;
	return !state_ || (driver_->cuMemHostGetDevicePointer_v2(&address, state_, 0) == 0 &&
	                   reinterpret_cast<ScalerState *>(address) == onDevice_);
}

Scaler::Place Scaler::placeOf(cuda::Stream stream) const
{
	Place place;
	if (!isUsable())
		return place;
	const lower::Capture capture = lower::captureOf(*driver_, stream);
	if (capture == lower::Capture::forbidden)
		return place;
	place.isCapturing = capture == lower::Capture::yes;
	const lower::ContextAnswer answer =
	    lower::currentContext(*driver_, process_->settings.memoryBudget, stream, place.isCapturing, false);
	if (!answer.context) {
		place.status = answer.reason == policy::Reason::bad_argument ? AUTOAMP_BAD_VALUE : AUTOAMP_FAILED;
		return place;
	}
	const auto device = static_cast<uint32_t>(answer.context->facts->ordinal);
	place.kernels = lower::conversionKernels(*driver_, answer.context->facts->capability).kernels;
	place.context = answer.context;
	if (place.kernels && device < scalerDevices)
		place.status = 0;
	return place;
}

int Scaler::wait(cuda::Stream stream)
{
	// A wait would end the capture of the stream with an error.
	if (!isUsable() || lower::captureOf(*driver_, stream) != lower::Capture::no)
		return AUTOAMP_FAILED;
	return driver_->cuStreamSynchronize(stream) == 0 && order_.wait(*driver_) ? 0 : AUTOAMP_FAILED;
}

template <typename Launch>
int Scaler::inOrder(const Place &place, cuda::Stream stream, Launch launch)
{
	if (place.isCapturing)
		return launch();
	Order::Turn turn;
	if (!order_.begin(*driver_, stream, place.context->id, turn))
		return AUTOAMP_FAILED;
	const int status = launch();
	return order_.end(*driver_, stream, turn) ? status : AUTOAMP_FAILED;
}

int Scaler::multiply(const Place &place, Gradients &gradients, const autoamp_tensor *tensors, size_t count,
                     cuda::Stream stream) const
{
	gradients.state = onDevice_;
	gradients.arithmetic = arithmeticOf(*framework_);
	gradients.count = 0;
	int status = 0;
	const auto flush = [&] {
		if (gradients.count && status == 0) {
			const unsigned blocks = blocksFor(gradients, static_cast<unsigned>(place.context->facts->smCount));
			status = launch(*driver_, place.kernels->scalerGradients, blocks, blockSize, stream, &gradients,
			                place.isCapturing);
		}
		gradients.count = 0;
	};
	for (int dtype = AUTOAMP_FLOAT32; dtype <= AUTOAMP_FLOAT64; dtype++) {
		gradients.type = static_cast<GradientType>(dtype);
		for (const autoamp_tensor *each = tensors; each != tensors + count; each++) {
			if (each->dtype != dtype || each->count == 0)
				continue;
			gradients.tensor[gradients.count++] = {each->data, each->count};
			if (gradients.count == mostGradients)
				flush();
		}
		flush();
	}
	return status;
}

int Scaler::scale(const autoamp_tensor *tensors, size_t count, cuda::Stream stream)
{
	if (!areValid(tensors, count))
		return AUTOAMP_BAD_VALUE;
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	Gradients gradients;
	gradients.found = nullptr;
	return place.status ? place.status
	                    : inOrder(place, stream, [&] { return multiply(place, gradients, tensors, count, stream); });
}

// Notes that an optimizer is unscaled on a device.
int Scaler::reserve(unsigned optimizer, uint32_t device, bool isCapturing)
{
	const std::lock_guard lock(mutex_);
	Optimizer &stage = optimizers_[optimizer];
	if (!stage.isInGraph && (stage.isStepped || stage.unscaledOn >> device & 1))
		return AUTOAMP_BAD_STAGE;
	stage.unscaledOn |= 1u << device;
	stage.isInGraph |= isCapturing;
	devices_ = std::max(devices_, device + 1);
	return 0;
}

int Scaler::unscale(unsigned optimizer, const autoamp_tensor *tensors, size_t count, cuda::Stream stream)
{
	if (optimizer >= scalerOptimizers || !areValid(tensors, count))
		return AUTOAMP_BAD_VALUE;
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	if (place.status)
		return place.status;
	const auto device = static_cast<uint32_t>(place.context->facts->ordinal);
	if (const int status = reserve(optimizer, device, place.isCapturing))
		return status;
	Gradients gradients;
	gradients.found = &onDevice_->found[optimizer][device];
	const int status = inOrder(place, stream, [&] { return multiply(place, gradients, tensors, count, stream); });
	const std::lock_guard lock(mutex_);
	if (status)
		optimizers_[optimizer].unscaledOn &= ~(1u << device);
	else
		optimizers_[optimizer].checkedOn |= uint32_t{count > 0} << device;
	return status;
}

int Scaler::step(unsigned optimizer, cuda::Stream stream)
{
	if (optimizer >= scalerOptimizers)
		return AUTOAMP_BAD_VALUE;
	const cuda::RelaxedCapture relaxed(*driver_);
	Optimizer &stage = optimizers_[optimizer];
	{
		const std::lock_guard lock(mutex_);
		if ((stage.isStepped && !stage.isInGraph) || !stage.checkedOn)
			return AUTOAMP_BAD_STAGE;
		stage.isStepped = true;
	}
	const int status = wait(stream);
	const std::lock_guard lock(mutex_);
	if (status) {
		stage.isStepped = false;
		return status;
	}
	float sum = 0;
	for (uint32_t device = 0; device < devices_; device++)
		sum += *const_cast<const volatile float *>(&state_->found[optimizer][device]);
	latest_ = 1u << optimizer;
	return sum == 0;
}

ScalerUpdate Scaler::newUpdate() const
{
	ScalerUpdate update = {};
	update.state = onDevice_;
	update.rule = ruleOf(*framework_, options_);
	update.scaler = index_;
	update.devices = devices_;
	for (uint32_t i = 0; i < scalerOptimizers; i++) {
		update.used |= (optimizers_[i].unscaledOn != 0) << i;
		update.optimizers |= (optimizers_[i].checkedOn != 0) << i;
	}
	return update;
}

int Scaler::launchUpdate(const Place &place, ScalerUpdate &update, cuda::Stream stream)
{
	return inOrder(place, stream, [&] {
		return launch(*driver_, place.kernels->scalerUpdate, 1, 1, stream, &update, place.isCapturing);
	});
}

int Scaler::prepareUpdate(const Place &place, const double *newScale, ScalerUpdate &update)
{
	const std::lock_guard lock(mutex_);
	update = newUpdate();
	if (newScale) {
		update.set = ScalerUpdate::setScale | ScalerUpdate::clearFlags;
		update.scale = *newScale;
		return 0;
	}
	// Without a step, the flag of the step before decides. A graph contains no steps, so all its optimizers decide.
	if (update.rule.has(ScalerRule::lastDecides))
		update.optimizers = place.isCapturing ? update.optimizers : latest_;
	else if (!update.optimizers)
		return AUTOAMP_BAD_STAGE;
	if (process_->isTracing) {
		update.ring = place.context->slots.ringOnDevice();
		update.ticks = place.isCapturing ? 0 : base::ticks();
	}
	return 0;
}

int Scaler::update(const double *newScale, cuda::Stream stream)
{
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	if (place.status)
		return place.status;
	ScalerUpdate update;
	int status = prepareUpdate(place, newScale, update);
	if (status == 0) {
		core::thisThread(*process_); // has the owner
		const base::OwnedWork owned(newScale ? 0 : base::updateOwner(index_));
		status = launchUpdate(place, update, stream);
	}
	if (status == 0) {
		const std::lock_guard lock(mutex_);
		for (Optimizer &each : optimizers_) {
			each.isInGraph |= place.isCapturing && each.unscaledOn;
			each.isStepped = false;
			if (!each.isInGraph)
				each = {};
		}
		latest_ = 0;
	}
	core::drainScalerEvents(*process_);
	return status;
}

int Scaler::get(autoamp_scaler_state &state, cuda::Stream stream)
{
	const cuda::RelaxedCapture relaxed(*driver_);
	if (const int status = wait(stream))
		return status;
	const auto &now = *const_cast<const volatile ScalerState *>(state_);
	state.scale = now.wide;
	state.growth_tracker = now.tracker;
	state.backoff_tracker = now.other;
	state.steps = static_cast<int>(now.steps);
	state.skipped = static_cast<int>(now.skipped);
	{
		const std::lock_guard lock(mutex_);
		state.growth_factor = options_.growth_factor, state.backoff_factor = options_.backoff_factor;
		state.growth_interval = options_.growth_interval;
	}
	core::drainScalerEvents(*process_);
	return 0;
}

int Scaler::load(const autoamp_scaler_state &state, cuda::Stream stream)
{
	if (state.growth_factor <= 0)
		return AUTOAMP_BAD_VALUE;
	ScalerUpdate update;
	{
		const std::lock_guard lock(mutex_);
		update = newUpdate();
	}
	update.scale = state.scale;
	update.tracker = state.growth_tracker;
	update.other = state.backoff_tracker;
	update.set |= std::isnan(state.scale) ? 0u : ScalerUpdate::setScale;
	update.set |= state.growth_tracker < 0 ? 0u : ScalerUpdate::setTracker;
	update.set |= state.backoff_tracker < 0 ? 0u : ScalerUpdate::setOther;
	if (update.set) {
		const cuda::RelaxedCapture relaxed(*driver_);
		const Place place = placeOf(stream);
		if (const int status = place.status ? place.status : launchUpdate(place, update, stream))
			return status;
	}
	const std::lock_guard lock(mutex_);
	if (!std::isnan(state.growth_factor))
		options_.growth_factor = state.growth_factor;
	if (!std::isnan(state.backoff_factor))
		options_.backoff_factor = state.backoff_factor;
	if (state.growth_interval >= 0)
		options_.growth_interval = state.growth_interval;
	return 0;
}

int Scaler::pointers(unsigned optimizer, const float *&scale, const float *&found)
{
	const cuda::RelaxedCapture relaxed(*driver_);
	int device = -1;
	if (!isUsable() || !cuda::currentDevice(*driver_, device))
		return AUTOAMP_FAILED;
	if (optimizer >= scalerOptimizers || device < 0 || device >= static_cast<int>(scalerDevices))
		return AUTOAMP_BAD_VALUE;
	scale = &onDevice_->scale;
	found = &onDevice_->found[optimizer][device];
	return 0;
}

} // namespace autoamp::gradient
