// Citation graphs as compressed rows, and the counts behind the CD index. Integers only.
#pragma once
#include <cstdint>

namespace tinsmith {

// Stable counting sort: the values of key k stand at pointer[k] .. pointer[k + 1] of `grouped`, in their old order.
void group_edges(const uint32_t* keys, const uint32_t* values, int64_t edges, int64_t rows, uint32_t* pointer,
                 uint32_t* grouped);

// Whether the pairs (first, second) are sorted and without duplicates.
bool strictly_ascending(const uint32_t* first, const uint32_t* second, int64_t count);

// Rows are papers in time order; every list is ascending and without duplicates.
struct CitationGraph {
  int64_t rows;
  const uint32_t* out_pointer;  // [rows + 1]
  const uint32_t* out;          // what row i cites
  const uint32_t* in_pointer;   // [rows + 1]
  const uint32_t* in;           // what cites row i
};

// The citers that count for row i lie in [begin[i], end[i]); rows below `first_dated` lie in no window.
struct CitationWindows {
  const uint32_t* begin;
  const uint32_t* end;
  uint32_t first_dated;
};

// Where a window begins and ends among a paper's citers: positions in `in`.
struct Cursor {
  uint32_t begin, end;
};

// F: citers of a paper in its window; B: papers in its window that cite at least one of its references.
struct CdCounts {
  uint32_t* citers;            // |F|
  uint32_t* both;              // |F and B|
  uint32_t* both5;             // of F, those that cite at least five of the references
  uint32_t* reference_citers;  // |B|
  uint32_t* until_end;         // dated citers before the window's end, early ones included
  uint64_t* shared;            // sum over F of references shared with the paper
};

// Counts for rows [begin, end); row i's are at index i, the same for any number of threads. `cursors` [rows] are moved
// to the first row's window; they say where to start looking, so a call is fast where its rows share a window that
// lies not long after the last call's. Any positions inside the lists are right.
void count_citers(const CitationGraph& graph, const CitationWindows& windows, Cursor* cursors, int64_t begin,
                  int64_t end, const CdCounts& counts);

}  // namespace tinsmith
