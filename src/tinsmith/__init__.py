"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tinsmith.experiments.comparing import compare
    from tinsmith.experiments.estimators import GRPO, SFT
    from tinsmith.experiments.paper_sets import load_slice
    from tinsmith.experiments.task_run import TaskRun, run
    from tinsmith.tasks.user_task.task import Answered, Task, of_conversation, of_group
    from tinsmith.training.connect import connect

__version__ = VERSION
__all__ = [
    "GRPO",
    "SFT",
    "Answered",
    "Task",
    "TaskRun",
    "__version__",
    "compare",
    "connect",
    "load_slice",
    "of_conversation",
    "of_group",
    "run",
]

_LAZY = {
    "Answered": "tinsmith.tasks.user_task.task",
    "GRPO": "tinsmith.experiments.estimators",
    "SFT": "tinsmith.experiments.estimators",
    "Task": "tinsmith.tasks.user_task.task",
    "TaskRun": "tinsmith.experiments.task_run",
    "compare": "tinsmith.experiments.comparing",
    "connect": "tinsmith.training.connect",
    "load_slice": "tinsmith.experiments.paper_sets",
    "of_conversation": "tinsmith.tasks.user_task.task",
    "of_group": "tinsmith.tasks.user_task.task",
    "run": "tinsmith.experiments.task_run",
}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")
