// NF4 weights decoded straight into the transposed layout that the matrix kernels read.
#pragma once

#include <cstdint>

#include "canon.h"

namespace tinsmith {

alignas(64) constexpr float kNf4Levels[16] = {TS_NF4_LEVELS};

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
