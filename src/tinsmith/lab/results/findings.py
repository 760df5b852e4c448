"""Sentences and claims about runs on labels: scores, collapse, controls, and causes of lost classes.

A class is lost to the reward, whose optimum never names it, or to its estimate from samples. Two witnesses: the control
on the exact gradient trains with the same reward and no sampling, so that a class that it keeps was lost by the
estimate; the incentive analyser computes the reward's optimum on what an SFT model's greedy answers tell about a paper:
P(true label | its answer), one kind of paper an answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from tinsmith.lab.labels.rewards import REWARDS, make_reward, reward_optimum
from tinsmith.lab.labels.task import TASKS
from tinsmith.lab.results.arms import EXACT, OFFSETS, TITLES, LabelArm
from tinsmith.lab.results.label_tables import listing
from tinsmith.lab.results.run_details import Beside, side_of, verdict
from tinsmith.lab.results.systems import (
    BASELINE_WORDS,
    RIVALS,
    System,
    beside,
    commonest_answer,
    is_paired,
    last_is_selected,
)
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.study import Beats, Learned, Listing, baseline
from tinsmith.pages.measures import Measure, counted, listed, percent, ranged
from tinsmith.stats.estimates import Runs
from tinsmith.stats.incentives import Optimum, Posteriors
from tinsmith.stats.monitors import AlarmKind, Limits
from tinsmith.stats.rates import CLASS_SCORES, ClassMetric, FloatArray
from tinsmith.types.errors import TinsmithError
from tinsmith.types.page_names import metric_name

_SCORES: Final = ("macro_f1", "label_match", "min_class_recall")
_ONE_CLASS: Final = 0.95  # Share of greedy answers from which they are said to be one class.


def verdict_of(arms: Sequence[LabelArm]) -> list[str]:
    """Return the verdict: macro-F1 of the best trained arm but controls, beside chance and the best baseline."""
    scored = [
        (arm, one.measures["macro_f1"], one.num_items)
        for arm in arms
        for one in list(arm.systems.values())[:1]
        if "macro_f1" in one.measures and not arm.shuffled
    ]
    if not scored:
        return []
    arm, macro, num_items = max([one for one in scored if one[0].config.steps] or scored, key=lambda one: one[1].value)
    report = arm.first.baselines
    rivals = [one for one in (report.scores if report else ()) if one.baseline in RIVALS]
    against: list[Beside] = []
    if rivals:
        best = max(rivals, key=lambda one: one.macro_f1.value)
        value, gap = best.macro_f1.value, beside(arm, best.baseline)
        side = side_of(macro, value) if gap is None else gap.above(0.0) - gap.below(0.0)
        against.append((BASELINE_WORDS[best.baseline][0], value, side))
    more = [*_one_class(arm), *([] if num_items is None else [counted(num_items, "paper")])]
    score = f"macro-F1 of {arm.name}" if len(scored) > 1 else "macro-F1"
    return [verdict(score, macro, chance=1 / len(arm.first.labels), baselines=against, more="; ".join(more))]


def _one_class(arm: LabelArm) -> list[str]:
    """Return a note if one class is nearly every greedy answer; otherwise empty."""
    greedy = _greedy(arm)
    top, share = ("", 0.0) if greedy is None else commonest_answer(greedy.measures)
    if greedy is None or greedy.num_items is None or share < _ONE_CLASS:
        return []
    return [f"one class, {top}, in {round(share * greedy.num_items):,} of {greedy.num_items:,} greedy answers"]


def _greedy(arm: LabelArm) -> System | None:
    return next((arm.systems[one] for one in (Split.TEST_GREEDY, Split.EVAL_GREEDY) if one in arm.systems), None)


def sentences_of(arms: Sequence[LabelArm]) -> list[str]:
    """Return the results in sentences: each arm's scores and alarms, and the control."""
    found = [sentence for arm in arms for sentence in (_scores(arm), _collapse(arm)) if sentence]
    return [*found, *(_control(arms) if len(arms) > 1 else [])]


def _scores(arm: LabelArm) -> str:
    first, greedy = next(iter(arm.systems.values()), None), _greedy(arm)
    if first is None:
        return f"{arm.name} was not evaluated."
    figures = [f"{metric_name(key)} {ranged(first.measures[key])}" for key in _SCORES if key in first.measures]
    top, share = commonest_answer(first.measures)
    most = f"; {percent(share)} of the answers are {top}" if top else ""
    macro = greedy.measures.get("macro_f1") if greedy else None
    greedily = f"; greedily macro-F1 {ranged(macro)}" if macro else ""
    if macro is not None and macro.low is not None and macro.low == macro.high:  # as where one class is every answer
        greedily = f"; greedily macro-F1 {macro.value:.3f} in every draw"
    papers = "" if first.num_items is None else f", {counted(first.num_items, 'paper')}"
    return f"{arm.name}, {first.name}{papers}: {listed(figures) or 'scores are missing'}{most}{greedily}."


