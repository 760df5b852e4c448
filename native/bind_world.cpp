// The synthetic world's references.
#include "bind.hpp"
#include "world.hpp"

namespace tinsmith {
namespace {

using InWord = Array<const uint32_t>;
using InByte = Array<const uint8_t>;

template <typename T>
void require_below(const Array<const T>& a, int64_t bound, const char* what) {
  for (size_t i = 0; i < a.size(); i++) require(a.data()[i] >= 0 && (int64_t)a.data()[i] < bound, what);
}

template <typename... T>
void require_all_dense(const Array<T>&... arrays) {
  (require_dense(arrays, "world_references: arrays are contiguous"), ...);
}

nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>> references(
    const InLong& year_start, const InInt& topic, const InInt& field, const InByte& cause, const InWord& fitness,
    const InWord& wander, const InInt& wanted, int64_t topics, int64_t fields, const InWord& habits,
    const InWord& age_below, int64_t candidates, int64_t hub_slots, int64_t hub_tenure, int64_t max_hubs,
    uint64_t seed, const Array<int64_t>& offsets) {
  const int64_t n = (int64_t)topic.size(), years = (int64_t)year_start.size() - 1;
  require_all_dense(year_start, topic, field, cause, fitness, wander, wanted, habits, age_below, offsets);
  require(n < int64_t{0xFFFFFFFF}, "world_references: papers fit 32 bits");
  for (size_t have : {field.size(), cause.size(), fitness.size(), wander.size(), wanted.size(), offsets.size() - 1})
    require((int64_t)have == n, "world_references: one entry per paper");
  require(years > 0 && (int64_t)age_below.size() == years, "world_references: one age per year");
  require(year_start.data()[0] == 0 && year_start.data()[years] == n, "world_references: the years hold all papers");
  for (int64_t y = 0; y < years; y++)
    require(year_start.data()[y] <= year_start.data()[y + 1], "world_references: years ascend");
  require_below(topic, topics, "world_references: topic in range");
  require_below(field, fields, "world_references: field in range");
  require_below(cause, 3, "world_references: cause in range");
  require_below(wanted, 1 << 16, "world_references: references wanted in range");
  require(candidates > 0 && hub_slots > 0 && hub_tenure > 0 && max_hubs > 0, "world_references: positive counts");
  require(habits.ndim() == 2 && habits.shape(0) == 3 && habits.shape(1) == 5, "world_references: habits [3, 5]");
  WorldRules rules{{}, age_below.data(), years, candidates, hub_slots, hub_tenure, max_hubs};
  for (int cause_at = 0; cause_at < 3; cause_at++) {
    const uint32_t* h = habits.data() + 5 * cause_at;
    rules.habits[cause_at] = {h[0], h[1], h[2], h[3], h[4]};
  }
  const WorldPapers papers{n,           topics,       fields,        year_start.data(), topic.data(),
                           field.data(), cause.data(), fitness.data(), wander.data(),     wanted.data()};
  auto* refs = new std::vector<uint32_t>();
  {
    nb::gil_scoped_release release;
    *refs = pick_references(rules, papers, seed, offsets.data());
  }
  nb::capsule owner(refs, [](void* p) noexcept { delete (std::vector<uint32_t>*)p; });
  return nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>(refs->data(), {refs->size()}, owner);
}

}  // namespace

void bind_world(nb::module_& m) {
  m.def("world_references", &references, nb::arg("year_start"), nb::arg("topic"), nb::arg("field"), nb::arg("cause"),
        nb::arg("fitness"), nb::arg("wander"), nb::arg("wanted"), nb::arg("topics"), nb::arg("fields"),
        nb::arg("habits"), nb::arg("age_below"), nb::arg("candidates"), nb::arg("hub_slots"), nb::arg("hub_tenure"),
        nb::arg("max_hubs"), nb::arg("seed"), nb::arg("offsets"));
}

}  // namespace tinsmith
