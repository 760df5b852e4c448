// Mixtures of experts over threads.
//
// An expert's rows are gathered, go through its two products and its adapter's as any other rows do, and come back as
// rows of their own; then every row adds its experts', in ascending order. Experts that no row takes are not read.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bind.hpp"
#include "blocks.hpp"

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

// Matrices of one shape with contiguous rows, one an expert; checked once, and kept alive.
class Matrices {
 public:
  explicit Matrices(std::vector<In> all) : all_(std::move(all)) {
    require(!all_.empty(), "Matrices: at least one");
    for (const In& each : all_) {
      require_dense(each, "Matrices: each is contiguous");
      require(each.ndim() == 2 && each.shape(0) == all_[0].shape(0) && each.shape(1) == all_[0].shape(1),
              "Matrices: all have one shape");
    }
  }
  int64_t count() const { return (int64_t)all_.size(); }
  int64_t in() const { return (int64_t)all_[0].shape(0); }
  int64_t out() const { return (int64_t)all_[0].shape(1); }
  const float* of(int64_t expert) const { return all_[(size_t)expert].data(); }

 private:
  std::vector<In> all_;
};

// A [in, ranks], B of each target and its columns, the scaling, and DoRA's gain by column.
using Low = std::optional<std::tuple<In, std::vector<In>, std::vector<std::pair<int64_t, int64_t>>, float, std::optional<In>>>;

void require_low(const Low& low, int64_t in, int64_t out) {
  if (!low) return;
  const auto& [a, bs, columns, scaling, gain] = *low;
  require_dense(a, "mixture: A is contiguous");
  require(a.ndim() == 2 && (int64_t)a.shape(0) == in && bs.size() == columns.size(), "mixture: A is [in, ranks]");
  int64_t ranks = 0;
  for (size_t i = 0; i < bs.size(); i++) {
    const auto [begin, end] = columns[i];
    require_dense(bs[i], "mixture: B is contiguous");
    require(bs[i].ndim() == 2 && 0 <= begin && begin < end && end <= out && (int64_t)bs[i].shape(1) == end - begin,
            "mixture: B is [rank, columns]");
    ranks += (int64_t)bs[i].shape(0);
  }
  require(ranks == (int64_t)a.shape(1), "mixture: the ranks of all B");
  require(!gain || (int64_t)gain->size() == out, "mixture: a gain for each column");
}

void product(int64_t M, int64_t N, int64_t K, const float* a, int64_t a_rs, const float* b, float* c, int64_t c_rs,
             Onto onto) {
  const KernelTable& t = kernels();
  const Gemm g{M, N, K, a, a_rs, 1, b, N, 1, c, c_rs, onto, nullptr, 0};
  t.gemm(g, 0, M, 0, N, scratch(t.gemm_scratch(K)));
}

// y = x . base with the adapter beside it, `rows` contiguous rows; `xa` holds rows * ranks floats.
void linear(int64_t rows, const float* x, const Matrices& base, int64_t expert, const Low& low, float* y,
            std::vector<float>& xa) {
  const int64_t in = base.in(), out = base.out();
  product(rows, out, in, x, in, base.of(expert), y, out, Onto::Store);
  if (!low) return;
  const auto& [a, bs, columns, scaling, gain] = *low;
  const int64_t ranks = (int64_t)a.shape(1);
  xa.resize((size_t)(rows * ranks));
  product(rows, ranks, in, x, in, a.data(), xa.data(), ranks, Onto::Store);
  for (float& each : xa) each = each * scaling;
  int64_t first = 0;
  for (size_t i = 0; i < bs.size(); i++) {
    const int64_t rank = (int64_t)bs[i].shape(0), width = (int64_t)bs[i].shape(1);
    product(rows, width, rank, xa.data() + first, ranks, bs[i].data(), y + columns[i].first, out, Onto::Add);
    first += rank;
  }
  if (gain) kernels().scale_bias(y, out, out, gain->data(), nullptr, 0, rows);
}

