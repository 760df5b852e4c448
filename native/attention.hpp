// Causal attention over paged keys, forward and backward, in a fixed key order.
//
// A block is some query rows of one (sequence, kv head); the query heads of that kv head are extra rows.
// Scores are fma chains over d; the largest is exact; masked keys weigh exactly +0; the denominator is a 16-lane sum
// (key j into lane j mod 16); the output is one fma chain over keys, ascending. So neither the number of rows in a
// block, nor where a key's page lies, nor how many masked keys trail can change a bit.
#pragma once
#include <vector>

#include "gemm.hpp"
#include "rows.hpp"

namespace {

using tinsmith::Attention;
using tinsmith::AttentionBackward;

#if defined(TINSMITH_AVX512)
constexpr int kScoreRows = 6, kScorePages = 4;
#elif defined(TINSMITH_AVX2) || defined(TINSMITH_NEON)
constexpr int kScoreRows = 6, kScorePages = 1;
#else
constexpr int kScoreRows = 2, kScorePages = 1;
#endif

// S[MR rows, NP pages of 16 keys] = q . K^T, a chain over d.
template <int MR, int NP>
TS_INLINE void score_tile(int64_t d, const float* q, int64_t q_rs, const float* const* pages, float* s, int64_t s_rs) {
  V16 acc[MR][NP];
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) acc[m][p] = zero16();
  for (int64_t k = 0; k < d; k++) {
    V16 b[NP];
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) b[p] = load(pages[p] + 16 * k);
#pragma GCC unroll 8
    for (int m = 0; m < MR; m++) {
      const V16 a = set1(q[m * q_rs + k]);
#pragma GCC unroll 4
      for (int p = 0; p < NP; p++) acc[m][p] = fma(a, b[p], acc[m][p]);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) store(s + m * s_rs + 16 * p, acc[m][p]);
}

// The chains of value_tile over `count` keys of one page.
template <int MR, int NV>
TS_INLINE void value_keys(int count, const float* p, int64_t p_rs, const float* B, int64_t d_pad, V16 (&acc)[MR][NV]) {
  for (int j = 0; j < count; j++) {
    V16 b[NV];
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) b[v] = load(B + j * d_pad + 16 * v);
#pragma GCC unroll 8
    for (int m = 0; m < MR; m++) {
      const V16 a = set1(p[m * p_rs + j]);
#pragma GCC unroll 4
      for (int v = 0; v < NV; v++) acc[m][v] = fma(a, b[v], acc[m][v]);
    }
  }
}

// O[MR rows, NV * 16 columns] = p . V, a chain over keys that goes on from O if some came before; a page is 16 rows of
// d_pad floats. Slots beyond the last key are never read: what another sequence left in a page, a NaN even, has no way
// out of it.
template <int MR, int NV>
TS_INLINE void value_tile(bool goes_on, int64_t num_keys, const float* p, int64_t p_rs, const float* const* pages,
                          int64_t column, int64_t d_pad, float* o, int64_t o_rs) {
  V16 acc[MR][NV];
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) acc[m][v] = goes_on ? load(o + m * o_rs + 16 * v) : zero16();
  const int64_t full = num_keys / 16;
  for (int64_t page = 0; page < full; page++)
    value_keys<MR, NV>(16, p + 16 * page, p_rs, pages[page] + column, d_pad, acc);
  if (num_keys % 16 != 0)
    value_keys<MR, NV>((int)(num_keys % 16), p + 16 * full, p_rs, pages[full] + column, d_pad, acc);
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) store(o + m * o_rs + 16 * v, acc[m][v]);
}

#if defined(TINSMITH_SCALAR)
#define TS_ROWS(CALL) switch (rows) { case 1: CALL(1); break; default: CALL(2); }
#else
#define TS_ROWS(CALL) \
  switch (rows) { case 1: CALL(1); break; case 2: CALL(2); break; case 3: CALL(3); break; \
                  case 4: CALL(4); break; case 5: CALL(5); break; default: CALL(6); }
#endif

template <int NP>
static __attribute__((noinline)) void score_rows(int rows, int64_t d, const float* q, int64_t q_rs,
                                                 const float* const* pages, float* s, int64_t s_rs) {
#define TS_CALL(MR) score_tile<MR, NP>(d, q, q_rs, pages, s, s_rs)
  TS_ROWS(TS_CALL)
#undef TS_CALL
}