def _collapse(arm: LabelArm) -> str:
    alarms = [one for member in arm.reads for one in member.run.alarms]
    if not alarms:
        return ""
    ruling = sorted({one.label for one in alarms if one.kind == AlarmKind.SHARE and one.label})
    parts = [f"it collapsed into {listed(ruling)}"] if ruling else []
    unread = sorted({one.step for one in alarms if one.kind == AlarmKind.UNREAD and one.step is not None})
    if unread:
        steps = listed([f"step {step}" for step in unread])
        parts.append(f"hardly any answer could be read at {steps}: a low score there is one of form")
    first = min((one.step for one in alarms if one.step is not None), default=None)
    raised = f"{counted(len(alarms), 'alarm')}{'' if first is None else f', the first at step {first}'}"
    return f"{arm.name}: {'; '.join([*parts, raised])}."


def _control(arms: Sequence[LabelArm]) -> list[str]:
    found: list[str] = []
    for arm in (one for one in arms if one.shuffled and Split.TEST in one.systems):
        accuracy = arm.systems[Split.TEST].measures.get("balanced_accuracy")
        if accuracy is not None:
            above = accuracy.above(arm.chance)
            words = "above chance, so that something is wrong" if above else "not above chance"
            found.append(f"Trained on shuffled labels, {arm.name} has balanced accuracy {ranged(accuracy)}: {words}.")
    return found or ["No run was trained on shuffled labels: without that control no claim of something learned holds."]


def notes_of(arms: Sequence[LabelArm], systems: Mapping[str, Runs]) -> list[str]:
    """Return notes on the baselines' comparison, on differences of the runs, and on unreadable files."""
    return list(dict.fromkeys([*_pairing(arms, systems), *_differing(arms), *_unreadable(arms)]))


def _pairing(arms: Sequence[LabelArm], systems: Mapping[str, Runs]) -> list[str]:
    answered = [(arm.first, systems[arm.name]) for arm in arms if arm.name in systems and arm.first.baselines]
    paired = [
        is_paired(score, run, answers)
        for run, answers in answered
        for score in (run.baselines.scores if run.baselines else ())
        if score.baseline in RIVALS
    ]
    if not paired or all(paired):
        return ["Baselines are compared paper by paper."] if paired else []
    some = "Where their answers to these papers were not kept, baselines" if any(paired) else "Baselines"
    return [f"{some} are compared unpaired, which widens the interval."]


def _differing(arms: Sequence[LabelArm]) -> list[str]:
    runs = [member.run for arm in arms for member in arm.reads]
    values = {
        "slices; baselines are those of the first": {run.config.data.fingerprint for run in runs},
        "base models": {run.config.model_name for run in runs},
        "tasks": {(run.config.task.name, run.labels) for run in runs},
    }
    return [f"The runs have {len(some)} different {name}." for name, some in values.items() if len(some) > 1]


def _unreadable(arms: Sequence[LabelArm]) -> list[str]:
    """Return notes on unreadable files, contradictory metrics and missing baselines of each run."""
    sentences: list[str] = []
    for member_of, member in [(arm, member) for arm in arms for member in arm.reads]:
        name = f"{member_of.name}, seed {member.run.config.seed}: " if len(arms) > 1 else ""
        notes = (*member.notes, *member.disagreements())
        sentences += [f"{name}{note}" for note in notes]
    left_out = next((arm.first.baselines.left_out for arm in arms if arm.first.baselines), {})
    return [
        *sentences,
        *(f"{BASELINE_WORDS[one][0]} is left out: {left_out[one]}." for one in BASELINE_WORDS if one in left_out),
    ]


_OTHER_GOLDS: Final = "the two have different true labels for the same papers"
Claims = tuple[list[Beats | Learned], list[str]]  # With what a reader must know of them.


