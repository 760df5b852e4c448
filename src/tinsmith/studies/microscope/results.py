"""What the microscope has found over seeds, as values: shares and ratios with intervals, what was asked, and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from tinsmith.lab.study.results import Draws, StudyValues
from tinsmith.pages.measures import Measure
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.mean_claims import MeanBeats, judge_mean_beats
from tinsmith.stats.intervals import percentile
from tinsmith.stats.mean_runs import ByItem, MeanRuns
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import FloatArray
from tinsmith.studies.microscope.agreement import Agreement, Decoding, ItemLook, Writer
from tinsmith.studies.microscope.interventions import Rule
from tinsmith.studies.microscope.looking import Looked

RULE_WORDS: Final[Mapping[Rule, str]] = {
    Rule.ORACLE: "the first, corrected where the two part",
    Rule.RANDOM: "the first, corrected at as many drawn places",
    Rule.UNCERTAIN: "the first, corrected where it is uncertain",
}
_ONE: Final = Fraction(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """What became of the tokens that one policy wrote in one way."""

    writer: Writer
    decoding: Decoding
    tokens: int
    unshifted: Measure
    reranked: Measure
    shifted: Measure
    mean_rank: float | None
    """Of what the second would take where the two part; None: they never do."""
    entropy_ratio: Measure | None
    """Mean entropy of the first where the two part, over that elsewhere."""
    earned: Measure
    """The writer's reward."""
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InterventionRow:
    """What the first earns under correction."""

    rule: Rule
    decoding: Decoding
    earned: Measure
    recovered: Measure | None
    """Of the second's gain over the first; None: it has none, or one that may be zero."""
    taken: float
    """Share of the tokens that are the second's."""
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One thing that the literature says, and whether it came out."""

    words: str
    value: Measure | None
    bound: float
    at_least: bool
    """Else at most."""

    @property
    def came_out(self) -> bool:
        """Whether the figure is on the right side; whether its interval is, the page shows."""
        if self.value is None:
            return False
        return self.value.value >= self.bound if self.at_least else self.value.value <= self.bound


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeFound(StudyValues):
    """What the study has found."""

    task: str
    second_is: str
    """What the second policy is, in words."""
    agreements: tuple[AgreementRow, ...]
    interventions: tuple[InterventionRow, ...]
    control_unshifted: float
    """Of the second against itself: the lowest share of any answer."""
    asked: tuple[Asked, ...]
    beats: tuple[Claim, ...]
    looks: Mapping[str, str]
    """SHA-256 of what was seen, by the run's folder."""

    def row(self, writer: Writer, decoding: Decoding) -> AgreementRow:
        """Return what one of them wrote in one way."""
        return next(one for one in self.agreements if (one.writer, one.decoding) == (writer, decoding))

    def intervention(self, rule: Rule, decoding: Decoding) -> InterventionRow:
        """Return what a rule came to."""
        return next(one for one in self.interventions if (one.rule, one.decoding) == (rule, decoding))


def agreement_rows(looks: Sequence[Looked], draws: Bootstrap) -> tuple[AgreementRow, ...]:
    """Return what became of tokens, whoever wrote them and however."""
    return tuple(
        _agreement([one.agreement(writer, decoding) for one in looks], draws)
        for writer in Writer
        for decoding in Decoding
    )


def _agreement(seen: Sequence[Agreement], draws: Bootstrap) -> AgreementRow:
    def share(of: Callable[[ItemLook], int]) -> Measure:
        return _estimate(
            _runs("share", [{one.item: Fraction(of(one), one.tokens) for one in each.items} for each in seen]),
            draws,
        )  # fmt: skip

    every = [one for each in seen for one in each.items]
    changed = sum(one.changed for one in every)
    return AgreementRow(
        writer=seen[0].writer,
        decoding=seen[0].decoding,
        tokens=sum(one.tokens for one in every),
        unshifted=share(lambda one: one.tokens - one.changed),
        reranked=share(lambda one: one.reranked),
        shifted=share(lambda one: one.shifted),
        mean_rank=sum(one.ranks for one in every) / changed if changed else None,
        entropy_ratio=_entropy_ratio(seen, draws) if changed else None,
        earned=_estimate(_runs("earned", [_means(each.earned) for each in seen]), draws),
        failures=sum(each.failures for each in seen),
    )


def _entropy_ratio(seen: Sequence[Agreement], draws: Bootstrap) -> Measure | None:
    """(H where they part / tokens there) / (H elsewhere / tokens there), all sums over the same items and seeds."""

    def sums(of: Callable[[ItemLook], float]) -> MeanRuns:
        return _runs("sum", [{one.item: Fraction(of(one)) for one in each.items} for each in seen])

    parts = (
        sums(lambda one: one.entropy_changed),
        sums(lambda one: one.tokens - one.changed),
        sums(lambda one: one.changed),
        sums(lambda one: one.entropy_same),
    )

    def ratio(a: FloatArray, b: FloatArray, c: FloatArray, d: FloatArray) -> FloatArray:
        return (a * b) / (c * d)

    values = [one.mean() for one in parts]
    if not values[2] * values[3]:
        return None
    found = values[0] * values[1] / (values[2] * values[3])
    drawn = percentile(ratio(*(one.draws(draws, "first") for one in parts)), draws.level)
    return Measure(found) if drawn is None else Measure(found, drawn.low, drawn.high)