// y[row] = the sum over its experts, ascending, of weight * down(silu(gate) * up); rows are sorted by expert, those of
// expert e are rows[bounds[e]] .. rows[bounds[e + 1]], and where[row * active + i] is the place of its i-th among them.
void mixture(const In& x, const InLong& rows, const InLong& bounds, const InLong& where, const In& weights,
             const Matrices& up, const Matrices& down, const std::vector<Low>& low_up, const std::vector<Low>& low_down,
             const Out& y) {
  require_dense(x, "mixture: x is contiguous");
  require_dense(y, "mixture: y is contiguous");
  const int64_t E = up.count(), H = up.in(), I = down.in(), pairs = (int64_t)rows.size(), count = (int64_t)x.shape(0);
  require(x.ndim() == 2 && (int64_t)x.shape(1) == H && y.size() == x.size(), "mixture: x and y are [rows, H]");
  require(down.count() == E && down.out() == H && up.out() == 2 * I, "mixture: shapes of the experts");
  require((int64_t)bounds.size() == E + 1 && bounds.data()[0] == 0 && bounds.data()[E] == pairs, "mixture: bounds");
  require((int64_t)weights.size() == pairs && (int64_t)where.size() == pairs && count > 0 && pairs % count == 0,
          "mixture: a weight for each pair, and as many experts for each row");
  require((int64_t)low_up.size() == E && (int64_t)low_down.size() == E, "mixture: an adapter or none for each expert");
  std::vector<int64_t> taken;
  for (int64_t e = 0; e < E; e++) {
    require(bounds.data()[e] <= bounds.data()[e + 1], "mixture: bounds ascend");
    if (bounds.data()[e] == bounds.data()[e + 1]) continue;
    taken.push_back(e);
    require_low(low_up[(size_t)e], H, 2 * I);
    require_low(low_down[(size_t)e], I, H);
  }
  for (int64_t i = 0; i < pairs; i++)
    require(rows.data()[i] >= 0 && rows.data()[i] < count && where.data()[i] >= 0 && where.data()[i] < pairs,
            "mixture: rows there are");
  std::vector<float> outs((size_t)(pairs * H));
  in_blocks(0, (int64_t)taken.size(), 1, [&] {
    return [&, own = std::vector<float>(), gate_up = std::vector<float>(), inner = std::vector<float>(),
            xa = std::vector<float>()](int64_t at) mutable {
      const int64_t e = taken[(size_t)at], begin = bounds.data()[e], M = bounds.data()[e + 1] - begin;
      own.resize((size_t)(M * H));
      gate_up.resize((size_t)(M * 2 * I));
      inner.resize((size_t)(M * I));
      for (int64_t m = 0; m < M; m++)
        std::copy_n(x.data() + rows.data()[begin + m] * H, H, own.data() + m * H);
      linear(M, own.data(), up, e, low_up[(size_t)e], gate_up.data(), xa);
      kernels().silu_gate(gate_up.data(), I, inner.data(), 0, M);
      linear(M, inner.data(), down, e, low_down[(size_t)e], outs.data() + begin * H, xa);
    };
  });
  const int64_t active = pairs / count;
  parallel_rows(count, active * H / 4 + 1, [&](int64_t b, int64_t e) {
    for (int64_t r = b; r < e; r++) {
      float* sum = y.data() + r * H;
      for (int64_t h = 0; h < H; h++) sum[h] = 0.0f;
      for (int64_t i = 0; i < active; i++) {
        const int64_t place = where.data()[r * active + i];
        const float weight = weights.data()[place];
        const float* out = outs.data() + place * H;
        for (int64_t h = 0; h < H; h++) sum[h] = sum[h] + out[h] * weight;
      }
    }
  });
}

}  // namespace

void bind_mixture(nb::module_& m) {
  m.def("route", &route, nb::arg("logits"), nb::arg("normalised"), nb::arg("experts"), nb::arg("weights"), NoGil());
  m.def("route_backward", &route_backward, nb::arg("logits"), nb::arg("normalised"), nb::arg("experts"),
        nb::arg("weights"), nb::arg("d_weights"), nb::arg("d_logits"), NoGil());
  m.def("row_entropies", &row_entropies, nb::arg("logits"), nb::arg("out"), NoGil());
  nb::class_<Matrices>(m, "Matrices").def(nb::init<std::vector<In>>(), nb::arg("all"));
  m.def("mixture", &mixture, nb::arg("x"), nb::arg("rows"), nb::arg("bounds"), nb::arg("where"), nb::arg("weights"),
        nb::arg("up"), nb::arg("down"), nb::arg("low_up"), nb::arg("low_down"), nb::arg("y"), NoGil());
  m.def("row_dots", &row_dots, nb::arg("x"), nb::arg("y"), nb::arg("out"), NoGil());
}

}  // namespace tinsmith
