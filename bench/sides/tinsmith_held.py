"""Our side of sampling from a published file, held as it is or as fp32; no server."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from side import Measured, measure, serve

from tinsmith.engine.cluster.freed_memory import give_back_freed_memory
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.arithmetic import Hold
from tinsmith.types.sampling import SampleRequest, SamplingParams


def main() -> None:
    configure(threads=int(sys.argv[2]))
    torch.set_num_threads(1)
    base = open_base(sys.argv[1], hold=Hold(sys.argv[3]))
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    del base
    give_back_freed_memory()
    sampler = Sampler(decoder.config, decoder.kernels)  # as a server has one; its cache is a gigabyte to clean

    def work(task: dict[str, Any]) -> Measured:
        draw = np.random.default_rng(task["seed"])
        request = SampleRequest(
            prompt=draw.integers(100, 40_000, task["length"]).astype(np.int32),
            params=SamplingParams(seed=task["seed"], max_tokens=task["new"], stop=()),
            num_samples=task["samples"],
        )

        def run() -> int:
            (result,) = sampler.sample([request], [Policy(decoder, {})])
            return sum(len(sample.tokens) for sample in result.sequences)

        return measure(run)

    serve(work)


if __name__ == "__main__":
    main()
