"""The claim gate: two kinds of claim, each with checks of its own, neither of which waits for the other.

*A beats B* is a paired difference after the same training. *A learned something* is that nothing simpler explains A's
score. A check without its evidence refuses as a failed one does. That all checks must pass makes a claim an
intersection of tests, whose p is the largest of theirs (Berger 1982); Holm corrects over all claims of one kind that
are made together.

Labels (`Runs`) are held against what needs no paper: a constant answer, chance, metadata. A task of no particular kind
has means over items (`MeanRuns`): what is simpler than learning is the model as it was before training, the task's own
baselines, and the same training with answers that belong to other items. A control of another method is taken in its
place, but rules out less: what is printed calls it by its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any, Generic, NamedTuple

import msgspec
import numpy as np

from tinsmith.stats.estimates import Bootstrap, Difference, Runs, estimate
from tinsmith.stats.intervals import Interval, percentile
from tinsmith.stats.mean_runs import MeanRuns, System, common_items, gap_of, scores_by_seed
from tinsmith.stats.rates import Metric, best_constant
from tinsmith.stats.seed_tests import ENOUGH_SEEDS, seed_test
from tinsmith.stats.significance import holm
from tinsmith.types.confusion_scores import chance
from tinsmith.types.errors import ConfigError
from tinsmith.types.page_names import decimals, metric_name, p_words


class Verdict(StrEnum):
    """A claim's verdict: it may be printed, or not."""

    ALLOWED = "allowed"
    REFUSED = "refused"


class ClaimKind(StrEnum):
    """Kinds of claim."""

    BEATS = "beats"  # One system scores higher than another, both trained on the same data and as long.
    LEARNED = "learned"  # A system knows something that no constant, no metadata, no chance and no leak explains.


class CheckName(StrEnum):
    """One reason a claim can fail for."""

    ITEMS = "same items"
    TRAINING = "same training"
    DIFFERENCE = "difference"
    BEFORE = "before training"
    BASELINE = "baselines of the task"
    CONSTANT = "constant baseline"
    METADATA = "metadata baseline"
    CHANCE = "chance"
    RECALL = "smallest recall"
    CONTROL = "shuffled labels"
    PARITY = "one model"


class Finding(StrEnum):
    """Outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of one claim, in words."""

    name: CheckName
    finding: Finding
    sentence: str

    @property
    def passed(self) -> bool:
        """True if it refuses nothing."""
        return self.finding is Finding.PASSED


@dataclass(frozen=True, slots=True)
class Training:
    """Data that a system was trained on, and the length of its training."""

    data: str  # Fingerprint of the slice.
    examples: int | None
    """Papers seen, each as often as it was; None: fitted until more of them change nothing, as a baseline is."""


@dataclass(frozen=True, slots=True)
class ParityRecord:
    """Comparisons of the sampler's and the trainer's log-probabilities over a whole run."""

    steps: int
    unequal_bits: int  # Sum over the steps.


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A claim with its verdict, and every check in words."""

    kind: ClaimKind
    first: str
    second: str  # What is beaten; of something learned, the simpler explanation that comes nearest.
    metric: str  # Of the value, its interval and its p.
    judged_on: str = ""  # The claim's own metric, where the nearest explanation is held against another one.
    value: float  # first minus second.
    interval: Interval | None  # Of the difference, at the level Holm's correction leaves to this claim.
    p_value: float
    p_holm: float
    seeds: tuple[int, ...]
    num_items: int
    checks: tuple[Check, ...]

    @property
    def verdict(self) -> Verdict:
        """Allowed if every check passed."""
        return Verdict.ALLOWED if all(check.passed for check in self.checks) else Verdict.REFUSED

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons for refusing it; all checks' sentences where it is allowed."""
        refused = tuple(check.sentence for check in self.checks if not check.passed)
        return refused or tuple(check.sentence for check in self.checks)

    @property
    def scope(self) -> str:
        """Subject of the claim: the method, or only the models that were trained."""
        seeds = f"{' and '.join(map(str, self.seeds))} seed{'' if self.seeds == (1,) else 's'}"
        if min(self.seeds) >= ENOUGH_SEEDS:
            return f"the method, over {seeds}"
        enough = f"{ENOUGH_SEEDS}{' a side' if len(self.seeds) > 1 else ''} speak for the method"
        return f"these trained models only ({seeds}; {enough})"

    @property
    def words(self) -> str:
        """The claim itself."""
        if self.kind is ClaimKind.BEATS:
            return f"{self.first} beats {self.second}"
        return f"{self.first} learned something that nothing simpler explains"

    @property
    def unit(self) -> str:
        """Metric of the value in words, where the claim is on another one; else empty."""
        return f" in {metric_name(self.metric)}" if self.judged_on else ""

    def sentence(self) -> str:
        """Return the one line to print."""
        figure, on = (
            f"{decimals(self.value, '+.3f')}{f' {self.interval}' if self.interval else ''}",
            self.judged_on or self.metric,
        )
        if self.kind is ClaimKind.LEARNED:
            figure = f"{figure}{self.unit} beside {self.second}"
        figure = f"{figure}, n = {self.num_items}"
        if self.verdict is Verdict.ALLOWED:
            return f"{self.words} on {on}: {figure}; {self.scope}"
        return f"not claimed: {self.words} on {on} ({figure}): {'; '.join(self.reasons)}"


