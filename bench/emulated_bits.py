"""The CUDA kernels over an emulated grid against the native ones, at real models' shapes, under every instruction set.

emulated_bits.py [SECONDS]      a shorter sweep where there is not the time: the first models only
"""

from __future__ import annotations

import sys
import time

from device_cases import LARGE, MODELS, SMALL, all_equal, emulated, model_cases, product_cases, small_cases, sweep
from tinsmith.ops.extension import configure, module
from tinsmith.types.arithmetic import Isa


def main() -> int:
    limit, began, good = float(sys.argv[1]) if len(sys.argv) > 1 else 1e9, time.perf_counter(), True
    for isa in module().supported_isas():
        configure(isa=Isa(isa))
        for order in range(3):
            print(f"{isa}, order of threads {order}", flush=True)
            good &= all_equal(small_cases(), emulated(order=order), (SMALL, LARGE), print)
    elements, unequal = sweep(emulated(), 1 << 20, 11, print)
    print(f"division, root and reciprocal: {elements} elements, {unequal} unequal", flush=True)
    for name, model in MODELS.items():
        if time.perf_counter() - began > limit:
            print(f"{name}: no time left")
            continue
        print(name, flush=True)
        good &= all_equal(product_cases(model, (1, 3, 8, 70)), emulated(), (SMALL, LARGE), print)
        good &= all_equal(model_cases(model, 150, 100), emulated(), (SMALL, LARGE), print)
    return 0 if good and not unequal else 1


if __name__ == "__main__":
    sys.exit(main())
