"""Accuracies of a judge on preference pairs, with and without a rubric, and paired gains with an exact test.

The same pairs are judged without a rubric, with their own, and with another pair's: the negative control.
Only pairs with an answer under every condition count. Where several pairs share a prompt, the prompt is
the unit of the tests, since its pairs are no independent evidence.
Source: rubric quality as the gain of a weak judge's accuracy, EvoLM, arXiv:2605.03871.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tinsmith.stats.intervals import Interval, wilson
from tinsmith.stats.sign_flips import clustered_interval, least_moved, paired_interval, sign_flip_p
from tinsmith.stats.significance import ALPHA, items_needed, mcnemar
from tinsmith.types.errors import DataError


class Condition(enum.StrEnum):
    """Rubric that the judge sees beside the two responses."""

    WITHOUT = "without"
    OWN = "own"
    OTHER = "other"
    """Another pair's rubric: the negative control."""


class Unit(enum.StrEnum):
    """Independent observation."""

    PAIR = "pair"
    PROMPT = "prompt"


class Finding(enum.StrEnum):
    """Finding of a paired comparison."""

    ADDS = "adds"
    TAKES = "takes away"
    CANNOT_TELL = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPair:
    """A pair with an answer under every condition."""

    pair_id: str
    prompt: str
    right: Mapping[Condition, bool]
    turned: Mapping[Condition, bool] | None = None
    """Right with the responses in the other order; None where the order cannot matter."""
    chosen_first: bool = True
    """The order of `right`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionVerdicts:
    """Verdicts of one criterion on the two responses of one pair."""

    criterion: str
    chosen: bool
    rejected: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Positions:
    """Effect of the place of a response: each pair was asked in both orders."""

    pairs: int
    same: int
    """Pairs with the same response preferred in both orders."""
    always_first: int
    always_second: int
    right_both: int
    p_value: float
    """Exact McNemar test of `always_first` against `always_second`."""
    first_share: float
    """The share of all answers that are the first response; 0.5 without bias."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Share of pairs of which the judge prefers the better response under one condition."""

    condition: Condition
    value: float
    """The share that is right."""
    right: int
    n: int
    interval: Interval
    """Wilson's, which takes the pairs for independent."""
    positions: Positions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """The accuracy under one condition minus that under another, on the same pairs."""

    first: Condition
    second: Condition
    gain: float
    interval: Interval
    helped: int
    """Pairs that only the first has right."""
    hurt: int
    """Pairs that only the second has right."""
    unit: Unit
    units: int
    moved: int
    """Units that are not the same under both."""
    p_value: float
    """Exact, two-sided: McNemar's, or sign flips by prompt."""
    finding: Finding
    enough: bool
    """So many moved that the test could show something."""
    needed: int | None
    """Units like these that would show this gain four times out of five, if the test is inconclusive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionCount:
    """Counts of one criterion over the pairs that have it."""

    criterion: str
    pairs: int
    for_chosen: int
    """Holds for the chosen response alone."""
    for_rejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricQuality:
    """Accuracies, gains and criteria on these pairs."""

    pairs: int
    """Judged under every condition."""
    prompts: int
    unit: Unit
    accuracies: tuple[Accuracy, ...]
    gain: Contrast
    """With its own rubric minus without: the question, named before any answer."""
    control: Contrast | None
    """With another pair's rubric minus without; None where there is no other."""
    beyond_control: Contrast | None
    """With its own minus with another pair's."""
    criteria: tuple[CriterionCount, ...]

    @property
    def idle(self) -> tuple[str, ...]:
        """Criteria that never tell chosen from rejected."""
        return tuple(each.criterion for each in self.criteria if not each.for_chosen + each.for_rejected)


