#include "quantile.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tinsmith {
namespace {

bool less(const Weighted& a, const Weighted& b) { return a.value < b.value; }

// The value at `rank` (from 0) and the one after it, where each value stands as often as its weight says.
void select(std::vector<Weighted>& values, uint64_t rank, double* at, double* after) {
  size_t lo = 0, hi = values.size();
  while (hi - lo > 24) {
    const size_t middle = (lo + hi) / 2;
    std::nth_element(values.begin() + lo, values.begin() + middle, values.begin() + hi, less);
    uint64_t left = 0;
    for (size_t i = lo; i < middle; i++) left += values[i].weight;
    if (rank < left) {
      hi = middle;
    } else {
      rank -= left;
      lo = middle;
    }
  }
  std::sort(values.begin() + lo, values.begin() + hi, less);
  while (rank >= values[lo].weight) rank -= values[lo++].weight;
  *at = values[lo].value;
  if (rank + 1 < values[lo].weight || lo + 1 == values.size()) *after = *at;
  else if (lo + 1 < hi) *after = values[lo + 1].value;
  else *after = std::min_element(values.begin() + hi, values.end(), less)->value;
}

}  // namespace

double quantile(std::vector<Weighted>& values, double q) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  uint64_t count = 0;
  for (const Weighted& v : values) count += v.weight;
  const double position = (double)(count - 1) * q, below = std::floor(position), t = position - below;
  double a, b;
  select(values, (uint64_t)below, &a, &b);
  // As numpy does it: from the nearer end.
  return t < 0.5 ? a + (b - a) * t : b - (b - a) * (1.0 - t);
}

}  // namespace tinsmith
