// The k-sequential matrix product: an output element is a chain of fmas for every kLongestChain of k, ascending, and the
// chains' tree sum.
//
// Vectors lie along n, so that a lane is an output column and its chains do not know their tile. Which tile an
// element falls into, and whether its strip of B was packed, are free choices of speed.
#pragma once
#include "table.hpp"
#include "transpose.hpp"
#include "tree_sum.hpp"
#include "v16.hpp"

namespace {

using tinsmith::Gemm;
using tinsmith::kLongestChain;
using tinsmith::Onto;

#if defined(TINSMITH_AVX512)
constexpr int kMaxRows = 6, kStripVectors = 4;
// Vectors of a strip for 1, 2, 3 and 4 rows: with as many sums as fit the registers, a row of B is read in long runs.
// A few rows are bound by reading B, and short runs a page apart are read at half the memory's rate.
constexpr int kFewRows = 4, kFewVectors[kFewRows] = {24, 12, 8, 6}, kFewSums = 16 * 24;
#elif defined(TINSMITH_AVX2) || defined(TINSMITH_NEON)
constexpr int kMaxRows = 6, kStripVectors = 1;
#else
constexpr int kMaxRows = 2, kStripVectors = 1;
#endif
constexpr int kStrip = 16 * kStripVectors;
// Strips packed at once, so that rows of B are read in runs of 256 bytes.
constexpr int kBeside = 64 / kStrip;
// From this many rows on, copying a strip of B into one contiguous run pays for itself.
constexpr int64_t kPackRows = 48;

// Floats of A in panels at once, and from how many columns on they pay.
constexpr int64_t kPanels = 1 << 18, kPanelColumns = 64;
TS_INLINE int64_t panel_rows(int64_t K) {
  return K * kMaxRows < kPanels ? kPanels / (K ? K : 1) / kMaxRows * kMaxRows : kMaxRows;
}

// What becomes of a chain's sum: `merged` earlier sums are added to it, the first from `earlier`, the next from a slot
// before; then it goes to C.
struct Ending {
  Onto onto;
  int merged = 0;
  const float* earlier = nullptr;
  int64_t earlier_rs = 0, slot = 0;
};

#define TS_NOW __attribute__((always_inline))

// MR rows by NV vectors, of which walk(sums) adds up one chain. `tail` lanes of the last vector exist in C (16: all).
template <int MR, int NV, typename Walk>
TS_INLINE void tile(const Walk& walk, float* C, int64_t c_rs, const Ending& end, int tail) {
  V16 acc[MR][NV];
  const auto each = [&](const auto& of) TS_NOW {
#pragma GCC unroll 8
    for (int m = 0; m < MR; m++)
#pragma GCC unroll 24
      for (int v = 0; v < NV; v++) of(acc[m][v], C + m * c_rs + 16 * v, v == NV - 1 && tail < 16, m, v);
  };
  if (end.onto == Onto::Chain)
    each([&](V16& sum, const float* c, bool part, int, int) TS_NOW { sum = part ? load_first(c, tail) : load(c); });
  else
    each([&](V16& sum, const float*, bool, int, int) TS_NOW { sum = zero16(); });
  walk(acc);
  const float* earlier = end.earlier;
  for (int i = 0; i < end.merged; i++, earlier -= end.slot)
    each([&](V16& sum, const float*, bool, int m, int v) TS_NOW {
      sum = load(earlier + m * end.earlier_rs + 16 * v) + sum;
    });
  if (end.onto == Onto::Add)
    each([&](V16& sum, const float* c, bool part, int, int) TS_NOW {
      sum = (part ? load_first(c, tail) : load(c)) + sum;
    });
  if (end.onto == Onto::Zero)
    each([&](V16& sum, const float*, bool, int, int) TS_NOW { sum = zero16() + sum; });
  each([&](V16& sum, float* c, bool part, int, int) TS_NOW {
    if (part) store_first(c, sum, tail);
    else store(c, sum);
  });
}

// The same over k in [0, K) of B as floats. Of A, either rows are contiguous (a_cs is 1), or columns are (a_rs is 1).
template <int MR, int NV, bool UnitA>
TS_INLINE void tile(int64_t K, const float* A, int64_t stride, const float* B, int64_t b_rs, float* C, int64_t c_rs,
                    const Ending& end, int tail) {
  const int64_t step = UnitA ? 1 : stride, a_rs = UnitA ? stride : 1;
  const auto walk = [=](V16(&acc)[MR][NV]) TS_NOW {
    const float *from = A, *row = B;
    const auto one = [&]() TS_NOW {
      if constexpr (NV > 4) {
        V16 a[MR];
#pragma GCC unroll 8
        for (int m = 0; m < MR; m++) a[m] = set1(from[m * a_rs]);
#pragma GCC unroll 24
        for (int v = 0; v < NV; v++) {
          const V16 b = load(row + 16 * v);
#pragma GCC unroll 8
          for (int m = 0; m < MR; m++) acc[m][v] = fma(a[m], b, acc[m][v]);
        }
      } else {
        V16 b[NV];
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) b[v] = load(row + 16 * v);
#pragma GCC unroll 8
        for (int m = 0; m < MR; m++) {
          const V16 a = set1(from[m * a_rs]);
#pragma GCC unroll 4
          for (int v = 0; v < NV; v++) acc[m][v] = fma(a, b[v], acc[m][v]);
        }
      }
      from += step;
      row += b_rs;
    };
    int64_t k = K;
    if constexpr (!UnitA) {  // a gradient's chains are short: few branches, each foreseen
      switch (k % 8) {
        case 7: one(); [[fallthrough]];
        case 6: one(); [[fallthrough]];
        case 5: one(); [[fallthrough]];
        case 4: one(); [[fallthrough]];
        case 3: one(); [[fallthrough]];
        case 2: one(); [[fallthrough]];
        case 1: one();
      }
      for (k /= 8; k > 0; k--) {
        one(), one(), one(), one();
        one(), one(), one(), one();
      }
    }
    for (; k > 0; k--) one();
  };
  tile<MR, NV>(walk, C, c_rs, end, tail);
}

