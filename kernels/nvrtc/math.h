// The part of <math.h> that is not built into NVRTC, which has no headers of the host.
#pragma once

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
