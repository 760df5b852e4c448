// Weights as state: optimizer step, gradient norm, NF4, rotation table.
#include "bind.hpp"
#include "nf4.hpp"
#include "rope.hpp"

namespace tinsmith {
namespace {

void adam(const Out& p, const In& g, const Out& m, const Out& v, double lr, double beta1, double beta2, double eps,
          double weight_decay, double grad_scale, double bias1, double bias2) {
  require_dense(p, "adam: weights are contiguous");
  require_dense(g, "adam: gradient is contiguous");
  require_dense(m, "adam: first moment is contiguous");
  require_dense(v, "adam: second moment is contiguous");
  require(p.size() == g.size() && p.size() == m.size() && p.size() == v.size(), "adam: shapes");
  const Adam a{p.data(), g.data(), m.data(), v.data(), (float)lr, (float)beta1, (float)beta2, (float)eps,
               (float)grad_scale, (float)(1.0 - beta1), (float)(1.0 - beta2), (float)(1.0 - lr * weight_decay),
               (float)bias1, (float)bias2};
  const int64_t n = (int64_t)p.size(), blocks = (n + 1023) / 1024;
  parallel_rows(blocks, 1024, [&](int64_t b, int64_t e) {
    kernels().adam(a, b * 1024, e * 1024 < n ? e * 1024 : n);
  });
}

// Sum of squares in fp64: element i into lane i mod 16, ascending, then halving. x * x is exact in fp64.
double sum_squares(const In& x) {
  require_dense(x, "sum_squares: x is contiguous");
  double lanes[16] = {0};
  const int64_t n = (int64_t)x.size();
  const float* p = x.data();
  parallel(1, [&](int64_t, int64_t) {
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
      for (int j = 0; j < 16; j++) lanes[j] += (double)p[i + j] * (double)p[i + j];
    for (int j = 0; i + j < n; j++) lanes[j] += (double)p[i + j] * (double)p[i + j];
    for (int half = 8; half >= 1; half /= 2)
      for (int j = 0; j < half; j++) lanes[j] += lanes[j + half];
  });
  return lanes[0];
}

void exp(const In& x, const Out& y) {
  require_dense(x, "exp: x is contiguous");
  parallel(1, [&](int64_t, int64_t) { kernels().exp(x.data(), y.data(), (int64_t)x.size()); });
}

void nf4(const Array<const uint8_t>& codes, const In& absmax, int64_t out, int64_t in, const Out& wt) {
  require_dense(wt, "nf4: output is contiguous");
  require((int64_t)codes.size() >= (out * in + 1) / 2 && (int64_t)wt.size() == out * in &&
              (int64_t)absmax.size() >= (out * in + 63) / 64, "nf4: shapes");
  const int64_t blocks = (out + 31) / 32;
  parallel_rows(blocks, in * 32, [&](int64_t b, int64_t e) {
    nf4_dequantise_transposed(codes.data(), absmax.data(), out, in, wt.data(), b * 32, e * 32 < out ? e * 32 : out);
  });
}

void rope(const In& frequencies, const Out& cos, const Out& sin) {
  const int64_t half = (int64_t)frequencies.size(), positions = (int64_t)cos.shape(0);
  require((int64_t)cos.size() == positions * half && (int64_t)sin.size() == positions * half, "rope_table: shapes");
  parallel(1, [&](int64_t, int64_t) { rope_table(frequencies.data(), half, positions, cos.data(), sin.data()); });
}

}  // namespace

void bind_state(nb::module_& m) {
  m.def("adam", &adam, nb::arg("p"), nb::arg("g"), nb::arg("m"), nb::arg("v"), nb::arg("lr"), nb::arg("beta1"),
        nb::arg("beta2"), nb::arg("eps"), nb::arg("weight_decay"), nb::arg("grad_scale"), nb::arg("bias1"),
        nb::arg("bias2"), NoGil());
  m.def("sum_squares", &sum_squares, nb::arg("x"), NoGil());
  m.def("exp", &exp, nb::arg("x"), nb::arg("y"), NoGil());
  m.def("nf4_dequantise_transposed", &nf4, nb::arg("codes"), nb::arg("absmax"), nb::arg("out"), nb::arg("in_"),
        nb::arg("wt"), NoGil());
  m.def("rope_table", &rope, nb::arg("frequencies"), nb::arg("cos"), nb::arg("sin"), NoGil());
}

}  // namespace tinsmith
