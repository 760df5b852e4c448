"""1,000 requests of one prompt at each of two temperatures, through server and SDK: how many answers differ.

They are sent in waves of random size among random neighbours; sizes, neighbours and the mixture of temperatures are
drawn from a seed. On `canonical` all answers are one, tokens and log-probability bits; on `fast` they are counted.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tinker

from tinsmith.lab.service.connect import EmbeddedSettings, open_connection

VOCABULARY, PROMPT, TOKENS = 512, 40, 32
MOST, NEIGHBOURS = 64, 24
SEED = 20_251
"""Of the one request at temperature 1."""

Answer = tuple[tuple[int, ...], tuple[float, ...]]


@dataclass(slots=True)
class Answers:
    """Answers at one temperature."""

    temperature: float
    all: Counter[Answer] = field(default_factory=Counter)

    @property
    def unique(self) -> int:
        return len({tokens for tokens, _ in self.all})

    def told(self) -> str:
        count = sum(self.all.values())
        usual = max(self.all, key=lambda answer: self.all[answer])
        first = min((_parting(usual[0], tokens) for tokens, _ in self.all), default=TOKENS)
        apart = [
            abs(a - b)
            for tokens, logprobs in self.all
            if tokens == usual[0]
            for a, b in zip(logprobs, usual[1], strict=True)
        ]
        return (
            f"temperature {self.temperature:g}: {self.unique} unique of {count} completions, "
            f"{len(self.all)} with the bits of their log-probabilities, "
            f"{100 * (1 - self.all[usual] / count):.1f} % not the most frequent one, "
            f"max |d logprob| {max(apart):.2g}" + (f", Div_Index {first}" if self.unique > 1 else "")
        )


def _parting(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def few_or_many(rng: random.Random, most: int) -> int:
    """From 1 to `most`, each power of two as likely as another."""
    return min(most, int(2.0 ** (rng.random() * math.log2(most + 1))))


def tokens(rng: random.Random, count: int) -> tinker.ModelInput:
    return tinker.ModelInput.from_ints([rng.randrange(VOCABULARY) for _ in range(count)])


def ask(sampler: Any, prompt: tinker.ModelInput, seed: int, temperature: float, most: int) -> Any:
    params = tinker.SamplingParams(max_tokens=most, temperature=temperature, seed=seed, stop=[])
    return sampler.sample(prompt, 1, params)


def load(sampler: Any, requests: int, seed: int) -> tuple[tuple[Answers, Answers], int]:
    """Send all requests; return the answers by temperature, and how many neighbours there were."""
    rng = random.Random(seed)
    prompt = tokens(rng, PROMPT)
    answers = (Answers(0.0), Answers(1.0))
    waiting = [each for each in answers for _ in range(requests)]
    rng.shuffle(waiting)
    neighbours = 0
    while waiting:
        wave: list[tuple[Answers | None, Any]] = []
        coming = [waiting.pop() for _ in range(min(few_or_many(rng, MOST), len(waiting)))]
        beside = few_or_many(rng, NEIGHBOURS + 1) - 1
        neighbours += beside
        for own in rng.sample([*coming, *[None] * beside], len(coming) + beside):
            if own is None:
                other, length = tokens(rng, rng.randint(1, PROMPT)), rng.randint(1, TOKENS)
                wave.append((None, ask(sampler, other, rng.randrange(1 << 30), 1.0, length)))
            else:
                wave.append((own, ask(sampler, prompt, SEED, own.temperature, TOKENS)))
        for own, future in wave:
            (sequence,) = future.result().sequences
            if own is not None:
                own.all[tuple(sequence.tokens), tuple(sequence.logprobs)] += 1
    return answers, neighbours


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000, help="At each temperature.")
    parser.add_argument("--seed", type=int, default=0, help="Of the load.")
    parser.add_argument("--model", default="tinsmith/nano", help="A folder with 512 tokens or more.")
    parser.add_argument("--threads", type=int, default=0, help="Of the server.")
    options = parser.parse_args()
    reached = True
    for arithmetic in ("canonical", "fast"):
        with tempfile.TemporaryDirectory() as state:
            settings = EmbeddedSettings(
                models={"base": options.model}, arithmetic=arithmetic, state=Path(state), threads=options.threads
            )
            connection = open_connection(None, settings)
            try:
                sampler = connection.client.create_sampling_client(base_model="base").result()
                began = time.perf_counter()
                answers, neighbours = load(sampler, options.requests, options.seed)
                took = time.perf_counter() - began
            finally:
                connection.close()
        print(f"{arithmetic}: {2 * options.requests} requests, {neighbours} neighbours, {took:.1f} s")
        for each in answers:
            goal = ""
            if arithmetic == "canonical":
                one = len(each.all) == 1
                reached = reached and one
                goal = f" (goal 1: {'reached' if one else 'NOT reached'})"
            print(f"  {each.told()}{goal}", flush=True)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
