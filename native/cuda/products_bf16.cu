// Products with a weight that is held as bf16, widened exactly in registers: forward, and dx.
#include "products.cuh"
TS_LARGE(gemm_nn_bf16, true, false, Plain<Bf16>)
TS_SMALL(gemm_nn_bf16_small, true, false, Plain<Bf16>)
TS_LARGE(gemm_nt_bf16, true, true, Plain<Bf16>)
TS_SMALL(gemm_nt_bf16_small, true, true, Plain<Bf16>)
TS_FEW(few_1_bf16, 1, false, Plain<Bf16>)
TS_FEW(few_4_bf16, 4, false, Plain<Bf16>)
TS_FEW(few_8_bf16, 8, false, Plain<Bf16>)
