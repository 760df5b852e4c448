// Drawing one token from a row of logits, exactly repeatable.
#pragma once
#include <cstdint>

#include "table.hpp"

namespace tinsmith {

struct Draw {
  uint64_t seed, sample, position;
  float temperature;  // 0: the most probable token
  int64_t top_k;      // <= 0: all
  double top_p;       // >= 1: all
};

// The drawn token; ties go to the lower id. `work` holds 2 V floats. row_max and log_sum are of logits / temperature.
int64_t choose(const KernelTable& kernels, const float* logits, int64_t V, float row_max, float log_sum, const Draw& draw,
               float* work);

// The k largest logits of a row, descending, ties by lower id.
void largest(const float* logits, int64_t V, int64_t k, int32_t* ids);

}  // namespace tinsmith
