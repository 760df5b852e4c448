// Row-wise and elementwise kernels: norms, rotation, gate, log-softmax, noise, optimizer.
//
// A row's sums run over 16 lanes (element i into lane i mod 16, ascending), then hsum's halving.
#pragma once
#include "table.hpp"
#include "v16.hpp"

namespace {

TS_INLINE V16 load_n(const float* p, int64_t n) { return n >= 16 ? load(p) : load_first(p, (int)n); }
TS_INLINE void store_n(float* p, V16 a, int64_t n) {
  if (n >= 16) store(p, a);
  else store_first(p, a, (int)n);
}

TS_INLINE float inverse_rms(const float* x, int64_t H, float eps) {
  V16 squares = zero16();
  for (int64_t i = 0; i < H; i += 16) {
    const V16 v = load_n(x + i, H - i);
    squares = fma(v, v, squares);
  }
  return 1.0f / __builtin_sqrtf(hsum(squares) / (float)H + eps);
}

// sum = x + delta (delta null: sum is x, not written); y = sum * inv_rms * gain.
static void add_rms_norm(const float* x, const float* delta, const float* gain, float eps, int64_t H, float* sum,
                         float* y, float* inv_rms, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; r++) {
    const float* row = x + r * H;
    if (delta) {
      float* s = sum + r * H;
      for (int64_t i = 0; i < H; i += 16) store_n(s + i, load_n(row + i, H - i) + load_n(delta + r * H + i, H - i), H - i);
      row = s;
    }
    const float inv = inverse_rms(row, H, eps);
    const V16 scale = set1(inv);
    for (int64_t i = 0; i < H; i += 16)
      store_n(y + r * H + i, load_n(row + i, H - i) * scale * load_n(gain + i, H - i), H - i);
    if (inv_rms) inv_rms[r] = inv;
  }
}

// dx = gradient through y = x * inv * gain, given the row's inv; xhat (may be null) receives x * inv.
TS_INLINE void norm_row_backward(const float* x, const float* gain, float inv, const float* d_sum, const float* dy,
                                 int64_t H, float* dx, float* xhat) {
  V16 dot = zero16();
  for (int64_t i = 0; i < H; i += 16)
    dot = fma(load_n(dy + i, H - i) * load_n(gain + i, H - i), load_n(x + i, H - i), dot);
  const V16 coef = set1(hsum(dot) * inv * inv * inv / (float)H), scale = set1(inv);
  for (int64_t i = 0; i < H; i += 16) {
    const V16 xi = load_n(x + i, H - i);
    V16 d = load_n(dy + i, H - i) * load_n(gain + i, H - i) * scale - xi * coef;
    if (d_sum) d = load_n(d_sum + i, H - i) + d;
    store_n(dx + i, d, H - i);
    if (xhat) store_n(xhat + i, xi * scale, H - i);
  }
}

static void rms_norm_backward(const float* x, const float* gain, const float* inv_rms, const float* d_sum,
                              const float* dy, int64_t H, float* dx, float* xhat, int64_t r0, int64_t r1) {
  for (int64_t r = r0; r < r1; r++)
    norm_row_backward(x + r * H, gain, inv_rms[r], d_sum ? d_sum + r * H : nullptr, dy + r * H, H, dx + r * H,
                      xhat ? xhat + r * H : nullptr);
}

// One head's row: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin, halves as in Hugging Face's rotate_half.
TS_INLINE void rotate_head(const float* x, float* y, const float* cos, const float* sin, int64_t half, float sign) {
  const V16 s = set1(sign);
  for (int64_t i = 0; i < half; i += 16) {
    const int64_t n = half - i;
    const V16 c = load_n(cos + i, n), w = load_n(sin + i, n) * s;
    const V16 x1 = load_n(x + i, n), x2 = load_n(x + half + i, n);
    store_n(y + i, x1 * c - x2 * w, n);
    store_n(y + half + i, x2 * c + x1 * w, n);
  }
}

// Rows [q heads | k heads | v heads] * d: q and k normalised (where a gain is given) and rotated, v copied.
static void rotate(const float* x, int64_t x_rs, float* y, int64_t y_rs, const int64_t* pos, const float* cos,
                   const float* sin, int64_t q_heads, int64_t kv_heads, int64_t d, const float* q_gain,
                   const float* k_gain, float eps, int64_t r0, int64_t r1) {
  const int64_t half = d / 2;
  float normed[1024];
  for (int64_t r = r0; r < r1; r++) {
    const float* c = cos + pos[r] * half;
    const float* s = sin + pos[r] * half;
    for (int64_t h = 0; h < q_heads + kv_heads; h++) {
      const float* from = x + r * x_rs + h * d;
      const float* gain = h < q_heads ? q_gain : k_gain;
      if (gain) {
        add_rms_norm(from, nullptr, gain, eps, d, nullptr, normed, nullptr, 0, 1);
        from = normed;
      }
      rotate_head(from, y + r * y_rs + h * d, c, s, half, 1.0f);
    }
    const int64_t v = (q_heads + kv_heads) * d;
    for (int64_t i = 0; i < kv_heads * d; i += 16)
      store_n(y + r * y_rs + v + i, load_n(x + r * x_rs + v + i, kv_heads * d - i), kv_heads * d - i);
  }
}

