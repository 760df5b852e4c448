#include "pair_null.hpp"

#include <utility>

#include "pool.hpp"

namespace tinsmith {

ClosedNull::ClosedNull(const PairReferences& references)
    : strata_(references.strata), pointer_((size_t)references.journals + 1), total_((size_t)strata_),
      within_((size_t)strata_), across_((size_t)(strata_ * strata_)), met_((size_t)(references.journals * strata_)),
      self_((size_t)references.journals) {
  count_shares(references);
  count_pairs(references);
  parallel(references.journals, [&](int64_t begin, int64_t end) {
    for (int64_t a = begin; a < end; a++) fill_met(a);
  });
}

// met_ holds the counts C until its rows are filled.
void ClosedNull::count_shares(const PairReferences& r) {
  for (uint32_t i = 0; i < r.pointer[r.papers]; i++) {
    met_[(size_t)(r.journal[i] * strata_ + r.stratum[i])] += 1.0;
    total_[r.stratum[i]]++;
  }
  for (int64_t a = 0; a < r.journals; a++) {
    for (int64_t s = 0; s < strata_; s++) {
      const double count = met_[(size_t)(a * strata_ + s)];
      if (count > 0) shares_.push_back({(uint32_t)s, (uint32_t)count, count / (double)total_[s]});
    }
    pointer_[a + 1] = (uint32_t)shares_.size();
  }
}

void ClosedNull::count_pairs(const PairReferences& r) {
  std::vector<uint64_t> counts((size_t)strata_), across((size_t)(strata_ * strata_));
  std::vector<uint32_t> found;
  for (int64_t p = 0; p < r.papers; p++) {
    found.clear();
    for (uint32_t i = r.pointer[p]; i < r.pointer[p + 1]; i++)
      if (counts[r.stratum[i]]++ == 0) found.push_back(r.stratum[i]);
    for (size_t x = 0; x < found.size(); x++) {
      const uint64_t here = counts[found[x]];
      within_[found[x]] += here * (here - 1) / 2;
      for (size_t y = 0; y < x; y++) {
        across[(size_t)found[x] * strata_ + found[y]] += here * counts[found[y]];
        across[(size_t)found[y] * strata_ + found[x]] += here * counts[found[y]];
      }
    }
    for (const uint32_t s : found) counts[s] = 0;
  }
  for (size_t i = 0; i < across.size(); i++) across_[i] = (double)across[i];
}

void ClosedNull::fill_met(int64_t a) {
  double* met = met_.data() + a * strata_;
  const Share *first = shares_.data() + pointer_[a], *last = shares_.data() + pointer_[a + 1];
  for (int64_t s = 0; s < strata_; s++) met[s] = 0.0;
  for (const Share* t = first; t < last; t++) {
    const double* across = across_.data() + (int64_t)t->stratum * strata_;  // symmetric
    for (int64_t s = 0; s < strata_; s++) met[s] += across[s] * t->share;
  }
  double cross = 0.0, same = 0.0;
  for (const Share* s = first; s < last; s++) {
    cross += s->share * met[s->stratum];
    if (within_[s->stratum] == 0) continue;  // also where the stratum has one reference
    const double n = (double)total_[s->stratum], count = (double)s->count;
    const double per_reference = (double)within_[s->stratum] / (n - 1.0);
    same += per_reference / n * (count * (count - 1.0));
    met[s->stratum] += 2.0 * per_reference * count;  // q_s times this is 2 w_s C_s C_s
  }
  self_[a] = cross / 2.0 + same;
}

double ClosedNull::expected(int64_t a, int64_t b) const {
  if (a == b) return self_[a];
  if (pointer_[b + 1] - pointer_[b] < pointer_[a + 1] - pointer_[a]) std::swap(a, b);
  const Share *s = shares_.data() + pointer_[a], *last = shares_.data() + pointer_[a + 1];
  const double* met = met_.data() + b * strata_;
  double lanes[4] = {0, 0, 0, 0};  // four chains, because one addition waits for the one before
  for (; s + 4 <= last; s += 4)
    for (int j = 0; j < 4; j++) lanes[j] += s[j].share * met[s[j].stratum];
  for (int j = 0; s + j < last; j++) lanes[j] += s[j].share * met[s[j].stratum];
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

}  // namespace tinsmith
