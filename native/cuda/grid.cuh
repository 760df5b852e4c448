// What every kernel starts from: the arguments, and sums over sixteen lanes that lie in shared memory.
#pragma once
#include "args.h"
#ifndef TS_TILE_BARRIER  // a test leaves it out, to see that it is missed
#define TS_TILE_BARRIER() __syncthreads()
#endif

using canon::Bf16;
using canon::widen;
TS_FN float fma1(float a, float b, float c) { return canon::fma(a, b, c); }
TS_FN float exp1(float x) { return canon::exp(x); }
TS_FN float log1(float x) { return canon::log(x); }

constexpr int kMostD = 128;  // elements of a head

__constant__ float kLevels[16] = {TS_NF4_LEVELS};

struct Nf4 {  // a matrix held as NF4: two codes a byte, an absmax for each block of 64
  const unsigned char* codes;
  const float* absmax;
  __device__ __forceinline__ bool aligned() const { return true; }
  __device__ __forceinline__ float one(i64 i) const {
    return kLevels[i % 2 == 0 ? codes[i / 2] >> 4 : codes[i / 2] & 15] * absmax[i / 64];
  }
};

// A kernel by name, with the threads of a block (ops/cuda/table.py reads these lines).
#define TS_KERNEL(NAME, ARGS, ...) extern "C" __global__ void __launch_bounds__(__VA_ARGS__) NAME(ARGS a)
// One whose blocks hold eight rows of sixteen lanes.
#define TS_LANES(NAME, ARGS) TS_KERNEL(NAME, ARGS, 128)
// One with a thread for each of COUNT elements: the body has its number, `at`.
#define TS_EACH(NAME, ARGS, COUNT) \
  TS_FN void NAME##_one(const ARGS& a, i64 at); \
  TS_KERNEL(NAME, ARGS, 256) { \
    const i64 at = (i64)blockIdx.x * 256 + threadIdx.x; \
    if (at < (COUNT)) NAME##_one(a, at); \
  } \
  TS_FN void NAME##_one(const ARGS& a, i64 at)

// join(i, i + half) for i < half: half of `count`, a quarter, .. 1. Every thread of the block calls it.
template <typename Join>
TS_FN void by_halves(int count, int i, Join join) {
  for (int half = count / 2; half >= 1; half /= 2) {
    __syncthreads();
    if (i < half) join(i, i + half);
  }
  __syncthreads();
}
// hsum of native/v16.hpp.
template <typename T>
TS_FN void halve(T* lanes, int lane) {
  by_halves(16, lane, [&](int i, int j) { lanes[i] = lanes[i] + lanes[j]; });
}

TS_FN int lane_of() { return threadIdx.x % 16; }
TS_FN i64 row_of() { return (i64)blockIdx.x * 8 + threadIdx.x / 16; }
// A row's sum: term(sum, i) for i < n, ascending, i in lane i mod 16. Every thread calls it, one without a row with n = 0.
template <typename Term>
TS_FN float over_lanes(i64 n, Term term) {
  __shared__ float lanes[8][16];
  const int lane = lane_of(), own = threadIdx.x / 16;
  float sum = 0.0f;
  for (i64 i = lane; i < n; i += 16) sum = term(sum, i);
  lanes[own][lane] = sum;
  halve(lanes[own], lane);
  sum = lanes[own][0];
  __syncthreads();
  return sum;
}

// Sums of chains that have ended wait in `kept` for those of their neighbours in the tree, N side by side. The depth is a
// variable of its own, which stays in a register.
template <int Depth, int N>
TS_FN void push(float (&kept)[Depth][N], int& depth, const float (&sums)[N]) {
#pragma unroll
  for (int e = 0; e < N; e++) kept[depth][e] = sums[e];
  depth++;
}
// Adds the latest `count` to `sums`, the latest first.
template <int Depth, int N>
TS_FN void pop(const float (&kept)[Depth][N], int& depth, float (&sums)[N], int count) {
  for (int i = 0; i < count && depth > 0; i++) {
    depth--;
#pragma unroll
    for (int e = 0; e < N; e++) sums[e] = kept[depth][e] + sums[e];
  }
}
template <int N>
TS_FN void clear(float (&sums)[N]) {
#pragma unroll
  for (int e = 0; e < N; e++) sums[e] = 0.0f;
}

// A thread's own sum over listed chains: term(sum, k) along each, and those that have ended by their tree.
template <typename Term>
TS_FN float over_chains(const Chain* chains, i64 count, Term term) {
  float kept[24][1], sum[1] = {0.0f};
  int depth = 0;
  for (i64 c = 0; c < count; c++) {
    clear(sum);
    for (int k = chains[c].k0; k < chains[c].k1; k++) sum[0] = term(sum[0], k);
    pop(kept, depth, sum, chains[c].merged);
    push(kept, depth, sum);
  }
  return sum[0];
}
