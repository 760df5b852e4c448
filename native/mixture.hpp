// Mixtures of experts, row by row: which experts a row takes, with which weights, and the backward of both.
//
// A row's sums run over experts in ascending order; a dot product of two rows runs over 16 lanes, as a norm's does.
#pragma once
#include "rows.hpp"
#include "table.hpp"
#include "v16.hpp"

namespace {

// exp(logit - largest) of every expert.
TS_INLINE void expert_shares(const float* logits, int64_t E, float* shares) {
  float top = logits[0];
  for (int64_t e = 1; e < E; e++) top = logits[e] > top ? logits[e] : top;
  const V16 m = set1(top);
  for (int64_t e = 0; e < E; e += 16) store_n(shares + e, exp16(load_n(logits + e, E - e) - m), E - e);
}

// The experts of the largest logits, ties to the lower expert, in ascending order. A NaN is larger than nothing.
TS_INLINE void top_experts(const float* logits, int64_t E, int64_t active, int64_t* experts) {
  bool taken[tinsmith::kMostExperts] = {};
  for (int64_t i = 0; i < active; i++) {
    int64_t best = -1;
    for (int64_t e = 0; e < E; e++)
      if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
    taken[best] = true;
  }
  for (int64_t e = 0, i = 0; e < E; e++)
    if (taken[e]) experts[i++] = e;
}

// Softmax over the chosen experts (normalised) or over all of them, at the chosen ones.
static void route(const float* logits, int64_t E, int64_t active, bool normalised, int64_t* experts, float* weights,
                  int64_t r0, int64_t r1) {
  float shares[tinsmith::kMostExperts];
  for (int64_t r = r0; r < r1; r++) {
    const float* row = logits + r * E;
    int64_t* chosen = experts + r * active;
    top_experts(row, E, active, chosen);
    expert_shares(row, E, shares);
    float total = 0.0f;
    if (normalised) for (int64_t i = 0; i < active; i++) total = total + shares[chosen[i]];
    else for (int64_t e = 0; e < E; e++) total = total + shares[e];
    for (int64_t i = 0; i < active; i++) weights[r * active + i] = shares[chosen[i]] / total;
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
      float total = 0.0f;
      for (int64_t e = 0; e < E; e++) total = total + shares[e];
      for (int64_t e = 0; e < E; e++) out[e] = 0.0f - shares[e] / total * dot;
    }
    for (int64_t i = 0; i < active; i++) out[chosen[i]] = w[i] * (dw[i] - dot);
  }
}

// The entropy of a row's softmax over all experts: ln(sum of shares) - sum of share * (logit - largest) / sum of shares.
static void row_entropies(const float* logits, int64_t E, float* out, int64_t r0, int64_t r1) {
  float shares[tinsmith::kMostExperts];
  for (int64_t r = r0; r < r1; r++) {
    const float* row = logits + r * E;
    float top = row[0], total = 0.0f, dot = 0.0f;
    for (int64_t e = 1; e < E; e++) top = row[e] > top ? row[e] : top;
    expert_shares(row, E, shares);
    for (int64_t e = 0; e < E; e++) total = total + shares[e];
    for (int64_t e = 0; e < E; e++) dot = dot + (shares[e] == 0.0f ? 0.0f : shares[e] * (row[e] - top));
    float log_total[16];
    store(log_total, log16(set1(total)));
    out[r] = total == total ? log_total[0] - dot / total : total;  // log16 would hide a NaN
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
