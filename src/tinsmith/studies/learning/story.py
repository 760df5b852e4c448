"""What may be said of a study of learning, the first thing first: gains, what beats what, what it cost."""

from __future__ import annotations

from tinsmith.lab.study.results import limits_of
from tinsmith.pages.wording import counted, listed, p_words, signed, told
from tinsmith.stats.gate.claim import Claim, ClaimKind, Verdict
from tinsmith.stats.significance import ALPHA
from tinsmith.studies.learning.keys import CONTROLS, TRAINED, WORDS, ArmName
from tinsmith.studies.learning.results import LearnedArm, LearningFound, Moved


def shown_measure(name: str) -> str:
    """Return what a measure is called."""
    return "reward" if name == "total" else name.removeprefix("metric/")


def sentences(found: LearningFound) -> tuple[str, ...]:
    """Return all that may be said."""
    return (
        _asked(found),
        *_gains(found),
        *(_ruled(claim) for claim in found.beats if _against_arm(claim)),
        *_baselines(found),
        *(_ruled(claim) for claim in found.learned),
        *_controls(found),
        *_forgotten(found),
        *_failed(found),
        *_limits(found),
    )


def _asked(found: LearningFound) -> str:
    items = counted(found.num_items, "held-out item")
    if found.num_clusters < found.num_items:
        items = f"{items}, which are {found.num_clusters:,} pairs or single items,"
    seen = next(iter(found.arms)).effort.items
    return (
        f"On {items} of the task {found.task} the model has {shown_measure(found.score)} "
        f"{told(found.untrained)} before any training; every arm then looks at {seen:,} training items, over "
        f"{counted(len(found.seeds), 'seed')}."
    )


def _gains(found: LearningFound) -> list[str]:
    told_of: list[str] = []
    for arm in found.arms:
        sampled, greedy = arm.of(found.score), arm.of(found.score, greedy=True)
        if arm.arm not in TRAINED or sampled is None:
            continue
        line = f"{arm.words} takes it to {told(sampled.after)}: {_gain(sampled)}"
        if greedy is not None:
            line += f"; answered greedily, from {greedy.before.value:.3f} to {greedy.after.value:.3f}: {_gain(greedy)}"
        told_of.append(f"{line}.")
    return told_of


def _gain(moved: Moved) -> str:
    gain = moved.gain
    if gain.low is None or gain.high is None:
        return f"{signed(gain.value)}, with no interval from one item"
    shown = f"{signed(gain.value)} ({signed(gain.low)} to {signed(gain.high)}, Holm {p_words(moved.p_holm)})"
    return shown if holds(moved) else f"{shown}, which cannot be told from none"


def holds(moved: Moved) -> bool:
    """Whether a gain's interval leaves out 0, and its corrected test refuses 0."""
    low, high = moved.gain.low, moved.gain.high
    apart = low is not None and high is not None and not low <= 0.0 <= high
    return apart and moved.p_holm <= ALPHA


def _against_arm(claim: Claim) -> bool:
    return claim.second in {WORDS[name] for name in TRAINED}


def _ruled(claim: Claim) -> str:
    """Return the gate's sentence; of a refused claim which checks refuse it, whose words stand with the claims."""
    if claim.verdict is Verdict.ALLOWED:
        return f"{claim.sentence()}."
    value = signed(claim.value)
    if claim.interval is not None:
        value = f"{value}, {signed(claim.interval.low)} to {signed(claim.interval.high)}"
    named = dict.fromkeys(check.name.value for check in claim.checks if not check.passed)
    failed = listed(list(named))
    beside = "" if claim.kind is ClaimKind.BEATS else f" beside {claim.second}"
    return f"Not claimed: {claim.words} ({value}{beside}); what refuses it: {failed}."


def _baselines(found: LearningFound) -> list[str]:
    failed = [one.name for one in found.baselines if one.score is None]
    there = [one for one in found.baselines if one.score is not None]
    lines = [f"What the baselines {listed(failed)} have is not known: they failed."] if failed else []
    if not there:
        return [*lines, *([] if failed else ["The task names no baseline without a model."])]
    allowed = {(claim.first, claim.second) for claim in found.beats if claim.verdict is Verdict.ALLOWED}
    for one in there:
        assert one.score is not None
        above = [arm.words for arm in found.arms if (arm.words, f"the baseline {one.name}") in allowed]
        shown = f"{listed(above)} beats it" if len(above) == 1 else f"{listed(above)} beat it"
        lines.append(
            f"The baseline {one.name} has {told(one.score)}: {shown if above else 'no arm is shown to beat it'}."
        )
    return lines


def _controls(found: LearningFound) -> list[str]:
    lines: list[str] = []
    for method, control in CONTROLS.items():
        arm = found.arm(control)
        moved = None if arm is None else arm.of(found.score)
        if arm is None or moved is None:
            continue
        rose = holds(moved) and moved.gain.value > 0
        what = (
            "what it rose by is learned without right answers, such as the form of an answer"
            if rose
            else "as it should be, nothing is shown to be learned"
        )
        lines.append(
            f"With each item rewarded or answered as another one, {WORDS[method]} goes to {told(moved.after)}: "
            f"{_gain(moved)}; {what}."
        )
    return lines


def _forgotten(found: LearningFound) -> list[str]:
    there = [(arm, arm.forgotten) for arm in found.arms if arm.forgotten is not None]
    if not there:
        return ["What was forgotten is not known: no general text was read."]
    told_of = [f"{arm.words} {_nats(one.change.value, one.change.low, one.change.high)}" for arm, one in there]
    return [
        f"On {counted(there[0][1].num_texts, 'general text')} that are not of the task, the mean log-probability of a "
        f"token changed, in nats: {'; '.join(told_of)}."
    ]


def _nats(value: float, low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return signed(value)
    return f"{signed(value)} ({signed(low)} to {signed(high)})"


def _failed(found: LearningFound) -> list[str]:
    failures = sum(arm.failures for arm in found.arms)
    if not failures:
        return []
    rollouts = sum(arm.rollouts for arm in found.arms)
    return [f"{failures:,} of {counted(rollouts, 'rollout')} failed; they have no reward and are in no mean."]


def _limits(found: LearningFound) -> list[str]:
    chosen = {arm.words: arm.rate for arm in found.arms}
    lines = limits_of(found, chosen)
    missing = [WORDS[name] for name in _without_control(found)]
    if missing:
        lines.append(f"Without a control on shuffled labels here: {listed(missing)}.")
    return lines


def _without_control(found: LearningFound) -> list[ArmName]:
    return [name for name, control in CONTROLS.items() if found.arm(name) is not None and found.arm(control) is None]


def rate_of(arm: LearnedArm) -> str:
    """Return the learning rates of an arm."""
    if arm.sft_rate is None:
        return f"rate {arm.rate:g}"
    return f"rates {arm.sft_rate:g} and {arm.rate:g}"
