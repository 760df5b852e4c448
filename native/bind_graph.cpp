// The citation graph: compressed rows, counts behind the CD index, journal pairs.
#include "bind.hpp"
#include "graph.hpp"
#include "graph_pairs.hpp"

namespace tinsmith {
namespace {

using InWord = Array<const uint32_t>;
using OutWord = Array<uint32_t>;

void require_below(const InWord& a, int64_t bound, const char* what) {
  uint32_t largest = 0;
  for (size_t i = 0; i < a.size(); i++) largest = a.data()[i] > largest ? a.data()[i] : largest;
  require(a.size() == 0 || largest < bound, what);
}

// pointer[0] = 0, ascending, pointer[last] = number of values.
void require_pointer(const InWord& pointer, size_t values, const char* what) {
  require(pointer.size() > 0 && pointer.data()[0] == 0, what);
  for (size_t i = 1; i < pointer.size(); i++) require(pointer.data()[i - 1] <= pointer.data()[i], what);
  require(pointer.data()[pointer.size() - 1] == values, what);
}

template <typename T>
void require_size(const Array<T>& a, int64_t size, const char* what) {
  require_dense(a, what);
  require((int64_t)a.size() == size, what);
}

void group(const InWord& keys, const InWord& values, const OutWord& pointer, const OutWord& grouped) {
  const int64_t edges = (int64_t)keys.size(), rows = (int64_t)pointer.size() - 1;
  require(rows >= 0 && edges < int64_t{0xFFFFFFFF}, "group_edges: edges fit 32 bits");
  require_dense(keys, "group_edges: keys are contiguous");
  require_dense(pointer, "group_edges: pointer is contiguous");
  require_size(values, edges, "group_edges: one value per key");
  require_size(grouped, edges, "group_edges: one place per key");
  require_below(keys, rows, "group_edges: key in range");
  group_edges(keys.data(), values.data(), edges, rows, pointer.data(), grouped.data());
}

bool ascending(const InWord& first, const InWord& second) {
  require_dense(first, "strictly_ascending: contiguous");
  require_size(second, (int64_t)first.size(), "strictly_ascending: pairs");
  return strictly_ascending(first.data(), second.data(), (int64_t)first.size());
}

void count(const InWord& out_pointer, const InWord& out, const InWord& in_pointer, const InWord& in,
           const InWord& window_begin, const InWord& window_end, uint32_t first_dated, const OutWord& cursors,
           int64_t begin, int64_t end, const OutWord& citers, const OutWord& both, const OutWord& both5,
           const OutWord& reference_citers, const OutWord& until_end, const Array<uint64_t>& shared) {
  const int64_t rows = (int64_t)out_pointer.size() - 1;
  require(0 <= begin && begin <= end && end <= rows, "count_citers: rows in range");
  require_size(in_pointer, rows + 1, "count_citers: one list per row");
  for (const InWord* a : {&window_begin, &window_end}) require_size(*a, rows, "count_citers: one window per row");
  for (const OutWord* a : {&citers, &both, &both5, &reference_citers, &until_end})
    require_size(*a, rows, "count_citers: one count per row");
  require_size(shared, rows, "count_citers: one count per row");
  require_size(cursors, 2 * rows, "count_citers: two cursors per row");
  for (int64_t i = begin; i < end; i++)
    require((int64_t)window_end.data()[i] <= rows, "count_citers: window in range");
  count_citers({rows, out_pointer.data(), out.data(), in_pointer.data(), in.data()},
               {window_begin.data(), window_end.data(), first_dated}, reinterpret_cast<Cursor*>(cursors.data()), begin,
               end, {citers.data(), both.data(), both5.data(), reference_citers.data(), until_end.data(), shared.data()});
}

// The arrays live as long as what is computed from them.
class BoundPairs {
 public:
  BoundPairs(InWord pointer, InWord journal, InWord stratum, int64_t journals, int64_t strata)
      : pointer_(std::move(pointer)), journal_(std::move(journal)), stratum_(std::move(stratum)),
        references_(checked(journals, strata)), pairs_(references_) {}
  void score_closed() { pairs_.score_closed(); }
  void score_switched(const Array<const uint64_t>& seeds, int64_t nulls) {
    require_size(seeds, references_.strata, "score_switched: one seed per stratum");
    require(nulls > 0 && nulls < int64_t{1} << 31, "score_switched: at least one null");
    pairs_.score_switched(seeds.data(), nulls);
  }
  void summarise(const Array<double>& median, const Array<double>& p10, const OutWord& pairs) const {
    require_size(median, references_.papers, "summarise: one entry per paper");
    require_size(p10, references_.papers, "summarise: one entry per paper");
    require_size(pairs, references_.papers, "summarise: one entry per paper");
    pairs_.summarise({median.data(), p10.data(), pairs.data()});
  }
  int64_t size() const {
    int64_t cells = 0;
    for (const auto& row : pairs_.rows()) cells += (int64_t)row.size();
    return cells;
  }
  void cells(const OutWord& first, const OutWord& second, const OutWord& observed, const Array<double>& z) const {
    const int64_t count = size();
    for (const OutWord* a : {&first, &second, &observed}) require_size(*a, count, "cells: one entry per pair");
    require_size(z, count, "cells: one entry per pair");
    int64_t i = 0;
    for (size_t a = 0; a < pairs_.rows().size(); a++)
      for (const PairCell& cell : pairs_.rows()[a]) {
        first.data()[i] = (uint32_t)a;
        second.data()[i] = cell.journal;
        observed.data()[i] = cell.observed;
        z.data()[i++] = cell.z;
      }
  }

