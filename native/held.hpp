// Matrices held as they were published: the types of block, and where their parts lie once packed by column tile.
//
// A file stores a weight [out, in] in blocks along `in`. Here sixteen outputs lie beside one another, so that a vector's
// lanes are columns of the product: a record is one block of k for sixteen columns, and up to four tiles' records of one
// block (a panel) follow each other, block after block. Codes keep their bits; a value is scale * (code - zero), or that
// plus a shift. Scales are products of fp16 and small integers and no product with a code has more than 24 bits, so that
// all but the last addition is exact: one fused step gives the bits of the file's two. NF4's codes are numbers of levels
// (arXiv:2305.14314), and its scales are coded themselves and lie apart (Absmax): a value is one product, rounded once.
#pragma once
#include <cstdint>
#include <cstring>

namespace tinsmith {

constexpr int64_t kPanelTiles = 4;

enum class HeldType { BF16, F16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, Q6_K, NF4 };

// What each type says of itself. `block` weights take `bytes` in a file and are `bits` wide each; every `every` of them
// share a scale, an fp16 `d` of the block, times an integer of its own where there are `steps`; `shifted` adds an fp16
// `m` alike (`sign` times it). codes(), step() and step_of_m() read a block of the file: codes those of eight weights from
// k on, a multiple of eight, a byte each.
inline uint64_t bytes_at(const uint8_t* p) {
  uint64_t eight;
  memcpy(&eight, p, 8);
  return eight;
}
// `Bits` bits of eight bytes from `p` on, above the lowest `shift`.
template <int Bits>
inline uint64_t bits_of_bytes(const uint8_t* p, int shift) {
  return bytes_at(p) >> shift & 0x0101010101010101u * ((1 << Bits) - 1);
}
// The bits of a byte, a byte each.
inline uint64_t bytes_of_bits(uint8_t bits) {
  const uint64_t each = 0x0101010101010101u * bits & 0x8040201008040201u;
  return (each + 0x7f7f7f7f7f7f7f7fu) >> 7 & 0x0101010101010101u;
}

struct Plain {
  static constexpr int block = 32, every = 32, zero = 0, sign = 1, d = 0, m = 2;
  static constexpr bool shifted = false, steps = false, signed_steps = false, levels = false;
  static int step(const uint8_t*, int) { return 0; }
  static int step_of_m(const uint8_t*, int) { return 0; }
};
struct Bf16s : Plain {
  static constexpr int block = 1, bytes = 2, bits = 16;
};
struct Fp16s : Bf16s {};
struct Q8_0 : Plain {
  static constexpr int bytes = 34, bits = 8;
  static uint64_t codes(const uint8_t* b, int k) { return bytes_at(b + 2 + k); }
};
struct Q4_0 : Plain {
  static constexpr int bytes = 18, bits = 4, zero = 8;
  static uint64_t codes(const uint8_t* b, int k) { return bits_of_bytes<4>(b + 2 + k % 16, 4 * (k / 16)); }
};
struct Q4_1 : Plain {
  static constexpr int bytes = 20, bits = 4;
  static constexpr bool shifted = true;
  static uint64_t codes(const uint8_t* b, int k) { return bits_of_bytes<4>(b + 4 + k % 16, 4 * (k / 16)); }
};
struct Q5_0 : Plain {
  static constexpr int bytes = 22, bits = 5, zero = 16;
  static uint64_t codes(const uint8_t* b, int k) {
    return bits_of_bytes<4>(b + 6 + k % 16, 4 * (k / 16)) | bytes_of_bits(b[2 + k / 8]) << 4;
  }
};
struct Q5_1 : Plain {
  static constexpr int bytes = 24, bits = 5;
  static constexpr bool shifted = true;
  static uint64_t codes(const uint8_t* b, int k) {
    return bits_of_bytes<4>(b + 8 + k % 16, 4 * (k / 16)) | bytes_of_bits(b[4 + k / 8]) << 4;
  }
};
struct Q4_K : Plain {
  static constexpr int block = 256, bytes = 144, bits = 4, sign = -1;
  static constexpr bool shifted = true, steps = true;
  static uint64_t codes(const uint8_t* b, int k) {
    return bits_of_bytes<4>(b + 16 + k / 64 * 32 + k % 32, 4 * (k / 32 % 2));
  }
  static int step(const uint8_t* b, int g) {
    return g < 4 ? b[4 + g] & 63 : (b[8 + g] & 15) | (b[g] >> 6) << 4;
  }
  static int step_of_m(const uint8_t* b, int g) {
    return g < 4 ? b[8 + g] & 63 : b[8 + g] >> 4 | (b[4 + g] >> 6) << 4;
  }
};
struct Q5_K : Q4_K {
  static constexpr int bytes = 176, bits = 5;
  static uint64_t codes(const uint8_t* b, int k) {
    return bits_of_bytes<4>(b + 48 + k / 64 * 32 + k % 32, 4 * (k / 32 % 2)) |
           bits_of_bytes<1>(b + 16 + k % 32, k / 32) << 4;
  }
};
struct Q6_K : Plain {
  static constexpr int block = 256, bytes = 210, bits = 6, zero = 32, every = 16, d = 208;
  static constexpr bool steps = true, signed_steps = true;
  static uint64_t codes(const uint8_t* b, int k) {
    return bits_of_bytes<4>(b + k / 128 * 64 + k % 64, 4 * (k / 64 % 2)) |
           bits_of_bytes<2>(b + 128 + k / 128 * 32 + k % 32, 2 * (k / 32 % 4)) << 4;
  }
  static int step(const uint8_t* b, int g) { return b[192 + g]; }
};

struct Nf4 : Plain {  // as `ops/nf4.py` lays its blocks out
  static constexpr int block = 64, every = 64, bytes = 32, bits = 4;
  static constexpr bool levels = true;
  static uint64_t codes(const uint8_t* b, int k) {
    uint64_t eight = 0;
    for (int i = 0; i < 4; i++) eight |= (uint64_t)(b[k / 2 + i] >> 4 | (b[k / 2 + i] & 15) << 8) << 16 * i;
    return eight;
  }
};

// Where a record's parts begin: d, m and steps for sixteen columns, then planes of codes. Of codes of 4 to 6 bits eight
// k of a column share a word of low halves, and a byte or two of the bits above; wider ones lie column beside column.
template <typename T>
struct Record {
  static constexpr bool wide = T::bits == 16;
  static constexpr int groups = T::block / T::every;
  static constexpr int m = wide || T::levels ? 0 : 32, steps = m + (T::shifted ? 32 : 0);
  static constexpr int steps_of_m = steps + (T::steps ? 16 * groups : 0);
  static constexpr int low = steps_of_m + (T::steps && T::shifted ? 16 * groups : 0);
  static constexpr int low_of_eight = T::bits >= 8 ? 16 * T::bits : 64;  // bytes that eight k take
  static constexpr int high_of_eight = T::bits >= 8 ? 0 : 16 * (T::bits - 4);
  static constexpr int high = low + T::block * low_of_eight / 8;
  static constexpr int size = high + T::block * high_of_eight / 8;
};

// The scales of NF4's blocks, row by row: level[code] * scale + offset, two roundings; 256 blocks share a scale.
struct Absmax {
  const uint8_t* codes;
  const float *scales, *levels;
  float offset;
};

// One packed matrix.
struct Held {
  HeldType type;
  int64_t N, K;  // columns of the product (the file's rows), and k
  const uint8_t* data;
  Absmax absmax;  // of NF4

#define TS_HERE __attribute__((always_inline)) inline  // no instruction set lends it to another
  TS_HERE int64_t tiles() const { return (N + 15) / 16; }
  TS_HERE int64_t beside(int64_t tile) const {  // tiles of its panel
    const int64_t first = tile / kPanelTiles * kPanelTiles, left = tiles() - first;
    return left < kPanelTiles ? left : kPanelTiles;
  }
  // The record of a tile's first block; those of further blocks follow at `beside` records each.
  template <typename T>
  TS_HERE const uint8_t* first(int64_t tile) const {
    const int64_t blocks = K / T::block, panel = tile / kPanelTiles;
    return data + (panel * kPanelTiles * blocks + tile % kPanelTiles) * (int64_t)Record<T>::size;
  }
#undef TS_HERE
};

// Calls body(T{}) with the type that this is.
template <typename Body>
auto with_type(HeldType type, const Body& body) {
  switch (type) {
    case HeldType::BF16: return body(Bf16s{});
    case HeldType::F16: return body(Fp16s{});
    case HeldType::Q8_0: return body(Q8_0{});
    case HeldType::Q4_0: return body(Q4_0{});
    case HeldType::Q4_1: return body(Q4_1{});
    case HeldType::Q5_0: return body(Q5_0{});
    case HeldType::Q5_1: return body(Q5_1{});
    case HeldType::Q4_K: return body(Q4_K{});
    case HeldType::Q5_K: return body(Q5_K{});
    case HeldType::Q6_K: return body(Q6_K{});
    default: return body(Nf4{});
  }
}

}  // namespace tinsmith
