// Products of fp32 matrices: y = x W (nn), and a few rows of it; in training dx = dy W^T (nt), dW += x^T dy (tn).
#include "products.cuh"
TS_KERNEL(gemm_nn, GemmArgs, 256, 2) { large<true, false, Plain<float>>(a); }
TS_KERNEL(gemm_nn_small, GemmArgs, 256) { small<true, false, Plain<float>>(a); }
TS_KERNEL(gemm_nt, GemmArgs, 256, 2) { large<true, true, Plain<float>>(a); }
TS_KERNEL(gemm_nt_small, GemmArgs, 256) { small<true, true, Plain<float>>(a); }
TS_KERNEL(gemm_tn, GemmArgs, 256, 2) { large<false, false, Plain<float>>(a); }
TS_KERNEL(gemm_tn_small, GemmArgs, 256) { small<false, false, Plain<float>>(a); }
TS_KERNEL(few_1, GemmArgs, 256) { few<1, false, Plain<float>>(a); }
TS_KERNEL(few_4, GemmArgs, 256) { few<4, false, Plain<float>>(a); }
TS_KERNEL(few_8, GemmArgs, 256) { few<8, false, Plain<float>>(a); }
