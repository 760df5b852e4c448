// Products of fp32 matrices that only training takes: dx = dy W^T (nt), dW += x^T dy (tn).
#include "products.cuh"
TS_KERNEL(gemm_nt, GemmArgs, 256, 2) { large<true, true, Plain<float>>(a); }
TS_KERNEL(gemm_nt_small, GemmArgs, 256) { small<true, true, Plain<float>>(a); }
TS_KERNEL(gemm_tn, GemmArgs, 256, 2) { large<false, false, Plain<float>>(a); }
TS_KERNEL(gemm_tn_small, GemmArgs, 256) { small<false, false, Plain<float>>(a); }