template <int NV, bool UnitA>
static __attribute__((noinline)) void tile_rows(int rows, int64_t K, const float* A, int64_t stride, const float* B,
                                                int64_t b_rs, float* C, int64_t c_rs, const Ending& end, int tail) {
  switch (rows) {
    case 1: tile<1, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
    case 2: tile<2, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
#if !defined(TINSMITH_SCALAR)
    case 3: tile<3, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
    case 4: tile<4, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
    case 5: tile<5, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
    case 6: tile<6, NV, UnitA>(K, A, stride, B, b_rs, C, c_rs, end, tail); break;
#endif
  }
}

TS_INLINE void tile_any(int vectors, int rows, int64_t K, const float* A, int64_t a_rs, int64_t a_cs, const float* B,
                        int64_t b_rs, float* C, int64_t c_rs, const Ending& end, int tail) {
#define TS_TILE(NV)                                                                \
  (a_cs == 1 ? tile_rows<NV, true>(rows, K, A, a_rs, B, b_rs, C, c_rs, end, tail) \
             : tile_rows<NV, false>(rows, K, A, a_cs, B, b_rs, C, c_rs, end, tail))
  switch (vectors) {
    case 1: TS_TILE(1); break;
#if defined(TINSMITH_AVX512)
    case 2: TS_TILE(2); break;
    case 3: TS_TILE(3); break;
    case 4: TS_TILE(4); break;
#endif
  }
#undef TS_TILE
}

// Copy columns [n, n + width) of B into [K, 16 * vectors], zero beyond width.
static void pack_strip(const Gemm& g, int64_t n, int width, int vectors, float* packed) {
  const int row = 16 * vectors;
  if (g.b_cs == 1) {
    for (int64_t k = 0; k < g.K; k++) {
      const float* from = g.B + k * g.b_rs + n;
      float* to = packed + k * row;
      int i = 0;
      for (; i + 16 <= width; i += 16) store(to + i, load(from + i));
      for (; i < row; i++) to[i] = i < width ? from[i] : 0.0f;
    }
    return;
  }
  for (int i = width; i < row; i++)
    for (int64_t k = 0; k < g.K; k++) packed[k * row + i] = 0.0f;
  const int64_t whole = g.b_rs == 1 ? g.K / 16 * 16 : 0;
  for (int i = 0; i < width; i += 16) {
    const float* from = g.B + (n + i) * g.b_cs;
    const int64_t turned = i + 16 <= width ? whole : 0;
    for (int64_t k = 0; k < turned; k += 16) transpose16(from + k, g.b_cs, packed + k * row + i, row);
    for (int j = 0; j < 16 && i + j < width; j++)
      for (int64_t k = turned; k < g.K; k++) packed[k * row + i + j] = from[j * g.b_cs + k * g.b_rs];
  }
}

// Copy `count` whole strips of B from column n on, rows of which are contiguous, one strip after another.
static void pack_strips(const Gemm& g, int64_t n, int64_t count, float* packed) {
  for (int64_t k = 0; k < g.K; k++)
    for (int64_t s = 0; s < count; s++)
#pragma GCC unroll 4
      for (int i = 0; i < kStrip; i += 16)
        store(packed + (s * g.K + k) * kStrip + i, load(g.B + k * g.b_rs + n + s * kStrip + i));
}

