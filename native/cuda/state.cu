// Weights as state: optimizer step, gradient norm, finiteness, NF4; and the sweep of division and root.
#include "grid.cuh"

extern "C" __global__ void adam(AdamArgs a) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  const float g = a.g[i] * a.scale;
  const float m = a.beta1 * a.m[i] + a.rest1 * g, v = a.beta2 * a.v[i] + a.rest2 * (g * g);
  const float step = (m / a.bias1) / (canon::sqrt(v / a.bias2) + a.eps);
  a.m[i] = m;
  a.v[i] = v;
  a.p[i] = a.p[i] * a.keep - a.lr * step;
}

extern "C" __global__ void sum_squares(SquaresArgs a) {  // 16 threads: the order of native/bind_state.cpp
  __shared__ double lanes[16];
  const int lane = threadIdx.x;
  double sum = 0.0;
  for (i64 i = lane; i < a.n; i += 16) sum = sum + (double)a.x[i] * (double)a.x[i];
  lanes[lane] = sum;
  for (int half = 8; half >= 1; half /= 2) {
    __syncthreads();
    if (lane < half) lanes[lane] = lanes[lane] + lanes[lane + half];
  }
  if (lane == 0) *a.out = lanes[0];
}

extern "C" __global__ void not_finite(FiniteArgs a) {  // any thread may write, all write the same
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i < a.n && (canon::bits_of(a.x[i]) & 0x7F800000u) == 0x7F800000u) *a.bad = 1;
}

extern "C" __global__ void nf4_transposed(Nf4Args a) {
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= a.out * a.in) return;
  const int code = at % 2 == 0 ? a.codes[at / 2] >> 4 : a.codes[at / 2] & 15;
  a.wt[at % a.in * a.out + at / a.in] = kLevels[code] * a.absmax[at / 64];
}

// NVIDIA's division and root, to be compared with the CPU's over bit patterns.
extern "C" __global__ void quotients(QuotientArgs a) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.n) return;
  a.quotient[i] = a.x[i] / a.y[i];
  a.root[i] = canon::sqrt(a.x[i]);
  a.inverse[i] = 1.0f / a.x[i];
}
