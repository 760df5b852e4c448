// Packed matrices as Python holds them: what they are, and their values as fp32.
#include <nanobind/stl/tuple.h>

#include <algorithm>

#include "bind.hpp"
#include "packing.hpp"

namespace tinsmith {
namespace {

using Bytes = Array<const uint8_t>;

HeldType named(const std::string& name) {
  for (size_t i = 0; i < held_types().size(); i++)
    if (held_types()[i].name == name) return (HeldType)i;
  throw std::invalid_argument("Packed: no such type: " + name);
}

void make(Packed* self, const std::string& type, const Bytes& stored, int64_t rows, int64_t columns) {
  require_dense(stored, "Packed: bytes are contiguous");
  const HeldType which = named(type);
  const HeldTypeFacts& facts = held_types()[(size_t)which];
  require(columns % facts.block == 0 && (int64_t)stored.size() == rows * (columns / facts.block) * facts.bytes,
          "Packed: as many bytes as the rows take");
  nb::gil_scoped_release nogil;
  new (self) Packed(which, stored.data(), rows, columns);
}

void scale(Packed* self, const Bytes& codes, const In& scales, float offset, const In& levels) {
  require_dense(codes, "Packed: codes are contiguous");
  require_dense(scales, "Packed: scales are contiguous");
  require(levels.size() == 256, "Packed: a level for each code");
  self->scale({codes.data(), codes.data() + codes.size()}, {scales.data(), scales.data() + scales.size()}, offset,
              {levels.data(), [levels](const float*) {}});
}

// out [rows, columns]: rows first .. first + the rows of `out`, as fp32.
void widen(const Packed& packed, int64_t first, const Out& out) {
  const Held& held = packed.held();
  require_rows(out, "widen: rows are contiguous");
  const int64_t rows = (int64_t)out.shape(0), last = first + rows;
  require(first >= 0 && last <= held.N && (int64_t)out.shape(1) == held.K, "widen: some rows of the matrix");
  const int64_t tile0 = first / 16, tiles = rows ? (last - 1) / 16 + 1 - tile0 : 0;
  parallel_rows(tiles, held.K * 4, [&](int64_t begin, int64_t end) {
    for (int64_t tile = tile0 + begin; tile < tile0 + end; tile++) {
      const int64_t n0 = std::max(first, 16 * tile), n1 = std::min(last, 16 * tile + 16);
      kernels().widen_rows(held, n0, n1, out.data() + (n0 - first) * out.stride(0), out.stride(0));
    }
  });
}

// out [columns, rows]: the same turned, from a row on that is a multiple of sixteen.
void widen_turned(const Packed& packed, int64_t first, const Out& out) {
  const Held& held = packed.held();
  require_rows(out, "widen_turned: rows are contiguous");
  const int64_t rows = (int64_t)out.shape(1), tile0 = first / 16;
  require(first >= 0 && first % 16 == 0 && first + rows <= held.N && (int64_t)out.shape(0) == held.K,
          "widen_turned: some tiles of the matrix");
  parallel_rows((rows + 15) / 16, held.K * 4, [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; tile++) {
      float* to = out.data() + 16 * tile;
      const int64_t left = rows - 16 * tile;
      if (left >= 16) {
        kernels().widen(held, tile0 + tile, 0, held.K, to, out.stride(0));
        continue;
      }
      float* columns = scratch(held.K * 16);
      kernels().widen(held, tile0 + tile, 0, held.K, columns, 16);
      for (int64_t k = 0; k < held.K; k++) std::copy_n(columns + 16 * k, left, to + k * out.stride(0));
    }
  });
}

// out[i] = row ids[i] of the matrix as fp32.
void take(const Packed* packed, const InLong& ids, const Out& out) {
  const Held& held = packed->held();
  require_rows(out, "take: rows are contiguous");
  const int64_t count = (int64_t)ids.size();
  require((int64_t)out.shape(0) == count && (int64_t)out.shape(1) == held.K, "take: a row for each id");
  for (int64_t i = 0; i < count; i++) require(ids.data()[i] >= 0 && ids.data()[i] < held.N, "take: id");
  parallel_rows(count, held.K * 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
      kernels().widen_rows(held, ids.data()[i], ids.data()[i] + 1, out.data() + i * out.stride(0), out.stride(0));
  });
}

}  // namespace

void bind_held(nb::module_& m) {
  m.def("held_types", [] {
    std::vector<std::tuple<std::string, int64_t, int64_t>> all;
    for (const HeldTypeFacts& each : held_types()) all.emplace_back(each.name, each.block, each.bytes);
    return all;
  });
  nb::class_<Packed>(m, "Packed")
      .def("__init__", &make, nb::arg("type"), nb::arg("stored"), nb::arg("rows"), nb::arg("columns"))
      .def("scale", &scale, nb::arg("codes"), nb::arg("scales"), nb::arg("offset"), nb::arg("levels"))
      .def_prop_ro("type", [](const Packed& p) { return held_types()[(size_t)p.held().type].name; })
      .def_prop_ro("rows", [](const Packed& p) { return p.held().N; })
      .def_prop_ro("columns", [](const Packed& p) { return p.held().K; })
      .def_prop_ro("nbytes", &Packed::size)
      .def("widen", &widen, nb::arg("first"), nb::arg("out"), NoGil())
      .def("widen_turned", &widen_turned, nb::arg("first"), nb::arg("out"), NoGil())
      .def("take", recordable(&take), nb::arg("ids"), nb::arg("out"), NoGil());
}

}  // namespace tinsmith
