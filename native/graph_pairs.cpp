// A journal's pairs are counted in one pass over the papers that mention it, into a dense row: no table of all pairs.
#include "graph_pairs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "blocks.hpp"
#include "pair_null.hpp"
#include "quantile.hpp"

namespace tinsmith {
namespace {

constexpr double NAN64 = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t ROW_BLOCK = 16;

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), the word at `index` of the stream `seed`.
uint64_t word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// The upper half of a 64 x 32 bit product: `bits` scaled to [0, bound).
uint32_t scaled(uint64_t bits, uint64_t bound) {
  return (uint32_t)(((bits >> 32) * bound + (((bits & 0xFFFFFFFFull) * bound) >> 32)) >> 32);
}

// The references of each stratum, in the papers' order.
class Strata {
 public:
  explicit Strata(const PairReferences& r) : r_(r), pointer_((size_t)r.strata + 1), members_(r.pointer[r.papers]) {
    for (uint32_t i = 0; i < members_.size(); i++) pointer_[r.stratum[i] + 1]++;
    for (int64_t s = 0; s < r.strata; s++) pointer_[s + 1] += pointer_[s];
    std::vector<uint32_t> next(pointer_.begin(), pointer_.end() - 1);
    for (uint32_t i = 0; i < members_.size(); i++) members_[next[r.stratum[i]]++] = i;
  }
  // Shuffle the journals of each stratum (Fisher and Yates) into `journal`.
  void shuffle(const uint64_t* seeds, uint64_t null, uint32_t* journal) const {
    in_blocks(0, r_.strata, 1, [&] {
      return [&](int64_t s) {
        const uint32_t* members = members_.data() + pointer_[s];
        const uint32_t count = pointer_[s + 1] - pointer_[s];
        for (uint32_t i = 0; i < count; i++) {
          const uint32_t j = scaled(word(seeds[s], (null << 32) + i), i + 1);
          journal[members[i]] = journal[members[j]];
          journal[members[j]] = r_.journal[members[i]];
        }
      };
    });
  }

 private:
  const PairReferences& r_;
  std::vector<uint32_t> pointer_, members_;
};

// A journal's pairs by their other journal; empty between rows.
struct DenseRow {
  explicit DenseRow(int64_t journals) : counts((size_t)journals) {}
  std::vector<uint64_t> counts;
  std::vector<uint32_t> met;

  void fill(const Mentions& mentions, int64_t a) {
    mentions.row(a, [this](uint32_t b, uint64_t pairs) {
      if (counts[b] == 0) met.push_back(b);
      counts[b] += pairs;
    });
  }
  void clear() {
    for (const uint32_t b : met) counts[b] = 0;
    met.clear();
  }
};

}  // namespace

Mentions::Mentions(const PairReferences& references)
    : references_(references), journals_(references.pointer[references.papers]), distinct_((size_t)references.papers),
      of_journal_((size_t)references.journals + 1) {}

void Mentions::fill(const uint32_t* journal_of_reference) {
  const uint32_t* pointer = references_.pointer;
  in_blocks(0, references_.papers, 256, [&] {
    return [&, sorted = std::vector<uint32_t>()](int64_t p) mutable {
      sorted.assign(journal_of_reference + pointer[p], journal_of_reference + pointer[p + 1]);
      std::sort(sorted.begin(), sorted.end());
      Journal* out = journals_.data() + pointer[p];
      uint32_t distinct = 0;
      for (size_t i = 0; i < sorted.size(); i++) {
        if (i == 0 || sorted[i] != sorted[i - 1]) out[distinct++] = {sorted[i], 0};
        out[distinct - 1].count++;
      }
      distinct_[p] = distinct;
    };
  });
  std::fill(of_journal_.begin(), of_journal_.end(), 0);
  for (int64_t p = 0; p < references_.papers; p++)
    for (uint32_t i = 0; i < distinct_[p]; i++) of_journal_[journals_[pointer[p] + i].journal + 1]++;
  for (int64_t a = 0; a < references_.journals; a++) of_journal_[a + 1] += of_journal_[a];
  occurrences_.resize(of_journal_[references_.journals]);
  std::vector<uint32_t> next(of_journal_.begin(), of_journal_.end() - 1);
  for (int64_t p = 0; p < references_.papers; p++)
    for (uint32_t i = 0; i < distinct_[p]; i++)
      occurrences_[next[journals_[pointer[p] + i].journal]++] = {(uint32_t)p, i};
}

JournalPairs::JournalPairs(const PairReferences& references)
    : references_(references), mentions_(references), rows_((size_t)references.journals) {
  mentions_.fill(references.journal);
  in_blocks(0, references.journals, ROW_BLOCK, [&] {
    return [&, row = DenseRow(references.journals)](int64_t a) mutable {
      row.fill(mentions_, a);
      rows_[a].reserve(row.met.size());
      for (const uint32_t b : row.met) {
        if (row.counts[b] > 0xFFFFFFFFull) throw std::overflow_error("journal pairs: a pair occurs 2^32 times");
        rows_[a].push_back({b, (uint32_t)row.counts[b], NAN64});
      }
      row.clear();
    };
  });
}

