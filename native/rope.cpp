// sin and cos in fp64: three-part reduction by pi/2 and the fdlibm kernels' polynomials, no fused steps.
#include "rope.hpp"

namespace tinsmith {
namespace {

double sin_kernel(double r) {
  const double z = r * r;
  double p = 1.58969099521155010221e-10;
  p = p * z - 2.50507602534068634195e-08;
  p = p * z + 2.75573137070700676789e-06;
  p = p * z - 1.98412698298579493134e-04;
  p = p * z + 8.33333333332248946124e-03;
  p = p * z - 1.66666666666666324348e-01;
  return r + r * z * p;
}

double cos_kernel(double r) {
  const double z = r * r;
  double p = -1.13596475577881948265e-11;
  p = p * z + 2.08757232129817482790e-09;
  p = p * z - 2.75573143513906633035e-07;
  p = p * z + 2.48015872894767294178e-05;
  p = p * z - 1.38888888888741095749e-03;
  p = p * z + 4.16666666666666019037e-02;
  return 1.0 - 0.5 * z + z * z * p;
}

}  // namespace

void rope_table(const float* frequencies, int64_t half, int64_t positions, float* cos, float* sin) {
  // pi/2 in three parts of 33 bits: k < 2^20 times the first two parts is exact.
  const double part1 = 1.57079632673412561417e+00, part2 = 6.07710050630396597660e-11, part3 = 2.02226624879595063154e-21;
  for (int64_t t = 0; t < positions; t++)
    for (int64_t i = 0; i < half; i++) {
      const double x = static_cast<double>(static_cast<float>(t) * frequencies[i]);
      const double k = __builtin_rint(x * 6.36619772367581382433e-01);
      const double r = ((x - k * part1) - k * part2) - k * part3;
      const double s = sin_kernel(r), c = cos_kernel(r);
      const int64_t quadrant = static_cast<int64_t>(k) & 3;
      const double sin_x = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
      const double cos_x = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
      cos[t * half + i] = static_cast<float>(cos_x);
      sin[t * half + i] = static_cast<float>(sin_x);
    }
}

}  // namespace tinsmith
