"""The data set that needs no download: short instructions in few words, each rubric a rule.

The tasks are made from templates and stand in `builtin_tasks.jsonl` beside this module, so that they
can be read, copied and changed; a test makes them again and compares every byte. Every task has a
worked answer of at most twelve words that obeys all its rules.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Final

from tinsmith.tasks.rubrics.dataset import RubricDataset, read_text
from tinsmith.tasks.rubrics.rule_text import criterion_of
from tinsmith.tasks.rubrics.task import Rubric, RubricTask
from tinsmith.tasks.rubrics.templates import FAMILIES, LEXICON, Words
from tinsmith.types.seeds import derive

FILE: Final = "builtin_tasks.jsonl"
TASKS_PER_FAMILY: Final = 12
_SEED: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkedTask:
    """A task, and an answer that passes all its rubrics."""

    task: RubricTask
    answer: str


def builtin_dataset() -> RubricDataset:
    """Return the built-in tasks, as the file beside this module has them."""
    folder = resources.files("tinsmith.tasks.rubrics")
    return read_text(folder.joinpath(FILE).read_bytes(), FILE)


def worked_tasks() -> tuple[WorkedTask, ...]:
    """Make the built-in tasks from their templates, each with its worked answer."""
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
    """Return the tasks as the built-in file has them: one JSON object a line, in list form."""
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
