// Rows: norms, rotation, gate, scales, column sums, the embedding's gradient, and a mixture's routes.
//
// A row's sums run over 16 lanes (element i into lane i mod 16, ascending), then by halving, as in native/rows.hpp.
#include "grid.cuh"

constexpr int kMostExperts = 1024;

TS_FN float inverse_rms(float squares, i64 n, float eps) { return 1.0f / canon::sqrt(squares / (float)n + eps); }

TS_LANES(add_rms_norm, NormArgs) {
  const i64 H = a.H, from = row_of() * H, mine = row_of() < a.rows ? H : 0;
  const float* row = (a.delta ? a.sum : a.x) + from;
  const float squares = over_lanes(mine, [&](float sum, i64 i) {
    if (a.delta) a.sum[from + i] = a.x[from + i] + a.delta[from + i];
    return fma1(row[i], row[i], sum);
  });
  const float inv = inverse_rms(squares, H, a.eps);
  for (i64 i = lane_of(); i < mine; i += 16) a.y[from + i] = row[i] * inv * a.gain[i];
  if (mine && lane_of() == 0) a.inv_rms[row_of()] = inv;
}

// dx of a row of n through y = x * inv * gain. Every thread of the block calls it.
TS_FN void norm_row_backward(const float* x, const float* gain, float inv, const float* d_sum, const float* dy, i64 n, float* dx,
                             float* xhat, i64 width) {
  const float dot = over_lanes(n, [&](float sum, i64 i) { return fma1(dy[i] * gain[i], x[i], sum); });
  const float coef = dot * inv * inv * inv / (float)width;
  for (i64 i = lane_of(); i < n; i += 16) {
    const float xi = x[i], v = dy[i] * gain[i] * inv - xi * coef;
    dx[i] = d_sum ? d_sum[i] + v : v;
    if (xhat) xhat[i] = xi * inv;
  }
}

TS_LANES(rms_norm_backward, NormBackArgs) {
  const bool here = row_of() < a.rows;
  const i64 r = here ? row_of() : 0, from = r * a.H;
  norm_row_backward(a.x + from, a.gain, a.inv_rms[r], a.d_sum ? a.d_sum + from : nullptr, a.dy + from, here ? a.H : 0,
                    a.dx + from, a.xhat ? a.xhat + from : nullptr, a.H);
}

TS_LANES(row_dots, DotsArgs) {
  const i64 r = row_of();
  const float* x = a.x + r * a.x_rs;
  const float* y = a.y + r * a.y_rs;
  const float dot = over_lanes(r < a.rows ? a.N : 0, [&](float sum, i64 i) { return fma1(x[i], y[i], sum); });
  if (r < a.rows && lane_of() == 0) a.out[r] = dot;
}

// A head a row of lanes. With dy it turns the other way, and goes back through the norms.
TS_LANES(rotate, RotateArgs) {
  __shared__ float turned[8][kMostD];
  float* work = turned[threadIdx.x / 16];
  const i64 heads = a.q_heads + 2 * a.kv_heads, d = a.d, half = d / 2, lane = lane_of();
  const bool here = row_of() < a.rows * heads, normed = a.q_gain != nullptr;  // of every head: barriers are for all
  const i64 r = here ? row_of() / heads : 0, h = here ? row_of() % heads : 0;
  const bool turns = h < a.q_heads + a.kv_heads, is_q = h < a.q_heads;
  const float* gain = !turns ? nullptr : is_q ? a.q_gain : a.k_gain;
  const float* x = a.x + r * a.x_rs + h * d;
  const float* from = a.dy ? a.dy + r * a.dy_rs + h * d : x;
  float* to = a.y + r * a.y_rs + h * d;
  const float* c = a.cos + a.pos[r] * half;
  const float* s = a.sin + a.pos[r] * half;
  float inv = 0.0f;
  if (normed) inv = inverse_rms(over_lanes(d, [&](float sum, i64 i) { return fma1(x[i], x[i], sum); }), d, a.eps);
  for (i64 i = lane; i < half; i += 16) {
    float x1 = from[i], x2 = from[half + i];
    if (!a.dy && gain) {
      x1 = x1 * inv * gain[i];
      x2 = x2 * inv * gain[half + i];
    }
    const float w = s[i] * (a.dy ? -1.0f : 1.0f);
    work[i] = turns ? x1 * c[i] - x2 * w : x1;
    work[half + i] = turns ? x2 * c[i] + x1 * w : x2;
  }
  __syncthreads();
  if (a.dy && normed) {
    float* rows = !turns ? nullptr : is_q ? a.dgain_q : a.dgain_k;
    float* out = rows ? rows + (is_q ? r * a.q_heads + h : r * a.kv_heads + h - a.q_heads) * d : nullptr;
    norm_row_backward(x, gain, inv, nullptr, work, here && gain ? d : 0, to, out, d);
    if (here && out) for (i64 i = lane; i < d; i += 16) out[i] = work[i] * out[i];
    if (gain) return;
  }
  if (here) for (i64 i = lane; i < d; i += 16) to[i] = work[i];
}

