// Quantiles of values that occur several times, interpolated linearly as numpy.percentile does.
#pragma once
#include <cstdint>
#include <vector>

namespace tinsmith {

struct Weighted {
  double value;
  uint64_t weight;  // how often it occurs, at least once
};

// The q-quantile, NaN where there are no values; reorders `values`, and no order of them changes a bit.
double quantile(std::vector<Weighted>& values, double q);

}  // namespace tinsmith
