// Causal attention over paged keys, forward and backward, in the order of native/attention.hpp.
//
// Scores are chains over d; the largest is taken first (so scores are computed twice), then weights, their sum over 16
// lanes by key, and one chain over keys, ascending. Masked keys weigh exactly +0, so that a tile may hold any of them.
#include "grid.cuh"

constexpr int kKeys = 64, kColumns = kMostD / 16;

extern "C" __global__ void store_slots(StoreArgs a) {  // by slot: which row's key and value lies there
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, per = a.kv_heads * a.d;
  if (at >= a.count * per) return;
  const i64 slot = at / per, h = at % per / a.d, i = at % a.d, row = a.row_of_slot[slot];
  if (row < 0) return;
  const float* k = a.qkv + row * a.rs + (a.heads + h) * a.d + i;
  a.k_pages[((slot / 16 * a.kv_heads + h) * a.d + i) * 16 + slot % 16] = k[0];
  a.v_pages[(slot / 16 * a.kv_heads + h) * 16 * a.d_pad + slot % 16 * a.d_pad + i] = k[a.kv_heads * a.d];
}

extern "C" __global__ void store_rows(StoreArgs a) {  // by row: its sequence's page table says where
  const i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x, per = a.kv_heads * a.d;
  if (at >= a.count * per) return;
  const i64 row = at / per, h = at % per / a.d, i = at % a.d;
  i64 low = 0, high = a.sequences;  // the last sequence that begins at or before the row
  while (high - low > 1) {
    const i64 middle = (low + high) / 2;
    if (a.row_begin[middle] <= row) low = middle;
    else high = middle;
  }
  const i64 pos = a.first_pos[low] + row - a.row_begin[low], page = a.table[low * a.table_rs + pos / 16];
  const float* k = a.qkv + row * a.rs + (a.heads + h) * a.d + i;
  a.k_pages[((page * a.kv_heads + h) * a.d + i) * 16 + pos % 16] = k[0];
  a.v_pages[(page * a.kv_heads + h) * 16 * a.d_pad + pos % 16 * a.d_pad + i] = k[a.kv_heads * a.d];
}

