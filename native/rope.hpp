// The table of rotations: cos and sin of position times frequency.
#pragma once
#include <cstdint>

namespace tinsmith {

// cos, sin [positions, half]: of the fp32 product position * frequency, computed in fp64 by fixed polynomials and
// rounded once, so that no math library takes part.
void rope_table(const float* frequencies, int64_t half, int64_t positions, float* cos, float* sin);

}  // namespace tinsmith
