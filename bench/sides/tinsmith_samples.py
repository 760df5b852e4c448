"""Our side of sampling: the engine's sampler on the folder, without a server."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import torch
from side import Measured, measure, serve

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.arithmetic import Hold
from tinsmith.types.sampling import SampleRequest, SamplingParams


def main() -> None:
    configure(threads=int(sys.argv[2]))
    torch.set_num_threads(1)

    @cache
    def load(name: str, hold: Hold) -> tuple[Decoder, Sampler]:
        base = open_base(f"{sys.argv[1]}/{name}", hold=hold)
        decoder = build_decoder(base.config, base.weights, NativeKernels())
        return decoder, Sampler(decoder.config, decoder.kernels)  # as a server has one: its cache is cleaned once

    def work(task: dict[str, Any]) -> Measured:
        """Of its settings: the weights' `name` in the model's folder, held as published or widened to fp32."""
        decoder, sampler = load(task["name"], Hold(task["hold"]))
        requests = [
            SampleRequest(
                prompt=np.array(prompt, np.int32),
                params=SamplingParams(seed=i, max_tokens=task["new"], stop=()),
                num_samples=task["samples"],
            )
            for i, prompt in enumerate(task["prompts"])
        ]

        def run() -> int:
            results = sampler.sample(requests, [Policy(decoder, {})] * len(requests))
            return sum(len(s.tokens) for result in results for s in result.sequences)

        return measure(run)

    serve(work)


if __name__ == "__main__":
    main()