def rubric_quality(judged: Sequence[JudgedPair], verdicts: Sequence[CriterionVerdicts], *, seed: int) -> RubricQuality:
    """Compute what a rubric adds."""
    if not judged:
        raise DataError("no pair was judged under every condition", field="pairs", value=0)
    conditions = [condition for condition in Condition if condition in judged[0].right]
    if any(set(pair.right) != set(conditions) for pair in judged):
        raise DataError("all pairs are judged under the same conditions", field="pairs")
    prompts = len({pair.prompt for pair in judged})
    unit = Unit.PAIR if prompts == len(judged) else Unit.PROMPT

    def contrast(first: Condition, second: Condition) -> Contrast | None:
        if not {first, second} <= set(conditions):
            return None
        return compare(judged, first, second, unit=unit, seed=seed)

    return RubricQuality(
        pairs=len(judged),
        prompts=prompts,
        unit=unit,
        accuracies=tuple(_accuracy(judged, condition) for condition in conditions),
        gain=compare(judged, Condition.OWN, Condition.WITHOUT, unit=unit, seed=seed),
        control=contrast(Condition.OTHER, Condition.WITHOUT),
        beyond_control=contrast(Condition.OWN, Condition.OTHER),
        criteria=discrimination(verdicts),
    )


def compare(judged: Sequence[JudgedPair], first: Condition, second: Condition, *, unit: Unit, seed: int) -> Contrast:
    """Compare two conditions on the same pairs."""
    changes: dict[str, list[int]] = {}
    for pair in judged:
        name = pair.pair_id if unit is Unit.PAIR else pair.prompt
        changes.setdefault(name, []).append(pair.right[first] - pair.right[second])
    every = [change for _, found in sorted(changes.items()) for change in found]
    helped, hurt = every.count(1), every.count(-1)
    net = [sum(found) for _, found in sorted(changes.items())]
    sizes = [len(found) for _, found in sorted(changes.items())]
    moved, p_value = sum(each != 0 for each in net), sign_flip_p(net)
    finding = Finding.ADDS if helped > hurt else Finding.TAKES
    if p_value > ALPHA:
        finding = Finding.CANNOT_TELL
    alone = unit is Unit.PAIR
    return Contrast(
        first=first,
        second=second,
        gain=(helped - hurt) / len(judged),
        interval=paired_interval(helped, hurt, len(judged)) if alone else clustered_interval(net, sizes, seed=seed),
        helped=helped,
        hurt=hurt,
        unit=unit,
        units=len(net),
        moved=moved,
        p_value=p_value,
        finding=finding,
        enough=moved >= least_moved(ALPHA),
        needed=_needed(net, moved) if finding is Finding.CANNOT_TELL else None,
    )


def discrimination(verdicts: Sequence[CriterionVerdicts]) -> tuple[CriterionCount, ...]:
    """Count how each criterion parts chosen from rejected, in the order of their texts."""
    found: dict[str, list[int]] = {}
    for each in verdicts:
        found.setdefault(each.criterion, []).append(each.chosen - each.rejected)
    return tuple(
        CriterionCount(criterion=name, pairs=len(by), for_chosen=by.count(1), for_rejected=by.count(-1))
        for name, by in sorted(found.items())
    )


def _accuracy(judged: Sequence[JudgedPair], condition: Condition) -> Accuracy:
    right = sum(pair.right[condition] for pair in judged)
    return Accuracy(
        condition=condition,
        value=right / len(judged),
        right=right,
        n=len(judged),
        interval=wilson(right, len(judged)),
        positions=_positions(judged, condition),
    )


def _positions(judged: Sequence[JudgedPair], condition: Condition) -> Positions | None:
    found = Counter[tuple[bool, bool]]()
    for pair in judged:
        if pair.turned is None:
            return None
        right, turned = pair.right[condition], pair.turned[condition]
        # Right with the better one first and wrong with it second, or the reverse: the first was taken both times.
        found[right == turned, right if right == turned else right == pair.chosen_first] += 1
    first, second = found[False, True], found[False, False]
    same = found[True, True] + found[True, False]
    return Positions(
        pairs=len(judged),
        same=same,
        always_first=first,
        always_second=second,
        right_both=found[True, True],
        p_value=mcnemar(first, second).p_value,
        first_share=(same + 2 * first) / (2 * len(judged)),
    )


def _needed(net: Sequence[int], moved: int) -> int | None:
    """Units that a gain of this size takes, at power 0.8, and enough of them to move; None where there is no gain."""
    total = sum(net)
    if total == 0:
        return None
    # Both scaled by the largest net, which cancels: only their ratio counts.
    largest = max(abs(each) for each in net)
    effect = total / len(net) / largest
    discordance = sum(each * each for each in net) / len(net) / largest**2
    by_power = items_needed(effect, discordance=discordance, alpha=ALPHA)
    by_count = math.ceil(least_moved(ALPHA) * len(net) / moved)
    return max(by_power, by_count, len(net) + 1)
