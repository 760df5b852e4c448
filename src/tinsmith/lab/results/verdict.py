"""First sentence of a page: a score beside chance and the best baseline, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tinsmith.pages.measures import Measure
from tinsmith.pages.wording import told

_GUESSING: Final = {-1: "Worse than guessing", 0: "No better than guessing", 1: "Better than guessing"}
_BASELINE: Final = {-1: "below the best baseline", 0: "no better than the best baseline", 1: "above every baseline"}
_BEFORE: Final = {-1: "Worse than before training", 0: "No gain shown", 1: "Better than before training"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A score to compare with, and on which side of it the system stands: 1 above, -1 below, 0 not told apart."""

    name: str
    value: float
    side: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The score of a system on items that it was not trained on, beside what it is measured by."""

    score: str
    found: Measure
    chance: float | None = None
    before: Beside | None = None
    baselines: Sequence[Beside] = ()
    more: str = ""
    """Ends the sentence, such as how often one class was the answer."""

    @property
    def best(self) -> Beside | None:
        """The baseline with the highest score."""
        return max(self.baselines, key=lambda one: one.value, default=None)

    @property
    def sentence(self) -> str:
        """The verdict, then the score, chance, the score before training, and the best baseline."""
        heads: list[str] = []
        if self.chance is not None:
            heads.append(_GUESSING[side_of(self.found, self.chance)])
        if self.before is not None:
            heads.append(_BEFORE[self.before.side])
        best = self.best
        # Below chance, where one stands to a baseline says nothing more.
        if best is not None and not (self.chance is not None and side_of(self.found, self.chance) < 1):
            heads.append(_BASELINE[best.side])
        figures = [
            f"{self.score} {told(self.found)}",
            *([] if self.chance is None else [f"chance {self.chance:.3f}"]),
            *([] if self.before is None else [f"{self.before.name} {self.before.value:.3f}"]),
            f"best baseline {best.name} {best.value:.3f}" if best else "no baseline is known",
        ]
        head = ", ".join(heads)
        more = f"; {self.more}" if self.more else ""
        return f"{head[:1].upper()}{head[1:]}{': ' if head else ''}{', '.join(figures)}{more}."


def side_of(found: Measure, level: float) -> int:
    """Return 1 if the interval of a measure is above a level, -1 if below it, 0 if it holds it.

    >>> side_of(Measure(0.5, 0.4, 0.6), 0.35), side_of(Measure(0.5, 0.4, 0.6), 0.45), side_of(Measure(0.2), 0.3)
    (1, 0, -1)
    """
    low, high = (found.value if end is None else end for end in (found.low, found.high))
    return (low > level) - (high < level)
