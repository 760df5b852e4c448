"""A base, SFT, GRPO and its control on questions with a tool, each asked many times: pass@(k, T), boundaries, ways.

    tinsmith run pass_at_k [size=smallest | at=small] [key=value ...]

The task is `lookup`. How many look-ups may be made is not told to the model: pass@(k, T) counts a sample that took more
than T as wrong, and is computed from the same samples for every k and T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

import tinsmith as ts
from tinsmith.lab.runs.records import TaskRollout
from tinsmith.lab.study.checks import difference, not_lower
from tinsmith.lab.study.measures import estimated
from tinsmith.lab.study.record import DRAWS, Shown
from tinsmith.pages.measures import Measure as Figure
from tinsmith.stats.diversity import boundary, different, distinct_n, dyadic, pass_at_k, swapped, swapped_over_seeds
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.pass_at_k.lookup import HOPS, MOST_LOOKUPS, lookup, lookups, of_hops, said, way

BASE, SFT, GRPO, COIN = "base", "sft", "grpo", "coin"
TRAINED: Final = (SFT, GRPO, COIN)


def is_right(one: TaskRollout, most: int = MOST_LOOKUPS) -> bool:
    """Return whether an answer is right after so many look-ups at most."""
    return one.metrics["right"] == 1.0 and len(lookups(said(one))) <= most


def passed(k: int, most: int = MOST_LOOKUPS, hops: str = "two") -> ts.PerItem:
    """Return pass@(k, T) of the questions with so many hops."""

    def value(answers: Sequence[TaskRollout]) -> Fraction:
        return pass_at_k(len(answers), sum(is_right(one, most) for one in answers), k)

    return ts.PerItem(f"pass{k}", f"pass@{k}", "metric/right", where=of_hops(hops), answers=value)


def of_ways(label: str, value: Callable[[Sequence[TaskRollout]], Fraction]) -> ts.PerItem:
    """Return a count of ways to go about the questions of two hops."""
    return ts.PerItem(label, label, where=of_hops("two"), answers=value)


SEQUENCES = of_ways("sequences", lambda some: Fraction(different([lookups(said(one)) for one in some])))
WAYS = of_ways("ways", lambda some: Fraction(different([way(said(one)) for one in some])))
PAIRS = of_ways("distinct-2", lambda some: distinct_n([lookups(said(one)) for one in some], 2) or Fraction())


def ks(arms: Mapping[str, ts.ArmRuns]) -> tuple[int, ...]:
    """Return every k, up to the fewest samples that any question has."""
    return tuple(dyadic(min(len(some) for arm in arms.values() for one in arm.answers() for some in one.values())))


def claims(arms: Mapping[str, ts.ArmRuns]) -> list[ts.Beats | ts.Learned]:
    """Return what is claimed of pass@1 and pass@K on questions of two hops."""
    pairs = ((SFT, BASE), (GRPO, BASE), (GRPO, SFT), (COIN, BASE))
    found = [passed(k) for k in dict.fromkeys((1, ks(arms)[-1]))]
    return [*(ts.Beats(*pair, on) for on in found for pair in pairs), *(ts.Learned(GRPO, COIN, on) for on in found)]


def solved(arm: ts.ArmRuns, hops: str) -> list[frozenset[str]]:
    """Return the questions that any sample solves, for each seed."""
    return [
        boundary({item: [is_right(one) for one in some] for item, some in each.items() if of_hops(hops)(item)})
        for each in arm.answers()
    ]


def by_hops(results: ts.Results, measures: Callable[[str], Sequence[ts.PerItem]]) -> list[list[Shown]]:
    """Return measures of every arm, a row for each number of hops."""
    return [
        [f"{arm.arm.label}|{label}", *(results.after(name, one) for one in measures(hops))]
        for hops, label in HOPS.items()
        for name, arm in results.arms.items()
    ]


Change = tuple[int, int, int, int, float]
"""Questions that the base solves, that an arm solves, and that it gains and loses; and p."""


def changes(results: ts.Results, arm: str, hops: str) -> list[Change]:
    """Return how an arm's boundary differs from the base's of the same seed, by seed and at last over all."""
    pairs = list(zip(solved(results.arms[arm], hops), solved(results.arms[BASE], hops), strict=True))
    swaps = [swapped(own, base) for own, base in pairs]
    counts = [
        (len(base), len(own), one.only_first, one.only_second) for (own, base), one in zip(pairs, swaps, strict=True)
    ]
    base, own, gained, lost = map(sum, zip(*counts, strict=True))
    by_seed = [(*some, one.p_value) for some, one in zip(counts, swaps, strict=True)]
    return [*by_seed, (base, own, gained, lost, swapped_over_seeds(pairs))]


def boundaries(results: ts.Results) -> list[list[Shown]]:
    """Return the changes of every trained arm, a row for each seed and one for all."""
    rows: list[list[Shown]] = []
    for name in TRAINED:
        arm = results.arms[name]
        for hops in ("one", "two"):
            for seed, (*some, p_value) in zip([*arm.seeds, "all"], changes(results, name, hops), strict=True):
                label = f"{arm.arm.label}|{HOPS[hops]}"
                rows.append([label, str(seed), *(f"{value:,}" for value in some), f"{p_value:.2g}"])
    return rows


def moves(arm: str, *, wider: bool) -> Callable[[ts.Results], ts.Finding]:
    """Expect that an arm gains more questions of two hops than it loses, or fewer; told from chance."""

    def check(results: ts.Results) -> ts.Finding:
        *_, gained, lost, p_value = changes(results, arm, "two")[-1]
        met = (gained > lost if wider else lost > gained) and p_value < ALPHA
        return ts.Finding(met, f"{gained} gained, {lost} lost, p = {p_value:.2g}")

    return check


def half_as_many(results: ts.Results) -> ts.Finding:
    """Expect that SFT tries at most half as many sequences as the base, with its whole interval."""
    sft, base = results.after(SFT, SEQUENCES), results.after(BASE, SEQUENCES)
    met = sft.high is not None and sft.high <= 0.5 * base.value
    return ts.Finding(met, f"{sft.value:.1f}, base {base.value:.1f}, {difference(results.gap(SFT, BASE, SEQUENCES))}")


def coin_is_flat(results: ts.Results) -> ts.Finding:
    """Expect that the control's boundary is not told from the base's, on one hop and on two."""
    found = {label: changes(results, COIN, hops)[-1] for hops, label in HOPS.items()}
    told = [f"{label}: {one[2]} gained, {one[3]} lost, p = {one[4]:.2g}" for label, one in found.items()]
    return ts.Finding(all(one[4] >= ALPHA for one in found.values()), "; ".join(told))


def over_k(arm: ts.ArmRuns) -> Mapping[int, Figure]:
    """Return pass@k of the questions of two hops, by the logarithm of k."""
    every = ks({arm.arm.name: arm})
    return {place: estimated(arm.per_item(passed(k)), DRAWS) for place, k in enumerate(every)}


study = ts.Study(
    name="pass_at_k",
    title="pass@k: does RL move the boundary?",
    question="Does RL make a model solve questions that its base never solves, however often it is asked?",
    task=lookup,
    arms=(
        ts.Arm(BASE, "base", kind="task_sft", steps=0),
        ts.Arm(SFT, "SFT", kind="task_sft", learning_rate={"smallest": 2e-3, "nano": 2e-3, "small": 3e-4}),
        ts.Arm(GRPO, "GRPO", learning_rate={"smallest": 6e-4, "nano": 6e-4, "small": 3e-4}),
        ts.Arm(
            COIN, "GRPO, paid by a coin", pays="coin", learning_rate={"smallest": 6e-4, "nano": 6e-4, "small": 3e-4}
        ),
    ),
    keys={"eval_every": 0, "save_every": 0, "group_size": 8},
    sizes={
        "smallest": ts.Size(seeds=[1], steps=8, groups_per_batch=4, held_out_items=12, eval_samples=16, base_steps=500),
        "nano": ts.Size(steps=60, groups_per_batch=8, held_out_items=40, eval_samples=64),
        "small": ts.Size(
            "steps=20 groups_per_batch=4 held_out_items=12 eval_samples=16 max_tokens=12 explain=true "
            "watch_forgetting=false",
            seeds=[1],
        ),
    },
    score=passed(1),
    untrained=BASE,
    control=COIN,
    claims=claims,
    source="arXiv:2604.14877 (of a model of 7 billion parameters)",
    expectations=(
        ts.Expectation("GRPO gains more questions of two hops than it loses", moves(GRPO, wider=True)),
        ts.Expectation("SFT loses more of them than it gains", moves(SFT, wider=False)),
        ts.Expectation(
            "GRPO tries as many sequences of look-ups as the base (less half a one)",
            not_lower(GRPO, BASE, SEQUENCES, margin=0.5),
        ),
        ts.Expectation("SFT tries at most half as many as the base", half_as_many),
        ts.Expectation("a model paid by a coin is not shown to solve more or less than its base", coin_is_flat),
    ),
    tables=(
        ts.Listing(
            "pass@k",
            f"Up to {MOST_LOOKUPS} look-ups. Means over questions and seeds, 95 % intervals over both.",
            lambda results: [f"k = {k}" for k in ks(results.arms)],
            lambda results: by_hops(results, lambda hops: [passed(k, hops=hops) for k in ks(results.arms)]),
        ),
        ts.Listing(
            "pass@(K, T)",
            "What is solved by the most samples with at most T look-ups.",
            [f"T = {turns}" for turns in range(MOST_LOOKUPS + 1)],
            lambda results: by_hops(
                results, lambda hops: [passed(ks(results.arms)[-1], turns, hops) for turns in range(MOST_LOOKUPS + 1)]
            ),
        ),
        ts.Listing(
            "Boundaries",
            "Questions that any sample solves, beside the base's of the same seed. p: McNemar's exact test of gained "
            "against lost; of all seeds together, flips of the sign of each question's net, so that its seeds are one "
            "observation. p is not corrected.",
            ("seed", "base solves", "arm solves", "gained", "lost", "p"),
            boundaries,
        ),
        ts.Table(
            "Ways",
            "Questions of two hops. Ways: which lists, in which order, for whomever. Distinct-2: the share of "
            "different pairs among all pairs of look-ups that follow each other.",
            (
                ts.Measure("sequences", "sequences|a question", lambda arm: arm.per_item(SEQUENCES), ".1f"),
                ts.Measure("ways", "ways|a question", lambda arm: arm.per_item(WAYS), ".1f"),
                ts.Measure("pairs", "distinct-2", lambda arm: arm.per_item(PAIRS)),
            ),
        ),
    ),
    pictures=(
        ts.Curve(name="over-k", label="pass@k, two hops", read=over_k, axis="log2 of k", shares=True, is_listed=False),
    ),
)
