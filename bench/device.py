"""Checks of the canonical kernels on a GPU, in parts: bits first, speed last; every part prints as it goes.

    device.py [--dry] [--results FILE] [PART ...]

`device.sh` runs it. A part that FILE says was finished is not run again; a page of docs/results is made of FILE.
"""

# ruff: noqa: E402

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path[:0] = [str(Path(__file__).parents[1] / "tests" / name) for name in ("shared", "ops", "engine")]

from canonical_cases import bits as bits_of
from emulated import emulated
from test_cuda_bits import CASES, Case, Everything, Gradients, Product
from test_engine_on_cuda import CASES as TRAININGS
from test_engine_on_cuda import steps_of

from device_speed import SPEEDS
from scale import SMOLLM2
from tinsmith.engine.checks.certificate import certify
from tinsmith.models.build import build_decoder
from tinsmith.models.config import DecoderConfig
from tinsmith.models.decoder import Decoder
from tinsmith.models.initial_weights import initial_weights
from tinsmith.models.presets import PRESETS
from tinsmith.ops.cuda import nvrtc
from tinsmith.ops.cuda.kernels import BY_SIZE, LARGE, SMALL, CudaKernels
from tinsmith.ops.cuda.lists import CHAIN
from tinsmith.ops.extension import configure, module
from tinsmith.ops.kernels import HeadShape, Kernels
from tinsmith.ops.native import NativeKernels
from tinsmith.ops.select import select
from tinsmith.types.adapters import AdapterKind
from tinsmith.types.arithmetic import Arithmetic, Isa
from tinsmith.types.errors import BackendError

NATIVE = NativeKernels()
MODELS = {
    "SmolLM2-135M": (576, 1536, HeadShape(heads=9, kv_heads=3, head_dim=64), 49152),
    "Qwen3-0.6B": (1024, 3072, HeadShape(heads=16, kv_heads=8, head_dim=128), 151936),
    "Llama-3.1-8B": (4096, 14336, HeadShape(heads=32, kv_heads=8, head_dim=128), 128256),
}
"""Hidden and inner width, heads, vocabulary."""
LEAST_FREE = 8 << 30


@dataclass(slots=True)
class Check:
    """One part's run."""

    kernels: CudaKernels
    dry: bool
    results: Path
    compared: int = 0
    unequal: int = 0

    def say(self, line: str) -> None:
        print(line, flush=True)
        with self.results.open("a") as file:
            print(line, file=file)

    def equal(self, what: str, ours: object, theirs: object) -> None:
        """Compare figures of a whole engine."""
        self.compared, self.unequal = self.compared + 1, self.unequal + (ours != theirs)
        self.say(f"{what}: {'equal' if ours == theirs else 'UNEQUAL'}")

    def same(self, name: str, got: Tensor, want: Tensor) -> int | None:
        """Compare bits; where the first unequal element is, if one is."""
        a, b = bits_of(got).ravel(), bits_of(want).ravel()
        differ = np.flatnonzero(a != b)
        self.compared, self.unequal = self.compared + a.size, self.unequal + len(differ)
        if not len(differ):
            return None
        at = int(differ[0])
        place = [int(i) for i in np.unravel_index(at, tuple(want.shape))]
        self.say(f"UNEQUAL {name}{place}: {int(a[at]):#x}, not {int(b[at]):#x}; {len(differ)} of {a.size}")
        return at

    def compare(self, name: str, case: Case) -> None:
        """Compare what it computes on either side, with every choice of tiles; of a product tell chain by chain."""
        want = case(NATIVE)
        for tiles in (BY_SIZE,) if self.dry else (SMALL, LARGE, BY_SIZE):
            self.kernels.set_threads(tiles)
            for key, value in case(self.kernels).items():
                at = self.same(f"{name}, tiles {tiles}: {key}", torch.as_tensor(value), torch.as_tensor(want[key]))
                if at is not None and key == "y" and isinstance(case, Product):
                    self._tell_chains(*case.operands(), *divmod(at, case.n))

    def _tell_chains(self, a: Tensor, b: Tensor, m: int, n: int) -> None:
        for k in range(0, a.shape[1], CHAIN):
            x, w = a[m : m + 1, k : k + CHAIN].contiguous(), b[k : k + CHAIN, n : n + 1].contiguous()
            one, other = (float(of.gemm(x.to(of.device), w.to(of.device))) for of in (self.kernels, NATIVE))
            self.say(f"  chain of k {k}: {one.hex()} and {other.hex()}{'' if one == other else '  <-'}")

    def found(self, what: str) -> None:
        self.say(f"{what}: {self.compared} compared, {self.unequal} unequal")

    def decoder(self, kernels: Kernels, config: DecoderConfig) -> Decoder:
        cut = replace(config, num_layers=1) if self.dry else config
        return build_decoder(cut, initial_weights(cut, 0), kernels)

    def models(self) -> Mapping[str, DecoderConfig]:
        """Shapes whose weights are drawn, as neither bits nor speed depend on what they are."""
        return {"nano": PRESETS["nano"]} | ({} if self.dry else {"SmolLM2-135M's shape": SMOLLM2})