def checked(name: CheckName, passed: bool | None, sentence: str) -> Check:
    """Return a check by its outcome; None: the evidence for it is missing."""
    finding = Finding.MISSING if passed is None else Finding.PASSED if passed else Finding.FAILED
    return Check(name, finding, sentence)


def same_items(n: int, left_out: int, of: str = "items") -> Check:
    """Say whether all systems were scored on the same n items, but for few others."""
    passed = 20 * left_out <= n + left_out
    left = f"{left_out:,} of {n + left_out:,} {of} were not answered by all systems, at most 5 % may be"
    return checked(CheckName.ITEMS, passed, f"scored on the same {n} {of}" if passed else left)


def same_training(both: tuple[Training, Training] | None) -> Check:
    """The first may have been trained on no other data, and no longer, than what it is to beat."""
    check = partial(checked, CheckName.TRAINING)
    if both is None:
        return check(None, "what the two were trained on, and how long, is not known")
    mine, theirs = both
    if theirs.examples == 0:
        return check(True, "the second was not trained: whether training helps is the question")
    if mine.data != theirs.data:
        return check(False, "the two were trained on different data")
    if theirs.examples is None:
        return check(True, "trained on the same data, the second until more of it changed nothing")
    if mine.examples is None or mine.examples > theirs.examples:
        own = "without a limit" if mine.examples is None else f"on {mine.examples:,} examples"
        return check(False, f"trained for longer: {own}, the second on {theirs.examples:,}")
    return check(True, f"trained on the same data, {mine.examples:,} examples against {theirs.examples:,}")


