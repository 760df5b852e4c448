// Who cites whom in a synthetic world: references picked paper by paper, in time order.
#pragma once
#include <cstdint>
#include <vector>

namespace tinsmith {

// How papers of one cause cite. Probabilities are thresholds: true where a draw of 32 bits lies below.
struct WorldHabit {
  uint32_t hub;       // cite hubs of the own field
  uint32_t topic;     // pick from the own topic; otherwise ...
  uint32_t field;     // ... cumulative: from the own topic or field; otherwise anywhere
  uint32_t bypass;    // who cites such a paper also cites one or two of its references
  uint32_t timeless;  // not 0: candidates are uniform over all earlier papers, not by age
};

struct WorldRules {
  WorldHabit habits[3];       // by cause
  const uint32_t* age_below;  // [years] cumulative thresholds: a candidate's age in years
  int64_t years, candidates, hub_slots, hub_tenure, max_hubs;
};

// Papers are in time order; all arrays but the years' have one entry for each.
struct WorldPapers {
  int64_t count, topics, fields;
  const int64_t* year_start;    // [years + 1]
  const int32_t* topic;         // in [0, topics)
  const int32_t* field;         // in [0, fields)
  const uint8_t* cause;         // in [0, 3)
  const uint32_t* fitness;      // 0: never picked
  const uint32_t* wander;       // threshold: a pick comes from anywhere
  const int32_t* wanted;        // references wanted
};

// Fill offsets[count + 1] and return the references of all papers, one after the other. Paper i depends on
// SplitMix64's stream that starts at word i of `seed` and on the papers before it. Integers only.
std::vector<uint32_t> pick_references(const WorldRules& rules, const WorldPapers& papers, uint64_t seed,
                                      int64_t* offsets);

}  // namespace tinsmith
