#include "src/gradient/scaler.h"

#include "kernels/launch.h"
#include "src/base/clock.h"
#include "src/base/own_work.h"
#include "src/life/gradient_table.h"
#include "src/life/scaler.h"
#include "src/lower/capture.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace autoamp::gradient {

using namespace kernels;

namespace {

constexpr size_t mostScalers = 128;
const auto threadStream = reinterpret_cast<cuda::Stream>(2); // legal while another thread captures

// Never destroyed: a program may call at its exit.
struct Table {
	const pid_t owner = getpid(); // a forked child must not take the mutex, which another thread may have held
	std::mutex mutex;
	Scaler scalers[mostScalers];
};
Table &table()
{
	static Table *const table = new Table;
	return *table;
}

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
           void *argument)
{
	const base::OwnWork ownWork;
	void *arguments[] = {argument};
	return driver.cuLaunchKernel(reinterpret_cast<CUfunc_st *>(kernel), blocks, 1, 1, threads, 1, 1, 0, stream,
	                             arguments, nullptr)
	           ? AUTOAMP_FAILED
	           : 0;
}

} // namespace

bool ruleOf(const char *name, ScalerRule &rule)
{
	constexpr const char *names[] = {"torch", "paddle", "mindspore", "megatron"};
	const auto *const found = std::find_if(std::begin(names), std::end(names), [name](const char *each) {
		return !std::strcmp(each, name ? name : "torch");
	});
	rule = static_cast<ScalerRule>(found - std::begin(names));
	return found != std::end(names);
}

Scaler *Scaler::find(const autoamp_scaler *handle)
{
	if (table().owner != getpid())
		return nullptr;
	const std::lock_guard lock(table().mutex);
	for (Scaler &each : table().scalers)
		if (reinterpret_cast<const autoamp_scaler *>(&each) == handle)
			return each.process_ && each.ownerId_ == getpid() ? &each : nullptr;
	return nullptr;
}

int Scaler::create(core::Process &process, const autoamp_scaler_options &options, Scaler *&made)
{
	const cuda::Driver *const driver = cuda::driver();
	if (!driver)
		return AUTOAMP_UNKNOWN;
	if (table().owner != getpid())
		return AUTOAMP_FAILED;
	const std::lock_guard lock(table().mutex);
	auto *const free = std::find_if(std::begin(table().scalers), std::end(table().scalers),
	                                [](const Scaler &each) { return !each.process_; });
	if (free == std::end(table().scalers))
		return AUTOAMP_TOO_MANY;
	free->driver_ = driver;
	free->process_ = &process;
	const int status = free->open(options);
	if (status)
		free->process_ = nullptr;
	else
		made = free;
	return status;
}