def claims_of(arms: Sequence[LabelArm], systems: Mapping[str, Runs]) -> Claims:
    """Return the claims of every RL arm: that it beats its parent, SFT or one label alone, and that it learned."""
    if len(arms) == 1:
        return _alone(arms[0], systems)
    trained = [arm for arm in arms if arm.config.kind is Kind.RL]
    claims: list[Beats | Learned] = []
    notes: list[str] = []
    for first in trained:
        for second in arms:
            on_one = (
                not (first.shuffled or second.shuffled) and first.reads[0].two_labels and not second.reads[0].two_labels
            )
            if second is first or not (second.config.kind is Kind.SFT or second.config.name == first.parent or on_one):
                continue
            # SFT with offsets chosen for macro-F1 is the honest comparator: it has the same labels and the same aim.
            ways = [second.name, *([f"{second.name}{OFFSETS}"] if f"{second.name}{OFFSETS}" in systems else [])]
            for name in ways:
                why = incomparable(first.name, name, systems)
                if why:
                    notes.append(f"Not claimed that {first.name} beats {name}: {why}.")
                else:
                    claims.append(Beats(first.name, name))
    borrowed: dict[str, list[str]] = {}
    for arm in (one for one in trained if one.name in systems):
        control = _control_of(arm, arms, systems)
        claims.append(Learned(arm.name, control.name if control else ""))
        if control and control is not arm and control.parent != arm.config.name:
            parent = control.parent or ""
            borrowed.setdefault(TITLES.get(parent, parent) or control.name, []).append(arm.name)
    notes += [f"The control on shuffled labels of {listed(some)} is that of {name}." for name, some in borrowed.items()]
    return claims, notes


def _alone(arm: LabelArm, systems: Mapping[str, Runs]) -> Claims:
    """Return the claims that one run beats its slice's baselines; a claim of learning needs a control run.

    The constant is left out: chance is above it in macro-F1, and is part of the claim that something was learned.
    """
    if arm.first.baselines is None or arm.name not in systems:
        return [], ["No claim is judged: that takes answers to the test split and the slice's baselines."]
    known = [one.baseline for one in arm.first.baselines.scores if one.baseline in RIVALS[1:]]
    return [*(Beats(arm.name, baseline(one)) for one in known), Learned(arm.name, "")], []


def incomparable(first: str, second: str, systems: Mapping[str, Runs]) -> str:
    """Return the reason why two systems cannot be compared; empty if they can."""
    missing = next((name for name in (first, second) if name not in systems), None)
    if missing is not None:
        return f"{missing} has no answers on the test split"
    mine, theirs = systems[first], systems[second]
    there = set(theirs.items)
    items = [item for item in mine.items if item in there]
    if mine.labels != theirs.labels:
        return "the two do not answer the same question"
    if not items:
        return "the two have no test paper in common"
    return "" if np.array_equal(mine.on(items).golds, theirs.on(items).golds) else _OTHER_GOLDS


def _control_of(first: LabelArm, arms: Sequence[LabelArm], systems: Mapping[str, Runs]) -> LabelArm | None:
    """Return the control on shuffled labels: that of `first` itself before any other's."""
    controls = [arm for arm in arms if arm.shuffled and arm.reads[0].two_labels == first.reads[0].two_labels]
    controls.sort(key=lambda arm: arm is not first and arm.parent != first.config.name)
    fit = ("", _OTHER_GOLDS)
    return next((arm for arm in controls if incomparable(first.name, arm.name, systems) in fit), None)


LOST = Limits().min_recall  # A class with a smaller recall is lost: the collapse monitor's limit.
_CAPTION: Final = (
    "Classes whose recall is below the collapse monitor's limit at the end of training. Optimum: what the reward makes "
    "optimal on the greedy answers of the SFT run. Exact gradient: the control that trains on it, with the same reward."
)


class LostClass(NamedTuple):
    """A class that an arm hardly ever recognises at the end of training: figures of the last checkpoint, sampled."""

    arm: str
    label: str
    recall: Measure
    share: Measure  # Of all answers.
    informative: Measure | None  # Share of its groups that carried a gradient, mean over the last tenth of the steps.
    optimum: str
    exact: str  # The verdict of the two witnesses.
    conclusion: str


def lost_classes(arms: Sequence[LabelArm]) -> tuple[LostClass, ...]:
    """Return every lost class of every RL arm, the control on the exact gradient itself left out."""
    losses: list[LostClass] = []
    for arm in (one for one in arms if one.config.kind is Kind.RL and one.config.name != EXACT):
        end = final_answers(arm)
        if end is None:
            continue
        recalls, shares = (mean_of(end, one).tolist() for one in (ClassMetric.RECALL, ClassMetric.PREDICTED_SHARE))
        lost = [k for k in range(len(arm.first.labels)) if recalls[k] < LOST]
        optimum = _optimum(arm, arms) if lost else ""
        for k in lost:
            label, words = arm.first.labels[k], optimum
            if not isinstance(words, str):
                given = words.policy.class_score(ClassMetric.PREDICTED_SHARE)[k]
                words = f"gives it {percent(given)} of the answers"
            retained, exact = _exact(arm, arms, label)
            figures = (Measure(recalls[k]), Measure(shares[k]), _informative(arm, label))
            losses.append(LostClass(arm.name, label, *figures, words, exact, _conclude(retained, optimum, k)))
    return tuple(losses)


