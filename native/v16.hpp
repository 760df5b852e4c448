// Sixteen logical float lanes, in the registers of whichever ISA this translation unit is compiled for.
//
// Every kernel is written once over V16. A lane never meets another lane except in hsum and hmax, whose order is
// fixed, so that the register width of the machine cannot change a bit. Each operation is one IEEE rounding.
#pragma once
#include <cstdint>

#include "canon.h"

#if defined(TINSMITH_AVX512) || defined(TINSMITH_AVX2)
#include <immintrin.h>
#elif defined(TINSMITH_NEON)
#include <arm_neon.h>
#endif

#define TS_INLINE static inline __attribute__((always_inline))

namespace {

#if defined(TINSMITH_AVX512)

struct V16 { __m512 v; };
TS_INLINE V16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
TS_INLINE void store(float* p, V16 a) { _mm512_storeu_ps(p, a.v); }
TS_INLINE V16 load_first(const float* p, int n) { return {_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1u), p)}; }
TS_INLINE void store_first(float* p, V16 a, int n) { _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1u), a.v); }
TS_INLINE V16 set1(float x) { return {_mm512_set1_ps(x)}; }
TS_INLINE V16 operator+(V16 a, V16 b) { return {_mm512_add_ps(a.v, b.v)}; }
TS_INLINE V16 operator-(V16 a, V16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
TS_INLINE V16 operator*(V16 a, V16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
TS_INLINE V16 operator/(V16 a, V16 b) { return {_mm512_div_ps(a.v, b.v)}; }
TS_INLINE V16 fma(V16 a, V16 b, V16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
TS_INLINE V16 sqrt(V16 a) { return {_mm512_sqrt_ps(a.v)}; }
TS_INLINE V16 rint(V16 a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
// a < b ? a : b and a > b ? a : b, lane by lane: the second operand where either is NaN.
TS_INLINE V16 min(V16 a, V16 b) { return {_mm512_min_ps(a.v, b.v)}; }
TS_INLINE V16 max(V16 a, V16 b) { return {_mm512_max_ps(a.v, b.v)}; }
// a < b ? x : y, lane by lane.
TS_INLINE V16 select_lt(V16 a, V16 b, V16 x, V16 y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
// 2^n for integral n in [-126, 127].
TS_INLINE V16 pow2(V16 n) {
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23))};
}
// A positive normal x as m * 2^e with m in [0.5, 1).
TS_INLINE void split(V16 x, V16& m, V16& e) {
  __m512i bits = _mm512_castps_si512(x.v);
  e.v = _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(126)));
  bits = _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi32(0x007FFFFF)), _mm512_set1_epi32(0x3F000000));
  m.v = _mm512_castsi512_ps(bits);
}

#elif defined(TINSMITH_AVX2)

struct V16 { __m256 lo, hi; };
#define TS_EACH(EXPR_LO, EXPR_HI) return {EXPR_LO, EXPR_HI}
TS_INLINE V16 load(const float* p) { TS_EACH(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)); }
TS_INLINE void store(float* p, V16 a) { _mm256_storeu_ps(p, a.lo); _mm256_storeu_ps(p + 8, a.hi); }
TS_INLINE V16 set1(float x) { __m256 v = _mm256_set1_ps(x); return {v, v}; }
TS_INLINE V16 operator+(V16 a, V16 b) { TS_EACH(_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)); }
TS_INLINE V16 operator-(V16 a, V16 b) { TS_EACH(_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)); }
TS_INLINE V16 operator*(V16 a, V16 b) { TS_EACH(_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)); }
TS_INLINE V16 operator/(V16 a, V16 b) { TS_EACH(_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)); }
TS_INLINE V16 fma(V16 a, V16 b, V16 c) {
  TS_EACH(_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi));
}
TS_INLINE V16 sqrt(V16 a) { TS_EACH(_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)); }
TS_INLINE V16 rint(V16 a) {
  TS_EACH(_mm256_round_ps(a.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(a.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TS_INLINE V16 min(V16 a, V16 b) { TS_EACH(_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)); }
TS_INLINE V16 max(V16 a, V16 b) { TS_EACH(_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)); }
TS_INLINE V16 select_lt(V16 a, V16 b, V16 x, V16 y) {
  TS_EACH(_mm256_blendv_ps(y.lo, x.lo, _mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.hi, x.hi, _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)));
}
TS_INLINE __m256 pow2_8(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
TS_INLINE V16 pow2(V16 n) { TS_EACH(pow2_8(n.lo), pow2_8(n.hi)); }
TS_INLINE void split_8(__m256 x, __m256& m, __m256& e) {
  __m256i bits = _mm256_castps_si256(x);
  e = _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126)));
  bits = _mm256_or_si256(_mm256_and_si256(bits, _mm256_set1_epi32(0x007FFFFF)), _mm256_set1_epi32(0x3F000000));
  m = _mm256_castsi256_ps(bits);
}
TS_INLINE void split(V16 x, V16& m, V16& e) { split_8(x.lo, m.lo, e.lo); split_8(x.hi, m.hi, e.hi); }
#undef TS_EACH

#elif defined(TINSMITH_NEON)

