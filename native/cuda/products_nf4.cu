// Products with a weight that is held as NF4 [out, in], decoded in registers: y = x W^T.
#include "products.cuh"
TS_KERNEL(gemm_nt_nf4, GemmArgs, 256, 2) { large<true, true, Nf4>(a); }
TS_KERNEL(gemm_nt_nf4_small, GemmArgs, 256) { small<true, true, Nf4>(a); }
TS_KERNEL(few_1_nf4, GemmArgs, 256) { few<1, true, Nf4>(a); }
TS_KERNEL(few_4_nf4, GemmArgs, 256) { few<4, true, Nf4>(a); }
TS_KERNEL(few_8_nf4, GemmArgs, 256) { few<8, true, Nf4>(a); }
