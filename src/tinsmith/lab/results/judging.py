"""Which claims are put to the gate, with which evidence, and what became of each.

Whether it beats another is asked of every RL arm and its parent, every SFT arm, and, for two labels, every RL arm on
one; of one run alone and the slice's baselines. Whether it learned something is asked of every RL arm, and of one run
alone. What cannot even be compared is refused here, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.baseline_rivals import RIVALS, metadata_of, pairing_words, rival
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.runs.kinds import Kind
from tinsmith.lab.runs.records import Config, Split
from tinsmith.pages.wording import listed
from tinsmith.stats.estimates import Bootstrap
from tinsmith.stats.gate.claim import Check, CheckName, Claim, ClaimKind, Finding, Training, Verdict, claim_words
from tinsmith.stats.gate.claims import Beats, Learned, judge_beats, judge_learned
from tinsmith.stats.intervals import Interval
from tinsmith.stats.rates import Metric
from tinsmith.stats.runs import Runs
from tinsmith.types.errors import DataError

METRIC = Metric.MACRO_F1
"""What every claim on a page is about: named before any run, and the only one."""
BOOTSTRAP = Bootstrap()


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One claim on a page."""

    kind: ClaimKind
    first: str
    second: str = ""
    """What is beaten; of something learned, the simpler explanation that comes nearest."""
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
    on: str = ""
    """The score, where the claims of a page are not all on one."""

    @property
    def words(self) -> str:
        """The claim itself."""
        return claim_words(self.kind, self.first, self.second) + self.on

    @property
    def difference(self) -> Check | None:
        """The check on the difference alone."""
        return next((one for one in self.checks if one.name is CheckName.DIFFERENCE), None)

    @property
    def higher(self) -> bool:
        """Whether the difference lies above zero, whatever the gate says of the rest."""
        return self.difference is not None and self.difference.finding is Finding.PASSED


def judge_arms(arms: Sequence[Arm]) -> tuple[Judged, ...]:
    """Judge what every RL arm beats, and what it learned: a family each."""
    answers: dict[str, Runs | str] = {arm.name: _answers(arm) for arm in arms}
    trained = [arm for arm in arms if arm.kind is Kind.RL]
    pairs = [
        _Pair(
            first=answers[first.name],
            second=other,
            names=(first.name, name),
            arm=first,
            training=_both(training_of(first), training_of(second)),
        )
        for first in trained
        for second in arms
        if second is not first
        and (second.kind is Kind.SFT or second.experiment == first.parent or _on_one(first, second))
        for name, other in _rivals(second, answers[second.name])
    ]
    controls = {arm.name: _control(arm, arms, answers) for arm in trained}
    return (*_judged(pairs), *_judged_alone([(arm, answers[arm.name], controls[arm.name]) for arm in trained]))


def _on_one(first: Arm, second: Arm) -> bool:
    """Whether two labels in one answer are held against the same label alone, true labels both."""
    learned = not first.shuffled and not second.shuffled
    return learned and first.two_labels and not second.two_labels


def judge_alone(arm: Arm) -> tuple[Judged, ...]:
    """Judge one run against its slice's baselines; what it learned takes a control, which another run is."""
    mine, report = _answers(arm), arm.first.baselines
    if isinstance(mine, str) or report is None:
        return ()
    own = training_of(arm)
    fitted = Training(arm.first.config.data.fingerprint, None)
    pairs = [
        _Pair(
            first=mine,
            second=rival(score, arm.first, mine),
            names=(arm.name, BASELINE_WORDS[score.baseline][0].lower()),
            arm=arm,
            training=_both(own, fitted),
        )
        for score in report.scores
        if score.baseline in RIVALS
    ]
    return (*_judged(pairs), *_judged_alone([(arm, mine, None)]))


def training_of(arm: Arm) -> Training | None:
    """Return what each run of an arm was trained on, and how many papers it saw; None where that is not stated."""
    found = {_training(member.run.config) for member in arm.members}
    return found.pop() if len(found) == 1 else None


def _training(config: Config) -> Training | None:
    def asked(key: str) -> int | None:
        value = config.settings.get(key)
        return value if isinstance(value, int) else None

    steps, before = config.steps, asked("sft_steps") or 0
    batch = asked("batch_size" if config.kind is Kind.SFT else "groups_per_batch")
    batch_before = asked("sft_batch_size") if before else 0
    if steps == 0:
        return Training(config.data.fingerprint, 0)
    if steps is None or batch is None or batch_before is None:
        return None
    return Training(config.data.fingerprint, (steps - before) * batch + before * batch_before)


def _both(first: Training | None, second: Training | None) -> tuple[Training, Training] | None:
    return None if first is None or second is None else (first, second)


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
    training: tuple[Training, Training] | None


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
    claims = iter(judge_beats([one for one in prepared if isinstance(one, Beats)], BOOTSTRAP))
    return tuple(
        _refused(ClaimKind.BEATS, one, *pair.names) if isinstance(one, str) else of_claim(next(claims))
        for pair, one in zip(pairs, prepared, strict=True)
    )


def _judged_alone(systems: Sequence[tuple[Arm, Runs | str, _Control | None]]) -> tuple[Judged, ...]:
    """Put to the gate, as one family, what each arm learned."""
    claims = iter(
        judge_learned(
            [
                Learned(
                    system=found,
                    metric=METRIC,
                    metadata=metadata_of(arm.first, found),
                    control=_with_true_labels(control.answers, found) if control else None,
                    parity=arm.parity(),
                )
                for arm, found, control in systems
                if isinstance(found, Runs)
            ],
            BOOTSTRAP,
        )
    )
    return tuple(
        _refused(ClaimKind.LEARNED, found, arm.name)
        if isinstance(found, str)
        else of_claim(next(claims), control.note if control else "")
        for arm, found, control in systems
    )


def _refused(kind: ClaimKind, why: str, first: str, second: str = "") -> Judged:
    return Judged(kind=kind, first=first, second=second, verdict=Verdict.REFUSED, reasons=(why,))


def _prepare(pair: _Pair) -> Beats | str:
    """Return a claim that the gate can judge, or why there is none."""
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
    return Beats(first=first, second=second, metric=METRIC, training=pair.training, parity=pair.arm.parity())


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


def of_claim(claim: Claim, note: str = "") -> Judged:
    """Return a claim that the gate judged as a page shows it."""
    return Judged(
        kind=claim.kind,
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


def verdict_words(judged: Sequence[Judged]) -> tuple[str, ...]:
    """Say of either kind which claims hold, or what stands in the way; empty where none was judged."""
    of_kind = {kind: [one for one in judged if one.kind is kind] for kind in ClaimKind}
    return tuple(_verdicts(kind, found) for kind, found in of_kind.items() if found)


_ASKED = {ClaimKind.BEATS: "A beats B", ClaimKind.LEARNED: "something was learned"}


def _verdicts(kind: ClaimKind, found: Sequence[Judged]) -> str:
    held = [one for one in found if one.verdict is Verdict.ALLOWED]
    asked = f"Claims that {_ASKED[kind]}"
    if held:
        words = (
            f"{one.first}{f' over {one.second}' if kind is ClaimKind.BEATS else ''} ({one.value:+.3f})" for one in held
        )
        return f"{asked}, on {METRIC}: {len(held)} of {len(found)} hold: {listed(list(words))}."
    missing = sorted({check.name.value for one in found for check in one.checks if check.finding is Finding.MISSING})
    why = f"; evidence is missing on {listed(missing)}" if missing else ""
    return f"{asked}, on {METRIC}: none of {len(found)} holds{why}."
