// The kernels compiled for avx512.
#define TINSMITH_AVX512
#include "isa.hpp"

namespace tinsmith {
const KernelTable& avx512_kernels() {
  static const KernelTable table = kernel_table("avx512");
  return table;
}
}  // namespace tinsmith
