"""From rollouts and answers to the datums that a Tinker server trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tinker
from tinker import types

from tinsmith.lab.rollouts import AnyRollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """What supervised training reads: a conversation as it should go."""

    tokens: tuple[int, ...]
    learned: tuple[bool, ...]  # For every token whether it is an answer's; what answers reply to is only read.

    @classmethod
    def after(cls, prompt_length: int, tokens: Sequence[int]) -> Example:
        """Return the example of one prompt and one answer."""
        answer = len(tokens) - prompt_length
        return cls(tokens=tuple(tokens), learned=(False,) * prompt_length + (True,) * answer)


def policy_datum(rollout: AnyRollout, advantages: Sequence[Sequence[float]], foreseen: float = 0.0) -> tinker.Datum:
    """A datum of a policy-gradient loss: for each turn one advantage a token; what was not sampled has none.

    With `foreseen` what the environment answered is learned too, each of its tokens with that weight: as an action of
    this advantage under the policy that read it. The ratio is 1, and so the gradient is that of weight * log p.
    """
    tokens: list[int] = []
    logprobs: list[float] = []
    advantage: list[float] = []
    for turn, values in zip(rollout.turns, advantages, strict=True):
        before = [0.0] * len(turn.observation)
        tokens += [*turn.observation, *turn.tokens]
        if foreseen and turn.observed:
            mine = turn.own_words or (True,) * len(before)
            logprobs += [value if own else 0.0 for value, own in zip(turn.observed, mine, strict=True)]
            advantage += [foreseen if own else 0.0 for own in mine]
        else:
            logprobs += before
            advantage += before
        logprobs += turn.logprobs
        advantage += values
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": _integers(tokens[1:]),
            "logprobs": _floats(logprobs[1:]),
            "advantages": _floats(advantage[1:]),
        },
    )


def answered_logprobs(rollout: AnyRollout) -> list[float]:
    """Return the log-probabilities of what the environment answered in a conversation, token by token."""
    return [
        value
        for turn in rollout.turns
        if turn.observed
        for value, own in zip(turn.observed, turn.own_words or (True,) * len(turn.observed), strict=True)
        if own
    ]


def known_logprobs(rollout: AnyRollout) -> tuple[list[float], list[bool]]:
    """Return for every token of a conversation what the policy said of it, and whether it said anything.

    It did of what it wrote, and of what the environment wrote where that was asked.
    """
    told: list[float] = []
    known: list[bool] = []
    for turn in rollout.turns:
        size = len(turn.observation)
        own = (turn.own_words or (True,) * size) if turn.observed else (False,) * size
        told += [*(turn.observed or (0.0,) * size), *turn.logprobs]
        known += [*own, *(True,) * len(turn.tokens)]
    return told, known


def answer_datum(tokens: Sequence[int], prompt_length: int, weight: float) -> tinker.Datum:
    """A cross-entropy datum on what follows the prompt, each token with the same weight."""
    return example_datum(Example.after(prompt_length, tokens), weight)


def example_datum(example: Example, weight: float) -> tinker.Datum:
    """A cross-entropy datum on the answers of an example, each token with the same weight."""
    return types.Datum(
        model_input=types.ModelInput.from_ints(list(example.tokens[:-1])),
        loss_fn_inputs={
            "target_tokens": _integers(example.tokens[1:]),
            "weights": _floats([weight if mine else 0.0 for mine in example.learned[1:]]),
        },
    )


def _integers(values: Sequence[int]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.int64))


def _floats(values: Sequence[float]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.float32))
