// Packing: every block of a file's rows taken apart, and laid beside those of fifteen other rows.
#include "packing.hpp"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "pool.hpp"

namespace tinsmith {
namespace {

// `Bits` bits of eight bytes, beside one another.
template <int Bits>
uint64_t together(uint64_t bytes) {
  uint64_t x = bytes & 0x0101010101010101u * ((1 << Bits) - 1);
  x = (x | x >> (8 - Bits)) & 0x0001000100010001u * ((1 << 2 * Bits) - 1);
  x = (x | x >> (16 - 2 * Bits)) & 0x0000000100000001u * ((1 << 4 * Bits) - 1);
  return x | x >> (32 - 4 * Bits);
}

// Column c of a record, from one block.
template <typename T>
void put(const uint8_t* block, int c, uint8_t* record) {
  using R = Record<T>;
  if constexpr (R::wide) {
    memcpy(record + 2 * c, block, 2);
  } else {
    if constexpr (!T::levels) memcpy(record + 2 * c, block + T::d, 2);
    if constexpr (T::shifted) memcpy(record + R::m + 2 * c, block + T::m, 2);
    for (int g = 0; T::steps && g < R::groups; g++) {
      record[R::steps + 16 * g + c] = (uint8_t)T::step(block, g);
      if constexpr (T::shifted) record[R::steps_of_m + 16 * g + c] = (uint8_t)T::step_of_m(block, g);
    }
    for (int k = 0; k < T::block; k += 8) {
      const uint64_t codes = T::codes(block, k);
      uint8_t* low = record + R::low + k / 8 * R::low_of_eight;
      if constexpr (T::bits == 8) {
        for (int j = 0; j < 8; j++) low[16 * j + c] = (uint8_t)(codes >> 8 * j);
      } else {
        const uint64_t halves = together<4>(codes);
        memcpy(low + 4 * c, &halves, 4);
      }
      if constexpr (T::bits == 5 || T::bits == 6) {
        constexpr int above = T::bits - 4;
        const uint64_t bits = together<above>(codes >> 4);
        memcpy(record + R::high + k / 8 * R::high_of_eight + above * c, &bits, above);
      }
    }
  }
}

}  // namespace

const std::vector<HeldTypeFacts>& held_types() {
  static const std::vector<HeldTypeFacts> all{{"BF16", Bf16s::block, Bf16s::bytes}, {"F16", Fp16s::block, Fp16s::bytes},
#define TS_FACTS(T) {#T, T::block, T::bytes}
                                              TS_FACTS(Q8_0), TS_FACTS(Q4_0), TS_FACTS(Q4_1), TS_FACTS(Q5_0),
                                              TS_FACTS(Q5_1), TS_FACTS(Q4_K), TS_FACTS(Q5_K), TS_FACTS(Q6_K),
                                              {"NF4", Nf4::block, Nf4::bytes}};
#undef TS_FACTS
  return all;
}

// Memory for a matrix, 64 bytes aligned; matrices that are packed one after another lie in one block of large pages,
// where the system has them: a token reads all of a model once, and to find its small pages costs a tenth of that. What
// no matrix has touched takes no memory.
static std::shared_ptr<uint8_t> room(size_t bytes) {
  constexpr size_t page = (size_t)1 << 21, block = 16 * page;
  static std::mutex mutex;
  static std::weak_ptr<uint8_t> last;
  static size_t used, size;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<uint8_t> found = last.lock();
  if (!found || size - used < bytes) {
    size = bytes < block ? block : (bytes + page - 1) / page * page;
    found.reset(static_cast<uint8_t*>(std::aligned_alloc(page, size)), std::free);
    if (!found) throw std::bad_alloc();
#if defined(MADV_HUGEPAGE)
    madvise(found.get(), size, MADV_HUGEPAGE);
#endif
    last = found;
    used = 0;
  }
  uint8_t* const at = found.get() + used;
  used += (bytes + 63) / 64 * 64;
  return {found, at};  // it goes with the last matrix in it
}

Packed::Packed(HeldType type, const uint8_t* stored, int64_t N, int64_t K) {
  with_type(type, [&](auto of) {
    using T = decltype(of);
    if (N <= 0 || K <= 0 || K % T::block) throw std::invalid_argument("Packed: rows are whole blocks");
    const int64_t blocks = K / T::block, tiles = (N + 15) / 16;
    size_ = tiles * blocks * Record<T>::size;
    data_ = room((size_t)size_);
    held_ = {type, N, K, data_.get(), {}};
    parallel(tiles, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; tile++) {
        uint8_t* record = data_.get() + (held_.template first<T>(tile) - held_.data);
        for (int64_t b = 0; b < blocks; b++, record += held_.beside(tile) * (int64_t)Record<T>::size) {
          memset(record, 0, Record<T>::size);
          for (int c = 0; c < 16 && 16 * tile + c < N; c++)
            put<T>(stored + ((16 * tile + c) * blocks + b) * T::bytes, c, record);
        }
      }
    });
  });
}

void Packed::scale(std::vector<uint8_t> codes, std::vector<float> scales, float offset, std::shared_ptr<const float> levels) {
  const size_t blocks = (size_t)(held_.N * held_.K / Nf4::block);
  if (held_.type != HeldType::NF4 || codes.size() != blocks || scales.size() != (blocks + 255) / 256)
    throw std::invalid_argument("Packed: a code for each block, a scale for 256");
  absmax_ = std::make_shared<Scales>(Scales{std::move(codes), std::move(scales), std::move(levels)});
  held_.absmax = {absmax_->codes.data(), absmax_->scales.data(), absmax_->levels.get(), offset};
  size_ += (int64_t)(absmax_->codes.size() + 4 * absmax_->scales.size() + 4);
}

}  // namespace tinsmith
