// Rows: norms, rotation, gate, scales, column sums, the embedding's gradient, and a mixture's routes.
//
// A row's sums run over 16 lanes (element i into lane i mod 16, ascending), then by halving, as in native/rows.hpp.
#include "grid.cuh"

constexpr int kMostExperts = 1024;

extern "C" __global__ void __launch_bounds__(128) add_rms_norm(NormArgs a) {
  __shared__ float lanes[8][16];
  const int lane = threadIdx.x % 16, own = threadIdx.x / 16;
  const i64 r = (i64)blockIdx.x * 8 + own, H = a.H;
  const bool here = r < a.rows;
  float squares = 0.0f;
  if (here)
    for (i64 i = lane; i < H; i += 16) {
      float v = a.x[r * H + i];
      if (a.delta) {
        v = v + a.delta[r * H + i];
        a.sum[r * H + i] = v;
      }
      squares = fma1(v, v, squares);
    }
  lanes[own][lane] = squares;
  halve(lanes[own], lane);
  if (!here) return;
  const float inv = 1.0f / canon::sqrt(lanes[own][0] / (float)H + a.eps);
  const float* row = (a.delta ? a.sum : a.x) + r * H;
  for (i64 i = lane; i < H; i += 16) a.y[r * H + i] = row[i] * inv * a.gain[i];
  if (lane == 0) a.inv_rms[r] = inv;
}

// dx of a row through y = x * inv * gain. Every thread of the block calls it.
TS_FN void norm_row_backward(const float* x, const float* gain, float inv, const float* d_sum, const float* dy, i64 H, float* dx,
                             float* xhat, float* lanes, int lane, bool here) {
  float dot = 0.0f;
  if (here) for (i64 i = lane; i < H; i += 16) dot = fma1(dy[i] * gain[i], x[i], dot);
  lanes[lane] = dot;
  halve(lanes, lane);
  if (!here) return;
  const float coef = lanes[0] * inv * inv * inv / (float)H;
  for (i64 i = lane; i < H; i += 16) {
    const float xi = x[i];
    float v = dy[i] * gain[i] * inv - xi * coef;
    if (d_sum) v = d_sum[i] + v;
    dx[i] = v;
    if (xhat) xhat[i] = xi * inv;
  }
}

extern "C" __global__ void __launch_bounds__(128) rms_norm_backward(NormBackArgs a) {
  __shared__ float lanes[8][16];
  const int lane = threadIdx.x % 16, own = threadIdx.x / 16;
  const i64 at = (i64)blockIdx.x * 8 + own, r = at < a.rows ? at : a.rows - 1;
  norm_row_backward(a.x + r * a.H, a.gain, a.inv_rms[r], a.d_sum ? a.d_sum + r * a.H : nullptr, a.dy + r * a.H, a.H,
                    a.dx + r * a.H, a.xhat ? a.xhat + r * a.H : nullptr, lanes[own], lane, at < a.rows);
}

TS_FN float inverse_rms(const float* x, i64 H, float eps, float* lanes, int lane) {
  float squares = 0.0f;
  for (i64 i = lane; i < H; i += 16) squares = fma1(x[i], x[i], squares);
  lanes[lane] = squares;
  halve(lanes, lane);
  const float inv = 1.0f / canon::sqrt(lanes[0] / (float)H + eps);
  __syncthreads();
  return inv;
}