template <int NV>
static __attribute__((noinline)) void value_rows(int rows, bool goes_on, int64_t num_keys, const float* p,
                                                 int64_t p_rs, const float* const* pages, int64_t column,
                                                 int64_t d_pad, float* o, int64_t o_rs) {
#define TS_CALL(MR) value_tile<MR, NV>(goes_on, num_keys, p, p_rs, pages, column, d_pad, o, o_rs)
  TS_ROWS(TS_CALL)
#undef TS_CALL
}

// In place: scores of `visible` keys to exp(score - largest), +0 up to `keys`. Returns largest and sum.
TS_INLINE void weigh(float* s, int64_t visible, int64_t keys, float& largest, float& sum) {
  float best = s[0];
  int64_t j = 0;
  if (visible >= 16) {
    V16 b = load(s);
    for (j = 16; j + 16 <= visible; j += 16) b = max(load(s + j), b);
    best = hmax(b);
  }
  for (; j < visible; j++) best = s[j] > best ? s[j] : best;
  for (j = visible; j < keys; j++) s[j] = 0.0f;
  const V16 m = set1(best);
  V16 total = zero16();
  for (j = 0; j + 16 <= visible; j += 16) {
    const V16 e = exp16(load(s + j) - m);
    store(s + j, e);
    total = total + e;
  }
  if (j < visible) {
    store_first(s + j, exp16(load(s + j) - m), (int)(visible - j));
    total = total + load(s + j);
  }
  largest = best;
  sum = hsum(total);
}

static int64_t attention_scratch(const Attention& a, int64_t rows, int64_t keys) {
  const int64_t group = a.num_heads / a.num_kv_heads, pages = (keys + 15) / 16;
  return group * rows * (a.d + a.d_pad + 16 * pages + 16) + 4 * pages + 64;
}

// Keys whose values stay in the first cache while all rows of a block go through them.
constexpr int64_t kValueKeys = 128;

// Asks for share `part` of `parts` of what the next pages hold, as long keys lie beyond the second cache.
TS_INLINE void fetch_ahead(const float* const* pages, int64_t count, int64_t floats, int64_t part, int64_t parts) {
  for (int64_t page = 0; page < count; page++)
    for (int64_t i = part * floats / parts / 16 * 16; i < (part + 1) * floats / parts; i += 16)
      __builtin_prefetch(pages[page] + i, 0, 2);
}

