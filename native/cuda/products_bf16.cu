// Products with a weight that is held as bf16, widened exactly in registers: forward, and dx.
#include "products.cuh"
TS_KERNEL(gemm_nn_bf16, GemmArgs, 256, 2) { large<true, false, Plain<Bf16>>(a); }
TS_KERNEL(gemm_nn_bf16_small, GemmArgs, 256) { small<true, false, Plain<Bf16>>(a); }
TS_KERNEL(gemm_nt_bf16, GemmArgs, 256, 2) { large<true, true, Plain<Bf16>>(a); }
TS_KERNEL(gemm_nt_bf16_small, GemmArgs, 256) { small<true, true, Plain<Bf16>>(a); }
TS_KERNEL(few_1_bf16, GemmArgs, 256) { few<1, false, Plain<Bf16>>(a); }
TS_KERNEL(few_4_bf16, GemmArgs, 256) { few<4, false, Plain<Bf16>>(a); }
TS_KERNEL(few_8_bf16, GemmArgs, 256) { few<8, false, Plain<Bf16>>(a); }
