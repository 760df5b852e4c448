"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from types import ModuleType

    from tinsmith.lab.papers.labels import Labels
    from tinsmith.lab.papers.worlds import load_slice
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
    from tinsmith.lab.user_task.dialogue import revised, revising
    from tinsmith.lab.user_task.judged import judged
    from tinsmith.lab.user_task.learned_reward import LearnedReward
    from tinsmith.lab.user_task.run import DryRun, StudyRun, TaskRun, run
    from tinsmith.lab.user_task.step_reward import Conversation, Failed, Scored, StepReward
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
    "Beats",
    "BeforeAfter",
    "Child",
    "Conversation",
    "Curve",
    "DryRun",
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
    name: f"tinsmith.{module}"
    for module, names in {
        "lab.papers.labels": "Labels",
        "lab.papers.worlds": "load_slice",
        "lab.service.connect": "connect",
        "lab.study.checks": "checks",
        "lab.study.measured": "measured",
        "lab.study.measures": "AFTER ArmRuns BEFORE Results",
        "lab.study.study": "Arm Beats BeforeAfter Curve Expectation Finding Learned Listing Measure PerItem Size "
        "Study Table baseline over_steps tuned",
        "lab.study.terms": "term_table",
        "lab.user_task.judged": "judged",
        "lab.user_task.learned_reward": "LearnedReward",
        "lab.user_task.dialogue": "revised revising",
        "lab.user_task.run": "DryRun StudyRun TaskRun run",
        "lab.user_task.step_reward": "Conversation Failed Scored StepReward",
        "lab.user_task.task": "Answered Ask Child Examples Model Probed Spawn Task Turns "
        "of_conversation of_group of_tree",
        "lab.user_task.tools": "tools_of",
        "studies.disruption.comparing": "compare cross_val_score",
        "studies.disruption.estimators": "GRPO SFT",
    }.items()
    for name in names.split()
}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> object:
    if name in _LAZY:
        module = _imported(_LAZY[name])
        return module if name in ("checks", "measured") else getattr(module, name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")


def _imported(name: str) -> ModuleType:
    """Import a module; count the seconds in a terminal, where somebody waits for the libraries that it needs."""
    if name in sys.modules or not sys.stderr.isatty():
        return import_module(name)
    from tinsmith.types.waits import STARTING, ticking

    with ticking(f"{STARTING}loading the libraries"):
        return import_module(name)
