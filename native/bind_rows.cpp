// Row-wise kernels over threads.
#include "bind.hpp"

namespace tinsmith {
namespace {

void add_rms_norm(const In& x, const std::optional<In>& delta, const In& gain, float eps,
                  const std::optional<Out>& sum, const Out& y, const Out& inv_rms) {
  require_dense(x, "add_rms_norm: x is contiguous");
  const int64_t H = (int64_t)gain.size(), rows = (int64_t)x.size() / H;
  require(bool(delta) == bool(sum) && y.size() == x.size() && (int64_t)inv_rms.size() == rows, "add_rms_norm: shapes");
  if (delta) require_dense(*delta, "add_rms_norm: delta is contiguous");
  parallel_rows(rows, H / 4 + 1, [&](int64_t b, int64_t e) {
    kernels().add_rms_norm(x.data(), pointer(delta), gain.data(), eps, H, pointer(sum), y.data(), inv_rms.data(), b, e);
  });
}

void rms_norm_backward(const In& x, const In& gain, const In& inv_rms, const std::optional<In>& d_sum, const In& dy,
                       const Out& dx, const std::optional<Out>& xhat) {
  require_dense(x, "rms_norm_backward: x is contiguous");
  require_dense(dy, "rms_norm_backward: dy is contiguous");
  if (d_sum) require_dense(*d_sum, "rms_norm_backward: d_sum is contiguous");
  const int64_t H = (int64_t)gain.size(), rows = (int64_t)x.size() / H;
  require(dy.size() == x.size() && dx.size() == x.size() && (int64_t)inv_rms.size() == rows, "rms_norm_backward: shapes");
  require(!xhat || xhat->size() == x.size(), "rms_norm_backward: xhat has the shape of x");
  parallel_rows(rows, H / 3 + 1, [&](int64_t b, int64_t e) {
    kernels().rms_norm_backward(x.data(), gain.data(), inv_rms.data(), pointer(d_sum), dy.data(), H, dx.data(),
                                pointer(xhat), b, e);
  });
}

void require_rotation(int64_t rows, int64_t width, int64_t d, int64_t heads, const InLong& positions, const In& cos) {
  require(d * heads == width && d % 2 == 0 && d <= 1024, "rotate: width is heads * d, d even <= 1024");
  require((int64_t)positions.size() == rows && cos.shape(1) * 2 == (size_t)d, "rotate: shapes");
  for (int64_t r = 0; r < rows; r++)
    require(positions.data()[r] >= 0 && positions.data()[r] < (int64_t)cos.shape(0), "rotate: position in the table");
}

void rotate(const In& x, const Out& y, const InLong& positions, const In& cos, const In& sin, int64_t heads,
            int64_t kv_heads, const std::optional<In>& q_gain, const std::optional<In>& k_gain, float eps) {
  require_rows(x, "rotate: rows of x are contiguous");
  require_rows(y, "rotate: rows of y are contiguous");
  const int64_t rows = (int64_t)x.shape(0), width = (int64_t)x.shape(1), d = width / (heads + 2 * kv_heads);
  require_rotation(rows, width, d, heads + 2 * kv_heads, positions, cos);
  parallel_rows(rows, width / 2 + 1, [&](int64_t b, int64_t e) {
    kernels().rotate(x.data(), x.stride(0), y.data(), y.stride(0), positions.data(), cos.data(), sin.data(), heads,
                     kv_heads, d, pointer(q_gain), pointer(k_gain), eps, b, e);
  });
}

void rotate_backward(const In& x, const In& dy, const Out& dx, const InLong& positions, const In& cos, const In& sin,
                     int64_t heads, int64_t kv_heads, const std::optional<In>& q_gain, const std::optional<In>& k_gain,
                     float eps, const std::optional<Out>& dgain_q, const std::optional<Out>& dgain_k) {
  require_rows(x, "rotate_backward: rows of x are contiguous");
  require_rows(dy, "rotate_backward: rows of dy are contiguous");
  require_rows(dx, "rotate_backward: rows of dx are contiguous");
  const int64_t rows = (int64_t)dy.shape(0), width = (int64_t)dy.shape(1), d = width / (heads + 2 * kv_heads);
  require_rotation(rows, width, d, heads + 2 * kv_heads, positions, cos);
  require(x.shape(0) == dy.shape(0) && x.shape(1) == dy.shape(1) && dx.shape(1) == dy.shape(1),
          "rotate_backward: x, dy and dx have one shape");
  require(!dgain_q || (int64_t)dgain_q->size() == rows * heads * d, "rotate_backward: rows of the gains' gradients");
  require(!dgain_k || (int64_t)dgain_k->size() == rows * kv_heads * d, "rotate_backward: rows of the gains' gradients");
  parallel_rows(rows, width / 2 + 1, [&](int64_t b, int64_t e) {
    kernels().rotate_backward(x.data(), x.stride(0), dy.data(), dy.stride(0), dx.data(), dx.stride(0), positions.data(),
                              cos.data(), sin.data(), heads, kv_heads, d, pointer(q_gain), pointer(k_gain), eps,
                              pointer(dgain_q), pointer(dgain_k), b, e);
  });
}

void silu_gate(const In& gate_up, const Out& y) {
  require_dense(gate_up, "silu_gate: gate_up is contiguous");
  const int64_t rows = (int64_t)gate_up.shape(0), I = (int64_t)gate_up.shape(1) / 2;
  require((int64_t)y.size() == rows * I, "silu_gate: shapes");
  parallel_rows(rows, I + 1, [&](int64_t b, int64_t e) { kernels().silu_gate(gate_up.data(), I, y.data(), b, e); });
}

void silu_gate_backward(const In& gate_up, const In& dy, const Out& d_gate_up) {
  require_dense(gate_up, "silu_gate_backward: gate_up is contiguous");
  require_dense(dy, "silu_gate_backward: dy is contiguous");
  const int64_t rows = (int64_t)gate_up.shape(0), I = (int64_t)gate_up.shape(1) / 2;
  require((int64_t)dy.size() == rows * I && d_gate_up.size() == gate_up.size(), "silu_gate_backward: shapes");
  parallel_rows(rows, 2 * I + 1, [&](int64_t b, int64_t e) {
    kernels().silu_gate_backward(gate_up.data(), dy.data(), I, d_gate_up.data(), b, e);
  });
}

void row_stats(const In& logits, float temperature, const Out& row_max, const Out& log_sum) {
  require_dense(logits, "row_stats: logits are contiguous");
  const int64_t rows = (int64_t)logits.shape(0), V = (int64_t)logits.shape(1);
  require((int64_t)row_max.size() == rows && (int64_t)log_sum.size() == rows, "row_stats: shapes");
  parallel_rows(rows, V, [&](int64_t b, int64_t e) {
    kernels().row_stats(logits.data(), V, temperature, row_max.data(), log_sum.data(), b, e);
  });
}

// out[i]: the log-probability of targets[i] in row rows[i] of logits.
void gather_logprobs(const In& logits, const InLong& rows, const InInt& targets, float temperature, const In& row_max,
                     const In& log_sum, const Out& out) {
  const int64_t count = (int64_t)rows.size(), V = (int64_t)logits.shape(1);
  require_dense(logits, "gather_logprobs: logits are contiguous");
  require((int64_t)targets.size() == count && (int64_t)out.size() == count, "gather_logprobs: shapes");
  for (int64_t i = 0; i < count; i++)
    require(rows.data()[i] >= 0 && rows.data()[i] < (int64_t)logits.shape(0) && targets.data()[i] >= 0 &&
                targets.data()[i] < V, "gather_logprobs: rows and targets in range");
  parallel(1, [&](int64_t, int64_t) {
    for (int64_t i = 0; i < count; i++) {
      const int64_t r = rows.data()[i];
      out.data()[i] = (logits.data()[r * V + targets.data()[i]] / temperature - row_max.data()[r]) - log_sum.data()[r];
    }
  });
}

void logprob_backward(const In& logits, const InLong& reads, const InInt& targets, const In& g, const In& row_max,
                      const In& log_sum, const Out& d_logits) {
  require_dense(logits, "logprob_backward: logits are contiguous");
  require_dense(d_logits, "logprob_backward: d_logits is contiguous");
  const int64_t rows = (int64_t)logits.shape(0), V = (int64_t)logits.shape(1), count = (int64_t)targets.size();
  require((int64_t)reads.size() == rows + 1 && (int64_t)g.size() == count && (int64_t)d_logits.size() == rows * V &&
              (int64_t)row_max.size() == rows && (int64_t)log_sum.size() == rows, "logprob_backward: shapes");
  require(reads.data()[0] == 0 && reads.data()[rows] == count, "logprob_backward: reads cover all targets");
  for (int64_t r = 0; r < rows; r++)
    require(reads.data()[r] < reads.data()[r + 1], "logprob_backward: every row is read");
  for (int64_t i = 0; i < count; i++)
    require(targets.data()[i] >= 0 && targets.data()[i] < V, "logprob_backward: target in the vocabulary");
  parallel_rows(rows, V, [&](int64_t b, int64_t e) {
    kernels().logprob_backward(logits.data(), V, reads.data(), targets.data(), g.data(), row_max.data(), log_sum.data(),
                               d_logits.data(), b, e);
  });
}

void scale_bias(const Out& y, const std::optional<In>& scale, const std::optional<In>& bias) {
  require_rows(y, "scale_bias: rows of y are contiguous");
  const int64_t N = (int64_t)y.shape(1);
  if (scale) require((int64_t)scale->size() == N, "scale_bias: one scale per column");
  if (bias) require((int64_t)bias->size() == N, "scale_bias: one bias per column");
  parallel_rows((int64_t)y.shape(0), N / 8 + 1, [&](int64_t b, int64_t e) {
    kernels().scale_bias(y.data(), y.stride(0), N, pointer(scale), pointer(bias), b, e);
  });
}

}  // namespace

void bind_rows(nb::module_& m) {
  m.def("add_rms_norm", recordable(&add_rms_norm), nb::arg("x"), nb::arg("delta").none(), nb::arg("gain"), nb::arg("eps"),
        nb::arg("sum").none(), nb::arg("y"), nb::arg("inv_rms"), NoGil());
  m.def("rms_norm_backward", &rms_norm_backward, nb::arg("x"), nb::arg("gain"), nb::arg("inv_rms"),
        nb::arg("d_sum").none(), nb::arg("dy"), nb::arg("dx"), nb::arg("xhat").none(), NoGil());
  m.def("rotate", recordable(&rotate), nb::arg("x"), nb::arg("y"), nb::arg("positions"), nb::arg("cos"), nb::arg("sin"),
        nb::arg("heads"), nb::arg("kv_heads"), nb::arg("q_gain").none(), nb::arg("k_gain").none(), nb::arg("eps"),
        NoGil());
  m.def("rotate_backward", &rotate_backward, nb::arg("x"), nb::arg("dy"), nb::arg("dx"), nb::arg("positions"),
        nb::arg("cos"), nb::arg("sin"), nb::arg("heads"), nb::arg("kv_heads"), nb::arg("q_gain").none(),
        nb::arg("k_gain").none(), nb::arg("eps"), nb::arg("dgain_q").none(), nb::arg("dgain_k").none(), NoGil());
  m.def("silu_gate", recordable(&silu_gate), nb::arg("gate_up"), nb::arg("y"), NoGil());
  m.def("silu_gate_backward", &silu_gate_backward, nb::arg("gate_up"), nb::arg("dy"), nb::arg("d_gate_up"), NoGil());
  m.def("row_stats", &row_stats, nb::arg("logits"), nb::arg("temperature"), nb::arg("row_max"), nb::arg("log_sum"),
        NoGil());
  m.def("gather_logprobs", &gather_logprobs, nb::arg("logits"), nb::arg("rows"), nb::arg("targets"),
        nb::arg("temperature"), nb::arg("row_max"), nb::arg("log_sum"), nb::arg("out"), NoGil());
  m.def("logprob_backward", &logprob_backward, nb::arg("logits"), nb::arg("reads"), nb::arg("targets"), nb::arg("g"),
        nb::arg("row_max"), nb::arg("log_sum"), nb::arg("d_logits"), NoGil());
  m.def("scale_bias", recordable(&scale_bias), nb::arg("y"), nb::arg("scale").none(), nb::arg("bias").none(), NoGil());
}

}  // namespace tinsmith