struct V16 { float32x4_t q[4]; };
#define TS_EACH(EXPR) V16 r; for (int i = 0; i < 4; i++) r.q[i] = EXPR; return r
TS_INLINE V16 load(const float* p) { TS_EACH(vld1q_f32(p + 4 * i)); }
TS_INLINE void store(float* p, V16 a) { for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.q[i]); }
TS_INLINE V16 set1(float x) { TS_EACH(vdupq_n_f32(x)); }
TS_INLINE V16 operator+(V16 a, V16 b) { TS_EACH(vaddq_f32(a.q[i], b.q[i])); }
TS_INLINE V16 operator-(V16 a, V16 b) { TS_EACH(vsubq_f32(a.q[i], b.q[i])); }
TS_INLINE V16 operator*(V16 a, V16 b) { TS_EACH(vmulq_f32(a.q[i], b.q[i])); }
TS_INLINE V16 operator/(V16 a, V16 b) { TS_EACH(vdivq_f32(a.q[i], b.q[i])); }
TS_INLINE V16 fma(V16 a, V16 b, V16 c) { TS_EACH(vfmaq_f32(c.q[i], a.q[i], b.q[i])); }
TS_INLINE V16 sqrt(V16 a) { TS_EACH(vsqrtq_f32(a.q[i])); }
TS_INLINE V16 rint(V16 a) { TS_EACH(vrndnq_f32(a.q[i])); }
TS_INLINE V16 min(V16 a, V16 b) { TS_EACH(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
TS_INLINE V16 max(V16 a, V16 b) { TS_EACH(vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i])); }
TS_INLINE V16 select_lt(V16 a, V16 b, V16 x, V16 y) { TS_EACH(vbslq_f32(vcltq_f32(a.q[i], b.q[i]), x.q[i], y.q[i])); }
TS_INLINE V16 pow2(V16 n) {
  TS_EACH(vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(n.q[i]), vdupq_n_s32(127)), 23)));
}
TS_INLINE void split(V16 x, V16& m, V16& e) {
  for (int i = 0; i < 4; i++) {
    uint32x4_t bits = vreinterpretq_u32_f32(x.q[i]);
    e.q[i] = vcvtq_f32_s32(vsubq_s32(vreinterpretq_s32_u32(vshrq_n_u32(bits, 23)), vdupq_n_s32(126)));
    m.q[i] = vreinterpretq_f32_u32(vorrq_u32(vandq_u32(bits, vdupq_n_u32(0x007FFFFF)), vdupq_n_u32(0x3F000000)));
  }
}
#undef TS_EACH

#else  // scalar: canon.h, the definition the others must equal

struct V16 { float x[16]; };
#define TS_EACH(EXPR) V16 r; for (int i = 0; i < 16; i++) r.x[i] = EXPR; return r
TS_INLINE V16 load(const float* p) { TS_EACH(p[i]); }
TS_INLINE void store(float* p, V16 a) { for (int i = 0; i < 16; i++) p[i] = a.x[i]; }
TS_INLINE V16 load_first(const float* p, int n) { TS_EACH(i < n ? p[i] : 0.0f); }
TS_INLINE void store_first(float* p, V16 a, int n) { for (int i = 0; i < n; i++) p[i] = a.x[i]; }
TS_INLINE V16 set1(float x) { TS_EACH(x); }
TS_INLINE V16 operator+(V16 a, V16 b) { TS_EACH(a.x[i] + b.x[i]); }
TS_INLINE V16 operator-(V16 a, V16 b) { TS_EACH(a.x[i] - b.x[i]); }
TS_INLINE V16 operator*(V16 a, V16 b) { TS_EACH(a.x[i] * b.x[i]); }
TS_INLINE V16 operator/(V16 a, V16 b) { TS_EACH(a.x[i] / b.x[i]); }
TS_INLINE V16 fma(V16 a, V16 b, V16 c) { TS_EACH(canon::fma(a.x[i], b.x[i], c.x[i])); }
TS_INLINE V16 sqrt(V16 a) { TS_EACH(canon::sqrt(a.x[i])); }
TS_INLINE V16 rint(V16 a) { TS_EACH(canon::rint(a.x[i])); }
TS_INLINE V16 min(V16 a, V16 b) { TS_EACH(canon::min(a.x[i], b.x[i])); }
TS_INLINE V16 max(V16 a, V16 b) { TS_EACH(canon::max(a.x[i], b.x[i])); }
TS_INLINE V16 select_lt(V16 a, V16 b, V16 x, V16 y) { TS_EACH(canon::select_lt(a.x[i], b.x[i], x.x[i], y.x[i])); }
TS_INLINE V16 pow2(V16 n) { TS_EACH(canon::pow2(n.x[i])); }
TS_INLINE void split(V16 x, V16& m, V16& e) {
  for (int i = 0; i < 16; i++) canon::split(x.x[i], m.x[i], e.x[i]);
}
#undef TS_EACH

#endif

#if defined(TINSMITH_AVX2) || defined(TINSMITH_NEON)
TS_INLINE V16 load_first(const float* p, int n) {
  alignas(32) float t[16] = {0};
  for (int i = 0; i < n; i++) t[i] = p[i];
  return load(t);
}
TS_INLINE void store_first(float* p, V16 a, int n) {
  alignas(32) float t[16];
  store(t, a);
  for (int i = 0; i < n; i++) p[i] = t[i];
}
#endif

TS_INLINE V16 zero16() { return set1(0.0f); }

// Sum of the lanes by halving: 8, 4, 2, 1.
TS_INLINE float hsum(V16 a) {
  float t[16];
  store(t, a);
  for (int half = 8; half >= 1; half /= 2)
    for (int i = 0; i < half; i++) t[i] = t[i] + t[i + half];
  return t[0];
}

// Largest lane; exact, so that the order is free.
TS_INLINE float hmax(V16 a) {
  float t[16];
  store(t, a);
  float best = t[0];
  for (int i = 1; i < 16; i++) best = t[i] > best ? t[i] : best;
  return best;
}

namespace canon {
template <> struct All<V16> { static inline __attribute__((always_inline)) V16 of(float x) { return set1(x); } };
}
TS_INLINE V16 exp16(V16 x) { return canon::exp(x); }
TS_INLINE V16 log16(V16 x) { return canon::log(x); }

}  // namespace