// 16 lanes a (row, head), eight of them a block. Backward turns the other way, and goes through the norms.
template <bool Backward>
__device__ void rotate_heads(const RotateArgs& a) {
  __shared__ float lanes[8][16], work[8][kMostD];
  const int lane = threadIdx.x % 16, own = threadIdx.x / 16;
  const i64 heads = a.q_heads + 2 * a.kv_heads, d = a.d, half = d / 2;
  i64 at = (i64)blockIdx.x * 8 + own;
  const bool here = at < a.rows * heads;
  if (!here) at = a.rows * heads - 1;
  const i64 r = at / heads, h = at % heads;
  const bool turns = h < a.q_heads + a.kv_heads, is_q = h < a.q_heads;
  const float* gain = !turns ? nullptr : is_q ? a.q_gain : a.k_gain;
  const bool normed = a.q_gain != nullptr;  // as for every block: barriers are for all
  const float* x = a.x + r * a.x_rs + h * d;
  const float* from = Backward ? a.dy + r * a.dy_rs + h * d : x;
  float* to = a.y + r * a.y_rs + h * d;
  const float* c = a.cos + a.pos[r] * half;
  const float* s = a.sin + a.pos[r] * half;
  float inv = 0.0f;
  if (normed) inv = inverse_rms(x, d, a.eps, lanes[own], lane);
  for (i64 i = lane; i < half; i += 16) {
    float x1 = from[i], x2 = from[half + i];
    if (!Backward && gain) {
      x1 = x1 * inv * gain[i];
      x2 = x2 * inv * gain[half + i];
    }
    const float w = s[i] * (Backward ? -1.0f : 1.0f);
    work[own][i] = turns ? x1 * c[i] - x2 * w : x1;
    work[own][half + i] = turns ? x2 * c[i] + x1 * w : x2;
  }
  __syncthreads();
  if (Backward && normed) {
    float* rows = !turns ? nullptr : is_q ? a.dgain_q : a.dgain_k;
    float* out = rows ? rows + (is_q ? r * a.q_heads + h : r * a.kv_heads + h - a.q_heads) * d : nullptr;
    norm_row_backward(x, gain ? gain : x, inv, nullptr, work[own], d, to, out, lanes[own], lane, here && gain != nullptr);
    if (here && out) for (i64 i = lane; i < d; i += 16) out[i] = work[own][i] * out[i];
    if (gain) return;
  }
  if (here) for (i64 i = lane; i < d; i += 16) to[i] = work[own][i];
}
extern "C" __global__ void __launch_bounds__(128) rotate(RotateArgs a) { rotate_heads<false>(a); }
extern "C" __global__ void __launch_bounds__(128) rotate_backward(RotateArgs a) { rotate_heads<true>(a); }

extern "C" __global__ void silu_gate(GateArgs a) {  // rows [gate | up]
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, I = a.I;
  if (at >= a.rows * I) return;
  const i64 r = at / I, i = at % I;
  const float g = a.gate_up[r * 2 * I + i], u = a.gate_up[r * 2 * I + I + i];
  a.out[at] = g / (1.0f + exp1(0.0f - g)) * u;
}

extern "C" __global__ void silu_gate_backward(GateArgs a) {
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, I = a.I;
  if (at >= a.rows * I) return;
  const i64 r = at / I, i = at % I;
  const float g = a.gate_up[r * 2 * I + i], u = a.gate_up[r * 2 * I + I + i], d = a.dy[at];
  const float sig = 1.0f / (1.0f + exp1(0.0f - g));
  a.out[r * 2 * I + i] = d * u * (sig * fma1(g, 1.0f - sig, 1.0f));
  a.out[r * 2 * I + I + i] = d * (g * sig);
}

extern "C" __global__ void scale_bias(ScaleArgs a) {
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= a.rows * a.N) return;
  const i64 n = at % a.N;
  float* y = a.y + at / a.N * a.y_rs + n;
  float v = *y;
  if (a.scale) v = v * a.scale[n];
  if (a.bias) v = v + a.bias[n];
  *y = v;
}

extern "C" __global__ void __launch_bounds__(64) column_chain(ColumnArgs a) {
  const i64 n = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= a.N || a.num_chains == 0) return;
  float kept[24], acc = 0.0f;
  int depth = 0;
  for (i64 c = 0; c < a.num_chains; c++) {
    const Chain now = a.chains[c];
    acc = 0.0f;
    for (i64 t = now.k0; t < now.k1; t++) acc = fma1(a.x[t * a.rs_x + n], a.y ? a.y[t * a.rs_y + n] : 1.0f, acc);
    for (int i = 0; i < now.merged; i++) acc = kept[--depth] + acc;
    kept[depth++] = acc;
  }
  a.acc[n] = a.acc[n] + acc;
}

// A block an id: its rows in order, a sum for each segment, the segments' by their tree.
extern "C" __global__ void __launch_bounds__(128) embed_backward(EmbedArgs a) {
  for (i64 h = threadIdx.x; h < a.H; h += 128) {
    float kept[24], acc = 0.0f;
    int depth = 0;
    for (i64 c = a.chain_begin[blockIdx.x]; c < a.chain_begin[blockIdx.x + 1]; c++) {
      const Chain now = a.chains[c];
      acc = 0.0f;
      for (i64 i = now.k0; i < now.k1; i++) acc = acc + a.dy[a.order[i] * a.rs + h];
      for (int i = 0; i < now.merged; i++) acc = kept[--depth] + acc;
      kept[depth++] = acc;
    }
    float* to = a.into + a.ids[blockIdx.x] * a.H + h;
    *to = *to + acc;
  }
}

