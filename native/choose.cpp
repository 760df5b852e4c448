// The sampling law: argmax of logit / T + Gumbel noise, where the noise is a function of (seed, sample, position,
// token) only. The decision is made in fp64 by fixed steps; a vectorised fp32 screen names the few candidates.
#include "choose.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "canon.h"

namespace tinsmith {
namespace {

bool before(const float* logits, int32_t a, int32_t b) {
  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

struct Ranked {
  uint32_t key;  // ascends as the logit descends; -0 is +0
  int32_t id;
};

// All tokens by descending logit, ties by lower id: a stable radix sort, three passes of 11 bits.
const std::vector<Ranked>& ranked(const float* logits, int64_t V) {
  constexpr int kDigits = 1 << 11;
  thread_local std::vector<Ranked> order, other;  // kept: fresh pages would take longer than the sort
  order.resize((size_t)V);
  other.resize((size_t)V);
  uint32_t starts[3 * kDigits] = {0};
  for (int64_t v = 0; v < V; v++) {
    const float x = logits[v] + 0.0f;
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const uint32_t key = bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
    order[(size_t)v] = {key, (int32_t)v};
    for (int pass = 0; pass < 3; pass++) starts[pass * kDigits + (int)(key >> 11 * pass & (kDigits - 1))]++;
  }
  for (int pass = 0; pass < 3; pass++) {
    uint32_t* const next = starts + pass * kDigits;
    uint32_t sum = 0;
    for (int i = 0; i < kDigits; i++) {
      const uint32_t count = next[i];
      next[i] = sum;
      sum += count;
    }
    for (const Ranked& each : order) other[next[each.key >> 11 * pass & (kDigits - 1)]++] = each;
    order.swap(other);
  }
  return order;
}

int64_t best_of(const float* logits, float temperature, uint64_t key, const int32_t* ids, int64_t count) {
  int64_t best = -1;
  double best_score = 0.0;
  for (int64_t i = 0; i < count; i++) {
    const int32_t v = ids[i];
    const double score = (double)(logits[v] / temperature) + canon::gumbel(key, (i64)v);
    if (best < 0 || score > best_score || (score == best_score && v < best)) {
      best = v;
      best_score = score;
    }
  }
  return best;
}

}  // namespace

void largest(const float* logits, int64_t V, int64_t k, int32_t* ids) {
  if (k < V / 16) {
    std::vector<int32_t> order((size_t)V);
    std::iota(order.begin(), order.end(), 0);
    const auto less = [&](int32_t a, int32_t b) { return before(logits, a, b); };
    std::partial_sort(order.begin(), order.begin() + k, order.end(), less);
    std::copy(order.begin(), order.begin() + k, ids);
    return;
  }
  const std::vector<Ranked>& order = ranked(logits, V);
  for (int64_t i = 0; i < k; i++) ids[i] = order[(size_t)i].id;
}

int64_t choose(const KernelTable& kernels, const float* logits, int64_t V, float row_max, float log_sum,
               const Draw& draw, float* work) {
  if (draw.temperature == 0.0f) {
    int64_t best = 0;
    for (int64_t v = 1; v < V; v++)
      if (logits[v] > logits[best]) best = v;
    return best;
  }
  const uint64_t key = canon::philox(draw.seed, draw.sample, draw.position);
  // Of many candidates the vectorised screen leaves a few; `ids` null: all tokens.
  const auto screened = [&](const int32_t* ids, int64_t count) {
    kernels.gumbel_screen(logits, V, draw.temperature, key, work);
    const auto at = [&](int64_t i) { return ids ? ids[i] : (int32_t)i; };
    float top = work[at(0)];
    for (int64_t i = 1; i < count; i++) top = work[at(i)] > top ? work[at(i)] : top;
    const float margin = 1e-4f + 4e-6f * (__builtin_fabsf(top) + __builtin_fabsf(row_max));
    std::vector<int32_t> near;
    for (int64_t i = 0; i < count; i++)
      if (work[at(i)] >= top - margin) near.push_back(at(i));
    return best_of(logits, draw.temperature, key, near.data(), (int64_t)near.size());
  };
  if (!(draw.top_k > 0 && draw.top_k < V) && !(draw.top_p < 1.0)) return screened(nullptr, V);
  int64_t kept = draw.top_k > 0 && draw.top_k < V ? draw.top_k : V;
  std::vector<int32_t> order((size_t)kept);
  largest(logits, V, kept, order.data());
  if (draw.top_p < 1.0) {  // mass of the tokens kept by top-k, most probable first
    kernels.log_softmax(logits, V, draw.temperature, row_max, log_sum, work);
    kernels.exp(work, work + V, V);
    double total = 0.0, mass = 0.0;
    for (int64_t i = 0; i < kept; i++) total += (double)work[V + order[(size_t)i]];
    int64_t n = 0;
    while (n < kept && mass < draw.top_p * total) mass += (double)work[V + order[(size_t)n++]];
    kept = std::max<int64_t>(n, 1);
  }
  if (kept < V / 16) return best_of(logits, draw.temperature, key, order.data(), kept);
  return screened(order.data(), kept);
}

}  // namespace tinsmith
