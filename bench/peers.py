"""Parts the benchmarks share: the 5M-parameter model on both sides, clocks, and how a ratio is printed."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.folders.folder import write_folder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.extension import configure
from tinsmith.ops.kernels import Kernels
from tinsmith.types.sampling import SampleRequest, SamplingParams

QUIET_TRAINER = {
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "logging_strategy": "no",
    "save_strategy": "no",
    "disable_tqdm": True,
}
"""A trainer of transformers or TRL on the CPU in fp32 that reports to nobody and saves nothing."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds."""

    wall: float
    cpu: float
    """Of all threads of this process."""


class Clock:
    """Times since it was last read."""

    def __init__(self) -> None:
        self._last = self._now()

    def read(self) -> Times:
        """Return the time since the last reading, and start again."""
        last, self._last = self._last, self._now()
        return Times(self._last.wall - last.wall, self._last.cpu - last.cpu)

    @staticmethod
    def _now() -> Times:
        return Times(time.perf_counter(), time.process_time())


def idle_threads_sleep() -> None:
    """Start this process again with OpenMP threads that sleep when idle, if it was not started so.

    Threads that spin cost torch several times its CPU-seconds where cores are shared, which would flatter us.
    """
    if os.environ.get("OMP_WAIT_POLICY") != "PASSIVE":
        os.execve(sys.executable, sys.orig_argv, {**os.environ, "OMP_WAIT_POLICY": "PASSIVE"})


def threads(count: int) -> None:
    """Give both sides the same number of threads."""
    torch.set_num_threads(count)
    configure(threads=count)


def tiny_decoder(kernels: Kernels) -> Decoder:
    """The preset `tiny` (5,401,856 parameters) on our kernels."""
    config = PRESETS["tiny"]
    return build_decoder(config, initial_weights(config, 0), kernels)


def sampling(decoder: Decoder, prompts: np.ndarray, tokens: int) -> Sampler:
    """A sampler in the middle of drawing as many tokens after each of these prompts."""
    sampler, policy = Sampler(decoder.config, decoder.kernels), Policy(decoder, {})
    for seed, prompt in enumerate(prompts.astype(np.int32)):
        params = SamplingParams(seed=seed, max_tokens=tokens, stop=())
        sampler.submit(SampleRequest(prompt=prompt, params=params), policy)
    while sampler.num_running < len(prompts):
        sampler.step()
    return sampler


def tiny_transformers() -> Any:
    """The same weights in transformers, eager attention, fp32."""
    return transformers_of(PRESETS["tiny"], torch.float32, attn_implementation="eager")


def transformers_of(config: DecoderConfig, dtype: torch.dtype, **how: Any) -> Any:
    """A model of this shape in transformers, with the weights that a preset is drawn with."""
    from transformers import AutoModelForCausalLM

    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder) / "model", config, initial_weights(config, 0), dtype=dtype)
        return AutoModelForCausalLM.from_pretrained(Path(folder) / "model", dtype=dtype, **how).eval()


def report(title: str, ours: float, theirs: float, limit: float, unit: str) -> None:
    """Print both figures, their ratio and the goal."""
    ratio = ours / theirs
    figures = f"tinsmith {ours:.2f} {unit}, peer {theirs:.2f} {unit}, ratio {ratio:.2f}"
    verdict = "reached" if ratio <= limit else "NOT reached"
    print(f"{title}: {figures} (goal <= {limit}: {verdict})")


os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
