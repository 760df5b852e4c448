// Products: an element's chain lies in one register, k ascending, and the tile it falls into shows in no bit.
//
// The host lists a product's chains (ops/cuda/lists.py): those of 128 of k, or those of units of gradient. A chain that
// has ended waits in `kept`, and the list says how many waiting sums are added to the next one. No chain is split, and
// none is padded: the last tile of a chain runs its exact length.
#pragma once
#include "grid.cuh"

// An operand that is held as fp32 or bf16; `Nf4` is the third way.
template <typename T>
struct Plain {
  const T* at;
  __device__ __forceinline__ bool aligned() const { return ((u64)at & (4 * sizeof(T) - 1)) == 0; }
  __device__ __forceinline__ float one(i64 i) const { return widen(at[i]); }
};
template <typename T> TS_FN Plain<T> held(const GemmArgs& g, Plain<T>) { return {(const T*)g.B}; }
TS_FN Nf4 held(const GemmArgs& g, Nf4) { return {(const unsigned char*)g.B, g.absmax}; }

// Four elements that lie beside one another, the first at a multiple of four: of NF4, in one block.
TS_FN void quad(const Plain<float>& from, i64 i, float (&to)[4]) {
  const float4 v = *(const float4*)(from.at + i);
  to[0] = v.x; to[1] = v.y; to[2] = v.z; to[3] = v.w;
}
TS_FN void quad(const Plain<Bf16>& from, i64 i, float (&to)[4]) {
  const ushort4 v = *(const ushort4*)(from.at + i);
  to[0] = widen(Bf16{v.x}); to[1] = widen(Bf16{v.y}); to[2] = widen(Bf16{v.z}); to[3] = widen(Bf16{v.w});
}
TS_FN void quad(const Nf4& from, i64 i, float (&to)[4]) {
#pragma unroll
  for (int j = 0; j < 4; j++) to[j] = from.one(i + j);
}

// Four consecutive elements of line `row` (stride rs), zero outside.
template <typename Held>
TS_FN void fetch4(const Held& from, i64 rs, i64 row, i64 rows, i64 col, i64 cols, bool wide, float (&to)[4]) {
  if (row < rows && wide && col + 4 <= cols) return quad(from, row * rs + col, to);
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] = row < rows && col + i < cols ? from.one(row * rs + col + i) : 0.0f;
}

// One operand of a tile: `Lines` rows of A, or columns of B, by BK of k, on their way from memory to shared memory, and
// from there T of them to each thread. Along: k is contiguous; else lines are.
template <int Lines, int BK, int T, int Threads, bool Along, typename Held>
struct Side {
  static constexpr int kQuads = Lines * BK / 4 / Threads;
  static_assert(kQuads * 4 * Threads == Lines * BK && T % 4 == 0, "tile");
  typedef float Tile[BK][Lines + 4];
  Held from;
  i64 stride, first, lines;
  float quads[kQuads][4];
  __device__ __forceinline__ void fetch(i64 k, i64 end) {
    const bool wide = (stride & 3) == 0 && from.aligned();
#pragma unroll
    for (int i = 0; i < kQuads; i++) {
      const int at = threadIdx.x + i * Threads;
      if (Along) fetch4(from, stride, first + at / (BK / 4), lines, k + at % (BK / 4) * 4, end, wide && (k & 3) == 0, quads[i]);
      else fetch4(from, stride, k + at / (Lines / 4), end, first + at % (Lines / 4) * 4, lines, wide, quads[i]);
    }
  }
  __device__ __forceinline__ void put(Tile& to) const {
#pragma unroll
    for (int i = 0; i < kQuads; i++) {
      const int at = threadIdx.x + i * Threads;
      if (Along)
        for (int j = 0; j < 4; j++) to[at % (BK / 4) * 4 + j][at / (BK / 4)] = quads[i][j];
      else *(float4*)&to[at / (Lines / 4)][at % (Lines / 4) * 4] = make_float4(quads[i][0], quads[i][1], quads[i][2], quads[i][3]);
    }
  }
  TS_FN int line(int thread, int i) { return thread * 4 + i / 4 * 4 * (Lines / T) + i % 4; }
  TS_FN void take(const Tile& tile, int k, int thread, float (&to)[T]) {
#pragma unroll
    for (int i = 0; i < T; i += 4) {
      const float4 v = *(const float4*)&tile[k][line(thread, i)];
      to[i] = v.x; to[i + 1] = v.y; to[i + 2] = v.z; to[i + 3] = v.w;
    }
  }
};

