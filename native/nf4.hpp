// NF4 weights decoded straight into the transposed layout that the matrix kernels read.
#pragma once

#include <cstdint>

namespace tinsmith {

alignas(64) constexpr float kNf4Levels[16] = {
    -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,
    -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f,
    0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f,
    0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.0f,
};

// Writes wt[i * out + o] = level[code(o, i)] * absmax[(o * in + i) / 64] for out_begin <= o < out_end
// and every i, one fp32 rounding each: the bits of ops/nf4.py's `dequantise`, transposed.
//
// codes:  ceil(out * in / 2) bytes, row-major over (out, in), the first weight of a byte in its high
//         nibble.
// absmax: ceil(out * in / 64) values, already decoded to fp32.
// wt:     [in, out] row-major. Calls with disjoint ranges of o write disjoint elements, so that they
//         may run at the same time; ranges of multiples of 32 rows, with in a multiple of 64, are
//         the fast ones.
void nf4_dequantise_transposed(const std::uint8_t* codes, const float* absmax, std::int64_t out,
                               std::int64_t in, float* wt, std::int64_t out_begin,
                               std::int64_t out_end);

}  // namespace tinsmith
