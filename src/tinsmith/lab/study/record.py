"""Kept values of a study: what `study.json` holds, and all that its page is made of but the seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tinsmith.lab.runs.records import Run
from tinsmith.pages.document import Reply
from tinsmith.pages.measures import BOOTSTRAP, Measure, ranged, signed
from tinsmith.pages.tables import Column, Shown
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate import Claim
from tinsmith.stats.significance import ALPHA
from tinsmith.types.page_names import p_words

_TRAINING: Final = ("sample_s", "score_s", "train_s")
"""Parts of a step that are training; evaluations and saving are left out, as in the FLOPs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Settings of the draws behind a study's intervals."""

    claims: Bootstrap = Bootstrap()  # noqa: RUF009 - frozen
    tables: Bootstrap = BOOTSTRAP


DRAWS: Final = Draws()


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """Seconds of a run of an arm on this machine: a mean over its seeds."""

    a_step: float | None  # Of the update in one step; None: nothing was trained.
    training: float
    run: float  # With evaluations.

    @classmethod
    def of(cls, found: Sequence[Run]) -> Seconds:
        """Return how long runs took, a mean over them."""
        lines = [line for run in found for line in run.timings]
        updates = [value for line in lines if (value := line.get("train_s")) is not None]
        return cls(
            a_step=math.fsum(updates) / len(updates) if updates else None,
            training=math.fsum(line.get(name) or 0.0 for line in lines for name in _TRAINING) / len(found),
            run=math.fsum(line.get("step_s") or 0.0 for line in lines) / len(found),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One learning rate."""

    rate: float
    validation: float
    """Score of its run's chosen checkpoint on the validation split, by what checkpoints are chosen by."""
    tie_break: float
    behind: Measure | None = None
    """The chosen rate's score less this one's, on the same items; None: it is the chosen one, or nothing was kept."""

    @property
    def like_the_chosen(self) -> bool:
        """True if validation does not tell it from the chosen one."""
        return self.behind is not None and self.behind.low is not None and self.behind.low <= 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmGain:
    """One arm before and after training, on held-out items: means over seeds and items."""

    name: str
    words: str
    before: Measure
    after: Measure
    gain: Measure
    p_value: float
    p_holm: float  # Corrected over the study's arms.
    greedy_before: float
    greedy_after: float

    @property
    def holds(self) -> bool:
        """True if the gain's interval excludes 0, and its corrected test rejects 0."""
        return (self.gain.above(0.0) or self.gain.below(0.0)) and self.p_holm <= ALPHA

    @property
    def course(self) -> str:
        """From where to where it went, in words."""
        ends = f" ({self.gain.between}, Holm {p_words(self.p_holm)})" if self.gain.between else ""
        return f"from {self.before.value:.3f} to {ranged(self.after)}: {signed(self.gain.value)}{ends}"


def apart(name: str, missing: str = "not known") -> Column:
    """Return the column of a difference, whose 95 % interval stands below it."""
    return Column(head=f"{name}|95 % interval", form="+.3f", missing=missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRecord:
    """A table: its rows are named, mostly by arms."""

    title: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, tuple[Shown, ...]], ...]
    note: str = ""
    is_folded: bool = False
    names: str = "Arm"  # Head of the rows' names.


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A panel of the picture of arms before and after training."""

    title: str
    before: tuple[Measure | None, ...]  # Empty: the values are no ends of a training.
    after: tuple[Measure | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveRecord:
    """A picture with a line for each arm: places on the axis, and figures there."""

    name: str
    label: str
    axis: str
    shares: bool
    lines: tuple[tuple[str, tuple[int, ...], tuple[Measure, ...]], ...]

    @classmethod
    def of(
        cls, name: str, label: str, lines: Mapping[str, Mapping[int, Measure]], *, axis: str = "step", shares: bool
    ) -> CurveRecord:
        """Return the picture of figures by place, of each line by its name."""
        drawn = tuple((line, tuple(found), tuple(found.values())) for line, found in lines.items())
        return cls(name=name, label=label, axis=axis, shares=shares, lines=drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An expectation, and whether it was met."""

    text: str
    met: bool
    figures: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GainsRecord:
    """Gains of the arms in one score."""

    score: str
    gains: tuple[ArmGain, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleRecord:
    """A held-out item, and how the arms answered it."""

    title: str
    prompt: str
    replies: tuple[Reply, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """Values of a study: all of it but the seconds, which no two runs have in common."""

    data: str  # Fingerprint of the slice, or of the items.
    num_items: int
    seeds: tuple[int, ...]
    tuning_seed: int
    settings: Mapping[str, object]
    rates: Mapping[str, tuple[Tried, ...]] = field(default_factory=dict[str, tuple[Tried, ...]])
    """That were tried, by the label of the arm; of one with a single rate none, where others tried several."""
    hashes: Mapping[str, Mapping[str, str | None]]  # By the folder of a reported run.
    title: str
    question: str
    source: str
    score: str
    arms: tuple[str, ...]
    gains: tuple[ArmGain, ...] = ()
    baseline: tuple[str, Measure] | None = None  # The task's best, by name, in the study's score.
    more_gains: tuple[GainsRecord, ...] = ()
    expectations: tuple[Expected, ...]
    figures: Mapping[str, Mapping[str, Shown]]
    tables: tuple[TableRecord, ...]
    panels: tuple[Panel, ...]
    curves: tuple[CurveRecord, ...]
    beats: tuple[Claim, ...] = ()
    learned: tuple[Claim, ...] = ()
    notes: tuple[str, ...]
    chosen: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of arms that tried several learning rates, by label."""
    panel_rows: tuple[str, ...] = ()  # Of the panels; empty: the arms.
    examples: tuple[ExampleRecord, ...] = ()