template <int BM, int BN, int BK, int TM, int TN, int Depth, bool AlongA, bool AlongB, typename Held>
__device__ void product(const GemmArgs& g) {
  constexpr int kThreads = (BM / TM) * (BN / TN), kColumns = BN / TN;
  typedef Side<BM, BK, TM, kThreads, AlongA, Plain<float>> SideA;
  typedef Side<BN, BK, TN, kThreads, AlongB, Held> SideB;
  __shared__ __align__(16) typename SideA::Tile sa[2];
  __shared__ __align__(16) typename SideB::Tile sb[2];
  const int ty = threadIdx.x / kColumns, tx = threadIdx.x % kColumns;
  const i64 m0 = (i64)blockIdx.y * BM, n0 = (i64)blockIdx.x * BN;
  SideA A{{g.A}, AlongA ? g.A_rs : g.A_cs, m0, g.M};
  SideB B{held(g, Held{}), AlongB ? g.B_cs : g.B_rs, n0, g.N};
  float acc[TM * TN], kept[Depth][TM * TN];
  const auto step = [&](int half, int k) {
    float a[TM], b[TN];
    SideA::take(sa[half], k, ty, a);
    SideB::take(sb[half], k, tx, b);
#pragma unroll
    for (int e = 0; e < TM * TN; e++) acc[e] = fma1(a[e / TN], b[e % TN], acc[e]);
  };
  clear(acc);
  int depth = 0, half = 0;
  if (g.num_chains == 0 && g.add) return;
  Chain now = g.num_chains ? g.chains[0] : Chain{0, 0, 0, 0};
  i64 c = 0, k = now.k0;
  A.fetch(k, now.k1);
  B.fetch(k, now.k1);
  while (true) {
    A.put(sa[half]);
    B.put(sb[half]);
    TS_TILE_BARRIER();
    const i64 left = now.k1 - k;
    // The tile after this one: of the same chain, or the next chain's first.
    i64 next_c = c, next_k = k + BK;
    Chain next = now;
    if (next_k >= now.k1 && ++next_c < g.num_chains) {
      next = g.chains[next_c];
      next_k = next.k0;
    }
    const bool ended = next_c != c, more = !ended || next_c < g.num_chains;
    if (more) {
      A.fetch(next_k, next.k1);
      B.fetch(next_k, next.k1);
    }
    if (left >= BK) {
#pragma unroll
      for (int kk = 0; kk < BK; kk++) step(half, kk);
    } else {
      for (int kk = 0; kk < (int)left; kk++) step(half, kk);
    }
    if (ended) pop(kept, depth, acc, now.merged);
    if (!more) break;
    if (ended) {
      push(kept, depth, acc);
      clear(acc);
    }
    half ^= 1;
    c = next_c; k = next_k; now = next;
  }
#pragma unroll
  for (int e = 0; e < TM * TN; e++) {
    const i64 m = m0 + SideA::line(ty, e / TN), n = n0 + SideB::line(tx, e % TN);
    if (m >= g.M || n >= g.N) continue;
    float* to = g.C + m * g.C_rs + n;
    *to = g.add ? *to + acc[e] : acc[e];
  }
}
// A tile of 128 x 128 holds sums of up to 2^7 chains, one of 64 x 64 those of 2^23.
template <bool AlongA, bool AlongB, typename Held>
__device__ void large(const GemmArgs& g) { product<128, 128, 8, 8, 8, 8, AlongA, AlongB, Held>(g); }
template <bool AlongA, bool AlongB, typename Held>
__device__ void small(const GemmArgs& g) { product<64, 64, 16, 4, 4, 24, AlongA, AlongB, Held>(g); }

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
  const Held B = held(g, Held{});
  const bool wide = AlongB && (g.B_cs & 3) == 0 && B.aligned();
  float acc[MR], kept[13][MR];
  int depth = 0;
  clear(acc);
  for (i64 c = warp * span; c < (warp + 1) * span; c++) {  // every warp takes part in every barrier
    const Chain now = c < g.num_chains ? g.chains[c] : Chain{0, 0, 0, 0};
    const int length = now.k1 - now.k0;
    __syncthreads();
    for (int m = 0; m < MR; m++)
      for (int k = lane; k < length; k += 32) x[warp][m][k] = m < g.M ? g.A[m * g.A_rs + now.k0 + k] : 0.0f;
    __syncthreads();
    if (c >= g.num_chains) continue;
    clear(acc);
    for (int k = 0; k < length && n < g.N; k += kAhead) {
      float b[kAhead];
#pragma unroll
      for (int j = 0; j < kAhead; j += 4) {
        float four[4];
        if (AlongB) fetch4(B, g.B_cs, n, g.N, now.k0 + k + j, g.K, wide, four);
#pragma unroll
        for (int i = 0; i < 4; i++)
          b[j + i] = AlongB ? four[i] : k + j + i < length ? B.one((now.k0 + k + j + i) * g.B_rs + n) : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < kAhead; j++)
#pragma unroll
        for (int m = 0; m < MR; m++)
          if (k + j < length) acc[m] = fma1(x[warp][m][k + j], b[j], acc[m]);
    }
    pop(kept, depth, acc, now.merged);  // those of other warps' blocks come below
    push(kept, depth, acc);
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
    float* to = g.C + m * g.C_rs + n;
    *to = g.add ? *to + sums[0][m][lane] : sums[0][m][lane];
  }
}
