"""Terms of a reward within groups: their variance, their part of the reward's, and whether they agree with being right.

A group's advantages are deviations from its mean: a term that is equal in all answers of a group teaches nothing
there, however much it differs between groups.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Terms of one answer's reward, and whether it was right; None: that was not measured."""

    terms: Mapping[str, float]
    right: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TermAudit:
    """One term over groups of answers; None where nothing differs, or rightness was not measured."""

    variance: float
    """Within groups: mean squared deviation from the group's mean."""
    share: float | None
    """Of the reward's variance within groups: its covariance with the reward over that; shares add up to 1."""
    differs: float
    """Share of the groups in which it differs."""
    with_right: float | None
    """Pearson's correlation of deviations within groups from the means of the term and of being right."""


def audit_terms(groups: Iterable[Sequence[Answer]], terms: Sequence[str]) -> dict[str, TermAudit]:
    """Return an audit of each term over groups of two or more answers; empty where there are none."""
    kept = [group for group in groups if len(group) > 1]
    rewards = [_centred([math.fsum(one.terms[name] for name in terms) for one in group]) for group in kept]
    rights = [
        _centred([one.right for one in group if one.right is not None])
        if all(one.right is not None for one in group)
        else None
        for group in kept
    ]
    count, reward = sum(map(len, kept)), _product(rewards, rewards)
    found: dict[str, TermAudit] = {}
    for name in terms if kept else ():
        values = [_centred([one.terms[name] for one in group]) for group in kept]
        measured = [(mine, other) for mine, other in zip(values, rights, strict=True) if other is not None]
        mine, right = [one for one, _ in measured], [other for _, other in measured]
        scale = math.sqrt(_product(mine, mine) * _product(right, right))
        found[name] = TermAudit(
            variance=_product(values, values) / count,
            share=_product(values, rewards) / reward if reward > 0.0 else None,
            differs=sum(len({one.terms[name] for one in group}) > 1 for group in kept) / len(kept),
            with_right=_product(mine, right) / scale if scale > 0.0 else None,
        )
    return found


def _centred(values: Sequence[float]) -> list[float]:
    if len(set(values)) < 2:
        return [0.0] * len(values)  # equal values deviate by nothing, whatever their mean rounds to
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _product(first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]) -> float:
    pairs = (pair for a, b in zip(first, second, strict=True) for pair in zip(a, b, strict=True))
    return math.fsum(a * b for a, b in pairs)
