// The experts of a mixture over threads, forward and backward.
//
// An expert's rows are gathered, go through its two products and its adapter's as any other rows do, and come back as
// rows of their own; then every row adds its experts', in ascending order. Experts that no row takes are not read, and
// get no gradient.
#include <memory>

#include "blocks.hpp"
#include "experts.hpp"

namespace tinsmith {
namespace {

// What backward needs, a row for each pair: gate_up, inner, out, the adapter's xa of both products, and of DoRA, where
// its magnitudes are trained, the directions of both.
using Kept = std::tuple<Out, Out, Out, Out, Out, std::optional<Out>, std::optional<Out>>;

// Pairs of a row and an expert that it takes, sorted by expert: those of expert e are bounds[e] .. bounds[e + 1], and
// places[p] = row * active + the expert's rank in the row.
struct Pairs {
  int64_t total, count, active;  // pairs, rows, experts a row
  const int64_t* bounds;
  const int64_t* places;
  std::vector<int64_t> taken, where;  // experts with rows; the pair of each place

  Pairs(const InLong& at, const InLong& by_expert, int64_t experts, int64_t rows)
      : total((int64_t)at.size()), count(rows), active(rows ? total / rows : 0), bounds(by_expert.data()),
        places(at.data()), where((size_t)total, -1) {
    require((int64_t)by_expert.size() == experts + 1 && bounds[0] == 0 && bounds[experts] == total, "mixture: bounds");
    require(count > 0 && active > 0 && active * count == total, "mixture: as many experts for each row");
    for (int64_t e = 0; e < experts; e++) {
      require(bounds[e] <= bounds[e + 1], "mixture: bounds ascend");
      if (bounds[e] < bounds[e + 1]) taken.push_back(e);
    }
    for (int64_t p = 0; p < total; p++) {
      require(places[p] >= 0 && places[p] < total && where[(size_t)places[p]] < 0, "mixture: each place once");
      where[(size_t)places[p]] = p;
    }
  }
  int64_t row(int64_t pair) const { return places[pair] / active; }
  int64_t rows_of(int64_t expert) const { return bounds[expert + 1] - bounds[expert]; }
  // Copies the rows of an expert's pairs, each `width` wide.
  void gather(int64_t expert, const float* x, int64_t width, std::vector<float>& own) const {
    own.resize((size_t)(rows_of(expert) * width));
    for (int64_t p = bounds[expert], m = 0; p < bounds[expert + 1]; p++, m++)
      std::copy_n(x + row(p) * width, width, own.data() + m * width);
  }
  // y[row] = the sum over its experts, ascending, of its pairs' rows, each times its weight where weights are given.
  void add_up(const float* outs, const float* weights, int64_t width, float* y) const {
    parallel_rows(count, active * width / 4 + 1, [&](int64_t b, int64_t e) {
      for (int64_t r = b; r < e; r++) {
        float* sum = y + r * width;
        for (int64_t h = 0; h < width; h++) sum[h] = 0.0f;
        for (int64_t place = r * active; place < (r + 1) * active; place++) {
          const float* out = outs + where[(size_t)place] * width;
          if (weights) {
            const float weight = weights[place];
            for (int64_t h = 0; h < width; h++) sum[h] = sum[h] + out[h] * weight;
          } else {
            for (int64_t h = 0; h < width; h++) sum[h] = sum[h] + out[h];
          }
        }
      }
    });
  }
};

void require_experts(const In& x, const Matrices& up, const Matrices& down, const In& weights, const Pairs& pairs,
                     const std::vector<Low>& low_up, const std::vector<Low>& low_down) {
  require_dense(x, "mixture: x is contiguous");
  require_dense(weights, "mixture: weights are contiguous");
  const int64_t E = up.count(), H = up.in(), I = down.in();
  require(x.ndim() == 2 && (int64_t)x.shape(1) == H, "mixture: x is [rows, H]");
  require(down.count() == E && down.out() == H && up.out() == 2 * I, "mixture: shapes of the experts");
  require((int64_t)weights.size() == pairs.total, "mixture: a weight for each pair");
  require((int64_t)low_up.size() == E && (int64_t)low_down.size() == E, "mixture: an adapter or none for each expert");
  for (const int64_t e : pairs.taken) {
    require_low(low_up[(size_t)e], H, 2 * I);
    require_low(low_down[(size_t)e], I, H);
  }
}

void require_kept(const Kept& kept, const Pairs& pairs, int64_t H, int64_t I, const std::vector<Low>& low_up,
                  const std::vector<Low>& low_down) {
  const auto& [gate_up, inner, out, xa_up, xa_down, direction_up, direction_down] = kept;
  const auto shaped = [&](const Out& each, int64_t width) {
    require_dense(each, "mixture: what is kept is contiguous");
    require(each.ndim() == 2 && (int64_t)each.shape(0) == pairs.total && (int64_t)each.shape(1) == width,
            "mixture: what is kept has a row for each pair");
  };
  shaped(gate_up, 2 * I);
  shaped(inner, I);
  shaped(out, H);
  if (direction_up) shaped(*direction_up, 2 * I);
  if (direction_down) shaped(*direction_down, H);
  for (const int64_t e : pairs.taken) {
    if (low_up[(size_t)e]) shaped(xa_up, ranks_of(low_up[(size_t)e]));
    if (low_down[(size_t)e]) shaped(xa_down, ranks_of(low_down[(size_t)e]));
  }
}

float* row_of(const Out& kept, int64_t row) { return kept.data() + row * (int64_t)kept.shape(1); }
float* row_of(const std::optional<Out>& kept, int64_t row) { return kept ? row_of(*kept, row) : nullptr; }

// y[row] = the sum over its experts, ascending, of weight * down(silu(gate) * up).
void mixture(const In& x, const InLong& places, const InLong& bounds, const In& weights, const Matrices& up,
             const Matrices& down, const std::vector<Low>& low_up, const std::vector<Low>& low_down, const Out& y,
             const std::optional<Kept>& kept) {
  const int64_t H = up.in(), I = down.in();
  const Pairs pairs(places, bounds, up.count(), (int64_t)x.shape(0));
  require_experts(x, up, down, weights, pairs, low_up, low_down);
  require_dense(y, "mixture: y is contiguous");
  require(y.size() == x.size(), "mixture: y is [rows, H]");
  if (kept) require_kept(*kept, pairs, H, I, low_up, low_down);
  const auto outs = std::unique_ptr<float[]>(kept ? nullptr : new float[(size_t)(pairs.total * H)]);
  float* const all = kept ? std::get<2>(*kept).data() : outs.get();
  in_blocks(0, (int64_t)pairs.taken.size(), 1, [&] {
    return [&, own = std::vector<float>(), gate_up = std::vector<float>(), inner = std::vector<float>(),
            xa = std::vector<float>()](int64_t at) mutable {
      const int64_t e = pairs.taken[(size_t)at], begin = pairs.bounds[e], M = pairs.rows_of(e);
      const Low& on_up = low_up[(size_t)e];
      const Low& on_down = low_down[(size_t)e];
      pairs.gather(e, x.data(), H, own);
      if (!kept) {
        gate_up.resize((size_t)(M * 2 * I));
        inner.resize((size_t)(M * I));
        xa.resize((size_t)(M * std::max(ranks_of(on_up), ranks_of(on_down))));
      }
      float* const both = kept ? row_of(std::get<0>(*kept), begin) : gate_up.data();
      float* const gated = kept ? row_of(std::get<1>(*kept), begin) : inner.data();
      forward_linear(M, own.data(), up.of(e), on_up, both,
                     kept ? row_of(std::get<3>(*kept), begin) : xa.data(),
                     kept ? row_of(std::get<5>(*kept), begin) : nullptr);
      kernels().silu_gate(both, I, gated, 0, M);
      forward_linear(M, gated, down.of(e), on_down, all + begin * H,
                     kept ? row_of(std::get<4>(*kept), begin) : xa.data(),
                     kept ? row_of(std::get<6>(*kept), begin) : nullptr);
    };
  });
  pairs.add_up(all, weights.data(), H, y.data());
}

// The gradients of x and of each row's weights; those of trained weights are added where they are kept, a chain for each
// segment of the rows.
void mixture_backward(const In& dy, const In& x, const InLong& places, const InLong& bounds, const In& weights,
                      const InLong& segments, const Matrices& up, const Matrices& down, const std::vector<Low>& low_up,
                      const std::vector<Low>& low_down, const std::vector<Grads>& grads_up,
                      const std::vector<Grads>& grads_down, const Kept& kept, const Out& dx, const Out& d_weights) {
  const int64_t E = up.count(), H = up.in(), I = down.in();
  const Pairs pairs(places, bounds, E, (int64_t)x.shape(0));
  require_experts(x, up, down, weights, pairs, low_up, low_down);
  require_dense(dy, "mixture_backward: dy is contiguous");
  require_dense(dx, "mixture_backward: dx is contiguous");
  require_dense(d_weights, "mixture_backward: d_weights is contiguous");
  require_dense(segments, "mixture_backward: segments are contiguous");
  require(dy.size() == x.size() && dx.size() == x.size() && d_weights.size() == weights.size() && segments.size() > 0,
          "mixture_backward: shapes");
  require((int64_t)grads_up.size() == E && (int64_t)grads_down.size() == E, "mixture_backward: gradients of each expert");
  require_kept(kept, pairs, H, I, low_up, low_down);
  for (const int64_t e : pairs.taken) {
    require_grads(grads_up[(size_t)e], low_up[(size_t)e], H, 2 * I);
    require_grads(grads_down[(size_t)e], low_down[(size_t)e], I, H);
  }
  const auto& [gate_up, inner, out, xa_up, xa_down, direction_up, direction_down] = kept;
  const int64_t count = (int64_t)segments.size() - 1;
  const auto d_own = std::unique_ptr<float[]>(new float[(size_t)(pairs.total * H)]);
  in_blocks(0, (int64_t)pairs.taken.size(), 1, [&, &gate_up = gate_up, &inner = inner, &out = out, &xa_up = xa_up,
                                                &xa_down = xa_down, &direction_up = direction_up,
                                                &direction_down = direction_down] {
    return [&, own = std::vector<float>(), d_out = std::vector<float>(), d_inner = std::vector<float>(),
            d_both = std::vector<float>(), dots = std::vector<float>(), cuts = std::vector<int64_t>(),
            spare = BackwardScratch()](int64_t at) mutable {
      const int64_t e = pairs.taken[(size_t)at], begin = pairs.bounds[e], M = pairs.rows_of(e);
      cuts.clear();
      for (int64_t s = 0, m = 0; s <= count; s++) {
        while (m < M && pairs.row(begin + m) < segments.data()[s]) m++;
        cuts.push_back(m);
      }
      pairs.gather(e, dy.data(), H, d_out);
      dots.resize((size_t)M);
      kernels().row_dots(d_out.data(), H, row_of(out, begin), H, H, dots.data(), 0, M);
      for (int64_t m = 0; m < M; m++) {
        const int64_t place = pairs.places[begin + m];
        const float weight = weights.data()[place];
        d_weights.data()[place] = dots[(size_t)m];
        for (int64_t h = 0; h < H; h++) d_out[(size_t)(m * H + h)] = d_out[(size_t)(m * H + h)] * weight;
      }
      d_inner.resize((size_t)(M * I));
      backward_linear(M, row_of(inner, begin), d_out.data(), down.of(e), low_down[(size_t)e],
                      grads_down[(size_t)e], row_of(xa_down, begin), row_of(direction_down, begin), cuts.data(), count,
                      d_inner.data(), spare);
      d_both.resize((size_t)(M * 2 * I));
      kernels().silu_gate_backward(row_of(gate_up, begin), d_inner.data(), I, d_both.data(), 0, M);
      pairs.gather(e, x.data(), H, own);
      backward_linear(M, own.data(), d_both.data(), up.of(e), low_up[(size_t)e], grads_up[(size_t)e],
                      row_of(xa_up, begin), row_of(direction_up, begin), cuts.data(), count, d_own.get() + begin * H,
                      spare);
    };
  });
  pairs.add_up(d_own.get(), nullptr, H, dx.data());
}

}  // namespace

void bind_experts(nb::module_& m) {
  nb::class_<Matrices>(m, "Matrices")
      .def(nb::init<std::vector<In>>(), nb::arg("all"))
      .def(nb::init<std::vector<std::vector<Packed>>>(), nb::arg("packed"));
  m.def("mixture", &mixture, nb::arg("x"), nb::arg("places"), nb::arg("bounds"), nb::arg("weights"), nb::arg("up"),
        nb::arg("down"), nb::arg("low_up"), nb::arg("low_down"), nb::arg("y"), nb::arg("kept").none() = nb::none(),
        NoGil());
  m.def("mixture_backward", &mixture_backward, nb::arg("dy"), nb::arg("x"), nb::arg("places"), nb::arg("bounds"),
        nb::arg("weights"), nb::arg("segments"), nb::arg("up"), nb::arg("down"), nb::arg("low_up"), nb::arg("low_down"),
        nb::arg("grads_up"), nb::arg("grads_down"), nb::arg("kept"), nb::arg("dx"), nb::arg("d_weights"), NoGil());
}

}  // namespace tinsmith
