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
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, Final

from tinsmith.lab.judge.records import JudgeFailure
from tinsmith.stats.intervals import wilson
from tinsmith.stats.significance import (
    ALPHA,
    clustered_interval,
    items_needed,
    least_moved,
    mcnemar,
    paired_interval,
    sign_flip_p,
)
from tinsmith.studies.rubrics.dataset import checked_file, decode, gathered, read_records
from tinsmith.studies.rubrics.task import RubricTask, is_text, task_of
from tinsmith.types.errors import DataError
from tinsmith.types.fingerprints import sha256_of
from tinsmith.types.seeds import derive

BUILTIN: Final = "builtin_pairs.jsonl"
PairSet = tuple[tuple["PreferencePair", ...], int]  # By id, and how many were left out for want of a rubric.
ENDINGS: Final = (".jsonl", ".ndjson", ".json")


@dataclass(frozen=True, slots=True, kw_only=True)
class PreferencePair:
    """Two responses to one instruction, of which the first is known to be better, and the instruction's rubric."""

    pair_id: str
    task: RubricTask  # The instruction and its rubrics; its `task_id` is the pair's.
    chosen: str
    rejected: str

    @property
    def prompt(self) -> str:
        """The instruction."""
        return self.task.prompt


class Condition(enum.StrEnum):
    """Rubric that the judge sees beside the two responses; another pair's is the negative control."""

    WITHOUT = "without"
    OWN = "own"
    OTHER = "other"


class Ground(enum.StrEnum):
    """Ground of a choice between two responses; the place, where nothing else parts them: the first is taken."""

    RUBRIC = "rubric"
    SURFACE = "surface"
    PLACE = "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAnswer:
    """A pair under one condition, and the judge's preference there, once it is asked."""

    pair: PreferencePair
    condition: Condition
    rubric: PreferencePair | None = None  # The pair whose rubric is shown.
    chosen_first: bool = True
    right: bool | None = None
    """It preferred the chosen response, in the order that was drawn; None where an answer is missing."""
    turned: bool | None = None  # The same in the other order, where the judge was asked in both.
    ground: Ground | None = None
    scores: tuple[float, float] | None = None
    """The rubric's scores of the chosen and the rejected response, where rules gave them."""
    rationales: tuple[str, ...] = ()
    failures: tuple[JudgeFailure, ...] = ()

    def responses(self, *, turned: bool = False) -> tuple[str, str]:
        """Return the two responses in the order they are shown."""
        both = (self.pair.chosen, self.pair.rejected)
        return both if self.chosen_first != turned else (both[1], both[0])


def pair_of(record: Mapping[str, object]) -> PreferencePair | None:
    """Return the pair of one record; None where it has no rubric at all.

    The rubrics stand in any form that a rubric task may have. A record without `pair_id` is named by a
    hash of its content.
    """
    chosen, rejected = (_response(record, name) for name in ("chosen", "rejected"))
    if chosen == rejected:
        raise DataError("the two responses are the same", field="rejected", value=rejected)
    pair_id = record.get("pair_id")
    task = task_of({**record, "task_id": pair_id})
    if task is None:
        return None
    if pair_id is None or pair_id == "":
        task = replace(task, task_id=sha256_of((task.prompt, chosen, rejected, task.rubrics))[:16])
    return PreferencePair(pair_id=task.task_id, task=task, chosen=chosen, rejected=rejected)


def read_pairs(path: Path) -> PairSet:
    """Read a file of preference pairs: JSON Lines, or one JSON array."""
    checked_file(path, ENDINGS)
    return read_pairs_text(path.read_bytes(), path.name)


def builtin_pairs() -> PairSet:
    """Return the pairs that need no download: a worked answer against one that breaks one or two of its rules.

    There is one for each built-in instruction, so that no two pairs hang together. In half of every kind the worse
    answer is the tempting one: who does not look at the rules is right about half the time.
    """
    folder = resources.files("tinsmith.studies.rubrics.quality")
    return read_pairs_text(folder.joinpath(BUILTIN).read_bytes(), BUILTIN)


def read_pairs_text(data: bytes, name: str) -> PairSet:
    """Read the bytes of a file of pairs; `name` is how errors call it."""
    fix = "give each record prompt, chosen, rejected, and rubrics or 'rubric - 1. criterion'"
    records, _ = read_records(decode(data, name), name)
    pairs, without = gathered(records, pair_of, name=name, what="pair", fix=fix)
    return tuple(pair for _, pair in sorted(pairs.items())), without


def drawn_pairs(pairs: Sequence[PreferencePair], limit: int | None, *, seed: int) -> tuple[PreferencePair, ...]:
    """Return at most so many pairs, drawn by id and seed, in the order of their ids."""
    drawn = sorted(pairs, key=lambda pair: (derive(seed, "pairs", pair.pair_id), pair.pair_id))
    return tuple(sorted(drawn[:limit], key=lambda pair: pair.pair_id))


