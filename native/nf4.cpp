// NF4 decoding, a tile of 32 output rows by one block of columns at a time.
#include "nf4.hpp"

namespace tinsmith {
namespace {

constexpr std::int64_t kBlock = 64;  // weights that share one absmax
constexpr std::int64_t kPairs = kBlock / 2;
constexpr std::int64_t kRows = 32;  // two cache lines of wt

// Writes kRows rows by kBlock columns; `codes` and `absmax` stand at the tile's first weight and
// block, `wt` at its first element. The columns of every row are exactly one block.
void decode_tile(const std::uint8_t* codes, const float* absmax, std::int64_t out, std::int64_t in,
                 float* wt) {
  std::uint8_t pairs[kPairs][kRows];
  float scales[kRows];
  for (std::int64_t row = 0; row < kRows; ++row) {
    scales[row] = absmax[row * in / kBlock];
    for (std::int64_t pair = 0; pair < kPairs; ++pair) {
      pairs[pair][row] = codes[row * in / 2 + pair];
    }
  }
  for (std::int64_t pair = 0; pair < kPairs; ++pair) {
    float first[kRows];
    float second[kRows];
    for (std::int64_t row = 0; row < kRows; ++row) {
      first[row] = kNf4Levels[pairs[pair][row] >> 4];
      second[row] = kNf4Levels[pairs[pair][row] & 15];
    }
    float* to = wt + 2 * pair * out;
    for (std::int64_t row = 0; row < kRows; ++row) {
      to[row] = first[row] * scales[row];
    }
    to += out;
    for (std::int64_t row = 0; row < kRows; ++row) {
      to[row] = second[row] * scales[row];
    }
  }
}

// Writes one row of any length.
void decode_row(const std::uint8_t* codes, const float* absmax, std::int64_t out, std::int64_t in,
                float* wt, std::int64_t o) {
  for (std::int64_t i = 0; i < in; ++i) {
    const std::int64_t at = o * in + i;
    const int code = at % 2 == 0 ? codes[at / 2] >> 4 : codes[at / 2] & 15;
    wt[i * out + o] = kNf4Levels[code] * absmax[at / kBlock];
  }
}

}  // namespace

void nf4_dequantise_transposed(const std::uint8_t* codes, const float* absmax, std::int64_t out,
                               std::int64_t in, float* wt, std::int64_t out_begin,
                               std::int64_t out_end) {
  std::int64_t o = out_begin;
  if (in % kBlock == 0) {
    for (; o + kRows <= out_end; o += kRows) {
      for (std::int64_t i = 0; i < in; i += kBlock) {
        const std::int64_t at = o * in + i;
        decode_tile(codes + at / 2, absmax + at / kBlock, out, in, wt + i * out + o);
      }
    }
  }
  for (; o < out_end; ++o) {
    decode_row(codes, absmax, out, in, wt, o);
  }
}

}  // namespace tinsmith
