// The engine of a CPU with AMX, on any CPU with AVX512-BF16: oneDNN, which selects its instructions itself, computes
// all products except those with few rows.
#pragma once

#include "src/cpu/product.h"

namespace autoamp::cpu {

inline Engine engineWithAmx(const Dnnl &with = dnnl())
{
	return {Bf16Unit::amx, with, [](const Dnnl &) { return Bf16Unit::amx; }};
}

inline void use(Engine &on, const Engine &other) // both with the same oneDNN
{
	on.unit = other.unit, on.unitInDnnl = other.unitInDnnl;
}

// As the front does if the program uses the OpenMP library of oneDNN.
inline void watchRegionsOfDnnl()
{
	static int (*const inParallel[])() = {dnnl().openMp.inParallel, nullptr};
	watchRegions(inParallel);
}

} // namespace autoamp::cpu
