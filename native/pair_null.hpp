// How often two journals would meet by chance if the journals of each stratum were shuffled.
#pragma once
#include <cstdint>
#include <vector>

#include "graph_pairs.hpp"

namespace tinsmith {

// Stratum s has n_s references, C_sa of them to journal a, q = C / n. With G_st pairs of references of one paper in
// strata s and t, and P_s pairs within s, w_s = P_s / (n_s (n_s - 1)):
//   E_ab = sum_st q_sa G_st q_tb + 2 sum_s w_s C_sa C_sb  for a != b
//   E_aa = (sum_st q_sa G_st q_ta) / 2 + sum_s w_s C_sa (C_sa - 1)
// Sums run over strata in ascending order, of the journal that occurs in fewer.
class ClosedNull {
 public:
  explicit ClosedNull(const PairReferences& references);
  double expected(int64_t a, int64_t b) const;

 private:
  struct Share {
    uint32_t stratum, count;
    double share;  // q
  };
  void count_shares(const PairReferences& references);
  void count_pairs(const PairReferences& references);
  void fill_met(int64_t journal);

  int64_t strata_;
  std::vector<uint32_t> pointer_;       // [journals + 1] into shares_
  std::vector<Share> shares_;           // each journal's strata, ascending
  std::vector<uint64_t> total_;         // n, [strata]
  std::vector<uint64_t> within_;        // P, [strata]
  std::vector<double> across_;          // G, [strata, strata], diagonal 0
  std::vector<double> met_;             // [journals, strata]: E_ab = sum_s q_sa met_bs
  std::vector<double> self_;            // E_aa, [journals]
};

}  // namespace tinsmith
