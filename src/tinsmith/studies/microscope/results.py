"""Results of the microscope over seeds: shares and ratios with intervals, the literature's findings, and claims."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Final

from tinsmith.lab.runs.records import Run
from tinsmith.lab.study.record import Column, Expected, StudyRecord, TableRecord
from tinsmith.lab.study.results import Draws, hashes_in
from tinsmith.pages.measures import Measure, from_estimate
from tinsmith.pages.wording import told
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Claim, Training
from tinsmith.stats.gate.claims import MeanBeats, judge_beats
from tinsmith.stats.intervals import percentile
from tinsmith.stats.mean_runs import MeanRuns
from tinsmith.stats.parity import ParityRecord
from tinsmith.stats.rates import FloatArray
from tinsmith.studies.microscope.agreement import Agreement, Decoding, ItemLook, Writer
from tinsmith.studies.microscope.interventions import Rule
from tinsmith.studies.microscope.looking import Looked
from tinsmith.studies.microscope.settings import QUESTION, MicroscopeSettings

RULES: Final[Mapping[Rule, str]] = {
    Rule.ORACLE: "the first, corrected where the two part",
    Rule.RANDOM: "the first, corrected at as many drawn places",
    Rule.UNCERTAIN: "the first, corrected where it is uncertain",
}
WRITES: Final[Mapping[Writer, str]] = {Writer.FIRST: "the first writes", Writer.SECOND: "the second writes"}
_LITERATURE: Final = "arXiv:2605.06241"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A run, and a look at it."""

    run: Run
    looked: Looked
    file: Path
    """Holds the look."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementRow:
    """Fate of the tokens that one policy wrote in one way."""

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
    """Reward of the first under correction."""

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
    """A finding of the literature, beside the figure of this study."""

    words: str
    value: Measure | None
    bound: float
    at_least: bool
    """Else at most."""

    @property
    def came_out(self) -> bool:
        """True if the figure is on the right side, whatever its interval."""
        if self.value is None:
            return False
        return self.value.value >= self.bound if self.at_least else self.value.value <= self.bound

    @property
    def expected(self) -> Expected:
        """The finding as the page of a study shows it."""
        value = "nothing to measure" if self.value is None else told(self.value)
        figures = f"{value}; asked {'at least' if self.at_least else 'at most'} {self.bound:g}"
        return Expected(text=self.words, met=self.came_out, figures=figures)


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroscopeRecord(StudyRecord):
    """Values of the study."""

    task: str
    second_is: str
    """Names the second policy."""
    agreements: tuple[AgreementRow, ...]
    interventions: tuple[InterventionRow, ...]
    control_unshifted: float
    """Of the second against itself: the lowest share of any answer."""
    asked: tuple[Asked, ...]
    looks: Mapping[str, str]
    """SHA-256 of each look, by the run's folder."""


def record_of(settings: MicroscopeSettings, sights: Sequence[Sight], draws: Draws) -> MicroscopeRecord:
    """Return the values that are kept.

    Raises:
        DataError: two runs were not looked at on the same items.
    """
    run, looks = sights[0].run, [one.looked for one in sights]
    agreements, interventions = agreement_rows(looks, draws.tables), intervention_rows(looks, draws.tables)
    control = lowest_of_control(looks)
    asked = asked_of(agreements, interventions, control)
    groups = run.config.settings.get("groups_per_batch", 1)
    examples = (run.config.steps or 0) * (groups if isinstance(groups, int) else 1)
    second = "GRPO" if settings.sides is None else f"{settings.sides[1]}"
    seeds = tuple(one.run.config.seed or 0 for one in sights)
    return MicroscopeRecord(
        data=run.config.data.fingerprint,
        num_items=len(looks[0].agreements[0].items),
        seeds=seeds,
        tuning_seed=settings.study.tuning_seed,
        settings=settings.deciding(),
        rates={},
        hashes=hashes_in([one.run for one in sights]),
        title=f"The microscope on {run.config.task.name}",
        question=QUESTION,
        source=_LITERATURE,
        score="reward",
        arms=(),
        gains=(),
        more_gains=(),
        expectations=tuple(one.expected for one in asked),
        figures={},
        tables=_tables(agreements, interventions),
        panels=(),
        curves=(),
        beats=judged(looks, Training(run.config.data.fingerprint, examples), _parity(sights), draws),
        learned=(),
        notes=(
            f"The second policy is {second}. The share of unshifted tokens hangs on who writes and how; against itself "
            f"it is {control:.3f} in every answer.",
            "Every share is a mean over answers, so that how long answers are decides how small it can be.",
        ),
        task=run.config.task.name,
        second_is=second,
        agreements=agreements,
        interventions=interventions,
        control_unshifted=control,
        asked=asked,
        looks={one.run.folder.name: hashlib.sha256(one.file.read_bytes()).hexdigest() for one in sights},
    )


def _parity(sights: Sequence[Sight]) -> ParityRecord | None:
    every = [row.get("optim/unequal_logprob_bits") for one in sights for row in one.run.metrics.values()]
    known = [value for value in every if value is not None]
    return ParityRecord(steps=len(known), unequal_bits=int(sum(known))) if known else None


