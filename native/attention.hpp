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

// S[MR rows, NP pages of 16 keys] = q . K^T, a chain over d. A line of `ahead` is asked for at each step: long keys lie
// beyond the second cache, and many lines at once would be waited for. `best`, unless null, has each row's largest
// scores of earlier keys, lane by lane, and takes these in.
template <int MR, int NP>
TS_INLINE void score_tile(int64_t d, const float* q, int64_t q_rs, const float* const* pages, const float* ahead,
                          float* s, int64_t s_rs, float* best, bool first) {
  V16 acc[MR][NP];
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) acc[m][p] = zero16();
  for (int64_t k = 0; k < d; k++) {
    V16 b[NP];
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) b[p] = load(pages[p] + 16 * k);
    __builtin_prefetch(ahead + 16 * k, 0, 2);
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
  if (best == nullptr) return;
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++) {
    V16 b = first ? acc[m][0] : load(best + 16 * m);
#pragma GCC unroll 4
    for (int p = 0; p < NP; p++) b = max(acc[m][p], b);
    store(best + 16 * m, b);
  }
}

// The chains of value_tile over `count` keys of one page.
template <int MR, int NV>
TS_INLINE void value_keys(int count, const float* p, int64_t p_rs, const float* B, int64_t d_pad, const float* ahead,
                          V16 (&acc)[MR][NV]) {
  for (int j = 0; j < count; j++) {
    V16 b[NV];
    __builtin_prefetch(ahead + 16 * j, 0, 2);
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
                          int64_t column, int64_t d_pad, const float* ahead, float* o, int64_t o_rs) {
  V16 acc[MR][NV];
#pragma GCC unroll 8
  for (int m = 0; m < MR; m++)
#pragma GCC unroll 4
    for (int v = 0; v < NV; v++) acc[m][v] = goes_on ? load(o + m * o_rs + 16 * v) : zero16();
  const int64_t full = num_keys / 16;
  for (int64_t page = 0; page < full; page++)
    value_keys<MR, NV>(16, p + 16 * page, p_rs, pages[page] + column, d_pad, ahead + 256 * page, acc);
  if (num_keys % 16 != 0)
    value_keys<MR, NV>((int)(num_keys % 16), p + 16 * full, p_rs, pages[full] + column, d_pad, ahead, acc);
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
                                                 const float* const* pages, const float* ahead, float* s, int64_t s_rs,
                                                 float* best, bool first) {
#define TS_CALL(MR) score_tile<MR, NP>(d, q, q_rs, pages, ahead, s, s_rs, best, first)
  TS_ROWS(TS_CALL)
#undef TS_CALL
}

template <int NV>
static __attribute__((noinline)) void value_rows(int rows, bool goes_on, int64_t num_keys, const float* p,
                                                 int64_t p_rs, const float* const* pages, int64_t column,
                                                 int64_t d_pad, const float* ahead, float* o, int64_t o_rs) {
#define TS_CALL(MR) value_tile<MR, NV>(goes_on, num_keys, p, p_rs, pages, column, d_pad, ahead, o, o_rs)
  TS_ROWS(TS_CALL)
#undef TS_CALL
}

// Keys whose values stay in the first cache while all rows of a block go through them. As many as a strip of 64 columns
// has lines in a page, so that a tile asks for one page of the next.
constexpr int64_t kValueKeys = 64, kWeights = kValueKeys + 16;

// Scores of keys [k0, k0 + count) of rows, of which row r stands at position (first + r) / group, to
// exp(score - largest), +0 for keys it does not see; their sums go on.
static __attribute__((noinline)) void weigh(int rows, const float* s, int64_t s_rs, int64_t k0, int64_t count,
                                            int64_t first, int64_t group, const float* best, float* totals, float* p) {
  for (int r = 0; r < rows; r++, s += s_rs, best += 16, totals += 16, p += kWeights) {
    const V16 m = set1(*best);
    V16 sum = k0 == 0 ? zero16() : load(totals);
    const int64_t sees = (first + r) / group + 1 - k0, whole = sees < count ? sees : count;
    int64_t j = 0;
    for (; j + 16 <= whole; j += 16) {
      const V16 e = exp16(load(s + k0 + j) - m);
      store(p + j, e);
      sum = sum + e;
    }
    for (; j < count; j += 16) {
      store(p + j, zero16());
      if (j >= sees) continue;
      store_first(p + j, exp16(load(s + k0 + j) - m), (int)(sees - j));
      sum = sum + load(p + j);
    }
    store(totals, sum);
  }
}

static int64_t whole_vectors(int64_t d) { return (d + 15) / 16 * 16; }

static int64_t attention_scratch(const Attention& a, int64_t rows, int64_t keys) {
  const int64_t group = a.num_heads / a.num_kv_heads, pages = (keys + 15) / 16;
  return group * rows * (whole_vectors(a.d) + a.d_pad + 16 * pages + 48) + 4 * pages + 64;
}

// Query rows [row0, row1) of one sequence and kv head.
static void attention(const Attention& a, int64_t seq, int64_t kv_head, int64_t row0, int64_t row1, float* scratch) {
  const int64_t group = a.num_heads / a.num_kv_heads, rows = (row1 - row0) * group;
  const int64_t base = a.first_pos[seq] - a.row_begin[seq];  // position = base + row
  const int64_t num_pages = (base + row1 + 15) / 16, seen = base + row1;
  const int64_t keys = 16 * num_pages + 16;  // a row of scores; 16 more, as rows a power of two apart share a cache set
  const float** k_pages = (const float**)scratch;
  const float** v_pages = k_pages + num_pages;
  float* q = scratch + (4 * num_pages + 15) / 16 * 16;  // all that follows lies in whole lines
  float* s = q + rows * whole_vectors(a.d);
  float* o = s + rows * keys;
  float* best = o + rows * a.d_pad;
  float* totals = best + rows * 16;
  for (int64_t p = 0; p < num_pages; p++) {
    const int64_t page = a.table[seq * a.table_rs + p];
    k_pages[p] = a.k_pages + (page * a.num_kv_heads + kv_head) * a.d * 16;
    v_pages[p] = a.v_pages + (page * a.num_kv_heads + kv_head) * 16 * a.d_pad;
  }
  const auto visible = [&](int64_t r) { return base + row0 + r / group + 1; };
  const V16 scale = set1(a.scale);
  for (int64_t r = 0; r < rows; r++) {
    const float* from = a.q + (row0 + r / group) * a.q_rs + (kv_head * group + r % group) * a.d;
    for (int64_t i = 0; i < a.d; i += 16) store_n(q + r * a.d + i, load_n(from + i, a.d - i) * scale, a.d - i);
  }
  for (int64_t p = 0; p < num_pages;) {
    const int64_t take = num_pages - p < kScorePages ? num_pages - p : kScorePages;
    const int64_t left = num_pages - p - take, after = left < take ? left : take;
    for (int64_t r = 0; r < rows; r += kScoreRows) {
      const int n = (int)(rows - r < kScoreRows ? rows - r : kScoreRows);
      const float* from = q + r * a.d;
      float* to = s + r * keys + 16 * p;
      const float* ahead = k_pages[r / kScoreRows < after ? p + take + r / kScoreRows : p];
      float* all = visible(r) < 16 * (p + take) ? nullptr : best + 16 * r;
      switch (take) {
        case 1: score_rows<1>(n, a.d, from, a.d, k_pages + p, ahead, to, keys, all, p == 0); break;
#if defined(TINSMITH_AVX512)
        case 2: score_rows<2>(n, a.d, from, a.d, k_pages + p, ahead, to, keys, all, p == 0); break;
        case 3: score_rows<3>(n, a.d, from, a.d, k_pages + p, ahead, to, keys, all, p == 0); break;
        case 4: score_rows<4>(n, a.d, from, a.d, k_pages + p, ahead, to, keys, all, p == 0); break;
#endif
      }
    }
    p += take;
  }
  for (int64_t r = 0; r < rows; r++) {
    const float* row = s + r * keys;
    float* largest = best + 16 * r;
    int64_t j = visible(r / kScoreRows * kScoreRows) / (16 * kScorePages) * (16 * kScorePages);
    V16 b = load(j > 0 ? largest : row);  // the strips before key j are in
    for (; j + 16 <= visible(r); j += 16) b = max(load(row + j), b);
    *largest = visible(r) < 16 ? row[0] : hmax(b);
    for (; j < visible(r); j++) *largest = row[j] > *largest ? row[j] : *largest;
  }
  for (int64_t k0 = 0; k0 < seen; k0 += kValueKeys) {
    const float** pages = v_pages + k0 / 16;
    const int64_t left = num_pages - (k0 + kValueKeys) / 16, rest = left < kValueKeys / 16 ? left : kValueKeys / 16;
    for (int64_t r = 0; r < rows; r += kScoreRows) {
      const int n = (int)(rows - r < kScoreRows ? rows - r : kScoreRows);
      const int64_t sees = visible(r + n - 1) - k0, count = sees < kValueKeys ? sees : kValueKeys;
      alignas(64) float p[kScoreRows * kWeights];
      if (count <= 0) continue;
      weigh(n, s + r * keys, keys, k0, count, (base + row0) * group + r, group, best + 16 * r, totals + 16 * r, p);
      const float* next = pages[r / kScoreRows < rest ? kValueKeys / 16 + r / kScoreRows : 0];
      for (int64_t c = 0; c < a.d_pad;) {
        const float* ahead = next + 16 * c;
        const int64_t left = (a.d_pad - c) / 16, take = left < kScorePages ? left : kScorePages;
        float* to = o + r * a.d_pad + c;
        switch (take) {
          case 1: value_rows<1>(n, k0 > 0, count, p, kWeights, pages, c, a.d_pad, ahead, to, a.d_pad); break;
#if defined(TINSMITH_AVX512)
          case 2: value_rows<2>(n, k0 > 0, count, p, kWeights, pages, c, a.d_pad, ahead, to, a.d_pad); break;
          case 3: value_rows<3>(n, k0 > 0, count, p, kWeights, pages, c, a.d_pad, ahead, to, a.d_pad); break;
          case 4: value_rows<4>(n, k0 > 0, count, p, kWeights, pages, c, a.d_pad, ahead, to, a.d_pad); break;
#endif
        }
        c += 16 * take;
      }
    }
  }
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = row0 + r / group, head = kv_head * group + r % group;
    const float total = hsum(load(totals + 16 * r));
    if (a.row_max) {
      a.row_max[row * a.num_heads + head] = best[16 * r];
      a.row_sum[row * a.num_heads + head] = total;
    }
    const V16 sum = set1(total);
    float* to = a.out + row * a.out_rs + head * a.d;
    for (int64_t i = 0; i < a.d; i += 16) store_n(to + i, load_n(o + r * a.d_pad + i, a.d - i) / sum, a.d - i);
  }
}

