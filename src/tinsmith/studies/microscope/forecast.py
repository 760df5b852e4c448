"""How long a look through the microscope takes: nearly all of it is that each correction computes its text anew."""

from __future__ import annotations

from typing import Final

from tinsmith.lab.experiment.model_pace import Lengths, Pace
from tinsmith.studies.microscope.agreement import Writer

_OF_HABIT: Final = 0.14
"""Corrections to a token by all three rules together: of a nano base on `crossroads`."""
_PRETRAINED: Final = 1.4
"""The same, of SmolLM2 on sums."""
_POLICIES: Final = 2
"""Each of which says what it thinks of every text."""


def look_seconds(lengths: Lengths, samples: int, pace: Pace, *, pretrained: bool) -> float:
    """Return how long a look at two policies takes, with the answers that they write and the control's."""
    prompt, answer = lengths.prompt, lengths.answer
    answers = lengths.examined * (1 + samples)
    written = prompt * pace.read + answer * pace.written
    told = _POLICIES * (prompt + answer) * pace.read
    # A correction goes on from the prompt and half of the answer, and both say what they think of the whole.
    corrected = prompt * pace.read + answer / 2 * (pace.read + pace.written) + told
    corrections = (_PRETRAINED if pretrained else _OF_HABIT) * answer
    looks = len(Writer) + 1  # each that writes, and the second against itself
    return answers * (looks * (written + told) + corrections * corrected)