// Query rows [row0, row1) of one sequence and kv head.
static void attention(const Attention& a, int64_t seq, int64_t kv_head, int64_t row0, int64_t row1, float* scratch) {
  const int64_t group = a.num_heads / a.num_kv_heads, rows = (row1 - row0) * group;
  const int64_t base = a.first_pos[seq] - a.row_begin[seq];  // position = base + row
  const int64_t num_pages = (base + row1 + 15) / 16, seen = base + row1;
  const int64_t keys = 16 * num_pages + 16;  // a row of scores; 16 more, as rows a power of two apart share a cache set
  const float** k_pages = (const float**)scratch;
  const float** v_pages = k_pages + num_pages;
  float* q = scratch + 4 * num_pages;
  float* s = q + rows * a.d;
  float* o = s + rows * keys;
  for (int64_t p = 0; p < num_pages; p++) {
    const int64_t page = a.table[seq * a.table_rs + p];
    k_pages[p] = a.k_pages + (page * a.num_kv_heads + kv_head) * a.d * 16;
    v_pages[p] = a.v_pages + (page * a.num_kv_heads + kv_head) * 16 * a.d_pad;
  }
  const V16 scale = set1(a.scale);
  for (int64_t r = 0; r < rows; r++) {
    const float* from = a.q + (row0 + r / group) * a.q_rs + (kv_head * group + r % group) * a.d;
    for (int64_t i = 0; i < a.d; i += 16) store_n(q + r * a.d + i, load_n(from + i, a.d - i) * scale, a.d - i);
  }
  for (int64_t p = 0; p < num_pages;) {
    const int64_t take = num_pages - p < kScorePages ? num_pages - p : kScorePages;
    for (int64_t r = 0; r < rows; r += kScoreRows) {
      const int n = (int)(rows - r < kScoreRows ? rows - r : kScoreRows);
      const float* from = q + r * a.d;
      float* to = s + r * keys + 16 * p;
      const int64_t after = num_pages - p - take;
      fetch_ahead(k_pages + p + take, after < take ? after : take, 16 * a.d, r / kScoreRows, (rows + kScoreRows - 1) / kScoreRows);
      switch (take) {
        case 1: score_rows<1>(n, a.d, from, a.d, k_pages + p, to, keys); break;
#if defined(TINSMITH_AVX512)
        case 2: score_rows<2>(n, a.d, from, a.d, k_pages + p, to, keys); break;
        case 3: score_rows<3>(n, a.d, from, a.d, k_pages + p, to, keys); break;
        case 4: score_rows<4>(n, a.d, from, a.d, k_pages + p, to, keys); break;
#endif
      }
    }
    p += take;
  }
  float sums[16 * 64];
  for (int64_t r = 0; r < rows; r++) {
    float largest, sum;
    weigh(s + r * keys, base + row0 + r / group + 1, 16 * num_pages, largest, sum);
    sums[r] = sum;
    if (a.row_max) {
      const int64_t at = (row0 + r / group) * a.num_heads + kv_head * group + r % group;
      a.row_max[at] = largest;
      a.row_sum[at] = sum;
    }
  }
  for (int64_t k0 = 0; k0 < seen; k0 += kValueKeys) {
    const int64_t count = seen - k0 < kValueKeys ? seen - k0 : kValueKeys;
    const float** pages = v_pages + k0 / 16;
    const int64_t rest = num_pages - (k0 + kValueKeys) / 16, next = rest < kValueKeys / 16 ? rest : kValueKeys / 16;
    for (int64_t c = 0; c < a.d_pad;) {
      const int64_t left = (a.d_pad - c) / 16, take = left < kScorePages ? left : kScorePages;
      for (int64_t r = 0; r < rows; r += kScoreRows) {
        const int n = (int)(rows - r < kScoreRows ? rows - r : kScoreRows);
        const float* from = s + r * keys + k0;
        float* to = o + r * a.d_pad + c;
        if (c == 0) fetch_ahead(pages + kValueKeys / 16, next, 16 * a.d_pad, r / kScoreRows,
                                (rows + kScoreRows - 1) / kScoreRows);
        switch (take) {
          case 1: value_rows<1>(n, k0 > 0, count, from, keys, pages, c, a.d_pad, to, a.d_pad); break;
#if defined(TINSMITH_AVX512)
          case 2: value_rows<2>(n, k0 > 0, count, from, keys, pages, c, a.d_pad, to, a.d_pad); break;
          case 3: value_rows<3>(n, k0 > 0, count, from, keys, pages, c, a.d_pad, to, a.d_pad); break;
          case 4: value_rows<4>(n, k0 > 0, count, from, keys, pages, c, a.d_pad, to, a.d_pad); break;
#endif
        }
      }
      c += 16 * take;
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    const V16 sum = set1(sums[r]);
    float* to = a.out + (row0 + r / group) * a.out_rs + (kv_head * group + r % group) * a.d;
    for (int64_t i = 0; i < a.d; i += 16) store_n(to + i, load_n(o + r * a.d_pad + i, a.d - i) / sum, a.d - i);
  }
}

// Query rows and keys of one block; free, as chains run through it, and a chain of a product ends where a block does.
constexpr int64_t kBackwardRows = 48, kBackwardKeys = 4 * kLongestChain, kBlockRow = kBackwardKeys + 16;

static int64_t backward_keys(int64_t depth) { return (depth + kStrip - 1) / kStrip * kStrip; }

static int64_t attention_backward_scratch(const AttentionBackward& a, int64_t depth) {
  int64_t sums = 2;  // of a tree over blocks of keys
  for (int64_t blocks = depth / kBackwardKeys; blocks > 0; blocks >>= 1) sums++;
  const int64_t longest = kBackwardKeys > a.d ? kBackwardKeys : a.d;
  return 3 * a.d * backward_keys(depth) + kBackwardRows * (2 * kBlockRow + (1 + sums) * a.d) + gemm_scratch(longest) + 64;
}

// Keys and values of the path from a tree's root to one node, by position: K^T and V^T in strips [d, kStrip], K as
// [keys, d]. Nodes come depth first, so that what stands above a node's first position is its path's.
struct PathKeys {
  float *kt, *vt, *k;
  void add(const AttentionBackward& a, int64_t node, int64_t kv_head) {
    const int64_t first = a.first_pos[node], count = a.row_begin[node + 1] - a.row_begin[node], d = a.d;
    const float* k_from = a.k + a.row_begin[node] * a.rs + kv_head * d;
    turn(a, k_from, first, first + count, kt);
    turn(a, a.v + a.row_begin[node] * a.rs + kv_head * d, first, first + count, vt);
    for (int64_t t = 0; t < count; t++)
      for (int64_t i = 0; i < d; i += 16) store_n(k + (first + t) * d + i, load_n(k_from + t * a.rs + i, d - i), d - i);
  }

 private:
  // Rows of positions [first, end) into the strips, zero to the end of the last one.
  static void turn(const AttentionBackward& a, const float* from, int64_t first, int64_t end, float* strips) {
    const auto column = [&](int64_t t) { return strips + t / kStrip * kStrip * a.d + t % kStrip; };
    for (int64_t t = first; t < end;) {
      const int64_t whole = t % 16 == 0 && t + 16 <= end ? a.d / 16 * 16 : 0, take = whole ? 16 : 1;
      const float* rows = from + (t - first) * a.rs;
      float* to = column(t);
      for (int64_t i = 0; i < whole; i += 16) transpose16(rows + i, a.rs, to + i * kStrip, kStrip);
      for (int64_t j = 0; j < take; j++)
        for (int64_t i = whole; i < a.d; i++) to[i * kStrip + j] = rows[j * a.rs + i];
      t += take;
    }
    for (int64_t t = end; t % kStrip != 0; t++)
      for (int64_t i = 0; i < a.d; i++) column(t)[i * kStrip] = 0.0f;
  }
};

// dK += dS^T . Q and dV += P^T . dO of one block of query rows and of keys [k0, k1), for each node of their path.
static void add_key_gradients(const AttentionBackward& a, const std::vector<int64_t>& path, int64_t kv_head, int64_t k0,
                              int64_t k1, int64_t rows, const float* ds, const float* p, const float* q,
                              const float* d_out, float* work) {
  for (const int64_t node : path) {
    const int64_t first = a.first_pos[node], begin = a.row_begin[node], end = first + a.row_begin[node + 1] - begin;
    const int64_t from = first > k0 ? first : k0, count = (end < k1 ? end : k1) - from;
    if (count <= 0) continue;
    const int64_t at = (begin + from - first) * a.d_rs + kv_head * a.d;
    gemm_block({count, a.d, rows, ds + from - k0, 1, kBlockRow, q, a.d, 1, a.d_k + at, a.d_rs, Onto::Chain, nullptr, 0}, 0,
               count, 0, a.d, work);
    gemm_block({count, a.d, rows, p + from - k0, 1, kBlockRow, d_out, a.out_rs, 1, a.d_v + at, a.d_rs, Onto::Chain, nullptr,
                0}, 0, count, 0, a.d, work);
  }
}

// dQ, dK, dV of one tree (nodes node0 .. node1, at most `depth` positions deep) and kv head. dK and dV are one chain
// each over (query head of the group, row of the tree that sees the key); dQ is a tree of chains of
// 128 keys, as any product's.
static void attention_backward(const AttentionBackward& a, int64_t node0, int64_t node1, int64_t kv_head, int64_t depth,
                               float* scratch) {
  const int64_t d = a.d, group = a.num_heads / a.num_kv_heads, keys = backward_keys(depth), block = kBackwardRows * d;
  PathKeys of_path{scratch, scratch + d * keys, scratch + 2 * d * keys};
  float* p = of_path.k + d * keys;
  float* ds = p + kBackwardRows * kBlockRow;
  float* q = ds + kBackwardRows * kBlockRow;
  const int64_t longest = kBackwardKeys > d ? kBackwardKeys : d;
  float* work = q + block;
  float* sums = work + gemm_scratch(longest);
  for (int64_t t = a.row_begin[node0]; t < a.row_begin[node1]; t++)
    for (int64_t i = 0; i < d; i += 16) {
      store_n(a.d_k + t * a.d_rs + kv_head * d + i, zero16(), d - i);
      store_n(a.d_v + t * a.d_rs + kv_head * d + i, zero16(), d - i);
    }
  const int64_t whole[2] = {0, d};
  const V16 scale = set1(a.scale);
  std::vector<int64_t> path;
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
    path.clear();
    for (int64_t node = node0; node < node1; node++) {
      while (!path.empty() && a.first_pos[path.back()] >= a.first_pos[node]) path.pop_back();
      path.push_back(node);
      if (h == kv_head * group || node1 - node0 > 1) of_path.add(a, node, kv_head);
      const int64_t begin = a.row_begin[node], length = a.row_begin[node + 1] - begin, first = a.first_pos[node];
      for (int64_t r0 = 0; r0 < length; r0 += kBackwardRows) {
        const int64_t rows = length - r0 < kBackwardRows ? length - r0 : kBackwardRows, seen = first + r0 + rows;
        const float* d_out = a.d_out + (begin + r0) * a.out_rs + h * d;
        const float* out = a.out + (begin + r0) * a.out_rs + h * d;
        float* d_q = a.d_q + (begin + r0) * a.d_rs + h * d;
        float deltas[kBackwardRows];
        for (int64_t r = 0; r < rows; r++) {
          V16 dot = zero16();
          for (int64_t i = 0; i < d; i += 16) {
            store_n(q + r * d + i, load_n(a.q + (begin + r0 + r) * a.rs + h * d + i, d - i) * scale, d - i);
            dot = fma(load_n(d_out + r * a.out_rs + i, d - i), load_n(out + r * a.out_rs + i, d - i), dot);
          }
          deltas[r] = hsum(dot);
        }
        tinsmith::TreeSum tree;
        const auto add = [&](int to, int from) {
          float* sum = sums + to * block;
          for (int64_t i = 0; i < rows * d; i++) sum[i] = sum[i] + sums[from * block + i];
        };
        for (int64_t k0 = 0; k0 < seen; k0 += kBackwardKeys) {
          const int64_t count = seen - k0 < kBackwardKeys ? seen - k0 : kBackwardKeys;
          // One chain, as in the forward pass: the weights are those of the forward pass.
          const Gemm scores{rows, count, d, q, d, 1, nullptr, kStrip, 1, p, kBlockRow, Onto::Store, whole, 1};
          const Gemm slopes{rows, count, d, d_out, a.out_rs, 1, nullptr, kStrip, 1, ds, kBlockRow, Onto::Store, nullptr, 0};
          for (int64_t n = 0; n < count; n += kStrip) {
            strip_rows(scores, 0, rows, n, kStripVectors, 16, of_path.kt + (k0 + n) * d, kStrip);
            strip_rows(slopes, 0, rows, n, kStripVectors, 16, of_path.vt + (k0 + n) * d, kStrip);
          }
          for (int64_t r = 0; r < rows; r++) {
            const int64_t at = (begin + r0 + r) * a.num_heads + h, visible = first + r0 + r + 1 - k0;
            const V16 m = set1(a.row_max[at]), inv = set1(1.0f / a.row_sum[at]), delta = set1(deltas[r]);
            float* pr = p + r * kBlockRow;
            float* dr = ds + r * kBlockRow;
            for (int64_t j = 0; j < (visible < count ? visible : count); j += 16) {
              const V16 w = exp16(load(pr + j) - m) * inv;
              store(pr + j, w);
              store(dr + j, w * (load(dr + j) - delta));
            }
            for (int64_t j = visible > 0 ? visible : 0; j < count; j++) pr[j] = dr[j] = 0.0f;
          }
          float* sum = sums + tree.push(k0 / kBackwardKeys, add) * block;
          gemm_block({rows, d, count, ds, kBlockRow, 1, of_path.k + k0 * d, d, 1, sum, d, Onto::Store, nullptr, 0}, 0, rows,
                     0, d, work);
          add_key_gradients(a, path, kv_head, k0, k0 + count, rows, ds, p, q, d_out, work);
        }
        tree.fold(add);
        for (int64_t r = 0; r < rows; r++)
          for (int64_t i = 0; i < d; i += 16)
            store_n(d_q + r * a.d_rs + i, load_n(sums + r * d + i, d - i) * scale, d - i);
      }
    }
  }
}

}  // namespace
