// Sixteen rows of sixteen floats each, turned into columns: copies only, in registers where the machine has them.
#pragma once
#include "v16.hpp"

namespace {

#if defined(TINSMITH_AVX512)

// to[k * to_rs + i] = from[i * from_rs + k] for i and k in [0, 16).
TS_INLINE void transpose16(const float* from, int64_t from_rs, float* to, int64_t to_rs) {
  __m512 r[16], t[16];
  for (int i = 0; i < 16; i++) r[i] = _mm512_loadu_ps(from + i * from_rs);
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
  }
  const auto low = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  const auto high = [](__m512 a, __m512 b) {
    return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
  };
  // r[4 g + c]: columns c, c + 4, c + 8, c + 12 of rows 4 g .. 4 g + 3, one in each quarter.
  for (int i = 0; i < 16; i += 4) {
    r[i] = low(t[i], t[i + 2]);
    r[i + 1] = high(t[i], t[i + 2]);
    r[i + 2] = low(t[i + 1], t[i + 3]);
    r[i + 3] = high(t[i + 1], t[i + 3]);
  }
  for (int c = 0; c < 4; c++) {
    const __m512 a = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x88), b = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x88);
    const __m512 d = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xdd), e = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xdd);
    _mm512_storeu_ps(to + c * to_rs, _mm512_shuffle_f32x4(a, b, 0x88));
    _mm512_storeu_ps(to + (8 + c) * to_rs, _mm512_shuffle_f32x4(a, b, 0xdd));
    _mm512_storeu_ps(to + (4 + c) * to_rs, _mm512_shuffle_f32x4(d, e, 0x88));
    _mm512_storeu_ps(to + (12 + c) * to_rs, _mm512_shuffle_f32x4(d, e, 0xdd));
  }
}

#elif defined(TINSMITH_AVX2)

TS_INLINE void transpose8(const float* from, int64_t from_rs, float* to, int64_t to_rs) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * from_rs);
  for (int i = 0; i < 8; i += 2) {
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
    t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  }
  // r[4 g + c]: columns c and c + 4 of rows 4 g .. 4 g + 3, one in each half.
  for (int i = 0; i < 8; i += 4) {
    r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
    r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
    r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
    r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
  }
  for (int c = 0; c < 4; c++) {
    _mm256_storeu_ps(to + c * to_rs, _mm256_permute2f128_ps(r[c], r[4 + c], 0x20));
    _mm256_storeu_ps(to + (4 + c) * to_rs, _mm256_permute2f128_ps(r[c], r[4 + c], 0x31));
  }
}

TS_INLINE void transpose16(const float* from, int64_t from_rs, float* to, int64_t to_rs) {
  for (int i = 0; i < 16; i += 8)
    for (int k = 0; k < 16; k += 8) transpose8(from + i * from_rs + k, from_rs, to + k * to_rs + i, to_rs);
}

#else

TS_INLINE void transpose16(const float* from, int64_t from_rs, float* to, int64_t to_rs) {
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k++) to[k * to_rs + i] = from[i * from_rs + k];
}

#endif

}  // namespace
