// Matrix products and column chains, split over threads by rows or columns of the output.
#include <algorithm>

#include "bind.hpp"
#include "packing.hpp"
#include "tree_sum.hpp"

namespace tinsmith {
namespace {

// Products of the same rows with one matrix or several; the work of all is split together.
void run(const std::vector<Gemm>& all) {
  const KernelTable& t = kernels();
  const int64_t threads = num_threads(), M = all[0].M, K = all[0].K, row_tiles = (M + 5) / 6;
  int64_t strips = 0, N = 0;
  for (const Gemm& g : all) {
    strips += (g.N + t.strip - 1) / t.strip;
    N += g.N;
  }
  // Strips [b, e) of the columns of rows [m0, m1).
  const auto block = [&](int64_t m0, int64_t m1, int64_t b, int64_t e) {
    for (const Gemm& g : all) {
      const int64_t own = (g.N + t.strip - 1) / t.strip, to = (e < own ? e : own) * t.strip;
      if (b < own && e > 0)
        t.gemm(g, m0, m1, (b > 0 ? b : 0) * t.strip, to < g.N ? to : g.N, scratch(t.gemm_scratch(g)));
      b -= own;
      e -= own;
    }
  };
  const auto columns = [&](int64_t b, int64_t e) { block(0, M, b, e); };
  // Equal runs of tiles, strip by strip: a run begins and ends within a strip, so that few are packed more than once.
  const int64_t runs = 4 * threads, tiles = strips * row_tiles;
  const auto shared = [&](int64_t b, int64_t e) {
    for (int64_t at = tiles * b / runs, end = tiles * e / runs; at < end;) {
      const int64_t strip = at / row_tiles, first = at % row_tiles, whole = first ? 0 : (end - at) / row_tiles;
      const int64_t last = whole ? row_tiles : std::min(row_tiles, first + end - at);
      block(6 * first, std::min(6 * last, M), strip, strip + std::max(whole, int64_t{1}));
      at += whole ? whole * row_tiles : last - first;
    }
  };
  // Worth waking threads for: about 40 us of arithmetic, or of reading B where the rows are few; a quarter while they wait.
  const int64_t least = Awake::any() ? 125000 : 500000;
  if (M * N * K < 8 * least && N * K < least) parallel(1, [&](int64_t, int64_t) { columns(0, strips); });
  else if (strips >= 8 * threads || (strips >= threads && strips % threads == 0)) parallel(strips, columns);
  else if (row_tiles >= 4 * threads || row_tiles > strips) parallel(runs, shared);
  else parallel(strips, columns);
}

void gemm(const In& a, const In& b, const Out& c, bool add, const std::optional<InLong>& segments) {
  require(a.ndim() == 2 && b.ndim() == 2, "gemm: a and b have two dimensions");
  require_rows(c, "gemm: rows of c are contiguous");
  const int64_t M = (int64_t)a.shape(0), K = (int64_t)a.shape(1), N = (int64_t)b.shape(1);
  require((int64_t)b.shape(0) == K && (int64_t)c.shape(0) == M && (int64_t)c.shape(1) == N,
          "gemm: shapes are [M, K] . [K, N] -> [M, N]");
  if (M == 0 || N == 0) return;
  Gemm g{M, N, K, a.data(), a.stride(0), a.stride(1), b.data(), b.stride(0), b.stride(1), c.data(), c.stride(0),
         add ? Onto::Add : Onto::Store, nullptr, 0};
  if (segments) {
    require_dense(*segments, "gemm: segments are contiguous");
    g.segments = segments->data();
    g.num_segments = (int64_t)segments->size() - 1;
    require(g.num_segments >= 0 && g.segments[0] >= 0 && g.segments[g.num_segments] <= K,
            "gemm: segments lie within k");
  }
  run({g});
}

// c = a . [the matrices side by side]; each is the transpose of what was published.
void held_product(const In& a, const std::vector<const Packed*>& parts, const Out& c) {
  require_rows(a, "held_product: rows of a are contiguous");
  require_rows(c, "held_product: rows of c are contiguous");
  require(!parts.empty() && a.shape(0) == c.shape(0), "held_product: shapes are [M, K] . [K, N] -> [M, N]");
  const int64_t M = (int64_t)a.shape(0), K = (int64_t)a.shape(1);
  std::vector<Gemm> all;
  int64_t N = 0;
  for (const Packed* part : parts) {
    const Held& held = part->held();
    require(held.K == K, "held_product: all read the same rows");
    Gemm g{M, held.N, K, a.data(), a.stride(0), 1, nullptr, 0, 1, c.data() + N, c.stride(0), Onto::Store, nullptr, 0};
    g.held = &held;
    all.push_back(g);
    N += held.N;
  }
  require((int64_t)c.shape(1) == N, "held_product: shapes are [M, K] . [K, N] -> [M, N]");
  if (M > 0) run(all);
}

// c = a . [the matrices below one another, as they were published].
void held_product_turned(const In& a, const std::vector<const Packed*>& parts, const Out& c) {
  require_rows(a, "held_product_turned: rows of a are contiguous");
  require_rows(c, "held_product_turned: rows of c are contiguous");
  require(!parts.empty() && a.shape(0) == c.shape(0), "held_product_turned: shapes are [M, N] . [N, K] -> [M, K]");
  std::vector<Held> below;
  int64_t N = 0;
  for (const Packed* part : parts) {
    below.push_back(part->held());
    N += part->held().N;
    require((int64_t)c.shape(1) == part->held().K, "held_product_turned: all have the same columns");
  }
  require((int64_t)a.shape(1) == N, "held_product_turned: shapes are [M, N] . [N, K] -> [M, K]");
  Gemm g{(int64_t)a.shape(0), (int64_t)c.shape(1), N, a.data(), a.stride(0), 1, nullptr, 0, 1, c.data(), c.stride(0),
         Onto::Store, nullptr, 0};
  g.held = below.data();
  g.num_held = (int64_t)below.size();
  if (g.M > 0) run({g});
}

void column_chain(const In& x, const std::optional<In>& y, const InLong& segments, const Out& acc) {
  require_rows(x, "column_chain: rows of x are contiguous");
  require_dense(acc, "column_chain: acc is contiguous");
  const int64_t N = (int64_t)x.shape(1), T = (int64_t)x.shape(0), count = (int64_t)segments.size() - 1;
  require((int64_t)acc.size() == N, "column_chain: acc has one element per column");
  require(count >= 0 && segments.data()[count] <= T, "column_chain: segments lie within the rows");
  if (y) {
    require_rows(*y, "column_chain: rows of y are contiguous");
    require(y->shape(0) == x.shape(0) && y->shape(1) == x.shape(1), "column_chain: x and y have one shape");
  }
  const int64_t blocks = (N + 63) / 64;
  parallel_rows(blocks, T * 8, [&](int64_t b, int64_t e) {
    kernels().column_chain(x.data(), y ? y->data() : nullptr, x.stride(0), y ? y->stride(0) : 0, segments.data(), count,
                           acc.data(), b * 64, e * 64 < N ? e * 64 : N);
  });
}

// out[i] = row ids[i] of the table.
void embed(const In& table, const InLong& ids, const Out& out) {
  require_dense(table, "embed: the table is contiguous");
  require_dense(out, "embed: out is contiguous");
  const int64_t H = (int64_t)table.shape(1), V = (int64_t)table.shape(0), count = (int64_t)ids.size();
  require(out.ndim() == 2 && (int64_t)out.shape(0) == count && (int64_t)out.shape(1) == H, "embed: shapes");
  for (int64_t i = 0; i < count; i++) require(ids.data()[i] >= 0 && ids.data()[i] < V, "embed: id");
  parallel_rows(count, H / 8 + 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) std::copy_n(table.data() + ids.data()[i] * H, H, out.data() + i * H);
  });
}

