"""Savings of not computing a beginning again: one sampler that keeps beginnings against one that does not.

    python bench/prefixes.py [MODEL] [ROUNDS]

MODEL is `tinsmith/smollm2` (after `tinsmith base fetch smollm2`) or a folder. Four loads, each by both in turn, in
CPU-seconds of one thread; every answer must have the same bits from both. How many of the prompts' tokens were
read from the cache is told beside the ratio.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from tinsmith.engine.cache import SamplerLimits
from tinsmith.engine.sampler import Sampler
from tinsmith.engine.sequences import Policy
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.ops.extension import configure
from tinsmith.ops.native import NativeKernels
from tinsmith.types.datum import IntArray
from tinsmith.types.sampling import SampleRequest, SampleResult, SamplingParams

Ask = Callable[[Sequence[SampleRequest]], list[SampleResult]]
Load = Callable[[Ask, np.random.Generator], None]

VOCAB = 4_000


def words(rng: np.random.Generator, count: int) -> IntArray:
    return rng.integers(10, VOCAB, count).astype(np.int32)


def asked(prompt: IntArray, seed: int, new: int, samples: int = 1, **law: float) -> SampleRequest:
    params = SamplingParams(seed=seed, max_tokens=new, stop=(), **law)  # pyright: ignore[reportArgumentType]
    return SampleRequest(prompt=prompt, params=params, num_samples=samples)


def agents(ask: Ask, rng: np.random.Generator) -> None:
    """Eight conversations at once, of six turns: 200 tokens first, then 32 drawn and 40 answered, again and again."""
    said = [words(rng, 200) for _ in range(8)]
    for turn in range(6):
        drawn = ask([asked(text, 8 * turn + i, 32) for i, text in enumerate(said)])
        said = [
            np.concatenate([text, result.sequences[0].tokens, words(rng, 40)])
            for text, result in zip(said, drawn, strict=True)
        ]


def instructed(ask: Ask, rng: np.random.Generator) -> None:
    """A step of RL: 16 prompts of 250 tokens, 120 of them instructions, eight answers of 20 tokens each."""
    stem = words(rng, 120)
    ask([asked(np.concatenate([stem, words(rng, 130)]), i, 20, 8) for i in range(16)])


def questions(ask: Ask, rng: np.random.Generator) -> None:
    """An evaluation: 32 questions of 20 tokens behind the same examples of 800, eight tokens drawn."""
    stem = words(rng, 800)
    ask([asked(np.concatenate([stem, words(rng, 20)]), i, 8) for i in range(32)])


def twice(ask: Ask, rng: np.random.Generator) -> None:
    """16 prompts of 250 tokens, answered in 20 drawn tokens, and then greedily."""
    prompts = [words(rng, 250) for _ in range(16)]
    ask([asked(prompt, i, 20) for i, prompt in enumerate(prompts)])
    ask([asked(prompt, i, 20, temperature=0.0) for i, prompt in enumerate(prompts)])


LOADS: tuple[Load, ...] = (agents, instructed, questions, twice)


def run(decoder: Decoder, load: Load, kept: int | None, seed: int) -> tuple[float, int, int, bytes]:
    """(CPU-seconds, prompt tokens, of which not computed, every bit of the answers)."""
    sampler = Sampler(decoder.config, decoder.kernels, limits=SamplerLimits(prefix_pages=kept))
    tokens, shown = 0, bytearray()

    def ask(requests: Sequence[SampleRequest]) -> list[SampleResult]:
        nonlocal tokens
        results = sampler.sample(requests, [Policy(decoder, {}, decoder)] * len(requests))
        tokens += sum(len(request.prompt) for request in requests)
        for result in results:
            for sequence in result.sequences:
                shown.extend(sequence.tokens.tobytes() + sequence.logprobs.tobytes())
        return results

    begun = time.process_time()
    load(ask, np.random.default_rng(seed))
    return time.process_time() - begun, tokens, sampler.pool.num_reused, bytes(shown)


def main() -> int:
    model = sys.argv[1] if len(sys.argv) > 1 else "tinsmith/smollm2"
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    configure(threads=1)
    torch.set_num_threads(1)
    base = open_base(model)
    decoder = build_decoder(base.config, base.weights, NativeKernels())
    equal = True
    for load in LOADS:
        ratios: list[float] = []
        told = ""
        for seed in range(rounds):
            pair = [(None, 0), (0, None)][seed % 2]
            found = {kept: run(decoder, load, kept, seed) for kept in pair}
            (with_, tokens, reused, bits), (without, _, none, other) = found[None], found[0]
            assert none == 0
            equal = equal and bits == other
            ratios.append(with_ / without)
            told = f"{reused:,} of {tokens:,} prompt tokens reused, {with_:.2f} CPU-s of {without:.2f}"
        print(f"{load.__name__}: {statistics.median(ratios):.2f}x; {told}", flush=True)
    print("every bit equal" if equal else "BITS DIFFER")
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main())