// A block: 16 P (query row, head of the group) pairs of one sequence and kv head. A thread: P pairs, and of each page of
// keys the one of its lane.
template <int P>
__device__ void attend(const AttentionArgs& a) {
  constexpr int kPairs = 16 * P, kChunk = 32, kPages = kKeys / 16;
  __shared__ float q[kChunk][kPairs + 1], k[kChunk][kKeys], s[kPairs][kKeys + 1], lanes[kPairs][16], v[16][kMostD];
  const int tid = threadIdx.x, lane = tid % 16, own = tid / 16 * P;
  const i64 seq = blockIdx.y, kv_head = blockIdx.z, group = a.heads / a.kv_heads, d = a.d;
  const i64 begin = a.row_begin[seq], count = (a.row_begin[seq + 1] - begin) * group, base = a.first_pos[seq];
  const i64 pair0 = (i64)blockIdx.x * kPairs;
  if (pair0 >= count) return;
  const i64 last_pair = (pair0 + kPairs < count ? pair0 + kPairs : count) - 1;
  const i64 keys = base + last_pair / group + 1;  // that any pair of the block sees
  const auto row_of = [&](int p) { return begin + (pair0 + p < count ? pair0 + p : count - 1) / group; };
  const auto head_of = [&](int p) { return kv_head * group + (pair0 + p < count ? pair0 + p : count - 1) % group; };
  const auto page_of = [&](i64 key) { return (i64)a.table[seq * a.table_rs + key / 16] * a.kv_heads + kv_head; };
  i64 visible[P];
  for (int p = 0; p < P; p++) visible[p] = base + row_of(own + p) - begin + 1;
  float score[P][kPages];
  const auto scores = [&](i64 key0) {
    for (int p = 0; p < P; p++) for (int i = 0; i < kPages; i++) score[p][i] = 0.0f;
    for (i64 d0 = 0; d0 < d; d0 += kChunk) {
      const int width = d - d0 < kChunk ? (int)(d - d0) : kChunk;
      __syncthreads();
      for (int e = tid; e < kPairs * kChunk; e += 256) {
        const int p = e / kChunk, i = e % kChunk;
        if (i < width) q[i][p] = a.q[row_of(p) * a.q_rs + head_of(p) * d + d0 + i] * a.scale;
      }
      for (int e = tid; e < kKeys * kChunk; e += 256) {
        const int page = e / (16 * kChunk), i = e / 16 % kChunk;
        if (i < width && key0 + 16 * page < keys)
          k[i][16 * page + e % 16] = a.k_pages[(page_of(key0 + 16 * page) * d + d0 + i) * 16 + e % 16];
      }
      __syncthreads();
      for (int i = 0; i < width; i++)
#pragma unroll
        for (int p = 0; p < P; p++)
#pragma unroll
          for (int page = 0; page < kPages; page++)
            score[p][page] = fma1(q[i][own + p], k[i][16 * page + lane], score[p][page]);
    }
  };
  float best[P], total[P], out[P][kColumns];
  for (int p = 0; p < P; p++) best[p] = canon::float_of(0xFF800000u), total[p] = 0.0f;
  for (i64 key0 = 0; key0 < keys; key0 += kKeys) {
    scores(key0);
    for (int p = 0; p < P; p++)
      for (int i = 0; i < kPages; i++)
        if (key0 + 16 * i + lane < visible[p]) best[p] = score[p][i] > best[p] ? score[p][i] : best[p];
  }
  for (int p = 0; p < P; p++) lanes[own + p][lane] = best[p];
  __syncthreads();
  for (int p = 0; p < P; p++)
    for (int i = 0; i < 16; i++) best[p] = lanes[own + p][i] > best[p] ? lanes[own + p][i] : best[p];
#pragma unroll
  for (int p = 0; p < P; p++)
#pragma unroll
    for (int c = 0; c < kColumns; c++) out[p][c] = 0.0f;
  for (i64 key0 = 0; key0 < keys; key0 += kKeys) {
    scores(key0);
    for (int p = 0; p < P; p++)
      for (int i = 0; i < kPages; i++) {
        const float e = key0 + 16 * i + lane < visible[p] ? exp1(score[p][i] - best[p]) : 0.0f;
        total[p] = total[p] + e;
        s[own + p][16 * i + lane] = e;
      }
    for (int page = 0; page < kPages && key0 + 16 * page < keys; page++) {
      const i64 first = key0 + 16 * page;
      const int most = keys - first < 16 ? (int)(keys - first) : 16;  // slots beyond the last key are never read
      __syncthreads();
      for (int e = tid; e < most * d; e += 256) v[e / d][e % d] = a.v_pages[(page_of(first) * 16 + e / d) * a.d_pad + e % d];
      __syncthreads();
      for (int j = 0; j < most; j++)
#pragma unroll
        for (int p = 0; p < P; p++)
#pragma unroll
          for (int c = 0; c < kColumns; c++)
            if (16 * c < d) out[p][c] = fma1(s[own + p][16 * page + j], v[j][16 * c + lane], out[p][c]);
    }
  }
  __syncthreads();
  for (int p = 0; p < P; p++) lanes[own + p][lane] = total[p];
  for (int p = 0; p < P; p++) halve(lanes[own + p], lane);
#pragma unroll
  for (int p = 0; p < P; p++) {
    if (pair0 + own + p >= count) continue;
    const i64 row = row_of(own + p), head = head_of(own + p);
    const float sum = lanes[own + p][0];
#pragma unroll
    for (int c = 0; c < kColumns; c++)
      if (16 * c + lane < d) a.out[row * a.out_rs + head * d + 16 * c + lane] = out[p][c] / sum;
    if (a.row_max && lane == 0) {
      a.row_max[row * a.heads + head] = best[p];
      a.row_sum[row * a.heads + head] = sum;
    }
  }
}
extern "C" __global__ void __launch_bounds__(256, 1) attention(AttentionArgs a) { attend<4>(a); }
extern "C" __global__ void __launch_bounds__(256) attention_few(AttentionArgs a) { attend<1>(a); }

// sum over d of dO * O, of every (row, head): 16 lanes each, eight a block.
extern "C" __global__ void __launch_bounds__(128) attention_delta(AttentionBackArgs a) {
  __shared__ float lanes[8][16];
  const int lane = threadIdx.x % 16, own = threadIdx.x / 16;
  const i64 at = (i64)blockIdx.x * 8 + own;
  const bool here = at < a.rows * a.heads;
  const i64 from = here ? at / a.heads * a.out_rs + at % a.heads * a.d : 0;
  float dot = 0.0f;
  if (here) for (i64 i = lane; i < a.d; i += 16) dot = fma1(a.d_out[from + i], a.out[from + i], dot);
  lanes[own][lane] = dot;
  halve(lanes[own], lane);
  if (here && lane == 0) a.delta[at] = lanes[own][0];
}

