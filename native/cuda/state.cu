// Weights as state: optimizer step, gradient norm, finiteness, NF4; and what a sweep of a GPU's own operations computes.
#include "grid.cuh"

TS_EACH(adam, AdamArgs, a.n) {
  const float g = a.g[at] * a.scale;
  const float m = a.beta1 * a.m[at] + a.rest1 * g, v = a.beta2 * a.v[at] + a.rest2 * (g * g);
  const float step = (m / a.bias1) / (canon::sqrt(v / a.bias2) + a.eps);
  a.m[at] = m;
  a.v[at] = v;
  a.p[at] = a.p[at] * a.keep - a.lr * step;
}

TS_KERNEL(sum_squares, SquaresArgs, 16) {  // the order of native/bind_state.cpp
  __shared__ double lanes[16];
  double sum = 0.0;
  for (i64 i = threadIdx.x; i < a.n; i += 16) sum = sum + (double)a.x[i] * (double)a.x[i];
  lanes[threadIdx.x] = sum;
  halve(lanes, threadIdx.x);
  if (threadIdx.x == 0) *a.out = lanes[0];
}

TS_EACH(not_finite, FiniteArgs, a.n) {  // any thread may write, all write the same
  if ((canon::bits_of(a.x[at]) & 0x7F800000u) == 0x7F800000u) *a.bad = 1;
}

TS_EACH(nf4_transposed, Nf4Args, a.out * a.in) {
  a.wt[at % a.in * a.out + at / a.in] = Nf4{a.codes, a.absmax}.one(at);
}

// NVIDIA's division, root and conversions, to be compared with the CPU's over bit patterns.
TS_EACH(sweep, SweepArgs, a.n) {
  const float x = a.x[at];
  const float found[] = {x / a.y[at], canon::sqrt(x), 1.0f / x, (float)(int)canon::bits_of(x), canon::rint(x),
                         widen(Bf16{(unsigned short)canon::bits_of(x)}), (float)((double)x * (double)a.y[at])};
  for (int i = 0; i < 7; i++) a.out[i * a.n + at] = found[i];
}
