/* Regions: settings for the calls of a part of a program; and, below, a gradient scaler. C and C++; nothing to link
 * (glibc before 2.34: -ldl); any thread. Without autoamp in the process, the functions have no effect and do not fail.
 *
 *     autoamp_region region = AUTOAMP_REGION;
 *     region.name = "attention";
 *     region.dtype = "bfloat16";
 *     autoamp_push(&region);
 *     ...
 *     autoamp_pop();
 *
 * Regions belong to the thread that pushes them, and nest; a new thread starts without regions. When a region opens, it
 * takes unset fields from the enclosing region of its thread, or else from the configuration. A region of one device
 * neither changes the calls on the other one nor encloses its regions. AUTOAMP_ENABLED=0 and AUTOAMP_LEVEL=O0 in the
 * environment override every region. */
#ifndef AUTOAMP_H
#define AUTOAMP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	AUTOAMP_SAME = -1, /* for `enabled` and `use_promote`: the enclosing value */

	/* Return values. A call that returns another value than 0 has changed nothing, except AUTOAMP_FAILED of a scaler.
	 */
	AUTOAMP_UNKNOWN = 1,     /* state unknown: no autoamp in the process, no call so far, or inside dlopen */
	AUTOAMP_BAD_VALUE = -1,  /* a field or argument has a value that is not accepted; for regions, see stderr */
	AUTOAMP_UNBALANCED = -2, /* this thread has no such region open */
	AUTOAMP_TOO_MANY = -3,   /* too deep, or too many different regions: is a pop missing? Or too many scalers */
	AUTOAMP_BAD_STAGE = -4,  /* a scaler's function is called in the wrong order */
	AUTOAMP_FAILED = -5      /* the driver has refused a call of a scaler, or does not permit it now */
};

typedef struct autoamp_region {
	size_t size;              /* size of this struct: AUTOAMP_REGION sets it */
	const char *name;         /* for rules and reports: use few names, without numbers */
	int enabled, use_promote; /* 0, 1, AUTOAMP_SAME */
	const char *dtype;        /* this and the following: values of the AUTOAMP_ variables; null: the enclosing value */
	const char *level, *lists;
	const char *custom_white_list; /* added to the enclosing list; its names leave the other list */
	const char *custom_black_list;
	const char *threads; /* "current", or "all": all threads without an open region, until this one ends */
	/* "cuda", or "cpu" for calls of a CPU BLAS: the region applies to these calls only; null: all. The struct may end
	 * before this member or the next one. */
	const char *device;
	/* Copies made for CUDA calls are released when the outermost region of the thread that sets this member ends. */
	const char *weights;
} autoamp_region;

#define AUTOAMP_REGION                                                                                                 \
	{                                                                                                                  \
		sizeof(autoamp_region), 0, AUTOAMP_SAME, AUTOAMP_SAME, 0, 0, 0, 0, 0, 0, 0, 0                                  \
	}

#ifdef AUTOAMP_IMPLEMENTATION /* the library itself */
#define AUTOAMP_FUNCTION(type, name, parameters, arguments, absent)                                                    \
	__attribute__((visibility("default"))) type name parameters
