"""The first paragraph of a comparison: what was run, how the arms came out, what was lost, which claims hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.data.baselines.report import Baseline, TargetReport
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.judging import Judged, verdict_words
from tinsmith.lab.results.pooled import Pooled
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.results.standings import Standing, standing_words
from tinsmith.lab.runs.kinds import Kind
from tinsmith.pages.wording import counted, listed, percent, told
from tinsmith.stats.gate.claim import ClaimKind
from tinsmith.stats.monitors.alarms import Limits
from tinsmith.studies.disruption.lost_classes import LostClass

_LIMITS = Limits()


def comparison_story(
    arms: Sequence[Arm],
    tested: Mapping[str, Pooled],
    baselines: TargetReport | None,
    lost: Sequence[LostClass],
    judged: Sequence[Judged],
    stood: Sequence[Standing],
) -> tuple[str, ...]:
    """Return the sentences; arms are told in falling order of macro-F1, which is no claim."""
    sentences = (
        _what(arms, tested),
        _scores(tested, baselines),
        standing_words(stood),
        _collapse(arms, tested, lost),
        _control(arms, tested),
        *_claims(judged),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _what(arms: Sequence[Arm], tested: Mapping[str, Pooled]) -> str:
    runs = sum(len(arm.members) for arm in arms)
    kinds = [
        counted(number, f"experiment by {words}", f"experiments by {words}")
        for kind, words in ((Kind.RL, "RL"), (Kind.SFT, "SFT"))
        if (number := sum(arm.kind is kind for arm in arms))
    ]
    sizes = sorted({one.num_items for one in tested.values()})
    papers = f", each answering {counted(sizes[0], 'test paper')}" if len(sizes) == 1 else ""
    untested = [arm.name for arm in arms if arm.name not in tested]
    missing = f"; {listed(untested)} did not reach the test split" if untested else ""
    return f"{counted(runs, 'run')} are compared: {listed(kinds)}{papers}{missing}."


def _scores(tested: Mapping[str, Pooled], baselines: TargetReport | None) -> str:
    scored = {name: one.measures["macro_f1"] for name, one in tested.items() if "macro_f1" in one.measures}
    if not scored:
        return "None of them has answers to the test split, so nothing is compared."
    order = sorted(scored, key=lambda name: -scored[name].value)
    figures = listed([f"{name} {told(scored[name])}" for name in order])
    beside = [
        f"{BASELINE_WORDS[score.baseline][0]} {score.macro_f1.value:.3f}"
        for score in (baselines.scores if baselines else ())
        if score.baseline not in (Baseline.PRIOR, Baseline.ORACLE)
    ]
    return f"Their macro-F1, sampled: {figures}" + (
        f"; the baselines have {listed(beside)}." if beside else "; the baselines are missing."
    )


def _collapse(arms: Sequence[Arm], tested: Mapping[str, Pooled], lost: Sequence[LostClass]) -> str:
    """Say which arms collapsed, and what their classes were lost to."""
    parts: list[str] = []
    for arm in arms:
        ruling, gone = _ruling(arm, tested.get(arm.name)), _gone(arm, lost)
        if ruling and gone:
            parts.append(f"{arm.name} answers {ruling} and lost {gone}")
        elif ruling or gone:
            parts.append(f"{arm.name} {f'answers {ruling}' if ruling else f'lost {gone}'}")
    if not parts:
        return "No arm lost a class." if tested else ""
    return f"Collapse: {'; '.join(parts)}."


def _ruling(arm: Arm, found: Pooled | None) -> str:
    """Say which class has most of an arm's answers, if one has."""
    shares = {
        label: measure.value
        for label in (arm.labels if found else ())
        if found and (measure := found.measures.get(f"predicted_share/{label}"))
    }
    top = max(shares, key=shares.__getitem__, default=None)
    if top is None or shares[top] <= _LIMITS.max_share:
        return ""
    return f"{top} to {percent(shares[top])} of the papers"


def _gone(arm: Arm, lost: Sequence[LostClass]) -> str:
    """Say which classes an arm lost, and to what."""
    by_reason: dict[str, list[str]] = {}
    for one in lost:
        if one.arm == arm.name:
            by_reason.setdefault(one.conclusion, []).append(f"{one.label} (recall {one.recall:.3f})")
    return ", and ".join(f"{listed(labels)} {reason}" for reason, labels in by_reason.items())


def _control(arms: Sequence[Arm], tested: Mapping[str, Pooled]) -> str:
    controls = [arm for arm in arms if arm.shuffled and arm.name in tested]
    if not controls:
        return "No run was trained on shuffled labels, and without that control no claim of something learned holds."
    return " ".join(filter(None, (_shuffled(one, tested[one.name]) for one in controls)))


def _shuffled(control: Arm, found: Pooled) -> str:
    accuracy = found.measures.get("balanced_accuracy")
    if accuracy is None:
        return ""
    chance = 1 / len(control.labels)
    learnt = accuracy.low is not None and accuracy.low > chance
    words = "is above chance, so that something is wrong" if learnt else "is not above chance"
    return f"Trained on shuffled labels ({control.name}), balanced accuracy is {told(accuracy)}, which {words}."


def _claims(judged: Sequence[Judged]) -> tuple[str, ...]:
    if any(one.kind is ClaimKind.BEATS for one in judged):
        return verdict_words(judged)
    return (
        "No claim that one beats another is judged: that takes an RL run and its parent or an SFT run, or a run on "
        "both labels and an RL run on one.",
        *verdict_words(judged),
    )
