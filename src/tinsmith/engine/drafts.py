"""Drafts of a sample's next tokens, found in its prompt and output: code, JSON and quotations repeat.

A drawn token depends only on the logits and the position, so a draft cannot change it: the draft's rows are computed
beside that of the latest token, and are used as long as the drawn tokens equal the drafted ones. Rejected rows leave
keys behind that are overwritten before they are read. Source: "Prompt Lookup Decoding" (A. Saxena, 2023), with the test
of "Fast Inference from Transformers via Speculative Decoding" (Leviathan et al., 2023) replaced by equality, as the
noise of a draw is a function of its position.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tinsmith.types.datum import IntArray

MOST_SAMPLES: Final = 2
"""Most samples in a step with drafts: beyond that, a rejected row costs more than it could save."""
_MATCH: Final = 3
"""Number of latest tokens that must match earlier ones."""
_WIDTHS: Final = (1, 3, 7)
"""Lengths of a draft. They are few, since steps are recorded by their number of rows."""
_BYTES: Final = 4


@dataclass(slots=True)
class Drafts:
    """Tokens of a sample, and the length of its drafts: longer after an accepted one, shorter after a rejected one."""

    prompt: IntArray
    _read: bytearray = field(default_factory=bytearray)
    """Prompt and output tokens so far."""
    _width: int = 0
    """Index of the next length in `_WIDTHS`."""
    _drafted: int = 0
    """Tokens of the latest draft; 0 if there was none."""

    def next(self, tokens: Sequence[int], most: int) -> list[int]:
        """Return up to `most` tokens that followed the latest ones earlier; none if these are new."""
        if not self._read:
            self._read += np.ascontiguousarray(self.prompt, np.int32).tobytes()
        new = tokens[len(self._read) // _BYTES - len(self.prompt) :]
        self._read += np.array(new, np.int32).tobytes()
        if self._drafted:
            came_true = len(new) - 1
            step = 1 if came_true == self._drafted else -1 if came_true < self._drafted - 1 else 0
            self._width = min(max(self._width + step, 0), len(_WIDTHS) - 1)
        found = self._followed(min(most, _WIDTHS[self._width]))
        self._drafted = max((width for width in _WIDTHS if width <= len(found)), default=0)
        return found[: self._drafted]

    def _followed(self, most: int) -> list[int]:
        tail, end = self._read[-_MATCH * _BYTES :], len(self._read) - 1
        at = self._read.rfind(tail, 0, end)
        while at % _BYTES and at > 0:  # between two tokens
            at = self._read.rfind(tail, 0, at + len(tail) - 1)
        if at < 0 or most < 1:
            return []
        first = at + len(tail)
        return np.frombuffer(bytes(self._read[first : first + most * _BYTES]), np.int32).tolist()
