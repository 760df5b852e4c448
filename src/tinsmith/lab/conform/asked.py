"""The texts, datums and parameters of all checks: token ids that every vocabulary has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tinker import types

FloatArray = NDArray[np.float32]
Numbers = Sequence[float] | NDArray[Any]

NOT_A_TOKEN: Final = 2_000_000_000
"""Beyond every vocabulary, and within the int32 of the wire."""
ADAM: Final = types.AdamParams(learning_rate=0.01, eps=0.01)
"""An eps of the gradients' size: a step then depends on the gradient's length too."""


def tokens_of(text: str) -> list[int]:
    """Return the bytes of a text; as token ids they are some words or other of every model."""
    return list(text.encode())


def prompt_of(tokens: Sequence[int]) -> types.ModelInput:
    """Return tokens as a prompt."""
    return types.ModelInput.from_ints(list(tokens))


def datum(tokens: Sequence[int], inputs: Mapping[str, Numbers] | None = None) -> types.Datum:
    """Return a datum that predicts every token but the first; `inputs` have one number per prediction."""
    columns = {"target_tokens": types.TensorData.from_numpy(np.array(tokens[1:], dtype=np.int64))}
    for name, values in (inputs or {}).items():
        columns[name] = types.TensorData.from_numpy(np.asarray(values, dtype=np.float32))
    return types.Datum(model_input=prompt_of(tokens[:-1]), loss_fn_inputs=columns)


def text_datum(text: str) -> types.Datum:
    """Return a datum of a text whose every prediction weighs 1."""
    tokens = tokens_of(text)
    return datum(tokens, {"weights": [1.0] * (len(tokens) - 1)})


PROMPT: Final = tokens_of("the tinsmith said: ")
TEXTS: Final = ("the tin is cut and bent", "a seam is soldered twice", "then it holds water")
DATA: Final = tuple(text_datum(text) for text in TEXTS)


def params(**changes: object) -> types.SamplingParams:
    """Return the parameters of 16 tokens, whatever they are."""
    return types.SamplingParams.model_validate({"max_tokens": 16, "stop": [], **changes})


def logprobs_of(output: types.ForwardBackwardOutput) -> list[FloatArray]:
    """Return the log-probabilities of every datum."""
    return [np.asarray(one["logprobs"].to_numpy()) for one in output.loss_fn_outputs]
