// Products of fp32 matrices: y = x W (nn), and a few rows of it.
#include "products.cuh"
TS_LARGE(gemm_nn, true, false, Plain<float>)
TS_SMALL(gemm_nn_small, true, false, Plain<float>)
TS_FEW(few_1, 1, false, Plain<float>)
TS_FEW(few_4, 4, false, Plain<float>)
TS_FEW(few_8, 8, false, Plain<float>)
