"""What a study of pass@k has found, as values: pass@(k, T), boundaries and their swaps, ways, signs and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.lab.study.signs import Sign
from tinsmith.lab.study.task_arms import ArmRead, parity_of
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.stats.diagnostics.pass_at_k import dyadic, swapped, swapped_over_seeds
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, MeanLearned, judge_mean_beats, judge_mean_learned
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.studies.pass_at_k.reading import ArmSamples
from tinsmith.studies.pass_at_k.settings import ARMS, BASE, COIN, GRPO, SFT
from tinsmith.studies.pass_at_k.source import MOST_LOOKUPS
from tinsmith.studies.pass_at_k.world import Hops

TRAINED: Final = (SFT, GRPO, COIN)
RIGHT: Final = "metric/right"
_HALF: Final = 0.5
"""SFT goes about a question in at most so many of the base's ways, where the published sign comes out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """pass@(k, T) of an arm."""

    arm: str
    hops: Hops
    k: int
    turns: int
    value: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Swapped:
    """What an arm's boundary has that the base's has not, and the other way round."""

    arm: str
    hops: Hops
    seed: int | None
    """None: all seeds together."""
    solved: int
    """Questions that the arm solves at all; of all seeds together, a sum over them."""
    of_base: int
    gained: int
    lost: int
    p_value: float
    """McNemar's exact one; over seeds of flips of the questions' signs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """In how many ways an arm goes about a question of two hops: means over questions."""

    arm: str
    sequences: Measure
    """Different sequences of look-ups among its samples."""
    ways: Measure
    """The same, whoever was looked up."""
    distinct_pairs: Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class PassFound(StudyValues):
    """What the study has found."""

    samples: int
    """Of each question."""
    num_two: int
    """Questions of two hops."""
    passed: tuple[Passed, ...]
    swaps: tuple[Swapped, ...]
    ways: tuple[Ways, ...]
    signs: tuple[Sign, ...]
    beats: tuple[Claim, ...]
    learned: tuple[Claim, ...]

    def at(self, arm: str, k: int, hops: Hops = Hops.TWO, turns: int = MOST_LOOKUPS) -> Measure:
        """Return pass@(k, T) of an arm."""
        asked = (arm, hops, k, turns)
        return next(one.value for one in self.passed if (one.arm, one.hops, one.k, one.turns) == asked)

    def swap(self, arm: str, hops: Hops = Hops.TWO) -> Swapped:
        """Return an arm's swap with the base over all seeds."""
        asked = (arm, hops, None)
        return next(one for one in self.swaps if (one.arm, one.hops, one.seed) == asked)

    def way(self, arm: str) -> Ways:
        """Return in how many ways an arm goes about its questions."""
        return next(one for one in self.ways if one.arm == arm)


def measured(values: StudyValues, arms: Mapping[str, ArmSamples], draws: Draws) -> PassFound:
    """Return all that is measured; signs and claims are judged from it."""
    samples = min(one.fewest for one in arms.values())
    two = {name: one.of(Hops.TWO) for name, one in arms.items()}
    shared = {name: getattr(values, name) for name in values.__dataclass_fields__}
    return PassFound(
        **shared,
        samples=samples,
        num_two=len(two[BASE].by_seed[0]),
        passed=tuple(_passed(arms, samples, draws)),
        swaps=tuple(
            one
            for name in TRAINED
            for hops in Hops
            for one in _swaps(name, arms[name].of(hops), arms[BASE].of(hops), hops, values.seeds)
        ),
        ways=tuple(
            Ways(
                arm=name,
                sequences=_measure(one.sequences(), draws),
                ways=_measure(one.ways(), draws),
                distinct_pairs=_measure(one.distinct_pairs(), draws),
            )
            for name, one in two.items()
        ),
        signs=(),
        beats=(),
        learned=(),
    )


def _passed(arms: Mapping[str, ArmSamples], samples: int, draws: Draws) -> list[Passed]:
    found: list[Passed] = []
    most = dyadic(samples)[-1]
    for name, arm in arms.items():
        for hops in Hops:
            asked = [(k, MOST_LOOKUPS) for k in dyadic(samples)]
            asked += [(most, turns) for turns in range(MOST_LOOKUPS)]
            some = arm.of(hops)
            found += [
                Passed(arm=name, hops=hops, k=k, turns=turns, value=_measure(some.passed(k, turns), draws))
                for k, turns in asked
            ]
    return found