// Rows of dy with one id are summed in row order within a segment; the tree sum of these over segments is added to
// that id's row of `into`.
void embed_backward(const InLong& ids, const In& dy, const InLong& segments, const Out& into) {
  require_rows(dy, "embed_backward: rows of dy are contiguous");
  require_dense(into, "embed_backward: into is contiguous");
  const int64_t H = (int64_t)dy.shape(1), V = (int64_t)into.shape(0), count = (int64_t)segments.size() - 1;
  require(into.ndim() == 2 && (int64_t)into.shape(1) == H && ids.shape(0) == dy.shape(0), "embed_backward: shapes");
  require(count >= 0 && segments.data()[count] <= (int64_t)ids.size(), "embed_backward: segments lie within the rows");
  for (size_t t = 0; t < ids.shape(0); t++) require(ids.data()[t] >= 0 && ids.data()[t] < V, "embed_backward: id");
  parallel(1, [&](int64_t, int64_t) {
    const int64_t t0 = segments.data()[0], t1 = segments.data()[count];
    std::vector<int64_t> segment_of((size_t)(t1 - t0)), next((size_t)(t1 - t0), -1), first((size_t)V, -1);
    for (int64_t s = 0; s < count; s++)
      for (int64_t t = segments.data()[s]; t < segments.data()[s + 1]; t++) segment_of[(size_t)(t - t0)] = s;
    for (int64_t t = t1; t-- > t0;) {  // lists by id, ascending in t
      const size_t id = (size_t)ids.data()[t];
      next[(size_t)(t - t0)] = first[id];
      first[id] = t - t0;
    }
    std::vector<std::vector<float>> slots(kTreeDepth);
    const auto add = [&](int to, int from) {
      for (int64_t h = 0; h < H; h++) slots[(size_t)to][(size_t)h] += slots[(size_t)from][(size_t)h];
    };
    for (int64_t t = t0; t < t1; t++) {
      const int64_t id = ids.data()[t];
      if (first[(size_t)id] != t - t0) continue;  // not the first row with this id
      TreeSum tree;
      for (int64_t i = t - t0; i >= 0;) {
        const int64_t segment = segment_of[(size_t)i];
        std::vector<float>& sum = slots[(size_t)tree.push(segment, add)];
        sum.assign((size_t)H, 0.0f);
        for (; i >= 0 && segment_of[(size_t)i] == segment; i = next[(size_t)i])
          for (int64_t h = 0; h < H; h++) sum[(size_t)h] += dy.data()[(t0 + i) * dy.stride(0) + h];
      }
      tree.fold(add);
      for (int64_t h = 0; h < H; h++) into.data()[id * H + h] += slots[0][(size_t)h];
    }
  });
}

}  // namespace

void bind_products(nb::module_& m) {
  m.def("gemm", recordable(&gemm), nb::arg("a"), nb::arg("b"), nb::arg("c"), nb::arg("add") = false,
        nb::arg("segments").none() = nb::none(), NoGil());
  m.def("held_product", recordable(&held_product), nb::arg("a"), nb::arg("parts"), nb::arg("c"), NoGil());
  m.def("held_product_turned", &held_product_turned, nb::arg("a"), nb::arg("parts"), nb::arg("c"), NoGil());
  m.def("column_chain", &column_chain, nb::arg("x"), nb::arg("y").none(), nb::arg("segments"), nb::arg("acc"), NoGil());
  m.def("embed", recordable(&embed), nb::arg("table"), nb::arg("ids"), nb::arg("out"), NoGil());
  m.def("embed_backward", &embed_backward, nb::arg("ids"), nb::arg("dy"), nb::arg("segments"), nb::arg("into"),
        NoGil());
}

}  // namespace tinsmith
