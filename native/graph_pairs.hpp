// Journal pairs among the references of one block of citing papers, and how unusual each pair is.
// Uzzi, Mukherjee, Stringer, Jones, "Atypical combinations and scientific impact", Science 342 (2013).
#pragma once
#include <cstdint>
#include <vector>

namespace tinsmith {

// References of papers that are compared with each other (one citing year); paper p's are pointer[p] .. pointer[p + 1].
struct PairReferences {
  int64_t papers, journals, strata;
  const uint32_t* pointer;  // [papers + 1]
  const uint32_t* journal;  // of the cited paper, in [0, journals)
  const uint32_t* stratum;  // its year, in [0, strata): a null model keeps how often each journal occurs in each
};

// One pair of journals (a, journal) that occurs, a <= journal.
struct PairCell {
  uint32_t journal;
  uint32_t observed;
  double z;  // NaN where the null model has no spread
};

// The journals of each paper, and the papers of each journal.
class Mentions {
 public:
  explicit Mentions(const PairReferences& references);
  void fill(const uint32_t* journal_of_reference);

  struct Journal {
    uint32_t journal, count;
  };
  struct Occurrence {
    uint32_t paper, position;  // in the paper's list
  };
  struct List {
    const Journal* first;
    uint32_t size;
  };
  struct Occurrences {
    const Occurrence *first, *last;
  };
  List journals(int64_t paper) const { return {&journals_[references_.pointer[paper]], distinct_[paper]}; }
  Occurrences papers(int64_t journal) const {
    return {occurrences_.data() + of_journal_[journal], occurrences_.data() + of_journal_[journal + 1]};
  }
  // Call meet(b, pairs) for each b >= a that stands beside a in some paper, once for each paper.
  template <typename Meet>
  void row(int64_t a, const Meet& meet) const {
    const auto [first, last] = papers(a);
    for (const Occurrence* o = first; o < last; o++) {
      const List list = journals(o->paper);
      const uint64_t count = list.first[o->position].count;
      if (count > 1) meet((uint32_t)a, count * (count - 1) / 2);
      for (uint32_t k = o->position + 1; k < list.size; k++) meet(list.first[k].journal, count * list.first[k].count);
    }
  }

 private:
  const PairReferences& references_;
  std::vector<Journal> journals_;       // each paper's, ascending, in the space of its references
  std::vector<uint32_t> distinct_;      // [papers]
  std::vector<Occurrence> occurrences_; // each journal's, by paper
  std::vector<uint32_t> of_journal_;    // [journals + 1]
};

// Where a paper's scores go: entries of `papers`.
struct PairScores {
  double *median, *p10;  // NaN for fewer than two references
  uint32_t* pairs;
};

// All bits depend on the references only, not on threads.
class JournalPairs {
 public:
  explicit JournalPairs(const PairReferences& references);
  // z against the closed form of the null model's mean; its variance is taken to be the mean.
  void score_closed();
  // z against the mean and the standard deviation of `nulls` random networks, in which journals are shuffled within
  // each stratum; stratum s draws from word null * 2^32 of SplitMix64's stream seeds[s] on.
  void score_switched(const uint64_t* seeds, int64_t nulls);
  // Median and 10th percentile of z over the pairs of each paper, interpolated linearly.
  void summarise(const PairScores& scores) const;
  const std::vector<std::vector<PairCell>>& rows() const { return rows_; }

 private:
  void summarise(int64_t begin, int64_t end, const std::vector<uint64_t>& slots, std::vector<double>& z,
                 const PairScores& scores) const;

  const PairReferences& references_;
  Mentions mentions_;
  std::vector<std::vector<PairCell>> rows_;  // [journals]
};

}  // namespace tinsmith
