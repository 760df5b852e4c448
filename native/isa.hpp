// Gathers the kernels of this translation unit's ISA into a table.
#pragma once
#include "attention.hpp"
#include "held_gemm.hpp"
#include "mixture.hpp"
#include "rows.hpp"

static tinsmith::KernelTable kernel_table(const char* name) {
  tinsmith::KernelTable t{};
  t.name = name;
  t.strip = kStrip;
  t.gemm = gemm_any;
  t.gemm_scratch = gemm_scratch;
  t.widen = widen_tile;
  t.widen_rows = widen_rows;
  t.column_chain = column_chain;
  t.attention = attention;
  t.attention_scratch = attention_scratch;
  t.attention_backward = attention_backward;
  t.attention_backward_scratch = attention_backward_scratch;
  t.add_rms_norm = add_rms_norm;
  t.rms_norm_backward = rms_norm_backward;
  t.rotate = rotate;
  t.rotate_backward = rotate_backward;
  t.silu_gate = silu_gate;
  t.silu_gate_backward = silu_gate_backward;
  t.row_stats = row_stats;
  t.logprob_backward = logprob_backward;
  t.scale_bias = scale_bias;
  t.route = route;
  t.route_backward = route_backward;
  t.row_entropies = row_entropies;
  t.row_dots = row_dots;
  t.gumbel_screen = gumbel_screen;
  t.log_softmax = log_softmax;
  t.exp = exp_elements;
  t.adam = adam;
  return t;
}
