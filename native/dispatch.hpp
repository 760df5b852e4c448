// Which compiled ISA the kernels come from.
#pragma once
#include <string>
#include <vector>

#include "table.hpp"

namespace tinsmith {

const KernelTable& kernels();
// Names this build holds and this CPU can run, slowest first.
std::vector<std::string> supported_isas();
// Raises std::invalid_argument for a name not in supported_isas().
void use_isa(const std::string& name);

}  // namespace tinsmith
