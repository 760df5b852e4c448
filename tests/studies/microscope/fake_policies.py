"""Policies whose distributions are a table, so that what the microscope has to see is known."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinsmith.lab.service.served_policy import Draw, Spread

END = 0
Law = Callable[[tuple[int, ...]], tuple[float, ...]]
"""From the tokens so far to the probabilities of the next."""


@dataclass(frozen=True, slots=True)
class TablePolicy:
    """Answers as ServedPolicy does; what it samples is what is most probable."""

    law: Law

    def spreads(
        self,
        texts: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]] | None = None,
        begins: Sequence[int] | None = None,
    ) -> list[Spread]:
        """Answer as ServedPolicy."""
        requests = targets or [text[1:] for text in texts]
        return [
            _from(begin, self._spread(tuple(text), about))
            for begin, text, about in zip(begins or [1] * len(texts), texts, requests, strict=True)
        ]

    def drawn(
        self, asked: Sequence[Draw], *, temperature: float, stop: Sequence[int] | Sequence[str]
    ) -> list[tuple[int, ...]]:
        """Answer as ServedPolicy."""
        del temperature
        return [self._written(one, stop) for one in asked]

    def _written(self, one: Draw, stop: Sequence[int] | Sequence[str]) -> tuple[int, ...]:
        text = list(one.prompt)
        while len(text) < len(one.prompt) + one.max_tokens:
            text.append(_best(self.law(tuple(text))))
            if text[-1] in stop:
                break
        return tuple(text[len(one.prompt) :])

    def _spread(self, text: tuple[int, ...], about: Sequence[int]) -> Spread:
        rows = [self.law(text[: at + 1]) for at in range(len(text) - 1)]
        return Spread(
            rank=(None, *(_rank(row, token) for row, token in zip(rows, about, strict=True))),
            entropy=(None, *(-math.fsum(p * math.log(p) for p in row if p) for row in rows)),
            logprob=(
                None,
                *(math.log(row[token]) if row[token] else None for row, token in zip(rows, about, strict=True)),
            ),
            argmax=(None, *(_best(row) for row in rows)),
        )


def _best(row: Sequence[float]) -> int:
    return max(range(len(row)), key=lambda token: (row[token], -token))


def _rank(row: Sequence[float], token: int) -> int:
    return 1 + sum((p, -other) > (row[token], -token) for other, p in enumerate(row) if other != token)


def _from(begin: int, whole: Spread) -> Spread:
    """Leave out what was not asked about."""
    unasked = (None,) * begin
    return Spread(
        rank=unasked + whole.rank[begin:],
        entropy=unasked + whole.entropy[begin:],
        logprob=unasked + whole.logprob[begin:],
        argmax=unasked + whole.argmax[begin:],
    )