// The chains of a product: its segments, or kLongestChain of k each.
struct Chains {
  const int64_t* bounds;  // or nullptr
  int64_t count, K;
  explicit Chains(const Gemm& g) : bounds(g.segments), count(g.num_segments), K(g.K) {
    if (bounds) count = tinsmith::last_filled(bounds, count) + 1;
    else count = g.onto == Onto::Chain || K == 0 ? 1 : (K + kLongestChain - 1) / kLongestChain;
  }
  // The first chain from i on that has a term; one without segments and terms is a chain all the same.
  int64_t next(int64_t i) const {
    while (bounds && i < count && bounds[i] == bounds[i + 1]) i++;
    return i;
  }
  int64_t begin(int64_t i) const { return bounds ? bounds[i] : i * kLongestChain; }
  int64_t end(int64_t i) const { return bounds ? bounds[i + 1] : i + 1 == count ? K : (i + 1) * kLongestChain; }
};

// The tree sum of the chains into C, for the rows of one tile, at most Floats sums in rows of `width`;
// product(k0, k1, to, to_rs, ending, tail) computes one chain.
template <int Floats, typename Product>
TS_INLINE void sum_chains(const Gemm& g, int width, int tail, float* C, const Product& product) {
  const Chains chains(g);
  if (chains.count == 0) {
    if (g.onto == Onto::Store || g.onto == Onto::Zero) product(0, 0, C, g.c_rs, Ending{Onto::Store}, tail);
    return;
  }
  alignas(64) float slots[tinsmith::kTreeDepth][Floats];
  tinsmith::TreeSum tree;
  for (int64_t i = chains.next(0); i < chains.count;) {
    const int64_t next = chains.next(i + 1);
    const bool last = next == chains.count;
    const int merged = tree.merge(i, last ? tinsmith::kNoUnit : next), slot = tree.last();
    const Ending end{last ? g.onto : Onto::Store, merged, slots[slot + merged - 1], width, Floats};
    product(chains.begin(i), chains.end(i), last ? C : slots[slot], last ? g.c_rs : width, end, last ? tail : 16);
    i = next;
  }
}

// Copy rows [m0, m1) of A into panels of kMaxRows, in which the rows of one k lie beside one another.
static void pack_rows(const Gemm& g, int64_t m0, int64_t m1, float* panels) {
  constexpr int64_t kAtOnce = 16;  // rows of a gradient's A lie a power of two apart: more would not stay in the first cache
  for (int64_t k0 = 0; k0 < g.K; k0 += kAtOnce)
    for (int64_t m = m0; m < m1; m += kMaxRows) {
      const int64_t rows = m1 - m < kMaxRows ? m1 - m : kMaxRows, end = k0 + kAtOnce < g.K ? k0 + kAtOnce : g.K;
      float* to = panels + (m - m0) * g.K + k0 * rows;
      for (int64_t k = k0; k < end; k++)
        for (int64_t i = 0; i < rows; i++) *to++ = g.A[(m + i) * g.a_rs + k * g.a_cs];
    }
}

// One strip of C: rows [m0, m1), from column n on; `panels` hold these rows of A, or are null.
static void strip_rows(const Gemm& g, int64_t m0, int64_t m1, int64_t n, int vectors, int tail, const float* B,
                       int64_t b_rs, const float* panels = nullptr) {
  // A gradient, or more than the second cache holds.
  const bool far_away = g.segments || (m1 - m0) * g.N > (1 << 17);
  for (int64_t m = m0; m < m1;) {
    int rows = m1 - m < kMaxRows ? (int)(m1 - m) : kMaxRows;
    float* C = g.C + m * g.c_rs + n;
    const float* A = panels ? panels + (m - m0) * g.K : g.A + m * g.a_rs;
    const int64_t a_rs = panels ? 1 : g.a_rs, a_cs = panels ? rows : g.a_cs;
    if (far_away)  // it comes while the sums are taken
      for (int i = 0; i < rows * vectors; i++) __builtin_prefetch(C + i / vectors * g.c_rs + i % vectors * 16, 1);
    const auto product = [&](int64_t k0, int64_t k1, float* to, int64_t to_rs, const Ending& end, int last) {
      tile_any(vectors, rows, k1 - k0, A + k0 * a_cs, a_rs, a_cs, B + k0 * b_rs, b_rs, to, to_rs, end, last);
    };
    sum_chains<kMaxRows * kStrip>(g, kStrip, tail, C, product);
    m += rows;
  }
}

