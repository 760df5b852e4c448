"""Sizes and shares of a synthetic world: named presets, each with the cut on the CD index it is tuned for.

The smaller a world, the larger the cut: a paper cited once is neutral at 0.001 only where more than a
thousand papers cite its references. In the smallest world long reference lists would overlap by
accident and leave nothing disruptive, so its lists are short.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from tinsmith.types.errors import ConfigError

ID_NUMBERS: Final = 10_000_000
"""Number of seven-digit ids: no world has more papers."""
MAX_FIELDS: Final = 104
MAX_TOPICS: Final = 12


class Preset(enum.StrEnum):
    """Named worlds."""

    TINY = "tiny"
    SMALL = "small"
    FULL = "full"


class Cause(enum.StrEnum):
    """Cause of a paper's citations: cited instead of its references, together with them, or rarely."""

    PIONEER = "pioneer"
    DEVELOPER = "developer"
    ROUTINE = "routine"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSpec:
    """Settings of a world; scale one with `dataclasses.replace(spec, papers=...)`.

    Raises:
        ConfigError: a size is outside the range of names and ids.
    """

    papers: int
    fields: int
    """Fields of science, largest first (Zipf with exponent 0.6)."""
    topics: int
    """Topics of each field, of equal size."""
    shares: tuple[float, float, float]
    """Shares of the causes, in order."""
    mortality: float
    """Base probability that nobody ever picks a paper; its cause raises or lowers it."""
    references: int
    """Median length of a reference list."""
    cut: float
    """Recommended cut on the CD index."""

    def __post_init__(self) -> None:
        for field, value, highest in (
            ("papers", self.papers, ID_NUMBERS),
            ("fields", self.fields, MAX_FIELDS),
            ("topics", self.topics, MAX_TOPICS),
        ):
            if not 1 <= value <= highest:
                raise ConfigError(
                    "a synthetic world cannot have this size", field=field, value=value, allowed=f"1 to {highest:,}"
                )


PRESETS: Final[Mapping[Preset, WorldSpec]] = MappingProxyType(
    {
        Preset.TINY: WorldSpec(
            papers=2_000, fields=4, topics=4, shares=(0.25, 0.35, 0.40), mortality=0.45, references=6, cut=0.02
        ),
        Preset.SMALL: WorldSpec(
            papers=30_000, fields=8, topics=12, shares=(0.18, 0.40, 0.42), mortality=0.36, references=14, cut=0.01
        ),
        Preset.FULL: WorldSpec(
            papers=200_000, fields=8, topics=12, shares=(0.15, 0.40, 0.45), mortality=0.36, references=14, cut=0.001
        ),
    }
)


def scaled(papers: int) -> WorldSpec:
    """Return the full preset's world at another size.

    Fields grow in number, not in size, and from a million papers on reference lists are longer, as in
    the literature; both keep the shares of the labels at the same cut. Two million papers make 45
    million references.
    """
    full = PRESETS[Preset.FULL]
    fields = max(1, min(MAX_FIELDS, full.fields * papers // full.papers))
    references = 20 if papers >= 1_000_000 else full.references
    return replace(full, papers=papers, fields=fields, references=references)
