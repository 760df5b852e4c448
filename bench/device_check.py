"""Checks of the canonical kernels on a GPU, in parts: bits first, speed last; every part prints as it goes.

    device_check.py [--dry] [--results FILE] [PART ...]

A part that FILE says was finished is not run again, so that a run that was cut goes on. `--dry` runs over an emulated
grid instead, without timings: it proves the script, and nothing about a GPU. A page of docs/results is made of FILE.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from device_cases import (
    BY_SIZE,
    CASES_OF_TRAINING,
    LARGE,
    MODELS,
    SMALL,
    all_equal,
    emulated,
    model_cases,
    product_cases,
    small_cases,
    steps_of,
    sweep,
)  # fmt: skip
from device_speed import speeds
from tinsmith.engine.checks.certificate import certify
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig, Family
from tinsmith.models.decoder import Decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.cuda import nvrtc
from tinsmith.ops.cuda.kernels import CudaKernels
from tinsmith.ops.kernels import Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.select import select
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.sampling import SampleRequest, SamplingParams

SMOL = DecoderConfig(
    family=Family.LLAMA, vocab_size=49152, hidden_size=576, intermediate_size=1536, num_layers=30, num_heads=9,
    num_kv_heads=3, head_dim=64, max_positions=2048, norm_eps=1e-5, rope_theta=100_000.0, tied=True, end_tokens=(0,),
)  # fmt: skip
"""SmolLM2-135M's shape; drawn weights, as neither bits nor speed depend on what they are."""


@dataclass(slots=True)
class Check:
    """One run of the script."""

    kernels: CudaKernels
    dry: bool
    lines: list[str] = field(default_factory=list[str])

    def say(self, line: str) -> None:
        self.lines.append(line)
        print(line, flush=True)

    def tiles(self) -> tuple[int, ...]:
        return (BY_SIZE,) if self.dry else (SMALL, LARGE, BY_SIZE)


def machine(check: Check) -> bool:
    """Compile everything, cold and from the cache."""
    compiler = nvrtc.compiler()
    for name in ("first", "second"):
        began = time.perf_counter()
        for program in nvrtc.PROGRAMS:
            compiler.cubin(program, "sm_90")
        check.say(f"{name} compilation of all programs, one by one: {time.perf_counter() - began:.2f} s")
    for name, value in check.kernels.identity().items():
        check.say(f"{name}: {value}")
    return True


def bits(check: Check) -> bool:
    """Every kernel against the native library, small shapes and those of real models."""
    good = all_equal(small_cases(), check.kernels, check.tiles(), check.say)
    models = list(MODELS.items())[:1] if check.dry else list(MODELS.items())
    for name, model in models:
        check.say(name)
        rows = (3,) if check.dry else (1, 3, 8, 70, 513)
        good &= all_equal(product_cases(model, rows), check.kernels, check.tiles(), check.say)
        good &= all_equal(model_cases(model, 40 if check.dry else 300, 100), check.kernels, check.tiles(), check.say)
    return good


def sweeps(check: Check) -> bool:
    """Division, root and reciprocal: 2^24 patterns each."""
    elements = unequal = 0
    for seed in range(1 if check.dry else 4):
        found = sweep(check.kernels, 1 << (16 if check.dry else 22), seed, check.say)
        elements, unequal = elements + found[0], unequal + found[1]
    check.say(f"division, root and reciprocal: {elements} elements, {unequal} unequal")
    return unequal == 0


def engine(check: Check) -> bool:
    """Two RL steps of every kind of training: samples, log-probabilities, gradients, norms, weights."""
    good = True
    real = {} if check.dry else {"LoRA, SmolLM2-135M's shape": (SMOL, AdapterKind.LORA)}
    for name, (config, kind) in {**CASES_OF_TRAINING, **real}.items():
        same = steps_of(check.kernels, config, kind) == steps_of(NativeKernels(), config, kind)
        good &= same
        check.say(f"{name}: {'every figure equal' if same else 'UNEQUAL'}")
    return good