def lost_table(lost: Sequence[LostClass]) -> list[Listing]:
    """Return the table of lost classes with both kinds of evidence; empty without lost classes."""
    figures = ("recall", "share", "informative groups")
    heads = ("Class", *figures, "Optimum of the reward", "Exact gradient", "So it was lost")
    return listing("Lost classes", _CAPTION, heads, [list(one) for one in lost], "Arm")


def final_answers(arm: LabelArm) -> Runs | None:
    """Return an arm's sampled answers at the end: of its last checkpoint, or of its last validation."""
    for split in (Split.TEST_LAST, Split.TEST, Split.EVAL):
        if split is Split.TEST and not last_is_selected(arm):
            continue
        found = arm.answers_on(split)
        if found is not None:
            return found
    return None


def mean_of(runs: Runs, metric: ClassMetric) -> FloatArray:
    """Return a score of every class, (K,), mean over seeds."""
    return CLASS_SCORES[metric](runs.counts().astype(np.float64)).mean(axis=0)


def _conclude(loses_none: bool | None, optimum: Optimum | str, k: int) -> str:
    """Return the conclusion from both kinds of evidence; the control takes precedence."""
    if loses_none is True:
        return "to the estimate from samples: the exact gradient of the same reward does not lose it"
    if loses_none is False:
        return "to the reward: its exact gradient loses it too"
    if isinstance(optimum, str):
        return f"to a cause not known: neither {TITLES[EXACT]} on the same reward nor an SFT run is here"
    if optimum.policy.class_score(ClassMetric.RECALL)[k] < LOST:
        return "to the reward, as far as the SFT model's answers tell: its optimum does not name it"
    label = optimum.policy.labels[k]
    if optimum.ruling and label not in optimum.ruling:
        return (
            f"mostly to the reward, as far as the SFT model's answers tell: its optimum answers "
            f"{optimum.ruling[0]} and leaves it {percent(optimum.policy.class_score(ClassMetric.PREDICTED_SHARE)[k])}"
        )
    return (
        "probably to the estimate from samples: the reward's optimum would keep it "
        f"({TITLES[EXACT]} on the same reward would tell)"
    )


def _exact(arm: LabelArm, arms: Sequence[LabelArm], label: str) -> tuple[bool | None, str]:
    for other in arms:
        if other.config.name != EXACT or other.config.reward != arm.config.reward:
            continue
        end = final_answers(other)
        if end is None:
            continue
        recall = float(mean_of(end, ClassMetric.RECALL)[other.first.labels.index(label)])
        if recall < LOST:
            return False, f"loses it too (recall {recall:.3f})"
        return True, f"keeps it (recall {recall:.3f})"
    return None, "missing"


def _informative(arm: LabelArm, label: str) -> Measure | None:
    rates: list[float] = []
    for member in arm.reads:
        rows = list(member.run.metrics.values())
        values = [row.get(f"train/groups/informative/{label}") for row in rows[-max(len(rows) // 10, 1) :]]
        rates += [value for value in values if value is not None]
    return Measure(sum(rates) / len(rates)) if rates else None


def _optimum(arm: LabelArm, arms: Sequence[LabelArm]) -> Optimum | str:
    """Return the optimum of an arm's reward, or the reason why it is unknown."""
    posteriors = next((found for one in arms if (found := sft_posteriors(one, arm)) is not None), None)
    if posteriors is None:
        return "missing: no SFT run on these papers"
    settings, task = dict(arm.config.reward or {}), TASKS.get(arm.config.task.name)
    name = settings.pop("name", None)
    if name not in REWARDS or task is None:
        return f"missing: the reward {name!r} is not known here"
    try:
        return reward_optimum(posteriors, lambda: make_reward(str(name), task, **settings))
    except TinsmithError as error:
        return f"missing: {error.what}"


def sft_posteriors(sft: LabelArm, arm: LabelArm) -> Posteriors | None:
    """Return P(true label | the SFT model's greedy answer), weighted by the answers' shares; None if unknown."""
    same = sft.first.labels == arm.first.labels and sft.config.data.fingerprint == arm.config.data.fingerprint
    is_known = same and sft.config.kind is Kind.SFT
    answers = (sft.answers_on(Split.TEST_GREEDY) or sft.answers_on(Split.TEST)) if is_known else None
    if answers is None:
        return None
    counts = answers.counts().sum(axis=0)[:, :-1].astype(np.float64)
    answered = counts.sum(axis=0)
    found = answered > 0
    if not found.any():
        return None
    return Posteriors.of(sft.first.labels, (counts[:, found] / answered[found]).T, answered[found])
