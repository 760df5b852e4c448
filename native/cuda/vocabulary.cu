// What is read of logits: statistics of rows, log-probabilities and their gradient, and the sampling law.
#include "grid.cuh"

constexpr int kThreads = 256, kPart = 1024;

// Largest of row / t, and ln of the sum of exp(row / t - largest); the sum runs over 16 lanes.
TS_FN void statistics(const float* row, i64 V, float t, float* work, float& top, float& log_sum) {
  const int tid = threadIdx.x;
  float best = -3.0e38f;
  for (i64 i = tid; i < V; i += kThreads) {
    const float x = row[i] / t;
    best = x > best ? x : best;
  }
  work[tid] = best;
  by_halves(kThreads, tid, [&](int i, int j) { work[i] = work[j] > work[i] ? work[j] : work[i]; });
  top = work[0];
  __syncthreads();
  float sum = 0.0f;
  for (i64 base = 0; base < V; base += kPart) {
    for (int j = tid; j < kPart; j += kThreads) work[j] = base + j < V ? exp1(row[base + j] / t - top) : 0.0f;
    __syncthreads();
    const i64 left = V - base;
    const int count = left < kPart ? (int)((left + 15) / 16) : kPart / 16;
    if (tid < 16) for (int j = 0; j < count; j++) sum = sum + work[16 * j + tid];
    __syncthreads();
  }
  if (tid < 16) work[tid] = sum;
  halve(work, tid);
  const float total = work[0];
  log_sum = total == total ? log1(total) : total;  // log is for positive numbers: it would hide a NaN
  __syncthreads();
}

TS_KERNEL(row_stats, StatsArgs, 256) {
  __shared__ float work[kPart];
  float top, log_sum;
  statistics(a.x + blockIdx.x * a.V, a.V, a.temperatures ? a.temperatures[blockIdx.x] : a.temperature, work, top, log_sum);
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
    for (i64 base = 0; base < within; base += kPart) {
      __syncthreads();
      for (int j = threadIdx.x; j < kPart && base + j < within; j += kThreads)
        work[j] = exp1(row[order[base + j]] / t - top - log_sum);
      __syncthreads();
      for (i64 j = 0; j < kPart && base + j < within; j++) {  // every thread adds the same
        if (pass == 0) total = total + (double)work[j];
        else if (mass < top_p * total) mass = mass + (double)work[j], n = base + j + 1;
      }
    }
  return n > 1 ? n : 1;
}

TS_KERNEL(choose_row, ChooseArgs, 256) {
  __shared__ float work[kPart];
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
  double& score = scores[tid];
  i64& best = best_of[tid];
  const auto offer = [&](i64 v, double s) {  // the larger score, ties to the lower id
    if (v >= 0 && (best < 0 || s > score || (s == score && v < best))) best = v, score = s;
  };
  best = -1;
  for (i64 i = tid; i < count; i += kThreads) {
    const i64 v = order ? order[i] : i;
    offer(v, asked == 0.0f ? (double)row[v] : (double)(row[v] / t) + canon::gumbel(key, v));
  }
  by_halves(kThreads, tid, [&](int, int j) { offer(best_of[j], scores[j]); });
  if (tid == 0) {
    const i64 v = best_of[0];
    a.tokens[at] = (int)v;
    a.logprobs[at] = (row[v] / t - top) - log_sum;
  }
}

TS_EACH(gather_logprobs, GatherArgs, a.count) {  // each target in its row, or k targets a row
  const i64 r = a.rows ? a.rows[at] : at / a.k;
  a.out[at] = (a.logits[r * a.V + a.targets[at]] / (a.temperatures ? a.temperatures[r] : 1.0f) - a.top[r]) - a.log_sum[r];
}

TS_KERNEL(logprob_backward, LogprobBackArgs, 256) {
  const i64 r = blockIdx.x, V = a.V, begin = a.reads[r], end = a.reads[r + 1];
  float total = a.g[begin];
  for (i64 i = begin + 1; i < end; i++) total = total + a.g[i];
  const float top = a.top[r], log_sum = a.log_sum[r];
  float* out = a.d_logits + r * V;
  for (i64 j = threadIdx.x; j < V; j += kThreads) out[j] = 0.0f - total * exp1(a.logits[r * V + j] - top - log_sum);
  __syncthreads();
  if (threadIdx.x == 0) canon::add_targets(out, a.g, a.targets, begin, end);
}
