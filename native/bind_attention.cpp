// Attention over pages and its backward, split over threads by sequence, kv head and block of query rows.
#include <algorithm>
#include <memory>
#include <vector>

#include "bind.hpp"
#include "tree_sum.hpp"

namespace tinsmith {
namespace {

// Query rows of a sequence, or, backward, a tree's keys from position `begin` on.
struct Block {
  int64_t seq, kv_head, begin, end;
};

// Sequences cover the rows in order, without gaps.
void require_sequences(const InLong& row_begin, int64_t rows) {
  const int64_t count = (int64_t)row_begin.size() - 1;
  require(count >= 0 && row_begin.data()[0] == 0 && row_begin.data()[count] == rows, "sequences cover all rows");
  for (int64_t s = 0; s < count; s++)
    require(row_begin.data()[s] <= row_begin.data()[s + 1], "sequences are in order");
}

// K and V of one rotated row [q | k | v] into one slot of a page.
void store_row(const float* row, int64_t heads, int64_t kv_heads, int64_t d, int64_t d_pad, int64_t page, int64_t slot,
               float* k_pages, float* v_pages) {
  for (int64_t h = 0; h < kv_heads; h++) {
    const float* k = row + (heads + h) * d;
    const float* v = k + kv_heads * d;
    float* k_to = k_pages + (page * kv_heads + h) * d * 16 + slot;
    float* v_to = v_pages + ((page * kv_heads + h) * 16 + slot) * d_pad;
    for (int64_t i = 0; i < d; i++) {
      k_to[i * 16] = k[i];
      v_to[i] = v[i];
    }
  }
}

// K and V of rotated rows [q | k | v] into pages: row r of sequence s lands at position first_pos[s] + r - begin[s].
void store_keys(const In& qkv, int64_t heads, int64_t kv_heads, const InInt& table, const InLong& row_begin,
                const InLong& first_pos, const Out& k_pages, const Out& v_pages) {
  require_rows(qkv, "store_keys: rows are contiguous");
  require_dense(k_pages, "store_keys: pages are contiguous");
  require_dense(v_pages, "store_keys: pages are contiguous");
  const int64_t d = (int64_t)k_pages.shape(2), d_pad = (int64_t)v_pages.shape(3), count = (int64_t)row_begin.size() - 1;
  const int64_t num_pages = (int64_t)k_pages.shape(0);
  require_sequences(row_begin, (int64_t)qkv.shape(0));
  require((int64_t)qkv.shape(1) == (heads + 2 * kv_heads) * d && (int64_t)table.shape(0) == count, "store_keys: shapes");
  for (int64_t s = 0; s < count; s++) {
    const int64_t n = row_begin.data()[s + 1] - row_begin.data()[s], last = first_pos.data()[s] + n;
    require((last + 15) / 16 <= (int64_t)table.shape(1), "store_keys: the page table is long enough");
    for (int64_t p = first_pos.data()[s] / 16; p < (last + 15) / 16; p++) {
      const int32_t page = table.data()[s * table.stride(0) + p];
      require(page >= 0 && page < num_pages, "store_keys: page in range");
    }
  }
  const auto body = [&](int64_t b, int64_t e) {
    for (int64_t s = b; s < e; s++)
      for (int64_t r = row_begin.data()[s]; r < row_begin.data()[s + 1]; r++) {
        const int64_t pos = first_pos.data()[s] + r - row_begin.data()[s], slot = pos % 16;
        const int64_t page = table.data()[s * table.stride(0) + pos / 16];
        store_row(qkv.data() + r * qkv.stride(0), heads, kv_heads, d, d_pad, page, slot, k_pages.data(),
                  v_pages.data());
      }
  };
  const int64_t work = count ? ((int64_t)qkv.shape(0) / count + 1) * kv_heads * d * 2 : 1;
  parallel_rows(count, work, body);
}

// K and V of rotated rows [q | k | v] into pages: slot i of all pages holds row slots[i], or stays as it is (-1).
void store_slots(const In& qkv, int64_t heads, int64_t kv_heads, const InLong& slots, const Out& k_pages,
                 const Out& v_pages) {
  require_rows(qkv, "store_slots: rows are contiguous");
  require_dense(k_pages, "store_slots: pages are contiguous");
  require_dense(v_pages, "store_slots: pages are contiguous");
  const int64_t d = (int64_t)k_pages.shape(2), d_pad = (int64_t)v_pages.shape(3), pages = (int64_t)k_pages.shape(0);
  require((int64_t)qkv.shape(1) == (heads + 2 * kv_heads) * d && (int64_t)slots.size() == 16 * pages,
          "store_slots: shapes");
  for (int64_t i = 0; i < 16 * pages; i++)
    require(slots.data()[i] >= -1 && slots.data()[i] < (int64_t)qkv.shape(0), "store_slots: row in range");
  parallel_rows(pages, 16 * kv_heads * d * 2, [&](int64_t b, int64_t e) {
    for (int64_t i = 16 * b; i < 16 * e; i++) {
      const int64_t row = slots.data()[i];
      if (row >= 0)
        store_row(qkv.data() + row * qkv.stride(0), heads, kv_heads, d, d_pad, i / 16, i % 16, k_pages.data(),
                  v_pages.data());
    }
  });
}

void attention(const In& qkv, int64_t heads, int64_t kv_heads, const In& k_pages, const In& v_pages,
               const InInt& table, const InLong& row_begin, const InLong& first_pos, float scale, const Out& out,
               const std::optional<Out>& row_max, const std::optional<Out>& row_sum) {
  require_rows(qkv, "attention: rows are contiguous");
  require_rows(out, "attention: rows are contiguous");
  require_dense(k_pages, "attention: pages are contiguous");
  require_dense(v_pages, "attention: pages are contiguous");
  require_sequences(row_begin, (int64_t)qkv.shape(0));
  Attention a{};
  a.num_heads = heads;
  a.num_kv_heads = kv_heads;
  a.d = (int64_t)k_pages.shape(2);
  a.d_pad = (int64_t)v_pages.shape(3);
  require(kv_heads > 0 && heads % kv_heads == 0 && (int64_t)qkv.shape(1) == (heads + 2 * kv_heads) * a.d &&
              (int64_t)out.shape(1) == heads * a.d && a.d_pad % 16 == 0, "attention: shapes");
  a.q = qkv.data();
  a.q_rs = qkv.stride(0);
  a.k_pages = k_pages.data();
  a.v_pages = v_pages.data();
  a.table = table.data();
  a.table_rs = table.stride(0);
  a.row_begin = row_begin.data();
  a.first_pos = first_pos.data();
  a.out = out.data();
  a.out_rs = out.stride(0);
  a.row_max = pointer(row_max);
  a.row_sum = pointer(row_sum);
  a.scale = scale;
  const int64_t group = heads / kv_heads, block_rows = group >= 24 ? 1 : 24 / group;
  require(group * block_rows <= 1024, "attention: at most 1024 query heads per kv head");
  std::vector<Block> blocks;
  int64_t cost = 0;
  for (int64_t s = 0; s + 1 < (int64_t)row_begin.size(); s++) {
    const int64_t begin = a.row_begin[s], end = a.row_begin[s + 1], last = a.first_pos[s] + end - begin;
    require((last + 15) / 16 <= (int64_t)table.shape(1), "attention: the page table is long enough");
    for (int64_t p = 0; p < (last + 15) / 16; p++) {
      const int32_t page = a.table[s * a.table_rs + p];
      require(page >= 0 && page < (int64_t)k_pages.shape(0), "attention: page in range");
    }
    for (int64_t h = 0; h < kv_heads; h++)
      for (int64_t r = begin; r < end; r += block_rows)
        blocks.push_back({s, h, r, r + block_rows < end ? r + block_rows : end});
    cost += (end - begin) * heads * last * a.d / 16;
  }
  const KernelTable& t = kernels();
  const auto body = [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) {
      const Block& k = blocks[(size_t)i];
      const int64_t keys = a.first_pos[k.seq] + k.end - a.row_begin[k.seq];
      t.attention(a, k.seq, k.kv_head, k.begin, k.end, scratch(t.attention_scratch(a, k.end - k.begin, keys)));
    }
  };
  const int64_t count = (int64_t)blocks.size();
  parallel_rows(count, count ? cost / count + 1 : 1, body);
}

// The greatest depth of each tree; a node continues what lies above it, or begins at position 0 as a tree's first does.
std::vector<int64_t> require_trees(const InLong& row_begin, const InLong& first_pos, const InLong& unit_nodes) {
  const int64_t nodes = (int64_t)row_begin.size() - 1, units = (int64_t)unit_nodes.size() - 1;
  require(nodes >= 0 && (int64_t)first_pos.size() == nodes, "attention_backward: a first position for each node");
  require(units >= 0 && unit_nodes.data()[0] == 0 && unit_nodes.data()[units] == nodes,
          "attention_backward: units cover all nodes");
  std::vector<int64_t> depths((size_t)units, 0), ends;
  for (int64_t u = 0; u < units; u++) {
    require(unit_nodes.data()[u] <= unit_nodes.data()[u + 1], "attention_backward: units are in order");
    ends.clear();
    for (int64_t n = unit_nodes.data()[u]; n < unit_nodes.data()[u + 1]; n++) {
      const int64_t first = first_pos.data()[n], count = row_begin.data()[n + 1] - row_begin.data()[n];
      require(count > 0, "attention_backward: a node has rows");
      while (!ends.empty() && ends.back() > first) ends.pop_back();
      require(first == (ends.empty() ? 0 : ends.back()), "attention_backward: nodes lie depth first");
      ends.push_back(first + count);
      if (ends.back() > depths[(size_t)u]) depths[(size_t)u] = ends.back();
    }
  }
  return depths;
}

void attention_backward(const In& qkv, int64_t heads, int64_t kv_heads, const In& out, const In& d_out,
                        const In& row_max, const In& row_sum, const InLong& row_begin, const InLong& first_pos,
                        const InLong& unit_nodes, float scale, const Out& d_qkv) {
  require_rows(qkv, "attention_backward: rows are contiguous");
  require_rows(d_qkv, "attention_backward: rows are contiguous");
  require_rows(out, "attention_backward: rows are contiguous");
  require_rows(d_out, "attention_backward: rows are contiguous");
  require(out.stride(0) == d_out.stride(0), "attention_backward: out and d_out have one stride");
  require_sequences(row_begin, (int64_t)qkv.shape(0));
  const std::vector<int64_t> depths = require_trees(row_begin, first_pos, unit_nodes);
  AttentionBackward a{};
  a.num_heads = heads;
  a.num_kv_heads = kv_heads;
  a.d = (int64_t)qkv.shape(1) / (heads + 2 * kv_heads);
  a.q = qkv.data();
  a.k = a.q + heads * a.d;
  a.v = a.k + kv_heads * a.d;
  a.rs = qkv.stride(0);
  a.out = out.data();
  a.d_out = d_out.data();
  a.out_rs = out.stride(0);
  a.row_max = row_max.data();
  a.row_sum = row_sum.data();
  a.d_q = d_qkv.data();
  a.d_k = a.d_q + heads * a.d;
  a.d_v = a.d_k + kv_heads * a.d;
  a.d_q_rs = a.d_rs = d_qkv.stride(0);
  a.row_begin = row_begin.data();
  a.first_pos = first_pos.data();
  a.scale = scale;
  const KernelTable& t = kernels();
  std::vector<Block> blocks;
  const int64_t depth = depths.empty() ? 0 : *std::max_element(depths.begin(), depths.end());
  for (int64_t range = 0; range * kBackwardRange < depth; range++)  // the ranges that most rows see first
    for (int64_t unit = 0; unit < (int64_t)depths.size(); unit++)
      for (int64_t h = 0; h < kv_heads && range * kBackwardRange < depths[(size_t)unit]; h++)
        blocks.push_back({unit, h, range * kBackwardRange, 0});
  // The first range's share of dQ lies in its place, the others' beside it.
  const int64_t rows = (int64_t)qkv.shape(0), width = heads * a.d, others = (depth - 1) / kBackwardRange;
  const std::unique_ptr<float[]> shares(others > 0 ? new float[(size_t)(others * rows * width)] : nullptr);
  const auto share = [&](int64_t range) { return shares.get() + (range - 1) * rows * width; };
  parallel((int64_t)blocks.size(), [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; i++) {
      const Block& k = blocks[(size_t)i];
      AttentionBackward of_range = a;
      if (k.begin > 0) of_range.d_q = share(k.begin / kBackwardRange), of_range.d_q_rs = width;
      t.attention_backward(of_range, unit_nodes.data()[k.seq], unit_nodes.data()[k.seq + 1], k.kv_head, k.begin,
                           scratch(t.attention_backward_scratch(a)));
    }
  });
  parallel_rows(rows, width * (others + 1), [&](int64_t b, int64_t e) {
    for (int64_t row = b; row < e; row++) {
      const int64_t* node = std::upper_bound(a.row_begin, a.row_begin + first_pos.size(), row) - 1;
      const int64_t pos = a.first_pos[node - a.row_begin] + row - *node;
      float* sums[kTreeDepth];
      const auto add = [&](int to, int from) {
        for (int64_t i = 0; i < width; i++) sums[to][i] = sums[to][i] + sums[from][i];
      };
      TreeSum tree;
      for (int64_t range = 0; range <= pos / kBackwardRange; range++)
        sums[tree.push(range, add)] = range > 0 ? share(range) + row * width : a.d_q + row * a.d_q_rs;
      tree.fold(add);
      for (int64_t i = 0; i < width; i++) sums[0][i] = sums[0][i] * scale;
    }
  });
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def("store_keys", recordable(&store_keys), nb::arg("qkv"), nb::arg("heads"), nb::arg("kv_heads"), nb::arg("table"),
        nb::arg("row_begin"), nb::arg("first_pos"), nb::arg("k_pages"), nb::arg("v_pages"), NoGil());
  m.def("store_slots", &store_slots, nb::arg("qkv"), nb::arg("heads"), nb::arg("kv_heads"), nb::arg("slots"),
        nb::arg("k_pages"), nb::arg("v_pages"), NoGil());
  m.def("attention", recordable(&attention), nb::arg("qkv"), nb::arg("heads"), nb::arg("kv_heads"), nb::arg("k_pages"),
        nb::arg("v_pages"), nb::arg("table"), nb::arg("row_begin"), nb::arg("first_pos"), nb::arg("scale"),
        nb::arg("out"), nb::arg("row_max").none(), nb::arg("row_sum").none(), NoGil());
  m.def("attention_backward", &attention_backward, nb::arg("qkv"), nb::arg("heads"), nb::arg("kv_heads"),
        nb::arg("out"), nb::arg("d_out"), nb::arg("row_max"), nb::arg("row_sum"), nb::arg("row_begin"),
        nb::arg("first_pos"), nb::arg("unit_nodes"), nb::arg("scale"), nb::arg("d_qkv"), NoGil());
}

}  // namespace tinsmith
