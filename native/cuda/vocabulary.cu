// What is read of logits: statistics of rows, log-probabilities and their gradient, and the sampling law.
#include "grid.cuh"

constexpr int kThreads = 256, kChunk = 1024;

// Largest of row / t, and ln of the sum of exp(row / t - largest); the sum runs over 16 lanes.
TS_FN void statistics(const float* row, i64 V, float t, float* work, float& top, float& log_sum) {
  const int tid = threadIdx.x;
  float best = -3.0e38f;
  for (i64 i = tid; i < V; i += kThreads) {
    const float x = row[i] / t;
    best = x > best ? x : best;
  }
  work[tid] = best;
  for (int half = kThreads / 2; half >= 1; half /= 2) {
    __syncthreads();
    if (tid < half) work[tid] = work[tid + half] > work[tid] ? work[tid + half] : work[tid];
  }
  __syncthreads();
  top = work[0];
  __syncthreads();
  float sum = 0.0f;
  for (i64 base = 0; base < V; base += kChunk) {
    for (int j = tid; j < kChunk; j += kThreads) work[j] = base + j < V ? exp1(row[base + j] / t - top) : 0.0f;
    __syncthreads();
    const i64 left = V - base;
    const int count = left < kChunk ? (int)((left + 15) / 16) : kChunk / 16;
    if (tid < 16) for (int j = 0; j < count; j++) sum = sum + work[16 * j + tid];
    __syncthreads();
  }
  if (tid < 16) work[tid] = sum;
  halve(work, tid);
  const float total = work[0];
  log_sum = total == total ? log1(total) : total;  // log is for positive numbers: it would hide a NaN
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256) row_stats(StatsArgs a) {
  __shared__ float work[kChunk];
  float top, log_sum;
  statistics(a.x + blockIdx.x * a.V, a.V, a.temperature, work, top, log_sum);
  if (threadIdx.x == 0) {
    a.top[blockIdx.x] = top;
    a.log_sum[blockIdx.x] = log_sum;
  }
}

// How many of the tokens in `order` top-k and then top-p leave: masses in fp64, added in that order.
TS_FN i64 left_over(const ChooseArgs& a, const float* row, const i64* order, float t, float top, float log_sum, float* work) {
  const i64 at = blockIdx.x, top_k = a.top_ks[at], within = top_k > 0 && top_k < a.V ? top_k : a.V;
  const double top_p = a.top_ps[at];
  if (!(top_p < 1.0)) return within;
  double total = 0.0, mass = 0.0;
  i64 n = 0;
  for (int pass = 0; pass < 2; pass++)
    for (i64 base = 0; base < within; base += kChunk) {
      __syncthreads();
      for (int j = threadIdx.x; j < kChunk && base + j < within; j += kThreads)
        work[j] = exp1(row[order[base + j]] / t - top - log_sum);
      __syncthreads();
      for (i64 j = 0; j < kChunk && base + j < within; j++) {  // every thread adds the same
        if (pass == 0) total = total + (double)work[j];
        else if (mass < top_p * total) mass = mass + (double)work[j], n = base + j + 1;
      }
    }
  return n > 1 ? n : 1;
}

extern "C" __global__ void __launch_bounds__(256) choose_row(ChooseArgs a) {
  __shared__ float work[kChunk];
  __shared__ double scores[kThreads];
  __shared__ i64 best_of[kThreads];
  const int tid = threadIdx.x;
  const i64 at = blockIdx.x, V = a.V;
  const float* row = a.logits + a.rows[at] * V;
  const i64* order = a.order ? a.order + at * V : nullptr;
  const float asked = a.temperatures[at], t = asked == 0.0f ? 1.0f : asked;
  float top, log_sum;
  statistics(row, V, t, work, top, log_sum);
  if (!(log_sum == log_sum)) {  // a NaN or an infinity among the logits: no distribution to draw from
    if (tid == 0) {
      a.tokens[at] = -1;
      a.logprobs[at] = log_sum;
    }
    return;
  }
  const u64 key = canon::philox(a.seeds[at], (u64)a.samples[at], (u64)a.positions[at]);
  if (asked == 0.0f) order = nullptr;
  const i64 count = order ? left_over(a, row, order, t, top, log_sum, work) : V;
  i64 best = -1;
  double score = 0.0;
  for (i64 i = tid; i < count; i += kThreads) {
    const i64 v = order ? order[i] : i;
    const double s = asked == 0.0f ? (double)row[v] : (double)(row[v] / t) + canon::gumbel(key, v);
    if (best < 0 || s > score || (s == score && v < best)) {
      best = v;
      score = s;
    }
  }
  scores[tid] = score;
  best_of[tid] = best;
  for (int half = kThreads / 2; half >= 1; half /= 2) {
    __syncthreads();
    if (tid < half) {
      const i64 b = best_of[tid + half];
      const double s = scores[tid + half];
      if (b >= 0 && (best_of[tid] < 0 || s > scores[tid] || (s == scores[tid] && b < best_of[tid]))) {
        scores[tid] = s;
        best_of[tid] = b;
      }
    }
  }
  __syncthreads();
  if (tid == 0) {
    const i64 v = best_of[0];
    a.tokens[at] = (int)v;
    a.logprobs[at] = (row[v] / t - top) - log_sum;
  }
}

// The log-probabilities of k tokens of each row, at the row's own temperature.
extern "C" __global__ void __launch_bounds__(256) ranked_logprobs(RankedArgs a) {
  __shared__ float work[kChunk];
  const i64 at = blockIdx.x;
  const float* row = a.logits + a.rows[at] * a.V;
  const float t = a.temperatures[at] == 0.0f ? 1.0f : a.temperatures[at];
  float top, log_sum;
  statistics(row, a.V, t, work, top, log_sum);
  for (i64 j = threadIdx.x; j < a.k; j += kThreads)
    a.logprobs[at * a.k + j] = (row[a.tokens[at * a.k + j]] / t - top) - log_sum;
}

extern "C" __global__ void gather_logprobs(GatherArgs a) {
  const i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= a.count) return;
  const i64 r = a.rows ? a.rows[i] : i;
  a.out[i] = (a.logits[r * a.V + a.targets[i]] / 1.0f - a.top[r]) - a.log_sum[r];
}

extern "C" __global__ void __launch_bounds__(256) logprob_backward(LogprobBackArgs a) {
  const i64 r = blockIdx.x, V = a.V, begin = a.reads[r], end = a.reads[r + 1];
  float total = a.g[begin];
  for (i64 i = begin + 1; i < end; i++) total = total + a.g[i];
  const float top = a.top[r], log_sum = a.log_sum[r];
  float* out = a.d_logits + r * V;
  for (i64 j = threadIdx.x; j < V; j += kThreads) out[j] = 0.0f - total * exp1(a.logits[r * V + j] - top - log_sum);
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (i64 i = begin; i < end; i++) {  // a target's gradients are summed first
    i64 before = begin;
    while (before < i && a.targets[before] != a.targets[i]) before++;
    if (before < i) continue;
    float sum = a.g[i];
    for (i64 j = i + 1; j < end; j++)
      if (a.targets[j] == a.targets[i]) sum = sum + a.g[j];
    out[a.targets[i]] = out[a.targets[i]] + sum;
  }
}