// Query rows and keys of a block; free, as chains run through them, but that its keys are one chain of dQ.
constexpr int64_t kBackwardRows = 96, kBackwardKeys = kLongestChain, kBlockRow = kBackwardKeys + 16;
static_assert(tinsmith::kBackwardRange % kBackwardKeys == 0);

static int64_t attention_backward_scratch(const AttentionBackward& a) {
  const int64_t wide = whole_vectors(a.d), sums = __builtin_ctz(tinsmith::kBackwardRange / kBackwardKeys) + 1;
  return (2 * a.d + wide) * tinsmith::kBackwardRange + kBackwardRows * (2 * kBlockRow + (2 + sums) * wide) + 64;
}

// Keys and values of one range of the path from a tree's root to one node, by position: K^T and V^T in strips
// [d, kStrip], K as rows of whole vectors. Nodes come depth first, so that what stands above a node's first position is
// its path's.
struct PathKeys {
  int64_t begin, end;  // positions
  float *kt, *vt, *k;
  // `fresh`: the gradients of its keys and values are zero so far.
  void add(const AttentionBackward& a, int64_t node, int64_t kv_head, bool fresh) {
    const int64_t at = a.first_pos[node], last = at + a.row_begin[node + 1] - a.row_begin[node], d = a.d;
    const int64_t first = at > begin ? at : begin, until = last < end ? last : end;
    if (first >= until) return;
    const int64_t row = a.row_begin[node] + first - at;
    const float* k_from = a.k + row * a.rs + kv_head * d;
    turn(a, k_from, first - begin, until - begin, kt);
    turn(a, k_from + (a.v - a.k), first - begin, until - begin, vt);
    for (int64_t t = 0; t < until - first; t++)
      for (int64_t i = 0; i < d; i += 16) {
        store(k + (first - begin + t) * whole_vectors(d) + i, load_n(k_from + t * a.rs + i, d - i));
        if (!fresh) continue;
        store_n(a.d_k + (row + t) * a.d_rs + kv_head * d + i, zero16(), d - i);
        store_n(a.d_v + (row + t) * a.d_rs + kv_head * d + i, zero16(), d - i);
      }
  }

