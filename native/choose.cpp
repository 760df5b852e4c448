// The sampling law: argmax of logit / T + Gumbel noise, where the noise is a function of (seed, sample, position,
// token) only. The decision is made in fp64 by fixed steps; a vectorised fp32 screen names the few candidates.
#include "choose.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

namespace tinsmith {
namespace {

// Philox4x32-10 (Salmon et al., SC 2011): counter (sample, position), key seed -> the row's 64-bit stream.
uint64_t philox(uint64_t seed, uint64_t sample, uint64_t position) {
  uint32_t c[4] = {(uint32_t)sample, (uint32_t)(sample >> 32), (uint32_t)position, (uint32_t)(position >> 32)};
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
    const uint32_t next[4] = {(uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a};
    std::memcpy(c, next, sizeof c);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (uint64_t)c[1] << 32 | c[0];
}

// ln(x) for positive normal x: fdlibm's e_log.c, no fused steps.
double ln(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, 8);
  int64_t k = (int64_t)(bits >> 52) - 1023;
  bits = (bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double m;
  std::memcpy(&m, &bits, 8);
  if (m > 1.41421356237309504880) {
    m = m * 0.5;
    k++;
  }
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  const double r = p * z, half = 0.5 * f * f, n = (double)k;
  return n * 6.93147180369123816490e-01 - ((half - (s * (half + r) + n * 1.90821492927058770002e-10)) - f);
}

// Gumbel noise of one token: -ln(E) with E = -ln(1 - u) exponential, u in (0, 1) with 53 bits.
double gumbel(uint64_t key, int64_t token) {
  uint64_t z = key + (uint64_t)(token + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z = (z ^ (z >> 31)) >> 11;
  const double u = ((double)z + 0.5) * 0x1p-53;
  double e;
  if (u < 0.01) {  // the series keeps the small u that decide who wins
    e = 0.0;
    for (int i = 9; i >= 1; i--) e = e * u + 1.0 / i;
    e = e * u;
  } else {
    e = -ln(((double)((1ull << 53) - 1 - z) + 0.5) * 0x1p-53);
  }
  return -ln(e);
}

bool before(const float* logits, int32_t a, int32_t b) {
  return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

struct Ranked {
  uint32_t key;  // ascends as the logit descends; -0 is +0
  int32_t id;
};

// All tokens by descending logit, ties by lower id: a stable radix sort, three passes of 11 bits.
std::vector<Ranked> ranked(const float* logits, int64_t V) {
  constexpr int kDigits = 1 << 11;
  std::vector<Ranked> order((size_t)V), other((size_t)V);
  std::vector<uint32_t> starts(3 * kDigits, 0);
  for (int64_t v = 0; v < V; v++) {
    const float x = logits[v] + 0.0f;
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    const uint32_t key = bits >> 31 ? bits : ~bits & 0x7FFFFFFFu;
    order[(size_t)v] = {key, (int32_t)v};
    for (int pass = 0; pass < 3; pass++) starts[(size_t)(pass * kDigits) + (key >> 11 * pass & (kDigits - 1))]++;
  }
  for (int pass = 0; pass < 3; pass++) {
    uint32_t* const next = starts.data() + pass * kDigits;
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
    const double score = (double)(logits[v] / temperature) + gumbel(key, v);
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
  const std::vector<Ranked> order = ranked(logits, V);
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
  const uint64_t key = philox(draw.seed, draw.sample, draw.position);
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
