"""Settings of a slice: the task, the thresholds, the selection and number of papers, and the splits."""

from __future__ import annotations

import datetime as dt
import enum
import re
from dataclasses import dataclass

import msgspec

from tinsmith.data.indices.cd_status import CdStatus
from tinsmith.data.labels import Disruption, Novelty, Thresholds
from tinsmith.data.slices.splits import Split, SplitScheme
from tinsmith.types.errors import ConfigError


class Task(enum.StrEnum):
    """Question about a paper; it determines the classes and the labelled papers."""

    DISRUPTION = "disruption"
    NOVELTY = "novelty"
    JOINT = "joint"
    """Both. The classes are the nine pairs of labels. A slice balanced over them has two balanced, independent labels,
    so that predicting both shows two abilities. The rarest pair limits the size; without a number per class a slice has
    every paper with both labels, in their natural mixture."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes over which a slice is balanced, in the order of their codes."""
        if self is Task.JOINT:
            return tuple(_pair(one, other) for one in Disruption for other in Novelty)
        return tuple(one.value for one in (Novelty if self is Task.NOVELTY else Disruption))

    def class_of(self, disruption: Disruption | None, novelty: Novelty | None) -> str:
        """Return the class of a paper with these labels, as text."""
        if self is Task.JOINT:
            return _pair(disruption, novelty)
        return str(novelty if self is Task.NOVELTY else disruption)


def _pair(disruption: Disruption | None, novelty: Novelty | None) -> str:
    return f"{disruption}+{novelty}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """Most papers of each split; None for no limit."""

    train: int | None = None
    validation: int | None = None
    test: int | None = None

    def __post_init__(self) -> None:
        for split in Split:
            cap = self.of(split)
            if cap is not None and cap < 1:
                raise ConfigError(
                    "a split needs at least one paper: runs read all three",
                    field=split.value,
                    value=cap,
                    fix="name one or more, or leave it out",
                )

    def of(self, split: Split) -> int | None:
        """Return the cap of one split."""
        return (self.train, self.validation, self.test)[tuple(Split).index(split)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceSettings:
    """Settings that, with a corpus and its metrics, determine a slice.

    Raises:
        ConfigError: an invalid number, or `before` and `after` without a day between them.
    """

    task: Task
    thresholds: Thresholds
    per_class: int | None
    """Papers of each class over all splits; None for the natural mixture."""
    caps: Caps = Caps()
    seed: int = 0
    scheme: SplitScheme = SplitScheme.NATIVE
    oversample: bool = False
    """True to repeat training papers of a class with fewer than `per_class`."""
    status: CdStatus | None = None
    """Required evidence for the CD index."""
    full_window: bool = False
    """True to require that the whole window is covered by the corpus."""
    min_references: int = 0
    """Least references in the corpus."""
    min_citers: int = 0
    """Least citers in the corpus, at any time."""
    before: dt.date | None = None
    """Day before which papers must be published."""
    after: dt.date | None = None
    """First day of publication."""
    citations: bool = True
    """True to include `cited_by_count` in the rows; it leaks the label: uncited papers are neutral."""
    year: bool = True
    """True to include `publication_year` in the rows; it leaks how complete the window is."""
    left_out: str | msgspec.UnsetType = msgspec.UNSET
    """SHA-256 of the ids of excluded papers (`LeftOut`), if there are any."""

    def __post_init__(self) -> None:
        for field, value, least in (
            ("per_class", self.per_class, 1),
            ("min_references", self.min_references, 0),
            ("min_citers", self.min_citers, 0),
        ):
            if value is not None and value < least:
                raise ConfigError("this number is too small", field=field, value=value, allowed=f"{least} or more")
        if self.oversample and self.per_class is None:
            raise ConfigError(
                "a natural slice has nothing to oversample",
                field="oversample",
                value=True,
                fix="ask for a number per class",
            )
        if self.before and self.after and self.before <= self.after:
            raise ConfigError(
                "--before must be later than --after",
                field="before",
                value=self.before.isoformat(),
                allowed=f"a day later than {self.after.isoformat()}",
            )


def parse_day(text: str, field: str) -> dt.date:
    """Parse YYYY, YYYY-MM or YYYY-MM-DD to its first day.

    Raises:
        ConfigError: it has another form, or is not a day.
    """
    found = re.fullmatch(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", text.strip(), re.ASCII)
    try:
        if found:
            year, month, day = (int(part or 1) for part in found.groups())
            return dt.date(year, month, day)
    except ValueError:
        pass
    raise ConfigError("not a date", field=field, value=text, allowed="YYYY, YYYY-MM or YYYY-MM-DD")