def machine(check: Check) -> None:
    """Compile everything, cold and from the cache."""
    for name in ("first", "second"):
        began = time.perf_counter()
        for program in nvrtc.PROGRAMS:
            nvrtc.compiler().cubin(program, "sm_90")
        check.say(f"{name} compilation of all programs, one by one: {time.perf_counter() - began:.2f} s")
    check.say(", ".join(f"{name} {value}" for name, value in check.kernels.identity().items()))


def small(check: Check) -> None:
    """Every kernel on small and odd shapes."""
    for name, case in CASES.items():
        check.compare(name, case)


def bits(check: Check) -> None:
    """Small shapes, then those of real models: linear steps in fp32 and bf16, and every kernel at their heads."""
    small(check)
    _real_shapes(check, list(MODELS)[: 1 if check.dry else 3], (3,) if check.dry else (1, 3, 8, 70, 513))


def _real_shapes(check: Check, names: Sequence[str], rows: Sequence[int]) -> None:
    lengths = [40, 13] if check.dry else [300, 100]
    for name in names:
        hidden, inner, heads, vocab = MODELS[name]
        qkv = (heads.heads + 2 * heads.kv_heads) * heads.head_dim
        for k, n in ((hidden, qkv), (hidden, 2 * inner), (inner, hidden)):
            for m, held in product(rows, (torch.float32, torch.bfloat16)):
                check.compare(f"[{m}, {k}] x [{k}, {n}] {held}", Product(m, k, n, held))
            check.compare(f"units of [{k}, {n}]", Gradients(k, min(n, 512), (0, 23, 23, 40, 70)))
        check.compare(f"every kernel, {heads}", Everything(heads, lengths, 100, vocab // 8))
        check.found(f"up to {name}")


def isas(check: Check) -> None:
    """The emulated grid at real models' shapes, in three orders of threads, beside every instruction set."""
    check.dry = False
    for isa in module().supported_isas():
        configure(isa=Isa(isa))
        for order in range(3):
            check.kernels = emulated(order=order)
            small(check)
        check.found(f"up to {isa}")
    _real_shapes(check, list(MODELS), (1, 3, 8, 70))


def _one_nan(x: Tensor) -> Tensor:
    return x.nan_to_num(7.0, torch.inf, -torch.inf) if x.is_floating_point() else x


CONVERSIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "fp32 to bf16": lambda x: x.bfloat16().float(), "fp32 to fp16": lambda x: x.half().float(),
    "bf16 to fp32": lambda x: x.view(torch.bfloat16).float(), "fp16 to fp32": lambda x: x.view(torch.float16).float(),
    "fp32 to int32": lambda x: x.nan_to_num().clamp(-(2.0**30), 2.0**30).int(),
    "int32 to fp32": lambda x: x.view(torch.int32).float(),
}  # fmt: skip
"""Those of torch, of random patterns."""


def sweeps(check: Check) -> None:
    """2^24 patterns of division, root and conversions, a fifth of them subnormal: the kernels' own, and torch's."""
    count = 1 << (16 if check.dry else 22)
    for seed in range(1 if check.dry else 4):
        drawn = np.random.default_rng(seed).integers(0, 1 << 32, (2, count), dtype=np.uint64).astype(np.uint32)
        drawn[:, ::5] &= np.uint32(0x807FFFFF)
        x, y = (part.view(np.float32) for part in drawn)
        with np.errstate(all="ignore"):
            want = {
                "x / y": x / y, "square root": np.sqrt(x), "1 / x": np.float32(1) / x,
                "int32 to fp32": drawn[0].view(np.int32).astype(np.float32), "to the nearest whole": np.rint(x),
                "bf16 to fp32": (drawn[0] << np.uint32(16)).view(np.float32),
                "fp64 to fp32": (x.astype(np.float64) * y).astype(np.float32),
            }  # fmt: skip
        there, other = (torch.from_numpy(part).to(check.kernels.device) for part in (x, y))
        for got, (name, value) in zip(check.kernels.swept(there, other), want.items(), strict=True):
            check.same(name, _one_nan(got), _one_nan(torch.from_numpy(value)))
        for name, convert in CONVERSIONS.items():
            check.same(f"torch, {name}", _one_nan(convert(there)), _one_nan(convert(torch.from_numpy(x))))


def engine(check: Check) -> None:
    """Two RL steps of every kind of training: samples (by graphs), log-probabilities, gradients, norms, weights."""
    real = {} if check.dry else {"LoRA, SmolLM2-135M's shape": (SMOLLM2, AdapterKind.LORA, torch.float32)}
    for name, case in {**TRAININGS, **real}.items():
        check.equal(name, steps_of(check.kernels, *case), steps_of(NATIVE, *case))


def certificates(check: Check) -> None:
    """The certificates of nano and of SmolLM2's shape: the CPU's strings."""
    for name, config in check.models().items():
        began = time.perf_counter()
        ours = certify(check.decoder(check.kernels, config)).sha256
        text = f"certificate of {name}, {ours[:16]} in {time.perf_counter() - began:.1f} s"
        check.equal(text, ours, certify(check.decoder(NATIVE, config)).sha256)


def speed(check: Check) -> None:
    """Times, beside torch's, transformers' and TRL's on the same GPU."""
    decoder = check.decoder(check.kernels, [*check.models().values()][-1])
    for measure in SPEEDS:
        measure(check.kernels, decoder, check.say, dry=check.dry)


PARTS = {part.__name__: part for part in (machine, bits, sweeps, engine, certificates, speed, small, isas)}
USUAL = list(PARTS)[:-2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "out" / "device.txt")
    given = parser.parse_args()
    try:
        kernels = emulated() if given.dry else select(Arithmetic.CANONICAL, "cuda")
    except BackendError as error:
        sys.exit(str(error))
    assert isinstance(kernels, CudaKernels)
    if (free := kernels.free_bytes()) is not None and free < LEAST_FREE:
        sys.exit(f"too little memory: {free / 2**30:.1f} GiB are free on the GPU, and {LEAST_FREE >> 30} are needed")
    given.results.parent.mkdir(parents=True, exist_ok=True)
    done = given.results.read_text() if given.results.exists() else ""
    torch.set_num_threads(1)
    failed = 0
    for name in given.parts or USUAL:
        if not given.parts and f"== {name} holds" in done:
            print(f"== {name}: finished before", flush=True)
            continue
        check, began = Check(kernels, given.dry, given.results), time.perf_counter()
        check.say(f"== {name}")
        try:
            PARTS[name](check)
        except Exception as error:  # the next part may hold all the same
            check.say(f"FAILED {type(error).__name__}: {error}")
            check.unequal += 1
        kernels.set_threads(BY_SIZE)
        failed += check.unequal > 0
        check.found(f"== {name} {'DOES NOT HOLD' if check.unequal else 'holds'}, {time.perf_counter() - began:.1f} s")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