TS_EACH(silu_gate, GateArgs, a.rows * a.I) {  // rows [gate | up]; with dy, their gradient
  const i64 gate = at / a.I * 2 * a.I + at % a.I, up = gate + a.I;
  const float g = a.gate_up[gate], u = a.gate_up[up], below = 1.0f + exp1(0.0f - g);
  if (!a.dy) {
    a.out[at] = g / below * u;
    return;
  }
  const float d = a.dy[at], sig = 1.0f / below;
  a.out[gate] = d * u * (sig * fma1(g, 1.0f - sig, 1.0f));
  a.out[up] = d * (g * sig);
}

TS_EACH(scale_bias, ScaleArgs, a.rows * a.N) {
  const i64 n = at % a.N;
  float* y = a.y + at / a.N * a.y_rs + n;
  const float v = a.scale ? *y * a.scale[n] : *y;
  *y = a.bias ? v + a.bias[n] : v;
}

TS_EACH(column_chain, ColumnArgs, a.num_chains ? a.N : 0) {
  a.acc[at] = a.acc[at] + over_chains(a.chains, a.num_chains, [&](float sum, int k) {
    return fma1(a.x[k * a.x_rs + at], a.y ? a.y[k * a.y_rs + at] : 1.0f, sum);
  });
}

// A block an id: its rows in order, a sum for each segment, the segments' by their tree.
TS_KERNEL(embed_backward, EmbedArgs, 128) {
  const i64 begin = a.chain_begin[blockIdx.x], count = a.chain_begin[blockIdx.x + 1] - begin;
  for (i64 h = threadIdx.x; h < a.H; h += 128) {
    float* to = a.into + a.ids[blockIdx.x] * a.H + h;
    *to = *to + over_chains(a.chains + begin, count, [&](float sum, int k) { return sum + a.dy[a.order[k] * a.dy_rs + h]; });
  }
}

// ---- a mixture's routes, a block a row: shares by all threads, every sum by one
TS_FN float shares_of(const float* row, i64 E, float* shares) {
  float top = row[0];
  for (i64 e = 1; e < E; e++) top = row[e] > top ? row[e] : top;
  for (i64 e = threadIdx.x; e < E; e += blockDim.x) shares[e] = exp1(row[e] - top);
  __syncthreads();
  return top;
}
TS_KERNEL(route, RouteArgs, 128) {
  __shared__ float shares[kMostExperts];
  __shared__ bool taken[kMostExperts];
  const float* row = a.logits + blockIdx.x * a.E;
  const i64 to = blockIdx.x * a.active;
  shares_of(row, a.E, shares);
  if (threadIdx.x == 0) canon::route(row, shares, a.E, a.active, a.normalised, taken, a.experts + to, a.weights + to);
}

TS_KERNEL(route_backward, RouteArgs, 128) {
  __shared__ float shares[kMostExperts];
  const i64* chosen = a.experts + blockIdx.x * a.active;
  const float* w = a.weights + blockIdx.x * a.active;
  const float* dw = a.d_weights + blockIdx.x * a.active;
  float* out = a.out + blockIdx.x * a.E;
  float dot = 0.0f;
  for (i64 i = 0; i < a.active; i++) dot = dot + dw[i] * w[i];
  shares_of(a.logits + blockIdx.x * a.E, a.E, shares);
  const float total = canon::sum_of(shares, a.E);
  for (i64 e = threadIdx.x; e < a.E; e += blockDim.x) out[e] = a.normalised ? 0.0f : 0.0f - shares[e] / total * dot;
  __syncthreads();
  if (threadIdx.x == 0) for (i64 i = 0; i < a.active; i++) out[chosen[i]] = w[i] * (dw[i] - dot);
}

TS_KERNEL(row_entropies, RouteArgs, 128) {
  __shared__ float shares[kMostExperts];
  const float* row = a.logits + blockIdx.x * a.E;
  const float top = shares_of(row, a.E, shares);
  if (threadIdx.x == 0) a.out[blockIdx.x] = canon::entropy(row, shares, a.E, top);
}
