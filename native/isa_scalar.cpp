// The kernels compiled for scalar.
#define TINSMITH_SCALAR
#include "isa.hpp"

namespace tinsmith {
const KernelTable& scalar_kernels() {
  static const KernelTable table = kernel_table("scalar");
  return table;
}
}  // namespace tinsmith