 private:
  PairReferences checked(int64_t journals, int64_t strata) const {
    require_dense(pointer_, "JournalPairs: pointer is contiguous");
    require_dense(journal_, "JournalPairs: journals are contiguous");
    require_size(stratum_, (int64_t)journal_.size(), "JournalPairs: one stratum per reference");
    require_pointer(pointer_, journal_.size(), "JournalPairs: pointer ascends to the number of references");
    require_below(journal_, journals, "JournalPairs: journal in range");
    require_below(stratum_, strata, "JournalPairs: stratum in range");
    return {(int64_t)pointer_.size() - 1, journals, strata, pointer_.data(), journal_.data(), stratum_.data()};
  }

  InWord pointer_, journal_, stratum_;
  PairReferences references_;
  JournalPairs pairs_;
};

}  // namespace

void bind_graph(nb::module_& m) {
  m.def("group_edges", &group, nb::arg("keys"), nb::arg("values"), nb::arg("pointer"), nb::arg("grouped"), NoGil());
  m.def("strictly_ascending", &ascending, nb::arg("first"), nb::arg("second"), NoGil());
  m.def("count_citers", &count, nb::arg("out_pointer"), nb::arg("out"), nb::arg("in_pointer"), nb::arg("in_"),
        nb::arg("window_begin"), nb::arg("window_end"), nb::arg("first_dated"), nb::arg("cursors"), nb::arg("begin"),
        nb::arg("end"), nb::arg("citers"), nb::arg("both"), nb::arg("both5"), nb::arg("reference_citers"),
        nb::arg("until_end"), nb::arg("shared"), NoGil());
  nb::class_<BoundPairs>(m, "JournalPairs")
      .def(nb::init<InWord, InWord, InWord, int64_t, int64_t>(), nb::arg("pointer"), nb::arg("journal"),
           nb::arg("stratum"), nb::arg("journals"), nb::arg("strata"), NoGil())
      .def("score_closed", &BoundPairs::score_closed, NoGil())
      .def("score_switched", &BoundPairs::score_switched, nb::arg("seeds"), nb::arg("nulls"), NoGil())
      .def("summarise", &BoundPairs::summarise, nb::arg("median"), nb::arg("p10"), nb::arg("pairs"), NoGil())
      .def("size", &BoundPairs::size, NoGil())
      .def("cells", &BoundPairs::cells, nb::arg("first"), nb::arg("second"), nb::arg("observed"), nb::arg("z"),
           NoGil());
}

}  // namespace tinsmith
