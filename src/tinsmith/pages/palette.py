"""Colours, lines and marks of classes, reward terms and runs on every figure and in every table.

Figures are drawn in stand-in colours, which become the page's CSS variables: one drawing serves light and dark.
The colours can be told apart with any colour vision, and each also has its own mark and dashes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Dash = str | tuple[int, tuple[float, ...]]

INK, MUTED, LINE, ALARM, INVALID, HEAT = (f"#0000{i:02x}" for i in range(1, 7))

_VARIABLES = {INK: "--ink", MUTED: "--muted", LINE: "--line", ALARM: "--alarm", INVALID: "--invalid", HEAT: "--heat"}
_SERIES = 8
_SLOTS: Mapping[str, int] = {
    "disruptive": 0,
    "consolidating": 1,
    "neutral": 2,
    "novel": 3,
    "conventional": 4,
    "balanced": 2,
}
"""The slot of a known label: whatever lies between two extremes has the same grey."""
_CLASSES = 6

_DASHES: tuple[Dash, ...] = ("-", (0, (5, 1.6)), (0, (1.4, 1.4)), (0, (6, 1.5, 1.2, 1.5)))
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")


@dataclass(frozen=True, slots=True)
class Mark:
    """A stand-in colour, a dash pattern, a marker."""

    color: str
    dash: Dash
    marker: str


INVALID_MARK = Mark(INVALID, (0, (1.2, 2.4)), "x")  # Of answers that satisfy no contract.


def class_slot(label: str, place: int) -> int:
    """Return the slot of a label's colour and shape; `place` in the task's order decides for unknown ones."""
    return _SLOTS.get(label, place % _CLASSES)


def class_mark(label: str, place: int) -> Mark:
    """Return the mark of the label at `place` in the task's order."""
    slot = class_slot(label, place)
    return Mark(f"#0001{slot:02x}", _DASHES[slot % len(_DASHES)], _MARKERS[slot])


def series_mark(place: int) -> Mark:
    """Return the mark of the run, term or quantity at `place` of its figure."""
    place %= _SERIES
    return Mark(f"#0002{place:02x}", _DASHES[place % len(_DASHES)], _MARKERS[place])


def stand_ins() -> dict[str, str]:
    """Return every stand-in colour with its CSS value, `var(--...)`."""
    named = (
        _VARIABLES
        | {f"#0001{i:02x}": f"--class-{i}" for i in range(_CLASSES)}
        | {f"#0002{i:02x}": f"--series-{i}" for i in range(_SERIES)}
    )
    return {color: f"var({name})" for color, name in named.items()}
