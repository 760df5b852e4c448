"""Post-training that can be run again: the Tinker training API on your own machine, bit for bit."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tinsmith.types.version import VERSION

if TYPE_CHECKING:
    from tinsmith.lab.papers.sets import load_slice
    from tinsmith.lab.service.connect import connect
    from tinsmith.lab.user_task.run import TaskRun, run
    from tinsmith.lab.user_task.task import Answered, Probed, Task, of_conversation, of_group
    from tinsmith.studies.disruption.comparing import compare
    from tinsmith.studies.disruption.estimators import GRPO, SFT

__version__ = VERSION
__all__ = [
    "GRPO",
    "SFT",
    "Answered",
    "Probed",
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
    "Answered": "tinsmith.lab.user_task.task",
    "GRPO": "tinsmith.studies.disruption.estimators",
    "Probed": "tinsmith.lab.user_task.task",
    "SFT": "tinsmith.studies.disruption.estimators",
    "Task": "tinsmith.lab.user_task.task",
    "TaskRun": "tinsmith.lab.user_task.run",
    "compare": "tinsmith.studies.disruption.comparing",
    "connect": "tinsmith.lab.service.connect",
    "load_slice": "tinsmith.lab.papers.sets",
    "of_conversation": "tinsmith.lab.user_task.task",
    "of_group": "tinsmith.lab.user_task.task",
    "run": "tinsmith.lab.user_task.run",
}
"""Public names and where they are: imported when first used, so that `import tinsmith` costs nothing."""


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'tinsmith' has no attribute {name!r}")