// Scores and dP of R query rows and 64 keys, each a chain over d; a thread has R / 16 rows from `first` on and the keys
// of its lane. A row or key below 0 is none.
template <int R>
struct Pairs {
  float q[16][R + 1], g[16][R + 1], k[16][kKeys + 1], v[16][kKeys + 1];
  i64 row[R], key[kKeys];
  __device__ void of(const AttentionBackArgs& a, i64 h, i64 kv, int tid, float (&s)[R / 16][4], float (&dp)[R / 16][4]) {
    const int lane = tid % 16, first = tid / 16 * (R / 16);
    for (int r = 0; r < R / 16; r++) for (int i = 0; i < 4; i++) s[r][i] = dp[r][i] = 0.0f;
    for (i64 d0 = 0; d0 < a.d; d0 += 16) {
      const int width = a.d - d0 < 16 ? (int)(a.d - d0) : 16;
      __syncthreads();
      for (int e = tid; e < 16 * R; e += 256) {
        const i64 r = row[e / 16], i = d0 + e % 16;
        const bool here = r >= 0 && e % 16 < width;
        q[e % 16][e / 16] = here ? a.q[r * a.rs + h * a.d + i] * a.scale : 0.0f;
        g[e % 16][e / 16] = here ? a.d_out[r * a.out_rs + h * a.d + i] : 0.0f;
      }
      for (int e = tid; e < 16 * kKeys; e += 256) {
        const i64 r = key[e / 16], i = d0 + e % 16;
        const bool here = r >= 0 && e % 16 < width;
        k[e % 16][e / 16] = here ? a.k[r * a.rs + kv * a.d + i] : 0.0f;
        v[e % 16][e / 16] = here ? a.v[r * a.rs + kv * a.d + i] : 0.0f;
      }
      __syncthreads();
      for (int i = 0; i < width; i++)
#pragma unroll
        for (int r = 0; r < R / 16; r++)
#pragma unroll
          for (int j = 0; j < 4; j++) {
            s[r][j] = fma1(q[i][first + r], k[i][16 * j + lane], s[r][j]);
            dp[r][j] = fma1(g[i][first + r], v[i][16 * j + lane], dp[r][j]);
          }
    }
  }
};

// dQ of up to 64 rows of one node, and one head: keys by position, a chain for each 128, added by the tree.
extern "C" __global__ void __launch_bounds__(256) attention_dq(AttentionBackArgs a) {
  __shared__ Pairs<64> pairs;
  __shared__ float ds[64][kKeys + 1], k[16][kMostD];
  const int tid = threadIdx.x, lane = tid % 16, own = tid / 16 * 4;
  const i64 r0 = a.tile_row[blockIdx.x], r1 = a.tile_end[blockIdx.x], h = blockIdx.y, d = a.d, kv = h / (a.heads / a.kv_heads);
  const i64* path = a.path + a.path_begin[blockIdx.x];
  const i64 seen = a.first_seen[r1 - 1] + 1;
  float top[4], inv[4], delta[4], s[4][4], dp[4][4], acc[4][kColumns], kept[12][4][kColumns];
  i64 last[4];  // the position of each row: the last key that it sees
  for (int r = 0; r < 4; r++) {
    const i64 row = r0 + own + r, at = row * a.heads + h;
    const bool here = row < r1;
    last[r] = here ? a.first_seen[row] : -1;
    top[r] = here ? a.row_max[at] : 0.0f;
    inv[r] = here ? 1.0f / a.row_sum[at] : 0.0f;
    delta[r] = here ? a.delta[at] : 0.0f;
    for (int c = 0; c < kColumns; c++) acc[r][c] = 0.0f;
  }
  if (tid < 64) pairs.row[tid] = r0 + tid < r1 ? r0 + tid : -1;
  for (i64 key0 = 0; key0 < seen; key0 += kKeys) {
    __syncthreads();
    if (tid < kKeys) pairs.key[tid] = key0 + tid < seen ? path[key0 + tid] : -1;
    __syncthreads();
    pairs.of(a, h, kv, tid, s, dp);
    for (int r = 0; r < 4; r++)
      for (int j = 0; j < 4; j++) {
        const float w = exp1(s[r][j] - top[r]) * inv[r];
        ds[own + r][16 * j + lane] = key0 + 16 * j + lane <= last[r] ? w * (dp[r][j] - delta[r]) : 0.0f;
      }
    for (int part = 0; part < kKeys && key0 + part < seen; part += 16) {
      const int most = seen - key0 - part < 16 ? (int)(seen - key0 - part) : 16;
      __syncthreads();
      for (int e = tid; e < most * d; e += 256) k[e / d][e % d] = a.k[pairs.key[part + e / d] * a.rs + kv * d + e % d];
      __syncthreads();
      for (int j = 0; j < most; j++)
#pragma unroll
        for (int r = 0; r < 4; r++)
#pragma unroll
          for (int c = 0; c < kColumns; c++)
            if (16 * c < d) acc[r][c] = fma1(ds[own + r][part + j], k[j][16 * c + lane], acc[r][c]);
    }
    const bool ended = key0 + kKeys >= seen;
    if (!ended && (key0 / kKeys & 1) == 0) continue;  // in the middle of a chain of 128
    int level = 0;
    for (i64 i = key0 / 128; ended ? i != 0 : (i & 1) != 0; i >>= 1, level++)
      if (i & 1)
        for (int r = 0; r < 4; r++) for (int c = 0; c < kColumns; c++) acc[r][c] = kept[level][r][c] + acc[r][c];
    if (ended) break;
    for (int r = 0; r < 4; r++)
      for (int c = 0; c < kColumns; c++) kept[level][r][c] = acc[r][c], acc[r][c] = 0.0f;
  }
#pragma unroll
  for (int r = 0; r < 4; r++)
#pragma unroll
    for (int c = 0; c < kColumns; c++)
      if (r0 + own + r < r1 && 16 * c + lane < d)
        a.d_q[(r0 + own + r) * a.d_rs + h * d + 16 * c + lane] = acc[r][c] * a.scale;
}

