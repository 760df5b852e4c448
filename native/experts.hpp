// A mixture's experts and an adapter's parts on them as they come over DLPack, checked, and one expert's linear step.
//
// The step is that of a dense layer: the base's product, the adapter's second product added to it, and DoRA's gain.
#pragma once
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "bind.hpp"
#include "packing.hpp"

namespace tinsmith {

// The base of one linear step: floats [in, out], or packed matrices side by side.
struct Base {
  int64_t in, out;
  const float* floats = nullptr;
  std::vector<Held> held{};
};

// Bases of one shape, one an expert; checked once, and kept alive.
class Matrices {
 public:
  explicit Matrices(std::vector<In> all) : all_(std::move(all)) {
    require(!all_.empty(), "Matrices: at least one");
    for (const In& each : all_) {
      require_dense(each, "Matrices: each is contiguous");
      require(each.ndim() == 2, "Matrices: each has two dimensions");
      bases_.push_back({(int64_t)each.shape(0), (int64_t)each.shape(1), each.data()});
    }
    require_one_shape();
  }
  explicit Matrices(std::vector<std::vector<Packed>> all) : packed_(std::move(all)) {
    require(!packed_.empty(), "Matrices: at least one");
    for (const std::vector<Packed>& each : packed_) {
      require(!each.empty(), "Matrices: at least one for each expert");
      Base base{each[0].held().K, 0};
      for (const Packed& part : each) {
        require(part.held().K == base.in, "Matrices: an expert's read the same rows");
        base.out += part.held().N;
        base.held.push_back(part.held());
      }
      bases_.push_back(base);
    }
    require_one_shape();
  }
  int64_t count() const { return (int64_t)bases_.size(); }
  int64_t in() const { return bases_[0].in; }
  int64_t out() const { return bases_[0].out; }
  const Base& of(int64_t expert) const { return bases_[(size_t)expert]; }

