// Products with packed matrices, widened in registers where rows are few, and else a strip at a time.
#pragma once
#include <type_traits>

#include "gemm.hpp"
#include "words.hpp"

namespace {

using tinsmith::Held;
using tinsmith::Record;

// Rows and tiles that fit the registers with the codes and scales of the tiles: few rows of many tiles, or many rows of
// few, so that a widened value serves more of them; and up to how many rows it is faster to widen anew for each such run
// of rows than to keep what was widened.
#if defined(TINSMITH_AVX512)
constexpr int kHeldRows = 4, kHeldVectors = 4, kManyRows = 8, kManyVectors = 2, kFewHeld = 12;
#elif defined(TINSMITH_AVX2) || defined(TINSMITH_NEON)
constexpr int kHeldRows = 2, kHeldVectors = 2, kManyRows = 2, kManyVectors = 2, kFewHeld = 2;
#else
constexpr int kHeldRows = 1, kHeldVectors = 1, kManyRows = 1, kManyVectors = 1, kFewHeld = 1;
#endif

// The values of sixteen columns, k by k: of a group of k that share a scale, then eight at a time.
template <typename T>
struct Unpacked {
  using R = Record<T>;
  V16 scale, shift;
  W16 low, high;
  const uint8_t* at;

  // `in` is the first k of a group, within its block.
  TS_INLINE Unpacked group(const uint8_t* record, int in) {
    Unpacked u;
    if constexpr (!T::levels) u.scale = fp16s(record);
    if constexpr (T::steps) {
      const uint8_t* step = record + R::steps + 16 * (in / T::every);
      u.scale = u.scale * (T::signed_steps ? signed_bytes(step) : number<8, 0>(words_of_bytes(step)));
    }
    if constexpr (T::shifted) {
      u.shift = fp16s(record + R::m);
      if constexpr (T::steps)
        u.shift = u.shift * number<8, 0>(words_of_bytes(record + R::steps_of_m + 16 * (in / T::every)));
      if constexpr (T::sign < 0) u.shift = u.shift * set1(-1.0f);
    }
    return u;
  }
  inline __attribute__((always_inline)) void eight(const uint8_t* record, int in) {
    at = record + R::low + in / 8 * R::low_of_eight;
    if constexpr (T::bits < 8) low = words(at);
    const uint8_t* above = record + R::high + in / 8 * R::high_of_eight;
    if constexpr (T::bits == 5) high = up<4>(words_of_bytes(above));
    if constexpr (T::bits == 6) high = up<4>(words_of_halves(above));
  }
  inline __attribute__((always_inline)) V16 next() {
    V16 code;
    if constexpr (T::bits == 8) {
      code = signed_bytes(at);
      at += 16;
    } else if constexpr (T::levels) {
      code = level(low);
    } else if constexpr (T::bits == 4) {
      code = number<4, T::zero>(low);
    } else {
      code = number<T::bits, T::zero>(blend<15>(low, high));
    }
    if constexpr (T::bits < 8) low = down<4>(low);
    if constexpr (T::bits == 5 || T::bits == 6) high = down<T::bits - 4>(high);
    if constexpr (T::shifted) return fma(code, scale, shift);
    else return code * scale;
  }
};
template <typename T>
TS_INLINE V16 wide(const uint8_t* record) {
  if constexpr (std::is_same_v<T, tinsmith::Fp16s>) return fp16s(record);
  else return float_bits(up<16>(words_of_halves(record)));
}

// Where `tiles` tiles that lie beside one another in a panel have a run of k.
template <typename T>
struct Place {
  const Held& held;
  int64_t tile;
  const uint8_t* first;
  int64_t apart, end;  // bytes from a block to the next, and to behind the last
  Place(const Held& held, int64_t tile)
      : held(held),
        tile(tile),
        first(held.first<T>(tile)),
        apart(held.beside(tile) * (int64_t)Record<T>::size),
        end(held.K / T::block * apart) {}
};

// Where the codes of NV tiles lie 96 k, or a block, later: behind their last block come the first ones of the tiles
// beside them, or of the panel that follows. The processor foresees neither, and few rows leave no time to wait.
template <typename T, int NV>
struct Ahead {
  static constexpr int64_t blocks = T::block < 96 ? 96 / T::block : 1;
  const Place<T>& place;
  int64_t turn;  // bytes from where a run of blocks would go on to where the next one begins
  Ahead(const Place<T>& place) : place(place) {
    constexpr int64_t size = Record<T>::size;
    const bool beside = place.tile % tinsmith::kPanelTiles + NV < tinsmith::kPanelTiles;
    turn = beside ? NV * size - place.end : -(place.tile % tinsmith::kPanelTiles) * size;
  }
  // Fetch the share of eight k: many lines at once would be waited for.
  inline __attribute__((always_inline)) void fetch(int64_t k) const {
    constexpr int some = NV * Record<T>::size * 8 / T::block;
    int64_t at = (k / T::block + blocks) * place.apart;
    if (at >= place.end) at += turn;
    const uint8_t* from = place.first + at + k % T::block / 8 * some;
    for (int i = 0; i < some; i += 64) __builtin_prefetch(from + i);
  }
};

// The scales of sixteen columns' blocks; 0 beyond the last column.
TS_INLINE V16 absmax_of(const Held& held, int64_t tile, int64_t block) {
  const tinsmith::Absmax& a = held.absmax;
  const int64_t blocks = held.K / tinsmith::Nf4::block, left = held.N - 16 * tile;
  float scale[16] = {};
  for (int64_t c = 0, at = 16 * tile * blocks + block; c < (left < 16 ? left : 16); c++, at += blocks) {
    const float coded = a.levels[a.codes[at]] * a.scales[at / 256];
    scale[c] = coded + a.offset;
  }
  return load(scale);
}

// Calls each(k, values) for k in [k0, k1), both multiples of eight where codes are.
template <typename T, int NV, typename Each>
TS_INLINE void walk_held(const Place<T>& place, int64_t k0, int64_t k1, const Each& each) {
  constexpr int size = Record<T>::size;
  V16 b[NV];
  if constexpr (Record<T>::wide) {
    for (int64_t k = k0; k < k1; k++) {
#pragma GCC unroll 4
      for (int v = 0; v < NV; v++) b[v] = wide<T>(place.first + k * place.apart + v * size);
      each(k, b);
    }
  } else {
    const Ahead<T, NV> ahead(place);
    for (int64_t k = k0, next; k < k1; k = next) {
      next = (k / T::every + 1) * T::every < k1 ? (k / T::every + 1) * T::every : k1;
      const uint8_t* record = place.first + k / T::block * place.apart;
      const int in = (int)(k % T::block);
      Unpacked<T> u[NV];
#pragma GCC unroll 4
      for (int v = 0; v < NV; v++) {
        u[v] = Unpacked<T>::group(record + v * size, in);
        if constexpr (T::levels) u[v].scale = absmax_of(place.held, place.tile + v, k / T::block);
      }
      for (int e = 0; e < next - k; e += 8) {
        if constexpr (NV > 1) ahead.fetch(k + e);
#pragma GCC unroll 4
        for (int v = 0; v < NV; v++) u[v].eight(record + v * size, in + e);
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++) {
#pragma GCC unroll 4
          for (int v = 0; v < NV; v++) b[v] = u[v].next();
          each(k + e + j, b);
        }
      }
    }
  }
}

