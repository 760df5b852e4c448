// Rows of unequal work over threads: each takes a small block at a time, so that a few heavy rows do not hold up others.
#pragma once
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "pool.hpp"

namespace tinsmith {

// Each thread that takes part makes one worker and calls worker(row) for rows of [begin, end).
template <typename Make>
void in_blocks(int64_t begin, int64_t end, int64_t block, const Make& make_worker) {
  std::atomic<int64_t> next{begin};
  parallel(num_threads(), [&](int64_t, int64_t) {
    auto worker = make_worker();
    for (int64_t from; (from = next.fetch_add(block)) < end;)
      for (int64_t row = from; row < std::min(from + block, end); row++) worker(row);
  });
}

}  // namespace tinsmith
