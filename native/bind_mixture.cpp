// Routes of a mixture's rows over threads: the experts that each takes, their weights, and the backward of both.
#include "bind.hpp"

namespace tinsmith {
namespace {

void require_routes(const In& logits, const InLong& experts, size_t weights) {
  require_dense(logits, "route: logits are contiguous");
  require(logits.ndim() == 2 && experts.ndim() == 2 && logits.shape(0) == experts.shape(0), "route: shapes");
  require(experts.shape(1) >= 1 && experts.shape(1) <= logits.shape(1) && (int64_t)logits.shape(1) <= kMostExperts,
          "route: 1 <= active <= experts <= 1024");
  require(experts.size() == weights, "route: a weight for each chosen expert");
}

void route(const In& logits, bool normalised, const Array<int64_t>& experts, const Out& weights) {
  require_routes(logits, InLong(experts), weights.size());
  const int64_t E = (int64_t)logits.shape(1), active = (int64_t)experts.shape(1);
  parallel_rows((int64_t)logits.shape(0), E * (active + 4) / 2, [&](int64_t b, int64_t e) {
    kernels().route(logits.data(), E, active, normalised, experts.data(), weights.data(), b, e);
  });
}

void route_backward(const In& logits, bool normalised, const InLong& experts, const In& weights, const In& d_weights,
                    const Out& d_logits) {
  require_routes(logits, experts, weights.size());
  const int64_t E = (int64_t)logits.shape(1), active = (int64_t)experts.shape(1);
  require(d_weights.size() == weights.size() && d_logits.size() == logits.size(), "route_backward: shapes");
  for (size_t i = 0; i < experts.size(); i++)
    require(experts.data()[i] >= 0 && experts.data()[i] < E, "route_backward: expert");
  parallel_rows((int64_t)logits.shape(0), E * 4, [&](int64_t b, int64_t e) {
    kernels().route_backward(logits.data(), E, active, normalised, experts.data(), weights.data(), d_weights.data(),
                             d_logits.data(), b, e);
  });
}

void row_entropies(const In& logits, const Out& out) {
  require_dense(logits, "row_entropies: logits are contiguous");
  require(logits.ndim() == 2 && logits.shape(1) >= 1 && (int64_t)logits.shape(1) <= kMostExperts &&
          out.size() == logits.shape(0), "row_entropies: shapes");
  const int64_t E = (int64_t)logits.shape(1);
  parallel_rows((int64_t)logits.shape(0), E * 3, [&](int64_t b, int64_t e) {
    kernels().row_entropies(logits.data(), E, out.data(), b, e);
  });
}

void row_dots(const In& x, const In& y, const Out& out) {
  require_rows(x, "row_dots: rows of x are contiguous");
  require_rows(y, "row_dots: rows of y are contiguous");
  require(x.shape(0) == y.shape(0) && x.shape(1) == y.shape(1) && out.size() == x.shape(0), "row_dots: shapes");
  const int64_t N = (int64_t)x.shape(1);
  parallel_rows((int64_t)x.shape(0), N / 8 + 1, [&](int64_t b, int64_t e) {
    kernels().row_dots(x.data(), x.stride(0), y.data(), y.stride(0), N, out.data(), b, e);
  });
}

}  // namespace

void bind_mixture(nb::module_& m) {
  m.def("route", &route, nb::arg("logits"), nb::arg("normalised"), nb::arg("experts"), nb::arg("weights"), NoGil());
  m.def("route_backward", &route_backward, nb::arg("logits"), nb::arg("normalised"), nb::arg("experts"),
        nb::arg("weights"), nb::arg("d_weights"), nb::arg("d_logits"), NoGil());
  m.def("row_entropies", &row_entropies, nb::arg("logits"), nb::arg("out"), NoGil());
  m.def("row_dots", &row_dots, nb::arg("x"), nb::arg("y"), nb::arg("out"), NoGil());
}

}  // namespace tinsmith
