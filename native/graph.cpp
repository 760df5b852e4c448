// A window is a range of rows: marks are one byte for each of them, and stay in the cache.
#include "graph.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "blocks.hpp"

namespace tinsmith {
namespace {

struct Slice {
  const uint32_t* begin;
  const uint32_t* end;
  int64_t size() const { return end - begin; }
};

Slice list(const uint32_t* pointer, const uint32_t* values, uint32_t row) {
  return {values + pointer[row], values + pointer[row + 1]};
}

// Without branches on what is compared: the halves are unpredictable.
const uint32_t* lower_bound(Slice s, uint32_t value) {
  int64_t count = s.size();
  while (count > 1) {
    const int64_t half = count / 2;
    s.begin += s.begin[half - 1] < value ? half : 0;
    count -= half;
  }
  return s.begin + (count == 1 && *s.begin < value);
}

// Lower bound in a slice whose answer is near its beginning.
const uint32_t* seek(Slice s, uint32_t value) {
  if (s.begin == s.end || *s.begin >= value) return s.begin;
  int64_t step = 1;
  while (step < s.size() && s.begin[step] < value) {
    s.begin += step;
    step *= 2;
  }
  return lower_bound({s.begin + 1, s.begin + std::min(step, s.size())}, value);
}

// One byte for each row of a window. A new stamp makes all marks stale; when 255 stamps are used up, they are wiped.
class Marks {
 public:
  void renew(size_t width) {
    if (marks_.size() < width) marks_.resize(width, 0);
    if (++stamp_ == 0) {
      std::memset(marks_.data(), 0, marks_.size());
      stamp_ = 1;
    }
  }
  // Mark rows less `first`; returns how many were not marked yet. Not inlined: its registers would be spilled there.
  [[gnu::noinline]] uint32_t mark(Slice rows, uint32_t first) {
    uint8_t* const marks = marks_.data();
    const uint8_t stamp = stamp_;
    uint32_t fresh = 0;
    for (const uint32_t* r = rows.begin; r < rows.end; r++) {
      uint8_t& m = marks[*r - first];
      fresh += m != stamp;
      m = stamp;
    }
    return fresh;
  }
  bool has(uint32_t row) const { return marks_[row] == stamp_; }

 private:
  std::vector<uint8_t> marks_;
  uint8_t stamp_ = 0;
};

// A paper's references, to be looked up in: few enough bits for the first cache, then the list itself.
class References {
 public:
  void set(Slice list) {
    for (const uint32_t* r = list_.begin; r < list_.end; r++) bits_[*r % SIZE / 64] = 0;
    for (const uint32_t* r = list.begin; r < list.end; r++) bits_[*r % SIZE / 64] |= uint64_t{1} << *r % 64;
    list_ = list;
  }
  uint32_t shared_with(Slice rows) const {
    uint32_t count = 0;
    for (const uint32_t* r = rows.begin; r < rows.end; r++) {
      if (!(bits_[*r % SIZE / 64] >> *r % 64 & 1)) continue;
      const uint32_t* found = lower_bound(list_, *r);
      count += found < list_.end && *found == *r;
    }
    return count;
  }

 private:
  static constexpr uint32_t SIZE = 1 << 14;
  uint64_t bits_[SIZE / 64] = {0};
  Slice list_{nullptr, nullptr};
};

class Counter {
 public:
  Counter(const CitationGraph& graph, const CitationWindows& windows, const Cursor* cursors, int64_t first,
          const CdCounts& counts)
      : g_(graph), windows_(windows), cursors_(cursors), counts_(counts), edges_(graph.out_pointer[graph.rows]),
        cursor_lo_(windows.begin[first]), cursor_hi_(windows.end[first]) {}

  void operator()(int64_t row) {
    lo_ = windows_.begin[row];
    hi_ = windows_.end[row];
    at_cursors_ = lo_ == cursor_lo_ && hi_ == cursor_hi_;
    const uint32_t begin = g_.out_pointer[row], end = g_.out_pointer[row + 1];
    uint32_t reference_citers = 0;
    if (lo_ < hi_) {
      reached_.renew(hi_ - lo_);
      for (uint32_t e = begin; e < end; e++) {
        // Papers lie far apart in memory; their cursors are asked for first, then their lists. Here and not in a
        // function of its own, because GCC takes a function that only prefetches for one without effect.
        if (e + 16 < edges_) {
          const uint32_t* soon = g_.in + cursors_[g_.out[e + 6]].begin;
          __builtin_prefetch(cursors_ + g_.out[e + 16]);
          __builtin_prefetch(soon);
          __builtin_prefetch(soon + 16);
        }
        reference_citers += reached_.mark(window_of(g_.out[e]), lo_);
      }
    }
    counts_.reference_citers[row] = reference_citers;
    count_own((uint32_t)row, list(g_.out_pointer, g_.out, (uint32_t)row));
  }

