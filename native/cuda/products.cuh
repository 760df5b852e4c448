// Products: an element's chain lies in one register, k ascending, and the tile it falls into shows in no bit.
//
// The host lists a product's chains (ops/cuda/chains.py): those of 128 of k, or those of units of gradient. A chain that
// has ended waits in `kept`, and the list says how many waiting sums are added to the next one. No chain is split, and
// none is padded: the last tile of a chain runs its exact length.
#pragma once
#include "grid.cuh"

// B as it is held: fp32, bf16, or NF4 with its blocks' absmax. `quad` reads four elements that lie beside one another.
template <typename T>
struct Plain {
  const T* at;
  TS_FN Plain of(const GemmArgs& g) { return {(const T*)g.B}; }
  __device__ __forceinline__ bool aligned() const { return ((u64)at & (4 * sizeof(T) - 1)) == 0; }
  __device__ __forceinline__ float one(i64 i) const { return widen(at[i]); }
  __device__ __forceinline__ void quad(i64 i, float (&to)[4]) const;
};
template <>
__device__ __forceinline__ void Plain<float>::quad(i64 i, float (&to)[4]) const {
  const float4 v = *(const float4*)(at + i);
  to[0] = v.x; to[1] = v.y; to[2] = v.z; to[3] = v.w;
}
template <>
__device__ __forceinline__ void Plain<Bf16>::quad(i64 i, float (&to)[4]) const {
  const ushort4 v = *(const ushort4*)(at + i);
  to[0] = widen(Bf16{v.x}); to[1] = widen(Bf16{v.y}); to[2] = widen(Bf16{v.z}); to[3] = widen(Bf16{v.w});
}
struct Nf4 {
  const unsigned char* codes;
  const float* absmax;
  TS_FN Nf4 of(const GemmArgs& g) { return {(const unsigned char*)g.B, g.absmax}; }
  __device__ __forceinline__ bool aligned() const { return true; }
  __device__ __forceinline__ float one(i64 i) const {
    const int pair = codes[i / 2];
    return level(i % 2 == 0 ? pair >> 4 : pair & 15) * absmax[i / 64];
  }
  __device__ __forceinline__ void quad(i64 i, float (&to)[4]) const {
    const int a = codes[i / 2], b = codes[i / 2 + 1];
    const float scale = absmax[i / 64];  // a quad begins at a multiple of four: one block
    to[0] = level(a >> 4) * scale; to[1] = level(a & 15) * scale; to[2] = level(b >> 4) * scale; to[3] = level(b & 15) * scale;
  }
  TS_FN float level(int code) { return kLevels[code]; }
};

// Four consecutive elements of line `row` (stride rs), zero outside.
template <typename Held>
TS_FN void fetch4(const Held& from, i64 rs, i64 row, i64 rows, i64 col, i64 cols, bool wide, float (&to)[4]) {
  if (row < rows && wide && col + 4 <= cols) {
    from.quad(row * rs + col, to);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] = row < rows && col + i < cols ? from.one(row * rs + col + i) : 0.0f;
}

