"""64 answers scored after each of 64 prompts, on `nano`: prompts that are read once, against 4,096 texts by themselves.

What `watch=mutual_information` asks of a server. The log-probabilities are compared bit by bit.
"""

from __future__ import annotations

import time

import numpy as np

from tinsmith.engine.training import TrainingSession
from tinsmith.models.adapter import create_adapter
from tinsmith.models.base import open_base
from tinsmith.models.build import build_decoder
from tinsmith.ops.native import NativeKernels
from tinsmith.types.adapters import AdapterSpec
from tinsmith.types.arithmetic import GradientUnit
from tinsmith.types.datum import Datum, LossName

PROMPTS, PROMPT_TOKENS, ANSWER_TOKENS = 64, 128, 24
GOAL = 0.25


def requests(vocab: int) -> list[list[Datum]]:
    """Every answer after one prompt, a request a prompt; lengths vary by a quarter."""
    rng = np.random.default_rng(0)

    def texts(tokens: int) -> list[np.ndarray]:
        lengths = rng.integers(tokens * 3 // 4, tokens * 5 // 4 + 1, PROMPTS)
        return [rng.integers(3, vocab, length).astype(np.int32) for length in lengths]

    prompts, answers = texts(PROMPT_TOKENS), texts(ANSWER_TOKENS)
    return [[_datum(prompt, answer) for answer in answers] for prompt in prompts]


def _datum(prompt: np.ndarray, answer: np.ndarray) -> Datum:
    tokens = np.concatenate([prompt, answer])
    weights = np.zeros(len(tokens) - 1, np.float32)
    weights[len(prompt) - 1 :] = 1.0
    return Datum(tokens=tokens[:-1], inputs={"target_tokens": tokens[1:], "weights": weights})


def score(session: TrainingSession, asked: list[list[Datum]]) -> tuple[list[list[np.ndarray]], float]:
    """Return every log-probability, and the CPU seconds that they took."""
    began = time.process_time()
    found = [[one.logprobs for one in session.forward(datums, LossName.CROSS_ENTROPY).outputs] for datums in asked]
    return found, time.process_time() - began


def main() -> None:
    base = open_base("tinsmith/nano", seed=0)
    asked = requests(base.config.vocab_size)
    taken: dict[GradientUnit, float] = {}
    scores: dict[GradientUnit, list[list[np.ndarray]]] = {}
    for unit in (GradientUnit.DATUM, GradientUnit.TREE):
        decoder = build_decoder(base.config, base.weights, NativeKernels())
        session = TrainingSession(create_adapter(decoder, AdapterSpec()), gradient_unit=unit)
        score(session, asked[:1])
        scores[unit], taken[unit] = score(session, asked)
    pairs = zip(scores[GradientUnit.DATUM], scores[GradientUnit.TREE], strict=True)
    unequal = sum(
        int((a.view(np.int32) != b.view(np.int32)).sum())
        for left, right in pairs
        for a, b in zip(left, right, strict=True)
    )
    apart, shared = taken[GradientUnit.DATUM], taken[GradientUnit.TREE]
    print(f"{PROMPTS} x {PROMPTS} scores, prompts of about {PROMPT_TOKENS} tokens, answers of {ANSWER_TOKENS}")
    print(f"each text by itself  {apart:7.2f} CPU-s")
    print(f"shared prompts       {shared:7.2f} CPU-s   {shared / apart:.3f}x   goal <= {GOAL}x")
    print(f"unequal bits         {unequal}")
    if unequal or shared > GOAL * apart:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
