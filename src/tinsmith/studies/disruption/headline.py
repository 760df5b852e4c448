"""What a comparison says first, in a few plain sentences: who collapsed, who kept every answer, who scores highest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinsmith.data.baselines.report import TargetReport
from tinsmith.lab.results.arms import Arm
from tinsmith.lab.results.pooled import Pooled
from tinsmith.lab.results.snapshot import BASELINE_WORDS
from tinsmith.lab.results.standings import AGAINST, Standing
from tinsmith.lab.runs.kinds import Kind
from tinsmith.pages.wording import listed, percent
from tinsmith.studies.disruption.lost_classes import LostClass


def headline(
    arms: Sequence[Arm],
    tested: Mapping[str, Pooled],
    baselines: TargetReport | None,
    lost: Sequence[LostClass],
    stood: Sequence[Standing],
) -> tuple[str, ...]:
    """Return what happened; the statistics behind it stand elsewhere. Arms without answers are left out."""
    shown = [arm for arm in arms if arm.name in tested and not arm.shuffled]
    sentences = (
        *(_collapsed(arm, lost) for arm in shown if arm.kind is Kind.RL),
        _kept(shown, tested, lost),
        _highest(shown, tested),
        _beside_baselines(baselines, stood),
    )
    return tuple(sentence for sentence in sentences if sentence)


def _collapsed(arm: Arm, lost: Sequence[LostClass]) -> str:
    gone = {one.label for one in lost if one.arm == arm.name}
    if not gone:
        return ""
    ends = _shares(arm)
    most = max(ends, key=ends.__getitem__, default=None)
    answers = "" if most is None else f": at the end {percent(ends[most])} of its answers are {most}"
    return f"{arm.name} collapsed{answers}, and it hardly ever recognises {listed(sorted(gone))}."


def _shares(arm: Arm) -> dict[str, float]:
    """Return the share of each label at the last evaluation that every seed has, the mean over seeds."""
    runs = [member.run for member in arm.members]
    keys = {label: f"eval/predicted_share/{label}" for label in arm.labels}
    steps = [
        {step for step, row in run.metrics.items() if all(row.get(k) is not None for k in keys.values())}
        for run in runs
    ]
    shared = set.intersection(*steps)
    if not shared:
        return {}
    last = max(shared)
    return {label: sum(run.metrics[last][key] or 0.0 for run in runs) / len(runs) for label, key in keys.items()}


def _kept(shown: Sequence[Arm], tested: Mapping[str, Pooled], lost: Sequence[LostClass]) -> str:
    broken = {one.arm for one in lost}
    smallest = {
        arm.name: recall.value
        for arm in shown
        if arm.kind is Kind.RL
        and arm.name not in broken
        and (recall := tested[arm.name].measures.get("min_class_recall")) is not None
    }
    if not smallest:
        return ""
    parts = listed([f"{recall:.2f} in {name}" for name, recall in smallest.items()])
    return f"Where no class was lost, the smallest recall on the test papers is {parts}."


def _highest(shown: Sequence[Arm], tested: Mapping[str, Pooled]) -> str:
    scored = {
        arm.name: measure.value for arm in shown if (measure := tested[arm.name].measures.get("macro_f1")) is not None
    }
    if not scored:
        return "No run has answers to the test split, so nothing is compared."
    order = sorted(scored, key=lambda name: (-scored[name], name))
    others = listed([f"{name} {scored[name]:.3f}" for name in order[1:]])
    beside = f"; {others}" if others else ""
    return f"The highest macro-F1 on the test papers is {scored[order[0]]:.3f}, of {order[0]}{beside}."


def _beside_baselines(baselines: TargetReport | None, stood: Sequence[Standing]) -> str:
    """Say which simple baseline nothing here is above, the interval of the difference counted."""
    if baselines is None or not stood:
        return ""
    names = [BASELINE_WORDS[one][0] for one in AGAINST]
    above = {one.baseline for one in stood if one.difference.interval is not None and one.difference.interval.low > 0.0}
    figures = {BASELINE_WORDS[score.baseline][0]: score.macro_f1.value for score in baselines.scores}
    unbeaten = [name for name in names if name in figures and name not in above]
    if not unbeaten:
        return "Every simple baseline lies below at least one of them."
    told = listed([f"{name} ({figures[name]:.3f})" for name in unbeaten])
    return f"No run is above {told}, so reading the texts has not been shown to teach anything that these do not know."