def above_zero(name: str, found: Difference, interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> Check:
    """Say whether a difference is above zero by its interval and by its corrected p."""
    if not found.draws.size:
        return checked(CheckName.DIFFERENCE, None, "no item has a value of both, so that nothing can be compared")
    guard = "" if found.over_seeds is None else f"; {found.over_seeds}"
    figures = f"{decimals(found.value, '+.3f')} {interval or _WITHOUT} (Holm {p_words(p_holm)}{guard})"
    passed = _holds(interval, p_holm, bootstrap)
    sentence = f"the difference {figures} {'is above' if passed else 'may be'} zero"
    if interval is not None and interval.high < 0.0 and p_holm < 1.0 - bootstrap.level:
        sentence = f"{name} is worse: {figures}"
    return checked(CheckName.DIFFERENCE, passed, sentence)


def _holds(interval: Interval | None, p_holm: float, bootstrap: Bootstrap) -> bool:
    """True if both the interval and the corrected p say that a difference is above zero."""
    return interval is not None and interval.above(0.0) and p_holm < 1.0 - bootstrap.level


def one_model(parity: ParityRecord | None) -> Check:
    """Say whether sampler and trainer agreed to the bit."""
    if parity is None or parity.steps == 0:
        return checked(CheckName.PARITY, None, "sampler and trainer were not compared")
    equal = parity.unequal_bits == 0
    agreed = f"sampler and trainer agree in every bit over {parity.steps} steps"
    differ = f"sampler and trainer differ in {parity.unequal_bits} log-probabilities"
    return checked(CheckName.PARITY, equal, agreed if equal else differ)


_WITHOUT = "without an interval"
RECALL_SHARE = 0.8  # Share of the other system's smallest recall that must be kept.
_RISING = (Metric.LABEL_MATCH, Metric.MACRO_F1, Metric.BALANCED_ACCURACY, Metric.MIN_CLASS_RECALL, Metric.G_MEAN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Beats(Generic[System]):
    """The claim "first beats second on metric" and the evidence for it; None where there is none."""

    first: System
    second: System
    metric: str = Metric.MACRO_F1
    same_models: bool = False  # True if they are the same runs on a task, before and after training.
    training: tuple[Training, Training] | None = None  # Of the first and of the second.
    parity: ParityRecord | None = None  # Sampler against trainer over the training steps of `first`.

    def __post_init__(self) -> None:
        _require_rising(self.first, self.metric)


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned(Generic[System]):
    """The claim "system learned something that nothing simpler explains" and the evidence for it."""

    system: System
    metric: str = Metric.MACRO_F1
    before: MeanRuns | None = None  # The same runs before their training; of means alone.
    metadata: Runs | None = None  # The baseline that sees year, citations and field alone; of labels.
    baselines: tuple[MeanRuns, ...] = ()  # The task's own, answers without a model; of means.
    control: System | None = None  # Trained, best in the same way, on shuffled labels: each item with another's answer.
    control_words: str = "the same method trained on shuffled labels"  # Its name: of another method, its own.
    parity: ParityRecord | None = None  # Sampler against trainer over its training steps.

    def __post_init__(self) -> None:
        _require_rising(self.system, self.metric)


def _require_rising(system: Runs | MeanRuns, metric: str) -> None:
    if isinstance(system, Runs) and metric not in _RISING:
        what = "a claim needs a score that is better when higher"
        raise ConfigError(what, field="metric", value=metric, allowed=", ".join(_RISING))


_Tested = tuple[float, Callable[[float, float], Claim]]
"""A claim's own p, and what makes the claim of its p after Holm's correction and the level left to intervals."""


def judge_beats(family: Sequence[Beats[Any]], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that one system beats another: Holm's correction runs over all of `family`.

    Items that one of the two did not answer are left out; more than a twentieth of them refuses the claim.
    """
    return _judged([_beaten(one, bootstrap) for one in family], bootstrap)


def judge_learned(family: Sequence[Learned[Any]], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    """Judge claims that a system learned something: Holm's correction runs over all of `family`.

    The p of one is the largest of its tests'; all its intervals are at the level that the correction leaves to it.
    """
    return _judged([_learned(one, bootstrap) for one in family], bootstrap)


def _judged(tested: Sequence[_Tested], bootstrap: Bootstrap) -> tuple[Claim, ...]:
    p_values = [p_value for p_value, _ in tested]
    by_size = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = {place: 1.0 - (1.0 - bootstrap.level) / (len(p_values) - rank) for rank, place in enumerate(by_size)}
    corrected = zip(tested, holm(p_values), strict=True)
    return tuple(claim(p_holm, levels[place]) for place, ((_, claim), p_holm) in enumerate(corrected))


def _gap(
    first: Runs | MeanRuns,
    second: Runs | MeanRuns,
    *,
    metric: str,
    bootstrap: Bootstrap,
    seeds: tuple[int, ...],
    paired: bool = False,
) -> Difference:
    """Measure a difference guarded by t over seeds, also where a control or an untrained side has few of them."""
    gap = gap_of(first, second, metric, bootstrap, paired=paired)
    if min(seeds) < ENOUGH_SEEDS:
        return gap
    paired = paired or _of(first) == "seeds"
    return gap.guarded(seed_test(*(scores_by_seed(one, metric) for one in (first, second)), paired=paired))


def _of(system: Runs | MeanRuns) -> str:
    return "seeds" if isinstance(system, MeanRuns) and system.items_are_seeds else "items"


_UNMEASURED = Difference(0.0, np.zeros(0), None, 1.0)
"""Of systems without common items."""


def _beaten(one: Beats[Any], bootstrap: Bootstrap) -> _Tested:
    seeds = (one.first.num_seeds, one.second.num_seeds)
    # What was not trained takes nothing from what seeds can say.
    untrained = one.training is not None and one.training[1].examples == 0
    if not isinstance(one.first, Runs) and (untrained or one.same_models):
        seeds = seeds[:1]
    items, left_out = common_items([one.first, one.second], by_every_seed=True)
    first, second = (each.on(items) if items else each for each in (one.first, one.second))
    gap = _UNMEASURED
    if items:
        gap = _gap(first, second, metric=one.metric, bootstrap=bootstrap, seeds=seeds, paired=one.same_models)

    def claim(p_holm: float, level: float) -> Claim:
        checks = [same_training(one.training), above_zero(first.name, gap, gap.at(level), p_holm, bootstrap)]
        if isinstance(first, Runs) and items:
            mine, theirs = (each.score(Metric.MIN_CLASS_RECALL) for each in (first, second))
            needed = RECALL_SHARE * theirs
            sentence = f"smallest recall {mine:.3f} against {theirs:.3f} (at least {needed:.3f} is needed)"
            checks.append(checked(CheckName.RECALL, mine >= needed, sentence))
        return Claim(
            kind=ClaimKind.BEATS,
            first=first.name,
            second=second.name,
            metric=one.metric,
            value=gap.value,
            interval=gap.at(level),
            p_value=gap.p_value,
            p_holm=p_holm,
            seeds=seeds,
            num_items=len(items),
            checks=(same_items(len(items), left_out, _of(first)), *checks, one_model(one.parity)),
        )

    return gap.p_value, claim


def _learned(one: Learned[Any], bootstrap: Bootstrap) -> _Tested:
    named = (
        (CheckName.BEFORE, "the model before training", one.before),
        (CheckName.METADATA, "the metadata-only baseline", one.metadata),
        *((CheckName.BASELINE, f"the baseline {each.name}", each) for each in one.baselines),
        (CheckName.CONTROL, one.control_words, one.control),
    )
    others: list[tuple[CheckName, str, Any]] = [
        (check, name, other) for check, name, other in named if other is not None
    ]
    items, left_out = common_items([one.system, *(other for _, _, other in others)], by_every_seed=True)
    system, seeds = one.system.on(items) if items else one.system, (one.system.num_seeds,)
    gap_to = partial(_gap, system, bootstrap=bootstrap, seeds=seeds)
    rivals = [_Rival(check, name, one.metric, _UNMEASURED) for check, name, _ in others]
    if items:
        rivals = [
            *_constants(system, one.metric, gap_to),
            *(
                rival._replace(gap=gap_to(it.on(items), metric=one.metric, paired=rival.check is CheckName.BEFORE))
                for rival, (_, _, it) in zip(rivals, others, strict=True)
            ),
        ]
    leak = None
    if items and isinstance(system, Runs) and one.control is not None:
        leak = _leak(one.control.on(items), one.control_words, bootstrap)
    # The explanation that comes nearest: of the largest p, and of these the smallest difference.
    nothing = _Rival(CheckName.BASELINE, "nothing simpler", one.metric, _UNMEASURED)
    near = max(rivals, key=lambda rival: (rival.p_value, -rival.gap.value), default=nothing)

    def claim(p_holm: float, level: float) -> Claim:
        tested = [rival.tested(p_holm if rival is near else rival.p_value, level, bootstrap) for rival in rivals]
        checks = _complete(tested, leak, of_labels=isinstance(system, Runs))
        return Claim(
            kind=ClaimKind.LEARNED,
            first=system.name,
            second=near.name,
            metric=near.metric,
            judged_on="" if near.metric == one.metric else one.metric,
            value=near.gap.value,
            interval=near.gap.at(level),
            p_value=near.p_value,
            p_holm=p_holm,
            seeds=seeds,
            num_items=len(items),
            checks=(same_items(len(items), left_out, _of(system)), *checks, one_model(one.parity)),
        )

    return near.p_value, claim


class _Rival(NamedTuple):
    """A simpler explanation: the check, what it is held against, the metric, and how far the system is above it."""

    check: CheckName
    name: str
    metric: str
    gap: Difference

    @property
    def p_value(self) -> float:
        """P of being above it: two-sided, and 1 for what is not."""
        return self.gap.p_value if self.gap.value > 0.0 else 1.0

    def tested(self, p_value: float, level: float, bootstrap: Bootstrap) -> Check:
        if not self.gap.draws.size:
            return checked(self.check, None, f"{self.name}: no item is common to all systems")
        interval = self.gap.at(level)
        passed = _holds(interval, p_value, bootstrap)
        guards = [] if self.gap.over_seeds is None else [str(self.gap.over_seeds)]
        if interval is not None and interval.above(0.0) and not passed:
            guards.insert(0, f"{'' if p_value == self.p_value else 'Holm '}{p_words(p_value)}")
        elif guards and not passed and (drawn := percentile(self.gap.draws, level)) and drawn.above(0.0):
            guards[0] += ", whose interval reaches 0"
        comparison = (
            f"{self.name}: {decimals(self.gap.value, '+.3f')} {interval or _WITHOUT} on {metric_name(self.metric)}"
        )
        why = f" ({'; '.join(guards)})" if guards else ""
        return checked(self.check, passed, f"{'beats' if passed else 'does not beat'} {comparison}{why}")


def _constants(system: Runs | MeanRuns, metric: str, gap_to: Callable[..., Difference]) -> list[_Rival]:
    """Return what always gives one label: the best such in the metric, and chance; of what is no label none."""
    if not isinstance(system, Runs):
        return []
    label = best_constant(system.labels, [system.labels[code] for code in system.golds], Metric(metric))
    blind, recalls = Runs.constant(system, label), Metric.BALANCED_ACCURACY
    return [
        _Rival(CheckName.CONSTANT, f"always {label}", metric, gap_to(blind, metric=metric)),
        # Any constant's balanced accuracy is chance, in every resample.
        _Rival(CheckName.CHANCE, "chance", recalls, gap_to(blind, metric=recalls)),
    ]


def _complete(tested: Sequence[Check], leak: Check | None, *, of_labels: bool) -> list[Check]:
    """Return checks with those that fail for want of evidence; a control that leaks fails whatever it is below."""
    there = {check.name for check in tested}
    absent = _ABSENT_OF_LABELS if of_labels else _ABSENT
    checks = [*tested, *(checked(name, None, words) for name, words in absent.items() if name not in there)]
    if of_labels:
        checks.sort(key=lambda check: _OF_LABELS.index(check.name))
    return [leak if leak is not None and check.name is CheckName.CONTROL else check for check in checks]


_OF_LABELS = (CheckName.CONSTANT, CheckName.METADATA, CheckName.CHANCE, CheckName.CONTROL)
_ABSENT_OF_LABELS = {
    CheckName.METADATA: "no metadata-only baseline was scored on these items",
    CheckName.CONTROL: "no run on shuffled labels was scored on these items",
}
_ABSENT = {
    CheckName.BEFORE: "the model before training was not evaluated on these items",
    CheckName.BASELINE: "the task names no baseline that needs no model",
    CheckName.CONTROL: "no run on shuffled labels was trained in this way",
}
"""Evidence that a claim on means needs, and what is said where there is none."""


def _leak(control: Runs, name: str, bootstrap: Bootstrap) -> Check | None:
    """Return a failed check where the control learned something; None: it did not."""
    level = chance(control.golds.tolist())
    found = estimate(control, Metric.BALANCED_ACCURACY, bootstrap)
    if found.interval is not None and not found.interval.above(level):
        return None
    above = f"{name} scores {found} balanced accuracy, above chance ({level:.3f})"
    return checked(CheckName.CONTROL, False, f"{above}: labels leak, or something else is wrong")
