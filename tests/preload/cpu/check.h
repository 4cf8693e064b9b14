// One product in each interface, with arguments that a library with other integers would misread. For several
// programs and plug-ins.
#pragma once

// Each file has one of both (-DWIDE).
#ifdef WIDE
#define check checkIlp64
#else
#define check checkLp64
#endif

// 'e': both results are exact; 'r': rounded to bfloat16; 'n': negated, by a library that tests know by this; 'w':
// wrong.
char checkLp64(void *cblas, void *fortran), checkIlp64(void *cblas, void *fortran);
