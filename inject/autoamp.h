/* Regions from inside a program: what the calls of a piece of code run in. C and C++, nothing to link (glibc
 * before 2.34: -ldl); any thread. Without autoamp in the process nothing happens, and nothing fails.
 *
 *     autoamp_region region = AUTOAMP_REGION;
 *     region.name = "attention";
 *     region.dtype = "bfloat16";
 *     autoamp_push(&region);
 *     ...
 *     autoamp_pop();
 *
 * Regions belong to the thread that pushes them and nest; a new thread starts with none. What a region leaves unset it
 * takes, as it opens, from its thread's region around it, or else from the configuration. AUTOAMP_ENABLED=0 and
 * AUTOAMP_LEVEL=O0 in the environment beat every region. */
#ifndef AUTOAMP_H
#define AUTOAMP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	AUTOAMP_SAME = -1, /* of `enabled` and `use_promote`: as around it */

	/* Answers. After all but 0 nothing has changed. */
	AUTOAMP_UNKNOWN = 1,     /* nothing is known: no autoamp here, nothing called so far, or inside dlopen */
	AUTOAMP_BAD_VALUE = -1,  /* a field holds what the variable of its name would not take; stderr says which */
	AUTOAMP_UNBALANCED = -2, /* this thread has no such region open */
	AUTOAMP_TOO_MANY = -3    /* too deep, or too many different ones: is there a push without its pop? */
};

typedef struct autoamp_region {
	size_t size;              /* of this struct: AUTOAMP_REGION sets it */
	const char *name;         /* for rules and reports: one of a few names, not a numbered one */
	int enabled, use_promote; /* 0, 1, AUTOAMP_SAME */
	const char *dtype;        /* this and what follows: as the AUTOAMP_ variable takes it; null: as around it */
	const char *level, *lists;
	const char *custom_white_list; /* united with the one around it; what is named here leaves the other list */
	const char *custom_black_list;
	const char *threads; /* "current", or "all": every thread without a region of its own, until it ends */
} autoamp_region;

#define AUTOAMP_REGION                                                                                                 \
	{                                                                                                                  \
		sizeof(autoamp_region), 0, AUTOAMP_SAME, AUTOAMP_SAME, 0, 0, 0, 0, 0, 0                                        \
	}

#ifdef AUTOAMP_IMPLEMENTATION /* the library itself */
#define AUTOAMP_FUNCTION(type, name, parameters, arguments, absent)                                                    \
	__attribute__((visibility("default"))) type name parameters
#else
#include <dlfcn.h>
#ifndef RTLD_DEFAULT
#define RTLD_DEFAULT ((void *)0)
#endif
/* Looked up once: the library is in front of the program from the start, or never. */
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

/* Opens a region of this thread. The first one reads the configuration. */
AUTOAMP_FUNCTION(int, autoamp_push, (const autoamp_region *region), (region), 0);
/* Ends this thread's innermost one. */
AUTOAMP_FUNCTION(int, autoamp_pop, (void), (), 0);
/* The same for a region that may end before those within it: it gets a number, by which its thread ends it. Those
 * within stay as they are. Number 0: the innermost one. */
AUTOAMP_FUNCTION(int, autoamp_enter, (const autoamp_region *region, size_t *number), (region, number), 0);
AUTOAMP_FUNCTION(int, autoamp_leave, (size_t number), (number), 0);
/* What this thread's calls run in now, into `region`, whose size must be set. The texts stay as long as the
 * process. */
AUTOAMP_FUNCTION(int, autoamp_current, (autoamp_region * region), (region), AUTOAMP_UNKNOWN);
/* 1: autoamp is here and may lower what this thread calls now. Before the first call and region: as far as is known. */
AUTOAMP_FUNCTION(int, autoamp_active, (void), (), 0);
/* What was wrong with this thread's last push, in words; null or "": nothing. */
AUTOAMP_FUNCTION(const char *, autoamp_error, (void), (), 0);

#ifdef __cplusplus
}

namespace autoamp {

/* A region as long as this object, on one thread. */
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
