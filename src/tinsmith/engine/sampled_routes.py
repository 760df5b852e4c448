"""Experts of sampled sequences, retained for training: sampler and trainer are compared token by token.

Only digests are stored, eight bytes per token, and of the latest sequences only.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tinsmith.types.datum import Datum, DatumOutput, IntArray
from tinsmith.types.sampling import SampleRequest, SampleResult

MAX_TOKENS: Final = 1 << 23
"""Limit on the tokens whose digests are stored: 64 MiB."""


@dataclass(slots=True)
class SampledRoutes:
    """Digests of routes, keyed by a sequence's tokens. Not thread-safe."""

    most: int = MAX_TOKENS
    _digests: OrderedDict[bytes, NDArray[np.int64]] = field(default_factory=OrderedDict[bytes, NDArray[np.int64]])
    _tokens: int = 0

    def keep(self, request: SampleRequest, result: SampleResult) -> None:
        """Store the routes of a request's samples; the latest replace those of the same tokens."""
        for sequence in result.sequences:
            if sequence.routes is None:
                continue
            fed = _key(np.concatenate([request.prompt, sequence.tokens[:-1]]))
            self._forget(fed)
            self._digests[fed] = sequence.routes.copy()  # not the whole array that it is a view of
            self._tokens += len(sequence.routes)
        while self._tokens > self.most:
            self._forget(next(iter(self._digests)))

    def compared(self, pairs: Iterable[tuple[Datum, DatumOutput]]) -> dict[str, float]:
        """Return the number of trained tokens that were sampled here, and the number of those that took other experts.

        Nothing where the model is no mixture. An earlier optimizer step, as of a second substep, makes routes differ.
        """
        num_compared = unequal = 0
        routed = False
        for datum, output in pairs:
            if output.routes is None:
                continue
            routed = True
            sampled = self._digests.get(_key(datum.tokens))
            if sampled is not None:
                num_compared += len(sampled)
                unequal += int(np.count_nonzero(sampled != output.routes))
        if not routed:
            return {}
        return {"e_compared_routes:sum": float(num_compared), "e_unequal_routes:sum": float(unequal)}

    def _forget(self, key: bytes) -> None:
        old = self._digests.pop(key, None)
        if old is not None:
            self._tokens -= len(old)


def _key(tokens: IntArray) -> bytes:
    return tokens.astype("<i4").tobytes()
