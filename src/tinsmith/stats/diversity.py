"""Diversity of a system's ways with an item: different sequences of actions, distinct n-grams, and their entropy.

The boredom alarm: what an environment answers gets ever more alike while the policy solves nothing. A loss on the
environment's answers is low where these are easily foreseen, and a policy that asks for nothing else learns nothing.
Sources: arXiv:2604.14877 counts different sequences of queries a question; distinct-n is that of Li et al.,
arXiv:1510.03055; arXiv:2605.24517 sees boredom at a high weight.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tinsmith.stats.significance import McNemar, mcnemar, sign_flip_p
from tinsmith.types.errors import DataError

Actions = tuple[str, ...]  # What was done, in its order.


def different(sequences: Sequence[Actions]) -> int:
    """Return the number of distinct sequences.

    >>> different([("a", "b"), ("b", "a"), ("a", "b")])
    2
    """
    return len(set(sequences))


def distinct_n(sequences: Sequence[Actions], n: int) -> Fraction | None:
    """Return the share of distinct n-grams among all n-grams; None if every sequence is shorter than n.

    >>> distinct_n([("a", "b"), ("a", "b")], 2)
    Fraction(1, 2)
    """
    grams = [one[start : start + n] for one in sequences for start in range(len(one) - n + 1)]
    return Fraction(len(set(grams)), len(grams)) if grams else None


def entropy(values: Sequence[object]) -> float:
    """Return the entropy of the values' empirical distribution, in nats; 0 for equal values or none.

    >>> entropy(["a", "a"]), round(entropy(["a", "b"]), 6)
    (0.0, 0.693147)
    """
    counts = sorted(Counter(values).values())
    total = sum(counts)
    return math.fsum(-count / total * math.log(count / total) for count in counts if count < total)


WINDOW: Final = 5  # Steps that are looked at together.
_LEFT: Final = 0.5  # Of the entropy of the first steps; below it answers are alike.
_SOLVED: Final = 0.5  # Share of successes above which few answers are needed, so that nobody is bored.


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """Counts of one step."""

    commands: tuple[str, ...]
    answers: tuple[str, ...]
    solved: float  # Share of its conversations that succeeded.


@dataclass(frozen=True, slots=True, kw_only=True)
class Boredom:
    """Averages of a run's first and last steps."""

    entropy_first: float  # Of the environment's answers, in nats.
    entropy_last: float
    different_first: float  # Share of different commands among all.
    different_last: float
    alarm: int | None  # The first step at whose end it is raised; None: never.


def boredom(steps: Sequence[StepCounts]) -> Boredom | None:
    """Return it; None where there are fewer steps than are looked at together."""
    if len(steps) < WINDOW:
        return None
    first = _entropy(steps[:WINDOW])
    raised = (end - 1 for end in range(2 * WINDOW, len(steps) + 1) if _bored(steps[end - WINDOW : end], first))
    return Boredom(
        entropy_first=first,
        entropy_last=_entropy(steps[-WINDOW:]),
        different_first=_different(steps[:WINDOW]),
        different_last=_different(steps[-WINDOW:]),
        alarm=next(raised, None),
    )


def _entropy(steps: Sequence[StepCounts]) -> float:
    return entropy([one for step in steps for one in step.answers])


def _different(steps: Sequence[StepCounts]) -> float:
    commands = [one for step in steps for one in step.commands]
    return len(set(commands)) / len(commands) if commands else 0.0


def _bored(steps: Sequence[StepCounts], first: float) -> bool:
    solved = sum(one.solved for one in steps) / len(steps)
    return solved < _SOLVED and _entropy(steps) < _LEFT * first


def pass_at_k(samples: int, solved: int, k: int) -> Fraction:
    """Return the chance that one of k samples drawn without replacement is right: 1 - C(n - c, k) / C(n, k).

    It is the mean over all subsets of k samples, and so an estimate without bias of the chance that one of k fresh
    samples is right; n samples, c of them solved.

    >>> pass_at_k(4, 1, 2)
    Fraction(1, 2)
    """
    if not 1 <= k <= samples or not 0 <= solved <= samples:
        what = "pass@k looks at some of the samples that there are"
        raise DataError(what, field="n, c, k", value=(samples, solved, k), allowed="1 <= k <= n, 0 <= c <= n")
    return 1 - Fraction(math.comb(samples - solved, k), math.comb(samples, k))


def dyadic(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... up to `most`.

    >>> dyadic(10)
    (1, 2, 4, 8)
    """
    return tuple(2**power for power in range(most.bit_length()))


def boundary(right: Mapping[str, Sequence[bool]]) -> frozenset[str]:
    """Return the items that any of their samples solves."""
    return frozenset(item for item, flags in right.items() if any(flags))


def swapped(after: frozenset[str], before: frozenset[str]) -> McNemar:
    """Compare two boundaries on the same items by McNemar's exact test on items in one of them alone."""
    return mcnemar(len(after - before), len(before - after))


def swapped_over_seeds(pairs: Sequence[tuple[frozenset[str], frozenset[str]]]) -> float:
    """Return the p-value over several seeds' boundaries, after and before for each.

    The seeds of one item hang together: an item's net over the seeds is one observation, and its sign is flipped whole.
    With one seed this is McNemar's test.
    """
    nets: dict[str, int] = {}
    for after, before in pairs:
        for item in after ^ before:
            nets[item] = nets.get(item, 0) + (1 if item in after else -1)
    return sign_flip_p([nets[item] for item in sorted(nets)])
