#pragma once

// Include before hwy/foreach_target.h. Kernels are compiled for AVX-512, for AVX2 with FMA (x86) or
// NEON (ARM), and for Highway's portable emulation, which older machines fall back to.
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
