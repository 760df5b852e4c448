"""Our side of a GRPO step: sample, centre the rewards, one policy gradient through prefix trees or datums, AdamW."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from side import Measured, measure, serve

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.ops.advantages import center_within_group
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import AdamParams, Datum, LossName
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams

ADAM = AdamParams(learning_rate=1e-6, beta2=0.999, eps=1e-8, grad_clip_norm=1.0)


class Grpo:
    """A session on the model and its steps."""

    def __init__(self, folder: str) -> None:
        base = open_base(folder)
        self.decoder = build_decoder(base.config, base.weights, NativeKernels())
        spec = AdapterSpec(rank=16, train_unembed=False)
        self.adapter = create_adapter(self.decoder, spec)

    def sample(self, task: dict[str, Any]) -> list[SampleResult]:
        snapshot = self.adapter.snapshot()
        requests = [
            SampleRequest(
                prompt=np.array(prompt, np.int32),
                params=SamplingParams(seed=i, max_tokens=task["new"], stop=()),
                num_samples=task["samples"],
            )
            for i, prompt in enumerate(task["prompts"])
        ]
        policy = Policy(snapshot.decoder, snapshot.low)
        sampler = Sampler(self.decoder.config, self.decoder.kernels)
        return sampler.sample(requests, [policy] * len(requests))

    def step(self, task: dict[str, Any]) -> int:
        datums = made(task, self.sample(task))
        self.train(task, datums)
        return len(datums) * task["new"]

    def train(self, task: dict[str, Any], datums: list[Datum]) -> int:
        session = TrainingSession(self.adapter, gradient_unit=GradientUnit(task["gradient_unit"]))
        metrics = session.forward_backward(datums, LossName.IMPORTANCE_SAMPLING).metrics
        if metrics["unequal_logprob_bits:sum"] != 0:
            sys.exit(f"sampler and trainer are not one model: {metrics}")
        session.optim_step(ADAM)
        return len(datums) * task["new"]


def made(task: dict[str, Any], results: list[SampleResult]) -> list[Datum]:
    """One datum per sample; the reward is the share of even token ids, the loss a mean over completion tokens."""
    datums: list[Datum] = []
    count = len(results) * task["samples"] * task["new"]
    for prompt, result in zip(task["prompts"], results, strict=True):
        rewards = np.array([float((s.tokens % 2 == 0).mean()) for s in result.sequences])
        before = np.zeros(len(prompt) - 1, np.float32)
        centred = center_within_group(rewards)
        for sequence, advantage in zip(result.sequences, centred, strict=True):
            tokens: NDArray[np.int32] = np.concatenate([prompt, sequence.tokens]).astype(np.int32)
            weight = np.full(task["new"], advantage / count, np.float32)
            inputs = {
                "target_tokens": tokens[1:],
                "logprobs": np.concatenate([before, sequence.logprobs]),
                "advantages": np.concatenate([before, weight]),
            }
            datums.append(Datum(tokens=tokens[:-1], inputs=inputs))
    return datums


def main() -> None:
    configure(threads=int(sys.argv[2]))
    torch.set_num_threads(1)
    grpo = Grpo(f"{sys.argv[1]}/folder")

    def work(task: dict[str, Any]) -> Measured:
        """Of its settings: `gradient_unit`; `whole`: a step with its sampling, or forward and backward alone."""
        if task["whole"]:
            return measure(lambda: grpo.step(task))
        datums = made(task, grpo.sample(task))
        return measure(lambda: grpo.train(task, datums))

    serve(work)


if __name__ == "__main__":
    main()
