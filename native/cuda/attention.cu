// Causal attention over paged keys, forward and backward, in the order of native/attention.hpp.
//
// Scores are chains over d; the largest is taken first (so scores are computed twice), then weights, their sum over 16
// lanes by key, and one chain over keys, ascending. Masked keys weigh exactly +0, so that a tile may hold any of them.
#include "grid.cuh"

constexpr int kKeys = 64, kChunk = 16, kColumns = kMostD / 16;

TS_EACH(store, StoreArgs, a.count * a.kv_heads * a.d) {  // an element of a key and of a value
  const i64 i = at % a.d, h = at / a.d % a.kv_heads;
  i64 row = at / a.d / a.kv_heads, slot = row;
  if (a.row_of_slot) {
    row = a.row_of_slot[slot];
    if (row < 0) return;
  } else {  // its sequence's page table says where
    i64 low = 0, high = a.sequences;  // the last sequence that begins at or before the row
    while (high - low > 1) {
      const i64 middle = (low + high) / 2;
      if (a.row_begin[middle] <= row) low = middle;
      else high = middle;
    }
    const i64 pos = a.first_pos[low] + row - a.row_begin[low];
    slot = a.table[low * a.table_rs + pos / 16] * 16ll + pos % 16;
  }
  const float* k = a.qkv + row * a.qkv_rs + (a.heads + h) * a.d + i;
  a.k_pages[((slot / 16 * a.kv_heads + h) * a.d + i) * 16 + slot % 16] = k[0];
  a.v_pages[((slot / 16 * a.kv_heads + h) * 16 + slot % 16) * a.d_pad + i] = k[a.kv_heads * a.d];
}

// Blocks of 256 threads: a thread has some rows of a tile, and of each 16 columns (keys, or elements of a head) its lane's.
TS_FN int own_of(int rows) { return threadIdx.x / 16 * rows; }

