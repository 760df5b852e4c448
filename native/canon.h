// The scalar arithmetic of the canonical order, written once for CPU and GPU: each operation is one IEEE rounding.
//
// exp and log are templates, so that a float and the vectors of v16.hpp run the same lines. Host code is compiled with
// -ffp-contract=off, device code with --fmad=false --ftz=false --prec-div=true --prec-sqrt=true: a multiplication and an
// addition fuse only where the source says fma.
#pragma once
#if defined(__CUDACC_RTC__) || defined(__CUDACC__)
#define TS_FN static __device__ __forceinline__
#define TS_BITS(TO, FROM, VALUE, INTRINSIC) return INTRINSIC(VALUE)
#define TS_FMA __fmaf_rn
#define TS_ROOT __fsqrt_rn
#define TS_RINT rintf
#else
#include <cstring>
#define TS_FN static inline __attribute__((always_inline))
#define TS_BITS(TO, FROM, VALUE, INTRINSIC) TO b; memcpy(&b, &VALUE, sizeof b); return b
#define TS_FMA __builtin_fmaf
#define TS_ROOT __builtin_sqrtf
#define TS_RINT __builtin_rintf
#endif

typedef unsigned long long u64;
typedef long long i64;

namespace {  // translation units are compiled for different instruction sets: none may lend a function to another
namespace canon {

TS_FN unsigned bits_of(float a) { TS_BITS(unsigned, float, a, __float_as_uint); }
TS_FN float float_of(unsigned a) { TS_BITS(float, unsigned, a, __uint_as_float); }
TS_FN u64 bits_of(double a) { TS_BITS(u64, double, a, (u64)__double_as_longlong); }
TS_FN double double_of(u64 a) { TS_BITS(double, u64, a, __longlong_as_double); }

TS_FN float fma(float a, float b, float c) { return TS_FMA(a, b, c); }
TS_FN float sqrt(float a) { return TS_ROOT(a); }
TS_FN float rint(float a) { return TS_RINT(a); }
// The second operand where either is NaN.
TS_FN float min(float a, float b) { return a < b ? a : b; }
TS_FN float max(float a, float b) { return a > b ? a : b; }
TS_FN float select_lt(float a, float b, float x, float y) { return a < b ? x : y; }
// 2^n for integral n in [-126, 127]; converting a NaN is undefined, and its product is NaN anyway.
TS_FN float pow2(float n) { return float_of((unsigned)((int)(n == n ? n : 0.0f) + 127) << 23); }
// A positive normal x as m * 2^e with m in [0.5, 1).
TS_FN void split(float x, float& m, float& e) {
  const unsigned b = bits_of(x);
  e = (float)((int)(b >> 23) - 126);
  m = float_of((b & 0x007FFFFFu) | 0x3F000000u);
}
template <typename F> struct All { TS_FN F of(float x) { return x; } };  // every lane of an F

struct Bf16 { unsigned short bits; };
TS_FN float widen(float x) { return x; }
TS_FN float widen(Bf16 x) { return float_of((unsigned)x.bits << 16); }  // exact

// e^x within about 1 ulp. NaN stays NaN; x above 88 counts as 88; x below -87.33 gives +0.
// Two-step Cody-Waite reduction and a degree-5 polynomial (coefficients of Cephes expf), every step one rounding.
template <typename F>
TS_FN F exp(F x0) {
  const auto all = [](float x) { return All<F>::of(x); };
  const F x = min(all(88.0f), x0);
  const F n = max(all(-126.0f), rint(x * all(1.44269504088896341f)));
  F r = fma(n, all(-0.693359375f), x);
  r = fma(n, all(2.12194440e-4f), r);
  F p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  const F y = fma(p, r * r, r) + all(1.0f);
  return select_lt(x, all(-87.33f), all(0.0f), y * pow2(n));
}

// ln(x) for positive normal x, within about 1 ulp (Cephes logf with fused steps).
template <typename F>
TS_FN F log(F x) {
  const auto all = [](float value) { return All<F>::of(value); };
  F m, e;
  split(x, m, e);
  const F small = select_lt(m, all(0.707106781186547524f), all(1.0f), all(0.0f));
  e = e - small;
  m = m - all(1.0f) + small * m;
  const F z = m * m;
  F p = all(7.0376836292e-2f);
  p = fma(p, m, all(-1.1514610310e-1f));
  p = fma(p, m, all(1.1676998740e-1f));
  p = fma(p, m, all(-1.2420140846e-1f));
  p = fma(p, m, all(1.4249322787e-1f));
  p = fma(p, m, all(-1.6668057665e-1f));
  p = fma(p, m, all(2.0000714765e-1f));
  p = fma(p, m, all(-2.4999993993e-1f));
  p = fma(p, m, all(3.3333331174e-1f));
  F y = p * m * z;
  y = fma(e, all(-2.12194440e-4f), y);
  y = fma(all(-0.5f), z, y);
  return fma(e, all(0.693359375f), m + y);
}

// The levels of NF4, ascending.
#define TS_NF4_LEVELS \
  -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f, \
  -0.18477343022823334f, -0.09105003625154495f, 0.0f, 0.07958029955625534f, \
  0.16093020141124725f, 0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, \
  0.5626170039176941f, 0.7229568362236023f, 1.0f

// A mixture's routes of one row: shares are exp(logit - largest) of E experts, every sum runs over experts ascending.
template <typename Int>
TS_FN float sum_of(const float* shares, Int E) {
  float total = 0.0f;
  for (Int e = 0; e < E; e++) total = total + shares[e];
  return total;
}
// The experts of the largest logits, ties to the lower one, ascending (a NaN is larger than nothing), and the softmax
// over them (normalised) or over all experts at them. `taken` has room for E of them.
template <typename Int>
TS_FN void route(const float* row, const float* shares, Int E, Int active, bool normalised, bool* taken, Int* chosen,
                 float* w) {
  for (Int e = 0; e < E; e++) taken[e] = false;
  for (Int i = 0; i < active; i++) {
    Int best = -1;
    for (Int e = 0; e < E; e++)
      if (!taken[e] && (best < 0 || row[e] > row[best])) best = e;
    taken[best] = true;
  }
  float total = 0.0f;
  for (Int e = 0, i = 0; e < E; e++)
    if (taken[e]) total = total + shares[chosen[i++] = e];
  if (!normalised) total = sum_of(shares, E);
  for (Int i = 0; i < active; i++) w[i] = shares[chosen[i]] / total;
}
// The entropy of the softmax over all experts: ln(sum of shares) - sum of share * (logit - largest) / sum of shares.
template <typename Int>
TS_FN float entropy(const float* row, const float* shares, Int E, float top) {
  const float total = sum_of(shares, E);
  float dot = 0.0f;
  for (Int e = 0; e < E; e++) dot = dot + (shares[e] == 0.0f ? 0.0f : shares[e] * (row[e] - top));
  return total == total ? log(total) - dot / total : total;  // log would hide a NaN
}

// A row's gradient += those of its targets, each target's summed first: a datum that comes twice has twice the weight.
template <typename Int, typename Id>
TS_FN void add_targets(float* out, const float* g, const Id* targets, Int begin, Int end) {
  for (Int i = begin; i < end; i++) {
    Int before = begin;
    while (before < i && targets[before] != targets[i]) before++;
    if (before < i) continue;
    float sum = g[i];
    for (Int j = i + 1; j < end; j++)
      if (targets[j] == targets[i]) sum = sum + g[j];
    out[targets[i]] = out[targets[i]] + sum;
  }
}

// Philox4x32-10 (Salmon et al., SC 2011): counter (sample, position), key seed -> the row's 64-bit stream.
TS_FN u64 philox(u64 seed, u64 sample, u64 position) {
  unsigned c0 = (unsigned)sample, c1 = (unsigned)(sample >> 32), c2 = (unsigned)position, c3 = (unsigned)(position >> 32);
  unsigned k0 = (unsigned)seed, k1 = (unsigned)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    const u64 a = (u64)c0 * 0xD2511F53u, b = (u64)c2 * 0xCD9E8D57u;
    c0 = (unsigned)(b >> 32) ^ c1 ^ k0;
    c1 = (unsigned)b;
    c2 = (unsigned)(a >> 32) ^ c3 ^ k1;
    c3 = (unsigned)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (u64)c1 << 32 | c0;
}

// ln(x) for positive normal x: fdlibm's e_log.c, no fused steps.
TS_FN double ln(double x) {
  const u64 b = bits_of(x);
  i64 k = (i64)(b >> 52) - 1023;
  double m = double_of((b & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);
  if (m > 1.41421356237309504880) {
    m = m * 0.5;
    k++;
  }
  const double f = m - 1.0, s = f / (2.0 + f), z = s * s;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  const double r = p * z, half = 0.5 * f * f, n = (double)k;
  return n * 6.93147180369123816490e-01 - ((half - (s * (half + r) + n * 1.90821492927058770002e-10)) - f);
}

// Gumbel noise of one token: -ln(E) with E = -ln(1 - u) exponential, u in (0, 1) with 53 bits.
TS_FN double gumbel(u64 key, i64 token) {
  u64 z = key + (u64)(token + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z = (z ^ (z >> 31)) >> 11;
  const double u = ((double)z + 0.5) * 0x1p-53;
  double e;
  if (u < 0.01) {  // the series keeps the small u that decide who wins
    e = 0.0;
    for (int i = 9; i >= 1; i--) e = e * u + 1.0 / i;
    e = e * u;
  } else {
    e = -ln(((double)((1ull << 53) - 1 - z) + 0.5) * 0x1p-53);
  }
  return -ln(e);
}

}  // namespace canon
}  // namespace
