// Products of fp32 matrices that only training takes: dx = dy W^T (nt), dW += x^T dy (tn).
#include "products.cuh"
TS_LARGE(gemm_nt, true, true, Plain<float>)
TS_SMALL(gemm_nt_small, true, true, Plain<float>)
TS_LARGE(gemm_tn, false, false, Plain<float>)
TS_SMALL(gemm_tn_small, false, false, Plain<float>)
