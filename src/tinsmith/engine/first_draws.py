"""Prompts with more samples than one step draws first tokens for, each with the logits of its last token."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tinsmith.engine.sequences import Group, Sample


@dataclass(slots=True)
class _Undrawn:
    group: Group
    logits: Tensor
    """Of the prompt's last token, (1, vocabulary)."""
    drawn: int = 0


@dataclass(slots=True)
class FirstDraws:
    """Queue of first tokens: each step draws as many as a step decodes, and as many for one prompt as for another.

    A token's noise is a function of seed, sample and position, so that the step it is drawn in changes no bit.
    """

    most: int
    """First tokens drawn in one step."""
    _left: int = 0
    _undrawn: list[_Undrawn] = field(default_factory=list[_Undrawn])

    def __bool__(self) -> bool:
        return bool(self._undrawn)

    def begin_step(self) -> None:
        """Begin a step, in which nothing was drawn yet."""
        self._left = self.most

    def at_once(self, group: Group, logits: Tensor) -> bool:
        """Return whether all samples of a new prompt are drawn in this step; otherwise queue them."""
        if len(group.samples) <= self._left:
            self._left -= len(group.samples)
            return True
        self._undrawn.append(_Undrawn(group, logits.clone()))
        return False

    def next(self) -> tuple[list[tuple[int, Group, Sample]], Tensor] | None:
        """Return (row, group, sample) of the queued draws of this step, and their rows; None if there are none."""
        if not self._undrawn:
            return None
        share = max(1, self._left // len(self._undrawn))
        drawn = [
            (row, one.group, sample)
            for row, one in enumerate(self._undrawn)
            for sample in one.group.samples[one.drawn : one.drawn + share]
        ]
        logits = torch.cat([one.logits for one in self._undrawn])
        for one in self._undrawn:
            one.drawn += share
        self._undrawn = [one for one in self._undrawn if one.drawn < len(one.group.samples)]
        return drawn, logits

    def drop(self, group: Group) -> None:
        """Draw no more for a request."""
        self._undrawn = [one for one in self._undrawn if one.group is not group]