 private:
  void require_one_shape() const {
    for (const Base& each : bases_) require(each.in == in() && each.out == out(), "Matrices: all have one shape");
  }
  std::vector<In> all_;
  std::vector<std::vector<Packed>> packed_;
  std::vector<Base> bases_;
};

// A [in, ranks], B of each target and its columns, the scaling, and of DoRA the gain and the norm by column.
using Low = std::optional<std::tuple<In, std::vector<In>, std::vector<std::pair<int64_t, int64_t>>, float,
                                     std::optional<In>, std::optional<In>>>;

// Where gradients are added: those of the base (true: to zeros, whatever stands there), of A, of each B, of DoRA's
// magnitudes; none of what is frozen.
using Grads =
    std::tuple<std::optional<Out>, bool, std::optional<Out>, std::vector<std::optional<Out>>, std::optional<Out>>;

inline void require_low(const Low& low, int64_t in, int64_t out) {
  if (!low) return;
  const auto& [a, bs, columns, scaling, gain, norm] = *low;
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
  require(!norm || (int64_t)norm->size() == out, "mixture: a norm for each column");
}

inline void require_grads(const Grads& grads, const Low& low, int64_t in, int64_t out) {
  const auto& [base, is_first, a, bs, magnitude] = grads;
  const auto dense = [](const std::optional<Out>& grad, int64_t size) {
    if (!grad) return;
    require_dense(*grad, "mixture_backward: gradients are contiguous");
    require((int64_t)grad->size() == size, "mixture_backward: a gradient is as large as its weight");
  };
  dense(base, in * out);
  dense(magnitude, out);
  require(bs.size() == (low ? std::get<1>(*low).size() : 0), "mixture_backward: a gradient or none for each B");
  if (!low) return;
  dense(a, (int64_t)std::get<0>(*low).size());
  for (size_t i = 0; i < bs.size(); i++) dense(bs[i], (int64_t)std::get<1>(*low)[i].size());
}

inline void multiply(const Gemm& g) {
  const KernelTable& t = kernels();
  t.gemm(g, 0, g.M, 0, g.N, scratch(t.gemm_scratch(g)));
}

// y = x . base
inline void multiply_base(int64_t rows, const float* x, const Base& base, float* y) {
  const int64_t in = base.in, out = base.out;
  if (base.floats) return multiply({rows, out, in, x, in, 1, base.floats, out, 1, y, out, Onto::Store, nullptr, 0});
  for (const Held& held : base.held) {
    Gemm g{rows, held.N, in, x, in, 1, nullptr, 0, 1, y, out, Onto::Store, nullptr, 0};
    g.held = &held;
    multiply(g);
    y += held.N;
  }
}

// dx = dy . the transposed base
inline void multiply_base_turned(int64_t rows, const float* dy, const Base& base, float* dx) {
  Gemm g{rows, base.in, base.out, dy, base.out, 1, base.floats, 1, base.out, dx, base.in, Onto::Store, nullptr, 0};
  g.held = base.held.empty() ? nullptr : base.held.data();
  g.num_held = (int64_t)base.held.size();
  multiply(g);
}

inline int64_t ranks_of(const Low& low) { return low ? (int64_t)std::get<0>(*low).shape(1) : 0; }

// y = x . base with the adapter beside it, `rows` contiguous rows; `xa` is where [rows, ranks] go, and `direction`, if
// given, what DoRA's magnitudes are the factors of.
inline void forward_linear(int64_t rows, const float* x, const Base& base, const Low& low, float* y, float* xa,
                           float* direction) {
  const int64_t in = base.in, out = base.out;
  multiply_base(rows, x, base, y);
  if (!low) return;
  const auto& [a, bs, columns, scaling, gain, norm] = *low;
  const int64_t ranks = ranks_of(low);
  multiply({rows, ranks, in, x, in, 1, a.data(), ranks, 1, xa, ranks, Onto::Store, nullptr, 0});
  for (int64_t i = 0; i < rows * ranks; i++) xa[i] = xa[i] * scaling;
  int64_t first = 0;
  for (size_t i = 0; i < bs.size(); i++) {
    const int64_t rank = (int64_t)bs[i].shape(0), width = (int64_t)bs[i].shape(1);
    multiply({rows, width, rank, xa + first, ranks, 1, bs[i].data(), width, 1, y + columns[i].first, out, Onto::Add,
              nullptr, 0});
    first += rank;
  }
  if (direction && norm)
    for (int64_t m = 0; m < rows; m++)
      for (int64_t n = 0; n < out; n++)
        direction[m * out + n] = norm->data()[n] > 0.0f ? y[m * out + n] / norm->data()[n] : 0.0f;
  if (gain) kernels().scale_bias(y, out, out, gain->data(), nullptr, 0, rows);
}

// What one thread needs for the backward of a linear step.
struct BackwardScratch {
  std::vector<float> scaled, dxa;
};

// dx, and the gradients of all that is trained, a chain for each of `count` segments of the rows; see forward_linear.
inline void backward_linear(int64_t rows, const float* x, const float* dy, const Base& base, const Low& low,
                            const Grads& grads, const float* xa, const float* direction, const int64_t* segments,
                            int64_t count, float* dx, BackwardScratch& own) {
  const int64_t in = base.in, out = base.out;
  const auto& [d_base, is_first, d_a, d_bs, d_magnitude] = grads;
  if (low && std::get<4>(*low)) {
    if (d_magnitude && direction)
      kernels().column_chain(dy, direction, out, out, segments, count, d_magnitude->data(), 0, out);
    own.scaled.assign(dy, dy + rows * out);
    kernels().scale_bias(own.scaled.data(), out, out, std::get<4>(*low)->data(), nullptr, 0, rows);
    dy = own.scaled.data();
  }
  if (d_base)
    multiply({in, out, rows, x, 1, in, dy, out, 1, d_base->data(), out, is_first ? Onto::Zero : Onto::Add, segments,
              count});
  multiply_base_turned(rows, dy, base, dx);
  if (!low) return;
  const auto& [a, bs, columns, scaling, gain, norm] = *low;
  const int64_t ranks = ranks_of(low);
  own.dxa.resize((size_t)(rows * ranks));
  float* dxa = own.dxa.data();
  int64_t first = 0;
  for (size_t i = 0; i < bs.size(); i++) {
    const int64_t rank = (int64_t)bs[i].shape(0), width = (int64_t)bs[i].shape(1);
    const float* part = dy + columns[i].first;
    if (d_bs[i])
      multiply({rank, width, rows, xa + first, 1, ranks, part, out, 1, d_bs[i]->data(), width, Onto::Add, segments,
                count});
    multiply({rows, rank, width, part, out, 1, bs[i].data(), 1, width, dxa + first, ranks, Onto::Store, nullptr, 0});
    first += rank;
  }
  for (int64_t i = 0; i < rows * ranks; i++) dxa[i] = dxa[i] * scaling;
  if (d_a) multiply({in, ranks, rows, x, 1, in, dxa, ranks, 1, d_a->data(), ranks, Onto::Add, segments, count});
  multiply({rows, in, ranks, dxa, ranks, 1, a.data(), 1, ranks, dx, in, Onto::Add, nullptr, 0});
}

}  // namespace tinsmith