def foreign_rubrics(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[PreferencePair | None, ...]:
    """Return, for each pair, the pair whose rubric is shown instead of its own: the negative control.

    The pairs stand in a circle in the order of the seed; each gets the rubric of the next one that has
    another instruction and other criteria. None where there is no such pair.
    """
    circle = sorted(pairs, key=lambda pair: (derive(seed, "control", pair.pair_id), pair.pair_id))
    found: dict[str, PreferencePair | None] = {}
    for place, pair in enumerate(circle):
        others = (*circle[place + 1 :], *circle[:place])
        is_foreign = (one.prompt != pair.prompt and {*one.task.criteria} != {*pair.task.criteria} for one in others)
        found[pair.pair_id] = next((one for one, fits in zip(others, is_foreign, strict=True) if fits), None)
    return tuple(found[pair.pair_id] for pair in pairs)


def showings(pairs: Sequence[PreferencePair], *, seed: int) -> tuple[PairAnswer, ...]:
    """Return every pair under every condition; the order of the responses is the pair's, drawn by the seed.

    Where one pair has no other's rubric, the control is left out for all.
    """
    foreign = foreign_rubrics(pairs, seed=seed)
    return tuple(
        PairAnswer(
            pair=pair, condition=condition, rubric=rubric, chosen_first=derive(seed, "order", pair.pair_id) % 2 == 0
        )
        for pair, other in zip(pairs, foreign, strict=True)
        for condition, rubric in zip(Condition, (None, pair, other), strict=True)
        if condition is not Condition.OTHER or None not in foreign
    )


def _response(record: Mapping[str, object], name: str) -> str:
    value = record.get(name)
    if not isinstance(value, str) or not is_text(value):
        raise DataError("a pair needs both responses as texts", field=name, value=value)
    return value


Figures = dict[str, Any]  # As `quality.json` has them.
CriterionVerdicts = tuple[str, bool, bool]
"""A criterion, and its verdicts on the chosen and on the rejected response of one pair."""


class Finding(enum.StrEnum):
    """Finding of a paired comparison."""

    ADDS = "adds"
    TAKES = "takes away"
    CANNOT_TELL = "inconclusive"


Judged = Sequence[Mapping[Condition, PairAnswer]]
"""The answers to every pair, by condition; all are there."""


def complete_pairs(answers: Iterable[PairAnswer]) -> Judged:
    """Return the pairs that have every answer."""
    by_pair: dict[str, dict[Condition, PairAnswer]] = {}
    for one in answers:
        by_pair.setdefault(one.pair.pair_id, {})[one.condition] = one
    return [one for one in by_pair.values() if all(each.right is not None for each in one.values())]


def rubric_quality(judged: Judged, verdicts: Iterable[CriterionVerdicts], *, seed: int) -> Figures:
    """Compute what a rubric adds: the gain, with its own rubric minus without, is named before any answer."""
    if not judged:
        raise DataError("no pair was judged under every condition", field="pairs", value=0)
    conditions = list(judged[0])
    prompts = len({pair[Condition.OWN].pair.prompt for pair in judged})
    unit = "pair" if prompts == len(judged) else "prompt"
    without, own, other = Condition

    def contrast(first: Condition, second: Condition) -> Figures | None:
        return compare(judged, first, second, unit=unit, seed=seed) if {first, second} <= set(conditions) else None

    criteria = discrimination(verdicts)
    return {
        "pairs": len(judged),
        "prompts": prompts,
        "unit": unit,
        "accuracies": [_accuracy([pair[condition] for pair in judged]) for condition in conditions],
        "gain": contrast(own, without),
        "control": contrast(other, without),
        "beyond_control": contrast(own, other),
        "criteria": criteria,
        "idle_criteria": [one["criterion"] for one in criteria if not one["for_chosen"] + one["for_rejected"]],
    }


def compare(judged: Judged, first: Condition, second: Condition, *, unit: str, seed: int) -> Figures:
    """Compare two conditions on the same pairs.

    Helped are pairs that only the first has right, hurt those that only the second has; moved are units that are not
    the same under both: `enough` where so many moved that the test could show something. The exact two-sided p is
    McNemar's, or of sign flips by prompt. Needed are units like these that would show this gain four times out of five.
    """
    alone = unit == "pair"
    changes: dict[str, list[int]] = {}
    for pair in judged:
        one, other = pair[first], pair[second]
        key = one.pair.pair_id if alone else one.pair.prompt
        changes.setdefault(key, []).append(bool(one.right) - bool(other.right))
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


def _accuracy(answers: Sequence[PairAnswer]) -> Figures:
    """Return the share of pairs that are right under one condition."""
    right = sum(one.right is True for one in answers)
    return {
        "condition": answers[0].condition,
        "value": right / len(answers),
        "right": right,
        "n": len(answers),
        "interval": asdict(wilson(right, len(answers))),
        "positions": None if any(one.turned is None for one in answers) else _positions(answers),
    }


def _positions(answers: Sequence[PairAnswer]) -> Figures:
    """Return the effect of the place of a response, where each pair was asked in both orders; p by McNemar's test."""
    # Right with the better one first and wrong with it second, or the reverse: the first was taken both times.
    unlike = Counter(one.right == one.chosen_first for one in answers if one.right != one.turned)
    first, second = unlike[True], unlike[False]
    same = len(answers) - first - second
    return {
        "pairs": len(answers),
        "same": same,
        "always_first": first,
        "always_second": second,
        "right_both": sum(one.right is one.turned is True for one in answers),
        "p_value": mcnemar(first, second).p_value,
        "first_share": (same + 2 * first) / (2 * len(answers)),
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
