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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tinsmith.stats.intervals import wilson
from tinsmith.stats.sign_flips import clustered_interval, least_moved, paired_interval, sign_flip_p
from tinsmith.stats.significance import ALPHA, items_needed, mcnemar
from tinsmith.types.errors import DataError

Figures = dict[str, Any]
"""As `quality.json` has them."""
CriterionVerdicts = tuple[str, bool, bool]
"""A criterion, and its verdicts on the chosen and on the rejected response of one pair."""


class Condition(enum.StrEnum):
    """Rubric that the judge sees beside the two responses; another pair's is the negative control."""

    WITHOUT = "without"
    OWN = "own"
    OTHER = "other"


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


def rubric_quality(judged: Sequence[JudgedPair], verdicts: Iterable[CriterionVerdicts], *, seed: int) -> Figures:
    """Compute what a rubric adds: the gain, with its own rubric minus without, is named before any answer."""
    if not judged:
        raise DataError("no pair was judged under every condition", field="pairs", value=0)
    conditions = [condition for condition in Condition if condition in judged[0].right]
    if any(set(pair.right) != set(conditions) for pair in judged):
        raise DataError("all pairs are judged under the same conditions", field="pairs")
    prompts = len({pair.prompt for pair in judged})
    unit = "pair" if prompts == len(judged) else "prompt"
    without, own, other = Condition

    def contrast(first: Condition, second: Condition) -> Figures | None:
        return compare(judged, first, second, unit=unit, seed=seed) if {first, second} <= set(conditions) else None

    criteria = discrimination(verdicts)
    return {
        "pairs": len(judged),
        "prompts": prompts,
        "unit": unit,
        "accuracies": [_accuracy(judged, condition) for condition in conditions],
        "gain": compare(judged, own, without, unit=unit, seed=seed),
        "control": contrast(other, without),
        "beyond_control": contrast(own, other),
        "criteria": criteria,
        "idle_criteria": [one["criterion"] for one in criteria if not one["for_chosen"] + one["for_rejected"]],
    }


def compare(judged: Sequence[JudgedPair], first: Condition, second: Condition, *, unit: str, seed: int) -> Figures:
    """Compare two conditions on the same pairs.

    Helped are pairs that only the first has right, hurt those that only the second has; moved are units that are not
    the same under both: `enough` where so many moved that the test could show something. The exact two-sided p is
    McNemar's, or of sign flips by prompt. Needed are units like these that would show this gain four times out of five.
    """
    alone = unit == "pair"
    changes: dict[str, list[int]] = {}
    for pair in judged:
        changes.setdefault(pair.pair_id if alone else pair.prompt, []).append(pair.right[first] - pair.right[second])
    groups = [found for _, found in sorted(changes.items())]
    every, net = [change for found in groups for change in found], [sum(found) for found in groups]
    helped, hurt = every.count(1), every.count(-1)
    moved, p_value = sum(each != 0 for each in net), sign_flip_p(net)
    finding = Finding.CANNOT_TELL if p_value > ALPHA else Finding.ADDS if helped > hurt else Finding.TAKES
    sizes = [len(found) for found in groups]
    interval = paired_interval(helped, hurt, len(judged)) if alone else clustered_interval(net, sizes, seed=seed)
    return {
        "first": first,
        "second": second,
        "gain": (helped - hurt) / len(judged),
        "interval": asdict(interval),
        "helped": helped,
        "hurt": hurt,
        "unit": unit,
        "units": len(net),
        "moved": moved,
        "p_value": p_value,
        "finding": finding,
        "enough": moved >= least_moved(ALPHA),
        "needed": _needed(net, moved) if finding is Finding.CANNOT_TELL else None,
    }


def discrimination(verdicts: Iterable[CriterionVerdicts]) -> list[Figures]:
    """Count how often each criterion holds for one response alone, in the order of their texts."""
    found: dict[str, list[int]] = {}
    for criterion, chosen, rejected in verdicts:
        found.setdefault(criterion, []).append(chosen - rejected)
    return [
        {"criterion": name, "pairs": len(by), "for_chosen": by.count(1), "for_rejected": by.count(-1)}
        for name, by in sorted(found.items())
    ]


def _accuracy(judged: Sequence[JudgedPair], condition: Condition) -> Figures:
    right = sum(pair.right[condition] for pair in judged)
    return {
        "condition": condition,
        "value": right / len(judged),
        "right": right,
        "n": len(judged),
        "interval": asdict(wilson(right, len(judged))),
        "positions": _positions(judged, condition),
    }


def _positions(judged: Sequence[JudgedPair], condition: Condition) -> Figures | None:
    """Effect of the place of a response, where each pair was asked in both orders; p by McNemar's exact test."""
    found = Counter[tuple[bool, bool]]()
    for pair in judged:
        if pair.turned is None:
            return None
        right, turned = pair.right[condition], pair.turned[condition]
        # Right with the better one first and wrong with it second, or the reverse: the first was taken both times.
        found[right == turned, right if right == turned else right == pair.chosen_first] += 1
    first, second = found[False, True], found[False, False]
    same = found[True, True] + found[True, False]
    return {
        "pairs": len(judged),
        "same": same,
        "always_first": first,
        "always_second": second,
        "right_both": found[True, True],
        "p_value": mcnemar(first, second).p_value,
        "first_share": (same + 2 * first) / (2 * len(judged)),
    }


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
