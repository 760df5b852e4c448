#include "world.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace tinsmith {
namespace {

// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014).
constexpr uint64_t GOLDEN = 0x9E3779B97F4A7C15ull;

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

struct Stream {
  uint64_t state;
  uint64_t next() { return mix(state += GOLDEN); }
  bool chance(uint32_t below) { return (uint32_t)(next() >> 32) < below; }
};

uint32_t scaled(uint32_t bits, uint64_t bound) { return (uint32_t)((bits * bound) >> 32); }

// The papers of each group (a topic or a field) in time order, and where each year of a group begins.
struct Groups {
  std::vector<uint32_t> members;
  std::vector<uint32_t> starts;  // [groups][years + 1]
  std::vector<uint32_t> placed;  // members that precede the paper in hand
  int64_t years;

  Groups(const WorldPapers& w, const int32_t* group, int64_t groups, int64_t num_years)
      : members((size_t)w.count), starts((size_t)(groups * (num_years + 1))), placed((size_t)groups), years(num_years) {
    std::vector<uint32_t> counts((size_t)(groups * num_years));
    for (int64_t y = 0; y < years; y++)
      for (int64_t i = w.year_start[y]; i < w.year_start[y + 1]; i++) counts[(size_t)(group[i] * years + y)]++;
    uint32_t total = 0;
    for (int64_t g = 0; g < groups; g++) {
      placed[(size_t)g] = total;
      for (int64_t y = 0; y < years; y++) {
        starts[(size_t)(g * (years + 1) + y)] = total;
        total += counts[(size_t)(g * years + y)];
      }
      starts[(size_t)(g * (years + 1) + years)] = total;
    }
  }
  void add(int64_t g, int64_t paper) { members[placed[(size_t)g]++] = (uint32_t)paper; }
  const uint32_t* start(int64_t g) const { return &starts[(size_t)(g * (years + 1))]; }
};

struct Picker {
  const WorldRules& r;
  const WorldPapers& w;
  const int64_t* offsets;
  std::vector<uint32_t>& refs;
  Groups topics, fields;
  std::vector<uint32_t> hubs;  // [fields][slots], NONE where a slot is empty
  static constexpr uint32_t NONE = 0xFFFFFFFFu;

  // The record in hand.
  size_t begin = 0;
  int64_t wanted = 0;

  Picker(const WorldRules& rules, const WorldPapers& papers, const int64_t* off, std::vector<uint32_t>& out)
      : r(rules), w(papers), offsets(off), refs(out), topics(papers, papers.topic, papers.topics, rules.years),
        fields(papers, papers.field, papers.fields, rules.years),
        hubs((size_t)(papers.fields * rules.hub_slots), NONE) {}

  bool full() const { return (int64_t)(refs.size() - begin) >= wanted; }

  bool cite(uint32_t p) {
    if (full() || std::find(refs.begin() + (std::ptrdiff_t)begin, refs.end(), p) != refs.end()) return false;
    refs.push_back(p);
    return true;
  }

  enum Pool { TOPIC, FIELD, ANYWHERE };

  // Earlier papers to draw one from: members[begin .. end), or the papers begin .. end themselves where it is null.
  struct Range {
    const uint32_t* members;
    uint32_t begin, end;
  };

  Range reach(Pool pool, int64_t i, int64_t year, uint32_t age_bits) const {
    const bool timeless = r.habits[w.cause[i]].timeless;
    const int64_t age = std::upper_bound(r.age_below, r.age_below + r.years - 1, age_bits) - r.age_below;
    const int64_t then = year - age;
    if (!timeless && then < 0) return {nullptr, 0, 0};
    if (pool == ANYWHERE) {
      if (timeless) return {nullptr, 0, (uint32_t)i};
      return {nullptr, (uint32_t)w.year_start[then], (uint32_t)std::min(w.year_start[then + 1], i)};
    }
    const Groups& groups = pool == TOPIC ? topics : fields;
    const int64_t group = pool == TOPIC ? w.topic[i] : w.field[i];
    const uint32_t* start = groups.start(group);
    const uint32_t placed = groups.placed[(size_t)group];
    if (timeless) return {groups.members.data(), start[0], placed};
    return {groups.members.data(), start[then], std::min(start[then + 1], placed)};
  }

