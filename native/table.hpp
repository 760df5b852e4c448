// What every ISA provides: serial kernels over a range of rows, columns or elements; threads are split above them.
#pragma once
#include <cstdint>

#include "held.hpp"

namespace tinsmith {

// Terms of one chain of a product without segments. A chain strays by about the square root of its length: with 128 a
// pretrained model's gradients are half as far off as with one chain, and keeping the sums costs 0 to 3 %.
constexpr int64_t kLongestChain = 128;

// Keys of one task of attention's backward: what its products need of them stays in the second cache. A multiple of the
// longest chain by a power of two, so that a task's sum is one node of dQ's tree.
constexpr int64_t kBackwardRange = 8 * kLongestChain;

constexpr int64_t kMostExperts = 1024;  // of a mixture: a row's shares are kept on the stack

enum class Onto {
  Store,  // C is overwritten
  Add,    // the product is added to C
  Zero,   // the same to a C of zeros, whatever stands there: unlike Store, it turns -0 into +0
  Chain,  // one chain over all k, which continues from C
};

// C[M,N] (+)= A[M,K] . B[K,N]. Each element is a sum over k of fma chains, k ascending, each started at +0; the tree
// sum (tree_sum.hpp) of a product's chains is stored in C, or added to it.
struct Gemm {
  int64_t M, N, K;
  const float* A; int64_t a_rs, a_cs;  // strides over m and k
  const float* B; int64_t b_rs, b_cs;  // strides over k and n
  float* C; int64_t c_rs;              // n is contiguous
  Onto onto;
  const int64_t* segments;             // or nullptr; else num_segments + 1 boundaries in k, a chain each
  int64_t num_segments;
  const Held* held = nullptr;          // B, if it is packed
  int64_t num_held = 0;                // how many below one another; 0: one, beside which nothing lies
};

// Paged causal attention. A page holds 16 keys: K as [heads, d, 16], V as [heads, 16, d_pad].
struct Attention {
  int64_t num_heads, num_kv_heads, d, d_pad;
  const float* q; int64_t q_rs;        // query rows [tokens, heads * d], strided
  const float* k_pages; const float* v_pages;
  const int32_t* table; int64_t table_rs;  // page numbers per sequence
  const int64_t* row_begin;            // sequence s has query rows row_begin[s] .. row_begin[s+1]
  const int64_t* first_pos;            // position of the sequence's first query row
  float* out; int64_t out_rs;          // [tokens, heads * d]
  float* row_max; float* row_sum;      // [tokens, heads], or nullptr
  float scale;
};

// Backward of the same over prefix trees, from the unpaged rotated q, k, v. A tree's nodes lie depth first; a node has
// rows row_begin[n] .. row_begin[n + 1], the first of them at position first_pos[n], and sees the nodes above it.
struct AttentionBackward {
  int64_t num_heads, num_kv_heads, d;
  const float* q; const float* k; const float* v; int64_t rs;   // rows of one [tokens, (heads + 2 kv) * d] buffer
  const float* out; const float* d_out; int64_t out_rs;
  const float* row_max; const float* row_sum;
  float* d_q; int64_t d_q_rs;
  float* d_k; float* d_v; int64_t d_rs;
  const int64_t* row_begin;
  const int64_t* first_pos;
  float scale;
};

struct Adam {
  float* p; const float* g; float* m; float* v;
  float lr, beta1, beta2, eps, grad_scale;
  float rest1, rest2;  // 1 - beta, rounded once: 1 - (float)0.999 is off by 1e-5 of itself
  float keep;          // 1 - lr * weight_decay
  float bias1, bias2;  // 1 - beta^t
};

struct KernelTable {
  const char* name;
  int64_t strip;  // columns a packed strip of B holds
  void (*gemm)(const Gemm&, int64_t m0, int64_t m1, int64_t n0, int64_t n1, float* scratch);
  int64_t (*gemm_scratch)(const Gemm&);
  // to[k * to_rs + i] = column i of a tile's sixteen, widened, for k in [k0, k1).
  void (*widen)(const Held&, int64_t tile, int64_t k0, int64_t k1, float* to, int64_t to_rs);
  // to[(n - n0) * to_rs + k] = the same of columns n in [n0, n1), which are of one tile, for all k.
  void (*widen_rows)(const Held&, int64_t n0, int64_t n1, float* to, int64_t to_rs);
  void (*column_chain)(const float* x, const float* y, int64_t rs_x, int64_t rs_y, const int64_t* segments,
                       int64_t num_segments, float* acc, int64_t n0, int64_t n1);
  void (*attention)(const Attention&, int64_t seq, int64_t kv_head, int64_t row0, int64_t row1, float* scratch);
  int64_t (*attention_scratch)(const Attention&, int64_t rows, int64_t keys);
  void (*attention_backward)(const AttentionBackward&, int64_t node0, int64_t node1, int64_t kv_head, int64_t begin,
                             float* scratch);
  int64_t (*attention_backward_scratch)(const AttentionBackward&);
  void (*add_rms_norm)(const float* x, const float* delta, const float* gain, float eps, int64_t H, float* sum,
                       float* y, float* inv_rms, int64_t r0, int64_t r1);
  void (*rms_norm_backward)(const float* x, const float* gain, const float* inv_rms, const float* d_sum, const float* dy,
                            int64_t H, float* dx, float* xhat, int64_t r0, int64_t r1);
  void (*rotate)(const float* x, int64_t x_rs, float* y, int64_t y_rs, const int64_t* pos, const float* cos,
                 const float* sin, int64_t q_heads, int64_t kv_heads, int64_t d, const float* q_gain,
                 const float* k_gain, float eps, int64_t r0, int64_t r1);
  void (*rotate_backward)(const float* x, int64_t x_rs, const float* dy, int64_t dy_rs, float* dx, int64_t dx_rs,
                          const int64_t* pos, const float* cos, const float* sin, int64_t q_heads, int64_t kv_heads,
                          int64_t d, const float* q_gain, const float* k_gain, float eps, float* dgain_q, float* dgain_k,
                          int64_t r0, int64_t r1);
  void (*silu_gate)(const float* gate_up, int64_t I, float* y, int64_t r0, int64_t r1);
  void (*silu_gate_backward)(const float* gate_up, const float* dy, int64_t I, float* d_gate_up, int64_t r0, int64_t r1);
  void (*row_stats)(const float* logits, int64_t V, float temperature, float* row_max, float* log_sum, int64_t r0,
                    int64_t r1);
  void (*logprob_backward)(const float* logits, int64_t V, const int64_t* reads, const int32_t* targets,
                           const float* g, const float* row_max, const float* log_sum, float* d_logits, int64_t r0,
                           int64_t r1);
  void (*scale_bias)(float* y, int64_t y_rs, int64_t N, const float* scale, const float* bias, int64_t r0, int64_t r1);
  void (*route)(const float* logits, int64_t E, int64_t active, bool normalised, int64_t* experts, float* weights,
                int64_t r0, int64_t r1);
  void (*route_backward)(const float* logits, int64_t E, int64_t active, bool normalised, const int64_t* experts,
                         const float* weights, const float* d_weights, float* d_logits, int64_t r0, int64_t r1);
  void (*row_entropies)(const float* logits, int64_t E, float* out, int64_t r0, int64_t r1);
  void (*row_dots)(const float* x, int64_t x_rs, const float* y, int64_t y_rs, int64_t N, float* out, int64_t r0,
                   int64_t r1);
  void (*gumbel_screen)(const float* logits, int64_t V, float temperature, uint64_t key, float* score);
  void (*log_softmax)(const float* logits, int64_t V, float temperature, float row_max, float log_sum, float* out);
  void (*exp)(const float* x, float* y, int64_t n);
  void (*adam)(const Adam&, int64_t i0, int64_t i1);
};

const KernelTable& scalar_kernels();
const KernelTable& avx2_kernels();
const KernelTable& avx512_kernels();
const KernelTable& neon_kernels();

}  // namespace tinsmith
