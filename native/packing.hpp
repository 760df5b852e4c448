// Matrices of a file's blocks, packed once by column tile for the kernels.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "held.hpp"

namespace tinsmith {

struct HeldTypeFacts {
  std::string name;      // as a GGUF file spells it
  int64_t block, bytes;  // weights of a block, and what they take in a file
};
// In the order of HeldType.
const std::vector<HeldTypeFacts>& held_types();

// A packed matrix with its memory, which copies share.
class Packed {
 public:
  // `stored` is what a file has: N rows of whole blocks. Raises std::invalid_argument for a K that no blocks make up.
  Packed(HeldType type, const uint8_t* stored, int64_t N, int64_t K);
  // Give NF4 its scales, before anything is widened: codes and scales by block, 256 levels, as in Absmax.
  void scale(std::vector<uint8_t> codes, std::vector<float> scales, float offset, std::shared_ptr<const float> levels);
  const Held& held() const { return held_; }
  int64_t size() const { return size_; }  // bytes

 private:
  struct Scales {
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    std::shared_ptr<const float> levels;
  };
  std::shared_ptr<uint8_t> data_;
  std::shared_ptr<Scales> absmax_;
  int64_t size_ = 0;
  Held held_{};
};

}  // namespace tinsmith