// AlongA: k is contiguous in A; else m is. AlongB: k is contiguous in B; else n is.
template <int BM, int BN, int BK, int TM, int TN, int Depth, bool AlongA, bool AlongB, typename Held>
__device__ void product(const GemmArgs& g) {
  constexpr int kThreads = (BM / TM) * (BN / TN), kColumns = BN / TN;
  constexpr int kA = BM * BK / 4 / kThreads, kB = BN * BK / 4 / kThreads;  // quads a thread fetches
  static_assert(kA * 4 * kThreads == BM * BK && kB * 4 * kThreads == BN * BK && TM % 4 == 0 && TN % 4 == 0, "tile");
  __shared__ __align__(16) float sa[2][BK][BM + 4];
  __shared__ __align__(16) float sb[2][BK][BN + 4];
  const int tid = threadIdx.x, ty = tid / kColumns, tx = tid % kColumns;
  const i64 m0 = (i64)blockIdx.y * BM, n0 = (i64)blockIdx.x * BN;
  const Plain<float> A{g.A};
  const Held B = Held::of(g);
  const bool wide_a = ((AlongA ? g.a_rs : g.a_cs) & 3) == 0 && A.aligned();
  const bool wide_b = ((AlongB ? g.b_cs : g.b_rs) & 3) == 0 && B.aligned();
  float fa[kA][4], fb[kB][4];
  const auto fetch = [&](i64 k, i64 end) {
#pragma unroll
    for (int i = 0; i < kA; i++) {
      const int at = tid + i * kThreads;
      if (AlongA) fetch4(A, g.a_rs, m0 + at / (BK / 4), g.M, k + at % (BK / 4) * 4, end, wide_a && (k & 3) == 0, fa[i]);
      else fetch4(A, g.a_cs, k + at / (BM / 4), end, m0 + at % (BM / 4) * 4, g.M, wide_a, fa[i]);
    }
#pragma unroll
    for (int i = 0; i < kB; i++) {
      const int at = tid + i * kThreads;
      if (AlongB) fetch4(B, g.b_cs, n0 + at / (BK / 4), g.N, k + at % (BK / 4) * 4, end, wide_b && (k & 3) == 0, fb[i]);
      else fetch4(B, g.b_rs, k + at / (BN / 4), end, n0 + at % (BN / 4) * 4, g.N, wide_b, fb[i]);
    }
  };
  const auto put = [&](int half) {
#pragma unroll
    for (int i = 0; i < kA; i++) {
      const int at = tid + i * kThreads;
      if (AlongA)
        for (int j = 0; j < 4; j++) sa[half][at % (BK / 4) * 4 + j][at / (BK / 4)] = fa[i][j];
      else *(float4*)&sa[half][at / (BM / 4)][at % (BM / 4) * 4] = make_float4(fa[i][0], fa[i][1], fa[i][2], fa[i][3]);
    }
#pragma unroll
    for (int i = 0; i < kB; i++) {
      const int at = tid + i * kThreads;
      if (AlongB)
        for (int j = 0; j < 4; j++) sb[half][at % (BK / 4) * 4 + j][at / (BK / 4)] = fb[i][j];
      else *(float4*)&sb[half][at / (BN / 4)][at % (BN / 4) * 4] = make_float4(fb[i][0], fb[i][1], fb[i][2], fb[i][3]);
    }
  };
  float acc[TM][TN], kept[Depth][TM * TN];
  const auto step = [&](int half, int kk) {
    float a[TM], b[TN];
#pragma unroll
    for (int i = 0; i < TM; i += 4) {
      const float4 v = *(const float4*)&sa[half][kk][ty * 4 + i * (BM / TM)];
      a[i] = v.x; a[i + 1] = v.y; a[i + 2] = v.z; a[i + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < TN; i += 4) {
      const float4 v = *(const float4*)&sb[half][kk][tx * 4 + i * (BN / TN)];
      b[i] = v.x; b[i + 1] = v.y; b[i + 2] = v.z; b[i + 3] = v.w;
    }
#pragma unroll
    for (int i = 0; i < TM; i++)
#pragma unroll
      for (int j = 0; j < TN; j++) acc[i][j] = fma1(a[i], b[j], acc[i][j]);
  };
#pragma unroll
  for (int i = 0; i < TM; i++)
#pragma unroll
    for (int j = 0; j < TN; j++) acc[i][j] = 0.0f;
  int depth = 0, half = 0;
  if (g.num_chains > 0) {
    i64 c = 0;
    Chain now = g.chains[0];
    i64 k = now.k0;
    fetch(k, now.k1);
    put(0);
    __syncthreads();
    while (true) {
      const i64 left = now.k1 - k;
      // The tile after this one: of the same chain, or the next chain's first.
      i64 next_c = c, next_k = k + BK;
      Chain next = now;
      if (next_k >= now.k1) {
        next_c = c + 1;
        if (next_c < g.num_chains) {
          next = g.chains[next_c];
          next_k = next.k0;
        }
      }
      const bool more = next_c < g.num_chains;
      if (more) fetch(next_k, next.k1);
      if (left >= BK) {
#pragma unroll
        for (int kk = 0; kk < BK; kk++) step(half, kk);
      } else {
        for (int kk = 0; kk < (int)left; kk++) step(half, kk);
      }
      if (next_c != c) {  // a chain has ended
        for (int i = 0; i < now.merged; i++) {
          depth--;
#pragma unroll
          for (int e = 0; e < TM * TN; e++) acc[e / TN][e % TN] = kept[depth][e] + acc[e / TN][e % TN];
        }
        if (!more) break;
#pragma unroll
        for (int e = 0; e < TM * TN; e++) {
          kept[depth][e] = acc[e / TN][e % TN];
          acc[e / TN][e % TN] = 0.0f;
        }
        depth++;
      }
      put(half ^ 1);
      TS_TILE_BARRIER();
      half ^= 1;
      c = next_c; k = next_k; now = next;
    }
  } else if (g.add) {
    return;
  }
#pragma unroll
  for (int i = 0; i < TM; i++) {
    const i64 m = m0 + ty * 4 + i / 4 * 4 * (BM / TM) + i % 4;
    if (m >= g.M) continue;
#pragma unroll
    for (int j = 0; j < TN; j++) {
      const i64 n = n0 + tx * 4 + j / 4 * 4 * (BN / TN) + j % 4;
      if (n < g.N) {
        float* to = g.C + m * g.c_rs + n;
        *to = g.add ? *to + acc[i][j] : acc[i][j];
      }
    }
  }
}

// Few rows (decode): a lane is a column, a warp an aligned block of chains, and the warps' sums meet by the same tree.
template <int MR, bool AlongB, typename Held>
__device__ void few(const GemmArgs& g) {
  constexpr int kWarps = 8, kAhead = 16;
  __shared__ float x[kWarps][MR][128];
  __shared__ float sums[kWarps][MR][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const i64 n = (i64)blockIdx.x * 32 + lane;
  i64 span = 1;
  while (span * kWarps < g.num_chains) span *= 2;
  const i64 c0 = warp * span;
  const i64 c1 = c0 + span < g.num_chains ? c0 + span : g.num_chains;
  const Held B = Held::of(g);
  const bool wide = AlongB && (g.b_cs & 3) == 0 && B.aligned();
  float acc[MR], kept[12][MR];
  for (int m = 0; m < MR; m++) acc[m] = 0.0f;
  for (i64 at = 0; at < span; at++) {  // every warp takes part in every barrier
    const i64 c = c0 + at, k0 = c * 128;
    const int length = c < c1 ? (int)(g.K - k0 < 128 ? g.K - k0 : 128) : 0;
    __syncthreads();
    for (int m = 0; m < MR; m++)
      for (int k = lane; k < length; k += 32) x[warp][m][k] = m < g.M ? g.A[m * g.a_rs + k0 + k] : 0.0f;
    __syncthreads();
    if (length == 0) continue;
    for (int m = 0; m < MR; m++) acc[m] = 0.0f;
    if (n < g.N) {
      int k = 0;
      for (; k + kAhead <= length; k += kAhead) {
        float b[kAhead];
#pragma unroll
        for (int j = 0; j < kAhead; j += 4) {
          if (AlongB) {
            float four[4];
            fetch4(B, g.b_cs, n, g.N, k0 + k + j, g.K, wide, four);
            b[j] = four[0]; b[j + 1] = four[1]; b[j + 2] = four[2]; b[j + 3] = four[3];
          } else {
#pragma unroll
            for (int i = 0; i < 4; i++) b[j + i] = B.one((k0 + k + j + i) * g.b_rs + n);
          }
        }
#pragma unroll
        for (int j = 0; j < kAhead; j++)
#pragma unroll
          for (int m = 0; m < MR; m++) acc[m] = fma1(x[warp][m][k + j], b[j], acc[m]);
      }
      for (; k < length; k++) {
        const float b = B.one(AlongB ? n * g.b_cs + k0 + k : (k0 + k) * g.b_rs + n);
        for (int m = 0; m < MR; m++) acc[m] = fma1(x[warp][m][k], b, acc[m]);
      }
    }
    int level = 0;
    const bool last = c + 1 == c1;
    for (i64 i = at; last ? i != 0 : (i & 1) != 0; i >>= 1, level++)
      if (i & 1)
        for (int m = 0; m < MR; m++) acc[m] = kept[level][m] + acc[m];
    if (!last)
      for (int m = 0; m < MR; m++) kept[level][m] = acc[m];
  }
  for (int m = 0; m < MR; m++) sums[warp][m][lane] = acc[m];
  const int filled = (int)((g.num_chains + span - 1) / span);
  for (int apart = 1; apart < filled; apart *= 2) {
    __syncthreads();
    if (warp % (2 * apart) == 0 && warp + apart < filled)
      for (int m = 0; m < MR; m++) sums[warp][m][lane] = sums[warp][m][lane] + sums[warp + apart][m][lane];
  }
  __syncthreads();
  if (warp != 0 || n >= g.N) return;
  for (int m = 0; m < MR && m < g.M; m++) {
    float* to = g.C + m * g.c_rs + n;
    *to = g.add ? *to + sums[0][m][lane] : sums[0][m][lane];
  }
}

// A tile of 128 x 128 holds sums of up to 2^7 chains, one of 64 x 64 those of 2^23.
#define TS_LARGE(NAME, AK, BK, HELD) \
  extern "C" __global__ void __launch_bounds__(256, 2) NAME(GemmArgs g) { product<128, 128, 8, 8, 8, 8, AK, BK, HELD>(g); }
#define TS_SMALL(NAME, AK, BK, HELD) \
  extern "C" __global__ void __launch_bounds__(256) NAME(GemmArgs g) { product<64, 64, 16, 4, 4, 24, AK, BK, HELD>(g); }
#define TS_FEW(NAME, MR, BK, HELD) \
  extern "C" __global__ void __launch_bounds__(256) NAME(GemmArgs g) { few<MR, BK, HELD>(g); }
