"""The data sets that need no download: instructions whose rubrics are all rules.

`builtin_tasks.jsonl` beside this module is in few words, for a model built from scratch. Its tasks are made from
templates; a test makes them again and compares every byte. Every task has a worked answer of at most twelve words that
obeys all its rules. `everyday_tasks.jsonl` is written by hand, in plain English, for a small chat model. Both can be
read, copied and changed.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from tinsmith.studies.rubrics.dataset import RubricDataset, read_text
from tinsmith.studies.rubrics.rules.rule_text import criterion_of
from tinsmith.studies.rubrics.task import Rubric, RubricTask
from tinsmith.studies.rubrics.templates import FAMILIES, LEXICON, Words
from tinsmith.types.seeds import derive

FILE: Final = "builtin_tasks.jsonl"
TASKS_PER_FAMILY: Final = 12
_SEED: Final = 0


class BuiltinTasks(enum.StrEnum):
    """The built-in data sets; the value is the file beside this module."""

    FEW_WORDS = FILE
    EVERYDAY = "everyday_tasks.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedTask:
    """A task, and an answer that passes all its rubrics."""

    task: RubricTask
    answer: str


def builtin_dataset(which: BuiltinTasks = BuiltinTasks.FEW_WORDS) -> RubricDataset:
    """Return built-in tasks, as the file beside this module has them."""
    folder = resources.files("tinsmith.studies.rubrics")
    return read_text(folder.joinpath(which.value).read_bytes(), which.value)


def worked_tasks() -> tuple[WorkedTask, ...]:
    """Make the tasks in few words from their templates, each with its worked answer."""
    made: list[WorkedTask] = []
    for family, template in FAMILIES:
        for number in range(TASKS_PER_FAMILY):
            sheet = template(_drawn(family, number), number)
            rubrics = tuple(
                Rubric(criterion=criterion_of(rule), number=place)
                for place, rule in enumerate(sheet.rules, 1)
            )
            task = RubricTask(
                task_id=f"{family}-{number + 1:02}", prompt=sheet.prompt, rubrics=rubrics
            )
            made.append(WorkedTask(task=task, answer=sheet.answer))
    return tuple(made)


def file_text(worked: Sequence[WorkedTask]) -> str:
    """Return tasks as a built-in file has them: one JSON object a line, in list form."""
    return "".join(
        json.dumps(
            {"task_id": one.task.task_id, "prompt": one.task.prompt, "rubrics": one.task.criteria}
        )
        + "\n"
        for one in worked
    )


def _drawn(family: str, number: int) -> Words:
    """Three words that differ; the first ones of a family differ from task to task."""
    order = sorted(LEXICON, key=lambda word: derive(_SEED, "builtin", family, word))
    first = order[number]
    others = sorted(
        (word for word in LEXICON if word != first),
        key=lambda word: derive(_SEED, "builtin", family, number, word),
    )
    return first, others[0], others[1]