#else
#include <dlfcn.h>
#ifndef RTLD_DEFAULT
#define RTLD_DEFAULT ((void *)0)
#endif
/* Looked up once: the library is preloaded from the start, or never. */
#define AUTOAMP_FUNCTION(type, name, parameters, arguments, absent)                                                    \
	static __inline__ type name parameters                                                                             \
	{                                                                                                                  \
		static void *known;                                                                                            \
		void *found = __atomic_load_n(&known, __ATOMIC_RELAXED);                                                       \
		if (!found) {                                                                                                  \
			found = dlsym(RTLD_DEFAULT, #name);                                                                        \
			found = found ? found : (void *)&known;                                                                    \
			__atomic_store_n(&known, found, __ATOMIC_RELAXED);                                                         \
		}                                                                                                              \
		return found == (void *)&known ? absent : (__extension__(type(*) parameters) found)arguments;                  \
	}                                                                                                                  \
	struct autoamp_region /* takes the semicolon */
#endif

/* Opens a region of this thread. The first region of a process reads the configuration. */
AUTOAMP_FUNCTION(int, autoamp_push, (const autoamp_region *region), (region), 0);
/* Ends the innermost region of this thread. */
AUTOAMP_FUNCTION(int, autoamp_pop, (void), (), 0);
/* The same for regions that end in any order. autoamp_enter opens a region and stores its number. autoamp_leave ends
 * the region of this thread with that number; regions inside it stay open. Number 0: the innermost region. */
AUTOAMP_FUNCTION(int, autoamp_enter, (const autoamp_region *region, size_t *number), (region, number), 0);
AUTOAMP_FUNCTION(int, autoamp_leave, (size_t number), (number), 0);
/* Lowers nothing outside of regions from now on, on all threads, if AUTOAMP_SCOPE is `auto`; otherwise no effect. */
AUTOAMP_FUNCTION(int, autoamp_require_regions, (void), (), 0);
/* The same for the calls on one device, "cuda" or "cpu"; null: all. */
AUTOAMP_FUNCTION(int, autoamp_require_regions_of, (const char *device), (device), 0);
/* Writes the current settings of this thread's calls to `region`, whose size and device must be set. A null device is
 * CUDA, or the CPU if only CPU calls are intercepted. The texts live as long as the process. */
AUTOAMP_FUNCTION(int, autoamp_current, (autoamp_region * region), (region), AUTOAMP_UNKNOWN);
/* 1: autoamp is loaded and may lower calls of this thread now, on any device. Before the first call or region, the
 * answer depends only on AUTOAMP_ENABLED and AUTOAMP_SCOPE in the environment. */
AUTOAMP_FUNCTION(int, autoamp_active, (void), (), 0);
/* The error of this thread's last push, as text; null or "": no error. */
AUTOAMP_FUNCTION(const char *, autoamp_error, (void), (), 0);

/* One update of a gradient scaler whose state is on the host. */
typedef struct autoamp_gradient_update {
	size_t size;           /* size of this struct */
	const char *framework; /* "torch", "paddle", ...: the first part of the scaler's name in reports */
	const char *how;       /* source of the values: "python", "autoamp", ... */
	const void *scaler;    /* identifies the scaler among those of its framework and device; never read */
	int device;
	double scale_before, scale_after, found_inf;   /* NaN: unknown; found_inf 0: the step was not skipped */
	double growth_factor, backoff_factor;          /* NaN: unknown */
	int interval;                                  /* 0: unknown */
	int tracker_before, tracker_after, hysteresis; /* -1: unknown */
} autoamp_gradient_update;

/* Records the update in the trace, and has no other effect. AUTOAMP_UNKNOWN: there is no trace. */
AUTOAMP_FUNCTION(int, autoamp_record_update, (const autoamp_gradient_update *update), (update), AUTOAMP_UNKNOWN);

/* ---- A gradient scaler: docs/gradient-scaler.md
 *
 *     autoamp_scaler_options options = AUTOAMP_SCALER;
 *     autoamp_scaler *scaler;
 *     if (autoamp_scaler_create(&scaler, &options) < 0)
 *         ... an error: without a scaler, the scale is 1 and no step is skipped ...
 *     ...
 *     autoamp_scaler_scale(scaler, &loss_gradient, 1, stream);
 *     ... backward pass ...
 *     autoamp_scaler_unscale(scaler, 0, gradients, count, stream);
 *     if (autoamp_scaler_step(scaler, 0, stream) == 1)
 *         ... step of optimizer 0 ...
 *     autoamp_scaler_update(scaler, 0, stream);
 *
 * The kernels of one scaler run in the order of the calls, on any streams and devices. Only step and get wait on the
 * host. The other functions may be captured; the program orders the replays. Each call works on the current device.
 * Any thread.
 * A null scaler, which create returns if autoamp is not active, has scale 1, and its steps run. */
typedef struct autoamp_scaler autoamp_scaler;

typedef struct autoamp_scaler_options {
	size_t size;      /* size of this struct: AUTOAMP_SCALER sets it */
	const char *name; /* in reports; null: "autoamp" */
	const char *rule; /* framework whose scaler decides: "torch" (null), "paddle", "megatron", ...: see the page */
	double init_scale, growth_factor, backoff_factor; /* some rules divide by growth_factor instead of backoff_factor */
	int growth_interval;                              /* 0: the scale is fixed */
	int backoff_every, hysteresis; /* overflows until the scale is reduced, if the rule counts them */
	int flags;                     /* sum of AUTOAMP_SCALER_ values */
	double min_scale;              /* for the rules that have a minimum */
} autoamp_scaler_options;

#define AUTOAMP_SCALER                                                                                                 \
	{                                                                                                                  \
		sizeof(autoamp_scaler_options), 0, 0, 65536.0, 2.0, 0.5, 2000, 1, 1, 0, 1.0                                    \
	}

enum {
	AUTOAMP_SCALER_CONSECUTIVE = 1, /* each clean step restores the hysteresis of "deepspeed" and "megatron" */
	AUTOAMP_SCALER_STOPS = 2        /* an overflow at min_scale changes nothing, where DeepSpeed raises an error */
};

enum { AUTOAMP_FLOAT32, AUTOAMP_FLOAT16, AUTOAMP_BFLOAT16, AUTOAMP_FLOAT64 };

typedef struct autoamp_tensor {
	void *data; /* on the current device, contiguous, aligned to an element */
	size_t count;
	int dtype;
} autoamp_tensor;

typedef struct autoamp_scaler_state {
	size_t size;                                 /* size of this struct */
	double scale, growth_factor, backoff_factor; /* load: NaN leaves the value unchanged */
	int growth_interval;                         /* this and the following: -1 leaves the value unchanged */
	int growth_tracker;                          /* clean steps since the latest change */
	int backoff_tracker; /* overflows in a row, or for rules with hysteresis: left until the scale is reduced */
	int steps, skipped;  /* updates so far, and those after an overflow; load ignores them */
} autoamp_scaler_state;

#define AUTOAMP_SCALER_STATE                                                                                           \
	{                                                                                                                  \
		sizeof(autoamp_scaler_state), 0, 0, 0, 0, 0, 0, 0, 0                                                           \
	}

/* Makes a scaler for the current device and stores it, or stores null. AUTOAMP_BAD_STAGE: there is no CUDA context;
 * make a CUDA call before, such as cudaFree(0). */
AUTOAMP_FUNCTION(int, autoamp_scaler_create, (autoamp_scaler * *scaler, const autoamp_scaler_options *options),
                 (scaler, options), (*scaler = 0, AUTOAMP_UNKNOWN));
/* Waits for the calls before. The device must have finished all replays that contain the scaler. */
AUTOAMP_FUNCTION(int, autoamp_scaler_destroy, (autoamp_scaler * scaler), (scaler), 0);
/* Multiplies tensors by the scale, in place. */
AUTOAMP_FUNCTION(int, autoamp_scaler_scale,
                 (autoamp_scaler * scaler, const autoamp_tensor *tensors, size_t count, void *stream),
                 (scaler, tensors, count, stream), 0);
/* Multiplies the gradients of an optimizer (0 to 31) by 1 / scale, in place, and notes an Inf or NaN among them. Once
 * for each optimizer and device before an update. One launch for each data type and 240 tensors. */
AUTOAMP_FUNCTION(int, autoamp_scaler_unscale,
                 (autoamp_scaler * scaler, unsigned optimizer, const autoamp_tensor *tensors, size_t count,
                  void *stream),
                 (scaler, optimizer, tensors, count, stream), 0);
/* Waits for the stream and the calls before. 1: run the optimizer; 0: skip this step; negative: an error. */
AUTOAMP_FUNCTION(int, autoamp_scaler_step, (autoamp_scaler * scaler, unsigned optimizer, void *stream),
                 (scaler, optimizer, stream), 1);
/* Ends the step of all optimizers. new_scale: replaces the scale; null: the rule changes it. */
AUTOAMP_FUNCTION(int, autoamp_scaler_update, (autoamp_scaler * scaler, const double *new_scale, void *stream),
                 (scaler, new_scale, stream), 0);
/* Waits for the stream and the calls before, and stores the state. Without a scaler: stores the scale 1 only, and
 * returns AUTOAMP_UNKNOWN. */
AUTOAMP_FUNCTION(int, autoamp_scaler_get, (autoamp_scaler * scaler, autoamp_scaler_state *state, void *stream),
                 (scaler, state, stream), (state->scale = 1, AUTOAMP_UNKNOWN));
/* Replaces the state, except the stages of the optimizers. */
AUTOAMP_FUNCTION(int, autoamp_scaler_load, (autoamp_scaler * scaler, const autoamp_scaler_state *state, void *stream),
                 (scaler, state, stream), 0);
/* Addresses for the device, for a loss kernel and for fused optimizers: the scale, and 1 if the optimizer has an Inf or
 * NaN on the current device, else 0. The program orders its own kernels: the stream of a later call waits for the calls
 * before it. Without a scaler: null, and AUTOAMP_UNKNOWN. */
AUTOAMP_FUNCTION(int, autoamp_scaler_pointers,
                 (autoamp_scaler * scaler, unsigned optimizer, const float **scale, const float **found_inf),
                 (scaler, optimizer, scale, found_inf), (*scale = *found_inf = 0, AUTOAMP_UNKNOWN));

#ifdef __cplusplus
}

namespace autoamp {

/* A region that is open as long as this object lives, on one thread. */
class Region
{
	size_t number_ = 0;

public:
	explicit Region(const autoamp_region &region) : status(autoamp_enter(&region, &number_)) {}
	~Region()
	{
		if (status == 0)
			autoamp_leave(number_);
	}
	Region(const Region &) = delete;
	Region &operator=(const Region &) = delete;

	const int status; /* of the push */
};

} // namespace autoamp
#endif

#endif