// dK and dV of 64 key rows and one kv head: one chain each over (head of the group, row that sees the key, ascending).
extern "C" __global__ void __launch_bounds__(256) attention_dkv(AttentionBackArgs a) {
  constexpr int kRows = 32;
  __shared__ Pairs<kRows> pairs;
  __shared__ float ds[kRows][kKeys + 1], w[kRows][kKeys + 1], q[8][kMostD], g[8][kMostD];
  const int tid = threadIdx.x, lane = tid % 16, own = tid / 16;
  const i64 c0 = (i64)blockIdx.x * kKeys, kv = blockIdx.y, d = a.d, group = a.heads / a.kv_heads;
  float s[2][4], dp[2][4], dk[4][kColumns], dv[4][kColumns];
  for (int j = 0; j < 4; j++) for (int c = 0; c < kColumns; c++) dk[j][c] = dv[j][c] = 0.0f;
  i64 end = 0, sees_end[4];
  for (int j = 0; j < kKeys && c0 + j < a.rows; j++) end = a.sees_end[c0 + j] > end ? a.sees_end[c0 + j] : end;
  for (int j = 0; j < 4; j++) sees_end[j] = c0 + 16 * j + lane < a.rows ? a.sees_end[c0 + 16 * j + lane] : 0;
  if (tid < kKeys) pairs.key[tid] = c0 + tid < a.rows ? c0 + tid : -1;
  for (i64 h = kv * group; h < (kv + 1) * group; h++)
    for (i64 r0 = c0; r0 < end; r0 += kRows) {
      __syncthreads();
      if (tid < kRows) pairs.row[tid] = r0 + tid < end ? r0 + tid : -1;
      __syncthreads();
      pairs.of(a, h, kv, tid, s, dp);
      for (int r = 0; r < 2; r++) {
        const i64 row = r0 + own * 2 + r, at = row * a.heads + h;
        const bool here = row < end;
        const float top = here ? a.row_max[at] : 0.0f, inv = here ? 1.0f / a.row_sum[at] : 0.0f, delta = here ? a.delta[at] : 0.0f;
        for (int j = 0; j < 4; j++) {
          const bool seen = here && row >= c0 + 16 * j + lane && row < sees_end[j];
          const float weight = exp1(s[r][j] - top) * inv;
          w[own * 2 + r][16 * j + lane] = seen ? weight : 0.0f;
          ds[own * 2 + r][16 * j + lane] = seen ? weight * (dp[r][j] - delta) : 0.0f;
        }
      }
      for (int part = 0; part < kRows && r0 + part < end; part += 8) {
        const int most = end - r0 - part < 8 ? (int)(end - r0 - part) : 8;
        __syncthreads();
        for (int e = tid; e < most * d; e += 256) {
          const i64 row = r0 + part + e / d;
          q[e / d][e % d] = a.q[row * a.rs + h * d + e % d] * a.scale;
          g[e / d][e % d] = a.d_out[row * a.out_rs + h * d + e % d];
        }
        __syncthreads();
        for (int r = 0; r < most; r++)
#pragma unroll
          for (int j = 0; j < 4; j++)
#pragma unroll
            for (int c = 0; c < kColumns; c++)
              if (16 * c < d) {
                dk[j][c] = fma1(ds[part + r][own * 4 + j], q[r][16 * c + lane], dk[j][c]);
                dv[j][c] = fma1(w[part + r][own * 4 + j], g[r][16 * c + lane], dv[j][c]);
              }
      }
    }
#pragma unroll
  for (int j = 0; j < 4; j++)
#pragma unroll
    for (int c = 0; c < kColumns; c++)
      if (c0 + own * 4 + j < a.rows && 16 * c + lane < d) {
        a.d_k[(c0 + own * 4 + j) * a.d_rs + kv * d + 16 * c + lane] = dk[j][c];
        a.d_v[(c0 + own * 4 + j) * a.d_rs + kv * d + 16 * c + lane] = dv[j][c];
      }
}