int Scaler::open(const autoamp_scaler_options &options)
{
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(threadStream);
	if (place.status)
		return place.status;
	constexpr unsigned portableAndMapped = 1 | 2; // CU_MEMHOSTREGISTER_PORTABLE | _DEVICEMAP
	void *const memory = mmap(nullptr, sizeof(ScalerState), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return AUTOAMP_FAILED;
	cuda::Address address = 0;
	const bool isRegistered = driver_->cuMemHostRegister_v2(memory, sizeof(ScalerState), portableAndMapped) == 0;
	if (!isRegistered || driver_->cuMemHostGetDevicePointer_v2(&address, memory, 0)) {
		if (!isRegistered || driver_->cuMemHostUnregister(memory) == 0)
			munmap(memory, sizeof(ScalerState));
		return AUTOAMP_FAILED;
	}
	ownerId_ = getpid();
	contextId_ = place.context->id;
	device_ = place.context->facts->ordinal;
	state_ = static_cast<ScalerState *>(memory);
	onDevice_ = reinterpret_cast<ScalerState *>(address);
	ruleOf(options.rule, rule_);
	growth_ = options.growth_factor, backoff_ = options.backoff_factor, leastScale_ = options.min_scale;
	interval_ = options.growth_interval, backoffEvery_ = options.backoff_every, hysteresis_ = options.hysteresis;
	state_->scale = static_cast<float>(options.init_scale); // no kernel uses it yet
	state_->other = rule_ == ScalerRule::megatron ? hysteresis_ : 0;
	std::fill(std::begin(optimizers_), std::end(optimizers_), Optimizer{});
	latest_ = devices_ = 0;
	trace::GradientScaler scaler;
	scaler.framework = options.name ? options.name : "autoamp";
	scaler.how = "autoamp";
	static constinit std::atomic<uint64_t> made{0};
	scaler.identity = ++made; // an address can be used again
	scaler.device = static_cast<uint16_t>(device_);
	scaler.growth = growth_, scaler.backoff = backoff_;
	scaler.interval = static_cast<uint32_t>(interval_);
	index_ = core::scalerIndex(scaler, contextId_);
	return 0;
}

int Scaler::destroy()
{
	const std::lock_guard lock(table().mutex);
	const std::lock_guard own(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	// If the driver refuses, because the context is gone, the memory is still mapped and must not be freed.
	const bool isOk = driver_->cuMemHostUnregister(state_) == 0;
	if (isOk)
		munmap(state_, sizeof(ScalerState));
	process_ = nullptr;
	state_ = onDevice_ = nullptr; // the next scaler in this place may belong to another context
	return isOk ? 0 : AUTOAMP_FAILED;
}

Scaler::Place Scaler::placeOf(cuda::Stream stream) const
{
	Place place;
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
	const bool isReset = state_ && answer.context->facts->ordinal == device_ && answer.context->id != contextId_;
	place.kernels = lower::conversionKernels(*driver_, answer.context->facts->capability).kernels;
	place.context = answer.context;
	if (place.kernels && !isReset && device < scalerDevices)
		place.status = 0;
	return place;
}

int Scaler::wait(cuda::Stream stream) const
{
	// A wait would end the capture of the stream with an error.
	if (lower::captureOf(*driver_, stream) != lower::Capture::no)
		return AUTOAMP_FAILED;
	return driver_->cuStreamSynchronize(stream) ? AUTOAMP_FAILED : 0;
}

int Scaler::multiply(const Place &place, Gradients &gradients, const autoamp_tensor *tensors, size_t count,
                     cuda::Stream stream) const
{
	gradients.state = onDevice_;
	gradients.rule = rule_;
	gradients.count = 0;
	int status = 0;
	const auto flush = [&] {
		if (gradients.count && status == 0) {
			const unsigned blocks = blocksFor(gradients, static_cast<unsigned>(place.context->facts->smCount));
			status = launch(*driver_, place.kernels->scalerGradients, blocks, blockSize, stream, &gradients);
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
	const std::lock_guard lock(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	Gradients gradients;
	gradients.found = nullptr;
	return place.status ? place.status : multiply(place, gradients, tensors, count, stream);
}

int Scaler::unscale(unsigned optimizer, const autoamp_tensor *tensors, size_t count, cuda::Stream stream)
{
	if (optimizer >= scalerOptimizers || !areValid(tensors, count))
		return AUTOAMP_BAD_VALUE;
	const std::lock_guard lock(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	if (place.status)
		return place.status;
	Optimizer &stage = optimizers_[optimizer];
	const auto device = static_cast<uint32_t>(place.context->facts->ordinal);
	if (stage.isStepped || stage.unscaledOn >> device & 1)
		return AUTOAMP_BAD_STAGE;
	Gradients gradients;
	gradients.found = &onDevice_->found[optimizer][device];
	if (const int status = multiply(place, gradients, tensors, count, stream))
		return status;
	stage.unscaledOn |= 1u << device;
	stage.checkedOn |= uint32_t{count > 0} << device;
	devices_ = std::max(devices_, device + 1);
	return 0;
}

int Scaler::step(unsigned optimizer, cuda::Stream stream)
{
	if (optimizer >= scalerOptimizers)
		return AUTOAMP_BAD_VALUE;
	const std::lock_guard lock(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	Optimizer &stage = optimizers_[optimizer];
	if (stage.isStepped || !stage.checkedOn)
		return AUTOAMP_BAD_STAGE;
	if (const int status = wait(stream))
		return status;
	float sum = 0;
	for (uint32_t device = 0; device < devices_; device++)
		sum += *const_cast<const volatile float *>(&state_->found[optimizer][device]);
	stage.isStepped = true;
	latest_ = 1u << optimizer;
	return sum == 0;
}

ScalerUpdate Scaler::newUpdate() const
{
	ScalerUpdate update = {};
	update.state = onDevice_;
	update.rule = rule_;
	update.scaler = index_;
	update.devices = devices_;
	for (uint32_t i = 0; i < scalerOptimizers; i++) {
		update.used |= (optimizers_[i].unscaledOn != 0) << i;
		update.optimizers |= (optimizers_[i].checkedOn != 0) << i;
	}
	return update;
}

int Scaler::launchUpdate(const Place &place, ScalerUpdate &update, cuda::Stream stream) const
{
	return launch(*driver_, place.kernels->scalerUpdate, 1, 1, stream, &update);
}

int Scaler::updateByRule(const Place &place, cuda::Stream stream)
{
	ScalerUpdate update = newUpdate();
	if (rule_ == ScalerRule::paddle) // the optimizer stepped last decides; without one, the flag of the step before
		update.optimizers = latest_;
	else if (!update.optimizers)
		return AUTOAMP_BAD_STAGE;
	if (process_->isTracing) {
		update.ring = place.context->slots.ringOnDevice();
		update.ticks = place.isCapturing ? 0 : base::ticks();
	}
	update.growth = growth_, update.backoff = backoff_, update.leastScale = leastScale_;
	update.interval = interval_, update.backoffEvery = backoffEvery_, update.hysteresis = hysteresis_;
	return launchUpdate(place, update, stream);
}

int Scaler::update(const double *newScale, cuda::Stream stream)
{
	const std::lock_guard lock(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	const Place place = placeOf(stream);
	if (place.status)
		return place.status;
	int status = 0;
	if (newScale) {
		ScalerUpdate update = newUpdate();
		update.set = ScalerUpdate::setScale | ScalerUpdate::clearFlags;
		update.scale = static_cast<float>(*newScale);
		status = launchUpdate(place, update, stream);
	} else {
		status = updateByRule(place, stream);
	}
	if (status == 0) {
		std::fill(std::begin(optimizers_), std::end(optimizers_), Optimizer{});
		latest_ = 0;
	}
	core::drainScalerEvents(*process_);
	return status;
}

int Scaler::get(autoamp_scaler_state &state, cuda::Stream stream)
{
	const std::lock_guard lock(mutex_);
	const cuda::RelaxedCapture relaxed(*driver_);
	if (const int status = wait(stream))
		return status;
	const auto &now = *const_cast<const volatile ScalerState *>(state_);
	state.scale = now.scale;
	state.growth_tracker = now.tracker;
	state.backoff_tracker = now.other;
	state.steps = static_cast<int>(now.steps);
	state.skipped = static_cast<int>(now.skipped);
	state.growth_factor = growth_, state.backoff_factor = backoff_;
	state.growth_interval = interval_;
	core::drainScalerEvents(*process_);
	return 0;
}

int Scaler::load(const autoamp_scaler_state &state, cuda::Stream stream)
{
	const std::lock_guard lock(mutex_);
	ScalerUpdate update = newUpdate();
	update.scale = static_cast<float>(state.scale);
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
	growth_ = std::isnan(state.growth_factor) ? growth_ : state.growth_factor;
	backoff_ = std::isnan(state.backoff_factor) ? backoff_ : state.backoff_factor;
	interval_ = state.growth_interval < 0 ? interval_ : state.growth_interval;
	return 0;
}

int Scaler::pointers(unsigned optimizer, const float *&scale, const float *&found)
{
	int device = -1;
	if (!cuda::currentDevice(*driver_, device))
		return AUTOAMP_FAILED;
	if (optimizer >= scalerOptimizers || device < 0 || device >= static_cast<int>(scalerDevices))
		return AUTOAMP_BAD_VALUE;
	scale = &onDevice_->scale;
	found = &onDevice_->found[optimizer][device];
	return 0;
}

} // namespace autoamp::gradient
