"""Whether a class was lost, and to what: to the reward, whose optimum never names it, or to its estimate from samples.

Two witnesses. The control on the exact gradient trains with the same reward and no sampling: a class that it keeps
was lost by the estimate. The incentive analyser computes the reward's optimum on what an SFT model's greedy answers
tell about a paper: P(true label | its answer), one kind of paper an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tinsmith.lab.labels.rewards import REWARDS, make_reward, reward_optimum
from tinsmith.lab.labels.task import TASKS
from tinsmith.lab.results.arms import EXACT, Arm
from tinsmith.lab.results.label_tables import Row, listing
from tinsmith.lab.results.systems import last_is_selected
from tinsmith.lab.runs.files import Kind
from tinsmith.lab.runs.records import Split
from tinsmith.lab.study.study import Listing
from tinsmith.pages.measures import Measure, percent
from tinsmith.stats.estimates import Runs
from tinsmith.stats.incentives.policies import Optimum
from tinsmith.stats.incentives.posteriors import Posteriors
from tinsmith.stats.monitors.alarms import Limits
from tinsmith.stats.rates import CLASS_SCORES, ClassMetric, FloatArray
from tinsmith.types.errors import TinsmithError

LOST = Limits().min_recall  # A class with a smaller recall is lost: the collapse monitor's limit.
_CAPTION: Final = (
    "Classes whose recall is below the collapse monitor's limit at the end of training. Optimum: what the reward makes "
    "optimal on the greedy answers of the SFT run. Exact gradient: the control that trains on it, with the same reward."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LostClass:
    """A class that an arm hardly ever recognises at the end of training: figures of the last checkpoint, sampled."""

    arm: str
    label: str
    recall: float
    share: float  # Of all answers.
    informative: float | None  # Share of its groups that carried a gradient, mean over the last tenth of the steps.
    optimum: str
    exact: str  # The verdict of the two witnesses.
    conclusion: str


def lost_classes(arms: Sequence[Arm]) -> tuple[LostClass, ...]:
    """Return every lost class of every RL arm, the control on the exact gradient itself left out."""
    found: list[LostClass] = []
    for arm in (one for one in arms if one.kind is Kind.RL and one.experiment != EXACT):
        end = final_answers(arm)
        if end is None:
            continue
        recalls, shares = (mean_of(end, ClassMetric.RECALL), mean_of(end, ClassMetric.PREDICTED_SHARE))
        lost = [k for k in range(len(arm.labels)) if recalls[k] < LOST]
        optimum = _optimum(arm, arms) if lost else ""
        for k in lost:
            kept, exact = _exact(arm, arms, arm.labels[k])
            given = 0.0 if isinstance(optimum, str) else optimum.policy.class_score(ClassMetric.PREDICTED_SHARE)[k]
            found.append(
                LostClass(
                    arm=arm.name,
                    label=arm.labels[k],
                    recall=float(recalls[k]),
                    share=float(shares[k]),
                    informative=_informative(arm, arm.labels[k]),
                    optimum=optimum if isinstance(optimum, str) else f"gives it {percent(given)} of the answers",
                    exact=exact,
                    conclusion=_conclude(kept, optimum, k),
                )
            )
    return tuple(found)


def lost_table(lost: Sequence[LostClass]) -> list[Listing]:
    """Return the table of lost classes with what the two witnesses say; none where none was lost."""
    heads = (
        "Class",
        "recall",
        "share",
        "informative groups",
        "Optimum of the reward",
        "Exact gradient",
        "So it was lost",
    )
    rows: list[Row] = []
    for one in lost:
        shares = (one.recall, one.share, one.informative)
        figures = (None if share is None else Measure(share) for share in shares)
        rows.append([one.arm, one.label, *figures, one.optimum, one.exact, one.conclusion])
    return listing("Lost classes", _CAPTION, heads, rows, "Arm")


def final_answers(arm: Arm) -> Runs | None:
    """Return an arm's sampled answers at the end: of its last checkpoint, or of its last validation."""
    for split in (Split.TEST_LAST, Split.TEST, Split.EVAL):
        if split is Split.TEST and not last_is_selected(arm):
            continue
        found = arm.answers(split)
        if found is not None:
            return found
    return None


def mean_of(runs: Runs, metric: ClassMetric) -> FloatArray:
    """Return a score of every class, (K,), mean over seeds."""
    return CLASS_SCORES[metric](runs.counts().astype(np.float64)).mean(axis=0)


def _conclude(kept: bool | None, optimum: Optimum | str, k: int) -> str:
    """Return what the two witnesses say together; the control decides where there is one."""
    if kept is True:
        return "to the estimate from samples: the exact gradient of the same reward does not lose it"
    if kept is False:
        return "to the reward: its exact gradient loses it too"
    if isinstance(optimum, str):
        return f"to a cause not known: neither {EXACT} on the same reward nor an SFT run is here"
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
        f"({EXACT} on the same reward would tell)"
    )


def _exact(arm: Arm, arms: Sequence[Arm], label: str) -> tuple[bool | None, str]:
    for other in arms:
        if other.experiment != EXACT or other.first.config.reward != arm.first.config.reward:
            continue
        end = final_answers(other)
        if end is None:
            continue
        recall = float(mean_of(end, ClassMetric.RECALL)[other.labels.index(label)])
        if recall < LOST:
            return False, f"loses it too (recall {recall:.3f})"
        return True, f"keeps it (recall {recall:.3f})"
    return None, "missing"


def _informative(arm: Arm, label: str) -> float | None:
    rates: list[float] = []
    for member in arm.members:
        rows = list(member.run.metrics.values())
        tail = rows[-max(len(rows) // 10, 1) :]
        values = [row.get(f"train/groups/informative/{label}") for row in tail]
        rates += [value for value in values if value is not None]
    return sum(rates) / len(rates) if rates else None


def _optimum(arm: Arm, arms: Sequence[Arm]) -> Optimum | str:
    """Return what the arm's reward makes optimal, or why that is not known."""
    posteriors = next((found for one in arms if (found := sft_posteriors(one, arm)) is not None), None)
    if posteriors is None:
        return "missing: no SFT run on these papers"
    settings, task = dict(arm.first.config.reward or {}), TASKS.get(arm.first.config.task.name)
    name = settings.pop("name", None)
    if name not in REWARDS or task is None:
        return f"missing: the reward {name!r} is not known here"
    try:
        return reward_optimum(posteriors, lambda: make_reward(str(name), task, **settings))
    except TinsmithError as error:
        return f"missing: {error.what}"


def sft_posteriors(sft: Arm, arm: Arm) -> Posteriors | None:
    """Return P(true label | the SFT model's greedy answer), weighted by how often it gives each; None if unknown."""
    same = sft.labels == arm.labels and sft.first.config.data.fingerprint == arm.first.config.data.fingerprint
    answers = (sft.answers(Split.TEST_GREEDY) or sft.answers(Split.TEST)) if same and sft.kind is Kind.SFT else None
    if answers is None:
        return None
    counts = answers.counts().sum(axis=0)[:, :-1].astype(np.float64)
    said = counts.sum(axis=0)
    heard = said > 0
    if not heard.any():
        return None
    return Posteriors.of(sft.labels, (counts[:, heard] / said[heard]).T, said[heard])