  // The best of some candidates by fitness times a uniform draw; NONE where nobody alive was met.
  uint32_t pick(Stream& s, int64_t i, int64_t year) {
    const WorldHabit& habit = r.habits[w.cause[i]];
    const uint64_t word = s.next();
    const uint32_t u = (uint32_t)(word >> 32);
    const bool wanders = (uint32_t)word < w.wander[i];
    const Pool pool = wanders || u >= habit.field ? ANYWHERE : u < habit.topic ? TOPIC : FIELD;
    uint32_t best = NONE;
    uint64_t best_score = 0;
    for (int64_t c = 0; c < r.candidates; c++) {
      const uint64_t where = s.next(), luck = s.next() >> 32;
      const Range range = reach(pool, i, year, (uint32_t)(where >> 32));
      if (range.begin >= range.end) continue;
      const uint32_t at = range.begin + scaled((uint32_t)where, range.end - range.begin);
      const uint32_t p = range.members ? range.members[at] : at;
      const uint64_t score = w.fitness[p] * luck;
      if (score > best_score) {
        best_score = score;
        best = p;
      }
    }
    return best;
  }

  void cite_hubs(Stream& s, int64_t i) {
    const uint32_t* slots = &hubs[(size_t)(w.field[i] * r.hub_slots)];
    const uint64_t word = s.next();
    const int64_t many = 1 + scaled((uint32_t)word, (uint64_t)r.max_hubs);
    const int64_t first = scaled((uint32_t)(word >> 32), (uint64_t)r.hub_slots);
    for (int64_t h = 0; h < many; h++) {
      const uint32_t hub = slots[(first + h) % r.hub_slots];
      if (hub != NONE) cite(hub);
    }
  }

  // One or two of the references of p, which are those of an earlier paper.
  void cite_through(Stream& s, uint32_t p) {
    const int64_t begin_p = offsets[p], many_p = offsets[p + 1] - begin_p;
    if (many_p == 0 || !s.chance(r.habits[w.cause[p]].bypass)) return;
    const uint64_t word = s.next();
    cite(refs[(size_t)(begin_p + scaled((uint32_t)word, (uint64_t)many_p))]);
    if (word >> 63) cite(refs[(size_t)(begin_p + scaled((uint32_t)(word >> 31), (uint64_t)many_p))]);
  }

  void record(Stream s, int64_t i, int64_t year) {
    begin = refs.size();
    wanted = w.wanted[i];
    if (wanted && s.chance(r.habits[w.cause[i]].hub)) cite_hubs(s, i);
    for (int64_t tries = 3 * wanted; tries > 0 && !full(); tries--) {
      const uint32_t p = pick(s, i, year);
      if (p != NONE && cite(p)) cite_through(s, p);
    }
  }

  // Once in `hub_tenure` years a field gives one slot to its fittest paper of these years.
  void replace_hubs(int64_t year) {
    for (int64_t f = 0; f < w.fields; f++) {
      if (year == 0 || (year + f) % r.hub_tenure != 0) continue;
      const uint32_t* start = fields.start(f);
      uint32_t best = NONE;
      for (uint32_t m = start[std::max<int64_t>(0, year - r.hub_tenure)]; m < start[year]; m++) {
        const uint32_t p = fields.members[m];
        if (w.fitness[p] && (best == NONE || w.fitness[p] > w.fitness[best])) best = p;
      }
      const int64_t turn = (year + f) / r.hub_tenure % r.hub_slots;
      if (best != NONE) hubs[(size_t)(f * r.hub_slots + turn)] = best;
    }
  }
};

}  // namespace

std::vector<uint32_t> pick_references(const WorldRules& rules, const WorldPapers& papers, uint64_t seed,
                                      int64_t* offsets) {
  std::vector<uint32_t> refs;
  refs.reserve((size_t)std::accumulate(papers.wanted, papers.wanted + papers.count, int64_t{0}));
  Picker picker(rules, papers, offsets, refs);
  offsets[0] = 0;
  for (int64_t year = 0; year < rules.years; year++) {
    picker.replace_hubs(year);
    for (int64_t i = papers.year_start[year]; i < papers.year_start[year + 1]; i++) {
      picker.record(Stream{mix(seed + (uint64_t)(i + 1) * GOLDEN)}, i, year);
      picker.topics.add(papers.topic[i], i);
      picker.fields.add(papers.field[i], i);
      offsets[i + 1] = (int64_t)refs.size();
    }
  }
  return refs;
}

}  // namespace tinsmith
