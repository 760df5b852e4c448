// Products with a weight that is held as NF4 [out, in], decoded in registers: y = x W^T.
#include "products.cuh"
TS_LARGE(gemm_nt_nf4, true, true, Nf4)
TS_SMALL(gemm_nt_nf4_small, true, true, Nf4)
TS_FEW(few_1_nf4, 1, true, Nf4)
TS_FEW(few_4_nf4, 4, true, Nf4)
TS_FEW(few_8_nf4, 8, true, Nf4)
