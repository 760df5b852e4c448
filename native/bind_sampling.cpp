// Sampling from rows of logits, rows over threads.
#include "bind.hpp"
#include "choose.hpp"

namespace tinsmith {
namespace {

// Row r of `logits` is row rows[r]; its draw is (seeds, samples, positions, temperatures, top_ks, top_ps)[r].
void choose_rows(const In& logits, const InLong& rows, const Array<const uint64_t>& seeds, const InLong& samples,
                 const InLong& positions, const In& temperatures, const InLong& top_ks,
                 const Array<const double>& top_ps, const Array<int32_t>& tokens, const Out& logprobs) {
  require_dense(logits, "choose: logits are contiguous");
  const int64_t count = (int64_t)rows.size(), V = (int64_t)logits.shape(1);
  require((int64_t)seeds.size() == count && (int64_t)samples.size() == count && (int64_t)positions.size() == count &&
              (int64_t)temperatures.size() == count && (int64_t)top_ks.size() == count &&
              (int64_t)top_ps.size() == count && (int64_t)tokens.size() == count && (int64_t)logprobs.size() == count,
          "choose: one entry per row");
  for (int64_t i = 0; i < count; i++)
    require(rows.data()[i] >= 0 && rows.data()[i] < (int64_t)logits.shape(0), "choose: row in range");
  const KernelTable& t = kernels();
  parallel_rows(count, 3 * V, [&](int64_t b, int64_t e) {
    float* work = scratch(2 * V);
    for (int64_t i = b; i < e; i++) {
      const float* row = logits.data() + rows.data()[i] * V;
      const float temperature = temperatures.data()[i] == 0.0f ? 1.0f : temperatures.data()[i];
      float row_max, log_sum;
      t.row_stats(row, V, temperature, &row_max, &log_sum, 0, 1);
      if (!(log_sum == log_sum)) {  // a NaN or an infinity among the logits: no distribution to draw from
        tokens.data()[i] = -1;
        logprobs.data()[i] = log_sum;
        continue;
      }
      const Draw draw{seeds.data()[i], (uint64_t)samples.data()[i], (uint64_t)positions.data()[i],
                      temperatures.data()[i], top_ks.data()[i], top_ps.data()[i]};
      const int64_t v = choose(t, row, V, row_max, log_sum, draw, work);
      tokens.data()[i] = (int32_t)v;
      logprobs.data()[i] = (row[v] / temperature - row_max) - log_sum;
    }
  });
}

void top_logprobs(const In& logits, const InLong& rows, const In& temperatures, int64_t k, const Array<int32_t>& tokens,
                  const Out& logprobs) {
  require_dense(logits, "top_logprobs: logits are contiguous");
  const int64_t count = (int64_t)rows.size(), V = (int64_t)logits.shape(1);
  require(k >= 0 && k <= V && (int64_t)tokens.size() == count * k && (int64_t)logprobs.size() == count * k,
          "top_logprobs: k of each row");
  const KernelTable& t = kernels();
  parallel_rows(count, 4 * V, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) {
      const float* row = logits.data() + rows.data()[i] * V;
      const float temperature = temperatures.data()[i] == 0.0f ? 1.0f : temperatures.data()[i];
      float row_max, log_sum;
      t.row_stats(row, V, temperature, &row_max, &log_sum, 0, 1);
      largest(row, V, k, tokens.data() + i * k);
      for (int64_t j = 0; j < k; j++)
        logprobs.data()[i * k + j] = (row[tokens.data()[i * k + j]] / temperature - row_max) - log_sum;
    }
  });
}

}  // namespace

void bind_sampling(nb::module_& m) {
  m.def("choose", &choose_rows, nb::arg("logits"), nb::arg("rows"), nb::arg("seeds"), nb::arg("samples"),
        nb::arg("positions"), nb::arg("temperatures"), nb::arg("top_ks"), nb::arg("top_ps"), nb::arg("tokens"),
        nb::arg("logprobs"), NoGil());
  m.def("top_logprobs", &top_logprobs, nb::arg("logits"), nb::arg("rows"), nb::arg("temperatures"), nb::arg("k"),
        nb::arg("tokens"), nb::arg("logprobs"), NoGil());
}

}  // namespace tinsmith
