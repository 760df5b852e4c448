"""The hidden states of a base model over short texts: after every layer, their mean over the text and its last row.

They are computed by the decoder that samples and trains, with the same kernels, so they are the same bits anywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from tinsmith.models.base import open_base, tokenizer_of
from tinsmith.models.build import build_decoder
from tinsmith.models.decoder import Decoder
from tinsmith.models.steps import TrainSteps
from tinsmith.ops.forest import Forest
from tinsmith.ops.functions import Weight
from tinsmith.ops.select import select
from tinsmith.types.arithmetic import Arithmetic
from tinsmith.types.errors import DataError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_ROWS = 1024  # Most tokens that go through the model together; no state hangs on it.


class Pooling(StrEnum):
    """Pooling of a text's hidden states over its tokens."""

    MEAN = "mean"
    LAST = "last"


@dataclass(frozen=True, slots=True, eq=False)
class HiddenStates:
    """Pooled states of texts; layer 0 is the embedding, layer n the output of block n."""

    fingerprint: str  # Of the model's weights.
    by_pooling: dict[Pooling, NDArray[np.float32]]  # (texts, layers + 1, width) each.

    @property
    def layers(self) -> int:
        """Number of layers, the embedding counted."""
        return self.by_pooling[Pooling.MEAN].shape[1]


@dataclass(slots=True)
class _Watched(TrainSteps):
    """Decoder steps that record the input of each block, and the output of the last."""

    sums: list[Tensor] = field(default_factory=list[Tensor])

    def add_norm(self, x: Tensor, delta: Tensor | None, gain: Weight, eps: float) -> tuple[Tensor, Tensor]:
        total, normed = TrainSteps.add_norm(self, x, delta, gain, eps)
        self.sums.append(total)
        return total, normed


def hidden_states(model: str, texts: Sequence[str], say: Callable[[str], None]) -> HiddenStates:
    """Return the states of a model, which is named as for `tinsmith serve`, over texts without a template."""
    fingerprint, decoder, tokenizer = _opened(model)
    tokens = [np.array(tokenizer.encode(text, add_special_tokens=False), np.int64) for text in texts]
    empty = next((text for text, each in zip(texts, tokens, strict=True) if not len(each)), None)
    if empty is not None:
        raise DataError("a text has no token", field="text", value=empty)
    shape = (len(texts), decoder.config.num_layers + 1, decoder.config.hidden_size)
    pooled = {pooling: np.zeros(shape, np.float32) for pooling in Pooling}
    done = 0
    for block in _blocks(tokens):
        for place, states in zip(block, _states(decoder, [tokens[i] for i in block]), strict=True):
            pooled[Pooling.MEAN][place] = states.mean(axis=1, dtype=np.float64)
            pooled[Pooling.LAST][place] = states[:, -1]
        if (done + len(block)) // 1000 > done // 1000:
            say(f"hidden states of {done + len(block):,} of {len(texts):,} texts")
        done += len(block)
    return HiddenStates(fingerprint, pooled)


def _opened(model: str) -> tuple[str, Decoder, PreTrainedTokenizerBase]:
    torch.set_num_threads(1)  # the kernels have threads of their own
    base = open_base(model)
    decoder = build_decoder(base.config, base.weights, select(Arithmetic.CANONICAL))
    return base.identity.fingerprint, decoder, tokenizer_of(model)


@dataclass(slots=True)
class LastStates:
    """Reads the state of the last layer after the last token of texts, before the final norm."""

    model: Callable[[], str]  # Returns its name, as for `tinsmith serve`, when it is first read.
    _read: tuple[Decoder, PreTrainedTokenizerBase] | None = None
    _known: dict[str, NDArray[np.float64]] = field(default_factory=dict[str, NDArray[np.float64]])

    def __call__(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the states, (texts, width), divided by the square root of the width."""
        if self._read is None:
            self._read = _opened(self.model())[1:]
        decoder, tokenizer = self._read
        fresh = [text for text in dict.fromkeys(texts) if text not in self._known]
        tokens = [np.array(tokenizer.encode(text, add_special_tokens=False), np.int64) for text in fresh]
        for block in _blocks(tokens):
            for place, states in zip(block, _states(decoder, [tokens[i] for i in block]), strict=True):
                last = states[-1, -1].astype(np.float64)
                self._known[fresh[place]] = last / math.sqrt(len(last))
        return np.stack([self._known[text] for text in texts])


def _blocks(tokens: Sequence[NDArray[np.int64]]) -> list[list[int]]:
    """Split the texts into batches of at most so many rows, or one text."""
    blocks: list[list[int]] = []
    rows = _ROWS
    for place, each in enumerate(tokens):
        if rows + len(each) > _ROWS:
            blocks.append([])
            rows = 0
        blocks[-1].append(place)
        rows += len(each)
    return blocks


def _states(decoder: Decoder, tokens: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
    """Return (layers + 1, tokens, width) for each text."""
    forest = Forest.whole([len(each) for each in tokens])
    steps = _Watched(decoder.kernels, forest)
    with torch.no_grad():
        decoder.hidden(steps, torch.from_numpy(np.concatenate(tokens)))
    # Two sums a block: what goes into it, and what goes into its MLP; the final norm's is the last block's.
    layers = np.stack([each.detach().cpu().numpy() for each in steps.sums[::2]])
    ends = np.cumsum([len(each) for each in tokens])[:-1]
    return np.split(layers, ends.tolist(), axis=1)
