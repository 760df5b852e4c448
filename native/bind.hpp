// Arrays as they come over DLPack, and the checks every binding makes on them.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "dispatch.hpp"
#include "pool.hpp"
#include "tape.hpp"

namespace nb = nanobind;

namespace tinsmith {

template <typename T>
using Array = nb::ndarray<T, nb::device::cpu>;
using In = Array<const float>;
using Out = Array<float>;
using InLong = Array<const int64_t>;
using InInt = Array<const int32_t>;
using NoGil = nb::call_guard<nb::gil_scoped_release>;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Rows of contiguous elements: [rows, width] with any row stride.
template <typename T>
void require_rows(const Array<T>& a, const char* what) {
  require(a.ndim() == 2 && (a.stride(1) == 1 || a.shape(1) <= 1 || a.size() == 0), what);
}

template <typename T>
void require_dense(const Array<T>& a, const char* what) {
  int64_t expected = 1;
  for (size_t i = a.ndim(); i-- > 0;) {
    require(a.shape(i) == 1 || a.stride(i) == expected || a.size() == 0, what);
    expected *= (int64_t)a.shape(i);
  }
}

template <typename T>
T* pointer(const std::optional<Array<T>>& a) {
  return a ? a->data() : nullptr;
}

// Rows of work big enough to be worth waking threads for: `cost` is about one nanosecond per unit.
template <typename Body>
void parallel_rows(int64_t rows, int64_t cost_per_row, const Body& body) {
  if (rows * cost_per_row < (Awake::any() ? 15000 : 60000)) parallel(1, [&](int64_t, int64_t) { body(int64_t{0}, rows); });
  else parallel(rows, body);
}

void bind_held(nb::module_& m);
void bind_products(nb::module_& m);
void bind_rows(nb::module_& m);
void bind_attention(nb::module_& m);
void bind_mixture(nb::module_& m);
void bind_experts(nb::module_& m);
void bind_sampling(nb::module_& m);
void bind_state(nb::module_& m);
void bind_graph(nb::module_& m);
void bind_world(nb::module_& m);

}  // namespace tinsmith
