// What every kernel starts from: the arguments, and sums over sixteen lanes that lie in shared memory.
#pragma once
#include "args.h"
#ifdef TS_EMULATE
#include "emulate.hpp"
#endif
#ifndef TS_TILE_BARRIER  // a test leaves it out, to see that it is missed
#define TS_TILE_BARRIER() __syncthreads()
#endif

using canon::Bf16;
using canon::widen;
TS_FN float fma1(float a, float b, float c) { return canon::fma(a, b, c); }
TS_FN float exp1(float x) { return canon::exp(x); }
TS_FN float log1(float x) { return canon::log(x); }

constexpr int kMostD = 128;  // elements of a head

__constant__ float kLevels[16] = {  // of NF4
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, -0.18477343022823334f,
    -0.09105003625154495f, 0.0f, 0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f};

// hsum of native/v16.hpp: halving 8, 4, 2, 1. Every thread of the block calls it.
TS_FN void halve(float* lanes, int lane) {
  for (int half = 8; half >= 1; half /= 2) {
    __syncthreads();
    if (lane < half) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  __syncthreads();
}
