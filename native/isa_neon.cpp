// The kernels compiled for neon.
#define TINSMITH_NEON
#include "isa.hpp"

namespace tinsmith {
const KernelTable& neon_kernels() {
  static const KernelTable table = kernel_table("neon");
  return table;
}
}  // namespace tinsmith
