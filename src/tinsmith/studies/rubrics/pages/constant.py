"""The best answer that never reads its prompt: one text for every prompt, as the judge by rules sees it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import compress
from typing import Final

from tinsmith.studies.rubrics.pages.gathering import RubricRun
from tinsmith.studies.rubrics.records import RULES
from tinsmith.studies.rubrics.rules.rule import Rule
from tinsmith.studies.rubrics.rules.rule_text import parse_rule
from tinsmith.types.errors import DataError

"""The judge that is a program, and can be asked again when a page is made."""
MOST_TEXTS: Final = 5_000
"""Texts that are tried: those that the run wrote most often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant:
    """The best of the texts that a run wrote, chosen with hindsight on the very prompts it is scored on."""

    text: str
    by_prompt: Mapping[str, Fraction]
    tried: int
    """Texts it was chosen from."""

    @property
    def mean(self) -> float:
        """The mean pass rate over prompts."""
        return float(sum(self.by_prompt.values(), Fraction()) / len(self.by_prompt))


def best_constant(run: RubricRun) -> Constant | None:
    """Return the text that passes most on the prompts of the last examination.

    None where a model judged, the run has no examination, or it did not write its criteria down.
    """
    if run.judge != RULES or not run.sampled:
        return None
    prompts = [prompt for prompt in run.sampled[-1].by_prompt if prompt in run.tasks]
    criteria = sorted({each for prompt in prompts for each in run.tasks[prompt].criteria})
    if len(prompts) < len(run.sampled[-1].by_prompt) or not criteria:
        return None
    try:
        rules = [parse_rule(criterion) for criterion in criteria]
    except DataError:
        return None
    if None in rules:
        return None
    slots = {criterion: slot for slot, criterion in enumerate(criteria)}
    asked = {p: [slots[each] for each in run.tasks[p].criteria] for p in prompts}
    # What a criterion adds to the mean where it holds, in whole numbers over one denominator.
    whole = math.lcm(*map(len, asked.values()))
    worth = [0] * len(criteria)
    for places in asked.values():
        for slot in places:
            worth[slot] += whole // len(places)
    texts = sorted(run.texts, key=lambda text: (-run.texts[text], text))[:MOST_TEXTS]
    best = max(texts, key=lambda text: sum(compress(worth, _held(rules, text))))
    held = _held(rules, best)
    by_prompt = {
        prompt: Fraction(sum(held[slot] for slot in places), len(places))
        for prompt, places in asked.items()
    }
    return Constant(text=best, by_prompt=by_prompt, tried=len(texts))


def _held(rules: Sequence[Rule | None], text: str) -> list[bool]:
    return [rule is not None and rule.holds(text) for rule in rules]
