"""Where each arm stands against the baselines of its slice: above, below, or indistinguishable.

Plain differences, each with its own 95 % interval and without any gate: what a reader asks first of a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tinsmith.data.baselines.report import Baseline
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import rival
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.pages.wording import listed
from tinsmith.stats.estimates import Bootstrap, Difference, difference
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

AGAINST = (Baseline.MAJORITY, Baseline.METADATA, Baseline.TEXT)
"""What needs no model at all, what looks at year and citations only, and what counts words."""


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """One arm against one baseline, by macro-F1 on the test split, sampled."""

    arm: str
    baseline: str
    difference: Difference

    @property
    def words(self) -> str:
        """The difference and its interval."""
        return f"{self.baseline} ({self.difference.value:+.3f} {self.difference.interval})"


def standings(arms: Sequence[Arm], bootstrap: Bootstrap) -> tuple[Standing, ...]:
    """Hold every arm but the control on shuffled labels against its slice's baselines."""
    found: list[Standing] = []
    for arm in arms:
        answers, report = _answers(arm), arm.first.baselines
        if answers is None or report is None or arm.shuffled:
            continue
        for score in report.scores:
            if score.baseline in AGAINST:
                other = rival(score, arm.first, answers)
                apart = difference(answers, other, Metric.MACRO_F1, bootstrap)
                found.append(Standing(arm.name, BASELINE_WORDS[score.baseline][0], apart))
    return tuple(found)


def standing_words(found: Sequence[Standing]) -> str:
    """Say it in a sentence an arm; empty where nothing was compared."""
    by_arm: dict[str, list[Standing]] = {}
    for one in found:
        by_arm.setdefault(one.arm, []).append(one)
    return " ".join(_sentence(arm, by_arm[arm]) for arm in by_arm)


def _sentence(arm: str, found: Sequence[Standing]) -> str:
    sides: dict[str, list[str]] = {"above": [], "below": [], "indistinguishable from": []}
    for one in found:
        interval = one.difference.interval
        if interval is not None and interval.low > 0.0:
            sides["above"].append(one.words)
        elif interval is not None and interval.high < 0.0:
            sides["below"].append(one.words)
        else:
            sides["indistinguishable from"].append(one.words)
    parts = [f"{side} {listed(names)}" for side, names in sides.items() if names]
    return f"{arm} is {', '.join(parts)}."


def _answers(arm: Arm) -> Runs | None:
    try:
        return arm.answers()
    except DataError:
        return None
