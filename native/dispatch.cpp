// Chooses the kernels by what the CPU can run; the fastest by default.
#include "dispatch.hpp"

#include <stdexcept>

namespace tinsmith {
namespace {

std::vector<const KernelTable*> runnable() {
  std::vector<const KernelTable*> tables{&scalar_kernels()};
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  if (avx2) tables.push_back(&avx2_kernels());
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    tables.push_back(&avx512_kernels());
#elif defined(__aarch64__)
  tables.push_back(&neon_kernels());
#endif
  return tables;
}

const KernelTable*& current() {
  static const KernelTable* table = runnable().back();
  return table;
}

}  // namespace

const KernelTable& kernels() { return *current(); }

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const KernelTable* table : runnable()) names.emplace_back(table->name);
  return names;
}

void use_isa(const std::string& name) {
  for (const KernelTable* table : runnable())
    if (name == table->name) {
      current() = table;
      return;
    }
  throw std::invalid_argument("no such instruction set here: " + name);
}

}  // namespace tinsmith
