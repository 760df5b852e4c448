// What a kernel takes: one struct, passed by value, that src/tinsmith/ops/cuda/table.py reads here.
//
// A tensor's strides follow its pointer as NAME_rs (rows) and NAME_cs (columns), and are given with it.
#pragma once
#include "canon.h"

struct Chain { int k0, k1, merged, pad; };  // a run of k, and how many waiting sums are added to it when it ends
struct GemmArgs {  // C[M, N] (+)= A[M, K] . B[K, N]
  const float* A; i64 A_rs, A_cs;
  const void* B; i64 B_rs, B_cs; const float* absmax;  // absmax: of B's blocks, where B is NF4
  float* C; i64 C_rs;
  const Chain* chains; i64 num_chains, add, M, N, K;
};
struct ColumnArgs { const float* x; i64 x_rs; const float* y; i64 y_rs; const Chain* chains; float* acc; i64 num_chains, N; };
struct EmbedArgs {
  const float* dy; i64 dy_rs; const i64* order; const i64* ids; const i64* chain_begin; const Chain* chains; float* into; i64 H;
};
struct NormArgs {
  const float* x; const float* delta; const float* gain; float* sum; float* y; float* inv_rms; i64 rows, H; float eps, pad;
};
struct NormBackArgs {
  const float* x; const float* gain; const float* inv_rms; const float* d_sum; const float* dy; float* dx; float* xhat; i64 rows, H;
};
struct RotateArgs {  // x -> y; or dy -> y, with x for the norms
  float* y; i64 y_rs; const float* x; i64 x_rs; const float* dy; i64 dy_rs; const i64* pos; const float* cos; const float* sin;
  const float* q_gain; const float* k_gain; float* dgain_q; float* dgain_k; i64 rows, q_heads, kv_heads, d; float eps, pad;
};
struct GateArgs { float* out; const float* gate_up; const float* dy; i64 rows, I; };
struct ScaleArgs { float* y; i64 y_rs; const float* scale; const float* bias; i64 rows, N; };
struct StoreArgs {  // by slot (row_of_slot), or by row (row_begin, first_pos, table)
  const float* qkv; i64 qkv_rs; float* k_pages; float* v_pages; const i64* row_of_slot; const int* table; i64 table_rs;
  const i64* row_begin; const i64* first_pos; i64 sequences, count, heads, kv_heads, d, d_pad;
};
struct AttentionArgs {
  const float* qkv; i64 qkv_rs; const float* k_pages; const float* v_pages; const int* table; i64 table_rs;
  const i64* row_begin; const i64* first_pos; float* out; float* row_max; float* row_sum; i64 heads, kv_heads, d, d_pad;
  float scale, pad;
};
struct AttentionBackArgs {  // prefix trees, rows depth first
  const float* qkv; i64 qkv_rs; const float* d_out; i64 d_out_rs; const float* row_max; const float* row_sum;
  const float* delta; float* d_qkv; i64 d_qkv_rs;
  const i64* path;        // the row at each position up to each node's end, node after node
  const i64* path_begin;  // where the path of a tile's node begins
  const i64* tile_row;    // first row of each tile of query rows, none of which spans two nodes
  const i64* tile_end;
  const i64* first_seen;  // the position of each row
  const i64* sees_end;    // rows that see key row c are c .. sees_end[c]
  i64 rows, heads, kv_heads, d; float scale, pad;
};
struct StatsArgs { const float* x; const float* temperatures; float* top; float* log_sum; i64 V; float temperature, pad; };
struct ChooseArgs {
  const float* logits; const i64* rows; const u64* seeds; const i64* samples; const i64* positions; const i64* top_ks;
  const double* top_ps; const float* temperatures;
  const i64* order;  // tokens of each draw, most probable first, where top-k or top-p is asked for; else null
  int* tokens; float* logprobs; i64 V;
};
struct GatherArgs {
  float* out; const float* logits; const i64* rows; const int* targets; const float* temperatures; const float* top;
  const float* log_sum; i64 count, k, V;
};
struct LogprobBackArgs {
  const float* logits; const i64* reads; const int* targets; const float* g; const float* top; const float* log_sum;
  float* d_logits; i64 V;
};
struct RouteArgs {
  float* out; const float* logits; i64* experts; float* weights; const float* d_weights; i64 active, normalised, E;
};
struct DotsArgs { float* out; const float* x; i64 x_rs; const float* y; i64 y_rs; i64 rows, N; };
struct AdamArgs {
  float* p; const float* g; float* m; float* v; i64 n; float lr, beta1, beta2, eps, scale, rest1, rest2, keep, bias1, bias2;
};
struct SquaresArgs { double* out; const float* x; i64 n; };
struct FiniteArgs { const float* x; int* bad; i64 n; };
struct Nf4Args { float* wt; const unsigned char* codes; const float* absmax; i64 out, in; };
struct SweepArgs { float* out; const float* x; const float* y; i64 n; };
