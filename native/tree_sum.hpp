// The order in which gradients of units are added: a fixed binary tree over the unit's index.
//
// Units 2i and 2i + 1 are added, then the pairs, and so on; a missing unit adds nothing. So the sum over any aligned
// block of 2^k units is one node of the tree, whoever computes it, and a unit without a gradient changes no bit.
#pragma once
#include <cstdint>

namespace tinsmith {

constexpr int64_t kNoUnit = INT64_MAX;
constexpr int kTreeDepth = 40;  // partial sums at once: one a level, of up to 2^38 units

// Keeps which partial sums stand in which slot; the values are the caller's. Units come in ascending order.
class TreeSum {
 public:
  bool empty() const { return depth_ == 0; }
  // The slot for the next unit's value, after what is complete before it has been added up: add(to, from).
  template <typename Add>
  int push(int64_t unit, const Add& add) {
    while (depth_ > 1 && complete(first_[depth_ - 2], first_[depth_ - 1], unit)) {
      depth_--;
      add(depth_ - 1, depth_);
    }
    first_[depth_] = unit;
    return depth_++;
  }
  // The same for a caller who adds as soon as it can: how many of the last slots are added to this unit's value, the last
  // one first, before it is kept in slot last(); `next` is the unit that follows, or kNoUnit.
  int merge(int64_t unit, int64_t next) {
    int count = 0;
    int64_t first = unit;
    while (depth_ > 0 && complete(first_[depth_ - 1], unit, next)) {
      first = first_[--depth_];
      count++;
    }
    first_[depth_++] = first;
    return count;
  }
  int last() const { return depth_ - 1; }
  // Adds up all that is left into slot 0.
  template <typename Add>
  void fold(const Add& add) {
    for (; depth_ > 1; depth_--) add(depth_ - 2, depth_ - 1);
  }

 private:
  // Whether the smallest block that holds units a and b lies wholly before the unit.
  static bool complete(int64_t a, int64_t b, int64_t unit) {
    int level = 0;
    for (int64_t apart = a ^ b; apart; apart >>= 1) level++;
    return (unit >> level) != (b >> level);
  }
  int depth_ = 0;
  int64_t first_[kTreeDepth];
};

inline int64_t last_filled(const int64_t* segments, int64_t count) {
  while (count > 0 && segments[count - 1] == segments[count]) count--;
  return count - 1;
}

}  // namespace tinsmith