// Rows m0 .. m0 + MR by NV tiles from `first` on, widened as they are read.
template <typename T, int MR, int NV>
static __attribute__((noinline)) void few_held(const Gemm& g, int64_t m0, int64_t first) {
  const Place<T> place(*g.held, first);
  const float* A = g.A + m0 * g.a_rs;
  const int64_t left = g.N - 16 * (first + NV - 1);
  const auto product = [&](int64_t k0, int64_t k1, float* to, int64_t to_rs, const Ending& end, int last) TS_NOW {
    const auto walk = [&](V16(&acc)[MR][NV]) TS_NOW {
      walk_held<T, NV>(place, k0, k1, [&](int64_t k, const V16(&b)[NV]) TS_NOW {
#pragma GCC unroll 8
        for (int m = 0; m < MR; m++) {
          const V16 a = set1(A[m * g.a_rs + k]);
#pragma GCC unroll 4
          for (int v = 0; v < NV; v++) acc[m][v] = fma(a, b[v], acc[m][v]);
        }
      });
    };
    tile<MR, NV>(walk, to, to_rs, end, last);
  };
  sum_chains<MR * NV * 16>(g, 16 * NV, left < 16 ? (int)left : 16, g.C + m0 * g.c_rs + 16 * first, product);
}

template <typename T, int NV, int MR = NV <= kManyVectors ? kManyRows : kHeldRows>
static void few_held_rows(const Gemm& g, int64_t m0, int rows, int64_t first) {
  if constexpr (MR > 1)
    if (rows < MR) return few_held_rows<T, NV, MR - 1>(g, m0, rows, first);
  few_held<T, MR, NV>(g, m0, first);
}