void JournalPairs::score_closed() {
  const ClosedNull null(references_);
  in_blocks(0, references_.journals, ROW_BLOCK, [&] {
    return [&](int64_t a) {
      for (PairCell& cell : rows_[a]) {
        const double expected = null.expected(a, cell.journal);
        cell.z = ((double)cell.observed - expected) / std::sqrt(expected);
      }
    };
  });
}

void JournalPairs::score_switched(const uint64_t* seeds, int64_t nulls) {
  struct Moments {
    uint64_t sum = 0, squares = 0;
  };
  std::vector<std::vector<Moments>> moments(rows_.size());
  for (size_t a = 0; a < rows_.size(); a++) moments[a].resize(rows_[a].size());
  const Strata strata(references_);
  Mentions shuffled(references_);
  std::vector<uint32_t> journal(references_.pointer[references_.papers]);
  for (int64_t null = 0; null < nulls; null++) {
    strata.shuffle(seeds, (uint64_t)null, journal.data());
    shuffled.fill(journal.data());
    in_blocks(0, references_.journals, ROW_BLOCK, [&] {
      return [&, row = DenseRow(references_.journals)](int64_t a) mutable {
        row.fill(shuffled, a);
        for (size_t i = 0; i < rows_[a].size(); i++) {
          const uint64_t count = row.counts[rows_[a][i].journal];
          moments[a][i].sum += count;
          moments[a][i].squares += count * count;
        }
        row.clear();
      };
    });
  }
  for (size_t a = 0; a < rows_.size(); a++)
    for (size_t i = 0; i < rows_[a].size(); i++) {
      // Both differences are exact: n times the mean's distance, n^2 times the variance.
      const auto [sum, squares] = moments[a][i];
      PairCell& cell = rows_[a][i];
      const uint64_t n = (uint64_t)nulls, spread = n * squares - sum * sum;
      const int64_t distance = (int64_t)(n * cell.observed - sum);
      cell.z = spread > 0 ? (double)distance / std::sqrt((double)spread) : NAN64;
    }
}

// Each paper's z are laid out as the upper triangle of its journals, row by row, in batches that bound the memory.
void JournalPairs::summarise(const PairScores& scores) const {
  constexpr uint64_t batch = 1 << 23;
  std::vector<double> z;
  std::vector<uint64_t> slots;  // where each paper's triangle begins
  for (int64_t begin = 0, end; begin < references_.papers; begin = end) {
    slots.assign(1, 0);
    for (end = begin; end < references_.papers && (end == begin || slots.back() < batch); end++) {
      const uint64_t d = mentions_.journals(end).size;
      slots.push_back(slots.back() + d * (d + 1) / 2);
    }
    summarise(begin, end, slots, z, scores);
  }
}

void JournalPairs::summarise(int64_t begin, int64_t end, const std::vector<uint64_t>& slots, std::vector<double>& z,
                             const PairScores& scores) const {
  if (z.size() < slots.back()) z.resize(slots.back());
  in_blocks(0, references_.journals, ROW_BLOCK, [&] {
    return [&, row = std::vector<double>((size_t)references_.journals)](int64_t a) mutable {
      for (const PairCell& cell : rows_[a]) row[cell.journal] = cell.z;
      const auto [first, last] = mentions_.papers(a);
      const auto* o = std::partition_point(first, last, [&](const auto& x) { return x.paper < begin; });
      for (; o < last && o->paper < end; o++) {
        const auto list = mentions_.journals(o->paper);
        const uint64_t i = o->position;
        double* out = z.data() + slots[o->paper - begin] + i * list.size - i * (i + 1) / 2;
        for (uint64_t k = i; k < list.size; k++) out[k] = row[list.first[k].journal];
      }
    };
  });
  in_blocks(begin, end, 64, [&] {
    return [&, values = std::vector<Weighted>()](int64_t p) mutable {
      const auto list = mentions_.journals(p);
      const double* slot = z.data() + slots[p - begin];
      uint64_t pairs = 0;
      values.clear();
      for (uint32_t i = 0; i < list.size; i++)
        for (uint32_t k = i; k < list.size; k++, slot++) {
          const uint64_t m = list.first[i].count;
          const uint64_t weight = i == k ? m * (m - 1) / 2 : m * list.first[k].count;
          pairs += weight;
          if (weight > 0 && !std::isnan(*slot)) values.push_back({*slot, weight});
        }
      scores.pairs[p] = (uint32_t)pairs;
      scores.p10[p] = quantile(values, 0.1);
      scores.median[p] = quantile(values, 0.5);
    };
  });
}

}  // namespace tinsmith