extern "C" __global__ void __launch_bounds__(128) row_dots(DotsArgs a) {
  __shared__ float lanes[8][16];
  const int lane = threadIdx.x % 16, own = threadIdx.x / 16;
  const i64 r = (i64)blockIdx.x * 8 + own;
  float dot = 0.0f;
  if (r < a.rows) for (i64 i = lane; i < a.N; i += 16) dot = fma1(a.x[r * a.x_rs + i], a.y[r * a.y_rs + i], dot);
  lanes[own][lane] = dot;
  halve(lanes[own], lane);
  if (r < a.rows && lane == 0) a.out[r] = lanes[own][0];
}

// ---- a mixture's routes, a block a row: shares by all threads, every sum by one, over experts ascending (mixture.hpp)
TS_FN float largest_logit(const float* row, i64 E) {
  float top = row[0];
  for (i64 e = 1; e < E; e++) top = row[e] > top ? row[e] : top;
  return top;
}

TS_FN void shares_of(const float* row, i64 E, float top, float* shares) {
  for (i64 e = threadIdx.x; e < E; e += blockDim.x) shares[e] = exp1(row[e] - top);
  __syncthreads();
}

TS_FN float sum_of(const float* shares, i64 E) {
  float total = 0.0f;
  for (i64 e = 0; e < E; e++) total = total + shares[e];
  return total;
}

extern "C" __global__ void __launch_bounds__(128) route(RouteArgs a) {
  __shared__ float shares[kMostExperts];
  __shared__ bool taken[kMostExperts];
  const float* row = a.logits + blockIdx.x * a.E;
  i64* chosen = a.experts + blockIdx.x * a.active;
  for (i64 e = threadIdx.x; e < a.E; e += blockDim.x) taken[e] = false;
  shares_of(row, a.E, largest_logit(row, a.E), shares);
  if (threadIdx.x != 0) return;
  for (i64 i = 0; i < a.active; i++) {  // ties to the lower expert; a NaN is larger than nothing
    i64 best = -1;
    for (i64 e = 0; e < a.E; e++)
      if (!taken[e] && (best < 0 || row[e] > row[best])) best = e;
    taken[best] = true;
  }
  for (i64 e = 0, i = 0; e < a.E; e++)
    if (taken[e]) chosen[i++] = e;
  float total = 0.0f;
  if (a.normalised) for (i64 i = 0; i < a.active; i++) total = total + shares[chosen[i]];
  else total = sum_of(shares, a.E);
  for (i64 i = 0; i < a.active; i++) a.weights[blockIdx.x * a.active + i] = shares[chosen[i]] / total;
}

extern "C" __global__ void __launch_bounds__(128) route_backward(RouteArgs a) {
  __shared__ float shares[kMostExperts];
  const float* row = a.logits + blockIdx.x * a.E;
  const i64* chosen = a.experts + blockIdx.x * a.active;
  const float* w = a.weights + blockIdx.x * a.active;
  const float* dw = a.d_weights + blockIdx.x * a.active;
  float* out = a.out + blockIdx.x * a.E;
  float dot = 0.0f;
  for (i64 i = 0; i < a.active; i++) dot = dot + dw[i] * w[i];
  if (!a.normalised) shares_of(row, a.E, largest_logit(row, a.E), shares);
  const float total = a.normalised ? 1.0f : sum_of(shares, a.E);
  for (i64 e = threadIdx.x; e < a.E; e += blockDim.x) out[e] = a.normalised ? 0.0f : 0.0f - shares[e] / total * dot;
  __syncthreads();
  if (threadIdx.x == 0) for (i64 i = 0; i < a.active; i++) out[chosen[i]] = w[i] * (dw[i] - dot);
}

extern "C" __global__ void __launch_bounds__(128) row_entropies(RouteArgs a) {
  __shared__ float shares[kMostExperts];
  const float* row = a.logits + blockIdx.x * a.E;
  const float top = largest_logit(row, a.E);
  shares_of(row, a.E, top, shares);
  if (threadIdx.x != 0) return;
  const float total = sum_of(shares, a.E);
  float dot = 0.0f;
  for (i64 e = 0; e < a.E; e++) dot = dot + (shares[e] == 0.0f ? 0.0f : shares[e] * (row[e] - top));
  a.out[blockIdx.x] = total == total ? log1(total) - dot / total : total;  // log would hide a NaN
}