 private:
  // Rows of positions [first, end) of the range into the strips, zero to the end of the last one.
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

// Rows [m, m + rows) of a product with B of whole vectors, one chain each; nothing is packed.
TS_INLINE void one_chain(const Gemm& g, int64_t m, int64_t rows, Ending end) {
  const float* earlier = end.earlier;
  for (int64_t n = 0; n < g.N; n += kStrip) {
    const int width = (int)(g.N - n < kStrip ? g.N - n : kStrip), vectors = (width + 15) / 16;
    end.earlier = earlier + m * end.earlier_rs + n;
    tile_any(vectors, (int)rows, g.K, g.A + m * g.a_rs, g.a_rs, g.a_cs, g.B + n, g.b_rs, g.C + m * g.c_rs + n, g.c_rs,
             end, width - 16 * (vectors - 1));
  }
}

// d_keys += weights^T . by of one block, its query rows from position `first` on and its keys from `key` on: rows that
// see none of a tile's keys add nothing and are left out.
static void add_key_gradients(int64_t d, int64_t key, int64_t keys, int64_t first, int64_t rows, const float* weights,
                              const float* by, float* d_keys, int64_t d_rs) {
  const int64_t wide = whole_vectors(d);
  for (int64_t t = 0; t < keys; t += kMaxRows) {
    const int64_t blind = key + t > first ? key + t - first : 0;
    if (blind >= rows) return;
    one_chain({keys, d, rows - blind, weights + blind * kBlockRow, 1, kBlockRow, by + blind * wide, wide, 1, d_keys,
               d_rs, Onto::Chain, nullptr, 0}, t, keys - t < kMaxRows ? keys - t : kMaxRows, Ending{Onto::Chain});
  }
}

// Of one tree (nodes node0 .. node1), kv head and range of keys from position `begin` on: dK and dV, one chain each
// over (query head of the group, row of the tree that sees the key), and the range's node of dQ's tree of chains of
// 128 keys, to be scaled when the tree is whole.
static void attention_backward(const AttentionBackward& a, int64_t node0, int64_t node1, int64_t kv_head, int64_t begin,
                               float* scratch) {
  const int64_t d = a.d, wide = whole_vectors(d), group = a.num_heads / a.num_kv_heads, block = kBackwardRows * wide;
  constexpr int64_t range = tinsmith::kBackwardRange;
  PathKeys of_path{begin, begin + range, scratch, scratch + d * range, scratch + 2 * d * range};
  float* p = of_path.k + wide * range;
  float* ds = p + kBackwardRows * kBlockRow;
  float* q = ds + kBackwardRows * kBlockRow;
  float* d_out = q + block;
  float* sums = d_out + block;
  const int64_t whole[2] = {0, d};
  const V16 scale = set1(a.scale);
  std::vector<int64_t> path;
  const auto rows_of = [&](int64_t node) { return a.row_begin[node + 1] - a.row_begin[node]; };
  for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
    path.clear();
    for (int64_t node = node0; node < node1; node++) {
      while (!path.empty() && a.first_pos[path.back()] >= a.first_pos[node]) path.pop_back();
      path.push_back(node);
      if (h == kv_head * group || node1 - node0 > 1) of_path.add(a, node, kv_head, h == kv_head * group);
      const int64_t length = rows_of(node), first = a.first_pos[node];
      for (int64_t r0 = begin > first ? begin - first : 0; r0 < length; r0 += kBackwardRows) {
        const int64_t rows = length - r0 < kBackwardRows ? length - r0 : kBackwardRows, pos = first + r0;
        const int64_t row0 = a.row_begin[node] + r0, end = pos + rows < begin + range ? pos + rows : begin + range;
        float deltas[kBackwardRows];
        for (int64_t r = 0; r < rows; r++) {
          V16 dot = zero16();
          for (int64_t i = 0; i < d; i += 16) {
            const int64_t at = (row0 + r) * a.out_rs + h * d + i;
            const V16 slope = load_n(a.d_out + at, d - i);
            store(q + r * wide + i, load_n(a.q + (row0 + r) * a.rs + h * d + i, d - i) * scale);
            store(d_out + r * wide + i, slope);
            dot = fma(slope, load_n(a.out + at, d - i), dot);
          }
          deltas[r] = hsum(dot);
        }
        tinsmith::TreeSum tree;
        for (int64_t k0 = begin; k0 < end; k0 += kBackwardKeys) {
          const int64_t count = end - k0 < kBackwardKeys ? end - k0 : kBackwardKeys;
          const int64_t blind = k0 > pos ? (k0 - pos) / kMaxRows * kMaxRows : 0;  // rows that see no key of the block
          // One chain, as in the forward pass: the weights are those of the forward pass.
          const Gemm scores{rows, count, d, q, wide, 1, nullptr, kStrip, 1, p, kBlockRow, Onto::Store, whole, 1};
          const Gemm slopes{rows, count, d, d_out, wide, 1, nullptr, kStrip, 1, ds, kBlockRow, Onto::Store, nullptr, 0};
          for (int64_t n = 0; n < count; n += kStrip)
            for (int64_t m = blind; m < rows; m += kMaxRows) {
              const int64_t last = rows - m < kMaxRows ? rows : m + kMaxRows, sees = pos + last - k0 - n;
              const int64_t until = count - n < kStrip ? count - n : kStrip, at = (k0 - begin + n) * d;
              const int vectors = sees <= 0 ? 0 : (int)((sees < until ? sees : until) + 15) / 16;
              if (vectors > 0) {
                strip_rows(scores, m, last, n, vectors, 16, of_path.kt + at, kStrip);
                strip_rows(slopes, m, last, n, vectors, 16, of_path.vt + at, kStrip);
              }
              for (int64_t r = m; r < last; r++) {
                const int64_t stat = (row0 + r) * a.num_heads + h, visible = pos + r + 1 - k0 - n;
                const V16 top = set1(a.row_max[stat]), inv = set1(1.0f / a.row_sum[stat]), delta = set1(deltas[r]);
                float* pr = p + r * kBlockRow + n;
                float* dr = ds + r * kBlockRow + n;
                for (int64_t j = 0; j < (visible < until ? visible : until); j += 16) {
                  const V16 w = exp16(load(pr + j) - top) * inv;
                  store(pr + j, w);
                  store(dr + j, w * (load(dr + j) - delta));
                }
                for (int64_t j = visible > 0 ? visible : 0; j < until; j++) pr[j] = dr[j] = 0.0f;
              }
            }
          const bool more = k0 + kBackwardKeys < end;
          const int64_t chain = k0 / kBackwardKeys;
          const int merged = tree.merge(chain, more ? chain + 1 : tinsmith::kNoUnit), slot = tree.last();
          float* to = more ? sums + slot * block : a.d_q + row0 * a.d_q_rs + h * d;
          for (int64_t m = 0; m < rows; m += kMaxRows) {
            const int64_t last = rows - m < kMaxRows ? rows : m + kMaxRows, sees = pos + last - k0;
            const int64_t terms = sees < 0 ? 0 : sees < count ? sees : count, to_rs = more ? wide : a.d_q_rs;
            const Gemm of_q{rows, d, terms, ds, kBlockRow, 1, of_path.k + (k0 - begin) * wide, wide, 1, to, to_rs,
                            Onto::Store, nullptr, 0};
            one_chain(of_q, m, last - m, {Onto::Store, merged, sums + (slot + merged - 1) * block, wide, block});
          }
          for (const int64_t above : path) {
            const int64_t at = a.first_pos[above], from = at > k0 ? at : k0;
            const int64_t until = at + rows_of(above) < k0 + count ? at + rows_of(above) : k0 + count;
            const int64_t to_row = (a.row_begin[above] + from - at) * a.d_rs + kv_head * d;
            add_key_gradients(d, from, until - from, pos, rows, ds + from - k0, q, a.d_k + to_row, a.d_rs);
            add_key_gradients(d, from, until - from, pos, rows, p + from - k0, d_out, a.d_v + to_row, a.d_rs);
          }
        }
      }
    }
  }
}

}  // namespace