// dgain_rows (null unless gains train): first [rows * q_heads, d], then [rows * kv_heads, d] of dn * xhat.
static void rotate_backward(const float* x, int64_t x_rs, const float* dy, int64_t dy_rs, float* dx, int64_t dx_rs,
                            const int64_t* pos, const float* cos, const float* sin, int64_t q_heads, int64_t kv_heads,
                            int64_t d, const float* q_gain, const float* k_gain, float eps, float* dgain_q,
                            float* dgain_k, int64_t r0, int64_t r1) {
  const int64_t half = d / 2;
  float turned[1024];
  for (int64_t r = r0; r < r1; r++) {
    const float* c = cos + pos[r] * half;
    const float* s = sin + pos[r] * half;
    for (int64_t h = 0; h < q_heads + kv_heads; h++) {
      const bool is_q = h < q_heads;
      const float* gain = is_q ? q_gain : k_gain;
      float* to = dx + r * dx_rs + h * d;
      rotate_head(dy + r * dy_rs + h * d, gain ? turned : to, c, s, half, -1.0f);
      if (!gain) continue;
      const float* from = x + r * x_rs + h * d;
      float* rows = is_q ? dgain_q : dgain_k;
      float* out = rows ? rows + (is_q ? r * q_heads + h : r * kv_heads + h - q_heads) * d : nullptr;
      norm_row_backward(from, gain, inverse_rms(from, d, eps), nullptr, turned, d, to, out);
      if (out)
        for (int64_t i = 0; i < d; i += 16) store_n(out + i, load_n(turned + i, d - i) * load_n(out + i, d - i), d - i);
    }
    const int64_t v = (q_heads + kv_heads) * d;
    for (int64_t i = 0; i < kv_heads * d; i += 16)
      store_n(dx + r * dx_rs + v + i, load_n(dy + r * dy_rs + v + i, kv_heads * d - i), kv_heads * d - i);
  }
}

// y = silu(gate) * up over rows [gate | up] of width 2 I.
static void silu_gate(const float* gate_up, int64_t I, float* y, int64_t r0, int64_t r1) {
  const V16 one = set1(1.0f);
  for (int64_t r = r0; r < r1; r++)
    for (int64_t i = 0; i < I; i += 16) {
      const V16 g = load_n(gate_up + r * 2 * I + i, I - i), u = load_n(gate_up + r * 2 * I + I + i, I - i);
      store_n(y + r * I + i, g / (one + exp16(zero16() - g)) * u, I - i);
    }
}

static void silu_gate_backward(const float* gate_up, const float* dy, int64_t I, float* d_gate_up, int64_t r0,
                               int64_t r1) {
  const V16 one = set1(1.0f);
  for (int64_t r = r0; r < r1; r++)
    for (int64_t i = 0; i < I; i += 16) {
      const int64_t n = I - i;
      const V16 g = load_n(gate_up + r * 2 * I + i, n), u = load_n(gate_up + r * 2 * I + I + i, n);
      const V16 d = load_n(dy + r * I + i, n);
      const V16 sig = one / (one + exp16(zero16() - g));
      store_n(d_gate_up + r * 2 * I + i, d * u * (sig * fma(g, one - sig, one)), n);
      store_n(d_gate_up + r * 2 * I + I + i, d * (g * sig), n);
    }
}

TS_INLINE V16 scaled(const float* logits, int64_t n, V16 temperature) { return load_n(logits, n) / temperature; }

// Largest scaled logit and ln(sum exp(logit - largest)) of each row.
static void row_stats(const float* logits, int64_t V, float temperature, float* row_max, float* log_sum, int64_t r0,
                      int64_t r1) {
  const V16 t = set1(temperature);
  for (int64_t r = r0; r < r1; r++) {
    const float* row = logits + r * V;
    V16 best = set1(-3.0e38f);
    int64_t i = 0;
    for (; i + 16 <= V; i += 16) best = max(scaled(row + i, 16, t), best);
    float top = hmax(best);
    for (; i < V; i++) {
      const float x = row[i] / temperature;
      top = x > top ? x : top;
    }
    const V16 m = set1(top);
    V16 sum = zero16();
    for (i = 0; i + 16 <= V; i += 16) sum = sum + exp16(scaled(row + i, 16, t) - m);
    if (i < V) {
      float rest[16];
      store(rest, exp16(scaled(row + i, V - i, t) - m));
      for (int64_t j = V - i; j < 16; j++) rest[j] = 0.0f;
      sum = sum + load(rest);
    }
    const float total = hsum(sum);
    float out[16];
    store(out, log16(set1(total)));
    row_max[r] = top;
    log_sum[r] = total == total ? out[0] : total;  // log16 is for positive numbers: it would hide a NaN
  }
}

