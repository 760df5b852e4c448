"""Which claims are put to the gate, with which evidence, and what became of each.

Every RL arm is held against its parent and against every SFT arm, one on two labels also against every RL arm on one;
one run alone is held against the slice's baselines. What cannot even be compared is refused here, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import RIVALS, metadata_of, pairing_words, rival
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Split
from tinsmith.stats.claims import Check, CheckName, Claim, Comparison, Finding, Verdict, judge
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.intervals import Interval
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

METRIC = Metric.MACRO_F1
"""What every claim on a page is about: named before any run, and the only one."""
BOOTSTRAP = Bootstrap()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One claim on a page: "first beats second"."""

    first: str
    second: str
    verdict: Verdict
    reasons: tuple[str, ...]
    """Why it is refused; everything that speaks for it where it is allowed."""
    checks: tuple[Check, ...] = ()
    value: float | None = None
    """first minus second."""
    interval: Interval | None = None
    p_holm: float | None = None
    num_items: int | None = None
    scope: str = ""
    """What the claim is about: the method, or only these models."""
    note: str = ""

    @property
    def difference(self) -> Check | None:
        """The check on the difference alone."""
        return next((one for one in self.checks if one.name is CheckName.DIFFERENCE), None)

    @property
    def higher(self) -> bool:
        """Whether the difference lies above zero, whatever the gate says of the rest."""
        return self.difference is not None and self.difference.finding is Finding.PASSED


def judge_arms(arms: Sequence[Arm]) -> tuple[Judged, ...]:
    """Judge every RL arm against its parent and the SFT arms, and two labels against one, as one family."""
    answers: dict[str, Runs | str] = {arm.name: _answers(arm) for arm in arms}
    return _judged(
        [
            _Pair(
                first=answers[first.name],
                second=other,
                names=(first.name, name),
                arm=first,
                control=_control(first, arms, answers),
            )
            for first in arms
            if first.kind is Kind.RL
            for second in arms
            if second is not first
            and (
                second.kind is Kind.SFT
                or second.experiment == first.parent
                or _on_one(first, second)
            )
            for name, other in _rivals(second, answers[second.name])
        ]
    )


def _on_one(first: Arm, second: Arm) -> bool:
    """Whether two labels in one answer are held against the same label alone, true labels both."""
    learned = not first.shuffled and not second.shuffled
    return learned and first.two_labels and not second.two_labels


def judge_alone(arm: Arm) -> tuple[Judged, ...]:
    """Judge one run against the baselines of its slice; there is no control, so that none can be allowed."""
    mine, report = _answers(arm), arm.first.baselines
    if isinstance(mine, str) or report is None:
        return ()
    against = [
        (BASELINE_WORDS[score.baseline][0].lower(), rival(score, arm.first, mine))
        for score in report.scores
        if score.baseline in RIVALS
    ]
    return _judged(
        [
            _Pair(first=mine, second=other, names=(arm.name, name), arm=arm, control=None)
            for name, other in against
        ]
    )


def pairing(arms: Sequence[Arm]) -> str:
    """Say whether claims made for these arms hold them against the baselines paper by paper."""
    answered = [(arm.first, _answers(arm)) for arm in arms]
    return pairing_words([(run, answers) for run, answers in answered if isinstance(answers, Runs)])


@dataclass(frozen=True, slots=True)
class _Control:
    """The run on shuffled labels that a claim is held against."""

    answers: Runs
    note: str
    """What is amiss with it as a control of this method; empty where nothing is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """Two systems to compare; a text instead of answers says why there are none."""

    first: Runs | str
    second: Runs | str
    names: tuple[str, str]
    arm: Arm
    """That of `first`."""
    control: _Control | None


def _rivals(arm: Arm, answers: Runs | str) -> list[tuple[str, Runs | str]]:
    """Return what of an arm is to be beaten: its sampled answers, and its decisions with logit offsets.

    SFT with offsets chosen for macro-F1 is the honest comparator: it has the same labels and the same aim.
    """
    found = [(arm.name, answers)]
    try:
        offset = arm.answers(Split.TEST_OFFSET)
    except DataError:
        offset = None
    if offset is not None:
        name = f"{arm.name} with offsets"
        found.append((name, replace(offset, name=name)))
    return found


def _answers(arm: Arm) -> Runs | str:
    try:
        answers = arm.answers()
    except DataError as error:
        return error.what
    return answers or f"{arm.name} has no answers on the test split"


def _control(first: Arm, arms: Sequence[Arm], answers: dict[str, Runs | str]) -> _Control | None:
    """Return the control on shuffled labels: that of `first` itself before any other's."""
    controls = [arm for arm in arms if arm.shuffled and arm.two_labels == first.two_labels]
    controls.sort(key=lambda arm: arm is not first and arm.parent != first.experiment)
    for control in controls:
        found = answers[control.name]
        if isinstance(found, Runs):
            own = control is first or control.parent == first.experiment
            note = "" if own else f"The control on shuffled labels is that of {control.parent}."
            return _Control(found, note)
    return None


def _judged(pairs: Sequence[_Pair]) -> tuple[Judged, ...]:
    """Put what can be compared to the gate as one family; refuse the rest."""
    prepared = [_prepare(pair) for pair in pairs]
    comparisons = [one for one in prepared if isinstance(one, Comparison)]
    claims = iter(judge(comparisons, BOOTSTRAP) if comparisons else ())
    return tuple(
        of_claim(next(claims), pair.control.note if pair.control else "")
        if isinstance(one, Comparison)
        else Judged(
            first=pair.names[0], second=pair.names[1], verdict=Verdict.REFUSED, reasons=(one,)
        )
        for pair, one in zip(pairs, prepared, strict=True)
    )


def _prepare(pair: _Pair) -> Comparison | str:
    """Return a comparison that the gate can judge, or why there is none."""
    first, second = pair.first, pair.second
    for answers in (first, second):
        if isinstance(answers, str):
            return answers
    assert isinstance(first, Runs)
    assert isinstance(second, Runs)
    if first.labels != second.labels:
        return "the two do not answer the same question"
    items = _shared(first, second)
    if not items:
        return "the two have no test paper in common"
    if not np.array_equal(first.on(items).golds, second.on(items).golds):
        return "the two have different true labels for the same papers"
    return Comparison(
        first=first,
        second=second,
        metric=METRIC,
        metadata=metadata_of(pair.arm.first, first),
        control=_with_true_labels(pair.control.answers, first) if pair.control else None,
        parity=pair.arm.parity(),
    )


def _shared(first: Runs, second: Runs) -> list[str]:
    """Return the papers that both answered, in the order of `first`."""
    there = set(second.items)
    return [item for item in first.items if item in there]


def _with_true_labels(control: Runs, first: Runs) -> Runs | None:
    """Return the control's answers against the true labels: its own may be the shuffled ones."""
    if control.labels != first.labels:
        return None
    items = _shared(first, control)
    if not items:
        return None
    answers = control.on(items)
    return Runs(control.name, first.labels, tuple(items), first.on(items).golds, answers.predicted)


def of_claim(claim: Claim, note: str) -> Judged:
    """Return a claim that the gate judged as a page shows it."""
    return Judged(
        first=claim.first,
        second=claim.second,
        verdict=claim.verdict,
        reasons=claim.reasons,
        checks=claim.checks,
        value=claim.value,
        interval=claim.interval,
        p_holm=claim.p_holm,
        num_items=claim.num_items,
        scope=claim.scope,
        note=note,
    )