#if defined(TINSMITH_AVX512)
// Whole wide strips of a few rows from column n0 on; returns the first column that is left.
static int64_t few_rows(const Gemm& g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const float* A = g.A + m0 * g.a_rs;
  const int rows = (int)(m1 - m0), width = 16 * kFewVectors[rows - 1];
  for (; n1 - n0 >= width; n0 += width) {
    float* C = g.C + m0 * g.c_rs + n0;
    const auto product = [&](int64_t k0, int64_t k1, float* to, int64_t to_rs, const Ending& end, int) {
      const float* from = A + k0;
      const float* B = g.B + k0 * g.b_rs + n0;
      switch (rows) {
        case 1: tile<1, kFewVectors[0], true>(k1 - k0, from, g.a_rs, B, g.b_rs, to, to_rs, end, 16); break;
        case 2: tile<2, kFewVectors[1], true>(k1 - k0, from, g.a_rs, B, g.b_rs, to, to_rs, end, 16); break;
        case 3: tile<3, kFewVectors[2], true>(k1 - k0, from, g.a_rs, B, g.b_rs, to, to_rs, end, 16); break;
        case 4: tile<4, kFewVectors[3], true>(k1 - k0, from, g.a_rs, B, g.b_rs, to, to_rs, end, 16); break;
      }
    };
    sum_chains<kFewSums>(g, width, 16, C, product);
  }
  return n0;
}
#endif

// True if rows of A are copied into panels: where they are columns of what is stored, a power of two apart, one strip's
// walk along them does not stay in the first cache, and several strips pay for the copy.
static bool in_panels(const Gemm& g, int64_t rows, int64_t columns) {
  return g.a_cs != 1 && ((rows >= kMaxRows && columns >= kPanelColumns) || g.a_rs != 1);
}

// Rows [m0, m1) and columns [n0, n1); scratch holds gemm_scratch(g) floats.
static void gemm_block(const Gemm& g, int64_t m0, int64_t m1, int64_t n0, int64_t n1, float* scratch) {
#if defined(TINSMITH_AVX512)
  if (m1 - m0 <= kFewRows && m1 > m0 && g.b_cs == 1 && g.a_cs == 1 && g.segments == nullptr)
    n0 = few_rows(g, m0, m1, n0, n1);
#endif
  const bool panels = in_panels(g, m1 - m0, n1 - n0), pack_all = g.b_cs != 1 || m1 - m0 >= kPackRows;
  const int64_t at_once = panels ? panel_rows(g.K) : m1 - m0;
  float* const strips = scratch;
  float* const rows = panels ? scratch + g.K * kStrip * kBeside : nullptr;
  for (int64_t m = m0, end; m < m1; m = end) {
    end = m + at_once < m1 ? m + at_once : m1;
    if (panels) pack_rows(g, m, end, rows);
    for (int64_t n = n0; n < n1;) {
      const int64_t left = n1 - n, whole = left / kStrip < kBeside ? left / kStrip : kBeside;
      if (pack_all && g.b_cs == 1 && whole > 0) {
        pack_strips(g, n, whole, strips);
        for (int64_t s = 0; s < whole; s++, n += kStrip)
          strip_rows(g, m, end, n, kStripVectors, 16, strips + s * g.K * kStrip, kStrip, rows);
        continue;
      }
      const int width = left < kStrip ? (int)left : kStrip, vectors = (width + 15) / 16;
      const int tail = width - 16 * (vectors - 1);
      const bool packed = pack_all || tail < 16;
      if (packed) pack_strip(g, n, width, vectors, strips);
      strip_rows(g, m, end, n, vectors, tail, packed ? strips : g.B + n, packed ? 16 * vectors : g.b_rs, rows);
      n += width;
    }
  }
}

static int64_t gemm_scratch(const Gemm& g) { return g.K * (kStrip * kBeside + (g.a_cs == 1 ? 0 : panel_rows(g.K))); }

// acc[n] += the tree sum over segments of the fma chain over a segment's rows of x[t,n] * y[t,n] (y null: x[t,n] * 1).
static void column_chain(const float* x, const float* y, int64_t rs_x, int64_t rs_y, const int64_t* segments,
                         int64_t num_segments, float* acc, int64_t n0, int64_t n1) {
  const V16 one = set1(1.0f);
  for (int64_t n = n0; n < n1; n += 16) {
    const int lanes = n1 - n < 16 ? (int)(n1 - n) : 16;
    V16 slots[tinsmith::kTreeDepth];
    const auto add = [&](int to, int from) { slots[to] = slots[to] + slots[from]; };
    tinsmith::TreeSum tree;
    for (int64_t s = 0; s < num_segments; s++) {
      if (segments[s] == segments[s + 1]) continue;
      V16 sum = zero16();
      for (int64_t t = segments[s]; t < segments[s + 1]; t++)
        sum = fma(load_first(x + t * rs_x + n, lanes), y ? load_first(y + t * rs_y + n, lanes) : one, sum);
      slots[tree.push(s, add)] = sum;
    }
    if (tree.empty()) continue;
    tree.fold(add);
    store_first(acc + n, load_first(acc + n, lanes) + slots[0], lanes);
  }
}

}  // namespace
