// The functions of autoamp.h for gradient scalers. Any thread.
#include "inject/open_core.h"

using namespace autoamp::front;

// Returns null if the core is not open. With `asks`, opens it if necessary.
static const Scalers *scalersOf(bool asks)
{
	const Core *const core = coreOf(asks);
	return core ? core->scalers : nullptr;
}

// Returns null for a null scaler.
static const Scalers *scalersFor(const autoamp_scaler *scaler)
{
	return scaler ? scalersOf(false) : nullptr;
}

extern "C" int autoamp_record_update(const autoamp_gradient_update *update)
{
	const Scalers *const scalers = scalersOf(true);
	return scalers ? scalers->record(update) : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_scaler_create(autoamp_scaler **scaler, const autoamp_scaler_options *options)
{
	*scaler = nullptr;
	const Scalers *const scalers = scalersOf(true);
	return scalers ? scalers->create(scaler, options) : AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_scaler_destroy(autoamp_scaler *scaler)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->destroy(scaler) : 0;
}

extern "C" int autoamp_scaler_scale(autoamp_scaler *scaler, const autoamp_tensor *tensors, size_t count, void *stream)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->scale(scaler, tensors, count, stream) : 0;
}

extern "C" int autoamp_scaler_unscale(autoamp_scaler *scaler, unsigned optimizer, const autoamp_tensor *tensors,
                                      size_t count, void *stream)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->unscale(scaler, optimizer, tensors, count, stream) : 0;
}

extern "C" int autoamp_scaler_step(autoamp_scaler *scaler, unsigned optimizer, void *stream)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->step(scaler, optimizer, stream) : 1;
}

extern "C" int autoamp_scaler_update(autoamp_scaler *scaler, const double *new_scale, void *stream)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->update(scaler, new_scale, stream) : 0;
}

extern "C" int autoamp_scaler_get(autoamp_scaler *scaler, autoamp_scaler_state *state, void *stream)
{
	if (const Scalers *const scalers = scalersFor(scaler))
		return scalers->get(scaler, state, stream);
	state->scale = 1;
	return AUTOAMP_UNKNOWN;
}

extern "C" int autoamp_scaler_load(autoamp_scaler *scaler, const autoamp_scaler_state *state, void *stream)
{
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->load(scaler, state, stream) : 0;
}

extern "C" int autoamp_scaler_pointers(autoamp_scaler *scaler, unsigned optimizer, const float **scale,
                                       const float **found_inf)
{
	*scale = *found_inf = nullptr;
	const Scalers *const scalers = scalersFor(scaler);
	return scalers ? scalers->pointers(scaler, optimizer, scale, found_inf) : AUTOAMP_UNKNOWN;
}
