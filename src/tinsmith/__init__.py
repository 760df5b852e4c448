"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tinsmith.lab.papers.labels import Labels
    from tinsmith.lab.papers.sets import load_slice
    from tinsmith.lab.service.connect import connect
    from tinsmith.lab.study import checks, measured
    from tinsmith.lab.study.measures import AFTER, BEFORE, ArmRuns, Results
    from tinsmith.lab.study.study import (
        Arm,
        Beats,
        BeforeAfter,
        Curve,
        Expectation,
        Finding,
        Learned,
        Listing,
        Measure,
        PerItem,
        Size,
        Study,
        Table,
        baseline,
        over_steps,
        tuned,
    )
    from tinsmith.lab.study.terms import term_table
    from tinsmith.lab.user_task.judged import judged
    from tinsmith.lab.user_task.learned_reward import LearnedReward
    from tinsmith.lab.user_task.loops import revised, revising
    from tinsmith.lab.user_task.run import StudyRun, TaskRun, run
    from tinsmith.lab.user_task.step_reward import Asked, Failed, Scored, StepReward
    from tinsmith.lab.user_task.task import (
        Answered,
        Ask,
        Child,
        Examples,
        Model,
        Probed,
        Spawn,
        Task,
        Turns,
        of_conversation,
        of_group,
        of_tree,
    )
    from tinsmith.lab.user_task.tools import tools_of
    from tinsmith.studies.disruption.comparing import compare, cross_val_score
    from tinsmith.studies.disruption.estimators import GRPO, SFT

__version__ = VERSION
__all__ = [
    "AFTER",
    "BEFORE",
    "GRPO",
    "SFT",
    "Answered",
    "Arm",
    "ArmRuns",
    "Ask",
    "Asked",
    "Beats",
    "BeforeAfter",
    "Child",
    "Curve",
    "Examples",
    "Expectation",
    "Failed",
    "Finding",
    "Labels",
    "Learned",
    "LearnedReward",
    "Listing",
    "Measure",
    "Model",
    "PerItem",
    "Probed",
    "Results",
    "Scored",
    "Size",
    "Spawn",
    "StepReward",
    "Study",
    "StudyRun",
    "Table",
    "Task",
    "TaskRun",
    "Turns",
    "__version__",
    "baseline",
    "checks",
    "compare",
    "connect",
    "cross_val_score",
    "judged",
    "load_slice",
    "measured",
    "of_conversation",
    "of_group",
    "of_tree",
    "over_steps",
    "revised",
    "revising",
    "run",
    "term_table",
    "tools_of",
    "tuned",
]

_LAZY = {
    "AFTER": "tinsmith.lab.study.measures",
    "Answered": "tinsmith.lab.user_task.task",
    "Arm": "tinsmith.lab.study.study",
    "ArmRuns": "tinsmith.lab.study.measures",
    "BEFORE": "tinsmith.lab.study.measures",
    "Beats": "tinsmith.lab.study.study",
    "BeforeAfter": "tinsmith.lab.study.study",
    "Curve": "tinsmith.lab.study.study",
    "Ask": "tinsmith.lab.user_task.task",
    "Model": "tinsmith.lab.user_task.task",
    "Turns": "tinsmith.lab.user_task.task",
    "Child": "tinsmith.lab.user_task.task",
    "Spawn": "tinsmith.lab.user_task.task",
    "of_tree": "tinsmith.lab.user_task.task",
    "Asked": "tinsmith.lab.user_task.step_reward",
    "Failed": "tinsmith.lab.user_task.step_reward",
    "Scored": "tinsmith.lab.user_task.step_reward",
    "StepReward": "tinsmith.lab.user_task.step_reward",
    "judged": "tinsmith.lab.user_task.judged",
    "Examples": "tinsmith.lab.user_task.task",
    "Expectation": "tinsmith.lab.study.study",
    "Finding": "tinsmith.lab.study.study",
    "GRPO": "tinsmith.studies.disruption.estimators",
    "Labels": "tinsmith.lab.papers.labels",
    "Learned": "tinsmith.lab.study.study",
    "LearnedReward": "tinsmith.lab.user_task.learned_reward",
    "Listing": "tinsmith.lab.study.study",
    "Measure": "tinsmith.lab.study.study",
    "PerItem": "tinsmith.lab.study.study",
    "Probed": "tinsmith.lab.user_task.task",
    "Results": "tinsmith.lab.study.measures",
    "SFT": "tinsmith.studies.disruption.estimators",
    "Size": "tinsmith.lab.study.study",
    "Study": "tinsmith.lab.study.study",
    "StudyRun": "tinsmith.lab.user_task.run",
    "Table": "tinsmith.lab.study.study",
    "Task": "tinsmith.lab.user_task.task",
    "TaskRun": "tinsmith.lab.user_task.run",
    "checks": "tinsmith.lab.study.checks",
    "compare": "tinsmith.studies.disruption.comparing",
    "connect": "tinsmith.lab.service.connect",
    "cross_val_score": "tinsmith.studies.disruption.comparing",
    "load_slice": "tinsmith.lab.papers.sets",
    "measured": "tinsmith.lab.study.measured",
    "of_conversation": "tinsmith.lab.user_task.task",
    "of_group": "tinsmith.lab.user_task.task",
    "over_steps": "tinsmith.lab.study.study",
    "revised": "tinsmith.lab.user_task.loops",
    "revising": "tinsmith.lab.user_task.loops",
    "run": "tinsmith.lab.user_task.run",
    "tools_of": "tinsmith.lab.user_task.tools",
    "baseline": "tinsmith.lab.study.study",
    "term_table": "tinsmith.lab.study.terms",
    "tuned": "tinsmith.lab.study.study",
}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        module = import_module(_LAZY[name])
        return module if name in ("checks", "measured") else getattr(module, name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")