def intervention_rows(looks: Sequence[Looked], draws: Bootstrap) -> tuple[InterventionRow, ...]:
    """Return what the first earns under correction, and how much of the second's gain that is."""
    found: list[InterventionRow] = []
    for decoding in Decoding:
        start, goal = (earned(looks, writer, decoding) for writer in Writer)
        for rule in Rule:
            seen = [one.intervention(rule, decoding) for one in looks]
            mine = corrected_runs(looks, rule, decoding)
            found.append(
                InterventionRow(
                    rule=rule,
                    decoding=decoding,
                    earned=_estimate(mine, draws),
                    recovered=recovered(start, mine, goal, draws),
                    taken=sum(one.taken for one in seen) / sum(one.tokens for one in seen),
                    failures=sum(one.failures for one in seen),
                )
            )
    return tuple(found)


def recovered(start: MeanRuns, mine: MeanRuns, goal: MeanRuns, draws: Bootstrap) -> Measure | None:
    """Return (mine - start) / (goal - start), items and seeds of all three drawn together.

    None where the interval of the gain reaches zero: a share of what may be nothing says nothing.
    """
    gain = goal.mean() - start.mean()
    first, middle, last = (one.draws(draws, "first") for one in (start, mine, goal))
    gains = percentile(last - first, draws.level)
    if gain <= 0.0 or (gains is not None and gains.low <= 0.0):
        return None
    with_gain = last - first > 0.0
    ratios = (middle - first)[with_gain] / (last - first)[with_gain]
    value, drawn = (mine.mean() - start.mean()) / gain, percentile(ratios, draws.level)
    return Measure(value) if drawn is None else Measure(value, drawn.low, drawn.high)


def earned(looks: Sequence[Looked], writer: Writer, decoding: Decoding) -> MeanRuns:
    """Return what a policy earns by item and seed."""
    words = {Writer.FIRST: "the first", Writer.SECOND: "the second"}[writer]
    return _runs(f"{words}, {decoding.value}", [_means(one.agreement(writer, decoding).earned) for one in looks])


def corrected_runs(looks: Sequence[Looked], rule: Rule, decoding: Decoding) -> MeanRuns:
    """Return what the first earns under correction, by item and seed."""
    return _runs(
        f"{RULE_WORDS[rule]}, {decoding.value}", [_means(one.intervention(rule, decoding).earned) for one in looks]
    )


def lowest_of_control(looks: Sequence[Looked]) -> float:
    """Return the lowest share of unshifted tokens in any answer of the second against itself."""
    shares = [
        Fraction(item.tokens - item.changed, item.tokens)
        for one in looks
        for seen in one.control
        for item in seen.items
    ]
    return float(min(shares, default=_ONE))


def asked_of(
    agreements: Sequence[AgreementRow], interventions: Sequence[InterventionRow], control: float
) -> tuple[Asked, ...]:
    """Return what the literature says, with what came out here."""
    row = next(one for one in agreements if (one.writer, one.decoding) == (Writer.SECOND, Decoding.GREEDY))
    by_rule = {(one.rule, one.decoding): one.recovered for one in interventions}

    def gain(rule: Rule, decoding: Decoding, words: str, bound: float, *, at_least: bool) -> Asked:
        return Asked(words=f"{words}, {decoding.value}", value=by_rule[rule, decoding], bound=bound, at_least=at_least)

    return (
        Asked(words="unshifted tokens", value=row.unshifted, bound=0.95, at_least=True),
        Asked(words="shifted tokens", value=row.shifted, bound=0.005, at_least=False),
        Asked(words="entropy ratio", value=row.entropy_ratio, bound=3.0, at_least=True),
        *(gain(Rule.ORACLE, each, "the oracle's share of the gain", 0.8, at_least=True) for each in Decoding),
        *(gain(Rule.RANDOM, each, "the drawn places' share of the gain", 0.25, at_least=False) for each in Decoding),
        Asked(words="unshifted against itself", value=Measure(control), bound=1.0, at_least=True),
    )


def judged(looks: Sequence[Looked], training: Training, parity: ParityRecord | None, draws: Draws) -> tuple[Claim, ...]:
    """Judge that the second beats the first, and that the oracle beats the first and the drawn places."""
    untrained = Training(training.data, 0)
    family: list[MeanBeats] = []
    for decoding in Decoding:
        start, goal = (earned(looks, writer, decoding) for writer in Writer)
        oracle, drawn = (corrected_runs(looks, rule, decoding) for rule in (Rule.ORACLE, Rule.RANDOM))
        for first, second, of in ((goal, start, untrained), (oracle, start, untrained), (oracle, drawn, training)):
            family.append(
                MeanBeats(
                    first=first,
                    second=second,
                    metric="reward",
                    same_models=True,
                    training=(training, of),
                    parity=parity,
                )
            )
    return judge_mean_beats(family, draws.claims)


def _runs(name: str, by_seed: Sequence[ByItem]) -> MeanRuns:
    return MeanRuns.of(name, by_seed)


def _means(rewards: Mapping[str, Sequence[float]]) -> dict[str, Fraction]:
    """Return each item's mean reward, exactly as its decimals say."""
    return {
        item: sum((Fraction(repr(value)) for value in values), Fraction()) / len(values)
        for item, values in rewards.items()
        if values
    }


def _estimate(runs: MeanRuns, draws: Bootstrap) -> Measure:
    found = runs.estimate(draws)
    if found.interval is None:
        return Measure(found.value)
    return Measure(found.value, found.interval.low, found.interval.high)
