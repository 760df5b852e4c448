// The kernels compiled for avx2.
#define TINSMITH_AVX2
#include "isa.hpp"

namespace tinsmith {
const KernelTable& avx2_kernels() {
  static const KernelTable table = kernel_table("avx2");
  return table;
}
}  // namespace tinsmith
