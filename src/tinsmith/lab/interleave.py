"""Batches of two pools of items at an exact ratio: which step takes from which, a pure function of the step.

At `a:b` every a + b steps hold exactly b of the pool that is aside, spread evenly, the last one at their end. Nothing
is drawn or kept, so that a resumed run needs no cursor. Source: the interleaving of arXiv:2605.16143.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tinsmith.types.errors import ConfigError

NONE: Final = "none"
_RATIO: Final = re.compile(r"([1-9]\d{0,3}):([1-9]\d{0,3})")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one step takes: from which pool, and how many steps took from that pool before."""

    aside: bool
    before: int


@dataclass(frozen=True, slots=True)
class Ratio:
    """So many batches of the main items to so many of those aside."""

    main: int
    aside: int

    def turn(self, step: int) -> Turn:
        """Return what a step takes; 0 is the first.

        >>> ["aside" if Ratio(2, 1).turn(step).aside else "main" for step in range(6)]
        ['main', 'main', 'aside', 'main', 'main', 'aside']
        """
        before = step * self.aside // (self.main + self.aside)
        aside = (step + 1) * self.aside // (self.main + self.aside) > before
        return Turn(aside=aside, before=before if aside else step - before)

    @property
    def overhead(self) -> float:
        """The share of all batches that is aside, over whole rounds."""
        return self.aside / (self.main + self.aside)


def ratio_of(text: str) -> Ratio | None:
    """Read `A:B`; None: `none`, and every batch is of main items."""
    if text == NONE:
        return None
    found = _RATIO.fullmatch(text)
    if found is None:
        raise ConfigError(
            "this is a ratio of batches",
            field="interleave",
            value=text,
            allowed="none, or A:B with whole numbers from 1 to 9999, such as 5:1",
        )
    return Ratio(int(found[1]), int(found[2]))