def _measure(values: MeanRuns, draws: Draws) -> Measure:
    return from_estimate(values.estimate(draws.tables))


def _swaps(name: str, arm: ArmSamples, base: ArmSamples, hops: Hops, seeds: tuple[int, ...]) -> list[Swapped]:
    pairs = list(zip(arm.boundaries(), base.boundaries(), strict=True))
    found: list[Swapped] = []
    for seed, (after, before) in zip(seeds, pairs, strict=True):
        swap = swapped(after, before)
        found.append(
            Swapped(
                arm=name,
                hops=hops,
                seed=seed,
                solved=len(after),
                of_base=len(before),
                gained=len(swap.gained),
                lost=len(swap.lost),
                p_value=swap.test.p_value,
            )
        )
    whole = Swapped(
        arm=name,
        hops=hops,
        seed=None,
        solved=sum(one.solved for one in found),
        of_base=sum(one.of_base for one in found),
        gained=sum(one.gained for one in found),
        lost=sum(one.lost for one in found),
        p_value=swapped_over_seeds(pairs),
    )
    return [*found, whole]


def with_signs(found: PassFound) -> PassFound:
    """Return the values with the four signs that arXiv:2604.14877 reports, each seen here or not."""
    rl, sft = found.swap(GRPO), found.swap(SFT)
    base_ways, sft_ways, rl_ways = (found.way(name).sequences for name in (BASE, SFT, GRPO))
    counts = f"{base_ways.value:.1f} by the base"
    return replace(
        found,
        signs=(
            Sign(
                expected="GRPO gains more questions of two hops than it loses",
                came_out=rl.gained > rl.lost,
                told=_told(rl),
            ),
            Sign(expected="SFT loses more of them than it gains", came_out=sft.lost > sft.gained, told=_told(sft)),
            Sign(
                expected="GRPO tries at least as many sequences of look-ups as the base",
                came_out=rl_ways.value >= base_ways.value,
                told=f"{rl_ways.value:.1f} a question, {counts}",
            ),
            Sign(
                expected="SFT tries at most half as many as the base",
                came_out=sft_ways.value <= _HALF * base_ways.value,
                told=f"{sft_ways.value:.1f} a question, {counts}",
            ),
        ),
    )


def _told(swap: Swapped) -> str:
    return f"{swap.gained} gained, {swap.lost} lost, p = {swap.p_value:.2g}"


def with_claims(
    found: PassFound, arms: Mapping[str, ArmSamples], reads: Mapping[str, ArmRead], seen: int, draws: Draws
) -> PassFound:
    """Return the values with what the gate says of pass@1 and pass@K on questions of two hops."""
    words = {arm.name: arm.words for arm in ARMS}
    parity = parity_of(reads.values())
    data = found.data
    trained, untrained = Training(data, seen), Training(data, 0)
    beats: list[MeanBeats] = []
    learned: list[MeanLearned] = []
    for k in dict.fromkeys((1, dyadic(found.samples)[-1])):
        ends = {name: replace(one.of(Hops.TWO).passed(k), name=words[name]) for name, one in arms.items()}
        two = ends[BASE].items
        pairs = [(SFT, BASE), (GRPO, BASE), (GRPO, SFT), (COIN, BASE)]
        beats += [
            MeanBeats(
                first=ends[first],
                second=ends[second],
                metric=f"pass@{k}",
                training=(trained, untrained if second == BASE else trained),
                parity=parity,
            )
            for first, second in pairs
        ]
        baselines = [reads[GRPO].baseline(one.name, RIGHT) for one in reads[GRPO].reads[0].task.baselines]
        learned.append(
            MeanLearned(
                system=ends[GRPO],
                metric=f"pass@{k}",
                before=ends[BASE],
                baselines=tuple(one.on(two) for one in baselines if one is not None),
                control=ends[COIN],
                control_words="the same method paid by a coin",
                parity=parity,
            )
        )
    return replace(
        found, beats=judge_mean_beats(beats, draws.claims), learned=judge_mean_learned(learned, draws.claims)
    )
