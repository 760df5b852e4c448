// CUDA's grid on one CPU thread: a block's threads are fibers that meet at __syncthreads, blocks come one after another.
#pragma once
#include <cstdint>
#include <cstdlib>
struct Dim { unsigned x, y, z; };
extern Dim threadIdx, blockIdx, blockDim, gridDim;
#define __global__
#define __device__
#define __forceinline__ inline
#define __constant__ static const
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
struct float4 { float x, y, z, w; };
struct ushort4 { unsigned short x, y, z, w; };
static inline float4 make_float4(float a, float b, float c, float d) { return {a, b, c, d}; }
extern "C" void ts_barrier();
#define __syncthreads() ts_barrier()