def _tables(agreements: Sequence[AgreementRow], interventions: Sequence[InterventionRow]) -> tuple[TableRecord, ...]:
    none = "none"
    agreed = {
        "tokens": Column(head="tokens", form="d"),
        **{name: Column(head=name) for name in ("unshifted", "reranked")},
        "shifted": Column(head="shifted", form=".4f"),
        "mean_rank": Column(head="mean rank", form=".2f", missing=none),
        "entropy_ratio": Column(head="entropy ratio", form=".2f", missing=none),
        "earned": Column(head="reward|of the writer"),
        "failures": Column(head="failed|answers", form="d"),
    }
    corrected = {
        "earned": Column(head="reward"),
        "recovered": Column(head="recovered", missing="no gain shown"),
        "taken": Column(head="corrected|share of tokens"),
        "failures": Column(head="failed|answers", form="d"),
    }
    return (
        _table(
            "Agreement",
            "Shares of an answer's tokens, means over answers, items and seeds. Entropy ratio: the mean entropy of the "
            "first where the two part, over that elsewhere.",
            agreed,
            [(WRITES[one.writer], one) for one in agreements],
        ),
        _table(
            "Corrections",
            "The first writes and is corrected by the second. Recovered: of what the second earns more than the first, "
            "where that is shown to be more.",
            corrected,
            [(RULES[one.rule], one) for one in interventions],
        ),
    )


def _table(
    title: str, caption: str, columns: Mapping[str, Column], rows: Sequence[tuple[str, AgreementRow | InterventionRow]]
) -> TableRecord:
    """Return a table of fields, by their names."""

    def shown(value: Measure | float | None) -> Measure | None:
        return Measure(value) if isinstance(value, int | float) else value

    named = [(f"{name}|{one.decoding.value}", tuple(shown(getattr(one, key)) for key in columns)) for name, one in rows]
    return TableRecord(title=title, caption=caption, columns=tuple(columns.values()), rows=tuple(named))


def row_of(rows: Sequence[AgreementRow], writer: Writer, decoding: Decoding) -> AgreementRow:
    """Return the row of one policy and one way to write."""
    return next(one for one in rows if (one.writer, one.decoding) == (writer, decoding))


def agreement_rows(looks: Sequence[Looked], draws: Bootstrap) -> tuple[AgreementRow, ...]:
    """Return the fate of tokens, by writer and decoding."""
    return tuple(
        _agreement([one.agreement(writer, decoding) for one in looks], draws)
        for writer in Writer
        for decoding in Decoding
    )


def _agreement(seen: Sequence[Agreement], draws: Bootstrap) -> AgreementRow:
    def share(of: Callable[[ItemLook], int]) -> Measure:
        values = [{one.item: Fraction(of(one), one.tokens) for one in each.items} for each in seen]
        return from_estimate(MeanRuns.of("share", values).estimate(draws))

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
        earned=from_estimate(MeanRuns.of("earned", [_means(each.earned) for each in seen]).estimate(draws)),
        failures=sum(each.failures for each in seen),
    )


def _entropy_ratio(seen: Sequence[Agreement], draws: Bootstrap) -> Measure | None:
    """(H where they part / tokens there) / (H elsewhere / tokens there), all sums over the same items and seeds."""

    def sums(of: Callable[[ItemLook], float]) -> MeanRuns:
        return MeanRuns.of("sum", [{one.item: Fraction(of(one)) for one in each.items} for each in seen])

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
                    earned=from_estimate(mine.estimate(draws)),
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
    return MeanRuns.of(f"{words}, {decoding.value}", [_means(one.agreement(writer, decoding).earned) for one in looks])


def corrected_runs(looks: Sequence[Looked], rule: Rule, decoding: Decoding) -> MeanRuns:
    """Return what the first earns under correction, by item and seed."""
    return MeanRuns.of(
        f"{RULES[rule]}, {decoding.value}", [_means(one.intervention(rule, decoding).earned) for one in looks]
    )


def lowest_of_control(looks: Sequence[Looked]) -> float:
    """Return the lowest share of unshifted tokens in any answer of the second against itself."""
    shares = [
        Fraction(item.tokens - item.changed, item.tokens)
        for one in looks
        for seen in one.control
        for item in seen.items
    ]
    return float(min(shares, default=Fraction(1)))


def asked_of(
    agreements: Sequence[AgreementRow], interventions: Sequence[InterventionRow], control: float
) -> tuple[Asked, ...]:
    """Return the literature's findings beside the figures here."""
    row = row_of(agreements, Writer.SECOND, Decoding.GREEDY)
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
    return judge_beats(family, draws.claims)


def _means(rewards: Mapping[str, Sequence[float]]) -> dict[str, Fraction]:
    """Return each item's mean reward, exactly as its decimals say."""
    return {
        item: sum((Fraction(repr(value)) for value in values), Fraction()) / len(values)
        for item, values in rewards.items()
        if values
    }
