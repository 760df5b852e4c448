// Mixtures of experts, row by row: which experts a row takes, with which weights, and the backward of both.
//
// A row's sums run over experts in ascending order; a dot product of two rows runs over 16 lanes, as a norm's does.
#pragma once
#include "rows.hpp"
#include "table.hpp"
#include "v16.hpp"

namespace {

// exp(logit - largest) of every expert. Returns the largest.
TS_INLINE float expert_shares(const float* logits, int64_t E, float* shares) {
  float top = logits[0];
  for (int64_t e = 1; e < E; e++) top = logits[e] > top ? logits[e] : top;
  const V16 m = set1(top);
  for (int64_t e = 0; e < E; e += 16) store_n(shares + e, exp16(load_n(logits + e, E - e) - m), E - e);
  return top;
}

static void route(const float* logits, int64_t E, int64_t active, bool normalised, int64_t* experts, float* weights,
                  int64_t r0, int64_t r1) {
  float shares[tinsmith::kMostExperts];
  bool taken[tinsmith::kMostExperts];
  for (int64_t r = r0; r < r1; r++) {
    expert_shares(logits + r * E, E, shares);
    canon::route(logits + r * E, shares, E, active, normalised, taken, experts + r * active, weights + r * active);
  }
}

// d_logit = w * (d_w - sum of d_w w over the chosen), where w is the softmax and d_w is 0 of an expert not chosen.
static void route_backward(const float* logits, int64_t E, int64_t active, bool normalised, const int64_t* experts,
                           const float* weights, const float* d_weights, float* d_logits, int64_t r0, int64_t r1) {
  float shares[tinsmith::kMostExperts];
  for (int64_t r = r0; r < r1; r++) {
    const int64_t* chosen = experts + r * active;
    const float* w = weights + r * active;
    const float* dw = d_weights + r * active;
    float* out = d_logits + r * E;
    float dot = 0.0f;
    for (int64_t i = 0; i < active; i++) dot = dot + dw[i] * w[i];
    if (normalised) {
      for (int64_t e = 0; e < E; e++) out[e] = 0.0f;
    } else {
      expert_shares(logits + r * E, E, shares);
      const float total = canon::sum_of(shares, E);
      for (int64_t e = 0; e < E; e++) out[e] = 0.0f - shares[e] / total * dot;
    }
    for (int64_t i = 0; i < active; i++) out[chosen[i]] = w[i] * (dw[i] - dot);
  }
}

static void row_entropies(const float* logits, int64_t E, float* out, int64_t r0, int64_t r1) {
  float shares[tinsmith::kMostExperts];
  for (int64_t r = r0; r < r1; r++) {
    const float top = expert_shares(logits + r * E, E, shares);
    out[r] = canon::entropy(logits + r * E, shares, E, top);
  }
}

TS_INLINE float row_dot(const float* x, const float* y, int64_t N) {
  V16 sum = zero16();
  for (int64_t i = 0; i < N; i += 16) sum = fma(load_n(x + i, N - i), load_n(y + i, N - i), sum);
  return hsum(sum);
}

static void row_dots(const float* x, int64_t x_rs, const float* y, int64_t y_rs, int64_t N, float* out, int64_t r0,
                     int64_t r1) {
  for (int64_t r = r0; r < r1; r++) out[r] = row_dot(x + r * x_rs, y + r * y_rs, N);
}

}  // namespace