// N scores of R rows and 64 keys, each a chain over d: N 1: q . k; 2: dO . v too; a thread's four of one row side by side.
// row(n, r, i) and key(n, j, i) read, 0 for none. Paged: 16 keys lie together in memory; else elements do.
template <int R, int N, bool Paged>
struct Scores {
  float rows[N][kChunk][R + 1], keys[N][kChunk][kKeys + 1];
  template <typename Row, typename Key>
  __device__ void of(i64 d, Row row, Key key, float (&s)[N][R / 4]) {
    const int first = own_of(R / 16), lane = lane_of();
    for (int n = 0; n < N; n++) clear(s[n]);
    for (i64 d0 = 0; d0 < d; d0 += kChunk) {
      const int width = d - d0 < kChunk ? (int)(d - d0) : kChunk;
      __syncthreads();
      for (int n = 0; n < N; n++) {
        for (int e = threadIdx.x; e < R * kChunk; e += 256)
          rows[n][e % kChunk][e / kChunk] = e % kChunk < width ? row(n, e / kChunk, d0 + e % kChunk) : 0.0f;
        for (int e = threadIdx.x; e < kKeys * kChunk; e += 256) {
          const int j = Paged ? e / (16 * kChunk) * 16 + e % 16 : e / kChunk, i = Paged ? e / 16 % kChunk : e % kChunk;
          keys[n][i][j] = i < width ? key(n, j, d0 + i) : 0.0f;
        }
      }
      __syncthreads();
      for (int i = 0; i < width; i++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
          for (int e = 0; e < R / 4; e++) s[n][e] = fma1(rows[n][i][first + e / 4], keys[n][i][e % 4 * 16 + lane], s[n][e]);
    }
  }
};

// sums of row r, column c += weight(r, j) * value(j, column), a step of its chain for every j < count, ascending; `held` is for T values.
template <int N, int T, typename Weight, typename Value>
TS_FN void add_weighted(float (&sums)[N], int count, i64 d, float (&held)[T][kMostD], Weight weight, Value value) {
  for (int part = 0; part < count; part += T) {
    const int most = count - part < T ? count - part : T;  // none beyond the last is read
    __syncthreads();
    for (int e = threadIdx.x; e < most * d; e += 256) held[e / d][e % d] = value(part + e / d, e % d);
    __syncthreads();
    for (int j = 0; j < most; j++)
#pragma unroll
      for (int e = 0; e < N; e++) {
        const int r = e / kColumns, c = e % kColumns * 16;
        if (c < d) sums[e] = fma1(weight(r, part + j), held[j][c + lane_of()], sums[e]);
      }
  }
}

// A block: 16 P (query row, head of the group) pairs of one sequence and kv head.
template <int P>
__device__ void attend(const AttentionArgs& a) {
  constexpr int kPairs = 16 * P;
  __shared__ Scores<kPairs, 1, true> scores;
  __shared__ float weights[kPairs][kKeys + 1], lanes[kPairs][16], v[16][kMostD];
  const int lane = lane_of(), own = own_of(P);
  const i64 seq = blockIdx.y, kv_head = blockIdx.z, group = a.heads / a.kv_heads, d = a.d;
  const i64 begin = a.row_begin[seq], count = (a.row_begin[seq + 1] - begin) * group, base = a.first_pos[seq];
  const i64 pair0 = (i64)blockIdx.x * kPairs;
  if (pair0 >= count) return;
  const i64 last_pair = (pair0 + kPairs < count ? pair0 + kPairs : count) - 1;
  const i64 keys = base + last_pair / group + 1;  // that any pair of the block sees
  const auto row_of = [&](int p) { return begin + (pair0 + p < count ? pair0 + p : last_pair) / group; };
  const auto head_of = [&](int p) { return kv_head * group + (pair0 + p < count ? pair0 + p : last_pair) % group; };
  const auto page_of = [&](i64 key) { return (i64)a.table[seq * a.table_rs + key / 16] * a.kv_heads + kv_head; };
  i64 visible[P];
  float score[1][4 * P], best[P], total[P], out[P * kColumns];
  for (int p = 0; p < P; p++) visible[p] = base + row_of(own + p) - begin + 1;
  const auto read = [&](i64 key0) {
    scores.of(
        d, [&](int, int p, i64 i) { return a.qkv[row_of(p) * a.qkv_rs + head_of(p) * d + i] * a.scale; },
        [&](int, int j, i64 i) { return key0 + j < keys ? a.k_pages[(page_of(key0 + j) * d + i) * 16 + j % 16] : 0.0f; }, score);
  };
  for (int p = 0; p < P; p++) best[p] = canon::float_of(0xFF800000u);
  clear(total);
  clear(out);
  for (i64 key0 = 0; key0 < keys; key0 += kKeys) {
    read(key0);
    for (int e = 0; e < 4 * P; e++)
      if (key0 + e % 4 * 16 + lane < visible[e / 4]) best[e / 4] = score[0][e] > best[e / 4] ? score[0][e] : best[e / 4];
  }
  for (int p = 0; p < P; p++) lanes[own + p][lane] = best[p];
  __syncthreads();
  for (int p = 0; p < P; p++)
    for (int i = 0; i < 16; i++) best[p] = lanes[own + p][i] > best[p] ? lanes[own + p][i] : best[p];
  for (i64 key0 = 0; key0 < keys; key0 += kKeys) {
    read(key0);
    for (int e = 0; e < 4 * P; e++) {
      const int p = e / 4, key = e % 4 * 16 + lane;
      const float weight = key0 + key < visible[p] ? exp1(score[0][e] - best[p]) : 0.0f;
      total[p] = total[p] + weight;
      weights[own + p][key] = weight;
    }
    add_weighted(
        out, keys - key0 < kKeys ? (int)(keys - key0) : kKeys, d, v, [&](int p, int j) { return weights[own + p][j]; },
        [&](i64 j, i64 i) { return a.v_pages[(page_of(key0 + j) * 16 + j % 16) * a.d_pad + i]; });
  }
  __syncthreads();
  for (int p = 0; p < P; p++) lanes[own + p][lane] = total[p];
  for (int p = 0; p < P; p++) halve(lanes[own + p], lane);
#pragma unroll
  for (int p = 0; p < P; p++) {
    if (pair0 + own + p >= count) continue;
    const i64 at = row_of(own + p) * a.heads + head_of(own + p);
    const float sum = lanes[own + p][0];
#pragma unroll
    for (int c = 0; c < kColumns; c++)
      if (16 * c + lane < d) a.out[at * d + 16 * c + lane] = out[p * kColumns + c] / sum;
    if (a.row_max && lane == 0) {
      a.row_max[at] = best[p];
      a.row_sum[at] = sum;
    }
  }
}
TS_KERNEL(attention, AttentionArgs, 256, 1) { attend<4>(a); }
TS_KERNEL(attention_few, AttentionArgs, 256) { attend<1>(a); }

// ---- backward: of scores w = exp(s - largest) / sum and dS = w * (dP - delta), from q . k and dO . v of the same pair
struct Query {  // a row of one head; none: every dS and weight of its is 0 by the caller's mask
  float top, inv, delta;
  TS_FN Query of(const AttentionBackArgs& a, i64 row, i64 h, bool here) {
    const i64 at = row * a.heads + h;
    if (!here) return {0.0f, 0.0f, 0.0f};
    return {a.row_max[at], 1.0f / a.row_sum[at], a.delta[at]};
  }
  __device__ __forceinline__ float weight(float s) const { return exp1(s - top) * inv; }
};
// An element of the scores' operands: of q or dO, and of the key or the value, that lie in a row.
TS_FN float query_of(const AttentionBackArgs& a, int n, i64 row, i64 h, i64 i) {
  return n ? a.d_out[row * a.d_out_rs + h * a.d + i] : a.qkv[row * a.qkv_rs + h * a.d + i] * a.scale;
}
TS_FN float key_of(const AttentionBackArgs& a, int n, i64 row, i64 kv, i64 i) {
  return a.qkv[row * a.qkv_rs + (a.heads + kv + n * a.kv_heads) * a.d + i];
}

// dQ of up to 64 rows of one node, and one head: keys by position, a chain for each 128, added by the tree.
TS_KERNEL(attention_dq, AttentionBackArgs, 256) {
  __shared__ Scores<64, 2, false> scores;
  __shared__ float ds[64][kKeys + 1], held[16][kMostD];
  const int lane = lane_of(), own = own_of(4);
  const i64 r0 = a.tile_row[blockIdx.x], r1 = a.tile_end[blockIdx.x], h = blockIdx.y, d = a.d, kv = h / (a.heads / a.kv_heads);
  const i64* path = a.path + a.path_begin[blockIdx.x];
  const i64 seen = a.first_seen[r1 - 1] + 1;
  float s[2][16], acc[4 * kColumns], kept[12][4 * kColumns];
  int depth = 0;
  Query of[4];
  for (int r = 0; r < 4; r++) of[r] = Query::of(a, r0 + own + r, h, r0 + own + r < r1);
  clear(acc);
  for (i64 key0 = 0; key0 < seen; key0 += kKeys) {
    scores.of(
        d, [&](int n, int r, i64 i) { return r0 + r < r1 ? query_of(a, n, r0 + r, h, i) : 0.0f; },
        [&](int n, int j, i64 i) { return key0 + j < seen ? key_of(a, n, path[key0 + j], kv, i) : 0.0f; }, s);
    for (int e = 0; e < 16; e++) {
      const int r = e / 4, key = e % 4 * 16 + lane;
      const bool sees = r0 + own + r < r1 && key0 + key <= a.first_seen[r0 + own + r];
      ds[own + r][key] = sees ? of[r].weight(s[0][e]) * (s[1][e] - of[r].delta) : 0.0f;
    }
    add_weighted(
        acc, seen - key0 < kKeys ? (int)(seen - key0) : kKeys, d, held, [&](int r, int j) { return ds[own + r][j]; },
        [&](i64 j, i64 i) { return key_of(a, 0, path[key0 + j], kv, i); });
    const bool ended = key0 + kKeys >= seen;
    if (!ended && (key0 / kKeys & 1) == 0) continue;  // in the middle of a chain of 128
    for (i64 i = key0 / 128; ended ? i != 0 : (i & 1) != 0; i >>= 1) pop(kept, depth, acc, (int)(i & 1));
    if (ended) break;
    push(kept, depth, acc);
    clear(acc);
  }
#pragma unroll
  for (int e = 0; e < 4 * kColumns; e++) {
    const i64 row = r0 + own + e / kColumns, column = e % kColumns * 16 + lane;
    if (row < r1 && column < d) a.d_qkv[row * a.d_qkv_rs + h * d + column] = acc[e] * a.scale;
  }
}

// dK and dV of 64 key rows and one kv head: one chain each over (head of the group, row that sees the key, ascending).
TS_KERNEL(attention_dkv, AttentionBackArgs, 256) {
  constexpr int kRows = 32;
  __shared__ Scores<kRows, 2, false> scores;
  __shared__ float ds[kRows][kKeys + 1], w[kRows][kKeys + 1], held[8][kMostD];
  const int lane = lane_of(), own = own_of(2), own_keys = own_of(4);
  const i64 c0 = (i64)blockIdx.x * kKeys, kv = blockIdx.y, d = a.d, group = a.heads / a.kv_heads;
  float s[2][8], dk[4 * kColumns], dv[4 * kColumns];
  clear(dk);
  clear(dv);
  i64 end = 0, sees_end[4];
  for (int j = 0; j < kKeys && c0 + j < a.rows; j++) end = a.sees_end[c0 + j] > end ? a.sees_end[c0 + j] : end;
  for (int j = 0; j < 4; j++) sees_end[j] = c0 + 16 * j + lane < a.rows ? a.sees_end[c0 + 16 * j + lane] : 0;
  for (i64 h = kv * group; h < (kv + 1) * group; h++)
    for (i64 r0 = c0; r0 < end; r0 += kRows) {
      scores.of(
          d, [&](int n, int r, i64 i) { return r0 + r < end ? query_of(a, n, r0 + r, h, i) : 0.0f; },
          [&](int n, int j, i64 i) { return c0 + j < a.rows ? key_of(a, n, c0 + j, kv, i) : 0.0f; }, s);
      for (int r = 0; r < 2; r++) {
        const i64 row = r0 + own + r;
        const Query of = Query::of(a, row, h, row < end);
        for (int j = 0; j < 4; j++) {
          const bool seen = row < end && row >= c0 + 16 * j + lane && row < sees_end[j];
          const float weight = seen ? of.weight(s[0][4 * r + j]) : 0.0f;
          w[own + r][16 * j + lane] = weight;
          ds[own + r][16 * j + lane] = seen ? weight * (s[1][4 * r + j] - of.delta) : 0.0f;
        }
      }
      const int count = end - r0 < kRows ? (int)(end - r0) : kRows;
      add_weighted(
          dk, count, d, held, [&](int j, int r) { return ds[r][own_keys + j]; },
          [&](i64 r, i64 i) { return query_of(a, 0, r0 + r, h, i); });
      add_weighted(
          dv, count, d, held, [&](int j, int r) { return w[r][own_keys + j]; },
          [&](i64 r, i64 i) { return query_of(a, 1, r0 + r, h, i); });
    }
#pragma unroll
  for (int e = 0; e < 4 * kColumns; e++) {
    const i64 row = c0 + own_keys + e / kColumns, column = e % kColumns * 16 + lane;
    if (row >= a.rows || column >= d) continue;
    float* to = a.d_qkv + row * a.d_qkv_rs + (a.heads + kv) * d + column;
    to[0] = dk[e];
    to[a.kv_heads * d] = dv[e];
  }
}