def _decoder(kernels: Kernels, config: DecoderConfig, layers: int) -> Decoder:
    shallow = config if layers == config.num_layers else _cut(config, layers)
    return build_decoder(shallow, initial_weights(shallow, 0), kernels)


def _cut(config: DecoderConfig, layers: int) -> DecoderConfig:
    return replace(config, num_layers=layers)


def certificates(check: Check) -> bool:
    """The certificates of nano and of SmolLM2's shape: the CPU's strings."""
    good = True
    models = {"nano": (PRESETS["nano"], 4), "SmolLM2-135M's shape": (SMOL, 30)}
    for name, (config, layers) in list(models.items())[: 1 if check.dry else 2]:
        depth = 1 if check.dry else layers
        began = time.perf_counter()
        ours = certify(_decoder(check.kernels, config, depth)).sha256
        took, theirs = time.perf_counter() - began, certify(_decoder(NativeKernels(), config, depth)).sha256
        good &= ours == theirs
        same = "equal" if ours == theirs else "UNEQUAL"
        check.say(f"{name}: {ours[:16]} in {took:.1f} s, the CPU's {theirs[:16]}: {same}")
    return good


def graphs(check: Check) -> bool:
    """Decoding by graphs and without: equal samples, in batches of several sizes."""
    found: list[list[bytes]] = []
    for use in (False, True):
        check.kernels.use_graphs = use
        decoder = _decoder(check.kernels, PRESETS["nano"], 1 if check.dry else 4)
        found.append([])
        for count in (1, 3, 9):
            prompt = np.arange(1, 12, dtype=np.int32)
            params = SamplingParams(seed=3, max_tokens=20, stop=())
            sampler = Sampler(decoder.config, check.kernels)
            request = SampleRequest(prompt=prompt, params=params, num_samples=count)
            (result,) = sampler.sample([request], [Policy(decoder, {})])
            found[-1] += [s.tokens.tobytes() + s.logprobs.tobytes() for s in result.sequences]
    same = sum(a == b for a, b in zip(*found, strict=True))
    check.say(f"samples by graphs and without: {same} of {len(found[0])} equal")
    return found[0] == found[1]


def small(check: Check) -> bool:
    """One small case of each kernel, for a sanitizer."""
    return all_equal(small_cases(), check.kernels, (SMALL, LARGE), check.say)


def speed(check: Check) -> bool:
    """Times, beside torch's on the same GPU."""
    if check.dry:
        check.say("no times over an emulated grid")
    else:
        speeds(check.kernels, _decoder(check.kernels, SMOL, 30), check.say)
    return True


PARTS: dict[str, Callable[[Check], bool]] = {
    "machine": machine, "bits": bits, "sweeps": sweeps, "engine": engine, "certificates": certificates,
    "graphs": graphs, "speed": speed, "small": small,
}  # fmt: skip
USUAL = tuple(name for name in PARTS if name != "small")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "out" / "device.json")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    done = json.loads(given.results.read_text()) if given.results.exists() else {}
    torch.set_num_threads(1)
    kernels = emulated() if given.dry else select(Arithmetic.CANONICAL, "cuda")
    assert isinstance(kernels, CudaKernels)
    good = True
    for name in given.parts or USUAL:
        if not given.parts and done.get(name, {}).get("good"):
            print(f"== {name}: finished before", flush=True)
            continue
        print(f"== {name}", flush=True)
        check, began = Check(kernels, given.dry), time.perf_counter()
        try:
            fine = PARTS[name](check)
        except Exception as error:  # the next part may hold all the same
            check.say(f"FAILED {type(error).__name__}: {error}")
            fine = False
        good &= fine
        done[name] = {"good": fine, "seconds": round(time.perf_counter() - began, 1), "lines": check.lines}
        given.results.write_text(json.dumps(done, indent=1))
        print(f"== {name}: {'holds' if fine else 'DOES NOT HOLD'}, {done[name]['seconds']} s", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