template <typename T>
TS_INLINE void widen_run(const Held& held, int64_t tile, int64_t k0, int64_t k1, float* to, int64_t to_rs) {
  walk_held<T, 1>(Place<T>(held, tile), k0, k1, [&](int64_t k, const V16(&b)[1]) TS_NOW {
    store(to + (k - k0) * to_rs, b[0]);
  });
}

static void widen_tile(const Held& held, int64_t tile, int64_t k0, int64_t k1, float* to, int64_t to_rs) {
  tinsmith::with_type(held.type, [&](auto type) { widen_run<decltype(type)>(held, tile, k0, k1, to, to_rs); });
}

// Rows [n0, n1) of what was published, of one tile, widened: to[(n - n0) * to_rs + k].
static void widen_rows(const Held& held, int64_t n0, int64_t n1, float* to, int64_t to_rs) {
  constexpr int64_t some = 256;
  alignas(64) float columns[16 * some];
  for (int64_t k0 = 0; k0 < held.K; k0 += some) {
    const int64_t count = held.K - k0 < some ? held.K - k0 : some, whole = n1 - n0 == 16 ? count / 16 * 16 : 0;
    widen_tile(held, n0 / 16, k0, k0 + count, columns, 16);
    for (int64_t k = 0; k < whole; k += 16) transpose16(columns + 16 * k, 16, to + k0 + k, to_rs);
    for (int64_t n = n0; n < n1; n++)
      for (int64_t k = whole; k < count; k++) to[(n - n0) * to_rs + k0 + k] = columns[16 * k + n % 16];
  }
}

// Columns [n, n + width) of the transpose: k of the packed matrices is n here, and their columns are k.
static void turn_strip(const Gemm& g, int64_t n, int width, int vectors, float* packed) {
  const int row = 16 * vectors;
  alignas(64) float block[kStrip * 16], turned[16 * 16];
  for (int j = 16 * width; j < 16 * row; j++) block[j] = 0.0f;
  for (int64_t h = 0; h < g.num_held; packed += g.held[h++].N * row) {
    const Held& held = g.held[h];
    for (int64_t tile = 0; tile < held.tiles(); tile++) {
      widen_tile(held, tile, n, n + width, block, 16);
      for (int i = 0; i < row; i += 16) {
        float* to = packed + 16 * tile * row + i;
        if (16 * tile + 16 <= held.N) {
          transpose16(block + 16 * i, 16, to, row);
          continue;
        }
        transpose16(block + 16 * i, 16, turned, 16);
        for (int64_t c = 0; 16 * tile + c < held.N; c++) store(to + c * row, load(turned + 16 * c));
      }
    }
  }
}

// Rows [m0, m1), at most Rows at once, and columns [n0, n1); n0 is a multiple of 16.
template <typename T, int Rows, int NV>
static void gemm_held(const Gemm& g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  for (int64_t first = n0 / 16; 16 * first < n1;) {
    const bool wide = first % NV == 0 && 16 * (first + NV - 1) < n1;
    for (int64_t m = m0; m < m1; m += Rows) {
      const int rows = m1 - m < Rows ? (int)(m1 - m) : Rows;
      if (wide) few_held_rows<T, NV>(g, m, rows, first);
      else few_held_rows<T, 1>(g, m, rows, first);
    }
    first += wide ? NV : 1;
  }
}

// As gemm_block, of floats or of packed matrices; columns begin at a strip.
static void gemm_any(const Gemm& g, int64_t m0, int64_t m1, int64_t n0, int64_t n1, float* scratch) {
  if (!g.held) return gemm_block(g, m0, m1, n0, n1, scratch);
  if (!g.num_held && m1 - m0 <= kFewHeld && m1 > m0 && g.a_cs == 1 && !g.segments && g.onto != Onto::Chain)
    return tinsmith::with_type(g.held->type, [&](auto type) {
      if (m1 - m0 <= kHeldRows) gemm_held<decltype(type), kHeldRows, kHeldVectors>(g, m0, m1, n0, n1);
      else gemm_held<decltype(type), kManyRows, kManyVectors>(g, m0, m1, n0, n1);
    });
  for (int64_t n = n0; n < n1; n += kStrip) {
    const int width = n1 - n < kStrip ? (int)(n1 - n) : kStrip, vectors = (width + 15) / 16;
    if (g.num_held) turn_strip(g, n, width, vectors, scratch);
    else
      for (int v = 0; v < vectors; v++) widen_tile(*g.held, n / 16 + v, 0, g.K, scratch + 16 * v, 16 * vectors);
    strip_rows(g, m0, m1, n, vectors, width - 16 * (vectors - 1), scratch, 16 * vectors);
  }
}

}  // namespace