static void log_softmax(const float* logits, int64_t V, float temperature, float row_max, float log_sum, float* out) {
  const V16 t = set1(temperature), m = set1(row_max), l = set1(log_sum);
  for (int64_t i = 0; i < V; i += 16) store_n(out + i, scaled(logits + i, V - i, t) - m - l, V - i);
}

// d_logits of each row, read for targets reads[r] .. reads[r + 1]: the sum of g (onehot(target) - softmax) over them.
// The g of a row are added in their order, for the softmax as for a target that comes twice. May be in place.
static void logprob_backward(const float* logits, int64_t V, const int64_t* reads, const int32_t* targets,
                             const float* g, const float* row_max, const float* log_sum, float* d_logits, int64_t r0,
                             int64_t r1) {
  for (int64_t r = r0; r < r1; r++) {
    float total = g[reads[r]];
    for (int64_t i = reads[r] + 1; i < reads[r + 1]; i++) total = total + g[i];
    const float* row = logits + r * V;
    float* out = d_logits + r * V;
    const V16 m = set1(row_max[r]), l = set1(log_sum[r]), grad = set1(total);
    for (int64_t j = 0; j < V; j += 16)
      store_n(out + j, zero16() - grad * exp16(load_n(row + j, V - j) - m - l), V - j);
    canon::add_targets(out, g, targets, reads[r], reads[r + 1]);
  }
}

static void scale_bias(float* y, int64_t y_rs, int64_t N, const float* scale, const float* bias, int64_t r0,
                       int64_t r1) {
  for (int64_t r = r0; r < r1; r++)
    for (int64_t i = 0; i < N; i += 16) {
      V16 v = load_n(y + r * y_rs + i, N - i);
      if (scale) v = v * load_n(scale + i, N - i);
      if (bias) v = v + load_n(bias + i, N - i);
      store_n(y + r * y_rs + i, v, N - i);
    }
}

// Approximate logit / T + Gumbel noise per token, within 1e-4 relative: only a screen, choose.cpp decides in fp64.
// Noise: E = -ln(1 - u) is exponential, -ln(E) is Gumbel; u from SplitMix64 word (key, token).
static void gumbel_screen(const float* logits, int64_t V, float temperature, uint64_t key, float* score) {
  const V16 t = set1(temperature), quarter = set1(0.25f);
  for (int64_t i = 0; i < V; i += 16) {
    const int64_t n = V - i < 16 ? V - i : 16;
    float u[16], rest[16];
    for (int j = 0; j < 16; j++) {
      uint64_t z = key + (uint64_t)(i + j + 1) * 0x9E3779B97F4A7C15ull;
      z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
      z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
      z = (z ^ (z >> 31)) >> 11;
      u[j] = ((float)(int64_t)z + 0.5f) * 0x1p-53f;
      rest[j] = ((float)(int64_t)((1ull << 53) - 1 - z) + 0.5f) * 0x1p-53f;
    }
    const V16 x = load(u);
    V16 p = set1(1.0f / 12.0f);
    for (int k = 11; k >= 1; k--) p = fma(p, x, set1(1.0f / (float)k));
    const V16 e = select_lt(x, quarter, p * x, zero16() - log16(load(rest)));
    store_n(score + i, scaled(logits + i, n, t) - log16(e), n);
  }
}

static void exp_elements(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) store_n(y + i, exp16(load_n(x + i, n - i)), n - i);
}

static void adam(const tinsmith::Adam& a, int64_t i0, int64_t i1) {
  const V16 b1 = set1(a.beta1), b2 = set1(a.beta2), c1 = set1(a.rest1), c2 = set1(a.rest2);
  const V16 keep = set1(a.keep), lr = set1(a.lr), eps = set1(a.eps), scale = set1(a.grad_scale);
  const V16 bias1 = set1(a.bias1), bias2 = set1(a.bias2);
  for (int64_t i = i0; i < i1; i += 16) {
    const int64_t n = i1 - i;
    const V16 g = load_n(a.g + i, n) * scale;
    const V16 m = b1 * load_n(a.m + i, n) + c1 * g;
    const V16 v = b2 * load_n(a.v + i, n) + c2 * (g * g);
    const V16 step = (m / bias1) / (sqrt(v / bias2) + eps);
    store_n(a.m + i, m, n);
    store_n(a.v + i, v, n);
    store_n(a.p + i, load_n(a.p + i, n) * keep - lr * step, n);
  }
}

}  // namespace