 private:
  // The citers of a paper that lie in the window in hand.
  Slice window_of(uint32_t row) const {
    const Cursor c = cursors_[row];
    if (at_cursors_) return {g_.in + c.begin, g_.in + c.end};
    const uint32_t* end = g_.in + g_.in_pointer[row + 1];
    const uint32_t* first = seek({g_.in + c.begin, end}, lo_);
    return {first, seek({std::max(first, g_.in + c.end), end}, hi_)};
  }

  void count_own(uint32_t row, Slice references) {
    const Slice citers = window_of(row);
    const uint32_t* first = g_.in + g_.in_pointer[row];
    both_.clear();
    for (const uint32_t* c = citers.begin; c < citers.end && references.size() > 0; c++) {
      if (!reached_.has(*c - lo_)) continue;
      __builtin_prefetch(g_.out_pointer + *c);
      both_.push_back(*c);
    }
    if (!both_.empty()) references_.set(references);
    uint32_t both5 = 0;
    uint64_t shared = 0;
    for (size_t i = 0; i < both_.size(); i++) {
      if (i + 4 < both_.size()) __builtin_prefetch(g_.out + g_.out_pointer[both_[i + 4]]);
      const uint32_t n = references_.shared_with(list(g_.out_pointer, g_.out, both_[i]));
      both5 += n >= 5;
      shared += n;
    }
    counts_.citers[row] = (uint32_t)citers.size();
    counts_.until_end[row] = (uint32_t)(citers.end - lower_bound({first, citers.end}, windows_.first_dated));
    counts_.both[row] = (uint32_t)both_.size();
    counts_.both5[row] = both5;
    counts_.shared[row] = shared;
  }

  const CitationGraph& g_;
  const CitationWindows& windows_;
  const Cursor* const cursors_;
  const CdCounts& counts_;
  const uint64_t edges_;
  const uint32_t cursor_lo_, cursor_hi_;
  uint32_t lo_ = 0, hi_ = 0;
  bool at_cursors_ = false;
  Marks reached_;               // B, rows less lo_
  std::vector<uint32_t> both_;  // F and B
  References references_;
};

void move_cursors(const CitationGraph& g, uint32_t lo, uint32_t hi, Cursor* cursors) {
  parallel(g.rows, [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; row++) {
      const Slice citers = list(g.in_pointer, g.in, (uint32_t)row);
      const auto moved = [&](uint32_t position, uint32_t value) {
        const uint32_t* p = g.in + position;
        if (p > citers.begin && p[-1] >= value) p = citers.begin;
        return (uint32_t)(seek({p, citers.end}, value) - g.in);
      };
      cursors[row] = {moved(cursors[row].begin, lo), moved(cursors[row].end, hi)};
    }
  });
}

}  // namespace

void group_edges(const uint32_t* keys, const uint32_t* values, int64_t edges, int64_t rows, uint32_t* pointer,
                 uint32_t* grouped) {
  std::memset(pointer, 0, (size_t)(rows + 1) * sizeof(uint32_t));
  for (int64_t e = 0; e < edges; e++) pointer[keys[e] + 1]++;
  for (int64_t r = 0; r < rows; r++) pointer[r + 1] += pointer[r];
  std::vector<uint32_t> next(pointer, pointer + rows);
  for (int64_t e = 0; e < edges; e++) grouped[next[keys[e]]++] = values[e];
}

bool strictly_ascending(const uint32_t* first, const uint32_t* second, int64_t count) {
  for (int64_t i = 1; i < count; i++)
    if (first[i - 1] > first[i] || (first[i - 1] == first[i] && second[i - 1] >= second[i])) return false;
  return true;
}

void count_citers(const CitationGraph& graph, const CitationWindows& windows, Cursor* cursors, int64_t begin,
                  int64_t end, const CdCounts& counts) {
  if (begin >= end) return;
  move_cursors(graph, windows.begin[begin], windows.end[begin], cursors);
  in_blocks(begin, end, 64, [&] { return Counter(graph, windows, cursors, begin, counts); });
}

}  // namespace tinsmith
