// Sixteen words of 32 bits beside the sixteen floats of v16.hpp: what packed weights are taken apart with. Nothing rounds.
#pragma once
#include "nf4.hpp"
#include "v16.hpp"

namespace {

#if defined(TINSMITH_AVX512)

struct W16 { __m512i v; };
TS_INLINE W16 words(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
TS_INLINE W16 words_of_bytes(const uint8_t* p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
TS_INLINE W16 words_of_halves(const uint8_t* p) { return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))}; }
template <int N> TS_INLINE W16 down(W16 a) { return {_mm512_srli_epi32(a.v, N)}; }
template <int N> TS_INLINE W16 up(W16 a) { return {_mm512_slli_epi32(a.v, N)}; }
// The bits of `a` where the mask has them, else those of b.
template <int Mask> TS_INLINE W16 blend(W16 a, W16 b) {
  return {_mm512_ternarylogic_epi32(_mm512_set1_epi32(Mask), a.v, b.v, 0xCA)};
}
// The low bits of a word as a number, less Zero.
template <int Bits, int Zero> TS_INLINE V16 number(W16 a) {
  if constexpr (Bits == 4)
    return {_mm512_permutexvar_ps(a.v, _mm512_setr_ps(0 - Zero, 1 - Zero, 2 - Zero, 3 - Zero, 4 - Zero, 5 - Zero, 6 - Zero,
                                                      7 - Zero, 8 - Zero, 9 - Zero, 10 - Zero, 11 - Zero, 12 - Zero,
                                                      13 - Zero, 14 - Zero, 15 - Zero))};
  const __m512i low = _mm512_and_si512(a.v, _mm512_set1_epi32((1 << Bits) - 1));
  return {_mm512_cvtepi32_ps(_mm512_sub_epi32(low, _mm512_set1_epi32(Zero)))};
}
// NF4's level of the low four bits.
TS_INLINE V16 level(W16 a) { return {_mm512_permutexvar_ps(a.v, _mm512_load_ps(tinsmith::kNf4Levels))}; }
TS_INLINE V16 signed_bytes(const uint8_t* p) {
  return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p)))};
}
TS_INLINE V16 float_bits(W16 a) { return {_mm512_castsi512_ps(a.v)}; }
TS_INLINE V16 fp16s(const uint8_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }

#elif defined(TINSMITH_AVX2)

struct W16 { __m256i lo, hi; };
#define TS_BOTH(EXPR_LO, EXPR_HI) return {EXPR_LO, EXPR_HI}
TS_INLINE W16 words(const uint8_t* p) {
  TS_BOTH(_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)(p + 32)));
}
TS_INLINE W16 words_of_bytes(const uint8_t* p) {
  TS_BOTH(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p)),
          _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)(p + 8))));
}
TS_INLINE W16 words_of_halves(const uint8_t* p) {
  TS_BOTH(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)(p + 16))));
}
template <int N> TS_INLINE W16 down(W16 a) { TS_BOTH(_mm256_srli_epi32(a.lo, N), _mm256_srli_epi32(a.hi, N)); }
template <int N> TS_INLINE W16 up(W16 a) { TS_BOTH(_mm256_slli_epi32(a.lo, N), _mm256_slli_epi32(a.hi, N)); }
template <int Mask> TS_INLINE __m256i blend_8(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi32(Mask);
  return _mm256_or_si256(_mm256_and_si256(mask, a), _mm256_andnot_si256(mask, b));
}
template <int Mask> TS_INLINE W16 blend(W16 a, W16 b) { TS_BOTH(blend_8<Mask>(a.lo, b.lo), blend_8<Mask>(a.hi, b.hi)); }
template <int Bits, int Zero> TS_INLINE __m256 number_8(__m256i a) {
  const __m256i low = _mm256_and_si256(a, _mm256_set1_epi32((1 << Bits) - 1));
  return _mm256_cvtepi32_ps(_mm256_sub_epi32(low, _mm256_set1_epi32(Zero)));
}
template <int Bits, int Zero> TS_INLINE V16 number(W16 a) { TS_BOTH((number_8<Bits, Zero>(a.lo)), (number_8<Bits, Zero>(a.hi))); }
TS_INLINE __m256 level_8(__m256i a) {
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_load_ps(tinsmith::kNf4Levels), a);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_load_ps(tinsmith::kNf4Levels + 8), a);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(a, 28)));
}
TS_INLINE V16 level(W16 a) { TS_BOTH(level_8(a.lo), level_8(a.hi)); }
TS_INLINE __m256 signed_8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p)));
}
TS_INLINE V16 signed_bytes(const uint8_t* p) { TS_BOTH(signed_8(p), signed_8(p + 8)); }
TS_INLINE V16 float_bits(W16 a) { TS_BOTH(_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)); }
TS_INLINE V16 fp16s(const uint8_t* p) {
  TS_BOTH(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p)), _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)(p + 16))));
}
#undef TS_BOTH

#else  // one word at a time

struct W16 { uint32_t x[16]; };
#define TS_EACH(EXPR) W16 r; for (int i = 0; i < 16; i++) r.x[i] = EXPR; return r
#define TS_FLOATS(EXPR) float r[16]; for (int i = 0; i < 16; i++) r[i] = EXPR; return load(r)
TS_INLINE W16 words(const uint8_t* p) { W16 r; memcpy(r.x, p, 64); return r; }
TS_INLINE W16 words_of_bytes(const uint8_t* p) { TS_EACH(p[i]); }
TS_INLINE W16 words_of_halves(const uint8_t* p) { TS_EACH((uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8); }
template <int N> TS_INLINE W16 down(W16 a) { TS_EACH(a.x[i] >> N); }
template <int N> TS_INLINE W16 up(W16 a) { TS_EACH(a.x[i] << N); }
template <int Mask> TS_INLINE W16 blend(W16 a, W16 b) { TS_EACH((Mask & a.x[i]) | (~(uint32_t)Mask & b.x[i])); }
template <int Bits, int Zero> TS_INLINE V16 number(W16 a) { TS_FLOATS((float)((int)(a.x[i] & ((1u << Bits) - 1)) - Zero)); }
TS_INLINE V16 level(W16 a) { TS_FLOATS(tinsmith::kNf4Levels[a.x[i] & 15]); }
TS_INLINE V16 signed_bytes(const uint8_t* p) { TS_FLOATS((float)(int8_t)p[i]); }
TS_INLINE V16 float_bits(W16 a) { TS_FLOATS(canon::float_of(a.x[i])); }
// Finite halves: the exponent is rebased by a product, which is exact for subnormal ones too.
TS_INLINE V16 fp16s(const uint8_t* p) {
  const W16 h = words_of_halves(p);
  TS_FLOATS(canon::float_of((h.x[i] & 0x8000u) << 16 | (h.x[i] & 0x7FFFu) << 13) * 0x1p112f);
}
#undef TS_EACH
#undef TS_FLOATS

#endif

}  // namespace
