"""Settings of a corpus's metrics, and the content of `metrics.json`."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tinsmith.data.indices.atypicality import Null, NullModel
from tinsmith.types.errors import ConfigError

FORMAT = 1
"""Version of the metrics' semantics, incremented whenever a number changes."""
DAYS_PER_YEAR = 365.25


class Granularity(enum.StrEnum):
    """Unit of a citer's distance in time from a paper."""

    YEAR = "year"
    DAY = "day"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSettings:
    """Settings that determine the metrics of a corpus.

    Raises:
        ConfigError: a setting that is invalid, or without effect.
    """

    window: int = 5
    """Years after a paper in which citers count."""
    granularity: Granularity = Granularity.YEAR
    window_days: int | None = None
    """Window in days, for DAY, instead of `window` years of 365.25 days, rounded down (5 are 1,826 days)."""
    null: Null = field(default_factory=Null)
    pool_years: int = 1
    """Number of citing years whose journal pairs are compared with each other."""

    def __post_init__(self) -> None:
        positive = (
            ("window", self.window),
            ("window_days", 1 if self.window_days is None else self.window_days),
            ("nulls", self.null.nulls),
            ("pool_years", self.pool_years),
        )
        for name, value in positive:
            if not 0 < value < 2**31:
                raise ConfigError(f"{name} must be above zero", field=name, value=value, allowed="1 to 2**31 - 1")
        if self.null.model is NullModel.SWITCHING and self.null.nulls < 2:
            raise ConfigError(
                "a deviation needs two networks or more", field="nulls", value=self.null.nulls, allowed="2 to 2**31 - 1"
            )
        if self.window_days is not None and self.granularity is not Granularity.DAY:
            raise ConfigError(
                "a window in days needs days", field="window_days", value=self.window_days, fix="add --granularity day"
            )

    @property
    def length(self) -> int:
        """Length of the window in the granularity's unit."""
        if self.granularity is Granularity.YEAR:
            return self.window
        return int(self.window * DAYS_PER_YEAR) if self.window_days is None else self.window_days

    def echoed(self) -> dict[str, str | int]:
        """Return the settings in effect, for cards."""
        rows: dict[str, str | int] = {"granularity": self.granularity.value}
        if self.granularity is Granularity.YEAR:
            rows["window_years"] = self.length
        else:
            rows["window_days"] = self.length
        rows |= {"null": self.null.model.value, "pool_years": self.pool_years}
        if self.null.model is NullModel.SWITCHING:
            rows |= {"nulls": self.null.nulls, "seed": self.null.seed}
        return rows


class MetricsCard(msgspec.Struct, frozen=True, kw_only=True):
    """Settings and counts of a corpus's metrics; the same corpus and settings give the same card."""

    settings: dict[str, str | int]
    papers: int
    edges: int
    status: dict[str, int]
    """Papers by the evidence for their CD index (CdStatus)."""
    full_window: int
    """Papers whose whole window is covered by the corpus."""
    scored: int
    """Papers with a z: at least two references with a journal, and a defined pair."""
    pair_cells: int
    """Pairs of journals that occur, counted once per block of citing years."""
    undefined_pair_cells: int
    """Pairs without a z, because every random network has the same count."""
    corpus: str
    """Fingerprint of the corpus."""
    fingerprint: str
    """SHA-256 (hex) over the content of all columns, the settings and the corpus's fingerprint."""
    format: int = FORMAT


def write_metrics_card(card: MetricsCard, path: Path) -> None:
    """Write `card` as JSON; not atomic, the caller stages it."""
    encoded = msgspec.json.encode(card, order="sorted")
    path.write_bytes(msgspec.json.format(encoded, indent=2) + b"\n")
