"""From rollouts and answers to the datums that a Tinker server trains on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tinker
from tinker import types

from tinsmith.training.rollouts import Rollout


def policy_datum(rollout: Rollout, advantages: Sequence[float]) -> tinker.Datum:
    """A datum of a policy-gradient loss: one advantage for each of the rollout's tokens, none for the prompt."""
    tokens = [*rollout.prompt, *rollout.tokens]
    zeros = [0.0] * (len(rollout.prompt) - 1)
    return types.Datum(
        model_input=types.ModelInput.from_ints(tokens[:-1]),
        loss_fn_inputs={
            "target_tokens": _integers(tokens[1:]),
            "logprobs": _floats([*zeros, *rollout.logprobs]),
            "advantages": _floats([*zeros, *advantages]),
        },
    )


def answer_datum(tokens: Sequence[int], prompt_length: int, weight: float) -> tinker.Datum:
    """A cross-entropy datum on what follows the prompt, each token with the same weight."""
    count = len(tokens) - prompt_length
    return types.Datum(
        model_input=types.ModelInput.from_ints(list(tokens[:-1])),
        loss_fn_inputs={
            "target_tokens": _integers(tokens[1:]),
            "weights": _floats([0.0] * (prompt_length - 1) + [weight] * count),
        },
    )


def _integers(values: Sequence[int]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.int64))


def _floats(values: Sequence[float]) -> types.TensorData:
    return types.TensorData.from_numpy(np.array(values, dtype=np.float32))
